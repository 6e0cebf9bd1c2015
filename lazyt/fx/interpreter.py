"""Running graphs node by node, with real values or to make other graphs of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lazyt.fx._symbolic_trace import Tracer
from lazyt.fx.graph import Graph
from lazyt.fx.graph_module import GraphModule
from lazyt.fx.node import Argument, Node, Target, map_aggregate, map_arg
from lazyt.fx.proxy import Proxy
from lazyt.fx.traceback import preserve_node_meta, set_current_meta
from lazyt.nn.module import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph node by node: ``run`` calls ``run_node`` for each, and that the method of the
    node's kind. Derive from it to change what they do, or to look at values.

    >>> class Counting(lazyt.fx.Interpreter):
    ...     calls = 0
    ...     def call_function(self, target, args, kwargs):
    ...         self.calls += 1
    ...         return super().call_function(target, args, kwargs)
    >>> counting = Counting(lazyt.fx.symbolic_trace(lambda x: lazyt.exp(x) + 1))
    >>> counting.run(lazyt.zeros(2)), counting.calls
    (tensor([2., 2.]), 2)

    Args:
        module: has what the graph names.
        garbage_collect_values: forget values after their last use; otherwise all stay in ``env``.
        graph: the graph; by default that of the module.
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module: Any = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = self.module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(self.graph.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.user_to_last_uses.setdefault(node, []).append(used)

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:  # fmt: skip
        """What the graph gives for arguments.

        Args:
            initial_env: values of nodes, which are not run then.
            enable_io_processing: take the arguments of the module apart, and put its result
                together, where those of the graph are their leaves.

        Raises what a node raises, with the node in its text; a KeyError as RuntimeError.
        """
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if not self.extra_traceback:
                    raise
                text = f"While executing {node.format_node()}"
                text = f"{error.args[0]}\n\n{text}" if error.args else text
                text += f"\nOriginal traceback:\n{node.stack_trace}"
                error.args = (text, *error.args[1:])
                if isinstance(error, KeyError):
                    raise RuntimeError(*error.args) from error
                raise
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    del self.env[used]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """``run`` with the arguments in a list, which is emptied at once: values that nothing else
        holds are freed after their last use. Raises RuntimeError for a wrong number of them."""
        inputs = self.graph.find_nodes(op="placeholder")
        if len(args_list) != len(inputs):
            which = "extra" if len(args_list) > len(inputs) else "missing"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(inputs)} arguments for placeholders but "
                f"received {len(args_list)} ({which} arguments)"
            )
        env = dict(zip(inputs, args_list))
        args_list.clear()
        return self.run(initial_env=env)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """The value of one node, of those of its arguments."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The next argument of ``run``, or the default. Raises RuntimeError where there is
        none."""
        assert isinstance(target, str)
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration as end:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from end

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a function gives."""
        assert not isinstance(target, str)
        return target(*args, **kwargs)

    def call_method(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a method of the first argument gives."""
        return getattr(args[0], str(target))(*args[1:], **kwargs)

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a submodule gives."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the graph."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """What the module has at a path; raises RuntimeError where that is nothing."""
        found = self.module
        parts = target.split(".")
        for number, part in enumerate(parts, 1):
            if not hasattr(found, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[:number])}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node with values in the place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """``args`` with values in the place of nodes; raises RuntimeError where one has none."""

        def value_of(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose "
                    "such issues"
                )
            return self.env[node]

        return map_arg(args, value_of)


class Transformer(Interpreter):
    """Makes another module of a ``GraphModule``: runs its graph with proxies, so that the methods
    of the kinds of nodes say what is recorded in their place.

    >>> class Sines(lazyt.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         target = lazyt.sin if target is lazyt.cos else target
    ...         return super().call_function(target, args, kwargs)
    >>> traced = lazyt.fx.symbolic_trace(lambda x: lazyt.cos(x))
    >>> Sines(traced).transform()(lazyt.zeros(2))
    tensor([0., 0.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = Tracer.appending(self.new_graph, module)

    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Records the argument."""
        default = args[0] if args else inspect.Signature.empty
        made = self.new_graph.placeholder(str(target), default_value=default)
        return Proxy(made, self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Records the attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Records the call."""
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Records the call."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        with preserve_node_meta():
            result = self.run(enable_io_processing=False)
        if result is not None:
            made = map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a)
            output = self.new_graph.output(made)
            output.meta.update(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)
