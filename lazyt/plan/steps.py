"""Graphs that need more than one launch of kernels: library calls, copies between devices, and
plans that run on devices beside the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazyt import ops
from lazyt.codegen.cuda.target import device_helpers
from lazyt.errors import warn
from lazyt.ir.forms import PLACED, place_of
from lazyt.ir.graph import Node, rebuild, remake, source_text
from lazyt.ir.program import Grid, Program
from lazyt.ops.routines import ROUTINES
from lazyt.plan.build import lock
from lazyt.plan.explain import Explanation
from lazyt.plan.graph_keys import number_graph, structure_of
from lazyt.plan.retention import separate_constants
from lazyt.runtime import events
from lazyt.runtime.cuda import execute
from lazyt.runtime.cuda.device import CudaDevice, Tray, device_at
from lazyt.runtime.cuda.driver import Properties
from lazyt.runtime.cuda.memory import DeviceBuffer
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.memory import Buffer, without_aliases

if TYPE_CHECKING:
    from lazyt.runtime.cuda.execute import CudaExecutable


#: What computes the graph of some nodes, and what explains how: ``planning.realize``, ``.explain``.
Realize = Callable[[Sequence[Node]], list[Node]]
Explain = Callable[[Sequence[Node]], Explanation]

# Graphs with library calls and copies between devices, computed in steps.
#
# A plan is one C function, and a library call cannot be part of it. So a graph with such calls is
# computed level by level: one plan for the operands of all calls that wait for no other, then those
# calls, one plan for the operands of the next, and in the end one plan for the rest. Operands and
# results of calls are kept in their nodes as any other value is, so nothing is computed twice.


def run_calls(levels: Sequence[Sequence[Node]], realize: Realize) -> None:
    """Computes all library calls of ``call_levels``, their operands by ``realize``. Nobody may
    hold on to the graph's nodes for the meantime: what is referred to from outside of a plan is
    stored."""
    for calls in levels:
        _compute([item for call in calls for item in call.inputs], realize)
        for call in calls:
            _run(call)


def _compute(nodes: Sequence[Node], realize: Realize) -> None:
    """Computes nodes, each where it is made, and notes the value at all that only look at it."""
    chains = [_chain(node) for node in nodes]
    bases = [chain[-1] for chain in chains if chain[-1].data is None]
    if bases:
        realize(list(dict.fromkeys(bases)))
    for chain in chains:
        for node in chain:
            node.data = chain[-1].data


def realize_first(
    parameters: Sequence[Sequence[Node]], nodes: Sequence[Node], realize: Realize
) -> list[Node]:
    """Computes parameters, then the graph that they are part of."""
    draw(parameters, realize)
    return realize(nodes)


def draw(parameters: Sequence[Sequence[Node]], realize: Realize) -> None:
    """Computes the groups of ``Structure.parameters``, one after the other: no graph then holds
    more than one group, however many there are."""
    for group in parameters:
        _compute(group, realize)
        with lock:
            separate_constants(group)


def realize_rest(nodes: Sequence[Node], realize: Realize) -> list[Node]:
    """Computes a graph whose calls are done; each device what is to be there."""
    places: dict[str, list[Node]] = {}
    for node in nodes:
        places.setdefault(place_of(node.form), []).append(node)
    return [stored for some in places.values() for stored in realize(some)]


def explain_calls(
    levels: Sequence[Sequence[Node]], roots: Sequence[Node], explain: Explain
) -> Explanation:
    """The kernels and library calls, in the order in which they would run; computes nothing."""
    known: dict[Node, Node] = {}
    found = Explanation((), 0)
    for calls in levels:
        operands = [_chain(item)[-1] for call in calls for item in call.inputs]
        kept = _retained(operands)
        found = found.followed_by(_explain_plan(operands, known, explain))
        found = found.followed_by(Explanation([_note(call) for call in calls], 0))
        for node in (*operands, *kept, *calls):
            if node.data is None:
                data = _stand_in(node)
                known.setdefault(node, ops.input_(node.shape, node.dtype, data))
    places: dict[str, list[Node]] = {}
    for node in roots:
        places.setdefault(place_of(node.form), []).append(node)
    for some in places.values():
        found = found.followed_by(_explain_plan(some, known, explain))
    return found


def _stand_in(node: Node) -> Buffer:
    """Memory for a value that nobody reads."""
    if node.form < PLACED:
        return empty_at(place_of(node.form))
    return Buffer.foreign(0, node.nbytes, None)


def _explain_plan(
    roots: Sequence[Node], known: Mapping[Node, Node], explain: Explain
) -> Explanation:
    """The plan of ``roots`` when the nodes in ``known`` are computed already."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node in known:
            return known[node]
        return node if node.data is not None else remake(node, inputs)

    rest = rebuild(roots, change, lambda node: node.data is not None or node in known)
    return explain(rest)


def _retained(operands: Sequence[Node]) -> list[Node]:
    """What the plan of ``operands`` keeps for the steps that follow."""
    pending = list(dict.fromkeys(node for node in operands if node.data is None))
    numbers, key = number_graph(pending)
    order = list(numbers)
    chosen = structure_of(numbers, key, pending).choose(order).roots
    return [order[i] for i in chosen[len(pending) :]]


def call_levels(order: Sequence[Node]) -> list[list[Node]]:
    """The pending library calls among ``order``, a graph with inputs before users: first those that
    depend on no other, then those that depend on them, and so on."""
    level: dict[Node, int] = {}
    found: list[list[Node]] = []
    for node in order:
        if node.data is not None:
            continue
        depth = max((level.get(item, 0) for item in node.inputs), default=0)
        if node.op is ops.LIBRARY or node.op is ops.TRANSFER:
            if depth == len(found):
                found.append([])
            found[depth].append(node)
            depth += 1
        level[node] = depth
    return found


def _chain(node: Node) -> list[Node]:
    """``node`` and what it is another name for, down to the node that computes the value."""
    chain = [node]
    while node.data is None and node.op.is_identity:
        node = node.inputs[0]
        chain.append(node)
    return chain


def _run(call: Node) -> None:
    """Calls the library, or copies to another device; the operands have their data."""
    if call.op is ops.TRANSFER:
        call.data = moved(call.inputs[0], call.params.place)
        return
    placed = call.form < PLACED
    if placed:
        announce_library(call)
    begin = time.monotonic()
    buffer = Buffer(call.nbytes)
    if call.size:
        (found,) = interpret([call])
        buffer.as_numpy(call.dtype, call.shape)[...] = found
    call.data = _uploaded(call, buffer) if placed else buffer
    if events.watching:
        for timings in events.watching:
            timings.append(events.Timing(_note(call), begin, time.monotonic()))


def _uploaded(call: Node, buffer: Buffer) -> Buffer:
    from lazyt.runtime.cuda.device import device_at

    return device_at(place_of(call.form)).upload(buffer)


def _note(call: Node) -> dict[str, Any]:
    """What a plan's notes say about a kernel, about a call."""
    if call.op is ops.TRANSFER:
        return _copy_note(call)
    routine, mode = call.params
    rows, columns = call.inputs[0].shape[-2:]
    count = call.inputs[0].size * min(rows, columns)
    reasons = ["a call of NumPy's matrix routines: not compiled, nothing is fused into it"]
    if call.form < PLACED:
        reasons.append(
            f"it runs on the host: operands come from {place_of(call.form)}, and go back"
        )
    variant = "" if mode == "plain" else f", {mode}"
    return {
        "name": routine,
        "kind": "library",
        "computes": [f"library {routine}{variant} {call.dtype.name}{list(call.shape)}"],
        "bytes_read": sum(item.nbytes for item in call.inputs),
        "bytes_written": call.nbytes,
        "flops": ROUTINES[routine].cost * count,
        "scratch": 0,
        "phases": 1,
        "reasons": reasons,
        "sources": [] if call.source is None else [source_text(call.source)],
    }


def _copy_note(call: Node) -> dict[str, Any]:
    """The same about a copy between devices."""
    place = call.params.place or "cpu"
    return {
        "name": "copy",
        "kind": "copy",
        "computes": [f"copy to {place} {call.dtype.name}{list(call.shape)}"],
        "bytes_read": call.nbytes,
        "bytes_written": call.nbytes,
        "flops": 0,
        "scratch": 0,
        "phases": 1,
        "reasons": ["values change the device here: plans end before and begin after it"],
        "sources": [] if call.source is None else [source_text(call.source)],
    }


# Plans that run on devices beside the CPU, and copies between devices.


#: Bytes of a buffer up to which it is copied together with others.
_SMALL = 4096
#: Registers are given to warps in units of it, and every block has that much shared memory more.
_REGISTER_UNIT, _SHARED_OF_SYSTEM = 256, 1024
#: Routines, with devices, of which ``announce_library`` has told.
_announced: set[tuple[str, str]] = set()


@dataclass
class Launcher:
    """A program on a device, with what it needs to be run on any buffers.

    Attributes:
        executable: it; None for a program without kernels.
        homes: the place of each root.
        sizes: bytes of its outputs.
        results: see ``Program``.
    """

    device: CudaDevice
    executable: CudaExecutable | None
    homes: tuple[str, ...]
    sizes: tuple[int, ...]
    results: tuple[int, ...]

    @staticmethod
    def load(
        program: Program, roots: Sequence[Node], sizes: tuple[int, ...], reason: str, where: str
    ) -> Launcher:
        """The program of a graph with these roots, compiled for the device they are on."""
        homes = tuple(place_of(root.form) for root in roots)
        device = device_at(next(home for home in homes if home))
        executable = None
        if program.launches:
            helpers = device_helpers(device.driver.helpers)
            executable = execute.load(program, device, helpers, reason, where)
        return Launcher(device, executable, homes, sizes, program.results)

    def run(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        """The buffers of the roots. Inputs on the host, such as numbers, are copied first."""
        given = self.brought(inputs)
        outputs = [self.device.allocate(size) for size in self.sizes]
        if self.executable is not None:
            if self.executable.program.donated:
                donated = self.executable.program.overwritten
                given = without_aliases(given, outputs, donated)
            self.executable.run(given, outputs)
        found = [outputs[n] if n >= 0 else given[-1 - n] for n in self.results]
        return [b if home else b.to_host() for b, home in zip(found, self.homes, strict=True)]

    @property
    def is_direct(self) -> bool:
        """Whether it is kernels only, with all results on the device."""
        return self.executable is not None and all(self.homes)

    def launch(self, inputs: Sequence[DeviceBuffer], outputs: Sequence[DeviceBuffer]) -> None:
        """Run kernels on what is there, into given outputs."""
        assert self.executable is not None
        self.executable.run(inputs, outputs)

    def launch_at(self, places: tuple[int, ...]) -> None:
        """Run kernels on memory at these addresses, inputs first, that only this stream uses."""
        assert self.executable is not None
        self.executable.run_at(places)

    def brought(self, buffers: Sequence[Buffer]) -> list[DeviceBuffer]:
        """Buffers of the device with the same values: themselves where they are there. Numbers,
        and whatever else is small, go there together."""
        device = self.device
        found: list[Any] = list(buffers)
        small: list[int] = []
        for place, buffer in enumerate(found):
            if not isinstance(buffer, DeviceBuffer):
                if buffer.nbytes <= _SMALL:
                    small.append(place)
                else:
                    found[place] = device.upload(buffer)
            elif buffer.device is not device:
                found[place] = device.upload(buffer)
        if len(small) == 1:
            found[small[0]] = device.upload(found[small[0]])
        elif small:
            for place, made in zip(small, device.upload_all([found[n] for n in small])):
                found[place] = made
        return found

    def tray(self, sizes: Sequence[int]) -> Tray:
        """Memory for small buffers of the host that go to the device at every run."""
        return Tray(self.device, sizes)

    def notes(self, program: Program) -> Sequence[dict[str, object]]:
        """The program's notes, with what the compiler said about its functions."""
        if self.executable is None or not self.executable.facts:
            return program.notes
        grids = {kernel.name: kernel.grids for kernel in program.kernels}
        found: list[dict[str, object]] = []
        for note, launch in zip(program.notes, program.launches, strict=True):
            texts = [str(note.get("form", ""))]
            for grid in grids[launch.kernel]:
                facts = self.executable.facts.get(grid.function, {})
                if facts:
                    share = occupancy(self.device.driver.properties, grid, facts["registers"])
                    texts.append(
                        f"{facts['registers']} registers, {facts['spilled']} B spilled, "
                        f"occupancy {share:.0%}"
                    )
            found.append({**note, "form": "; ".join(texts)})
        return found


def occupancy(device: Properties, grid: Grid, registers: int) -> float:
    """The share of a multiprocessor's threads that can run at a time, by what they need."""
    warps = -(-grid.threads // device.warp_size)
    per_warp = -(-registers * device.warp_size // _REGISTER_UNIT) * _REGISTER_UNIT
    most = device.max_threads_per_multi_processor // device.warp_size // warps
    by_registers = device.regs_per_multiprocessor // max(per_warp * warps, 1)
    shared = grid.shared_bytes + _SHARED_OF_SYSTEM
    by_shared = device.shared_memory_per_multiprocessor // shared
    blocks = min(most, by_registers, by_shared)
    return blocks * warps * device.warp_size / device.max_threads_per_multi_processor


def moved(node: Node, place: str) -> Buffer:
    """The value of a computed node, at another place."""
    data: Buffer = node.data
    if not place:
        return data.to_host() if isinstance(data, DeviceBuffer) else data
    return device_at(place).upload(data)


def empty_at(place: str) -> Buffer:
    """Memory of no bytes."""
    return device_at(place).allocate(0) if place else Buffer(0)


def announce_library(call: Node) -> None:
    """Warns, once for each routine, that a library call on a device is made on the host."""
    routine, place = call.params.routine, place_of(call.form)
    if (routine, place) not in _announced:
        _announced.add((routine, place))
        warn(
            f"{routine} is a routine of the CPU's matrix library: tensors on {place} are copied to "
            "the host for it, and its results back"
        )
