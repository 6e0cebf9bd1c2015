"""Instructions and the library that follows them as a Program, which the runtime loads and runs."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from lazyt.codegen.generic.instructions import SIZE, Encoded, steps_in
from lazyt.codegen.generic.recipes import bits_of
from lazyt.ir.dtypes import DType
from lazyt.ir.forms import type_of
from lazyt.ir.graph import Node, Type, source_text
from lazyt.ir.program import Launch, Program, Slot


def generic_program(encoded: Encoded, leaves: Sequence[Node], roots: Sequence[Node]) -> Program:
    """The program of an encoded graph. Its last input holds the instructions; all such
    programs have one binary, and no text."""
    table = Slot("input", len(leaves), 0, 8 * len(encoded.words))
    scratch = Slot("arena", 0, 0, encoded.scratch) if encoded.scratch else table
    given = [Slot("input", number, 0, leaf.nbytes) for number, leaf in enumerate(leaves)]
    sizes = {place: root.nbytes for place, root in zip(encoded.results, roots, strict=True)}
    outputs = [Slot("output", n, 0, size) for n, size in sorted(sizes.items()) if n >= 0]
    return Program(
        target="c",
        sections=(),
        kernels=(),
        entry="",
        slots=(table, scratch, *given, *outputs),
        launches=(Launch("generic", (0,)),),
        arena_bytes=encoded.scratch,
        results=encoded.results,
        donated=encoded.donated,
        notes=(_note(encoded, leaves, roots),),
    )


def _note(encoded: Encoded, leaves: Sequence[Node], roots: Sequence[Node]) -> dict[str, object]:
    """What the program's only launch says about itself; ``steps`` has its instructions."""
    count = len(encoded.made_for) // SIZE
    return {
        "name": "generic",
        "kind": "generic",
        "computes": [f"{count} instruction{'s' * (count != 1)}, one after the other"],
        "bytes_read": sum([leaf.nbytes for leaf in leaves]),
        "bytes_written": sum([root.nbytes for root in roots]),
        "flops": encoded.work,
        "scratch": encoded.scratch,
        "phases": count,
        "reasons": ["kernels for any shape run what is not compiled, operation by operation"],
        "sources": [],
        "steps": (encoded.made_for, encoded.work),
    }


def step_notes(program: Program) -> list[dict[str, object]]:
    """What there is to say about each instruction of a program, as about a kernel."""
    made_for, work = cast("tuple[list[Any], int]", program.notes[0]["steps"])
    steps = [*steps_in(made_for)]
    notes: list[dict[str, object]] = []
    for step, end in zip(steps, [*(s.work for s in steps[1:]), work], strict=True):
        op = step.head.op.name
        kind = f" {step.head.params.kind}" if op in ("reduce", "scan", "sort", "scatter") else ""
        flops = (end - step.work) * (2 if op == "contract" else 1)
        made = cast("Type", type_of(step.form))
        read = sum([_bytes_of(form) for form in step.operands])
        notes.append({
            "name": f"generic {op}{kind}",
            "kind": "contract" if op == "contract" else "generic",
            "computes": [f"{op}{kind} {made.dtype.name}{list(made.shape)}"],
            "bytes_read": read,
            "bytes_written": _bytes_of(step.form),
            "flops": flops,
            "scratch": 0,
            "phases": 1,
            "reasons": [],
            "sources": [] if step.source is None else [source_text(step.source)],
        })  # fmt: skip
    return notes


def _bytes_of(form: int) -> int:
    type_ = cast("Type", type_of(form))
    return math.prod(type_.shape) * type_.dtype.itemsize


def timed(program: Program, words: Sequence[int]) -> list[int]:
    """The instructions of a program such that the time is taken before the first and after each:
    behind ``words``, in float64 seconds of ``time.CLOCK_MONOTONIC``."""
    made_for, _ = cast("tuple[list[Any], int]", program.notes[0]["steps"])
    return [-8 * len(words), *words[1:], *(0,) * (len(made_for) // SIZE + 1)]


# The instructions of a graph with its numbers left open: constants, and where slices begin.
#
# Graphs of one structure differ in such numbers alone. Their instructions differ in some
# words only, which are computed from the numbers without encoding the graph again.


class Hole(NamedTuple):
    """A word that depends on numbers of the graph.

    Attributes:
        place: which word.
        constant: the number of the node whose constant it is, -1 where starts of slices decide it.
        dtype: that of the constant.
        base: the word where all slices begin at 0.
        starts: number of a slice or update, axis, and by what one more element moves the word.
    """

    place: int
    constant: int
    dtype: DType | None
    base: int
    starts: tuple[tuple[int, int, int], ...]


class Table:
    """The instructions of all graphs of one structure.

    Attributes:
        words: those of the graph that was encoded.
        holes: what differs in others, by place.
    """

    __slots__ = ("holes", "words")

    def __init__(self, made: Encoded, order: Sequence[Node]) -> None:
        self.words = array("q", made.words)
        self.holes = _holes(made, order) if made.patches else []

    def filled(self, order: Sequence[Node]) -> array[int]:
        """The instructions of a graph of the structure, given its nodes by number."""
        words = self.words[:]
        for place, constant, dtype, word, starts in self.holes:
            if dtype is not None:
                word = bits_of(order[constant].params, dtype)
            else:
                for number, axis, factor in starts:
                    word += factor * order[number].params.starts[axis]
            words[place] = word
        return words


def _holes(made: Encoded, order: Sequence[Node]) -> list[Hole]:
    numbers = {node: number for number, node in enumerate(order)}
    found: list[Hole] = []
    starts: dict[int, list[tuple[int, int, int]]] = {}
    for (node, axis), places in made.patches.items():
        for place, factor in places:
            if axis < 0:
                found.append(Hole(place, numbers[node], node.dtype, 0, ()))
            elif factor:
                starts.setdefault(place, []).append((numbers[node], axis, factor))
    for place, moved in starts.items():
        begin = sum([factor * order[n].params.starts[axis] for n, axis, factor in moved])
        found.append(Hole(place, -1, None, made.words[place] - begin, tuple(moved)))
    return sorted(found, key=lambda hole: hole.place)
