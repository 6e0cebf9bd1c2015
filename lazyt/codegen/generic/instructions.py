"""What a graph is as instructions for the library of kernels for any shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Head, Node, Source

__all__ = ["Encoded", "Step"]


class Step(NamedTuple):
    """What an instruction is part of: an op with its parameters, the type and shape of its result,
    the number of elements and the type of each operand, the user's position, and the ``work`` of
    all instructions before it."""

    head: Head
    dtype: DType
    shape: tuple[int, ...]
    operands: tuple[tuple[tuple[int, ...], DType], ...]
    source: Source | None
    work: int


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
        made_for: what each instruction computes.
    """

    words: list[int]
    scratch: int
    functions: frozenset[int]
    results: tuple[int, ...]
    donated: tuple[tuple[int, int], ...]
    patches: Mapping[tuple[Node, int], list[tuple[int, int]]]
    work: int
    made_for: list[Step]
