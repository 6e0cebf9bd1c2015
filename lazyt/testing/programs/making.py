"""From a number to a program."""

from __future__ import annotations

from typing import Any

import lazyt
from lazyt.testing.programs import (
    making_gradients,
    making_math,
    making_python,
    making_tensors,
    making_views,
    making_writes,
)
from lazyt.testing.programs.maker import Maker
from lazyt.testing.programs.program import Facts, Program

FAMILIES = (
    making_gradients, making_math, making_python, making_tensors, making_views, making_writes,
)  # fmt: skip


def make_program(seed: int, module: Any = None, length: int = 22) -> Program:
    """The program of a seed, with what it showed on ``module``.

    Args:
        module: of PyTorch's API; the program depends on it only as far as its results do. By
            default lazyt's interpreter.
        length: number of statements, about.

    >>> program = make_program(7)
    >>> len(program.steps) >= 22, program == make_program(7)
    (True, True)
    """
    if module is None:
        with lazyt.config.override(interpret=True):
            return make_program(seed, lazyt, length)
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
