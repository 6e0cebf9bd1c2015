"""Which values to keep over a moment and which to compute again: a minimum cut.

Each value that is needed afterwards is either kept, which costs its bytes, or computed again, which
costs seconds and needs what its launch reads. Weighing one against the other with a price is a
problem of choosing with prerequisites (Picard, "Maximal closure of a graph", 1976), and its best
choice is a minimum cut: for each value there is an edge of its bytes from "needed" to "computed
again", and from there edges that cannot be cut to its launch and on to what that reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from lazyt.ir.graph import Node
from lazyt.passes.recipes import Recipe

_SOURCE, _SINK = "needed", "paid"


class Cutter:
    """The choice at one moment, to be asked for at several prices.

    Args:
        needed: values that later launches read.
        recipes: how values can be computed again; those without one are kept.
        weigh: what keeping a value costs; 0 for what is there anyway.
    """

    def __init__(
        self,
        needed: Iterable[Node],
        recipes: dict[Node, Recipe],
        weigh: Callable[[Node], float],
    ) -> None:
        import networkx

        self._networkx = networkx
        self._recipes = recipes
        self.graph: Any = networkx.DiGraph()
        self.graph.add_node(_SOURCE)
        self.graph.add_node(_SINK)
        self._residual: Any = None  # made for the highest price, which bounds what "no limit" is
        self._highest = 0.0
        self.launches: dict[Recipe, float] = {}
        self.values: list[Node] = []
        work, seen = [n for n in needed if weigh(n) > 0], set[Node]()
        for node in work:
            self.graph.add_edge(_SOURCE, (node, "needed"))
        while work:
            node = work.pop()
            if node in seen:
                continue
            seen.add(node)
            self._add(node, weigh(node))
            recipe = recipes.get(node)
            if recipe is not None and recipe not in self.launches:
                self.launches[recipe] = recipe.seconds
                for read in recipe.reads:
                    if weigh(read) > 0:
                        self.graph.add_edge(recipe, (read, "needed"))
                        work.append(read)

    def _add(self, node: Node, weight: float) -> None:
        self.values.append(node)
        recipe = self._recipes.get(node)
        end = _SINK if recipe is None else (node, "again")
        self.graph.add_edge((node, "needed"), end, capacity=weight)
        if recipe is not None:
            self.graph.add_edge(end, recipe)

    def prices(self, count: int) -> list[float]:
        """Prices of a second, in bytes, from where nothing is computed again to where all is."""
        ratios = [
            self.graph.edges[(n, "needed"), (n, "again")]["capacity"] / self._recipes[n].seconds
            for n in self.values
            if n in self._recipes
        ]
        if not ratios:
            return []
        high, low = 2 * max(ratios), min(ratios) / 8
        step = (low / high) ** (1 / max(count - 1, 1))
        return [high * step**n for n in range(count)]

    def lost(self, price: float) -> Collection[Node]:
        """The values to compute again when a second costs as much as ``price`` bytes."""
        for recipe, seconds in self.launches.items():
            self.graph.add_edge(recipe, _SINK, capacity=price * seconds)
            if self._residual is not None:
                self._residual[recipe][_SINK]["capacity"] = price * seconds
        flow = self._networkx.algorithms.flow
        if self._residual is None or price > self._highest:
            self._residual = flow.build_residual_network(self.graph, "capacity")
            self._highest = price
        _, (reached, _) = self._networkx.minimum_cut(
            self.graph, _SOURCE, _SINK, flow_func=flow.boykov_kolmogorov, residual=self._residual
        )
        return [n for n in self.values if (n, "again") in reached]
