"""Trees of lists, tuples and dicts: taken apart into leaves, and put together again.

None is a leaf, as in PyTorch's transforms.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

#: What takes a value of a class apart, into its parts and what else it holds, and its inverse.
Taker = Callable[[Any], tuple[Iterable[Any], Any]]
Maker = Callable[[list[Any], Any], Any]
_registered: dict[type, tuple[Taker, Maker]] = {}


def register(kind: type, taker: Taker, maker: Maker) -> None:
    """Make values of class ``kind`` trees: the ``taker`` gives the parts of one and what else it
    holds, which the ``maker`` takes. Raises ValueError where they are trees already."""
    if kind in _registered or kind in _KINDS:
        raise ValueError(f"{kind} is already registered as pytree node.")
    _registered[kind] = taker, maker


class Tree:
    """The shape of a nested value.

    Attributes:
        kind: the container's class, None for a leaf.
        keys: a dict's keys, what else a value of a registered class holds, or None.
        parts: the shapes inside.
    """

    __slots__ = ("keys", "kind", "parts")

    def __init__(self, kind: type | None, keys: Any, parts: list[Tree]) -> None:
        self.kind = kind
        self.keys = keys
        self.parts = parts

    @property
    def count(self) -> int:
        """Number of leaves."""
        return 1 if self.kind is None else sum(part.count for part in self.parts)

    num_leaves = count

    @property
    def num_nodes(self) -> int:
        """Number of leaves and of what holds them."""
        return 1 + sum(part.num_nodes for part in self.parts)

    @property
    def num_children(self) -> int:
        """Number of shapes inside."""
        return len(self.parts)

    @property
    def type(self) -> type | None:
        """The container's class, None for a leaf."""
        return self.kind

    @property
    def context(self) -> Any:
        """A dict's keys, a named tuple's class, or what else the container holds."""
        own = self.kind in _KINDS or self.kind in _registered or self.kind is None
        return self.keys if own else self.kind

    def children(self) -> list[Tree]:
        """The shapes inside."""
        return list(self.parts)

    def child(self, index: int) -> Tree:
        """The shape at ``index``."""
        return self.parts[index]

    def is_leaf(self) -> bool:
        """Whether this is the shape of a leaf."""
        return self.kind is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and (
            (self.kind, self.keys, self.parts) == (other.kind, other.keys, other.parts)
        )

    def __hash__(self) -> int:
        return hash((self.kind, tuple(self.parts)))

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        own = self.kind in _KINDS or self.kind in _registered
        title = self.kind.__name__ if own else "namedtuple"
        inner = (",\n" + "  ").join(_indented(repr(part)) for part in self.parts)
        return f"TreeSpec({title}, {self.context}, [{inner}])"

    def pretty(self) -> str:
        """The shape as it would be written, with stars for leaves."""
        return repr(self.build(iter([_Star()] * self.count)))

    def build(self, leaves: Iterator[Any]) -> Any:
        """The value of this shape with the next leaves."""
        if self.kind is None:
            return next(leaves)
        items = [part.build(leaves) for part in self.parts]
        if self.kind in _registered:
            return _registered[self.kind][1](items, self.keys)
        made: Any = self.kind
        if self.keys is not None:
            pairs = zip(self.keys, items)
            return dict(pairs) if self.kind is defaultdict else made(pairs)
        return made(items) if self.kind in _KINDS else made(*items)


class _Star:
    """A leaf in a shape that is shown."""

    def __repr__(self) -> str:
        return "*"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


_KINDS = (list, tuple, dict, OrderedDict, defaultdict, deque)


_LEAF = Tree(None, None, [])


def flatten(value: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Tree]:
    """The leaves, in order, and the shape; ``is_leaf`` says what else is one."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves, is_leaf)


def _flatten(value: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None = None) -> Tree:
    apart = None if is_leaf is not None and is_leaf(value) else taken_apart(value)
    if apart is None:
        leaves.append(value)
        return _LEAF
    items, keys = apart
    return Tree(type(value), keys, [_flatten(item, leaves, is_leaf) for item in items])


def taken_apart(value: Any) -> tuple[Iterable[Any], Any] | None:
    """The parts of a tree, and its keys or what else it holds; None for a leaf."""
    kind = type(value)
    if kind in (dict, OrderedDict, defaultdict):
        return value.values(), list(value)
    if kind in _registered:
        return _registered[kind][0](value)
    if kind in _KINDS or (issubclass(kind, tuple) and hasattr(value, "_fields")):
        return value, None
    return None


def unflatten(leaves: list[Any] | tuple[Any, ...], tree: Tree) -> Any:
    """The value of shape ``tree`` with these leaves."""
    return tree.build(iter(leaves))


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """``value`` with ``function`` of every leaf."""
    leaves, tree = flatten(value)
    return unflatten([function(leaf) for leaf in leaves], tree)


def spread(value: Any, tree: Tree) -> list[Any] | None:
    """One leaf of ``value``, whose shape is an upper part of ``tree``, for every leaf of that;
    None where the shapes do not agree."""
    own = _flatten(value, [])
    if own.kind is None:
        return [value] * tree.count
    if own.kind is not tree.kind or own.keys != tree.keys or len(own.parts) != len(tree.parts):
        return None
    items, _ = taken_apart(value) or ((), None)
    found: list[Any] = []
    for item, part in zip(items, tree.parts):
        inner = spread(item, part)
        if inner is None:
            return None
        found += inner
    return found
