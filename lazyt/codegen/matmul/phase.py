"""ContractPhase as C: hands the fused loads and the epilogue to the packed contraction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions, c_type, compute_type
from lazyt.codegen.conv.blocks import SlideForm, SlidePlan, worth_sliding
from lazyt.codegen.conv.direct import emit_slide
from lazyt.codegen.conv.lanes import LanesForm, choose_lanes, emit_lanes
from lazyt.codegen.conv.panels import choose_slide
from lazyt.codegen.conv.sums import SumsForm, choose_sums, emit_sums, worth_summing
from lazyt.codegen.conv.windows import as_slide, find_slide
from lazyt.codegen.matmul.axes import (
    Groups,
    merge_axes,
    merge_groups,
    operand_place,
    over_results,
    result_place,
    split_axes,
    spread_batches,
    store_axis,
    unit_axis,
)
from lazyt.codegen.matmul.contraction import (
    ContractSpec,
    ContractText,
    DotForm,
    PackedForm,
    RowForm,
    choose_form,
    emit_contract,
)
from lazyt.codegen.matmul.forms import form_fits, slide_fits
from lazyt.codegen.matmul.spec import transpose_spec
from lazyt.codegen.plan.choices import AnyForm, Tuned
from lazyt.ir.decisions import decide
from lazyt.ir.dtypes import DType, bfloat16, int8
from lazyt.ir.index import Axis, Load
from lazyt.ir.kernel import ContractPhase, Kernel, Let, Store
from lazyt.ir.scalar import Call, Expr

#: Numbers of which several share a lane, and types of sums, by the kind of group. What int32 has
#: summed is cut to int8, which is the same modulo 2^8.
_NARROW = {"bf16x2": (bfloat16, ("f32",)), "i8x4": (int8, ("i32", "i8"))}


class Contraction(NamedTuple):
    """A contraction as its printers see it.

    Attributes:
        spec: the contraction.
        slide, sums: the same as a convolution, or as the gradient of one's kernel, if it is that.
    """

    spec: ContractSpec
    slide: SlidePlan | None = None
    sums: SlidePlan | None = None


def contract_text(
    kernel: Kernel,
    phase: ContractPhase,
    expressions: Expressions,
    vector_bytes: int,
    caches: tuple[int, int, int],
    any_size: bool = False,
    tuned: Tuned | None = None,
    threads: int = 8,
) -> ContractText:
    """The kernel's C text with the sections and the workspace that it needs; in the form
    ``tuned``, where it fits. ``threads``: how many find work in small contractions."""
    made = describe(kernel, phase, expressions, vector_bytes, caches, any_size)
    made = made._replace(spec=replace(made.spec, threads=min(threads, 8)))
    form = tuned.form if tuned is not None else None
    if made.slide is not None:
        chosen = form if isinstance(form, SlideForm) and slide_fits(made.slide, form) else None
        if chosen is None and form is None:
            chosen = choose_slide(made.slide)
        if chosen is not None:
            return emit_slide(expressions, made.slide, chosen)
    if made.sums is not None and (form is None or isinstance(form, SumsForm | LanesForm)):
        text = _sums_text(made.sums, expressions, form)
        if text is not None:
            return text
    if tuned is not None and isinstance(form, PackedForm | RowForm | DotForm):
        turned = transpose_spec(made.spec) if tuned.exchanged else made.spec
        if form_fits(turned, form):
            return emit_contract(made.spec, form, tuned.exchanged)
    return emit_contract(made.spec)


def _sums_text(plan: SlidePlan, e: Expressions, form: AnyForm | None) -> ContractText | None:
    """Sums along which an operand slides, in the cheapest form, of those of a kind if ``form`` asks
    for one."""
    shapes = {name: buffer.shape for name, buffer in e.buffers.items()}
    sums = choose_sums(plan)
    lanes = None if isinstance(form, SumsForm) else choose_lanes(plan, shapes, sums)
    if lanes is not None:
        return emit_lanes(e, plan, lanes, shapes)
    return None if sums is None else emit_sums(e, plan, sums)


def describe(
    kernel: Kernel,
    phase: ContractPhase,
    expressions: Expressions,
    vector_bytes: int,
    caches: tuple[int, int, int],
    any_size: bool = False,
) -> Contraction:
    """What the printers of contractions are given."""
    # In a band the places of rows are told from the phase's own axes.
    own = kernel.bands is not None
    given = partial(_spec, kernel, e=expressions, caches=caches, any_size=any_size, own=own)
    given = partial(given, vector_bytes=vector_bytes)
    whole = merge_axes(phase)
    if own:
        return _sliding(whole, expressions, given(whole))
    if any_size:
        spec = given(whole)
        return _sliding(whole, expressions, given(split_axes(phase)))._replace(spec=spec)
    shapes = {name: buffer.shape for name, buffer in expressions.buffers.items()}
    pictures = spread_batches(split_axes(phase), shapes, vector_bytes)
    if pictures is not None:
        spec = given(pictures)
        if _reads_in_place(spec):
            return Contraction(spec)
    return _sliding(whole, expressions, given(split_axes(phase)))


def _reads_in_place(spec: ContractSpec) -> bool:
    """Whether the larger operand is multiplied where it lies."""
    form, _, _ = choose_form(spec)
    return isinstance(form, PackedForm) and form.apart


def _spec(
    kernel: Kernel,
    phase: ContractPhase,
    e: Expressions,
    vector_bytes: int,
    caches: tuple[int, int, int],
    any_size: bool,
    own: bool,
) -> ContractSpec:
    """A contraction for the packed and other forms; its axes are those of the phase where they are
    its ``own``, else as few as memory is walked along."""
    groups = (phase.batch, phase.rows, phase.columns, phase.inner)
    batch, m, n, k = (_extent(g) for g in groups)
    arguments = []
    for buffer in kernel.arguments:
        const = "const " if buffer.role == "in" else ""
        arguments.append((f"{const}{c_type(buffer.dtype)} *restrict", buffer.name))
    left, right = phase.left, phase.right
    ending = phase
    left_groups: Groups = (phase.batch, phase.rows, phase.inner)
    right_groups: Groups = (phase.batch, phase.columns, phase.inner)
    if not own:
        shapes = {name: buffer.shape for name, buffer in e.buffers.items()}
        left, left_groups = merge_groups(left, left_groups, shapes)
        right, right_groups = merge_groups(right, right_groups, shapes)
        ending = over_results(phase, shapes)
    accumulator = phase.accumulator.compute
    _, rows, inner = left_groups
    _, columns, steps = right_groups
    spec = ContractSpec(
        name=kernel.name,
        arguments=tuple(arguments),
        batch=batch,
        m=m,
        n=n,
        k=k,
        acc=accumulator.suffix,
        load_a=_loader(e, left, left_groups),
        load_b=_loader(e, right, (right_groups[0], steps, columns)),
        a_unit=unit_axis(left, e, {"m": rows, "k": inner}),
        b_unit=unit_axis(right, e, {"k": steps, "n": columns}),
        epilogue=_epilogue(e, ending),
        vector_bytes=vector_bytes,
        registers=32 if vector_bytes == 64 or "32" in e.traits.registers else 16,
        cache=caches,
        c_unit=store_axis(ending, e),
        any_size=any_size,
        group=_group(phase, e),
        a_place=operand_place(e, accumulator, left, left_groups),
        b_place=operand_place(e, accumulator, right, right_groups),
    )
    sides = ((left, left_groups), (right, right_groups))
    spec = _in_groups(phase, e, spec, sides)
    if any_size:
        return spec
    place = None if own else result_place(e, ending)
    return replace(spec, c_place=place)


def _group(phase: ContractPhase, e: Expressions) -> str | None:
    """The kind of group that both operands' numbers may be multiplied in."""
    for kind, (number, totals) in _NARROW.items():
        fits = phase.accumulator.compute.suffix in totals
        if fits and all(_holds(v, number, e) for v in (phase.left, phase.right)):
            return kind
    return None


def _in_groups(
    phase: ContractPhase, e: Expressions, spec: ContractSpec, sides: Sequence[tuple[Expr, Groups]]
) -> ContractSpec:
    """Where narrow numbers lie, and the contraction in matrix registers, where they multiply this
    kind of numbers, and may: what they round in another order than single steps has to be rounded
    again, to bfloat16."""
    if spec.group is None:
        return spec
    number, _ = _NARROW[spec.group]
    left, right = (operand_place(e, number, _as_stored(v), groups) for v, groups in sides)
    spec = replace(spec, a_narrow=left, b_narrow=right)
    exact = spec.group == "i8x4" or phase.accumulator is bfloat16
    if not exact or spec.group not in e.traits.tiled or spec.vector_bytes < 64:
        return without_tiles(spec, e)
    return replace(spec, tiles=True)


def without_tiles(spec: ContractSpec, e: Expressions) -> ContractSpec:
    """The contraction as it is computed in vectors."""
    return replace(spec, tiles=False, group=None if spec.group in e.traits.alone else spec.group)


def _holds(value: Expr, dtype: DType, e: Expressions) -> bool:
    """Whether every value of an expression is one of ``dtype``, and not only close to one."""
    if isinstance(value, Load):
        return e.buffers[value.buffer].dtype is dtype
    if isinstance(value, Call) and value.fn.name == "cast":
        return value.dtype is dtype or _holds(value.args[0], dtype, e)
    return False


def _as_stored(value: Expr) -> Expr:
    """A value that ``_holds`` what a buffer does, as it is there."""
    while isinstance(value, Call) and value.fn.name == "cast":
        value = value.args[0]
    return value


def _sliding(phase: ContractPhase, expressions: Expressions, spec: ContractSpec) -> Contraction:
    """The contraction, also as a convolution or as one of its gradients, if it is one."""
    slide = find_slide(phase) or as_slide(phase)
    if slide is None or decide("in place", not slide.walks and _reads_in_place(spec)):
        return Contraction(spec)
    points, others = _extent(slide.points), _extent(slide.others)
    plan = SlidePlan(
        slide,
        replace(spec, m=others, n=points),
        tuple(a for a in phase.batch if a.extent > 1),
        tuple(a for a in phase.inner if a.extent > 1),
        lambda value, ending: _statements(
            expressions, replace(phase, epilogue=tuple(ending)), value
        ),
        phase.epilogue,
        lies=spec.a_plain if slide.fixed is phase.left else spec.b_plain,
    )
    if decide("slide", worth_sliding(plan)):
        return Contraction(spec, slide=plan)
    plan = replace(plan, spec=replace(spec, m=points, n=others))
    return Contraction(spec, sums=plan if decide("sums", worth_summing(plan)) else None)


def _extent(axes: Sequence[Axis]) -> int:
    return math.prod(a.extent for a in axes)


def _coordinates(flat: str, axes: Sequence[Axis]) -> list[str]:
    """C declarations of a group's axes out of its flat position."""
    out: list[str] = []
    stride = 1
    real = [a for a in axes if a.extent > 1]
    for number, axis in reversed(list(enumerate(real))):
        text = f"({flat})" if stride == 1 else f"({flat}) / {stride}"
        if number > 0:
            text = f"({text}) % {axis.extent}"
        out.append(f"const lz_i64 {axis.name} = {text};")
        stride *= axis.extent
    return out[::-1]


def _loader(
    expressions: Expressions, value: Expr, groups: tuple[Sequence[Axis], ...]
) -> Callable[[str, str, str], tuple[list[str], str]]:
    """Statements and the value of an operand, given the flat positions of its three groups."""

    def load(first: str, second: str, third: str) -> tuple[list[str], str]:
        statements: list[str] = []
        for flat, axes in zip((first, second, third), groups, strict=True):
            statements += _coordinates(flat, axes)
        return statements, ct.text(expressions.value(value))

    return load


def _epilogue(
    expressions: Expressions, phase: ContractPhase
) -> Callable[[str, str, str, str], list[str]]:
    """Statements that take a finished sum at flat positions of batch, m and n."""

    def finish(batch: str, m: str, n: str, value: str) -> list[str]:
        lines: list[str] = []
        for flat, axes in ((batch, phase.batch), (m, phase.rows), (n, phase.columns)):
            lines += _coordinates(flat, axes)
        return lines + _statements(expressions, phase, value)

    return finish


def _statements(expressions: Expressions, phase: ContractPhase, value: str) -> list[str]:
    """The epilogue, where the axes have been declared."""
    lines = [f"const {compute_type(phase.accumulator)} {phase.name} = {value};"]
    for statement in phase.epilogue:
        if isinstance(statement, Let):
            kind = compute_type(statement.value.dtype)
            text = ct.text(expressions.value(statement.value))
            lines.append(f"const {kind} {statement.name} = {text};")
        else:
            assert isinstance(statement, Store)
            texts = map(ct.text, expressions.store(statement))
            lines += [t if t.endswith("}") else f"{t};" for t in texts]
    return lines
