"""Finds the plan of a graph, makes it when there is none, and runs it.

Plans are found by a canonical key: nodes numbered in order of first visit, leaves by shape and
dtype, constants left open. So a loop written without any decorator compiles once. A constant that
differs from call to call becomes an input of the plan the second time it is seen.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazyt import lifting, ops
from lazyt.config import config
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node, make, source_text, topological
from lazyt.lifting import SLICING, Number, numbers_of, rebuild_lifted, structure
from lazyt.ops.leaves import CONST
from lazyt.runtime import events
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


@dataclass(slots=True)
class _Request:
    """A graph to compute, in canonical numbering."""

    order: list[Node]
    leaves: list[Node]
    numbers: list[Number]
    roots: list[Node]
    donated: tuple[int, ...]
    key: Key
    calls: bool  # whether there are library calls


_plans: dict[Key, list[_Plan]] = {}
_last_shapes: dict[Key, str] = {}


def realize(nodes: Sequence[Node]) -> None:
    """Computes ``nodes`` and keeps costly values that others need; sets ``data``."""
    request = _canonical(nodes)
    if request is not None and request.calls:
        from lazyt.steps import run_calls

        run_calls(request.order)
        request = _canonical(nodes)
    if request is None:
        return
    plan = None if config.interpret else _find(request)
    if plan is None:
        _interpret(request.roots)
        return
    inputs = [n.data for n in request.leaves]
    if plan.lifted:
        inputs += [lifting.number_buffer(request.numbers[i]) for i in plan.lifted]
    outputs = [Buffer(size) for size in plan.sizes]
    if plan.executable is not None:
        if events.watching:
            from lazyt.timing import run_timed

            run_timed(plan.program, inputs, outputs)
        else:
            plan.executable.run(inputs, outputs)
    for node, number in zip(request.roots, plan.program.results):
        node.data = outputs[number] if number >= 0 else inputs[-1 - number]


def explain(nodes: Sequence[Node]) -> Explanation:
    """The kernels of the plan that would compute ``nodes``; computes nothing."""
    from lazyt.explanation import Explanation

    request = _canonical(nodes)
    if request is None:
        return Explanation((), 0)
    if request.calls:
        from lazyt.steps import explain_calls

        return explain_calls(request.order, request.roots)
    plan = _find(request)
    if plan is None:
        return Explanation((), 0)
    return Explanation(plan.program.notes, plan.program.arena_bytes)


def clear() -> None:
    """Forgets all plans of this process (not those on disk)."""
    _plans.clear()
    _last_shapes.clear()


def _canonical(nodes: Sequence[Node]) -> _Request | None:
    """Numbers the pending graph of ``nodes`` and makes its key; None when nothing is pending."""
    roots: list[Node] = []
    for node in nodes:
        if node.data is None and node not in roots:
            if 0 in node.shape:
                node.data = Buffer(0)
            else:
                roots.append(node)
    if not roots:
        return None
    numbers, costly, calls = _number(roots)
    order = list(numbers)
    spare: set[Node] = set()
    if costly:
        outside = _outside(order, numbers)
        roots += _kept(order, outside, set(roots))
        spare = _spare(order, outside)
    parts: list[Any] = []
    leaves: list[Node] = []
    variable: list[Number] = []
    for node in order:
        if node.data is not None:
            leaves.append(node)
            parts.append((node.shape, node.dtype))
        elif node.op is CONST or node.op.name in SLICING:
            variable += numbers_of(node)
            parts.append((*structure(node), *[numbers[i] for i in node.inputs]))
        else:
            parts.append((node.op, node.params, *[numbers[i] for i in node.inputs]))
    donated = tuple([i for i, n in enumerate(leaves) if n in spare]) if spare else ()
    key = (tuple(parts), tuple([numbers[r] for r in roots]), donated)
    return _Request(order, leaves, variable, roots, donated, key, calls)


def _number(roots: Sequence[Node]) -> tuple[dict[Node, int], bool, bool]:
    """Numbers of all nodes that have to be computed and of their leaves, inputs first; whether any
    is costly; whether any is a library call. It is ``topological``, written out: all calls pay."""
    numbers: dict[Node, int] = {}
    costly = calls = False
    stack = list(roots)
    stack.reverse()
    while stack:
        node = stack[-1]
        if node in numbers:
            stack.pop()
            continue
        depth = len(stack)
        if node.data is None:
            for item in node.inputs:
                if item not in numbers:
                    stack.append(item)
            if node.op.heavy:
                costly = True
                calls = calls or node.op.lower == "library"
        if len(stack) == depth:
            stack.pop()
            numbers[node] = len(numbers)
        elif len(stack) > depth + 1:
            stack[depth:] = stack[: depth - 1 : -1]
    return numbers, costly, calls


# --------------------------------------------------------------- what to keep


def _references(order: list[Node], numbers: dict[Node, int]) -> list[int]:
    """References to each node, less those from within the graph."""
    counts = [sys.getrefcount(node) for node in order]
    for node in order:
        if node.data is None:
            for item in node.inputs:
                counts[numbers[item]] -= 1
    return counts


@functools.cache
def _baseline() -> int:
    """What ``_references`` counts for a node that nobody outside of the graph refers to."""
    probe = ops.apply("neg", ops.apply("neg", ops.input_((), float32)))
    numbers, *_ = _number([probe])
    return _references(list(numbers), numbers)[1]


def _outside(order: list[Node], numbers: dict[Node, int]) -> dict[Node, bool]:
    """Whether somebody outside of this graph refers to a node: a tensor, or a pending graph such
    as the gradients. It is read off the reference count."""
    baseline = _baseline()
    counts = _references(order, numbers)
    return {node: count > baseline for node, count in zip(order, counts, strict=True)}


def _kept(order: list[Node], outside: dict[Node, bool], roots: set[Node]) -> list[Node]:
    """Values to keep: costly to compute again, and referred to from outside of this graph."""
    costly: set[Node] = set()
    kept: dict[Node, None] = {}
    for node in order:
        if node.data is not None or node in roots or 0 in node.shape:
            continue
        if node.op.heavy or any(i in costly for i in node.inputs):
            if not outside[node]:
                costly.add(node)
                continue
            value = node
            while value.op.name in _FREE:
                value = value.inputs[0]
            if value.data is None and value not in roots:
                kept[value] = None
                costly.discard(value)
    return list(kept)


def _spare(order: list[Node], outside: dict[Node, bool]) -> set[Node]:
    """Leaves whose memory a write into them may take over: the old value is needed by nothing
    else, inside or outside, and its memory belongs to the leaf alone."""
    users: dict[Node, int] = {}
    for node in order:
        if node.data is None:
            for item in node.inputs:
                users[item] = users.get(item, 0) + 1
    spare: set[Node] = set()
    for node in order:
        if node.data is None and node.op.name in ("update", "scatter") and not node.needs_grad:
            base = node.inputs[0]
            alone = base.data is not None and users[base] == 1 and not outside[base]
            if alone and not base.data.is_foreign and sys.getrefcount(base.data) == _ALONE:
                spare.add(base)
    return spare


#: References to an object that only one slot holds, as ``sys.getrefcount`` counts them.
_ALONE = sys.getrefcount([object()][0]) + 1


# ------------------------------------------------------------- finding a plan


def _find(request: _Request) -> _Plan | None:
    """The plan, made when there is none; None when there is no compiler to make it."""
    constants = tuple([n.value for n in request.numbers])
    plans = _plans.get(request.key)
    if plans is None:
        plans = _plans.setdefault(request.key, [])
    for plan in plans:
        if plan.fits(constants):
            return plan
    if not _can_compile():
        return None
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
    caches = (device.l1, device.l2, device.l3)
    settings = (device.vector_bytes, caches, config.inline_reduce)
    facts = (_code_stamp(), request.donated, settings, order)
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

        program, _ = compile_graph(roots, inputs, [inputs[i] for i in request.donated])
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
    starts: dict[Node, dict[int, Node]] = {}
    for position in lifted:
        number = request.numbers[position]
        made = ops.input_((), number.dtype)
        inputs.append(made)
        if number.axis < 0:
            new[number.node] = made
        else:
            starts.setdefault(number.node, {})[number.axis] = made
    for node in request.order:
        if node not in new:
            operands = tuple(new[i] for i in node.inputs)
            if node in starts:
                made = rebuild_lifted(node, operands, starts[node])
            else:
                made = make(node.op, operands, node.params)
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
        names = ", ".join(dict.fromkeys(request.numbers[i].node.op.name for i in lifted))
        return f"{len(lifted)} number(s) ({names}) differ from the last call: they become inputs"
    if before is None:
        return "a graph that was not seen before"
    if before != shapes:
        return f"inputs are {shapes}, the last graph of these operations had {before}"
    return "the same operations with other parameters or other results asked for"


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
