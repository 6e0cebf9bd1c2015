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
from lazyt.ops.control.branches import BRANCH, BranchParams
from lazyt.ops.control.branches import layout as branch_layout
from lazyt.ops.control.building import LoopParams, layout
from lazyt.ops.control.conditions import WHILE, WhileParams
from lazyt.ops.control.conditions import layout as while_layout
from lazyt.ops.control.loops import LOOP
from lazyt.plan.graph_keys import on_forget
from lazyt.runtime import events
from lazyt.runtime.cpu import loops
from lazyt.runtime.cpu.loops import Copy, Cursor, Launch
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
    """Runs calls of graphs whose operands are there; those that differ in the dtype of their
    results only run as one. Returns the results that were given their values."""
    groups: dict[object, list[Node]] = {}
    for call in calls:
        key = call.op, call.params._replace(dtype=None), call.inputs
        groups.setdefault(key, []).append(call)
    found: list[Node] = []
    for group in groups.values():
        found += _run(group, planner)
    return found


def _run(calls: Sequence[Node], planner: Planner) -> list[Node]:
    if config.interpret:
        from lazyt.plan.fallback.interpreter import values_of

        for call in calls:
            (value,) = values_of([call])
            call.data = Buffer(call.nbytes)
            call.data.as_numpy(call.dtype, call.shape)[...] = value
        return []
    first = calls[0]
    rows = {call.dtype: Buffer(call.nbytes) for call in calls}
    begin = perf_counter()
    if first.op is WHILE:
        _run_while(first, rows, planner)
    elif first.op is BRANCH:
        _run_branch(first, rows, planner)
    else:
        with_rest(first.params, rows)
        _Run(first.params, first.inputs, rows).go(planner)
    if events.watching:
        for timings in events.watching:
            timings.append(events.Timing(note(first), begin, perf_counter()))
    results: list[Node] = []
    for call in calls:
        call.data = rows[call.dtype]
        results += _parts(call)
    return results


def with_rest(params: LoopParams, rows: dict[DType, Buffer]) -> None:
    """Memory for results that nobody wants, which a plan writes all the same."""
    for dtype in {root.dtype for root in params.body.roots} - set(rows):
        size = layout(params._replace(dtype=dtype)).size
        rows[dtype] = Buffer(size * dtype.itemsize)


def _run_branch(call: Node, rows: dict[DType, Buffer], planner: Planner) -> None:
    """The branch that is chosen is a loop of one step, without a carry."""
    chosen, *operands = call.inputs
    params: BranchParams = call.params
    body = params.then if _is_true(chosen.data.ptr) else params.other
    once = LoopParams(body, len(operands), 0, 1, False, (), params.dtype)
    with_rest(once, rows)
    _Run(once, operands, rows).go(planner)


def _is_true(address: int) -> bool:
    return ctypes.c_ubyte.from_address(address).value != 0


def _run_while(call: Node, rows: dict[DType, Buffer], planner: Planner) -> None:
    """Steps of a loop without slices, until its test is false."""
    params: WhileParams = call.params
    constants, carries = params.constants, len(params.body.roots)
    steps = LoopParams(
        params.body, constants, carries, _ENDLESS, False, (0,) * carries, params.dtype
    )
    with_rest(steps, rows)
    _Run(steps, call.inputs, rows, params.test).go(planner)


#: More steps than any loop has.
_ENDLESS = 1 << 62


def _parts(call: Node) -> list[Node]:
    """The results that a call's row has, as the memory that they are; last states, which programs
    hold on to longest, as a copy."""
    buffer, size = call.data, call.dtype.itemsize
    nodes = []
    for part, copied in _layout_of(call):
        node = taken(call, part)
        if node is not call and node.data is None:
            start = buffer.ptr + part.start * size
            if copied:
                node.data = Buffer(part.size * size)
                node.data.copy_from(start, part.size * size)
            else:
                node.data = Buffer.foreign(start, part.size * size, buffer)
            nodes.append(node)
    return nodes


def _layout_of(call: Node) -> list[tuple[Part, bool]]:
    """The parts of a call's row, and whether each has its own memory."""
    if call.op is not LOOP:
        lay_out = while_layout if call.op is WHILE else branch_layout
        return [(part, True) for part in lay_out(call.params)[0] if part is not None]
    params: LoopParams = call.params
    found = layout(params)
    parts: list[tuple[Part, bool]] = [(part, False) for part in found.slices if part is not None]
    for number in range(params.carries):
        last, before = found.last(number, params), found.before(number, params)
        parts += [(last, True)] if last is not None else []
        parts += [(before, False)] if before is not None else []
    return parts


class _Run:
    """One run of a loop: where each value is in each step.

    Args:
        params: the loop.
        operands: its operands.
        rows: the memory of its results.
        test: what says whether there is another step, over constants and carries.
    """

    def __init__(
        self,
        params: LoopParams,
        operands: Sequence[Node],
        rows: dict[DType, Buffer],
        test: Body | None = None,
    ) -> None:
        self.params = params
        self.body = self.params.body
        self.test = test
        self.cursors: list[Cursor] = []
        self.copies: list[Copy] = []
        self.held: list[Buffer] = [item.data for item in operands]
        self.ends: list[Copy] = []  # to an address, from what a cursor says behind the last step
        self.leaves: dict[Node, int] = {}  # the cursors of what a step reads
        self.targets: dict[Node, list[int]] = {}  # and of where its results go, the first at once
        first = params.constants + params.carries
        for leaf, item in zip(self.body.leaves[: params.constants], operands):
            self.leaves[leaf] = self._cursor(item.data.ptr)
        for leaf, item in zip(self.body.leaves[first:], operands[first:]):
            self.leaves[leaf] = self._sliced(item.data.ptr, leaf.nbytes)
        late: list[tuple[Node, int]] = []
        for number, root in enumerate(self.body.roots[: params.carries]):
            self._carry(number, root, operands[params.constants + number], rows, late)
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
        self.ends.append(Copy(start, self.leaves[leaf], nbytes))

    def go(self, planner: Planner) -> None:
        """Runs all steps."""
        step = _step_of(self.body, planner)
        chosen = [self.targets[root][0] for root in step.roots]  # where the plan writes them
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
        done = self._launched(step, chosen, planner)
        if done < 0:
            done = self._each(step, chosen, planner)
        for target, source, nbytes in self.ends:
            ctypes.memmove(target, self.cursors[source].at(done), nbytes)

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

    def _launch(self, prepared: Prepared, chosen: Sequence[int]) -> Launch | None:
        """A plan as the driver takes it; None where it has to be run in another way."""
        plan = prepared.plan
        program, executable, sizes, table, _, _ = plan.code
        places = program.results
        if plan.launcher is not None or plan.subject is not None or events.watching:
            return None
        if executable is None or min(places) < 0 or len(set(places)) < len(places):
            return None
        inputs = self._read(prepared)
        if table is not None:
            self.held.append(table)
            inputs.append(self._cursor(table.ptr))
        outputs = [0] * len(sizes)
        for place, cursor in zip(places, chosen):
            outputs[place] = cursor
        arena = Buffer(program.arena_bytes)
        self.held.append(arena)
        return Launch(executable, [*inputs, *outputs], arena.ptr)

    def _launched(self, step: _Step, chosen: list[int], planner: Planner) -> int:
        """Runs all steps by few foreign calls; how many there were, or -1 where the plans have to
        be run one by one."""
        flag, test, body = -1, None, None
        testing = None
        if self.test is not None:
            testing = _step_of(self.test, planner)
            flag = self._flag(testing)
            if testing.alone:
                return -1
            if testing.plan is not None:
                test = self._launch(testing.plan, [flag])
                if test is None:
                    return -1
        if step.alone:
            return -1
        if step.plan is not None:
            body = self._launch(step.plan, chosen)
            if body is None:
                return -1
        begin = perf_counter()
        done = loops.run(body, self.params.length, self.cursors, self.copies, test, flag)
        passed = perf_counter() - begin
        for item in (step, testing):
            if item is not None and item.plan is not None:
                heat = item.plan.plan.code.heat
                if heat is not None:
                    heat.runs += max(done, 1) - 1
                    heat.note(item.plan.plan, passed)
        return done

    def _flag(self, testing: _Step) -> int:
        """The cursor of what the test gives."""
        assert self.test is not None
        for leaf, own in zip(self.test.leaves, self.body.leaves):
            self.leaves[leaf] = self.leaves[own]
        (root,) = self.test.roots
        if root in self.leaves:
            return self.leaves[root]
        data = root.data if not testing.roots else Buffer(root.nbytes)
        self.held.append(data)
        return self._cursor(data.ptr)

    def _each(self, step: _Step, chosen: list[int], planner: Planner) -> int:
        """Runs the steps one by one; how many there were."""
        testing, flag = None, -1
        if self.test is not None:
            testing = _step_of(self.test, planner)
            flag = self._flag(testing)
        for number in range(self.params.length):
            if testing is not None and self.test is not None:
                self._compute(self.test, testing, [flag], number, planner)
                if not _is_true(self.cursors[flag].at(number)):
                    return number
            self._compute(self.body, step, chosen, number, planner)
            for target, source, nbytes in self.copies:
                ctypes.memmove(
                    self.cursors[target].at(number), self.cursors[source].at(number), nbytes
                )
        return self.params.length

    def _compute(
        self, body: Body, step: _Step, chosen: Sequence[int], number: int, planner: Planner
    ) -> None:
        """The results of a body in one step, where they belong."""
        if step.plan is not None:
            plan = step.plan
            sizes = [*[leaf.nbytes for leaf in plan.leaves], *[b.nbytes for b in plan.fixed]]
            given = [
                Buffer.foreign(self.cursors[cursor].at(number), size, self)
                for cursor, size in zip(self._read(plan), sizes)
            ]
            found = plan.plan.run(given)
        elif step.alone:
            found = self._realized(body, step, number, planner)
        else:
            return
        for root, buffer, cursor in zip(step.roots, found, chosen):
            ctypes.memmove(self.cursors[cursor].at(number), buffer.ptr, root.nbytes)

    def _realized(self, body: Body, step: _Step, number: int, planner: Planner) -> list[Buffer]:
        """The same by a separate graph."""
        inputs = []
        for leaf in body.leaves:
            data = Buffer(leaf.nbytes)
            data.copy_from(self.cursors[self.leaves[leaf]].at(number), leaf.nbytes)
            inputs.append(ops.input_(leaf.shape, leaf.dtype, data))
        results = dict(zip(body.roots, body.over(inputs)))
        planner.realize([results[root] for root in step.roots])
        return [results[root].data for root in step.roots]


def note(call: Node) -> dict[str, object]:
    """What a plan's notes say about a kernel, about a call of a graph."""
    name, reason, phases = call.op.name, "a step is compiled as a separate plan", 1
    if call.op is BRANCH:
        bodies = [call.params.then, call.params.other]
        reason = "each branch is compiled as a separate plan: one runs"
    elif call.op is WHILE:
        bodies = [call.params.test, call.params.body]
    else:
        bodies, phases = [call.params.body], call.params.length
    counts = [str(len([node for node in body.nodes if node.inputs])) for body in bodies]
    steps = f", {phases} steps" if call.op is LOOP else ""
    return {
        "name": name,
        "kind": name,
        "computes": [f"{name} of {' and '.join(counts)} operations{steps}"],
        "bytes_read": sum(item.nbytes for item in call.inputs),
        "bytes_written": call.nbytes,
        "flops": 0,
        "scratch": 0,
        "phases": phases,
        "reasons": [reason],
        "sources": [] if call.source is None else [source_text(call.source)],
    }
