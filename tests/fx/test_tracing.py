"""Tracing programs: what is recorded, what is refused, and whom a tracer asks."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import lazyt
from lazyt import fx, nn
from lazyt.functional import overriding
from lazyt.nn import functional
from tests.fx.traced_programs import Pair, checked


@fx.wrap
def weighted(x: Any, y: Any, scale: float = 1.0) -> Any:
    """A function that is recorded as it is."""
    return x * y if scale == 1.0 else x * y * scale


fx.wrap("len")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.weight = nn.Parameter(lazyt.ones(4, 3))

    def forward(self, x: Any) -> Any:
        if self.weight.shape[0] == 4:
            x = functional.relu(x)
        return self.linear(x) + functional.linear(x, self.weight)


def test_traced_modules_compute_the_same() -> None:
    module, x = Block(), lazyt.randn(2, 3)
    traced = fx.GraphModule(module, fx.Tracer(param_shapes_constant=True).trace(module))
    assert lazyt.equal(traced(x), module(x))
    traced(x).sum().backward()
    assert module.weight.grad is not None and traced.linear is module.linear


def test_values_cannot_be_looked_at() -> None:
    def branch(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    def loop(x: Any) -> Any:
        return [row + 1 for row in x]

    def length(x: Any) -> Any:
        return range(x.__len__())

    def spread(x: Any) -> Any:
        return lazyt.add(*x)

    words = "symbolically traced variables cannot be used as inputs to control flow"
    with pytest.raises(fx.proxy.TraceError, match=words):
        fx.symbolic_trace(branch)
    for program in (loop, spread):
        with pytest.raises(fx.proxy.TraceError, match="Proxy object cannot be iterated"):
            fx.symbolic_trace(program)
    with pytest.raises(RuntimeError, match="'len' is not supported in symbolic tracing"):
        fx.symbolic_trace(length)
    assert issubclass(fx.proxy.TraceError, ValueError)


@pytest.mark.usefixtures("nobody_asked")
def test_functions_ask_while_something_is_traced_and_no_longer() -> None:
    fx.symbolic_trace(lambda x: lazyt.exp(x))
    assert not overriding.switch.on and overriding.switch.open == 0
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: lazyt.exp(x) if x else x)
    assert not overriding.switch.on
    graph = fx.Graph()
    x: Any = fx.Proxy(graph.placeholder("x"))
    graph.output(lazyt.relu(x + 1).node)
    assert fx.GraphModule({}, graph)(lazyt.ones(2)).tolist() == [2, 2]
    assert not overriding.switch.on


def test_wrapped_functions() -> None:
    def program(x: Any, y: Any) -> Any:
        return weighted(x, y, scale=2.0) + len(x)

    traced = fx.symbolic_trace(program)
    targets = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert targets[:2] == [weighted, len]
    assert traced(lazyt.ones(2), lazyt.ones(2)).tolist() == [4, 4]
    again = fx.symbolic_trace(traced)
    assert [n.target for n in again.graph.nodes if n.op == "call_function"][:2] == targets[:2]
    assert weighted(2, 3) == 6
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("weighted")
    with pytest.raises(RuntimeError, match="Unsupported type"):
        fx.wrap(3)


def test_a_program_that_fails_leaves_nothing_behind() -> None:
    call, read = nn.Module.__call__, nn.Module.__getattr__

    def failing(x: Any) -> Any:
        weighted(x, x)
        raise KeyError("program")

    with pytest.raises(KeyError, match="program"):
        fx.symbolic_trace(failing)
    assert nn.Module.__call__ is call and nn.Module.__getattr__ is read
    assert weighted(lazyt.ones(1), 2).tolist() == [2]


def test_other_threads_are_not_traced() -> None:
    layer, seen = nn.Linear(2, 2), []

    def program(x: Any) -> Any:
        def run() -> None:
            seen.append(layer(lazyt.ones(1, 2)).shape)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return x + 1

    traced = fx.symbolic_trace(program)
    assert seen == [(1, 2)] and len(traced.graph.nodes) == 3


def test_leaves_and_calls_of_modules_are_the_tracers_to_choose() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()
            self.act = nn.Sequential(nn.ReLU())

        def forward(self, x: Any) -> Any:
            return self.act(self.block(x))

    class Blocks(fx.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return isinstance(m, Block) or super().is_leaf_module(m, module_qualified_name)

    class Paths(Blocks):
        seen: list[str]

        def call_module(self, m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
            self.seen = [*getattr(self, "seen", []), self.path_of_module(m)]
            return super().call_module(m, forward, args, kwargs)

    outer, tracer = Outer(), Paths()
    graph = tracer.trace(outer)
    assert [n.target for n in graph.nodes if n.op == "call_module"] == ["block", "act.0"]
    assert tracer.seen == ["block", "act", "act.0"]
    (relu,) = graph.find_nodes(op="call_module", target="act.0")
    assert [*relu.meta["nn_module_stack"]] == ["act", "act.0"]
    assert tracer.node_name_to_scope["block"] == ("block", Block)
    loose = nn.ReLU()
    with pytest.raises(NameError, match="not installed as a submodule"):
        fx.symbolic_trace(lambda x: loose(x))


def test_proxies_and_arguments_are_the_tracers_to_choose() -> None:
    class Named(fx.Proxy):
        def __repr__(self) -> str:
            return f"Named({self.node.name})"

    class Sets(fx.Tracer):
        def proxy(self, node: fx.Node) -> fx.Proxy:
            return Named(node, self)

        def create_arg(self, a: Any) -> Any:
            return sorted(a) if isinstance(a, set) else super().create_arg(a)

    seen = []

    def program(x: Any) -> Any:
        seen.append(repr(x + 1))
        return lazyt.sum(x, {1, 0})

    graph = Sets().trace(program)
    assert seen == ["Named(add)"] and graph.find_nodes(op="call_function", target=lazyt.sum)[
        0
    ].args[1] == [0, 1]
    with pytest.raises(NotImplementedError, match="argument of type: <class 'set'>"):
        fx.symbolic_trace(program)


def test_tensors_and_parameters_become_attributes() -> None:
    constant = lazyt.arange(3)

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = constant
            self.register_buffer("running", lazyt.ones(3))
            self.parameter = nn.Parameter(lazyt.ones(3))

        def forward(self, x: Any) -> Any:
            return x + self.plain + self.running + self.parameter + lazyt.ones(3)

    holder = Holder()
    traced = fx.symbolic_trace(holder)
    targets = [n.target for n in traced.graph.nodes if n.op == "get_attr"]
    assert targets == ["plain", "running", "parameter", "_tensor_constant0"]
    assert traced(lazyt.zeros(3)).tolist() == [3, 4, 5]
    assert traced.parameter is holder.parameter and "plain" in dict(traced.named_buffers())
    strange = nn.Parameter(lazyt.ones(3))
    with pytest.raises(NameError, match="parameter is not a member"):
        fx.symbolic_trace(lambda x: x + strange)

    class Buffers(fx.Tracer):
        proxy_buffer_attributes = True

    nodes = Buffers().trace(holder).nodes
    assert "running" in [n.target for n in nodes if n.op == "get_attr"]


def test_concrete_arguments() -> None:
    def program(x: Any, flag: Any = None, options: Any = None) -> Any:
        return x + options["a"] if flag else x - 1

    traced = fx.symbolic_trace(program, {"flag": True, "options": {"a": fx.PH, "b": 2}})
    given = {"a": lazyt.ones(2), "b": 2}
    assert traced(lazyt.ones(2), True, given).tolist() == [2, 2]
    with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
        traced(lazyt.ones(2), False, given)
    with pytest.raises(TypeError, match="list indices must be integers"):
        traced(lazyt.ones(2), True, [1])
    empty = fx.symbolic_trace(lambda x, y: x, {"y": None})
    with pytest.raises(AssertionError, match="value None"):
        empty(1, 2)
    with pytest.raises(RuntimeError, match="Tracing expected 3 arguments but got 1"):
        fx.symbolic_trace(program, (True,))
    with pytest.warns(UserWarning, match="Was not able to add assertion"):
        fx.symbolic_trace(lambda x, y: x, {"y": object()})


def test_asserts() -> None:
    class Asserting(fx.Tracer):
        trace_asserts = True

    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(checked)
    graph = Asserting().trace(checked)
    module = fx.GraphModule(nn.Module(), graph)
    assert module(lazyt.ones(2)).tolist() == [1, 1]
    with pytest.raises(AssertionError, match="Assertion failed"):
        module(-lazyt.ones(2))


def test_named_tuples_dataclasses_and_proxyable_classes() -> None:
    traced = fx.symbolic_trace(lambda x: {"p": Pair(x, x + 1)})
    assert traced(1) == {"p": (1, 2)} and type(traced(1)["p"]) is Pair
    assert lazyt.equal(traced(lazyt.ones(1))["p"].second, lazyt.full((1,), 2.0))
    traced = fx.symbolic_trace(lambda x: Two(x, x).total() + 1)
    assert next(n.target for n in traced.graph.nodes if n.op == "call_function") is Two
    assert traced(2) == 5


class Two(metaclass=fx.ProxyableClassMeta):
    """A class whose construction is recorded."""

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right

    def total(self) -> Any:
        """The sum of both."""
        return self.left + self.right


def test_keys_cannot_be_proxies() -> None:
    def program(x: Any) -> Any:
        return weighted({x: 1}, x)

    with pytest.raises(RuntimeError, match="cannot contain a Node"):
        fx.symbolic_trace(program)


def test_where_calls_were_made() -> None:
    class Recording(fx.Tracer):
        record_stack_traces = True

    traced = fx.GraphModule(block := Block(), Recording(param_shapes_constant=True).trace(block))
    (relu,) = traced.graph.find_nodes(op="call_function", target=functional.relu)
    assert relu.stack_trace is not None and "x = functional.relu(x)" in relu.stack_trace
    assert "x = functional.relu(x)" in traced.print_readable(print_output=False)


def test_tracing_what_was_traced_changes_nothing() -> None:
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    again = fx.symbolic_trace(traced)
    assert str(again.graph) == str(traced.graph) and again.code == traced.code
    assert again.state_dict().keys() == traced.state_dict().keys()
    assert fx._symbolic_trace.is_fx_tracing() is False


def test_several_tracers_are_not_mixed() -> None:
    other = fx.Proxy(fx.Graph().placeholder("y"))
    with pytest.raises(RuntimeError, match="multiple different tracers"):
        fx.symbolic_trace(lambda x: lazyt.add(x, other))
