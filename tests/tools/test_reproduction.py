"""Graphs as programs of public functions compute what the graphs compute, to the bit."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import ops
from lazyt.errors import LazytError
from lazyt.handle.dispatch import unwrap
from lazyt.ir.dtypes import bfloat16, bool_, decode_bfloat16, float32, float64, int32, int64, uint32
from lazyt.ir.graph import Node, topological
from lazyt.runtime.interpreter import interpret
from lazyt.testing.graph_maker import buffer_of
from lazyt.testing.motifs import motif
from lazyt.testing.random_graphs import random_graph
from lazyt.testing.reproduction import evaluate, reproduction

FALLBACK, SEEDED = "# no public function makes this", "drawn from a seed"


def results(text: str, roots: list[Node]) -> list[np.ndarray[Any, Any]]:
    """What the program of a graph computes, by the interpreter."""
    names = {node: f"t{number}" for number, node in enumerate(topological(roots))}
    scope: dict[str, Any] = {"print": lambda *_: None}
    with lazyt.config.override(interpret=True):
        exec(text, scope)
        return interpret([unwrap(scope[names[root]]) for root in roots])


def check(roots: list[Node]) -> tuple[int, int]:
    """Compare bits; returns how many statements there are, and how many that read IR text."""
    text = reproduction(roots)
    found = results(text, roots)
    if SEEDED not in text:
        for root, one, other in zip(roots, found, interpret(roots), strict=True):
            if root.dtype.kind == "f":  # NaN is one value, whatever its bits are
                assert one.dtype == other.dtype, text
                pair = [decode_bfloat16(v) if root.dtype is bfloat16 else v for v in (one, other)]
                nan = np.isnan(pair[0])
                assert (nan == np.isnan(pair[1])).all(), text
                one, other = np.where(nan, 0, one), np.where(nan, 0, other)
            assert one.tobytes() == other.tobytes(), text
    return text.count("\nt"), text.count(FALLBACK)


def test_random_graphs_are_programs() -> None:
    counts = np.zeros(2, int)
    for seed in range(200):
        counts += check(random_graph(seed).roots)
    assert counts[0] > 1500 and counts[1] < 0.05 * counts[0], counts


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_pieces_of_programs_are_programs(first: int) -> None:
    counts = np.zeros(2, int)
    for seed in range(first, first + 10):
        counts += check(motif(seed))
    assert counts[1] <= 0.15 * counts[0], counts


def leaf(*values: Any, dtype: Any = float32) -> Node:
    """An input with these elements."""
    array = np.array(values)
    return ops.input_(array.shape, dtype, buffer_of(array, dtype))


def test_a_program_reads_like_one_that_was_written() -> None:
    x, y = leaf([1.0, 2.0], [3.0, 4.0]), leaf([1.0, 0.5])
    product = ops.contract(x, y, (0, 1), (2, 1), (0, 2))
    last = ops.apply("maximum", ops.apply("add", product, ops.constant(1.0, float32)), x)
    assert reproduction([ops.permute(last, (1, 0))]) == (
        "import lazyt as torch\n\n"
        "t0 = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float32).reshape((2, 2))\n"
        "t1 = torch.tensor([1.0, 0.5], dtype=torch.float32).reshape((1, 2))\n"
        't2 = torch.einsum("ab,cb->ac", t0, t1)\n'
        "t3 = torch.full((), 1.0, dtype=torch.float32)\n"
        "t4 = t2 + t3\n"
        "t5 = torch.maximum(t4, t0)\n"
        "t6 = t5.permute((1, 0))\n\n"
        'print("t6 =", t6)\n'
    )


@pytest.mark.parametrize(
    "array",
    [
        np.array([True, False, True]), np.arange(7), np.arange(200, dtype=np.int32) % 7,
        np.array([np.inf, -0.0, np.nan], np.float32), np.zeros((2, 0), np.float64),
        np.array(2.5), np.random.default_rng(0).standard_normal((10, 10)).astype(np.float16),
        np.random.default_rng(0).standard_normal(100) < 0,
    ],
    ids=repr,
)  # fmt: skip
def test_data_survives(array: np.ndarray[Any, Any]) -> None:
    node = unwrap(lazyt.tensor(array))
    (found,) = results(reproduction([node]), [node])
    assert found.dtype == array.dtype and found.tobytes() == array.tobytes()


def test_given_inputs_take_the_place_of_data() -> None:
    x = ops.input_((2,), float64)
    root = ops.apply("mul", x, x)
    text = reproduction([root], [np.array([3.0, 4.0])])
    assert results(text, [root])[0].tolist() == [9.0, 16.0]
    assert SEEDED in reproduction([root])


def test_values_are_asserted() -> None:
    root = ops.apply("add", leaf(1.0, float("nan")), leaf(2.0, 1.0))
    right = reproduction([root], values=[np.array([3.0, np.nan], np.float32)])
    results(right, [root])
    wrong = reproduction([root], values=[np.array([3.0000002, np.nan], np.float32)])
    with pytest.raises(AssertionError, match="not equal"):
        results(wrong, [root])


def test_what_no_function_makes_is_read_as_text() -> None:
    root = ops.random(leaf(1, 2, dtype=uint32), (3,))
    text = reproduction([root])
    assert f"{FALLBACK} random" in text
    assert results(text, [root])[0].tobytes() == interpret([root])[0].tobytes()
    with pytest.raises(LazytError, match="PyTorch has no function for random"):
        reproduction([root], framework="torch")


def test_division_by_zero_stays_what_the_graph_makes_of_it() -> None:
    """Public functions refuse it, so they are not what the node is."""
    root = ops.apply("floordiv", leaf(4, 5, dtype=int32), leaf(2, 0, dtype=int32))
    assert check([root]) == (3, 1)
    by_constant = ops.apply("mod", leaf(4, 5, dtype=int64), ops.constant(3, int64))
    assert check([by_constant])[1] == 0


def test_a_wrong_spelling_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    from lazyt.testing import reproduction as module

    monkeypatch.setitem(vars(module)["_SPELLED"], "sub", "({1} - {0})")
    root = ops.apply("sub", leaf(1.0, 2.0), leaf(5.0, 5.0))
    assert FALLBACK in reproduction([root])
    assert check([root])[1] == 1


def test_text_is_evaluated_on_tensors() -> None:
    text = "graph(%0: bool[2], %1: bool[2]) -> (%2)\n%2 = map(%1, %0) {logical_and($0, $1)}"
    made = evaluate(text, lazyt.tensor([True, True]), lazyt.tensor([True, False]))
    assert made.tolist() == [True, False] and unwrap(made).dtype is bool_


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_programs_run_on_pytorch() -> None:
    x = leaf([1.0, 2.0], [3.0, 4.0])
    roots = [ops.reduce_("sum", ops.sort("values", x, True), [0])]
    values = [np.array([6.0, 4.0], np.float32)]
    text = reproduction(roots, framework="torch", values=values)
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0
