"""How much memory was in use at which time: as a page, as a picture, as numbers."""

from __future__ import annotations

import gzip
import html
import json
from collections.abc import Callable, Sequence
from enum import Enum

from lazyt.autograd.profiler import FunctionEvent
from lazyt.errors import warn

# Which steps of a program a profile records.


class ProfilerAction(Enum):
    """What a profile does during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ProfilerActivity(Enum):
    """What a profile can look at. Here it is always the CPU."""

    CPU = 0
    XPU = 1
    CUDA = 2
    MTIA = 3
    HPU = 4
    PrivateUse1 = 5


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """For ``profile(schedule=...)``: leaves out ``skip_first`` steps, then goes in cycles of
    ``wait`` steps without a profile, ``warmup`` steps and ``active`` steps that are recorded.

    Args:
        repeat: how many cycles; 0 for all that come.
        skip_first_wait: not 0 to leave out ``wait`` in the first cycle.

    Warns where there is no warm-up. Raises AssertionError for negative numbers and without active
    steps.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} "
            f"(need >= 0), active={active} (need > 0), repeat={repeat} (need >= 0), "
            f"skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warn("Profiler won't be using warmup, this can skew profiler results")
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


Samples = Sequence[tuple[float, int, int]]
Scale = Callable[[float], float]
#: Of the drawing, in units of the page.
_WIDTH, _HEIGHT, _LEFT, _BELOW, _ROW = 1000.0, 320.0, 70.0, 24.0, 18.0
_MOST_RANGES = 400

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Memory timeline</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff; }}
svg {{ width: 100%; height: auto; }}
.tensors {{ fill: #4878a8; }} .scratch {{ fill: #e0943c; }}
.line {{ stroke: #ddd; }} text {{ font-size: 12px; fill: #444; }}
.range {{ fill: #cfe0cf; stroke: #7a9a7a; stroke-width: .5; }}
.plan {{ fill: #e6e6f2; stroke: #9a9ac0; stroke-width: .5; }}
.key {{ display: inline-block; width: 1em; height: 1em; vertical-align: -.15em; }}
</style></head><body>
<h1>Memory timeline</h1>
<p>{facts}</p>
<p><span class="key" style="background:#4878a8"></span> tensors
<span class="key" style="background:#e0943c; margin-left:1em"></span> values between the kernels of
a plan. Below: named ranges and plans; point at one to see its name.</p>
<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{facts}">
{body}
</svg></body></html>
"""


def write_timeline(
    path: str, samples: Samples, ranges: Sequence[FunctionEvent], origin: float
) -> None:
    """Writes the file that the ending of ``path`` asks for; see ``export_memory_timeline``.

    Args:
        samples: moments with the bytes of all tensors and of values between kernels.
        ranges: named ranges and plans, to be drawn below.
        origin: the moment that counts as 0.
    """
    if path.endswith(".html"):
        _write(path, _page(samples, ranges, origin))
    elif path.endswith((".json", ".json.gz")):
        times = [round(1e6 * (moment - origin), 3) for moment, *_ in samples]
        sizes = [[tensors, scratch] for _, tensors, scratch in samples]
        _write(path, json.dumps([times, sizes]))
    elif path.endswith(".png"):
        _draw(path, samples, origin)
    else:
        raise ValueError(f"a memory timeline ends in .html, .png, .json or .json.gz, not {path!r}")


def _write(path: str, text: str) -> None:
    data = text.encode()
    with open(path, "wb") as file:
        file.write(gzip.compress(data) if path.endswith(".gz") else data)


def peak(samples: Samples) -> tuple[float, int]:
    """The moment at which most memory was in use, and how many bytes."""
    moment, tensors, scratch = max(samples, key=lambda sample: sample[1] + sample[2])
    return moment, tensors + scratch


def _summary(samples: Samples, origin: float) -> str:
    moment, most = peak(samples)
    return f"peak {_bytes(most)} at {_time(moment - origin)}, {len(samples)} moments"


def _bytes(count: float) -> str:
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _marks(most: float, base: float) -> list[float]:
    """Round numbers from 0 to ``most``: multiples of 1, 2 or 5 times a power of ten of ``base``."""
    unit = base
    for factor in (2, 2.5, 2) * 12:
        if most / unit <= 6:
            break
        unit *= factor
    return [n * unit for n in range(int(most / unit) + 1)]


def _page(samples: Samples, ranges: Sequence[FunctionEvent], origin: float) -> str:
    begin, end = samples[0][0], max(samples[-1][0], samples[0][0] + 1e-9)
    most = 1.05 * max(peak(samples)[1], 1)

    def x(moment: float) -> float:
        inside = min(max(moment, begin), end) - begin
        return _LEFT + (_WIDTH - _LEFT - 10) * inside / (end - begin)

    def y(count: float) -> float:
        return _HEIGHT - (_HEIGHT - 10) * count / most

    body = []
    for mark in _marks(most, float(1 << max(0, int(most).bit_length() - 3) // 10 * 10)):
        body.append(f'<path class="line" d="M{_LEFT} {y(mark):.1f}H{_WIDTH - 10}"/>')
        body.append(f'<text x="{_LEFT - 6}" y="{y(mark) + 4:.1f}" text-anchor="end">')
        body.append(f"{_bytes(mark)}</text>")
    for mark in _marks(end - begin, 1e-6):
        body.append(f'<text x="{x(begin + mark):.1f}" y="{_HEIGHT + 15}" text-anchor="middle">')
        body.append(f"{_time(mark)}</text>")
    totals = [(moment, tensors + scratch) for moment, tensors, scratch in samples]
    body.append(f'<path class="scratch" d="{_steps(totals, x, y)}"/>')
    body.append(f'<path class="tensors" d="{_steps([(s[0], s[1]) for s in samples], x, y)}"/>')
    rows, depth = _bars(ranges, x, _HEIGHT + _BELOW)
    height = _HEIGHT + _BELOW + _ROW * depth + 4
    facts = html.escape(_summary(samples, origin))
    return _PAGE.format(facts=facts, width=_WIDTH, height=height, body="\n".join(body + rows))


def _steps(points: Sequence[tuple[float, float]], x: Scale, y: Scale) -> str:
    """An area under steps: each value holds until the next moment."""
    parts = [f"M{x(points[0][0]):.2f} {y(0):.2f}V{y(points[0][1]):.2f}"]
    parts += [f"H{x(moment):.2f}V{y(count):.2f}" for moment, count in points[1:]]
    return "".join(parts) + f"V{y(0):.2f}Z"


def _bars(ranges: Sequence[FunctionEvent], x: Scale, top: float) -> tuple[list[str], int]:
    """The longest ranges as bars, inner ones below outer ones, and how many rows they take."""
    chosen = sorted(ranges, key=lambda event: event.begin - event.end)[:_MOST_RANGES]
    made: list[str] = []
    deepest = 0
    for event in sorted(chosen, key=lambda event: event.begin):
        depth, outer = 0, event.cpu_parent
        while outer is not None:
            depth += outer.kind in ("range", "plan")
            outer = outer.cpu_parent
        deepest = max(deepest, depth + 1)
        left, right = x(event.begin), x(event.end)
        width, place = max(right - left, 0.5), top + _ROW * depth
        name = html.escape(event.name)
        made.append(
            f'<g><title>{name}, {_time(event.end - event.begin)}</title><rect class="{event.kind}" '
            f'x="{left:.2f}" y="{place:.0f}" width="{width:.2f}" height="{_ROW - 2:.0f}"/>'
        )
        if width > 7 * len(event.name):
            made.append(f'<text x="{left + 3:.1f}" y="{place + 12:.0f}">{name}</text>')
        made.append("</g>")
    return made, deepest


def _draw(path: str, samples: Samples, origin: float) -> None:
    """The same as a picture."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "a .png needs matplotlib (`pip install matplotlib`); or write an .html instead"
        ) from error
    times = [1e3 * (moment - origin) for moment, *_ in samples]
    tensors = [count / 2**20 for _, count, _ in samples]
    scratch = [count / 2**20 for _, _, count in samples]
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    axes = figure.subplots()
    layers = axes.stackplot(
        times, tensors, scratch, step="post", colors=("#4878a8", "#e0943c"),
        labels=("tensors", "values between the kernels of a plan"),
    )  # fmt: skip
    for layer in layers:
        layer.set_linewidth(0)
    axes.set(xlabel="ms", ylabel="MB", title=_summary(samples, origin), xlim=(times[0], times[-1]))
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=110)
