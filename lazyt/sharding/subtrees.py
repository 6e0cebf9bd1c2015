"""Gradients of shares on one rank, added up in the order of a tree that all ranks share."""

from __future__ import annotations

from lazyt import ops
from lazyt.ir.graph import Node

__all__ = ["Subtrees"]


class Subtrees:
    """Gradients of shares, added up by the tree of ``lazyt/ops/parallel/sums.py`` as they come.

    Attributes:
        current: what the share has so far that is computed now.
        result: in the end, this rank's rows of the reduction.
    """

    def __init__(self) -> None:
        self.current: dict[int, Node] = {}
        self.result: dict[int, Node] = {}
        self._found: list[tuple[int, int, list[Node]]] = []
        self._ended = -1

    def add(self, values: dict[int, Node]) -> None:
        """Gradients of one call in a share."""
        for number, node in values.items():
            before = self.current.get(number)
            self.current[number] = node if before is None else ops.apply("add", before, node)

    def has_ended(self, share: int) -> bool:
        """Whether a share's gradients were pushed."""
        return self._ended == share

    def push(self, share: int, leaf: list[Node]) -> list[list[Node]]:
        """A share is complete: the values of whole subtrees become one. Returns all there are."""
        self.current, self._ended = {}, share
        self._found.append((share, 1, leaf))
        while len(self._found) > 1:
            (first, size, a), (_, other, b) = self._found[-2:]
            if size != other or first % (2 * size):
                break
            added = [ops.apply("add", x, y) for x, y in zip(a, b)]
            self._found[-2:] = [(first, 2 * size, added)]
        return [nodes for _, _, nodes in self._found]

    def take(self) -> list[list[Node]]:
        """The values of all subtrees, in order, which are forgotten here."""
        found, self._found = [nodes for _, _, nodes in self._found], []
        return found
