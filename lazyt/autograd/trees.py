"""Trees of lists, tuples and dicts: taken apart into leaves, and put together again.

None is a leaf, as in PyTorch's transforms.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any


class Tree:
    """The shape of a nested value.

    Attributes:
        kind: the container's class, None for a leaf.
        keys: a dict's keys, or None.
        parts: the shapes inside.
    """

    __slots__ = ("keys", "kind", "parts")

    def __init__(self, kind: type | None, keys: list[Any] | None, parts: list[Tree]) -> None:
        self.kind = kind
        self.keys = keys
        self.parts = parts

    @property
    def count(self) -> int:
        """Number of leaves."""
        return 1 if self.kind is None else sum(part.count for part in self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and (
            (self.kind, self.keys, self.parts) == (other.kind, other.keys, other.parts)
        )

    def __hash__(self) -> int:
        keys = None if self.keys is None else tuple(self.keys)
        return hash((self.kind, keys, tuple(self.parts)))

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        title = self.kind.__name__ if _plain(self.kind) else "namedtuple"
        context: Any = self.keys
        if title == "namedtuple":
            context = self.kind
        inner = (",\n" + "  ").join(_indented(repr(part)) for part in self.parts)
        return f"TreeSpec({title}, {context}, [{inner}])"

    def pretty(self) -> str:
        """The shape as it would be written, with stars for leaves."""
        return repr(self.build(iter([_Star()] * self.count)))

    def build(self, leaves: Iterator[Any]) -> Any:
        """The value of this shape with the next leaves."""
        if self.kind is None:
            return next(leaves)
        items = [part.build(leaves) for part in self.parts]
        if self.keys is not None:
            pairs = zip(self.keys, items)
            return dict(pairs) if self.kind is defaultdict else self.kind(pairs)
        return self.kind(items) if _plain(self.kind) else self.kind(*items)


class _Star:
    """A leaf in a shape that is shown."""

    def __repr__(self) -> str:
        return "*"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


_KINDS = (list, tuple, dict, OrderedDict, defaultdict, deque)


def _plain(kind: type) -> bool:
    return kind in _KINDS


_LEAF = Tree(None, None, [])


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """The leaves, in order, and the shape."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves)


def _flatten(value: Any, leaves: list[Any]) -> Tree:
    kind = type(value)
    if kind in (dict, OrderedDict, defaultdict):
        return Tree(kind, list(value), [_flatten(item, leaves) for item in value.values()])
    if kind in _KINDS or (issubclass(kind, tuple) and hasattr(value, "_fields")):
        return Tree(kind, None, [_flatten(item, leaves) for item in value])
    leaves.append(value)
    return _LEAF


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
    items = value.values() if own.keys is not None else value
    found: list[Any] = []
    for item, part in zip(items, tree.parts):
        inner = spread(item, part)
        if inner is None:
            return None
        found += inner
    return found
