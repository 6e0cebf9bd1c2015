"""Graphs of what a program does with tensors that it is given, branches and loops carried out."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

from lazyt.errors import LazytError
from lazyt.fx._symbolic_trace import Tracer
from lazyt.fx.codegen import PyTreeCodeGen, PyTreeInfo
from lazyt.fx.graph import Graph
from lazyt.fx.graph_module import GraphModule
from lazyt.fx.node import Node, map_aggregate
from lazyt.fx.targets import method_name
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter
from lazyt.overrides import TorchFunctionMode
from lazyt.utils import _pytree as pytree

__all__ = ["Recorder", "make_fx"]

_BRACKETS = {"__getitem__": operator.getitem, "__setitem__": operator.setitem}


def make_fx(
    f: Callable[..., Any], decomposition_table: Any = None, tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False, *, pre_dispatch: bool = False,
    record_module_stack: bool = False,
) -> Callable[..., GraphModule]:  # fmt: skip
    """A function that takes arguments for ``f``, runs it, and gives the graph of the functions of
    lazyt that it called on the way.

    Other than by ``symbolic_trace``, a program may look at values: what it decides by them becomes
    part of the graph, which is right for arguments that lead to the same decisions. Shapes become
    numbers. Layers are traced through: their parameters are constants of the graph. There is no
    dispatcher below lazyt's functions: nodes call ``lazyt.sin``, not ``torch.ops.aten.sin``.

    >>> from lazyt.fx.experimental.proxy_tensor import make_fx
    >>> def f(x):
    ...     return lazyt.sin(x) * x.shape[0] if x.sum() > 0 else x
    >>> print(make_fx(f)(lazyt.ones(3)).code.strip())
    def forward(self, x_1):
        sum_1 = x_1.sum()
        gt = sum_1.gt(0);  sum_1 = gt = None
        sin = lazyt.sin(x_1);  x_1 = None
        mul = sin.mul(3);  sin = None
        return mul

    Args:
        f: a function or module.
        decomposition_table, tracing_mode, _allow_non_fake_inputs, pre_dispatch,
            record_module_stack: taken for PyTorch's sake.

    The function that it gives raises LazytError where ``f`` computes with what nothing recorded,
    such as the results of ``vmap``.
    """

    def traced(*args: Any) -> GraphModule:
        tracer = Tracer()
        tracer.root, tracer.graph = Module(), Graph(tracer_cls=Tracer)
        recorder = Recorder(tracer)
        spec = pytree.tree_structure(tuple(args))
        names = _parameters(f, len(args))
        for name, value in zip(names, args):
            for number, leaf in enumerate(pytree.tree_leaves(value), 1):
                recorder.know(leaf, tracer.graph.placeholder(f"{name}_{number}"))
        with recorder:
            result = f(*args)
        results, made = pytree.tree_flatten(result)
        is_flat = all(part.is_leaf() for part in spec.children())
        if is_flat:
            tracer.graph.output(recorder.argument(result))
        else:
            tracer.graph.set_codegen(PyTreeCodeGen(PyTreeInfo(names, spec, made)))
            tracer.graph.output(recorder.argument(results))
        for node in reversed(tracer.graph.nodes):
            if node.target is operator.getitem and not node.users:
                tracer.graph.erase_node(node)
        name = type(f).__name__ if isinstance(f, Module) else getattr(f, "__name__", "f")
        return GraphModule(tracer.root, tracer.graph, name)

    return traced


def _parameters(function: Callable[..., Any], count: int) -> list[str]:
    """The names of the parameters that so many arguments are given to."""
    called = function.forward if isinstance(function, Module) else function
    kinds = inspect.Parameter
    names = [
        parameter.name
        for parameter in inspect.signature(called).parameters.values()
        if parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    return names[:count] + [f"input_{number}" for number in range(count - len(names))]


class Recorder(TorchFunctionMode):
    """Records the calls of lazyt's functions, which give what they always do."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self.tracer = tracer
        # Tensors by identity, with the nodes that give their values now; which keeps them alive.
        self.nodes: dict[int, tuple[Tensor, Node]] = {}
        self.constants: set[int] = set()
        # Of a function that is to be recorded, what it reads from outside, where that is noted.
        self.read: list[Tensor] | None = None

    def know(self, value: Any, node: Node) -> None:
        """Note that a node gives a value, if that is a tensor."""
        if isinstance(value, Tensor):
            self.nodes[id(value)] = value, node
            node.meta["val"] = value

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        if not tensors and result is not None:
            return result  # a number, a shape: part of the program
        self.add_call(func, args, kwargs, result)
        return result

    def control_flow(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Records a call of ``cond`` or of a loop; returns its result."""
        from lazyt.fx.experimental.control_flow import record_control_flow

        return record_control_flow(self, func, args, kwargs)

    def inner(self, tracer: Tracer) -> Recorder:
        """What records a function that such a call is given."""
        return Recorder(tracer)

    def add_call(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> Node:
        """The node of a call, which gives the tensors of its result from now on."""
        node = self._call(func, args, kwargs)
        if isinstance(result, Tensor):
            self.know(result, node)
        elif isinstance(result, (tuple, list)):
            for number, part in enumerate(result):
                self.know(part, self._node("call_function", operator.getitem, (node, number), {}))
        return node

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        owner = getattr(func, "__self__", None)
        if isinstance(owner, property):  # the reading or writing of an attribute
            name = next(n for n, value in vars(Tensor).items() if value is owner)
            does = getattr if func.__name__ == "__get__" else setattr
            return self._node("call_function", does, (args[0], name, *args[2:]), {})
        name = method_name(func)
        if name in _BRACKETS:
            return self._node("call_function", _BRACKETS[name], args, kwargs)
        if name:
            return self._node("call_method", name, args, kwargs)
        return self._node("call_function", func, args, kwargs)

    def _node(self, kind: str, target: Any, args: Any, kwargs: Any) -> Node:
        given, named = self.argument(args), self.argument(kwargs)
        return self.tracer.graph.create_node(kind, target, given, named)

    def argument(self, value: Any) -> Any:
        """An argument with nodes in the place of tensors."""

        def of_part(part: Any) -> Any:
            if isinstance(part, Node) or not isinstance(part, Tensor):
                return part if isinstance(part, Node) else self.tracer.create_arg(part)
            if id(part) not in self.nodes:
                self._take_constant(part)
            return self.nodes[id(part)][1]

        return map_aggregate(value, of_part)

    def _take_constant(self, value: Tensor) -> None:
        """A tensor that the program has from elsewhere becomes an attribute of the module."""
        if self.read is not None:
            self.read.append(value)
            self.know(value, self.tracer.graph.placeholder(f"read_{len(self.read)}"))
            return
        if self._is_computed(value):
            raise LazytError(
                "make_fx: the program computes with a tensor that depends on its arguments, but "
                "was made by something that cannot be recorded"
            )
        kind = "_param_constant" if isinstance(value, Parameter) else "_tensor_constant"
        name = self.tracer.get_fresh_qualname(kind)
        setattr(self.tracer.root, name, value)
        self.know(value, self.tracer.graph.create_node("get_attr", name))
        self.constants.add(id(value))

    def _is_computed(self, value: Tensor) -> bool:
        """Whether a tensor depends on one that was recorded, and that is no constant."""
        known = {t.node for i, (t, _) in self.nodes.items() if i not in self.constants}
        seen, pending = set(), [value.node]
        while pending:
            node = pending.pop()
            if node in known:
                return True
            if node not in seen and node.data is None:
                seen.add(node)
                pending += node.inputs
        return False
