"""Tiers: a plan runs at once, and gets fused kernels when they are worth the compiler's time.

Tier 0 runs a graph that has no kernels yet, by generic ones that need no compiler, whatever its
numbers are (``Trial``). Once it has run for longer than it takes to look for kernels on disk, that
is done; where there are none, its runs are counted on (``Meter``). Once it has run for about as
long as its compiler would, or is likely to, the graph is queued for a process that compiles in the
background (``plan/server.py``), the most valuable one first. When the kernels are there the
plan's ``code`` is replaced: tier 1. The bits of results are the same, so nobody can tell but by the
time.

What cannot go to that process is compiled as ever, before it runs: graphs for other devices, plans
that are to be tuned, verified or written down, passes of a user's own, and ops from outside the
package. So are graphs with a value on the way that dwarfs all others (``VAST``): tier 0 would put
it into memory.
"""

from __future__ import annotations

import atexit
import functools
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from lazyt import extensions
from lazyt.config import config
from lazyt.errors import CompileError, LazytError, NoCompilerError, warn
from lazyt.ir.forms import type_of
from lazyt.ir.graph import source_text, topological
from lazyt.plan import build, constant_lifting, dynamic_shapes, generic
from lazyt.plan.build import Code, Plan, lock
from lazyt.runtime import cache, events
from lazyt.runtime.cpu import execute, progress
from lazyt.runtime.cpu.openmp import team
from lazyt.runtime.cpu.servers import Server, ServerError
from lazyt.runtime.cpython import forks
from lazyt.runtime.definitions import definitions_outside
from lazyt.transforms.complex_graphs import has_complex

if TYPE_CHECKING:
    from lazyt.ir.graph import Node, Type
    from lazyt.ir.program import Program
    from lazyt.plan.build import Asked, Subject
    from lazyt.plan.generic import Generic, Instructions
    from lazyt.plan.graph_keys import Structure
    from lazyt.runtime.cpu.execute import Executable

#: Seconds that compiling takes, and for each node of the graph more, about.
BASE, EACH = 0.3, 0.03
#: Runs that are to be expected of a plan that comes back.
SOON = 20
#: Runs after which a plan gets kernels however short they are, if a captured function runs it, or
#: any other that takes at least so many seconds: shorter ones are as quick in tier 0.
OFTEN, VERY_OFTEN, SHORT = 64, 4000, 20e-6
#: Seconds that looking for a graph's kernels on disk takes, and for each node more, about: it is
#: done once the graph has run in tier 0 for as long, or is about to with its first run.
LOOK, LOOK_EACH = 0.002, 40e-6
#: Elementary steps of a second in tier 0, about.
_PACE = 2e9
#: Bytes of a value on the way, and how many times those of all inputs and results they have to be,
#: for a graph that fused kernels compute without it, and tier 0 would put into memory.
VAST, TIMES = 1 << 27, 8
#: Seconds without a plan to compile after which kernels for any shape are compiled: most programs
#: that end before that have no use for more of them.
IDLE = 2.0
#: Seconds in which another thread has certainly taken its turn.
_TURN = 2e-4
#: Times that a graph is given to a new process after the last one has died of it.
_AGAIN = 1
#: Processes that may die one after the other until there are no more.
_DEATHS = 4
#: Settings that a plan depends on beside those of ``Config.of_plans``.
_SETTINGS = ("cache_bytes", "cache_dir", "disk_cache", "provenance")
#: Settings that decide which kernels a plan gets.
_OF_KERNELS = (
    "any_size", "bands", "exact", "inline_reduce", "matrix_registers", "memory_budget",
)  # fmt: skip
_ENVIRONMENT = ("CC", "PATH", "TMPDIR")


class NoServerWarning(UserWarning):
    """No process can compile in the background, so plans are compiled before they run."""


#: For tests: says at each run of a plan in tier 0, after it, whether it gets its kernels now, from
#: a compiler that is waited for.
force: Callable[[Plan], bool] | None = None


class Trial:
    """How the graphs of a structure begin in tier 0, by instructions for any numbers.

    Attributes:
        instructions: them; None where there are none.
        plan: that of the last graph.
        runs, seconds: how often they were run, and for how long together.
        is_over: whether kernels are to be looked for.
    """

    __slots__ = ("instructions", "is_over", "least", "plan", "runs", "seconds")

    def __init__(self, instructions: Instructions | None, least: float = 0.0) -> None:
        self.instructions = instructions
        self.least = least
        self.plan: Plan | None = None
        self.runs = 0
        self.seconds = 0.0
        self.is_over = instructions is None

    def note(self, plan: Plan, seconds: float) -> None:
        """Notes one more run of the plan."""
        self.runs += 1
        self.seconds += seconds
        if self.seconds >= self.least:
            self.is_over = True
            plan.code = plan.code._replace(heat=None)  # whoever goes by it has to ask again

    def expect(self) -> None:
        """A captured function runs it: kernels are looked for when it is met again."""
        self.is_over = True


class Meter:
    """What a plan has been run, for as long as it may get other kernels.

    Attributes:
        subject: its graph.
        runs, seconds: how often, and for how long together.
        is_likely: whether a captured function runs it, which comes back.
        own: whether its kernels are to be made for its very sizes, whatever others there are.
        settings: those that decide about the kernels, as they were when the plan was made.
        state: ``""`` while they are not worth the time, ``queued`` or ``compiling``.
    """

    __slots__ = (
        "_least", "is_likely", "own", "reason", "runs", "seconds", "settings", "state", "subject",
    )  # fmt: skip

    def __init__(self, subject: Subject, reason: str, own: bool = False) -> None:
        self.subject = subject
        self.reason = reason
        self.own = own
        self.settings = {name: getattr(config, name) for name in _OF_KERNELS}
        self.runs = 0
        self.seconds = 0.0
        self.is_likely = False
        self.state = ""
        self._least = BASE + EACH * subject.text.count("\n")

    def note(self, plan: Plan, seconds: float) -> None:
        """Notes one more run of the plan; asks for its kernels when they are worth it."""
        self.runs += 1
        self.seconds += seconds
        if force is not None:
            if force(plan):
                compile_now(plan)
        elif not self.state and self.is_worth():
            ask(plan)

    def as_made(self) -> AbstractContextManager[None]:
        """A block with the settings under which the plan was made."""
        changed = {n: value for n, value in self.settings.items() if getattr(config, n) != value}
        return config.override(**changed) if changed else nullcontext()

    def expect(self) -> None:
        """A captured function runs the plan, which comes back."""
        self.is_likely = True

    def is_worth(self) -> bool:
        """Whether kernels are worth the compiler's time."""
        least = self._least * _queue.pace
        if self.seconds >= least:
            return True
        if self.runs < 2 and not self.is_likely:
            return False
        mean = self.seconds / self.runs
        if self.runs >= (OFTEN if self.is_likely else VERY_OFTEN):
            return self.is_likely or mean >= SHORT
        return mean * SOON >= least

    def measured(self, seconds: float) -> None:
        """Takes note of how long the compiler took: the next estimate is better."""
        ratio = min(max(seconds / self._least, 0.05), 20.0)
        _queue.pace += 0.3 * (ratio - _queue.pace)

    def __str__(self) -> str:
        if self.state:
            return f"{self.state} since it has run {_times(self.runs)}, {self.seconds:.3g} s"
        return (
            f"made once they are worth the compiler's time: it has run {_times(self.runs)}, "
            f"{self.seconds:.3g} s, and compiling takes about {self._least * _queue.pace:.1f} s"
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


# ------------------------------------------------------------- what a new plan runs


def trial_of(structure: Structure, order: Sequence[Node], asked: Asked) -> Trial:
    """The trial of a graph that is new: one that is over where it is to have kernels at once, or
    something that generic ones lack.

    Args:
        structure: that of the graph.
        order: its nodes by number.
        asked: the request.

    Raises NoCompilerError and CompileError.
    """
    least = LOOK + LOOK_EACH * len(order)
    if not _is_tried(structure, order, asked.roots, least):
        return Trial(None)
    where = source_text(asked.roots[0].source)
    constants = tuple([number.value for number in asked.numbers])
    given = order, asked.leaves, asked.roots, dict(asked.donated), constants, where
    with _shown(where):
        made = generic.instructions_of(*given)
    _have_all_compiled(made is not None)
    return Trial(made, least)


def _is_tried(
    structure: Structure, order: Sequence[Node], roots: Sequence[Node], least: float
) -> bool:
    """Whether a graph is to begin in tier 0: it takes less than ``least`` seconds, about."""
    if (
        extensions.force.target != "c"
        or config.tier == 1
        or structure.place
        or config.verify
        or build.is_written_down()
    ):
        return False
    if config.tier == 0:
        return not has_complex(order)  # plans are made of the parts
    if force is not None or build.tunes() or extensions.is_active() or _queue.is_broken:
        return False
    steps, largest, is_complex = _look_over(structure, order)
    if is_complex or steps >= least * _PACE:
        return False
    if largest > VAST and _is_vast(order, [order[n] for n in structure.leaves], roots):
        return False
    return structure.is_ours or not definitions_outside(roots).digest


def _is_vast(order: Sequence[Node], leaves: Sequence[Node], roots: Sequence[Node]) -> bool:
    """Whether a graph has a value on the way that dwarfs what it is computed from and what comes
    out, such as all differences of two sets of points."""
    largest = max([node.nbytes for node in order], default=0)
    return largest > VAST and largest > TIMES * sum([node.nbytes for node in (*leaves, *roots)])


@functools.cache
def _extent_of(form: int) -> tuple[int, int, bool]:
    """Elements and bytes of a value of some form, and whether its type is complex."""
    shape, dtype = cast("Type", type_of(form))
    size = math.prod(shape)
    return size, size * dtype.itemsize, dtype.kind == "c"


def _look_over(structure: Structure, order: Sequence[Node]) -> tuple[int, int, bool]:
    """About how many elementary steps a graph takes, the bytes of the largest of its values, and
    whether any is of a complex type. One walk, as new graphs may be long."""
    leaves, steps, largest, is_complex = set(structure.leaves), 0, 0, False
    for number, node in enumerate(order):
        size, nbytes, kind = _extent_of(node.form)
        is_complex = is_complex or kind
        if nbytes > largest:
            largest = nbytes
        if number in leaves:
            continue
        if node.op.heavy and len(node.inputs) == 2:  # as many as a product of matrices
            left, right = node.inputs
            steps += math.isqrt(size * _extent_of(left.form)[0] * _extent_of(right.form)[0])
            continue
        for item in node.inputs:
            size = max(size, _extent_of(item.form)[0])
        steps += size
    return steps, largest, is_complex


def first_code(
    subject: Subject, reason: str, where: str, trial: Trial | None = None,
    order: Sequence[Node] | None = None,
) -> Code | None:  # fmt: skip
    """What a new plan of a graph runs without waiting for a compiler: its kernels where they are
    there, else tier 0; None where it is to be compiled now.

    Args:
        subject: the graph.
        reason: why it is new, for ``why_compiled()``.
        where: the user's ``file:line``.
        trial: how it began in tier 0.
        order: the program's graph, its nodes by number, where all its numbers are the plan's, too.

    Raises NoCompilerError and CompileError.
    """
    if config.tier == 1 or subject.target != "c" or subject.is_wanted:
        return None
    if config.verify or build.is_written_down():
        return None
    if config.tier == "auto":
        if not in_background(subject) or _is_vast(
            topological(subject.roots), subject.inputs, subject.roots
        ):
            return None
        program = subject.stored
        found = None if program is None else _found(program)
        if program is not None and (found is not None or not program.launches):
            return code_of(subject, program, found)
    heat = Meter(subject, reason) if config.tier == "auto" else None
    if trial is not None and heat is not None:
        heat.runs, heat.seconds = trial.runs, trial.seconds
    if trial is not None and trial.instructions is not None and order is not None:
        executable, sizes = trial.instructions.executable, trial.instructions.sizes
        table = trial.instructions.of(order)
        return Code(executable.program, executable, sizes, table, heat, 0)
    generic = _generic(subject, where)
    if generic is None:
        return None
    executable, table = generic
    sizes = subject.output_sizes(executable.program)
    return Code(executable.program, executable, sizes, table, heat, 0)


def code_of(subject: Subject, program: Program, executable: Executable | None) -> Code:
    """What a plan of a graph runs, once its program is loaded."""
    heat = table = None
    if program.values:
        table = constant_lifting.table_buffer(program.values)
        if executable is not None:
            heat = heat_of(subject)
    return Code(program, executable, subject.output_sizes(program), table, heat)


def _generic(subject: Subject, where: str) -> Generic | None:
    """What runs a graph in tier 0, and its last input; None for a graph that has something that
    generic kernels lack."""
    with _shown(where):
        made = generic.generic_of(subject, where)
    _have_all_compiled(made is not None)
    return made


@contextmanager
def _shown(where: str) -> Iterator[None]:
    """A block in which this thread may wait for generic kernels."""
    with progress.shown(where) as wait:
        wait.what = "generic kernels, once for all programs on this machine"
        yield


def _have_all_compiled(are_used: bool) -> None:
    """Has all generic kernels compiled in the background where some of them are used."""
    if are_used and config.tier == "auto" and not generic.is_whole():
        _queue.warm()


def _found(program: Program) -> Executable | None:
    return execute.find(program) if program.launches else None


def in_background(subject: Subject) -> bool:
    """Whether a graph can be compiled by another process."""
    if extensions.is_active() or _queue.is_broken or build.is_written_down():
        return False
    return subject.is_cacheable and extensions.are_loaded(subject.outside.homes)


def explained(plan: Plan) -> tuple[Program, str]:
    """The program that an explanation of a plan shows, and what it says of tiers: of a plan in
    tier 0 the kernels that it gets, or would get."""
    code = plan.code
    if code.tier == 1:
        queued = isinstance(code.heat, Meter)
        return code.program, f"kernels for these sizes: {code.heat}" if queued else ""
    if not isinstance(code.heat, Meter):
        return code.program, "tier 0: generic kernels run this graph, and no others are compiled"
    with lock, code.heat.as_made():
        subject = code.heat.subject.reread()
        program = subject.stored or subject.own_program()
    return program, f"tier 0: generic kernels run this graph; these are {code.heat}"


def compile_now(plan: Plan) -> None:
    """Gives a plan its kernels, and waits for the compiler; nothing where it has them."""
    from lazyt.compiler import dump_program
    from lazyt.runtime.cpu.objects import Objects

    with lock:
        meter = plan.code.heat
        if not isinstance(meter, Meter) or meter.state == "compiling":
            return
        subject = meter.subject.reread()
        where = source_text(meter.subject.roots[0].source)
        with meter.as_made(), progress.shown(where) as wait, Objects() as objects:
            if meter.own:
                program, reason = subject.own_program(objects), meter.reason
                dump_program(program)
            else:
                program, reason = subject.program(meter.reason, objects)
            wait.kernels = len(program.kernels)
            loaded = execute.load(program, reason, where, objects) if program.launches else None
        plan.code = code_of(subject, program, loaded)


# -------------------------------------------------------------------- the queue


class Request:
    """A plan that waits for its kernels, or gets them.

    Attributes:
        meter: of its runs.
        where: the user's ``file:line``.
        message: what the process that compiles is told.
        deaths: how many of these have died of it.
    """

    def __init__(self, plan: Plan, meter: Meter) -> None:
        self._plan = weakref.ref(plan)
        self.meter = meter
        self.where = source_text(meter.subject.roots[0].source)
        with meter.as_made():
            self.message = _message(meter, self.where)
        self.deaths = 0

    @property
    def plan(self) -> Plan | None:
        """The plan; None where nobody has it any more, or it has got its kernels."""
        plan = self._plan()
        return plan if plan is not None and plan.code.heat is self.meter else None


def _message(meter: Meter, where: str) -> dict[str, Any]:
    subject = meter.subject
    positions: dict[str, int] = {}
    sources = [
        -1 if source is None else positions.setdefault(source_text(source), len(positions))
        for source in subject.sources
    ]
    return {
        "graph": subject.text,
        "order": list(subject.sized.order),
        "donated": subject.donated,
        "sources": sources,
        "positions": list(positions),
        **_surroundings(),
        "files": extensions.files(),
        "key": subject.key,
        "own": meter.own,
        "reason": meter.reason,
        "where": where,
    }


def _surroundings() -> dict[str, Any]:
    """The settings and the environment that decide what is compiled."""
    return {
        "settings": {name: getattr(config, name) for name in (*_SETTINGS, *_OF_KERNELS)}
        | {"threads": team.count()},
        "environment": {name: os.environ.get(name) for name in _ENVIRONMENT},
    }


class _Queue:
    """Plans that wait for their kernels, and the thread that has them made.

    Attributes:
        changed: its condition; what follows is read and changed under its lock.
        requests: what waits.
        running: what is being compiled.
        pace: how much longer compilers take than is estimated.
        deaths: processes that have died one after the other.
        is_broken: whether there can be none.
    """

    def __init__(self) -> None:
        self._lock = forks.guarded(threading.Lock())
        self.changed = threading.Condition(self._lock)
        self.requests: list[Request] = []
        self.running: Request | None = None
        self.pace = 1.0
        self.deaths = 0
        self.is_broken = not Server.is_possible()
        self.server = Server("lazyt.plan.server")
        self._thread: threading.Thread | None = None
        self._is_ending = False
        self._is_warm: bool | None = None  # None until all kernels for any shape were requested
        self._is_filling = False  # whether some of them are being compiled

    def warm(self) -> None:
        """Has all kernels for any shape compiled well, a part at a time, when nothing else is to
        be: first those that this process has compiled quickly."""
        if self._is_warm is None:
            with self.changed:
                if self._is_warm is None and not self._is_ending:
                    self._is_warm = False
                    self._start()

    def _start(self) -> None:
        if self._thread is None:
            name = "lazyt-compiler"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()

    def add(self, request: Request) -> None:
        """Has a plan compiled, when it is its turn."""
        with self.changed:
            if self._is_ending or request.meter.state:
                return
            request.meter.state = "queued"
            self.requests.append(request)
            self._start()
            self.changed.notify_all()
            if self._is_filling:
                self.server.stop()

    def wait(self, seconds: float | None) -> bool:
        """Waits until there is nothing to do; False where that takes longer."""
        with self.changed:
            return self.changed.wait_for(lambda: not (self.requests or self.running), seconds)

    def after_fork(self) -> None:
        """A child has no thread of its own and must not talk to its parent's process; what its
        parent waits for it compiles itself, when that is worth it again."""
        self.changed = threading.Condition(self._lock)
        for request in [*self.requests, *filter(None, [self.running])]:
            request.meter.state = ""
        self.requests, self.running, self._thread, self._is_warm = [], None, None, None
        self.server.forget()

    def end(self) -> None:
        """Ends the process, and whatever it does."""
        self._is_ending = True
        self.server.close()

    def _work(self) -> None:
        while True:
            with self.changed:
                is_idle = self._is_warm is False
                while not self.requests:
                    if not self.changed.wait(IDLE if is_idle else None):
                        break
            if not self.requests:
                self._compile_well()
                continue
            with self.changed:
                request = max(self.requests, key=lambda each: each.meter.seconds)
                self.requests.remove(request)
                self.running = request
            try:
                self._serve(request)
            except Exception as error:  # the plan goes on as it is; this thread serves others, too
                _give_up(request, f"{type(error).__name__}: {error}")
            finally:
                with self.changed:
                    self.running = None
                    self.changed.notify_all()

    def _compile_well(self) -> None:
        """Has the next part of the kernels for any shape compiled well."""
        if self._is_warm is not False or self._is_ending or self.is_broken:
            return
        self._is_warm = True  # what fails once is not tried again
        with self.changed:
            self._is_filling = not self.requests
        try:
            if not self._is_filling:
                reply = {"done": False}
            else:
                reply, _ = self.server.ask({"kernels": generic.quick(), **_surroundings()})
        except ServerError as error:
            if not self._is_ending:
                events.record("compile", f"no library of all kernels for any shape: {error}")
            return
        finally:
            self._is_filling = False
        if "error" in reply:
            events.record("compile", f"no library of all kernels for any shape: {reply['error']}")
            return
        self._is_warm = reply["done"]
        generic.upgrade()

    def _serve(self, request: Request) -> None:
        if request.plan is None or self._is_ending:
            return
        request.meter.state = "compiling"
        try:
            reply, binary = self.server.ask(request.message)
            self.deaths = 0
            if "error" in reply:
                raise LazytError(reply["error"])
            _adopt(request, reply, binary)
        except ServerError as error:
            if not self._is_ending:
                self._died(request, error)

    def _died(self, request: Request, error: ServerError) -> None:
        self.deaths += 1
        request.deaths += 1
        events.record("fallback", str(error), request.where)
        if self.deaths >= _DEATHS:
            self.is_broken = True
            warn(
                f"{error}. Plans are compiled before they run from now on; LAZYT_TIER=1 does so "
                "from the beginning.",
                NoServerWarning,
            )
        elif request.deaths <= _AGAIN:
            with self.changed:
                request.meter.state = "queued"
                self.requests.append(request)
            return
        _give_up(request, str(error))


def give_way() -> None:
    """Lets other Python threads run at once, which otherwise wait for as long as five milliseconds
    until this one has to."""
    time.sleep(_TURN)


def _adopt(request: Request, reply: dict[str, Any], binary: bytes) -> None:
    """Lets a plan run what was compiled for it."""
    plan, meter = request.plan, request.meter
    if plan is None:
        return
    give_way()
    text = reply.get("program") or cache.get_text("plan", request.message["key"])
    if text is None:
        raise LazytError("what was compiled is not in the disk cache")
    give_way()
    program = meter.subject.read(text, give_way)
    executable = None
    if program.launches:
        hashes = tuple(reply["hashes"])
        if binary:
            executable = execute.adopt(program, binary, hashes)
        else:
            executable = execute.find(program, hashes)
        if executable is None:
            raise LazytError("what was compiled is not in the disk cache")
        execute.make_room()
        give_way()
    plan.code = code_of(meter.subject, program, executable)
    if reply["compiled"]:
        meter.measured(reply["seconds"])
        events.record(
            "compile",
            reply["reason"],
            request.where,
            kernels=reply["kernels"],
            seconds=reply["seconds"],
            tier="1, in the background",
        )


def _give_up(request: Request, reason: str) -> None:
    """Leaves a plan what it runs, for good."""
    plan = request.plan
    if plan is not None:
        plan.code = plan.code._replace(heat=None)
    events.record("compile", f"no kernels, the plan runs as it did: {reason}", request.where)


_queue = _Queue()
os.register_at_fork(after_in_child=_queue.after_fork)
atexit.register(_queue.end)


def ask(plan: Plan) -> None:
    """Has the kernels of a plan compiled in the background, or now where that is not possible."""
    meter = plan.code.heat
    if not isinstance(meter, Meter):
        return
    if not in_background(meter.subject):
        try:
            compile_now(plan)
        except LazytError as error:
            _give_up(Request(plan, meter), str(error))
        return
    _queue.add(Request(plan, meter))


def wait(seconds: float | None) -> bool:
    """Waits until no plan waits for its kernels or gets them; False where that takes longer."""
    return _queue.wait(seconds)


# -------------------------------------------------------------------- promotion
#
# Sizes that run often get kernels of their own.
#
# From the second size of a graph on, its kernels take sizes as arguments
# (``plan/dynamic_shapes.py``), which saves the compiler's time and costs some of theirs: a
# transposed copy takes five times as long, a roll six times, most others a few percent. Where a
# size comes back and back that is the wrong trade. So a plan of such kernels counts its runs, and
# once it has been run for about as long as compiling takes, or very often, its graph is compiled
# for the sizes that it has.


#: Runs after which a plan is promoted, and the fewest: what is in flight comes back.
PROMOTED, LEAST_RUNS = 64, 4
#: Seconds that compiling takes, and for each kernel more, about.
PROMOTION_BASE, PROMOTION_EACH = 0.3, 0.15


class Heat:
    """What a plan of kernels for any size has been run.

    Attributes:
        subject: its graph.
        runs, seconds: how often, and for how long together.
    """

    __slots__ = ("runs", "seconds", "subject")

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.runs = 0
        self.seconds = 0.0

    def expect(self) -> None:
        """A captured function runs the plan, which changes nothing: its runs are counted."""

    def note(self, plan: Plan, seconds: float) -> None:
        """Notes one more run of the plan, which may get kernels of its own."""
        if self.is_enough(len(plan.code.program.launches), seconds):
            promote(plan)

    def is_enough(self, kernels: int, seconds: float) -> bool:
        """Notes one more run that took ``seconds``; whether kernels of its own are worth it."""
        self.runs += 1
        self.seconds += seconds
        if self.runs < LEAST_RUNS:
            return False
        return self.runs >= PROMOTED or self.seconds >= PROMOTION_BASE + PROMOTION_EACH * kernels


def heat_of(subject: Subject) -> Heat | None:
    """What a new plan of kernels for any size counts its runs by; None where enough sizes of its
    graph have kernels of their own."""
    return Heat(subject) if dynamic_shapes.may_have_own(subject.sized) else None


def promote(plan: Plan) -> None:
    """Lets a plan run kernels for its own sizes, if its family may still have some: from now on,
    or from when they are compiled in the background."""
    with lock:
        heat = plan.code.heat
        if not isinstance(heat, Heat):  # another thread was faster
            return
        subject = heat.subject
        if not dynamic_shapes.may_have_own(subject.sized):
            plan.code = plan.code._replace(heat=None)
            return
        dynamic_shapes.has_own(subject.sized)
        reason = f"these sizes were run {heat.runs} times: they get kernels of their own"
        meter = Meter(subject, reason, own=True)
        meter.runs, meter.seconds = heat.runs, heat.seconds
        plan.code = plan.code._replace(heat=meter)
    try:
        if config.tier == "auto":
            ask(plan)
        else:
            compile_now(plan)
    except (CompileError, NoCompilerError) as error:  # what there is goes on
        plan.code = plan.code._replace(heat=None)
        where = source_text(subject.roots[0].source)
        events.record("compile", f"no kernels for these sizes: {error}", where)
