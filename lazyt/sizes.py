"""Graphs that come back with other sizes: one set of kernels that takes the sizes as arguments.

The first time a graph is met it is compiled for its sizes. When it comes back with a dimension of
another size, each of its numbers is looked at: those that differ become arguments of the kernels
(``codegen/template.py``), and further sizes need no compiler. The graph is also tried at a few
sizes that nobody asked for yet: numbers that are equal at two sizes by chance are arguments, too.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lazyt.config import config
from lazyt.ir.decisions import Decisions
from lazyt.ir.graph import Node
from lazyt.trial_sizes import texts_of_extents, texts_of_multiples

if TYPE_CHECKING:
    from lazyt.codegen.choices import Fusing
    from lazyt.codegen.template import Sample, Template
    from lazyt.ir.program import Program
    from lazyt.making import Donated

_NUMBER = re.compile(r"(?<![\w.%$])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")
#: Numbers that are no sizes: they say which axes an operation works on.
_AXES = re.compile(r"\b(?:axes|axis|batch|left|right|out)=(\([\d, ]*\)|\d+)")
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
    """Graphs that are equal but for sizes, and numbers that come from them.

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
    from lazyt.codegen.choices import Fusing

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
    from lazyt.codegen.template import take_apart
    from lazyt.compiler import compile_graph

    spare = {inputs[i]: root for i, root in donated}
    with family.decisions.taken():
        return take_apart(
            compile_graph(roots, inputs, spare, any_size=True, fusing=family.fusing)[0]
        )


def _new_template(
    family: _Family, graph: Sized, sample: Sample, changes: set[tuple[int, int]]
) -> Template | None:
    """A text for ``sample`` and all that has its form: the family's first graph, programs that are
    known, and sizes that nobody asked for."""
    from lazyt.codegen.template import Template

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
    from lazyt.ir.parse_graph import parse_graph
    from lazyt.ops.registry import OPS

    try:
        leaves, roots = parse_graph(text, OPS)
    except LazytError:  # a size that the graph does not allow
        return None
    inputs = [leaf for _, leaf in sorted(zip(graph.order, leaves, strict=True), key=lambda p: p[0])]
    return _sample(family, roots, inputs, graph.donated)


def _other_sizes(old: Sized, new: Sized, changes: set[tuple[int, int]]) -> list[str]:
    """The graph's text at sizes that nobody asked for."""
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
