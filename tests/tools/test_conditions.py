"""``torch._check`` and its kin: what they raise, and that they are silent otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt

KINDS: list[tuple[Callable[..., None], type[Exception]]] = [
    (lt._check, RuntimeError), (lt._check_index, IndexError), (lt._check_value, ValueError),
    (lt._check_type, TypeError), (lt._check_not_implemented, NotImplementedError),
]  # fmt: skip


@pytest.mark.parametrize(("check", "error"), KINDS)
def test_each_raises_its_error(check: Callable[..., None], error: type[Exception]) -> None:
    called: list[int] = []
    check(True, lambda: called.append(1))
    assert not called
    with pytest.raises(error, match=r"^no 7$"):
        check(False, lambda: f"no {7}")
    with pytest.raises(error, match="Expected cond to be True, but got False"):
        check(False)


@pytest.mark.parametrize(
    ("cond", "message", "text"),
    [
        (1, None, "cond must be a bool, but got <class 'int'>"),
        (lt.tensor(True), None, r"cond must be a bool, but got a Tensor\."),
        (False, "text", "message must be a callable"),
    ],
)
def test_wrong_arguments(cond: Any, message: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        lt._check(cond, message)


def test_sizes_and_tensors() -> None:
    lt._check_is_size(3, max=3)
    for size, bound in ((-1, None), (4, 3)):
        with pytest.raises(RuntimeError):
            lt._check_is_size(size, max=bound)
    x = lt.arange(4)
    lt._check_tensor_all(x >= 0)
    with pytest.raises(RuntimeError, match="a number below 1"):
        lt._check_tensor_all(x >= 1, lambda: "a number below 1")
    with pytest.raises(IndexError):
        lt._check_tensor_all_with(IndexError, x >= 1)
    with pytest.raises(TypeError, match=r"must have dtype torch\.bool, but got"):
        lt._check_tensor_all(x)
    with pytest.raises(TypeError, match="cond must be a tensor"):
        lt._check_tensor_all(True)


def test_assertions_take_anything_that_is_true_or_false() -> None:
    lt._assert(lt.ones(2).sum() == 2, "two")
    with pytest.raises(AssertionError, match=r"^empty$"):
        lt._assert([], "empty")
