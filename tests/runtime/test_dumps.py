"""``LAZYT_DUMP``: every plan that runs is written down, nothing is overwritten, and whatever is not
written is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lazyt
from lazyt.config import config
from lazyt.runtime.dumps import dumps

pytestmark = pytest.mark.fused
Capture = pytest.CaptureFixture[str]


def compute() -> float:
    """A plan with a kernel."""
    return float((lazyt.ones(7, 3).realize() * 2.5).sum())


def names(folder: Path) -> list[str]:
    """The files of a folder without their numbers."""
    return [path.name[6:] for path in sorted(folder.iterdir()) if path.is_file()]


def test_plans_from_memory_from_disk_and_of_tier_0_are_written(tmp_path: Path) -> None:
    compute()
    for number, tier in enumerate((1, "auto", 0)):
        with config.override(tier=tier):
            compute()
            with config.override(dump=str(tmp_path / str(number))):
                compute()
        found = names(tmp_path / str(number))
        assert "plan.c" in found and found[0] == "0_input.ir"
    assert names(tmp_path / "0") == names(tmp_path / "1") == names(tmp_path / "2")


def test_a_folder_that_holds_something_is_not_written_to(tmp_path: Path) -> None:
    mine = tmp_path / "00000_0_input.ir"
    mine.write_text("mine")
    with config.override(dump=str(tmp_path)):
        compute()
    assert mine.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == [mine.name, "run2"]
    assert "plan.c" in names(tmp_path / "run2")


def test_processes_do_not_mix_their_files(tmp_path: Path) -> None:
    program = "import lazyt\nprint(float((lazyt.ones(7, 3).realize() * 2.5).sum()))\n"
    environment = {**os.environ, "LAZYT_DUMP": str(tmp_path / "out"), "LAZYT_TIER": "auto"}
    running = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [one.communicate()[0] for one in running] == [b"52.5\n"] * 3
    assert all(one.returncode == 0 for one in running)
    folders = [tmp_path / "out", tmp_path / "out" / "run2", tmp_path / "out" / "run3"]
    assert len({tuple(names(folder)) for folder in folders}) == 1
    assert names(folders[0]).count("plan.c") >= 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_folder_of_its_own(tmp_path: Path) -> None:
    program = (
        "import os, lazyt\n"
        "x = lazyt.ones(7, 3).realize()\n"
        "float((x * 2.5).sum())\n"
        "if os.fork() == 0:\n"
        "    float((x * 3.5).exp().sum())\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    environment = {**os.environ, "LAZYT_DUMP": str(tmp_path / "out")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert "plan.c" in names(tmp_path / "out" / "run2")


def test_what_is_not_written_is_told_once(tmp_path: Path, capsys: Capture) -> None:
    dumps.told.clear()
    blocked = tmp_path / "file"
    blocked.write_text("")
    with config.override(dump=str(blocked)):
        assert compute() == 52.5
        (lazyt.ones(3) + 1).exp().realize()
    said = capsys.readouterr().err
    assert said.count("lazyt: LAZYT_DUMP: nothing is written to") == 1 and str(blocked) in said
    with config.override(dump=str(tmp_path / "out"), interpret=True):
        for _ in range(2):
            assert float((lazyt.ones(4) + 1).sum()) == 8
    assert capsys.readouterr().err.count("the NumPy interpreter computes: it has no plans") == 1
    assert not (tmp_path / "out").exists()


def test_kernels_of_sizes_that_are_promoted_are_written(tmp_path: Path) -> None:
    from lazyt.plan import tiers

    def run(size: int) -> float:
        return float((lazyt.ones(size, 3).realize() * 1.5).sum(0).exp()[0])

    with config.override(dump=str(tmp_path), tier="auto"):
        for size in (40, 50, 60):
            run(size)
        before = names(tmp_path).count("plan.c")
        for _ in range(tiers.PROMOTED + 2):
            run(60)
        assert names(tmp_path).count("plan.c") > before
