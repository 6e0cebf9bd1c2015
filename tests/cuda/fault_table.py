"""The table of seeded faults: which is found, as what, and at which line; and false alarms.

    python -m tests.cuda.fault_table [--share N]

Every fault of ``seeded_faults`` is alone in its file. Right kernels are those written by hand, and
all kernels that lazyt generates for every N-th cell of the corpus, each checked in a launch of its
plan's with memory that holds numbers. The exit code is 1 where a fault is missed or a right kernel
is not passed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from lazyt.errors import LazytError
from lazyt.ir.program import KernelSource
from lazyt.runtime.cuda.checks import Finding, check_cuda
from tests.cuda import corpus_plans, test_text_checks
from tests.cuda.corpus import gather
from tests.cuda.corpus_plans import Plan
from tests.cuda.handwritten_kernels import BASES, HONEST
from tests.cuda.seeded_faults import FAULTS


class Row(NamedTuple):
    """A fault, and the finding that names it: None where none does."""

    kernel: str
    fault: str
    kind: str
    line: int
    text: str
    found: bool


def rows() -> Iterator[Row]:
    """The faults, each alone in its file."""
    for fault in FAULTS:
        text = test_text_checks.faulty(fault)
        findings = test_text_checks.check(test_text_checks.BY_NAME[fault.base], text, fault.base)
        fits = [f for f in findings if test_text_checks.is_found(fault, 1, [f])]
        line = fits[0].line if fits else 0
        said = text.split("\n")[line - 1].strip() if line else ""
        yield Row(fault.base, fault.name, fault.kind, line, said, bool(fits))


def table(found: list[Row]) -> str:
    """The faults in Markdown, and a line for each kind."""
    lines = ["| kernel | fault | kind | found in line |", "|---|---|---|---|"]
    for row in found:
        where = (
            f"{row.line}: `{row.text.replace('|', chr(92) + '|')}`" if row.found else "not found"
        )
        lines.append(f"| {row.kernel} | {row.fault} | {row.kind} | {where} |")
    planted, seen = Counter(r.kind for r in found), Counter(r.kind for r in found if r.found)
    lines += ["", "| kind | planted | found at their line |", "|---|---|---|"]
    lines += [f"| {kind} | {count} | {seen[kind]} |" for kind, count in planted.items()]
    return "\n".join([*lines, f"| all | {len(found)} | {sum(seen.values())} |"])


def right_by_hand() -> list[str]:
    """Findings in right kernels that were written by hand: there should be none."""
    return [
        f"{item.name}: {finding}"
        for item in BASES + HONEST
        for finding in test_text_checks.check(item, item.text, item.name)
    ]


def _findings(plan: Plan, kernel: KernelSource) -> Iterator[Finding]:
    """What is said of the first launch of a kernel in its plan; arrays are zeros."""
    text = corpus_plans.program_text([kernel], "cuda")
    launch = next(one for one in plan.program.launches if one.kernel == kernel.name)
    sizes = [plan.program.slots[number].nbytes for number in launch.slots]
    arguments = [bytes(max(size, 1)) for size in sizes]
    for grid in kernel.grids:
        yield from check_cuda(
            text, grid.function, grid.blocks, grid.threads, arguments, grid.shared_bytes, orders=2
        )


def generated(share: int) -> tuple[int, list[str], Counter[str]]:
    """How many generated kernels were checked, the findings, and reasons why others were not."""
    corpus = gather(share)
    users = {kernel.name: plan for plan in corpus.plans for kernel in plan.program.kernels}
    checked, alarms, refused = 0, [], Counter[str]()
    for name, kernel in corpus.kernels.items():
        try:
            alarms += [f"{name}: {finding}" for finding in _findings(users[name], kernel)]
            checked += 1
        except LazytError as error:
            refused[str(error).split("\n")[0][:110]] += 1
        print(f"{checked} of {len(corpus.kernels)}", end="\r", file=sys.stderr)
    return checked, alarms, refused


def main() -> int:
    """The table, and how many right kernels are passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.fault_table")
    parser.add_argument("--share", type=int, default=45, help="take every so many-th cell")
    share = parser.parse_args().share
    found = list(rows())
    print(table(found), flush=True)
    alarms = right_by_hand()
    print(f"\n{len(BASES + HONEST)} right kernels by hand: {len(alarms)} false alarms", flush=True)
    checked, more, refused = generated(share)
    print(f"{checked} generated kernels: {len(more)} false alarms, {sum(refused.values())} refused")
    for reason, count in refused.most_common():
        print(f"  refused {count}: {reason}")
    print("\n".join(alarms + more))
    return int(not all(row.found for row in found) or bool(alarms + more))


if __name__ == "__main__":
    sys.exit(main())
