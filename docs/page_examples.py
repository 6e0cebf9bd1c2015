"""The examples of the pages: found, run, compared with what the page says that they print.

A page's blocks of ``python`` run in order, in one namespace, as one program. A block of ``output``
behind one holds what it prints; ``...`` stands for anything, as in doctest. In a notebook (a page
whose blocks are ``{code-cell}``) the value of a cell's last expression is shown as well.

    python docs/page_examples.py docs/concepts/levels.md     # write the outputs down anew
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BLOCK = re.compile(
    r"^```(?P<kind>python|\{code-cell\})[^\n]*\n(?P<code>.*?)^```\n"
    r"(?:\n?^```output\n(?P<output>.*?)^```\n)?",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """One example: its code, the output that the page shows, None without, and where it stands."""

    code: str
    output: str | None
    line: int
    cell: bool
    end: int  # where the code's fence ends in the text
    span: tuple[int, int] | None  # of the output's text


def blocks(text: str) -> Iterator[Block]:
    """The examples of a page, in order."""
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        span = found.span("output") if found["output"] is not None else None
        end = found.end("code") + len("```\n")
        yield Block(found["code"], found["output"], line, "{" in found["kind"], end, span)


@dataclass
class Program:
    """What the examples of a page share."""

    place: str
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "example"})

    def run(self, code: str, line: int = 1, cell: bool = False) -> tuple[str, Any]:
        """What ``code`` prints, and the value of the last expression of a notebook's cell.

        Line numbers of errors and reports are those of the page.
        """
        tree = ast.parse("\n" * (line - 1) + code, self.place)
        last = None
        if cell and tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
        printed, value = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            # As in a file of its own: without the __future__ imports of this one.
            exec(compile(tree, self.place, "exec", dont_inherit=True), self.names)
            if last is not None:
                value = eval(compile(last, self.place, "eval", dont_inherit=True), self.names)
        return printed.getvalue(), value


def check(path: Path, place: str) -> int:
    """Runs the examples of a page; raises AssertionError where one prints something else.

    Returns: how many there are.
    """
    program, count = Program(place), 0
    for block in blocks(path.read_text(encoding="utf-8")):
        printed, _ = program.run(block.code, block.line, block.cell)
        if block.output is not None:
            same = doctest.OutputChecker().check_output(block.output, printed, doctest.ELLIPSIS)
            advice = f"if that is right, `python docs/page_examples.py {place}` writes it down"
            said = f"the page says\n{block.output}\nit is\n{printed}\n{advice}"
            assert same, f"{place}:{block.line}: {said}"
        elif "print(" in block.code:
            assert printed.strip(), f"{place}:{block.line}: nothing is printed"
        count += 1
    return count


def rewrite(path: Path) -> None:
    """Writes what the examples print now into the blocks of output that a page has, but where
    ``...`` in a block still fits."""
    text = path.read_text(encoding="utf-8")
    place = path.as_posix()
    program, changes = Program(place), []
    for block in blocks(text):
        printed, _ = program.run(block.code, block.line, block.cell)
        if block.output is None or block.span is None:
            continue
        if not doctest.OutputChecker().check_output(block.output, printed, doctest.ELLIPSIS):
            changes.append((block.span, printed))
    for (start, end), printed in reversed(changes):
        text = text[:start] + printed + text[end:]
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    for name in sys.argv[1:] * 2:  # once more, as new outputs move the lines that others name
        rewrite(Path(name))
