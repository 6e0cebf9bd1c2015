"""``torch.compile`` with a function as backend, which is given graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import lazyt
from lazyt import fx, nn
from lazyt.compat.compile import compile
from lazyt.subclasses.backends import CompileCounter, explain
from lazyt.tracing.jit import CaptureError

X = lazyt.linspace(-1, 1, 12).reshape(3, 4)


def to_cosine(graph: fx.GraphModule, inputs: Sequence[lazyt.Tensor]) -> Callable[..., Any]:
    for node in graph.graph.nodes:
        if node.target is lazyt.sin:
            node.target = lazyt.cos
    graph.recompile()
    found: Callable[..., Any] = graph.forward
    return found


def test_what_the_backend_returns_runs() -> None:
    found = compile(lambda x: lazyt.sin(x) + 1, backend=to_cosine)(X)
    lazyt.testing.assert_close(found, lazyt.cos(X) + 1)


def test_graphs_are_given_once() -> None:
    counter = CompileCounter()

    def scaled(x: lazyt.Tensor, factor: int) -> Any:
        return {"y": x.sin() * factor, "n": factor}

    run = compile(backend=counter)(scaled)
    for _ in range(3):
        assert run(X, 2)["n"] == 2
    assert (counter.frame_count, counter.op_count) == (1, 2)
    lazyt.testing.assert_close(run(X, 3)["y"], X.sin() * 3)
    run(lazyt.ones(2), 3)
    assert counter.frame_count == 3
    counter.clear()
    assert counter.frame_count == counter.op_count == 0


def test_modules_train_and_their_buffers_are_written_once() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    twin = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    twin.load_state_dict(model.state_dict())
    counter = CompileCounter()
    compiled = compile(model, backend=counter)
    for made in (compiled, twin):
        optimizer = lazyt.optim.SGD(made.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (made(X) - 1).pow(2).mean().backward()
            optimizer.step()
    for one, other in zip(model.state_dict().values(), twin.state_dict().values()):
        lazyt.testing.assert_close(one, other)
    assert counter.frame_count == 1 and "_orig_mod.0.weight" in compiled.state_dict()
    compiled.eval()
    assert not model.training and compiled(X).shape == (3, 1) and counter.frame_count == 2


def test_writes_to_arguments_happen_once() -> None:
    def run(x: lazyt.Tensor) -> lazyt.Tensor:
        x.add_(1)
        return x * 2

    x = X.clone()
    found = compile(run, backend=CompileCounter())(x)
    lazyt.testing.assert_close(x, X + 1)
    lazyt.testing.assert_close(found, (X + 1) * 2)


def test_what_python_decides_is_decided_at_each_call() -> None:
    state = {"factor": 2}
    run = compile(lambda x: x * state["factor"], backend=CompileCounter())
    lazyt.testing.assert_close(run(X), X * 2)
    state["factor"] = 5
    lazyt.testing.assert_close(run(X), X * 5)


def test_programs_that_look_at_values_run_as_they_are() -> None:
    def run(x: lazyt.Tensor) -> lazyt.Tensor:
        return x * 2 if x.sum() > 0 else x - 1

    counter = CompileCounter()
    compiled = compile(run, backend=counter)
    lazyt.testing.assert_close(compiled(X + 1), (X + 1) * 2)
    lazyt.testing.assert_close(compiled(X - 1), X - 2)
    assert counter.frame_count == 0
    with pytest.raises(CaptureError, match="looks at values"):
        compile(run, backend=counter, fullgraph=True)(X)


def test_explanations() -> None:
    found = explain(lambda x: x.sin() + 1)(X)
    assert (found.graph_count, found.graph_break_count, found.op_count) == (1, 0, 2)
    broken = explain(lambda x: x if x.sum() > 0 else -x)(X)
    assert broken.graph_break_count == 1 and "looks at values" in str(broken)
