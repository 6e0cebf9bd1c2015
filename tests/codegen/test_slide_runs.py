"""Copies of sliding operands: no loop over a lane loads from several sources."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt import Tensor, ops
from lazyt.codegen.c.target import print_kernel_c
from lazyt.compiler import compile_graph
from lazyt.handle.dispatch import wrap
from lazyt.ir.dtypes import float32
from lazyt.nn import functional as F

CACHES = (32 << 10, 1 << 20, 32 << 20)


def stores(
    function: Callable[..., Tensor], shapes: list[tuple[int, ...]], target: str = r"g_[xw]\["
) -> list[str]:
    """The statements that fill copies of operands, or other targets."""
    leaves = [ops.input_(shape, float32) for shape in shapes]
    kernels = compile_graph([function(*map(wrap, leaves)).node], leaves)[1]
    texts = [print_kernel_c(k, 64, CACHES, threads=2).source.text for k in kernels]
    return [line for text in texts for line in re.findall(target + ".*", text) if "= " in line]


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_parts_are_copied_one_by_one(axis: int, stride: int) -> None:
    def layer(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        joined = lt.relu(lt.cat((a, b, c), axis))
        return F.conv2d(joined, lt.ones(32, joined.shape[1], 3, 3), padding=1, stride=stride)

    found = stores(layer, [(2, 16, 32, 64)] * 3)
    read = [line for line in found if re.search(r"= .*\bx\d\[", line)]
    assert read and not any("?" in line for line in found)
    assert {*re.findall(r"\bx\d", "".join(read))} == {"x0", "x1", "x2"}
    assert all(len({*re.findall(r"\bx\d", line)}) == 1 for line in read)


def test_the_other_operand_of_long_sums_is_turned_part_by_part() -> None:
    def slope(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        weight = lt.ones(32, 16, 3, 3).requires_grad_()
        y = F.conv2d(x, weight, padding=1)
        slopes: Any = lt.autograd.grad(y, [weight], lt.cat((a, b), 1))
        found: Tensor = slopes[0]
        return found

    found = stores(slope, [(2, 16, 32, 64), (2, 16, 32, 64), (2, 16, 32, 64)])
    assert any("x2[" in line for line in found) and not any("?" in line for line in found)


def test_what_is_added_to_results_is_read_part_by_part() -> None:
    def layer(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return F.conv2d(x, lt.ones(32, 16, 3, 3), padding=1) + lt.cat((a, b), 1).relu() * 2

    found = stores(layer, [(2, 16, 32, 64)] * 3, r"= .*\bx[12]\[")
    assert len(found) == 2, found
    assert not any("?" in line for line in found)
    assert ["x1[" in line for line in found] == [True, False]
