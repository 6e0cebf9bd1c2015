"""Kernels that walk all their buffers from one end to the other, in a form free of shapes.

An element-wise kernel over contiguous values does the same to element i of each, whatever the
shape: it is a map over one axis, and maps over values of different sizes are one program. So is
the reduction of a whole value. ``flatten`` finds out whether a kernel is of this kind; ``unite``
makes the kernel that serves many of them, with their extents as its segments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lazyt.ir.index import (
    Axis,
    Guarded,
    Linear,
    Load,
    Position,
    constant,
    linearize,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import Buffer, Kernel, Let, Phase, Reduce, Stage, Statement, Store
from lazyt.ir.printer import print_kernel
from lazyt.ir.scalar import Call, Expr, call

#: What the only axis of a flat kernel is called.
AXIS = "i"


@dataclass(frozen=True)
class Flat:
    """A flat kernel.

    Attributes:
        kernel: what was flattened, or another of the same program.
        extent: how many elements are to be computed.
        origins: for every buffer, the number of the first element that is used.
        key: its program with all accesses at the first element; equal for equal programs.
        forms: how positions in it grow from element to element (0: not at all), buffers first, in
            order, then positions used as values. Empty when there is one element only, which fits
            every form.
    """

    kernel: Kernel
    extent: int
    origins: tuple[int, ...]
    key: str
    forms: tuple[int, ...]

    @property
    def flops(self) -> float:
        """Operations on ``extent`` elements."""
        form, flops = _form(self.kernel), self.kernel.notes["flops"]
        assert form is not None and isinstance(flops, float)
        return flops / form.extent * self.extent


class _Form:
    """A kernel of the kind that can be flat.

    Attributes:
        stages: its stages: one that runs for every point, or a loop that reduces and one that runs
            once behind it.
        folds: whether there is a loop.
        extent: the points, or the steps of the loop.
        flat: the number of the current one.
        last: the innermost axis that has several values, if any.
    """

    def __init__(self, stages: tuple[Stage, ...], grid: Sequence[Axis]) -> None:
        self.stages = stages
        self.folds = len(stages) == 2
        axes = [a for a in (*grid, *(s.axis for s in stages)) if a is not None and a.extent > 1]
        self.extent = math.prod(a.extent for a in axes)
        self.last = axes[-1] if axes else None
        self.flat = linearize([variable(a) for a in axes], [a.extent for a in axes])

    def growth(self, index: Linear) -> tuple[int, int] | None:
        """(first, step) where ``index`` is ``first + step * flat``, else None."""
        step = 0
        if self.last is not None:
            factor = index.coefficient(self.last)
            if factor is None:
                return None
            step = factor
        rest = index - self.flat * step
        return None if rest.terms else (rest.const, step)


def _form(kernel: Kernel) -> _Form | None:
    """What a kernel looks like when it can be flat: one phase without conditions, that computes
    element by element or reduces everything at once."""
    phase = kernel.phases[0]
    if len(kernel.phases) != 1 or not isinstance(phase, Phase):
        return None
    if any(b.role not in ("in", "out") for b in kernel.buffers):
        return None
    loop, *rest = phase.stages
    if loop.axis is None:
        allowed: list[tuple[type, ...]] = [(Let, Store)]
    elif math.prod(a.extent for a in phase.grid) == 1 and not loop.sequential and not loop.guard:
        allowed = [(Let, Store, Reduce), (Let, Store)]
    else:
        return None
    if len(phase.stages) != len(allowed) or any(stage.axis is not None for stage in rest):
        return None
    for stage, kinds in zip(phase.stages, allowed, strict=True):
        for item in stage.body:
            if not isinstance(item, kinds) or (
                isinstance(item, Store) and (item.guards or item.combine is not None)
            ):
                return None
            if isinstance(item, Reduce) and item.kind in ("argmax", "argmin"):
                return None
    return _Form(phase.stages, phase.grid)


def flatten(kernel: Kernel) -> Flat | None:
    """The kernel as a flat one, or None where it is none.

    It is when in every buffer it is either always at the element that has the number of the point
    (counted from some origin), or always at the same few.
    """
    form = _form(kernel)
    found = _accesses(kernel, form) if form is not None else None
    if form is None or found is None:
        return None
    accesses, positions = found
    everywhere = {item.buffer for item in form.stages[0].body if isinstance(item, Store)}
    origins: list[int] = []
    forms: list[int] = []
    for buffer in kernel.buffers:
        places = accesses[buffer.name]
        steps = {step for _, step in places}
        if len(steps) != 1 or steps - {0, 1} or (1 in steps and len(places) > 1):
            return None
        if buffer.name in everywhere and form.extent > 1 and steps != {1}:
            return None
        origins.append(min(first for first, _ in places))
        forms += steps
    forms += positions
    key = print_kernel(_rewritten(kernel, form, origins, (), 1))
    return Flat(kernel, form.extent, tuple(origins), key, tuple(forms) if form.last else ())


Accesses = dict[str, set[tuple[int, int]]]


def _accesses(kernel: Kernel, form: _Form) -> tuple[Accesses, list[int]] | None:
    """(first, step) of all accesses by buffer, and the steps of positions; None if one is odd."""
    shapes = {b.name: b.shape for b in kernel.buffers}
    found: Accesses = {b.name: set() for b in kernel.buffers}
    positions: list[int] = []
    for statement in (s for stage in form.stages for s in stage.body):
        if isinstance(statement, Store):
            growth = form.growth(linearize(statement.index, shapes[statement.buffer]))
            if growth is None:
                return None
            found[statement.buffer].add(growth)
        for item in sub_expressions(statement.value):
            if isinstance(item, Guarded):
                return None
            if isinstance(item, Load):
                growth = form.growth(linearize(item.index, shapes[item.buffer]))
                if growth is None:
                    return None
                found[item.buffer].add(growth)
            elif isinstance(item, Position):
                growth = form.growth(item.index)
                if growth is None:
                    return None
                positions.append(growth[1])
    return found, positions


def unite(flats: Sequence[Flat]) -> Kernel:
    """One kernel for flat kernels of one key and matching forms: their extents are its segments."""
    first = max(flats, key=lambda f: f.extent)
    form = _form(first.kernel)
    assert form is not None
    made = _rewritten(first.kernel, form, first.origins, first.forms, first.extent)
    return replace(made, segments=tuple(f.extent for f in flats))


def split_segments(kernel: Kernel) -> list[Kernel]:
    """A kernel with segments as plain ones, one for each extent: for targets without such launches.
    Any other kernel as it is."""
    if not kernel.segments:
        return [kernel]
    plain = replace(kernel, segments=())
    flat, form = flatten(plain), _form(plain)
    assert flat is not None and form is not None
    return [
        replace(
            _rewritten(plain, form, flat.origins, flat.forms, extent),
            name=f"{kernel.name}_{extent}",
        )
        for extent in sorted(set(kernel.segments))
    ]


def _rewritten(
    kernel: Kernel, form: _Form, origins: Sequence[int], forms: Sequence[int], extent: int
) -> Kernel:
    """The kernel over one axis of ``extent`` points, its buffers cut down to what it uses."""
    axis = Axis(AXIS, extent)
    here = variable(axis)
    at = {b.name: n for n, b in enumerate(kernel.buffers)}
    shapes = {b.name: b.shape for b in kernel.buffers}
    reach = dict.fromkeys(at, 1)

    def place(buffer: str, index: Sequence[Linear]) -> tuple[Linear, ...]:
        growth = form.growth(linearize(index, shapes[buffer]))
        assert growth is not None
        number = at[buffer]
        if forms and forms[number]:
            reach[buffer] = extent
            return (here,)
        first = growth[0] - origins[number]
        reach[buffer] = max(reach[buffer], first + 1)
        return (constant(first),)

    def leaf(item: Expr) -> Expr:
        if isinstance(item, Load):
            return Load(item.buffer, place(item.buffer, item.index), item.dtype)
        if isinstance(item, Position):
            growth = form.growth(item.index)
            assert growth is not None
            return Position(here * growth[1] + growth[0], item.dtype)
        return item

    def statement(item: Statement) -> Statement:
        if isinstance(item, Store):
            return replace(
                item, index=place(item.buffer, item.index), value=_mapped(item.value, leaf)
            )
        return replace(item, value=_mapped(item.value, leaf))

    bodies = [tuple(statement(item) for item in stage.body) for stage in form.stages]
    work = float(len(bodies[0]))
    if form.folds:
        stages = (Stage(axis, bodies[0]), Stage(None, bodies[1]))
        whole = Phase((), stages, "inner", work)
    else:
        whole = Phase((axis,), (Stage(None, bodies[0]),), "grid", work)
    buffers = tuple(Buffer(b.name, b.dtype, (reach[b.name],), b.role) for b in kernel.buffers)
    return Kernel(kernel.name, buffers, (whole,), kernel.notes)


def _mapped(root: Expr, leaf: Callable[[Expr], Expr]) -> Expr:
    """``root`` with every leaf replaced; iterative."""
    done: dict[int, Expr] = {}
    for item in sub_expressions(root):
        if isinstance(item, Call):
            operands = [done[id(a)] for a in item.args]
            done[id(item)] = call(item.fn, *operands, dtype=item.dtype)
        else:
            done[id(item)] = leaf(item)
    return done[id(root)]
