"""``python -m lazyt bench``: lazyt's speed beside other frameworks, and ``bench compare``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazyt.tools.arguments import Parser, UsageError, write_output

if TYPE_CHECKING:
    from lazyt.bench.problems import Workload
    from lazyt.bench.results import Run
    from lazyt.bench.session import Session

SUITES = ("peers", "sizes", "kernels", "liger", "dtypes", "optimizers", "training")
PEERS = ("torch", "compile", "jax", "tinygrad", "numpy")


def _parser() -> Parser:
    parser = Parser(
        prog="lazyt bench",
        description="Time lazyt beside whichever peers are installed.",
        epilog="`lazyt bench compare A.json B.json` shows what changed between two runs.",
    )
    parser.add_argument("--suite", choices=[*SUITES, "all"], default="peers")
    parser.add_argument(
        "--only", default="", help="names of workloads or patterns such as 'softmax@*', with commas"
    )
    parser.add_argument("--peers", default=",".join(PEERS), help="with commas; '' for none")
    parser.add_argument(
        "--python",
        default=os.environ.get("LAZYT_BENCH_PYTHON", sys.executable),
        help="the interpreter that has the peers (LAZYT_BENCH_PYTHON, or this one)",
    )
    parser.add_argument("--rounds", type=int, help="turns of each process (9; quick: 2)")
    parser.add_argument("--samples", type=int, default=3, help="timed calls of a turn (3)")
    parser.add_argument("--threads", type=int, help="of every framework (as many as cores)")
    parser.add_argument("--by", choices=["median", "min"], default="median")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it still work?")
    parser.add_argument("--list", action="store_true", help="name the workloads and stop")
    for kind in ("json", "html", "png"):
        parser.add_argument(f"--{kind}", type=Path, metavar="FILE", help=f"write {kind} there")
    return parser


def run(argv: Sequence[str]) -> int:
    """The command; 1 when lazyt failed at something or was wrong."""
    if argv[:1] == ["compare"]:
        return _compare(argv[1:])
    given = _parser().parse_args(argv)
    from lazyt.bench.problems import select

    try:
        chosen = select([name for name in given.only.split(",") if name], given.suite)
    except ValueError as error:
        raise UsageError(f"{error}; see `lazyt bench --list --suite all`") from None
    if given.list:
        for workload in chosen:
            sizes = ", ".join(f"{name} {extent}" for name, extent in workload.dims().items())
            print(f"{workload.name:40} {workload.suite:10} {sizes}")
        return 0
    measured = _measure(given, chosen)
    _report(measured, given)
    own = [result for result in measured.results if result.framework in ("lazyt", "lazy")]
    return int(any(result.problem for result in own))


def _session(given: argparse.Namespace) -> Session:
    from lazyt.bench.frameworks import OWN
    from lazyt.bench.session import Options, Session
    from lazyt.runtime import devices

    peers = [name for name in given.peers.split(",") if name]
    if unknown := [name for name in peers if name not in PEERS]:
        raise UsageError(f"unknown peer {unknown[0]}; there are {', '.join(PEERS)}")
    frameworks = (*OWN, *peers)
    threads = given.threads or devices.core_count()
    rounds = given.rounds or (2 if given.quick else 9)
    return Session(Options(frameworks, threads, given.python, rounds, given.samples, given.quick))


def _measure(given: argparse.Namespace, chosen: Sequence[Workload]) -> Run:
    from lazyt.bench.results import Run, describe_machine, write

    session = _session(given)
    options = session.options
    settings = {
        "threads": options.threads,
        "rounds": options.rounds,
        "samples": options.samples,
        "quick": options.quick,
        "by": given.by,
    }
    made = Run(describe_machine(), settings, None, None, [])
    limits = [] if options.quick else [session.machine()]
    with _progress(session, session.steps() * len(chosen)):
        for workload in chosen:
            known = set(session.missing)
            made.results += session.measure(workload)
            for name in session.missing.keys() - known:
                print(f"{name} is left out: {session.missing[name]}", file=sys.stderr)
            if given.json:
                write(made, given.json)  # so that an interrupted run is not lost
    if not options.quick:
        limits.append(session.machine())
    if found := [pair for pair in limits if pair is not None]:
        made.bandwidth = max(bandwidth for bandwidth, _ in found)
        made.peak = max(peak for _, peak in found)
    return made


@contextmanager
def _progress(session: Session, steps: int) -> Iterator[None]:
    """Shows how far the session is: a bar where ``rich`` is installed and a person looks."""
    if not sys.stderr.isatty():
        yield
        return
    try:
        progress: Any = importlib.import_module("rich.progress")
    except ImportError:
        session.advance = lambda what: print(what, file=sys.stderr)
        yield
        return
    console = importlib.import_module("rich.console").Console(stderr=True)
    columns = [
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}"),
    ]
    with progress.Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=steps)
        session.advance = lambda what: bar.update(task, advance=1, description=what)
        yield


def _report(measured: Run, given: argparse.Namespace) -> None:
    from lazyt.bench import chart
    from lazyt.bench.results import write
    from lazyt.bench.table import main_table, summary

    main_table(measured).show()
    print("\n".join(summary(measured)))
    if given.quick:
        print("small sizes, few samples (--quick): these times say only that everything works")
    try:
        if given.json:
            write(measured, given.json)
        if given.html:
            write_output(str(given.html), chart.to_html(measured))
        if given.png:
            chart.write_png(measured, given.png)
    except ImportError:
        raise UsageError("--png needs matplotlib") from None
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from None


def _compare(argv: Sequence[str]) -> int:
    parser = Parser(prog="lazyt bench compare", description="What changed between two runs.")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    given = parser.parse_args(argv)
    from lazyt.bench.compare import compare
    from lazyt.bench.results import read

    try:
        table, lines = compare(read(given.before), read(given.after))
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot read {error.filename}: {error.strerror}") from None
    table.show()
    print("\n".join(lines))
    return 0
