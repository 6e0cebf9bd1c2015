"""Rules of ops that both dialects write by the same calls of their builders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, Shape


class Moves(Protocol):
    """A builder, as far as these rules need it. Values go by their names in the text."""

    def name(self, node: Node) -> str:
        """The value of a node."""

    def reshape(self, value: str, old: Shape, new: Shape, dtype: DType) -> str:
        """The same elements in another shape."""

    def reverse(self, value: str, axes: Sequence[int], shape: Shape, dtype: DType) -> str:
        """The elements in the opposite order along some axes."""


def unchanged(p: Moves, node: Node) -> str:
    """What an op computes that only marks its input."""
    return p.name(node.inputs[0])


def reshape(p: Moves, node: Node) -> str:
    """The op ``reshape``."""
    (source,) = node.inputs
    return p.reshape(p.name(source), source.shape, node.shape, node.dtype)


def flip(p: Moves, node: Node) -> str:
    """The op ``flip``."""
    return p.reverse(p.name(node.inputs[0]), node.params.axes, node.shape, node.dtype)
