"""Phases on a GPU: one thread for each grid point, or a group of threads that share its loops.

The body of a thread is what the CPU target prints for one grid point. This form serves phases
without loops, loops that must run in order, and short ones. Long loops go to groups of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions, c_type, compute_type, is_positional
from lazyt.codegen.c.loops import PhasePrinter
from lazyt.errors import InternalError
from lazyt.ir.dtypes import DType, int64
from lazyt.ir.index import (
    Axis,
    Guarded,
    Linear,
    Load,
    Position,
    Quotient,
    Remainder,
    data_of,
    linearize,
    operands,
    sub_expressions,
)
from lazyt.ir.kernel import (
    BLOCK,
    LANES,
    Buffer,
    Keep,
    Phase,
    Reduce,
    Scan,
    Stage,
    Statement,
    Store,
    reduction_levels,
)
from lazyt.ir.scalar import Call, Expr

Trees = list[ct.Node]

#: Threads of a block when every thread has a point of its own.
THREADS = 256
#: Points up to which those that run in order are spread over multiprocessors, a warp on each: what
#: takes their time is waiting.
FEW_POINTS = 1 << 13
#: Points from which a thread takes several, so that more loads are in flight.
MANY_POINTS = 1 << 20
#: How many it takes then, a block apart, when they cannot be adjacent.
POINTS_PER_THREAD = 4
#: Bytes of the widest load and store.
VECTOR_BYTES = 16
#: Shared memory of a block that every GPU gives without being asked.
MOST_SHARED_BYTES = 48 << 10
#: Bytes of arrays that a thread may hold; the hardware's limit is 512 KiB. The driver takes them
#: for all threads that can run: ``cuda_bound`` refuses what a device has no memory for.
MOST_LOCAL_BYTES = 256 << 10


class ThreadPhase(PhasePrinter):
    """Writes a phase as the body of a kernel in which every thread has its own grid point.

    Attributes:
        threads: threads of a block.
        blocks: blocks of the launch; beyond ``most_blocks`` a block takes several tiles.
        shared_bytes: shared memory of a block.
        collective: whether threads wait for each other.
    """

    threads = THREADS
    shared_bytes = 0
    collective = False

    array = staticmethod(ct.declare_array)  # registers have no address

    def __init__(
        self,
        phase: Phase,
        expressions: Expressions,
        most_blocks: int,
        many_points: int = MANY_POINTS,
    ) -> None:
        super().__init__(phase, expressions, 0)
        self.vector = False
        self.integer = index_type(phase, expressions)
        self.points = math.prod(a.extent for a in phase.grid)
        straight = all(s.axis is None for s in phase.stages)
        many = straight and self.points >= many_points
        self.width = vector_width(phase, expressions) if many else 1
        self.repeat = POINTS_PER_THREAD if many and self.width == 1 else 1
        self.most_blocks = most_blocks
        if is_ordered(phase) and self.points <= FEW_POINTS:
            self.threads = LANES

    @property
    def tiles(self) -> int:
        """How many blocks' worth of work there is."""
        return -(-self.points // (self.threads * self.repeat * self.width))

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return min(self.tiles, self.most_blocks)

    @property
    def local_bytes(self) -> int:
        """Bytes of the arrays that a thread holds."""
        sizes = [
            (s.axis.extent if s.axis else 1) * k.value.dtype.compute.itemsize
            for s in self.phase.stages
            for k in s.body
            if isinstance(k, Keep)
        ]
        return sum(sizes)

    def statements(self) -> Trees:
        """What a block does for its ``tile_``.

        Raises InternalError when a thread would hold more than MOST_LOCAL_BYTES.
        """
        if self.local_bytes > MOST_LOCAL_BYTES:
            raise self._too_much()
        if self.width > 1:
            return self._vectors()
        body = self._decompose("point_", self.phase.grid) + self._stages()
        if self.repeat == 1:
            return self._point(ct.call("lz_thread", ()), self.points, body)
        turn = ct.binary("*", ct.name("u_"), ct.integer(self.threads))
        turns = self._point(ct.binary("+", turn, ct.call("lz_thread", ())), self.points, body)
        loop = ct.loop("u_", ct.integer(0), ct.integer(self.repeat), turns, kind="int")
        return [ct.pragma("unroll"), loop]

    def _point(self, offset: ct.Node, points: int, body: Trees) -> Trees:
        """``body`` for the point at an offset in the tile, if it exists."""
        start = ct.binary("*", ct.name("tile_"), ct.integer(self.threads * self.repeat))
        point = ct.binary("+", start, offset)
        inside = ct.binary("<", ct.name("point_"), ct.integer(points))
        declared = ct.declare(self.integer, "point_", point, const=True)
        return [declared, ct.branch(inside, body)]

    def _vectors(self) -> Trees:
        """Every thread takes ``width`` adjacent points of the last axis.

        What is contiguous along it comes in and goes out through arrays in registers, all loads
        before the points and all stores behind them, so that each is one access of 16 bytes.
        """
        *outer, last = self.phase.grid
        runs = Axis(f"{last.name}_run_", last.extent // self.width)
        out = self._decompose("point_", (*outer, runs))
        run: ct.Node = ct.name(runs.name) if runs.extent > 1 else ct.integer(0)
        first = ct.binary("*", run, ct.integer(self.width))
        self.e.values[last.name] = first
        before: Trees = []
        after: Trees = []
        loads, stores = adjacent(self.phase, self.e)
        for number, (buffer, flat) in enumerate(dict.fromkeys((*loads, *stores))):
            array = f"adjacent{number}_"
            place = ct.binary("+", ct.name(buffer), self.e.index(flat))
            kind = c_type(self.e.buffers[buffer].dtype)
            before.append(ct.declare_array(kind, array, [self.width]))
            if (buffer, flat) in loads:
                before.append(ct.call("lz_load_adjacent", [ct.name(array), place]))
            if (buffer, flat) in stores:
                after.append(ct.call("lz_store_adjacent", [place, ct.name(array)]))
            self.e.elements[buffer, flat] = ct.element(array, ct.name("u_"))
        del self.e.values[last.name]
        here = ct.binary("+", first, ct.name("u_"))
        body = [ct.declare(self.integer, last.name, here, const=True), *self._stages()]
        loop = ct.loop("u_", ct.integer(0), ct.integer(self.width), body, kind="int")
        self.e.elements.clear()
        body = [*out, *before, ct.pragma("unroll"), loop, *after]
        return self._point(ct.call("lz_thread", ()), self.points // self.width, body)

    def _simple(self, statement: Statement) -> Trees:
        """A Let or Store at the current point; what other points combine, too, in one piece."""
        if isinstance(statement, Store) and statement.combine and not self.e.steps_in_order:
            return self._combine(statement)
        return super()._simple(statement)

    def _combine(self, statement: Store) -> Trees:
        """An atomic update."""
        buffer = self.e.buffers[statement.buffer]
        place = self.e.index(linearize(statement.index, buffer.shape))
        pointer = ct.binary("+", ct.name(buffer.name), place)
        name = f"lz_atomic_{statement.combine}_{buffer.dtype.suffix}"
        node = ct.call(name, (pointer, self.e.value(statement.value)))
        test = self.e.condition(statement.guards)
        return [node] if test is None else [ct.branch(test, [node])]

    def _too_much(self) -> InternalError:
        what = f"a thread would keep {self.local_bytes} bytes, at most {MOST_LOCAL_BYTES}"
        return InternalError("codegen.cuda.threads", what, repr(self.phase))

    def _simd(self, loop: ct.Node) -> Trees:
        return [ct.pragma("unroll 8"), loop]


def over_tiles(body: Trees, tiles: int, most_blocks: int) -> Trees:
    """``body`` for every ``tile_`` that a block has to do."""
    if tiles <= most_blocks:
        return [ct.declare("lz_i64", "tile_", ct.call("lz_block", ()), const=True), *body]
    step = ct.assign(ct.name("tile_"), ct.call("lz_blocks", ()), "+=")
    test = ct.binary("<", ct.name("tile_"), ct.integer(tiles))
    start = ct.declare("lz_i64", "tile_", ct.call("lz_block", ()))
    return [start, ct.while_loop(test, [*body, step])]


def is_ordered(phase: Phase) -> bool:
    """Whether a loop of the phase must run step by step."""
    return any(s.sequential or any(isinstance(x, Scan) for x in s.body) for s in phase.stages)


# ------------------------------------------------------------------- indices


def vector_width(phase: Phase, expressions: Expressions) -> int:
    """Adjacent points that a thread takes so that its loads and stores have 16 bytes; 1 for none.

    Every access must either not depend on the last axis or be contiguous and aligned along it. The
    smallest elements decide, but the largest take two accesses at most.
    """
    last = phase.grid[-1] if phase.grid else None
    if last is None or last.extent < 2:
        return 1
    sizes: set[int] = set()
    flats: list[Linear] = []
    for buffer, index in _accesses(phase):
        flat = linearize(index, expressions.buffers[buffer].shape)
        factor = flat.coefficient(last)
        if factor == 1:
            flats.append(flat - Linear(((last, 1),), 0))
            sizes.add(expressions.buffers[buffer].dtype.itemsize)
        elif factor != 0:
            return 1
    if not sizes:
        return 1
    width = min(VECTOR_BYTES // min(sizes), 2 * VECTOR_BYTES // max(sizes))
    while width > 1 and (last.extent % width or any(_odd(f, width) for f in flats)):
        width //= 2
    return width


def adjacent(
    phase: Phase, expressions: Expressions
) -> tuple[list[tuple[str, Linear]], list[tuple[str, Linear]]]:
    """The loads and stores of a phase without loops that can be made for several points at once.

    Each is a buffer and a position that is contiguous along the last axis.

    A load that a condition or other data decides about is not among them; a store has to be its
    buffer's only one, and unconditional. Loads of a buffer that the phase stores to have to be, all
    of them, of the element that is stored.
    """
    last = phase.grid[-1]
    statements = [x for s in phase.stages for x in s.body]
    stores = [x for x in statements if isinstance(x, Store)]
    targets = [x.buffer for x in stores]

    def flat_of(buffer: str, index: tuple[Linear, ...]) -> Linear:
        return linearize(index, expressions.buffers[buffer].shape)

    read: dict[str, set[Linear]] = {}
    for item in (i for x in statements for i in sub_expressions(x.value) if isinstance(i, Load)):
        read.setdefault(item.buffer, set()).add(flat_of(item.buffer, item.index))
    always = [i for x in statements for i in always_loaded(x.value)]
    steady = dict.fromkeys((i.buffer, flat_of(i.buffer, i.index)) for i in always)
    puts: list[tuple[str, Linear]] = []
    for store in stores:
        flat = flat_of(store.buffer, store.index)
        plain = not store.guards and store.combine is None and not data_of(flat)
        alone = targets.count(store.buffer) == 1
        if store.buffer in read:
            alone = alone and read[store.buffer] == {flat} and (store.buffer, flat) in steady
        if plain and alone and flat.coefficient(last) == 1:
            puts.append((store.buffer, flat))
    loads = [
        (buffer, flat)
        for buffer, flat in steady
        if flat.coefficient(last) == 1 and not data_of(flat)
        and (buffer not in targets or (buffer, flat) in puts)
    ]  # fmt: skip
    return loads, puts


def always_loaded(expr: Expr) -> Iterator[Load]:
    """The loads of an expression that no condition stands before."""
    work = [expr]
    while work:
        item = work.pop()
        if isinstance(item, Load):
            yield item
        elif not isinstance(item, Guarded):
            work.extend(operands(item))


def _odd(flat: Linear, width: int) -> bool:
    """Whether an index may be no multiple of ``width``."""
    return flat.const % width != 0 or any(factor % width for _, factor in flat.terms)


def _accesses(phase: Phase) -> Iterator[tuple[str, tuple[Linear, ...]]]:
    """Buffers and indices of all loads and stores."""
    for statement in (x for s in phase.stages for x in s.body):
        for item in sub_expressions(statement.value):
            if isinstance(item, Load):
                yield item.buffer, item.index
        if isinstance(statement, Store):
            yield statement.buffer, statement.index


def index_type(phase: Phase, expressions: Expressions) -> str:
    """``int`` when all index arithmetic of the phase fits, else ``lz_i64``: it is much cheaper."""
    points = math.prod(a.extent for a in phase.grid)
    extents = [s.axis.extent for s in phase.stages if s.axis is not None]
    statements = [x for s in phase.stages for x in s.body]
    largest = max([points, *extents], default=0)
    for statement in statements:
        for item in sub_expressions(statement.value):
            largest = max(largest, _reach(item, expressions.buffers))
        if isinstance(statement, Store):
            shape = expressions.buffers[statement.buffer].shape
            largest = max(largest, _magnitude(linearize(statement.index, shape)))
            largest = max([largest, *(_magnitude(g.index) for g in statement.guards)])
    for stage in phase.stages:
        if stage.guard is not None:
            largest = max(largest, _magnitude(stage.guard.index), stage.guard.high)
    return "int" if largest < 1 << 30 else "lz_i64"


def _reach(item: object, buffers: dict[str, Buffer]) -> int:
    """The largest number in the index arithmetic of an expression, without its operands."""
    if isinstance(item, Load):
        return _magnitude(linearize(item.index, buffers[item.buffer].shape))
    if isinstance(item, Position):
        return _magnitude(item.index)
    if isinstance(item, Guarded):
        return max((_magnitude(g.index) for g in item.guards), default=0)
    return 0


def _magnitude(value: Linear) -> int:
    """A bound of every partial sum of an index."""
    total = abs(value.const)
    inner = 0
    for atom, factor in value.terms:
        low, high = atom.bounds
        total += abs(factor) * max(abs(low), abs(high), 1)
        if isinstance(atom, Quotient | Remainder):
            inner = max(inner, _magnitude(atom.value), atom.divisor)
    return max(total, inner)


# Phases for a group of GPU threads per grid point: the steps of its loops go to the threads.
#
# A group has 32 lanes. Step k of a block of BLOCK steps belongs to lane ``k % 32``, which is what
# ``reduction_levels`` says about sums, so a lane folds its own steps in order and the lanes are
# folded by halves: every sum has the bits that the CPU target gives it.
#
# ``rows``: the lanes are a warp's threads, and adjacent threads take adjacent steps. A long loop
# has several warps, which take blocks in turn. ``columns``: a block of threads has 32 grid points
# side by side and every warp is one lane of all of them, so adjacent threads take adjacent grid
# points.


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


# Reductions of a group of GPU threads, in the order that ``reduction_levels`` fixes.


#: Elements of a row in the square through which columns exchange lanes: odd, so that no two
#: threads of a warp meet in a bank of shared memory.
_PITCH = LANES + 1
_SQUARE = LANES * _PITCH
#: Endings of the names of shared arrays: warps' results or lanes, and the results of columns.
_ARRAYS = ("_shared", "_line")


class GroupPhase(GroupSteps):
    """Writes a phase as the body of a kernel in which 32 or more threads share a grid point."""

    def _reduction(self, stage: Stage, axis: Axis) -> Trees:
        before = self._before(stage.body)
        out: Trees = [self._keep(s, axis) for s in stage.body if isinstance(s, Keep)]
        reduces = [s for s in stage.body if isinstance(s, Reduce)]
        out += [ct.declare(compute_type(r.dtype), r.name) for r in reduces]
        top = len(reduction_levels(axis.extent)) - 1
        body = self._share(reduces, axis) + self._fold(stage, axis, top, ct.integer(0))
        for r in reduces:
            body.append(ct.assign(ct.name(r.name), _states(r, top)[-1][0]))
            self.e.values[r.name] = ct.name(r.name)
        return [*out, *before, ct.block(body)]

    def _cell(self, name: str, *indices: ct.Node) -> ct.Node:
        """A thread is one lane: what the CPU target holds per lane is a variable here."""
        return ct.name(name)

    def shared_size(self) -> int:
        """Bytes of shared memory in which warps exchange the results of the phase's stages."""
        return self._most_exchanged(self._cells) + self._most_exchanged(self._lines)

    def _most_exchanged(self, cells: Callable[[Axis], int]) -> int:
        """Bytes of the largest stage, given the elements of each value that it carries."""
        most = 0
        for stage in self.phase.stages:
            if stage.axis is not None:
                reduces = [s for s in stage.body if isinstance(s, Reduce)]
                states = [dtype for r in reduces for _, dtype in _states(r, 0)]
                most = max(most, sum(_aligned(cells(stage.axis), dtype) for dtype in states))
        return most

    def _cells(self, axis: Axis) -> int:
        """Elements of shared memory for each value that a reduction carries."""
        if self.columns:
            return _SQUARE
        levels = reduction_levels(axis.extent)
        return min(BLOCK, levels[1]) if len(levels) > 1 else 0

    def _lines(self, axis: Axis) -> int:
        """Elements for the results of columns.

        They lie behind the squares of all stages. So a square may be written while a thread that
        is late still reads results, which saves a barrier.
        """
        return LANES if self.columns else 0

    def _share(self, reduces: Sequence[Reduce], axis: Axis) -> Trees:
        """Declares the shared arrays of a stage's reductions."""
        out: Trees = []
        starts = 0, self._most_exchanged(self._cells)
        for cells, ending, offset in zip((self._cells, self._lines), _ARRAYS, starts, strict=True):
            count = cells(axis)
            for state, dtype in [pair for r in reduces for pair in _states(r, 0) if count]:
                kind = dtype.compute.suffix
                place = [ct.integer(offset), ct.integer(count)]
                taken = ct.call(f"lz_take_shared_{kind}", place)
                out.append(ct.declare(f"lz_shared_{kind}", _shared(state, ending), taken))
                offset += _aligned(count, dtype)
        return out

    # ----------------------------------------------------------------- folds

    def _fold(self, stage: Stage, axis: Axis, level: int, base: ct.Node) -> Trees:
        """Leaves the fold of block ``base`` of ``level`` in every thread of the group."""
        reduces = [s for s in stage.body if isinstance(s, Reduce)]
        extent = reduction_levels(axis.extent)[level]
        start = [tree for r in reduces for tree in self._start(r, level)]
        if level == 0:
            return start + self._steps(stage, axis) + self._fold_lanes(reduces, level)
        if level == 1 and not self.columns:
            return self._spread(stage, axis, base, start)
        if level == 1:

            def wrap(steps: Trees) -> Trees:
                first = [tree for r in reduces for tree in self._start(r, 0)]
                block = ct.name("block_")
                last = self._fold_lanes(reduces, 0) + self._take_result(reduces, 1, block)
                return first + steps + last

            return start + self._rounds(stage, axis, base, wrap) + self._fold_lanes(reduces, 1)
        block = f"q{level}_"
        body = self._fold(stage, axis, level - 1, ct.name(block))
        body += self._take_result(reduces, level, ct.name(block))
        low = ct.binary("*", base, ct.integer(BLOCK))
        high = ct.minimum(ct.integer(extent), ct.binary("+", low, ct.integer(BLOCK)))
        return [*start, ct.loop(block, low, high, body), *self._fold_lanes(reduces, level)]

    def _spread(self, stage: Stage, axis: Axis, base: ct.Node, start: Trees) -> Trees:
        """Level 1 of a row: the warps fold its blocks, then each folds their results."""
        reduces = [s for s in stage.body if isinstance(s, Reduce)]
        blocks = reduction_levels(axis.extent)[1]
        first = ct.binary("*", base, ct.integer(BLOCK))
        count: ct.Node = ct.integer(blocks)
        place: ct.Node = ct.name("block_")
        if blocks > BLOCK:
            count = ct.minimum(ct.binary("-", count, first), ct.integer(BLOCK))
            place = ct.binary("-", place, first)

        def wrap(steps: Trees) -> Trees:
            mine = ct.binary("==", ct.name("lane_"), ct.integer(0))
            exists = ct.binary("<", ct.name("block_"), ct.integer(blocks))
            put = [
                ct.assign(ct.element(_shared(state), place), state)
                for r in reduces
                for state, _ in _states(r, 0)
            ]
            begin = [tree for r in reduces for tree in self._start(r, 0)]
            end = self._fold_lanes(reduces, 0, everywhere=False)
            return [*begin, *steps, *end, ct.branch(ct.binary("&&", mine, exists), put)]

        body: Trees = []
        for r in reduces:
            for state, dtype in _states(r, 0):
                cell = ct.element(_shared(state), ct.name("part_"))
                body.append(ct.declare(compute_type(dtype), state.name, cell, const=True))
            body += self._join(r, 1, [state for state, _ in _states(r, 0)])
        parts = ct.loop("part_", ct.name("lane_"), count, body, step=LANES, kind="int")
        rounds = self._rounds(stage, axis, base, wrap)
        fold = [*start, parts, *self._fold_lanes(reduces, 1)]
        if blocks > BLOCK or self.tiles > self.most_blocks:  # this is in a loop
            return [*rounds, self._sync(), *fold, self._sync()]
        before = [self._sync()] if self.busy else []
        out = [*before, *rounds, self._sync(), *fold]
        self.busy = True
        return out

    def _start(self, r: Reduce, level: int) -> Trees:
        """Accumulators with neutral elements."""
        (value, dtype), *position = _states(r, level)
        out = [ct.declare(compute_type(dtype), value.name, self.e.identity(r.kind, dtype))]
        return out + [ct.declare("lz_i64", name.name, ct.integer(-1)) for name, _ in position]

    def _join(self, r: Reduce, level: int, other: Sequence[ct.Node]) -> Trees:
        """Folds another lane's accumulators into this lane's."""
        states = [state for state, _ in _states(r, level)]
        if is_positional(r):
            return self.e.extreme(r, states[0], states[1], other[0], other[1], ties=True)
        return [ct.assign(states[0], self.e.fold(r.kind, states[0], other[0], r.dtype))]

    def _take_result(self, reduces: Sequence[Reduce], level: int, block: ct.Node) -> Trees:
        """The result of a block of the level below goes to its lane."""
        pick = ct.binary("%", block, ct.integer(LANES))
        below = [self._join(r, level, [s for s, _ in _states(r, level - 1)]) for r in reduces]
        trees = [tree for trees in below for tree in trees]
        return [ct.branch(ct.binary("==", pick, ct.name("lane_")), trees)]

    # --------------------------------------------------------------- halving

    def _fold_lanes(self, reduces: Sequence[Reduce], level: int, everywhere: bool = True) -> Trees:
        """Folds the lanes by halves; the result is in every thread, or in lane 0 only."""
        if self.columns:
            return self._fold_columns(reduces, level)
        out = [self._shuffle(r, level) for r in reduces]
        if everywhere:
            for r in reduces:
                for state, dtype in _states(r, level):
                    first = ct.call(f"lz_shuffle_first_{dtype.compute.suffix}", [state])
                    out.append(ct.assign(state, first))
        return out

    def _shuffle(self, r: Reduce, level: int) -> ct.Node:
        """Thread l of a warp takes l + 16, then + 8, 4, 2, 1; thread 0 has the fold."""
        body: Trees = []
        others: Trees = []
        for state, dtype in _states(r, level):
            function = f"lz_shuffle_down_{dtype.compute.suffix}"
            other = f"{state.name}_down"
            others.append(ct.name(other))
            value = ct.call(function, [state, ct.name("h_")])
            body.append(ct.declare(compute_type(dtype), other, value, const=True))
        return ct.halving_loop("h_", LANES // 2, body + self._join(r, level, others))

    def _fold_columns(self, reduces: Sequence[Reduce], level: int) -> Trees:
        """The lanes of a point are in different warps: a square in shared memory turns them."""
        states = [pair[0] for r in reduces for pair in _states(r, level)]
        lane, place = ct.name("lane_"), ct.name("place_")

        def square(state: ct.Node, row: ct.Node, column: ct.Node) -> ct.Node:
            at = ct.binary("+", ct.binary("*", row, ct.integer(_PITCH)), column)
            return ct.element(_shared(state), at)

        def line(state: ct.Node, at: ct.Node) -> ct.Node:
            return ct.element(_shared(state, "_line"), at)

        out: Trees = [ct.assign(square(s, lane, place), s) for s in states]
        out.append(self._sync())
        out += [ct.assign(s, square(s, place, lane)) for s in states]
        out += [self._shuffle(r, level) for r in reduces]
        first = ct.binary("==", place, ct.integer(0))
        out.append(ct.branch(first, [ct.assign(line(s, lane), s) for s in states]))
        out.append(self._sync())
        return [*out, *(ct.assign(s, line(s, place)) for s in states)]


def _states(r: Reduce, level: int) -> list[tuple[ct.Node, DType]]:
    """What a reduction carries, the result last: its value, and where it was found."""
    if is_positional(r):
        value = ct.name(f"{r.name}_a{level}"), r.value.dtype
        return [value, (ct.name(f"{r.name}_i{level}"), int64)]
    return [(ct.name(f"{r.name}_a{level}"), r.dtype)]


def _shared(state: ct.Node, ending: str = _ARRAYS[0]) -> str:
    """The shared array of a reduction's value or position, whatever its level."""
    return str(state.name).rstrip("0123456789") + ending


def _aligned(count: int, dtype: DType) -> int:
    """Bytes of a shared array, so that the next one starts at a multiple of 16."""
    return -(-count * dtype.compute.itemsize // 16) * 16
