"""Random valid graphs over the whole vocabulary, with data, for property tests and ``lazyt fuzz``.

``random_graph(seed)`` makes a graph from a seed, fast enough for thousands; ``make_graph`` from any
``Chooser``, such as one that a property-testing library draws from.
"""

from __future__ import annotations

from lazyt.testing.graph_maker import Chooser, GraphMaker, RandomGraph, SeededChooser
from lazyt.testing.structural_ops import STRUCTURAL


def make_graph(chooser: Chooser, max_nodes: int = 12) -> RandomGraph:
    """A random graph from a chooser's decisions."""
    maker = GraphMaker(chooser)
    maker.grow(chooser.number(2, max_nodes), STRUCTURAL)
    return maker.finish()


def random_graph(seed: int, max_nodes: int = 12) -> RandomGraph:
    """The random graph number ``seed``."""
    return make_graph(SeededChooser(seed), max_nodes)
