"""Runs random programs for ``lazyt.jit``, see ``test_captures``.

    python -m tests.captures.run_captures --seeds 0:20000 [--kind objects|simple|steps] [--compile]

Prints the programs that differ with their functions captured, and how many there were.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import traceback
from collections.abc import Iterable

from tests.captures import making_objects, making_steps
from tests.differential.staged import interpreted


def differences(kind: str, seeds: Iterable[int]) -> list[str]:
    """Reports of the programs of a kind that differ when captured, or fail."""
    found: list[str | None] = []
    for seed in seeds:
        try:
            if kind == "steps":
                found.append(making_steps.difference(making_steps.make_training(seed)))
            else:
                program = making_objects.make_program(seed, simple=kind == "simple")
                found.append(making_objects.difference(program))
        except Exception:
            found.append(f"{kind}, seed {seed}:\n{traceback.format_exc()}")
    return [report for report in found if report is not None]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:2000", help="first:end")
    parser.add_argument("--kind", choices=("objects", "simple", "steps"), default="objects")
    parser.add_argument("--compile", action="store_true", help="compile plans, run fast paths")
    given = parser.parse_args()
    first, _, end = given.seeds.partition(":")
    wrong = []
    with contextlib.nullcontext() if given.compile else interpreted():
        for start in range(int(first), int(end), 500):
            wrong += differences(given.kind, range(start, min(start + 500, int(end))))
            print(f"{min(start + 500, int(end)) - int(first)} programs, {len(wrong)} differ")
    print("\n\n".join(wrong[:20]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
