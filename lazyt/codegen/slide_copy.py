"""The copy of a sliding operand: where its elements lie, and the C that makes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from lazyt.codegen.contract_spec import round_up
from lazyt.codegen.slide import Track, at_axes, split_guards
from lazyt.codegen.slide_runs import RunText
from lazyt.ir.index import Axis, Linear, variable
from lazyt.ir.point import Guarded
from lazyt.ir.scalar import Const, Expr


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

    def places(self, copy: Copy, start: str = "g_p0") -> str:
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
