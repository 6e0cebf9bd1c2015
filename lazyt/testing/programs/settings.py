"""Programs under settings that must not change anything that they show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lazyt
from lazyt.testing.programs.comparing import Difference, first_difference
from lazyt.testing.programs.machine import Machine
from lazyt.testing.programs.program import Facts, Program

#: Settings of ``lazyt.config`` under which all programs do the same, to the bit. (On a CPU without
#: fused multiply-adds the interpreter agrees with kernels under ``LAZYT_EXACT=1``.)
SETTINGS: dict[str, Mapping[str, Any]] = {
    "interpreted": {"interpret": True},
    "generic": {"tier": 0},
    "compiled": {"tier": 1},
    "eager": {"tier": 0, "eager": True},
    "one size": {"tier": 1, "any_size": False},
    "no bands": {"tier": 1, "bands": False},
    "own reductions": {"tier": 1, "inline_reduce": 0},
    "little memory": {"tier": 1, "memory_budget": 0.0},
}


def run(program: Program, *, reference: bool = False, **settings: Any) -> tuple[Facts, ...]:
    """What a program shows on lazyt under settings of ``lazyt.config``.

    Args:
        program: its statements are run; what it showed before does not matter.
        reference: follow which values may be rounded in other ways elsewhere, so that
            ``first_difference`` compares those within a tolerance. Values are computed after
            every statement then.
        settings: as ``lazyt.config.override`` takes them.

    Returns one dict for each statement, and one for the values in the end.

    >>> shown = run(Program(0, ("t1 = torch.arange(3)", "t1 += 1")), interpret=True)
    >>> shown[0]["is"]["t1"], shown[-1]["values"]["t1"]
    ('int64 [3] /[1] +0 - v0 of t1', '=1,2,3')
    """
    with lazyt.config.override(**settings):
        return Machine(lazyt, reference).run(program.steps)


def difference(
    program: Program, wanted: Mapping[str, Any], found: Mapping[str, Any]
) -> Difference | None:
    """The first thing that a program shows under the settings ``found``, but not under ``wanted``.

    Values must be equal to the bit. None without a difference.

    >>> program = Program(0, ("t1 = torch.ones(3).exp()", "look()"))
    >>> difference(program, SETTINGS["interpreted"], SETTINGS["generic"]) is None
    True
    """
    return first_difference(run(program, **wanted), run(program, **found))
