"""Graphs as StableHLO: the text, what is refused, and what XLA computes from it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lazyt
from lazyt import ops
from lazyt.__main__ import main
from lazyt.codegen.mlir.stablehlo.rules import RULES
from lazyt.codegen.mlir.text import Unsupported, literal
from lazyt.compiler import define_scalar, mlir_arguments, mlir_text
from lazyt.errors import ArgumentError
from lazyt.ir.dtypes import DType, bfloat16, float16, float32, float64
from lazyt.ir.graph import topological
from lazyt.ir.printer import print_graph
from lazyt.ir.scalar import FUNCTIONS, HOMES, arg, call
from lazyt.ops.registry import OPS
from tests.codegen.mlir_cases import Case, Cases, programs, random_cases, sample_cases, with_a_fault
from tests.codegen.mlir_types import Malformed, check_types

RUNNER = Path(__file__).with_name("mlir_runner.py")
#: Ops that the dialect has nothing for.
REFUSED = {
    "library", "linalg", "transfer", "custom", "fourier", "loop", "branch", "while", "collective",
    "distribute", "localize", "python",
}  # fmt: skip
needs_xla = pytest.mark.skipif(
    importlib.util.find_spec("jaxlib") is None, reason="jax (the extra 'mlir') is not installed"
)
SLOW = bool(os.environ.get("LAZYT_SLOW"))


def operations(text: str) -> list[str]:
    """The names of the operations, in their order."""
    return re.findall(r"\b(?:stablehlo|chlo)\.(\w+)", text)


def test_a_layer_is_written_as_its_operations() -> None:
    x, w = lazyt.ones(4, 3).realize(), lazyt.ones(3, 5).realize()
    text = mlir_text([((x @ w).exp() * 2.0).sum(1)], [x, w])
    assert operations(text) == [
        "dot_general", "exponential", "constant", "multiply", "constant", "reduce", "add",
    ]  # fmt: skip
    head = "func.func @main(%arg0: tensor<4x3xf32>, %arg1: tensor<3x5xf32>) -> (tensor<4xf32>) {"
    assert head in text


def test_sums_of_16_bit_floats_are_computed_in_float32() -> None:
    x = lazyt.ones(2, 3, dtype=lazyt.bfloat16).realize()
    assert mlir_text([x.sum(1)], [x]).splitlines()[2:-3] == [
        "    %0 = stablehlo.convert %arg0 : (tensor<2x3xbf16>) -> tensor<2x3xf32>",
        "    %1 = stablehlo.constant dense<0.0> : tensor<f32>",
        "    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [1] : "
        "(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>",
        "    %3 = stablehlo.convert %2 : (tensor<2xf32>) -> tensor<2xbf16>",
    ]


def test_arguments_come_first_and_what_else_is_read_behind_them() -> None:
    x, y, z = (lazyt.ones(n).realize() for n in (2, 2, 3))
    total = x + y
    assert mlir_arguments([total], [z]) == [z.node, x.node, y.node]
    head = mlir_text([total, z, total], [z]).splitlines()[1]
    assert head.endswith("-> (tensor<2xf32>, tensor<3xf32>, tensor<2xf32>) {")
    assert "%arg0: tensor<3xf32>, %arg1: tensor<2xf32>, %arg2: tensor<2xf32>" in head
    # A node that is computed may be an argument: the graph behind it is not written.
    assert "add" not in mlir_text([total * 2], [total])
    # A constant stays one, whether somebody computed it or not.
    assert mlir_arguments([x + lazyt.full((), 2.0).realize()], [x]) == [x.node]


def test_texts_read_what_they_define() -> None:
    found: set[str] = set()
    for _, roots in random_cases(20):
        check_types(mlir_text(roots))
        found |= {node.op.name for node in topological(roots)}
    assert {"scatter", "gather", "reduce", "scan", "contract", "window", "sort"} <= found
    for _, roots in programs():
        check_types(mlir_text(roots))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tensor<4xf32>, tensor<f32>", "tensor<4xf32>, tensor<f64>"),  # an operand's type
        ("multiply %0", "multiply %9"),  # not defined
        ("%1 =", "%0 ="),  # defined twice
        ("return %", "return %arg"),  # another value
    ],
)
def test_malformed_texts_are_noticed(old: str, new: str) -> None:
    x = lazyt.ones(4).realize()
    text = mlir_text([(x.exp() * x).sum()], [x])
    check_types(text)
    assert old in text
    with pytest.raises(Malformed):
        check_types(text.replace(old, new, 1))


def test_every_op_has_text_or_is_refused() -> None:
    own = {name for name in OPS if OPS[name].home.startswith("lazyt.")}
    # Constants are written where they are read, inputs are arguments.
    assert own - set(RULES) == REFUSED | {"const", "input"}


def test_what_has_no_text_is_named_with_its_node_and_line() -> None:
    matrix = lazyt.eye(3).realize()
    with pytest.raises(
        Unsupported,
        match=r"StableHLO cannot express the op linalg \(node linalg of type "
        r"float32\[\d+\], made at .*test_stablehlo\.py:\d+",
    ):
        mlir_text([lazyt.linalg.det(matrix)])
    whole = lazyt.tensor([4, 6])
    with pytest.raises(Unsupported, match=r"the scalar function gcd \(node map of type int64\[2\]"):
        mlir_text([lazyt.gcd(whole, whole)])


def test_functions_of_users_are_refused_by_name() -> None:
    double = define_scalar("mlir_double", evaluate=lambda x: x + x, c="x + x", reason="a test")
    try:
        x = lazyt.ones(2).realize()
        with pytest.raises(Unsupported, match="the scalar function mlir_double"):
            mlir_text([ops.elementwise(call(double, arg(0, x.dtype)), [x.node])])
    finally:
        del FUNCTIONS["mlir_double"], HOMES["mlir_double"]


def test_only_graphs_and_known_dialects_are_taken() -> None:
    x = lazyt.ones(2)
    with pytest.raises(ArgumentError, match="no dialect is called 'tosa'; there are "):
        mlir_text([x], dialect="tosa")
    with pytest.raises(TypeError, match="tensors and nodes, not of float"):
        mlir_text([1.0])


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.5, float32, "1.5"), (float("inf"), float32, "0x7F800000"),
        (float("nan"), float16, "0x7E00"), (float("-inf"), bfloat16, "0xFF80"),
        (1e300, float64, "1.00000000000000005e+300"), (-0.0, float32, "-0.0"),
    ],
)  # fmt: skip
def test_literals_keep_their_bits(value: float, dtype: DType, text: str) -> None:
    assert literal(value, dtype) == text
    if not text.startswith("0x"):
        assert float(text) == value


# ------------------------------------------------------------------------- the command


def graph_file(folder: Path) -> str:
    """A graph with a reshape there and back as a file."""
    x, y = (lazyt.tensor([n, n + 1]).realize() for n in (1, 2))
    file = folder / "graph.ir"
    there = x.reshape(2, 1).reshape(2)
    file.write_text(print_graph([(there * y).node]), encoding="utf-8")
    return str(file)


def test_the_command_writes_graphs_of_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = graph_file(tmp_path)
    assert main(["opt", file, "--emit", "stablehlo", "--passes", ""]) == 0
    as_it_is = capsys.readouterr().out
    assert operations(as_it_is) == ["reshape", "reshape", "multiply"]
    assert main(["opt", file, "--emit", "stablehlo"]) == 0
    simplified = capsys.readouterr().out
    assert operations(simplified) == ["multiply"]
    for text in (as_it_is, simplified):  # both take both inputs
        check_types(text)
        assert "@main(%arg0: tensor<2xi64>, %arg1: tensor<2xi64>) -> (tensor<2xi64>)" in text


def test_the_command_says_what_it_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "graph.ir"
    file.write_text(print_graph([lazyt.linalg.det(lazyt.eye(2).realize()).node]), encoding="utf-8")
    assert main(["opt", str(file), "--emit", "stablehlo"]) != 0
    assert "StableHLO cannot express the op linalg" in capsys.readouterr().err
    assert main(["opt", graph_file(tmp_path), "--emit", "kernels"]) == 0
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["opt", str(file), "--emit", "stablehlo"]) != 0
    assert "takes graph text, this is kernel text" in capsys.readouterr().err


# ----------------------------------------------------------------------- what it means


def run(compiler: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a compiler says of a folder of cases."""
    return subprocess.run(
        [sys.executable, str(RUNNER), compiler, str(folder)],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


def assert_same(compiler: str, dialect: str, folder: Path, cases: list[Case]) -> None:
    """A compiler computes what the interpreter does; one in seven may be refused."""
    written = Cases(folder, dialect)
    for name, roots in cases:
        written.write(name, roots)
    assert len(written.refused) <= len(cases) / 7, written.refused
    done = run(compiler, folder)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert f"{written.written} graphs, 0 differ" in done.stdout


@needs_xla
def test_xla_computes_random_graphs(tmp_path: Path) -> None:
    assert_same("xla", "stablehlo", tmp_path, list(random_cases(150 if SLOW else 15)))


@needs_xla
@pytest.mark.skipif(not SLOW, reason="LAZYT_SLOW=1 runs it")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_xla_computes_networks_and_operators(tmp_path: Path) -> None:
    # XLA's zeta function of some numbers below 0, which polygamma reads, is not right.
    samples = [case for case in sample_cases() if "polygamma" not in case[0]]
    assert_same("xla", "stablehlo", tmp_path, [*programs(), *samples])


@needs_xla
def test_another_text_is_noticed(tmp_path: Path) -> None:
    """The check fails for a text that computes something else."""
    cases = Cases(tmp_path, "stablehlo")
    x = lazyt.tensor([1.0, 2.0]).realize()
    pairs = [
        ("sum", x + 3.0, "add", "subtract"),
        ("order", x.flip(0), "reverse %arg0, dims = [0]", "negate %arg0"),
        ("kind", x > 1.5, "compare GT", "compare LE"),
    ]
    for name, tensor, old, new in pairs:
        cases.write(name, [tensor.node])
        file = tmp_path / f"{name}.mlir"
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new, 1), encoding="utf-8")
    done = run("xla", tmp_path)
    assert done.returncode == 1 and f"{len(pairs)} graphs, {len(pairs)} differ" in done.stdout
    assert all(f"{name}: result 0" in done.stdout for name, *_ in pairs)


@needs_xla
def test_faults_in_texts_of_random_graphs_are_noticed(tmp_path: Path) -> None:
    """Most: some change no value, such as a test for NaN where there is none."""
    cases, planted = Cases(tmp_path, "stablehlo"), 0
    for name, roots in random_cases(150 if SLOW else 8):
        cases.write(name, roots)
        file = tmp_path / f"{name}.mlir"
        faulty = with_a_fault(file.read_text(encoding="utf-8")) if file.exists() else None
        if faulty is None:
            file.unlink(missing_ok=True)
            continue
        file.write_text(faulty, encoding="utf-8")
        planted += 1
    done = run("xla", tmp_path)
    wrong = [line for line in done.stdout.splitlines() if ": result " in line]
    print(f"{len(wrong)} of {planted} noticed")
    assert f"{planted} graphs" in done.stdout
    assert len(wrong) > planted / 2, done.stdout
