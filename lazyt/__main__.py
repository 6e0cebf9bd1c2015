"""The command line: ``python -m lazyt COMMAND``; ``COMMANDS`` has them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "opt": "IR text in, passes, IR text (or kernels, C, CUDA C) out",
    "show": "a picture of a graph: IR text or a tensor of a Python script, as SVG or HTML",
    "run": "a Python program in which `import torch` gives lazyt",
    "doctor": "check what this machine gives lazyt",
    "kernel": "run a kernel's text on data, time and compare it; check CUDA text without a GPU",
    "bench": "time lazyt beside other frameworks, compare two runs",
    "judge": "score kernels of others, in C, CUDA C and Python: right, and how fast",
    "warm": "compile now what every program on this machine can use",
    "cache": "take compiled kernels along to another machine: export, import",
    "tune": "let kernels try other forms against the clock; list, export, import what was found",
    "fuzz": "random graphs through the compiler, each stage compared with the one before",
    "bisect": "which stage of the compiler is wrong about a graph or a program",
    "reduce": "a graph, a kernel or a program made smaller while it fails",
    "capture": "run a program, and write down all that becomes of its graphs",
    "replay": "compile and run a captured plan, or one kernel of it; time it, check its results",
    "record": "what a program looks at, and where it first differs: machines, versions, PyTorch",
    "diff": "what differs between two captures, or two commits of lazyt, level by level",
    "report": "a capture as one HTML page: from the user's line to the C, with times",
}

#: Where commands are that are no module of ``lazyt.tools``.
MODULES = {
    "bisect": "lazyt.tools.faults.bisect",
    "fuzz": "lazyt.tools.faults.fuzz",
    "reduce": "lazyt.tools.faults.reduce",
    "judge": "lazyt.tools.scoring.judge",
    "capture": "lazyt.tools.captures.recorder",
    "replay": "lazyt.tools.captures.replay",
    "diff": "lazyt.tools.captures.compare",
    "record": "lazyt.tools.records.command",
    "report": "lazyt.tools.captures.report",
}


def _usage() -> str:
    lines = [f"  {name:7} {text}" for name, text in COMMANDS.items()]
    head = "usage: python -m lazyt COMMAND ... | --version\n\n"
    rest = (
        "COMMAND --help says what a command takes. Those that compile take --load FILE.py:\n"
        "a file with passes, ops or targets of your own (LAZYT_LOAD: for any program).\n"
    )
    return head + "\n".join(lines) + "\n\n" + rest


#: Commands that read text of graphs and kernels.
_READ_TEXT = ("opt", "kernel", "bisect", "reduce")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command: 0 when all is well, 1 for bad IR or a failed check, 2 for wrong usage."""
    from lazyt.errors import LazytError
    from lazyt.tools.arguments import UsageError

    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        print(_usage(), end="")
        return 0 if argv else 2
    if argv[0] == "--version":
        from lazyt.version import __version__

        print(f"lazyt {__version__}")
        return 0
    name = argv[0]
    if name not in COMMANDS:
        choices = ", ".join(COMMANDS)
        print(f"lazyt: error: no command '{name}'; there are {choices}", file=sys.stderr)
        return 2
    try:
        code: int = importlib.import_module(MODULES.get(name, f"lazyt.tools.{name}")).run(argv[1:])
        sys.stdout.flush()
        return code
    except UsageError as error:
        print(f"lazyt {name}: error: {error}", file=sys.stderr)
        return 2
    except LazytError as error:
        print(f"lazyt {name}: {error}", file=sys.stderr)
        return 1
    except RecursionError:
        if name not in _READ_TEXT:  # a program's own, which it is told with its lines
            raise
        print(f"lazyt {name}: something of the input nests too deep", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (such as `head`) has seen enough. Point stdout away, or exiting complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
