"""``lazyt fuzz`` finds planted faults and names their stage: a few here, all of them by running
``planted_faults.py``."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from lazyt.tools.arguments import UsageError
from tests.research.planted_faults import FAULTS, PACKAGE, look

#: One a stage, of those that few graphs suffice for.
QUICK = (
    "a write in steps is one of everything",
    "what other groups read is not stored",
    "positions of extremes are the last",
    "sorted rows are ascending, in meaning",
)


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    seen = look(name, 60.0, tmp_path, target="none")
    assert seen.fuzzed == seen.bisected, seen
    assert re.match(FAULTS[name].stage, seen.bisected), seen
    assert seen.nodes is not None and seen.nodes <= 4 and seen.valid, seen


def test_planted_faults_fit_the_package() -> None:
    for name, fault in FAULTS.items():
        assert (PACKAGE / fault.file).read_text().count(fault.old) == 1, name


@pytest.mark.parametrize("command", ["fuzz", "bisect", "reduce"])
def test_a_compiler_that_is_not_there_is_no_fault(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "g++"))
    path = tmp_path / "graph.ir"
    path.write_text("graph(%0: float32[4]) -> (%1)\n%1 = flip(%0) {axes=(0,)} : float32[4]\n")
    words = [] if command == "fuzz" else [str(path)]
    module = importlib.import_module(f"lazyt.tools.faults.{command}")
    with pytest.raises(UsageError, match=r"no C.* compiler.*--target none"):
        module.run([*words, "--target", "cuda"])
