"""What waits in a result's memory waits on the stack instead, where the result fills the caches.

Exponentials of a softmax wait where their row's result will be (``emitter.py``). Of a large result
that reads its lines from memory first, for nothing; from the stack it is stored past the caches, as
results are that nothing reads (``c_stream.py``). That pays while the row and what waits fit the
first-level cache: softmax of 64 MB on Zen 4, on one core and two, in rows of 1000 takes 0.92 and
0.88 of the time, of 2048 0.88 and 0.92, of 4096 0.97 and 0.92, of 8192 1.28 and 1.18.
"""

from __future__ import annotations

from dataclasses import replace

from lazyt.codegen.c_stream import large_results
from lazyt.codegen.in_place import mapped
from lazyt.ir.index import axes_of
from lazyt.ir.kernel import Buffer, Keep, Kernel, Phase, Stage, Statement, Store
from lazyt.ir.point import Load, Var, sub_expressions
from lazyt.ir.scalar import Expr


def wait_on_stack(kernel: Kernel, first: int, third: int) -> Kernel:
    """The kernel, with what waits in results that are large beside the last cache, of ``third``
    bytes, kept by the loop that computes it; ``first``: bytes of the first-level cache."""
    if len(kernel.phases) != 1 or not isinstance(kernel.phases[0], Phase):
        return kernel
    phase = kernel.phases[0]
    large = large_results(kernel, third)
    for buffer in kernel.buffers:
        if buffer.name in large and phase.lanes == "inner":
            phase = _apart(phase, buffer, first // 2)
    return kernel if phase is kernel.phases[0] else replace(kernel, phases=(phase,))


def _apart(phase: Phase, buffer: Buffer, most: int) -> Phase:
    """The phase, with no more than ``most`` bytes on the stack where a loop stores a result that
    only a later loop reads, which stores it again."""
    places = [(n, s) for n, stage in enumerate(phase.stages) for s in _stores(stage, buffer.name)]
    if len(places) != 2:
        return phase
    (early, waits), (late, result) = places
    before, after = phase.stages[early], phase.stages[late]
    loads = {
        (number, item.index)
        for number, stage in enumerate(phase.stages)
        for statement in stage.body
        for item in sub_expressions(statement.value)
        if isinstance(item, Load) and item.buffer == buffer.name
    }
    if (
        before.axis is None
        or before.axis != after.axis
        or early == late
        or loads != {(late, waits.index)}
        or waits.index != result.index
        or any(s.guards or s.combine for s in (waits, result))
        or any(stage.guard or stage.sequential for stage in (before, after))
        or not any(before.axis in axes_of(i) for i in waits.index)
        or before.axis.extent * buffer.dtype.compute.itemsize > most
        or buffer.dtype is not waits.value.dtype
    ):
        return phase
    kept = Var(f"waits_{buffer.name}", buffer.dtype)

    def leaf(item: Expr) -> Expr:
        return kept if isinstance(item, Load) and item.buffer == buffer.name else item

    def changed(statement: Statement) -> Statement:
        if statement is waits:
            return Keep(kept.name, waits.value)
        return replace(statement, value=mapped(statement.value, leaf))

    stages = list(phase.stages)
    for number in (early, late):
        stage = stages[number]
        stages[number] = replace(stage, body=tuple(changed(s) for s in stage.body))
    return replace(phase, stages=tuple(stages))


def _stores(stage: Stage, buffer: str) -> list[Store]:
    return [s for s in stage.body if isinstance(s, Store) and s.buffer == buffer]
