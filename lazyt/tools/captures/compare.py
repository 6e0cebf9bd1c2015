"""``python -m lazyt diff A B``: what differs between two captures, level by level.

Each plan is compared from the graph down: passes, groups, kernels, forms, C, launches, arena. The
first level that differs is where a change begins; those below follow from it, or do not. Moved
lines of the user's program are no difference. Exit code 0: all plans are equal; 1: they differ.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lazyt.tools.arguments import Parser, UsageError, write_output
from lazyt.tools.captures.files import Captured, CapturedPlan, CaptureError

#: Where the user's line stands in a reason.
_POSITION = re.compile(r" \([^()]*:\d+\)")
#: Lines of a level's difference that are printed, unless --full is given.
_MOST_LINES = 24


@dataclass(frozen=True)
class Part:
    """A text of one level on both sides, such as the graph after one pass."""

    title: str
    before: str
    after: str

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        return self.before == self.after

    def lines(self) -> list[str]:
        """A unified difference, without its head."""
        pair = self.before.splitlines(), self.after.splitlines()
        return list(difflib.unified_diff(*pair, "A", "B", lineterm="", n=1))[2:]

    def counts(self) -> tuple[int, int]:
        """How many lines are gone, and how many are new."""
        found = self.lines()
        return sum(x[:1] == "-" for x in found), sum(x[:1] == "+" for x in found)


@dataclass(frozen=True)
class Level:
    """One level of a plan on both sides."""

    name: str
    parts: tuple[Part, ...]

    @property
    def changed(self) -> list[Part]:
        """What differs."""
        return [part for part in self.parts if not part.is_equal]

    def summary(self) -> str:
        """One line about it."""
        if not self.changed:
            return f"{self.name}: equal"
        first = self.changed[0]
        gone, new = map(sum, zip(*(part.counts() for part in self.changed), strict=True))
        place = f", from {first.title} on" if first.title else ""
        if len(first.before) + len(first.after) < 60 and "\n" not in first.before.strip():
            return f"{self.name}: {first.before.strip()} -> {first.after.strip()}"
        return f"{self.name}: {gone} lines gone, {new} new{place}"


@dataclass(frozen=True)
class Pair:
    """A plan on both sides, or on one."""

    before: CapturedPlan | None
    after: CapturedPlan | None
    levels: tuple[Level, ...] = ()
    times: tuple[tuple[str, float, float], ...] = ()

    @property
    def title(self) -> str:
        """What the plan is called, on both sides where that differs."""
        names = [plan.name for plan in (self.before, self.after) if plan is not None]
        return " ~ ".join(dict.fromkeys(names))

    @property
    def first(self) -> Level | None:
        """The first level that differs."""
        return next((level for level in self.levels if level.changed), None)

    @property
    def is_equal(self) -> bool:
        """Whether it is there on both sides, and equal."""
        return self.before is not None and self.after is not None and self.first is None


@dataclass(frozen=True)
class Comparison:
    """Two captures beside each other."""

    before: Captured
    after: Captured
    pairs: tuple[Pair, ...]
    surroundings: tuple[str, ...] = field(default=())

    @property
    def is_equal(self) -> bool:
        """Whether all plans are equal."""
        return all(pair.is_equal for pair in self.pairs)


def compare(before: Captured, after: Captured, values: bool = False) -> Comparison:
    """Compares two captures; ``values``: digests of results, too. Raises CaptureError."""
    pairs = [_compared(a, b, values) for a, b in _matched(before.plans, after.plans)]
    return Comparison(before, after, tuple(pairs), tuple(_surroundings(before, after)))


def _matched(
    before: Sequence[CapturedPlan], after: Sequence[CapturedPlan]
) -> Iterator[tuple[CapturedPlan | None, CapturedPlan | None]]:
    """Plans of the same graph, in order; between these, plans at the same place."""
    old, new = ([plan.graph.text for plan in side] for side in (before, after))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for _, a, c, b, d in matcher.get_opcodes():
        for n in range(max(c - a, d - b)):
            first = before[a + n] if a + n < c else None
            yield first, after[b + n] if b + n < d else None


def _compared(a: CapturedPlan | None, b: CapturedPlan | None, values: bool) -> Pair:
    if a is None or b is None:
        return Pair(a, b)
    levels = [
        Level("graph", (Part("", a.graph.text, b.graph.text),)),
        Level("passes", tuple(_passes(a, b))),
        *[Level(name, (Part("", text(a), text(b)),)) for name, text in _TEXTS.items()],
    ]
    if values:
        levels.append(Level("results", (Part("", _digests(a), _digests(b)),)))
    return Pair(a, b, tuple(levels), tuple(_times(a, b)))


def _passes(a: CapturedPlan, b: CapturedPlan) -> Iterator[Part]:
    """The graph after each pass that one side has."""
    first, second = dict(a.passes), dict(b.passes)
    for name in dict.fromkeys([*first, *second]):
        texts = [side[name].text if name in side else "" for side in (first, second)]
        yield Part(f"after {name}", *texts)


def _groups(plan: CapturedPlan) -> str:
    lines = []
    for number, group in enumerate(plan.groups):
        lines.append(f"group {number}: {group['kind']}, launch {group.get('launch')}")
        for name in ("members", "stored", "reads"):
            lines.append(f"  {name}: {' '.join(f'%{n}' for n in group.get(name, ()))}")
        lines += [f"  - {_POSITION.sub('', reason)}" for reason in group["reasons"]]
    return "\n".join(lines)


def _kernels(plan: CapturedPlan) -> str:
    from lazyt.ir.printer import print_kernel

    return "\n".join(print_kernel(kernel) for kernel in plan.kernels)


def _forms(plan: CapturedPlan) -> str:
    notes = enumerate(plan.program.notes)
    return "\n".join(f"launch {n}: {note.get('form', 'no choice')}" for n, note in notes)


def _launches(plan: CapturedPlan) -> str:
    lines = []
    for number, launch in enumerate(plan.launches["launches"]):
        lines.append(f"launch {number}: {launch['kernel']}")
        for argument in launch["arguments"]:
            offset = f" + {argument.get('offset')}" if argument.get("offset") else ""
            value = f" {argument['value']}" if argument["value"] else ""
            lines.append(f"  {argument['role']}{value} {argument['place']}{offset}")
        if launch.get("segments") or launch.get("numbers"):
            lines.append(f"  {launch.get('segments')} {launch.get('numbers')}")
    return "\n".join(lines)


def _arena(plan: CapturedPlan) -> str:
    return f"{plan.program.arena_bytes} bytes"


def _c(plan: CapturedPlan) -> str:
    return plan.text


def _digests(plan: CapturedPlan) -> str:
    return "\n".join(map(str, plan.results.get("results", ())))


_TEXTS: dict[str, Callable[[CapturedPlan], str]] = {
    "groups": _groups, "kernels": _kernels, "forms": _forms, "C": _c, "launches": _launches,
    "arena": _arena,
}  # fmt: skip


def _times(a: CapturedPlan, b: CapturedPlan) -> Iterator[tuple[str, float, float]]:
    """What took how long on both sides."""
    first, second = a.times, b.times
    for name in ("passes", "compiler"):
        before, after = (_total(side.get(name)) for side in (first, second))
        yield name, before, after
    if first.get("plan") and second.get("plan"):
        yield "plan", _total(first["plan"]), _total(second["plan"])
    pairs = zip(first["launches"], second["launches"])
    for number, (before, after) in enumerate(pairs):
        yield f"launch {number}", _total(before), _total(after)


def _total(value: Any) -> float:
    if isinstance(value, dict):
        return sum(_total(v) for v in value.values())
    return float(value) if isinstance(value, (int, float)) and type(value) is not bool else 0.0


def _surroundings(before: Captured, after: Captured) -> Iterator[str]:
    """What the captures were made with that differs. It is no difference of the plans."""
    for name in ("lazyt", "c_compiler", "machine", "settings", "passes", "program"):
        a, b = before.manifest.get(name), after.manifest.get(name)
        if a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            keys = [k for k in dict.fromkeys([*a, *b]) if a.get(k) != b.get(k)]
            yield f"{name}: " + ", ".join(f"{k} {a.get(k)!s:.60} -> {b.get(k)!s:.60}" for k in keys)
        else:
            yield f"{name}: {a!s:.80} -> {b!s:.80}"


# ------------------------------------------------------------------ what is printed


def text_of(found: Comparison, full: bool, times: bool) -> str:
    """The comparison as lines of text."""
    counts = [f"{side.path} ({len(side.plans)} plans)" for side in (found.before, found.after)]
    lines = [f"A: {counts[0]}", f"B: {counts[1]}"]
    lines += [f"made with other {line}" for line in found.surroundings]
    for pair in found.pairs:
        lines += _pair_lines(pair, full)
        if times and pair.times:
            lines += [f"  {name}: {_ratio(a, b)}" for name, a, b in pair.times]
    different = sum(not pair.is_equal for pair in found.pairs)
    lines.append(f"{different} of {len(found.pairs)} plans differ" if different else
                 f"all {len(found.pairs)} plans are equal")  # fmt: skip
    return "\n".join(lines) + "\n"


def _pair_lines(pair: Pair, full: bool) -> list[str]:
    if pair.is_equal:
        return [f"{pair.title}: equal"]
    if pair.before is None or pair.after is None:
        return [f"{pair.title}: only in {'A' if pair.after is None else 'B'}"]
    first = pair.first
    assert first is not None
    place = f" {first.changed[0].title}" if first.changed[0].title else ""
    lines = [f"{pair.title}: differs first at {first.name}{place}"]
    for level in pair.levels:
        if level is first or level.changed:
            lines.append(f"  {level.summary()}")
        if level is first or (full and level.changed):
            lines += _shown(level.changed, None if full else _MOST_LINES)
    return lines


def _shown(parts: Sequence[Part], most: int | None) -> list[str]:
    lines = []
    for part in parts if most is None else parts[:1]:
        lines += [f"    {part.title}"] if most is None and part.title else []
        lines += [f"    {line}" for line in part.lines()]
    if most is not None and len(lines) > most:
        return [*lines[:most], f"    ... {len(lines) - most} lines more: --full, --html"]
    return lines


def _ratio(a: float, b: float) -> str:
    share = f", {b / a:.2f} times" if a else ""
    return f"{1e6 * a:.1f} us -> {1e6 * b:.1f} us{share}"


def json_of(found: Comparison) -> dict[str, Any]:
    """The comparison as JSON-compatible values."""
    return {
        "before": found.before.path,
        "after": found.after.path,
        "equal": found.is_equal,
        "made with": list(found.surroundings),
        "plans": [
            {
                "before": pair.before.name if pair.before else None,
                "after": pair.after.name if pair.after else None,
                "equal": pair.is_equal,
                "first": pair.first.name if pair.first else None,
                "levels": {
                    level.name: {
                        "equal": not level.changed,
                        "changes": [
                            {"where": part.title, "lines": part.lines()} for part in level.changed
                        ],
                    }
                    for level in pair.levels
                },
                "times": {name: [a, b] for name, a, b in pair.times},
            }
            for pair in found.pairs
        ],
    }


# ------------------------------------------------------------------ commits


def capture_commit(revision: str, folder: str, program: Sequence[str]) -> None:
    """Captures a program with lazyt as it was at a commit of the repository that this lazyt is in.

    Raises UsageError where that is no repository, has no such commit, or the commit has no
    ``capture``.
    """
    here = Path(__file__).resolve().parents[3]
    with tempfile.TemporaryDirectory() as place:
        tree = os.path.join(place, "tree")
        added = _git(here, "worktree", "add", "--detach", tree, revision)
        if added.returncode:
            why = (added.stderr.strip().splitlines() or ["git failed"])[-1]
            raise UsageError(f"no tree of {revision}: {why}")
        try:
            environment = {**os.environ, "PYTHONPATH": tree}
            command = [sys.executable, "-m", "lazyt", "capture", folder, *program]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode or not os.path.exists(os.path.join(folder, "manifest.json")):
                why = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
                raise UsageError(f"the program cannot be captured at {revision}: {why}")
        finally:
            _git(here, "worktree", "remove", "--force", tree)


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise UsageError(f"git cannot be started: {error.strerror}") from None


# ------------------------------------------------------------------ the command


def _parser() -> Parser:
    parser = Parser(prog="lazyt diff", description=__doc__)
    parser.add_argument("what", nargs="*", help="two captures; with --commits the program's file "
                        "and its arguments")  # fmt: skip
    parser.add_argument(
        "--commits", nargs=2, metavar=("REV1", "REV2"),
        help="capture the program with lazyt at these two commits, and compare",
    )  # fmt: skip
    parser.add_argument("--times", action="store_true", help="also what took how long")
    parser.add_argument("--results", action="store_true", help="also digests of results")
    parser.add_argument("--full", action="store_true", help="print all lines of all levels")
    parser.add_argument("--json", metavar="FILE", help="write JSON there, - for standard output")
    parser.add_argument("--html", metavar="FILE", help="write a page there, side by side")
    return parser


def run(argv: Sequence[str]) -> int:
    """The command: 1 where plans differ. Raises UsageError and CaptureError."""
    given = _parser().parse_args(argv)
    if given.commits and not given.what:
        raise UsageError("--commits needs a program")
    if not given.commits and len(given.what) != 2:
        raise UsageError(f"diff takes two captures, not {len(given.what)}")
    with tempfile.TemporaryDirectory() as place:
        paths = given.what
        if given.commits:
            paths = [os.path.join(place, side) for side in ("A", "B")]
            for revision, path in zip(given.commits, paths, strict=True):
                capture_commit(revision, path, given.what)
        return _compare_and_print(paths, given)


def _compare_and_print(paths: Sequence[str], given: Any) -> int:
    try:
        found = compare(Captured(paths[0]), Captured(paths[1]), given.results)
    except RecursionError:
        raise CaptureError(f"{paths[0]} or {paths[1]} is nested too deeply") from None
    if given.json:
        write_output(given.json, json.dumps(json_of(found), indent=1) + "\n")
    if given.html:
        from lazyt.tools.captures.compare_page import page

        write_output(given.html, page(found))
    if given.json != "-" and given.html != "-":
        sys.stdout.write(text_of(found, given.full, given.times))
    return int(not found.is_equal)
