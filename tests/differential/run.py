"""Runs random programs on modules with PyTorch's API and compares what they show.

    python -m tests.differential.run --module torch --seeds 0:1000 --record FILE
    python -m tests.differential.run --module lazyt --record FILE [--interpret] [--seeds A:B]
    python -m tests.differential.run --module lazyt --against torch --seeds 0:1000 [--shrink]
    python -m tests.differential.run --module lazyt --show 17

The first makes programs and writes down what PyTorch shows. The second runs them again elsewhere;
it needs no PyTorch. The third does both in one process, and can make what differs short. The last
prints the program of a seed, as the given module makes it.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lazyt.testing.programs.comparing import Difference, first_difference
from lazyt.testing.programs.machine import Machine
from lazyt.testing.programs.making import make_program
from lazyt.testing.programs.minimizing import difference_between, minimize
from lazyt.testing.programs.program import Program, load, save


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Compare modules of PyTorch's API.")
    parser.add_argument("--module", default="lazyt", help="the module that runs the programs")
    parser.add_argument("--against", help="the module to compare with, in this process")
    parser.add_argument("--seeds", help="first:end")
    parser.add_argument("--record", type=Path, help="file to write, or to compare with")
    parser.add_argument("--show", type=int, help="print one program")
    parser.add_argument("--shrink", action="store_true", help="shorten what differs")
    parser.add_argument("--interpret", action="store_true", help="lazyt: with the interpreter")
    parser.add_argument("--messages", action="store_true", help="compare what errors speak of")
    parser.add_argument("--most", type=int, default=20, help="differences to print in full")
    return parser.parse_args()


def programs(options: argparse.Namespace) -> Iterator[Program]:
    """The programs that the options ask for, with what the reference showed."""
    first, _, end = (options.seeds or "").partition(":")
    if options.against:
        reference = importlib.import_module(options.against)
        for seed in range(int(first), int(end)):
            yield make_program(seed, reference)
    else:
        for program in load(options.record):
            if not first or int(first) <= program.seed < int(end):
                yield program


def signature(program: Program, found: Difference) -> str:
    """What differences of one cause have in common, as well as can be told."""
    text = program.steps[found.step] if found.step < len(program.steps) else "look()"
    return f"{found.kind}: " + re.sub(r"\b[tan]?\d+\b", "", text.partition("\n")[0])[:60]


def compare(options: argparse.Namespace, module: Any) -> int:
    """Run the programs and report; returns the number that differ."""
    seen: Counter[str] = Counter()
    count = 0
    reference = importlib.import_module(options.against) if options.against else None

    def check(steps: tuple[str, ...]) -> Difference | None:
        return difference_between(steps, reference, module, options.messages)

    for program in programs(options):
        count += 1
        shown = Machine(module).run(program.steps)
        found = first_difference(program.facts, shown, options.messages)
        if found is None:
            continue
        if options.shrink and reference is not None:
            try:
                program, found = minimize(program, check)
            except ValueError:
                print(f"seed {program.seed} differed once and not again")
        seen[signature(program, found)] += 1
        if sum(seen.values()) <= options.most:
            print(f"---- seed {program.seed}\n{program}\n{found}\n", flush=True)
    for text, times in seen.most_common():
        print(f"{times:5}  {text}")
    print(f"{count} programs, {sum(seen.values())} differ")
    return sum(seen.values())


def main() -> int:
    """The command."""
    options = arguments()
    module = importlib.import_module(options.module)
    if options.interpret:
        module.config.interpret = True
    if options.show is not None:
        print(make_program(options.show, module))
        return 0
    if options.module == "torch" and options.record:
        first, _, end = options.seeds.partition(":")
        save((make_program(seed, module) for seed in range(int(first), int(end))), options.record)
        return 0
    return int(compare(options, module) > 0)


if __name__ == "__main__":
    sys.exit(main())
