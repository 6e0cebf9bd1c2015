"""A run as a picture: lazyt's ratio to the best peer for each workload, on a page or as a PNG."""

from __future__ import annotations

import html
import importlib
import math
from pathlib import Path

from lazyt.bench.results import Run, geometric_mean
from lazyt.bench.table import main_table, summary

_BAR, _WIDTH, _LABEL = 18, 460, 280
_GREEN, _AMBER, _RED = "#2f9e58", "#d9a400", "#d1453b"
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .2em .7em; border-bottom: 1px solid #8884; text-align: right; }
td:first-child, th:first-child { text-align: left; }
.green { color: #2f9e58 } .yellow { color: #b38600 } .red { color: #d1453b }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
:root { color-scheme: light dark; }
"""


def _colour(ratio: float) -> str:
    return _GREEN if ratio < 1 else _AMBER if ratio <= 1.3 else _RED


def _ratios(run: Run) -> list[tuple[str, float]]:
    pairs = [(name, run.ratio(name)) for name in run.workloads()]
    return sorted([(n, r) for n, r in pairs if r is not None], key=lambda pair: pair[1])


def _svg(run: Run) -> str:
    """Bars from 1, to the left where lazyt is faster; the scale is logarithmic."""
    ratios = _ratios(run)
    reach = max([abs(math.log2(r)) for _, r in ratios] + [1.0])
    middle = _LABEL + _WIDTH / 2
    height = _BAR * (len(ratios) + 2)
    parts = [f'<svg width="{_LABEL + _WIDTH + 80}" height="{height}" role="img">']
    for number, (name, ratio) in enumerate(ratios):
        y, length = _BAR * (number + 1), math.log2(ratio) / reach * _WIDTH / 2
        x = middle + min(length, 0)
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 13}" text-anchor="end">{html.escape(name)}</text>'
            f'<rect x="{x:.1f}" y="{y + 2}" width="{max(abs(length), 1):.1f}" height="{_BAR - 4}" '
            f'fill="{_colour(ratio)}"/>'
            f'<text x="{_LABEL + _WIDTH + 8}" y="{y + 13}">{ratio:.2f}</text>'
        )
    for power in range(-math.floor(reach), math.floor(reach) + 1):
        x = middle + power / reach * _WIDTH / 2
        parts.append(
            f'<line x1="{x:.1f}" y1="{_BAR}" x2="{x:.1f}" y2="{height - _BAR}" '
            f'stroke="currentColor" stroke-opacity="{0.7 if power == 0 else 0.15}"/>'
            f'<text x="{x:.1f}" y="12" text-anchor="middle">{2.0**power:g}</text>'
        )
    return "\n".join([*parts, "</svg>"])


def to_html(run: Run) -> str:
    """A page that needs nothing else: the bars, the table, the machine."""
    table = main_table(run)
    head = "".join(f"<th>{html.escape(text)}</th>" for text in table.head)
    rows = []
    for number, row in enumerate(table.rows):
        cells = "".join(f"<td>{html.escape(text)}</td>" for text in row)
        style = table.styles[number].split()[-1:] if table.styles else []
        rows.append(f'<tr class="{"".join(style)}">{cells}</tr>')
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in summary(run))
    facts = "; ".join(f"{key}: {run.machine.get(key)}" for key in ("cpu", "cores", "compiler"))
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>lazyt bench</title>'
        f"<style>{_STYLE}</style>\n<h1>lazyt beside its peers</h1>\n"
        f"<p>{html.escape(str(run.machine.get('date')))}; {html.escape(facts)}</p>\n"
        f"<ul>{lines}</ul>\n<h2>lazyt's time divided by the best peer's</h2>\n"
        f"{_svg(run)}\n<h2>{html.escape(table.title)}</h2>\n"
        f"<table><tr>{head}</tr>\n{chr(10).join(rows)}\n</table>\n</html>\n"
    )


def write_png(run: Run, path: Path) -> None:
    """Draws the bars. Raises ImportError without matplotlib."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")
    ratios = _ratios(run)[::-1]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.22 * max(len(ratios), 4)))
    logs = [math.log2(ratio) for _, ratio in ratios]
    axes.barh(range(len(ratios)), logs, color=[_colour(ratio) for _, ratio in ratios])
    axes.set_yticks(range(len(ratios)), [name for name, _ in ratios], fontsize=7)
    powers = range(math.floor(min([*logs, -1])), math.ceil(max([*logs, 1])) + 1)
    axes.set_xticks(list(powers), [f"{2.0**power:g}" for power in powers])
    axes.axvline(0, color="black", linewidth=1)
    axes.margins(y=0.01)
    mean = geometric_mean(ratio for _, ratio in ratios)
    title = "" if mean is None else f", geometric mean {mean:.2f}"
    axes.set_title(f"lazyt's time divided by the best peer's{title}", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
