"""Ordinary programs that make new graphs all the time: right in every tier, to the bit, and a
program that runs again has nothing left to compile."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.config import config
from lazyt.plan import planning, tiers
from lazyt.runtime import events
from lazyt.runtime.cpu import compile

#: Runs after the first four, one of which compiles nothing.
MOST_RUNS = 4
FILE = Path(__file__).parents[2] / "bench" / "everyday_programs.py"

pytestmark = [
    pytest.mark.lazy,
    pytest.mark.skipif(not compile.available(), reason="needs a C compiler"),
]


def _programs() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("everyday_programs", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.PROGRAMS
    return found


PROGRAMS = _programs()


def arrays(name: str) -> list[np.ndarray]:
    """What a program gives."""
    return [np.asarray(item) for item in PROGRAMS[name](lt)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with config.override(interpret=True):
        oracle = arrays(name)
    with config.override(tier=0):
        alone = arrays(name)
        again = arrays(name)
        with config.override(eager=True):
            eager = arrays(name)
    for made, expected in zip(alone, oracle, strict=True):
        assert made.dtype == expected.dtype and made.shape == expected.shape
        np.testing.assert_allclose(made, expected, 1e-3, 1e-4)
    planning.clear()
    monkeypatch.setattr(tiers, "BASE", 1e9)  # nothing is worth a compiler, but what is on disk
    with config.override(tier="auto"):
        runs = [arrays(name) for _ in range(4)]
        for _ in range(MOST_RUNS):  # how a graph runs depends on how busy the machine has been
            events.forget()
            runs.append(arrays(name))
            if not lt.why_compiled():
                break
        assert lt.wait_for_compiler(0) and not lt.why_compiled()
    for run in (again, eager, *runs):
        assert [item.tobytes() for item in run] == [item.tobytes() for item in alone]
