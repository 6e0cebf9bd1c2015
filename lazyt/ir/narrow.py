"""How a processor multiplies narrow numbers, which share the 32 bits of one sum."""

from __future__ import annotations

from typing import NamedTuple


class Narrow(NamedTuple):
    """Kinds of groups of narrow numbers, ``bf16x2`` and ``i8x4``, with ways of their own.

    Attributes:
        alone: kinds that are multiplied faster one by one than in vectors of groups.
        tiled: kinds that there are matrix registers for.
    """

    alone: frozenset[str] = frozenset()
    tiled: frozenset[str] = frozenset()


#: In vectors of groups, all of them.
PLAIN = Narrow()
