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
from collections.abc import Callable, Mapping
from dataclasses import replace

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import c_type
from lazyt.codegen.c.loops import Trees
from lazyt.codegen.c.prefetch import LINE, AheadPhase, cost_of
from lazyt.codegen.plan.in_place import mapped
from lazyt.ir.index import Axis, Load, Var, axes_of, data_of, linearize, sub_expressions, variable
from lazyt.ir.kernel import Buffer, Keep, Kernel, Let, Phase, Stage, Statement, Store
from lazyt.ir.scalar import Expr

#: Elements that are stored at once; shorter and longer runs were slower by a few percent. Where
#: instructions are ordered early (``LZ_ORDERED``), two vectors: of more, gcc has no overview.
RUN, ORDERED_RUN = 64, 32
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


class StreamPhase(AheadPhase):
    """A phase whose loops may store past the caches.

    Attributes:
        waits: whether one does, so that a thread has to wait for its stores.
    """

    waits = False

    def _parallel(self, variable: str, count: int, body: Trees, work: float) -> Trees:
        if not self.waits:
            return super()._parallel(variable, count, body, work)
        wait = self.e.prelude("lz_stream_end")
        clause, turn = self._turns_of_threads(count, work)
        if count == 1 or not clause:
            return [*super()._parallel(variable, count, body, work), wait]
        if turn > 1:
            step, last = ct.name(variable), ct.integer(turn - 1)
            ends = ct.binary("==", ct.binary("%", step, ct.integer(turn)), last)
            ends = ct.binary("||", ends, ct.binary("==", step, ct.integer(count - 1)))
            wait = ct.branch(ends, [wait])
        return super()._parallel(variable, count, [*body, wait], work)

    def _straight(self, stage: Stage) -> Trees:
        shared = any(isinstance(s, Let) and s.name in self.shared for s in stage.body)
        if not self.vector or shared or not self._streamed(stage, self.phase.grid[-1]):
            return super()._straight(stage)
        return self._runs_of_points(stage)

    def _points_of_step(self, stage: Stage, axis: Axis) -> Trees:
        plain = all(isinstance(s, Let | Store) for s in stage.body)
        if not plain or stage.guard or not self._streamed(stage, self.phase.grid[-1]):
            return super()._points_of_step(stage, axis)
        return self._runs_of_points(stage)

    def _runs_of_points(self, stage: Stage) -> Trees:
        """The stage for the points of a tile, which lie along the grid's last axis."""
        axis = self.phase.grid[-1]

        def at(place: ct.Node) -> Trees:
            here = place if self.first is None else ct.binary("+", self.first, place)
            return [ct.declare("lz_i64", axis.name, here, const=True)] if axis.extent > 1 else []

        return self._in_runs(stage, axis, "u", self.run, at)

    def _plain(self, stage: Stage, axis: Axis) -> Trees:
        plain = all(isinstance(s, Let | Store) for s in stage.body)
        whole = not (self.vector or stage.sequential or stage.guard or axis in self.e.ends)
        if not (plain and whole and self._streamed(stage, axis)):
            return super()._plain(stage, axis)
        count = ct.integer(axis.extent)
        return self._in_runs(stage, axis, axis.name, count, lambda place: [])

    def _streamed(self, stage: Stage, axis: Axis) -> Mapping[str, str]:
        """The arrays in which results wait that a stage stores one behind the other."""
        found: dict[str, str] = {}
        for statement in stage.body:
            if not isinstance(statement, Store) or statement.buffer not in self.e.streamed:
                continue
            place = linearize(statement.index, self.e.buffers[statement.buffer].shape)
            plain = not statement.guards and statement.combine is None and not data_of(place)
            if plain and place.coefficient(axis) == 1:
                found[statement.buffer] = f"out{len(found)}"
        return found

    def _in_runs(
        self, stage: Stage, axis: Axis, name: str, count: ct.Node, at: Callable[[ct.Node], Trees]
    ) -> Trees:
        """The stage for ``count`` points ``name``, some of them at a time; ``at`` declares what
        depends on the point."""
        self.waits = True
        waiting = self._streamed(stage, axis)
        least = min(self.e.buffers[name].dtype.itemsize for name in waiting)
        run = ORDERED_RUN if self.e.ordered and least >= 4 else RUN  # whole lines
        begin, lead = ct.integer(0), Trees()
        ahead = self._to_whole_line(stage, axis, LINE // least)
        if ahead is not None:
            run, begin = LINE // least, ct.name("lead")
            lead.append(ct.declare("lz_i64", "lead", ct.minimum(ahead, count), const=True))
        group, lane = ct.name("g"), ct.name("v")
        here = [ct.declare(self.integer, name, ct.binary("+", group, lane), const=True)]
        body: Trees = []
        before: Trees = []
        after: Trees = []
        for statement in stage.body:
            array = waiting.get(statement.buffer) if isinstance(statement, Store) else None
            if array is None:
                body += self._simple(statement)
                continue
            assert isinstance(statement, Store)
            buffer = self.e.buffers[statement.buffer]
            (stored,) = self.e.store(statement)
            body.append(ct.assign(ct.element(array, lane), stored.rvalue))
            before.append(self.array(c_type(buffer.dtype), array, (run,)))
            place = self.e.place(buffer, linearize(statement.index, buffer.shape))
            to = ct.binary("+", ct.name(buffer.name), place)
            function = f"lz_stream_{buffer.dtype.suffix}"
            given = self.e.prelude(function, ct.integer(run), ct.name(array), to)
            first = ct.declare(self.integer, name, group, const=True)
            after.append(ct.block([first, *at(ct.name(name)), given]))
        steps = ct.loop("v", ct.integer(0), ct.integer(run), [*here, *at(ct.name(name)), *body])
        whole = ct.binary("-", count, ct.integer(run - 1))
        asked = self._ask_all(stage, axis, "g", run)
        turn = [*asked, *before, *self._simd(steps), *after]
        out: Trees = [ct.loop("g", begin, whole, turn, step=run)]
        known = ct.fixed(count)
        if not lead and known is not None and known % run == 0:
            return out
        plain = [*at(ct.name(name)), *(t for s in stage.body for t in self._simple(s))]
        if not lead:
            begin = ct.binary("*", ct.binary("/", count, ct.integer(run)), ct.integer(run))
            return [*out, *self._simd(ct.loop(name, begin, count, plain))]
        lead += self._simd(ct.loop(name, ct.integer(0), begin, plain))
        left = ct.binary("-", count, begin)
        runs = ct.binary("*", ct.binary("/", left, ct.integer(run)), ct.integer(run))
        rest = self._simd(ct.loop(name, ct.binary("+", begin, runs), count, plain))
        return [ct.block([*lead, *out, *rest])]

    def _to_whole_line(self, stage: Stage, axis: Axis, line: int) -> ct.Node | None:
        """How many elements along an axis lie before the first whole line of ``line`` of them; None
        where that is none, or where results do not lie alike."""
        places = set()
        for statement in stage.body:
            if isinstance(statement, Store) and statement.buffer in self._streamed(stage, axis):
                place = linearize(statement.index, self.e.buffers[statement.buffer].shape)
                places.add(place - variable(axis))
        place = places.pop()
        strip = self.vector and self.first is not None
        if strip and self.tile % line:
            place = place + variable(Axis("low", axis.extent))
        lies = all(factor % line == 0 for factor in (place.const, *(f for _, f in place.terms)))
        if places or lies:
            return None
        past = ct.binary("%", self.e.index(place), ct.integer(line))
        whole = ct.integer(line)
        return ct.binary("%", ct.binary("-", whole, past), whole)


# What waits in a result's memory waits on the stack instead, where the result fills the caches.
#
# Exponentials of a softmax wait where their row's result will be (``codegen/lower/emitter.py``). Of
# a large result that reads its lines from memory first, for nothing; from the stack it is stored
# past the caches, as results are that nothing reads (``codegen/c/streaming_stores.py``). That pays
# while the row and what waits fit the first-level cache: softmax of 64 MB on Zen 4, on one core and
# two, in rows of 1000 takes 0.92 and 0.88 of the time, of 2048 0.88 and 0.92, of 4096 0.97 and
# 0.92, of 8192 1.28 and 1.18.


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
