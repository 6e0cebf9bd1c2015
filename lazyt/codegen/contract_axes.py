"""Axes of contractions: joins those that everything walks as one, splits those that are divided."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from lazyt.codegen.axes import divisors_of
from lazyt.codegen.slide import at_axes, forms_of
from lazyt.ir.index import Axis, Linear, constant, replace_axes, variable
from lazyt.ir.kernel import ContractPhase, Let, Statement, Store
from lazyt.ir.scalar import Expr

#: Axes of an operand: of the batch, of rows or columns, and of k.
Groups = tuple[tuple[Axis, ...], tuple[Axis, ...], tuple[Axis, ...]]


def merge_axes(phase: ContractPhase) -> ContractPhase:
    """The phase with neighbouring axes made one where all that it reads and writes allows it."""
    forms, table = _forms(phase), dict[Axis, Linear]()
    return _over(phase, [_merged(group, forms, table) for group in _groups(phase)], table)


def split_axes(phase: ContractPhase) -> ContractPhase:
    """The phase over axes that are split where anything that it reads or writes divides them: heads
    that were put side by side are read without divisions, in runs of one head's elements."""
    forms, table = _forms(phase), dict[Axis, Linear]()
    return _over(phase, [_split(group, forms, table) for group in _groups(phase)], table)


def merge_groups(value: Expr, groups: Groups) -> tuple[Expr, Groups]:
    """An expression over as few axes as make up each of some groups, and these axes."""
    forms, table = list(forms_of(value)), dict[Axis, Linear]()
    batch, side, inner = (_merged(group, forms, table) for group in groups)
    return (at_axes(value, table) if table else value), (batch, side, inner)


def over_results(phase: ContractPhase) -> ContractPhase:
    """The phase over as few axes as its results are walked along; its operands are as they were."""
    forms, table = _forms_at(phase.epilogue), dict[Axis, Linear]()
    batch, rows, columns = (
        _merged(group, forms, table) for group in (phase.batch, phase.rows, phase.columns)
    )
    epilogue = tuple(_statement_at(s, table) for s in phase.epilogue)
    return replace(phase, batch=batch, rows=rows, columns=columns, epilogue=epilogue)


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
    axes: Sequence[Axis], forms: Sequence[Linear], table: dict[Axis, Linear]
) -> tuple[Axis, ...]:
    """Axes of more than one point, neighbours merged; ``table`` gets what replaces them."""
    out: list[list[Axis]] = []
    for axis in axes:
        if axis.extent == 1:
            continue
        if out and all(_one_run(form, [*out[-1], axis]) for form in forms):
            out[-1].append(axis)
        else:
            out.append([axis])
    result: list[Axis] = []
    for run in out:
        last = run[-1]
        if len(run) > 1:
            last = Axis(f"{last.name}_", prod(a.extent for a in run))
            table |= dict.fromkeys(run, constant(0)) | {run[-1]: variable(last)}
        result.append(last)
    return tuple(result)


def _one_run(form: Linear, axes: Sequence[Axis]) -> bool:
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
