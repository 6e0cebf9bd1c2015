"""Calls of routines as C: the text is in ``prelude``, its pointers and numbers come from here."""

from __future__ import annotations

import math

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions
from lazyt.codegen.loops.forms import SERIAL_WORK, is_alone
from lazyt.errors import LazytError
from lazyt.ir.dtypes import DType, order_numbers
from lazyt.ir.factorizations.sizes import MODES, flops, is_whole
from lazyt.ir.fourier.tables import KINDS, row_sizes
from lazyt.ir.kernel import CallPhase, CustomPhase

#: Multiply-adds that a byte of a user's kernel is taken to cost.
BYTE_COST = 2
#: Multiply-adds that sorting an element costs about as much as.
SORT_COST = 20
#: The same of transforming a number, for each doubling of their number.
FOURIER_COST = 0.25
#: Longest row that is sorted by ranks.
SHORT = 64
#: Length from which rows are worth compiling a quicksort for.
LONG = 512


def unsigned(dtype: DType) -> str:
    """Suffix of the unsigned type of the same width."""
    return f"u{8 * dtype.itemsize}"


def order_constants(dtype: DType) -> list[ct.Node]:
    """``order_numbers`` as C."""
    return [ct.integer(number) for number in order_numbers(dtype)]


def routine_c(phase: CallPhase, e: Expressions) -> list[ct.Node]:
    """The statements that call a user's function, or a routine for all rows."""
    if isinstance(phase, CustomPhase):
        return custom_c(phase, e)
    if phase.routine.startswith("fourier_"):
        return _fourier_c(phase, e)
    if phase.routine.startswith("linalg_"):
        return _linalg_c(phase, e)
    source = e.buffers[phase.reads[0]]
    size, length = math.prod(source.shape), source.shape[-1]
    if size == 0:
        return []
    outputs = [ct.name(n) for n in phase.writes]
    if phase.routine == "sort_order":
        outputs.insert(0, ct.integer(0))
    if length <= SHORT:
        name = "lz_rows_sort_short_"
        pointers = [ct.name(source.name), *outputs]
        if phase.routine == "sort_values":
            pointers.append(ct.integer(0))
    else:
        wide = length >= LONG and source.dtype.itemsize >= 4
        name = f"lz_rows_sort_{'pairs' if wide else 'order'}_"
        if phase.routine == "sort_values":
            name = f"lz_rows_sort_{'long' if wide else 'values'}_"
        pointers = [ct.name(source.name), *outputs, ct.name(phase.work[0])]
        if phase.routine != "sort_values":
            pointers.append(ct.binary("+", ct.name(phase.work[0]), ct.integer(size)))
            pointers.append(ct.name(phase.work[1]))
    rows = [ct.integer(size // length), ct.integer(length)]
    numbers = order_constants(source.dtype)
    numbers.append(ct.integer(dict(phase.settings)["descending"]))
    serial = size * SORT_COST < SERIAL_WORK
    numbers.append(ct.integer(1) if serial else ct.name("threads"))
    return [e.prelude(name + unsigned(source.dtype), *rows, *pointers, *numbers)]


def _fourier_c(phase: CallPhase, e: Expressions) -> list[ct.Node]:
    """The call that transforms all rows."""
    source, target = e.buffers[phase.reads[0]], e.buffers[phase.writes[0]]
    if not math.prod(source.shape):
        return []
    given = dict(phase.settings)
    kind = phase.routine.removeprefix("fourier_")
    length = given["rows"] * given["columns"]
    rows = math.prod(source.shape) // row_sizes(kind, given["points"])[0]
    numbers = [
        rows, given["points"], given["rows"], given["columns"], given["first"], given["second"],
        int(given["sign"] > 0), KINDS.index(kind), given["whole"],
    ]  # fmt: skip
    buffers = (*phase.reads, target.name, *phase.work)
    serial = rows * length * FOURIER_COST * math.log2(length) < SERIAL_WORK
    threads = ct.integer(1) if serial else ct.name("threads")
    name = f"lz_fourier_{source.dtype.suffix}"
    return [e.prelude(name, *map(ct.integer, numbers), *map(ct.name, buffers), threads)]


def _linalg_c(phase: CallPhase, e: Expressions) -> list[ct.Node]:
    """The call that factorizes all matrices."""
    source, target = e.buffers[phase.reads[0]], e.buffers[phase.writes[0]]
    _, name, mode = phase.routine.split("_")
    given = dict(phase.settings)
    batch, m, n, sides, results, scratch = (given[key] for key in given)
    if not batch:
        return []
    suffix, form = source.dtype.suffix, "lw" if is_whole(name, m, n, sides) else "la"
    routine = f"lz_{form}_{name}_{suffix}"
    e.used.add(routine)
    second = ct.name(phase.reads[1]) if len(phase.reads) > 1 else ct.name(source.name)
    serial = is_alone() or batch * flops(name, mode, m, n, sides) < SERIAL_WORK
    numbers = map(ct.integer, (batch, m, n, sides, MODES[name][mode], results, scratch))
    buffers = [ct.name(source.name), second, ct.name(target.name), *map(ct.name, phase.work)]
    threads = ct.integer(1) if serial else ct.name("threads")
    batched = f"lz_{form}_batch_{suffix}"
    return [e.prelude(batched, ct.name(routine), *numbers, *buffers, threads)]


# Kernels of users' own.


def custom_c(phase: CustomPhase, e: Expressions) -> list[ct.Node]:
    """The call of a user's function: for every example, where there are several, which then share
    the threads."""
    if phase.grid:
        raise LazytError(f"{phase.label} is a kernel for GPUs, and is given to the CPU")
    e.used.update(phase.used)
    if not phase.examples:
        return [ct.call(phase.routine, custom_arguments(phase, e, None, ct.name("threads")))]
    example = ct.name("b_")
    call = ct.call(phase.routine, custom_arguments(phase, e, example, ct.integer(1)))
    loop = ct.loop("b_", ct.integer(0), ct.integer(phase.examples), [call])
    every = [e.buffers[name] for name in (*phase.reads, *phase.writes)]
    nbytes = sum(b.dtype.itemsize * math.prod(b.shape) for b in every)
    if nbytes * BYTE_COST < SERIAL_WORK:
        return [loop]
    return [ct.pragma("omp parallel for num_threads(threads)"), loop]


def custom_arguments(
    phase: CustomPhase, e: Expressions, example: ct.Node | None, threads: ct.Node | None
) -> list[ct.Node]:
    """What a user's function is given, for one example where there are several."""

    def start(name: str, many: bool) -> ct.Node:
        size = math.prod(e.buffers[name].shape) // max(phase.examples, 1)
        if example is None or not many:
            return ct.name(name)
        return ct.binary("+", ct.name(name), ct.binary("*", example, ct.integer(size)))

    reads = iter(zip(phase.reads, phase.batched, strict=True))
    writes = iter(phase.writes)
    given: list[ct.Node] = []
    for slot in phase.slots:
        if slot in ("in", "value"):
            name, many = next(reads)
            place = start(name, bool(many))
            given.append(place if slot == "in" else ct.subscript(place, ct.integer(0)))
        elif slot == "out":
            given.append(start(next(writes), True))
        elif slot == "threads":
            given.append(ct.integer(1) if threads is None else threads)
        else:
            given.append(ct.integer(int(slot)))
    return given if threads is None else [*given, threads]
