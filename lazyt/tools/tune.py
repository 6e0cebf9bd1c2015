"""``lazyt.tune``: makes what a function computes faster, by trying it out on this machine."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lazyt.errors import LazytError
from lazyt.handle.pytree import Flat
from lazyt.handle.tensor import Tensor
from lazyt.plan import planning
from lazyt.runtime import winners
from lazyt.tools.arguments import Parser, UsageError, write_output
from lazyt.tracing.jit import Captured
from lazyt.tuning.clock import Progress
from lazyt.tuning.found import check
from lazyt.tuning.plans import PlanReport
from lazyt.tuning.session import Session, running
from lazyt.tuning.strategies import STRATEGIES, StrategyFactory
from lazyt.tuning.trial_log import SearchOptions


class TuneError(LazytError):
    """Something that cannot be tuned; says why."""


@dataclass(frozen=True)
class TuneReport:
    """What ``lazyt.tune`` found. Printed, it is a table.

    Attributes:
        plans: what was found for each plan that the function runs.
        messages: forms that did not compile, or were refused for other reasons.
    """

    plans: tuple[PlanReport, ...]
    messages: tuple[str, ...]

    @property
    def before(self) -> float:
        """Seconds of all plans together, one run each, as heuristics have them."""
        return sum(plan.before for plan in self.plans)

    @property
    def after(self) -> float:
        """The same as they are now."""
        return sum(plan.after for plan in self.plans)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for number, plan in enumerate(self.plans, 1):
            fusing = f", {plan.fusing}" if plan.fusing is not None else ""
            why = f" ({plan.why})" if plan.why else ""
            times = f"{1e6 * plan.before:.1f} us -> {1e6 * plan.after:.1f} us"
            yield f"plan {number}: {times}{fusing}{why}"
            if not plan.kernels:
                yield "  no other form was tried: its kernels have none, or there was no time"
            for k in plan.kernels:
                kept = k.form if plan.kept and k.form is not None else "as it was"
                times = f"{1e6 * k.standard:.1f} us -> {1e6 * k.seconds:.1f} us"
                why = f" ({k.why})" if k.why else ""
                yield f"  {k.outline}: {times} ({k.tried} forms) {kept}{why}"
        yield from self.messages


class Tune:
    """Tunes the kernels of a function: ``lazyt.tune(function, *args, seconds=30)``.

    Other forms of every kernel (tiles, unrolling, which axis is vectorised, how threads share the
    work) and other fusions are timed on this machine, on the function's own data. The winners are
    kept in the cache for this CPU, compiler and number of threads, and every later plan that has
    these kernels uses them, in other processes, too. No choice changes a bit of any result.
    """

    def __call__(
        self,
        function: Callable[..., Any],
        *args: Any,
        seconds: float = 30.0,
        progress: bool | None = None,
        strategy: str | StrategyFactory | None = None,
        log: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> TuneReport:
        """Tune the plans that ``function(*args, **kwargs)`` runs.

        The function is called a few times, as a warm-up would: what it changes is changed. Plans
        that exist are forgotten, so that all that runs afterwards is as it was found to be best.

        Args:
            function: any function on tensors, a module, or one of these under ``lazyt.jit``.
            args: its arguments, of the sizes that matter.
            seconds: how long to search, roughly.
            progress: show a bar on standard error; by default where that is a terminal.
            strategy: which forms are tried: ``climb``, ``random``, ``evolution``, or what makes a
                strategy of your own (``lazyt.tuning.Strategy``); ``config.tune_strategy`` by
                default.
            log: a file that gets every trial as a line of JSON; ``config.tune_log`` by default.
            kwargs: its keyword arguments.

        Tensors among the arguments, and a module's own, are computed first.

        Returns the report, which prints as a table.

        Raises TuneError when the function runs no plan on the CPU, TypeError for what cannot be
        called, ValueError for a budget that is not positive, LazytError for an unknown strategy,
        and what the function raises.
        """
        if not callable(function):
            given = type(function).__name__
            raise TypeError(f"tune expects a function or a module and its arguments, not {given}")
        if not seconds > 0:
            raise ValueError(f"seconds has to be positive, not {seconds!r}")
        options = SearchOptions(strategy, log)
        options.make()
        trials = options.trial_log()
        if trials is not None:
            trials.begin()  # a file that cannot be written is no reason to search first
        _look([args, kwargs, *_own_tensors(function)])  # how they were made is not tuned
        with Progress.shown(progress) as shown:
            session = Session(seconds, shown, options)
            try:
                for looking in (True, False):
                    session.looking = looking
                    planning.clear()
                    self._run(session, function, args, kwargs)
                    if not session.weights:
                        raise TuneError(f"{function!r} runs no plan on the CPU: nothing to tune")
            finally:
                planning.clear()
                _forget(function)
        return TuneReport(tuple(session.reports), tuple(shown.messages))

    def _run(self, session: Session, function: Any, args: Any, kwargs: Any) -> None:
        """Calls the function so that all its plans run."""
        if _forget(function):
            _look(function(*args, **kwargs))  # the first call of all is only watched
            planning.clear()
        with running(session):
            _look(function(*args, **kwargs))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write all winners of this machine to a JSON file, for ``load`` elsewhere.

        Raises OSError when it cannot be written.
        """
        with open(path, "w", encoding="utf-8") as file:
            file.write(winners.to_text())

    def load(self, path: str | os.PathLike[str], any_machine: bool = False) -> int:
        """Take over the winners of a file that ``export`` wrote; how many there are.

        Args:
            path: the file.
            any_machine: also those of another machine. Results are right everywhere, but what was
                fast there may be slow here.

        Raises TuneFileError when the file is something else or of another machine, and OSError when
        it cannot be read. Nothing is taken over then.
        """
        where = os.fspath(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            tables = winners.from_text(file.read(), where, any_machine)
        check(tables, where)
        winners.add(tables)
        planning.clear()
        return sum(map(len, tables.values()))

    def winners(self) -> dict[str, dict[str, Any]]:
        """What was found on this machine: for every kernel its form (None where the heuristics'
        is best) and the microseconds that both take."""
        return {name: dict(entry) for name, entry in winners.tables()["kernels"].items()}

    def clear(self) -> None:
        """Forget all winners of this machine: heuristics decide again."""
        winners.clear()
        planning.clear()


def _forget(function: Any) -> bool:
    """Makes a captured function capture again; False for other functions."""
    captured = getattr(function, "_captured", function)
    if isinstance(captured, Captured):
        Captured.__init__(captured, captured.function, captured.fullgraph)
        return True
    return False


def _own_tensors(function: Any) -> list[Tensor]:
    """The parameters and buffers of a module."""
    if not (hasattr(function, "parameters") and hasattr(function, "buffers")):
        return []
    return [*function.parameters(), *function.buffers()]


def _look(result: Any) -> None:
    """Computes all tensors of a result."""
    leaves: list[Any] = []
    leaves.extend(Flat(result).leaves)
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            leaf.realize()


tune = Tune()


# ``python -m lazyt tune``: run a program with tuning on, and look after what was found.


def _parser() -> Parser:
    parser = Parser(prog="lazyt tune", description=__doc__)
    parts = parser.add_subparsers(dest="action", required=True, parser_class=Parser)
    run_ = parts.add_parser(
        "run", loads=True, as_torch=True,
        help="run a Python program, in which `import torch` gives lazyt; every plan is tuned once",
    )  # fmt: skip
    run_.add_argument("--seconds", type=int, default=20, help="budget of each plan (20)")
    run_.add_argument("--strategy", choices=tuple(STRATEGIES), help="which forms are tried (climb)")
    run_.add_argument("--log", help="a file that gets every trial as a line of JSON")
    run_.add_argument("script", help="the program")
    run_.add_argument("arguments", nargs="...", help="what it is given")
    parts.add_parser("list", help="what was found on this machine")
    export = parts.add_parser("export", help="write it as JSON")
    export.add_argument("file", help="the file, - for standard output")
    load = parts.add_parser("import", help="take over what `export` wrote")
    load.add_argument("file", help="the file")
    load.add_argument("--any-machine", action="store_true", help="also that of another machine")
    parts.add_parser("clear", help="forget what was found on this machine")
    return parser


def run(argv: Sequence[str]) -> int:
    """The command. Raises UsageError for a command line that cannot be carried out."""
    from lazyt.runtime import winners

    wanted = _parser().parse_args(argv)
    if wanted.action == "run":
        settings = {"tune": True, "tune_seconds": wanted.seconds}
        chosen = {"tune_strategy": wanted.strategy, "tune_log": wanted.log}
        settings |= {name: value for name, value in chosen.items() if value is not None}
        return _run_script(wanted.script, wanted.arguments, settings)
    if wanted.action == "list":
        sys.stdout.write(_listed(tune.winners()))
    elif wanted.action == "export":
        write_output(wanted.file, winners.to_text())
    elif wanted.action == "import":
        try:
            count = tune.load(wanted.file, wanted.any_machine)
        except OSError as error:
            raise UsageError(f"cannot read {wanted.file}: {error.strerror}") from None
        print(f"{count} entries")
    else:
        tune.clear()
    return 0


def _run_script(script: str, arguments: list[str], settings: dict[str, Any]) -> int:
    from lazyt.compat import torch_alias
    from lazyt.config import config

    before = sys.argv
    sys.argv = [script, *arguments]
    try:
        with torch_alias.standing_in(), config.override(**settings):
            runpy.run_path(script, run_name="__main__")
    except FileNotFoundError as error:
        if error.filename == script:
            raise UsageError(f"no such file: {script}") from None
        raise
    finally:
        sys.argv = before
    return 0


def _listed(found: dict[str, dict[str, object]]) -> str:
    if not found:
        return "nothing was tuned on this machine\n"
    lines = []
    for name, entry in sorted(found.items()):
        times = f"{entry.get('standard_us')} us -> {entry.get('tuned_us')} us"
        lines.append(f"{name}: {times}")
        if entry["form"] is not None:
            lines.append(f"    {entry['form']}")
    return "\n".join(lines) + "\n"
