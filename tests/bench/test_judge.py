"""The judge accepts none of the cheats and refuses none of the honest kernels."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lazyt.__main__ import main
from lazyt.bench.judge import build
from lazyt.bench.judge.emulation import blocks, judge_cuda
from lazyt.bench.judge.judging import Options, judge_c
from lazyt.bench.judge.process import Limits
from lazyt.bench.judge.python_code import judge_function, judge_pair
from lazyt.bench.judge.tasks import Task, check, draw, find, noise_of
from lazyt.bench.judge.verdicts import KINDS, Refusal, Verdict, fast
from tests.bench.judge_zoo.cheats_in_c import BROKEN, CHEATS
from tests.bench.judge_zoo.cheats_in_python import CUDA, FALLBACKS, FUNCTIONS
from tests.bench.judge_zoo.honest_kernels import CUDA as HONEST_CUDA
from tests.bench.judge_zoo.honest_kernels import OWN, PYTHON, C
from tests.bench.judge_zoo.zoo_tasks import TASKS

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="submissions are judged on Linux only"
)
ALL = bool(os.environ.get("LAZYT_SLOW"))
QUICK = Options(2, 1, 2, Limits(8.0, 2 << 30, 1), "")
#: For what is about other checks than that for the framework's operations.
WITH_FRAMEWORK = replace(QUICK, allow_framework=True)
#: What runs each time; LAZYT_SLOW=1 runs everything.
_SOME_HONEST = {
    "relu_omp", "square_pool", "square_joined_thread", "square_lanes", "total_serial", "argmax",
    "softmax_static_scratch", "negated_in_place", "moments", "matmul_packed", "center", "wide",
}  # fmt: skip
_SLOW = {"endless", "busy_thread", "known_result_of_a_flawed_problem"}
_SOME_PYTHON = {"patched_timer", "stolen_reference", "lazy_result", "results_by_address"}


def _some(names: Iterable[str], chosen: set[str]) -> list[str]:
    return [name for name in names if ALL or name in chosen]


def _memory_is_limited() -> bool:
    """Whether a process cannot have more memory than its limit."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 29,) * 2)"
    command = [sys.executable, "-c", f"{limit}; bytearray(1 << 30)"]
    return subprocess.run(command, capture_output=True, check=False).returncode != 0


def _told(verdict: Verdict) -> str:
    return f"{verdict.kind}: {verdict.evidence} (seed {verdict.seed:#x})"


@pytest.mark.parametrize("name", _some([*CHEATS, *BROKEN], {*CHEATS, *BROKEN} - _SLOW))
def test_cheats_in_c_are_refused(name: str) -> None:
    if name == "all_the_memory" and not _memory_is_limited():
        pytest.skip("limits of memory do not hold here (QEMU ignores them)")
    task, text, kinds = {**CHEATS, **BROKEN}[name]
    verdict = judge_c(text, TASKS[task], QUICK)
    assert verdict.kind in kinds and kinds <= set(KINDS), _told(verdict)
    assert verdict.evidence and not verdict.times.warm


@pytest.mark.parametrize("name", _some(FUNCTIONS, _SOME_PYTHON))
def test_cheats_in_python_are_refused(name: str) -> None:
    task, text, kinds = FUNCTIONS[name]
    verdict = judge_function(text, TASKS[task], WITH_FRAMEWORK)
    assert verdict.kind in kinds and kinds <= set(KINDS), _told(verdict)


_SOME_FALLBACKS = {"softmax_by_another_name", "caught", "captured_before"}


@pytest.mark.parametrize("name", _some(FALLBACKS, _SOME_FALLBACKS))
def test_calls_of_the_framework_are_refused(name: str) -> None:
    task, text, line, op = FALLBACKS[name]
    verdict = judge_function(text, TASKS[task], QUICK)
    assert verdict.kind == "fallback", _told(verdict)
    place = f"line {text.splitlines().index(line) + 1}, `{line.strip()}`: " if line else ""
    assert verdict.evidence == f"{place}it computes by lazyt's own operation {op}"


#: Where the checks find what is wrong.
_CUDA_LINES = {
    "no_barrier": "part[threadIdx.x] = s;", "barrier_of_some": "__syncthreads();",
    "no_guard": "out[i] = x[i] * x[i];", "one_block": "out[i] = x[i] * x[i];",
    "beyond_the_emulator": "s += part[j + 1];",
    "shared_unwritten": "part[threadIdx.x] += x[blockIdx.x * d + j];",
}  # fmt: skip


@pytest.mark.parametrize("name", _some(CUDA, {"no_barrier", "beyond_the_emulator", "no_grid"}))
def test_cheats_in_cuda_are_refused(name: str) -> None:
    task, text, kinds = CUDA[name]
    verdict = judge_cuda(text, TASKS[task], QUICK)
    assert verdict.kind in kinds and kinds <= set(KINDS), _told(verdict)
    if line := _CUDA_LINES.get(name):
        number = [part.strip() for part in text.split("\n")].index(line) + 1
        assert verdict.evidence.startswith(f"line {number}, `{line}`: "), _told(verdict)
    assert verdict.notes == ["refused without a GPU; none was asked"]


@pytest.mark.parametrize("name", _some(C, _SOME_HONEST))
def test_honest_kernels_in_c_are_accepted(name: str) -> None:
    task, text = C[name]
    verdict = judge_c(text, TASKS[task], QUICK)
    assert verdict.accepted, _told(verdict)
    assert len(verdict.times.warm) == len(verdict.times.cold) == 2
    assert all(seconds > 0 for seconds in verdict.times.warm)


@pytest.mark.parametrize("name", _some(PYTHON, {"own_kernel_moved"}))
def test_honest_functions_are_accepted(name: str) -> None:
    task, text = PYTHON[name]
    verdict = judge_function(text, TASKS[task], QUICK if name in OWN else WITH_FRAMEWORK)
    assert verdict.accepted, _told(verdict)


@pytest.mark.parametrize("name", _some(HONEST_CUDA, {"rowsum_shared"}))
def test_honest_cuda_is_accepted_but_not_timed(name: str) -> None:
    task, text = HONEST_CUDA[name]
    verdict = judge_cuda(text, TASKS[task], QUICK)
    assert verdict.accepted and not verdict.times.warm, _told(verdict)
    given, left = verdict.notes
    assert f"in {verdict.calls} launches" in given and "no race" in given
    assert left == "not given: whether it runs on a GPU, and its time there"


def test_the_zoo_is_large() -> None:
    assert len(CHEATS) + len(FUNCTIONS) + len(FALLBACKS) + len(CUDA) >= 60
    assert len(C) + len(PYTHON) + len(HONEST_CUDA) >= 60


_REFERENCE = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.inner = nn.Linear(n, n)
    def forward(self, x):
        return torch.relu(self.inner(x))
def get_inputs():
    return [torch.randn(16, 32)]
def get_init_inputs():
    return [32]
"""


@pytest.mark.parametrize(
    "change, kind",
    [
        ((), "accepted"),
        (("torch.relu(self.inner(x))", "self.inner(x)"), "wrong"),
        (("import torch\n", "import torch\nopen('{reference}').read()\n"), "forbidden"),
        (("ModelNew", "Other"), "compile"),
    ],
)
def test_modules_are_judged_against_their_reference(
    tmp_path: Path, change: tuple[str, ...], kind: str
) -> None:
    reference = tmp_path / "reference.py"
    reference.write_text(_REFERENCE, encoding="utf-8")
    text = _REFERENCE.replace("Model(", "ModelNew(")
    if change:
        text = text.replace(change[0], change[1].format(reference=reference), 1)
    verdict = judge_pair(text, reference, WITH_FRAMEWORK)
    assert verdict.kind == kind, _told(verdict)


_TORCH_REFERENCE = """
import torch
class Model(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = torch.nn.Parameter(torch.full((1,), by))
    def forward(self, x):
        return x * self.by
def get_inputs():
    return [torch.randn(16, 32)]
def get_init_inputs():
    return [1.5]
"""
_TORCH_OWN = """
import ctypes, os, subprocess, torch
here = os.environ["HOME"]
with open(here + "/own.c", "w") as file:
    file.write("void own(const float *x, const float *by, float *y, long n)"
               "{ for (long i = 0; i < n; i++) y[i] = x[i] * by[0]; }")
subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", here + "/own.so", here + "/own.c"])
own = ctypes.CDLL(here + "/own.so").own
class ModelNew(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = torch.nn.Parameter(torch.full((1,), by))
    def forward(self, x):
        x = x.t().contiguous().t().contiguous()
        y = torch.empty_like(x)
        places = [ctypes.c_void_p(t.data_ptr()) for t in (x, self.by, y)]
        own(*places, ctypes.c_long(x.numel()))
        return y.view(-1, 2).reshape(x.shape)
"""
_CUSTOM = """
import torch
@torch.library.custom_op("mine::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return torch.mul(x, by)
"""
_THREAD = """
import threading
def scaled(x, by):
    found = []
    thread = threading.Thread(target=lambda: found.append(x * by))
    thread.start()
    thread.join()
    return found[0] if found else x
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_TORCH_OWN, ""),
        (_TORCH_REFERENCE.replace("Model(", "ModelNew("), "line 8, `return x .*aten::mul"),
        (_TORCH_REFERENCE.replace("Model(", "ModelNew(").replace(
            "x * self.by", "torch.nn.functional.linear(x, self.by.diag())"), "aten::"),
        (_CUSTOM + _TORCH_REFERENCE.replace("Model(", "ModelNew(").replace(
            "x * self.by", "scaled(x, self.by)"), "`return scaled.*::mul, inside of mine::scaled"),
        (_THREAD + _TORCH_REFERENCE.replace("Model(", "ModelNew(").replace(
            "x * self.by", "scaled(x, self.by)"), "aten::mul"),
        (_TORCH_REFERENCE.replace("Model(", "ModelNew(").replace(
            "x * self.by", "torch.compile(torch.mul)(x, self.by)"), "aten::mul"),
    ],
    ids=["own", "operator", "functional", "custom", "thread", "compiled"],
)  # fmt: skip
def test_modules_of_pytorch_itself(tmp_path: Path, text: str, words: str) -> None:
    pytest.importorskip("torch.utils._python_dispatch", reason="needs PyTorch")
    reference = tmp_path / "reference.py"
    reference.write_text(_TORCH_REFERENCE, encoding="utf-8")
    verdict = judge_pair(text, reference, replace(QUICK, baseline="torch"), "torch")
    if not words:
        assert verdict.accepted and verdict.speedup, _told(verdict)
    else:
        assert verdict.kind == "fallback", _told(verdict)
        assert re.search(words, verdict.evidence), _told(verdict)


def test_a_reference_that_does_not_work_is_the_problems_fault(tmp_path: Path) -> None:
    reference = tmp_path / "reference.py"
    reference.write_text("x = 1", encoding="utf-8")
    with pytest.raises(ValueError, match=r"reference\.py does not work: .*has no Model"):
        judge_pair("", reference, QUICK)


def test_a_baseline_that_does_not_work_is_not_the_submissions_fault() -> None:
    task, text = C["square"]
    broken = Options(2, 1, 1, QUICK.limits, "lazyt", "/bin/false")
    with pytest.raises(ValueError, match="the baseline lazyt does not work: exit"):
        judge_c(text, TASKS[task], broken)


def test_inputs_are_new_every_time_and_planted_values_are_among_them() -> None:
    task, source = TASKS["relu"], np.random.default_rng(1)
    first, second = (draw(task, {"n": 1000}, "usual", source, []) for _ in range(2))
    assert not np.array_equal(first.inputs[0], second.inputs[0])
    special = draw(task, {"n": 1000}, "special", source, [])
    assert np.isnan(special.exact[0]).any() and np.isinf(special.exact[0]).any()


def test_the_budget_of_a_row_does_not_vanish_by_chance() -> None:
    # Every row is three numbers that nearly cancel: what one draw changes may cancel, too.
    rng = np.random.default_rng(3)
    x = np.zeros((200, 64), np.float32)
    first, second = rng.uniform(1, 2, (2, 200))
    x[:, 3], x[:, 17], x[:, 40] = first, second, -first - second

    def mean(parts: list[np.ndarray]) -> list[np.ndarray]:
        return [np.broadcast_to(-parts[0].mean(-1, keepdims=True), parts[0].shape)]

    (noise,) = noise_of([x], mean([x.astype(np.float64)]), rng, mean)
    unit = float(np.finfo(np.float32).eps) / 2
    assert (noise.min(-1) > 0.1 * unit * (first + second) / 64).all()


def test_workloads_of_the_bench_are_tasks() -> None:
    task = find("softmax@small")
    assert build.signature(task) == (
        "void softmax_small(const float *x0, float *out, long n, long d)"
    )
    with pytest.raises(ValueError, match="no task is called nothing"):
        find("nothing")
    with pytest.raises(ValueError, match="different letters"):
        check(Task("odd", {"x": "n"}, [{"n": 1}, {"m": 1}], lambda t, x: x))


def test_grids_are_expressions_of_sizes() -> None:
    assert blocks("(n + 63) / 64 * d", {"n": 65, "d": 3}) == 6
    for wrong in ("n ** 9", "__import__('os')", "n /", "n / (d - d)", "m"):
        with pytest.raises(ValueError, match="grid"):
            blocks(wrong, {"n": 65, "d": 3})


def test_the_last_function_that_is_not_static_is_judged() -> None:
    text = "static void one(int a) { }\nvoid two(const float *a, float *b, long n) { }\n"
    name, parameters = build.function_of(text + "// void three(int c) {\nstatic void four() { }")
    assert name == "two" and [p.name for p in parameters] == ["a", "b", "n"]
    with pytest.raises(Refusal, match="no function void five"):
        build.function_of(text, "five")


def test_fast_p_counts_the_accepted_and_faster() -> None:
    found = [Verdict("a", "t"), Verdict("b", "t"), Verdict("c", "t", "wrong"), Verdict("d", "t")]
    found[0].speedup, found[1].speedup, found[2].speedup = (3, 2, 4), (1.5, 1, 2), (9, 9, 9)
    assert [fast(found, p) for p in (0, 1, 2)] == [0.75, 0.5, 0.25]
    assert fast([], 0) == 0


def test_the_command_writes_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = tmp_path / "problem.py"
    tasks.write_text(
        "from lazyt.bench.judge.tasks import TASKS, task\n"
        "if 'doubled' not in TASKS:\n"
        "    task('doubled', inputs={'x': 'n'}, sizes=[{'n': 500}, {'n': 77}],\n"
        "         reference=lambda t, x: 2 * x)\n",
        encoding="utf-8",
    )
    folder = tmp_path / "entries"
    folder.mkdir()
    head = "void doubled(const float *x, float *out, long n) "
    (folder / "good.c").write_text(head + "{ for (long i = 0; i < n; i++) out[i] = 2 * x[i]; }")
    (folder / "bad.c").write_text(head + "{ }")
    words = ["judge", str(folder), "--load", str(tasks), "--task", "doubled", "--quick"]
    more = ["--baseline", "", "--threads", "1", "--json", str(tmp_path / "o.json")]
    assert main([*words, *more, "--html", str(tmp_path / "o.html")]) == 1
    shown = capsys.readouterr().out
    assert "1 of 2 accepted; fast_0 0.50" in shown and "unwritten" in shown
    facts = json.loads((tmp_path / "o.json").read_text())
    assert [v["kind"] for v in facts["verdicts"]] == ["unwritten", "accepted"]
    page = (tmp_path / "o.html").read_text()
    assert "good.c" in page and "http" not in page.replace("<!doctype html>", "")
    assert main(["judge", str(tmp_path / "none.c")]) == 2
    assert main(["judge", str(folder), "--task", "nothing"]) == 2
    assert main(["judge", "--signature", "--task", "doubled"]) == 0
