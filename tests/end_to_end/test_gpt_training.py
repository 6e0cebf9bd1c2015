"""The character GPT: it follows PyTorch's losses, and goes on after being killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lazyt
from tests.children import python_path

ROOT = Path(__file__).resolve().parents[2]
#: ``python bench/follow_gpt.py --run torch --invented --steps 20`` with PyTorch 2.13 printed it.
LOSSES = ROOT / "tests" / "recorded" / "gpt_losses.json"


def start(*command: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": python_path(ROOT)}
    return subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, text=True, env=environment
    )


def test_losses_are_those_of_pytorch() -> None:
    theirs = json.loads(LOSSES.read_text())
    steps = str(len(theirs))
    child = start(
        str(ROOT / "bench/follow_gpt.py"), "--run", "lazyt", "--invented", "--steps", steps
    )
    shown, _ = child.communicate(timeout=500)
    ours = json.loads(shown)
    assert theirs[-1] < 0.9 * theirs[0]
    assert len(ours) == len(theirs) == 20
    for mine, other in zip(ours, theirs, strict=True):
        assert abs(mine - other) < 0.0005 * other


def train(path: Path) -> subprocess.Popen[str]:
    program = str(ROOT / "examples" / "char_gpt.py")
    options = ("--short", "--steps", "16", "--every", "1", "--write", "5", "--seed", "3")
    return start("-m", "lazyt", "run", program, *options, "--checkpoint", str(path))


def wait_for_change(path: Path, child: subprocess.Popen[str]) -> None:
    """Until the checkpoint is written anew, or training is over."""

    def stamp() -> int:
        return path.stat().st_mtime_ns if path.exists() else 0

    before, limit = stamp(), time.monotonic() + 400
    while stamp() == before and child.poll() is None:
        assert time.monotonic() < limit
        time.sleep(0.002)


def bits(value: Any) -> Any:
    """A checkpoint's content, tensors as their bytes."""
    if isinstance(value, lazyt.Tensor):
        return (str(value.dtype), tuple(value.shape), value.numpy().tobytes())
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [bits(item) for item in value]
    return value


def test_killed_training_goes_on_to_the_bit(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    shown, _ = train(whole).communicate(timeout=500)
    kills = 0
    for number in range(3):
        child = train(broken)
        wait_for_change(broken, child)
        time.sleep(random.Random(number).uniform(0, 0.1))  # between steps, or within one
        kills += child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert kills == 3
    assert 1 <= len(lazyt.load(broken)["losses"]) < 16
    again, _ = train(broken).communicate(timeout=500)
    one, other = lazyt.load(whole), lazyt.load(broken)
    assert len(one["losses"]) == 16
    assert bits(one) == bits(other)
    assert shown.splitlines()[-2:] == again.splitlines()[-2:]  # the test's loss and the text
