"""``python -m lazyt doctor``: what this machine gives lazyt, as a table."""

from __future__ import annotations

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
    """The command; exit code 1 when a finding is a failure."""
    Parser(prog="lazyt doctor", description="Check this machine for lazyt.").parse_args(argv)
    from lazyt.runtime.doctor import conclusion, examine

    findings = examine()
    print(format_findings(findings))
    print(conclusion(findings))
    return 1 if any(f.status == "fail" for f in findings) else 0
