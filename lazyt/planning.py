"""Finds the plan of a graph, makes it when there is none, and runs it.

Plans are found by a canonical key: nodes numbered in order of first visit, leaves by shape and
dtype, constants left open. So a loop written without any decorator compiles once. A constant that
differs from call to call becomes an input of the plan the second time it is seen.
"""

from __future__ import annotations

import functools
import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lazyt import ops
from lazyt.config import config
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node, make, source_text, topological
from lazyt.ops.leaves import CONST
from lazyt.runtime.memory import Buffer

if TYPE_CHECKING:
    from lazyt.explanation import Explanation
    from lazyt.ir.program import Program
    from lazyt.runtime.execute import Executable

Key = tuple[Any, ...]
_FREE = frozenset({"reshape", "permute", "expand", "slice", "flip", "variable", "detach"})
#: Rooms whose code decides what a graph compiles to.
_ROOMS = ("ir", "ops", "passes", "codegen")


@dataclass
class _Plan:
    """A plan for one structure: constants at ``lifted`` positions are inputs.

    ``sizes`` are the bytes of its outputs.
    """

    constants: tuple[Any, ...]
    lifted: tuple[int, ...]
    program: Program
    executable: Executable | None
    sizes: tuple[int, ...]

    def fits(self, constants: tuple[Any, ...]) -> bool:
        """Whether the plan computes a graph with these constants."""
        if constants == self.constants:
            return True
        return all(
            i in self.lifted or a == b
            for i, (a, b) in enumerate(zip(constants, self.constants, strict=True))
        )


@dataclass
class _Request:
    """A graph to compute, in canonical numbering."""

    order: list[Node]
    numbers: dict[Node, int]
    leaves: list[Node]
    constants: list[Node]
    roots: list[Node]
    key: Key = field(default=())


_plans: dict[Key, list[_Plan]] = {}
_last_shapes: dict[Key, str] = {}


def realize(nodes: Sequence[Node]) -> None:
    """Computes ``nodes`` and keeps costly values that others need; sets ``data``."""
    request = _canonical(nodes)
    if not request.roots:
        return
    if config.interpret or not _can_compile():
        _interpret(request.roots)
        return
    constants = tuple(c.params for c in request.constants)
    plan = _find(request, constants)
    inputs = [n.data for n in request.leaves]
    if plan.lifted:
        inputs += [_constant_buffer(request.constants[i]) for i in plan.lifted]
    outputs = [Buffer(size) for size in plan.sizes]
    if plan.executable is not None:
        plan.executable.run(inputs, outputs)
    for node, number in zip(request.roots, plan.program.results, strict=True):
        node.data = outputs[number] if number >= 0 else inputs[-1 - number]


def explain(nodes: Sequence[Node]) -> Explanation:
    """The kernels of the plan that would compute ``nodes``; computes nothing."""
    from lazyt.explanation import Explanation

    request = _canonical(nodes)
    if not request.roots:
        return Explanation((), 0)
    program = _find(request, tuple(c.params for c in request.constants)).program
    return Explanation(program.notes, program.arena_bytes)


def clear() -> None:
    """Forgets all plans of this process (not those on disk)."""
    _plans.clear()
    _last_shapes.clear()


def _has_data(node: Node) -> bool:
    return node.data is not None


def _canonical(nodes: Sequence[Node]) -> _Request:
    """Numbers the pending graph of ``nodes`` and makes its key."""
    roots = [n for n in dict.fromkeys(nodes) if n.data is None]
    for node in roots:
        if node.size == 0:
            node.data = Buffer(0)
    roots = [n for n in roots if n.data is None]
    order = topological(roots, _has_data)
    if len(order) > 2:
        roots += _kept(order, set(roots))
    numbers: dict[Node, int] = {}
    parts: list[Any] = []
    leaves: list[Node] = []
    constants: list[Node] = []
    for number, node in enumerate(order):
        numbers[node] = number
        if node.data is not None:
            leaves.append(node)
            parts.append((node.shape, node.dtype))
        elif node.op is CONST:
            constants.append(node)
            parts.append(node.dtype)
        else:
            parts.append((node.op, node.params, *[numbers[i] for i in node.inputs]))
    key = (tuple(parts), tuple([numbers[r] for r in roots]))
    return _Request(order, numbers, leaves, constants, roots, key)


# --------------------------------------------------------------- what to keep


def _references(order: Sequence[Node]) -> list[int]:
    """References to each node from outside of the graph (plus a constant)."""
    return [sys.getrefcount(node) for node in order]


def _calibrate() -> int:
    """How many references ``_references`` counts for a node that only its one user refers to."""
    probe = ops.apply("neg", ops.apply("neg", ops.input_((), float32)))
    order = topological([probe])
    return _references(order)[1] - 1


_baseline = -1


def _kept(order: Sequence[Node], roots: set[Node]) -> list[Node]:
    """Values to keep: costly to compute again, and referred to from outside of this graph.

    Whether somebody outside (a tensor, or a pending graph such as the gradients) refers to a node
    is read off its reference count: what is left after the references from within the graph.
    """
    global _baseline
    if _baseline < 0:
        _baseline = _calibrate()
    counts = _references(order)
    inner: dict[Node, int] = {}
    for node in order:
        if node.data is None:
            for item in node.inputs:
                inner[item] = inner.get(item, 0) + 1
    costly: set[Node] = set()
    kept: dict[Node, None] = {}
    for position, node in enumerate(order):
        if node.data is not None:
            continue
        heavy = isinstance(node.op.lower, str) and node.op.lower != "gather"
        if heavy or any(i in costly for i in node.inputs):
            costly.add(node)
            if node in roots:
                costly.discard(node)
            elif counts[position] - inner.get(node, 0) > _baseline:
                value = node
                while value.op.name in _FREE:
                    value = value.inputs[0]
                if value.data is None and value not in roots:
                    kept[value] = None
                    costly.discard(value)
                costly.discard(node)
    return list(kept)


# ------------------------------------------------------------- finding a plan


def _find(request: _Request, constants: tuple[Any, ...]) -> _Plan:
    plans = _plans.get(request.key)
    if plans is None:
        plans = _plans.setdefault(request.key, [])
    for plan in plans:
        if plan.fits(constants):
            return plan
    lifted: tuple[int, ...] = ()
    if plans:
        last = plans[-1]
        changed = {
            i for i, (a, b) in enumerate(zip(constants, last.constants, strict=True)) if a != b
        }
        lifted = tuple(sorted(changed | set(last.lifted)))
    plan = _make(request, constants, lifted)
    plans.append(plan)
    return plan


def _make(request: _Request, constants: tuple[Any, ...], lifted: tuple[int, ...]) -> _Plan:
    """Loads the plan's text from disk or compiles the graph, and loads the binary."""
    from lazyt.ir.program import Program
    from lazyt.ir.text_graph import print_graph
    from lazyt.runtime import cache, devices, execute

    inputs, roots = _detached(request, lifted)
    device = devices.cpu()
    text = print_graph(roots)
    order = [inputs.index(n) for n in topological(roots) if n.op.name == "input"]
    facts = (
        _code_stamp(),
        device.vector_bytes,
        device.l1,
        device.l2,
        device.l3,
        config.inline_reduce,
        order,
    )
    key = cache.hash_text("plan", repr(facts), text)
    program: Program | None = None
    stored = cache.get_text("plan", key)
    if stored is not None:
        try:
            program = Program.from_json(stored)
        except (ValueError, KeyError, TypeError):
            program = None
    reason = _reason(request, lifted)
    where = source_text(request.roots[0].source)
    if program is None:
        from lazyt.compiler import compile_graph

        program, _ = compile_graph(roots, inputs)
        cache.put_text("plan", key, program.to_json())
    executable = execute.load(program, reason, where) if program.launches else None
    sizes = {r: n.nbytes for r, n in zip(program.results, roots, strict=True) if r >= 0}
    return _Plan(constants, lifted, program, executable, tuple(sizes[n] for n in sorted(sizes)))


@functools.cache
def _code_stamp() -> str:
    """Changes whenever the compiler's own files do: plans on disk are only as good as the code
    that made them, and whoever edits a pass must not meet plans of the old one."""
    folder = os.path.dirname(os.path.abspath(__file__))
    stamps = []
    for room in _ROOMS:
        for entry in os.scandir(os.path.join(folder, room)):
            if entry.is_file():
                facts = entry.stat()
                stamps.append((room, entry.name, facts.st_size, facts.st_mtime_ns))
    return repr(sorted(stamps))


def _detached(request: _Request, lifted: tuple[int, ...]) -> tuple[list[Node], list[Node]]:
    """The request's graph over fresh inputs: leaves first, then lifted constants."""
    new: dict[Node, Node] = {}
    inputs: list[Node] = []
    for leaf in request.leaves:
        new[leaf] = ops.input_(leaf.shape, leaf.dtype)
        inputs.append(new[leaf])
    for position in lifted:
        node = request.constants[position]
        new[node] = ops.input_(node.shape, node.dtype)
        inputs.append(new[node])
    for node in request.order:
        if node not in new:
            made = make(node.op, tuple(new[i] for i in node.inputs), node.params)
            if node.source is not None:
                made.source = node.source
            new[node] = made
    return inputs, [new[r] for r in request.roots]


def _reason(request: _Request, lifted: tuple[int, ...]) -> str:
    """Why no plan was there: what differs from the nearest one."""
    shapes = ", ".join(f"{n.dtype.name}{list(n.shape)}" for n in request.leaves)
    structure = (tuple(n.op.name for n in request.order if n.data is None), len(request.leaves))
    before = _last_shapes.get(structure)
    _last_shapes[structure] = shapes
    if lifted:
        return f"constants {list(lifted)} differ from the last call: they become inputs"
    if before is None:
        return "a graph that was not seen before"
    if before != shapes:
        return f"inputs are {shapes}, the last graph of these operations had {before}"
    return "the same operations with other parameters or other results asked for"


def _constant_buffer(node: Node) -> Buffer:
    """A constant as a buffer of one element."""
    buffer = Buffer(node.nbytes)
    dtype = node.dtype
    if dtype.kind == "f" and dtype.itemsize == 4:
        buffer.copy_from(struct.pack("f", node.params.value))
    else:
        from lazyt.runtime.interpreter import interpret

        buffer.copy_from(interpret([node])[0].tobytes())
    return buffer


# ---------------------------------------------------------------- no compiler


def _can_compile() -> bool:
    from lazyt.runtime import compile

    return compile.available()


def _interpret(roots: Sequence[Node]) -> None:
    from lazyt.runtime.interpreter import interpret

    for node, array in zip(roots, interpret(roots), strict=True):
        buffer = Buffer(node.nbytes)
        buffer.copy_from(array.tobytes())
        node.data = buffer
