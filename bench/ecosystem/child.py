"""Runs the program of one entry, in a separate process: ``child.py NAME OUTPUT [stage ...]``.

OUTPUT gets one line of JSON for each stage that has begun: its name, how long it took, and either
the values it computed or why it failed.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from bench.ecosystem import stages, under_torch
from bench.ecosystem.entries import FOLDER, STAGES, Case, Entry, entries


def reason(error: BaseException) -> dict[str, Any]:
    """The first of a chain of errors, as one line, with where it was raised and what called it."""
    seen = {id(error)}
    while (cause := error.__cause__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        error = cause
    frames = traceback.extract_tb(error.__traceback__)
    inner = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames[-3:]]
    theirs = [f for f in frames if "site-packages" in f.filename]
    text = " ".join(str(error).split())
    return {
        "error": f"{type(error).__name__}: {text}"[:400],
        "at": inner[::-1],
        "package": f"{theirs[-1].filename.partition('site-packages/')[2]}:{theirs[-1].lineno}"
        if theirs
        else "",
    }


def run_stage(name: str, compute: Callable[[], Any], output: TextIO) -> bool:
    """Whether it went well; says so in the output."""
    output.write(json.dumps({"stage": name, "begun": True}) + "\n")
    output.flush()
    start = time.perf_counter()
    told: dict[str, Any] = {"stage": name}
    try:
        told["values"] = stages.summaries(compute())
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        told |= reason(error)
    told["seconds"] = round(time.perf_counter() - start, 3)
    output.write(json.dumps(told) + "\n")
    output.flush()
    return "error" not in told


def run(entry: Entry, output: TextIO, wanted: list[str]) -> None:
    """All stages that the program has, each whatever became of the others, but none without
    "import"."""

    def load() -> None:
        for module in entry.modules:
            importlib.import_module(module)

    if not run_stage("import", load, output):
        return
    made: dict[str, Any] = {}

    def steps() -> Any:
        if not made:
            case = entry.make()
            made.update(stages.of_case(case) if isinstance(case, Case) else case)
        return made

    if not run_stage("forward", lambda: steps()["forward"](), output) and not made:
        return
    for name in STAGES[2:]:
        if name in steps() and name in wanted:
            run_stage(name, steps()[name], output)


def main(arguments: list[str]) -> int:
    """The exit status."""
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != FOLDER]
    warnings.simplefilter("ignore")
    name, output, *wanted = arguments
    (entry,) = (e for e in entries() if e.name == name)
    if os.environ.get("ECOSYSTEM_RECORDS") and importlib.util.find_spec("torchvision"):
        under_torch.install(entry.package == "torchvision")
    with open(output, "w", encoding="utf-8") as file:
        run(entry, file, wanted or list(STAGES))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
