"""What a replay has to know of values before it may begin: indices, divisors, checked arguments.

A captured function looked at the smallest and largest value of an index and went on in a way that
is right within certain bounds. Where the index is an input, or is picked from one, the input's
values are looked at before each replay; where it is computed from inputs, a small plan computes its
extremes. A check of values (``functional.value_checks``) is a computed number that has to be 1.
What is computed from random numbers is computed twice: the generators go back in between.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lazyt import ops
from lazyt.capture import Bounds, Run
from lazyt.functional.generators import Generator, generator_of, returning
from lazyt.functional.picking import value_range, within
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node, topological
from lazyt.lifted import NumberLeaf
from lazyt.pending import realize_nodes
from lazyt.runtime.memory import Buffer
from lazyt.templates import CannotReplay, Origin, Template, node_of, prepare, template

#: Ops whose results hold values of their first operand and no others.
_LAYOUT_OPS = frozenset({"reshape", "permute", "expand", "cast", "slice", "flip", "detach"})
#: What a check of values, 1 where it holds, has to be.
ONE = within(1, 1)


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
        computed: what is found out by computing, None where nothing is.

    Args:
        run: the watched run.
        origins: where its leaves come from.

    Raises CannotReplay where an index is computed from numbers that Python gives anew, but for
    random ones and arguments.
    """

    def __init__(self, run: Run, origins: dict[Node, Origin]) -> None:
        inputs: dict[tuple[Origin, Bounds], None] = {}
        indices: list[tuple[Node, Bounds]] = []
        fills = [make for make, filled in run.recorder.calls if filled is not None]
        for node, bounds in dict.fromkeys(run.recorder.checks):
            leaf = _picked_from(node, bounds, origins)
            if leaf is not None:
                kind, place = origins[leaf]
                if kind != "call":
                    inputs[origins[leaf], bounds] = None
                elif isinstance(make := fills[place], NumberLeaf):
                    make.require(functools.partial(_is_one_within, bounds))
            elif node.inputs:
                indices.append((node, bounds))
        self.inputs = list(inputs)
        self.sources = {number for (kind, number), _ in inputs if kind == "source"}
        self.computed: ComputedChecks | None = None
        if indices:
            self.computed = ComputedChecks(indices, run, origins)
            self.sources |= self.computed.sources

    def hold(self, found: dict[str, Any]) -> bool:
        """Whether they hold for the nodes in ``found``, of each kind of place."""
        for origin, bounds in self.inputs:
            if not is_within(*value_range(node_of(origin, found)), bounds):
                return False
        return self.computed is None or self.computed.hold(found)


class ComputedChecks:
    """Checks of values that are computed from a replay's inputs.

    Attributes:
        places: which inputs, in the order in which ``hold_of`` takes them; None where they are not
            all that it takes.
        sources: numbers of the sources among them.

    Args:
        indices: nodes with the bounds of their smallest and their largest values.
        run: the watched run.
        origins: where its leaves come from.
    """

    def __init__(
        self, indices: Sequence[tuple[Node, Bounds]], run: Run, origins: dict[Node, Origin]
    ) -> None:
        flags = [node for node, bounds in indices if bounds == ONE and not node.shape]
        others = [(node, bounds) for node, bounds in indices if bounds != ONE or node.shape]
        roots = [node for index, _ in others for node in _extremes(index)]
        self._bounds = [bounds for _, bounds in others]
        if flags:
            flag = functools.reduce(lambda a, b: ops.apply("mul", a, b), flags)
            roots += [flag, flag]
            self._bounds.append(ONE)
        self._calls, self._generators = _calls_before(roots, run, origins)
        self._template: Template | None = None
        self._plan = prepare(roots, origins, {})
        if self._plan is None:
            self._template = template(roots, origins, run, False)
            used = [(kind, value) for kind, value in self._template.entries if kind != "op"]
        else:
            used = [*self._plan[1], *self._plan[2]]
        self.sources = {number for kind, number in used if kind == "source"}
        self.places: list[Origin] | None = None
        if self._plan is not None and not self._calls:
            known = [origin for origin in used if origin[0] in ("source", "part")]
            self.places = list(dict.fromkeys(known))

    def hold(self, found: dict[str, Any]) -> bool:
        """Whether they hold for the nodes in ``found``, of each kind of place."""
        if self._calls:
            with returning(self._generators):
                done = [function() for function, _ in self._calls]
            fills = [value for value, (_, is_leaf) in zip(done, self._calls) if is_leaf]
            found = {**found, "call": fills}
        if self._plan is not None:
            return self._is_fine([node_of(o, found).data for o in self._plan[1]], found)
        assert self._template is not None
        nodes = self._template.build(found, ())
        realize_nodes(nodes)
        return self._are_within([node.data for node in nodes])

    def hold_of(self, *nodes: Node) -> bool:
        """Whether they hold for the nodes of ``places``; not, where one is still to be computed."""
        if any(node.data is None for node in nodes):
            return False
        assert self._plan is not None and self.places is not None
        found: dict[str, Any] = {"source": {}, "part": {}}
        for (kind, number), node in zip(self.places, nodes, strict=True):
            found[kind][number] = node
        return self._is_fine([node_of(o, found).data for o in self._plan[1]], found)

    def _is_fine(self, buffers: list[Buffer], found: dict[str, Any]) -> bool:
        assert self._plan is not None
        prepared, _, outputs = self._plan
        computed = [] if prepared is None else prepared.run(buffers)
        return self._are_within(
            [
                computed[value] if kind == "output" else node_of((kind, value), found).data
                for kind, value in outputs
            ]
        )

    def _are_within(self, buffers: Sequence[Buffer]) -> bool:
        values = [int(data.as_numpy(int64, ()).item()) for data in buffers]
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


def _extremes(node: Node) -> Sequence[Node]:
    """The smallest and the largest value of a computed index."""
    axes = range(len(node.shape))
    return [ops.cast(ops.reduce_(kind, node, axes), int64) for kind in ("min", "max")]


def _calls_before(
    roots: Sequence[Node], run: Run, origins: dict[Node, Origin]
) -> tuple[list[tuple[Callable[[], Any], bool]], list[Generator]]:
    """What Python does at each replay up to the last leaf that ``roots`` are computed from, with
    whether it fills a leaf, and the generators that this draws from or moves.

    Raises CannotReplay where it does other things: they cannot be done twice.
    """
    leaves = [n for n in topological(roots, lambda n: n in origins) if n in origins]
    needed = {node for node in leaves if origins[node][0] == "call"}
    calls = run.recorder.calls
    last = max([n for n, (_, node) in enumerate(calls) if node in needed], default=-1)
    taken = calls[: last + 1]
    generators: dict[int, Generator] = {}
    for function, _ in taken:
        generator = generator_of(function)
        if generator is not None:
            generators[id(generator)] = generator
        elif not isinstance(function, NumberLeaf):
            raise CannotReplay(
                "it checks values, or computes an index, from numbers that Python gives anew at "
                "each call"
            )
    return [(function, node is not None) for function, node in taken], [*generators.values()]
