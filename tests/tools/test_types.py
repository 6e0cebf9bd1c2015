"""Type checkers know Tensor's methods and the functions of lazyt: the checker that reads this file
in strict mode agrees with what the program finds when it runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import assert_type

import pytest

import lazyt
from lazyt import Size, Tensor
from lazyt.functional import return_types

ROOT = Path(__file__).resolve().parents[2]


def of(value: object, kind: type) -> None:
    assert isinstance(value, kind), f"{value!r} is no {kind.__name__}"


def test_methods_have_types() -> None:
    x = lazyt.randn(2, 3, requires_grad=True)
    of(assert_type(x.relu().sum(0), Tensor), Tensor)
    of(assert_type(x.reshape(3, 2).T.matmul(x.mT.clone()), Tensor), Tensor)
    of(assert_type(x.detach().mul_(2).add_(1, alpha=3), Tensor), Tensor)
    of(assert_type(x.size(), Size), Size)
    of(assert_type(x.size(1), int), int)
    of(assert_type(x.dim() + x.numel(), int), int)
    of(assert_type(x.dtype, lazyt.dtype), lazyt.dtype)
    of(assert_type(x.is_contiguous(), bool), bool)
    of(assert_type(x.max(), Tensor), Tensor)
    named = assert_type(x.max(1), return_types.max)
    of(assert_type(named.indices, Tensor), Tensor)
    of(assert_type(x.topk(2).values, Tensor), Tensor)
    parts = assert_type(x.chunk(2), tuple[Tensor, ...])
    assert [part.shape for part in parts] == [(1, 3), (1, 3)]
    x.sum().backward()
    assert_type(x.grad, Tensor | None)
    of(x.grad, Tensor)


def test_functions_have_types() -> None:
    x = lazyt.ones(2, 3)
    of(assert_type(lazyt.softmax(x, -1), Tensor), Tensor)
    of(assert_type(lazyt.exp_(x.clone()), Tensor), Tensor)
    of(assert_type(lazyt.linalg.det(lazyt.eye(2)), Tensor), Tensor)
    of(assert_type(lazyt.nn.functional.relu(x), Tensor), Tensor)
    of(assert_type(lazyt.is_tensor(x), bool), bool)
    of(assert_type(lazyt.nn.Linear(3, 2).weight.t(), Tensor), Tensor)


def test_names_that_are_not_there_are_errors_for_checkers_too() -> None:
    x = lazyt.ones(2)
    with pytest.raises(AttributeError):
        x.sigmiod()  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        x.softmax(dimension=0)  # type: ignore[call-arg]


def test_stubs_are_up_to_date() -> None:
    path = ROOT / "docs" / "method_stubs.py"
    spec = importlib.util.spec_from_file_location("method_stubs", path)
    assert spec is not None and spec.loader is not None
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    for target, text in stubs.outputs().items():
        same = target.read_text(encoding="utf-8") == text
        assert same, f"{target.name} is not what docs/method_stubs.py writes: run `make generate`"
