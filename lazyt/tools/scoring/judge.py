"""``python -m lazyt judge``: scores kernels of others against a problem."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lazyt.tools.arguments import Parser, UsageError, count, write_output

if TYPE_CHECKING:
    from lazyt.bench.judge.judging import Options


def _parser() -> Parser:
    parser = Parser(
        loads=True,
        prog="lazyt judge",
        description="Judge kernels in C, CUDA C and Python: right on inputs that nobody can know, "
        "and how fast.",
        epilog="Exit code 1 where a submission is refused.",
    )
    parser.add_argument("submission", nargs="*", type=Path, help="a file, or a folder of them")
    parser.add_argument(
        "--task", default="",
        help="a workload of the bench or a task of a --load file (the file's name without ending)",
    )  # fmt: skip
    parser.add_argument(
        "--reference", type=Path,
        help="for modules: the file with Model, or a folder with one of the same name for each",
    )  # fmt: skip
    parser.add_argument("--signature", action="store_true", help="print the task's C head and stop")
    parser.add_argument("--rounds", type=count, default=9, help="rounds that are timed (9)")
    parser.add_argument(
        "--baseline", default="lazyt", help="lazyt, torch, compile ...; '' for none"
    )
    parser.add_argument("--module", choices=["lazyt", "torch"], default="lazyt",
                        help="what `import torch` gives in Python submissions")  # fmt: skip
    parser.add_argument(
        "--allow-framework", action="store_true",
        help="let Python submissions compute by the framework's own operations",
    )  # fmt: skip
    parser.add_argument("--python", default="", help="the interpreter that has that (this one)")
    parser.add_argument("--threads", type=int, default=0, help="of every side (as many as cores)")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of a turn (20)")
    parser.add_argument("--memory", type=float, default=4.0, help="limit in GiB (4); 0 for none")
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    for kind in ("json", "html"):
        parser.add_argument(f"--{kind}", metavar="FILE", help=f"write {kind} there")
    return parser


def run(argv: Sequence[str]) -> int:
    """The command; 1 when a submission is refused."""
    given = _parser().parse_args(argv)
    if not sys.platform.startswith("linux"):
        raise UsageError("submissions are judged on Linux only")
    from lazyt.bench.judge import build, report, tasks
    from lazyt.bench.judge.submissions import collect

    try:
        if given.signature:
            print(build.signature(tasks.find(given.task, given.quick)))
            return 0
        if not given.submission:
            raise UsageError("name a file or a folder; see `lazyt judge --help`")
        found = collect(given.submission, given.task, given.reference, given.quick)
        options = _options(given)
        verdicts = []
        for submission in found:
            verdict = submission.judge(options, given.module)
            print(f"{verdict.submission}: {verdict.kind}", file=sys.stderr)
            verdicts.append(verdict)
    except ValueError as error:
        raise UsageError(str(error)) from None
    report.table(verdicts).show()
    print("\n".join(report.summary(verdicts)))
    if given.json:
        write_output(given.json, report.to_json(verdicts))
    if given.html:
        write_output(given.html, report.to_html(verdicts))
    return int(not all(verdict.accepted for verdict in verdicts))


def _options(given: argparse.Namespace) -> Options:
    from lazyt.bench.frameworks import FRAMEWORKS
    from lazyt.bench.judge.judging import Options
    from lazyt.bench.judge.process import Limits
    from lazyt.runtime import devices

    if given.baseline and given.baseline not in FRAMEWORKS:
        raise UsageError(f"no baseline {given.baseline}; there are {', '.join(FRAMEWORKS)}")
    if given.rounds < 2 or given.seconds <= 0 or given.memory < 0 or given.threads < 0:
        raise UsageError("--rounds is 2 at least, --seconds positive, --memory and --threads >= 0")
    threads = given.threads or devices.core_count()
    limits = Limits(given.seconds, int(given.memory * (1 << 30)), threads)
    rounds = (min(given.rounds, 3), 1, 2) if given.quick else (given.rounds, 3, 6)
    loads = tuple(map(os.path.realpath, given.load))  # children work in folders of their own
    return Options(
        *rounds, limits, given.baseline, given.python, loads, given.quick, given.allow_framework
    )
