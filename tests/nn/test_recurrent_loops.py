"""Recurrent layers are loops of the graph, with the values of steps that are written out."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
from lazyt.functional.control import recurrences
from lazyt.nn import recurrent
from lazyt.plan.control import loops


def step(kind: str, length: int, rows: int, settings: dict[str, Any]) -> list[lazyt.Tensor]:
    """Outputs, states and all gradients."""
    lazyt.manual_seed(0)
    layer = getattr(lazyt.nn, kind)(4, 6, **settings)
    x = lazyt.randn(length, rows, 4).requires_grad_()
    y, states = layer(x)
    parts = states if isinstance(states, tuple) else (states,)
    loss = (y * y).mean() + lazyt.stack([part.sin().sum() for part in parts]).sum()
    loss.backward()
    return [y, *parts, *[p.grad for p in (x, *layer.parameters()) if p.grad is not None]]


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("settings", [{}, {"bidirectional": True, "num_layers": 2, "bias": False}])
def test_bits_are_those_of_unrolled_steps(
    kind: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for length in (2, 7):
        found = step(kind, length, 3, settings)
        with monkeypatch.context() as patch:
            patch.setattr(recurrent, "_is_loop", lambda gates: False)
            want = step(kind, length, 3, settings)
        assert len(found) == len(want)
        for a, b in zip(found, want):
            assert bool((a.detach().view(lazyt.int32) == b.detach().view(lazyt.int32)).all())


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_one_step_serves_every_length(kind: str) -> None:
    layer = getattr(lazyt.nn, kind)(4, 5)

    def train(length: int) -> float:
        layer.zero_grad()
        y, _ = layer(lazyt.randn(length, 2, 4))
        (y * y).mean().backward()
        return float(layer.weight_hh_l0.grad.sum())

    train(5)
    bodies, steps = len(recurrences._bodies), len(loops._steps)
    for length in (6, 9, 30):
        train(length)
    assert len(recurrences._bodies) == bodies and len(loops._steps) == steps


def test_weights_that_are_written_before_the_backward_are_noticed() -> None:
    layer = lazyt.nn.LSTM(3, 3)
    y, _ = layer(lazyt.ones(4, 2, 3))
    with lazyt.no_grad():
        layer.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_other_types_and_transforms_run_too() -> None:
    layer = lazyt.nn.GRU(3, 4).double()
    x = lazyt.randn(5, 2, 3, dtype=lazyt.float64)
    many = lazyt.vmap(lambda one: layer(one)[0])(lazyt.stack([x, x + 1]))
    assert float((many[1] - layer(x + 1)[0]).abs().max()) < 1e-14
    with lazyt.autocast("cpu", dtype=lazyt.bfloat16):
        lazyt.nn.LSTM(3, 4)(x.float())[0].realize()
    half = lazyt.nn.RNN(3, 4).to(lazyt.bfloat16)
    assert half(x.to(lazyt.bfloat16))[0].dtype is lazyt.bfloat16
