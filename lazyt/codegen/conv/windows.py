"""What makes a contraction a convolution: operands read at ``stride * point + dilation * tap``.

Neighbouring results of a convolution read overlapping parts of its input. Where an operand depends
on an axis of the result and a summed axis only through one such combination, all of its elements
are elements of a smaller value, the input with its padding. ``codegen/conv/direct.py`` and
``codegen/conv/sums.py`` copy that value into cache as it is and read it at shifted places, instead
of writing every element out once for each tap that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, prod
from typing import NamedTuple

from lazyt.ir.index import (
    Axis,
    Guard,
    Guarded,
    Linear,
    Load,
    Position,
    Quotient,
    Remainder,
    axes_of,
    constant,
    replace_axes,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import ContractPhase
from lazyt.ir.scalar import Call, Expr, call

#: Most combinations of remainders that are copied one by one, each with loops of its own.
_MOST_PIECES = 16


class Walk(NamedTuple):
    """The axis ``point`` of the result and the summed axis ``tap``, which are read together."""

    point: Axis
    tap: Axis
    stride: int
    dilation: int


class Slide(NamedTuple):
    """A contraction of which one operand slides.

    Attributes:
        value: the sliding operand.
        fixed: the other operand.
        points: axes of the result that ``value`` has, ``others`` those of ``fixed``.
        walks: which of them go together with which summed axes.
    """

    value: Expr
    fixed: Expr
    points: tuple[Axis, ...]
    others: tuple[Axis, ...]
    walks: tuple[Walk, ...]


def find_slide(phase: ContractPhase) -> Slide | None:
    """The sliding operand of a contraction, if there is one."""
    for value, fixed, points, others in (
        (phase.left, phase.right, phase.rows, phase.columns),
        (phase.right, phase.left, phase.columns, phase.rows),
    ):
        walks = find_walks(value, points, phase.inner)
        if walks:
            return Slide(value, fixed, _real(points), _real(others), walks)
    return None


def as_slide(phase: ContractPhase) -> Slide | None:
    """A contraction in which nothing slides, but whose results or sums lie in memory in several
    runs, as rows of images do: as a convolution with one tap, vectors stay inside of runs."""
    left = Slide(phase.left, phase.right, _real(phase.rows), _real(phase.columns), ())
    right = Slide(phase.right, phase.left, _real(phase.columns), _real(phase.rows), ())
    for slide in (left, right):
        if len(slide.points) > 1:
            return slide
    return left if len(_real(phase.inner)) > 1 and left.points and left.others else None


def _real(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    return tuple(a for a in axes if a.extent > 1)


def find_walks(
    value: Expr, points: Sequence[Axis], inner: Sequence[Axis]
) -> tuple[Walk, ...] | None:
    """The pairs of axes through which ``value`` slides; None where there is another dependence."""
    found: dict[Axis, Walk] = {}
    alone: set[Axis] = set()
    for index in forms_of(value):
        used = {atom: factor for atom, factor in index.terms if isinstance(atom, Axis)}
        here = [a for a in points if a in used]
        taps = [a for a in inner if a in used]
        if not here or not taps:
            alone.update(here, taps)
            continue
        if len(here) > 1 or len(taps) > 1:
            return None
        point, tap = here[0], taps[0]
        common = gcd(used[point], used[tap])
        walk = Walk(point, tap, used[point] // common, used[tap] // common)
        if walk.stride < 0:
            walk = walk._replace(stride=-walk.stride, dilation=-walk.dilation)
        if walk.dilation < 0 or found.setdefault(point, walk) != walk:
            return None
    walks = tuple(found.values())
    taps = [w.tap for w in walks]
    if len(set(taps)) < len(taps) or alone.intersection([*found, *taps]):
        return None
    return walks


def forms_of(value: Expr) -> Iterator[Linear]:
    """All indices in an expression, and those inside of their quotients and remainders."""
    work: list[Linear] = []
    for item in sub_expressions(value):
        if isinstance(item, Load):
            work += item.index
        elif isinstance(item, Position):
            work.append(item.index)
        elif isinstance(item, Guarded):
            work += [guard.index for guard in item.guards]
    while work:
        index = work.pop()
        yield index
        for atom, _ in index.terms:
            if isinstance(atom, Quotient | Remainder):
                work.append(atom.value)


def at_axes(value: Expr, table: Mapping[Axis, Linear]) -> Expr:
    """An expression with axes replaced by other indices."""
    made: dict[int, Expr] = {}
    for item in sub_expressions(value):
        new = item
        if isinstance(item, Load):
            index = tuple(replace_axes(i, table) for i in item.index)
            new = Load(item.buffer, index, item.dtype)
        elif isinstance(item, Position):
            new = Position(replace_axes(item.index, table), item.dtype)
        elif isinstance(item, Guarded):
            guards = tuple(Guard(replace_axes(g.index, table), g.low, g.high) for g in item.guards)
            new = Guarded(guards, made[id(item.value)], made[id(item.other)])
        elif isinstance(item, Call):
            new = call(item.fn, *(made[id(a)] for a in item.args), dtype=item.dtype)
        made[id(item)] = new
    return made[id(value)]


class Track(NamedTuple):
    """How an axis lies in the copy: for each remainder of the stride, every stride-th element.

    Attributes:
        axis: the axis along which results (or sums) run.
        tap: the axis that shifts it, None where nothing does.
        stride, dilation: how they are read together.
    """

    axis: Axis
    tap: Axis | None
    stride: int
    dilation: int

    @property
    def slots(self) -> int:
        """Remainders of ``dilation * tap`` by the stride, those that no tap has included."""
        return self.stride // gcd(self.stride, self.dilation) if self.tap else 1

    @property
    def pieces(self) -> int:
        """Remainders that some tap has."""
        return min(self.slots, self.tap.extent) if self.tap else 1

    def slot(self, tap: int) -> int:
        """The piece in which the elements that ``tap`` reads lie."""
        return self.dilation * tap % self.stride // gcd(self.stride, self.dilation)

    def shift(self, tap: int) -> int:
        """How far from the start of a piece the first of them lies."""
        return self.dilation * tap // self.stride

    def reach(self, piece: int | None = None) -> int:
        """The largest shift of the taps that read the piece of tap ``piece``, or of all."""
        if self.tap is None:
            return 0
        last = self.tap.extent - 1
        if piece is not None:
            last -= (last - piece) % self.slots
        return self.shift(last)

    def table(self, piece: int, place: Linear) -> dict[Axis, Linear]:
        """The axes' values at ``place`` in the piece of tap ``piece``."""
        if self.tap is None:
            return {self.axis: place}
        return {self.axis: place - self.shift(piece), self.tap: constant(piece)}


def track_of(axis: Axis, walks: Sequence[Walk], over: str) -> Track:
    """The track of a run ``over`` points or taps."""
    for walk in walks:
        if over == "point" and walk.point == axis:
            return Track(axis, walk.tap, walk.stride, walk.dilation)
        if over == "tap" and walk.tap == axis:
            return Track(axis, walk.point, walk.dilation, walk.stride)
    return Track(axis, None, 1, 1)


def splits(tracks: Sequence[Track]) -> bool:
    """Whether copies of all their pieces are few enough to be written out."""
    return prod(t.pieces for t in tracks) <= _MOST_PIECES


def split_guards(
    value: Expr, lane: Axis
) -> tuple[list[Guard], tuple[int, int] | None, Expr, Expr | None]:
    """Outer guards of ``value`` along a loop over ``lane``.

    Returns those that do not depend on it, the range of ``lane`` in which the others hold (None
    for all of it), the value there, and what stands elsewhere (None without guards). What does not
    fit this form stays part of the value.
    """
    if not isinstance(value, Guarded):
        return [], None, value, None
    fixed: list[Guard] = []
    rest: list[Guard] = []
    low, high = 0, lane.extent
    for guard in value.guards:
        slope = guard.index.coefficient(lane)
        if lane not in axes_of(guard.index):
            fixed.append(guard)
        elif slope and slope > 0 and guard.index == variable(lane) * slope + guard.index.const:
            low = max(low, -(-(guard.low - guard.index.const) // slope))
            high = min(high, -(-(guard.high - guard.index.const) // slope))
        else:
            rest.append(guard)
    inside = Guarded(tuple(rest), value.value, value.other) if rest else value.value
    return fixed, (low, max(low, high)), inside, value.other
