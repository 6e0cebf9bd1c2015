"""Kernel IR: a grid of tiles with stages.

A Kernel is a sequence of phases with a barrier between them. A Phase runs the same stages for
every point of its grid, in parallel. A Stage is either straight-line (``axis`` None, executed once
per grid point) or a loop over one inner axis. Values pass between the stages of a grid point by
name: ``Let`` scalars of straight-line stages, results of ``Reduce`` and ``Scan``, and ``Keep``
arrays that hold one value per step of the loop. Targets decide what a grid point, a lane and a
kept array become (threads, SIMD, stack, registers, shared memory); the IR only says what is
computed, so one description serves C and CUDA.

How sums are ordered is part of the meaning (``reduction_levels``), not of a schedule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lazyt.ir.dtypes import DType, int64
from lazyt.ir.factorizations.sizes import MODES, OPERANDS
from lazyt.ir.index import Axis, Guard, Linear
from lazyt.ir.scalar import Expr

#: Lanes of a reduction: element k of a block goes to lane k % LANES.
LANES = 32
#: The note of a kernel with the form that a target is to give it, as ``Tuned.to_dict`` makes it.
FORM = "chosen form"
#: Elements of a block; results of blocks are reduced again by the same rule.
BLOCK = 1024


def reduction_levels(extent: int) -> tuple[int, ...]:
    """Extents of the nested reductions that a reduction of ``extent`` elements is made of.

    Elements go in blocks of BLOCK; in a block, lane ``k % LANES`` folds its elements in order and
    the lanes are folded by halves (lane l takes lane l + 16, then + 8, ...). The results of the
    blocks form the next level, until one is left. The order depends on ``extent`` alone.
    """
    levels = [extent]
    while levels[-1] > BLOCK:
        levels.append(-(-levels[-1] // BLOCK))
    return tuple(levels)


# ----------------------------------------------------------------- statements


@dataclass(frozen=True)
class Let:
    """Names the value of an expression."""

    name: str
    value: Expr


@dataclass(frozen=True)
class Store:
    """Writes an element of a buffer, where all guards hold.

    ``combine`` None overwrites; ``add``, ``mul``, ``maximum`` or ``minimum`` folds into what is
    there (scatter). A combining or data-dependent store must stand in a sequential phase axis,
    unless any order gives the same (``is_exact``): then the target makes it in one piece.
    """

    buffer: str
    index: tuple[Linear, ...]
    value: Expr
    guards: tuple[Guard, ...] = ()
    combine: str | None = None


def is_exact(combine: str | None, dtype: DType) -> bool:
    """Whether any order of stores that combine gives the same bits."""
    return combine in ("add", "mul", "maximum", "minimum") and dtype.kind in "iu"


@dataclass(frozen=True)
class Reduce:
    """Folds ``value`` over the stage's axis into ``name``; visible in later stages.

    ``kind``: ``sum prod max min any all argmax argmin``. Arg-reductions give the int64 position of
    the first extreme; NaN counts as the extreme (PyTorch).
    """

    name: str
    kind: str
    value: Expr
    dtype: DType


@dataclass(frozen=True)
class Scan:
    """Running fold (inclusive) over the stage's axis, in order; ``name`` is its current value.

    ``kind``: ``sum prod max min``. The stage's loop is sequential.
    """

    name: str
    kind: str
    value: Expr
    dtype: DType


@dataclass(frozen=True)
class Keep:
    """Keeps ``value`` for each step of the stage's axis; later stages over an axis of the same
    extent read it as Var(name) at their current step."""

    name: str
    value: Expr


Statement = Let | Store | Reduce | Scan | Keep


# ------------------------------------------------------------------ structure


@dataclass(frozen=True)
class Buffer:
    """A kernel argument: row-major memory of ``shape``.

    ``role``: ``in`` read only; ``out`` written (and read by later phases); ``inout`` holds a value
    that stores update; ``work`` scratch whose content is meaningless before and after; ``band``
    scratch of which a target needs the rows of a band only (see ``Bands``), and no argument.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    role: str


@dataclass(frozen=True)
class Stage:
    """Statements run once per grid point (``axis`` None), or for every value of ``axis``.

    ``sequential``: steps must run in order (scans, scatters). ``guard``: optional bound on the
    steps: those for which it fails are skipped (the tail block of a split reduction).
    """

    axis: Axis | None
    body: tuple[Statement, ...]
    sequential: bool = False
    guard: Guard | None = None


@dataclass(frozen=True)
class Phase:
    """Stages run for every point of ``grid`` (row-major, last axis fastest), in any order.

    ``lanes`` says which axis should be vectorised (adjacent SIMD lanes or threads): ``grid`` for
    the last grid axis, ``inner`` for the stages' own axis.
    ``work`` estimates multiply-adds and bytes per grid point, for serial or parallel execution.
    """

    grid: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    lanes: str
    work: float = 1.0


@dataclass(frozen=True)
class ContractPhase:
    """A contraction ``acc[b, m, n] = sum over k of a * b`` with fused loads and epilogue.

    ``batch``, ``rows``, ``columns``, ``inner`` are the axes of b, m, n and k, row-major.
    ``left`` and ``right`` are expressions over batch+rows+inner and batch+inner+columns axes.
    Accumulation is one fused multiply-add per step, in increasing k, in ``accumulator`` type.
    ``epilogue`` statements run for every (b, m, n) with ``Var(name)`` the finished sum.
    """

    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    left: Expr
    right: Expr
    name: str
    accumulator: DType
    epilogue: tuple[Statement, ...]


@dataclass(frozen=True)
class CallPhase:
    """Calls a routine that a target has by hand (``ir/kernel.py``) for whole buffers.

    It works along the last axis of its buffers, on every row: what it takes from where is the
    routine's own, so indices do not come into it.
    ``reads``, ``writes``, ``work``: names of buffers; ``work`` is scratch that it needs.
    ``settings``: numbers that say what to do, by name.
    """

    routine: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    work: tuple[str, ...] = ()
    settings: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class CustomPhase(CallPhase):
    """Calls a function that a user wrote, whose text comes with it.

    ``routine`` is the function's name, ``label`` what the user calls it, ``used`` the functions of
    the prelude in its text. ``slots``, ``batched``, ``examples`` and ``grid`` are as in
    ``ops.custom.CustomParams``: what it is given, and how often it is called.
    """

    label: str = ""
    text: str = ""
    used: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    batched: tuple[int, ...] = ()
    examples: int = 0
    grid: tuple[int, ...] = ()

    def complaints(self) -> list[str]:
        """What does not fit together; empty when everything does."""
        out: list[str] = []
        inputs = sum(slot in ("in", "value") for slot in self.slots)
        if inputs != len(self.reads) or len(self.batched) != len(self.reads):
            out.append(f"{self.routine} is given {inputs} operands and reads {len(self.reads)}")
        if self.slots.count("out") != len(self.writes):
            out.append(f"{self.routine} has {self.slots.count('out')} results")
        if len(self.grid) not in (0, 4) or not re.search(rf"\b{self.routine}\(", self.text):
            out.append(f"{self.routine} is not in its text")
        return out


AnyPhase = Phase | ContractPhase | CallPhase


@dataclass(frozen=True)
class Bands:
    """Phases that may run one after the other for some rows before the next rows begin.

    Every phase goes over the same ``points * rows`` rows: the points of a Phase's grid, the batch
    (``points``) and the rows of a ContractPhase. Of a ``band`` buffer each row has an equal share,
    in order, and no phase gets at the share of another row than its own. So what lies there is
    needed for as long as a band of rows takes, and bands do not wait for each other.

    With one row, points are the matrices of a batch: phases may go over more than these, along a
    first axis with a run of steps for each, and routines take some of a batch.
    """

    points: int
    rows: int


@dataclass(frozen=True)
class Kernel:
    """A named sequence of phases over buffers.

    ``bands``: the phases may run band by band.
    ``segments``: a kernel that has them runs once for each, at the same time. They are the extents
    that its only axis has there; the axis itself, and the buffers that it walks, have the largest.
    ``notes`` explain the kernel: what was fused, why not more, bytes, flops, source lines.
    """

    name: str
    buffers: tuple[Buffer, ...]
    phases: tuple[AnyPhase, ...]
    notes: dict[str, object] = field(default_factory=dict, compare=False, hash=False)
    segments: tuple[int, ...] = ()
    bands: Bands | None = None

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        """The buffers that a launch passes."""
        return tuple(b for b in self.buffers if b.role != "band")


def own_sections(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    """Names and texts of the functions of users that a kernel calls."""
    calls = [phase for phase in kernel.phases if isinstance(phase, CustomPhase)]
    return tuple({phase.routine: phase.text for phase in calls}.items())


# Routines that kernels may call: what each does with its buffers, and which it takes.
#
# A routine is what loops over a grid cannot say: its steps depend on values. A target has the text
# (``codegen/prelude``) and says how to call it (``codegen/c/routines.py``,
# ``codegen/cuda/target.py``).


#: A buffer's type and shape, given those of the first one read.
Wanted = Callable[[Buffer], tuple[DType, tuple[int, ...]]]


@dataclass(frozen=True)
class Routine:
    """What a routine takes.

    Attributes:
        name: the word that a CallPhase has.
        writes, work: type and shape of each buffer beside the first one it reads; None where
            settings decide that.
        settings: names of its numbers.
        reads: how many buffers it reads.
    """

    name: str
    writes: tuple[Wanted | None, ...]
    work: tuple[Wanted | None, ...]
    settings: tuple[str, ...]
    reads: int = 1

    def complaints(
        self,
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        work: Sequence[Buffer],
        settings: dict[str, int],
    ) -> list[str]:
        """What is wrong with the buffers and settings of a call; empty when nothing is."""
        if len(reads) != self.reads or not reads[0].shape:
            count = "one buffer" if self.reads == 1 else f"the first of {self.reads} buffers"
            return [f"{self.name} reads the rows of {count}"]
        out: list[str] = []
        for word, found, wanted in (("writes", writes, self.writes), ("needs", work, self.work)):
            if len(found) != len(wanted):
                out.append(f"{self.name} {word} {len(wanted)} buffers, not {len(found)}")
                continue
            for buffer, want in zip(found, wanted):
                dtype, shape = (reads[0].dtype, buffer.shape) if want is None else want(reads[0])
                if buffer.dtype is not dtype or buffer.shape != shape:
                    text = f"{dtype.name}{list(shape)}"
                    out.append(f"{self.name} takes {text} where {buffer.name} stands")
        if tuple(settings) != self.settings:
            out.append(f"{self.name} has the settings {', '.join(self.settings)}")
        return out


def same(source: Buffer) -> tuple[DType, tuple[int, ...]]:
    """As what is read."""
    return source.dtype, source.shape


def positions(source: Buffer) -> tuple[DType, tuple[int, ...]]:
    """A position for every element that is read."""
    return int64, source.shape


def twice(source: Buffer) -> tuple[DType, tuple[int, ...]]:
    """Two copies of what is read."""
    return source.dtype, (2, *source.shape)


def half_spectrum(source: Buffer) -> tuple[DType, tuple[int, ...]]:
    """Pairs of the first half of the frequencies of a row of real points, and one more."""
    return source.dtype, (*source.shape[:-1], source.shape[-1] // 2 + 1, 2)


#: Matrices: their number, sizes, and what each needs (``ir/factorizations/sizes.py``).
_MATRICES = ("batch", "rows", "columns", "sides", "results", "scratch")
_STAGES = ("points", "rows", "columns", "first", "second", "whole", "sign")

#: Sorting: every row in ascending (or descending) order: its values, the permutation that sorts it,
#: or both. Equal elements stay in order; NaN is the largest; 0 equals -0.
#: Fourier transforms: every row of complex points (pairs along a last axis), of real points to the
#: first half of their spectrum, and back. The second buffer has the constants, for ``rows`` times
#: ``columns`` complex points in stages of the sizes that ``first`` and ``second`` pack; with
#: ``whole`` real points are complex ones, too (``ir/fourier/tables.py``).
#: Factorizations: the results of each matrix of a batch, one after the other.
ROUTINES: dict[str, Routine] = {
    routine.name: routine
    for routine in (
        Routine("sort_values", (same,), (same,), ("descending",)),
        Routine("sort_order", (positions,), (twice, positions), ("descending",)),
        Routine("sort_both", (same, positions), (twice, positions), ("descending",)),
        Routine("fourier_complex", (same,), (None,), _STAGES, 2),
        Routine("fourier_half", (half_spectrum,), (None,), _STAGES, 2),
        Routine("fourier_real", (None,), (None,), _STAGES, 2),
        *[
            Routine(f"linalg_{name}_{mode}", (None,), (None,), _MATRICES, operands)
            for name, operands in OPERANDS.items()
            for mode in MODES[name]
        ],
    )
}
