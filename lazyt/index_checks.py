"""What a replay has to know of the values of indices before it may begin.

A captured function looked at the smallest and largest value of an index and went on in a way that
is right within certain bounds. Where the index is an input, or is picked from one, the input's
values are looked at before each replay; where it is computed from inputs, a small plan computes its
extremes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.capture import Bounds, Run
from lazyt.functional.picking import value_range
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node, topological
from lazyt.lifted import NumberLeaf
from lazyt.pending import realize_nodes
from lazyt.templates import CannotReplay, Origin, Template, node_of, template

#: Ops whose results hold values of their first operand and no others.
_LAYOUT_OPS = frozenset({"reshape", "permute", "expand", "cast", "slice", "flip", "detach"})


def is_within(low: int, high: int, bounds: Bounds) -> bool:
    """Whether a smallest and a largest value are within their bounds."""
    lowest, highest = bounds
    return lowest[0] <= low <= lowest[1] and highest[0] <= high <= highest[1]


def _is_one_within(bounds: Bounds, value: int) -> bool:
    return is_within(value, value, bounds)


class IndexChecks:
    """The checks of one replay.

    Attributes:
        inputs: origins whose values have to be within bounds.
        sources: numbers of the sources that are looked at.
        are_computed: whether there are others, which take a plan.

    Args:
        run: the watched run.
        origins: where its leaves come from.

    Raises CannotReplay where an index is computed from random numbers or the like.
    """

    def __init__(self, run: Run, origins: dict[Node, Origin]) -> None:
        inputs: dict[tuple[Origin, Bounds], None] = {}
        extremes: list[Node] = []
        fills = [make for make, filled in run.recorder.calls if filled is not None]
        self._bounds: list[Bounds] = []
        self._template: Template | None = None
        for node, bounds in dict.fromkeys(run.recorder.checks):
            leaf = _picked_from(node, bounds, origins)
            if leaf is not None:
                kind, place = origins[leaf]
                if kind != "call":
                    inputs[origins[leaf], bounds] = None
                elif isinstance(make := fills[place], NumberLeaf):
                    make.require(functools.partial(_is_one_within, bounds))
            elif node.inputs:
                extremes += _extremes(node, origins)
                self._bounds.append(bounds)
        self.inputs = list(inputs)
        self.sources = {number for (kind, number), _ in inputs if kind == "source"}
        self.are_computed = bool(extremes)
        if extremes:
            self._template = template(extremes, origins, run, False)
            entries = self._template.entries
            self.sources |= {value for kind, value in entries if kind == "source"}

    def hold(self, found: dict[str, Any]) -> bool:
        """Whether they hold for the nodes in ``found``, of each kind of place."""
        for origin, bounds in self.inputs:
            if not is_within(*value_range(node_of(origin, found)), bounds):
                return False
        if self._template is None:
            return True
        nodes = self._template.build(found, ())
        realize_nodes(nodes)
        values = [int(node.data.as_numpy(int64, ()).item()) for node in nodes]
        return all(map(is_within, values[::2], values[1::2], self._bounds))


def _picked_from(node: Node, bounds: Bounds, origins: dict[Node, Origin]) -> Node | None:
    """The leaf that an index is, or is picked from, where that can be looked at instead."""
    leaf, picked = node, False
    while leaf not in origins and (leaf.op.name in _LAYOUT_OPS or leaf.op.name == "gather"):
        picked = picked or leaf.op.name == "gather"
        leaf = leaf.inputs[0]
    if leaf not in origins:
        return None
    if picked:  # all of the leaf is in range, whatever is picked
        if bounds[0] != bounds[1]:
            return None
        realize_nodes([leaf] if leaf.data is None else [])
        if not is_within(*value_range(leaf), bounds):
            return None
    return leaf


def _extremes(node: Node, origins: dict[Node, Origin]) -> Sequence[Node]:
    """The smallest and the largest value of a computed index."""
    for leaf in topological([node], lambda n: n in origins):
        if origins.get(leaf, ("",))[0] == "call":
            raise CannotReplay(
                "it computes an index from numbers that are random or change, whose range has to "
                "be looked at"
            )
    axes = range(len(node.shape))
    return [ops.cast(ops.reduce_(kind, node, axes), int64) for kind in ("min", "max")]
