"""ContractPhase for a GPU: tiles of both operands in shared memory, sums in registers.

Every sum is one fused multiply-add per step in increasing k, as on the CPU: tiles share out the
elements of the result, never the steps of a sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_contract import unit_axis
from lazyt.codegen.c_family import Expressions, compute_type
from lazyt.codegen.cuda_threads import index_type
from lazyt.codegen.stages import coordinates
from lazyt.ir.index import Axis
from lazyt.ir.kernel import ContractPhase, Let, Phase, Stage, Store
from lazyt.ir.scalar import Expr

Trees = list[ct.Node]

#: Steps of a sum that are in shared memory at a time.
DEPTH = 16
#: Elements between rows of a tile, beyond its width: spreads a column over the banks and keeps
#: rows aligned for loads of 16 bytes.
_PAD = 4
#: Output elements from which the tiles of 128 x 128 fill the device.
_LARGE = 128 * 128 * 128
#: Threads of a block below which a thread takes fewer rows, so that there are more of them.
_FEW_THREADS = 128
#: Loads of a thread that are in flight at a time; more of them cost registers.
_LOADS = 8


@dataclass(frozen=True)
class Tile:
    """How a block of threads shares a tile of the result.

    Attributes:
        down, across: threads along the rows and the columns of the tile.
        rows, columns: elements of each thread.
    """

    down: int
    across: int
    rows: int
    columns: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.down * self.across

    @property
    def height(self) -> int:
        """Rows of the tile."""
        return self.down * self.rows

    @property
    def width(self) -> int:
        """Columns of the tile."""
        return self.across * self.columns


def choose_tile(batch: int, m: int, n: int, itemsize: int) -> Tile:
    """The tile for a result of ``batch`` times ``m`` by ``n``: large where that fills the GPU."""
    if min(m, n) >= 128 and batch * m * n >= _LARGE and itemsize <= 4:
        return Tile(16, 16, 8, 8)
    columns, rows = min(4, _power(n)), min(4, _power(m))
    across = min(16, _power(-(-n // columns)))
    while rows > 1 and _power(-(-m // rows)) * across < _FEW_THREADS:
        rows //= 2
    down = min(256 // across, 64, _power(-(-m // rows)))
    if across * down < 32:
        down = 32 // across
    return Tile(down, across, rows, columns)


def _power(value: int) -> int:
    """The smallest power of two that is not below ``value``."""
    return 1 << max(value - 1, 0).bit_length()


class ContractPrinter:
    """Writes a contraction as the body of a kernel.

    Attributes:
        threads, shared_bytes, collective: as of ``ThreadPhase``.
    """

    collective = True

    def __init__(self, phase: ContractPhase, expressions: Expressions, most_blocks: int) -> None:
        self.phase = phase
        self.e = expressions
        self.most_blocks = most_blocks
        groups = (phase.batch, phase.rows, phase.columns, phase.inner)
        self.batch, self.m, self.n, self.k = (math.prod(a.extent for a in g) for g in groups)
        self.suffix = phase.accumulator.compute.suffix
        size = phase.accumulator.compute.itemsize
        self.tile = choose_tile(self.batch, self.m, self.n, size)
        self.threads = self.tile.threads
        self.pitches = (self.tile.height + _PAD, self.tile.width + _PAD)
        self.shared_bytes = sum(self.pitches) * DEPTH * size
        whole = (*phase.batch, *phase.rows, *phase.columns)
        operands = (Let("left_", phase.left), Let("right_", phase.right))
        steps = Stage(Axis("k_", self.k), (*operands, *phase.epilogue))
        self.integer = index_type(Phase(whole, (steps,), "grid"), expressions)
        self.down = -(-self.m // self.tile.height)
        self.across = -(-self.n // self.tile.width)

    @property
    def tiles(self) -> int:
        """Tiles of the result."""
        return self.batch * self.down * self.across

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return min(self.tiles, self.most_blocks)

    def statements(self) -> Trees:
        """What a block does for its ``tile_``."""
        t, kind = self.tile, f"lz_{self.suffix}"
        out: Trees = []
        offset = 0
        for name, pitch in zip(("left_", "right_"), self.pitches, strict=True):
            count = ct.integer(pitch * DEPTH)
            place = ct.call(f"lz_take_shared_{self.suffix}", [ct.integer(offset), count])
            out.append(ct.declare(f"lz_shared_{self.suffix}", name, place))
            offset += pitch * DEPTH * self.phase.accumulator.compute.itemsize
        thread = ct.call("lz_thread", ())
        where = [("down_", "/"), ("across_", "%")]
        out += [_const("int", n, ct.binary(op, thread, ct.integer(t.across))) for n, op in where]
        out += self._corner()
        out.append(ct.declare_array(kind, "sum_", [t.rows, t.columns]))
        zero = self.e.number(0, self.phase.accumulator.compute)
        out += self._each([ct.assign(_sum(), zero)])
        body = self._load("left_") + self._load("right_")
        sync = ct.call("lz_sync_block", ())
        body += [sync, *self._multiply()]
        if self.k > DEPTH or self.tiles > self.most_blocks:  # the tiles are filled again
            body.append(sync)
        out.append(ct.loop("k0_", ct.integer(0), ct.integer(self.k), body, DEPTH, self.integer))
        return [*out, *self._finish()]

    def _corner(self) -> Trees:
        """Where the tile starts."""
        t, tile = self.tile, ct.name("tile_")
        column = ct.binary("%", tile, ct.integer(self.across))
        row = ct.binary("/", tile, ct.integer(self.across))
        batch = ct.binary("/", row, ct.integer(self.down))
        row = ct.binary("%", row, ct.integer(self.down))
        corner = {
            "batch_": batch,
            "m0_": ct.binary("*", row, ct.integer(t.height)),
            "n0_": ct.binary("*", column, ct.integer(t.width)),
        }
        out = [_const(self.integer, name, value) for name, value in corner.items()]
        return out + coordinates(ct.name("batch_"), self.phase.batch, self.integer)

    # ----------------------------------------------------------------- tiles

    def _load(self, array: str) -> Trees:
        """Fills a tile of an operand, adjacent threads along its contiguous axis."""
        left = array == "left_"
        axes = self.phase.rows if left else self.phase.columns
        value = self.phase.left if left else self.phase.right
        extent, corner = (self.m, "m0_") if left else (self.n, "n0_")
        wide = self.tile.height if left else self.tile.width
        count, threads = wide * DEPTH, self.threads
        fast_inner = self._inner_is_unit(value, axes)
        flat = ct.binary("*", ct.name("i_"), ct.integer(threads))
        item = ct.name("item_")
        split = ct.integer(DEPTH if fast_inner else wide)
        fast, slow = ct.binary("%", item, split), ct.binary("/", item, split)
        depth, across = (fast, slow) if fast_inner else (slow, fast)
        cell = ct.binary("*", ct.name("depth_"), ct.integer(wide + _PAD))
        cell = ct.element(array, ct.binary("+", cell, ct.name("at_")))
        inside = ct.binary("<", ct.name("outer_"), ct.integer(extent))
        if self.k % DEPTH:
            short = ct.binary("<", ct.name("inner_"), ct.integer(self.k))
            inside = ct.binary("&&", inside, short)
        body: Trees = [
            _const("int", "item_", ct.binary("+", flat, ct.call("lz_thread", ()))),
            _const("int", "depth_", depth),
            _const("int", "at_", across),
            _const(self.integer, "outer_", ct.binary("+", ct.name(corner), ct.name("at_"))),
            _const(self.integer, "inner_", ct.binary("+", ct.name("k0_"), ct.name("depth_"))),
        ]
        place = coordinates(ct.name("outer_"), axes, self.integer)
        place += coordinates(ct.name("inner_"), self.phase.inner, self.integer)
        filled = [*place, ct.assign(cell, self.e.value(value))]
        body.append(ct.branch(inside, filled))
        if count % threads:
            exists = ct.binary("<", item, ct.integer(count))
            body = [*body[:3], ct.branch(exists, body[3:])]
        turns = -(-count // threads)
        loop = ct.loop("i_", ct.integer(0), ct.integer(turns), body, kind="int")
        return [ct.pragma(f"unroll {min(turns, _LOADS)}"), loop]

    def _inner_is_unit(self, value: Expr, axes: tuple[Axis, ...]) -> bool:
        """Whether the operand is contiguous along the summed axes."""
        return unit_axis(value, self.e, {"outer": axes, "inner": self.phase.inner}) == "inner"

    def _multiply(self) -> Trees:
        """Adds the products of a loaded tile to the sums, step by step."""
        t, kind = self.tile, f"lz_{self.suffix}"
        body: Trees = []
        for own, count, array, pitch, start, stride in (
            ("a_", t.rows, "left_", self.pitches[0], "down_", t.rows),
            ("b_", t.columns, "right_", self.pitches[1], "across_", t.columns),
        ):
            at = ct.binary("*", ct.name("d_"), ct.integer(pitch))
            at = ct.binary("+", at, ct.binary("*", ct.name(start), ct.integer(stride)))
            at = ct.binary("+", at, ct.name("i_"))
            get = ct.assign(ct.element(own, ct.name("i_")), ct.element(array, at))
            body.append(ct.declare_array(kind, own, [count]))
            body.append(ct.pragma("unroll"))
            body.append(ct.loop("i_", ct.integer(0), ct.integer(count), [get], kind="int"))
        factors = [ct.element("a_", ct.name("i_")), ct.element("b_", ct.name("j_")), _sum()]
        body += self._each([ct.assign(_sum(), ct.call(f"lz_madd_{self.suffix}", factors))])
        if self.k % DEPTH:
            # A product of two padding zeros is not nothing: it turns a sum of -0 into +0.
            step = ct.binary("+", ct.name("k0_"), ct.name("d_"))
            body = [ct.branch(ct.binary("<", step, ct.integer(self.k)), body)]
        return [
            ct.pragma("unroll"),
            ct.loop("d_", ct.integer(0), ct.integer(DEPTH), body, kind="int"),
        ]

    def _each(self, body: Trees) -> Trees:
        """``body`` for every element of the thread."""
        t = self.tile
        inner = ct.loop("j_", ct.integer(0), ct.integer(t.columns), body, kind="int")
        outer = [ct.pragma("unroll"), inner]
        loop = ct.loop("i_", ct.integer(0), ct.integer(t.rows), outer, kind="int")
        return [ct.pragma("unroll"), loop]

    # -------------------------------------------------------------- epilogue

    def _finish(self) -> Trees:
        """The epilogue of every finished sum that lies inside the result."""
        t, phase = self.tile, self.phase
        index: Trees = []
        for name, corner, own, count, at in (
            ("m_", "m0_", "down_", t.rows, "i_"),
            ("n_", "n0_", "across_", t.columns, "j_"),
        ):
            place = ct.binary("*", ct.name(own), ct.integer(count))
            place = ct.binary("+", ct.binary("+", ct.name(corner), place), ct.name(at))
            index.append(_const(self.integer, name, place))
        body = coordinates(ct.name("m_"), phase.rows, self.integer)
        body += coordinates(ct.name("n_"), phase.columns, self.integer)
        body.append(_const(compute_type(phase.accumulator), phase.name, _sum()))
        for statement in phase.epilogue:
            if isinstance(statement, Let):
                kind = compute_type(statement.value.dtype)
                body.append(_const(kind, statement.name, self.e.value(statement.value)))
            else:
                assert isinstance(statement, Store)
                body += self.e.store(statement)
        inside = ct.binary("<", ct.name("m_"), ct.integer(self.m))
        across = ct.binary("<", ct.name("n_"), ct.integer(self.n))
        inside = ct.binary("&&", inside, across)
        return self._each([*index, ct.branch(inside, body)])


def _sum() -> ct.Node:
    return ct.element("sum_", ct.name("i_"), ct.name("j_"))


def _const(kind: str, name: str, value: ct.Node) -> ct.Node:
    return ct.declare(kind, name, value, const=True)
