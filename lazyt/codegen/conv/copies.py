"""Runs along a lane, each read from one source.

What is put together of parts (a concatenation, padding) is chosen for every element. In a loop of
vectors a compiler loads from all parts, under masks; and where a mask is empty and what it covers
is no memory of the program, as before and behind a part, processors take hundreds of cycles to find
that out. So whatever is known before the loop is asked before it, and where a choice changes along
the lane, the loop ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions
from lazyt.codegen.conv.windows import Track, at_axes, split_guards
from lazyt.codegen.matmul.micro_kernels import CText
from lazyt.codegen.matmul.spec import round_up
from lazyt.ir.decisions import serves_all, slack
from lazyt.ir.index import (
    Axis,
    Guard,
    Guarded,
    Linear,
    axes_of,
    operands,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import Statement
from lazyt.ir.scalar import Call, Const, Expr, call

#: Loops of one run, from which on further choices are made inside of them.
_MANY_RUNS = 64
#: The same for statements: choices within choices.
_MANY_ASKED = 5

#: Least and largest values of indices without their constants.
Facts = Mapping[Linear, tuple[int, int]]


class Lane(NamedTuple):
    """A loop, and what is known there.

    Attributes:
        axis: its variable.
        begin, stop: its bounds, as text.
        target: where its elements go.
        facts: ranges of indices.
        depth: how many choices were made for it.
    """

    axis: Axis
    begin: str
    stop: str
    target: str
    facts: Facts
    depth: int = 0


class RunText:
    """Text of loops along lanes."""

    def __init__(self, e: Expressions) -> None:
        self.e = e
        self.out = CText()
        self._runs = 0

    def value(self, value: Expr) -> str:
        """An expression."""
        return ct.text(self.e.value(value))

    def condition(self, guards: Sequence[Guard]) -> str:
        """``if`` and the conjunction of guards; nothing where they always hold."""
        test = self.e.condition(guards)
        return "" if test is None else f"if ({ct.text(test)})"

    def fill_run(self, axis: Axis, begin: str, stop: str, target: str, value: Expr) -> None:
        """Loops over ``axis`` that store ``value`` in ``target``."""
        self._runs = 0
        self._fill(Lane(axis, begin, stop, target, {}), value)

    def ask_before(
        self,
        lane: Axis,
        body: Sequence[Statement],
        write: Callable[[Sequence[Statement]], None],
        facts: Facts | None = None,
        depth: int = 0,
    ) -> None:
        """``write`` a loop over ``lane`` for each way in which what does not depend on it may turn
        out: for statements without choices of that kind."""
        known = facts or {}
        found = (first_choice(s.value, lane, across=True) for s in body)
        choice = next((c for c in found if c is not None), None) if depth < _MANY_ASKED else None
        if choice is None:
            write(body)
            return
        fixed, _, _, _ = split_guards(choice, lane)
        test = self.condition([_open(guard, known) for guard in fixed])
        there = narrowed(known, fixed)
        inside = [replace(s, value=settled(s.value, there, holding=fixed)) for s in body]
        with self.out.block(test):
            self.ask_before(lane, inside, write, there, depth + 1)
        if test:
            there = excluded(known, choice.guards)
            outside = [replace(s, value=settled(s.value, there, choice.guards)) for s in body]
            with self.out.block("else"):
                self.ask_before(lane, outside, write, there, depth + 1)

    def _fill(self, lane: Lane, value: Expr) -> None:
        choice = first_choice(value, lane.axis) if self._runs < _MANY_RUNS else None
        if choice is None:
            self._runs += 1
            self.out.pragma("omp simd")
            with self.out.loop(lane.axis.name, lane.begin, lane.stop):
                self.out.add(f"{lane.target} = {self.value(value)};")
            return
        fixed, _, _, _ = split_guards(choice, lane.axis)
        test = self.condition([_open(guard, lane.facts) for guard in fixed])
        with self.out.block(test):
            self._cut(lane._replace(facts=narrowed(lane.facts, fixed)), value, choice)
        if test:
            facts = excluded(lane.facts, choice.guards)
            with self.out.block("else"):
                self._fill(_within(lane, facts), settled(value, facts, failing=choice.guards))

    def _cut(self, lane: Lane, value: Expr, choice: Guarded) -> None:
        """A run in pieces, where a choice changes along it."""
        asked = asked_before(choice, lane.axis)
        facts = narrowed(lane.facts, asked)
        inside = settled(value, facts, holding=asked)
        if not any(lane.axis in axes_of(g.index) for g in asked):
            self._fill(_within(lane, facts), inside)
            return
        span, place = split_guards(choice, lane.axis)[1], variable(lane.axis)
        assert span is not None
        low, high = self._clip(lane, span)
        pieces = [(low, high, facts, inside)]
        if low != lane.begin:
            facts = narrowed(lane.facts, [Guard(place, 0, span[0])])
            pieces.insert(0, (lane.begin, low, facts, settled(value, facts, choice.guards)))
        if high != lane.stop or serves_all():
            facts = narrowed(lane.facts, [Guard(place, span[1], lane.axis.extent)])
            pieces.append((high, lane.stop, facts, settled(value, facts, choice.guards)))
        for begin, stop, facts, piece in pieces:
            self._fill(_within(lane, facts)._replace(begin=begin, stop=stop), piece)

    def _clip(self, lane: Lane, span: tuple[int, int]) -> tuple[str, str]:
        """The part of ``span`` between the lane's bounds."""
        begin, stop = lane.begin, lane.stop
        if begin.isdecimal() and stop.isdecimal():
            low = min(max(span[0], int(begin)), int(stop))
            return str(low), str(min(max(span[1], low), int(stop)))
        out, n = self.out, lane.depth or ""
        out.add(f"const lz_i64 g_to{n} = {stop};")
        out.add(f"const lz_i64 g_in{n} = {begin} > {span[0]} ? {begin} : {span[0]};")
        out.add(f"const lz_i64 g_low{n} = g_in{n} < g_to{n} ? g_in{n} : g_to{n};")
        out.add(f"const lz_i64 g_out{n} = g_low{n} > {span[1]} ? g_low{n} : {span[1]};")
        out.add(f"const lz_i64 g_high{n} = g_out{n} < g_to{n} ? g_out{n} : g_to{n};")
        return f"g_low{n}", f"g_high{n}"


def _within(lane: Lane, facts: Facts) -> Lane:
    """The lane after one more choice."""
    return lane._replace(facts=facts, depth=lane.depth + 1)


def first_choice(value: Expr, lane: Axis, across: bool = False) -> Guarded | None:
    """The outermost part of an expression with a condition that is known before a loop over
    ``lane``, or, unless only what goes ``across`` counts, holds in one range of it."""
    seen: set[int] = set()
    work = [value]
    while work:
        item = work.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Guarded):
            asked = asked_before(item, lane)
            if any(not across or lane not in axes_of(g.index) for g in asked):
                return item
        work.extend(reversed(operands(item)))
    return None


def asked_before(choice: Guarded, lane: Axis) -> tuple[Guard, ...]:
    """The guards of which ``split_guards`` frees a value."""
    _, _, inside, _ = split_guards(choice, lane)
    if inside is choice.value:
        return choice.guards
    assert isinstance(inside, Guarded)
    return tuple(g for g in choice.guards if g not in inside.guards)


def narrowed(facts: Facts, guards: Sequence[Guard]) -> Facts:
    """Facts where guards hold."""
    found = dict(facts)
    for guard in guards:
        low, high = _range(guard.index, found)
        first, last = guard.low - guard.index.const, guard.high - 1 - guard.index.const
        found[guard.index - guard.index.const] = (max(low, first), min(high, last))
    return found


def excluded(facts: Facts, guards: Sequence[Guard]) -> Facts:
    """Facts where guards do not hold: something new where there is one."""
    if len(guards) != 1:
        return facts
    index = guards[0].index
    low, high = _range(index, facts)
    first, end = guards[0].low - index.const, guards[0].high - index.const
    if first <= low:
        low = max(low, end)
    elif end > high:
        high = min(high, first - 1)
    return {**facts, index - index.const: (low, high)}


def _open(guard: Guard, facts: Facts) -> Guard:
    """A guard without the bounds that facts imply."""
    low, high = _range(guard.index, facts)
    const, (least, most) = guard.index.const, guard.index.bounds
    return Guard(
        guard.index,
        least if facts and low + const >= guard.low else guard.low,
        most + 1 + slack(guard.index) if facts and high + const < guard.high else guard.high,
    )


def _range(index: Linear, facts: Facts) -> tuple[int, int]:
    """The range of an index without its constant."""
    form = index - index.const
    low, high = facts.get(form, form.bounds)
    if len(form.terms) == 1:  # as a multiple
        atom, factor = form.terms[0]
        known = facts.get(Linear(((atom, 1),), 0))
        if known is not None and factor > 0:
            low, high = max(low, known[0] * factor), min(high, known[1] * factor)
    return low, high


def settled(
    value: Expr,
    facts: Facts,
    failing: tuple[Guard, ...] | None = None,
    holding: Sequence[Guard] = (),
) -> Expr:
    """An expression without the conditions that facts decide, and those ``holding``; the guards
    ``failing`` do not hold all."""
    made: dict[int, Expr] = {}
    for item in sub_expressions(value):
        new = item
        if isinstance(item, Call):
            new = call(item.fn, *(made[id(a)] for a in item.args), dtype=item.dtype)
        elif isinstance(item, Guarded):
            inside, other = made[id(item.value)], made[id(item.other)]
            known = {g: True if g in holding else _decided(g, facts) for g in item.guards}
            left = tuple(g for g in item.guards if known[g] is None)
            if item.guards == failing or False in known.values():
                new = other
            else:
                new = Guarded(left, inside, other) if left else inside
        made[id(item)] = new
    return made[id(value)]


def _decided(guard: Guard, facts: Facts) -> bool | None:
    """Whether a guard holds; None where that is not known."""
    low, high = _range(guard.index, facts)
    if (low, high) == (guard.index - guard.index.const).bounds:
        return None  # other sizes may know less
    first, end = guard.low - guard.index.const, guard.high - guard.index.const
    if first <= low and high < end:
        return True
    return False if high < first or low >= end else None


# The copy of a sliding operand: where its elements lie, and the C that makes it.


class Copy(NamedTuple):
    """How a part of the operand lies in memory, in elements.

    Attributes:
        value: the operand.
        tracks: the axes along which it is read; of the first one a chunk.
        free: its other axes.
        pitches: distances of neighbours along the tracks.
        slot_pitches: distances of a track's pieces.
        free_pitches: distances along the free axes.
        run: from the first element of a whole chunk to behind its last, for one tap.
        reach: the largest distance between what a tap reads and what the first one does.
        size: all of it.
    """

    value: Expr
    tracks: tuple[Track, ...]
    free: tuple[Axis, ...]
    pitches: tuple[int, ...]
    slot_pitches: tuple[int, ...]
    free_pitches: tuple[int, ...]
    run: int
    reach: int
    size: int


def lay_copy(
    value: Expr, tracks: Sequence[Track], chunk: int, free: Sequence[Axis], line: int
) -> Copy:
    """The copy of a chunk of the first track; ``line`` elements fill a line of the cache."""
    spans = [chunk, *(t.axis.extent for t in tracks[1:])]
    pitches = [1] * len(tracks)
    tail = 0
    for n in range(len(tracks) - 1, 0, -1):
        span = _shared_span(value, tuple(tracks), n)
        tail += (spans[n] + tracks[n].reach() - span) * pitches[n]
        pitches[n - 1] = pitches[n] * span
    size = pitches[0] * (spans[0] + tracks[0].reach()) + tail
    slots = [1] * len(tracks)
    for n in range(len(tracks) - 1, -1, -1):
        slots[n], size = size, size * tracks[n].slots
    size = round_up(size, line) | line  # an odd number of lines spreads over the cache
    frees = [0] * len(free)
    for n in range(len(free) - 1, -1, -1):
        frees[n], size = size, size * free[n].extent
    reach = sum((a.extent - 1) * p for a, p in zip(free, frees, strict=True))
    for track, pitch, slot in zip(tracks, pitches, slots, strict=True):
        if track.tap is not None:
            taps = range(track.tap.extent)
            reach += max(track.shift(t) * pitch + track.slot(t) * slot for t in taps)
    run = 1 + sum((n - 1) * p for n, p in zip(spans, pitches, strict=True))
    return Copy(
        value, tuple(tracks), tuple(free), tuple(pitches), tuple(slots), tuple(frees),
        run, reach, size,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _shared_span(value: Expr, tracks: tuple[Track, ...], number: int) -> int:
    """Elements of a track that the copy has for each of the track before. What lies before a row
    may be what lies behind the one above, where both are padding."""
    result = 0
    for pieces in product(*(range(t.pieces) for t in tracks)):
        table: dict[Axis, Linear] = {}
        places: list[Axis] = []
        for track, piece in zip(tracks, pieces, strict=True):
            places.append(Axis(f"g_q{len(places)}", track.axis.extent + track.reach(piece)))
            table |= track.table(piece, variable(places[-1]))
        lane = places[number]
        span = lane.extent
        _, inside, rest, other = split_guards(at_axes(value, table), lane)
        mixed = isinstance(rest, Guarded) and rest.other is other
        if inside is not None and isinstance(other, Const) and not mixed:
            span = max(inside[1], span - inside[0])
        result = max(result, span)
    return result


class SlideText(RunText):
    """Text of a kernel with a sliding operand: what all of its forms share.

    The copy is ``g_x``; ``g_p0`` and ``g_p1`` bound the chunk of the first track.
    """

    @contextmanager
    def over(self, axes: Sequence[Axis]) -> Iterator[None]:
        """Loops over axes."""
        with ExitStack() as stack:
            for axis in axes:
                stack.enter_context(self.out.loop(axis.name, 0, axis.extent))
            yield

    def decode(self, flat: str, axes: Sequence[Axis]) -> None:
        """Declare axes by their flat position, a name or something in parentheses."""
        stride = prod(a.extent for a in axes)
        for number, axis in enumerate(axes):
            stride //= axis.extent
            text = flat if stride == 1 else f"{flat} / {stride}"
            if number:
                text = f"{text} % {axis.extent}"
            self.out.add(f"const lz_i64 {axis.name} = {text};")

    def flat(self, axes: Sequence[Axis]) -> str:
        """The flat position of axes, without parentheses."""
        text = ""
        for axis in axes:
            text = f"({text}) * {axis.extent} + {axis.name}" if text else axis.name
        return text or "0"

    def shifts(self, copy: Copy, axes: Sequence[Axis]) -> str:
        """How far from the element of the first tap that of others lies, for these axes."""
        terms = [
            f"{axis.name} * {pitch}"
            for axis, pitch in zip(copy.free, copy.free_pitches, strict=True)
            if axis in axes
        ]
        for track, pitch, slots in zip(copy.tracks, copy.pitches, copy.slot_pitches, strict=True):
            if track.tap in axes:
                terms += _shifted(track, pitch, slots)
        return " + ".join(terms) or "0"

    def offset_of(self, copy: Copy, start: str = "g_p0") -> str:
        """Where in the copy the first tap's element for a point of the tracks lies, from point
        ``start`` of the first track on."""
        terms = []
        for number, (track, pitch) in enumerate(zip(copy.tracks, copy.pitches, strict=True)):
            name = track.axis.name if number else f"({track.axis.name} - {start})"
            terms.append(name if pitch == 1 else f"{name} * {pitch}")
        return " + ".join(terms)

    def fill(self, copy: Copy, part: tuple[Axis, str, str] | None = None) -> None:
        """Make the copy; ``part``: only a range of a free axis, from its beginning on."""
        for pieces in product(*(range(t.pieces) for t in copy.tracks)):
            with self.out.block():
                self._fill_piece(copy, pieces, part)

    def _fill_piece(
        self, copy: Copy, pieces: Sequence[int], part: tuple[Axis, str, str] | None
    ) -> None:
        """One piece of the operand: elements of the same remainders by the strides."""
        out = self.out
        table: dict[Axis, Linear] = {}
        places: list[Axis] = []
        start = 0
        for track, piece, slots in zip(copy.tracks, pieces, copy.slot_pitches, strict=True):
            place = Axis(f"g_q{len(places)}", track.axis.extent + track.reach(piece))
            table |= track.table(piece, variable(place))
            places.append(place)
            if track.tap is not None:
                start += track.slot(piece) * slots
        *rows, lane = places
        end = f"g_p1 + {copy.tracks[0].reach(pieces[0])}"
        terms = [str(start)] if start else []
        with ExitStack() as stack:
            for axis, pitch in zip(copy.free, copy.free_pitches, strict=True):
                bounds, name = (("0", str(axis.extent)), axis.name)
                if part is not None and part[0] == axis:
                    bounds, name = part[1:], f"({axis.name} - {part[1]})"
                stack.enter_context(out.loop(axis.name, *bounds))
                terms.append(f"{name} * {pitch}")
            for number, place in enumerate(rows):
                bounds, name = (("0", str(place.extent)), place.name)
                if number == 0:
                    bounds, name = ("g_p0", end), f"({place.name} - g_p0)"
                stack.enter_context(out.loop(place.name, *bounds))
                terms.append(f"{name} * {copy.pitches[number]}")
            begin, stop = ("0", str(lane.extent)) if rows else ("g_p0", end)
            terms.append(lane.name if rows else f"{lane.name} - g_p0")
            target = f"g_x[{' + '.join(terms)}]"
            self.fill_run(lane, begin, stop, target, at_axes(copy.value, table))


def _shifted(track: Track, pitch: int, slots: int) -> list[str]:
    """The part of a shift that the taps of a track make."""
    assert track.tap is not None
    name = track.tap.name
    if track.stride == 1:
        return [f"{name} * {track.dilation * pitch}"]
    scaled = name if track.dilation == 1 else f"{name} * {track.dilation}"
    unit = track.stride // track.slots
    slot = f"{scaled} % {track.stride}"
    slot = f"({slot}) / {unit}" if unit > 1 else f"({slot})"
    return [f"{scaled} / {track.stride} * {pitch}", f"{slot} * {slots}"]
