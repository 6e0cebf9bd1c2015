"""Trees of lists, tuples, dicts and registered classes, under PyTorch's names; None is a leaf."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.handle.pytree import Maker, Taker, TreeSpec, children_of, register
from lazyt.handle.pytree import flatten as _flatten

PyTree = Any
IsLeaf = Callable[[Any], bool] | None
_DICTS = (dict, OrderedDict, defaultdict)


def register_pytree_node(cls: type, flatten_fn: Taker, unflatten_fn: Maker, **names: Any) -> None:
    """Make values of a class trees: ``flatten_fn`` gives the parts of one and a context, which
    ``unflatten_fn`` takes. Names for serialized shapes are not used. Raises ValueError where
    they are trees already."""
    register(cls, flatten_fn, unflatten_fn)


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:  # fmt: skip
    """Make values of a dataclass trees, of their fields.

    Args:
        cls: the class; for others ``field_names`` says which arguments it takes.
        field_names: of the parts; all fields that the constructor takes by default.
        drop_field_names: of fields that are left out; those of new values have their defaults.
        serialized_type_name: not used.

    Raises ValueError for fields that are not those of the class, and where its values are trees
    already.
    """
    dropped = list(drop_field_names or ())
    if dataclasses.is_dataclass(cls):
        known = [field.name for field in dataclasses.fields(cls) if field.init]
        names = [n for n in known if n not in dropped] if field_names is None else field_names
        _check_fields(set(known), set(names), set(dropped))
    elif field_names is None:
        raise ValueError(
            "field_names must be specified with a list of all fields used to initialize "
            f"{cls}, as it is not a dataclass."
        )
    else:
        names = field_names

    def parts(value: Any) -> tuple[list[Any], Any]:
        found = {name: getattr(value, name, None) for name in names}
        given = [name for name in names if found[name] is not None]
        return [found[name] for name in given], [given, [n for n in names if n not in given]]

    def made(items: list[Any], context: Any) -> Any:
        return cls(**dict(zip(context[0], items)), **dict.fromkeys(context[1]))

    register(cls, parts, made)


def _check_fields(known: set[str], names: set[str], dropped: set[str]) -> None:
    """Raises ValueError, in PyTorch's words, where names are not those of all fields."""
    missing, unexpected = known - names - dropped, names - known
    if missing or unexpected:
        text = "field_names does not include all dataclass fields.\n"
        if missing:
            text += (
                f"Missing fields in `field_names`: {missing}. If you want to include these fields "
                "in the pytree, please add them to `field_names`, otherwise please add them to "
                "`drop_field_names`.\n"
            )
        if unexpected:
            text += (
                f"Unexpected fields in `field_names`: {unexpected}. Please remove these fields, or "
                "add them to `drop_field_names`.\n"
            )
        raise ValueError(text)


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a value is a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or children_of(tree) is None


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, in order, and the shape."""
    return _flatten(tree, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The value of a shape with these leaves. Raises TypeError for what is no shape, ValueError
    where the number of leaves is another."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but "
            f"got item of type {type(treespec)}."
        )
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(given)} but the spec "
            f"refers to a pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    return treespec.build(iter(given))


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves one by one."""
    yield from _flatten(tree, is_leaf)[0]


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves, in order."""
    return _flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The shape."""
    return _flatten(tree, is_leaf)[1]


def _upper_parts(tree: PyTree, shape: TreeSpec) -> list[Any]:
    """What stands in ``tree`` where ``shape`` has leaves; raises ValueError where shapes differ.

    Dicts of all kinds stand for each other.
    """
    if shape.type is None:
        return [tree]
    node, keys = children_of(tree), shape.keys
    same = shape.type in _DICTS and type(tree) in _DICTS
    if node is None or not (same or type(tree) is shape.type):
        raise ValueError(f"Node type mismatch; expected {shape.type}, but got {type(tree)}.")
    items, context = list(node[0]), node[1]
    if len(items) != shape.num_children:
        raise ValueError(
            f"Node arity mismatch; expected {shape.num_children}, but got {len(items)}."
        )
    if same and keys is not None:
        if set(tree) != set(keys):
            raise ValueError(f"Node keys mismatch; expected {keys}, but got {list(tree)}.")
        items = [tree[key] for key in keys]
    elif context != shape.context and shape.type is not deque:
        raise ValueError(f"Node context mismatch; expected {shape.context}, but got {context}.")
    parts = zip(items, shape.children())
    return [leaf for item, part in parts for leaf in _upper_parts(item, part)]


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """The tree with ``func`` of each leaf, and of what stands there in the other trees. Raises
    ValueError where those have another shape."""
    leaves, shape = _flatten(tree, is_leaf)
    others = [_upper_parts(rest, shape) for rest in rests]
    return shape.build(iter([func(*items) for items in zip(leaves, *others)]))


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """``func`` of each leaf for its effect; returns the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(kinds: Any) -> Callable[[Any], bool]:
    """Whether a leaf is of the given class or classes, or one that a predicate accepts."""
    if isinstance(kinds, (type, tuple)) or hasattr(kinds, "__or__"):
        return lambda leaf: isinstance(leaf, kinds)
    accepts: Callable[[Any], bool] = kinds
    return accepts


def tree_map_only(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """The tree with ``func`` of the leaves of some classes, or that a predicate accepts."""
    chosen = _chosen(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """``tree_map_only`` for its effect; returns the tree."""
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether ``pred`` holds for all leaves of some classes."""
    chosen = _chosen(type_or_types)
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if chosen(leaf))


def tree_any_only(
    type_or_types: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether ``pred`` holds for a leaf of some classes."""
    chosen = _chosen(type_or_types)
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if chosen(leaf))


_explain_absence(__name__)
