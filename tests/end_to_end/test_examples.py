"""The demo from its command line, in new processes with a disk cache of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import python_path

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

ROOT = Path(__file__).resolve().parents[2]
PNG = b"\x89PNG\r\n\x1a\n"


def run_demo(cache: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(ROOT),
        "LAZYT_CACHE_DIR": str(cache),
        "COLUMNS": "160",
        **settings,
    }
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "digits.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=cache.parent,
    )


def test_demo_learns_and_second_run_compiles_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = run_demo(cache, "--epochs", "3", "--out", "first")
    assert first.returncode == 0, first.stderr
    accuracies = [float(a) for a in re.findall(r"test accuracy ([\d.]+)%", first.stdout)]
    assert accuracies[-1] >= 85
    assert "one training step" in first.stdout
    assert (tmp_path / "first" / "digits.png").read_bytes().startswith(PNG)
    assert "0 plans of 0 kernels compiled" not in first.stdout

    again = run_demo(cache, "--epochs", "3", "--out", "again")
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("0 plans of 0 kernels compiled") == 2
    numbers = re.compile(r"loss \d\.\d+  test accuracy [\d.]+%")
    assert numbers.findall(again.stdout) == numbers.findall(first.stdout)


def test_demo_says_which_packages_are_missing(tmp_path: Path) -> None:
    (tmp_path / "sklearn.py").write_text("raise ImportError('No module named sklearn')")
    path = python_path(tmp_path, ROOT)
    done = run_demo(tmp_path / "cache", PYTHONPATH=path)
    assert done.returncode == 1
    assert "pip install scikit-learn matplotlib rich" in done.stderr
    assert "Traceback" not in done.stderr


def test_demo_refuses_no_epochs(tmp_path: Path) -> None:
    done = run_demo(tmp_path / "cache", "--epochs", "0")
    assert done.returncode == 2
    assert "--epochs" in done.stderr
