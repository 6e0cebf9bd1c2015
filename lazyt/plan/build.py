"""What a plan is, and the program that it runs: found on disk, taken from one of another size, or
compiled."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lazyt import extensions
from lazyt.config import config, tuned_here
from lazyt.errors import LazytError
from lazyt.ir.graph import Head, Node, Source, source_text, topological
from lazyt.plan.constant_lifting import Number
from lazyt.runtime import events
from lazyt.runtime.cpython import forks
from lazyt.runtime.definitions import Definition, definitions_outside
from lazyt.runtime.memory import Buffer, pool, without_aliases

if TYPE_CHECKING:
    from lazyt.codegen.generic.program import Table
    from lazyt.codegen.plan.choices import Choices, Fusing
    from lazyt.codegen.plan.printed import Announce
    from lazyt.compiler import Watch
    from lazyt.extensions.targets import Launcher
    from lazyt.ir.kernel import Kernel
    from lazyt.ir.program import Program
    from lazyt.plan.dynamic_shapes import Sized
    from lazyt.plan.tiers import Heat, Meter, Trial
    from lazyt.runtime.cpu.execute import Executable
    from lazyt.runtime.cpu.objects import Objects
    from lazyt.tuning.session import Session

Donated = tuple[tuple[int, int], ...]

#: Rooms whose code decides what a graph compiles to.
_ROOMS = ("ir", "ops", "passes", "codegen")
_RECIPE = ("compiler.py", "extensions/__init__.py", "extensions/targets.py")

#: Held while a graph is read: once computed, nodes forget how they were made, and
#: other threads may be numbering or compiling a graph that contains them.
lock = forks.guarded(threading.RLock())

#: The tuning that new plans take part in, while there is one.
session: Session | None = None


class Recorder(Protocol):
    """Writes down how plans are made, and what they run on."""

    def compile(self, subject: Subject, reason: str, where: str) -> Program:
        """The program of a graph, compiled whatever is on disk."""

    def loaded(self, subject: Subject, seconds: float, started: int) -> None:
        """A program is loaded, which took so long and started so many compilers."""

    def take(self, plan: Plan, inputs: Sequence[Buffer]) -> None:
        """Looks at a plan that is about to run for the first time."""


#: What writes down the plans that are made, while there is one.
recorder: Recorder | None = None


@contextlib.contextmanager
def recording(new: Recorder) -> Iterator[None]:
    """A block in which all threads compile their graphs anew, and ``new`` hears of it. Plans of
    before are found again after it."""
    global recorder
    outer, recorder = recorder, new
    config.distinguish_plans(new)
    try:
        yield
    finally:
        recorder = outer
        config.distinguish_plans(outer)


def is_written_down() -> bool:
    """Whether somebody wants to see how plans are made: they are compiled then before they run."""
    return config.dump is not None or recorder is not None


def tunes() -> bool:
    """Whether plans are tuned when they are made."""
    return session is not None or config.tune or tuned_here.get()


@dataclass(frozen=True)
class Subject:
    """A graph over fresh leaves, which a plan is made of.

    Attributes:
        roots, inputs: what it computes, of what.
        donated: places of the inputs that may be overwritten, each with the number of the root that
            may, -1 for any.
        place: the device, empty for the CPU.
    """

    roots: list[Node]
    inputs: list[Node]
    donated: Donated
    place: str

    @functools.cached_property
    def text(self) -> str:
        """The graph as text."""
        from lazyt.ir.printer import print_graph

        return print_graph(self.roots)

    @functools.cached_property
    def _walked(self) -> tuple[tuple[int, ...], list[Source | None]]:
        """Places of the inputs in the order in which the text has them, and where each of its nodes
        was made."""
        nodes: list[Node] = topological(self.roots)
        # Not by their op: what depends on no input may have been computed since, and be one, too.
        places = {node: place for place, node in enumerate(self.inputs)}
        order = tuple([places[node] for node in nodes if node in places])
        as_in_text = len(nodes) == self.text.count("\n") - 1 + len(self.inputs)
        return order, [node.source for node in nodes] if as_in_text else []

    @functools.cached_property
    def sized(self) -> Sized:
        """The graph as those of other sizes are compared with it."""
        from lazyt.plan.dynamic_shapes import Sized

        return Sized(self.text, self._walked[0], self.donated)

    @property
    def sources(self) -> list[Source | None]:
        """Where the user's program made each node, in topological order; empty where some have been
        computed before anybody asked for the graph's text."""
        return self._walked[1]

    @staticmethod
    def of_text(
        text: str, order: Sequence[int], sources: Sequence[Source | None], donated: Donated,
        place: str = "",
    ) -> Subject:  # fmt: skip
        """A graph from its text, with ``sized.order`` and ``sources``."""
        from lazyt.ir.parser import parse_graph
        from lazyt.ops.registry import OPS

        leaves, roots = parse_graph(text, OPS)
        if sources:
            for node, source in zip(topological(roots), sources, strict=True):
                node.source = source
        places = sorted(zip(order, leaves, strict=True), key=lambda pair: pair[0])
        return Subject(roots, [leaf for _, leaf in places], donated, place)

    def reread(self) -> Subject:
        """The same over nodes of its own. Nodes that depend on no input may be the program's, and
        forget how they are made once they are computed.

        Raises LazytError where one of its ops has been defined anew since.
        """
        made = Subject.of_text(self.text, self.sized.order, self.sources, self.donated, self.place)
        if made.outside.digest != self.outside.digest:
            raise LazytError("an op or a scalar function of the graph has been defined anew")
        return made

    def written(self, program: Program) -> str:
        """A program of the graph as the disk keeps it. Its kernels name the nodes that they come
        from by number: the next program with this graph has made them on other lines."""
        numbers: dict[str, int] = {}
        for number, source in enumerate(self.sources):
            if source is not None:
                numbers.setdefault(source_text(source), number)
        return _with_sources(program, numbers.get).to_json()

    def read(self, text: str, between: Callable[[], object] | None = None) -> Program:
        """The program that ``written`` wrote, with the lines of this graph's nodes; else raises
        ValueError, KeyError or TypeError. ``between`` is as of ``Program.from_json``."""
        from lazyt.ir.program import Program

        def line(number: object) -> str | None:
            if not isinstance(number, int) or number >= len(self.sources):
                return None
            source = self.sources[number]
            return None if source is None else source_text(source)

        return _with_sources(Program.from_json(text, between), line)

    @property
    def stored(self) -> Program | None:
        """The program that is on disk, where that may be used: it is not read where the settings
        say that what is made is to be written down or verified."""
        from lazyt.runtime import cache

        if not self.is_cacheable or config.dump is not None or config.verify:
            return None
        text = cache.get_text("plan", self.key)
        if text is None:
            return None
        try:
            return self.read(text)
        except (ValueError, KeyError, TypeError):  # of another version
            return None

    def program(self, reason: str, objects: Objects) -> tuple[Program, str]:
        """The graph's program, and the reason why it is new: the one given, if it is nothing else.

        ``reason`` is that of a graph which was not met before. Kernels that have to be compiled are
        handed to ``objects`` while others are still being made.
        """
        from lazyt import compiler

        program, why = self._program(reason, objects)
        compiler.dump_program(program)
        return program, why

    def _program(self, reason: str, objects: Objects) -> tuple[Program, str]:
        from lazyt.plan import dynamic_shapes
        from lazyt.runtime import cache, winners

        tuned = {} if self.target != "c" else winners.tables()["graphs"]
        found = self.stored
        dynamic_shapes.remember(self.sized)
        if found is not None:
            return found, reason
        open_sizes = self.target == "c" and not tunes() and extensions.force.tuner is None
        if open_sizes and not (tuned and self.name in tuned):
            made = dynamic_shapes.find(self.sized, self.roots, self.inputs)
            if made is not None:
                if self.is_cacheable:
                    cache.put_text("plan", self.key, self.written(made.program))
                return made.program, made.reason or reason
        return self.own_program(objects), reason

    def own_program(self, objects: Objects | None = None) -> Program:
        """The graph compiled for its very sizes, which is kept on disk."""
        from lazyt.runtime import cache

        choices = self.choices()
        fusing = choices.graphs.get(self.name) if choices is not None else None
        announce = objects.add if self.target == "c" and objects is not None else None
        program, _ = self.compile(choices, fusing, announce)
        if self.is_cacheable:
            cache.put_text("plan", self.key, self.written(program))
        return program

    def compile(
        self,
        choices: Choices | None,
        fusing: Fusing | None = None,
        announce: Announce | None = None,
        watch: Watch | None = None,
    ) -> tuple[Program, list[Kernel]]:
        """The graph compiled with these choices: the program, and its kernels as IR.

        ``announce`` and ``watch`` are as of ``compile_graph``.
        """
        from lazyt.compiler import compile_graph

        spare = {self.inputs[i]: root for i, root in self.donated}
        return compile_graph(
            self.roots,
            self.inputs,
            spare,
            self.target,
            choices=choices,
            fusing=fusing,
            announce=announce,
            watch=watch,
        )

    def output_sizes(self, program: Program) -> tuple[int, ...]:
        """Bytes of each of the program's outputs."""
        pairs = zip(program.results, self.roots, strict=True)
        found = {place: node.nbytes for place, node in pairs if place >= 0}
        return tuple(found[n] for n in sorted(found))

    @functools.cached_property
    def name(self) -> str:
        """What tuning knows the graph by."""
        from lazyt.runtime import cache

        return f"graph #{cache.hash_text(self.text)[:16]}"

    @property
    def is_wanted(self) -> bool:
        """Whether a plan of it is to be tuned: it was not yet, or somebody asks for it."""
        from lazyt.runtime import winners

        if self.target != "c" or extensions.force.tuner is not None:
            return False
        return session is not None or (tunes() and self.name not in winners.tables()["graphs"])

    def choices(self) -> Choices | None:
        """What tuning found on this machine, None for nothing."""
        from lazyt.runtime import winners

        if self.target != "c" or not winners.digest():
            return None
        from lazyt.tuning.found import current

        return current()

    @property
    def key(self) -> str:
        """What the program is kept under on disk."""
        from lazyt.extensions import targets
        from lazyt.runtime import cache

        settings = targets.named(self.target).settings()
        settings = (
            *settings,
            config.exact,
            config.inline_reduce,
            config.memory_budget,
            config.bands,
        )
        facts: tuple[Any, ...] = (
            code_stamp(),
            self.donated,
            settings,
            list(self.sized.order),
            self.target,
        )
        added = self.outside.digest, extensions.digest().digest
        return cache.hash_text("plan", repr((*facts, *filter(None, added))), self.text)

    @functools.cached_property
    def target(self) -> str:
        """The name of what it is compiled for."""
        from lazyt.extensions import targets

        return targets.of_place(self.place)

    @functools.cached_property
    def outside(self) -> Definition:
        """Its ops and scalar functions that the package does not define."""
        return definitions_outside(self.roots)

    @property
    def is_cacheable(self) -> bool:
        """Whether its program may be kept on disk: all that it is made by can be told apart."""
        hidden = (*self.outside.hidden, *extensions.digest().hidden)
        if hidden:
            extensions.warn_not_cached(hidden)
        return not hidden


def _with_sources(program: Program, name: Callable[[Any], object]) -> Program:
    """The program with other names of the lines that its kernels come from, None for no name."""
    notes = []
    for note in program.notes:
        sources: Any = note["sources"]
        found = dict.fromkeys(map(name, sources))
        notes.append({**note, "sources": [item for item in found if item is not None]})
    return replace(program, notes=tuple(notes))


class Code(NamedTuple):
    """What a plan runs. A plan that gets other kernels is given another one in one assignment, so
    that whoever runs it meanwhile has all parts of one or of the other.

    Attributes:
        program: the text, or what stands for it.
        executable: it, loaded; None for a program without kernels, or for another device.
        sizes: the bytes of its outputs.
        table: an input behind all others, of a program that takes sizes as arguments.
        heat: counts runs where others may replace it; None for the last ones.
        tier: 0 where it is generic, 1 for kernels that were compiled for the graph.
    """

    program: Program
    executable: Executable | None
    sizes: tuple[int, ...]
    table: Buffer | None = None
    heat: Heat | Meter | Trial | None = None
    tier: int = 1


@dataclass
class Plan:
    """A plan for one structure: the constants at the positions ``lifted`` are inputs.

    ``heads`` are those of the nodes with constants, as it was made for them, ``code`` is what runs,
    and ``measured`` the bytes and seconds that its last run took. A plan for another device than
    the CPU has a ``launcher`` and no executable. ``subject``: the graph, where the plan is to be
    tuned when it runs, by ``tune``; ``donated``: the inputs that it may write over.
    ``open_table``: the instructions of a plan in tier 0 that other numbers can be written to.
    """

    heads: tuple[Head, ...]
    constants: tuple[Any, ...]
    lifted: tuple[int, ...]
    code: Code
    donated: Donated = ()
    measured: tuple[int, float] | None = None
    launcher: Launcher | None = None
    subject: Subject | None = None
    tune: Callable[[Plan, Sequence[Buffer]], None] | None = None
    open_table: Table | None = None

    @property
    def may_change(self) -> bool:
        """Whether it may run other kernels later."""
        return self.code.heat is not None or self.subject is not None

    def fits(self, constants: tuple[Any, ...]) -> bool:
        """Whether the plan computes a graph with these constants."""
        return all(
            i in self.lifted or a == b
            for i, (a, b) in enumerate(zip(constants, self.constants, strict=True))
        )

    def run(self, inputs: list[Buffer]) -> list[Buffer]:
        """The buffers of the results, for those of leaves and of the numbers that are inputs."""
        if self.launcher is not None:
            return self.launcher.run(inputs)
        if self.subject is not None:
            assert self.tune is not None
            self.tune(self, inputs)
        before, highest = pool.in_use, pool.peak
        pool.reset_peak()
        begin = perf_counter()
        program, executable, sizes, table, heat, tier = self.code  # another thread may replace it
        outputs = [Buffer(size) for size in sizes]
        if executable is not None:
            if table is not None:
                inputs = [*inputs, table]
            if program.donated:
                inputs = without_aliases(inputs, outputs, program.overwritten)
            if events.watching:
                from lazyt.plan.footprint import run_generic_timed, run_timed

                if tier == 0:
                    run_generic_timed(executable, inputs, outputs)
                else:
                    run_timed(program, inputs, outputs)
            else:
                executable.run(inputs, outputs)
        self.measured = pool.peak - before, perf_counter() - begin
        pool.peak = max(pool.peak, highest)
        found = [outputs[n] if n >= 0 else inputs[-1 - n] for n in program.results]
        if heat is not None:
            heat.note(self, self.measured[1])
        return found


@dataclass(slots=True)
class Asked:
    """A graph to compute: its nodes in canonical numbering, leaves and roots among them, and what
    the leaves' memory may be taken over by."""

    order: list[Node]
    leaves: list[Node]
    numbers: list[Number]
    roots: list[Node]
    donated: Donated
    place: str


@functools.cache
def code_stamp() -> str:
    """Changes whenever the compiler's own files do: plans on disk are only as good as the code
    that made them, and whoever edits a pass must not meet plans of the old one. Equal files give
    an equal stamp on every machine; they are read when their times or sizes are new."""
    from lazyt.runtime import cache

    files = _code_files()
    key = repr([(name, facts.st_size, facts.st_mtime_ns) for name, facts in files])
    stamp = cache.get_text("code", key)
    if stamp is None:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        parts = []
        for name, _ in files:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                parts += [name, file.read()]
        stamp = cache.hash_text(*parts)
        cache.put_text("code", key, stamp)
    return stamp


def _code_files() -> list[tuple[str, os.stat_result]]:
    """The compiler's own files by name, with what the system says of each."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = [(name, os.stat(os.path.join(folder, name))) for name in _RECIPE]
    for room in _ROOMS:
        for place, _, names in os.walk(os.path.join(folder, room)):
            if not place.endswith("__pycache__"):
                inside = place[len(folder) + 1 :]
                found += [(f"{inside}/{n}", os.stat(os.path.join(place, n))) for n in names]
    return sorted(found)
