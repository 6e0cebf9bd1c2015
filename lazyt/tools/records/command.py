"""``python -m lazyt record``: write down what a program looks at, or find the first difference."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from lazyt.tools.arguments import Parser, UsageError
from lazyt.tools.records.compare import Difference, compare
from lazyt.tools.records.files import RecordError, Value, Writer, head_of, read
from lazyt.tools.records.watch import watching
from lazyt.tools.run import run_program

#: What another framework may differ by, relative and absolute.
TOLERANCE = 1e-5


def run(argv: Sequence[str]) -> int:
    """The command: 1 where values differ, else the program's exit code.

    Raises UsageError, and RecordError for files that are no recordings.
    """
    parser = Parser(
        loads=True,
        prog="lazyt record",
        description="Run a program and write down each value that it looks at, and each that lazyt "
        "computes on the way; or compare such a run with an earlier one and name the first "
        "difference.",
        epilog="lazyt record OUT program.py; elsewhere: lazyt record --against OUT program.py; two "
        "files: lazyt record --diff OUT OTHER. The program's own arguments follow its name.",
    )
    parser.add_argument("--against", metavar="FILE", help="an earlier recording, to compare with")
    parser.add_argument("--diff", nargs=2, metavar="FILE", help="compare two recordings")
    parser.add_argument("--out", metavar="FILE", help="with --against: keep this run's recording")
    parser.add_argument(
        "--module", choices=("lazyt", "torch"), default="lazyt",
        help="what `import torch` gives; PyTorch's values are recorded where they are looked at",
    )  # fmt: skip
    parser.add_argument(
        "--looks-only", action="store_true", help="at full speed: not the values on the way"
    )
    parser.add_argument(
        "--tolerance", type=float, metavar="X",
        help=f"allow X, relative and absolute (beside another framework: {TOLERANCE})",
    )  # fmt: skip
    parser.add_argument("-m", dest="is_module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="[OUT] PROGRAM ...")
    given = parser.parse_args(argv)
    if given.diff:
        return _compared(read(given.diff[0]), read(given.diff[1]), _tolerance(given, *given.diff))
    if given.against:
        before = read(given.against)
        with contextlib.ExitStack() as stack:
            out = given.out or os.path.join(
                stack.enter_context(tempfile.TemporaryDirectory()), "here.jsonl"
            )
            seed = head_of(given.against).get("seed")
            code = _recorded(out, given.rest, given, seed if isinstance(seed, int) else None)
            found = _compared(before, read(out), _tolerance(given, given.against, out))
        return found or code
    if given.rest[1:2] == ["-m"]:  # behind the file, as people write it
        given.is_module = True
        del given.rest[1]
    if len(given.rest) < 2:
        raise UsageError("record needs a file to write and a program")
    return _recorded(given.rest[0], given.rest[1:], given)


def _seeded(module: ModuleType, seed: int | None) -> int:
    """Seeds what programs draw from, so that one that seeds nothing can be compared with its
    recording; gives the seed, one that nobody knew where none is given."""
    if seed is None:
        seed = random.SystemRandom().getrandbits(32)
    module.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    return seed


def _recorded(out: str, command: list[str], given: Any, seed: int | None = None) -> int:
    """Runs a program and writes its recording; gives its exit code."""
    if not command:
        raise UsageError("record needs a program")
    if not given.is_module and not os.path.exists(command[0]):
        raise UsageError(f"there is no file {command[0]}")
    is_torch = given.module == "torch"
    try:
        module = importlib.import_module(given.module)
    except ImportError as error:
        raise UsageError(f"--module {given.module}: {error}") from None
    nodes = not given.looks_only and not is_torch
    try:
        writer = Writer(out, command, given.module, nodes, _seeded(module, seed))
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}") from None
    try:
        with watching(module, writer, nodes):
            code = run_program(command, given.is_module, alias=not is_torch)
    except SystemExit as end:  # a program may end so; what it looked at is compared all the same
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    finally:
        writer.close()
        looks, others = writer.counts["look"], writer.counts["node"]
        rest = f" and {others} computed on the way" if nodes else ""
        rest += f", in {out}" if not given.against or given.out else ""
        print(f"lazyt record: {looks} values looked at{rest}", file=sys.stderr)
    return code


def _tolerance(given: Any, before: str, here: str) -> float | None:
    """What values may differ by: nothing, between runs of one framework."""
    if given.tolerance is not None:
        return float(given.tolerance)
    same = head_of(before).get("module") == head_of(here).get("module")
    return None if same else TOLERANCE


def _compared(before: list[Value], here: list[Value], tolerance: float | None) -> int:
    """Prints the first difference; 1 where there is one."""
    if not any(value.kind == "look" for value in before):
        raise RecordError("the recording has no values that the program looked at")
    look = compare(before, here, "look", tolerance)
    nodes = min(sum(value.kind == "node" for value in values) for values in (before, here))
    node = compare(before, here, "node", tolerance) if nodes else None
    if look is None and node is None:
        rest = f" and {nodes} nodes" if nodes else ""
        how = "equal to the bit" if tolerance is None else f"equal up to {tolerance}"
        print(f"{sum(value.kind == 'look' for value in here)} values{rest} are {how}")
        return 0
    print(f"first difference: {look}" if look is not None else "all values looked at are equal")
    if isinstance(node, Difference):
        print(f"made by {node}")
    elif node is not None:
        print(node)
    return 1
