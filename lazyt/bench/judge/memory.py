"""Memory that the judge shares with one process of a submission, and with no other.

The judge writes inputs, fills outputs with a poison, and reads what became of both. In the other
process every array lies between pages that nobody may touch, either right behind the first one or
right before the second one.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyt.bench.problems import Array

#: Arrays begin at multiples of this, as those of every framework do.
ALIGNMENT = 64
_PAGE = mmap.PAGESIZE
#: What outputs hold before a call: as float32 and float64 these bytes are NaN, as whole numbers
#: nothing that is computed. Two of them, by turns, so that no value equals both.
POISONS = (0xFF, 0xFE)


@dataclass(frozen=True)
class Place:
    """Where an array is.

    Attributes:
        part: its number among the mapped parts.
        offset: of the part, in the memory.
        span: bytes of the part, whole pages.
        within: where in the part the array begins.
        nbytes: of the array.
    """

    part: int
    offset: int
    span: int
    within: int
    nbytes: int


def layout(sizes: Sequence[int], at_end: bool) -> list[Place]:
    """Places of arrays of so many bytes, at the beginnings of their parts or at the ends."""
    places, offset = [], 0
    for part, nbytes in enumerate(sizes):
        span = max(_PAGE, -(-nbytes // _PAGE) * _PAGE)
        within = span - -(-nbytes // ALIGNMENT) * ALIGNMENT if at_end else 0
        places.append(Place(part, offset, span, within, nbytes))
        offset += span
    return places


class Memory:
    """A file in memory, and its bytes in this process."""

    def __init__(self) -> None:
        self.file = os.memfd_create("judged")
        self._bytes: Array = np.zeros(0, np.uint8)

    def reserve(self, nbytes: int) -> None:
        """Makes room; arrays in the memory keep their places."""
        if nbytes > self._bytes.size:
            os.ftruncate(self.file, nbytes)
            # The former mapping goes with the last array in it.
            self._bytes = np.frombuffer(mmap.mmap(self.file, nbytes), np.uint8)

    def part(self, place: Place) -> Array:
        """All bytes of a part, those around the array among them."""
        return self._bytes[place.offset : place.offset + place.span]

    def array(self, place: Place, like: Array) -> Array:
        """An array in its place, with the shape and dtype of another."""
        start = place.offset + place.within
        found: Any = self._bytes[start : start + place.nbytes].view(like.dtype)
        return np.asarray(found.reshape(like.shape))

    def close(self) -> None:
        """Gives the memory back."""
        self._bytes = np.zeros(0, np.uint8)
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
