"""Makes a program that shows a difference as short as it can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.testing.programs.comparing import Difference, first_difference
from lazyt.testing.programs.machine import Machine
from lazyt.testing.programs.program import Program

Check = Callable[[tuple[str, ...]], Difference | None]


def difference_between(
    steps: tuple[str, ...], reference: Any, module: Any, messages: bool = True
) -> Difference | None:
    """The first difference between two modules that both run the statements now."""
    wanted = Machine(reference, reference=True).run(steps)
    return first_difference(wanted, Machine(module).run(steps), messages)


def minimize(program: Program, check: Check) -> tuple[Program, Difference]:
    """The program with all statements deleted that are not needed for a difference of its kind.

    Args:
        program: shows a difference.
        check: finds the first difference of a list of statements.

    Raises ValueError when ``check`` finds nothing to begin with.
    """
    steps = program.steps
    found = check(steps)
    if found is None:
        raise ValueError("the program shows no difference")
    steps = steps[: found.step + 1]
    size = max(len(steps) // 2, 1)
    while size:
        start = 0
        while start < len(steps):
            shorter = steps[:start] + steps[start + size :]
            now = check(shorter)
            if now is not None and now.kind == found.kind:
                steps, found = shorter, now
            else:
                start += size
        size //= 2
    return Program(program.seed, steps), found
