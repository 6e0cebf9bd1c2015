"""Graphs that grew deep because nobody looked are cut where their code would nest too deeply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt

Step = Callable[[Any, int], Any]


def shifted(x: Any, number: int) -> Any:
    return lazyt.cat([x[1:], lazyt.full((1,), float(number))])


def padded(x: Any, number: int) -> Any:
    return lazyt.nn.functional.pad(x[1:], (0, 1)) * 0.5 + 1


def scaled(x: Any, number: int) -> Any:
    return x * 0.999 + 0.25


def chosen(x: Any, number: int) -> Any:
    return lazyt.where(x > 1, x * 0.5, x + 0.25)


@pytest.mark.parametrize(
    ("step", "count"), [(shifted, 400), (padded, 200), (scaled, 1800), (chosen, 600)]
)
def test_deep_chains_have_the_values_of_single_steps(step: Step, count: int) -> None:
    start = np.linspace(-2, 3, 8, dtype=np.float32)
    deep = lazyt.tensor(start)
    for number in range(count):
        deep = step(deep, number)
    single = lazyt.tensor(start)
    for number in range(count):
        single = step(single, number).realize()
    assert deep.tolist() == single.tolist()
