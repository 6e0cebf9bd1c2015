"""Fourier transforms as launches for GPUs, with the sums and products of the CPU's kernel in its
order (``prelude/fourier.h``), so that both give the same bits.

Points are a matrix of ``a`` rows and ``b`` columns. Where one fits into the memory that a block
shares, a block transforms one row of points, or several short ones, in one launch. Longer ones take
two: blocks of neighbouring columns, whose results go to scratch as rows; then blocks of
neighbouring columns of these. Between its stages a block's threads wait for each other; each has
the points of one butterfly in registers. Shared memory has a gap after every so many elements, so
that threads that are a power of two apart use different banks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions
from lazyt.ir.fourier.tables import (
    Plan,
    fits_block,
    lanes,
    plan_of,
    row_sizes,
    turn_count,
)
from lazyt.ir.kernel import CallPhase

Trees = list[ct.Node]
#: A step of a block, and the thread that uses each place of shared memory; None where several do.
_Step: TypeAlias = tuple[Trees, list[int] | None]
#: An index to the statements that leave the number there in ``pair_``, or take it from there.
Access = Callable[[ct.Node], Trees]

#: Points of a butterfly up to which it is written out.
_WRITTEN_OUT = 8
#: Bytes of points that a block transforms at once, where they are several rows or columns.
_TILE_BYTES = 32 << 10
#: The most bytes that a block shares for the sake of accesses of whole sectors.
_MOST_BYTES = 64 << 10
#: Bytes of the shortest access of memory that wastes nothing.
_SECTOR = 32
_MOST_COLUMNS = 32
_MOST_THREADS = 512
#: Blocks that a launch should have before a block takes several rows.
_MANY_BLOCKS = 256


@dataclass(frozen=True)
class FourierLaunch:
    """One launch of a transform: what a block does for its ``tile_``."""

    body: tuple[ct.Node, ...]
    tiles: int
    threads: int
    shared_bytes: int
    most_blocks: int

    @property
    def collective(self) -> bool:
        """Whether threads wait for each other."""
        return self.shared_bytes > 0

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return min(self.tiles, self.most_blocks)

    def statements(self) -> Trees:
        """What a block does for its ``tile_``."""
        if self.tiles > self.most_blocks and self.collective:  # shared memory is filled again
            return [*self.body, _barrier()]
        return [*self.body]


class _Side(NamedTuple):
    """Transforms of ``size`` points in a block's shared memory.

    Attributes:
        table: where the constants of its stages begin.
        step: distance between neighbouring points of a transform.
        lines: how many transforms there are in a row of a tile, and ``line_pitch`` their distance.
        rows: how many rows, and ``pitch`` their distance.
    """

    size: int
    stages: tuple[int, ...]
    table: int
    step: int
    lines: int
    line_pitch: int
    rows: int
    pitch: int


# ------------------------------------------------------------------ expressions


def _number(value: ct.Node | int) -> ct.Node:
    return ct.integer(value) if isinstance(value, int) else value


def _plus(*terms: ct.Node | int) -> ct.Node:
    """A sum, without terms that are zero."""
    kept = [_number(term) for term in terms if not (isinstance(term, int) and term == 0)]
    if not kept:
        return ct.integer(0)
    total = kept[0]
    for term in kept[1:]:
        total = ct.binary("+", total, term)
    return total


def _times(x: ct.Node, factor: int) -> ct.Node | int:
    if factor == 0 or ct.fixed(x) == 0:
        return 0
    return x if factor == 1 else ct.binary("*", x, ct.integer(factor))


def _strided(j: ct.Node | int, distance: int) -> ct.Node | int:
    return j * distance if isinstance(j, int) else _times(j, distance)


def _over(x: ct.Node, divisor: int) -> ct.Node:
    return x if divisor == 1 else ct.binary("/", x, ct.integer(divisor))


def _modulo(x: ct.Node, divisor: int) -> ct.Node:
    return ct.integer(0) if divisor == 1 else ct.binary("%", x, ct.integer(divisor))


def _const(name: str, value: ct.Node, kind: str = "int") -> ct.Node:
    return ct.declare(kind, name, value, const=True)


def _loop(name: str, total: int, threads: int, body: Trees) -> ct.Node:
    """All numbers below ``total``, shared among threads."""
    start = ct.call("lz_thread", ())
    return ct.loop(name, start, ct.integer(total), body, threads, "int")


def _adjacent(pointer: str, index: ct.Node, into: bool) -> ct.Node:
    """``pair_`` into the complex number of an array, or out of it."""
    place = ct.binary("+", ct.name(pointer), ct.binary("*", ct.integer(2), index))
    if into:
        return ct.call("lz_store_adjacent", [place, ct.name("pair_")])
    return ct.call("lz_load_adjacent", [ct.name("pair_"), place])


def _exchanged(suffix: str) -> Trees:
    """The parts of ``pair_``, exchanged."""
    return [
        ct.declare(f"lz_{suffix}", "part_", _pair(0)),
        ct.assign(_pair(0), _pair(1)),
        ct.assign(_pair(1), ct.name("part_")),
    ]


def _arrays(suffix: str, *names: str) -> Trees:
    """Arrays for two numbers each."""
    return [ct.declare_array(f"lz_{suffix}", name, [2]) for name in names]


def _pointer(suffix: str, name: str, buffer: str, offset: ct.Node, const: bool) -> ct.Node:
    """Without ``restrict``, as one buffer may be both read and written."""
    place = ct.binary("+", ct.name(buffer), offset)
    made = ct.declare_pointer(f"lz_{suffix}", name, place, const)
    made.type.quals = []
    return made


def _barrier() -> ct.Node:
    return ct.call("lz_sync_block", ())


def _pair(part: int) -> ct.Node:
    return ct.element("pair_", ct.integer(part))


def _digits(
    sizes: Sequence[int], weights: Sequence[int], places: Sequence[int], x: ct.Node
) -> ct.Node:
    """``x`` in digits of these sizes, each worth one of ``weights``, with ``places`` instead."""
    terms: list[ct.Node | int] = []
    whole = math.prod(sizes)
    for size, weight, place in zip(sizes, weights, places, strict=True):
        digit = _over(x, weight)
        if weight * size < whole:
            digit = _modulo(digit, size)
        terms.append(_times(digit, place))
    return _plus(*terms)


def _order(stages: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """What the digits of a frequency are worth, and what those of where it is after all stages."""
    counts, steps, count, size = [], [], 1, math.prod(stages)
    for stage in stages:
        counts.append(count)
        count *= stage
        steps.append(size // count)
    return counts, steps


def _place_of(stages: tuple[int, ...], frequency: ct.Node) -> ct.Node:
    """Where a frequency is after all stages."""
    counts, steps = _order(stages)
    return _digits(stages, counts, steps, frequency)


def _positions(stages: tuple[int, ...]) -> list[int]:
    """Where all frequencies are, in order."""
    found, step = [0], math.prod(stages)
    for stage in stages:
        step //= stage
        found = [place + digit * step for digit in range(stage) for place in found]
    return found


def _steps(steps: Sequence[_Step]) -> Trees:
    """Steps in order, with a barrier between those in which different threads use a place."""
    out: Trees = []
    for number, (trees, users) in enumerate(steps):
        before = steps[number - 1][1] if number else None
        if number and (users is None or users != before):
            out.append(_barrier())
        out += trees
    return out


def _users_of_frequencies(plan: Plan, points: int, threads: int) -> list[int]:
    """The thread of each place, where threads take frequencies of whole rows in turn."""
    order = [f * plan.b + g for g in _positions(plan.second) for f in _positions(plan.first)]
    users = [0] * points
    for n in range(points):
        users[n - n % len(order) + order[n % len(order)]] = n % threads
    return users


def _frequency_of(stages: tuple[int, ...], block: ct.Node) -> ct.Node:
    """The first frequency of a block of the last stage; the others follow at distances of as many
    as there are blocks."""
    counts, steps = _order(stages)
    last = stages[-1]
    return _digits(stages[:-1], [step // last for step in steps[:-1]], counts[:-1], block)


# --------------------------------------------------------------------- launches


class _Transform:
    """The launches of one phase."""

    def __init__(self, phase: CallPhase, e: Expressions, most_blocks: int) -> None:
        given = dict(phase.settings)
        self.kind = phase.routine.removeprefix("fourier_")
        self.n, self.positive = given["points"], given["sign"] > 0
        plan = plan_of(self.kind, self.n)
        assert plan is not None
        self.plan: Plan = plan
        self.length = plan.a * plan.b
        #: Whether pairs of real points are complex ones, and whether a chirp is convolved with.
        self.paired = self.kind != "complex" and not plan.whole
        self.chirped = plan.whole and self.length != self.n
        self.dtype = e.buffers[phase.reads[0]].dtype
        self.source, self.table = phase.reads
        self.target = phase.writes[0]
        self.work = phase.work[0]
        self.before, self.after = row_sizes(self.kind, self.n)
        self.rows = math.prod(e.buffers[self.source].shape) // self.before
        self.e, self.most_blocks = e, most_blocks
        self.suffix, self.lanes = self.dtype.suffix, lanes(self.dtype)
        self.first = 0
        self.second = turn_count(plan.a, plan.first)
        self.middle = self.second + turn_count(plan.b, plan.second)
        self.turns = self.middle + -(-plan.b // self.lanes) * plan.a * 2 * self.lanes
        #: Elements between gaps, as a power of two, of the launch that is made; none without gaps.
        self.gap: int | None = None

    # ------------------------------------------------------------ small parts

    def _call(self, function: str, *arguments: ct.Node) -> ct.Node:
        name = f"{function}_{self.suffix}"
        self.e.used.add(name)
        return ct.call(name, arguments)

    def _constant(self, *where: ct.Node | int) -> ct.Node:
        return ct.element(self.table, _plus(*where))

    def _rotated(self, name: str, index: ct.Node | int, cosine: ct.Node, sine: ct.Node) -> ct.Node:
        """``name`` has arrays of real and imaginary parts: ``x_``, ``y_``."""
        x, y = (ct.unary("&", ct.element(f"{part}{name}", _number(index))) for part in "xy")
        return self._call("lz_dft_turn", x, y, cosine, sine)

    def _pair_rotated(self, where: ct.Node | int) -> ct.Node:
        """``pair_`` times the number in the table there."""
        x, y = (ct.unary("&", _pair(part)) for part in (0, 1))
        place = _plus(where)
        return self._call(
            "lz_dft_turn", x, y, self._constant(place), self._constant(place, 1)
        )  # fmt: skip

    def _shared(self, part: str, index: ct.Node) -> ct.Node:
        if self.gap is not None:
            index = ct.binary("+", index, ct.binary(">>", index, ct.integer(self.gap)))
        return ct.element(f"{part}_", index)

    def _take_shared(self, points: int) -> tuple[Trees, int]:
        """Declares both arrays; and their bytes."""
        item = self.dtype.itemsize
        self.gap = 5 if item == 4 else 4
        count = points + (points >> self.gap)
        if 2 * count * item > _MOST_BYTES:
            self.gap, count = None, points
        count += -count % (16 // item)
        kind = f"lz_shared_{self.suffix}"
        made = [
            ct.declare(
                kind,
                f"{part}_",
                ct.call(f"lz_take_shared_{self.suffix}", map(ct.integer, (start * item, count))),
            )
            for part, start in (("re", 0), ("im", count))
        ]
        return made, 2 * count * item

    # ----------------------------------------------------------------- stages

    def _stages(
        self, side: _Side, threads: int, inside: ct.Node | None, column: ct.Node | None
    ) -> list[_Step]:
        """All stages of a side, in place. ``inside``: what has to be true of the line ``l_`` or the
        row ``r_`` for it to exist; ``column``: of ``l_``, where results of the last stage are
        multiplied by twiddle factors."""
        out: list[_Step] = []
        count, table = 1, side.table
        for number, size in enumerate(side.stages):
            left = side.size // (count * size)
            last = number == len(side.stages) - 1
            digits = [
                ("l_", side.lines, side.line_pitch), ("p_", left, side.step),
                ("k_", count, size * left * side.step), ("r_", side.rows, side.pitch),
            ]  # fmt: skip
            if side.line_pitch > 1:
                digits = [*digits[1:3], digits[0], digits[3]]
            body: Trees = []
            first, done, total = [0], 1, math.prod(extent for _, extent, _ in digits)
            for name, extent, pitch in digits:
                digit = _over(ct.name("q_"), done)
                done *= extent
                if done < total:
                    digit = _modulo(digit, extent)
                body.append(_const(name, digit if extent > 1 else ct.integer(0)))
                first = [at + n * pitch for n in range(extent) for at in first]
            users = [0] * (total * size)
            for number_, at_ in enumerate(first):
                for j in range(size):
                    users[at_ + j * left * side.step] = number_ % threads
            at = _plus(*(_times(ct.name(name), pitch) for name, _, pitch in digits))
            butterfly = [_const("at_", at)]
            butterfly += self._butterfly(side, size, left, count, table, column if last else None)
            body += butterfly if inside is None else [ct.branch(inside, butterfly)]
            out.append(([_loop("q_", total, threads, body)], users))
            table += (2 * size if size % 2 else 0) + left * (2 * size - 2)
            count *= size
        return out

    def _butterfly(
        self, side: _Side, size: int, left: int, count: int, table: int, column: ct.Node | None
    ) -> Trees:  # fmt: skip
        """One butterfly of a stage, its first point at ``at_``."""

        def every(body: Callable[[ct.Node | int], Trees], first: int = 0) -> Trees:
            if size <= _WRITTEN_OUT:
                return [tree for j in range(first, size) for tree in body(j)]
            loop = ct.loop("j_", ct.integer(first), ct.integer(size), body(ct.name("j_")), 1, "int")
            return [loop]

        def place(j: ct.Node | int) -> ct.Node:
            return _plus(ct.name("at_"), _strided(j, left * side.step))

        def move(j: ct.Node | int, back: bool = False) -> Trees:
            there = [self._shared(part, place(j)) for part in ("re", "im")]
            here = [ct.element(part, _number(j)) for part in ("x_", "y_")]
            return [ct.assign(*((a, b) if back else (b, a))) for a, b in zip(there, here)]

        factors = table + (2 * size if size % 2 else 0)

        def turn(j: ct.Node | int) -> Trees:
            where = _plus(
                factors - 2, _times(ct.name("p_"), 2 * size - 2), _strided(j, 2)
            )  # fmt: skip
            return [self._rotated("_", j, self._constant(where), self._constant(where, 1))]

        def twiddle(j: ct.Node | int) -> Trees:
            where = _plus(ct.name("turn_"), _strided(j, count * 2 * self.lanes))
            return [
                self._rotated("_", j, self._constant(where), self._constant(where, self.lanes))
            ]  # fmt: skip

        kind = f"lz_{self.suffix}"
        out: Trees = [ct.declare_array(kind, name, [size]) for name in ("x_", "y_")]
        out += every(move)
        x, y = ct.name("x_"), ct.name("y_")
        if size % 2:
            constants = ct.binary("+", ct.name(self.table), ct.integer(table))
            out.append(self._call("lz_dft_odd", x, y, constants, ct.integer(size)))
        else:
            out.append(self._call(f"lz_dft_{size}", x, y))
        if left > 1:
            out += every(turn, 1)
        elif column is not None:
            out.append(_const("column_", column))
            where = _plus(
                self.middle,
                _times(_over(ct.name("column_"), self.lanes), self.plan.a * 2 * self.lanes),
                _modulo(ct.name("column_"), self.lanes),
                _times(_frequency_of(side.stages, ct.name("k_")), 2 * self.lanes),
            )  # fmt: skip
            out += [_const("turn_", where), *every(twiddle)]
        return [*out, *every(lambda j: move(j, True))]

    # ------------------------------------------------------- operand and result

    def _take(self, index: ct.Node) -> Trees:
        """Leaves the complex point of that number, in a row that starts at ``from_``, in
        ``pair_``."""
        zero = self.e.number(0, self.dtype)
        if self.paired and self.kind == "real":
            return self._take_joined(index)
        out: Trees = []
        if self.kind == "complex" or self.paired:
            out.append(_adjacent("from_", index, False))
        elif self.kind == "half":
            out += [ct.assign(_pair(0), ct.element("from_", index)), ct.assign(_pair(1), zero)]
        else:
            mirrored = ct.binary(">", index, ct.integer(self.n // 2))
            mirror = ct.binary("-", ct.integer(self.n), index)
            alone = ct.binary("==", index, ct.integer(0))
            if self.n % 2 == 0:
                middle = ct.binary("==", index, ct.integer(self.n // 2))
                alone = ct.binary("||", alone, middle)
            out += [
                _adjacent("from_", ct.choose(mirrored, mirror, index), False),
                ct.branch(mirrored, [ct.assign(_pair(1), ct.unary("-", _pair(1)))]),
                ct.branch(alone, [ct.assign(_pair(1), zero)]),
            ]
        if self.positive and (self.kind == "complex" or self.plan.whole):
            out += _exchanged(self.suffix)
        if self.chirped:
            out.append(self._pair_rotated(_plus(self.turns, ct.binary("*", ct.integer(2), index))))
            nothing = [ct.assign(_pair(part), zero) for part in (0, 1)]
            inside = ct.binary("<", index, ct.integer(self.n))
            return [ct.branch(inside, out, nothing)]
        return out

    def _halves(self, name: str, low: ct.Node, high: ct.Node) -> Trees:
        """Two mirrored frequencies and their turn, through one function: ``u_`` and ``v_``."""
        cosine = self._constant(self.turns, low)
        sine = self._constant(self.turns + self.length // 2 + 1, low)
        sign = 1 if (self.kind == "half") != self.positive else -1
        return [
            self._call(
                name, ct.name("u_"), ct.name("v_"), cosine, sine, self.e.number(sign, self.dtype)
            )
        ]  # fmt: skip

    def _take_joined(self, index: ct.Node) -> Trees:
        """The same from half of a spectrum; parts come exchanged, as transforms go back."""
        mirror = ct.binary("-", ct.integer(self.length), index)
        upper = ct.binary(">", index, mirror)
        ends = ct.binary("+", ct.element("from_", ct.integer(0)),
                         ct.element("from_", ct.integer(2 * self.length)))  # fmt: skip
        less = ct.binary("-", ct.element("from_", ct.integer(0)),
                         ct.element("from_", ct.integer(2 * self.length)))  # fmt: skip
        first = [ct.assign(_pair(1), ends), ct.assign(_pair(0), less)]
        low, high = ct.name("low_"), ct.binary("-", ct.integer(self.length), ct.name("low_"))
        rest: Trees = [
            _const("low_", ct.choose(upper, mirror, index)),
            *_arrays(self.suffix, "u_", "v_"),
        ]
        for number, place in enumerate((low, high)):
            rest.append(_adjacent("from_", place, False))
            rest += [
                ct.assign(ct.element(part, ct.integer(number)), _pair(which))
                for part, which in (("u_", 0), ("v_", 1))
            ]
        rest += self._halves("lz_dft_joined", low, high)
        which = ct.choose(upper, ct.integer(1), ct.integer(0))
        rest += [
            ct.assign(_pair(1), ct.element("u_", which)),
            ct.assign(_pair(0), ct.element("v_", which)),
        ]
        return [ct.branch(ct.binary("==", index, ct.integer(0)), first, rest)]

    def _give(self, index: ct.Node) -> Trees:
        """Stores the frequency of that number, which ``pair_`` has, in a row that starts at
        ``to_``."""
        swapped = self.kind == "real" if self.paired else self.positive
        out: Trees = []
        if self.chirped:
            last = self.turns + 2 * self.n + 2 * self.length
            out.append(self._pair_rotated(_plus(last, ct.binary("*", ct.integer(2), index))))
        if self.kind == "real" and not self.paired:
            part = _pair(1 if swapped else 0)
            out.append(ct.assign(ct.element("to_", index), part))
        else:
            out += _exchanged(self.suffix) if swapped else []
            if self.kind == "half" and not self.paired:
                zero = [ct.assign(_pair(1), self.e.number(0, self.dtype))]
                alone = ct.binary("==", index, ct.integer(0))
                if self.n % 2 == 0:
                    middle = ct.binary("==", index, ct.integer(self.n // 2))
                    alone = ct.binary("||", alone, middle)
                out.append(ct.branch(alone, zero))
            out.append(_adjacent("to_", index, True))
        if self.chirped or (self.kind == "half" and not self.paired):
            count = self.n // 2 + 1 if self.kind == "half" else self.n
            return [ct.branch(ct.binary("<", index, ct.integer(count)), out)]
        return out

    def _give_halved(self, get: Callable[[ct.Node], Trees]) -> Trees:
        """Stores the frequencies ``k_`` and its mirror image of real points from those of their
        pairs, which ``get`` leaves in ``pair_``."""
        k, zero = ct.name("k_"), self.e.number(0, self.dtype)
        mirror = ct.binary("-", ct.integer(self.length), k)
        two = self.e.number(2, self.dtype)
        first: Trees = [*get(ct.integer(0))]
        first += [
            ct.declare(f"lz_{self.suffix}", "sum_", ct.binary("+", _pair(0), _pair(1))),
            ct.declare(f"lz_{self.suffix}", "less_", ct.binary("-", _pair(0), _pair(1))),
            ct.assign(_pair(1), zero),
        ]
        for name, index in (("sum_", 0), ("less_", self.length)):
            first.append(ct.assign(_pair(0), ct.binary("*", ct.name(name), two)))
            first.append(_adjacent("to_", ct.integer(index), True))
        rest = _arrays(self.suffix, "u_", "v_")
        for number, place in enumerate((k, mirror)):
            rest += get(place)
            rest += [
                ct.assign(ct.element(part, ct.integer(number)), _pair(which))
                for part, which in (("u_", 0), ("v_", 1))
            ]
        rest += self._halves("lz_dft_halved", k, mirror)
        for number, place in ((1, mirror), (0, k)):  # the middle is its own image, and is the first
            rest += [
                ct.assign(_pair(which), ct.element(part, ct.integer(number)))
                for part, which in (("u_", 0), ("v_", 1))
            ]
            rest.append(_adjacent("to_", place, True))
        return [ct.branch(ct.binary("==", k, ct.integer(0)), first, rest)]

    # ------------------------------------------------------------ whole rows

    def _from_shared(self, index: ct.Node, exchanged: bool = False) -> Trees:
        parts = ("im", "re") if exchanged else ("re", "im")
        return [ct.assign(_pair(n), self._shared(part, index)) for n, part in enumerate(parts)]

    def _to_shared(self, index: ct.Node, exchanged: bool = False) -> Trees:
        parts = ("im", "re") if exchanged else ("re", "im")
        return [ct.assign(self._shared(part, index), _pair(n)) for n, part in enumerate(parts)]

    def whole_rows(self) -> list[FourierLaunch]:
        """One launch, in which a block transforms whole rows."""
        a, b, length = self.plan.a, self.plan.b, self.length
        most = _TILE_BYTES // (4 * self.dtype.itemsize)
        rows = max(1, min(most // length, self.rows // _MANY_BLOCKS))
        threads = _threads(rows * length)
        out, shared = self._take_shared(rows * length)
        inside = None
        q, i = ct.name("q_"), ct.name("i_")
        row = _plus(_times(ct.name("tile_"), rows), ct.name("r_") if rows > 1 else 0)
        if self.rows % rows:
            inside = ct.binary("<", row, ct.integer(self.rows))

        def each(total: int, body: Trees) -> ct.Node:
            """All of ``i_`` below ``total`` of all rows ``r_``."""
            head = [_const("i_", _modulo(q, total) if rows > 1 else q)]
            if rows > 1:
                head.insert(0, _const("r_", _over(q, total)))
            guarded = [ct.branch(inside, body)] if inside is not None else body
            return _loop("q_", rows * total, threads, [*head, *guarded])

        def pointer(name: str, buffer: str, size: int, const: bool) -> ct.Node:
            return _pointer(self.suffix, name, buffer, ct.binary("*", row, ct.integer(size)), const)

        start = _times(ct.name("r_"), length) if rows > 1 else 0
        body = [pointer("from_", self.source, self.before, True), *_arrays(self.suffix, "pair_")]
        body += [*self._take(i), _const("at_", _plus(start, i)), *self._to_shared(ct.name("at_"))]
        natural = [n % threads for n in range(rows * length)]
        steps: list[_Step] = [([each(length, body)], natural)]
        down = _Side(a, self.plan.first, self.first, b, b, 1, rows, length)
        across = _Side(b, self.plan.second, self.second, 1, a, b, rows, length)
        both = self._stages(down, threads, inside, ct.name("l_"))
        both += self._stages(across, threads, inside, None)
        steps += both

        def place(index: ct.Node) -> ct.Node:
            first = _place_of(self.plan.first, _modulo(index, a))
            second = _place_of(self.plan.second, _over(index, a))
            return _plus(start, ct.binary("*", first, ct.integer(b)), second)

        def get(index: ct.Node, exchanged: bool = False) -> Trees:
            here = ct.assign(ct.name("here_"), place(index))
            return [here, *self._from_shared(ct.name("here_"), exchanged)]

        users = _users_of_frequencies(self.plan, rows * length, threads)
        if self.chirped:
            steps += self._convolve_in_place(threads, place, rows, inside, users)
            steps += both
        body = [pointer("to_", self.target, self.after, False), *_arrays(self.suffix, "pair_")]
        body.append(ct.declare("int", "here_"))
        if self.paired and self.kind == "half":
            body += [_const("k_", i), *self._give_halved(get)]
            steps.append(([each(length // 2 + 1, body)], None))
        else:
            values = [*get(i, self.chirped), *self._give(i)]
            steps.append(([each(length, [*body, *values])], users))
        out += _steps(steps)
        most = self.most_blocks
        return [FourierLaunch(tuple(out), -(-self.rows // rows), threads, shared, most)]

    def _convolve_in_place(
        self, threads: int, place: Callable[[ct.Node], ct.Node], rows: int,
        inside: ct.Node | None, users: list[int],
    ) -> list[_Step]:  # fmt: skip
        """Frequencies times the chirp's, in natural order and with exchanged parts, by way of the
        threads' registers."""
        total = rows * self.length
        each = -(-total // threads)
        kind = f"lz_{self.suffix}"
        held: Trees = [ct.declare_array(kind, name, [each]) for name in ("hold_x_", "hold_y_")]

        def over(body: Trees) -> ct.Node:
            q = _plus(_times(ct.name("h_"), threads), ct.call("lz_thread", ()))
            length = self.length
            many = rows > 1
            head = [_const("q_", q)]
            if many:
                head.append(_const("r_", _over(ct.name("q_"), length)))
            head.append(_const("i_", _modulo(ct.name("q_"), length) if many else ct.name("q_")))
            test = ct.binary("<", ct.name("q_"), ct.integer(total))
            if inside is not None:
                test = ct.binary("&&", test, inside)
            steps = [*head, ct.branch(test, body)]
            return ct.loop("h_", ct.integer(0), ct.integer(each), steps, 1, "int")

        hold = [ct.element(name, ct.name("h_")) for name in ("hold_x_", "hold_y_")]
        i = ct.name("i_")
        spectrum = _plus(self.turns + 2 * self.n, ct.binary("*", ct.integer(2), i))
        read = [
            *_arrays(self.suffix, "pair_"),
            _const("at_", place(i)),
            *self._from_shared(ct.name("at_")),
        ]
        read += [self._pair_rotated(spectrum)]
        read += [ct.assign(hold[n], _pair(n)) for n in (0, 1)]
        write = [
            ct.assign(self._shared("re", ct.name("q_")), hold[1]),
            ct.assign(self._shared("im", ct.name("q_")), hold[0]),
        ]
        unroll = ct.pragma("unroll")
        natural = [n % threads for n in range(total)]
        return [([*held, unroll, over(read)], users), ([unroll, over(write)], natural)]

    # --------------------------------------------------------- through scratch

    def _pass(
        self, side: _Side, across: int, head: Trees, take: Access, give: Access, down: bool
    ) -> FourierLaunch:
        """Transforms along the columns of a matrix of ``side.size`` rows and ``across`` columns, of
        each row of points. ``take`` and ``give`` are of elements of operand and result; results of
        the first side are stored as rows."""
        wide, size = side.lines, side.size
        threads = _threads(wide * size)
        out, shared = self._take_shared(wide * size)
        groups = -(-across // wide)
        out.append(_const("row_", _over(ct.name("tile_"), groups), "lz_i64"))
        column = ct.binary("*", _modulo(ct.name("tile_"), groups), ct.integer(wide))
        out.append(_const("begin_", ct.cast("int", column)))
        out += head
        inside = None
        if across % wide:
            left = ct.binary("-", ct.integer(across), ct.name("begin_"))
            inside = ct.binary("<", ct.name("l_"), left)

        def each(line: ct.Node, other: ct.Node, body: Trees) -> ct.Node:
            names = [_const("l_", line), _const("j_", other)]
            body = [*_arrays(self.suffix, "pair_"), *body]
            guarded = [ct.branch(inside, body)] if inside is not None else body
            return _loop("q_", wide * size, threads, [*names, *guarded])

        q, here = ct.name("q_"), _plus(ct.name("begin_"), ct.name("l_"))
        element = _plus(_times(ct.name("j_"), across), here)
        take_ = [_const("i_", element), *take(ct.name("i_")), *self._to_shared(q)]
        loads = each(_modulo(q, wide), _over(q, wide), take_)
        steps: list[_Step] = [([loads], [n % threads for n in range(wide * size)])]
        steps += self._stages(side, threads, inside, here if down else None)
        places = _positions(side.stages)
        users = [0] * (wide * size)
        for n in range(wide * size):
            j, line = (n % size, n // size) if down else (n // wide, n % wide)
            users[places[j] * wide + line] = n % threads
        order = _place_of(side.stages, ct.name("j_"))
        at = _plus(ct.binary("*", order, ct.integer(wide)), ct.name("l_"))
        give_ = [_const("at_", at), *self._from_shared(ct.name("at_"))]
        if down:
            result = _plus(_times(here, size), ct.name("j_"))
            give_ += [_const("i_", result), *give(ct.name("i_"))]
            stores = each(_over(q, size), _modulo(q, size), give_)
        else:
            give_ += [_const("i_", element), *give(ct.name("i_"))]
            stores = each(_modulo(q, wide), _over(q, wide), give_)
        out += _steps([*steps, ([stores], users)])
        tiles = self.rows * groups
        return FourierLaunch(tuple(out), tiles, threads, shared, self.most_blocks)

    def _wide(self, size: int, across: int) -> int:
        """Neighbouring columns for a block."""
        point = 2 * self.dtype.itemsize
        wide = _TILE_BYTES // (point * size)
        least = _SECTOR // point
        if wide < least:
            wide = min(least, _MOST_BYTES // (point * size))
        return max(1, min(wide, across, _MOST_COLUMNS))

    def through_scratch(self) -> list[FourierLaunch]:
        """Two launches for a transform; one more where real points are pairs; two transforms for a
        convolution."""
        a, b, length = self.plan.a, self.plan.b, self.length
        wide, high = self._wide(a, b), self._wide(b, a)
        down = _Side(a, self.plan.first, self.first, wide, wide, 1, 1, 0)
        across = _Side(b, self.plan.second, self.second, high, high, 1, 1, 0)
        behind = ct.integer(self.rows * 2 * length)

        def at(name: str, buffer: str, size: int, const: bool, second: bool = False) -> ct.Node:
            offset = ct.binary("*", ct.name("row_"), ct.integer(size))
            if second:
                offset = ct.binary("+", behind, offset)
            return _pointer(self.suffix, name, buffer, offset, const)

        def load(index: ct.Node) -> Trees:
            return [_adjacent("from_", index, False)]

        def store(index: ct.Node) -> Trees:
            return [_adjacent("to_", index, True)]

        source = at("from_", self.source, self.before, True)
        into = at("to_", self.work, 2 * length, False)
        rows = at("from_", self.work, 2 * length, True)
        target = at("to_", self.target, self.after, False)
        launches = [self._pass(down, b, [source, into], self._take, store, True)]
        if self.chirped:

            def convolved(index: ct.Node) -> Trees:
                place = _plus(self.turns + 2 * self.n, ct.binary("*", ct.integer(2), index))
                return [self._pair_rotated(place), *store(index)]

            def exchanged(index: ct.Node) -> Trees:
                return [*load(index), *_exchanged(self.suffix)]

            def back(index: ct.Node) -> Trees:
                return [*_exchanged(self.suffix), ct.block(self._give(index))]

            second = at("to_", self.work, 2 * length, False, True)
            again = at("from_", self.work, 2 * length, True, True)
            launches += [
                self._pass(across, a, [rows, second], load, convolved, False),
                self._pass(down, b, [again, into], exchanged, store, True),
                self._pass(across, a, [rows, target], load, back, False),
            ]
            return launches
        give = store if self.paired and self.kind == "half" else self._give
        launches.append(self._pass(across, a, [rows, target], load, give, False))
        if self.paired and self.kind == "half":
            launches.append(self._halving())
        return launches

    def _halving(self) -> FourierLaunch:
        """The spectra of real points from those of their pairs, in place."""
        threads = _MOST_THREADS // 2
        count = self.length // 2 + 1
        groups = -(-count // threads)
        row = _over(ct.name("tile_"), groups)
        offset = ct.binary("*", row, ct.integer(self.after))
        start = ct.binary("*", _modulo(ct.name("tile_"), groups), ct.integer(threads))
        k = ct.binary("+", ct.cast("int", start), ct.call("lz_thread", ()))
        body = [
            _pointer(self.suffix, "to_", self.target, offset, False),
            *_arrays(self.suffix, "pair_"),
        ]
        body += self._give_halved(lambda index: [_adjacent("to_", index, False)])
        inside = ct.binary("<", ct.name("k_"), ct.integer(count))
        out = (_const("k_", k), ct.branch(inside, body))
        return FourierLaunch(out, self.rows * groups, threads, 0, self.most_blocks)


def _threads(points: int) -> int:
    """Threads of a block for so many points: each takes the eight of a butterfly."""
    return min(_MOST_THREADS, max(32, -(-points // 256) * 32))


def fourier_launches(phase: CallPhase, e: Expressions, most_blocks: int) -> list[FourierLaunch]:
    """The launches of a transform of rows, in order."""
    if not math.prod(e.buffers[phase.reads[0]].shape):
        return []
    made = _Transform(phase, e, most_blocks)
    return made.whole_rows() if fits_block(made.length, made.dtype) else made.through_scratch()
