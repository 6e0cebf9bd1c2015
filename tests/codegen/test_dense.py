"""Sums of all lanes and columns in one axis: where rows follow each other, with the same bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lazyt as lt
from tests.codegen.kernel_corpus import print_kernels
from tests.codegen.test_check_c import violations

Function = Callable[[lt.Tensor], lt.Tensor]


def leaf(*shape: int) -> lt.Tensor:
    values = np.random.default_rng(len(shape)).integers(-20, 20, shape)
    return lt.tensor(values.astype(np.float32))


#: What is folded, of which shape, and whether all of it is one axis.
CASES: dict[str, tuple[Function, tuple[int, ...], bool]] = {
    "sum": (lambda x: x.sum(0), (1000, 17), True),
    "long": (lambda x: x.amax(0), (5003, 5), True),
    "batch": (lambda x: x.sum(1), (3, 400, 7), True),
    "part of the rows": (lambda x: x[3:].amin(0), (900, 33), True),
    "with arithmetic": (lambda x: ((x - 1) ** 2).sum(0), (700, 19), True),
    "two sums": (lambda x: x.sum(0) - x.amax(0), (1500, 9), True),
    "of two": (lambda x: (x * lt.relu(x)).sum(0), (600, 11), True),
    "whole vectors": (lambda x: x.sum(0), (1000, 32), False),
    "part of the columns": (lambda x: x[:, 1:].sum(0), (1000, 18), False),
    "every other row": (lambda x: x[::2].sum(0), (2000, 17), False),
    "a number for each column": (lambda x: (x * x[0]).sum(0), (1000, 17), False),
    "a number for each row": (lambda x: (x * x[:, :1]).sum(0), (1000, 17), False),
    "where columns are": (lambda x: (x * lt.arange(17)).sum(0), (1000, 17), False),
    "two stages": (lambda x: (x - x.mean(0)).amax(0), (1024, 4), False),
    "few rows": (lambda x: x.sum(0), (100, 4), False),
    "position": (lambda x: x.argmax(0), (1000, 17), True),
    "padded": (lambda x: lt.nn.functional.pad(x, (1, 2)).sum(0), (1000, 14), False),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_as_without_a_compiler(name: str) -> None:
    function, shape, _ = CASES[name]
    found = function(leaf(*shape)).numpy()
    with lt.config.override(interpret=True):
        wanted = function(leaf(*shape)).numpy()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", CASES)
def test_one_axis_where_rows_follow_each_other(name: str) -> None:
    function, shape, dense = CASES[name]
    printed = print_kernels([function(leaf(*shape)).node])
    assert any(" v = 0; v < " in p.c.source.text for p in printed) == dense
    for kernel in printed:
        assert not violations(kernel), kernel.c.source.text


def test_what_would_reach_too_far_is_seen() -> None:
    (printed,) = print_kernels([leaf(1024, 17).sum(0).node])
    text = printed.c.source.text
    assert violations(printed, text.replace("v < 544", "v < 545"))
    assert violations(printed, text.replace("k + 96;", "k + 97;"))
