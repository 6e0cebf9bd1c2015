"""What processors of one instruction set do differently: it decides between forms of kernels."""

from __future__ import annotations

from typing import NamedTuple


class Traits(NamedTuple):
    """How a processor multiplies narrow numbers, and how it reads.

    Attributes:
        alone: kinds of groups of narrow numbers, ``bf16x2`` and ``i8x4``, that are multiplied
            faster one by one than in vectors of groups.
        tiled: kinds that there are matrix registers for.
        fetches: ``streams`` where it fetches the lines that a loop over points reads and writes as
            early as is of use: asking for them only takes time, and several streams at once hide
            where one begins.
    """

    alone: frozenset[str] = frozenset()
    tiled: frozenset[str] = frozenset()
    fetches: frozenset[str] = frozenset()


#: Narrow numbers in vectors of groups, all of them, and loops that ask for lines.
PLAIN = Traits()
