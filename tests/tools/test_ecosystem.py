"""The programs of packages that import torch: what is compared, and what the table says."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from bench.ecosystem import child, environment, report, stages, timing
from bench.ecosystem.entries import ROOT, STAGES, Entry, entries, program, requirements
from lazyt.compat import torch_alias


def test_every_program_has_a_record_and_a_version() -> None:
    known, pinned = report.recorded(), requirements()
    found = entries()
    assert len(found) > 30
    for entry in found:
        assert entry.name in known, f"record {entry.name}"
        assert known[entry.name]["torch"].startswith("2.13")
        name = entry.package.lower().replace("_", "-")
        assert name in pinned or name == "torch", f"pin {entry.package} in requirements.txt"
    assert known.keys() == {entry.name for entry in found}
    assert not {"torch", "triton"} & pinned.keys()


def test_names_choose_programs() -> None:
    assert {e.package for e in entries("timm")} == {"timm"}
    assert [e.name for e in entries("GPT-2,einops")] == ["einops", "transformers: GPT-2"]
    assert [e.name for e in entries("tim*: resnet")] == ["timm: resnet"]
    with pytest.raises(ValueError, match="two programs called einops"):
        program("einops")(lambda: {})


@pytest.fixture
def torch() -> Iterator[None]:
    """The programs import torch, which is lazyt then."""
    torch_alias.install()
    yield
    torch_alias.uninstall()


@pytest.mark.usefixtures("torch")
def test_differences_of_values() -> None:
    wanted = stages.summaries({"a": lt.tensor([1.0, -2.0]), "b": (3, True), "c": "x"})
    assert list(wanted) == ["a", "b.0", "b.1", "c"]

    def wrong(**changed: Any) -> list[str]:
        given = {"a": lt.tensor([1.0, -2.0]), "b": (3, True), "c": "x"} | changed
        return list(stages.differences(stages.summaries(given), wanted, 1e-3))

    assert wrong() == []
    assert wrong(a=lt.tensor([1.0005, -2.0])) == []
    assert wrong(a=lt.tensor([1.01, -2.0])) == ["a has 1.01, PyTorch has 1.0"]
    assert wrong(a=lt.tensor([float("nan"), -2.0])) == ["a has nan, PyTorch has 1.0"]
    assert wrong(a=lt.tensor([1, -2])) == ["a dtype is int64, PyTorch has float32"]
    assert wrong(a=lt.tensor([[1.0, -2.0]])) == ["a shape is [1, 2], PyTorch has [2]"]
    assert wrong(b=(4, True)) == ["b.0 has 4.0, PyTorch has 3.0"]
    assert wrong(b=(3, False)) == ["b.1 is False, PyTorch has True"]
    assert wrong(c="y", d=1) == ["c is y, PyTorch has x", "d is one too many"]


@pytest.mark.usefixtures("torch")
def test_long_tensors_are_compared_at_both_ends_and_in_the_mean() -> None:
    values = np.linspace(-1, 1, 100)
    wanted = stages.summary(values)
    assert len(wanted["values"]) == 12
    for index in (0, 5, 50, 99):
        changed = values.copy()
        changed[index] += 1
        assert list(stages.differences(stages.summary(changed), wanted, 1e-3)), index
    assert not list(stages.differences(stages.summary(values + 1e-5), wanted, 1e-3))


@pytest.mark.usefixtures("torch")
def test_parameters_are_filled_by_their_names() -> None:
    one, two = (lt.nn.Sequential(lt.nn.Linear(3, 2), lt.nn.Dropout(0.5)) for _ in range(2))
    stages.fill(one)
    stages.fill(two)
    assert lt.equal(one[0].weight, two[0].weight) and lt.equal(one[0].bias, two[0].bias)
    assert one[1].p == 0.0


def test_reasons_are_the_first_of_a_chain() -> None:
    def fails() -> None:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ImportError("outer") from inner

    with pytest.raises(ImportError) as caught:
        fails()
    told = child.reason(caught.value)
    assert told["error"] == "KeyError: 'inner'"
    assert told["at"][0].startswith("test_ecosystem.py:")


def told_by(entry: Entry, seconds: float | None = None, memory: float = 10) -> dict[str, Any]:
    command = [sys.executable, "-m", "lazyt", "run"]
    return environment.run(entry, command, [ROOT], environment.Limits(memory, seconds))


@pytest.mark.deadline(60)
def test_a_program_runs_and_agrees_with_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "BUILD", tmp_path)
    (entry,) = entries("torch itself")
    told = told_by(entry)
    line = report.judge(entry, told, report.recorded()[entry.name])
    assert line.stages == dict.fromkeys(STAGES, "yes"), line.reason
    assert line.passes and not line.reason
    told["forward"]["values"]["out"]["values"][0] += 1.0
    line = report.judge(entry, told, report.recorded()[entry.name])
    assert line.stages["forward"] == "values" and "PyTorch has" in line.reason
    told["import"] = {"error": "ImportError: no", "at": ["a.py:1 f"]}
    line = report.judge(entry, told, None)
    assert line.reason == "import: ImportError: no" and line.at == "a.py:1 f"
    text = "\n".join(report.table([line]))
    assert "0 of 1 programs pass (0 of 1 packages): import 0 of 1" in text
    assert "| torch itself |" in report.page([line], "2026-11-29")
    assert "- **torch itself**: `import: ImportError: no`" in report.page([line], "2026-11-29")


def test_a_program_that_takes_too_long_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "BUILD", tmp_path)
    (entry,) = entries("torch itself")
    told = told_by(entry, seconds=0.05)
    assert told["import"]["error"] == "took longer than 0.05 s"


def test_sections_of_the_page_are_replaced_one_by_one() -> None:
    page = "# Page\n\ntext\n"
    page = report.with_section(page, "## Times", "## Times\n\nold\n")
    page = report.with_section(page, "## Scripts", "## Scripts\n\nfine\n")
    assert report.section_of(page, "## Times") == "## Times\n\nold\n"
    assert report.section_of(page, "## Absent") == ""
    page = report.with_section(page, "## Times", "## Times\n\nnew\n")
    assert page == "# Page\n\ntext\n\n## Times\n\nnew\n\n## Scripts\n\nfine\n"
    assert report.with_section(page, "## Scripts", "") == page


MEASURED: dict[str, Any] = {
    "fast": {
        "forward": {"lazyt": 2.0, "compiled": 0.5, "torch": 1.0},
        "module": {"lazyt": 2.0, "compiled": 1.0, "torch": 1.0},
        "step": {"lazyt": 2.0, "compiled": 3.0},
        "why": {"step": "not captured: it looks at a value"},
    },
    "gone": {"error": "ImportError: no"},
}


def test_times_are_told_as_ratios() -> None:
    assert timing.worst(MEASURED, "torch") == [(1.0, "fast, module"), (0.5, "fast, forward")]
    assert timing.worst(MEASURED, "lazyt")[0] == (1.5, "fast, step")
    told = timing.section(MEASURED, "2026-11-29")
    assert "| fast | 1 | 2 | 0.5 | 1 | 2 | 1 | - | 2 | 3 |" in told and "gone" not in told
    assert "2 of 2 are at least as fast as PyTorch\n" in told
    assert "2 of 3 are at least as fast as uncompiled; not: fast, step (1.50 of its time)" in told
    known = json.loads(timing.as_json(MEASURED, "2026-11-29", 5))
    assert known["milliseconds"] == MEASURED and known["about"]["rounds"] == 5


def test_programs_that_give_networks_are_known_by_their_annotations() -> None:
    found = {entry.name: timing.is_network(entry) for entry in entries()}
    assert found["torch itself"] and found["transformers: GPT-2"]
    assert not found["safetensors"]


@pytest.mark.deadline(60)
def test_a_network_is_measured(tmp_path: Path) -> None:
    (entry,) = entries("torch itself")
    with timing.frameworks(entry, Path(sys.executable), None, tmp_path, tmp_path) as made:
        told = timing.times_of(made, rounds=1)
    for workload in timing.WORKLOADS:
        assert told[workload].keys() == {"lazyt", "compiled"}
        assert min(told[workload].values()) > 0
    assert set(told["why"]) == set(timing.WORKLOADS)


@pytest.mark.deadline(60)
def test_a_process_that_cannot_measure_says_why(tmp_path: Path) -> None:
    absent = Entry("absent", "absent", lambda: {}, ("absent",))
    (other,) = entries("safetensors")
    found = timing.measure_all([absent], Path(sys.executable), None, tmp_path, tmp_path, 1)
    assert "the process ended, see " in found["absent"]["error"]
    found = timing.measure_all([other], Path(sys.executable), None, tmp_path, tmp_path, 1)
    assert not found or "error" in found["safetensors"]
