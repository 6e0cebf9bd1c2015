"""Runs of the suite record the values that tests look at, and compare them with recorded ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import lazyt

FACTOR = {factor}

def test_passes():
    assert (lazyt.ones(2) * FACTOR).tolist() == [FACTOR, FACTOR]

def test_fails():
    x = lazyt.ones(3) * FACTOR
    assert x.tolist() == [1.0, 1.0, 1.0]

def test_is_interrupted():
    x = lazyt.ones(4) * FACTOR
    x.tolist()
    raise KeyboardInterrupt
"""


def run(folder: Path, option: str, factor: float) -> str:
    """What pytest prints for the program, whose values are recorded in, or compared with, a
    folder."""
    program = folder / "test_program.py"
    program.write_text(PROGRAM.format(factor=factor))
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "--rootdir", str(folder)]
    command += [option, str(folder / "values"), str(program)]
    root = Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120).stdout


def test_values_of_tests_that_did_not_pass_are_not_recorded(tmp_path: Path) -> None:
    printed = run(tmp_path, "--record-values", 2.0)
    assert "1 failed, 1 passed" in printed and "KeyboardInterrupt" in printed
    recorded = {}
    for path in (tmp_path / "values").glob("*.json"):
        recorded.update(json.loads(path.read_text()))
    assert [(name.split("::")[-1], len(looks)) for name, looks in recorded.items()] == [
        ("test_passes", 1)
    ]
    assert "1 passed, 2 deselected" in run(tmp_path, "--compare-values", 2.0)
    assert "other values than in the recorded run" in run(tmp_path, "--compare-values", 3.0)
