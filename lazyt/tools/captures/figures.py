"""Figures of a report, as SVG: where time goes, the roofline, and the arena over launches."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lazyt.ir.program import Program

_WIDTH, _HEIGHT = 520, 300
_LEFT, _BOTTOM, _TOP, _RIGHT = 58, 40, 14, 16
#: Rectangles of the arena by what their launch does with them.
_FILL = {"work": "#e8d5c4", "value": "#c7dbf5"}


def svg(width: float, height: float, body: str, title: str) -> str:
    """A picture of this size."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{html.escape(title, quote=True)}">{body}</svg>'
    )


def is_wide(picture: str) -> bool:
    """Whether a picture has more columns than fit beside others."""
    found = re.match(r'<svg [^>]*?width="(\d+)"', picture)
    return found is not None and int(found[1]) > _WIDTH


def bars(rows: Sequence[tuple[str, float, str]], title: str) -> str:
    """Seconds as bars.

    Args:
        rows: a name, seconds, and the keys of what it belongs to.
        title: what they are.
    """
    if not rows:
        return ""
    longest = max(seconds for _, seconds, _ in rows) or 1.0
    parts = []
    for number, (name, seconds, keys) in enumerate(rows):
        y = 4 + 20 * number
        width = 200 * seconds / longest
        parts.append(
            f'<text x="196" y="{y + 12}" text-anchor="end">{html.escape(_short(name))}</text>'
            f'<rect x="204" y="{y + 2}" width="{max(width, 1):.1f}" height="13" rx="2" '
            f'fill="#7aa7e0"{_keys(keys)}><title>{html.escape(name)}</title></rect>'
            f'<text x="{210 + width:.1f}" y="{y + 12}" class="dim">{duration(seconds)}</text>'
        )
    return svg(_WIDTH, 8 + 20 * len(rows), "".join(parts), title)


def duration(seconds: float) -> str:
    """Seconds in a unit that people read."""
    for least, factor, unit in ((1, 1, "s"), (1e-3, 1e3, "ms"), (0, 1e6, "us")):
        if seconds >= least:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def size(nbytes: float) -> str:
    """Bytes in a unit that people read."""
    for least, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if nbytes >= least:
            return f"{nbytes / least:.3g} {unit}"
    return f"{nbytes:.0f} B"


def _short(text: str) -> str:
    return text if len(text) <= 30 else text[:29] + "…"


def _keys(keys: str) -> str:
    return f' data-k="{html.escape(keys, quote=True)}" tabindex="0"' if keys else ""


class Point(NamedTuple):
    """A launch or a workload in the roofline: what it moves and does, how long that took, what it
    belongs to, and the framework whose colour it has."""

    name: str
    nbytes: float
    flops: float
    seconds: float
    keys: str
    framework: str = ""


#: Colours of frameworks, in the order in which they appear.
_COLOURS = ("#3f7fd0", "#e08a00", "#1b1b1b", "#8e44ad", "#15a39a", "#c2577e", "#8a8a8a")
#: What a page says of its texts, for pictures in files of their own.
_TEXTS = "<style>text { font: 12px system-ui, sans-serif } .dim { fill: #667 }</style>"


def roofline(points: Sequence[Point], bandwidth: float, peak: float, alone: bool = False) -> str:
    """Operations per second over operations per byte, both logarithmic, below the machine's bounds
    (Williams, Waterman and Patterson, 2009).

    Args:
        points: launches or workloads; those that do no arithmetic, or have no time, are left out.
        bandwidth, peak: bytes and operations per second at best.
        alone: whether the picture stands in no page, so that points have their names beside
            them, those of the first framework where there are several.
    """
    shown = [p for p in points if p.nbytes > 0 and p.flops > 0 and p.seconds > 0]
    if not shown:
        return ""
    ridge = peak / bandwidth
    intensity = [p.flops / p.nbytes for p in shown] + [ridge]
    speed = [p.flops / p.seconds for p in shown] + [peak]
    x0, x1 = math.log10(min(intensity) / 2), math.log10(max(intensity) * 4)
    low = min(*speed, bandwidth * min(intensity))
    y0, y1 = math.log10(low / 2), math.log10(max(speed) * 2)
    across, down = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        left = _LEFT + across * (math.log10(x) - x0) / (x1 - x0)
        return left, _TOP + down * (1 - (math.log10(y) - y0) / (y1 - y0))

    parts = [_TEXTS] if alone else []
    parts += _grid((x0, x1), (y0, y1), place)
    start, end = max(10**x0, 10**y0 / bandwidth), 10**x1
    roof = [(start, bandwidth * start), (ridge, peak), (end, peak)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*corner) for corner in roof))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#b3261e" stroke-width="1.6"/>')
    frameworks = list(dict.fromkeys(point.framework for point in shown))
    colours = {name: _COLOURS[n % len(_COLOURS)] for n, name in enumerate(frameworks)}
    for point in shown:
        x, y = place(point.flops / point.nbytes, point.flops / point.seconds)
        share = point.flops / point.seconds / min(peak, bandwidth * point.flops / point.nbytes)
        label = (
            f"{_who(point)}: {duration(point.seconds)}, {size(point.nbytes)}, "
            f"{point.flops / point.seconds / 1e9:.3g} GFLOP/s, {share:.0%} of the bound"
        )
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" fill="{colours[point.framework]}" '
            f'fill-opacity=".75" stroke="#fff"{_keys(point.keys)}>'
            f"<title>{html.escape(label)}</title></circle>"
        )
        if alone and point.framework == frameworks[0]:
            # A name may not leave the picture.
            beside, anchor = (x - 8, "end") if x > _LEFT + across / 2 else (x + 8, "start")
            parts.append(
                f'<text x="{beside:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">'
                f"{html.escape(_short(point.name))}</text>"
            )
    parts += _legend(colours)
    parts.append(
        f'<text x="{_LEFT + across / 2:.0f}" y="{_HEIGHT - 6}" text-anchor="middle" class="dim">'
        "operations per byte</text>"
        f'<text transform="translate(12 {_TOP + down / 2:.0f}) rotate(-90)" '
        'text-anchor="middle" class="dim">GFLOP/s</text>'
    )
    return svg(_WIDTH, _HEIGHT, "".join(parts), "roofline")


def _legend(colours: Mapping[str, str]) -> list[str]:
    """A line for each framework, at the bottom on the right; none where there are no frameworks."""
    parts = []
    for number, (name, colour) in enumerate(reversed(list(colours.items()))):
        if name:
            y = _HEIGHT - _BOTTOM - 4 - 14 * number
            parts.append(
                f'<circle cx="{_WIDTH - 74}" cy="{y - 4}" r="4" fill="{colour}"/>'
                f'<text x="{_WIDTH - 66}" y="{y}">{html.escape(name)}</text>'
            )
    return parts


def _who(point: Point) -> str:
    return f"{point.name}, {point.framework}" if point.framework else point.name


def _grid(xs: tuple[float, float], ys: tuple[float, float], place: object) -> list[str]:
    assert callable(place)
    parts = []
    for power in range(math.ceil(xs[0]), math.floor(xs[1]) + 1):
        x, _ = place(10.0**power, 10 ** ys[0])
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#eee"/>'
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="middle" class="dim">'
            f"{10.0**power:g}</text>"
        )
    for power in range(math.ceil(ys[0]), math.floor(ys[1]) + 1):
        _, y = place(10 ** xs[0], 10.0**power)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#eee"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" class="dim">'
            f"{10.0**power / 1e9:g}</text>"
        )
    return parts


class Span(NamedTuple):
    """A place in the arena, and the launches from the first to the last that use it."""

    slot: int
    first: int
    last: int
    value: str
    is_work: bool
    keys: str


def spans(
    program: Program, launches: Sequence[Mapping[str, object]], keys: Sequence[str]
) -> list[Span]:
    """What lies in the arena, and when; ``keys`` are those of each launch."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    told: dict[int, tuple[str, bool]] = {}
    for step, (launch, facts) in enumerate(zip(program.launches, launches)):
        listed = facts["arguments"]
        assert isinstance(listed, list)
        for number, argument in zip(launch.slots, listed):
            if program.slots[number].kind == "arena":
                first.setdefault(number, step)
                last[number] = step
                told.setdefault(number, (argument["value"], argument["role"] == "work"))
    found = []
    for number, begin in first.items():
        together = " ".join(dict.fromkeys(f"{keys[begin]} {keys[last[number]]}".split()))
        found.append(Span(number, begin, last[number], *told[number], together))
    return found


def arena(program: Program, found: Sequence[Span]) -> str:
    """The arena's bytes, upwards, over the launches."""
    if not found or not program.arena_bytes:
        return ""
    count = len(program.launches)
    width = max(_WIDTH, _LEFT + _RIGHT + 14 * count)
    across, down = width - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    column = across / count
    parts = [
        f'<rect x="{_LEFT}" y="{_TOP}" width="{across:.1f}" height="{down}" fill="#fafafa" '
        'stroke="#ddd"/>'
    ]
    for span in found:
        slot = program.slots[span.slot]
        x, wide = _LEFT + column * span.first, column * (span.last - span.first + 1)
        high = down * slot.nbytes / program.arena_bytes
        y = _TOP + down - down * slot.offset / program.arena_bytes - high
        name = span.value or "scratch"
        label = (
            f"{name}: {size(slot.nbytes)} at {slot.offset}, launches {span.first} to {span.last}"
        )
        fill = _FILL["work" if span.is_work else "value"]
        parts.append(
            f"<g{_keys(span.keys)}><title>{html.escape(label)}</title>"
            f'<rect x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(wide - 1, 1):.1f}" '
            f'height="{max(high, 1):.1f}" fill="{fill}" stroke="#7a8aa0" stroke-width=".7"/>'
        )
        if high >= 12 and wide >= 7 * len(name):
            parts.append(f'<text x="{x + wide / 2:.1f}" y="{y + high / 2 + 4:.1f}" '
                         f'text-anchor="middle">{html.escape(name)}</text>')  # fmt: skip
        parts.append("</g>")
    every = max(1, math.ceil(count / (across / 26)))
    for step in range(0, count, every):
        x = _LEFT + column * (step + 0.5)
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="middle" '
                     f'class="dim">{step}</text>')  # fmt: skip
    parts.append(
        f'<text x="{_LEFT + across / 2:.0f}" y="{_HEIGHT - 6}" text-anchor="middle" class="dim">'
        "launch</text>"
        f'<text x="{_LEFT - 6}" y="{_TOP + 8}" text-anchor="end" class="dim">'
        f"{size(program.arena_bytes)}</text>"
        f'<text x="{_LEFT - 6}" y="{_TOP + down}" text-anchor="end" class="dim">0</text>'
    )
    return svg(width, _HEIGHT, "".join(parts), "the arena over launches")
