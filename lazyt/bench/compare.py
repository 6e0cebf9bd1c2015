"""Two runs side by side: what became faster, and what slower."""

from __future__ import annotations

from lazyt.bench.results import Run, geometric_mean
from lazyt.bench.table import Table, format_time

#: Changes up to this factor are noise on most machines.
NOISE = 1.1


def compare(before: Run, after: Run) -> tuple[Table, list[str]]:
    """The pairs that both runs have, the largest change first, and what it comes to.

    A pair's change is the later time divided by the earlier one. Where both runs timed a peer, the
    change of lazyt's ratio to the best peer is shown too: it forgives a slower machine.
    """
    old, new = before.found(), after.found()
    pairs = []
    for key in (key for key in new if key in old):
        first, second = before.seconds(old[key]), after.seconds(new[key])
        if first is not None and second is not None:
            pairs.append((second / first, key, first, second))
    pairs.sort(key=lambda pair: (-pair[0], pair[1]))
    rows, styles = [], []
    for change, (workload, framework), first, second in pairs:
        ratios = [run.ratio(workload) if framework == "lazyt" else None for run in (before, after)]
        shown = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        cells = [format_time(first), format_time(second), f"{change:.2f}", *shown]
        rows.append([workload, framework, *cells])
        styles.append("red" if change > NOISE else "green" if change < 1 / NOISE else "")
    head = ["workload", "framework", "before", "after", "change", "ratio before", "ratio after"]
    return Table("after divided by before", head, rows, styles), _lines(before, after, pairs)


def _lines(
    before: Run, after: Run, pairs: list[tuple[float, tuple[str, str], float, float]]
) -> list[str]:
    lines = []
    for framework in dict.fromkeys(key[1] for _, key, _, _ in pairs):
        changes = [change for change, key, _, _ in pairs if key[1] == framework]
        mean = geometric_mean(changes)
        slower = sum(change > NOISE for change in changes)
        faster = sum(change < 1 / NOISE for change in changes)
        lines.append(
            f"{framework}: {mean:.2f} over {len(changes)} workloads, {slower} slower and {faster} "
            f"faster by more than {round(100 * (NOISE - 1))} %"
        )
    old, new = before.found(), after.found()
    for key in new:
        was, now = old[key].problem if key in old else None, new[key].problem
        if was is not None and was != now:
            lines.append(f"{', '.join(key)}: {was or 'was well'} -> {now or 'well'}")
    if before.machine.get("cpu") != after.machine.get("cpu"):
        lines.append("The two were measured on different processors.")
    if not pairs:
        lines.append("No workload and framework was timed in both.")
    return lines
