"""``python -m lazyt warm``: compile now what every program on this machine can use.

What is compiled stays in the disk cache, so that programs need not wait for it; in an image of a
container, or on a machine before it gets work.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from lazyt.tools.arguments import Parser


def run(argv: Sequence[str]) -> int:
    """The command. Raises NoCompilerError and CompileError."""
    Parser(loads=True, prog="lazyt warm", description=__doc__).parse_args(argv)
    warm()
    return 0


def warm() -> int:
    """Has the kernels for any shape compiled that are not on this machine yet, and says how far it
    is; how many units of them there are.

    Raises NoCompilerError and CompileError.
    """
    from lazyt.plan import generic
    from lazyt.runtime import cache
    from lazyt.runtime.cpu import compile

    begun, before = time.perf_counter(), compile.started
    print(f"compiler: {compile.find().version}")
    count = generic.warm(_tell)
    seconds, started = time.perf_counter() - begun, compile.started - before
    if sys.stdout.isatty():
        print("\r", end="")
    what = "all were there" if not started else f"compiled in {seconds:.0f} s"
    print(f"kernels for any shape: {count} units, {what}; they are kept in {cache.folder()}")
    return count


def _tell(done: int, count: int) -> None:
    if sys.stdout.isatty():
        print(f"\rkernels for any shape: {done} of {count} units", end="", flush=True)
