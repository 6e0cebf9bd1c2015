"""What a graph is as instructions for the library of kernels for any shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lazyt.ir.graph import Head, Node, Source

__all__ = ["SIZE", "Encoded", "Step", "steps_in"]


class Step(NamedTuple):
    """What an instruction is part of: an op with its parameters, the form of its result and those
    of its operands, the user's position, and the ``work`` of all instructions before it."""

    head: Head
    form: int
    operands: tuple[int, ...]
    source: Source | None
    work: int


#: Entries of a step in ``Encoded.made_for``.
SIZE = len(Step._fields)


def steps_in(made_for: Sequence[Any]) -> Iterator[Step]:
    """The steps that stand in a flat list, one after the other."""
    entries = iter(made_for)
    return map(Step, entries, entries, entries, entries, entries)


class Encoded(NamedTuple):
    """A graph as instructions.

    Attributes:
        words: the instructions.
        scratch: bytes of scratch that they need.
        functions: the numbers of the functions that they call.
        results: where each root is, as of ``Program``.
        donated: inputs that are written to, as of ``Program``.
        patches: for each number of the graph, as node and axis (a start of a slice, or a constant
            with axis -1), which words depend on it, each with a factor by which a start moves
            the word; the bits of a constant are the word.
        work: a rough count of the elementary steps.
        made_for: what each instruction computes: the entries of one ``Step`` after those of the
            other. They stay as long as the plan does, and one list costs Python's collector of
            cycles nothing, where an object for each would make all its rounds longer.
    """

    words: list[int]
    scratch: int
    functions: frozenset[int]
    results: tuple[int, ...]
    donated: tuple[tuple[int, int], ...]
    patches: Mapping[tuple[Node, int], list[tuple[int, int]]]
    work: int
    made_for: list[Any]
