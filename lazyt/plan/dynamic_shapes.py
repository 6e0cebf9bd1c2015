"""Graphs that come back with other sizes: one set of kernels that takes the sizes as arguments.

The first time a graph is met it is compiled for its sizes. When it comes back with a dimension of
another size, each of its numbers is looked at: those that differ become arguments of the kernels
(``codegen/plan/template.py``), and further sizes need no compiler. The graph is also tried at a few
sizes that no program had yet: numbers that are equal at two sizes by chance are arguments, too.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, NamedTuple

from lazyt.config import config
from lazyt.ir.decisions import Decisions
from lazyt.ir.graph import Node

if TYPE_CHECKING:
    from lazyt.codegen.plan.choices import Fusing
    from lazyt.codegen.plan.template import Sample, Template
    from lazyt.ir.program import Program
    from lazyt.plan.build import Donated


# Sizes at which a graph is tried although no program has them: what its numbers become there.
#
# The text of a graph is known at two sizes. Numbers in it are extents, products of extents
# (strides, counts, factors of means) and constants. What a number is made of is guessed from the
# two texts, and the text is filled in for other sizes. A wrong guess does no harm: it makes a graph
# that is refused, or one more sample.


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


_NUMBER = re.compile(r"(?<![\w.%$])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")
#: Numbers that are no sizes: they say which axes an operation works on.
_AXES = re.compile(r"\b(?:axes|axis|batch|batched|left|right|out|result)=(\([\d, ]*\)|\d+)")
_SHAPE = re.compile(r"\w+\[(\d[\d, ]*)\]")
_KEPT = 256  # families that are remembered
_MOST_SAMPLES = 8
#: Characters of a graph's text from which on trying other sizes would take too long.
_LONGEST = 400_000
#: Trial sizes below which there are too few to tell what a number depends on.
_FEW = 3
#: Attempts in a row to make one text of a family's programs, after which no more are made.
_PATIENCE = 2
#: Sizes beside the first that have plans of their own where rows run in bands, and these save
#: memory: for any size there are none, and values as large as this many bytes lie in memory.
_BANDED, _LARGE = 2, 1 << 28
#: Sizes of a family that may have kernels of their own because they are run often.
_OFTEN = 4
#: Extents below this decide the form of kernels: they are unrolled, or no axis at all. Graphs that
#: have them at other places are of another family.
LEAST = 2


class Sized(NamedTuple):
    """A graph as text, and what else its plan depends on.

    Attributes:
        text: as ``print_graph`` wrote it.
        order: the number of each of its leaves among the plan's inputs.
        donated: inputs whose memory may be overwritten, see ``Subject``.
    """

    text: str
    order: tuple[int, ...]
    donated: Donated

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text between its numbers."""
        return tuple(_NUMBER.split(self.text))

    @property
    def numbers(self) -> list[str]:
        """Its numbers."""
        return _NUMBER.findall(self.text)


class _Family:
    """Graphs that are equal except in sizes, and numbers that come from them.

    Attributes:
        first: the first that was met.
        samples: programs of some, printed for any size.
        templates: texts that serve several of them, the latest last.
        failed: for how many sizes there was none since the last one that had one.
        decisions: what they decide is decided for all sizes.
        alone: further sizes that may have plans of their own for the sake of bands.
        often: further sizes that may have some because they are run often.
        fusing: how programs for any size are made.
    """

    def __init__(self, first: Sized) -> None:
        self.first = first
        self.samples: list[Sample] = []
        self.templates: list[Template] = []
        self.failed = 0
        self.decisions = Decisions()
        self.alone = _BANDED
        self.often = _OFTEN
        self.fusing: Fusing | None = None


class Found(NamedTuple):
    """A program that takes its sizes as arguments.

    Attributes:
        program: the program.
        reason: why its text was made, for ``why_compiled()``.
    """

    program: Program
    reason: str


_families: OrderedDict[tuple[object, ...], _Family] = OrderedDict()


def clear() -> None:
    """Forgets all families."""
    _families.clear()


def remember(graph: Sized) -> None:
    """Takes note of a graph that has a plan: those of other sizes are compared with it."""
    if len(graph.text) <= _LONGEST:
        _family(graph)


def may_have_own(graph: Sized) -> bool:
    """Whether one more size of a graph may have kernels of its own."""
    return _family(graph).often > 0


def has_own(graph: Sized) -> None:
    """Takes note that one more size of a graph has kernels of its own."""
    _family(graph).often -= 1


def find(graph: Sized, roots: Sequence[Node], inputs: Sequence[Node]) -> Found | None:
    """A program for ``graph`` that other sizes of it share; None for the first size, and where
    sizes decide more than numbers.

    Args:
        graph: of ``roots`` over ``inputs``.
    """
    from lazyt.codegen.plan.choices import Fusing

    if len(graph.text) > _LONGEST:
        return None
    family = _family(graph)
    patient = family.failed < _PATIENCE
    if family.first == graph or not config.any_size or not (patient or family.templates):
        return None
    changes = _changes(family.first, graph)
    if not changes:
        return None
    # Sums over few elements are written out, which is another form for each extent.
    unrolled = config.inline_reduce if min(map(min, changes)) > config.inline_reduce else 1
    family.fusing = Fusing(inline=unrolled)
    known = len(family.templates)
    sample = _sample(family, roots, inputs, graph.donated)
    if family.alone and sample.program.arena_bytes >= _LARGE and _has_bands(roots):
        family.alone -= 1
        return None
    template = next((t for t in reversed(family.templates) if t.fits(sample)), None)
    if template is None and patient:
        template = _new_template(family, graph, sample, changes)
        if template is not None:
            family.templates.append(template)
    if template is None:
        family.failed += 1
        return None
    family.failed = 0
    reason = ""
    if len(family.templates) > known:
        listed = ", ".join(f"{old} -> {new}" for old, new in sorted(changes)[:4])
        reason = f"sizes differ ({listed}): they become arguments of the kernels"
        if known:
            reason += "; more of the text depends on them than at the sizes before"
    return Found(template.instance(sample, len(inputs)), reason)


def _has_bands(roots: Sequence[Node]) -> bool:
    """Whether a plan for these very sizes runs rows in bands."""
    from lazyt.compiler import group_graph
    from lazyt.runtime import devices

    return config.bands and any(
        group.kind == "band" for group in group_graph(roots, None, devices.cpu().l2)[1]
    )


def _family(graph: Sized) -> _Family:
    between = hashlib.sha1("\0".join(graph.pieces).encode()).digest()
    key = (
        between, tuple(_AXES.findall(graph.text)), _small(graph.text), graph.order, graph.donated,
        config.of_plans,
    )  # fmt: skip
    family = _families.get(key)
    if family is None:
        family = _families[key] = _Family(graph)
        if len(_families) > _KEPT:
            _families.popitem(last=False)
    _families.move_to_end(key)
    return family


def _small(text: str) -> tuple[tuple[int, str], ...]:
    """The places of extents below ``LEAST`` among all, and these extents."""
    extents = ", ".join(_SHAPE.findall(text)).split(", ")
    return tuple((place, n) for place, n in enumerate(extents) if n and int(n) < LEAST)


def _changes(old: Sized, new: Sized) -> set[tuple[int, int]]:
    """Extents that differ: those of leaves or, where there are none, the smallest of all shapes.
    Nothing where shapes are equal."""
    heads = (old.text.partition("->")[0], new.text.partition("->")[0])
    return _differing(*heads) or set(sorted(_differing(old.text, new.text))[:1])


def _differing(old: str, new: str) -> set[tuple[int, int]]:
    """Pairs of different extents at the same places of two texts."""
    pairs = zip(_SHAPE.findall(old), _SHAPE.findall(new), strict=True)
    extents = (zip(a.split(", "), b.split(", "), strict=True) for a, b in pairs if a != b)
    return {(int(a), int(b)) for shapes in extents for a, b in shapes if a != b}


def _sample(
    family: _Family, roots: Sequence[Node], inputs: Sequence[Node], donated: Donated
) -> Sample:
    from lazyt.codegen.plan.template import sample_of
    from lazyt.compiler import compile_graph

    spare = {inputs[i]: root for i, root in donated}
    with family.decisions.taken():
        return sample_of(
            compile_graph(roots, inputs, spare, any_size=True, fusing=family.fusing)[0]
        )


def _new_template(
    family: _Family, graph: Sized, sample: Sample, changes: set[tuple[int, int]]
) -> Template | None:
    """A text for ``sample`` and all that has its form: the family's first graph, programs that are
    known, and sizes that no program has."""
    from lazyt.codegen.plan.template import Template

    if not family.samples:
        family.samples += filter(None, [_parsed_sample(family, family.first, family.first.text)])
    probes = _probes(family, graph, _other_sizes(family.first, graph, changes), sample)
    if not probes:  # elsewhere it has another form
        near = _extents(family.first, graph, changes, near=True)
        probes = _probes(family, graph, near, sample)
    same = [*(s for s in family.samples if s.form == sample.form), *probes]
    family.samples = [*family.samples, sample][-_MOST_SAMPLES:]
    return Template.of([sample, *same]) if same else None


def _probes(family: _Family, graph: Sized, texts: Sequence[str], like: Sample) -> list[Sample]:
    """The samples of a graph given as texts, as far as they have the form of ``like``."""
    found = [_parsed_sample(family, graph, text) for text in texts]
    return [sample for sample in found if sample is not None and sample.form == like.form]


def _parsed_sample(family: _Family, graph: Sized, text: str) -> Sample | None:
    """The sample of a graph given as text; None for one that is not possible."""
    from lazyt.errors import LazytError
    from lazyt.ir.parser import parse_graph
    from lazyt.ops.registry import OPS

    try:
        leaves, roots = parse_graph(text, OPS)
    except LazytError:  # a size that the graph does not allow
        return None
    inputs = [leaf for _, leaf in sorted(zip(graph.order, leaves, strict=True), key=lambda p: p[0])]
    return _sample(family, roots, inputs, graph.donated)


def _other_sizes(old: Sized, new: Sized, changes: set[tuple[int, int]]) -> list[str]:
    """The graph's text at sizes that no program has."""
    pieces, pairs = new.pieces, list(zip(old.numbers, new.numbers, strict=True))
    first, second = min(changes)
    texts: list[str] = []
    if all(a * second == b * first for a, b in changes):  # multiples of one size
        texts = texts_of_multiples(pieces, pairs, (first, second))
    if len(texts) < _FEW:
        texts += _extents(old, new, changes)
    return texts


def _extents(
    old: Sized, new: Sized, changes: set[tuple[int, int]], near: bool = False
) -> list[str]:
    pairs, extents = zip(old.numbers, new.numbers, strict=True), _differing(old.text, new.text)
    return texts_of_extents(new.pieces, list(pairs), changes, extents, near)
