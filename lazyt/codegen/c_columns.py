"""Folds along columns of few rows, part by part.

Sums of 32 lanes for whole rows go through the second-level cache at every step, and are set and
folded beside: for a hundred rows that is more traffic than the rows are. Here the tree of halves is
walked depth first, so that one part for each of its levels waits, in the first-level cache, and the
steps of a part are written out and folded in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_dense import DensePhase
from lazyt.codegen.c_family import compute_type, is_positional
from lazyt.codegen.c_loops import Trees
from lazyt.ir.index import Axis
from lazyt.ir.kernel import LANES, Let, Reduce, Stage
from lazyt.ir.point import sub_expressions
from lazyt.ir.scalar import Call

#: Rows up to which it pays: as many as the lanes' steps in one loop.
FEW_ROWS = 256
#: What a step may be for its text to stand there many times.
MOST_TEXT, MOST_COST = 4, 6.0
#: Steps in one loop: rows whose distance is a power of two share lines of the first-level cache, of
#: which there are eight, and each is read by several vectors.
STEPS_OF_LOOP = 8
#: Columns of a tile: what waits of them fits the first-level cache.
COLUMNS = 512


class ColumnsPhase(DensePhase):
    """A phase that folds few rows part by part."""

    def _reduction(self, stage: Stage, axis: Axis) -> Trees:
        if not self._has_few_rows(stage, axis):
            return super()._reduction(stage, axis)
        reduces = [s for s in stage.body if isinstance(s, Reduce)]
        out: Trees = [self._array(compute_type(r.dtype), r.name) for r in reduces]
        parts = 1 << (min(LANES, axis.extent) - 1).bit_length()
        while parts > 1 and 2 * axis.extent <= STEPS_OF_LOOP * parts:
            parts //= 2
        levels = parts.bit_length()
        body = [self._array(compute_type(r.dtype), f"{r.name}_p", levels) for r in reduces]
        body += self._folded_parts(stage, axis, parts, 0)
        for r in reduces:
            value = self._waiting(r, 0)
            if r.kind == "sum" and r.dtype.kind == "f":
                value = self._folded(r, self.e.identity(r.kind, r.dtype), value)
            body += self._over_run([ct.assign(self._cell(r.name), value)], index=False)
            self.e.values[r.name] = self._cell(r.name)
        return [*out, ct.block(body)]

    def _has_few_rows(self, stage: Stage, axis: Axis) -> bool:
        """Whether a stage folds few rows, wider than a vector, by little text and little work."""
        if not self.vector or self.any_size or stage.guard or axis in self.e.ends:
            return False
        if self.turns.get(id(stage)) or self._has_halves(stage) or self._is_dense(stage, axis):
            return False
        if not 1 < axis.extent <= FEW_ROWS or self.phase.grid[-1].extent < 2 * LANES:
            return False
        if not all(isinstance(s, Let | Reduce) for s in stage.body):
            return False
        if any(isinstance(s, Reduce) and is_positional(s) for s in stage.body):
            return False
        calls = [e for s in stage.body for e in sub_expressions(s.value) if isinstance(e, Call)]
        return sum(call.fn.cost for call in calls) <= MOST_COST and len(stage.body) <= MOST_TEXT

    def _folded_parts(self, stage: Stage, axis: Axis, parts: int, level: int) -> Trees:
        """Loops over both halves of a part, whose folds wait in turn where the first did, and the
        next place; where those join. ``bit0``, ``bit1``... are the bits of a part's number."""
        if parts == 1 << level:
            return self._part_of(stage, axis, parts, level)
        inner = self._folded_parts(stage, axis, parts, level + 1)
        folds: Trees = []
        for r in stage.body:
            if isinstance(r, Reduce):
                left, right = self._waiting(r, level), self._waiting(r, level, 1)
                folds.append(ct.assign(left, self._folded(r, left, right)))
        loop = ct.loop(f"bit{level}", ct.integer(0), ct.integer(2), inner)
        return [loop, *self._over_run(folds, index=False)]

    def _waiting(self, r: Reduce, level: int, further: int = 0) -> ct.Node:
        """Where the fold of a part waits: there are as many ahead as bits of its number are set."""
        bits = [ct.name(f"bit{bit}") for bit in range(level)]
        return self._cell(f"{r.name}_p", _sum([*bits, *([ct.integer(1)] * further)]))

    def _part_of(self, stage: Stage, axis: Axis, parts: int, level: int) -> Trees:
        """The fold of every row whose number leaves the part's when divided by ``parts``."""
        bits = [ct.binary("*", ct.name(f"bit{k}"), ct.integer(1 << k)) for k in range(level)]
        out: Trees = [ct.declare("lz_i64", "part", _sum(bits), const=True)]
        steps, more = divmod(axis.extent, parts)
        fewer = self._steps(stage, axis, range(0, steps * parts, parts), level)
        if not more:
            return [*out, *fewer]
        longer = self._steps(stage, axis, range(0, (steps + 1) * parts, parts), level)
        inside = ct.binary("<", ct.name("part"), ct.integer(more))
        return [*out, ct.branch(inside, longer, fewer)]

    def _steps(self, stage: Stage, axis: Axis, offsets: Sequence[int], level: int) -> Trees:
        """The fold of steps so far behind the part's first."""
        distance = offsets[1] - offsets[0] if len(offsets) > 1 else LANES
        steps = {k: ct.binary("+", ct.name("part"), ct.integer(k)) for k in offsets}
        body, values = self._written_out(stage, axis, steps)
        for r in stage.body:
            if isinstance(r, Reduce):
                value = self._part(r, dict(zip(offsets, values[r.name])), 0, distance, body)
                assert value is not None
                body.append(ct.assign(self._waiting(r, level), value))
        return self._over_run(body)


def _sum(terms: Sequence[ct.Node]) -> ct.Node:
    """Their sum; 0 of none."""
    total = terms[0] if terms else ct.integer(0)
    for term in terms[1:]:
        total = ct.binary("+", total, term)
    return total
