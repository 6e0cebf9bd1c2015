"""Pictures of graphs, in the language of Graphviz."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lazyt.fx.graph_module import GraphModule
from lazyt.fx.node import Node
from lazyt.fx.passes.shape_prop import TensorMetadata

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "AliceBlue", "get_attr": "LightSalmon", "output": "PowderBlue",
    "call_module": "LemonChiffon1", "call_function": "Thistle", "call_method": "Lavender",
}  # fmt: skip


class FxGraphDrawer:
    """Draws the graph of a module.

    >>> from lazyt.fx.passes.graph_drawer import FxGraphDrawer
    >>> traced = lazyt.fx.symbolic_trace(lambda x: x + 1)
    >>> print(FxGraphDrawer(traced, "sum").source().splitlines()[0])
    digraph "sum" {

    Args:
        graph_module: the module.
        name: the title.
        ignore_getattr: leave out the nodes that read attributes.
    """

    def __init__(
        self, graph_module: GraphModule, name: str, ignore_getattr: bool = False, **unused: Any
    ) -> None:
        self.graph_module = graph_module
        self.name = name
        self.ignore_getattr = ignore_getattr

    def source(self) -> str:
        """The text, which the program ``dot`` draws."""
        nodes = [
            node for node in self.graph_module.graph.nodes
            if not (self.ignore_getattr and node.op == "get_attr")
        ]  # fmt: skip
        lines = [f"digraph {_quoted(self.name)} {{", "rankdir=TB;"]
        for node in nodes:
            style = f'shape=record, style="filled,rounded", fillcolor={_COLORS[node.op]}'
            lines.append(f"{_quoted(node.name)} [label={_quoted(_label(node))}, {style}];")
        shown = set(nodes)
        for node in nodes:
            lines += [
                f"{_quoted(used.name)} -> {_quoted(node.name)};"
                for used in node.all_input_nodes
                if used in shown
            ]
        return "\n".join([*lines, "}"]) + "\n"

    def get_dot_graph(self) -> Any:
        """The picture as an object of the package pydot, which has ``write_svg`` and the like.

        Raises ImportError where that is not installed; ``source`` needs nothing.
        """
        pydot: Any = import_module("pydot")
        return pydot.graph_from_dot_data(self.source())[0]


def _label(node: Node) -> str:
    parts = [f"name=%{node.name}", f"op_code={node.op}"]
    parts.append(f"target={node._pretty_print_target(node.target)}")
    meta = node.meta.get("tensor_meta")
    if isinstance(meta, TensorMetadata):
        parts += [f"dtype={meta.dtype}", f"shape={tuple(meta.shape)}"]
    for mark in "{}|<>":
        parts = [part.replace(mark, "\\" + mark) for part in parts]
    return "{" + "|".join(parts) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
