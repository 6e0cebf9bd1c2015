"""Printed text, to the character."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

import lazyt as lt


@pytest.fixture(autouse=True)
def _default_options() -> Iterator[None]:
    yield
    lt.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([1.0, 2.0, 3.0], "tensor([1., 2., 3.])"),
        ([1.5, math.inf, -math.inf, math.nan], "tensor([1.5000,    inf,   -inf,    nan])"),
        ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
        ([1e10, 1.0], "tensor([1.0000e+10, 1.0000e+00])"),
        ([[0.0, -math.inf], [0.0, 0.0]], "tensor([[0., -inf],\n        [0., 0.]])"),
        ([-100, 5, 20], "tensor([-100,    5,   20])"),
        ([True, False], "tensor([ True, False])"),
        (2.5, "tensor(2.5000)"),
        ([], "tensor([])"),
    ],
)
def test_values(data: Any, text: str) -> None:
    assert repr(lt.tensor(data)) == text


def test_suffixes() -> None:
    assert repr(lt.ones(1, dtype=lt.float64)) == "tensor([1.], dtype=lazyt.float64)"
    assert repr(lt.zeros(0, 3, dtype=lt.int32)) == "tensor([], size=(0, 3), dtype=lazyt.int32)"
    leaf = lt.ones(1, requires_grad=True)
    assert repr(leaf) == "tensor([1.], requires_grad=True)"
    assert repr(leaf * 2) == "tensor([2.], grad_fn=<MulBackward0>)"


def test_a_thousand_elements_print_and_one_more_is_summarised() -> None:
    assert "..." not in repr(lt.arange(1000))
    assert repr(lt.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"


def test_lines_wrap_at_the_width() -> None:
    lines = repr(lt.arange(40)).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith(" " * 8)


def test_options() -> None:
    lt.set_printoptions(precision=2, sci_mode=False)
    assert repr(lt.tensor([0.12345, 1e-6])) == "tensor([0.12, 0.00])"
    lt.set_printoptions(profile="default", sci_mode=True)
    assert repr(lt.tensor([1.0])) == "tensor([1.0000e+00])"
    with pytest.raises(lt.errors.LazytError, match="unknown print profile"):
        lt.set_printoptions(profile="other")


def test_named_results() -> None:
    text = repr(lt.tensor([[1, 9], [8, 2]]).max(1))
    assert text == ("lazyt.return_types.max(\nvalues=tensor([9, 8]),\nindices=tensor([1, 0]))")


def test_limits_layouts_and_sizes() -> None:
    assert repr(lt.finfo(lt.float16)) == (
        "finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, "
        "smallest_normal=6.10352e-05, tiny=6.10352e-05, dtype=float16)"
    )
    assert repr(lt.iinfo(lt.int8)) == "iinfo(min=-128, max=127, dtype=int8)"
    assert lt.finfo(lt.float16) == lt.finfo(lt.float16) != lt.finfo(lt.float32)
    assert repr(lt.strided) == "lazyt.strided"
    assert isinstance(lt.strided, lt.layout)
    assert repr(2 * lt.Size([1, 3])) == "lazyt.Size([1, 3, 1, 3])"


class Marked(lt.Tensor):
    """A user's subclass."""


def test_subclasses_and_given_contents() -> None:
    assert repr(Marked([1.0, 2.0])) == "Marked([1., 2.])"
    leaf = lt.ones(2, dtype=lt.float64).requires_grad_()
    printer: Any = leaf.__repr__
    shown = printer(tensor_contents="...")
    assert shown == "tensor(..., dtype=lazyt.float64, requires_grad=True)"
    lt.set_printoptions(edgeitems=0)
    assert repr(lt.arange(2)) == "tensor([0, 1], size=(2,))"
