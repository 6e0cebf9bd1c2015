"""Finding a pattern in a graph: nodes that call the same of each other's results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lazyt.fx.graph import Graph
from lazyt.fx.node import Node
from lazyt.handle.tensor import Tensor

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One place where a graph has a pattern.

    Attributes:
        anchors: the last nodes of the pattern in the graph.
        nodes_map: the node of the graph for each of the pattern.
        placeholder_nodes: those for the arguments of the pattern, in their order.
        returning_nodes: those for what the pattern returns.
        name_node_map: taken for PyTorch's sake.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)


class SubgraphMatcher:
    """Finds a pattern in graphs. Nothing but what the pattern returns may be used outside of it.

    Args:
        pattern: the graph of the pattern, in which every node is used.
        match_output: whether its result has to be that of the whole graph.
        match_placeholder: whether its arguments stand for arguments of the graph only, not for any
            value.
        remove_overlapping_matches: leave out places that share nodes with one before.
        ignore_literals: whether numbers and strings may differ.

    Raises ValueError for an empty pattern, and AssertionError for one with dead code.
    """

    def __init__(
        self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
        remove_overlapping_matches: bool = True, ignore_literals: bool = False,
    ) -> None:  # fmt: skip
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            is_dead = not node.users and (node.op == "placeholder" or not node.is_impure())
            if is_dead:
                raise AssertionError(
                    "SubgraphMatcher cannot be initialized with an pattern with dead code"
                )
        self.pattern_placeholder_nodes = pattern.find_nodes(op="placeholder")
        output = pattern.output_node()
        self.pattern_returning_nodes = output.all_input_nodes
        last = [node for node in self.pattern_returning_nodes if len(node.users) == 1]
        self.pattern_anchors = [output] if match_output else last

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The places of a graph that have the pattern, in order.

        Args:
            node_name_match: a part of the names of nodes that match whatever they call.
        """
        found = [
            match
            for match in self._from_anchors(graph, 0, InternalMatch([]), node_name_match)
            if self._is_contained(match.nodes_map) and self._is_new(match)
        ]
        return self._without_overlaps(found) if self.remove_overlapping_matches else found

    def _from_anchors(
        self, graph: Graph, number: int, match: InternalMatch, name: str
    ) -> Iterator[InternalMatch]:
        """The matches in which the anchors from a number on are found, too."""
        if number == len(self.pattern_anchors):
            nodes = match.nodes_map
            match.placeholder_nodes = [nodes[n] for n in self.pattern_placeholder_nodes]
            match.returning_nodes = [nodes[n] for n in self.pattern_returning_nodes]
            yield match
            return
        anchor = self.pattern_anchors[number]
        for node in graph.nodes:
            trial = InternalMatch([*match.anchors, node], dict(match.nodes_map))
            if self._matches(anchor, node, trial, name):
                connected = not match.nodes_map or match.nodes_map.keys() & _above(anchor)
                if connected:
                    yield from self._from_anchors(graph, number + 1, trial, name)

    def _is_new(self, match: InternalMatch) -> bool:
        """Whether every value of the pattern is another one of the graph."""
        nodes = [n for p, n in match.nodes_map.items() if p.op != "placeholder"]
        return len(set(nodes)) == len(nodes)

    def _matches(self, pattern: Node, node: Node, match: InternalMatch, name: str = "") -> bool:
        """Whether a node, with all that it is computed from, is as one of the pattern."""
        if pattern in match.nodes_map:
            return match.nodes_map[pattern] is node
        if any(known is node for known in match.nodes_map.values()):
            return False
        if not self._calls_same(pattern, node, name):
            return False
        before = dict(match.nodes_map)
        match.nodes_map[pattern] = node
        if pattern.op == "placeholder":
            return True
        same_form = len(pattern.args) == len(node.args) and list(pattern.kwargs) == list(
            node.kwargs
        )
        if same_form and self._match_all(
            [*pattern.args, *pattern.kwargs.values()], [*node.args, *node.kwargs.values()], match
        ):
            return True
        match.nodes_map = before
        return False

    def _calls_same(self, pattern: Node, node: Node, name: str) -> bool:
        if not self.match_placeholder and pattern.op == "placeholder":
            return True
        if name and name in node.name:
            return True
        if pattern.op != node.op:
            return False
        if pattern.op in ("placeholder", "output"):
            return True
        if pattern.op == "get_attr":
            values = (_value_of(pattern), _value_of(node))
            return all(isinstance(value, Tensor) for value in values) and (
                type(values[0]) is type(values[1])
            )
        return bool(pattern.target == node.target)

    def _match_all(self, wanted: Any, given: Any, match: InternalMatch) -> bool:
        return len(wanted) == len(given) and all(
            self._match_argument(a, b, match) for a, b in zip(wanted, given)
        )

    def _match_argument(self, wanted: Any, given: Any, match: InternalMatch) -> bool:
        if isinstance(wanted, Node) and isinstance(given, Node):
            return self._matches(wanted, given, match)
        if isinstance(wanted, (list, tuple)) and isinstance(given, (list, tuple)):
            return self._match_all(wanted, given, match)
        if isinstance(wanted, Node):  # an argument of the pattern stands for any value
            if wanted.op != "placeholder":
                return self.ignore_literals
            if wanted in match.nodes_map:
                return bool(match.nodes_map[wanted] == given)
            match.nodes_map[wanted] = given
            return True
        if isinstance(given, Node):
            return self.ignore_literals
        return self.ignore_literals or (type(wanted) is type(given) and bool(wanted == given))

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Whether nothing but what the pattern returns is used outside of the match."""
        inner = {node: p for p, node in nodes_map.items() if p.op != "placeholder"}
        return all(
            user in inner
            for node, p in inner.items()
            if p not in self.pattern_returning_nodes and p.op != "output"
            for user in node.users
        )

    def _without_overlaps(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        taken: set[Node] = set()
        found = []
        for match in matches:
            nodes = {n for p, n in match.nodes_map.items() if p.op not in ("placeholder", "output")}
            if not nodes & taken:
                taken |= nodes
                found.append(match)
        return found


def _above(node: Node) -> set[Node]:
    """A node and all that it is computed from."""
    found: set[Node] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending += current.all_input_nodes
    return found


def _value_of(node: Node) -> Any:
    """What a node reads from the module."""
    found: Any = node.graph.owning_module
    for part in node.target.split("."):
        found = getattr(found, part)
    return found
