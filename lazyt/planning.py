"""Finds the plan of a graph, makes it when there is none, and runs it.

Plans are found by a canonical key: nodes numbered in order of first visit, leaves by shape and
dtype, constants left open. So a loop written without any decorator compiles once. A constant that
differs from call to call becomes an input of the plan the second time it is seen.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazyt import differences, lifting, ops
from lazyt.config import config
from lazyt.differences import explain_new
from lazyt.ir.graph import Node, make, source_text, topological
from lazyt.keeping import find_kept, find_outside, find_spare, forget_origins, number_graph
from lazyt.lifting import SLICING, Number, numbers_of, rebuild_lifted, structure
from lazyt.ops.leaves import CONST
from lazyt.runtime import events
from lazyt.runtime.memory import Buffer

if TYPE_CHECKING:
    from lazyt.explanation import Explanation
    from lazyt.ir.program import Program
    from lazyt.runtime.execute import Executable

Key = tuple[Any, ...]
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

    def run(self, inputs: list[Buffer]) -> list[Buffer]:
        """The buffers of the results, for the buffers of leaves and lifted numbers."""
        outputs = [Buffer(size) for size in self.sizes]
        if self.executable is not None:
            if events.watching:
                from lazyt.timing import run_timed

                run_timed(self.program, inputs, outputs)
            else:
                self.executable.run(inputs, outputs)
        return [outputs[n] if n >= 0 else inputs[-1 - n] for n in self.program.results]


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


class Prepared:
    """A plan with the leaves that it was found for.

    Attributes:
        leaves: the leaves, in the order in which ``run`` takes their buffers.
    """

    __slots__ = ("_fixed", "_plan", "leaves")

    def __init__(self, plan: _Plan, leaves: list[Node], fixed: list[Buffer]) -> None:
        self._plan = plan
        self._fixed = fixed
        self.leaves = leaves

    def run(self, inputs: list[Buffer]) -> list[Buffer]:
        """The buffers of the roots, in their order, for these buffers of the leaves."""
        return self._plan.run(inputs + self._fixed)


_plans: dict[Key, list[_Plan]] = {}


def realize(nodes: Sequence[Node]) -> None:
    """Computes ``nodes`` and keeps costly values that others need; sets ``data``."""
    request = _canonical(nodes)
    if request is not None and request.calls:
        from lazyt.steps import call_levels, run_calls

        levels = call_levels(request.order)
        request = None  # what it refers to would count as in use
        run_calls(levels)
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
    for node, buffer in zip(request.roots, plan.run(inputs)):
        node.data = buffer
    forget_origins(request.order)


def explain(nodes: Sequence[Node]) -> Explanation:
    """The kernels of the plan that would compute ``nodes``; computes nothing."""
    from lazyt.explanation import Explanation

    request = _canonical(nodes)
    if request is None:
        return Explanation((), 0)
    if request.calls:
        from lazyt.steps import call_levels, explain_calls

        levels = call_levels(request.order)
        request = None
        return explain_calls(levels, nodes)
    plan = _find(request)
    if plan is None:
        return Explanation((), 0)
    return Explanation(plan.program.notes, plan.program.arena_bytes)


def clear() -> None:
    """Forgets all plans of this process (not those on disk)."""
    _plans.clear()
    differences.clear()


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
    numbers, costly, calls = number_graph(roots)
    order = list(numbers)
    spare: set[Node] = set()
    if costly:
        outside = find_outside(order, numbers)
        roots += find_kept(order, outside, set(roots))
        spare = find_spare(order, outside)
    return _keyed(numbers, roots, spare, calls)


def prepare(roots: Sequence[Node]) -> Prepared | None:
    """The plan that computes just ``roots``, different pending nodes of some size, to be run again
    on other leaves; None where library calls or a missing compiler stand in the way."""
    numbers, _, calls = number_graph(roots)
    request = _keyed(numbers, list(roots), set(), calls)
    plan = None if calls or config.interpret else _find(request)
    if plan is None:
        return None
    fixed = [lifting.number_buffer(request.numbers[i]) for i in plan.lifted]
    return Prepared(plan, request.leaves, fixed)


def _keyed(numbers: dict[Node, int], roots: list[Node], spare: set[Node], calls: bool) -> _Request:
    """The request for ``roots`` with its key."""
    order = list(numbers)
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
    where = source_text(request.roots[0].source)
    reason = _reason(request, lifted, where)
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
        for place, _, names in os.walk(os.path.join(folder, room)):
            if not place.endswith("__pycache__"):
                for name in names:
                    facts = os.stat(os.path.join(place, name))
                    stamps.append((room, name, facts.st_size, facts.st_mtime_ns))
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


def _reason(request: _Request, lifted: tuple[int, ...], where: str) -> str:
    """Why no plan was there: what differs from the nearest one."""
    new = explain_new(request.order, request.leaves, request.roots, where)
    if lifted:
        names = ", ".join(dict.fromkeys(request.numbers[i].node.op.name for i in lifted))
        return f"{len(lifted)} number(s) ({names}) differ from the last call: they become inputs"
    return new


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
