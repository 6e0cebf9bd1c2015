"""Axes of contractions: joins those that everything walks as one, splits those that are divided."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from lazyt.codegen.c.family import Expressions
from lazyt.codegen.conv.windows import at_axes, forms_of
from lazyt.codegen.lower.axes import divisors_of
from lazyt.codegen.matmul.spec import Place, Strides
from lazyt.ir.decisions import decide
from lazyt.ir.dtypes import DType
from lazyt.ir.index import (
    Axis,
    Guarded,
    Linear,
    Load,
    Position,
    Var,
    constant,
    delinearize,
    linearize,
    replace_axes,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import ContractPhase, Let, Statement, Store
from lazyt.ir.scalar import Expr

#: Axes of an operand: of the batch, of rows or columns, and of k.
Groups = tuple[tuple[Axis, ...], tuple[Axis, ...], tuple[Axis, ...]]
#: The shapes of buffers, by name.
Shapes = Mapping[str, tuple[int, ...]]


def merge_axes(phase: ContractPhase) -> ContractPhase:
    """The phase with neighbouring axes made one where all that it reads and writes allows it."""
    forms, table = _forms(phase), dict[Axis, Linear]()
    return _over(phase, [_merged(group, forms, table) for group in _groups(phase)], table)


def split_axes(phase: ContractPhase) -> ContractPhase:
    """The phase over axes that are split where anything that it reads or writes divides them: heads
    that were put side by side are read without divisions, in runs of one head's elements."""
    forms, table = _forms(phase), dict[Axis, Linear]()
    return _over(phase, [_split(group, forms, table) for group in _groups(phase)], table)


def spread_batches(phase: ContractPhase, shapes: Shapes, least: int) -> ContractPhase | None:
    """The phase with those axes of rows, or of columns, as batches along which an operand's
    elements do not lie side by side as they do along the rest, of ``least`` points or more:
    pictures whose points are rows. Each picture is a matrix then, and all are multiplied with the
    same one. None where there are none.
    """
    for number, (value, axes) in enumerate(
        ((phase.left, phase.rows), (phase.right, phase.columns))
    ):
        forms, side = in_memory(value, shapes), [a for a in axes if a.extent > 1]
        start = len(side) - 1
        while start > 0 and all(one_run(form, side[start - 1 :]) for form in forms):
            start -= 1
        beside = bool(side) and all(form.coefficient(side[-1]) == 1 for form in forms)
        if not beside or not isinstance(value, Load) or start == 0:
            continue
        if prod(a.extent for a in side[start:]) >= least:
            batch, rest = (*phase.batch, *side[:start]), tuple(side[start:])
            if number == 0:
                return replace(phase, batch=batch, rows=rest)
            return replace(phase, batch=batch, columns=rest)
    return None


def merge_groups(value: Expr, groups: Groups, shapes: Shapes) -> tuple[Expr, Groups]:
    """An expression over as few axes as make up each of some groups, and these axes; buffers have
    the given shapes."""
    forms, table = in_memory(value, shapes), dict[Axis, Linear]()
    batch, side, inner = (_merged(group, forms, table, parts=True) for group in groups)
    return (at_axes(value, table) if table else value), (batch, side, inner)


def over_results(phase: ContractPhase, shapes: Shapes) -> ContractPhase:
    """The phase over as few axes as its results are walked along; its operands are as they were."""
    forms, table = list[Linear](), dict[Axis, Linear]()
    for statement in phase.epilogue:
        if isinstance(statement, Store):
            forms += [linearize(statement.index, shapes[statement.buffer])]
            forms += [guard.index for guard in statement.guards]
        forms += in_memory(statement.value, shapes)
    batch, rows, columns = (
        _merged(group, forms, table, parts=True)
        for group in (phase.batch, phase.rows, phase.columns)
    )
    epilogue = tuple(_statement_at(s, table) for s in phase.epilogue)
    return replace(phase, batch=batch, rows=rows, columns=columns, epilogue=epilogue)


def in_memory(value: Expr, shapes: Shapes) -> list[Linear]:
    """Where an expression reads, and all other indices in it; buffers have the given shapes."""
    found: list[Linear] = []
    for item in sub_expressions(value):
        if isinstance(item, Load):
            found.append(linearize(item.index, shapes[item.buffer]))
        elif isinstance(item, Position):
            found.append(item.index)
        elif isinstance(item, Guarded):
            found += [guard.index for guard in item.guards]
    return found


def _groups(phase: ContractPhase) -> tuple[Sequence[Axis], ...]:
    return phase.batch, phase.rows, phase.columns, phase.inner


def _forms(phase: ContractPhase) -> list[Linear]:
    """All indices in a phase."""
    operands = [index for value in (phase.left, phase.right) for index in forms_of(value)]
    return operands + _forms_at(phase.epilogue)


def _forms_at(statements: Sequence[Statement]) -> list[Linear]:
    """All indices in statements."""
    found: list[Linear] = []
    for statement in statements:
        if isinstance(statement, Store):
            found += statement.index
        found += forms_of(statement.value)
    return found


def _over(
    phase: ContractPhase, groups: Sequence[tuple[Axis, ...]], table: Mapping[Axis, Linear]
) -> ContractPhase:
    """The phase over other axes, which ``table`` puts the old ones in terms of."""
    if not table:
        return phase
    batch, rows, columns, inner = groups
    return replace(
        phase,
        batch=batch,
        rows=rows,
        columns=columns,
        inner=inner,
        left=at_axes(phase.left, table),
        right=at_axes(phase.right, table),
        epilogue=tuple(_statement_at(s, table) for s in phase.epilogue),
    )


def _split(
    axes: Sequence[Axis], forms: Sequence[Linear], table: dict[Axis, Linear]
) -> tuple[Axis, ...]:
    """Axes, each split at what it is divided by; ``table`` gets what replaces them."""
    out: list[Axis] = []
    for axis in axes:
        cuts = [1]
        for divisor in sorted(divisors_of(axis, forms)):
            if divisor > cuts[-1] and divisor % cuts[-1] == 0 and axis.extent % divisor == 0:
                cuts.append(divisor)
        if axis.extent > cuts[-1]:
            cuts.append(axis.extent)
        if len(cuts) <= 2:
            out.append(axis)
            continue
        pieces = [
            (Axis(f"{axis.name}_{number}", end // start), start)
            for number, (start, end) in enumerate(itertools.pairwise(cuts))
        ]
        whole = constant(0)
        for piece, start in pieces:
            whole = whole + variable(piece) * start
        table[axis] = whole
        out += [piece for piece, _ in reversed(pieces)]
    return tuple(out)


def _statement_at(statement: Statement, table: Mapping[Axis, Linear]) -> Statement:
    assert isinstance(statement, Let | Store)
    value = at_axes(statement.value, table)
    if isinstance(statement, Let):
        return replace(statement, value=value)
    index = tuple(replace_axes(i, table) for i in statement.index)
    return replace(statement, index=index, value=value)


def merge_inner(value: Expr, axes: Sequence[Axis]) -> tuple[Expr, tuple[Axis, ...]]:
    """An expression over as few axes as make up the given ones, and these axes."""
    table: dict[Axis, Linear] = {}
    merged = _merged(axes, list(forms_of(value)), table)
    return (at_axes(value, table) if table else value), merged


def _merged(
    axes: Sequence[Axis], forms: Sequence[Linear], table: dict[Axis, Linear], parts: bool = False
) -> tuple[Axis, ...]:
    """Axes of more than one point, neighbours merged; ``table`` gets what replaces them: the last
    of neighbours counts for all, or each is its part of the whole with ``parts``."""
    out: list[list[Axis]] = []
    for axis in axes:
        if axis.extent == 1:
            continue
        as_one = bool(out) and all(one_run(form, [*out[-1], axis]) for form in forms)
        if decide("one axis", as_one) and as_one:
            out[-1].append(axis)
        else:
            out.append([axis])
    result: list[Axis] = []
    for run in out:
        last = run[-1]
        if len(run) > 1:
            last = Axis(f"{last.name}_", prod(a.extent for a in run))
            table |= dict.fromkeys(run, constant(0)) | {run[-1]: variable(last)}
            if parts:
                table |= dict(zip(run, delinearize(variable(last), [a.extent for a in run])))
        result.append(last)
    return tuple(result)


def one_run(form: Linear, axes: Sequence[Axis]) -> bool:
    """Whether an index depends on axes as on one that counts through all of them."""
    factors = [form.coefficient(a) for a in axes]
    if None in factors:
        return False
    want = factors[-1]
    for axis, factor in zip(reversed(axes), reversed(factors), strict=True):
        if factor != want:
            return False
        assert want is not None
        want *= axis.extent
    return True


# Where the operands and results of a contraction lie, and along which of its axes.


#: Elements from one step to the next up to which a row is put together before it is transposed.
_NEAR = 8


def operand_place(e: Expressions, dtype: DType, value: Expr, groups: Groups) -> Place | None:
    """Where an operand lies, if it is nothing but elements of ``dtype`` of a buffer, over its axes
    of the batch, along the panel and of k."""
    return _place_in(e, dtype, value, groups) if isinstance(value, Load) else None


def result_place(e: Expressions, phase: ContractPhase) -> Place | None:
    """Where sums go, if they are stored once and as they are, over the axes of the batch, of rows
    and of columns."""
    if len(phase.epilogue) != 1:
        return None
    (store,) = phase.epilogue
    if not isinstance(store, Store) or store.guards or store.combine is not None:
        return None
    if not isinstance(store.value, Var) or store.value.name != phase.name:
        return None
    groups = (phase.batch, phase.rows, phase.columns)
    return _place_in(e, phase.accumulator.compute, store, groups)


def _place_in(e: Expressions, dtype: DType, item: Load | Store, groups: Groups) -> Place | None:
    """Where elements of ``dtype`` of a buffer lie, over three groups of axes."""
    buffer = e.buffers[item.buffer]
    if buffer.dtype is not dtype or buffer.role == "band":
        return None
    flat = linearize(item.index, buffer.shape)
    strides = {a: flat.coefficient(a) or 0 for axes in groups for a in axes if a.extent > 1}
    if any(atom not in strides or factor < 0 for atom, factor in flat.terms):
        return None
    found: list[Strides] = []
    for axes in groups:
        places, divisor = [], 1
        for axis in reversed([a for a in axes if a.extent > 1]):
            places.append((divisor, axis.extent, strides[axis]))
            divisor *= axis.extent
        found.append(tuple(reversed(places)))
    return Place(item.buffer, flat.const - e.origins.get(buffer.name, 0), *found)


def unit_axis(value: Expr, e: Expressions, groups: dict[str, Sequence[Axis]]) -> str | None:
    """Along which group elements of the largest operand are neighbours in memory; along ``k``, a
    few others may lie between them."""
    best: tuple[int, int, str] | None = None
    for item in sub_expressions(value):
        if not isinstance(item, Load):
            continue
        buffer = e.buffers[item.buffer]
        flat = linearize(item.index, buffer.shape)
        for label, axes in groups.items():
            last = next((a for a in reversed(axes) if a.extent > 1), None)
            step = abs(flat.coefficient(last) or 0) if last is not None else 0
            near = _NEAR if label == "k" else 1
            if 0 < step <= near and (best is None or (math.prod(buffer.shape), -step) > best[:2]):
                best = (math.prod(buffer.shape), -step, label)
    return best[2] if best else None


def store_axis(phase: ContractPhase, e: Expressions) -> str:
    """``n`` unless the outputs are contiguous along the rows."""
    for statement in phase.epilogue:
        if isinstance(statement, Store):
            flat = linearize(statement.index, e.buffers[statement.buffer].shape)
            last = next((a for a in reversed(phase.columns) if a.extent > 1), None)
            rows = next((a for a in reversed(phase.rows) if a.extent > 1), None)
            if last is not None and flat.coefficient(last) == 1:
                return "n"
            if rows is not None and flat.coefficient(rows) == 1:
                return "m"
    return "n"
