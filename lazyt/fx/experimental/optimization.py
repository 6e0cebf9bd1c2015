"""Changes of networks for inference: batch norms folded into what is before them, no dropout."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from lazyt.fx._symbolic_trace import symbolic_trace
from lazyt.fx.graph import Graph
from lazyt.fx.graph_module import GraphModule
from lazyt.fx.interpreter import Transformer
from lazyt.fx.node import Argument, Node, Target
from lazyt.nn.activation import Dropout
from lazyt.nn.convolution import Conv1d, Conv2d, Conv3d
from lazyt.nn.linear import Linear
from lazyt.nn.module import Module
from lazyt.nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from lazyt.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "extract_subgraph", "fuse", "matches_module_pattern", "remove_dropout", "replace_node_module",
]  # fmt: skip

_PAIRS = (
    (Conv1d, BatchNorm1d), (Conv2d, BatchNorm2d), (Conv3d, BatchNorm3d), (Linear, BatchNorm1d),
)  # fmt: skip


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Module]) -> bool:
    """Whether a node calls a module of the second class of ``pattern`` with the result of one of
    the first.

    Args:
        modules: the submodules by their paths.
    """
    if not node.args:
        return False
    return all(
        isinstance(called, Node)
        and called.op == "call_module"
        and type(modules.get(called.target)) is wanted
        for wanted, called in zip(pattern, (node.args[0], node))
    )


def replace_node_module(node: Node, modules: dict[str, Module], new_module: Module) -> None:
    """Put a module in the place of the one that a node calls, and into ``modules``."""
    parent, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """``model`` with batch norms folded into the convolutions and linear layers before them.

    Args:
        model: in evaluation mode.
        inplace: change its submodules rather than copies.
        no_trace: take a ``GraphModule`` as it is.
    """
    model = model if inplace else copy.deepcopy(model)
    is_traced = no_trace and isinstance(model, GraphModule)
    traced: Any = model if is_traced else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for pattern in _PAIRS:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            before, norm = modules[node.args[0].target], modules[node.target]
            if not norm.track_running_stats:
                continue
            fold = fuse_linear_bn_eval if pattern[0] is Linear else fuse_conv_bn_eval
            replace_node_module(node.args[0], modules, fold(before, norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(traced, graph)


class _WithoutDropout(Transformer):
    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        if isinstance(self.submodules[str(target)], Dropout):
            return args[0]
        return super().call_module(target, args, kwargs)


def remove_dropout(model: Module) -> GraphModule:
    """``model`` without its dropout layers."""
    return _WithoutDropout(symbolic_trace(model)).transform()


def extract_subgraph(
    orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """A module that runs some nodes of a graph.

    Args:
        orig_module: has what they name.
        nodes: in order.
        inputs: what they use besides each other: its arguments.
        outputs: of which it returns the values, as a tuple.
    """
    graph = Graph()
    values = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        values[node] = graph.node_copy(node, values.__getitem__)
    graph.output(tuple(values[node] for node in outputs))
    graph.lint()
    return GraphModule(orig_module, graph)
