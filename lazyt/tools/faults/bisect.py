"""``python -m lazyt bisect``: which stage of the compiler is wrong about a graph or a program.

A graph (IR text) is taken through the compiler stage by stage. Of a Python program, all graphs that
it computes are. The answer is a pass and its first wrong rewrite, fusion, lowering, a pass over
kernels, the memory plan, a printer, the C compiler, or an interpreter.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from lazyt.tools.arguments import Parser, UsageError, read_input


def _arguments(argv: Sequence[str]) -> Any:
    from lazyt.tools.faults.fuzz import TARGETS

    parser = Parser(
        prog="lazyt bisect", description="Find the stage of the compiler that is wrong.", loads=True
    )
    parser.add_argument("file", help="IR text of a graph (- for standard input), or program.py")
    parser.add_argument("arguments", nargs="*", help="of the program")
    parser.add_argument("--target", choices=TARGETS, default="c", help="as of fuzz (c)")
    add_inputs(parser)
    return checked_inputs(parser.parse_args(argv))


def add_inputs(parser: Parser) -> None:
    """Has a command take options for the inputs of a graph."""
    from lazyt.runtime.value_checks import KINDS

    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of inputs to try")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (0)")


def checked_inputs(given: Any) -> Any:
    """The same options, with kinds as a tuple. Raises UsageError for a kind that there is not."""
    from lazyt.runtime.value_checks import KINDS

    given.kinds = tuple(kind.strip() for kind in given.kinds.split(","))
    for kind in given.kinds:
        if kind not in KINDS:
            raise UsageError(f"there are no inputs called {kind!r}; there are {', '.join(KINDS)}")
    return given


def graphs_of_program(path: str, arguments: Sequence[str]) -> dict[str, str]:
    """The texts of all graphs that a program computes, each with the line that asked for it. As
    under ``lazyt run``, ``import torch`` gives lazyt.

    Raises UsageError where the program cannot be run, or ends with an error before anything is
    computed; what it raises later ends it only, and is told.
    """
    from lazyt.compat import torch_alias
    from lazyt.config import config
    from lazyt.plan import build

    if not os.path.exists(path):
        raise UsageError(f"there is no file {path}")
    found: dict[str, str] = {}
    compiled = build.Subject.compile

    def note(self: Any, *given: Any, **named: Any) -> Any:
        found.setdefault(self.text, next(_lines(self.roots), ""))
        return compiled(self, *given, **named)

    old = sys.argv
    build.Subject.compile = note  # type: ignore[method-assign]
    try:
        sys.argv = [path, *arguments]
        settings = config.override(tier=1, disk_cache=False, any_size=False)
        with torch_alias.standing_in(), settings:
            runpy.run_path(path, run_name="__main__")
    except OSError as error:
        raise UsageError(f"cannot run {path}: {error}") from error
    except SystemExit as ended:
        if ended.code not in (None, 0):
            print(f"{path} ends with {ended.code}", file=sys.stderr)
    except Exception as error:
        told = f"{path} raises {type(error).__name__}: {error}"
        if not found:
            raise UsageError(told) from error
        print(told, file=sys.stderr)
    finally:
        build.Subject.compile = compiled  # type: ignore[method-assign]
        sys.argv = old
    return found


def _lines(roots: Sequence[Any]) -> Iterator[str]:
    from lazyt.ir.graph import source_text

    for root in roots:
        if root.source is not None:
            yield source_text(root.source)


def run(argv: Sequence[str]) -> int:
    """The command: 0 where every stage is right, 1 where one is wrong."""
    from lazyt.ir.parser import parse_graph
    from lazyt.ops import OPS
    from lazyt.testing.stages import examine
    from lazyt.tools.faults.fuzz import require_compiler
    from lazyt.tools.opt import graph_before

    given = _arguments(argv)
    require_compiler(given.target)
    target = "" if given.target == "none" else given.target
    if given.file.endswith(".py"):
        texts = graphs_of_program(given.file, given.arguments)
        print(f"{len(texts)} graphs")
    else:
        texts = {graph_before(read_input(given.file)): ""}
    for number, (text, line) in enumerate(texts.items()):
        roots = parse_graph(text, OPS)[1]
        found = examine(roots, kinds=given.kinds, seed=given.seed, target=target)
        if found is not None:
            where = f"graph {number}, {line}: " if line else ""
            print(f"{where}{found}")
            if found.ir:
                print(found.ir, end="")
            return 1
    print("every stage is right")
    return 0
