"""Writes down the plans of a program: ``capture``, and ``python -m lazyt capture``."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from lazyt.config import config
from lazyt.errors import LazytError
from lazyt.ir.graph import Node, source_text
from lazyt.ir.printer import graph_lines, is_leaf, print_graph, print_kernel
from lazyt.plan import build, explain
from lazyt.tools.captures.files import (
    FACTS,
    FORMAT,
    MANIFEST,
    SETTINGS,
    CaptureError,
    dumped,
)

if TYPE_CHECKING:
    from lazyt.codegen.lower.groups import Lowered
    from lazyt.codegen.plan.choices import Choices
    from lazyt.ir.group import Group
    from lazyt.ir.kernel import Kernel
    from lazyt.ir.program import Program
    from lazyt.plan.build import Plan, Subject
    from lazyt.runtime.cpu.execute import Executable
    from lazyt.runtime.memory import Buffer
    from lazyt.tuning.plans import Memory

#: Runs of all launches, each timed.
_ROUNDS = 5
#: Bytes of a user's file that is copied.
_MOST_SOURCE = 1 << 21


@dataclass
class _Notes:
    """What is known of a plan that was made and has not run yet. It is also what compiling it is
    watched by."""

    subject: Subject
    reason: str
    where: str
    graph: str = ""
    passes: list[tuple[str, list[Node]]] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    launches: list[tuple[Sequence[Group], Lowered]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    clock: float = 0.0
    program: Program | None = None
    kernels: list[Kernel] = field(default_factory=list)
    compiler: dict[str, Any] = field(default_factory=dict)

    def _tick(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = round(now - self.clock, 6)
        self.clock = now

    def passed(self, name: str, roots: Sequence[Node]) -> None:
        """The graph after a pass."""
        self._tick(name)
        self.passes.append((name, list(roots)))

    def grouped(self, groups: Sequence[Group]) -> None:
        """The groups, which launches may still split and share."""
        self._tick("fusion and order of launches")

    def launched(self, groups: Sequence[Sequence[Group]], lowered: Sequence[Lowered]) -> None:
        """The launches, whose text is printed by now."""
        self._tick("kernels and their text")
        self.launches = list(zip(groups, lowered, strict=True))
        self.groups = [group for together in groups for group in together]


class Recorder:
    """Writes a folder for each plan that runs, see ``files.py``.

    Attributes:
        folder: the capture's.
        count: how many plans are in it.
        errors: what went wrong in writing, which does not stop the program.
    """

    def __init__(self, folder: str, inputs: bool, times: bool) -> None:
        self.folder, self.inputs, self.times = folder, inputs, times
        self.count = 0
        self.errors: list[str] = []
        self._made: dict[int, _Notes] = {}
        self._sources: dict[str, str] = {}
        self._lock = threading.RLock()

    def compile(self, subject: Subject, reason: str, where: str) -> Program:
        """The program of a graph for its very sizes, compiled whatever is on disk."""
        notes = _Notes(subject, reason, where)
        graph = print_graph(subject.roots, sources=True)
        choices = subject.choices()
        fusing = choices.graphs.get(subject.name) if choices is not None else None
        notes.clock = time.perf_counter()
        notes.program, notes.kernels = subject.compile(choices, fusing, watch=notes)
        notes.graph = _facts_line(subject, choices, notes.kernels) + graph
        with self._lock:
            self._made[id(subject)] = notes
            if subject.target != "c":  # runs where values cannot be looked at
                self._write(notes, None)
        return notes.program

    def loaded(self, subject: Subject, seconds: float, started: int) -> None:
        """Notes what the C compiler took; of a binary that is on disk what it took then."""
        notes = self._made.get(id(subject))
        if notes is None or notes.program is None:
            return
        from lazyt.runtime import cache
        from lazyt.runtime.cpu import execute

        before = None if started else cache.facts(execute.key_of(notes.program)).get("seconds")
        notes.compiler = {"seconds": round(seconds, 6) if started else before}
        notes.compiler["was on disk"] = not started

    def take(self, plan: Plan, inputs: Sequence[Buffer]) -> None:
        """Writes a plan down that is about to run for the first time."""
        subject, plan.subject = plan.subject, None
        with self._lock:
            notes = self._made.pop(id(subject), None)
            if notes is None or build.recorder is not self:
                return
            self._write(notes, inputs)

    def _write(self, notes: _Notes, inputs: Sequence[Buffer] | None) -> None:
        path = self._new_folder(notes.where)
        try:
            _write_plan(path, notes)
            measured: dict[str, Any] = {}
            if inputs is not None:
                measured = self._run(path, notes, inputs)
            times = {"passes": notes.seconds, "compiler": notes.compiler, "plan": None}
            _put(path, "times.json", dumped({**times, "launches": [], **measured}))
            for name, roots in [("", notes.subject.roots), *notes.passes]:
                self._keep_sources(roots, name)
            self.count += 1
        except Exception as error:  # whatever it is, the program goes on; its capture says so
            self.errors.append(f"{path}: {type(error).__name__}: {error}")
            shutil.rmtree(path, ignore_errors=True)

    def write_bounds(self) -> None:
        """Writes what the machine can do at best, which is measured once for each machine."""
        from lazyt.runtime.cpu.roofline import measure

        try:
            found = measure()
            facts = {"bandwidth": found.bandwidth, "peak": found.peak, "threads": found.threads}
            _put(self.folder, "times.json", dumped(facts))
        except (OSError, LazytError) as error:
            self.errors.append(f"the machine's bounds: {error}")

    def _new_folder(self, where: str) -> str:
        """A folder that no other plan has: other processes may write to the same capture."""
        name, _, line = where.rpartition(":")
        stem = os.path.splitext(os.path.basename(name))[0]
        word = "".join(c if c.isascii() and c.isalnum() else "_" for c in stem).strip("_")
        title = f"{word}_{line}" if word and line.isdecimal() else "plan"
        number = len([n for n in os.listdir(self.folder) if n[:3].isdecimal()])
        while True:
            path = os.path.join(self.folder, f"{number:03d}_{title}")
            taken = any(n.startswith(f"{number:03d}_") for n in os.listdir(self.folder))
            try:
                if not taken:
                    os.mkdir(path)
                    return path
            except FileExistsError:
                taken = True
            number += 1

    def _run(self, path: str, notes: _Notes, inputs: Sequence[Buffer]) -> dict[str, Any]:
        """Runs the plan on copies of what it writes over; its values' digests, and times."""
        from lazyt.codegen.plan.trials import stepping
        from lazyt.runtime.cpu import execute
        from lazyt.tuning.plans import Memory

        program, subject = notes.program, notes.subject
        assert program is not None
        sizes = subject.output_sizes(program)
        given = {"inputs": [digest(buffer, n.nbytes) for buffer, n in zip(inputs, subject.inputs)]}
        if self.inputs:
            _save_inputs(os.path.join(path, "inputs.safetensors"), subject.inputs, inputs)
        memory = Memory(program, notes.kernels, inputs, sizes)
        executable = execute.load(program)
        executable.run(memory.inputs, memory.outputs)
        found = memory.results(program)
        results = [digest(b, n.nbytes) for b, n in zip(found, subject.roots, strict=True)]
        measured: dict[str, Any] = {}
        written: list[Any] = []
        if self.times or self.inputs:
            memory = Memory(program, notes.kernels, inputs, sizes)
            steps = execute.load(stepping(program), "a capture runs it step by step")
            rounds = _ROUNDS if self.times else 0
            written, seconds = run_launches(program, notes.kernels, memory, steps, rounds)
            measured["launches"] = seconds
        if self.times:
            measured["plan"] = _plan_seconds(executable.run, memory)
        _put(path, "results.json", dumped({**given, "results": results, "launches": written}))
        return measured

    def _keep_sources(self, roots: Sequence[Node], stage: str) -> None:
        """Copies the user's files that nodes come from."""
        folder = os.path.join(self.folder, "sources")
        for node, _ in graph_lines(roots):
            name = source_text(node.source).rpartition(":")[0] if node and node.source else ""
            if not name or name in self._sources:
                continue
            self._sources[name] = ""
            try:
                with open(name, encoding="utf-8") as file:
                    text = file.read(_MOST_SOURCE)
            except (OSError, UnicodeDecodeError):  # typed at a prompt, say
                continue
            os.makedirs(folder, exist_ok=True)
            made = f"{len(self._sources):02d}_{os.path.basename(name)}.txt"
            self._sources[name] = made
            _put(folder, made, text)
            known = {path: file for path, file in self._sources.items() if file}
            _put(folder, "index.json", dumped(known))


def _put(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def digest(buffer: Buffer, nbytes: int) -> str:
    """A short hash of the first bytes of a buffer."""
    from lazyt.ir.dtypes import uint8

    data = buffer.as_numpy(uint8, (nbytes,)).data
    return hashlib.sha256(data).hexdigest()[:24]


def _facts_line(subject: Subject, choices: Choices | None, kernels: Sequence[Kernel]) -> str:
    """The comment that says what a plan depends on beside its graph."""
    tuned: dict[str, Any] = {}
    if choices is not None:
        from lazyt.codegen.plan.choices import signature

        names = dict.fromkeys(map(signature, kernels))
        forms = choices.kernels
        tuned["kernels"] = {name: forms[name].to_dict() for name in names if name in forms}
        fusing = choices.graphs.get(subject.name)
        tuned["fusing"] = None if fusing is None else asdict(fusing)
    facts = {
        "order": list(subject.sized.order),
        "donated": subject.donated,
        "place": subject.place,
        "settings": {name: getattr(config, name) for name in SETTINGS},
        "tuned": tuned,
    }
    return f"{FACTS}{json.dumps(facts)}\n"


def _save_inputs(path: str, leaves: Sequence[Node], inputs: Sequence[Buffer]) -> None:
    """Writes the values of inputs as safetensors."""
    from lazyt.handle.dispatch import wrap
    from lazyt.ops import input_
    from lazyt.runtime.memory import Buffer
    from lazyt.serialization.safetensors import save_file

    tensors = {}
    for number, (leaf, buffer) in enumerate(zip(leaves, inputs)):
        own = Buffer(leaf.nbytes)  # two inputs may share memory, which the format does not know
        own.copy_from(buffer.ptr, leaf.nbytes)
        tensors[f"input{number}"] = wrap(input_(leaf.shape, leaf.dtype, own))
    save_file(tensors, path)


def run_launches(
    program: Program,
    kernels: Sequence[Kernel],
    memory: Memory,
    executable: Executable,
    rounds: int,
) -> tuple[list[dict[str, str]], list[float]]:
    """Runs a plan launch by launch: digests of what each writes, by the number of the slot, and its
    seconds, the median of some further rounds."""
    from lazyt.tuning.clock import Steps

    steps = Steps(executable, memory.pointers)
    written: list[dict[str, str]] = []
    for number in range(len(program.launches)):
        steps.run(number)
        slots = stored(program, kernels, number)
        written.append({str(slot): _slot_digest(program, memory, slot) for slot in slots})
    seconds: list[list[float]] = [[] for _ in program.launches]
    for _ in range(rounds):
        for number, found in enumerate(seconds):
            found.append(steps.run(number))
    return written, [round(median(each), 9) for each in seconds if each]


def _slot_digest(program: Program, memory: Memory, number: int) -> str:
    from lazyt.runtime.memory import Buffer

    nbytes = program.slots[number].nbytes
    return digest(Buffer.foreign(memory.pointers[number], nbytes, memory), nbytes)


def stored(program: Program, kernels: Sequence[Kernel], number: int) -> list[int]:
    """The slots that a launch leaves values in."""
    roles = [b.role for b in kernels[number].arguments] * max(1, len(kernels[number].segments))
    pairs = zip(program.launches[number].slots, roles)
    return sorted({slot for slot, role in pairs if role in ("out", "inout")})


def _plan_seconds(run: Callable[..., object], memory: Memory) -> float:
    """The median seconds of a plan's run."""
    found = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        run(memory.inputs, memory.outputs)
        found.append(time.perf_counter() - begin)
    return round(median(found), 9)


# ------------------------------------------------------------------ a plan's files


def _write_plan(path: str, notes: _Notes) -> None:
    from lazyt.compiler import program_text
    from lazyt.extensions import targets

    program = notes.program
    assert program is not None
    _put(path, "graph.ir", notes.graph)
    os.mkdir(os.path.join(path, "passes"))
    for number, (name, roots) in enumerate(notes.passes, 1):
        _put(path, f"passes/{number}_{name}.ir", print_graph(roots, sources=True))
    numbers = _numbers(notes.passes[-1][1])
    launch_of = {id(g): n for n, (groups, _) in enumerate(notes.launches) for g in groups}
    groups = [_group_facts(g, numbers, launch_of[id(g)]) for g in notes.groups]
    _put(path, "groups.json", dumped(groups))
    _put(path, "kernels.ir", _kernels_text(program, notes.kernels))
    _put(path, f"plan.{targets.named(program.target).suffix}", program_text(program))
    _put(path, "launches.json", dumped(_launches(notes, program, numbers)))
    _put(path, "program.json", program.to_json() + "\n")


def _numbers(roots: Sequence[Node]) -> dict[Node, int]:
    """The nodes of a graph with the numbers that its text has."""
    nodes = [node for node, _ in graph_lines(roots) if node is not None]
    from lazyt.ir.graph import topological

    leaves = [node for node in topological(roots) if is_leaf(node)]
    return {node: number for number, node in enumerate([*leaves, *nodes])}


def _group_facts(group: Group, numbers: dict[Node, int], launch: int) -> dict[str, Any]:
    parts = [stage.group for stage in group.stages] or [group]
    members = [node for part in parts for node in part.members]
    reads = {node for part in parts for node in part.reads}
    return {
        "launch": launch,
        "kind": group.kind,
        "computes": [f"{n.op.name} {n.dtype.name}{list(n.shape)}" for n in members],
        "members": sorted({numbers[n] for n in members if n in numbers}),
        "nodes": _closure(members, reads, numbers),
        "stored": sorted({numbers[n] for part in parts for n in part.stored if n in numbers}),
        "reads": sorted({numbers[n] for n in reads if n in numbers}),
        "reasons": list(dict.fromkeys(group.reasons)),
        "sources": sorted({source_text(n.source) for n in members if n.source is not None}),
        "again": group.again,
    }


def _closure(members: Sequence[Node], reads: set[Node], numbers: dict[Node, int]) -> list[int]:
    """Numbers of all nodes that are computed with some: what their expressions read on the way."""
    found: set[Node] = set()
    stack = list(members)
    while stack:
        node = stack.pop()
        if node in found or is_leaf(node):
            continue
        found.add(node)
        stack += [item for item in node.inputs if item not in reads]
    return sorted(numbers[n] for n in found if n in numbers)


def _kernels_text(program: Program, kernels: Sequence[Kernel]) -> str:
    parts = []
    for number, (launch, kernel) in enumerate(zip(program.launches, kernels, strict=True)):
        form = program.notes[number].get("form", "")
        head = f"# launch {number}: {launch.kernel}\n"
        parts.append(head + (f"# form: {form}\n" if form else "") + print_kernel(kernel))
    return "\n".join(parts)


def _launches(notes: _Notes, program: Program, numbers: dict[Node, int]) -> dict[str, Any]:
    group_numbers = {id(g): n for n, g in enumerate(notes.groups)}
    launches = []
    for launch, kernel, (groups, lowered) in zip(
        program.launches, notes.kernels, notes.launches, strict=True
    ):
        roles = [b.role for b in kernel.arguments] * max(1, len(kernel.segments))
        arguments = []
        for place, number in enumerate(launch.slots):
            node = lowered.arguments[place] if place < len(lowered.arguments) else None
            slot = program.slots[number]
            where = (
                f"arena + {slot.offset}" if slot.kind == "arena" else f"{slot.kind} {slot.index}"
            )
            arguments.append({
                "role": roles[place] if place < len(roles) else "work",
                "place": where, "bytes": slot.nbytes, "slot": number,
                "offset": launch.offsets[place] if place < len(launch.offsets) else 0,
                "value": f"%{numbers[node]}" if node in numbers else "",
            })  # fmt: skip
        launches.append({
            "kernel": launch.kernel,
            "groups": sorted(group_numbers[id(g)] for g in groups),
            "segments": list(launch.extents), "numbers": list(launch.numbers),
            "arguments": arguments,
        })  # fmt: skip
    donated = [list(pair) for pair in program.donated]
    return {
        "reason": notes.reason, "where": notes.where, "arena_bytes": program.arena_bytes,
        "results": list(program.results), "donated": donated, "launches": launches,
    }  # fmt: skip


# ------------------------------------------------------------------ the whole capture


def machine_facts() -> dict[str, Any]:
    """What decides about kernels on this machine, as ``opt --machine`` reads it."""
    from lazyt.runtime import devices

    cpu = devices.cpu()
    facts = {name: getattr(cpu, name) for name in ("arch", "cores", "l1", "l2", "l3")}
    traits = {name: sorted(found) for name, found in cpu.traits._asdict().items()}
    return {
        "model": devices.cpu_model(), **facts, "vector_bytes": cpu.vector_bytes, "traits": traits,
        "features": list(cpu.features),
    }  # fmt: skip


def _manifest(program: Sequence[str]) -> dict[str, Any]:
    from lazyt import compiler
    from lazyt.plan.build import code_stamp
    from lazyt.runtime.cpu import compile
    from lazyt.version import __version__

    found = compile.find() if compile.available() else None
    named = ("eager", "threads", "provenance", "tune", "verify", *SETTINGS)
    return {
        "format": FORMAT,
        "lazyt": {"version": __version__, "compiler": code_stamp()},
        "python": platform.python_version(),
        "system": platform.platform(),
        "c_compiler": None if found is None else {
            "command": list(found.command), "version": found.version, "flags": list(found.flags),
        },
        "machine": machine_facts(),
        "settings": {name: getattr(config, name) for name in named},
        "passes": [step.name for step in compiler.PASSES],
        "program": {"arguments": list(program)},
    }  # fmt: skip


@contextmanager
def capture(
    folder: str | os.PathLike[str], inputs: bool = False, times: bool = True
) -> Iterator[Recorder]:
    """A context that writes down every plan that runs in it, in any thread.

    Each plan is compiled for its very sizes, whatever is on disk or in memory, and its fused
    kernels run, whatever ``config.tier`` says. Plans of before are used again afterwards. What
    takes no plan (library calls, and everything where there is no compiler) is not in the capture.

    Args:
        folder: where to; it must not exist yet, or be empty.
        inputs: keep the values of all plans' inputs, so that ``replay`` has them.
        times: run each plan some more times, on copies, for the seconds of each launch.

    Raises CaptureError for a folder that holds something or cannot be made.

    Example::

        import tempfile
        import lazyt
        from lazyt.tools.captures import capture

        with tempfile.TemporaryDirectory() as place, capture(f"{place}/softmax") as written:
            lazyt.randn(4, 5).softmax(-1).realize()
        assert written.count >= 1
    """
    path = os.path.abspath(os.fspath(folder))
    try:
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            raise CaptureError(f"{folder} holds something already: a capture takes a new folder")
        _put(path, MANIFEST, dumped(_manifest(sys.argv)))
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise CaptureError(f"cannot write a capture to {folder}: {why}") from None
    recorder = Recorder(path, inputs, times)
    explain.clear()  # reasons are about what the capture has seen, whatever ran before
    with build.recording(recorder):
        yield recorder
    if times and recorder.count:
        recorder.write_bounds()


def numbered(folder: str) -> str:
    """``folder``, or with a number behind it the first that does not hold anything yet."""
    path, number = folder, 1
    while os.path.exists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        number += 1
        path = f"{folder.rstrip('/')}-{number}"
    return path


def run(argv: Sequence[str]) -> int:
    """The command. Raises UsageError and CaptureError."""
    import argparse

    from lazyt.tools.arguments import Parser, UsageError
    from lazyt.tools.run import run as run_program

    parser = Parser(
        loads=True,
        prog="lazyt capture",
        description="Run a program as `lazyt run` does, and write down every plan that runs.",
    )
    parser.add_argument("folder", help="where to write; a folder that holds nothing yet")
    parser.add_argument("--inputs", action="store_true", help="keep the values of plans' inputs")
    parser.add_argument(
        "--no-times", action="store_true", help="do not run plans again for the launches' seconds"
    )
    parser.add_argument(
        "--numbered", action="store_true", help="if the folder holds something: FOLDER-2, ..."
    )
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module's name")
    parser.add_argument("program", metavar="PROGRAM", help="a Python file, or a module with -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    given = parser.parse_args(argv)
    if not given.module and not os.path.exists(given.program):
        raise UsageError(f"there is no file {given.program}")
    folder = numbered(given.folder) if given.numbered else given.folder
    head = ["-m"] if given.module else []
    with capture(folder, given.inputs, not given.no_times) as written:
        _put(written.folder, MANIFEST, dumped(_manifest([given.program, *given.arguments])))
        try:
            code = run_program([*head, given.program, *given.arguments])
        finally:
            _report(written, folder)
    return code or int(bool(written.errors))


def _report(written: Recorder, folder: str) -> None:
    """Says on standard error what was written, and what was not."""
    for error in written.errors:
        print(f"lazyt capture: not written: {error}", file=sys.stderr)
    count = f"{written.count} plan{'' if written.count == 1 else 's'}"
    print(f"lazyt capture: {count} in {folder}", file=sys.stderr)
    if not written.count:
        why = "LAZYT_INTERPRET is on" if config.interpret else "it computed nothing by a plan"
        print(f"lazyt capture: no plan ran: {why}", file=sys.stderr)
