"""Tuning: winners are used, bits stay, budgets hold, wrong forms are dropped."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt import Tensor, ops
from lazyt.__main__ import main
from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.loops.forms import LoopForm
from lazyt.codegen.matmul.contraction import PackedForm
from lazyt.codegen.plan.candidates import Field
from lazyt.codegen.plan.choices import Fusing, Tuned, signature
from lazyt.compiler import compile_graph
from lazyt.config import config, tuned_here
from lazyt.errors import OutOfMemoryError
from lazyt.handle.dispatch import wrap
from lazyt.ir.decisions import Traits
from lazyt.ir.kernel import Kernel
from lazyt.ir.printer import print_kernel
from lazyt.plan import planning
from lazyt.plan.build import Subject
from lazyt.runtime import devices, events, winners
from lazyt.runtime.winners import TuneFileError
from lazyt.tools.tune import TuneError, TuneReport
from lazyt.tuning import clock, kernels, plans, session
from lazyt.tuning.clock import Progress, Runner

pytestmark = pytest.mark.skipif(config.eager or config.interpret, reason="needs plans")


def kernel_of(function: Callable[..., Tensor], *given: Tensor) -> Kernel:
    """The kernel that a function's plan has."""
    inputs = [ops.input_(t.node.shape, t.node.dtype) for t in given]
    made = compile_graph([function(*map(wrap, inputs)).node], inputs)[1]
    assert len(made) == 1
    return made[0]


def force(kernel: Kernel, tuned: Tuned) -> None:
    """Makes a form the winner."""
    entry = {"form": tuned.to_dict(), "standard_us": 2.0, "tuned_us": 1.0}
    winners.add({"kernels": {signature(kernel): entry}})
    planning.clear()


def bits(tensor: Tensor) -> bytes:
    """The values, as they lie in memory."""
    return bytes(tensor.contiguous().numpy().tobytes())


def matmul(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).relu()


def columns(x: Tensor) -> Tensor:
    return (x * 2).sum(0)


def test_winners_are_used_and_bits_stay() -> None:
    x, w = lazyt.randn(70, 64).realize(), lazyt.randn(64, 90).realize()
    for function, given, tuned, mark in (
        (matmul, (x, w), Tuned(PackedForm(4, 1, 20, 8, 32, 16, 64, 96, False, True)), "rows=4"),
        (columns, (w,), Tuned(loops=(LoopForm(16, 2, "grid", -1),)), "* 16"),
        (columns, (w,), Tuned(loops=(LoopForm(lanes="inner"),)), ""),
    ):
        assert isinstance(tuned, Tuned)
        winners.clear()
        planning.clear()
        before = bits(function(*given))
        kernel = kernel_of(function, *given)
        standard = Field(kernel, devices.cpu().vector_bytes, (1 << 15, 1 << 19, 1 << 25)).standard()
        assert standard != tuned
        plain = lazyt.explain(function(*given))
        force(kernel, tuned)
        assert bits(function(*given)) == before
        node = function(*given).node
        leaves = [n for n in (x.node, w.node) if n in node.inputs or function is matmul]
        assert leaves or function is columns
        choices = Subject([node], [], (), "").choices()
        assert choices is not None and choices.of(kernel) == tuned
        assert str(plain) != str(lazyt.explain(function(*given))) or not mark or "*" in mark


def test_all_forms_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that goes by forms instead of time: every form that is tried is compared."""
    x, w = lazyt.randn(50, 48).realize(), lazyt.randn(48, 40).realize()
    tried: list[Tuned] = []
    compiled = kernels.KernelSearch._compiled

    def note(self: kernels.KernelSearch, batch: list[Tuned]) -> Any:
        tried.extend(batch)
        return compiled(self, batch)

    monkeypatch.setattr(kernels.KernelSearch, "_compiled", note)
    monkeypatch.setattr(clock, "TRIAL_SECONDS", 1e-6)
    monkeypatch.setattr(plans, "FUSINGS", ())
    monkeypatch.setattr(kernels.KernelSearch, "left", lambda self: 9.0 * (len(tried) < 9))
    report = lazyt.tune(lambda: (matmul(x, w), columns(x)), seconds=60)
    assert not report.messages
    assert len(tried) >= 9 and len(winners.tables()["graphs"]) == 2
    assert report.before > 0 and report.after > 0


def test_winners_of_earlier_versions_stay_known() -> None:
    """The name of a kernel was made of its text before this had types of names."""
    x = lazyt.randn(37, 1000).realize()
    (kernel,) = [kernel_of(lambda x: x.softmax(-1), x)]
    text = re.sub(r"(let|keep) (\w+): \w+ =", r"\1 \2 =", print_kernel(kernel))
    assert text != print_kernel(kernel)
    assert signature(kernel).endswith(hashlib.sha256(text.encode()).hexdigest()[:16])


def test_wrong_forms_are_dropped_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    printer = print_kernel_c
    numbers: dict[Tuned | None, int] = {}

    def spoilt(
        kernel: Kernel,
        vector: int,
        caches: Any,
        *,
        tuned: Tuned | None,
        threads: int,
        traits: Traits,
    ) -> Any:
        from dataclasses import replace

        made = printer(kernel, vector, caches, tuned=tuned, threads=threads, traits=traits)
        number = numbers.setdefault(tuned, len(numbers))
        text = made.source.text.replace("3.0f", "4.0f") if number % 2 else made.source.text
        text += "\n#error broken\n" if number == 2 else f"/* {number} */\n"
        return made if number == 0 else replace(made, source=replace(made.source, text=text))

    monkeypatch.setattr(kernels, "print_kernel_c", spoilt)
    monkeypatch.setattr(kernels, "BATCH", 3)
    monkeypatch.setattr(plans, "FUSINGS", ())
    x = lazyt.randn(3000).realize()
    before = bits(x * 3 + 1)
    report = lazyt.tune(lambda: x * 3 + 1, seconds=4)
    assert any("gives other bits, and is not used" in m for m in report.messages)
    assert any("does not compile" in m for m in report.messages)
    assert bits(x * 3 + 1) == before


def test_budget_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = lazyt.randn(64, 64).realize(), lazyt.randn(64, 64).realize()
    report = lazyt.tune(matmul, x, w, seconds=1e-6)
    assert len(report.plans) == 1 and report.plans[0].kernels == () and not report.plans[0].kept
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: 0.25 * next(ticks))
    report = lazyt.tune(matmul, x, w, seconds=20)
    monkeypatch.undo()
    assert next(ticks) < 20 / 0.25 + 200, "a search goes on after its time"


def test_setting_tunes_every_plan_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session._announce.cache_clear()
    took: list[float] = []
    tune = session._tune

    def note(plan: Any, subject: Any, inputs: Any, seconds: float, progress: Progress) -> Any:
        took.append(seconds)
        return tune(plan, subject, inputs, 0.2, progress)

    monkeypatch.setattr(session, "_tune", note)
    x = lazyt.randn(40, 30).realize()
    before = bits(columns(x))
    with config.override(tune=True, tune_seconds=7):
        for _ in range(2):
            planning.clear()
            for _ in range(2):
                assert bits(columns(x)) == before
                lazyt.realize(x + 1)
    assert took == [7.0, 7.0]
    said = capsys.readouterr().err
    assert said.count("lazyt: tuning.") == 1, "the first plan says so, no other"
    assert "at most 7 s" in said
    assert "LAZYT_TUNE_SECONDS" in said
    assert "max-autotune" in said

    def fail(*rest: Any) -> Any:
        raise OutOfMemoryError("no room for copies")

    monkeypatch.setattr(session, "_tune", fail)
    doubled = bits(x * 2)
    planning.clear()
    with config.override(tune=True):
        assert bits(x * 2) == doubled, "a program goes on where tuning fails"
    assert "no room for copies" in events.recorded("tune")[-1].reason


def test_compile_tunes_when_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    tune, tuned = session._tune, []

    def note(plan: Any, subject: Any, inputs: Any, seconds: float, progress: Progress) -> Any:
        tuned.append(subject.name)
        return tune(plan, subject, inputs, 0.1, progress)

    monkeypatch.setattr(session, "_tune", note)
    x = lazyt.randn(5, 7).realize()
    asked: list[tuple[dict[str, Any], bool]] = [
        ({"mode": "max-autotune"}, True), ({"options": {"max_autotune": True}}, True),
        ({"mode": "reduce-overhead"}, False), ({"options": {"max_autotune": False}}, False),
    ]  # fmt: skip
    for place, (options, wanted) in enumerate(asked):
        linear = lazyt.nn.Linear(7, 2 + place).requires_grad_(False)
        captured = lazyt.compile(**options)(linear)
        tuned.clear()
        found = [bits(captured(x)) for _ in range(4)]
        assert bool(tuned) == wanted, options
        assert not tuned_here.get()
        assert set(found) == {bits(linear(x))}


def test_what_a_plan_overwrites_is_overwritten_once() -> None:
    weight = lazyt.ones(64)

    def step() -> Tensor:
        weight.mul_(2)
        weight[3:5] = 0.5
        return weight

    with config.override(tune=True, tune_seconds=1):
        step().realize()
    assert weight.tolist() == [2.0] * 3 + [0.5] * 2 + [2.0] * 59
    captured = lazyt.jit(lambda x: (x + 1).exp().sum())
    for _ in range(3):
        captured(weight).realize()
    lazyt.tune(captured, weight, seconds=0.5)
    for _ in range(3):
        assert captured(weight).item() == (weight + 1).exp().sum().item()
    assert len(captured.explain().kernels) == 1, "it was captured again"


def test_fusion_is_a_choice_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fusion that is found faster is what the plan has from then on."""
    monkeypatch.setattr(plans, "FUSINGS", (Fusing(members=1),))
    monkeypatch.setattr(plans, "duel", lambda *rest: (2.0, 1.0, True))
    monkeypatch.setattr(plans.PlanTuner, "_search", lambda *rest: None)
    x = lazyt.randn(30, 40).realize()

    def function() -> Tensor:
        return x.softmax(-1)

    before, count = bits(function()), len(lazyt.explain(function()).kernels)
    report = lazyt.tune(function, seconds=30)
    assert not report.messages
    assert [p.fusing for p in report.plans] == [Fusing(members=1)]
    assert len(lazyt.explain(function()).kernels) > count
    assert bits(function()) == before


def test_export_and_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    w = lazyt.randn(64, 90).realize()
    kernel = kernel_of(columns, w)
    force(kernel, Tuned(loops=(LoopForm(16, 2, "grid", -1),)))
    path = tmp_path / "tuned.json"
    assert main(["tune", "export", str(path)]) == 0
    assert main(["tune", "clear"]) == 0 and lazyt.tune.winners() == {}
    assert main(["tune", "list"]) == 0 and "nothing was tuned" in capsys.readouterr().out
    assert main(["tune", "import", str(path)]) == 0 and "1 entries" in capsys.readouterr().out
    assert main(["tune", "list"]) == 0 and "2.0 us -> 1.0 us" in capsys.readouterr().out
    assert list(lazyt.tune.winners()) == [signature(kernel)]
    lazyt.tune.clear()
    raw = json.loads(path.read_text())
    raw["kernels"][signature(kernel)]["form"]["phases"][0]["tile"] = "all"
    path.write_text(json.dumps(raw))
    with pytest.raises(TuneFileError, match=r"tuned\.json: the form of 'loops .*'tile'.*'all'"):
        lazyt.tune.load(path)
    assert lazyt.tune.winners() == {}, "nothing of a bad file is taken over"
    path.write_text("nonsense")
    assert main(["tune", "import", str(path)]) == 1
    assert main(["tune", "import", str(path) + "?"]) == 2
    assert main(["tune", "fast"]) == 2


def test_command_runs_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "program.py"
    script.write_text("import sys, torch\nprint(sys.argv[1:], torch.config.tune_seconds)\n")
    assert main(["tune", "run", "--seconds", "3", str(script), "a", "--b"]) == 0
    assert capsys.readouterr().out == "['a', '--b'] 3\n"
    assert not config.tune
    assert main(["tune", "run", os.fspath(tmp_path / "none.py")]) == 2


def test_wrong_calls_say_so() -> None:
    with pytest.raises(ValueError, match="seconds has to be positive"):
        lazyt.tune(columns, lazyt.ones(2, 2), seconds=0)
    with pytest.raises(TuneError, match="runs no plan"):
        lazyt.tune(lambda: 3)


def test_clock_finds_the_faster_one() -> None:
    """Times of a clock that is not the machine's."""
    noise = itertools.cycle([0.0, 0.4, 0.1])

    def taking(seconds: float) -> Runner:
        return Runner(lambda times: seconds + next(noise) * 0.1)

    slow, fast, close = taking(2.0), taking(1.0), taking(1.99)
    assert clock.duel(slow, fast, 1)[2] and not clock.duel(fast, slow, 1)[2]
    assert not clock.duel(slow, close, 1)[2], "less than the margin"
    found = clock.race([slow, fast, close], 1)
    assert found.index(min(found)) == 1
    assert clock.repeats(1.0) == 1 and clock.repeats(1e-6) > 1000


def test_progress_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    real = builtins.__import__

    def none_of_it(name: str, *rest: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "rich":
            raise ImportError(name)
        return real(name, *rest, **kwargs)

    stream = io.StringIO()
    monkeypatch.setattr(builtins, "__import__", none_of_it)
    with Progress.shown(True, stream) as progress:
        progress.show(0.5, "a kernel")
        progress.show(0.75, "another")
        progress.say("a message")
    monkeypatch.undo()
    lines = stream.getvalue().splitlines()
    assert lines[0] == f"tuning [{'#' * 12}{'.' * 12}]  50 %  a kernel"
    assert lines[1].endswith(" 75 %  another") and lines[2] == "a message"
    quiet = io.StringIO()
    with Progress.shown(None, quiet) as progress:
        progress.show(0.5, "a kernel")
    assert quiet.getvalue() == "", "nothing is shown where nobody looks"


def test_how_arguments_were_made_is_not_tuned() -> None:
    x, w = lazyt.randn(64, 48), lazyt.randn(48, 32)
    report = lazyt.tune(lambda given, w: (given["x"] @ w).relu().sum(-1), {"x": x}, w, seconds=30)
    assert [k.outline for plan in report.plans for k in plan.kernels]
    assert "random" not in str(report)
    layer = lazyt.nn.Linear(48, 32)
    assert lazyt.tune(layer, x, seconds=30).plans[0].kernels


def test_what_cannot_be_called_is_not_tuned() -> None:
    with pytest.raises(TypeError, match="a function or a module and its arguments, not int"):
        lazyt.tune(3)  # type: ignore[arg-type]


def test_a_plan_without_other_forms_says_so() -> None:
    assert "no other form was tried" in str(
        TuneReport((plans.PlanReport("g", 1.0, 1.0, None, (), False),), ())
    )


def test_a_report_says_why_a_form_won_or_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = lazyt.randn(50, 48).realize(), lazyt.randn(48, 40).realize()
    monkeypatch.setattr(plans, "FUSINGS", ())
    monkeypatch.setattr(clock, "TRIAL_SECONDS", 1e-6)
    verdicts = iter([(2e-6, 1e-6, True), (2e-6, 2e-6, False), (2e-6, 3e-6, False)])
    monkeypatch.setattr(kernels.KernelSearch, "left", lambda self: 9.0 * (self.tried < 9))
    # Every race is won by forms that were not in the one before; duels go as told.
    races = itertools.count(1)
    monkeypatch.setattr(kernels, "race", lambda runners, times: [1e-6 / next(races)] * len(runners))
    monkeypatch.setattr(kernels, "duel", lambda *given: next(verdicts))
    monkeypatch.setattr(plans, "duel", lambda *given: next(verdicts))
    report = lazyt.tune(matmul, x, w, seconds=60)
    assert "(50% faster at its best)" in str(report)
    assert "with what was found it took 2.0 us: nothing is kept" in str(report)
    assert report.plans[0].kernels[0].form is not None and not report.plans[0].kept
    report = lazyt.tune(matmul, x, w, seconds=60)
    assert "was 50% slower at its best: not certainly 3%" in str(report)
