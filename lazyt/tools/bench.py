"""``python -m lazyt bench``: lazyt's speed beside other frameworks; ``bench compare`` and ``bench
ab`` say what changed between two runs, or two versions."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazyt.tools.arguments import Parser, UsageError, write_output

if TYPE_CHECKING:
    from lazyt.bench.comparison import Rules
    from lazyt.bench.problems import Workload
    from lazyt.bench.results import Result, Run
    from lazyt.bench.session import Session

SUITES = ("peers", "sizes", "kernels", "liger", "dtypes", "optimizers", "training", "gpu")
PEERS = ("torch", "compile", "jax", "tinygrad", "numpy")
#: Those that are run on a GPU; torch.compile's kernels there are Triton's.
GPU_PEERS = ("torch", "compile")
#: The suite of the workloads that loaded files declare.
LOADED = "loaded"


def _parser() -> Parser:
    parser = Parser(
        loads=True,
        as_torch=True,
        prog="lazyt bench",
        description="Time lazyt beside whichever peers are installed.",
        epilog="`lazyt bench compare A.json B.json` shows what changed between two runs, "
        "`lazyt bench ab A B` times two versions side by side.",
    )
    parser.add_argument(
        "--suite", choices=[*SUITES, LOADED, "all"],
        help="peers; on a GPU: gpu; loaded where a loaded file declares workloads",
    )  # fmt: skip
    parser.add_argument(
        "--device", default="", help="cuda, cuda:1 ... or the emulator cuda:emu; else the CPU"
    )
    parser.add_argument(
        "--only", default="", help="names of workloads or patterns such as 'softmax@*', with commas"
    )
    parser.add_argument("--peers", help="with commas; '' for none")
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
    parser.add_argument(
        "--resume", action="store_true", help="keep what the --json file has, measure the rest"
    )
    for kind in ("json", "html", "png", "csv"):
        parser.add_argument(f"--{kind}", type=Path, metavar="FILE", help=f"write {kind} there")
    parser.add_argument(
        "--roofline", type=Path, metavar="FILE.svg",
        help="draw what all reached below the machine's bounds there",
    )  # fmt: skip
    return parser


def run(argv: Sequence[str]) -> int:
    """The command; 1 when lazyt failed at something or was wrong, or became slower than allowed."""
    if argv[:1] == ["compare"]:
        return _compare(argv[1:])
    if argv[:1] == ["ab"]:
        return _side_by_side(argv[1:])
    given = _parser().parse_args(argv)
    _settle(given)
    chosen = _chosen(given)
    if given.list:
        for workload in chosen:
            sizes = ", ".join(f"{name} {extent}" for name, extent in workload.dims().items())
            print(f"{workload.name:40} {workload.suite:10} {sizes}")
        return 0
    measured = _measure(given, chosen)
    _report(measured, given)
    own = [result for result in measured.results if result.framework in ("lazyt", "lazy")]
    return int(any(result.problem for result in own))


def _chosen(given: argparse.Namespace) -> list[Workload]:
    """The workloads that fit the patterns, or else those of the suite: of the loaded files where
    these declare some. Raises UsageError."""
    from lazyt.bench.problems import declared, select

    suite = given.suite or (LOADED if declared() else "peers")
    try:
        found = select([name for name in given.only.split(",") if name], suite)
    except ValueError as error:
        raise UsageError(f"{error}; see `lazyt bench --list --suite all`") from None
    if not found:
        raise UsageError("no file that was loaded declares a workload")
    return found


def _settle(given: argparse.Namespace) -> None:
    """What follows from the device. Raises UsageError for one that cannot be used."""
    given.suite = given.suite or ("gpu" if given.device else None)
    if given.peers is None:
        peers = () if given.device == "cuda:emu" else GPU_PEERS if given.device else PEERS
        given.peers = ",".join(peers)
    if given.device:
        from lazyt.errors import LazytError
        from lazyt.handle.cuda_devices import wanted_device

        try:
            wanted_device(given.device)
        except LazytError as error:
            raise UsageError(str(error)) from None


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
    counts = rounds, given.samples, given.quick
    return Session(Options(frameworks, threads, given.python, *counts, given.device))


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
        **({"device": given.device} if given.device else {}),
    }
    made = Run(describe_machine(given.device), settings, _resumed(given, settings))
    have = set(made.workloads())
    chosen = [workload for workload in chosen if workload.name not in have]
    count = f"{len(chosen)} {'small ' * options.quick}workload{'s' * (len(chosen) != 1)}"
    print(
        f"timing {count} in {', '.join(options.frameworks)}: {options.rounds} turns of each, "
        f"{options.samples} calls a turn, threads: {options.threads}",
        file=sys.stderr,
    )
    with session, _progress(session, session.steps() * len(chosen)):
        for workload in chosen:
            known = set(session.missing)
            made.results += session.measure(workload)
            for name in session.missing.keys() - known:
                print(f"{name} is left out: {session.missing[name]}", file=sys.stderr)
            if given.json:
                write(made, given.json)  # so that an interrupted run is not lost
    return made


def _resumed(given: argparse.Namespace, settings: dict[str, object]) -> list[Result]:
    """The results that an interrupted run left. Raises UsageError where they do not fit."""
    from lazyt.bench.results import read

    if not given.resume:
        return []
    if given.json is None:
        raise UsageError("--resume needs --json, the file of the interrupted run")
    if not given.json.exists():
        return []
    try:
        earlier = read(given.json)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if earlier.settings != settings:
        raise UsageError(f"{given.json} was measured with other settings: {earlier.settings}")
    return earlier.results


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
    from lazyt.bench import report
    from lazyt.bench.report import main_table, summary
    from lazyt.bench.results import write

    main_table(measured).show()
    print("\n".join(summary(measured)))
    if given.quick:
        print("small sizes, few samples (--quick): these times say only that everything works")
    try:
        if given.json:
            write(measured, given.json)
            print(f"written: {given.json}")
        if given.html:
            write_output(str(given.html), report.to_html(measured))
        if given.png:
            report.write_png(measured, given.png)
            print(f"written: {given.png}")
        if given.csv:
            write_output(str(given.csv), report.to_csv(measured))
        if given.roofline:
            draw_roofline(measured, given.roofline)
    except ImportError:
        raise UsageError("--png needs matplotlib") from None
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from None


def draw_roofline(measured: Run, path: Path) -> None:
    """Draws all times of workloads whose operations are known, and says how many are not. Those of
    products and convolutions are counted; others' are those of lazyt's kernels, for every
    framework."""
    from lazyt.tools.captures.figures import Point, roofline

    counted: dict[str, float] = {}
    for r in measured.results:
        if operations := r.flops or r.operations:
            counted[r.workload] = operations
    timed = [(r, seconds) for r in measured.results if (seconds := measured.seconds(r))]
    points = [
        Point(r.workload, r.nbytes, counted[r.workload], seconds, "", r.framework)
        for r, seconds in timed
        if r.workload in counted
    ]
    bandwidth, peak = measured.bandwidth, measured.peak
    if not points or not bandwidth or not peak:
        why = "no workload counts operations" if not points else "the machine's bounds are unknown"
        print(f"no roofline is drawn: {why}", file=sys.stderr)
        return
    write_output(str(path), roofline(points, bandwidth, peak, alone=True))
    if left := {r.workload for r, _ in timed} - counted.keys():
        print(f"not in the roofline, as nobody counts their operations: {', '.join(sorted(left))}")


def _add_rules(parser: Parser) -> None:
    """The arguments by which changes are judged, and files of what was found."""
    parser.add_argument("--ci", type=float, default=95, help="confidence in per cent (95)")
    parser.add_argument(
        "--fail-above", type=float, metavar="RATIO",
        help="exit with 1 if anything is surely slower than by this factor, or not right any more",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all of it there")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a line for each change")


def _rules(given: argparse.Namespace, paired: bool) -> Rules:
    from lazyt.bench.comparison import THRESHOLD, Rules

    if not 50 <= given.ci < 100:
        raise UsageError(f"--ci is a confidence of 50 to below 100 per cent, not {given.ci:g}")
    limit = THRESHOLD if given.fail_above is None else given.fail_above
    if not 1 <= limit < math.inf:
        raise UsageError(f"--fail-above is a factor of 1 or more, not {limit:g}")
    return Rules(given.ci / 100, limit, paired)


def _show_changes(before: Run, after: Run, rules: Rules, given: argparse.Namespace) -> int:
    """Prints and writes what changed; 1 where that is more than is allowed."""
    from lazyt.bench.comparison import compare, conclusion, to_csv, to_json
    from lazyt.bench.report import comparison_table

    changes = compare(before, after, rules)
    comparison_table(changes, rules).show()
    print("\n".join(conclusion(changes, rules)))
    for one, other, word in ((before, after, "before"), (after, before, "after")):
        if alone := one.found().keys() - other.found().keys():
            names = ", ".join(sorted({workload for workload, _ in alone}))
            print(f"timed only {word}, or in other frameworks: {names}")
    if before.machine.get("cpu") != after.machine.get("cpu"):
        print("The two were measured on different processors.")
    if given.json:
        text = json.dumps(to_json(before, after, changes, rules), indent=1) + "\n"
        write_output(str(given.json), text)
    if given.csv:
        write_output(str(given.csv), to_csv(changes))
    return int(given.fail_above is not None and any(change.fails for change in changes))


def _compare(argv: Sequence[str]) -> int:
    parser = Parser(prog="lazyt bench compare", description="What changed between two runs.")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    _add_rules(parser)
    given = parser.parse_args(argv)
    rules = _rules(given, paired=False)
    from lazyt.bench.results import read

    try:
        before, after = read(given.before), read(given.after)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot read {error.filename}: {error.strerror}") from None
    return _show_changes(before, after, rules, given)


def _side_by_side(argv: Sequence[str]) -> int:
    parser = Parser(
        loads=True,
        as_torch=True,
        prog="lazyt bench ab",
        description="Time two versions of lazyt, turn by turn, so that what else the machine does "
        "hits both alike.",
        epilog="A version is a commit, a folder with a package lazyt, an interpreter with lazyt "
        "installed, a FILE.py that is loaded into this lazyt, or the word this.",
    )
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--suite", choices=[*SUITES, LOADED, "all"], help="peers, or loaded")
    parser.add_argument("--only", default="", help="names of workloads or patterns, with commas")
    parser.add_argument("--rounds", type=int, default=12, help="turns of each version (12)")
    parser.add_argument("--samples", type=int, default=3, help="timed calls of a turn (3)")
    parser.add_argument("--threads", type=int, help="as many as cores")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    _add_rules(parser)
    given = parser.parse_args(argv)
    rules = _rules(given, paired=True)
    if given.rounds < 2:
        raise UsageError("--rounds has to be 2 at least: one says nothing of the next")
    chosen = _chosen(given)
    from lazyt.bench.results import Run, describe_machine
    from lazyt.bench.session import Options, Session
    from lazyt.bench.side_by_side import LAUNCHES, measure, side
    from lazyt.runtime import devices

    threads = given.threads or devices.core_count()
    options = Options(("lazyt",), threads, sys.executable, given.rounds, given.samples, given.quick)
    settings = {name: getattr(options, name) for name in ("threads", "rounds", "samples", "quick")}
    machine = describe_machine()
    before = Run(machine, {**settings, "version": given.before}, [])
    after = Run(machine, {**settings, "version": given.after}, [])
    with tempfile.TemporaryDirectory(prefix="lazyt-bench-") as scratch:
        try:
            sides = [side(name, Path(scratch)) for name in (given.before, given.after)]
        except ValueError as error:
            raise UsageError(str(error)) from None
        each = 1 + 2 * (min(LAUNCHES, given.rounds) + given.rounds)
        with Session(options) as session, _progress(session, each * len(chosen)):
            for workload in chosen:
                old, new = measure(session, workload, "lazyt", sides)
                before.results.append(old)
                after.results.append(new)
    return _show_changes(before, after, rules, given)
