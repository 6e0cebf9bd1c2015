"""Loops run: the plan of a body, launched once for each step on places in preallocated memory.

The body's plan is made once, whatever the length. Carries that are wanted whole are written where
their history has them, and read from there by the next step; others go back and forth between two
places. Slices of operands and results are places in their buffers. A body that a plan cannot
compute, such as one with a matrix routine in it, runs step by step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from lazyt import ops
from lazyt.config import config
from lazyt.ir.graph import Body, Node, source_text
from lazyt.ops.control.bodies import Part, taken
from lazyt.ops.control.building import LoopParams, layout
from lazyt.plan.graph_keys import on_forget
from lazyt.runtime import events
from lazyt.runtime.cpu import loops
from lazyt.runtime.cpu.loops import Copy, Cursor
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.memory import Buffer

if TYPE_CHECKING:
    from lazyt.ir.dtypes import DType
    from lazyt.plan.planning import Prepared
    from lazyt.plan.steps import Planner


class _Step(NamedTuple):
    """What runs a body's results that have to be computed.

    Attributes:
        plan: their plan; None where there is nothing to compute.
        roots: these results, each once.
        alone: whether no plan can compute them.
    """

    plan: Prepared | None
    roots: list[Node]
    alone: bool


_steps: WeakKeyDictionary[Body, tuple[object, _Step]] = WeakKeyDictionary()


def _step_of(body: Body, planner: Planner) -> _Step:
    """How a body is run, found out once for the settings as they are."""
    known = _steps.get(body)
    if known is not None and known[0] == config.of_plans:
        return known[1]
    own = set(body.leaves)
    roots = [r for r in dict.fromkeys(body.roots) if r not in own and r.data is None and r.size]
    plan = planner.prepare(roots) if roots else None
    found = _Step(plan, roots, bool(roots) and plan is None)
    _steps[body] = (config.of_plans, found)
    return found


def forget() -> None:
    """Forgets how bodies are run."""
    _steps.clear()


on_forget.append(forget)


def run(calls: Sequence[Node], planner: Planner) -> list[Node]:
    """Runs loops whose operands are there; those that differ in the dtype of their results only
    run as one. Returns the results that were given their values."""
    groups: dict[object, list[Node]] = {}
    for call in calls:
        key = call.params._replace(dtype=None), call.inputs
        groups.setdefault(key, []).append(call)
    found: list[Node] = []
    for group in groups.values():
        found += _run(group, planner)
    return found


def _run(calls: Sequence[Node], planner: Planner) -> list[Node]:
    params: LoopParams = calls[0].params
    if config.interpret:
        for call in calls:
            (value,) = interpret([call])
            call.data = Buffer(call.nbytes)
            call.data.as_numpy(call.dtype, call.shape)[...] = value
        return []
    dtypes = {root.dtype for root in params.body.roots}
    rows = {call.dtype: Buffer(call.nbytes) for call in calls}
    for dtype in dtypes - set(rows):
        size = layout(params._replace(dtype=dtype)).size
        rows[dtype] = Buffer(size * dtype.itemsize)
    begin = perf_counter()
    _Run(calls[0], rows).go(_step_of(params.body, planner), planner)
    if events.watching:
        for timings in events.watching:
            timings.append(events.Timing(note(calls[0]), begin, perf_counter()))
    results: list[Node] = []
    for call in calls:
        call.data = rows[call.dtype]
        results += _parts(call)
    return results


def _parts(call: Node) -> list[Node]:
    """The results that a loop's row has, as the memory that they are; last states, which programs
    hold on to longest, as a copy."""
    params: LoopParams = call.params
    found, buffer = layout(params), call.data
    parts: list[tuple[Part, bool]] = [(part, False) for part in found.slices if part is not None]
    for number in range(params.carries):
        last, before = found.last(number, params), found.before(number, params)
        parts += [(last, True)] if last is not None else []
        parts += [(before, False)] if before is not None else []
    nodes = []
    for part, copied in parts:
        node = taken(call, part)
        if node is not call and node.data is None:
            size, start = call.dtype.itemsize, buffer.ptr + part.start * call.dtype.itemsize
            if copied:
                node.data = Buffer(part.size * size)
                node.data.copy_from(start, part.size * size)
            else:
                node.data = Buffer.foreign(start, part.size * size, buffer)
            nodes.append(node)
    return nodes


class _Run:
    """One run of a loop: where each value is in each step."""

    def __init__(self, call: Node, rows: dict[DType, Buffer]) -> None:
        self.params: LoopParams = call.params
        self.body = self.params.body
        self.cursors: list[Cursor] = []
        self.copies: list[Copy] = []
        self.held: list[Buffer] = [item.data for item in call.inputs]
        self.ends: list[tuple[int, int, int]] = []  # copied when all is done: target, source, bytes
        self.leaves: dict[Node, int] = {}  # the cursors of what a step reads
        self.targets: dict[Node, list[int]] = {}  # and of where its results go, the first at once
        params = self.params
        first = params.constants + params.carries
        for leaf, item in zip(self.body.leaves[: params.constants], call.inputs):
            self.leaves[leaf] = self._cursor(item.data.ptr)
        for leaf, item in zip(self.body.leaves[first:], call.inputs[first:]):
            self.leaves[leaf] = self._sliced(item.data.ptr, leaf.nbytes)
        late: list[tuple[Node, int]] = []
        for number, root in enumerate(self.body.roots[: params.carries]):
            self._carry(number, root, call.inputs[params.constants + number], rows, late)
        for number, root in enumerate(self.body.roots[params.carries :]):
            found = layout(params._replace(dtype=root.dtype))
            part = found.slices[number]
            if part is not None and found.shared[number] < 0:
                start = rows[root.dtype].ptr + part.start * root.dtype.itemsize
                self.targets.setdefault(root, []).append(self._sliced(start, root.nbytes))
        for root, cursor in late:
            self.targets.setdefault(root, []).append(cursor)

    def _cursor(self, base: int, stride: int = 0, period: int = 0, offset: int = 0) -> int:
        self.cursors.append(Cursor(base, stride, period, offset))
        return len(self.cursors) - 1

    def _sliced(self, base: int, stride: int) -> int:
        if self.params.reverse:
            return self._cursor(base + (self.params.length - 1) * stride, -stride)
        return self._cursor(base, stride)

    def _carry(
        self,
        number: int,
        root: Node,
        begin: Node,
        rows: dict[DType, Buffer],
        late: list[tuple[Node, int]],
    ) -> None:
        """Where a carry is read and written; what goes back and forth is copied there where it is
        a slice of a result, too."""
        params, nbytes = self.params, root.nbytes
        leaf = self.body.leaves[params.constants + number]
        own = params._replace(dtype=root.dtype)
        found = layout(own)
        whole = found.carries[number]
        assert whole is not None
        start = rows[root.dtype].ptr + whole.start * root.dtype.itemsize
        if params.history[number]:
            if params.reverse:
                start += params.length * nbytes
            stride = -nbytes if params.reverse else nbytes
            ctypes.memmove(start, begin.data.ptr, nbytes)
            self.leaves[leaf] = self._cursor(start, stride)
            self.targets.setdefault(root, []).append(self._cursor(start, stride, 0, 1))
            return
        both = Buffer(2 * nbytes)
        self.held.append(both)
        ctypes.memmove(both.ptr, begin.data.ptr, nbytes)
        self.leaves[leaf] = self._cursor(both.ptr, nbytes, 2)
        late.append((root, self._cursor(both.ptr, nbytes, 2, 1)))
        self.ends.append((start, both.ptr + params.length % 2 * nbytes, nbytes))

    def go(self, step: _Step, planner: Planner) -> None:
        """Runs all steps."""
        chosen: list[int] = []  # for each computed result, where the plan writes it
        for root in step.roots:
            chosen.append(self.targets[root][0])
        for root, targets in self.targets.items():
            source = self.leaves.get(root)
            if source is None and root.data is not None:
                source = self._cursor(root.data.ptr)
                self.held.append(root.data)
            elif source is None and root.size:
                source, targets = targets[0], targets[1:]
            if root.size:
                assert source is not None
                self.copies += [Copy(target, source, root.nbytes) for target in targets]
        if step.alone:
            self._each_realized(step, planner)
        elif step.plan is None or not self._launched(step.plan, chosen):
            assert step.plan is None or chosen
            self._each(step.plan, step, chosen)
        for target, origin, nbytes in self.ends:
            ctypes.memmove(target, origin, nbytes)

    def _read(self, plan: Prepared) -> list[int]:
        """The cursors of a plan's inputs."""
        found = []
        for leaf in plan.leaves:
            cursor = self.leaves.get(leaf)
            if cursor is None:  # of the program, computed already
                cursor = self.leaves[leaf] = self._cursor(leaf.data.ptr)
                self.held.append(leaf.data)
            found.append(cursor)
        for buffer in plan.fixed:
            found.append(self._cursor(buffer.ptr))
        return found

    def _launched(self, prepared: Prepared, chosen: list[int]) -> bool:
        """Runs all steps by one foreign call; False where the plan has to be run one by one."""
        plan = prepared.plan
        program, executable, sizes, table, heat, _ = plan.code
        places = program.results
        if plan.launcher is not None or plan.subject is not None or events.watching:
            return False
        if executable is None or min(places) < 0 or len(set(places)) < len(places):
            return False
        inputs = self._read(prepared)
        if table is not None:
            inputs.append(self._cursor(table.ptr))
        outputs = [0] * len(sizes)
        for place, cursor in zip(places, chosen):
            outputs[place] = cursor
        arena = Buffer(program.arena_bytes)
        begin = perf_counter()
        loops.run(
            executable, self.params.length, inputs, outputs, self.cursors, self.copies, arena.ptr
        )
        if heat is not None:
            heat.runs += self.params.length - 1
            heat.note(plan, perf_counter() - begin)
        return True

    def _copy(self, step: int) -> None:
        for target, source, nbytes in self.copies:
            ctypes.memmove(self.cursors[target].at(step), self.cursors[source].at(step), nbytes)

    def _each(self, plan: Prepared | None, step: _Step, chosen: list[int]) -> None:
        """Runs the steps one by one."""
        inputs = [] if plan is None else self._read(plan)
        sizes = [] if plan is None else self._sizes(plan)
        for number in range(self.params.length):
            if plan is not None:
                given = [
                    Buffer.foreign(self.cursors[cursor].at(number), size, self)
                    for cursor, size in zip(inputs, sizes)
                ]
                found = plan.plan.run(given)
                for root, buffer, cursor in zip(step.roots, found, chosen):
                    ctypes.memmove(self.cursors[cursor].at(number), buffer.ptr, root.nbytes)
            self._copy(number)

    def _sizes(self, plan: Prepared) -> list[int]:
        return [*[leaf.nbytes for leaf in plan.leaves], *[buffer.nbytes for buffer in plan.fixed]]

    def _each_realized(self, step: _Step, planner: Planner) -> None:
        """Runs the steps one by one, each as a graph of its own."""
        cursors = [self.leaves.get(leaf) for leaf in self.body.leaves]
        for number in range(self.params.length):
            inputs = []
            for leaf, cursor in zip(self.body.leaves, cursors):
                assert cursor is not None
                data = Buffer(leaf.nbytes)
                data.copy_from(self.cursors[cursor].at(number), leaf.nbytes)
                inputs.append(ops.input_(leaf.shape, leaf.dtype, data))
            results = dict(zip(self.body.roots, self.body.over(inputs)))
            planner.realize([results[root] for root in step.roots])
            for root in step.roots:
                target = self.cursors[self.targets[root][0]].at(number)
                ctypes.memmove(target, results[root].data.ptr, root.nbytes)
            self._copy(number)


def note(call: Node) -> dict[str, object]:
    """What a plan's notes say about a kernel, about a loop."""
    params: LoopParams = call.params
    nodes = len([node for node in params.body.nodes if node.inputs])
    return {
        "name": "loop",
        "kind": "loop",
        "computes": [f"loop of {params.length} steps, {nodes} operations each"],
        "bytes_read": sum(item.nbytes for item in call.inputs),
        "bytes_written": call.nbytes,
        "flops": 0,
        "scratch": 0,
        "phases": params.length,
        "reasons": ["a step is compiled as a plan of its own, which is launched for each step"],
        "sources": [] if call.source is None else [source_text(call.source)],
    }
