"""Block sizes of the packed form of a contraction, from its extents and the caches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lazyt.codegen.matmul.matrix_registers import SQUARE, mat_tile
from lazyt.codegen.matmul.spec import ContractSpec, ceil_div, round_up
from lazyt.ir.decisions import decide

_LONGEST_PACKED_TASK = 1024
# As many tasks as share the work well among a few threads.
_TASKS = 12
# Up to here, storing sums is.
FEW_STEPS = 64
# Bytes across for which copying rows of A costs more than it brings.
_FEW_BYTES = 128
# Lines that share a set of a first-level cache, at least; its sets; bytes of a line.
_WAYS, _SETS, _LINE = 8, 64, 64
# The part of the second-level cache that two operands may fill to be read where they lie.
_NEAR_SHARE = 5
# Rows of A, neighbours in memory, of which a block is made where sums are short.
_LINES = 96
# Up to here, threads pack for themselves: to get panels out of another core's cache takes longer.
_FEW_THREADS = 4
# Register tiles of time that the first one of a block takes longer, as it fetches the panel of B.
_FIRST_TILE = 0.2
# Columns of a thread from which on it takes them in two parts.
_MANY_COLUMNS = 512
# Up to here, copying B is a good part of the work.
_FEW_ROWS = 256
# Steps at a time, and rows whose lines share sets of a first-level cache, where operands are read
# where they lie but are in no near cache; rows of a block of those that meet few columns.
_FAR_STEPS, _FAR_ROWS, _FAR_BLOCK = 256, 8, 64
# With matrix registers: the most columns of a task, and register tiles of rows below which panels
# of B are fetched too often.
_LONGEST_TILED_TASK, _LEAST_TILES = 4096, 4
# Steps below which copying B costs nothing beside storing sums.
_LEAST_STEPS = 16
# Lines of a set of a second-level cache that rows of B may take.
_SECOND_WAYS = 8


@dataclass(frozen=True)
class PackedForm:
    """Block sizes, in elements.

    Attributes:
        rows, vectors: the register tile: rows, and vector registers per row.
        k_block: length of a panel's piece that is multiplied at once.
        row_block, col_block: what one task computes.
        strip: columns whose sums are stored together.
        k_span, col_span: how much of B is packed at a time.
        private: every thread packs B for itself, for columns or a batch of its own.
        parallel: run tasks on several threads.
        straight: rows of A are read where they lie.
        ahead: register tiles ask for the next panel of B.
        copies: every thread packs all of B for itself.
        apart: nothing of B is packed, its rows are read where they lie.
    """

    rows: int
    vectors: int
    k_block: int
    row_block: int
    col_block: int
    strip: int
    k_span: int
    col_span: int
    private: bool
    parallel: bool
    straight: bool = False
    ahead: bool = False
    copies: bool = False
    apart: bool = False

    def widths(self, spec: ContractSpec) -> tuple[int, int]:
        """Columns of a panel of A and of one of B."""
        return SQUARE if spec.tiles else self.rows, self.vectors * spec.lanes


def register_tile(spec: ContractSpec) -> tuple[int, int]:
    """Rows and vectors per row of the register tile with the least padding.

    With 16 registers, 6 x 2 sums leave room for two vectors of B and two of A; with 32, 12 x 2 of
    64-byte vectors, and 8 x 3 of NEON's, whose processors have up to 16 fused steps in flight.
    Twice the rows where one vector is enough. Fewer are taken where they divide ``m`` better, at a
    small loss. Matrix registers have tiles of another kind.
    """
    if spec.tiles:
        return mat_tile(spec)
    most = 12 if spec.vector_bytes == 64 else 8 if spec.registers == 32 else 6
    if spec.any_size:
        return most, 2
    if spec.n <= spec.lanes:
        return min(2 * most, max(spec.m, 1)), 1

    def cost(rows: int) -> float:
        return ceil_div(spec.m, rows) * (rows + 0.35)

    return min(range(min(most, spec.m), min(most, 4) - 1, -1), key=cost), _columns_of(spec)


def _columns_of(spec: ContractSpec) -> int:
    """Vectors per row of a register tile: three on NEON, unless two fit the columns better, or rows
    are read where they lie, several steps at a time, which takes more registers."""
    near = spec.m <= _FEW_ROWS or _is_near(spec)
    if spec.registers < 32 or spec.vector_bytes == 64 or near:
        return 2
    two, three = (round_up(spec.n, vectors * spec.lanes) for vectors in (2, 3))
    return 3 if three * 20 <= two * 21 and spec.n * spec.item > _FEW_BYTES else 2


def padding(spec: ContractSpec) -> float:
    """Multiplications with padding, per multiplication that is needed."""
    rows, vectors = register_tile(spec)
    width = vectors * spec.lanes
    columns = round_up(spec.n, spec.lanes if _reads_both(spec, width) else width)
    return round_up(spec.m, rows) * columns / (spec.m * spec.n)


def choose_packed_form(spec: ContractSpec, parallel: bool) -> PackedForm:
    """Block sizes from the extents and the caches."""
    return _form_of_tiles(spec, parallel) if spec.tiles else _form_of_vectors(spec, parallel)


def _form_of_vectors(spec: ContractSpec, parallel: bool) -> PackedForm:
    """Block sizes from the caches: A's block in level 2, what is packed of B at a time in half of
    level 3, and a piece of B's panel beyond level 1. Tiles read B slowly enough for level 2, and
    gain from sums that stay in registers for longer."""
    l1, l2, _ = spec.cache
    rows, vectors = register_tile(spec)
    width = vectors * spec.lanes
    wide = spec.vector_bytes == 64
    piece = l1 * 3 if wide else l1 * 2
    k_block = max(64, piece // (width * spec.item) // 8 * 8)
    k_block = round_up(ceil_div(spec.k, ceil_div(spec.k, k_block)), 4)
    unit = _rows_stored(spec, rows)
    row_block = max(unit, l2 * (1 if wide else 3) // 8 // (k_block * spec.item) // unit * unit)
    row_block = min(row_block, round_up(spec.m, rows), max(1, 16 * rows // unit) * unit)
    col_block = min(round_up(spec.n, width), round_up(_LONGEST_PACKED_TASK, width))
    whole = round_up(spec.n, width)
    col_span, k_span = _spans(spec, whole, col_block, k_block)
    fits = whole * spec.k * spec.item <= max(l2, 1 << 18) * 2
    private = decide("private", parallel and spec.batch >= 4 and fits)
    large = whole * spec.k * spec.item > l2 and not (private or spec.any_size)
    if spec.m <= _FEW_ROWS and large:
        # B is not multiplied often enough for a way to level 3 and back.
        in_l2 = l2 // (spec.k * spec.item) // (4 * width)
        if in_l2:
            parts = ceil_div(whole, in_l2 * 4 * width)
            col_span = col_block = round_up(ceil_div(whole, parts), width)
        elif whole <= col_block:
            k_span = min(spec.k, max(1, l2 // 2 // (whole * spec.item * k_block)) * k_block)
    if spec.k <= FEW_STEPS and not spec.any_size:
        # Sums are stored at once, where the first-level cache has them, if that takes whole lines.
        row_block = unit if spec.a_unit != "m" else min(row_block, round_up(_LINES, unit))
    if parallel and not private:
        # Fewer rows only read B more often; fewer columns copy A more often.
        while ceil_div(spec.m, row_block) * ceil_div(spec.n, col_block) < _TASKS:
            if row_block > max(2 * rows, unit):
                row_block = max(2 * rows, unit, row_block // 2 // unit * unit)
            elif col_block > 8 * width and col_span == whole:
                col_block = round_up(col_block // 2, width)
            else:
                break
        row_block = _shared_out(spec, row_block, rows, unit, ceil_div(spec.n, col_block))
    strip = min(col_block, 4 * width)
    near = _is_near(spec)
    apart = near and reads_unpacked(spec, width)
    straight = reads_straight(spec) or (near and is_straight(spec, rows))
    packed = k_span * col_span * spec.item
    few = parallel and not (private or spec.any_size) and 1 < spec.threads <= _FEW_THREADS
    copies = few and not apart and packed <= l2  # else it comes from level 3 anyway
    form = PackedForm(
        rows, vectors, k_block, row_block, col_block, strip, k_span, col_span, private, parallel,
        straight, decide("ahead", not straight and packed > l2), copies, apart,
    )  # fmt: skip
    if apart:
        return form
    return _far_form(spec, form, few and spec.batch == 1 and spec.m < spec.n and spec.k > FEW_STEPS)


def _spans(spec: ContractSpec, whole: int, col_block: int, k_block: int) -> tuple[int, int]:
    """Columns and steps of B that are packed at a time: half of level 3, in whole blocks."""
    limit = max(spec.cache[2] // 2, 4 << 20) // spec.item
    if whole * spec.k <= limit:
        return whole, spec.k
    col_span = min(whole, max(col_block, limit // spec.k // col_block * col_block))
    if col_span * spec.k <= limit:
        return col_span, spec.k
    return col_span, min(spec.k, max(k_block, limit // col_span // k_block * k_block))


def _form_of_tiles(spec: ContractSpec, parallel: bool) -> PackedForm:
    """The form for matrix registers, beside which copying is a good part of the work: all threads
    together copy B once, and A as seldom as its block fits into level 2.

    Both operands come from level 2. A piece of B's panel that stays in level 1 would save a quarter
    of the time of loads, and sums that wait more often cost as much.
    """
    l1, l2, _ = spec.cache
    rows, vectors = mat_tile(spec)
    width = vectors * spec.lanes
    whole = round_up(spec.n, width)
    k_block = max(64, l1 * 3 // (width * spec.item) // SQUARE * SQUARE)
    k_block = round_up(ceil_div(spec.k, ceil_div(spec.k, k_block)), SQUARE)
    row_block = max(rows, l2 // 2 // (k_block * spec.item) // rows * rows)
    row_block = min(row_block, round_up(spec.m, rows))
    col_block = _LONGEST_TILED_TASK
    if spec.k > k_block:  # sums wait in level 2
        row_block = max(rows, min(row_block, l2 // 4 // (k_block * spec.item) // rows * rows))
        col_block = l2 // 4 // (row_block * spec.item)
    col_block = min(whole, round_up(col_block, width))
    col_span, k_span = _spans(spec, whole, col_block, k_block)
    private = parallel and spec.batch >= 4 and whole * spec.k * spec.item <= l2 * 2
    if parallel and not private:
        tasks = min(_TASKS, 2 * spec.threads)
        while ceil_div(spec.m, row_block) * ceil_div(spec.n, col_block) < tasks:
            if row_block > _LEAST_TILES * rows:
                row_block = max(_LEAST_TILES * rows, row_block // 2 // rows * rows)
            elif col_block > 8 * width and col_span == whole:
                col_block = round_up(col_block // 2, width)
            else:
                break
        row_block = _shared_out(spec, row_block, rows, rows, ceil_div(spec.n, col_block))
    packed = k_span * col_span * spec.item
    return PackedForm(
        rows, vectors, k_block, row_block, col_block, min(col_block, 4 * width), k_span, col_span,
        private, parallel, ahead=packed > l2,
    )  # fmt: skip


def _far_form(spec: ContractSpec, form: PackedForm, wide: bool) -> PackedForm:
    """A form for operands that are not both in a near cache: one that reads some where they lie, if
    copying them takes longer, or gives threads columns of their own, where B is ``wide``."""
    if spec.k > _FAR_STEPS and _are_few(spec) and not (form.straight or spec.any_size):
        return _straight_far(spec, form)
    if _reads_both(spec, form.vectors * spec.lanes):
        return _both_far(spec, form)
    return _columns_by_thread(spec, form) if wide else form


def _steps_of(spec: ContractSpec, most: int) -> int:
    """About as many steps as are multiplied at once, so that all pieces are alike."""
    return round_up(ceil_div(spec.k, ceil_div(spec.k, most)), 4)


def _straight_far(spec: ContractSpec, form: PackedForm) -> PackedForm:
    """The form for rows of A that meet few columns and lie so far apart that only some of them can
    be read where they lie at a time."""
    if not is_straight(spec, _FAR_ROWS):
        return form
    return replace(
        form, rows=_FAR_ROWS, k_block=_steps_of(spec, _FAR_STEPS), straight=True, ahead=False,
        row_block=min(_FAR_BLOCK, round_up(spec.m, _FAR_ROWS)),
    )  # fmt: skip


def _both_far(spec: ContractSpec, form: PackedForm) -> PackedForm:
    """The form in which few rows read B where it lies, in no near cache: to copy it would be a good
    part of the work. Threads share columns, where each gets some."""
    rows = form.rows
    straight = is_straight(spec, rows)
    if not straight and rows > _FAR_ROWS and is_straight(spec, _FAR_ROWS):
        rows, straight = _FAR_ROWS, True
    width = form.vectors * spec.lanes
    whole, row_block = round_up(spec.n, width), round_up(spec.m, rows)
    col_block = min(whole, round_up(_LONGEST_PACKED_TASK, width))
    if form.parallel and not form.private:
        tasks = spec.threads if spec.threads <= _FEW_THREADS else _TASKS
        parts = ceil_div(tasks, spec.batch)
        panels, tiles = whole // width, row_block // rows
        # Threads with columns of their own read less of B; a tenth more work is too much for that,
        # and so is one panel each: rows of A are then read once for every 32 columns.
        across, down = (ceil_div(n, parts) / n for n in (panels, tiles))
        least = 2 * parts if tiles >= parts else parts
        if panels >= least and across <= 1.1 * down:
            col_block = min(col_block, round_up(ceil_div(whole, parts), width))
        else:
            row_block = max(rows, round_up(ceil_div(spec.m, parts), rows))
    return replace(
        form, rows=rows, k_block=_steps_of(spec, _far_steps(spec)), row_block=row_block,
        col_block=col_block,
        strip=min(col_block, 4 * width), k_span=spec.k, col_span=whole, straight=straight,
        ahead=False, copies=False, apart=True,
    )  # fmt: skip


def _far_steps(spec: ContractSpec) -> int:
    """Steps of k of which a panel of B stays in the second-level cache where it lies; 0 where these
    are too few."""
    if spec.b_plain is None:
        return 0
    sets = spec.cache[1] // (2 * _SECOND_WAYS * _LINE)
    lines, rest = divmod(spec.b_plain.k * spec.item, _LINE)
    shared = 1 if rest else math.gcd(max(lines, 1), sets)
    steps = _SECOND_WAYS * sets // shared
    return min(steps, _FAR_STEPS) if steps >= FEW_STEPS else 0


def _reads_both(spec: ContractSpec, width: int) -> bool:
    """Whether B is read where it lies: where both operands are near, or few rows read it."""
    if not reads_unpacked(spec, width):
        return False
    steps = _far_steps(spec)
    few = _FEW_ROWS if steps == _FAR_STEPS else _FAR_BLOCK  # short pieces fetch their sums often
    return _is_near(spec) or (spec.k >= _LEAST_STEPS and spec.m <= few and steps > 0)


def _columns_by_thread(spec: ContractSpec, form: PackedForm) -> PackedForm:
    """The form in which threads get columns of their own rather than rows: B is packed only once,
    and by the thread that multiplies it, while A, which has fewer elements, is packed by each."""
    rows, width, l2 = form.rows, form.vectors * spec.lanes, spec.cache[1]
    whole, unit = round_up(spec.n, width), _rows_stored(spec, rows)
    # Fewer columns at a time would copy A more often.
    parts = spec.threads * (2 if whole >= 2 * _MANY_COLUMNS * spec.threads else 1)
    col_span = round_up(ceil_div(whole, parts), width)
    col_block = min(col_span, round_up(_LONGEST_PACKED_TASK, width))
    row_block = max(unit, l2 // 2 // (form.k_block * spec.item) // unit * unit)
    row_block = min(row_block, round_up(spec.m, rows), max(1, 16 * rows // unit) * unit)
    return replace(
        form, row_block=row_block, col_block=col_block, strip=min(col_block, 4 * width),
        k_span=spec.k, col_span=col_span, private=True, copies=False,
        ahead=not form.straight and spec.k * col_span * spec.item > l2 // 2,
    )  # fmt: skip


def _shared_out(spec: ContractSpec, row_block: int, rows: int, unit: int, across: int) -> int:
    """Rows of a task, up to ``row_block`` and at least half of them, so that the threads end
    together: two threads take 9 and 8 blocks of 60 of 1024 rows, and 11 and 10.5 of 48."""
    least = max(round_up(2 * rows, unit), row_block // 2 // unit * unit)
    if spec.any_size or row_block <= least:
        return row_block

    def longest(block: int) -> float:
        """Rows of the thread with most of them, where each takes the next task when it is free."""
        whole, rest = divmod(spec.m, block)
        loads = [0.0] * max(spec.threads, 1)
        for task in [block] * (whole * across) + [rest] * across:
            loads[loads.index(min(loads))] += round_up(task, unit) + _FIRST_TILE * rows
        return max(loads)

    return min(range(row_block, least - 1, -unit), key=longest)


def _rows_stored(spec: ContractSpec, rows: int) -> int:
    """Of how many rows blocks of rows are made: whole register tiles and, where results are stored
    along rows, whole vectors of them, as what is left of a vector is computed number by number."""
    return math.lcm(rows, spec.lanes) if spec.c_unit == "m" else rows


def _is_near(spec: ContractSpec) -> bool:
    """Whether both operands of a point stay in the second-level cache, so that panels bring less
    than making them takes."""
    return (spec.m + spec.n) * spec.k * spec.item <= spec.cache[1] // _NEAR_SHARE


def is_straight(spec: ContractSpec, rows: int) -> bool:
    """Whether ``rows`` of A may be read where they lie at a time: they stay in the first-level
    cache, where more than it has ways would push each other out if they share its sets."""
    a = spec.a_plain
    if a is None or a.k != 1 or spec.any_size or spec.group is not None:
        return False
    return spec.k * spec.item <= _LINE or shares_few_sets(a.side * spec.item, rows)


def shares_few_sets(distance: int, rows: int) -> bool:
    """Whether rows so many bytes apart find room in the first-level cache side by side."""
    lines, rest = divmod(distance, _LINE)
    return rest > 0 or ceil_div(rows, _SETS // math.gcd(lines, _SETS)) <= _WAYS


def reads_unpacked(spec: ContractSpec, width: int) -> bool:
    """Whether register tiles of B's columns may be read where they lie."""
    b = spec.b_plain
    if b is None or b.side != 1 or spec.group is not None or spec.any_size:
        return False
    # Behind the end of a row there is the next one, except behind the last.
    return spec.n % width == 0 or (spec.k > 1 and b.k >= spec.n and b.k >= width)


def _are_few(spec: ContractSpec) -> bool:
    """Whether there are so few columns that copying rows of A for them does not pay."""
    _, vectors = register_tile(spec)
    return round_up(spec.n, vectors * spec.lanes) * spec.item <= _FEW_BYTES


def reads_straight(spec: ContractSpec) -> bool:
    """Whether rows of A meet so few columns that they are read where they lie."""
    rows, _ = register_tile(spec)
    return spec.k > 0 and _are_few(spec) and is_straight(spec, rows)
