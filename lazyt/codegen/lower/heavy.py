"""Lowers contractions, scatters, slice updates and scans with what is fused into them."""

from __future__ import annotations

import math

from lazyt.codegen.lower.emitter import Buffers, Emitter
from lazyt.ir.dtypes import int64, running_dtype
from lazyt.ir.graph import Node
from lazyt.ir.group import Group
from lazyt.ir.index import Axis, Guard, Linear, datum, delinearize, variable
from lazyt.ir.kernel import ContractPhase, Phase, Scan, Stage, Store
from lazyt.ir.scalar import call, const

COMBINES = {"set": None, "add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}


def lower_contract(group: Group, buffers: Buffers, exchanged: bool = False) -> list[ContractPhase]:
    """A contraction with its operands' expressions and its epilogue; ``exchanged``: the right
    operand's axes are the rows."""
    node = group.head
    assert node is not None
    params = node.params
    part = group.parts[0]
    labels = {label: part.axes[n] for n, label in enumerate(params.out)}
    inner: list[Axis] = []
    for position, label in enumerate(params.left):
        if label not in labels:
            labels[label] = Axis(f"k{len(inner)}", node.inputs[0].shape[position])
            inner.append(labels[label])
    both = set(params.left) & set(params.right)
    out = [labels[x] for x in params.out]
    batch = tuple(labels[x] for x in params.out if x in both)
    rows = tuple(labels[x] for x in params.out if x not in both and x in params.left)
    columns = tuple(labels[x] for x in params.out if x in set(params.right) - both)
    operands = []
    for item, names in zip(node.inputs, (params.left, params.right), strict=True):
        emitter = Emitter(buffers, (), None, keep=False)
        index = tuple(variable(labels[x]) for x in names)
        operands.append(emitter.evaluate(item, index, guarded=True))
    emitter = Emitter(buffers, group.members, None, keep=False)
    sum_name = "acc"
    place = tuple(variable(a) for a in out)
    emitter.define(node, sum_name, place, 0)
    _store(emitter, buffers, node, place)
    for member, extent in part.outputs:
        where = part.place(member.shape, extent)
        _store(emitter, buffers, member, where)
    if exchanged:  # a product of two numbers does not depend on their order
        rows, columns = columns, rows
        operands.reverse()
    phase = ContractPhase(
        batch,
        rows,
        columns,
        tuple(inner),
        operands[0],
        operands[1],
        sum_name,
        node.dtype,
        tuple(emitter.straight.get(0, ())),
    )
    return [phase]


def _store(emitter: Emitter, buffers: Buffers, node: Node, place: tuple[Linear, ...]) -> None:
    value = emitter.evaluate(node, place)
    if node in buffers.stored or node in buffers.known:
        emitter.place(Store(buffers.of(node).name, place, value), 0, False)


def copy_of_base(node: Node, base: Node, buffers: Buffers) -> Phase:
    """Fills the result with the base that is to be changed."""
    emitter = Emitter(buffers, (), None, keep=False)
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(node.shape))
    place = tuple(variable(a) for a in axes)
    value = emitter.evaluate(base, place)
    emitter.place(Store(buffers.of(node).name, place, value), 0, False)
    return Phase(axes, (Stage(None, tuple(emitter.straight[0])),), "grid", 2.0)


def lower_update(group: Group, buffers: Buffers, in_place: bool) -> list[Phase]:
    """A slice assignment: copy the base unless it may be overwritten, then store the slice."""
    node = group.head
    assert node is not None
    base, value = node.inputs
    phases = [] if in_place else [copy_of_base(node, base, buffers)]
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(value.shape))
    emitter = Emitter(buffers, (), None, keep=False)
    written = emitter.evaluate(value, tuple(variable(a) for a in axes))
    place = tuple(
        variable(a) * step + start
        for a, start, step in zip(axes, node.params.starts, node.params.steps, strict=True)
    )
    emitter.place(Store(buffers.of(node).name, place, written), 0, False)
    if value.size:
        phases.append(Phase(axes, (Stage(None, tuple(emitter.straight[0])),), "grid", 2.0))
    return phases


def lower_scatter(group: Group, buffers: Buffers, in_place: bool, shares: int = 1) -> list[Phase]:
    """Copy of the base, then all updates of a row in order; other axes run in parallel.

    With ``shares``, so many points go through the steps of each row, and each makes the updates of
    every so many-th element.
    """
    node = group.head
    assert node is not None
    base, index, updates = node.inputs
    axis, kind, batch = node.params
    phases = [] if in_place else [copy_of_base(node, base, buffers)]
    if updates.size == 0:
        return phases
    before = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(base.shape[:axis]))
    after = tuple(Axis(f"j{n}", extent) for n, extent in enumerate(base.shape[axis + 1 :]))
    along = index.shape[batch:]
    steps = Axis("s", math.prod(along))
    where = delinearize(variable(steps), along)
    left = tuple(variable(a) for a in before)
    right = tuple(variable(a) for a in after)
    emitter = Emitter(buffers, (), steps, keep=False)
    emitter.stage = 1
    for scan in group.members:
        if scan is not node:
            _fold_along(emitter, scan, where)
    position = emitter.evaluate(index, (*left[:batch], *where))
    extent = base.shape[axis]
    wide = call("minimum", call("cast", position, dtype=int64), const(max(extent - 1, 0), int64))
    name = emitter.name(call("maximum", wide, const(0, int64)), 0, True).name
    value = emitter.evaluate(updates, (*left, *where, *right))
    to, share = datum(name, extent), Axis("k", shares)
    guards = (Guard(to % shares - variable(share), 0, 1),) if shares > 1 else ()
    target = (*left, to, *right)
    emitter.place(Store(buffers.of(node).name, target, value, guards, COMBINES[kind]), 0, True)
    head = emitter.straight.get(0)
    stages = [Stage(None, tuple(head))] if head else []
    stages.append(Stage(steps, tuple(emitter.loops[1]), sequential=True))
    size = 1
    for item in after:
        size *= item.extent
    lanes = "grid" if size > 1 else "inner"
    grid = (*before, share, *after) if shares > 1 else (*before, *after)
    phases.append(Phase(grid, tuple(stages), lanes, 4.0 * steps.extent))
    return phases


def _fold_along(emitter: Emitter, node: Node, place: tuple[Linear, ...]) -> None:
    """The statements of a scan at ``place``, one step of the emitter's loop."""
    source, kind = node.inputs[0], node.params.kind
    dtype = running_dtype(kind, node.dtype)
    value = call("cast", emitter.evaluate(source, place), dtype=dtype)
    emitter.place(Scan("running", kind, value, dtype), 0, True)
    found = call("cast", emitter.define_running("running", dtype), dtype=node.dtype)
    emitter.folded[node] = found, place
    if node in emitter.buffers.stored:
        emitter.place(Store(emitter.buffers.of(node).name, place, found), 0, True)


def lower_scan(group: Group, buffers: Buffers) -> list[Phase]:
    """A running fold along one axis; the other axes run in parallel."""
    node = group.head
    assert node is not None
    axis = node.params.axis
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(node.shape))
    inner = axes[axis]
    emitter = Emitter(buffers, (), inner, keep=False)
    emitter.stage = 1
    place = tuple(variable(a) for a in axes)
    _fold_along(emitter, node, place)
    head = emitter.straight.get(0)
    stages = [Stage(None, tuple(head))] if head else []
    stages.append(Stage(inner, tuple(emitter.loops[1]), sequential=True))
    rows = axes[:axis] + axes[axis + 1 :]
    after = 1
    for item in axes[axis + 1 :]:
        after *= item.extent
    lanes = "grid" if after >= 4 else "inner"
    return [Phase(rows, tuple(stages), lanes, 3.0 * inner.extent)]
