"""The instructions of a graph with its numbers left open: constants, and where slices begin.

Graphs of one structure differ in such numbers alone. Their instructions are the same but for some
words, which are computed from the numbers without encoding the graph again.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from lazyt.codegen.generic.encode import Encoded
from lazyt.codegen.generic.recipes import bits_of
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node


class Hole(NamedTuple):
    """A word that depends on numbers of the graph.

    Attributes:
        place: which word.
        constant: the number of the node whose constant it is, -1 where starts of slices decide it.
        dtype: that of the constant.
        base: the word where all slices begin at 0.
        starts: number of a slice or update, axis, and by what one more element moves the word.
    """

    place: int
    constant: int
    dtype: DType | None
    base: int
    starts: tuple[tuple[int, int, int], ...]


class Table:
    """The instructions of all graphs of one structure.

    Attributes:
        words: those of the graph that was encoded.
        holes: what differs in others, by place.
    """

    __slots__ = ("holes", "words")

    def __init__(self, made: Encoded, order: Sequence[Node]) -> None:
        self.words = array("q", made.words)
        self.holes = _holes(made, order) if made.patches else []

    def filled(self, order: Sequence[Node]) -> array[int]:
        """The instructions of a graph of the structure, given its nodes by number."""
        words = self.words[:]
        for place, constant, dtype, word, starts in self.holes:
            if dtype is not None:
                word = bits_of(order[constant].params, dtype)
            else:
                for number, axis, factor in starts:
                    word += factor * order[number].params.starts[axis]
            words[place] = word
        return words


def _holes(made: Encoded, order: Sequence[Node]) -> list[Hole]:
    numbers = {node: number for number, node in enumerate(order)}
    found: list[Hole] = []
    starts: dict[int, list[tuple[int, int, int]]] = {}
    for (node, axis), places in made.patches.items():
        for place, factor in places:
            if axis < 0:
                found.append(Hole(place, numbers[node], node.dtype, 0, ()))
            elif factor:
                starts.setdefault(place, []).append((numbers[node], axis, factor))
    for place, moved in starts.items():
        begin = sum([factor * order[n].params.starts[axis] for n, axis, factor in moved])
        found.append(Hole(place, -1, None, made.words[place] - begin, tuple(moved)))
    return sorted(found, key=lambda hole: hole.place)
