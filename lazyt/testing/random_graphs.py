"""Random valid graphs over the whole vocabulary, with data, for property tests and ``lazyt fuzz``.

``random_graph(seed)`` makes a graph from a seed, fast enough for thousands; ``make_graph`` from any
``Chooser``, such as one that a property-testing library draws from.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.testing.graph_maker import Chooser, GraphMaker, RandomGraph, Rule, SeededChooser
from lazyt.testing.structural_ops import STRUCTURAL


def make_graph(
    chooser: Chooser, max_nodes: int = 12, rules: Sequence[Rule] = STRUCTURAL
) -> RandomGraph:
    """A random graph from a chooser's decisions; ``rules`` are those of its structural ops."""
    maker = GraphMaker(chooser)
    maker.grow(chooser.number(2, max_nodes), rules)
    return maker.finish()


def random_graph(seed: int, max_nodes: int = 12) -> RandomGraph:
    """The random graph number ``seed``."""
    return make_graph(SeededChooser(seed), max_nodes)


def graph_of_few_ops(seed: int, max_nodes: int = 24) -> RandomGraph:
    """The random graph number ``seed`` of a few structural ops only, which so meet each other, and
    themselves, far more often than in a graph of all."""
    chooser = SeededChooser(seed)
    rules = [chooser.pick(STRUCTURAL) for _ in range(chooser.number(1, 4))]
    return make_graph(chooser, max_nodes, rules)
