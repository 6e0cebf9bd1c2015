"""Captures of programs: what is in them, that they are complete and equal each time, and that
``opt`` makes the captured text of each captured graph."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lazyt
from lazyt import nn
from lazyt.__main__ import main
from lazyt.codegen.loops.forms import LoopForm
from lazyt.codegen.plan.choices import Tuned, signature
from lazyt.config import config
from lazyt.errors import LazytError
from lazyt.runtime import winners
from lazyt.serialization.safetensors import load_file
from lazyt.tools.captures import capture, recorder
from lazyt.tools.captures.files import Captured, CapturedPlan, CaptureError, GraphText, facts_of
from lazyt.tools.opt import transform
from tests.operator_programs.test_operator_programs import PROGRAMS
from tests.operator_programs.test_operator_programs import run as run_program

pytestmark = pytest.mark.fused
Capture = pytest.CaptureFixture[str]

PROGRAM = """import torch

def main(scale):
    x = torch.arange(12.0).reshape(3, 4) * scale
    rows = x.softmax(-1)
    print(float((rows * 2).sum()))
    print((x @ x.T).relu()[0].tolist())

main(0.5)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program's file."""
    path = tmp_path / "rows.py"
    path.write_text(PROGRAM)
    return str(path)


def run_file(path: str) -> None:
    """Runs a program in this process."""
    exec(compile(Path(path).read_text().replace("import torch", "import lazyt as torch"), path,
                 "exec"), {"__name__": "__main__"})  # fmt: skip


def test_a_capture_has_all_that_became_of_each_plan(tmp_path: Path, program: str) -> None:
    folder = str(tmp_path / "out")
    with capture(folder, inputs=True) as written:
        run_file(program)
    found = Captured(folder)
    assert written.count == len(found.plans) == 2 and not written.errors
    assert [plan.name for plan in found.plans] == ["000_rows_6", "001_rows_7"]
    assert found.manifest["machine"]["vector_bytes"] in (16, 32, 64)
    # A constant that was there before keeps the line where it was made first.
    assert found.sources()[program] == PROGRAM
    plan = found.plans[0]
    assert plan.graph.positions[-1] == f"{program}:6"
    assert [name for name, _ in plan.passes][:2] == ["strip_markers", "simplify"]
    assert plan.groups[0]["reasons"] and f"{program}:5" in str(plan.groups)
    count = len(plan.program.launches)
    assert len(plan.kernels) == len(plan.launches["launches"]) == len(plan.times["launches"])
    assert count == len(plan.kernels) == len(plan.results["launches"])
    assert plan.times["plan"] > 0 and plan.times["compiler"]["seconds"] > 0
    assert set(plan.times["passes"]) >= {"simplify", "fusion and order of launches"}
    values = load_file(plan.file("inputs.safetensors")) if plan.graph.first else {}
    assert len(values) == plan.graph.first
    product = found.plans[1]
    assert "# form: " in Path(product.file("kernels.ir")).read_text()


def test_captures_do_not_depend_on_what_is_in_memory_or_on_disk(
    tmp_path: Path, program: str
) -> None:
    folders = [tmp_path / "one", tmp_path / "two", tmp_path / "three"]
    with capture(folders[0]):
        run_file(program)
    run_file(program)  # plans in memory
    with config.override(tier=0):
        run_file(program)
        with capture(folders[1]):
            run_file(program)
    with config.override(tier="auto"), capture(folders[2], times=False):
        run_file(program)
    texts = [everything(folder) for folder in folders]
    assert texts[0] == texts[1] == texts[2]
    assert texts[0]["001_rows_7/plan.c"]


def everything(folder: Path) -> dict[str, str]:
    """All files of a capture but the times, without positions: a constant that was there before
    keeps the line where it was made first."""
    return {
        str(path.relative_to(folder)): re.sub(r"/[^\s\"]*:\d+", "", path.read_text())
        for path in folder.rglob("*")
        if path.is_file()
        and path.name not in ("times.json", "results.json")
        and path.parent.name != "sources"
    }


def test_captured_functions_are_captured_and_then_replayed_as_before(tmp_path: Path) -> None:
    @lazyt.jit
    def step(x: lazyt.Tensor, factor: float) -> lazyt.Tensor:
        return (x * factor).exp().sum(0)

    x = lazyt.randn(8, 8).realize()
    expected = [step(x, 0.5).tolist() for _ in range(5)]
    with capture(tmp_path / "out") as written:
        again = [step(x, 0.5).tolist() for _ in range(5)]
    assert again == expected and written.count >= 1
    assert [step(x, 0.5).tolist() for _ in range(2)] == expected[:2]
    assert "exp" in Captured(str(tmp_path / "out")).plans[0].graph.text


def test_each_size_has_a_plan_of_its_own(tmp_path: Path) -> None:
    with capture(tmp_path / "out", times=False):
        for size in (33, 47, 65, 129):
            (lazyt.ones(size, 3) * 2 + 1).sum(0).realize()
    found = Captured(str(tmp_path / "out")).plans
    assert [f"[{n}, 3]" in p.graph.text for p, n in zip(found, (33, 47, 65, 129))] == [True] * 4
    assert all(transform(p.graph_source, None, "c", False) == p.text for p in found)


def test_plans_that_write_over_their_inputs_are_run_on_copies(tmp_path: Path) -> None:
    def train() -> list[list[float]]:
        lazyt.manual_seed(3)
        weight = nn.Parameter(lazyt.randn(4, 4))
        optimizer = lazyt.optim.Adam([weight], lr=0.1)

        @lazyt.jit
        def step(x: lazyt.Tensor) -> lazyt.Tensor:
            optimizer.zero_grad()
            loss = (x @ weight).exp().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        x = lazyt.randn(8, 4)
        for _ in range(5):
            step(x).item()
        found: list[list[float]] = weight.tolist()
        return found

    expected = train()
    with capture(tmp_path / "out"):
        assert train() == expected
    plans = Captured(str(tmp_path / "out")).plans
    assert any(plan.facts["donated"] and plan.program.donated for plan in plans)
    assert all(transform(p.graph_source, None, "c", False) == p.text for p in plans)


def test_settings_and_passes_of_the_plan_are_those_of_opt(tmp_path: Path) -> None:
    x = lazyt.randn(7, 12).realize()
    with config.override(inline_reduce=4), capture(tmp_path / "out", times=False):
        (x.reshape(7, 3, 4).sum(-1).exp() + 1).realize()
        (x.reshape(7, 2, 6).sum(-1).exp() + 1).realize()
    for plan in Captured(str(tmp_path / "out")).plans:
        assert plan.facts["settings"]["inline_reduce"] == 4
        assert transform(plan.graph_source, None, "c", False) == plan.text
    text = plan.graph_source.replace('"inline_reduce": 4', '"inline_reduce": 64')
    assert transform(text, None, "c", False) != plan.text


def captured_programs(folder: Path, names: list[str]) -> Captured:
    """A capture of programs of operators."""
    with capture(folder, times=False) as written, np.errstate(all="ignore"):
        for name in names:
            for program in PROGRAMS[name][:2]:
                run_program(program)
    assert not written.errors
    return Captured(str(folder))


def require_same_text(found: Captured, least: int) -> None:
    """``opt`` makes the captured text of every plan, byte for byte."""
    assert len(found.plans) >= least
    wrong = [
        plan.name
        for plan in found.plans
        if transform(plan.graph_source, None, "c", False) != plan.text
    ]
    assert not wrong


@pytest.mark.slow
def test_opt_makes_the_captured_c_of_a_sample_of_programs(tmp_path: Path) -> None:
    require_same_text(captured_programs(tmp_path / "out", sorted(PROGRAMS)[3::21]), 40)


@pytest.mark.slow
@pytest.mark.deadline(600)
@pytest.mark.skipif("LAZYT_SLOW" not in os.environ, reason="takes minutes: LAZYT_SLOW=1")
def test_opt_makes_the_captured_c_of_many_programs(tmp_path: Path) -> None:
    require_same_text(captured_programs(tmp_path / "out", sorted(PROGRAMS)[::5]), 200)


def test_opt_prints_for_other_machines(tmp_path: Path, capsys: Capture) -> None:
    x = lazyt.randn(33, 40).realize()
    with capture(tmp_path / "out", times=False):
        (x @ x.T).realize()
    graph = Captured(str(tmp_path / "out")).plans[0].file("graph.ir")
    texts = {}
    for machine in ("native", "avx2", "avx512", str(tmp_path / "out" / "manifest.json")):
        assert main(["opt", graph, "--emit", "c", "--machine", machine]) == 0
        texts[machine] = capsys.readouterr().out
    assert texts["native"] == texts[str(tmp_path / "out" / "manifest.json")]
    assert texts["avx2"] != texts["avx512"] and "vector_size(64)" not in texts["avx2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "is not JSON"),
        ("[]", "describes no machine"),
        ('{"machine": {"l1": 1}}', "'vector_bytes' has to be a number"),
        ('{"vector_bytes": 48, "l1": 1, "l2": 1, "l3": 1, "cores": 1}', "16, 32 or 64"),
        (
            '{"vector_bytes": 32, "l1": 1, "l2": 1, "l3": 1, "cores": 1, "traits": {"tiled": [3]}}',
            "lists of text",
        ),
        (
            '{"vector_bytes": 32, "l1": 1, "l2": 1, "l3": 1, "cores": 1,'
            ' "traits": {"tiled": ["a"]}}',
            "no tiled trait is called 'a'",
        ),
    ],
)
def test_files_that_describe_no_machine(
    text: str, said: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "machine.json"
    path.write_text(text)
    graph = tmp_path / "graph.ir"
    graph.write_text("graph(%0: float32[4]) -> (%0)\n")
    assert main(["opt", str(graph), "--machine", str(path)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda facts: {**facts, "order": [0, 5]}, "does not number its 1 inputs"),
        (lambda facts: {**facts, "order": "x"}, "'order' cannot be 'x'"),
        (lambda facts: {**facts, "donated": [[7, 0]]}, "no input or result"),
        (lambda facts: {**facts, "donated": [[0]]}, "pairs"),
        (lambda facts: {**facts, "settings": {"dump": "/"}}, "no setting 'dump'"),
        (lambda facts: {**facts, "settings": {"inline_reduce": -1}}, "cannot be -1"),
        (lambda facts: {**facts, "tuned": {"kernels": {"a": {"kind": "b"}}}}, "'tuned'"),
        (lambda facts: {**facts, "tuned": {"kernels": 3}}, "'tuned'"),
        (lambda facts: {k: v for k, v in facts.items() if k != "place"}, "'place' is missing"),
    ],
)
def test_first_lines_of_graphs_that_are_wrong(
    change: Callable[[dict[str, object]], object], said: str
) -> None:
    line = '# plan: {"order": [0], "donated": [], "place": "", "settings": {}, "tuned": {}}'
    text = "graph(%0: float32[4]) -> (%1)\n%1 = map(%0) {exp($0)} : float32[4]\n"
    facts = facts_of(line, "here")
    assert facts is not None and transform(f"{line}\n{text}", None, "c", False)
    with pytest.raises(CaptureError, match=said):
        transform(f"# plan: {json.dumps(change(facts))}\n{text}", None, "c", False)
    with pytest.raises(CaptureError, match="is not JSON"):
        transform(f"# plan: {{\n{text}", None, "c", False)


def test_a_folder_that_holds_something_is_left_alone(
    tmp_path: Path, program: str, capsys: Capture
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "mine").write_text("x")
    with pytest.raises(CaptureError, match="holds something already"), capture(folder):
        raise AssertionError
    assert main(["capture", str(folder), program]) == 1
    assert [path.name for path in folder.iterdir()] == ["mine"]
    with pytest.raises(CaptureError, match="cannot write a capture"), capture(folder / "mine"):
        raise AssertionError


def test_the_command_runs_a_program_with_its_arguments(tmp_path: Path) -> None:
    path = tmp_path / "sum.py"
    path.write_text("import sys, torch\nprint(float(torch.arange(float(sys.argv[1])).sum()))\n")
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "lazyt", "capture", str(folder), str(path), "5"]
    for number in (1, 2):
        done = subprocess.run(
            [*command[:4], "--numbered", *command[4:]], capture_output=True, text=True, check=True
        )
        assert done.stdout == "10.0\n"
        assert f"1 plan in {folder}{'-2' if number == 2 else ''}\n" in done.stderr
    manifest = Captured(str(folder)).manifest
    assert manifest["program"]["arguments"] == [str(path), "5"]
    assert Captured(f"{folder}-2").plans[0].text == Captured(str(folder)).plans[0].text


def test_a_program_that_fails_leaves_what_ran_before(tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(ZeroDivisionError), capture(tmp_path / "out", times=False):
        (lazyt.ones(3) + 1).exp().realize()
        raise ZeroDivisionError
    assert len(Captured(str(tmp_path / "out")).plans) == 1


def test_a_capture_that_cannot_be_written_on_does_not_stop_the_program(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with capture(folder, times=False) as written:
        (folder / "sources").write_text("in the way")
        assert float((lazyt.ones(3) + 2).sum()) == 9
    assert len(written.errors) == 1 and "sources" in written.errors[0]
    assert not Captured(str(folder)).plans


def test_positions_are_taken_off_graph_text() -> None:
    text = "# plan: {}\ngraph(%0: float32[4]) -> (%1)\n%1 = map(%0) {exp($0)} : f  # a.py:3\n"
    found = GraphText.of(text)
    assert found.lines[1] == "%1 = map(%0) {exp($0)} : f" and found.positions == ("a.py:3",)
    assert found.first == 1


@pytest.mark.parametrize("name", ["manifest.json"])
@pytest.mark.parametrize("text", ["", "[]", '{"format": 99}', '{"format": 1}', "{" * 100000])
def test_damaged_manifests(name: str, text: str, tmp_path: Path) -> None:
    with capture(tmp_path / "out"):
        pass
    (tmp_path / "out" / name).write_text(text)
    with pytest.raises(LazytError, match=name):
        Captured(str(tmp_path / "out"))


def test_launches_that_several_groups_share_know_them(tmp_path: Path) -> None:
    lazyt.manual_seed(0)
    layers = [nn.Linear(size, size) for size in (8, 12, 16)]
    optimizer = lazyt.optim.AdamW([p for layer in layers for p in layer.parameters()], lr=0.1)
    for layer in layers:
        layer(lazyt.randn(3, layer.in_features)).square().sum().backward()
    with capture(tmp_path / "out", times=False) as written:
        optimizer.step()
        lazyt.stack([layer.weight.sum() for layer in layers]).realize()
    assert not written.errors
    plans = Captured(str(tmp_path / "out")).plans
    shared = [one for plan in plans for one in plan.launches["launches"] if one["segments"]]
    assert shared and all(len(one["groups"]) == len(one["segments"]) for one in shared)
    for plan in plans:
        for number, launch in enumerate(plan.launches["launches"]):
            assert launch["groups"]
            assert {plan.groups[g]["launch"] for g in launch["groups"]} == {number}


def test_what_a_capture_fails_at_does_not_end_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("of a bug")

    monkeypatch.setattr(recorder, "_write_plan", fail)
    with capture(tmp_path / "out", times=False) as written:
        assert float((lazyt.ones(3) + 2).sum()) == 9
    assert written.errors and "KeyError: 'of a bug'" in written.errors[0]
    assert not Captured(str(tmp_path / "out")).plans


def test_tuned_forms_are_those_of_opt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winners, "known", winners._Known())
    monkeypatch.setattr(winners, "_key", lambda: str(tmp_path))
    w = lazyt.randn(64, 90).realize()

    def columns(folder: str) -> CapturedPlan:
        with capture(tmp_path / folder, times=False):
            (w * 2).sum(0).realize()
        return Captured(str(tmp_path / folder)).plans[0]

    plain = columns("plain")
    name = signature(plain.kernels[0])
    form = Tuned(loops=(LoopForm(16, 2, "grid", -1),)).to_dict()
    other = {"form": form, "standard_us": 2.0, "tuned_us": 1.0}
    winners.add({"kernels": {name: other, "another kernel": other}})
    tuned = columns("tuned")
    assert tuned.facts["tuned"] == {"kernels": {name: form}, "fusing": None}
    assert tuned.text != plain.text
    winners.clear()
    assert transform(tuned.graph_source, None, "c", False) == tuned.text
    winners.add({"kernels": {name: other}})
    assert transform(plain.graph_source, None, "c", False) == plain.text
