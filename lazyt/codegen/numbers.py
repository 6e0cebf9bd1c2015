"""Kernels that differ in constants only, made one kernel that takes them as arguments.

A loop that Python unrolls compares with step 3 here and with step 4 there. Compiled for their
numbers, that is a kernel for every step. Two kernels of the same text are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lazyt.codegen.printed import PrintedKernel
from lazyt.ir.kernel import ContractPhase, Kernel

#: Different kernels from which on their numbers become arguments: a compiler makes more of a
#: number that it knows.
FEWEST = 3

#: Kinds of groups whose kernels keep their texts.
UNSHARED = frozenset({"contract"})

Printer = Callable[[Kernel, Mapping[int, str] | None], PrintedKernel]


def share_texts(
    kernels: Sequence[Kernel], printed: Sequence[PrintedKernel], printer: Printer
) -> list[PrintedKernel]:
    """``printed`` kernels, those that are one but for their constants with equal texts.

    ``printer`` writes a kernel with its constants of given numbers (all, for an empty mapping) by
    names.
    """
    families: dict[str, list[int]] = {}
    for number, (kernel, made) in enumerate(zip(kernels, printed, strict=True)):
        if not kernel.segments and not isinstance(kernel.phases[0], ContractPhase):
            families.setdefault(_outline(made.source.text), []).append(number)
    found = list(printed)
    for members in families.values():
        if len({printed[n].source.text for n in members}) < FEWEST:
            continue
        bare: dict[str, list[tuple[int, PrintedKernel]]] = {}
        for number in members:
            made = printer(kernels[number], {})
            bare.setdefault(made.source.text, []).append((number, made))
        for same in bare.values():
            if len({printed[n].source.text for n, _ in same}) >= FEWEST:
                _name_what_differs(same, kernels, printer, found)
    return found


def _outline(text: str) -> str:
    """A text without its numbers."""
    return re.sub(r"[0-9][0-9.]*", "0", text)


def _name_what_differs(
    same: Sequence[tuple[int, PrintedKernel]],
    kernels: Sequence[Kernel],
    printer: Printer,
    found: list[PrintedKernel],
) -> None:
    """Writes kernels that differ in constants with arguments for just those."""
    rows = [made.values for _, made in same]
    names: dict[int, str] = {}
    columns: dict[tuple[str, ...], str] = {}
    for place, column in enumerate(zip(*rows, strict=True)):
        if len(set(column)) > 1:
            names[place] = columns.setdefault(column, f"n{len(columns)}_")
    places = {name: place for place, name in reversed(names.items())}
    source = printer(kernels[same[0][0]], names).source
    for number, made in same:
        values = tuple(made.values[places[name]] for name in columns.values())
        found[number] = replace(made, source=source, values=values)
