"""One entry of the function table is a whole function of the API."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt.functional import operators
from lazyt.functional.calls import explain_calls
from lazyt.functional.elementwise.unary import floating
from lazyt.functional.result_layout import row_major
from lazyt.handle import function_table
from lazyt.handle.function_table import declare_grad_fn
from lazyt.ir.scalar import Expr, call

ROOT = Path(__file__).resolve().parents[2]


def _square(x: Expr) -> Expr:
    return call("mul", x, x)


def _cube(x: Expr) -> Expr:
    return call("mul", _square(x), x)


@pytest.fixture
def cube(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that is declared now, as a module of the package declares its own."""
    monkeypatch.setattr(function_table, "entries", list(function_table.entries))
    monkeypatch.setattr(function_table, "grad_fns", dict(function_table.grad_fns))
    declared = floating(
        "probe_cube", "ProbeCube", "The third power.", _cube, cast="full", saves="a"
    )
    names = {"probe_cube": declared}
    explain_calls(names, ["probe_cube"], "lazyt")
    yield names["probe_cube"]
    for name in ("probe_cube", "probe_cube_"):
        delattr(lazyt.Tensor, name)
    del operators.INPLACE_FUNCTIONS["probe_cube_"]  # or the stubs had it, in tests of this process


def test_a_declared_function_is_a_method_with_an_in_place_form(cube: Any) -> None:
    x: Any = lazyt.tensor([1.0, -2.0, 3.0])
    assert cube(x).tolist() == x.probe_cube().tolist() == [1.0, -8.0, 27.0]
    assert x.probe_cube_() is x and x.tolist() == [1.0, -8.0, 27.0]
    out = lazyt.empty(3)
    assert cube(x, out=out) is out and out.tolist() == [1.0, -512.0, 19683.0]


def test_it_has_derivatives_of_all_orders_under_its_own_name(cube: Any) -> None:
    x: Any = lazyt.tensor([1.0, -2.0], requires_grad=True)
    y = x.probe_cube()
    assert type(y.grad_fn).__name__ == "ProbeCubeBackward0"
    first: Any = lazyt.autograd.grad(y.sum(), x, create_graph=True)[0]
    second: Any = lazyt.autograd.grad(first.sum(), x)[0]
    assert first.tolist() == [3.0, 12.0] and second.tolist() == [6.0, -12.0]


def test_its_operand_is_saved_for_the_backward(cube: Any) -> None:
    x: Any = lazyt.ones(2, requires_grad=True)
    operand = x * 2
    loss = cube(operand).sum()
    operand.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    operand = x * 2
    result = cube(operand)
    result.add_(1)  # which its gradient does not read
    result.sum().backward()
    assert x.grad.tolist() == [24.0, 24.0]


def test_its_result_lies_in_memory_as_its_operand(cube: Any) -> None:
    x: Any = lazyt.rand(2, 3, 4, 5).contiguous(memory_format=lazyt.channels_last)
    y = cube(x)
    assert y.is_contiguous(memory_format=lazyt.channels_last) and y.stride() == x.stride()
    assert lazyt.equal(y, x * x * x)
    assert cube(lazyt.rand(2, 3).t()).stride() == (1, 3)


def test_a_declared_layout_decides_about_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_table, "entries", list(function_table.entries))
    monkeypatch.setattr(function_table, "grad_fns", dict(function_table.grad_fns))
    square: Any = floating(
        "probe_square", "ProbeSquare", "The square.", _square, method=False, layout=row_major
    )
    x: Any = lazyt.rand(2, 3, 4, 5).contiguous(memory_format=lazyt.channels_last)
    assert square(x).stride() == (60, 20, 5, 1)
    assert lazyt.equal(square(x), x * x)


def test_a_grad_fn_is_declared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_table, "grad_fns", dict(function_table.grad_fns))
    first = declare_grad_fn("Probe", saves="a")
    assert declare_grad_fn("Probe", saves="a") == first
    with pytest.raises(ValueError, match="Probe is declared twice"):
        declare_grad_fn("Probe", saves="r")


def test_its_wrong_calls_are_explained_and_it_is_documented(
    cube: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TypeError, match=r"probe_cube\(\): argument 'input' .* must be Tensor"):
        cube("text")
    with pytest.raises(TypeError, match="unexpected keyword argument 'dime'"):
        cube(lazyt.ones(2), dime=0)
    assert cube.__doc__ == "The third power."
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    stub = importlib.import_module("method_stubs").tensor_stub()
    assert "def probe_cube(self" in stub and "def probe_cube_(self" in stub


def test_autocast_knows_its_class(cube: Any) -> None:
    (entry,) = function_table.named("probe_cube")
    assert entry.cast == "full" and entry.method and entry.inplace == "function"
    assert function_table.entry_of(cube) is entry


def test_entries_name_functions_of_the_api() -> None:
    """Every function that users call has an entry, or checks and explains nothing of its own."""
    public = {n: getattr(lazyt, n) for n in dir(lazyt) if not n.startswith("_")}
    functional = {
        name
        for name, value in public.items()
        if str(getattr(value, "__wrapped__", value).__class__.__name__) == "function"
        and _home(value).startswith("lazyt.functional.")
        and not name.endswith("_")
    }
    missing = sorted(n for n in functional if function_table.entry_of(public[n]) is None)
    assert len(functional) > 350
    assert not missing, missing


def _home(function: Any) -> str:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    found = sys.modules.get(function.__module__)
    return found.__name__ if found is not None else ""
