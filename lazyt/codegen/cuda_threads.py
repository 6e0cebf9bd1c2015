"""Phases for one GPU thread per grid point, and what all CUDA phases share.

The body of a thread is what the CPU target prints for one grid point. This form serves phases
without loops, loops that must run in order, and short ones.
"""

from __future__ import annotations

import math

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_family import Expressions
from lazyt.codegen.c_loops import PhasePrinter
from lazyt.errors import InternalError
from lazyt.ir.index import Linear, Quotient, Remainder, linearize
from lazyt.ir.kernel import (
    Buffer,
    Guarded,
    Keep,
    Load,
    Phase,
    Position,
    Scan,
    Store,
    sub_expressions,
)

Trees = list[ct.Node]

#: Threads of a block when every thread has a point of its own.
THREADS = 256
#: Points from which a thread takes several, so that more loads are in flight.
MANY_POINTS = 1 << 20
#: How many it takes then.
POINTS_PER_THREAD = 4
#: Bytes of arrays that a thread may hold; the hardware's limit is 512 KiB.
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

    def __init__(self, phase: Phase, expressions: Expressions, most_blocks: int) -> None:
        super().__init__(phase, expressions, 0)
        self.vector = False
        self.integer = index_type(phase, expressions)
        self.points = math.prod(a.extent for a in phase.grid)
        straight = all(s.axis is None for s in phase.stages)
        self.repeat = POINTS_PER_THREAD if straight and self.points >= MANY_POINTS else 1
        self.most_blocks = most_blocks

    @property
    def tiles(self) -> int:
        """How many blocks' worth of work there is."""
        return -(-self.points // (self.threads * self.repeat))

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
        body = self._decompose("point_", self.phase.grid) + self._stages()
        inside = ct.branch(ct.binary("<", ct.name("point_"), ct.integer(self.points)), body)
        tile = ct.name("tile_")
        if self.repeat == 1:
            start = ct.binary("*", tile, ct.integer(self.threads))
            point = ct.binary("+", start, ct.call("lz_thread", ()))
            return [ct.declare(self.integer, "point_", point, const=True), inside]
        round_ = ct.binary("*", ct.name("u_"), ct.integer(self.threads))
        start = ct.binary("*", tile, ct.integer(self.threads * self.repeat))
        point = ct.binary("+", ct.binary("+", start, round_), ct.call("lz_thread", ()))
        turn = [ct.declare(self.integer, "point_", point, const=True), inside]
        loop = ct.loop("u_", ct.integer(0), ct.integer(self.repeat), turn, kind="int")
        return [ct.pragma("unroll"), loop]

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
