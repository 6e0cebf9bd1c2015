"""The problems of levels: values beside PyTorch's, files of their own, shares that are fast."""

from __future__ import annotations

import ast
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lazyt
from lazyt import config
from lazyt.__main__ import main
from lazyt.bench import fast_p
from lazyt.bench.networks.building import build, declared, dims_of
from lazyt.bench.networks.export import to_text, write
from lazyt.bench.problems import Problem, select
from lazyt.bench.report import fast_p_table, to_html
from lazyt.bench.results import Result, Run, read, to_json
from tests.bench import level_values
from tests.bench.level_values import compare, error_of, file_of, observe, summary

Capture = pytest.CaptureFixture[str]
PROBLEMS = {problem.name: problem for problem in declared()}
#: One of each kind, for what takes long.
SAMPLE = ("level1/13", "level1/23", "level1/50", "level1/97", "level2/9", "level2/84", "level3/1_")


def sampled() -> list[Problem]:
    return [p for p in PROBLEMS.values() if p.name.startswith(tuple(f"{n}_" for n in SAMPLE))]


def test_all_titles_are_there_once() -> None:
    for level, count in ((1, 100), (2, 100), (3, 50)):
        networks = [p.network for p in PROBLEMS.values() if p.suite == f"level{level}"]
        numbers = [network.number for network in networks if network is not None]
        assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= count
    assert len(PROBLEMS) == len(declared())
    for problem in PROBLEMS.values():
        assert set(problem.sizes) == {"cpu", "full"} and problem.quick_dims is not None


@pytest.mark.parametrize("level", [1, 2, 3])
def test_results_and_gradients_are_pytorchs(level: int) -> None:
    """In float64, by generic kernels: other tests check that fused ones give the same bits."""
    recorded = json.loads(level_values.RECORD.read_text(encoding="utf-8"))
    assert recorded.keys() == PROBLEMS.keys()
    wrong = []
    with config.override(tier=0):
        for problem in (p for p in PROBLEMS.values() if p.suite == f"level{level}"):
            found, want = summary(observe(problem, lazyt, "float64")), recorded[problem.name]
            assert found.keys() == want.keys(), problem.name
            for name, numbers in want.items():
                largest = max(map(abs, numbers))
                if not np.allclose(found[name], numbers, rtol=1e-6, atol=1e-7 * largest):
                    wrong.append(f"{problem.name}: {name} {found[name]} instead of {numbers}")
    assert not wrong, "\n".join(wrong)


def test_a_wrong_value_is_noticed(tmp_path: Path) -> None:
    problem = PROBLEMS["level2/9_matmul_subtract_multiply_relu"]
    with config.override(tier=0):
        observed = observe(problem, lazyt)
    np.savez(file_of(problem, tmp_path), **observed.arrays())  # type: ignore[arg-type]
    assert compare(observed, file_of(problem, tmp_path))[0] == 0
    observed.gradients["input 0"] = observed.gradients["input 0"] * np.float32(1.001)
    error, name = compare(observed, file_of(problem, tmp_path))
    assert error == pytest.approx(1e-3, rel=0.1) and name == "gradient input 0"
    del observed.gradients["input 0"]
    assert compare(observed, file_of(problem, tmp_path)) == (math.inf, "gradient input 0")
    nothing = np.array([np.nan, 1.0])
    assert error_of(nothing, np.ones(2)) == math.inf == error_of(np.ones(2), np.ones(3))


@pytest.mark.skipif("LAZYT_SLOW" not in os.environ, reason="takes ten minutes: LAZYT_SLOW=1")
@pytest.mark.parametrize(("dtype", "allowed"), [("float64", 1e-7), ("float32", 3e-3)])
def test_every_element_is_pytorchs(dtype: str, allowed: float, tmp_path: Path) -> None:
    """Of fused kernels. In float32, batch normalization of a few values, and its gradient, magnify
    what is rounded differently."""
    python = os.environ.get("LAZYT_BENCH_PYTHON", sys.executable)
    script = [python, "-m", "tests.bench.level_values", "--dtype", dtype, "--save", str(tmp_path)]
    subprocess.run(script, check=True, cwd=Path(__file__).parents[2])
    errors = {
        problem.name: compare(observe(problem, lazyt, dtype), file_of(problem, tmp_path))
        for problem in PROBLEMS.values()
    }
    assert not {name: error for name, error in errors.items() if error[0] > allowed}


#: Runs files as programs that time such files do.
RUNNER = """
import json, runpy, sys
import torch
for path in sys.argv[1:]:
    names = runpy.run_path(path)
    result = names["Model"](*names["get_init_inputs"]())(*names["get_inputs"]())
    first = result[0] if isinstance(result, tuple) else result
    assert torch.isfinite(first).all(), path
    print(json.dumps(list(first.shape)))
"""


def test_files_run_through_import_torch(tmp_path: Path) -> None:
    problems, runner = sampled(), tmp_path / "runner.py"
    runner.write_text(RUNNER, encoding="utf-8")
    paths = write(problems, tmp_path, "quick")
    assert [path.name for path in paths] == [p.name.partition("/")[2] + ".py" for p in problems]
    done = subprocess.run(
        [sys.executable, "-m", "lazyt", "run", str(runner), *map(str, paths)],
        capture_output=True, text=True, check=True, env={**os.environ, "LAZYT_TIER": "0"},
    )  # fmt: skip
    shapes = [json.loads(line) for line in done.stdout.splitlines()]
    recorded = json.loads(level_values.RECORD.read_text(encoding="utf-8"))
    for problem, shape in zip(problems, shapes, strict=True):
        assert recorded[problem.name]["output 0"][: len(shape)] == shape, problem.name


def test_every_file_is_whole() -> None:
    """It has what a runner asks for, and needs nothing of lazyt; its class is called Model."""
    for problem in PROBLEMS.values():
        text = to_text(problem)
        defined = [getattr(node, "name", "") for node in ast.parse(text).body]
        assert [name for name in defined if name in ("Model", "get_inputs", "get_init_inputs")] == [
            "Model", "get_inputs", "get_init_inputs"
        ], problem.name  # fmt: skip
        assert "lazyt" not in text and "@problem" not in text
    with pytest.raises(ValueError, match="there is no size huge"):
        to_text(problem, "huge")


def test_parameters_are_the_same_whichever_framework_asks() -> None:
    problem = PROBLEMS["level2/9_matmul_subtract_multiply_relu"]
    first, again, other = (
        build(problem, lazyt, dims_of(problem, "quick"), seed) for seed in (0, 0, 1)
    )
    for name, parameter in first.named_parameters():
        assert lazyt.equal(parameter, dict(again.named_parameters())[name])
        assert not lazyt.equal(parameter, dict(other.named_parameters())[name])


def timed(workload: str, framework: str, seconds: float, problem: str = "") -> Result:
    made = Result(workload, framework, workload.partition("/")[0], {"n": 4}, "1", [[seconds]])
    made.problem = problem
    return made


def made_up() -> Run:
    """Four problems: twice as fast, as fast, slower, wrong."""
    results = []
    for number, (own, problem) in enumerate([(1.0, ""), (2.0, ""), (4.0, ""), (1.0, "wrong")]):
        name = f"level{1 + number // 2}/{number}"
        results += [timed(name, "lazyt", own, problem), timed(name, "torch", 2.0)]
    return Run({"cpu": "one"}, {"threads": 1, "by": "median"}, [*results, timed("relu", "jax", 1)])


def test_shares_count_wrong_results_as_slow() -> None:
    one, two, both = fast_p.shares(made_up())
    assert [line.level for line in (one, two, both)] == ["level1", "level2", "all levels"]
    assert one.speedups == (1.0, 2.0) and two.speedups == (0.0, 0.5)
    assert [both.fast(factor) for factor in (0, 1, 1.5, 2)] == [0.75, 0.5, 0.25, 0.25]
    table = fast_p_table(made_up())
    assert table is not None
    assert table.head[4:] == ["fast_0", "fast_1", "fast_1.5", "fast_2", "median"]
    assert table.rows[2] == ["all levels", "captured", "torch", "4", "75 %", "50 %", "25 %", "25 %",
                             "0.75"]  # fmt: skip
    assert to_json(made_up())["fast_p"][2]["fast_1"] == 0.5
    assert "fast_1.5" in to_html(made_up())
    assert fast_p_table(Run({}, {}, [timed("relu", "lazyt", 1), timed("relu", "torch", 1)])) is None


def test_patterns_find_titles_within_levels_alone() -> None:
    assert [w.name for w in select(["softmax"], "level1")] == ["level1/23_softmax@cpu"]
    assert [w.name for w in select(["23_soft*"], "levels-full")] == ["level1/23_softmax@full"]
    assert [w.name for w in select(["level1/23_*"], "peers")] == ["level1/23_softmax@cpu"]
    assert [w.name for w in select(["level1/23_*@full"], "peers")] == ["level1/23_softmax@full"]
    assert all(w.suite == "kernels" for w in select(["relu"], "peers"))
    assert len(select([], "levels")) == len(PROBLEMS)
    assert {w.suite for w in select([], "level3-full")} == {"level3-full"}
    with pytest.raises(ValueError, match="no workload is called axpy"):
        select(["axpy"], "level1")


def test_the_command_times_networks_without_peers(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "found.json"
    command = ["bench", "--suite", "levels", "--only", "gemm_batch_norm_scaling_softmax,40_gru*"]
    counts = ["--quick", "--rounds", "1", "--samples", "1", "--threads", "1", "--peers", ""]
    assert main([*command, *counts, "--json", str(target)]) == 0
    found = read(target)
    assert found.workloads() == ["level2/84_gemm_batch_norm_scaling_softmax@cpu",
                                 "level3/40_gru_last_state@cpu"]  # fmt: skip
    for result in found.results:
        assert result.median and result.error is not None and not result.problem and not result.note
    assert "timing 2 small workloads in lazyt, lazy: 1 turns" in capsys.readouterr().err


def test_problems_are_listed_and_written(tmp_path: Path, capsys: Capture) -> None:
    command = ["bench", "problems", "--level", "1", "--only", "softmax,*relu"]
    assert main([*command, "--size", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "level1/19_relu", "level1/20_leaky_relu", "level1/23_softmax"
    ]  # fmt: skip
    assert lines[2].endswith("n 1024, d 4096")
    assert main([*command, "--export", str(tmp_path)]) == 0
    assert f"written: 3 problems below {tmp_path}" in capsys.readouterr().out
    assert len(list(tmp_path.rglob("*.py"))) == 3
    assert main(["bench", "problems", "--only", "nothing"]) == 2
    assert "no problem is called nothing" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main([*command, "--export", str(tmp_path / "file")]) == 2
    assert "cannot write" in capsys.readouterr().err
