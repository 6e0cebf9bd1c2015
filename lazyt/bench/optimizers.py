"""Optimizers as formulas, for frameworks without ``torch.optim`` and for the float64 reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Given the functions, a weight, its gradient, its state and the step's number (from 1): the new
#: weight and state.
Formula = Callable[[Any, Any, Any, list[Any], Any], tuple[Any, list[Any]]]


@dataclass(frozen=True)
class Rule:
    """An optimizer.

    Attributes:
        name: its class in ``torch.optim``.
        options: what the class is given.
        state: how many arrays it keeps for each weight; zero at first.
        formula: what it does.
    """

    name: str
    options: dict[str, Any]
    state: int
    formula: Formula


def _sgd(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    return w - 0.1 * g, []


def _momentum(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    speed = 0.9 * state[0] + g
    return w - 0.01 * speed, [speed]


def _adam(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    mean = 0.9 * state[0] + 0.1 * g
    square = 0.999 * state[1] + 0.001 * g * g
    size = t.sqrt(square / (1 - 0.999**step)) + 1e-8
    return w - 1e-3 * (mean / (1 - 0.9**step)) / size, [mean, square]


def _adamw(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    return _adam(t, w * (1 - 1e-3 * 0.01), g, state, step)


def _rmsprop(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    square = 0.99 * state[0] + 0.01 * g * g
    return w - 1e-3 * g / (t.sqrt(square) + 1e-8), [square]


def _adagrad(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    total = state[0] + g * g
    return w - 1e-2 * g / (t.sqrt(total) + 1e-10), [total]


RULES: dict[str, Rule] = {
    "sgd": Rule("SGD", {"lr": 0.1}, 0, _sgd),
    "momentum": Rule("SGD", {"lr": 0.01, "momentum": 0.9}, 1, _momentum),
    "adam": Rule("Adam", {"lr": 1e-3}, 2, _adam),
    "adamw": Rule("AdamW", {"lr": 1e-3, "weight_decay": 0.01}, 2, _adamw),
    "rmsprop": Rule("RMSprop", {"lr": 1e-3}, 1, _rmsprop),
    "adagrad": Rule("Adagrad", {"lr": 1e-2}, 1, _adagrad),
}
