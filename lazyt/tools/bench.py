"""``python -m lazyt bench``: lazyt's speed beside other frameworks; ``bench compare`` and ``bench
ab`` say what changed between two runs, or two versions, and ``bench problems`` writes problems as
files."""

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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazyt.tools.arguments import Parser, UsageError, count, write_output

if TYPE_CHECKING:
    from lazyt.bench.comparison import Rules
    from lazyt.bench.problems import Workload
    from lazyt.bench.results import Result, Run
    from lazyt.bench.session import Session

SUITES = (
    "peers", "sizes", "kernels", "liger", "dtypes", "optimizers", "training", "gpu", "level1",
    "level2", "level3", "level1-full", "level2-full", "level3-full",
)  # fmt: skip
#: Several suites at once.
GROUPS = ("levels", "levels-full", "loaded", "all")
PEERS = ("torch", "compile", "jax", "tinygrad", "numpy")
#: The suite of the workloads that loaded files declare.
LOADED = "loaded"
#: So many workloads take so long that each is a line of a log.
MANY = 10
#: Those that are run on a GPU, where torch.compile's kernels are Triton's, and those that have
#: the networks of levels.
GPU_PEERS = NETWORK_PEERS = ("torch", "compile")


def _parser() -> Parser:
    parser = Parser(
        loads=True,
        as_torch=True,
        prog="lazyt bench",
        description="Time lazyt beside whichever peers are installed.",
        epilog="`lazyt bench compare A.json B.json` shows what changed between two runs, "
        "`lazyt bench ab A B` times two versions side by side, `lazyt bench problems` lists the "
        "problems of levels or writes them as files.",
    )
    parser.add_argument(
        "--suite", choices=[*SUITES, *GROUPS],
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
    parser.add_argument("--rounds", type=count, help="turns of each process (9; quick: 2)")
    parser.add_argument("--samples", type=count, default=3, help="timed calls of a turn (3)")
    parser.add_argument("--threads", type=count, help="of every framework (as many as cores)")
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
    if argv[:1] == ["problems"]:
        return _problems(argv[1:])
    given = _parser().parse_args(argv)
    _settle(given)
    chosen = _chosen(given)
    if given.list:
        for workload in chosen:
            sizes = ", ".join(f"{name} {extent}" for name, extent in workload.dims().items())
            print(f"{workload.name:40} {workload.suite:10} {sizes}")
        return 0
    given.peers = ",".join(_peers(given, chosen))
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
    if given.device:
        from lazyt.errors import LazytError
        from lazyt.handle.cuda_devices import wanted_device

        try:
            wanted_device(given.device)
        except LazytError as error:
            raise UsageError(str(error)) from None


def _peers(given: argparse.Namespace, chosen: Sequence[Workload]) -> Sequence[str]:
    """Whom lazyt is timed beside. Raises UsageError for one that there is not."""
    if given.peers is not None:
        named = [name for name in given.peers.split(",") if name]
        if unknown := [name for name in named if name not in PEERS]:
            raise UsageError(f"unknown peer {unknown[0]}; there are {', '.join(PEERS)}")
        return named
    if given.device:
        return () if given.device == "cuda:emu" else GPU_PEERS
    has_functions = any(workload.problem.network is None for workload in chosen)
    return PEERS if has_functions else NETWORK_PEERS


def _session(given: argparse.Namespace) -> Session:
    from lazyt.bench.frameworks import OWN
    from lazyt.bench.session import Options, Session
    from lazyt.runtime import devices

    frameworks = (*OWN, *(name for name in given.peers.split(",") if name))
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
        for number, workload in enumerate(chosen, 1):
            known = set(session.missing)
            found = session.measure(workload)
            made.results += found
            if len(chosen) >= MANY and not sys.stderr.isatty():
                print(f"[{number}/{len(chosen)}] {_in_a_line(made, found)}", file=sys.stderr)
            for name in session.missing.keys() - known:
                print(f"{name} is left out: {session.missing[name]}", file=sys.stderr)
            if given.json:
                write(made, given.json)  # so that an interrupted run is not lost
    return made


def _in_a_line(run: Run, found: Sequence[Result]) -> str:
    """What came out for a workload."""
    from lazyt.bench.report import format_time

    cells = []
    for result in found:
        seconds = run.seconds(result)
        said = format_time(seconds) if seconds else result.problem or result.absent
        cells.append(f"{result.framework} {said}")
    return f"{found[0].workload}: {', '.join(cells)}"


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
    from lazyt.bench.report import fast_p_table, main_table, summary
    from lazyt.bench.results import write

    main_table(measured).show()
    fast = fast_p_table(measured)
    if fast is not None:
        fast.show()
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
        help="exit with 1 if anything is surely slower than by this factor, or not right any more, "
        "or if nothing could be compared",
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
    from lazyt.bench.comparison import compare, compared, conclusion, to_csv, to_json
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
    if given.fail_above is None:
        return 0
    if not compared(changes):
        print("Nothing of lazyt could be compared, which counts as a failure.")
        return 1
    return int(any(change.fails for change in changes))


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
    parser.add_argument("--suite", choices=[*SUITES, *GROUPS], help="peers, or loaded")
    parser.add_argument("--only", default="", help="names of workloads or patterns, with commas")
    parser.add_argument("--rounds", type=count, default=12, help="turns of each version (12)")
    parser.add_argument(
        "--most-rounds", type=int,
        help="of those workloads of which too little is known (4 times --rounds)",
    )  # fmt: skip
    parser.add_argument("--samples", type=count, default=9, help="timed calls of a turn (9)")
    parser.add_argument("--threads", type=count, help="as many as cores")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    _add_rules(parser)
    given = parser.parse_args(argv)
    if given.rounds < 2:
        raise UsageError("--rounds has to be 2 at least: one says nothing of the next")
    most = 4 * given.rounds if given.most_rounds is None else given.most_rounds
    if most < given.rounds:
        raise UsageError(f"--most-rounds is {given.rounds} (--rounds) or more, not {most}")
    rules = replace(_rules(given, paired=True), looks=math.ceil(most / given.rounds))
    chosen = _chosen(given)
    from lazyt.bench.comparison import compare, undecided
    from lazyt.bench.results import Run, describe_machine
    from lazyt.bench.session import Options, Session
    from lazyt.bench.side_by_side import LAUNCHES, measure, side
    from lazyt.runtime import devices

    threads = given.threads or devices.core_count()
    options = Options(("lazyt",), threads, sys.executable, given.rounds, given.samples, given.quick)
    settings = {name: getattr(options, name) for name in ("threads", "rounds", "samples", "quick")}
    machine, versions = describe_machine(), (given.before, given.after)
    before, after = (Run(machine, {**settings, "version": name}, []) for name in versions)
    with tempfile.TemporaryDirectory(prefix="lazyt-bench-") as scratch:
        try:
            sides = [side(name, Path(scratch)) for name in versions]
        except ValueError as error:
            raise UsageError(str(error)) from None
        each = 1 + 2 * (min(LAUNCHES, given.rounds) + given.rounds)
        for _ in range(rules.looks):
            with Session(options) as session, _progress(session, each * len(chosen)):
                for workload in chosen:
                    old, new = measure(session, workload, "lazyt", sides)
                    before.add(old)
                    after.add(new)
            seen = compare(before, after, rules)
            again = {change.workload for change in seen if undecided(change, rules)}
            chosen = [workload for workload in chosen if workload.name in again]
            if not chosen:
                break
    return _show_changes(before, after, rules, given)


def _problems(argv: Sequence[str]) -> int:
    parser = Parser(
        prog="lazyt bench problems",
        description="List the problems of the three levels, or write each as a file with a class "
        "Model, get_inputs() and get_init_inputs(), as KernelBench has them.",
    )
    parser.add_argument("--level", type=int, choices=[1, 2, 3], help="one of them (all)")
    parser.add_argument("--only", default="*", help="names or patterns such as '*softmax*'")
    parser.add_argument(
        "--size", choices=["quick", "cpu", "full"], default="full",
        help="of a test, for a CPU, or for a GPU (full)",
    )  # fmt: skip
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write the files there")
    given = parser.parse_args(argv)
    from lazyt.bench.networks.building import declared, dims_of
    from lazyt.bench.networks.export import write
    from lazyt.bench.problems import fits

    patterns = [p for text in given.only.split(",") if (p := text.strip())]
    chosen = [
        problem
        for problem in declared()
        if (given.level is None or problem.suite == f"level{given.level}")
        and any(fits(problem, pattern, True) for pattern in patterns)
    ]
    if not chosen:
        raise UsageError(f"no problem is called {given.only}; see `lazyt bench problems`")
    if given.export is None:
        for problem in chosen:
            dims = dims_of(problem, given.size)
            sizes = ", ".join(f"{name} {extent}" for name, extent in dims.items())
            print(f"{problem.name:60} {sizes}")
        return 0
    try:
        written = write(chosen, given.export, given.size)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from None
    print(f"written: {len(written)} problem{'s' * (len(written) != 1)} below {given.export}")
    return 0
