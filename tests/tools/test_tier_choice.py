"""Tests run in the tier that their folder, name and markers choose (tests/tier_choice.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lazyt.runtime.cpu import compile
from tests.tier_choice import (
    COMPILED,
    COMPUTED,
    QUICKLY,
    SHARES,
    TURNS,
    WELL,
    is_compiled_quickly,
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


def run(
    folder: Path, name: str, *options: str, program: str = PROGRAM, **environment: str
) -> dict[str, str]:
    """What each test of a program says, as a file of ``tests/<name>``: its tier."""
    path = folder / "tests" / name / "test_program.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(program)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "tests.conftest"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(folder), *options, str(path)]
    inherited = {k: v for k, v in os.environ.items() if k not in ("LAZYT_TIER", "LAZYT_EAGER")}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120,
        env={**inherited, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (line.split("tier ")[1] for line in done.stdout.splitlines() if "tier " in line)
    words = (line.rstrip(".").partition(" ") for line in lines)
    return {name: said for name, _, said in words}


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
        now = [line for line in done.stdout.splitlines() if line.startswith(name)]
        assert all(is_its_turn(test, share) for test in now)
        found += now
    assert sorted(found) == sorted(f"{name}[{chunk}]" for chunk in range(10))


COMPILERS = """
import os
import pytest
from lazyt.runtime.cpu import compile

def shown(name):
    found = compile.find()
    print("tier", name, *(word for word in (*found.command, *found.flags) if word[:2] == "-O"))
    assert os.environ.get("CC", "") in ("", " ".join(found.command))

def test_plain():
    shown("plain")

@pytest.mark.fused
def test_fused():
    shown("fused")
"""


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["functional", "end_to_end", "codegen"])
def test_compilers_do_less_but_for_a_share(name: str, tmp_path: Path) -> None:
    file = f"tests/{name}/test_program.py"
    turn = share_of(file)
    least = {"-Og"} if "clang" not in compile.find().version else {"-O1"}
    for share in (turn, turn + 1):
        found = run(tmp_path, name, "--share", str(share), program=COMPILERS)
        quick = {test for test, levels in found.items() if {*levels.split()} == least}
        assert len(found) == 2 and all(found.values()), "one level each"
        if share == turn or name == "codegen":
            assert not quick
        else:
            assert quick == {"functional": {"fused"}, "end_to_end": {"fused", "plain"}}[name]
    everything = run(tmp_path, name, "--share", str(turn + 1), program=COMPILERS, LAZYT_TIER="1")
    assert {*everything.values()}.isdisjoint(least), "who asks for tier 1 gets users' kernels"


def test_each_file_has_users_kernels_with_one_of_the_shares() -> None:
    for name in (f"tests/end_to_end/test_{n}.py::test_one" for n in range(100)):
        wells = [not is_compiled_quickly(name, True, share) for share in range(SHARES)]
        assert sum(wells) == 1
    assert not is_compiled_quickly("tests/end_to_end/test_speed_floor.py::test_one", True, 0)
    assert not is_compiled_quickly("tests/functional/test_random.py::test_one", False, 1)


def test_the_folders_exist() -> None:
    assert all((ROOT / path).exists() for path in QUICKLY | WELL)
    assert not QUICKLY & COMPILED - {"tests/end_to_end", "tests/profiler"}
    assert all((ROOT / folder).is_dir() for folder in COMPUTED | COMPILED)
    assert not COMPUTED & COMPILED


def test_without_a_compiler_operations_are_tested_by_the_interpreter(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    without = {"PATH": str(tmp_path / "empty"), "CC": "no-such-compiler"}
    found = run(tmp_path, "functional", **without)
    assert len(found) == 20, "those marked fused and lazy are skipped"
    assert run(tmp_path, "codegen", **without) == {}
