"""Scans and scatters for thousands of threads, where any order gives the same bits.

One after the other, as elsewhere, they would be the work of one thread for each row. Integers may
be folded in any order: a scan goes by blocks, whose results are scanned in their turn, and updates
meet in memory, each in one piece (atomically). Of updates that replace, the last one counts: which
that is for an element is a maximum of numbers. Sums of floats have an order, and keep it.
"""

from __future__ import annotations

import math

from lazyt.codegen.lower.emitter import Buffers, Emitter
from lazyt.codegen.lower.heavy import COMBINES, copy_of_base
from lazyt.ir.arithmetic.folds import identity
from lazyt.ir.decisions import serves_all
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node
from lazyt.ir.index import (
    Axis,
    Guard,
    Guarded,
    Linear,
    Load,
    Position,
    Var,
    datum,
    delinearize,
    variable,
)
from lazyt.ir.kernel import AnyPhase, Phase, Reduce, Scan, Stage, Store, is_exact
from lazyt.ir.scalar import call, const

#: Steps from which a row is worth several launches, and rows from which each has a thread.
LONG, MANY = 2048, 4096
#: Steps of a block at least, and blocks at most, of which one thread scans the results.
BLOCK, BLOCKS = 256, 4096
#: Updates that memory makes in one piece, of 32 and 64 bits.
ATOMIC = ("add", "max", "min")
#: Steps for each thread at least that makes updates in order, and threads at most.
STEPS, THREADS = 16, 1 << 16
#: What folds two values of a scan.
FOLDS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}


def scans_in_blocks(node: Node) -> bool:
    """Whether a scan is cut into blocks."""
    steps = node.shape[node.params.axis]
    exact = is_exact(FOLDS[node.params.kind], node.dtype)
    return exact and steps >= LONG and node.size // steps < MANY and not serves_all()


def scan_in_blocks(node: Node, buffers: Buffers) -> list[Phase]:
    """The fold of each block, the scan of these, and that of each block from there on."""
    axis, kind, dtype = node.params.axis, node.params.kind, node.dtype
    extent = node.shape[axis]
    size = max(BLOCK, -(-extent // BLOCKS))
    blocks, step = Axis("q", -(-extent // size)), Axis("s", size)
    others = [Axis(f"i{n}", e) for n, e in enumerate(node.shape)]
    grid = (*others[:axis], blocks, *others[axis + 1 :])
    row = (*others[:axis], *others[axis + 1 :])
    here = variable(blocks) * size + variable(step)
    guard = Guard(here, 0, extent) if extent % size else None
    place = tuple(here if n == axis else variable(a) for n, a in enumerate(others))
    block = tuple(variable(a) for a in grid)
    shape = tuple(a.extent for a in grid)
    folded, before = buffers.scratch(dtype, shape), buffers.scratch(dtype, shape)

    emitter = Emitter(buffers, (), step, keep=False)
    emitter.stage = 1
    value = emitter.evaluate(node.inputs[0], place)
    emitter.place(Reduce("r0", kind, value, dtype), 0, True)
    ends = Stage(None, (Store(folded.name, block, Var("r0", dtype)),))
    stages = (*_straight(emitter), Stage(step, tuple(emitter.loops[1]), guard=guard), ends)
    phases = [Phase(grid, stages, "inner", 3.0 * size)]

    fold = Scan("running", kind, Load(folded.name, block, dtype), dtype)
    keep = Store(before.name, block, Var("running", dtype))
    phases.append(Phase(row, (Stage(blocks, (fold, keep), True),), "inner", 3.0 * blocks.extent))

    emitter = Emitter(buffers, (), step, keep=False)
    emitter.stage = 1
    value = emitter.evaluate(node.inputs[0], place)
    emitter.place(Scan("running", kind, value, dtype), 0, True)
    earlier = tuple(variable(a) - Linear((), 1) if a is blocks else variable(a) for a in grid)
    first = const(identity(kind, dtype).item(), dtype)
    so_far = Guarded(
        (Guard(variable(blocks), 1, blocks.extent),), Load(before.name, earlier, dtype), first
    )
    whole = call(FOLDS[kind], so_far, Var("running", dtype))
    emitter.place(Store(buffers.of(node).name, place, whole), 0, True)
    stages = (*_straight(emitter), Stage(step, tuple(emitter.loops[1]), True, guard))
    phases.append(Phase(grid, stages, "inner", 3.0 * size))
    return phases


def scatters_at_once(node: Node, in_place: bool) -> bool:
    """Whether the updates of a scatter are made at the same time. Those that replace few of many
    elements that are there are not: all of them would be looked at."""
    base, index, _ = node.inputs
    axis, kind, batch = node.params
    steps, extent = math.prod(index.shape[batch:]), base.shape[axis]
    few = kind == "set" and in_place and steps < extent // 4
    if few or steps < LONG or base.size // max(extent, 1) >= MANY or serves_all():
        return False
    return kind == "set" or (
        kind in ATOMIC and node.dtype.itemsize >= 4 and is_exact(COMBINES[kind], node.dtype)
    )


def shares_of(node: Node) -> int:
    """Among how many threads the elements of a row are shared whose updates have an order: each
    goes through all steps, most of which are not its own, and takes a fraction of the time."""
    base, index, _ = node.inputs
    axis, _, batch = node.params
    extent, steps = base.shape[axis], math.prod(index.shape[batch:])
    rows = base.size // max(extent, 1)
    most = min(extent, steps // STEPS, THREADS // max(rows, 1))
    return 1 << most.bit_length() - 1 if most > 1 and not serves_all() else 1


def scatter_at_once(node: Node, buffers: Buffers, in_place: bool) -> list[AnyPhase]:
    """Every update by a thread: those that replace find out first which is the last."""
    base, index, updates = node.inputs
    axis, kind, batch = node.params
    along, extent = index.shape[batch:], base.shape[axis]
    before = tuple(Axis(f"i{n}", e) for n, e in enumerate(base.shape[:axis]))
    after = tuple(Axis(f"j{n}", e) for n, e in enumerate(base.shape[axis + 1 :]))
    left, right = tuple(map(variable, before)), tuple(map(variable, after))
    steps, target = Axis("s", math.prod(along)), Axis("p", extent)
    where = delinearize(variable(steps), along)

    emitter = Emitter(buffers, (), None, keep=False)
    position = emitter.evaluate(index, (*left[:batch], *where))
    to = datum(emitter.index_name(index, position, extent), extent)
    if kind != "set":
        value = emitter.evaluate(updates, (*left, *where, *right))
        place = (*left, to, *right)
        emitter.place(Store(buffers.of(node).name, place, value, (), COMBINES[kind]), 0, False)
        copy = [] if in_place else [copy_of_base(node, base, buffers)]
        return [*copy, _at_points(emitter, (*before, steps, *after))]

    last = buffers.scratch(int64, (*base.shape[:batch], extent))
    rows, slot = before[:batch], (*left[:batch], variable(target))
    none = Store(last.name, slot, const(-1, int64))
    phases: list[AnyPhase] = [Phase((*rows, target), (Stage(None, (none,)),), "grid", 1.0)]
    number = Position(variable(steps), int64)
    emitter.place(Store(last.name, (*left[:batch], to), number, (), "maximum"), 0, False)
    phases.append(_at_points(emitter, (*rows, steps)))

    emitter = Emitter(buffers, (), None, keep=False)
    found = emitter.name(Load(last.name, slot, int64), 0, False)
    step = datum(emitter.index_name(index, found, steps.extent), steps.extent)
    value = emitter.evaluate(updates, (*left, *delinearize(step, along), *right))
    place, own = (*left, variable(target), *right), buffers.of(node).name
    old = Load(own, place, node.dtype) if in_place else emitter.evaluate(base, place)
    chosen = call("where", call("ge", found, const(0, int64)), value, old)
    emitter.place(Store(own, place, chosen), 0, False)
    phases.append(_at_points(emitter, (*before, target, *after)))
    return phases


def _at_points(emitter: Emitter, grid: tuple[Axis, ...]) -> Phase:
    """A phase without loops."""
    return Phase(grid, (Stage(None, tuple(emitter.straight[0])),), "grid", 4.0)


def _straight(emitter: Emitter) -> tuple[Stage, ...]:
    """What is the same at every step."""
    head = emitter.straight.get(0)
    return (Stage(None, tuple(head)),) if head else ()
