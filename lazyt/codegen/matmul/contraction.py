"""Contractions (matmul, bmm, linear, einsum, convolution over windows) as one C kernel.

Every output element is one accumulator that starts at zero and takes its products in the order of
``k``, each with one fused multiply-add (a product and a sum where the machine has no such
instruction). All forms below keep to that order, so neither the form, nor a block size, nor the
number of threads changes a bit of the result.
"""

from __future__ import annotations

from lazyt.codegen.matmul.blocks import (
    FEW_STEPS,
    PackedForm,
    choose_packed_form,
    padding,
    reads_straight,
    register_tile,
)
from lazyt.codegen.matmul.direct import (
    DotForm,
    RowForm,
    choose_row_form,
    dot_sections,
    emit_dot_form,
    emit_row_form,
    turns,
)
from lazyt.codegen.matmul.dot_products import group_of, group_sections, grouped
from lazyt.codegen.matmul.micro_kernels import (
    WORKER_SECTION,
    CText,
    lines_sections,
    mac_section,
    open_kernel,
    tile_sections,
)
from lazyt.codegen.matmul.packed import emit_packed_form, ragged_vectors
from lazyt.codegen.matmul.panels import panel_sections
from lazyt.codegen.matmul.spec import ITEM_BYTES, ContractSpec, ContractText, transpose_spec
from lazyt.errors import InternalError

Form = RowForm | DotForm | PackedForm

# Starting a parallel region costs a few microseconds, the time of this much arithmetic.
PARALLEL_FLOPS = 400_000
# Below this many multiply-adds copying operands costs more than it saves.
PACKED_MACS = 48**3
PACKED_LEAST_SIDE = 16
# The same where nothing is copied.
IN_PLACE_MACS = 16**3
TINY_MACS = 1024
DOT_MOST_COLUMNS = 3
# The same where rows are transposed in registers, which costs as much as four columns' sums.
TURNED_MOST_COLUMNS = 8
# How much longer a contraction takes that stores its results across the rows of a tile.
STORE_ACROSS = 1.15


def emit_contract(
    spec: ContractSpec, form: Form | None = None, transposed: bool = False
) -> ContractText:
    """The kernel of ``spec``; ``form`` and ``transposed`` override the choice, for tuning.

    Raises InternalError for an accumulator type without arithmetic.
    """
    if spec.acc not in ITEM_BYTES:
        raise InternalError("emit_contract", f"no accumulator of type {spec.acc!r}")
    if 0 in (spec.batch, spec.m, spec.n):
        out = CText()
        with open_kernel(out, spec):
            pass
        return ContractText((), out.text(), 0, "empty: no output elements")
    if form is None:
        form, transposed, reason = choose_form(spec)
    else:
        reason = "as asked"
    if transposed:
        spec = transpose_spec(spec)
    sections: tuple[tuple[str, str], ...]
    kind = group_of(spec)
    if isinstance(form, PackedForm) and kind:
        spec = grouped(spec)
        form = choose_packed_form(spec, form.parallel)
        text, workspace = emit_packed_form(spec, form)
        sections = group_sections(spec, form.rows, form.vectors, form.ahead)
        sections = (*panel_sections(spec, form.widths(spec), text), *sections)
        reason += f", {kind} {'in matrix registers' if spec.tiles else 'to a lane'}"
    elif isinstance(form, PackedForm):
        text, workspace = emit_packed_form(spec, form)
        sections = panel_sections(spec, form.widths(spec), text)
        for vectors in dict.fromkeys((form.vectors, ragged_vectors(spec, form) or form.vectors)):
            tile = (spec.acc, form.rows, vectors, spec.vector_bytes)
            if form.straight:
                sections += lines_sections(*tile, form.apart)
            else:
                sections += tile_sections(*tile, form.ahead, form.apart)
    elif isinstance(form, RowForm):
        text, workspace = emit_row_form(spec, form)
        sections = (mac_section(spec.acc),)
    else:
        text, workspace = emit_dot_form(spec, form)
        sections = (*panel_sections(spec, (spec.n, spec.n), text), *dot_sections(spec))
    if "lz_worker()" in text:
        sections = (WORKER_SECTION, *sections)
    side = " with A and B exchanged" if transposed else ""
    return ContractText(sections, text, workspace, f"{form}{side}: {reason}")


def choose_form(spec: ContractSpec) -> tuple[Form, bool, str]:
    """The cheapest form, whether A and B are exchanged in it, and the reason."""
    macs = spec.m * spec.n * spec.k
    if spec.any_size and spec.k and min(spec.m, spec.n) > DOT_MOST_COLUMNS:
        exchanged = spec.c_unit == "m"
        chosen = transpose_spec(spec) if exchanged else spec
        return choose_packed_form(chosen, True), exchanged, "for any size"
    parallel = spec.any_size or spec.flops >= PARALLEL_FLOPS
    if macs <= TINY_MACS or spec.k == 0:
        return choose_row_form(spec, False, parallel, True), False, "tiny"
    if spec.n <= _dot_columns(spec) and spec.a_unit != "m":
        return DotForm(parallel), False, "a few columns, and rows of A adjacent"
    if spec.m <= _dot_columns(transpose_spec(spec)) and spec.b_unit != "n":
        return DotForm(parallel), True, "a few rows, and columns of B adjacent"
    if macs >= PACKED_MACS and min(spec.m, spec.n) >= PACKED_LEAST_SIDE:
        return _choose_packed(spec, parallel)
    if macs >= IN_PLACE_MACS and spec.m >= PACKED_LEAST_SIDE and spec.n > spec.lanes:
        form = choose_packed_form(spec, parallel)
        if form.apart and form.straight and spec.c_unit == "n":
            return form, False, "small; both operands are read where they lie"
    return _choose_rows(spec, parallel)


def _dot_columns(spec: ContractSpec) -> int:
    """Up to how many columns the dot form is the best one."""
    return TURNED_MOST_COLUMNS if turns(spec) and not spec.any_size else DOT_MOST_COLUMNS


def _choose_packed(spec: ContractSpec, parallel: bool) -> tuple[Form, bool, str]:
    other = transpose_spec(spec)
    waste, other_waste = padding(spec), padding(other)
    if spec.k > FEW_STEPS and reads_straight(other) and not reads_straight(spec):
        reason = "large; exchanged, so that rows are read where they lie"
        return choose_packed_form(other, parallel), True, reason
    if spec.c_unit == "m" and other_waste < STORE_ACROSS * waste:
        reason = "large; exchanged, so that results are stored along the tile's rows"
        return choose_packed_form(other, parallel), True, reason
    if other_waste < 0.9 * waste and not (
        spec.c_unit == "n" and STORE_ACROSS * other_waste > waste
    ):
        reason = f"large; exchanged, as padding costs {other_waste:.2f} rather than {waste:.2f}"
        return choose_packed_form(other, parallel), True, reason
    return choose_packed_form(spec, parallel), False, "large"


def _choose_rows(spec: ContractSpec, parallel: bool) -> tuple[Form, bool, str]:
    """The row form, along an axis whose elements are adjacent where there is one; the packed form
    where much would have to be transposed for it, or be shorter than a vector."""
    along_n = spec.b_unit == "n" and spec.n > DOT_MOST_COLUMNS
    along_m = spec.a_unit == "m" and spec.m > DOT_MOST_COLUMNS
    short = not (along_n and spec.n >= spec.lanes) and not (along_m and spec.m >= spec.lanes)
    if short and spec.m * spec.n * spec.k >= PACKED_MACS and min(spec.m, spec.n) > 1:
        return _choose_packed(spec, parallel)
    if along_n and not (along_m and spec.m > 4 * spec.n):
        return choose_row_form(spec, False, parallel, False), False, "small or skinny"
    if along_m:
        other = transpose_spec(spec)
        return choose_row_form(other, False, parallel, False), True, "small or skinny, along m"
    if spec.m < spec.n and spec.m > DOT_MOST_COLUMNS:
        other = transpose_spec(spec)
        reason = "small or skinny; A has the fewer elements to copy into rows"
        return choose_row_form(other, True, parallel, False), True, reason
    reason = "small or skinny; B has the fewer elements to copy into rows"
    return choose_row_form(spec, True, parallel, False), False, reason


__all__ = [
    "ContractSpec", "ContractText", "DotForm", "Form", "PackedForm", "RowForm", "choose_form",
    "choose_packed_form", "choose_row_form", "emit_contract", "register_tile",
]  # fmt: skip
