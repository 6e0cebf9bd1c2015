"""A run as a table for people: a row for each workload, a column for each framework."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from lazyt.bench.frameworks import PEERS
from lazyt.bench.results import Result, Run, geometric_mean


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
