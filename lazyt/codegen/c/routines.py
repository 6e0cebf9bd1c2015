"""Calls of routines as C: the text is in ``prelude``, its pointers and numbers come from here."""

from __future__ import annotations

import math

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions
from lazyt.codegen.loops.threads import SERIAL_WORK
from lazyt.ir.dtypes import DType, order_numbers
from lazyt.ir.kernel import CallPhase

#: Multiply-adds that sorting an element costs about as much as.
SORT_COST = 20
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
    """The statement that calls a sorting routine for all rows."""
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
        name = "lz_rows_sort_order_"
        if phase.routine == "sort_values":
            wide = length >= LONG and source.dtype.itemsize >= 4
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
