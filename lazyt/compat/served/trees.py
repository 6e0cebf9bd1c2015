"""``torch.utils._pytree``: the names of nodes, keys and shapes of trees that packages use."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from lazyt.handle.pytree import TreeSpec, children_of

__all__ = [
    "BUILTIN_TYPES", "SUPPORTED_NODES", "Context", "FlattenFunc", "GetAttrKey", "KeyEntry",
    "KeyPath", "LeafSpec", "MappingKey", "NodeDef", "PyTree", "SequenceKey", "UnflattenFunc",
    "keystr", "register_pytree_node", "tree_flatten_with_path", "tree_is_leaf",
    "tree_map_with_path", "treespec_dumps", "treespec_loads", "treespec_pprint",
]  # fmt: skip

Context = Any
PyTree = Any
FlattenFunc = Callable[[PyTree], tuple[list[Any], Any]]
UnflattenFunc = Callable[[Any, Any], PyTree]
BUILTIN_TYPES = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})


@dataclass(frozen=True)
class SequenceKey:
    """Where a part is in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The part."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """Where a part is in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The part."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """Where a part is in an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The part."""
        return getattr(obj, self.name)


KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]


def keystr(kp: KeyPath) -> str:
    """A path as it would be written behind the tree.

    Example:
        >>> keystr((MappingKey("a"), SequenceKey(0)))
        "['a'][0]"
    """
    return "".join(map(str, kp))


class _LeafShapes(type):
    """The class of ``LeafSpec``: shapes of leaves are objects of TreeSpec without a type."""

    def __call__(cls) -> TreeSpec:
        return TreeSpec(None, None, [])

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TreeSpec) and instance.type is None


class LeafSpec(metaclass=_LeafShapes):
    """The shape of a leaf."""


class NodeDef(NamedTuple):
    """How trees of a class are taken apart and put together.

    Attributes:
        type: the class.
        flatten_fn, unflatten_fn: the two functions.
    """

    type: type
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc


def is_structseq_instance(obj: Any) -> bool:
    """Whether a value is a tuple with names of the interpreter's own, such as ``time.gmtime()``."""
    kind = type(obj)
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    bases = kind.__bases__ == (tuple,)
    return bases and all(isinstance(getattr(kind, name, None), int) for name in counts)


def _list_flatten_with_keys(d: Any) -> tuple[list[tuple[SequenceKey, Any]], None]:
    return [(SequenceKey(index), part) for index, part in enumerate(d)], None


_tuple_flatten_with_keys = _list_flatten_with_keys


def _list_flatten(d: list[Any]) -> tuple[list[Any], None]:
    """The parts of a list."""
    return d, None


def _list_unflatten(values: Any, context: Any) -> list[Any]:
    """A list of parts."""
    return list(values)


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], None]:
    """The parts of a tuple."""
    return list(d), None


def _tuple_unflatten(values: Any, context: Any) -> tuple[Any, ...]:
    """A tuple of parts."""
    return tuple(values)


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """The values of a dict, and its keys."""
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    """The values of a dict with where they are, and its keys."""
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Any, context: list[Any]) -> dict[Any, Any]:
    """A dict of values and keys."""
    return dict(zip(context, values))


def _node_of(kind: type) -> NodeDef:
    def unflatten(values: Any, context: Any) -> Any:
        leaf = TreeSpec(None, None, [])
        items = list(values)
        return TreeSpec(kind, context, [leaf for _ in items]).build(iter(items))

    return NodeDef(kind, children_of, unflatten)  # type: ignore[arg-type]


_KNOWN: dict[Any, NodeDef] = {
    list: NodeDef(list, _list_flatten, _list_unflatten),
    tuple: NodeDef(tuple, _tuple_flatten, _tuple_unflatten),
    dict: NodeDef(dict, _dict_flatten, _dict_unflatten),
}


class _Nodes(Mapping[type, NodeDef]):
    """The classes whose objects are trees, those that programs register included."""

    def _kinds(self) -> list[type]:
        registered = import_module("lazyt.handle.pytree")._registered
        return [*_KNOWN, OrderedDict, defaultdict, deque, namedtuple, *registered]

    def __getitem__(self, kind: type) -> NodeDef:
        if kind not in self._kinds():
            raise KeyError(kind)
        return _KNOWN.get(kind) or _node_of(kind)

    def __iter__(self) -> Iterator[type]:
        return iter(self._kinds())

    def __len__(self) -> int:
        return len(self._kinds())


SUPPORTED_NODES: Mapping[type, NodeDef] = _Nodes()


def _get_node_type(tree: Any) -> Any:
    """The class that a value is a tree of: ``namedtuple`` for those of named tuples."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return namedtuple
    return type(tree)


def tree_is_leaf(tree: Any, is_leaf: Any = None) -> bool:
    """Whether a value has no parts, or ``is_leaf`` says that it is one."""
    return bool(import_module("lazyt.utils._pytree").tree_is_leaf(tree, is_leaf))


def register_pytree_node(
    cls: type, flatten_fn: Any, unflatten_fn: Any, *args: Any, **names: Any
) -> None:
    """Make values of a class trees; names for serialized shapes are not used. Raises ValueError
    where they are trees already."""
    import_module("lazyt.utils._pytree").register_pytree_node(cls, flatten_fn, unflatten_fn)


def _keys(tree: Any, count: int) -> list[Any]:
    if isinstance(tree, dict):
        return [MappingKey(key) for key in tree]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return [GetAttrKey(name) for name in tree._fields]
    return [SequenceKey(place) for place in range(count)]


def _paths(tree: Any, path: KeyPath, is_leaf: Any) -> Iterator[tuple[KeyPath, Any]]:
    node = None if is_leaf is not None and is_leaf(tree) else children_of(tree)
    if node is None:
        yield path, tree
        return
    parts = list(node[0])
    for key, part in zip(_keys(tree, len(parts)), parts):
        yield from _paths(part, (*path, key), is_leaf)


def tree_flatten_with_path(
    tree: Any, is_leaf: Any = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves of a tree with their paths, and its shape."""
    shape: TreeSpec = import_module("lazyt.utils._pytree").tree_structure(tree, is_leaf)
    return list(_paths(tree, (), is_leaf)), shape


def tree_map_with_path(func: Any, tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """A tree of what ``func`` makes of the path and the leaf of each place, and of the leaves of
    further trees of the same shape."""
    pytree = import_module("lazyt.utils._pytree")
    found, shape = tree_flatten_with_path(tree, is_leaf)
    others = [pytree.tree_leaves(rest, is_leaf) for rest in rests]
    made = [func(path, leaf, *more) for (path, leaf), *more in zip(found, *others)]
    return pytree.tree_unflatten(made, shape)


# Shapes as text, of PyTorch's form.


class _Star:
    """Prints as a leaf of a shape."""

    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The shape as Python would show a tree with stars as leaves.

    Example:
        >>> from lazyt.utils._pytree import tree_structure
        >>> treespec_pprint(tree_structure({"a": [1, 2]}))
        "{'a': [*, *]}"
    """
    return repr(treespec.build(iter([_Star() for _ in range(treespec.num_leaves)])))


_PROTOCOL = 1
_SERIALIZED: dict[str, type] = {
    f"{kind.__module__}.{kind.__name__}": kind
    for kind in (list, tuple, dict, OrderedDict, defaultdict, deque)
}


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The shape as JSON, which ``treespec_loads`` reads.

    Args:
        treespec: a shape of lists, tuples, dicts, their standard subclasses and deques.
        protocol: 1, the only one.

    Raises TypeError for what is no shape, ValueError for another protocol, NotImplementedError for
    containers of other classes.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return json.dumps((_PROTOCOL, _to_json(treespec)))


def treespec_loads(serialized: str) -> TreeSpec:
    """The shape that ``treespec_dumps`` wrote; raises ValueError for another protocol."""
    protocol, held = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return _from_json(held)


def _to_json(spec: TreeSpec) -> dict[str, Any]:
    kind, context = spec.type, spec.context
    if kind is None:
        return {"type": None, "context": None, "children_spec": []}
    name = f"{kind.__module__}.{kind.__name__}"
    if _SERIALIZED.get(name) is not kind:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of class {kind} because we didn't register a "
            "serialized_type_name."
        )
    written: Any = "null"
    if kind is defaultdict:
        factory, keys = context
        written = {
            "default_factory_module": factory.__module__,
            "default_factory_name": factory.__qualname__,
            "dict_context": keys,
        }
    elif kind not in (list, tuple):
        written = json.dumps(context)
    children = [_to_json(part) for part in spec.children()]
    return {"type": name, "context": written, "children_spec": children}


def _from_json(held: Mapping[str, Any]) -> TreeSpec:
    if held["type"] is None:
        return TreeSpec(None, None, [])
    kind = _SERIALIZED.get(held["type"])
    if kind is None:
        raise NotImplementedError(f"no class of trees is called {held['type']!r}")
    parts = [_from_json(part) for part in held["children_spec"]]
    context = held["context"]
    if isinstance(context, str):
        context = json.loads(context)
    if kind is defaultdict:
        module = import_module(context["default_factory_module"])
        factory = getattr(module, context["default_factory_name"])
        context = [factory, context["dict_context"]]
    empty: Any = kind([]) if kind in (list, tuple) else kind()
    plain = children_of(empty)
    if kind in (list, tuple) and plain is not None:
        context = plain[1]
    return TreeSpec(kind, context, parts)
