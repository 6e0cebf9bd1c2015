"""Which other forms a contraction may have, and whether a requested form fits.

Forms come from files that people may have edited, or that were written for another machine, so
each number is checked against what the printers rely on: a form that fits is right, if not fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lazyt.codegen.conv.blocks import SlideForm, SlidePlan, tiles_for
from lazyt.codegen.conv.windows import splits
from lazyt.codegen.matmul.blocks import is_straight, reads_unpacked
from lazyt.codegen.matmul.contraction import (
    DOT_MOST_COLUMNS,
    PARALLEL_FLOPS,
    ContractSpec,
    DotForm,
    Form,
    PackedForm,
    RowForm,
    choose_packed_form,
    choose_row_form,
)
from lazyt.codegen.matmul.spec import ceil_div, round_up

#: Bytes of the row form's sums, which lie on a thread's stack.
ROW_BYTES = 256 * 1024
#: Bytes of packed operands that a form may need.
PACKED_BYTES = 1 << 30
MOST_ROWS, MOST_VECTORS = 24, 8


def form_fits(spec: ContractSpec, form: Form) -> bool:
    """Whether ``emit_contract`` can write ``spec``, operands exchanged already, in the form."""
    if 0 in (spec.batch, spec.m, spec.n) or spec.any_size:
        return False
    if isinstance(form, PackedForm):
        return spec.k > 0 and _packed_fits(spec, form)
    if isinstance(form, RowForm):
        return _row_fits(spec, form)
    return True


def _packed_fits(spec: ContractSpec, form: PackedForm) -> bool:
    if not (1 <= form.rows <= MOST_ROWS and 1 <= form.vectors <= MOST_VECTORS):
        return False
    width = form.vectors * spec.lanes
    whole = round_up(spec.n, width)
    in_tiles = (
        form.row_block % form.rows == 0
        and form.col_block % width == 0
        and form.strip % width == 0
        and form.col_span % width == 0
    )
    in_range = (
        1 <= form.k_block <= round_up(spec.k, 4)
        and form.rows <= form.row_block <= round_up(spec.m, form.rows)
        and width <= form.strip <= form.col_block <= form.col_span <= whole
        and min(spec.k, form.k_block) <= form.k_span <= spec.k
    )
    if not in_tiles or not in_range:
        return False
    if form.col_span < whole and form.col_span % form.col_block:
        return False
    if form.private and (not form.parallel or form.k_span < spec.k):
        return False
    if form.copies and (not form.parallel or form.private):
        return False
    if form.apart and (form.ahead or form.copies or not reads_unpacked(spec, width)):
        return False
    if form.straight and (form.ahead or not is_straight(spec, form.rows)):
        return False
    copies = spec.max_threads if form.private else spec.threads if form.copies else 1
    packed = form.k_span * form.col_span * copies
    tasks = form.row_block * (form.k_block + form.col_block) * spec.max_threads
    kept = spec.m * form.col_span if form.k_span < spec.k else 0
    return (packed + tasks + kept) * spec.item <= PACKED_BYTES


def _row_fits(spec: ContractSpec, form: RowForm) -> bool:
    width = round_up(spec.n, spec.lanes) if form.pack else spec.n
    in_range = (
        1 <= form.rows <= spec.m
        and 1 <= form.cols <= width
        and form.rows * form.cols * spec.item <= ROW_BYTES
        and 1 <= form.row_step <= min(form.rows, 8)
        and 1 <= form.k_step <= 8
    )
    copies = spec.max_threads if form.parallel and spec.batch > 1 else 1
    return in_range and (not form.pack or spec.k * width * spec.item * copies <= PACKED_BYTES)


def slide_fits(plan: SlidePlan, form: SlideForm) -> bool:
    """Whether ``emit_slide`` can write the convolution in the form."""
    points = plan.slide.points
    if not 1 <= form.run <= min(len(points), 3):
        return False
    if not splits(plan.tracks(SlideForm(form.run, 1, 1, 1))):
        return False
    in_range = (
        1 <= form.chunk <= points[len(points) - form.run].extent
        and (form.rows, form.vectors) in set(tiles_for(plan.spec.registers))
        and 1 <= form.splits <= ceil_div(plan.spec.m, form.rows)
    )
    if not in_range or (form.straight and plan.along is None):
        return False
    lay = plan.lay_out(form)
    return lay.shared + lay.private * min(plan.spec.max_threads, lay.tasks) <= PACKED_BYTES


def slide_moves(plan: SlidePlan, form: SlideForm) -> list[SlideForm]:
    """Forms that differ from a convolution's in one thing each."""
    points = plan.slide.points
    found = [
        replace(form, rows=rows, vectors=vectors)
        for rows, vectors in tiles_for(plan.spec.registers)
        if 3 * rows * vectors >= 2 * form.rows * form.vectors
    ]
    found += [replace(form, splits=parts) for parts in (1, 2, 4)]
    found.append(replace(form, straight=not form.straight))
    for run in range(1, min(len(points), 3) + 1):
        extent = points[len(points) - run].extent
        near = {ceil_div(extent, parts) for parts in (1, 2, 4, 8, 16)}
        if run == form.run:
            near |= {max(1, form.chunk // 2), max(1, form.chunk * 3 // 4), form.chunk * 2}
        found += [replace(form, run=run, chunk=chunk) for chunk in sorted(near)]
    return [f for f in dict.fromkeys(found) if f != form and slide_fits(plan, f)]


def contract_moves(spec: ContractSpec, form: Form) -> list[Form]:
    """Forms of ``spec``, operands exchanged already, that differ from one in one thing each, and
    the usual ones of other kinds."""
    parallel = spec.flops >= PARALLEL_FLOPS
    found: list[Form] = []
    if isinstance(form, PackedForm):
        found += _packed_moves(spec, form)
    elif spec.k and min(spec.m, spec.n) > DOT_MOST_COLUMNS:
        found.append(choose_packed_form(spec, parallel))
    if isinstance(form, RowForm):
        found += _row_moves(spec, form)
    else:
        found += [choose_row_form(spec, pack, parallel, False) for pack in (False, True)]
    if spec.n <= 2 * DOT_MOST_COLUMNS:
        found += [DotForm(True), DotForm(False)]
    return [f for f in dict.fromkeys(found) if f != form and form_fits(spec, f)]


def _packed_moves(spec: ContractSpec, form: PackedForm) -> Iterator[PackedForm]:
    most = 28 if spec.registers == 32 else 14
    for rows, vectors in tiles_for(spec.registers):
        if 3 * rows * vectors >= 2 * most:
            yield retiled(spec, form, rows, vectors)
    for k_block in (form.k_block // 2, form.k_block * 3 // 2, form.k_block * 2, spec.k):
        size = round_up(min(max(k_block, 16), spec.k), 4)
        yield replace(form, k_block=size, k_span=max(form.k_span, min(size, spec.k)))
    for row_block in (form.row_block // 2, form.row_block * 2, form.row_block * 4, spec.m):
        yield retiled(spec, replace(form, row_block=row_block), form.rows, form.vectors)
    for col_block in (form.col_block // 2, form.col_block * 2, form.col_span):
        yield retiled(spec, replace(form, col_block=col_block), form.rows, form.vectors)
    width = form.vectors * spec.lanes
    for strip in (width, 2 * width, 8 * width, form.col_block):
        yield replace(form, strip=min(strip, form.col_block))
    yield replace(form, private=not form.private, copies=False)
    yield replace(form, copies=not form.copies, private=False, apart=False)
    yield replace(form, parallel=not form.parallel, private=False, copies=False)
    yield replace(form, straight=not form.straight, ahead=False)
    yield replace(form, ahead=not (form.ahead or form.straight or form.apart))
    yield replace(form, apart=not form.apart, ahead=False, copies=False)


def retiled(spec: ContractSpec, form: PackedForm, rows: int, vectors: int) -> PackedForm:
    """A form with another register tile, its blocks rounded to what that allows."""
    width = vectors * spec.lanes
    whole = round_up(spec.n, width)
    row_block = min(max(form.row_block // rows, 1) * rows, round_up(spec.m, rows))
    col_block = min(round_up(form.col_block, width), whole)
    col_span = min(max(round_up(form.col_span, col_block), col_block), whole)
    strip = min(round_up(form.strip, width), col_block)
    return replace(
        form, rows=rows, vectors=vectors, row_block=row_block, col_block=col_block, strip=strip,
        col_span=col_span,
    )  # fmt: skip


def _row_moves(spec: ContractSpec, form: RowForm) -> Iterator[RowForm]:
    width = round_up(spec.n, spec.lanes) if form.pack else spec.n
    for rows in (form.rows // 2, form.rows * 2, spec.m):
        yield replace(form, rows=rows, row_step=min(form.row_step, max(rows, 1)))
    for cols in (form.cols // 2, form.cols * 2, width):
        yield replace(form, cols=min(max(cols, 1), width))
    for step in (1, 2, 3, 4, 6):
        yield replace(form, row_step=step)
    for step in (1, 2, 4, 8):
        yield replace(form, k_step=step)
    cols = min(form.cols, round_up(spec.n, spec.lanes) if not form.pack else spec.n)
    yield replace(form, pack=not form.pack, cols=cols)
    yield replace(form, parallel=not form.parallel)
