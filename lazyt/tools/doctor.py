"""``python -m lazyt doctor``: what this machine gives lazyt, as a table."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lazyt.tools.arguments import Parser

if TYPE_CHECKING:
    from lazyt.runtime.doctor import Finding

#: Columns of the detail; longer text is wrapped.
WIDTH = 76


def format_findings(findings: Sequence[Finding]) -> str:
    """A table of name, status and detail, with advice under what is not well."""
    names = max((len(f.name) for f in findings), default=0)
    states = max((len(f.status) for f in findings), default=0)
    indent = " " * (names + states + 4)
    lines: list[str] = []
    for finding in findings:
        head = f"{finding.name:{names}}  {finding.status:{states}}  "
        parts = [
            line for part in finding.detail.splitlines() for line in textwrap.wrap(part, WIDTH)
        ]
        lines.append((head + (parts[0] if parts else "")).rstrip())
        lines.extend(indent + part for part in parts[1:])
        if finding.advice:
            lines.extend(indent + part for part in textwrap.wrap(f"-> {finding.advice}", WIDTH))
    return "\n".join(lines) + "\n"


def run(argv: Sequence[str]) -> int:
    """The command; exit code 1 when a finding is a failure, or a digest is another."""
    parser = Parser(prog="lazyt doctor", description="Check this machine for lazyt.")
    parser.add_argument(
        "--digests", action="store_true",
        help="compute some 1600 programs and compare digests of their results with golden ones",
    )  # fmt: skip
    parser.add_argument(
        "--report", metavar="FILE",
        help="write what a person on another machine can send as JSON: facts, digests, times",
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help="some of the programs, times of small sizes"
    )
    chosen = parser.parse_args(argv)
    if chosen.report or chosen.digests:
        return _compare(chosen.report, chosen.quick)
    from lazyt.runtime.doctor import conclusion, examine

    findings = examine()
    print(format_findings(findings))
    print(conclusion(findings))
    return 1 if any(f.status == "fail" for f in findings) else 0


def _compare(path: str | None, quick: bool) -> int:
    """Compares digests, and writes a report where there is a path."""
    from lazyt.testing.digests import report

    tell = _line_of_progress
    if path is None:
        made = {"facts": report.facts(), "digests": report.digests_here(tell, quick)}
        made["times"] = {"results": [], "quick": quick}
    else:
        try:
            made = report.write(path, quick, tell)
        except OSError as error:
            print(f"lazyt doctor: {error}", file=sys.stderr)
            return 2
    tell("")
    print(report.summary(made), end="")
    if path is not None:
        print(f"written: {path}")
    return 1 if any(made["digests"]["different"].values()) else 0


def _line_of_progress(text: str) -> None:
    """One line on standard error, which takes the place of the last one on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:WIDTH]}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)
