"""The meaning of kernel IR, in NumPy: what a kernel does with arrays, statement by statement.

Points of a grid and steps of a loop are evaluated together, as the axes of arrays. Loops whose
steps see each other's stores go step by step. Sums, products and contractions have the order and
the roundings that kernel IR gives them, so that arithmetic has the bits of compiled kernels;
``exp`` and the like are NumPy's, which may differ from C's in the last places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lazyt.errors import BoundsError, InternalError, ShapeError
from lazyt.ir.arithmetic.folds import fold, identity, reduce_in_order
from lazyt.ir.arithmetic.fused import fused_multiply_add
from lazyt.ir.dtypes import DType, bfloat16, decode_bfloat16, encode_bfloat16, float16
from lazyt.ir.factorizations.evaluation import evaluate as factorize
from lazyt.ir.fourier.evaluation import of_any_shape
from lazyt.ir.fourier.tables import lanes
from lazyt.ir.index import (
    Axis,
    Datum,
    Guard,
    Guarded,
    Linear,
    Load,
    Position,
    Quotient,
    Var,
    operands,
    sub_expressions,
)
from lazyt.ir.kernel import (
    Buffer,
    CallPhase,
    ContractPhase,
    Keep,
    Kernel,
    Let,
    Phase,
    Reduce,
    Stage,
    Statement,
    Store,
)
from lazyt.ir.program import Program
from lazyt.ir.scalar import FUNCTIONS, Call, Const, Expr, real_number

Array = np.ndarray
#: What memory without a meaning is filled with: as a float a NaN, as an integer a large number.
POISON = 0xFF
#: Elements that are evaluated at once, or about so many.
TOGETHER = 1 << 18


def poison(array: Array) -> None:
    """Fills an array with bits that no kernel may make use of: NaN, -1, the largest number."""
    if array.dtype == np.bool_:
        array[...] = True
    else:
        array.reshape(-1).view(np.uint8)[...] = POISON


def widen(stored: Array, dtype: DType) -> Array:
    """A stored array as one of the type in which kernels compute."""
    if dtype is bfloat16:
        return decode_bfloat16(stored)
    return stored.astype(np.float32) if dtype is float16 else stored


def narrow(values: Array, dtype: DType) -> Array:
    """Computed values as they are stored, 16-bit floats rounded to nearest even."""
    if dtype is bfloat16:
        return encode_bfloat16(values)
    return values.astype(np.float16) if dtype is float16 else values


# -------------------------------------------------------------------- extremes


def position_of_extreme(kind: str, values: Array, valid: Array) -> Array:
    """Where the first extreme along the last axis is, or the first NaN; -1 where nothing is."""
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], -1, np.int64)
    unknown = (values != values) & valid
    function = np.maximum if kind == "argmax" else np.minimum
    known = np.where(unknown | ~valid, _outermost(kind, values.dtype), values)
    hit = (values == function.reduce(known, -1)[..., None]) & valid
    hit = np.where(unknown.any(-1)[..., None], unknown, hit)
    return np.where(hit.any(-1), hit.argmax(-1), -1).astype(np.int64)


def _outermost(kind: str, dtype: Any) -> Any:
    if dtype.kind == "f":
        return -np.inf if kind == "argmax" else np.inf
    if dtype == np.bool_:
        return kind == "argmin"
    limits = np.iinfo(dtype)
    return limits.min if kind == "argmax" else limits.max


# ----------------------------------------------------------------- expressions


Mask = tuple[Guard, ...]


@dataclass
class _Scope:
    """What names mean where statements stand: arrays that broadcast to ``shape``.

    Attributes:
        arrays: the buffers' memory, by name, each with its buffer.
        shape: of all points and steps that are evaluated together.
        axes: positions of the loop axes.
        values: what statements have named.
        held: the conditions that hold for all that is evaluated.
    """

    arrays: Mapping[str, tuple[Buffer, Array]]
    shape: tuple[int, ...]
    axes: dict[str, Array]
    values: dict[str, Array] = field(default_factory=dict)
    held: Mask = ()

    def index(self, value: Linear) -> Array:
        """An index at all points."""
        total = np.full((1,) * len(self.shape), value.const, np.int64)
        for atom, factor in value.terms:
            if isinstance(atom, Axis):
                part = self.axes[atom.name]
            elif isinstance(atom, Datum):
                part = self.values[atom.name].astype(np.int64).clip(0, max(atom.extent - 1, 0))
            elif isinstance(atom, Quotient):
                part = self.index(atom.value) // atom.divisor
            else:
                part = self.index(atom.value) % atom.divisor
            total = total + part * factor
        return total

    def holds(self, guards: Mask) -> Array | None:
        """Where conditions hold; None for everywhere."""
        found: Array | None = None
        for guard in guards:
            at = self.index(guard.index)
            test = (at >= guard.low) & (at < guard.high)
            found = test if found is None else found & test
        return found

    def place(self, what: str, name: str, index: Sequence[Linear], mask: Array | None) -> Array:
        """The row-major positions of elements of a buffer; 0 where the mask is not set. Raises
        BoundsError for one outside of it."""
        _, array = self.arrays[name]
        if len(index) != array.ndim:
            raise InternalError("ir.kernel_interpreter", f"{name} has not {len(index)} axes")
        total = np.zeros((1,) * len(self.shape), np.int64)
        for number, (item, extent) in enumerate(zip(index, array.shape)):
            at = self.index(item)
            wrong = (at < 0) | (at >= extent)
            if mask is not None:
                wrong = wrong & mask
            if wrong.any():
                found = np.broadcast_to(at, wrong.shape)[wrong][0]
                where = f"{what} {name}: index {item} of axis {number} is {found}"
                raise BoundsError(f"{where}, the buffer ends at {extent - 1}")
            total = total * extent + at
        return total if mask is None else np.where(mask, total, 0)

    def load(self, item: Load, held: Mask) -> Array:
        """Elements of a buffer."""
        buffer, array = self.arrays[item.buffer]
        mask = self.holds(held)
        at = self.place("load", item.buffer, item.index, mask)
        if array.size == 0:
            return np.zeros(at.shape, buffer.dtype.compute.numpy)
        found: Array = array.reshape(-1)[at]
        if found.dtype == np.bool_:  # any bits but zero are true
            found = found.view(np.uint8) != 0
        return widen(found, buffer.dtype)

    def leaf(self, item: Expr, held: Mask) -> Array:
        """What stands for itself."""
        if isinstance(item, Load):
            return self.load(item, held)
        if isinstance(item, Var):
            return self.values[item.name]
        if isinstance(item, Position):
            return self.index(item.index).astype(item.dtype.numpy)
        if isinstance(item, Const):
            return _literal(item).reshape((1,) * len(self.shape))
        raise InternalError("ir.kernel_interpreter", f"{item!r} has no value in a kernel")

    def value(self, root: Expr) -> Array:
        """An expression at all points, in its compute type. Iterative."""
        done: dict[tuple[int, Mask], Array] = {}
        stack: list[tuple[Expr, Mask, bool]] = [(root, self.held, False)]
        while stack:
            item, held, ready = stack.pop()
            key = (id(item), held)
            if key in done:
                continue
            if isinstance(item, Guarded):
                inside = held + tuple(g for g in item.guards if g not in held)
                parts = [(item.value, inside), (item.other, held)]
            else:
                parts = [(part, held) for part in operands(item)]
            if parts and not ready:
                stack.append((item, held, True))
                stack.extend((part, mask, False) for part, mask in reversed(parts))
                continue
            found = [done[id(part), mask] for part, mask in parts]
            if isinstance(item, Guarded):
                test = self.holds(item.guards)
                done[key] = found[0] if test is None else np.where(test, *found)
            elif isinstance(item, Call):
                done[key] = _called(item, found)
            else:
                done[key] = self.leaf(item, held)
        return done[id(root), self.held]

    def store(self, item: Store, value: Array) -> None:
        """Writes elements, in the order of points and steps."""
        buffer, array = self.arrays[item.buffer]
        guards = self.held + item.guards
        mask = self.holds(guards)
        at = np.broadcast_to(self.place("store", item.buffer, item.index, mask), self.shape)
        value = np.broadcast_to(value, self.shape)
        if mask is None:
            at, value = at.reshape(-1), value.reshape(-1)
        else:
            mask = np.broadcast_to(mask, self.shape)
            at, value = at[mask], value[mask]
        flat = array.reshape(-1)
        if item.combine is None:
            flat[at] = narrow(value, buffer.dtype)
            return
        function = FUNCTIONS[item.combine].evaluate
        for turn in _turns(at):
            here = at[turn]
            old = widen(flat[here], buffer.dtype)
            flat[here] = narrow(np.asarray(function(old, value[turn])), buffer.dtype)


def _turns(at: Array) -> Iterable[Array]:
    """Numbers of stores in groups, each with one at most for every element, in order."""
    if not len(at):
        return []
    order = np.argsort(at, kind="stable")
    places = at[order]
    first = np.concatenate([[True], places[1:] != places[:-1]])
    numbers = np.arange(len(at))
    rank = numbers - np.maximum.accumulate(np.where(first, numbers, 0))
    ends = np.cumsum(np.bincount(rank))
    return np.split(order[np.argsort(rank, kind="stable")], ends[:-1])


def _called(item: Call, arguments: Sequence[Array]) -> Array:
    function = item.fn
    if function.name in ("cast", "bitcast"):
        made = function.evaluate(arguments[0], item.args[0].dtype, item.dtype)
    else:
        made = function.evaluate(*arguments)
    return np.asarray(made)


def _literal(expr: Const) -> Array:
    kind = expr.dtype.compute.numpy
    if expr.dtype.kind in "ui":
        bits = 8 * expr.dtype.itemsize
        return np.asarray(int(real_number(expr.value)) % (1 << bits), f"u{bits // 8}").astype(kind)
    return np.asarray(expr.value, kind)


# ---------------------------------------------------------------------- phases


def _flat_axes(axes: Sequence[Axis], extents: Mapping[str, int], points: Array) -> dict[str, Array]:
    """The axes' positions at row-major numbers of points."""
    found: dict[str, Array] = {}
    for axis in reversed(axes):
        extent = extents[axis.name]
        found[axis.name] = points % extent
        points = points // extent
    return found


class _Interpreter:
    """One run of a kernel.

    Attributes:
        arrays: the memory of each buffer.
        segment: the extent of the only axis in this segment, None for a kernel without segments.
    """

    def __init__(self, arrays: Mapping[str, tuple[Buffer, Array]], segment: int | None) -> None:
        self.arrays = arrays
        self.segment = segment

    def extent(self, axis: Axis) -> int:
        """How many steps an axis has: in a kernel with segments, those of the segment."""
        return axis.extent if self.segment is None else self.segment

    def phase(self, phase: Phase) -> None:
        """All points of a grid, some at a time."""
        extents = {a.name: self.extent(a) for a in phase.grid}
        count = math.prod(extents.values())
        longest = max((self.extent(s.axis) for s in phase.stages if s.axis is not None), default=1)
        together = max(TOGETHER // max(longest, 1), 1)
        for start in range(0, count, together):
            points = np.arange(start, min(start + together, count), dtype=np.int64)[:, None]
            scope = _Scope(
                self.arrays, (len(points), 1), _flat_axes(phase.grid, extents, points), {}
            )
            for stage in phase.stages:
                self.stage(stage, scope)

    def stage(self, stage: Stage, outer: _Scope) -> None:
        """A stage at some points; what it names for later ones is in their scope afterwards."""
        if stage.axis is None:
            for item in stage.body:
                self.plain(item, outer)
            return
        extent = self.extent(stage.axis)
        points = outer.shape[0]
        found: dict[str, list[Array]] = {}
        carried: dict[str, Array] = {}
        held = (stage.guard,) if stage.guard is not None else ()
        valid: list[Array] = []
        for first, last in _runs(stage, extent):
            steps = np.arange(first, last, dtype=np.int64)[None, :]
            values = {
                name: array[:, first:last] if array.shape[1] == extent and extent > 1 else array
                for name, array in outer.values.items()
            }
            axes = {**outer.axes, stage.axis.name: steps}
            scope = _Scope(self.arrays, (points, last - first), axes, values, held)
            mask = scope.holds(held)
            everywhere = np.broadcast_to(True if mask is None else mask, scope.shape)
            valid.append(everywhere)
            for item in stage.body:
                made = self.step(item, scope, everywhere, carried)
                if made is not None:  # not of a store, which has no name
                    found.setdefault(item.name, []).append(made)  # type: ignore[union-attr]
        self._leave(stage, outer, found, valid, extent)

    def _leave(
        self,
        stage: Stage,
        outer: _Scope,
        found: Mapping[str, list[Array]],
        valid: Sequence[Array],
        extent: int,
    ) -> None:
        """Puts what a loop has named for later stages into their scope."""
        points = outer.shape[0]
        for item in stage.body:
            if not isinstance(item, Reduce | Keep):
                continue
            dtype = item.dtype if isinstance(item, Reduce) else item.value.dtype
            parts = found.get(item.name)
            kind = item.value.dtype.compute.numpy
            whole = np.concatenate(parts, 1) if parts else np.zeros((points, 0), kind)
            if isinstance(item, Keep):
                outer.values[item.name] = whole
                continue
            there = np.concatenate(valid, 1) if valid else np.ones((points, 0), bool)
            if item.kind in ("argmax", "argmin"):
                outer.values[item.name] = position_of_extreme(item.kind, whole, there)[:, None]
                continue
            if item.kind in ("any", "all"):
                whole = whole != 0
            if not there.all():
                whole = np.where(there, whole, identity(item.kind, dtype))
            outer.values[item.name] = reduce_in_order(item.kind, whole, dtype)[:, None]

    def plain(self, item: Statement, scope: _Scope) -> None:
        """A Let or a Store."""
        value = scope.value(item.value)
        if isinstance(item, Store):
            scope.store(item, value)
        elif isinstance(item, Let):
            scope.values[item.name] = value
        else:
            raise InternalError("ir.kernel_interpreter", f"{item!r} stands outside of a loop")

    def step(
        self, item: Statement, scope: _Scope, valid: Array, carried: dict[str, Array]
    ) -> Array | None:
        """A statement at some steps of a loop; for folds and kept values, what they take."""
        if isinstance(item, Store | Let):
            self.plain(item, scope)
            return None
        value = np.broadcast_to(scope.value(item.value), scope.shape)
        if isinstance(item, Keep):
            scope.values[item.name] = value
            return value
        if isinstance(item, Reduce):
            return value
        neutral = identity(item.kind, item.dtype)
        running = carried.get(item.name)
        if running is None:
            running = np.full((scope.shape[0], 1), neutral)
        current = np.empty(scope.shape, value.dtype)
        for number in range(scope.shape[1]):
            at = slice(number, number + 1)
            running = fold(item.kind, running, np.where(valid[:, at], value[:, at], neutral))
            current[:, at] = running
        carried[item.name] = running
        scope.values[item.name] = current
        return None

    def contraction(self, phase: ContractPhase) -> None:
        """A contraction, some of its batch at a time."""
        sizes = [
            math.prod(a.extent for a in axes)
            for axes in (phase.batch, phase.rows, phase.columns, phase.inner)
        ]
        batch, rows, columns, inner = sizes
        each = max(rows * inner + inner * columns + rows * columns, 1)
        together = max(4 * TOGETHER // each, 1)
        for start in range(0, batch if rows * columns else 0, together):
            points = np.arange(start, min(start + together, batch), dtype=np.int64)
            self._contract(phase, points[:, None, None], rows, columns, inner)

    def _contract(
        self, phase: ContractPhase, points: Array, rows: int, columns: int, inner: int
    ) -> None:
        extents = {
            a.name: a.extent
            for axes in (phase.batch, phase.rows, phase.columns, phase.inner)
            for a in axes
        }
        count = len(points)
        batch = _flat_axes(phase.batch, extents, points)
        m = _flat_axes(phase.rows, extents, np.arange(rows, dtype=np.int64)[None, :, None])
        n = _flat_axes(phase.columns, extents, np.arange(columns, dtype=np.int64)[None, None, :])
        steps = np.arange(inner, dtype=np.int64)
        acc = np.zeros((count, rows, columns), phase.accumulator.compute.numpy)
        if inner:
            across = _flat_axes(phase.inner, extents, steps[None, None, :])
            down = _flat_axes(phase.inner, extents, steps[None, :, None])
            left_scope = _Scope(self.arrays, (count, rows, inner), batch | m | across)
            right_scope = _Scope(self.arrays, (count, inner, columns), batch | down | n)
            left = np.broadcast_to(left_scope.value(phase.left), left_scope.shape)
            right = np.broadcast_to(right_scope.value(phase.right), right_scope.shape)
            for k in range(inner):
                acc = fused_multiply_add(left[:, :, k, None], right[:, k, None, :], acc)
        scope = _Scope(self.arrays, acc.shape, batch | m | n, {phase.name: acc})
        for item in phase.epilogue:
            self.plain(item, scope)

    def call(self, phase: CallPhase) -> None:
        """A routine: what sorts or transforms rows."""
        buffer, source = self.arrays[phase.reads[0]]
        if phase.routine.startswith("fourier_"):
            _, table = self.arrays[phase.reads[1]]
            kind, given = phase.routine.removeprefix("fourier_"), dict(phase.settings)
            target = self.arrays[phase.writes[0]][1]
            target[...] = of_any_shape(
                kind, given["sign"], given["points"], source, target.shape, table,
                lanes(buffer.dtype),
            )  # fmt: skip
            return
        if phase.routine.startswith("linalg_"):
            _, routine, mode = phase.routine.split("_")
            matrices = [self.arrays[name][1] for name in phase.reads]
            target = self.arrays[phase.writes[0]][1]
            lead = target.shape[:-1]
            parts = factorize(routine, mode, *matrices)
            target[...] = np.concatenate([part.reshape(*lead, -1) for part in parts], -1)
            return
        if not phase.routine.startswith("sort_"):
            raise InternalError("ir.kernel_interpreter", f"unknown routine {phase.routine}")
        keys = widen(source, buffer.dtype)
        last = keys.shape[-1] - 1
        if dict(phase.settings)["descending"]:
            order = (last - np.argsort(keys[..., ::-1], -1, kind="stable"))[..., ::-1]
        else:
            order = np.argsort(keys, -1, kind="stable")
        values = np.take_along_axis(source, order, -1)
        results = {"sort_values": [values], "sort_order": [order], "sort_both": [values, order]}
        for name, result in zip(phase.writes, results[phase.routine], strict=True):
            self.arrays[name][1][...] = result


def _runs(stage: Stage, extent: int) -> list[tuple[int, int]]:
    """The steps of a loop that are evaluated together: all of them, unless one may see what another
    one stores."""
    stores = [item.buffer for item in stage.body if isinstance(item, Store)]
    if not stage.sequential or not stores:
        return [(0, extent)] if extent else []
    read = {
        expr.buffer
        for item in stage.body
        for expr in sub_expressions(item.value)
        if isinstance(expr, Load)
    }
    if len(set(stores)) == len(stores) and not read & set(stores):
        return [(0, extent)] if extent else []
    return [(step, step + 1) for step in range(extent)]


# ----------------------------------------------------------------------- whole


Memory = Mapping[str, "Array | Sequence[Array]"]


def run_kernel(kernel: Kernel, arrays: Memory) -> None:
    """Computes a kernel in place.

    Args:
        kernel: one that ``verify_kernel`` accepts.
        arrays: the memory of each argument by the buffer's name, C-contiguous, in its shape and
            storage type (bfloat16 as uint16). Scratch may be left out. For a kernel with segments
            each name has a sequence, of one array for each segment.

    Memory that has no meaning before (``out``, ``work``, ``band``) is poisoned first, so that a
    kernel that reads it, or leaves a part of its results out, shows. Raises ShapeError for arrays
    that do not fit and BoundsError for an access outside of a buffer.

    Example:
        >>> import numpy as np
        >>> import lazyt.ops
        >>> from lazyt.ir.kernel_interpreter import run_kernel
        >>> from lazyt.ir.parser import parse_kernel
        >>> kernel = parse_kernel('''
        ... kernel double(in x: float32[3], out y: float32[3]) {
        ...   phase (i: 3) lanes grid work 1.0 {
        ...     once { store y[i] = add(x[i], x[i]) }
        ...   }
        ... }''')
        >>> y = np.empty(3, np.float32)
        >>> run_kernel(kernel, {"x": np.arange(3, dtype=np.float32), "y": y})
        >>> y.tolist()
        [0.0, 2.0, 4.0]
    """
    if not kernel.segments:
        _run(kernel, _memory(kernel, arrays), None)
        return
    for number, extent in enumerate(kernel.segments):
        own = {name: given[number] for name, given in arrays.items()}
        _run(kernel, _memory(kernel, own, extent), extent)


def _run(kernel: Kernel, arrays: Mapping[str, tuple[Buffer, Array]], segment: int | None) -> None:
    interpreter = _Interpreter(arrays, segment)
    with np.errstate(all="ignore"):
        for phase in kernel.phases:
            if isinstance(phase, Phase):
                interpreter.phase(phase)
            elif isinstance(phase, ContractPhase):
                interpreter.contraction(phase)
            else:
                interpreter.call(phase)


def _memory(
    kernel: Kernel, arrays: Mapping[str, Any], segment: int | None = None
) -> dict[str, tuple[Buffer, Array]]:
    """The memory of every buffer, checked; what means nothing before is poisoned."""
    found: dict[str, tuple[Buffer, Array]] = {}
    along = walked(kernel) if segment is not None else frozenset()
    for buffer in kernel.buffers:
        array = arrays.get(buffer.name)
        if array is None:
            if buffer.role not in ("work", "band"):
                raise ShapeError(f"kernel {kernel.name}: no array is given for {buffer.name}")
            array = np.empty(buffer.shape, buffer.dtype.numpy)
        shape = (segment,) if segment is not None and buffer.name in along else buffer.shape
        if array.dtype != buffer.dtype.numpy or array.shape != shape:
            given = f"{array.dtype}{list(array.shape)}"
            wanted = f"{buffer.dtype.numpy}{list(shape)}"
            raise ShapeError(f"kernel {kernel.name}: {buffer.name} is {wanted}, not {given}")
        if not array.flags.c_contiguous:
            raise ShapeError(f"kernel {kernel.name}: {buffer.name} is not contiguous")
        if buffer.role in ("out", "work", "band"):
            poison(array)
        found[buffer.name] = (buffer, array)
    return found


def walked(kernel: Kernel) -> frozenset[str]:
    """Of a kernel with segments, the buffers that have an element for each step of its axis."""
    found: set[str] = set()
    for phase in kernel.phases:
        for stage in phase.stages if isinstance(phase, Phase) else ():
            everywhere = bool(isinstance(phase, Phase) and phase.grid) or stage.axis is not None
            for item in stage.body:
                if isinstance(item, Store) and everywhere:
                    found.add(item.buffer)
                for expr in sub_expressions(item.value):
                    if isinstance(expr, Load) and any(i.terms for i in expr.index):
                        found.add(expr.buffer)
    return frozenset(found)


def run_program(
    program: Program, kernels: Sequence[Kernel], inputs: Sequence[Array]
) -> list[Array]:
    """The values that a plan computes, by its kernels' meaning: one array for each root, flat, as
    bytes.

    Args:
        program: what ``compile_graph`` made.
        kernels: its kernels, one for each launch.
        inputs: the memory of the plan's inputs; it is not changed.

    Outputs and scratch lie as the program has planned it, and are poisoned first: memory that is
    shared between values too early shows in the results.
    """
    given = [np.ascontiguousarray(item).reshape(-1).view(np.uint8).copy() for item in inputs]
    sizes: dict[int, int] = {}
    for slot in program.slots:
        if slot.kind == "output":
            sizes[slot.index] = max(slot.nbytes, sizes.get(slot.index, 0))
    outputs = [
        np.full(sizes.get(n, 0), POISON, np.uint8) for n in range(max(sizes, default=-1) + 1)
    ]
    arena = np.full(program.arena_bytes, POISON, np.uint8)
    memory = {"input": given, "output": outputs}
    for launch, kernel in zip(program.launches, kernels, strict=True):
        places = [program.slots[number] for number in launch.slots]
        views = [
            arena[slot.offset :] if slot.kind == "arena" else memory[slot.kind][slot.index]
            for slot in places
        ]
        _launch(kernel, views, launch.offsets if kernel.segments else ())
    nothing = np.empty(0, np.uint8)  # an empty value has no place
    held = dict(enumerate(outputs)) | {-1 - n: item for n, item in enumerate(given)}
    return [held.get(n, nothing) for n in program.results]


def _launch(kernel: Kernel, views: Sequence[Array], offsets: Sequence[int]) -> None:
    """A launch over memory as bytes."""
    arity = len(kernel.arguments)
    if not kernel.segments:
        run_kernel(kernel, {b.name: _typed(v, b, b.shape) for b, v in zip(kernel.arguments, views)})
        return
    along = walked(kernel)
    arrays: dict[str, list[Array]] = {b.name: [] for b in kernel.arguments}
    for number, extent in enumerate(kernel.segments):
        for place, buffer in enumerate(kernel.arguments, number * arity):
            view = views[place][offsets[place] if offsets else 0 :]
            shape = (extent,) if buffer.name in along else buffer.shape
            arrays[buffer.name].append(_typed(view, buffer, shape))
    run_kernel(kernel, arrays)


def _typed(view: Array, buffer: Buffer, shape: tuple[int, ...]) -> Array:
    """The beginning of some bytes as the array of a buffer."""
    size = buffer.dtype.itemsize * math.prod(shape)
    return view[:size].view(buffer.dtype.numpy).reshape(shape)
