"""``python -m lazyt reduce``: a graph, a kernel or a Python program made smaller while it fails.

What fails is decided by a command, which is given a file with the candidate, or for graphs, where
no command is given, by the stage of the compiler that ``bisect`` names. Beside a smaller graph a
program in PyTorch's style is printed that computes it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lazyt.testing import fuzzing, reducing
from lazyt.testing.reproduction import reproduction
from lazyt.tools.arguments import Parser, UsageError, read_input, write_output
from lazyt.tools.faults.bisect import add_inputs, checked_inputs


def _arguments(argv: Sequence[str]) -> Any:
    from lazyt.tools.faults.fuzz import TARGETS

    parser = Parser(
        prog="lazyt reduce", loads=True,
        description="Make a graph, a kernel or a Python program smaller while it fails.",
    )  # fmt: skip
    parser.add_argument("file", help="IR text of a graph or a kernel, or program.py")
    parser.add_argument(
        "--command", help="fails for what is wanted; {} stands for the file ('lazyt opt {}')"
    )
    parser.add_argument("--match", help="a regular expression that its output has to contain, too")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each command (60)")
    parser.add_argument("--target", choices=TARGETS, default="c", help="as of fuzz (c)")
    add_inputs(parser)
    parser.add_argument("-o", "--output", default="-", help="where to write the result")
    return checked_inputs(parser.parse_args(argv))


#: What a shell ends with where it cannot run a command.
_NOT_RUN = (126, 127)
#: Names of errors, as tracebacks and lazyt's commands write them.
_ERRORS = re.compile(r"\b([A-Za-z_]\w*(?:Error|Exception|Interrupt))\b")


def _where_we_are() -> dict[str, str]:
    """The environment, in which ``lazyt`` and ``python`` are those that run this."""
    folders = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    return {**os.environ, "PATH": os.pathsep.join(folders)}


def command_fails(given: Any, suffix: str) -> Callable[[str], bool]:
    """Whether the command fails for a text in a file as it does for the first: with ``--match``,
    by a status that is not 0 and an output that matches, else by the same status and the same
    errors in its output. A command that takes too long does not count."""
    if "{}" not in given.command:
        raise UsageError("--command needs {} where the file stands")
    try:
        pattern = re.compile(given.match) if given.match else None
    except re.error as error:
        raise UsageError(f"--match {given.match!r}: {error}") from error

    first: list[tuple[int, list[str]]] = []

    def fails(text: str) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"candidate{suffix}"
            path.write_text(text)
            command = given.command.replace("{}", shlex.quote(str(path)))
            try:
                done = subprocess.run(
                    command, shell=True, capture_output=True, text=True, timeout=given.limit,
                    env=_where_we_are(),
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return False
        if done.returncode == 0:
            return False
        told = done.stdout + done.stderr
        if done.returncode in _NOT_RUN:
            raise UsageError(f"--command cannot be run: {told.strip() or command}")
        if pattern is not None:
            return bool(pattern.search(told))
        # A smaller program may fail for another reason: a name that it does not have any more.
        seen = done.returncode, sorted(set(_ERRORS.findall(told)))
        first[:] = first or [seen]
        return first == [seen]

    return fails


def _tell(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _reduced(given: Any, text: str) -> tuple[str, str]:
    """The smaller text, and of a graph the same as a program."""
    from lazyt.ir.parser import parse_graph, parse_kernel
    from lazyt.ir.printer import Reader, print_graph, print_kernel
    from lazyt.ops import OPS

    if given.file.endswith(".py"):
        if not given.command:
            raise UsageError("a program needs --command")
        return reducing.reduce_program(text, command_fails(given, ".py"), _tell), ""
    if Reader(text).text == "kernel":
        if not given.command:
            raise UsageError("a kernel needs --command")
        fails = command_fails(given, ".ir")
        made = reducing.reduce_kernel(parse_kernel(text), lambda k: fails(print_kernel(k)), _tell)
        return print_kernel(made), ""
    roots = parse_graph(text, OPS)[1]
    if given.command:
        fails = command_fails(given, ".ir")
        small = reducing.reduce_graph(roots, lambda r: fails(print_graph(r)), _tell)
        return print_graph(small), reproduction(small)
    fault = _by_stage(roots, given)
    return print_graph(fault.roots), fuzzing.program_of(fault)


def _by_stage(roots: Sequence[Any], given: Any) -> fuzzing.Fault:
    from lazyt.testing.stages import examine

    target = "" if given.target == "none" else given.target
    found = examine(roots, kinds=given.kinds, seed=given.seed, target=target)
    if found is None:
        raise ValueError("every stage is right about this graph")
    _tell(str(found))
    fault = fuzzing.Fault(given.seed, found, list(roots), given.kinds)
    return fuzzing.reduce_fault(fault, target, _tell, 1e9)


def run(argv: Sequence[str]) -> int:
    """The command: 0 where a smaller one was found or nothing can be left out, 1 where nothing
    fails."""
    from lazyt.tools.faults.fuzz import require_compiler
    from lazyt.tools.opt import graph_before

    given = _arguments(argv)
    if not given.command:
        require_compiler(given.target)
    text = read_input(given.file)
    try:
        made, program = _reduced(given, text if given.file.endswith(".py") else graph_before(text))
    except ValueError as error:
        print(f"lazyt reduce: {error}", file=sys.stderr)
        return 1
    write_output(given.output, made)
    if program:  # beside the graph, and not in its file
        print(f"\n{program}", end="", file=sys.stderr if given.output == "-" else sys.stdout)
    return 0
