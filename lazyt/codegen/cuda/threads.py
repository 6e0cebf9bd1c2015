"""Phases for one GPU thread per grid point, and what all CUDA phases share.

The body of a thread is what the CPU target prints for one grid point. This form serves phases
without loops, loops that must run in order, and short ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions, c_type
from lazyt.codegen.c.loops import PhasePrinter
from lazyt.errors import InternalError
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
from lazyt.ir.kernel import Buffer, Keep, Phase, Scan, Store
from lazyt.ir.scalar import Expr

Trees = list[ct.Node]

#: Threads of a block when every thread has a point of its own.
THREADS = 256
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

    def __init__(self, phase: Phase, expressions: Expressions, most_blocks: int) -> None:
        super().__init__(phase, expressions, 0)
        self.vector = False
        self.integer = index_type(phase, expressions)
        self.points = math.prod(a.extent for a in phase.grid)
        straight = all(s.axis is None for s in phase.stages)
        many = straight and self.points >= MANY_POINTS
        self.width = vector_width(phase, expressions) if many else 1
        self.repeat = POINTS_PER_THREAD if many and self.width == 1 else 1
        self.most_blocks = most_blocks

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

    def _too_much(self) -> InternalError:
        what = f"a thread would keep {self.local_bytes} bytes, at most {MOST_LOCAL_BYTES}"
        return InternalError("codegen.cuda_threads", what, repr(self.phase))

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
