"""Replacing every place of a graph that has a pattern by another graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from lazyt.fx._symbolic_trace import symbolic_trace
from lazyt.fx.graph import Graph
from lazyt.fx.graph_module import GraphModule
from lazyt.fx.node import Node
from lazyt.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from lazyt.nn.module import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

Program = Callable[..., Any] | Graph | GraphModule
Filter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """A place that was replaced: the last node of the pattern in the graph, and the node of the
    graph for each of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """The same with the nodes that are there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Program, replacement: Program) -> list[Match]:
    """Replace every place where a graph computes ``pattern``.

    Args:
        gm: the module whose graph is changed.
        pattern: a function or module that is traced, or a graph. Its parameters stand for any
            value. Nothing but what it returns may be used elsewhere.
        replacement: the same, with as many parameters and results.

    Returns the places that were replaced. Where places overlap, the first is.

    >>> def pattern(x):
    ...     return lazyt.sigmoid(x) * x
    >>> traced = lazyt.fx.symbolic_trace(lambda x: lazyt.sigmoid(x + 1) * (x + 1))
    >>> len(lazyt.fx.replace_pattern(traced, pattern, lambda x: lazyt.nn.functional.silu(x)))
    0
    >>> def program(x):
    ...     y = x + 1
    ...     return lazyt.sigmoid(y) * y
    >>> traced = lazyt.fx.symbolic_trace(program)
    >>> len(lazyt.fx.replace_pattern(traced, pattern, lambda x: lazyt.nn.functional.silu(x)))
    1
    """
    made = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(match.anchor, match.nodes_map) for match in made]


def replace_pattern_with_filters(
    gm: GraphModule, pattern: Program, replacement: Program | None = None,
    match_filters: list[Filter] | None = None, ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:  # fmt: skip
    """``replace_pattern`` at the places that all filters let through.

    Args:
        match_filters: take the match, the graph and the pattern's graph, and say whether to
            replace.
        ignore_literals: whether numbers and strings of the pattern stand for any others.
        replacement_callback: takes the same, and gives the graph to put there.
        node_name_match: a part of the names of nodes that match whatever they call.

    Raises AssertionError where there is neither a replacement nor a callback, or a replacement has
    another number of parameters or results than the pattern.
    """
    if replacement is None and replacement_callback is None:
        raise AssertionError(
            "Must provide either a replacement GraphModule or a replacement callback"
        )
    graph, wanted = gm.graph, _graph_of(pattern)
    common = None if replacement is None else _graph_of(replacement)
    matcher = SubgraphMatcher(wanted, ignore_literals=ignore_literals)
    changed: dict[Node, Node] = {}
    made = []
    for match in [
        m
        for m in matcher.match(graph, node_name_match)
        if all(is_wanted(m, graph, wanted) for is_wanted in match_filters or ())
    ]:
        if replacement_callback is not None:
            common = replacement_callback(match, graph, wanted)
        assert common is not None
        made.append(_replace(graph, wanted, match, common, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_over(gm, replacement)
    return made


def _graph_of(program: Program) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _replace(
    graph: Graph, pattern: Graph, match: InternalMatch, replacement: Graph,
    changed: dict[Node, Node],
) -> ReplacedPatterns:  # fmt: skip
    """Put a replacement in one place.

    Args:
        changed: what stands for nodes that were replaced before.
    """
    inputs = replacement.find_nodes(op="placeholder")
    if len(inputs) != len(match.placeholder_nodes):
        raise AssertionError(
            f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(inputs)}"
        )

    def now(value: Any) -> Any:
        while isinstance(value, Node) and value in changed:
            value = changed[value]
        return value

    match.placeholder_nodes = [now(value) for value in match.placeholder_nodes]
    for node in matched_inputs(match):
        match.nodes_map[node] = now(match.nodes_map[node])
    values: dict[Node, Any] = dict(zip(inputs, match.placeholder_nodes))
    with graph.inserting_before(_place(graph, match)):
        results = graph.graph_copy(replacement, values)
    if isinstance(results, Node):
        results = (results,)
    if len(results) != len(match.returning_nodes):
        raise AssertionError(
            f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}"
        )
    added = [values[node] for node in values if node not in inputs]
    for old, new in zip(match.returning_nodes, results):
        old.replace_all_uses_with(new)
        changed[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(match.anchors[0], match.nodes_map, added)


def matched_inputs(match: InternalMatch) -> list[Node]:
    """The arguments of the pattern of a match."""
    return [node for node in match.nodes_map if node.op == "placeholder"]


def _place(graph: Graph, match: InternalMatch) -> Node:
    """The node before which a replacement is computed: the first that uses a result, or the one
    behind the pattern."""
    users = {user for node in match.returning_nodes for user in node.users}
    inner = set(map(id, match.nodes_map.values()))
    found = next((n for n in graph.nodes if n in users and id(n) not in inner), None)
    return found or max(match.returning_nodes).next


def _take_over(gm: GraphModule, replacement: Module) -> None:
    """Give a module what its graph names now and only the replacement has."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _attribute(gm, node.target) is not None:
            continue
        found = _attribute(replacement, node.target)
        if found is None:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target '
                f"{node.target}, but the referenced attribute does not exist in the replacement "
                "GraphModule"
            )
        copied = copy.deepcopy(found)
        if isinstance(found, Module):
            gm.add_submodule(node.target, copied)
        else:
            parent, _, name = node.target.rpartition(".")
            setattr(gm.get_submodule(parent), name, copied)
    gm.graph.lint()


def _attribute(module: Module, path: str) -> Any:
    parent, _, name = path.rpartition(".")
    try:
        return getattr(module.get_submodule(parent), name, None)
    except AttributeError:
        return None
