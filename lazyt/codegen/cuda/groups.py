"""Phases for a group of GPU threads per grid point: the steps of its loops go to the threads.

A group has 32 lanes. Step k of a block of BLOCK steps belongs to lane ``k % 32``, which is what
``reduction_levels`` says about sums, so a lane folds its own steps in order and the lanes are
folded by halves: every sum has the bits that the CPU target gives it.

``rows``: the lanes are a warp's threads, and adjacent threads take adjacent steps. A long loop has
several warps, which take blocks in turn. ``columns``: a block of threads has 32 grid points side by
side and every warp is one lane of all of them, so adjacent threads take adjacent grid points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions, compute_type
from lazyt.codegen.cuda.threads import MOST_LOCAL_BYTES, ThreadPhase
from lazyt.ir.index import Axis, Load, sub_expressions
from lazyt.ir.kernel import BLOCK, LANES, Keep, Phase, Reduce, Stage, Statement, Store
from lazyt.ir.scalar import Call

Trees = list[ct.Node]

#: Warps of the largest group; more would leave a thread fewer than 128 registers.
MOST_WARPS = 16
#: Points that share a block when each has one warp.
POINTS_PER_BLOCK = 4
#: Loops over kept values are unrolled, so that registers can hold the values, up to this many
#: calls of functions: more would take NVRTC seconds.
MOST_WRITTEN_OUT = 512
#: Bytes that a thread loads before it waits for the first of them: with a full multiprocessor, two
#: or three times what covers the time that memory takes. Steps that are written out for that.
IN_FLIGHT = 64
FEW_STEPS, MOST_STEPS = 4, 16
#: The most for single bytes: with 16 of them ptxas spills what it knows of their conditions.
MOST_BYTE_STEPS = 8


class GroupSteps(ThreadPhase):
    """Writes a phase's stages, without reductions, for 32 or more threads per grid point."""

    collective = True

    def __init__(
        self, phase: Phase, expressions: Expressions, most_blocks: int, columns: bool
    ) -> None:
        super().__init__(phase, expressions, most_blocks)
        self.columns = columns
        steps = max((s.axis.extent for s in phase.stages if s.axis is not None), default=1)
        wanted = 1 << (-(-steps // BLOCK) - 1).bit_length() if steps > BLOCK else 1
        self.warps = 1 if columns or _writes_over(phase) else min(wanted, MOST_WARPS)
        self.repeat = self.width = 1
        if columns:
            self.together, self.threads = LANES, LANES * LANES
        else:
            self.together = POINTS_PER_BLOCK if wanted == 1 else 1  # shared arrays are for one
            self.threads = LANES * self.warps * self.together
        keeping = (s.axis for s in phase.stages if any(isinstance(x, Keep) for x in s.body))
        self.kept = next(keeping, None)
        self.in_registers = self._written_out() <= MOST_WRITTEN_OUT
        self.shared_bytes = self.shared_size()
        self.repeated = False  # whether all warps do the same steps
        self.busy = False  # whether threads may still read what was shared
        self.loaded: set[str] = set()
        self.stored: set[str] = set()
        self.stored_by_one: set[str] = set()  # of these, what a single thread stored to

    @property
    def tiles(self) -> int:
        """How many blocks' worth of work there is."""
        return -(-self.points // self.together)

    def shared_size(self) -> int:
        """Bytes of shared memory that a block needs."""
        return 0

    # ----------------------------------------------------------------- grid

    def statements(self) -> Trees:
        """What a block does for its ``tile_``."""
        if self.local_bytes > MOST_LOCAL_BYTES:
            raise self._too_much()
        thread, lanes = ct.call("lz_thread", ()), ct.integer(LANES)
        part, rest = ct.binary("%", thread, lanes), ct.binary("/", thread, lanes)
        lane, other = (rest, part) if self.columns else (part, rest)
        out: Trees = [ct.declare("int", "lane_", lane, const=True)]
        if self.warps > 1:
            out.append(ct.declare("int", "warp_", other, const=True))
        body = self._decompose("point_", self.phase.grid) + self._stages()
        point: ct.Node = ct.name("tile_")
        if self.together > 1:
            out.append(ct.declare("int", "place_", other, const=True))
            point = ct.binary("*", point, ct.integer(self.together))
            point = ct.binary("+", point, ct.name("place_"))
        inside = ct.binary("<", ct.name("point_"), ct.integer(self.points))
        if self.columns:
            # Threads past the end take part in the barriers of their block but store nothing.
            last = ct.integer(self.points - 1)
            declared = [
                ct.declare(self.integer, "wanted_", point, const=True),
                ct.declare(self.integer, "point_", ct.minimum(ct.name("wanted_"), last), True),
                ct.declare("int", "live_", ct.binary("==", ct.name("wanted_"), ct.name("point_"))),
            ]
            return [*out, *declared, *body]
        head = ct.declare(self.integer, "point_", point, const=True)
        if self.points % self.together:
            return [*out, head, ct.branch(inside, body)]
        return [*out, head, *body]

    # --------------------------------------------------------------- stages

    def _sync(self) -> ct.Node:
        self.loaded.clear()
        self.stored.clear()
        self.stored_by_one.clear()
        self.busy = False
        whole = self.columns or self.warps > 1
        return ct.call("lz_sync_block" if whole else "lz_sync_warp", ())

    def _before(self, statements: Iterable[Statement], by_one: bool = False) -> Trees:
        """A barrier if the statements touch memory that other threads of the group have used.

        ``by_one``: always the same thread makes the stores.
        """
        loads: set[str] = set()
        stores: set[str] = set()
        for statement in statements:
            items = sub_expressions(statement.value)
            loads.update(i.buffer for i in items if isinstance(i, Load))
            if isinstance(statement, Store):
                stores.add(statement.buffer)
        others = self.stored - self.stored_by_one if by_one else self.stored
        clash = (loads & self.stored) | (stores & (self.loaded | others))
        out = [self._sync()] if clash else []
        self.loaded |= loads
        self.stored |= stores
        single = self.stored_by_one
        self.stored_by_one = single | stores if by_one else single - stores
        return out

    def _straight(self, stage: Stage) -> Trees:
        """Values are computed by every thread of the group, stores are made by one."""
        out: Trees = []
        for statement in stage.body:
            out += self._before([statement], by_one=True)
            trees = ThreadPhase._simple(self, statement)
            if isinstance(statement, Store):
                alone: ct.Node = ct.binary("==", ct.name("lane_"), ct.integer(0))
                if self.warps > 1:
                    first = ct.binary("==", ct.name("warp_"), ct.integer(0))
                    alone = ct.binary("&&", alone, first)
                if self.columns:
                    alone = ct.binary("&&", alone, ct.name("live_"))
                trees = [ct.branch(alone, trees)]
            out += trees
        return out

    def _simple(self, statement: Statement) -> Trees:
        """A Let or Store of a loop's step."""
        trees = super()._simple(statement)
        if isinstance(statement, Store) and self.columns:
            return [ct.branch(ct.name("live_"), trees)]
        if isinstance(statement, Store) and self.repeated:
            return [ct.branch(ct.binary("==", ct.name("warp_"), ct.integer(0)), trees)]
        return trees

    def _plain(self, stage: Stage, axis: Axis) -> Trees:
        before = self._before(stage.body)
        kept = [self._keep(s, axis) for s in stage.body if isinstance(s, Keep)]
        if axis.extent <= BLOCK:
            return [*kept, *before, *self._steps(stage, axis)]
        return [*kept, *before, *self._every_round(stage, axis)]

    def _every_round(self, stage: Stage, axis: Axis) -> Trees:
        """The thread's share of all blocks of a loop."""
        supers = -(-axis.extent // BLOCK**2)
        rounds = self._rounds(stage, axis, ct.name("super_"), lambda steps: steps)
        if supers == 1:
            return rounds
        return [ct.loop("super_", ct.integer(0), ct.integer(supers), rounds)]

    # ---------------------------------------------------------------- steps

    def _slots(self, axis: Axis) -> int:
        """Steps of a loop that one thread takes."""
        if axis.extent <= BLOCK:
            return max(1, -(-axis.extent // LANES))
        blocks = -(-axis.extent // BLOCK)
        return -(-blocks // self.warps) * LANES

    @property
    def local_bytes(self) -> int:
        """Bytes of the arrays that a thread holds."""
        return sum(
            self._slots(s.axis) * k.value.dtype.compute.itemsize
            for s in self.phase.stages
            if s.axis is not None
            for k in s.body
            if isinstance(k, Keep)
        )

    def _keep(self, statement: Keep, axis: Axis) -> ct.Node:
        kind = compute_type(statement.value.dtype)
        return ct.declare_array(kind, statement.name, [self._slots(axis)])

    def _put(self, statement: Keep, axis: Axis) -> ct.Node:
        value = self.e.value(statement.value)
        cell = ct.element(statement.name, ct.name("slot_"))
        self.e.values[statement.name] = cell
        return ct.assign(cell, value)

    def _rounds(
        self, stage: Stage, axis: Axis, base: ct.Node, wrap: Callable[[Trees], Trees]
    ) -> Trees:
        """The thread's share of the BLOCK blocks that follow block ``base * BLOCK``.

        ``wrap`` surrounds the steps of each block, whose number in the loop is ``block_``.
        """
        blocks = -(-axis.extent // BLOCK)
        rounds = -(-blocks // self.warps)
        start: ct.Node = ct.integer(0)
        stop: ct.Node = ct.integer(rounds)
        if blocks > BLOCK:
            turns = ct.integer(BLOCK // self.warps)
            start = ct.binary("*", base, turns)
            stop = ct.minimum(stop, ct.binary("+", start, turns))
        number: ct.Node = ct.name("round_")
        if self.warps > 1:
            number = ct.binary("*", number, ct.integer(self.warps))
            number = ct.binary("+", number, ct.name("warp_"))
        body = [ct.declare(self.integer, "block_", number, const=True)]
        body += wrap(self._steps(stage, axis))
        loop = ct.loop("round_", start, stop, body, kind="int")
        kept = axis == self.kept and self.in_registers
        return [ct.pragma("unroll" if kept else "unroll 1"), loop]

    def _steps(self, stage: Stage, axis: Axis) -> Trees:
        """The thread's steps of one block: the only one, or ``block_`` of ``round_``."""
        single = axis.extent <= BLOCK
        self.repeated = single and self.warps > 1
        count = self._slots(axis) if single else LANES
        turned = ct.binary("*", ct.name("turn_"), ct.integer(LANES))
        first: ct.Node = ct.name("lane_")
        slot: ct.Node = ct.name("turn_")
        begin: Trees = []
        if not single:
            start = ct.binary("*", ct.name("block_"), ct.integer(BLOCK))
            start = ct.binary("+", start, first)
            begin = [ct.declare(self.integer, "first_", start, const=True)]
            first = ct.name("first_")
            done = ct.binary("*", ct.name("round_"), ct.integer(LANES))
            slot = ct.binary("+", done, slot)
        # The axis has no name of its own in indices when it has one step only.
        step_name = axis.name if axis.extent > 1 else "step_"
        body = [tree for s in stage.body for tree in self._at_step(s, axis)]
        whole = axis.extent % (LANES if single else BLOCK) == 0
        if not single and -(-axis.extent // BLOCK) % self.warps:
            whole = False
        if not whole or stage.guard is not None:
            # Of several blocks, turns are held against what is left: ptxas would keep all steps.
            limit, at = self.e.limit(stage, axis), ct.name(step_name)
            if not single:
                limit, at = ct.binary("-", limit, first), turned
            body = [ct.branch(ct.binary("<", at, limit), body)]
        step = ct.binary("+", turned, first)
        head = [
            ct.declare(self.integer, step_name, step, const=True),
            ct.declare("int", "slot_", slot, const=True),
        ]
        loop = ct.loop("turn_", ct.integer(0), ct.integer(count), [*head, *body], kind="int")
        return [*begin, *self._unroll(stage, axis, count), loop]

    def _at_step(self, statement: Statement, axis: Axis) -> Trees:
        if isinstance(statement, Reduce):
            return self._take(statement, axis)
        if isinstance(statement, Keep):
            return [self._put(statement, axis)]
        return self._simple(statement)

    def _unroll(self, stage: Stage, axis: Axis, count: int) -> Trees:
        """How far a loop is unrolled: fully where that lets registers hold its kept values, else
        so far that enough loads are in flight; less where steps are long."""
        if axis == self.kept and self.in_registers:
            return [ct.pragma("unroll")]
        items = [i for x in stage.body for i in sub_expressions(x.value)]
        size = sum(self.e.buffers[i.buffer].dtype.itemsize for i in items if isinstance(i, Load))
        calls = sum(isinstance(i, Call) and i.fn.symbol is None and i.fn.cost > 1 for i in items)
        wanted = IN_FLIGHT // max(size, 1) if calls == 0 else FEW_STEPS
        most = MOST_STEPS if size > 1 else MOST_BYTE_STEPS
        return [ct.pragma(f"unroll {min(count, max(FEW_STEPS, min(wanted, most)))}")]

    def _written_out(self) -> int:
        """Steps times function calls of the loops over kept values, when they are unrolled.

        Functions of a few instructions, such as casts, do not count.
        """
        stages = [s for s in self.phase.stages if s.axis is not None and s.axis == self.kept]
        items = [i for s in stages for x in s.body for i in sub_expressions(x.value)]
        calls = sum(isinstance(i, Call) and i.fn.symbol is None and i.fn.cost > 1 for i in items)
        return sum(self._slots(s.axis) for s in stages if s.axis is not None) * (1 + calls)


def _writes_over(phase: Phase) -> bool:
    """Whether a short loop writes over what it reads: several warps, which all take its steps,
    would read what one of them has written."""
    for stage in phase.stages:
        if stage.axis is not None and stage.axis.extent <= BLOCK:
            items = [i for x in stage.body for i in sub_expressions(x.value)]
            loaded = {i.buffer for i in items if isinstance(i, Load)}
            if any(isinstance(x, Store) and x.buffer in loaded for x in stage.body):
                return True
    return False
