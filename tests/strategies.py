"""Random graphs as a hypothesis strategy, which shrinks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

from lazyt.testing.graph_maker import RandomGraph
from lazyt.testing.random_graphs import make_graph

T = TypeVar("T")


class DrawnChooser:
    """Decisions drawn by hypothesis, which can shrink them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def number(self, low: int, high: int) -> int:
        """A whole number in ``low .. high``."""
        return self.draw(st.integers(low, high))

    def pick(self, items: Sequence[T]) -> T:
        """One of ``items``."""
        return items[self.draw(st.integers(0, len(items) - 1))]


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 12) -> RandomGraph:
    """Random valid graphs over all ops and types, as a hypothesis strategy."""
    return make_graph(DrawnChooser(draw), max_nodes)
