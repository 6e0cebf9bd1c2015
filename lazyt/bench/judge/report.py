"""Verdicts as a table, as JSON, and as a page that needs nothing else."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from lazyt.bench.judge.verdicts import KINDS, Verdict, fast
from lazyt.bench.report import Table, format_time
from lazyt.bench.results import describe_machine

SCHEMA = 1
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0; }
td, th { padding: .2em .7em; border-bottom: 1px solid #8884; text-align: right; }
td:first-child, th:first-child, td:last-child { text-align: left; }
.accepted { color: #2f9e58 } .refused { color: #d1453b }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
:root { color-scheme: light dark; }
"""
_WIDTH, _ROW, _LABEL = 420, 20, 260


def _ratio(found: tuple[float, float, float] | None) -> str:
    return "-" if found is None else f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})"


def _typical(times: Sequence[float]) -> float | None:
    return sorted(times)[len(times) // 2] if times else None


def table(verdicts: Sequence[Verdict]) -> Table:
    """A row for each submission."""
    head = ["submission", "task", "verdict", "warm", "cold", "speed-up", "cold", "of limit"]
    rows, styles = [], []
    for v in verdicts:
        share = "-" if v.share is None else f"{100 * v.share:.0f} %"
        times = [format_time(_typical(found)) for found in (v.times.warm, v.times.cold)]
        rows.append(
            [v.submission, v.task, v.kind, *times, _ratio(v.speedup), _ratio(v.speedup_cold), share]
        )
        styles.append("green" if v.accepted else "red")
    return Table(
        "seconds of a call; speed-up over the baseline, 95 % intervals", head, rows, styles
    )


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """What it comes to: ``fast_p``, and a sentence for each refusal."""
    shares = ", ".join(f"fast_{p} {fast(list(verdicts), p):.2f}" for p in (0, 1, 2))
    good = sum(v.accepted for v in verdicts)
    lines = [f"{good} of {len(verdicts)} accepted; {shares}"]
    for v in verdicts:
        if not v.accepted:
            lines.append(f"{v.submission}: {v.kind}: {v.evidence} ({KINDS[v.kind]})")
        lines += [f"{v.submission}: {note}" for note in v.notes]
    return lines


def to_json(verdicts: Sequence[Verdict]) -> str:
    """All that is known, with the seeds: ``form`` is 1."""
    facts = {
        "form": SCHEMA,
        "machine": describe_machine(),
        "fast": {f"fast_{p}": fast(list(verdicts), p) for p in (0, 1, 2)},
        "verdicts": [v.facts() for v in verdicts],
    }
    return json.dumps(facts, indent=1) + "\n"


def _bars(verdicts: Sequence[Verdict]) -> str:
    """Speed-ups with their intervals."""
    known = [(v.submission, v.speedup) for v in verdicts if v.speedup is not None]
    if not known:
        return ""
    most = max(2.0, *(found[2] for _, found in known))
    height = _ROW * (len(known) + 1)
    parts = [f'<svg width="{_LABEL + _WIDTH + 90}" height="{height}" role="img">']
    for power in (1, 2):
        x = _LABEL + power / most * _WIDTH
        parts.append(
            f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height - _ROW}" stroke="currentColor" '
            f'stroke-opacity=".4"/><text x="{x:.1f}" y="{height - 5}" text-anchor="middle">'
            f"{power}</text>"
        )
    for number, (name, (ratio, low, high)) in enumerate(known):
        y = _ROW * number
        ends = [_LABEL + value / most * _WIDTH for value in (low, high)]
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 14}" text-anchor="end">{html.escape(name)}</text>'
            f'<rect x="{_LABEL}" y="{y + 3}" width="{ratio / most * _WIDTH:.1f}" height="13" '
            f'fill="{"#2f9e58" if low > 1 else "#8a8f98"}"/>'
            f'<line x1="{ends[0]:.1f}" y1="{y + 9}" x2="{ends[1]:.1f}" y2="{y + 9}" '
            f'stroke="currentColor" stroke-width="2"/>'
            f'<text x="{_LABEL + _WIDTH + 8}" y="{y + 14}">{ratio:.2f}</text>'
        )
    return "\n".join([*parts, "</svg>"])


def to_html(verdicts: Sequence[Verdict]) -> str:
    """A page that needs nothing else: shares, speed-ups, verdicts with their evidence, seeds."""
    found = table(verdicts)
    head = "".join(f"<th>{html.escape(text)}</th>" for text in [*found.head, "evidence"])
    rows = []
    for row, v in zip(found.rows, verdicts):
        told = "; ".join([*([v.evidence] if v.evidence else []), *v.notes])
        cells = "".join(f"<td>{html.escape(text)}</td>" for text in [*row, told])
        rows.append(f'<tr class="{"accepted" if v.accepted else "refused"}">{cells}</tr>')
    machine = describe_machine()
    facts = "; ".join(f"{key}: {machine.get(key)}" for key in ("cpu", "cores", "compiler", "date"))
    seeds = "".join(f"<li>{html.escape(v.submission)}: {v.seed:#x}</li>" for v in verdicts)
    lines = f"<p>{html.escape(summary(verdicts)[0])}</p>"
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>lazyt judge</title>'
        f"<style>{_STYLE}</style>\n<h1>Judged kernels</h1>\n<p>{html.escape(facts)}</p>\n{lines}\n"
        f"<h2>Speed-up over the baseline</h2>\n{_bars(verdicts)}\n"
        f"<h2>Verdicts</h2>\n<table><tr>{head}</tr>\n{chr(10).join(rows)}\n</table>\n"
        f"<h2>Seeds</h2>\n<p>Inputs were drawn from these, fresh for every judgement.</p>\n"
        f"<ul>{seeds}</ul>\n</html>\n"
    )
