"""Instructions and the library that follows them as a Program, which the runtime loads and runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from lazyt.codegen.generic.encode import Encoded, Step
from lazyt.ir.graph import Node, source_text
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
    count = len(encoded.made_for)
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
    steps, work = cast("tuple[list[Step], int]", program.notes[0]["steps"])
    notes: list[dict[str, object]] = []
    for step, end in zip(steps, [*(s.work for s in steps[1:]), work], strict=True):
        op = step.head.op.name
        kind = f" {step.head.params.kind}" if op in ("reduce", "scan", "sort", "scatter") else ""
        flops = (end - step.work) * (2 if op == "contract" else 1)
        read = sum([math.prod(shape) * dtype.itemsize for shape, dtype in step.operands])
        notes.append({
            "name": f"generic {op}{kind}",
            "kind": "contract" if op == "contract" else "generic",
            "computes": [f"{op}{kind} {step.dtype.name}{list(step.shape)}"],
            "bytes_read": read,
            "bytes_written": math.prod(step.shape) * step.dtype.itemsize,
            "flops": flops,
            "scratch": 0,
            "phases": 1,
            "reasons": [],
            "sources": [] if step.source is None else [source_text(step.source)],
        })  # fmt: skip
    return notes


def timed(program: Program, words: Sequence[int]) -> list[int]:
    """The instructions of a program such that the time is taken before the first and after each:
    behind ``words``, in float64 seconds of ``time.CLOCK_MONOTONIC``."""
    steps, _ = cast("tuple[list[Step], int]", program.notes[0]["steps"])
    return [-8 * len(words), *words[1:], *(0,) * (len(steps) + 1)]
