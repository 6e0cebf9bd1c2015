"""Results beside what was recorded under PyTorch: as text, as JSON, as a page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bench.ecosystem import stages
from bench.ecosystem.entries import FOLDER, STAGES, Entry, requirements

RECORDED = FOLDER / "recorded.json"
#: How far a value may be from PyTorch's, relative to the size of the tensor it is in.
TOLERANCE = {"step": 5e-3}
USUAL_TOLERANCE = 1e-3
PASSES, FAILS, WRONG, NONE = "yes", "no", "values", "-"


@dataclass(frozen=True)
class Line:
    """What the table says of one entry."""

    name: str
    package: str
    version: str
    stages: dict[str, str]
    reason: str
    at: str
    seconds: float
    captured: str = NONE

    @property
    def passes(self) -> bool:
        """Whether everything that the program does is as PyTorch does it."""
        return all(found in (PASSES, NONE) for found in self.stages.values())


def judge(entry: Entry, told: Mapping[str, Any], recorded: Mapping[str, Any] | None) -> Line:
    """Compares what the stages told with the record."""
    found, reason, at = {}, "", ""
    wanted = (recorded or {}).get("stages", {})
    for name in STAGES:
        stage = told.get(name)
        if stage is None:
            missing = name in wanted and name != "compile"
            found[name] = FAILS if missing and not reason else NONE
            continue
        if "error" in stage:
            found[name] = FAILS
            if not reason:
                reason, at = f"{name}: {stage['error']}", "; ".join(stage.get("at", [])[:2])
            continue
        wrong = _difference(name, stage["values"], wanted, recorded is None)
        found[name] = WRONG if wrong else PASSES
        if wrong and not reason:
            reason = f"{name}: {wrong}"
    version = requirements().get(entry.package.lower().replace("_", "-"), "")
    seconds = told.get("process", {}).get("seconds", 0.0)
    captured = told.get("compile", {}).get("values", {}).get("why", NONE)
    return Line(entry.name, entry.package, version, found, reason, at, seconds, captured)


def _difference(name: str, values: Any, wanted: Mapping[str, Any], unknown: bool) -> str:
    if name in ("import", "compile"):
        return ""  # nothing to compare: the stage itself compares with calls that are not compiled
    if unknown or name not in wanted:
        return "no values of PyTorch are recorded"
    relative = TOLERANCE.get(name, USUAL_TOLERANCE)
    return next(iter(stages.differences(values, wanted[name], relative)), "")


def recorded() -> dict[str, Any]:
    """What PyTorch gave, by the entry's name."""
    if not RECORDED.exists():
        return {}
    found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def record(found: Mapping[str, Any]) -> None:
    """Writes the record, one line for each stage."""
    lines = []
    for name, entry in sorted(found.items()):
        told = ",\n".join(
            f"   {json.dumps(s)}: {json.dumps(v, sort_keys=True)}"
            for s, v in entry["stages"].items()
        )
        head = f' {json.dumps(name)}: {{\n  "torch": {json.dumps(entry["torch"])},'
        lines.append(f'{head}\n  "stages": {{\n{told}\n  }}\n }}')
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def table(lines: list[Line]) -> Iterator[str]:
    """The table as text, and the sums."""
    width = max(len(line.name) for line in lines)
    yield f"{'':{width}} {'version':11} " + " ".join(f"{s:8}" for s in STAGES)
    for line in lines:
        cells = " ".join(f"{line.stages[s]:8}" for s in STAGES)
        yield f"{line.name:{width}} {line.version:11} {cells} {line.reason[:150]}".rstrip()
    yield sums(lines)


def sums(lines: list[Line]) -> str:
    """How many pass, of all and at each stage."""
    whole = sum(line.passes for line in lines)
    each = []
    for stage in STAGES:
        there = [line.stages[stage] for line in lines if line.stages[stage] != NONE]
        each.append(f"{stage} {there.count(PASSES)} of {len(there)}")
    packages = {line.package for line in lines}
    clean = packages - {line.package for line in lines if not line.passes}
    return (
        f"{whole} of {len(lines)} programs pass ({len(clean)} of {len(packages)} packages): "
        + ", ".join(each)
    )


def as_json(lines: list[Line], date: str) -> str:
    """The same for programs."""
    return json.dumps({"date": date, "programs": [asdict(line) for line in lines]}, indent=1)


def page(lines: list[Line], date: str) -> str:
    """docs/reference/ecosystem.md."""
    heads = ["program", "version", *STAGES, "captured"]
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for line in lines:
        cells = " | ".join(line.stages[s] for s in STAGES)
        captured = {"captured": PASSES, NONE: NONE}.get(line.captured, FAILS)
        rows.append(f"| {line.name} | {line.version} | {cells} | {captured} |")
    failing = [line for line in lines if not line.passes]
    left = [line for line in lines if line.captured not in ("captured", NONE)]
    reasons = [f"- **{line.name}**: `{_plain(line.reason)}`" for line in failing]
    return _PAGE.format(
        date=date,
        sums=sums(lines),
        rows="\n".join(rows),
        reasons="\n".join(reasons) or "None.",
        left="\n".join(f"- **{line.name}**: `{_plain(line.captured)}`" for line in left) or "None.",
    )


def section_of(text: str, title: str) -> str:
    """The section of a page that a line with this title begins; "" where it has none."""
    _, head, tail = text.partition(f"\n{title}\n")
    return f"{title}\n{tail.partition(chr(10) + '## ')[0].rstrip()}\n" if head else ""


def with_section(text: str, title: str, section: str) -> str:
    """The page with this section in the place of the one with that title, or at its end."""
    known = section_of(text, title)
    if not section:
        return text
    if known:
        return text.replace(known.rstrip(), section.rstrip())
    return f"{text.rstrip()}\n\n{section}"


def _plain(text: str) -> str:
    text = re.sub(r"[\w./-]*site-packages/", "", text)  # where the environment is says nothing
    short = text if len(text) <= 200 else text[:197] + "..."
    return short.replace("`", "'").replace("|", "/")


_PAGE = """# Packages that import torch

<!-- written by `make ecosystem` -->

Packages that import torch, installed where there is no PyTorch, run here under
`python -m lazyt run`. For each there is a small program (`bench/ecosystem/programs/`): a network in
a tiny configuration with numbers that do not depend on random generators, or the package's
functions. Values are compared with those that the same program gave under PyTorch 2.13.

- *import*: the package is imported.
- *forward*, *backward*, *step*: outputs, gradients, and the losses of three optimizer steps.
- *compile*: `torch.compile` of the network, called and trained, gives what it gives without.
- *captured*: whether these calls are replayed in the end, as `why()` tells. Others run as
  they would without `torch.compile`.
- *save*: `torch.save` and `torch.load` of its state.

A cell is *yes*, *no* where an exception was raised, *values* where PyTorch has other ones, and *-*
where the program has no such stage.

Run on {date}: {sums}.

{rows}

## What fails first

{reasons}

## What is not captured

{left}
"""
