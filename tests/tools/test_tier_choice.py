"""Tests run in the tier that their folder, name and markers choose (tests/tier_choice.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tier_choice import (
    COMPILED,
    COMPUTED,
    SHARES,
    TURNS,
    is_its_turn,
    share_of,
    tier_of,
)

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import pytest
from lazyt.config import config

@pytest.mark.parametrize("number", range(20))
def test_number(number):
    print("tier", number, config.tier)

@pytest.mark.fused
def test_fused():
    print("tier fused", config.tier)

@pytest.mark.lazy
def test_lazy():
    print("tier lazy", config.tier)

@pytest.mark.fused_values
def test_values():
    print("tier values", config.tier)
"""


def run(folder: Path, name: str, *options: str, **environment: str) -> dict[str, str]:
    """The tier of each test of the program, as a file of ``tests/<name>``."""
    program = folder / "tests" / name / "test_program.py"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "tests.conftest"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(folder), *options, str(program)]
    inherited = {k: v for k, v in os.environ.items() if k not in ("LAZYT_TIER", "LAZYT_EAGER")}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120,
        env={**inherited, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    words = (line.split("tier ")[1].split() for line in done.stdout.splitlines() if "tier " in line)
    return {name: tier.rstrip(".") for name, tier in words}


@pytest.mark.compiler
@pytest.mark.parametrize("share", [0, SHARES + 2])
def test_one_share_of_a_folder_about_operations_runs_fused(share: int, tmp_path: Path) -> None:
    found = run(tmp_path, "functional", "--share", str(share))
    assert found.pop("fused") == found.pop("lazy") == found.pop("values") == "1"
    names = [f"tests/functional/test_program.py::test_number[{n}]" for n in range(20)]
    assert [*found.values()] == [str(int(share_of(name) == share % SHARES)) for name in names]
    assert {*found.values()} == {"0", "1"}


@pytest.mark.compiler
def test_other_folders_run_fused_and_the_environment_decides(tmp_path: Path) -> None:
    assert {*run(tmp_path, "codegen").values()} == {"1"}
    assert {*run(tmp_path, "functional", LAZYT_TIER="1").values()} == {"1"}
    found = run(tmp_path, "codegen", LAZYT_TIER="0")
    assert found.pop("fused") == found.pop("lazy") == "1" and {*found.values()} == {"0"}


def test_each_test_runs_fused_with_one_of_the_shares() -> None:
    for name in (f"tests/nn/test_layers.py::test_{n}" for n in range(100)):
        assert sum(tier_of(name, share) for share in range(SHARES)) == 1


def test_random_programs_take_turns(tmp_path: Path) -> None:
    name = "tests/captures/test_captures.py::test_objects_that_change_between_calls"
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    found = []
    for share in range(TURNS):
        done = subprocess.run(
            [*command, "--share", str(share), name],
            cwd=ROOT, capture_output=True, text=True, timeout=120,
            env={k: v for k, v in os.environ.items() if k != "LAZYT_TIER"},
        )  # fmt: skip
        found += [line for line in done.stdout.splitlines() if line.startswith(name)]
        assert found and all(is_its_turn(test, share) for test in found[-1:])
    assert sorted(found) == sorted(f"{name}[{chunk}]" for chunk in range(10))


def test_the_folders_exist() -> None:
    assert all((ROOT / folder).is_dir() for folder in COMPUTED | COMPILED)
    assert not COMPUTED & COMPILED


def test_without_a_compiler_operations_are_tested_by_the_interpreter(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    without = {"PATH": str(tmp_path / "empty"), "CC": "no-such-compiler"}
    found = run(tmp_path, "functional", **without)
    assert len(found) == 20, "those marked fused and lazy are skipped"
    assert run(tmp_path, "codegen", **without) == {}
