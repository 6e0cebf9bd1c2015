"""Programs show the same bits, at whichever run which of their plans change tiers.

There are 300 programs, the examples among them (``swaps.py``). Each run of the suite takes one in
``TURNS``, chosen by ``--share``; ``LAZYT_SWAPS=all`` takes all of them, in some ten minutes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lazyt.ir.dtypes import uint8
from lazyt.plan import build
from lazyt.runtime.cpu import compile
from lazyt.runtime.memory import Buffer
from tests.children import python_path
from tests.end_to_end.swaps import EXAMPLES, ROOT, Counts, difference, mixed, programs, shown

pytestmark = [
    pytest.mark.lazy,
    pytest.mark.slow,
    pytest.mark.skipif(not compile.available(), reason="needs a C compiler"),
]
TURNS, PARTS = 6, 3
ALL = os.environ.get("LAZYT_SWAPS") == "all"


@pytest.fixture
def turn(request: pytest.FixtureRequest) -> int:
    """Which of the programs run now."""
    share: int = request.config.getoption("--share") or 0
    return share % TURNS


def test_there_are_enough_programs() -> None:
    names = [program.name for program in programs()]
    assert len({*names}) + len(EXAMPLES) >= 300
    folder = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert {*EXAMPLES} == folder - {"digits", "digit_images", "training_display"}


@pytest.mark.deadline(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_bits_do_not_depend_on_when_tiers_change(part: int, turn: int) -> None:
    counts = Counts()
    chosen = [*enumerate(programs())][part::PARTS]
    chosen = chosen if ALL else chosen[turn::TURNS]
    found = [difference(program, seed, counts) for seed, program in chosen]
    wrong = [text for text in found if text]
    assert not wrong, f"{len(wrong)} of {len(found)}:\n" + "\n\n".join(wrong[:3])
    assert min(vars(counts).values()) > 0, counts


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_look_at_the_same_bits(name: str, turn: int, tmp_path: Path) -> None:
    if not ALL and EXAMPLES[turn % len(EXAMPLES)] != name:
        pytest.skip("another example's turn")
    if importlib.util.find_spec("sklearn") is None:
        pytest.skip("needs scikit-learn")
    (wanted, _), (found, counts) = (_looks(name, tmp_path, *seed) for seed in ([], [str(turn)]))
    assert len(wanted) > 2 and found == wanted
    assert counts["tried"] + counts["generic"] > 0 and counts["at_once"] + counts["swapped"] > 0


def _looks(name: str, folder: Path, *seed: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.swaps", name, *seed],
        capture_output=True, text=True, timeout=800, cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_other_bits_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that round elsewhere do not go unnoticed."""
    run = build.Plan.run

    def run_and_change(plan: build.Plan, inputs: list[Buffer]) -> list[Buffer]:
        found = run(plan, inputs)
        if plan.code.tier == 1 and found[0].nbytes:
            found[0].as_numpy(uint8, (found[0].nbytes,))[0] ^= 1
        return found

    monkeypatch.setattr(build.Plan, "run", run_and_change)
    (program,) = [program for program in programs() if program.name == "statistics 7"]
    assert any(difference(program, seed, Counts()) for seed in range(3))


def test_programs_are_the_same_each_time() -> None:
    one = programs()[-1]
    assert shown(one) == shown(one)
    with mixed(0):
        assert shown(one) == shown(one)
