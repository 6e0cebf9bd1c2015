"""Results that fill the caches go past them.

A plain store reads its line from memory first, and by the time that anybody reads the results of a
large array they have left the caches. So loops along such results fill some lines on the stack, as
every loop that compilers vectorise does, and a function of the prelude stores them at once. Two
cores, results of 64 MB: sums and norms of rows take 0.77 to 0.87 of the time of loops that do not
ask for those lines (``codegen/c/prefetch.py``), and as long as loops that do. What a kernel reads
again is stored as always.

Two things decide whether that pays. Lines have to be stored whole: of rows that begin in the middle
of a line the first few elements go the usual way, and the rest line by line. And a thread must not
wait for its stores after every row, but only before it gives the work back: layer norm of 400 MB in
rows of 1000 takes 0.51 of the time on two cores with both (one core 0.47), 0.92 with the second
alone; in rows of 1024 the second gives 0.88.
"""

from __future__ import annotations

import math
from dataclasses import replace

from lazyt.codegen.c.prefetch import cost_of
from lazyt.codegen.plan.in_place import mapped
from lazyt.ir.index import Load, Var, axes_of, sub_expressions
from lazyt.ir.kernel import Buffer, Keep, Kernel, Phase, Stage, Statement, Store
from lazyt.ir.scalar import Expr

#: Multiply-adds of functions from which on a loop has instructions enough to be mixed, and does
#: not wait for lines of a result of less than the last cache: a GELU of 24 MB took 1.04 of the time
#: past the caches on one thread, as long on two.
MUCH = 16.0


def past_caches(kernel: Kernel, third: int) -> frozenset[str]:
    """Results that nothing in the kernel reads, stored once, and large beside the last cache, of
    ``third`` bytes, see ``large_results``; as large as it, where loops compute so much that lines
    are there in time."""
    large = large_results(kernel, third)
    stored: dict[str, int] = {}
    read: set[str] = set()
    busy: set[str] = set()
    for phase in kernel.phases:
        if not isinstance(phase, Phase):
            return frozenset()
        for stage in phase.stages:
            much = cost_of(stage) >= MUCH
            for statement in stage.body:
                if isinstance(statement, Store):
                    stored[statement.buffer] = stored.get(statement.buffer, 0) + 1
                    busy |= {statement.buffer} if much else set()
                items = sub_expressions(statement.value)
                read |= {x.buffer for x in items if isinstance(x, Load)}
    return frozenset(
        b.name
        for b in kernel.buffers
        if b.name in large and stored.get(b.name) == 1 and b.name not in read
        and not b.dtype.is_half
        and (b.name not in busy or math.prod(b.shape) * b.dtype.itemsize >= third)
    )  # fmt: skip


def large_results(kernel: Kernel, third: int) -> frozenset[str]:
    """Results of a quarter of the last cache, of ``third`` bytes, or more, where all that the
    kernel reads and writes is as large as it: whoever reads them next would find little of them."""
    sizes = {b.name: math.prod(b.shape) * b.dtype.itemsize for b in kernel.arguments}
    full = sum(sizes.values()) >= third
    outs = (b.name for b in kernel.arguments if b.role == "out")
    return frozenset(name for name in outs if full and 4 * sizes[name] >= third)


# What is stored in a result's memory for later is staged on the stack, where the result fills the
# caches.
#
# Exponentials of a softmax wait where their row's result will be (``codegen/lower/emitter.py``). Of
# a large result that reads its lines from memory first, for nothing; from the stack it is stored
# past the caches, as results are that nothing reads (``codegen/c/streaming_stores.py``). That pays
# while the row and what is staged fit the first-level cache: softmax of 64 MB on Zen 4, on one core
# and two, in rows of 1000 takes 0.92 and 0.88 of the time, of 2048 0.88 and 0.92, of 4096 0.97 and
# 0.92, of 8192 1.28 and 1.18.


def stage_on_stack(kernel: Kernel, first: int, third: int) -> Kernel:
    """The kernel, with what is stored for later in results that are large beside the last cache, of
    ``third`` bytes, staged on the stack instead; ``first``: bytes of the first-level cache."""
    if len(kernel.phases) != 1 or not isinstance(kernel.phases[0], Phase):
        return kernel
    phase = kernel.phases[0]
    large = large_results(kernel, third)
    for buffer in kernel.buffers:
        if buffer.name in large and phase.lanes == "inner":
            phase = _stage_result(phase, buffer, first // 2)
    return kernel if phase is kernel.phases[0] else replace(kernel, phases=(phase,))


def _stage_result(phase: Phase, buffer: Buffer, most: int) -> Phase:
    """The phase, with no more than ``most`` bytes on the stack where a loop stores a result that
    only a later loop reads, which stores it again."""
    places = [(n, s) for n, stage in enumerate(phase.stages) for s in _stores(stage, buffer.name)]
    if len(places) != 2:
        return phase
    (early, first_store), (late, result) = places
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
        or loads != {(late, first_store.index)}
        or first_store.index != result.index
        or any(s.guards or s.combine for s in (first_store, result))
        or any(stage.guard or stage.sequential for stage in (before, after))
        or not any(before.axis in axes_of(i) for i in first_store.index)
        or before.axis.extent * buffer.dtype.compute.itemsize > most
        or buffer.dtype is not first_store.value.dtype
    ):
        return phase
    staged = Var(f"waits_{buffer.name}", buffer.dtype)

    def leaf(item: Expr) -> Expr:
        return staged if isinstance(item, Load) and item.buffer == buffer.name else item

    def changed(statement: Statement) -> Statement:
        if statement is first_store:
            return Keep(staged.name, first_store.value)
        return replace(statement, value=mapped(statement.value, leaf))

    stages = list(phase.stages)
    for number in (early, late):
        stage = stages[number]
        stages[number] = replace(stage, body=tuple(changed(s) for s in stage.body))
    return replace(phase, stages=tuple(stages))


def _stores(stage: Stage, buffer: str) -> list[Store]:
    return [s for s in stage.body if isinstance(s, Store) and s.buffer == buffer]
