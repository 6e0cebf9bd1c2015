"""Kernels that differ in constants only are one that takes them as arguments."""

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.codegen.proof.c_bounds import check_kernel_c
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.ir.dtypes import float32, int64
from lazyt.ir.program import Program


def _steps(count: int) -> Program:
    """Running sums that each stop at another step: ``where(steps > t, a + b[t] * (0.5 + t), a)``,
    and end at a row of their own."""
    b, steps = ops.input_((count, 40), float32), ops.input_((40,), int64)
    a = first = ops.input_((40,), float32)
    for t in range(count):
        row = ops.reshape(ops.slice_(b, (t, 0), (1, 40), (1, 1)), (40,))
        more = ops.apply("mul", row, ops.constant(0.5 + t, float32))
        alive = ops.apply("gt", steps, ops.constant(t, int64))
        a = ops.apply("where", alive, ops.apply("add", a, more), a)
        a = ops.scan("sum", a, 0)
    program, _ = compile_graph([a], [b, steps, first])
    return program


def test_steps_with_numbers_are_one_kernel() -> None:
    program = _steps(5)
    maps = [x for x in program.launches if len(x.numbers)]
    assert len(maps) == 5
    assert len({x.kernel for x in maps}) == 1
    kernel = next(k for k in program.kernels if k.name == maps[0].kernel)
    assert sorted(kernel.numbers) == ["lz_f32", "lz_i64"]
    assert ("(lz_i64) 3", "3.5f") in {tuple(sorted(x.numbers)) for x in maps}
    assert Program.from_json(program.to_json()) == program
    assert not check_kernel_c(kernel.text, [40 * 8] * kernel.arity)


def test_two_kernels_keep_their_numbers() -> None:
    assert not any(launch.numbers for launch in _steps(2).launches)


@pytest.mark.parametrize("dtype", [lt.float32, lt.float16, lt.int32, lt.bool])
def test_values_are_those_of_separate_kernels(dtype: lt.dtype) -> None:
    source = np.random.default_rng(0)
    x = lt.from_numpy(source.integers(-3, 4, (6, 33)).astype(np.float32)).to(dtype)

    def compute() -> lt.Tensor:
        y = x[0]
        for t in range(6):
            number = t % 2 == 0 if dtype is lt.bool else t - 2
            y = lt.where(x[t] == number, lt.arange(33) + t * 7, y.cumsum(0)).to(dtype)
        assert isinstance(y, lt.Tensor)
        return y

    together = compute()
    kernels = {row.name for row in lt.explain(together).kernels}
    assert len(kernels) < len(lt.explain(together).kernels)
    want = together.numpy()
    config.eager = True
    try:
        alone = compute().numpy()
    finally:
        config.eager = False
    assert np.array_equal(want, alone)
