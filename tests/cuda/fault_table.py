"""The table of seeded faults: which is found, as what, and at which line; and false alarms.

    python -m tests.cuda.fault_table

Every fault of ``seeded_faults`` is alone in its file; right kernels are those that the faults were
put into, and others. The exit code is 1 where a fault is missed or a right kernel is not passed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.cuda import test_text_checks
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


def main() -> int:
    """The table, and how many right kernels are passed."""
    found, alarms = list(rows()), right_by_hand()
    print(table(found))
    print(f"\n{len(BASES + HONEST)} right kernels: {len(alarms)} false alarms")
    print("\n".join(alarms))
    return int(not all(row.found for row in found) or bool(alarms))


if __name__ == "__main__":
    sys.exit(main())
