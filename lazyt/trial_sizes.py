"""Sizes at which a graph is tried although nobody asked for them: what its numbers become there.

The text of a graph is known at two sizes. Numbers in it are extents, products of extents (strides,
counts, factors of means) and constants. What a number is made of is guessed from the two texts, and
the text is filled in for other sizes. A wrong guess does no harm: it makes a graph that is refused,
or one more sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

#: Two values of a number or an extent: in the first text and in the second.
Pair = tuple[int, int]

#: Extents of windows go with a part of those that they move over, those of enlarged pictures with a
#: multiple: numerator and denominator.
_RATES = ((1, 1), (1, 2), (2, 1), (1, 4), (1, 3), (3, 1), (4, 1), (1, 8), (1, 16), (1, 32), (8, 1))
#: What padding and kernels add to an extent at most, and by how much rounding changes that.
_FARTHEST, _ASTRAY = 64, 3
#: Sizes that are alike to strides and tiles have the same remainder by this.
_ALIKE = 32
#: How sizes that change independently of each other are moved: in multiples of ``_ALIKE``, not all
#: by the same, so that numbers that are equal by chance do not stay equal.
_MOVES = ((1, 2, 3), (3, 1, 2), (2, 5, 1), (6, 4, 9))
#: And beside these, so that not all have the remainders of the second size.
_BESIDE = (0, 0, 1, -2)
#: The same for sizes nearby, which fit into the caches that the second ones fit into.
_NEAR, _STEP = ((1, 2, 3), (3, 1, 2), (2, 1, 4), (4, 3, 5)), 4


def texts_of_multiples(
    pieces: Sequence[str], pairs: Sequence[tuple[str, str]], sizes: Pair
) -> list[str]:
    """The text at sizes between and beyond two, where everything else is a multiple of the size, or
    of its square, or its sum with a constant.

    Args:
        pieces: the text between its numbers.
        pairs: its numbers at both sizes.
        sizes: both sizes.
    """
    least, most = sorted(sizes)
    # Odd and even ones: what is rounded up to a multiple is not the size itself at all of them.
    wanted = {most * 3 // 2 | 1, -(-4 * most // 64) * 64, math.isqrt(least * most) & ~1}
    wanted |= {max(3, least // 8), max(3, least * 3 // 8 | 1)}
    texts: list[str] = []
    for size in sorted(wanted - {*sizes}):
        numbers = [_scaled(a, b, (*sizes, size)) for a, b in pairs]
        if None not in numbers:
            texts.append(_filled(pieces, [n for n in numbers if n is not None]))
    return texts


def texts_of_extents(
    pieces: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    changes: Iterable[Pair],
    extents: Iterable[Pair],
    near: bool = False,
) -> list[str]:
    """The text at sizes most of which have the remainders of the second ones: where windows move by
    steps, these decide what is left over at the ends.

    Args:
        pieces: the text between its numbers.
        pairs: its numbers at both sizes.
        changes: the sizes that differ.
        extents: all extents of the text that differ.
        near: at sizes that are hardly larger.
    """
    sizes = sorted(changes)
    texts: list[str] = []
    step = _STEP if near else _ALIKE
    for moves, beside in zip(_NEAR if near else _MOVES, _BESIDE, strict=True):
        moved = {
            size: size[1] + step * moves[number % len(moves)] + beside
            for number, size in enumerate(sizes)
        }
        known = moved | {
            extent: found
            for extent in extents
            if extent not in moved and (found := _follower(extent, moved)) is not None
        }
        table = [_Extent(*extent, value) for extent, value in known.items()]
        texts.append(_filled(pieces, [_composed(a, b, table) for a, b in pairs]))
    return texts


class _Extent(NamedTuple):
    """An extent in the first text, in the second, and in the one that is made."""

    old: int
    new: int
    now: int


def _filled(pieces: Sequence[str], numbers: Sequence[str]) -> str:
    """The text with these numbers between its pieces."""
    between = iter(numbers)
    return "".join(piece + next(between, "") for piece in pieces)


def _follower(extent: Pair, moved: dict[Pair, int]) -> int | None:
    """What an extent becomes that goes with one of those that were moved, except for rounding."""
    best: tuple[float, int] | None = None
    for upper, lower in _RATES:
        for (old, new), now in moved.items():
            astray = abs((extent[1] - extent[0]) * lower - (new - old) * upper) / lower
            far = abs(extent[1] * lower - new * upper) / lower
            if astray > _ASTRAY or far > _FARTHEST:
                continue
            unlikely = astray + far / _FARTHEST
            if best is None or unlikely < best[0]:
                best = unlikely, extent[1] + (now - new) * upper // lower
    return None if best is None else best[1]


def _composed(a: str, b: str, extents: Sequence[_Extent]) -> str:
    """What a number becomes that is ``a`` in the first text and ``b`` in the second: a multiple of
    up to three extents, or, if not whole, of powers of them; else ``b``."""
    if a == b:
        return b
    whole = (a + b).isdecimal()
    old, new = float(a), float(b)
    for count in (1, 2, 3):
        for chosen in combinations_with_replacement(extents, count):
            first = math.prod(e.old for e in chosen)
            second = math.prod(e.new for e in chosen)
            now = math.prod(e.now for e in chosen)
            if whole:
                if int(a) % first == 0 and int(a) * second == int(b) * first:
                    return str(int(b) // second * now)
                continue
            for power in (1, -1, 0.5, -0.5):  # means over some, or their roots
                if old and math.isclose(new / old, (second / first) ** power):
                    return repr(new * (now / second) ** power)
    return b


def _scaled(a: str, b: str, sizes: tuple[int, int, int]) -> str | None:
    """What becomes of a number that is ``a`` at the first size and ``b`` at the second, at the
    third; None where that would be no whole number."""
    first, second, size = sizes
    if a == b:
        return a
    if not (a + b).isdecimal():
        return _scaled_float(float(a), float(b), sizes)
    old, new = int(a), int(b)
    for power in (1, 2):
        if old * second**power == new * first**power and old * size**power % first**power == 0:
            return str(old * size**power // first**power)
    step, rest = divmod(new - old, second - first)
    found = old + step * (size - first)
    return None if rest or found < 0 else str(found)


def _scaled_float(old: float, new: float, sizes: tuple[int, int, int]) -> str:
    """The same for counts that are divided by, their roots, and what is multiplied by instead."""
    first, second, size = sizes
    ratio = new / old if old else 0.0
    for power in (1, -1, 2, -2, 0.5, -0.5):  # n elements, or a mean over them
        if math.isclose(ratio, (second / first) ** power):
            return repr(new * (size / second) ** power)
    for power in (1, -1):  # all but some elements
        counts = [n**power if n else 0.0 for n in (old, new)]
        step = (counts[1] - counts[0]) / (second - first)
        found = counts[1] + step * (size - second)
        if all(math.isclose(n, round(n)) for n in (*counts, step)) and found > 0:
            return repr(float(round(found)) ** power)
    return repr(new)
