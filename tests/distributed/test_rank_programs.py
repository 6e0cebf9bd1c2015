"""Programs for PyTorch with several processes, as its tutorials write them, run unchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.launching import ROOT, environment

PROGRAMS = {
    "ddp": (["--epochs", "2"], "snapshots and processes agree"),
    "fsdp1": (["--steps", "2"], "policies, strategies and states agree"),
    "fsdp2": (["--steps", "3", "--depth", "2"], "three ways to resume agree"),
}


def launched(folder: Path, name: str, *options: str, ranks: int = 2) -> str:
    """What ``examples/ranks/<name>.py`` prints on some ranks that the launcher starts."""
    program = str(ROOT / "examples" / "ranks" / f"{name}.py")
    command = ["-m", "lazyt.distributed.run", "--lazyt", "--nproc-per-node", str(ranks)]
    done = subprocess.run(
        [sys.executable, *command, program, *options],
        capture_output=True, text=True, timeout=300, env=environment(), cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_program_says_what_it_is() -> None:
    found = {path.stem: path.read_text() for path in (ROOT / "examples" / "ranks").glob("*.py")}
    assert found.keys() == PROGRAMS.keys()
    for name, text in found.items():
        assert f"examples/ranks/{name}.py" in text.split('"""')[1]
        assert "lazyt" not in text.split('"""')[2], "a PyTorch program would not name it"


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, tmp_path: Path) -> None:
    options, words = PROGRAMS[name]
    assert words in launched(tmp_path, name, *options)
