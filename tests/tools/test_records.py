"""Recordings of what a program looked at: equal runs, planted differences, damaged files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.compat import torch_alias
from lazyt.errors import LazytError
from lazyt.handle import pending
from lazyt.ir.graph import Node, source_text
from lazyt.plan.explain import op_name
from lazyt.tools.records import command, watch
from lazyt.tools.records.compare import Difference, compare, ulps
from lazyt.tools.records.files import Value, Writer, read, value_of
from tests.tools.recorded_programs import programs

PROGRAM = """\
import torch

x = torch.linspace(-1, 1, 48).reshape(6, 8)
model = torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.linspace(-0.4, 0.6, p.numel()).reshape(p.shape))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(2):
    loss = (model(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
if (model[0].weight > 9).any():
    print("large")
print(model[0].weight.detach().bfloat16().float().numpy().sum())
"""


def recorded(path: Path, program: Callable[[], Any]) -> list[Value]:
    """The values of a program that runs here."""
    writer = Writer(str(path), [], "lazyt", True)
    lazyt.manual_seed(0)
    with watch.watching(lazyt, writer, True):
        program()
    writer.close()
    return read(str(path))


class Planted:
    """Moves the first float of one of the nodes that are computed by one unit in the last place."""

    def __init__(self, number: int) -> None:
        self.left, self.where = number, ("", "")

    def __call__(self, node: Node) -> None:
        if node.dtype.kind != "f" or node.data is None or not node.size:
            return
        self.left -= 1
        if self.left == 0:
            first = node.data.as_numpy(node.dtype, node.shape).reshape(-1)
            first[0] = np.nextafter(first[0], first.dtype.type(np.inf))
            self.where = op_name(node), source_text(node.source).rpartition("/")[2]


@pytest.mark.parametrize("name", list(programs()))
def test_planted_differences_are_found(name: str, tmp_path: Path) -> None:
    recorded(tmp_path / "first", programs()[name])  # constants that lazyt keeps are made once
    before = recorded(tmp_path / "before", programs()[name])
    assert compare(before, recorded(tmp_path / "again", programs()[name]), "node") is None
    floats = sum(v.kind == "node" and v.numpy_name.startswith("float") for v in before)
    for number in {1, min(2, floats), (floats + 1) // 2, floats}:
        plant, program = Planted(number), programs()[name]
        pending.after_each.append(plant)
        try:
            here = recorded(tmp_path / "here", program)
        finally:
            pending.after_each.remove(plant)
        found = compare(before, here, "node")
        assert isinstance(found, Difference)
        assert (found.here.what, found.here.line) == plant.where
        assert found.distance == 1 and found.element == 0 and found.others == 1


def test_a_program_is_compared_with_its_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, out = tmp_path / "train.py", tmp_path / "out"
    program.write_text(PROGRAM)

    def lazyt_record(*words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "lazyt", "record", *words]
        return subprocess.run(line, capture_output=True, text=True, timeout=300)

    first = lazyt_record(str(out), str(program))
    assert first.returncode == 0, first.stderr
    values = read(str(out))
    looks = [v for v in values if v.kind == "look"]
    assert [v.what for v in looks] == ["item()", "item()", "bool()", "numpy()"]
    assert [v.line for v in looks] == ["train.py:14", "train.py:14", "train.py:15", "train.py:17"]
    assert looks[0].text == "print(loss.item())" and len(values) > 40
    again = lazyt_record("--against", str(out), "--looks-only", str(program))
    assert again.returncode == 0 and "4 values are equal to the bit" in again.stdout
    program.write_text(PROGRAM.replace("lr=0.01", "lr=0.0100001"))
    changed = lazyt_record("--against", str(out), "--out", str(tmp_path / "new"), str(program))
    assert changed.returncode == 1
    assert "first difference: value 2: item() at train.py:14 (float32, a number)" in changed.stdout
    assert "made by node" in changed.stdout and "at train.py:13" in changed.stdout
    assert command.run(["--diff", str(out), str(tmp_path / "new"), "--tolerance", "1e-3"]) == 0
    assert "equal up to 0.001" in capsys.readouterr().out


def test_lines_may_move(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, program, other = tmp_path / "out", tmp_path / "train.py", tmp_path / "other.py"
    program.write_text(PROGRAM)
    moved = PROGRAM.replace("for step", "# a comment\n\nfor step")
    with torch_alias.standing_in():
        for _ in range(2):  # constants that lazyt keeps are made once
            command.run([str(out), str(program)])
        other.write_text(moved)
        assert command.run(["--against", str(out), str(other)]) == 0
        other.write_text(moved.replace("(model(x) - 1)", "(model(x) - 1.25)"))
        capsys.readouterr()
        assert command.run(["--against", str(out), str(other)]) == 1
    said = capsys.readouterr().out
    assert "first difference: value 1: item() at other.py:16" in said
    assert "made by node" in said and "at other.py:12" in said


def test_programs_that_seed_nothing_begin_with_the_recordings_seed(tmp_path: Path) -> None:
    program, out = tmp_path / "draw.py", tmp_path / "out"
    program.write_text(
        "import random, numpy, torch\n"
        "print(torch.rand(3).sum().item() + random.random() + numpy.random.rand())\n"
        "print(torch.nn.Linear(2, 2).weight.tolist(), torch.tensor(random.random()).item())\n"
        "print(torch.tensor(numpy.random.rand()).item())\n"
    )
    with torch_alias.standing_in():
        command.run([str(out), str(program)])
        assert command.run(["--against", str(out), str(program)]) == 0
        first = [v.digest for v in read(str(out))]
        command.run([str(out), str(program)])
    assert [v.digest for v in read(str(out))] != first


def test_programs_that_do_other_things_are_told(tmp_path: Path) -> None:
    one = recorded(tmp_path / "one", lambda: [(lazyt.ones(3) * 2).tolist()])
    two = recorded(tmp_path / "two", lambda: [(lazyt.ones(3) * 2).sum().item()])
    found = compare(one, two, "look")
    assert isinstance(found, str) and "tolist() at" in found and "item() at" in found


def test_looks_inside_of_looks_count_once(tmp_path: Path) -> None:
    values = recorded(tmp_path / "out", lambda: [repr(lazyt.arange(3.0)), f"{lazyt.ones(()):.2f}"])
    assert [v.what for v in values if v.kind == "look"] == ["print()", "print()"]
    assert "looked" not in lazyt.Tensor.item.__qualname__  # what was wrapped is as before


def test_programs_may_exit_and_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, out = tmp_path / "ends.py", tmp_path / "out"
    text = (
        "import os, sys, torch\nx = torch.ones(3) * float(os.environ['V'])\nprint(x.sum().item())\n"
    )
    with torch_alias.standing_in():
        _check_endings(program, out, text, monkeypatch, capsys)


def _check_endings(
    program: Path, out: Path, text: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for ending, code in (("sys.exit(0)", 0), ("sys.exit()", 0), ("sys.exit(3)", 3), ("1 / 0", 1)):
        program.write_text(f"{text}{ending}\n")
        monkeypatch.setenv("V", "1")
        assert command.run([str(out), str(program)]) == code
        assert command.run(["--against", str(out), str(program)]) == code
        monkeypatch.setenv("V", "2")
        assert command.run(["--against", str(out), str(program)]) == 1
        assert "first difference: value 1: item() at ends.py:3" in capsys.readouterr().out


def test_looks_of_the_framework_do_not_count(tmp_path: Path) -> None:
    def program() -> None:
        weight = lazyt.nn.Parameter(lazyt.ones(3))
        optimizer = lazyt.optim.LBFGS([weight], max_iter=3)  # looks at many values

        def closure() -> lazyt.Tensor:
            optimizer.zero_grad()
            loss = weight.square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        weight.sum().item()

    values = recorded(tmp_path / "out", program)
    assert [v.what for v in values if v.kind == "look"] == ["item()"]


def test_ulps() -> None:
    one = np.array([1, 0.0, -0.0, 1, np.nan, 2], np.float32)
    other = np.array([np.nextafter(np.float32(1), np.float32(2)), -0.0, 1e-45, -1, np.nan, 2])
    assert ulps(one, other.astype(np.float32)).tolist() == [1, 0, 1, 2 * 0x3F800000, 0, 0]


def test_long_values_are_kept_in_part(tmp_path: Path) -> None:
    a = np.arange(5000.0).reshape(50, 100)
    b = a.copy()
    b[7, 35] += 1  # element 735 is kept, 736 is not
    values = [[value_of("look", "numpy()", "x.py:1", "", x, "float64")] for x in (a, b)]
    found = compare(values[0], values[1], "look")
    assert isinstance(found, Difference) and "element [7, 35]" in str(found)
    b = a.copy()
    b[7, 36] += 1
    found = compare(values[0], [value_of("look", "numpy()", "x.py:1", "", b, "float64")], "look")
    assert isinstance(found, Difference) and found.element is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "other"}', "\x00\x01"])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text(text)
    with pytest.raises(LazytError, match="out"):
        read(str(path))


def test_damaged_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "out"
    recorded(path, lambda: lazyt.ones(2).tolist())
    lines = path.read_text().splitlines()
    item = json.loads(lines[1])
    for change in ({"kept": "%"}, {"shape": 3}, {"digest": None, "more": 1}):
        path.write_text("\n".join([lines[0], json.dumps({**item, **change})]))
        with pytest.raises(LazytError, match=r"out:2"):
            read(str(path))
