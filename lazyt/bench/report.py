"""A run as a table for people: a row for each workload, a column for each framework."""

from __future__ import annotations

import csv
import html
import importlib
import io
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lazyt.bench.comparison import FASTER, SLOWER, Change, Rules
from lazyt.bench.fast_p import rows, shares
from lazyt.bench.frameworks import PEERS
from lazyt.bench.results import Result, Run, geometric_mean
from lazyt.bench.statistics import Interval

# Two runs side by side: what became faster, and what slower.


def comparison_table(changes: Sequence[Change], rules: Rules) -> Table:
    """A row for each change: both times, their ratio, and how sure it is."""
    rows, styles = [], []
    for change in changes:
        p = "-" if change.p is None else f"{change.p:.3f}"
        cells = [format_time(change.before), format_time(change.after)]
        cells += [_interval(change.ratio), _interval(change.beside), p, change.verdict]
        rows.append([change.workload, change.framework, *cells])
        styles.append("red" if change.fails else _VERDICT_STYLES.get(change.verdict, ""))
    head = ["workload", "framework", "before", "after", "after : before", "beside control", "p"]
    title = f"after divided by before, {100 - 100 * rules.allowed:.4g} % intervals"
    return Table(title, [*head, "verdict"], rows, styles)


_VERDICT_STYLES = {SLOWER: "yellow", FASTER: "green"}


def _interval(found: Interval | None) -> str:
    return "-" if found is None else f"{found.ratio:.3f} [{found.low:.3f}, {found.high:.3f}]"


# A run as a picture: lazyt's ratio to the best peer for each workload, on a page or as a PNG.


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


def to_csv(run: Run) -> str:
    """A line for each workload and framework, seconds as numbers, with names of columns first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ["workload", "suite", "framework", "version", "median_s", "min_s", "first_s", "again_s"]
    writer.writerow([*head, "ratio_to_best_peer", "of_limit", "bytes", "flops", "error", "problem"])
    for result in run.results:
        ratio = run.ratio(result.workload) if result.framework == "lazyt" else None
        row: list[object] = [result.workload, result.suite, result.framework, result.version]
        row += [result.median, result.least, result.cold_first_s, result.warm_first_s]
        row += [ratio, run.share(result), result.nbytes, result.flops, result.error]
        writer.writerow([*row, result.problem or result.absent])
    return text.getvalue()


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(text)}</th>" for text in table.head)
    lines = [f"<h2>{html.escape(table.title)}</h2>\n<table><tr>{head}</tr>"]
    for number, row in enumerate(table.rows):
        cells = "".join(f"<td>{html.escape(text)}</td>" for text in row)
        style = table.styles[number].split()[-1:] if table.styles else []
        lines.append(f'<tr class="{"".join(style)}">{cells}</tr>')
    return "\n".join([*lines, "</table>"])


def to_html(run: Run) -> str:
    """A page that needs nothing else: the bars, the tables, the machine."""
    tables = [table for table in (fast_p_table(run), main_table(run)) if table is not None]
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in summary(run))
    facts = "; ".join(f"{key}: {run.machine.get(key)}" for key in ("cpu", "cores", "compiler"))
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>lazyt bench</title>'
        f"<style>{_STYLE}</style>\n<h1>lazyt beside its peers</h1>\n"
        f"<p>{html.escape(str(run.machine.get('date')))}; {html.escape(facts)}</p>\n"
        f"<ul>{lines}</ul>\n<h2>lazyt's time divided by the best peer's</h2>\n"
        f"{_svg(run)}\n{chr(10).join(map(_html_table, tables))}\n</html>\n"
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


@dataclass
class Table:
    """Cells of text; the first column is to the left, the others to the right.

    Attributes:
        styles: how to print a row, where it is not as usual (a style of ``rich``).
    """

    title: str
    head: list[str]
    rows: list[list[str]]
    styles: list[str] = field(default_factory=list)

    def plain(self) -> str:
        """The table as lines of text."""
        everything = [self.head, *self.rows]
        widths = [max(len(row[c]) for row in everything) for c in range(len(self.head))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(t.rjust(w) for t, w in zip(row[1:], widths[1:]))])
            for row in everything
        ]
        return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])

    def show(self) -> None:
        """Prints the table, in colours where ``rich`` is installed and a person looks."""
        if sys.stdout.isatty():
            try:
                self._show_rich()
                return
            except ImportError:
                print("(colours and a progress bar need `rich`)")
        print(f"{self.title}\n{self.plain()}")

    def _show_rich(self) -> None:
        tables = importlib.import_module("rich.table")
        console = importlib.import_module("rich.console").Console()
        drawn = tables.Table(title=self.title, title_justify="left")
        for number, text in enumerate(self.head):
            drawn.add_column(text, justify="left" if number == 0 else "right")
        for number, row in enumerate(self.rows):
            drawn.add_row(*row, style=self.styles[number] if self.styles else None)
        console.print(drawn)


def format_time(seconds: float | None) -> str:
    """Three digits, in a fitting unit; a dash for None."""
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def format_bytes(count: int | None) -> str:
    """Megabytes; a dash for None."""
    return "-" if count is None else f"{count / 1e6:.0f} MB"


def _cell(run: Run, result: Result | None) -> str:
    if result is None or result.absent:
        return "-"
    if result.problem:
        return "wrong" if result.problem.startswith("wrong") else "failed"
    return format_time(run.seconds(result))


def _style(ratio: float | None, own: Result | None) -> str:
    if own is not None and own.problem:
        return "bold red"
    if ratio is None:
        return ""
    return "green" if ratio < 1 else "yellow" if ratio <= 1.3 else "red"


def main_table(run: Run) -> Table:
    """Times, lazyt's ratio to the best peer, and lazyt's first calls, memory and kernels."""
    found = run.found()
    frameworks = run.frameworks()
    extra = ["lazyt : best", "of limit", "first", "again", "memory", "kernels"]
    head = ["workload", *frameworks, *extra]
    rows, styles = [], []
    for name in run.workloads():
        own, ratio = found.get((name, "lazyt")), run.ratio(name)
        times = [_cell(run, found.get((name, framework))) for framework in frameworks]
        shown = "-" if ratio is None else f"{ratio:.2f}"
        rows.append([name, *times, shown, *_own_cells(run, own)])
        styles.append(_style(ratio, own))
    by = "best samples" if run.settings.get("by") == "min" else "medians"
    return Table(f"seconds of a warm call, {by}", head, rows, styles)


def _own_cells(run: Run, own: Result | None) -> list[str]:
    if own is None or run.seconds(own) is None:
        return ["-"] * 5
    share = run.share(own)
    grown = None
    if own.peak_bytes is not None and own.base_bytes is not None:
        grown = own.peak_bytes - own.base_bytes
    return [
        "-" if share is None else f"{100 * share:.0f} %",
        format_time(own.cold_first_s),
        format_time(own.warm_first_s),
        format_bytes(grown),
        "-" if own.kernels is None else str(own.kernels),
    ]


def fast_p_table(run: Run) -> Table | None:
    """The shares of problems that are right and fast; None for a run without levels."""
    lines = shares(run)
    if not lines:
        return None
    title = "right and at least p times as fast as the peer; the median of peer : lazyt"
    return Table(title, *rows(lines))


def summary(run: Run) -> list[str]:
    """What the table comes to: means of the ratios, counts, and each problem in a line."""
    lines = []
    ratios = [ratio for name in run.workloads() if (ratio := run.ratio(name)) is not None]
    mean = geometric_mean(ratios)
    if mean is not None:
        ahead = sum(ratio < 1 for ratio in ratios)
        lines.append(
            f"lazyt : best peer, geometric mean of {len(ratios)}: {mean:.2f}; faster than every "
            f"peer in {ahead}; slower than 1.3 of the best in {sum(r > 1.3 for r in ratios)}"
        )
    lines += _means_by_peer(run)
    if run.bandwidth and run.peak:
        lines.append(
            f"the machine: {run.bandwidth / 1e9:.1f} GB/s into warm buffers, "
            f"{run.peak / 1e9:.0f} GFLOP/s in float32, {run.settings.get('threads')} threads"
        )
    elif run.bandwidth and "gpu" in run.machine:
        lines.append(f"{run.machine['gpu']['name']}: {run.bandwidth / 1e9:.1f} GB/s in copies")
    told = [(r, r.problem or r.note) for r in run.results]
    lines += [f"{r.workload}, {r.framework}: {text}" for r, text in told if text]
    return lines


def _means_by_peer(run: Run) -> Sequence[str]:
    found, parts = run.found(), []
    for other in ("lazy", *PEERS):
        ratios = []
        for name in run.workloads():
            own = run.seconds(found.get((name, "lazyt")))
            theirs = run.seconds(found.get((name, other)))
            if own is not None and theirs is not None:
                ratios.append(own / theirs)
        mean = geometric_mean(ratios)
        if mean is not None:
            parts.append(f"{other} {mean:.2f} ({len(ratios)})")
    return [f"lazyt divided by each other, geometric means: {', '.join(parts)}"] if parts else []
