"""``lazyt doctor --report``: what a person on another machine can send."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import lazyt
from lazyt.ir.decisions import Traits
from lazyt.runtime import devices, doctor
from lazyt.testing.digests import golden, report
from lazyt.testing.digests.programs import Program
from lazyt.tools.doctor import run


def _names() -> list[str]:
    return [each.name for each in doctor.deviations()]


def test_what_differs_is_said_by_what_the_machine_has() -> None:
    own = replace(
        devices.cpu(), arch="x86_64", features=("avx2", "fma"), vector_bytes=64, traits=Traits()
    )
    with devices.standing_for(own):
        assert _names() == ["lapack", "libm"]
        with lazyt.config.override(exact=True):
            assert _names() == ["libm"]
    with devices.standing_for(replace(own, features=("sse4_1",))):
        assert _names()[0] == "fma"
        with lazyt.config.override(exact=True):
            assert "fma" not in _names()
    tiled = replace(own, traits=Traits(tiled=frozenset({"bf16x2"})))
    with devices.standing_for(tiled):
        assert _names()[0] == "amx"
        with lazyt.config.override(matrix_registers=False):
            assert "amx" not in _names()
    halves = replace(own, features=("avx512_bf16", "fma"))
    with devices.standing_for(halves):
        assert _names()[0] == "avx512_bf16"


def test_the_report_has_facts_digests_and_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some = [Program("one", lambda: lazyt.ones(3)), Program("two", lambda: lazyt.ones(2) / 3)]
    wanted = golden.digests(some)
    monkeypatch.setattr(report, "programs", lambda: some)
    monkeypatch.setattr(golden, "some_of_each_kind", lambda: some[:1])
    monkeypatch.setattr(golden, "golden", lambda: wanted | {"two": "another"})
    measured = {"quick": True, "results": [
        {"workload": "chain", "framework": "lazyt", "median_s": 0.0125}
    ]}  # fmt: skip
    monkeypatch.setattr(report, "times", lambda quick, tell: measured | {"quick": quick})
    path = tmp_path / "report.json"
    assert run(["--report", str(path), "--quick"]) == 0
    made = json.loads(path.read_text())
    assert made["digests"]["programs"] == {"tier 0": 1, "tier 1": 1} and made["times"]["quick"]
    assert "times (small sizes): chain 12.5 ms" in capsys.readouterr().out
    assert run(["--report", str(path)]) == 1
    made = json.loads(path.read_text())
    assert made["digests"]["different"] == {"tier 0": {"two": wanted["two"]}, "tier 1": {}}
    assert made["facts"]["arch"] == devices.cpu().arch
    assert made["facts"]["compiler"]["version"]
    said = capsys.readouterr()
    assert "tier 0: 1 of 2 programs have golden digests" in said.out
    assert "chain 12.5 ms" in said.out
    assert "digests, tier 1: 1 of 1" in said.err
    assert made["text"] == said.out.splitlines()[:-1]
    monkeypatch.setattr(golden, "golden", lambda: wanted)
    assert run(["--digests"]) == 0


def test_a_file_that_cannot_be_written_is_said_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--report", "/nowhere/at/all.json"]) == 2
    assert "/nowhere/at/all.json" in capsys.readouterr().err
