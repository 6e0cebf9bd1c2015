"""ContractPhase for a GPU: tiles of both operands in shared memory, sums in registers.

Several tiles are in shared memory at a time: the next ones come while one is multiplied. Every sum
is one fused multiply-add per step in increasing k, as on the CPU: tiles share out the elements of
the result, never the steps of a sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions, compute_type
from lazyt.codegen.cuda.threads import MOST_SHARED_BYTES, index_type
from lazyt.codegen.loops.stages import coordinates
from lazyt.codegen.matmul.axes import unit_axis
from lazyt.ir.dtypes import DType
from lazyt.ir.index import Axis, Load, axes_of, linearize
from lazyt.ir.kernel import ContractPhase, Let, Phase, Stage, Store
from lazyt.ir.scalar import Expr

# How tiles of a contraction's operands come into shared memory while others are multiplied.
#
# Elements that need no more than copying are copied asynchronously, without passing through
# registers. Everything else is loaded into registers before the multiplication of a tile and stored
# behind it, or, where that takes too many of them, loaded and stored at once.


Trees = list[ct.Node]

#: Elements between rows of a tile, beyond its width: spreads a column over the banks and keeps
#: rows aligned for loads of 16 bytes.
_PAD = 4
#: Bytes that the hardware copies at a time, the best first.
_COPIED_BYTES = (16, 8, 4)
#: Loads of a thread that are in flight at a time; more of them cost registers.
_LOADS = 8


@dataclass(frozen=True)
class Operand:
    """An operand of a contraction.

    Attributes:
        array: its array in shared memory.
        value: its elements.
        axes: its rows or columns, whose first one in a tile is ``corner``.
        inner: the summed axes.
        wide: rows or columns of a tile.
        compute: what it is multiplied in.
    """

    array: str
    value: Expr
    axes: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    corner: str
    wide: int
    compute: DType

    @property
    def pitch(self) -> int:
        """Elements from a step of a tile to the next."""
        return self.wide + _PAD

    def width(self, e: Expressions) -> int:
        """Elements that one asynchronous copy brings; 0 where they have to pass registers.

        Several are adjacent along the axes in memory as in the tile, aligned to their whole size,
        and either all of them exist or none.
        """
        value, size = self.value, self.compute.itemsize
        if not isinstance(value, Load) or e.buffers[value.buffer].dtype is not self.compute:
            return 0
        flat = linearize(value.index, e.buffers[value.buffer].shape)
        last = next((a for a in reversed(self.axes) if a.extent > 1), None)
        rest = [(atom, f) for atom, f in flat.terms if atom != last]
        unit = last is not None and flat.coefficient(last) == 1
        unit = unit and not any(last in axes_of(atom) for atom, _ in rest)
        counts = [last.extent if last else 1, flat.const, *(f for _, f in rest)]
        for nbytes in _COPIED_BYTES:
            width = nbytes // size
            if width == 1:
                return 1
            if width and unit and not any(c % width for c in (*counts, self.wide, self.pitch)):
                return width
        return 0


@dataclass(frozen=True)
class TileLoader:
    """Fills the tiles of an operand.

    Attributes:
        operand: the operand.
        e: prints its elements.
        threads: threads of a block.
        depth, stages: steps of a tile; tiles in shared memory.
        integer: the type of indices.
        rows, steps: rows or columns, and steps, that there are in all.
    """

    operand: Operand
    e: Expressions
    threads: int
    depth: int
    stages: int
    integer: str
    rows: int
    steps: int

    @cached_property
    def width(self) -> int:
        """Elements of an asynchronous copy; 0 for none."""
        return self.operand.width(self.e)

    @property
    def slot(self) -> int:
        """Elements of a tile in shared memory."""
        return self.operand.pitch * self.depth

    @property
    def turns(self) -> int:
        """How many elements, or copies, a thread has of a tile."""
        return -(-self._items // self.threads)

    @property
    def held(self) -> bool:
        """Whether a tile waits in registers while another is multiplied."""
        return not self.width and self.stages > 1 and self.turns <= _LOADS

    @property
    def _items(self) -> int:
        return self.operand.wide * self.depth // (self.width or 1)

    @property
    def _registers(self) -> str:
        return f"next_{self.operand.array}"

    def fill(self) -> Trees:
        """Puts the tile of the steps from ``from_`` on into the place number ``put_``."""
        value = self.operand.value
        if self.width and isinstance(value, Load):
            buffer = self.e.buffers[value.buffer]
            place = self.e.place(buffer, linearize(value.index, buffer.shape))
            source = ct.binary("+", ct.name(buffer.name), place)
            given = [ct.name(self.operand.array), self._cell(), source, ct.integer(self.width)]
            move = ct.call(f"lz_copy_async_{self.operand.compute.suffix}", given)
        else:
            cell = ct.element(self.operand.array, self._cell())
            move = ct.assign(cell, self.e.value(value))
        return self._every(self._where_inside([move]), min(self.turns, _LOADS))

    def registers(self) -> Trees:
        """What ``hold`` loads into."""
        kind = f"lz_{self.operand.compute.suffix}"
        return [ct.declare_array(kind, self._registers, [self.turns])] if self.held else []

    def hold(self) -> Trees:
        """Loads the tile of the steps from ``from_`` on into registers."""
        own = ct.element(self._registers, ct.name("i_"))
        load = ct.assign(own, self.e.value(self.operand.value))
        zero = ct.assign(own, self.e.number(0, self.operand.compute))
        return self._every([zero, *self._where_inside([load])], self.turns)

    def put(self) -> Trees:
        """Stores what was held into the place number ``put_``."""
        cell = ct.element(self.operand.array, self._cell())
        store = ct.assign(cell, ct.element(self._registers, ct.name("i_")))
        return self._every([store], self.turns)

    def _cell(self) -> ct.Node:
        """Where an element of the tile ``put_`` belongs in shared memory."""
        at = ct.binary("*", ct.name("depth_"), ct.integer(self.operand.pitch))
        at = ct.binary("+", at, ct.name("at_"))
        if self.stages == 1:
            return at
        return ct.binary("+", ct.binary("*", ct.name("put_"), ct.integer(self.slot)), at)

    def _every(self, body: Trees, unroll: int) -> Trees:
        """``body`` for all elements of a thread, adjacent threads along the contiguous axis."""
        operand, width = self.operand, self.width or 1
        groups: dict[str, Sequence[Axis]] = {"outer": operand.axes, "inner": operand.inner}
        along = width == 1 and unit_axis(operand.value, self.e, groups) == "inner"
        item = ct.name("item_")
        split = ct.integer(self.depth if along else operand.wide // width)
        fast, slow = ct.binary("%", item, split), ct.binary("/", item, split)
        depth, at = (fast, slow) if along else (slow, fast)
        if width > 1:
            at = ct.binary("*", at, ct.integer(width))
        flat = ct.binary("*", ct.name("i_"), ct.integer(self.threads))
        own = [_const("int", "depth_", depth), _const("int", "at_", at), *body]
        if self._items % self.threads:
            own = [ct.branch(ct.binary("<", item, ct.integer(self._items)), own)]
        number = _const("int", "item_", ct.binary("+", flat, ct.call("lz_thread", ())))
        loop = ct.loop("i_", ct.integer(0), ct.integer(self.turns), [number, *own], kind="int")
        return [ct.pragma(f"unroll {unroll}"), loop]

    def _where_inside(self, body: Sequence[ct.Node]) -> Trees:
        """``body`` for an element that exists."""
        outer = ct.binary("+", ct.name(self.operand.corner), ct.name("at_"))
        inner = ct.binary("+", ct.name("from_"), ct.name("depth_"))
        inside = ct.binary("<", ct.name("outer_"), ct.integer(self.rows))
        if self.steps % self.depth:
            short = ct.binary("<", ct.name("inner_"), ct.integer(self.steps))
            inside = ct.binary("&&", inside, short)
        place = coordinates(ct.name("outer_"), self.operand.axes, self.integer)
        place += coordinates(ct.name("inner_"), self.operand.inner, self.integer)
        return [
            _const(self.integer, "outer_", outer),
            _const(self.integer, "inner_", inner),
            ct.branch(inside, [*place, *body]),
        ]


def _const(kind: str, name: str, value: ct.Node) -> ct.Node:
    return ct.declare(kind, name, value, const=True)


#: Steps of a sum that are in a tile: the first for which all tiles have room.
DEPTHS = (16, 8)
#: Tiles of an operand in shared memory: where copies are asynchronous, and where registers hold
#: what comes next.
STAGES, STAGES_HELD = 3, 2
#: Output elements from which the tiles of 128 x 128 fill the device.
_LARGE = 128 * 128 * 128
#: Threads of a block below which a thread takes fewer rows, so that there are more of them.
_FEW_THREADS = 128


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
        whole = (*phase.batch, *phase.rows, *phase.columns)
        operands = (Let("left_", phase.left), Let("right_", phase.right))
        steps = Stage(Axis("k_", self.k), (*operands, *phase.epilogue))
        self.integer = index_type(Phase(whole, (steps,), "grid"), expressions)
        self.depth, self.stages, self.loaders = self._stage()
        self.copies = any(x.width for x in self.loaders)
        self.shared_bytes = sum(x.slot for x in self.loaders) * self.stages * size
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

    def _stage(self) -> tuple[int, int, tuple[TileLoader, TileLoader]]:
        """Steps of a tile, tiles in shared memory, and what fills them."""
        phase, tile, kind = self.phase, self.tile, self.phase.accumulator.compute
        rest = phase.inner, "m0_", tile.height, kind
        left = Operand("left_", phase.left, phase.rows, *rest)
        right = Operand("right_", phase.right, phase.columns, phase.inner, "n0_", tile.width, kind)
        most = STAGES if left.width(self.e) or right.width(self.e) else STAGES_HELD
        row = (left.pitch + right.pitch) * kind.itemsize
        fits = (d for d in DEPTHS if row * d * min(most, -(-self.k // d)) <= MOST_SHARED_BYTES)
        depth = next(fits, DEPTHS[-1])
        stages = max(1, min(most, -(-self.k // depth), MOST_SHARED_BYTES // (row * depth)))
        shared = self.threads, depth, stages, self.integer
        loaders = (
            TileLoader(left, self.e, *shared, self.m, self.k),
            TileLoader(right, self.e, *shared, self.n, self.k),
        )
        return depth, stages, loaders

    def statements(self) -> Trees:
        """What a block does for its ``tile_``."""
        t, kind = self.tile, f"lz_{self.suffix}"
        out: Trees = []
        offset = 0
        for loader in self.loaders:
            count = loader.slot * self.stages
            place = ct.call(
                f"lz_take_shared_{self.suffix}", [ct.integer(offset), ct.integer(count)]
            )
            out.append(ct.declare(f"lz_shared_{self.suffix}", loader.operand.array, place))
            offset += count * self.phase.accumulator.compute.itemsize
        thread = ct.call("lz_thread", ())
        where = [("down_", "/"), ("across_", "%")]
        out += [_const("int", n, ct.binary(op, thread, ct.integer(t.across))) for n, op in where]
        out += self._corner()
        out.append(ct.declare_array(kind, "sum_", [t.rows, t.columns]))
        zero = self.e.number(0, self.phase.accumulator.compute)
        out += self._each([ct.assign(_sum(), zero)])
        out += self._staged() if self.stages > 1 else self._at_once()
        if self.tiles > self.most_blocks:  # the tiles are filled again
            out.append(ct.call("lz_sync_block", ()))
        return [*out, *self._finish()]

    # ----------------------------------------------------------------- steps

    def _at_once(self) -> Trees:
        """The steps of a sum that is one tile long, or empty."""
        body = [_const(self.integer, "from_", ct.name("k0_")), *self._fill()]
        body += [*self._wait(0), ct.call("lz_sync_block", ()), *self._multiply()]
        stop = ct.integer(self.k)
        return [ct.loop("k0_", ct.integer(0), stop, body, self.depth, self.integer)]

    def _staged(self) -> Trees:
        """The steps of a sum, with tiles that come while earlier ones are multiplied.

        The barrier of a step says that its tile is complete, and that nobody reads that of the step
        before any more, whose place the next tile gets.
        """
        ahead, steps = self.stages - 1, -(-self.k // self.depth)
        begin = [self._from(ct.name("put_")), *self._fill()]
        held = [loader for loader in self.loaders if loader.held]
        later = ct.binary("+", ct.name("step_"), ct.integer(ahead))
        put = ct.binary("%", ct.name("later_"), ct.integer(self.stages))
        get = ct.binary("%", ct.name("step_"), ct.integer(self.stages))
        more = ct.binary("<", ct.name("later_"), ct.integer(steps))
        fetch = [x for loader in self.loaders if loader not in held for x in loader.fill()]
        fetch += [x for loader in held for x in loader.hold()]
        step = ct.binary("*", ct.name("step_"), ct.integer(self.depth))
        body = [
            *self._wait(ahead - 1),
            ct.call("lz_sync_block", ()),
            _const(self.integer, "later_", later),
            _const("int", "put_", put),
            *(x for loader in held for x in loader.registers()),
            ct.branch(more, [self._from(ct.name("later_")), *fetch]),
            *self._commit(),
            _const(self.integer, "k0_", step),
            _const("int", "get_", get),
            *self._multiply(),
        ]
        if held:
            body.append(ct.branch(more, [x for loader in held for x in loader.put()]))
        return [
            ct.pragma("unroll 1"),
            ct.loop("put_", ct.integer(0), ct.integer(ahead), begin, kind="int"),
            ct.pragma("unroll 1"),
            ct.loop("step_", ct.integer(0), ct.integer(steps), body, kind=self.integer),
        ]

    def _from(self, number: ct.Node) -> ct.Node:
        """Where the tile of a number begins."""
        return _const(self.integer, "from_", ct.binary("*", number, ct.integer(self.depth)))

    def _fill(self) -> Trees:
        """Fills a place in shared memory."""
        return [x for loader in self.loaders for x in loader.fill()] + self._commit()

    def _commit(self) -> Trees:
        """Ends a group of asynchronous copies."""
        return [ct.call("lz_commit_copies", ())] if self.copies else []

    def _wait(self, pending: int) -> Trees:
        """Waits for all groups of copies but so many."""
        return [ct.call("lz_wait_copies", [ct.integer(pending)])] if self.copies else []

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

    def _multiply(self) -> Trees:
        """Adds the products of a loaded tile to the sums, step by step."""
        t, kind = self.tile, f"lz_{self.suffix}"
        body: Trees = []
        sides = ("a_", t.rows, "down_"), ("b_", t.columns, "across_")
        for loader, (own, count, start) in zip(self.loaders, sides, strict=True):
            at = ct.binary("*", ct.name("d_"), ct.integer(loader.operand.pitch))
            at = ct.binary("+", at, ct.binary("*", ct.name(start), ct.integer(count)))
            at = ct.binary("+", at, ct.name("i_"))
            if self.stages > 1:
                at = ct.binary("+", ct.binary("*", ct.name("get_"), ct.integer(loader.slot)), at)
            get = ct.assign(ct.element(own, ct.name("i_")), ct.element(loader.operand.array, at))
            body.append(ct.declare_array(kind, own, [count]))
            body.append(ct.pragma("unroll"))
            body.append(ct.loop("i_", ct.integer(0), ct.integer(count), [get], kind="int"))
        factors = [ct.element("a_", ct.name("i_")), ct.element("b_", ct.name("j_")), _sum()]
        body += self._each([ct.assign(_sum(), ct.call(f"lz_madd_{self.suffix}", factors))])
        if self.k % self.depth:
            # A product of two padding zeros is not nothing: it turns a sum of -0 into +0.
            step = ct.binary("+", ct.name("k0_"), ct.name("d_"))
            body = [ct.branch(ct.binary("<", step, ct.integer(self.k)), body)]
        return [
            ct.pragma("unroll"),
            ct.loop("d_", ct.integer(0), ct.integer(self.depth), body, kind="int"),
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
