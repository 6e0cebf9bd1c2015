"""Random programs show the same under all settings that must not change anything."""

from __future__ import annotations

import pytest

import lazyt
from lazyt.testing.programs import (
    SETTINGS,
    Program,
    difference,
    first_difference,
    make_program,
    minimize,
    run,
)

EXACT = ("t1 = torch.arange(12.).reshape(3, 4)", "t2 = t1[1:]", "t2 *= 2", "t3 = t1.sum(0)")


@pytest.mark.parametrize("seed", range(6))
def test_generic_kernels_do_what_the_interpreter_does(seed: int) -> None:
    program = make_program(seed)
    found = difference(program, SETTINGS["interpreted"], SETTINGS["generic"])
    assert found is None, f"{program}\n{found}"


@pytest.mark.parametrize("seed", range(20, 26))
def test_programs_compute_the_same_bits_eagerly(seed: int) -> None:
    program = make_program(seed)
    found = difference(program, SETTINGS["generic"], SETTINGS["eager"])
    assert found is None, f"{program}\n{found}"


@pytest.mark.parametrize("name", list(SETTINGS))
def test_all_settings_run_a_short_program(name: str) -> None:
    program = Program(0, (*EXACT, "t4 = torch.softmax(t3, 0)", "look()"))
    assert difference(program, SETTINGS["interpreted"], SETTINGS[name]) is None
    assert run(program, **SETTINGS[name])[-2]["values"]["t3"].startswith("=24,")


def test_a_setting_that_changes_values_is_found_and_the_program_made_short() -> None:
    program = Program(0, (*EXACT, "t4 = torch.full((2,), float(torch.is_grad_enabled()))"))

    def check(steps: tuple[str, ...]) -> object:
        tried = Program(0, steps)
        with lazyt.no_grad():
            wanted = run(tried, tier=0)
        return first_difference(wanted, run(tried, tier=0))

    shortened, found = minimize(program, check)  # type: ignore[arg-type]
    assert shortened.steps == program.steps[-1:]
    assert (found.kind, found.name, found.wanted, found.found) == ("value", "t4", "=0,0", "=1,1")


def test_wanted_and_found_keep_their_sides() -> None:
    """Also where the interpreter, which says what is exact, is on the right."""
    program = Program(0, ("t1 = torch.tensor([float(torch.config.tier == 0)])",))
    one = difference(program, {"interpret": True, "tier": 1}, {"tier": 0})
    other = difference(program, {"tier": 0}, {"interpret": True, "tier": 1})
    assert one is not None and other is not None
    assert (one.wanted, one.found) == (other.found, other.wanted) == ("=0", "=1")
