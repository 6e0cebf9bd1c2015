"""Cutting a graph into submodules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from lazyt.fx.graph import Graph
from lazyt.fx.graph_module import GraphModule
from lazyt.fx.node import Node, map_arg
from lazyt.fx.proxy import Proxy
from lazyt.nn.module import Module

__all__ = ["Partition", "split_module"]


class Partition:
    """One of the parts of a graph.

    Attributes:
        name: its name, which the submodule has behind ``submod_``.
        node_names: the names of its nodes.
        inputs, outputs: the names of the nodes of other parts that it uses, and of its own that
            others use.
        dependencies, dependents: the names of the parts that it uses, and that use it.
        graph: the graph of the submodule.
        environment: what stands in there for nodes.
        targets: what that graph names.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: "
            f"{self.outputs},\n partitions depended on: {self.dependencies},\n partition "
            f"dependents: {self.dependents}"
        )


def _read(module: Any, path: str) -> Any:
    for part in path.split("."):
        if not hasattr(module, part):
            raise AttributeError(f"Node target {path} not found!")
        module = getattr(module, part)
    return module


class _Splitter:
    """Cuts one graph."""

    def __init__(self, module: GraphModule, keep_input_name: bool, keep_node_name: bool) -> None:
        self.module = module
        self.keep_input_name, self.keep_node_name = keep_input_name, keep_node_name
        self.nodes = {node.name: node for node in module.graph.nodes}
        self.partitions: dict[str, Partition] = {}
        self.owners: dict[Node, str] = {}
        self.graph = Graph()
        self.values: dict[str, Node] = {}
        self.attributes: dict[str, Any] = {}

    def assign(self, callback: Callable[[Node], Any], affix: str | None) -> None:
        """Ask to which part each node belongs, and see who uses what of others."""
        for node in self.module.graph.nodes:
            if node.op not in ("placeholder", "get_attr", "output"):
                name = str(callback(node))
                name = name if affix is None else f"{affix}_{name}"
                self.partitions.setdefault(name, Partition(name)).node_names.append(node.name)
                self.owners[node] = node._fx_partition = name
        for node in self.module.graph.nodes:
            if node.op not in ("placeholder", "get_attr"):
                for used in node.all_input_nodes:
                    self._note(used, node)

    def _note(self, made: Node, user: Node) -> None:
        source, target = self.owners.get(made), self.owners.get(user)
        if source == target:
            return
        if source is not None:
            self.partitions[source].outputs[made.name] = None
            if target is not None:
                self.partitions[source].dependents[target] = None
        if target is not None:
            self.partitions[target].inputs[made.name] = None
            if source is not None:
                self.partitions[target].dependencies[source] = None

    def order(self) -> list[str]:
        """The parts, each behind those that it uses. Raises RuntimeError where they use each
        other."""
        open_ = {name: set(p.dependencies) for name, p in self.partitions.items()}
        ready = [name for name, needed in open_.items() if not needed]
        found = []
        while ready:
            name = ready.pop()
            found.append(name)
            for dependent in self.partitions[name].dependents:
                open_[dependent].discard(name)
                if not open_[dependent]:
                    ready.append(dependent)
        if len(found) != len(self.partitions):
            raise RuntimeError("cycle exists between partitions!")
        return found

    def add_inputs(self, partition: Partition) -> None:
        """Give a part's graph arguments for what it uses of others; modules it reads itself."""
        inputs: dict[str, None] = {}

        def is_module(name: str) -> bool:
            node = self.nodes[name]
            return node.op == "get_attr" and isinstance(_read(self.module, node.target), Module)

        for name in sorted(partition.inputs, key=is_module):
            node = self.nodes[name]
            if is_module(name):
                made = partition.graph.get_attr(node.target)
                partition.targets[node.target] = _read(self.module, node.target)
            else:
                argument = name if self.keep_input_name else f"arg_{len(inputs)}"
                made = partition.graph.placeholder(argument, type_expr=node.type)
                inputs[name] = None
            made.meta = dict(node.meta)
            partition.environment[node] = made
        partition.inputs = inputs

    def copy_nodes(self, names: dict[str, str] | None) -> None:
        """Copy the nodes into the graphs of their parts.

        Args:
            names: receives the old path of each submodule by its new one.
        """
        for node, owner in self.owners.items():
            partition = self.partitions[owner]
            values, target = partition.environment, node.target
            if node.op == "call_module":
                target = target.replace(".", "_")
                partition.targets[target] = _read(self.module, node.target)
                if names is not None:
                    names[f"{partition.submod_name}.{target}"] = node.target
            made = partition.graph.create_node(
                node.op, target, map_arg(node.args, values.__getitem__),
                map_arg(node.kwargs, values.__getitem__),
                node.name if self.keep_node_name else None, node.type,
            )  # fmt: skip
            made.meta = dict(node.meta)
            values[node] = made

    def add_root(self, node: Node) -> None:
        """Copy an argument of the whole, or what it reads, into the graph that calls the parts."""
        if node.name in self.values:
            return
        if node.op == "placeholder":
            default = node.args[0] if node.args else inspect.Signature.empty
            made = self.graph.placeholder(node.target, node.type, default)
        else:
            made = self.graph.get_attr(node.target)
            self.attributes[node.target] = _read(self.module, node.target)
        made.meta = dict(node.meta)
        self.values[node.name] = made

    def add_call(self, partition: Partition, tuple_return: bool) -> None:
        """Finish a part, and call it."""
        results = tuple(partition.environment[self.nodes[name]] for name in partition.outputs)
        is_single = len(results) == 1 and not tuple_return
        partition.graph.output(results[0] if is_single else results)
        made = GraphModule(partition.targets, partition.graph)
        self.attributes[partition.submod_name] = made
        given = tuple(self.values[name] for name in partition.inputs)
        result = self.graph.call_module(partition.submod_name, given)
        if is_single:
            self.values[next(iter(partition.outputs))] = result
            return
        proxy: Any = Proxy(result)
        for number, name in enumerate(partition.outputs):
            self.values[name] = proxy[number].node


def split_module(
    m: GraphModule, root_m: Any, split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None, keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False, keep_original_input_name: bool = True, *,
    partition_affix: str | None = None, tuple_return: bool = False,
) -> GraphModule:  # fmt: skip
    """A module that does what ``m`` does by submodules ``submod_0``, ..., each with a part of its
    graph.

    Args:
        m: the module.
        root_m: taken for PyTorch's sake.
        split_callback: the number or name of the part that a node belongs to.
        qualname_map: receives the old path of each submodule by its new one.
        keep_original_order: call the parts in the order in which the graph has their first nodes.
        keep_original_node_name: give nodes the names that they have in ``m``.
        keep_original_input_name: give arguments of the parts the names of their nodes, rather than
            ``arg_0``, ...
        partition_affix: a word in the names of the parts.
        tuple_return: whether parts with a single result give a tuple of it, too.

    Raises RuntimeError where parts use each other's results both ways.

    >>> from lazyt.fx.passes.split_module import split_module
    >>> traced = lazyt.fx.symbolic_trace(lambda x: lazyt.exp(x + 1))
    >>> split = split_module(traced, None, lambda node: 0 if node.name == "add" else 1)
    >>> [name for name, _ in split.named_children()]
    ['submod_0', 'submod_1']
    """
    splitter = _Splitter(m, keep_original_input_name, bool(keep_original_node_name))
    splitter.assign(split_callback, partition_affix)
    in_order = splitter.order()
    for name in in_order:
        splitter.add_inputs(splitter.partitions[name])
    splitter.copy_nodes(qualname_map)
    inputs: Iterable[Node] = m.graph.nodes
    for node in inputs:
        used = node.users or node.op == "placeholder"
        if node.op == "placeholder" or (node.op == "get_attr" and used):
            splitter.add_root(node)
    for name in splitter.partitions if keep_original_order else in_order:
        splitter.add_call(splitter.partitions[name], tuple_return)
    output = m.graph.output_node()
    splitter.graph.output(map_arg(output.args[0], lambda n: splitter.values[n.name]))
    made = GraphModule(splitter.attributes, splitter.graph)
    made.meta["partition_names"] = {p.submod_name for p in splitter.partitions.values()}
    return made
