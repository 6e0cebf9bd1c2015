"""Values that wait in the memory of a result for the loop that stores it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lazyt as lt
from lazyt import ops
from lazyt.codegen.proof.c_bounds import argument_bytes, check_kernel_c
from lazyt.config import config
from lazyt.ir.dtypes import DType, float16, float32
from lazyt.ir.graph import Node
from lazyt.ir.kernel import Kernel, Phase, Store
from lazyt.ir.verifier import verify_kernel
from tests.codegen.kernel_corpus import print_kernels


def _softmax(x: Node, axis: int) -> Node:
    rows = tuple(1 if at == axis else n for at, n in enumerate(x.shape))

    def each(values: Node) -> Node:
        return ops.expand(ops.reshape(values, rows), x.shape)

    powers = ops.apply("exp", ops.apply("sub", x, each(ops.reduce_("max", x, (axis,)))))
    return ops.apply("div", powers, each(ops.reduce_("sum", powers, (axis,))))


def _stores(kernel: Kernel) -> list[int]:
    """How many stores there are in each loop."""
    (phase,) = kernel.phases
    assert isinstance(phase, Phase)
    loops = [s for s in phase.stages if s.axis is not None]
    return [sum(isinstance(item, Store) for item in stage.body) for stage in loops]


@pytest.mark.parametrize(
    ("shape", "dtype", "axis", "stores"),
    [
        ((600, 300), float32, 0, [0, 1, 1]),
        ((3, 600, 40), float32, 1, [0, 1, 1]),
        ((600, 300), float16, 0, [0, 0, 1]),  # 16 bits do not hold what the loop computes
        ((300, 600), float32, 1, [0, 1, 1]),
        ((300, 500), float32, 1, [0, 0, 1]),  # lanes along short rows have an array of their own
        ((20, 600), float16, 1, [0, 0, 1]),
    ],
)
def test_costly_values_wait_in_the_result(
    shape: tuple[int, ...], dtype: DType, axis: int, stores: list[int]
) -> None:
    (printed,) = print_kernels([_softmax(ops.input_(shape, dtype), axis)])
    verify_kernel(printed.kernel)
    assert _stores(printed.kernel) == stores
    sizes = argument_bytes(printed.kernel, printed.c.workspace, printed.c.offsets)
    assert not check_kernel_c(printed.c.source.text, sizes)


def test_cheap_values_are_computed_again() -> None:
    x = ops.input_((600, 300), float32)
    roots = ops.apply("sqrt", x)
    least = ops.reshape(ops.reduce_("min", roots, (0,)), (1, 300))
    root = ops.apply("sub", roots, ops.expand(least, x.shape))
    (printed,) = print_kernels([root])
    assert _stores(printed.kernel) == [0, 1]


def _twice(x: lt.Tensor) -> tuple[lt.Tensor, ...]:
    powers = (x - x.amax(0)).exp()
    return powers / powers.sum(0), powers * powers.sum(0)


def _beside(x: lt.Tensor) -> tuple[lt.Tensor, ...]:
    powers = (x - x.amax(0)).exp()
    return powers, powers / powers.sum(0)


def _further(x: lt.Tensor) -> tuple[lt.Tensor, ...]:
    powers = (x - x.amax(0)).exp()
    first = powers / powers.sum(0)
    return first, powers / first.amax(0)


def _in_place(x: lt.Tensor) -> tuple[lt.Tensor, ...]:
    y = x.clone()
    y.copy_(y.softmax(0) + y)
    return (y,)


@pytest.mark.parametrize("function", [_twice, _beside, _further, _in_place])
@pytest.mark.parametrize("shape", [(300, 70), (2, 90, 33)])
def test_fused_values_have_the_bits_of_single_operations(
    function: Callable[[lt.Tensor], tuple[lt.Tensor, ...]], shape: tuple[int, ...]
) -> None:
    x = lt.randn(shape, generator=lt.Generator().manual_seed(1))
    fused = function(x)
    lt.realize(*fused)
    with config.override(eager=True):
        apart = function(x)
    for got, want in zip(fused, apart, strict=True):
        assert lt.equal(got, want)


@pytest.mark.parametrize("columns", [3, 17, 31])
@pytest.mark.parametrize("rows", [64, 70])
def test_folds_that_are_written_out_read_what_is_kept_for_each_step(
    rows: int, columns: int
) -> None:
    x = lt.randn(rows, columns, generator=lt.Generator().manual_seed(2)).realize()

    def function() -> lt.Tensor:
        return x.softmax(1).logsumexp(1)

    with config.override(any_size=False):  # kernels for any size write nothing out
        fused = function().realize()
    with config.override(eager=True):
        assert lt.equal(fused, function())
