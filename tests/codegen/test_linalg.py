"""Graphs as linalg on tensors: the text, what is refused, what reads it, and what it computes."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.__main__ import main
from lazyt.codegen.mlir.linalg.rules import RULES
from lazyt.codegen.mlir.stablehlo.rules import RULES as STABLEHLO
from lazyt.codegen.mlir.text import Unsupported
from lazyt.compiler import mlir_text
from lazyt.ir.printer import print_graph
from tests.codegen import linalg_interpreter
from tests.codegen.mlir_cases import Case, Cases, programs, random_cases, sample_cases
from tests.codegen.mlir_runner import TOLERANCES, compared


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


RUNNER = Path(__file__).with_name("mlir_runner.py")
SLOW = bool(os.environ.get("LAZYT_SLOW"))
needs_xdsl = pytest.mark.skipif(not _has("xdsl"), reason="xdsl (the extra 'mlir') is not installed")
needs_iree = pytest.mark.skipif(
    not (_has("iree") and _has("iree.compiler") and _has("iree.runtime")),
    reason="IREE (iree-base-compiler, iree-base-runtime) is not installed",
)


def operations(text: str) -> list[str]:
    """The names of the operations that are no constants and nothing around loops."""
    names = re.findall(r"\b(?:linalg|tensor|arith|math)\.\w+", text)
    return [name for name in names if name not in ("arith.constant", "linalg.yield")]


def test_a_layer_is_written_as_its_loops() -> None:
    x, w = lazyt.ones(4, 3).realize(), lazyt.ones(3, 5).realize()
    text = mlir_text([(x @ w).exp().sum(1)], [x, w], dialect="linalg")
    assert operations(text) == [
        "tensor.empty", "linalg.fill", "linalg.matmul", "tensor.empty", "linalg.generic",
        "math.exp", "tensor.empty", "linalg.fill", "linalg.generic", "arith.addf",
    ]  # fmt: skip
    assert 'iterator_types = ["parallel", "reduction"]' in text
    head = "func.func @main(%arg0: tensor<4x3xf32>, %arg1: tensor<3x5xf32>) -> (tensor<4xf32>) {"
    assert head in text


def test_a_map_is_one_nest_of_loops_and_broadcasts_where_it_reads() -> None:
    x, row = lazyt.ones(4, 3).realize(), lazyt.ones(1, 3).realize()
    lines = mlir_text([x + row], [x, row], dialect="linalg").splitlines()[2:-3]
    assert lines == [
        "    %0 = tensor.empty() : tensor<4x3xf32>",
        "    %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, "
        "affine_map<(d0, d1) -> (0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = "
        '["parallel", "parallel"]} ins(%arg0, %arg1 : tensor<4x3xf32>, tensor<1x3xf32>) '
        "outs(%0 : tensor<4x3xf32>) {",
        "    ^bb0(%2: f32, %3: f32, %4: f32):",
        "      %5 = arith.addf %2, %3 : f32",
        "      linalg.yield %5 : f32",
        "    } -> tensor<4x3xf32>",
    ]


def test_16_bit_sums_are_computed_in_float32_and_rounded_once() -> None:
    x = lazyt.ones(2, 3, dtype=lazyt.bfloat16).realize()
    names = operations(mlir_text([x.sum(1)], [x], dialect="linalg"))
    assert names[2:] == [
        "linalg.generic", "arith.extf", "arith.addf",
        "tensor.empty", "linalg.generic", "arith.truncf",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "joined", "parted"),
    [
        ((4, 6), (24,), "[[0, 1]]", None),
        ((24,), (2, 3, 4), None, "[[0, 1, 2]]"),
        ((2, 3, 4), (6, 2, 2), "[[0, 1], [2]]", "[[0], [1, 2]]"),
        ((6, 4), (3, 8), "[[0, 1]]", "[[0, 1]]"),
        ((1, 1), (), None, None),
        ((), (1, 1, 1), None, None),
        ((2, 1, 3), (1, 2, 3, 1), "[[0], [1, 2]]", "[[0, 1], [2, 3]]"),
    ],
)
def test_reshapes_join_and_part_the_fewest_axes(
    old: tuple[int, ...], new: tuple[int, ...], joined: str | None, parted: str | None
) -> None:
    x = lazyt.ones(old).realize()
    text = mlir_text([x.reshape(new)], [x], dialect="linalg")
    for word, axes in (("collapse_shape", joined), ("expand_shape", parted)):
        found = re.search(rf"tensor\.{word} %\w+ (\[.*?\])(?: :| output_shape)", text)
        assert (found and found[1]) == axes


def test_unsigned_integers_are_in_the_operations_and_not_in_the_types() -> None:
    x = lazyt.tensor([200, 3], dtype=lazyt.uint8).realize()
    text = mlir_text([x // 7, x > 5, x.to(lazyt.float32)], [x], dialect="linalg")
    assert "ui8" not in text and "tensor<2xi8>" in text
    assert all(f"arith.{name} " in text for name in ("divui", "cmpi ugt,", "uitofp"))


def test_both_dialects_have_the_same_ops() -> None:
    assert set(RULES) == set(STABLEHLO)


def test_what_has_no_text_is_named_with_its_node_and_line() -> None:
    matrix = lazyt.eye(3).realize()
    with pytest.raises(
        Unsupported,
        match=r"linalg cannot express the op linalg \(node linalg of type float32\[\d+\], made "
        r"at .*test_linalg\.py:\d+",
    ):
        mlir_text([lazyt.linalg.det(matrix)], dialect="linalg")
    with pytest.raises(Unsupported, match=r"the scalar function lgamma \(node map of type float32"):
        mlir_text([lazyt.lgamma(lazyt.ones(3).realize())], dialect="linalg")


def test_the_command_writes_graphs_of_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = (lazyt.tensor([n, n + 1]).realize() for n in (1, 2))
    file = tmp_path / "graph.ir"
    file.write_text(print_graph([(x.reshape(2, 1).reshape(2) * y).node]), encoding="utf-8")
    assert main(["opt", str(file), "--emit", "linalg", "--passes", ""]) == 0
    as_it_is = operations(capsys.readouterr().out)
    assert [name for name in as_it_is if "shape" in name] == [
        "tensor.expand_shape", "tensor.collapse_shape",
    ]  # fmt: skip
    assert main(["opt", str(file), "--emit", "linalg"]) == 0
    assert operations(capsys.readouterr().out) == ["tensor.empty", "linalg.generic", "arith.muli"]


@needs_xdsl
def test_xdsl_reads_texts_back() -> None:
    """It verifies them; what it prints, it reads and prints again as it is."""
    from tests.codegen.mlir_xdsl import reprinted

    found = 0
    for name, roots in random_cases(20):
        try:
            text = mlir_text(roots, dialect="linalg")
        except Unsupported:
            continue
        printed = reprinted(text)
        assert printed.count("linalg.generic") == text.count("linalg.generic"), name
        assert reprinted(printed) == printed, name
        found += 1
    assert found > 40


# ----------------------------------------------------------------------- what it means


def assert_interpreted(folder: Path, cases: Iterable[Case]) -> int:
    """What texts mean is what the graphs mean; how many were compared."""
    written = Cases(folder, "linalg")
    for name, roots in cases:
        written.write(name, roots)
    differ = {path.stem: difference(path) for path in folder.glob("*.mlir")}
    assert not {name: found for name, found in differ.items() if found}
    return written.written


def difference(path: Path) -> str:
    """How the results of a text, interpreted, differ from those of its graph."""
    types = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    with np.load(path.with_suffix(".npz")) as file:
        stored = {name: file[name] for name in file.files}

    def array(name: str, dtype: str) -> Any:
        found = stored[name]
        if dtype == "bfloat16":
            return linalg_interpreter.of_bfloat16(found)
        return found.view(found.dtype.name[1:]) if found.dtype.kind == "u" else found

    given = [array(f"i{n}", dtype) for n, dtype in enumerate(types["in"])]
    results = linalg_interpreter.run(path.read_text(encoding="utf-8"), given)
    found = [
        compared(got, array(f"o{n}", dtype), TOLERANCES.get(dtype))
        for n, (got, dtype) in enumerate(zip(results, types["out"], strict=True))
    ]
    return "; ".join(f"result {n}: {text}" for n, text in enumerate(found) if text)


def test_texts_mean_what_random_graphs_mean(tmp_path: Path) -> None:
    count = 300 if SLOW else 20
    assert assert_interpreted(tmp_path, random_cases(count)) > 2 * count


def test_texts_mean_what_networks_mean(tmp_path: Path) -> None:
    assert assert_interpreted(tmp_path, programs()) == 8


@pytest.mark.skipif(not SLOW, reason="LAZYT_SLOW=1 runs it")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_texts_mean_what_operators_mean(tmp_path: Path) -> None:
    assert assert_interpreted(tmp_path, sample_cases()) > 450


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("arith.mulf", "arith.addf"), ("cmpf ogt", "cmpf ole"), ("[1, 1] [2, 3]", "[0, 1] [2, 3]"),
        ("linalg.index 1", "linalg.index 0"),
    ],
)  # fmt: skip
def test_other_texts_mean_something_else(old: str, new: str, tmp_path: Path) -> None:
    x = lazyt.arange(12, dtype=lazyt.float32).reshape(3, 4).realize()
    cases = Cases(tmp_path, "linalg")
    cases.write("case", [lazyt.where(x > 3.0, x * 3.0, -x)[1:3, 1:4].flip(1).node])
    path = tmp_path / "case.mlir"
    assert not difference(path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert "are off" in difference(path)


def assert_iree_computes(folder: Path, cases: list[Case]) -> None:
    """IREE computes what the interpreter does, of all texts that it compiles: nearly all."""
    written = Cases(folder, "linalg")
    for name, roots in cases:
        written.write(name, roots)
    assert len(written.refused) <= len(cases) / 5, written.refused
    done = subprocess.run(
        [sys.executable, str(RUNNER), "iree", str(folder)],
        capture_output=True, text=True, timeout=3000, check=False,
    )  # fmt: skip
    print(done.stdout)
    found = re.search(r"(\d+) graphs, (\d+) differ, (\d+) not compiled", done.stdout)
    assert found, done.stdout[-3000:] + done.stderr[-2000:]
    graphs, differ, failed = map(int, found.groups())
    assert graphs == written.written and not differ, done.stdout[-3000:]
    assert failed <= graphs / 20, done.stdout[-3000:]


@needs_iree
def test_iree_computes_random_graphs(tmp_path: Path) -> None:
    assert_iree_computes(tmp_path, list(random_cases(300 if SLOW else 2)))


@needs_iree
@pytest.mark.skipif(not SLOW, reason="LAZYT_SLOW=1 runs it")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_iree_computes_networks_and_operators(tmp_path: Path) -> None:
    assert_iree_computes(tmp_path, [*programs(), *sample_cases()])


@needs_iree
def test_another_text_is_noticed(tmp_path: Path) -> None:
    """The check fails for a text that computes something else."""
    cases = Cases(tmp_path, "linalg")
    x = lazyt.tensor([1.0, 2.0, 4.0]).realize()
    pairs = [
        ("sum", x + 3.0, "arith.addf", "arith.subf"),
        ("order", x[1:], "%arg0[1] [2]", "%arg0[0] [2]"),
        ("kind", x > 1.5, "cmpf ogt", "cmpf ole"),
    ]
    for name, tensor, old, new in pairs:
        cases.write(name, [tensor.node])
        file = tmp_path / f"{name}.mlir"
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new, 1), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(RUNNER), "iree", str(tmp_path)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "3 graphs, 3 differ, 0 not compiled" in done.stdout
    assert all(f"{name}: result 0" in done.stdout for name, *_ in pairs)
