"""From a number to a program."""

from __future__ import annotations

from typing import Any

from tests.differential import (
    making_gradients,
    making_math,
    making_python,
    making_tensors,
    making_views,
    making_writes,
)
from tests.differential.maker import Maker
from tests.differential.programs import Facts, Program

FAMILIES = (
    making_gradients, making_math, making_python, making_tensors, making_views, making_writes,
)  # fmt: skip


def make_program(seed: int, module: Any, length: int = 22) -> Program:
    """The program of a seed, with what it showed on ``module``.

    Args:
        module: of PyTorch's API; the program depends on it only as far as its results do.
        length: number of statements, about.
    """
    maker = Maker(seed, module)
    steps: list[str] = []
    facts: list[Facts] = []

    def do(text: str) -> None:
        steps.append(text)
        facts.append(maker.machine.step(text))

    for _ in range(2):
        do(making_tensors.creation(maker))
    while len(steps) < length:
        do(maker.next())
        for name in maker.wild():
            do(f"del {name}")
        if maker.crowded():
            do(f"del {maker.random.choice(maker.tensors())}")
        if not maker.tensors():
            do(making_tensors.creation(maker))
    facts.append(maker.machine.step("look()"))
    return Program(seed, tuple(steps), tuple(facts))
