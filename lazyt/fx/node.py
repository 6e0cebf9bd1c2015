"""Nodes of graphs: one call, input, attribute or result each, linked in the order of the program.

A node knows the nodes among its arguments and the nodes that use it; both follow when its ``args``
or ``kwargs`` are assigned.
"""

from __future__ import annotations

import builtins
import inspect
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from lazyt.compat.absent import known_as
from lazyt.compat.settings import _assert
from lazyt.functional.namespace import dtype
from lazyt.fx.immutable_collections import immutable_dict, immutable_list
from lazyt.fx.targets import is_random, place_of
from lazyt.handle.tensor import Tensor

if TYPE_CHECKING:
    from lazyt.fx.graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

#: What a node calls: a function, or the name of a method, a module or an attribute.
Target = Callable[..., Any] | str
#: What may stand among the arguments of a node.
Argument = Any

F = TypeVar("F", bound=Callable[..., Any])

#: The kinds of nodes.
LEGAL_OPS = frozenset(
    {"placeholder", "get_attr", "call_function", "call_method", "call_module", "output"}
)
#: What arguments may be besides nodes and containers.
BASE_TYPES = (str, int, float, bool, complex, dtype, Tensor)

#: Functions whose calls stay in a graph though nobody uses what they return.
_with_side_effects: set[Callable[..., Any]] = {operator.setitem, _assert}


def has_side_effect(fn: F) -> F:
    """Decorator: calls of ``fn`` are not dead code, even where their results are not used.

    >>> @lazyt.fx.has_side_effect
    ... def note(x):
    ...     print(x)
    """
    _with_side_effects.add(fn)
    return fn


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """``a`` with ``fn(node)`` in the place of every node in it; lists and dicts become immutable.

    >>> graph = lazyt.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> lazyt.fx.map_arg((x, [x, 2]), lambda node: node.name)
    ('x', ['x', 2])

    Raises TypeError where ``fn`` cannot be called.
    """
    if not callable(fn):
        raise TypeError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda part: fn(part) if isinstance(part, Node) else part)


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """``a`` with ``fn(part)`` in the place of every part of it that is no container.

    Containers are tuples, named ones included, lists, dicts (of which the values count) and
    slices. Lists and dicts become immutable.
    """
    if isinstance(a, tuple):
        parts = [map_aggregate(part, fn) for part in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(part, fn) for part in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


class Node:
    """One step of a ``Graph``; ``Graph.create_node`` makes it.

    Attributes:
        graph: the graph that it belongs to.
        name: the name of its result, which no other node of the graph has.
        op: the kind: ``placeholder``, an argument of the graph; ``get_attr``, an attribute of the
            module that owns the graph; ``call_function``, ``call_method``, ``call_module``; or
            ``output``, what the graph returns.
        target: the function, or the name of the method, of the module or attribute in the module
            that owns the graph, or of the argument.
        users: the nodes that have this one among their arguments, as the keys of a dict.
        type: an annotation of the result, or None.
        meta: whatever passes note about the node. Copies of the node have a copy of it.
    """

    def __init__(
        self, graph: Graph, name: str, op: str, target: Target, args: tuple[Argument, ...],
        kwargs: dict[str, Argument], return_type: Any = None,
    ) -> None:  # fmt: skip
        if op not in LEGAL_OPS and op != "root":
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        wanted = "Callable" if op == "call_function" else "str"
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                f"{type_repr(type(target))} but a {wanted} is expected"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target: Any = target
        self.users: dict[Node, None] = {}
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._position = 0
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._assign(args, kwargs)

    # ------------------------------------------------------------------ arguments

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments. Assigning others updates ``users``."""
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._assign(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The arguments by keywords. Assigning others updates ``users``."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._assign(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once, in their order."""
        return list(self._input_nodes)

    def _assign(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        found: dict[Node, None] = {}

        def note(node: Node) -> Node:
            found[node] = None
            return node

        self._args, self._kwargs = map_arg(args, note), map_arg(kwargs, note)
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = found
        for node in found:
            node.users[self] = None

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace the positional argument at ``idx``. Raises IndexError where there is none."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before the one at ``idx``; raises AssertionError for an
        index out of range."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError(
                f"insert_args index must be between 0 and len(self.args), got {idx}"
            )
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set the keyword argument ``key``."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Put ``new_input`` in the place of ``old_input`` wherever it is among the arguments."""
        for hook in self._hooks("_replace_hooks"):
            hook(old=old_input, new=new_input.name, user=self)

        def replaced(node: Node) -> Argument:
            return new_input if node is old_input else node

        self._assign(map_arg(self.args, replaced), map_arg(self.kwargs, replaced))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *,
        propagate_meta: bool = False,
    ) -> list[Node]:  # fmt: skip
        """Put ``replace_with`` in the place of this node among the arguments of all its users.

        Args:
            delete_user_cb: asked of each user; where it says False, the user stays as it is.
            propagate_meta: give ``replace_with``, which may not have any, this node's ``meta``.

        Returns the users that were changed. Raises AssertionError where ``replace_with`` has
        ``meta`` and should be given some.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                    "replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def _hooks(self, kind: str) -> list[Callable[..., Any]]:
        return list(getattr(self.graph.owning_module, kind, None) or ())

    # ------------------------------------------------------------------ order

    @property
    def next(self) -> Node:
        """The node behind this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move ``x``, a node of the same graph, before this one. Raises AssertionError for nodes of
        other graphs."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x
        self.graph._is_numbered = False

    def append(self, x: Node) -> None:
        """Move ``x``, a node of the same graph, behind this one."""
        if x is not self:
            self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def __lt__(self, other: Node) -> bool:
        return self._place() < other._place()

    def __gt__(self, other: Node) -> bool:
        return self._place() > other._place()

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    def _place(self) -> int:
        if not self.graph._is_numbered:
            self.graph._number_nodes()
        return self._position

    # ------------------------------------------------------------------ facts

    @property
    def stack_trace(self) -> str | None:
        """Where the program made the call, if the tracer was told to ``record_stack_traces``."""
        found: str | None = self.meta.get("stack_trace")
        return found

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node does something besides giving its result: arguments and the output count
        so, calls of functions that write into their arguments or that are marked
        (``has_side_effect``), and modules with a true ``_is_impure``.

        Args:
            impure_random: whether drawing random numbers counts, too.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = self.graph.owning_module.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        if self.op == "get_attr":
            return False
        name = self.target if self.op == "call_method" else getattr(self.target, "__name__", "")
        writes = name.endswith("_") and not name.endswith("__") and bool(self._input_nodes)
        if writes or self.op == "call_method":
            return writes
        return (
            self.target in _with_side_effects
            or (impure_random and is_random(self.target))
            or self.kwargs.get("out") is not None
        )

    def normalized_arguments(
        self, root: Any, arg_types: Any = None, kwarg_types: Any = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:  # fmt: skip
        """The arguments in the order of the function's or module's parameters, with those that were
        left to their defaults, as an ``ArgsKwargsPair``; None where nobody can tell.

        Args:
            root: the module in which a ``call_module`` looks its target up.
            normalize_to_only_use_kwargs: give all arguments by keywords.
        """
        from lazyt.fx.operator_schemas import normalize_function, normalize_module

        only = normalize_to_only_use_kwargs
        if self.op == "call_function":
            return normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types, only
            )
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs, only)
        return None

    # ------------------------------------------------------------------ text

    def __repr__(self) -> str:
        return self.name if self._repr_fn is None else self._repr_fn(self)

    @staticmethod
    def _pretty_print_target(target: object) -> str:
        if isinstance(target, str):
            return target
        module = getattr(target, "__module__", None)
        name = getattr(target, "__name__", None)
        if module in ("builtins", "_operator") and name is not None:
            return f"{module.lstrip('_')}.{name}"
        return qualified_name(target)

    def format_node(
        self, placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None, *, include_tensor_metadata: bool = False,
    ) -> str | None:  # fmt: skip
        """One line about the node, as in ``print(graph)``.

        Args:
            placeholder_names: a list that has something in it takes the line of a placeholder,
                for which the result is None then.
            maybe_return_typename: a list of one text, which becomes the annotation of an output.
            include_tensor_metadata: show dtype and shape that ``meta`` has of the result.
        """
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_repr(self.type)}"
            return f"return {self.args[0]}"
        typename = f"{type_repr(self.type)} " if self.type is not None else ""
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(self.target + (f": {typename}".rstrip()))
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            what = f"[target={self.target}]{default}"
        else:
            what = f"[target={self._pretty_print_target(self.target)}]"
            if self.op != "get_attr":
                what += f"(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"
                typename = (include_tensor_metadata and self._metadata()) or typename
        return f"%{self.name} : {typename}[num_users={len(self.users)}] = {self.op}{what}"

    def _metadata(self) -> str:
        meta = self.meta
        value = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
        if not isinstance(value, Tensor):
            return ""
        shape, strides = list(value.shape), list(value.stride())
        return f'Tensor "{ABBREVIATIONS[value.dtype.name]}{shape}{strides}{value.device}" '

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)


#: How annotations call dtypes, by their names.
ABBREVIATIONS = {
    "bfloat16": "bf16", "float64": "f64", "float32": "f32", "float16": "f16", "complex64": "c64",
    "complex128": "c128", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "bool": "b8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip


def _shown(value: Any) -> str:
    """An argument with a % before each node."""
    if isinstance(value, Node):
        return f"%{value}"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(map(_shown, value))}{comma})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_shown(part)}' for key, part in value.items())}}}"
    return str(value)


def type_repr(kind: object) -> str:
    """How generated code and printed graphs call a type."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        return f"{known_as_module(kind.__module__)}.{kind.__qualname__}"
    if kind is ...:
        return "..."
    return kind.__name__ if isinstance(kind, types.FunctionType) else repr(kind)


def known_as_module(module: str) -> str:
    """The name of a module as the program has it: with ``torch`` where lazyt is imported so."""
    own = module == "lazyt" or module.startswith("lazyt.")
    return known_as(module) if own else module


def qualified_name(function: Any) -> str:
    """The name of a function with its module, by which generated code calls it.

    Raises RuntimeError for a lambda that cannot be found in its source.
    """
    name: str = function.__name__
    if getattr(builtins, name, None) is function:
        return name
    if place := place_of(function):
        return f"{known_as_module(place[0])}.{place[1]}"
    if name == "<lambda>":
        try:
            name = inspect.getsource(function).split("=")[0].strip()
        except OSError as error:
            raise RuntimeError("Unable to represent lambda") from error
    module = getattr(function, "__module__", None)
    if module is None:
        raise RuntimeError(f"cannot find module for {function}")
    return f"{known_as_module(module)}.{name}"
