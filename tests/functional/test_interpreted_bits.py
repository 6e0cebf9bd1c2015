"""The NumPy interpreter gives every result with the bits of compiled kernels.

All samples run both ways: those of every public function, in float32, in 16 bits and in complex
numbers, with their gradients, and those of every op and of every scalar function.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import ops
from lazyt.codegen.prelude import function_names
from lazyt.ir.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    dtype_by_numpy,
    float16,
    float32,
    float64,
)
from lazyt.ir.graph import Node, topological
from lazyt.ir.scalar import FUNCTIONS, arg, call
from lazyt.plan.fallback.interpreter import values_of
from lazyt.plan.planning import realize
from lazyt.runtime.interpreter import interpret, load, store
from lazyt.runtime.memory import Buffer
from tests import compilers
from tests.functional.samples import Sample, all_samples, gradients, has, perform, tensors_in
from tests.ops_contract.all_samples import SAMPLES
from tests.ops_contract.numeric import HostArray

pytestmark = [
    pytest.mark.skipif(not compilers.available(), reason="there are no kernels to compare with"),
    pytest.mark.filterwarnings("ignore"),
]
#: In how many tests the samples of functions run.
SLICES = 16


def bits_of(array: Any) -> tuple[Any, ...]:
    """Shape, dtype and bits of an array, in which all NaNs are one."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind in "fc":
        parts = array.view(array.real.dtype)
        array = np.where(np.isnan(parts), np.array(np.nan, parts.dtype), parts)
    return array.shape, array.dtype, array.tobytes()


def stored(tensor: lazyt.Tensor) -> Any:
    """A result as an array."""
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype is lazyt.bfloat16 else tensor).numpy()


def found(compute: Callable[[Any], Sequence[lazyt.Tensor]], given: Any, interpret: bool) -> Any:
    """The bits of results, or the error that there is instead."""
    with lazyt.config.override(interpret=interpret, tier=0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lazyt.manual_seed(0)
        try:
            return [bits_of(stored(tensor)) for tensor in compute(given)]
        except Exception as error:  # a dtype that the function refuses
            return f"{type(error).__name__}: {error}"


def differing(slice_: int, compute: Callable[[Sample], Sequence[lazyt.Tensor]]) -> list[str]:
    """The samples of one slice with results that differ between the interpreter and kernels."""
    wrong = []
    for sample in all_samples()[slice_::SLICES]:
        if has(lazyt, sample) and found(compute, sample, True) != found(compute, sample, False):
            wrong.append(str(sample))
    return wrong


@pytest.mark.parametrize("slice_", range(SLICES))
def test_functions_have_kernels_bits(slice_: int) -> None:
    assert not differing(slice_, lambda s: tensors_in(lazyt, perform(lazyt, s, "float32")[0]))


@pytest.mark.parametrize("slice_", range(SLICES))
def test_gradients_have_kernels_bits(slice_: int) -> None:
    assert not differing(slice_, lambda sample: gradients(lazyt, sample) or [])


@pytest.mark.parametrize("slice_", range(SLICES))
def test_functions_have_kernels_bits_in_16_bits_and_of_complex_numbers(slice_: int) -> None:
    kinds = ("float16", "bfloat16", "complex64")

    def compute(sample: Sample) -> list[lazyt.Tensor]:
        dtype = kinds[sum(map(ord, str(sample))) % len(kinds)]
        return tensors_in(lazyt, perform(lazyt, sample, dtype)[0])

    assert not differing(slice_, compute)


def leaf(array: Any, dtype: DType | None = None) -> Node:
    """An input that holds an array, floats as ``dtype`` when it is given."""
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    kind = dtype or dtype_by_numpy(array.dtype)
    assert kind is not None
    buffer = Buffer(array.size * kind.itemsize)
    with np.errstate(over="ignore"):
        given = store(array.astype(kind.compute.numpy), kind)
    buffer.as_numpy(kind, array.shape)[...] = given
    return ops.input_(array.shape, kind, buffer)


def compare(node: Node) -> None:
    """What the interpreter makes of a node, and what kernels do."""
    for item in topological([node]):
        if isinstance(item.data, HostArray):
            item.data = leaf(load(item.data.array, item.dtype), item.dtype).data
    (interpreted,) = values_of([node])
    if node.data is None:
        with lazyt.config.override(tier=0):  # what compiles is what waits
            realize([node])
    assert node.data is not None
    computed = node.data.as_numpy(node.dtype, node.shape)
    assert bits_of(load(interpreted, node.dtype)) == bits_of(load(computed, node.dtype)), node


@pytest.mark.parametrize("dtype", [float64, float32, bfloat16], ids=repr)
@pytest.mark.parametrize("slice_", range(4))
def test_ops_have_kernels_bits(slice_: int, dtype: DType) -> None:
    for sample in SAMPLES[slice_::4]:
        leaves = [leaf(a, dtype if a.dtype == np.float64 else None) for a in sample.arrays]
        compare(sample.build(*leaves))


HARD = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, 2.0, -3.0, 1e-30, -1e30, 88.8, -103.5)
POLYNOMIALS = ("chebyshev", "hermite", "laguerre", "legendre")
SECTIONS = frozenset(function_names())


def numbers(name: str, place: int, kind: Any) -> Any:
    """Arguments of a scalar function: of many sizes, and those at which functions end."""
    rng = np.random.default_rng([len(name), place])
    small, wide = rng.standard_normal(300), np.exp(rng.uniform(-80, 80, 300))
    hard = rng.choice([*HARD, np.finfo(kind).tiny, np.finfo(kind).max], 200)
    found = np.concatenate([small, rng.random(300), wide, rng.uniform(-200, 200, 300), hard])
    if name in ("poisson", "binomial"):  # counts that are walked to
        found = np.abs(found) % (1 if place else 30)
    elif name in ("zeta", "gamma_quantile", "gamma_quantile_slope") and place:
        found = np.abs(found) % 1
    elif name.startswith(POLYNOMIALS) and place:  # degrees that are walked to
        found = np.abs(found) % 30
    elif name in ("igamma", "igammac"):
        found = np.abs(found[::4]) % 60
    return found.astype(kind)


@pytest.mark.parametrize("dtype", [float32, float64], ids=repr)
@pytest.mark.parametrize("slice_", range(6))
def test_scalar_functions_have_kernels_bits(slice_: int, dtype: DType) -> None:
    checked = 0
    for name, function in list(FUNCTIONS.items())[slice_::6]:
        if f"lz_{name}_{dtype.suffix}" in SECTIONS:
            leaves = [leaf(numbers(name, n, dtype.numpy)) for n in range(function.arity)]
            expr = call(name, *[arg(n, dtype) for n in range(function.arity)])
            compare(ops.elementwise(expr, leaves))
            checked += 1
    assert checked > 8


@pytest.mark.parametrize("dtype", [complex64, complex128], ids=repr)
def test_functions_of_complex_numbers_have_kernels_bits(dtype: DType) -> None:
    rng = np.random.default_rng(4)
    parts = rng.standard_normal((2, 500))
    parts[:, ::5] = rng.choice(HARD, parts[:, ::5].shape)
    z = leaf((parts[0] + 1j * parts[1]).astype(dtype.numpy))
    for name, function in FUNCTIONS.items():
        if "c" in function.kinds and function.arity == 1 and name not in ("cast",):
            compare(ops.elementwise(call(name, arg(0, dtype)), [z]))
    compare(ops.elementwise(call("pow", arg(0, dtype), arg(1, dtype)), [z, z]))
    compare(ops.reduce_("sum", z, (0,)))


@pytest.mark.parametrize("dtype", [float32, float64, float16], ids=repr)
def test_sums_and_products_have_kernels_bits(dtype: DType) -> None:
    rng = np.random.default_rng(7)

    def drawn(*shape: int) -> Node:
        return leaf(rng.standard_normal(shape), dtype)

    x, y = drawn(3, 1500, 7), drawn(1500, 11)
    for axes in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
        for kind in ("sum", "max") if dtype is float16 else ("sum", "prod", "max", "min"):
            compare(ops.reduce_(kind, x, axes))
    compare(ops.contract(x, y, (0, 1, 2), (1, 3), (3, 2, 0)))
    compare(ops.scan("sum", x, 1))


@pytest.mark.parametrize("factor", [1.0, 1 + 0.3j])
def test_loops_have_kernels_bits(factor: complex) -> None:
    def steps() -> list[lazyt.Tensor]:
        start, rows = lazyt.linspace(-1, 1, 5), lazyt.linspace(0, 2, 200).reshape(40, 5)
        start, rows = start * factor, rows * factor

        def step(carry: lazyt.Tensor, x: lazyt.Tensor) -> tuple[lazyt.Tensor, lazyt.Tensor]:
            carry = (carry * 0.9 + x.sin()).tanh()
            return carry, carry.exp()

        return list(lazyt.func.scan(step, start, rows))

    one, other = (found(lambda _: steps(), None, way) for way in (True, False))
    assert isinstance(one, list)
    assert one == other


def test_the_interpreter_of_meanings_is_another_one() -> None:
    """Where a function is exact to half a unit NumPy's is the same; others differ somewhere."""
    x = leaf(np.linspace(-5, 5, 5000).astype(np.float32))
    node = ops.elementwise(call("erf", arg(0, float32)), [x])
    (meaning,), (interpreted,) = interpret([node]), values_of([node])
    assert (meaning != interpreted).any()
    np.testing.assert_allclose(meaning, interpreted, rtol=1e-6)
