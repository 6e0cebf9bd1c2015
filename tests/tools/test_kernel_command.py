"""``python -m lazyt kernel run``: kernel text on data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lazyt.__main__ import main
from lazyt.ir.dtypes import bfloat16, encode_bfloat16, float16, float32, int64
from lazyt.tools.kernel import ulps

TEXT = """kernel sums(in x: float32[4, 50], in s: bfloat16[4], out y: float32[4]) {
  phase (i: 4) lanes inner work 50.0 {
    for k: 50 { reduce r: float32 = sum mul(x[i, k], x[i, k]) }
    once { store y[i] = add(%r, cast<float32>(s[i])) }
  }
}
"""
GRAPH = """graph(%0: float32[4, 50], %1: bfloat16[4]) -> (%4)
%2 = map(%0) {mul($0, $0)}
%3 = reduce(%2) {kind=sum, axes=(1,)}
%4 = map(%3, %1) {add($0, cast<float32>($1))}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sums.kernel"
    path.write_text(TEXT)
    return path


def test_it_runs_and_compares(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "run", str(file), "--against", "interpreter", "--time"]) == 0
    said = capsys.readouterr().out
    assert "us by C, the median of 9" in said
    assert "us by interpreter, the median of 3" in said
    assert "against interpreter: y: the same bits" in said
    assert main(["kernel", "run", str(file), "--by", "interpreter", "--against", "c"]) == 0
    digest = [line for line in said.splitlines() if line.startswith("  y: float32[4] ")]
    assert digest == [x for x in capsys.readouterr().out.splitlines() if x.startswith("  y: ")]
    assert main(["kernel", "run", str(file), "--seed", "1"]) == 0
    assert digest[0] not in capsys.readouterr().out


def test_it_compares_with_a_graph(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "sums.ir"
    graph.write_text(GRAPH)
    command = ["kernel", "run", str(file), "--against", "graph", "--graph", str(graph)]
    assert main(command) == 0
    assert "against graph: y: " in capsys.readouterr().out
    graph.write_text(GRAPH.replace("mul($0, $0)", "add($0, $0)"))
    assert main(command) == 1
    captured = capsys.readouterr()
    assert "4 of 4 elements differ, at most by" in captured.out
    assert "results differ by more than 16 ulp" in captured.err
    graph.write_text(GRAPH.replace("50]", "51]"))
    assert main(command) == 2
    assert "the graph's leaves are float32[4, 51], bfloat16[4], the kernel's float32[4, 50]" in (
        capsys.readouterr().err
    )


def test_inputs_and_outputs_are_files(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs, output = str(tmp_path / "x.npz"), str(tmp_path / "y.npz")
    x = np.full((4, 50), 2, np.float32)
    s = np.arange(4, dtype=np.float32)
    command = ["kernel", "run", str(file), "--inputs", inputs, "--output", output]
    for each in (s, encode_bfloat16(s)):
        np.savez(inputs, x=x, s=each)
        assert main(command) == 0
        with np.load(output) as found:
            assert found["y"].tolist() == [200, 201, 202, 203]
    for arrays, message in (
        ({"x": x}, "has no array 's'; it has x"),
        ({"x": x[:3], "s": s}, "'x' has to be float32[4, 50], it is float32[3, 50]"),
        ({"x": x.astype(np.float64), "s": s}, "it is float64[4, 50]"),
    ):
        np.savez(inputs, **arrays)
        capsys.readouterr()
        assert main(command) == 2
        assert message in capsys.readouterr().err
    Path(inputs).write_text("nothing")
    assert main(command) == 2
    assert main([*command[:3], "--inputs", str(tmp_path / "none.npz")]) == 2


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("sum mul(", "sum mull(", 1, "unknown function 'mull'"),
        ("x[i, k], x[i, k]", "x[i, k], x[i, k + 1]", 1, "# <-- load x: index k + 1 of axis 1"),
        ("y[i] =", "y[0] =", 1, "# <-- every i stores the same elements of y"),
        (" {\n  phase", " {\n  form: dots exchanged=true parallel=true\n  phase", 1,
         "no kernel for a form of this kind"),
    ],
)  # fmt: skip
def test_bad_text_is_marked(
    file: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, code: int, message: str
) -> None:
    file.write_text(TEXT.replace(old, new, 1))
    assert main(["kernel", "run", str(file)]) == code
    assert message in capsys.readouterr().err


def test_wrong_commands_say_so(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["kernel", "run", str(file)]
    for more, message in (
        (["--against", "c"], "--against c is what runs it"),
        (["--against", "graph"], "--graph FILE go together"),
        (["--graph", "x"], "--graph FILE go together"),
        (["--by", "magic"], "invalid choice"),
    ):
        assert main([*run, *more]) == 2
        assert message in capsys.readouterr().err
    file.write_text("")
    assert main(run) == 2
    assert "has no kernel" in capsys.readouterr().err
    file.write_text(TEXT + TEXT)
    assert main(run) == 0
    assert capsys.readouterr().out.count("kernel sums") == 2
    assert main([*run, "--output", str(tmp_path / "y.npz")]) == 2
    assert "are for one kernel, not 2" in capsys.readouterr().err


def test_what_is_not_proved_is_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("""kernel k(in at: int64[8], inout y: float32[8]) {
      phase (i: 8) lanes grid work 2.0 {
        for s: 2 sequential {
          let p = maximum(minimum(at[i], 7:int64), 0:int64)
          store y[@p[8]] = 1.0:float32
        }
      }
    }""")
    assert main(["kernel", "run", str(file), "--against", "interpreter"]) == 0
    assert "it is not proved that every point stores its own elements" in capsys.readouterr().err


def test_segments_have_arrays_of_their_own(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("""kernel k(in x: float32[500], out y: float32[500]) segments (500, 70) {
      phase (i: 500) lanes grid work 2.0 { once { store y[i] = mul(x[i], x[i]) } }
    }""")
    output = str(tmp_path / "y.npz")
    command = ["kernel", "run", str(file), "--against", "interpreter", "--output", output]
    assert main([*command, "--time"]) == 0
    assert "y.1: the same bits" in capsys.readouterr().out
    with np.load(output) as found:
        assert found["y.0"].shape == (500,) and found["y.1"].shape == (70,)
        arrays = {"x.0": np.zeros(500, np.float32), "x.1": np.zeros(70, np.float32)}
    np.savez(str(tmp_path / "x.npz"), **arrays)  # type: ignore[arg-type]
    assert main([*command, "--inputs", str(tmp_path / "x.npz")]) == 0


def test_distances_between_numbers() -> None:
    one = np.array([1, -1, 0.0, np.nan, np.nan, np.inf, -np.inf], np.float32)
    other = np.array([1 + 2**-23, -1 + 2**-24, -0.0, np.nan, 1, np.inf, np.inf], np.float32)
    found = ulps(one, other, float32)
    assert found[:4].tolist() == [1, 1, 0, 0] and np.isinf(found[4]) and found[5] == 0
    assert found[6] > 1e9
    halves = np.array([1, 2], np.float16), np.array([1 + 2**-10, 2], np.float16)
    assert ulps(*halves, float16).tolist() == [1, 0]
    bits = encode_bfloat16(np.array([1.0, -3], np.float32))
    assert ulps(bits, bits + np.uint16(2), bfloat16).tolist() == [2, 2]
    assert ulps(np.array([1, 2]), np.array([1, 3]), int64).tolist() == [0, np.inf]
