"""Test suites of packages: outcomes are noted test by test, and compared with PyTorch's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.ecosystem import environment, suites
from bench.ecosystem.suites import Runner, Suite, Told

TESTS = """
import os
import pytest
import torch

def test_passes():
    assert torch.ones(2).sum() == 2

@pytest.mark.parametrize("n", [1, 2])
def test_fails(n):
    assert torch.ones(n).sum() == 7 + n

def test_ends_the_process():
    os._exit(3)

def test_is_skipped():
    pytest.skip("not now")

def test_behind_it():
    assert torch.arange(3).tolist() == [0, 1, 2]
"""
FILE = "tests/test_mine.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with two files of tests."""
    monkeypatch.setattr(suites, "BUILD", tmp_path / "build")
    root = (tmp_path / "package").resolve()
    (root / "tests").mkdir(parents=True)
    (root / "setup.cfg").write_text("[tool:pytest]\naddopts = --no-such-option\n")
    (root / FILE).write_text(TESTS)
    (root / "tests" / "test_broken.py").write_text("import no_such_module_anywhere\n")
    return root


SUITE = Suite("me/mine", "0123", "1.0", ("tests/test_*.py",))


def runner(**options: bool) -> Runner:
    return Runner(sys.executable, None, environment.Limits(8), seconds=20, **options)


def test_outcomes_whatever_happens_to_the_process(folder: Path) -> None:
    told = runner().suite(SUITE, folder)
    outcomes = {name.partition("::")[2]: o for name, o in told[FILE].outcomes.items()}
    assert outcomes == {
        "test_passes": "passed", "test_fails[1]": "failed", "test_fails[2]": "failed",
        "test_ends_the_process": "failed", "test_is_skipped": "skipped", "test_behind_it": "passed",
    }  # fmt: skip
    assert told[FILE].reasons[f"{FILE}::test_ends_the_process"] == "ended with status 3"
    assert told[FILE].reasons[f"{FILE}::test_is_skipped"].endswith("not now")
    assert "no_such_module_anywhere" in told["tests/test_broken.py"].broken

    (folder / FILE).write_text(TESTS.replace("7 + n", "n").replace("os._exit(3)", "pass"))
    assert runner().suite(SUITE, folder) == told  # nothing is run again
    again = runner(failed=True).suite(SUITE, folder)[FILE]
    assert set(again.outcomes.values()) == {"passed", "skipped"}


def test_what_counts_is_what_pytorch_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suites, "RECORDED", tmp_path / "recorded.json")
    names = {name: f"{FILE}::{name}" for name in "abcdef"}
    theirs = Told(dict.fromkeys(names.values(), "passed"))
    theirs.outcomes |= {names["e"]: "failed", names["f"]: "skipped"}
    suites.record(SUITE, {FILE: theirs})
    known = suites.recorded()["mine"]
    assert known[FILE]["passed"] == 4 and known[FILE]["failed"] == [names["e"]]
    ours = Told(dict.fromkeys(names.values(), "passed"))
    ours.outcomes |= {names["b"]: "failed", names["c"]: "failed", names["e"]: "failed"}
    ours.outcomes |= {names["f"]: "failed", names["d"]: "skipped"}
    ours.reasons = {
        names["b"]: "1.5 is not 2", names["c"]: "3 is not 4e-7", names["d"]: "no `cuda` | none",
    }  # fmt: skip
    result = suites.compare(SUITE, {FILE: ours, "tests/unknown.py": ours}, known)
    assert (result.tests, result.both, sorted(result.failed)) == (
        4, 1, [names["b"], names["c"], names["d"]],
    )  # fmt: skip
    assert suites.causes(result) == [
        ("failed: N is not N", 2), ("skipped: no `cuda` | none", 1),
    ]  # fmt: skip
    told = suites.section([result], "2026-01-01")
    assert "| mine | 1.0 | 4 | 1 | 3 | all |" in told
    assert "- **mine**, 2: `failed: N is not N`" in told and "'cuda' / none" in told


def test_a_file_that_is_not_collected_fails_with_all_its_tests() -> None:
    known = {FILE: {"passed": 5}}
    result = suites.compare(SUITE, {FILE: Told(broken="no module")}, known)
    assert (result.tests, result.both, result.broken) == (5, 0, {FILE: "no module"})
    assert "**mine**, a file" in suites.section([result], "2026-01-01")


def test_every_suite_is_recorded() -> None:
    known = json.loads(suites.RECORDED.read_text(encoding="utf-8"))
    assert known.keys() <= {suite.name for suite in suites.SUITES}
    assert {"array-api-compat", "einops", "gpytorch", "opt_einsum", "safetensors"} <= known.keys()
    assert all(len(suite.commit) == 40 for suite in suites.SUITES)
