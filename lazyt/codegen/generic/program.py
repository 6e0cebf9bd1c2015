"""Instructions and the library that follows them as a Program, which the runtime loads and runs."""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.codegen.generic.encode import Encoded
from lazyt.codegen.generic.library import library, numbers, units
from lazyt.ir.graph import Node
from lazyt.ir.program import Launch, Program, Slot

#: What the only launch of such a program is called.
NAME = "lz_unit_moves"


def generic_program(
    encoded: Encoded, leaves: Sequence[Node], roots: Sequence[Node], vector_bytes: int
) -> tuple[Program, str]:
    """The program of an encoded graph, whose last input holds the instructions, ``values``, and its
    ``text_hash``, which all programs of a library share."""
    found = library(encoded.functions, vector_bytes)
    table = Slot("input", len(leaves), 0, 8 * len(encoded.words))
    scratch = Slot("arena", 0, 0, encoded.scratch) if encoded.scratch else table
    given = [Slot("input", number, 0, leaf.nbytes) for number, leaf in enumerate(leaves)]
    sizes = {place: root.nbytes for place, root in zip(encoded.results, roots, strict=True)}
    outputs = [Slot("output", n, 0, size) for n, size in sorted(sizes.items()) if n >= 0]
    program = Program(
        target="c",
        sections=found.sections,
        kernels=found.kernels,
        entry=found.entry,
        slots=(table, scratch, *given, *outputs),
        launches=(Launch(NAME, (0,)),),
        arena_bytes=encoded.scratch,
        results=encoded.results,
        donated=encoded.donated,
        values=tuple(encoded.words),
        notes=({"name": "generic", "kind": "generic", "work": encoded.work},),
    )
    return program, found.text_hash


def warm_programs(vector_bytes: int) -> list[tuple[Program, str]]:
    """Programs that do nothing, of libraries that together have every unit: one of what most use,
    then one more for each other unit."""
    libraries = [library((), vector_bytes)]
    for unit in units():
        if not unit.is_first:
            libraries.append(library([numbers()[unit.functions[0]]], vector_bytes))
    table = Slot("input", 0, 0, 16)
    return [
        (
            Program(
                "c", found.sections, found.kernels, found.entry, (table,), (), 0, values=(0, -1)
            ),
            found.text_hash,
        )
        for found in libraries
    ]
