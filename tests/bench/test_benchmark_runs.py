"""The benchmark measures what it says: problems, checks before timing, turns of processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.__main__ import main
from lazyt.bench import session, suites
from lazyt.bench.frameworks import FRAMEWORKS, PEERS
from lazyt.bench.launch import PACKAGE
from lazyt.bench.names import NotOffered, numpy_names, reference_names
from lazyt.bench.problems import Workload, select, workloads
from lazyt.bench.results import Limit, read
from lazyt.bench.session import Nurseries, Options, Place, Session
from lazyt.bench.worker import Job, error_of, sampled, write_reference
from lazyt.tools import bench as command

Capture = pytest.CaptureFixture[str]


def test_every_problem_has_finite_results_and_a_suite() -> None:
    names, seen = reference_names(), set()
    with np.errstate(all="raise", under="ignore"):
        for workload in workloads().values():
            assert workload.suite in suites.NAMES
            problem = workload.problem
            if problem.name in seen or problem.network is not None:
                continue
            seen.add(problem.name)
            arrays = workload.inputs(quick=True)
            wide = [a.astype(np.float64) if a.dtype.kind == "f" else a.astype("i8") for a in arrays]
            result = problem.function(names, *wide)
            for part in result if isinstance(result, tuple) else [result]:
                assert np.isfinite(part).all() and np.size(part), problem.name
    assert {w.suite for w in workloads().values()} == set(suites.NAMES)


def test_lists_of_names_agree() -> None:
    assert command.PEERS == PEERS and set(PEERS) < set(FRAMEWORKS)
    assert command.SUITES == suites.NAMES


def test_workloads_are_chosen_by_name_pattern_and_suite() -> None:
    assert [w.name for w in select(["axpy"], "peers")] == ["axpy"]
    assert [w.name for w in select(["relu", "axpy@p*"], "all")] == [
        *(f"relu@{size}" for size in ("small", "middle", "large", "prime", "tall")),
        "axpy@prime",
    ]
    assert len(select([], "peers")) == 17
    with pytest.raises(ValueError, match="no workload is called nothing"):
        select(["nothing"], "all")


def test_inputs_are_the_same_in_every_process_and_differ_between_calls() -> None:
    workload = workloads()["cross_entropy@small"]
    scores, labels = workload.inputs(0)
    again, other = workload.inputs(0), workload.inputs(1)
    assert np.array_equal(scores, again[0]) and np.array_equal(labels, again[1])
    assert not np.array_equal(scores, other[0])
    assert workload.dtypes() == ["float32", "int64"]
    assert labels.max() < workload.dims()["v"] == scores.shape[1]
    (rounded, _) = workloads()["bfloat16_matmul@small"].inputs()
    assert not (rounded.view(np.uint32) & 0xFFFF).any()


def test_operations_of_products_and_convolutions_are_counted(tmp_path: Path) -> None:
    facts = write_reference(workloads()["matmul@small"], False, tmp_path / "a")
    assert facts == {"nbytes": 3 * 4 * 256**2, "flops": 2.0 * 256**3}
    facts = write_reference(workloads()["conv2d@small"], False, tmp_path / "b")
    assert facts["flops"] == 2.0 * 32 * 26 * 26 * 16 * 9


def begun(workload: Workload, names: Any, path: Path) -> dict[str, object]:
    """A quick job of NumPy, perhaps with other functions, up to its check."""
    write_reference(workload, True, path)
    framework = FRAMEWORKS["numpy"](1)
    framework.names = names
    job = Job(framework, workload, path)
    reply = job.begin()
    assert job.sample(2, 1.0)["seconds"]
    return reply


def test_a_wrong_result_is_noticed(tmp_path: Path) -> None:
    workload = workloads()["tanh@small"]
    assert begun(workload, numpy_names(), tmp_path / "a")["correct"]
    wrong = numpy_names()
    wrong.tanh = lambda x: np.tanh(x) * 1.001
    reply = begun(workload, wrong, tmp_path / "b")
    assert not reply["correct"] and reply["error"] == pytest.approx(1e-3, rel=0.01)
    first: list[Any] = []
    remembering = numpy_names()

    def remembered(x: Any) -> Any:
        first.append(np.tanh(x))
        return first[0]

    remembering.tanh = remembered
    assert not begun(workload, remembering, tmp_path / "c")["correct"]


def test_wrong_ends_sizes_and_nans_are_errors() -> None:
    exact = np.linspace(1.0, 2.0, 1 << 18)
    assert error_of([exact], [sampled(exact)]) == 0
    for place in (0, 4095, -1, -4096):
        wrong = exact.copy()
        wrong[place] += 1
        assert error_of([wrong], [sampled(exact)]) == pytest.approx(0.5)
    infinite = np.array([np.inf, 1.0])
    assert error_of([infinite], [infinite]) == 0
    assert error_of([np.array([np.nan, 1.0])], [np.ones(2)]) == float("inf")
    with pytest.raises(ValueError, match="3 elements"):
        error_of([np.ones(3)], [np.ones(2)])
    with pytest.raises(ValueError, match="1 results instead of 2"):
        error_of([np.ones(3)], [np.ones(3)] * 2)
    with pytest.raises(NotOffered, match="conv2d"):
        _ = numpy_names().conv2d


class Actor:
    """A worker with answers made up: a framework's name says how it behaves."""

    asked: list[tuple[str, str]] = []

    def __init__(self, place: Place, folder: Path) -> None:
        self.framework = place.framework

    def ask(self, request: dict[str, object]) -> dict[str, Any]:
        kind = "sample" if "samples" in request else "begin"
        self.asked.append((self.framework, kind))
        if self.framework == "reference":
            return {"nbytes": 8, "flops": 4.0}
        if self.framework == "machine":
            looks = self.asked.count(("machine", "begin"))
            return {"bandwidth": 32.0 * looks, "peak": 8.0}
        if kind == "sample":
            return {"seconds": [0.5, 0.25], "peak_bytes": 9, "base_bytes": 5}
        good = {"version": "1", "kernels": 2, "cold_first_s": 1.0, "error": 0.0, "correct": True}
        good |= {"note": "", "operations": 8.0}
        history = [1.0, 0.5] if self.framework != "numpy" else [1.0, 0.9]
        special: dict[str, dict[str, object]] = {
            "jax": {"missing": "No module named 'jax'"},
            "tinygrad": {"absent": "sort"},
            "compile": {**good, "correct": False, "error": 0.5, "history": []},
        }
        return special.get(self.framework, {**good, "history": history})

    def end(self) -> None:
        """Nothing to end."""


def test_a_worker_that_dies_or_does_not_answer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nurseries = Nurseries()
    place = Place("machine", sys.executable, 1)
    try:
        first, second = (nurseries.worker(place, tmp_path) for _ in range(2))
        os.kill(first.pid, signal.SIGSEGV)
        assert first.ask({}) == {"failed": "the process ended with -11: silently"}
        assert second.ask({"quick": True})["bandwidth"] > 0
        monkeypatch.setattr(session, "CALL_LIMIT", 0.01)
        os.kill(second.pid, signal.SIGSTOP)
        assert second.ask({"quick": True}) == {"failed": "no answer in 0 s"}
        first.end()
        second.end()
    finally:
        nurseries.end()


def test_processes_take_turns_and_what_fails_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nurseries, "worker", lambda _, place, folder: Actor(place, folder))
    Actor.asked = []
    steps: list[str] = []
    names = ("lazyt", "lazy", "torch", "compile", "jax", "tinygrad", "numpy")
    with Session(Options(names, 1, rounds=2), steps.append) as made:
        found = {r.framework: r for r in made.measure(workloads()["tiny"])}
        taken = list(steps), list(Actor.asked)
        assert "jax" not in {r.framework for r in made.measure(workloads()["tiny"])}
    assert len(taken[0]) == made.steps()
    assert made.missing == {"jax": "No module named 'jax'"} and "jax" not in found
    assert found["tinygrad"].absent == "sort"
    assert found["compile"].problem == "wrong result: error 0.5"
    assert found["numpy"].problem.startswith("wrong result: the losses of the first steps")
    own = found["lazyt"]
    assert own.rounds == [[0.5, 0.25]] * 2 and (own.median, own.least) == (0.375, 0.25)
    assert (own.nbytes, own.warm_first_s, own.peak_bytes) == (8, 1.0, 9)
    sampling = [name for name, kind in taken[1] if kind == "sample"]
    # Seven workers, of which three can be sampled: the second round begins with the second one.
    assert sampling == ["lazyt", "lazy", "torch", "lazy", "torch", "lazyt"]
    # The machine is looked at once before all turns, and after each.
    assert taken[1].count(("machine", "begin")) == 1 + len(sampling)
    assert own.limits == [Limit(32 * 1.5, 8), Limit(32 * 6.5, 8)]


def test_the_command_measures_two_workloads_without_peers(tmp_path: Path, capsys: Capture) -> None:
    path, page = tmp_path / "new" / "r.json", tmp_path / "r.html"
    only = "tiny,optimizer_sgd@small"
    arguments = ["--quick", "--rounds", "1", "--samples", "1", "--threads", "1", "--peers", ""]
    files = ["--json", str(path), "--html", str(page)]
    assert main(["bench", "--only", only, *arguments, *files]) == 0
    captured = capsys.readouterr()
    printed = captured.out
    assert "tiny" in printed and "optimizer_sgd@small" in printed and "--quick" in printed
    assert f"written: {path}\nwritten: {page}\n" in printed
    assert "timing 2 small workloads in lazyt, lazy: 1 turns of each" in captured.err
    run = read(path)
    found = run.found()
    assert set(found) == {(w, f) for w in only.split(",") for f in ("lazyt", "lazy")}
    for result in run.results:
        assert result.median and result.cold_first_s and result.error is not None
        assert result.peak_bytes and not result.problem
    assert not any(result.note for result in run.results)
    assert found["tiny", "lazyt"].kernels == 1 and found["tiny", "lazyt"].warm_first_s
    assert found["tiny", "lazyt"].dims == {"n": 64}
    assert "<svg" in page.read_text(encoding="utf-8")
    more = ["--only", f"{only},axpy@small", *arguments, "--json", str(path), "--resume"]
    assert main(["bench", *more]) == 0
    assert read(path).results[: len(run.results)] == run.results
    assert read(path).workloads() == [*only.split(","), "axpy@small"]
    assert main(["bench", *more, "--rounds", "2"]) == 2
    assert "other settings" in capsys.readouterr().err
    assert json.loads(path.read_text(encoding="utf-8"))["machine"]["cores"] >= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--peers", "torch,chainer"], "unknown peer chainer"),
        (["--only", "nothing"], "no workload is called nothing"),
        (["--suite", "nothing"], "invalid choice"),
        (["--only", "tiny", "--resume"], "--resume needs --json"),
        (["compare", "a.json", "b.json"], "cannot read"),
        (["ab", "this", "no-such-commit", "--only", "tiny"], "is no commit"),
        (["ab", "this", "no-such-file.py", "--only", "tiny"], "there is no file"),
        (["ab", "this", "this", "--only", "nothing"], "no workload is called nothing"),
        (["ab", "this", "this", "--rounds", "1"], "--rounds has to be 2"),
    ],
)
def test_wrong_usage_is_one_line(arguments: Sequence[str], message: str, capsys: Capture) -> None:
    assert main(["bench", *arguments]) == 2
    said = capsys.readouterr()
    assert message in said.err and said.err.count("\n") == 1 and not said.out


#: Has each exponential computed ten times more, to no effect.
SLOWED = """
from lazyt import compiler, ops
from lazyt.ir.graph import rebuild, remake


def slowed(roots):
    def change(node, inputs):
        made = remake(node, inputs)
        if made.op.name == "map" and made.dtype.kind == "f" and "exp" in repr(made.params):
            below = ops.apply("neg", ops.apply("abs", inputs[0]))
            more = below
            for _ in range(10):
                more = ops.apply("exp", ops.apply("neg", more))
            more = ops.apply("neg", more)
            made = ops.apply("maximum", made, ops.broadcast_to(more, made.shape))
        return made

    return rebuild(roots, change)


compiler.register_pass(compiler.Pass("slowed", slowed, "more work for each exp"))
"""


def test_versions_are_timed_side_by_side(tmp_path: Path, capsys: Capture) -> None:
    """A file that makes a kernel slower is found, and the same code twice is not."""
    file, found = tmp_path / "slowed.py", tmp_path / "found.json"
    file.write_text(SLOWED, encoding="utf-8")
    command = ["bench", "ab", "--only", "softmax@small", "--suite", "all", "--rounds", "8"]
    command += ["--threads", "1", "--fail-above", "1.05"]
    # A machine that does other things may be too noisy once.
    slower = [*command, "this", str(file), "--json", str(found)]
    assert any(main(slower) == 1 for _ in range(4))
    facts = json.loads(found.read_text(encoding="utf-8"))
    assert facts["rules"]["paired"] and facts["changes"][0]["verdict"] == "slower"
    assert facts["after"]["settings"]["version"] == str(file)
    assert main([*command, "this", str(PACKAGE.parent)]) == 0


def test_a_version_that_cannot_begin_fails_in_words(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "broken.py"
    file.write_text("raise RuntimeError('not today')", encoding="utf-8")
    command = ["bench", "ab", "this", str(file), "--only", "axpy@small,tiny", "--suite", "all"]
    assert main([*command, "--rounds", "2", "--quick", "--fail-above", "1.05"]) == 1
    said = capsys.readouterr().out
    for name in ("axpy@small", "tiny"):
        place = f"{name}, lazyt: failed: cannot load {file}: {file}:1: RuntimeError: not today"
        assert place in said


def test_workloads_are_listed(capsys: Capture) -> None:
    assert main(["bench", "--list", "--only", "axpy@small"]) == 0
    assert capsys.readouterr().out.split() == ["axpy@small", "sizes", "n", "65536"]


@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("g++")), reason="needs compilers")
def test_a_device_is_measured_the_same_way(tmp_path: Path, capsys: Capture) -> None:
    """On the emulator: checked results, times by the device's marks, its copies in the report."""
    target = tmp_path / "found.json"
    chosen = ["--only", "gpu_softmax@1k,gpu_add", "--rounds", "1", "--samples", "1"]
    assert main(["bench", "--device", "cuda:emu", "--quick", *chosen, "--json", str(target)]) == 0
    found = read(target)
    assert found.machine["device"] == "cuda:emu" and "emulator" in found.machine["gpu"]["name"]
    assert found.bandwidth is not None and found.bandwidth > 0 and found.peak is None
    assert found.settings["device"] == "cuda:emu" and found.frameworks() == ["lazyt", "lazy"]
    assert all(r.error is not None and r.error < 1e-6 and r.least for r in found.results)
    assert all(found.share(result) for result in found.results)
    assert "bytes" not in capsys.readouterr().err
    if not lazyt.cuda.is_available():
        assert main(["bench", "--device", "cuda", "--quick", "--only", "gpu_add"]) == 2
        assert "cannot use cuda:0" in capsys.readouterr().err
