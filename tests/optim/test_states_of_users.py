"""Optimizers of users, who keep in the state what they like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lazyt as lt
from lazyt import nn, optim


class Counting(optim.Optimizer):
    """Keeps a tensor and a number beside the parameters' states."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {})

    def step(self, closure: Callable[[], Any] | None = None) -> None:
        state: Any = self.state
        for group in self.param_groups:
            for parameter in group["params"]:
                state["total"] = state.get("total", 0) + parameter.grad.abs().sum()
                state["steps"] = state.get("steps", 0) + 1
                with lt.no_grad():
                    parameter.sub_(0.25 * parameter.grad)


def test_states_that_are_no_dicts() -> None:
    parameter = nn.Parameter(lt.ones(3))
    optimizer = Counting([parameter])
    for _ in range(2):
        optimizer.zero_grad()
        (parameter * parameter).sum().backward()
        optimizer.step()
    optimizer.zero_grad()
    assert parameter.tolist() == [0.25] * 3
    state: Any = optimizer.state
    assert state["total"].item() == 9.0 and state["steps"] == 2
