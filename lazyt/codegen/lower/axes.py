"""Axes of kernels: splits the one that is vectorised where its indices are divided, joins others.

A value that was reshaped or put together from parts is read at ``i / 64`` and ``i % 64``, and
tested with ``i / 256 < 1``: divisions for every element, and conditions that a vector cannot share.
Over axes of extents 3, 4 and 64 the same indices have no divisions, and the conditions hold for a
whole run of the last axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lazyt.codegen.lower.emitter import indices_of
from lazyt.ir.decisions import decide
from lazyt.ir.group import Part
from lazyt.ir.index import Axis, Linear, Quotient, Remainder, variable
from lazyt.ir.kernel import Phase

#: Shortest run that is left to vectorise.
LEAST_RUN = 16


def split_last(part: Part, phases: Sequence[Phase]) -> Part:
    """``part`` over a last axis split at what its indices are divided by; itself where it is not,
    where a rest would remain, or where the lanes are not on that axis."""
    rows = part.rows
    if not rows or any(phase.lanes != "grid" for phase in phases):
        return part
    last = rows[-1]
    cuts = [1]
    for divisor in sorted(_divisors(last, phases)):
        if divisor % cuts[-1] or last.extent % divisor:
            continue
        if decide("a run", divisor >= LEAST_RUN):
            cuts.append(divisor)
    if len(cuts) == 1:
        return part
    ends = [*cuts[1:], last.extent]
    pieces = [
        Axis(f"{last.name}_{number}", end // start)
        for number, (start, end) in enumerate(zip(cuts, ends, strict=True))
        if end > start
    ]
    place = part.axes.index(last)
    axes = (*part.axes[:place], *reversed(pieces), *part.axes[place + 1 :])
    inner = part.inner
    if inner is not None and inner > place:
        inner += len(pieces) - 1
    return Part(axes, inner, part.reduces, part.outputs)


def _divisors(axis: Axis, phases: Sequence[Phase]) -> set[int]:
    """What the axis alone is divided by, in all indices and conditions."""
    bodies = (s for phase in phases for stage in phase.stages for s in stage.body)
    return divisors_of(axis, [i for s in bodies for _, index in indices_of(s) for i in index])


def divisors_of(axis: Axis, indices: Iterable[Linear]) -> set[int]:
    """What the axis alone is divided by in indices."""
    alone = ((axis, 1),)
    return {d for v, d in divided_along(axis, indices) if v.terms == alone and v.const == 0}


def divided_along(axis: Axis, indices: Iterable[Linear]) -> set[tuple[Linear, int]]:
    """What indices divide that grows by one along the axis, and by what."""
    found: set[tuple[Linear, int]] = set()
    work = [*indices]
    while work:
        for atom, _ in work.pop().terms:
            if isinstance(atom, Quotient | Remainder):
                if atom.value.coefficient(axis) == 1:
                    found.add((atom.value, atom.divisor))
                work.append(atom.value)
    return found


def walk_as_one(first: Axis, second: Axis, accesses: Sequence[Linear]) -> bool:
    """Whether all accesses walk two neighbouring axes as one."""
    for access in accesses:
        outer, inner = access.coefficient(first), access.coefficient(second)
        if outer is None or inner is None or outer != inner * second.extent:
            return False
    return True


def split_joined(first: Axis, second: Axis, joined: Axis) -> dict[Axis, Linear]:
    """Two axes as parts of the one that they are joined to."""
    whole = variable(joined)
    return {first: whole // second.extent, second: whole % second.extent}
