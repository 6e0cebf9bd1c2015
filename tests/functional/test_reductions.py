"""Reductions, running totals and elementwise edges against what PyTorch 2.13 gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.errors import BoundsError, DTypeError, LazytError

nan, inf = math.nan, math.inf
EMPTY = lt.zeros(0, 3)
NO_TENSOR: Any = [1, 2]


def test_sums_of_bools_and_empty_tensors() -> None:
    truths = lt.tensor([[True, False], [False, False]])
    results = [
        lt.sum(truths, 1, dtype=lt.bool), lt.prod(truths, 0, dtype=lt.bool), lt.sum(EMPTY, 0),
        lt.prod(EMPTY, 0), lt.logsumexp(EMPTY, 0), lt.mean(EMPTY, 0), lt.any(EMPTY, 0),
        lt.all(truths, ()), lt.any(truths, []),
    ]  # fmt: skip
    lt.realize(*results)
    assert str([r.tolist() for r in results]) == str([
        [True, False], [False, False], [0.0] * 3, [1.0] * 3, [-inf] * 3, [nan] * 3, [False] * 3,
        [[True, False], [False, False]], [[True, False], [False, False]],
    ])  # fmt: skip
    assert results[0].dtype is lt.bool
    assert lt.all(lt.tensor([3], dtype=lt.uint8)).dtype is lt.uint8


def test_nanmean() -> None:
    x = lt.tensor([[1.5, -2.0, nan], [3.0, 0.5, -1.0]])
    assert x.nanmean(0).tolist() == [2.25, -0.75, -1.0]
    assert lt.nanmean(x, dtype=lt.float64).dtype is lt.float64
    out = lt.zeros(3)
    assert lt.nanmean(x, 0, out=out) is out
    assert out.tolist() == [2.25, -0.75, -1.0]
    with pytest.raises(DTypeError, match="expected input to have floating point"):
        lt.nanmean(lt.tensor([1]))


def test_extremes_written_to_out() -> None:
    x = lt.tensor([[1.0, 5.0], [4.0, 2.0]])
    values, places = lt.zeros(0), lt.zeros(0, dtype=lt.int64)
    found = lt.max(x, 1, out=(values, places))
    assert found.values is values and found.indices is places
    assert (values.tolist(), places.tolist()) == ([5, 4], [1, 0])
    low, high = lt.zeros(2), lt.zeros(2)
    lt.aminmax(x, dim=0, out=(low, high))
    assert (low.tolist(), high.tolist()) == ([1, 2], [4, 5])
    assert lt.max(x, other=lt.tensor(3.0)).tolist() == [[3, 5], [4, 3]]
    assert lt.argmin(x, 1, out=lt.zeros(0, dtype=lt.int64)).tolist() == [0, 1]
    assert lt.std(x, 0, out=lt.zeros(0)).tolist() == pytest.approx([math.sqrt(4.5)] * 2)


#: Calls and the messages of their errors.
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: lt.amax(EMPTY, -2), BoundsError, "amax(): Expected reduction dim -2 to have non-zero"),
    (lambda: lt.argmax(EMPTY), BoundsError, "argmax(): Expected reduction dim to be specified"),
    (lambda: lt.max(EMPTY), LazytError, "max(): Expected reduction dim to be specified for"),
    (lambda: lt.argmax(lt.ones(2), (0,)), DTypeError, "argmax(): argument 'dim' (position 2) must"),
    (lambda: lt.max(lt.ones(2), (0,)), DTypeError, "max() received an invalid combination"),
    (lambda: lt.prod(lt.ones(2), (0,)), DTypeError, "prod(): argument 'dim' (position 2) must be"),
    (lambda: lt.aminmax(EMPTY), LazytError, "aminmax(): cannot compute aminmax over an empty"),
    (lambda: lt.aminmax(EMPTY, dim=-2), BoundsError, "aminmax: Expected reduction dim 0 to have"),
    (lambda: lt.var_mean(lt.tensor([1])), DTypeError, "var_mean only support floating point and"),
    (lambda: lt.mean(lt.ones(2), dtype=lt.int32), DTypeError, "Optional dtype must be either a"),
    (lambda: lt.cumsum(lt.ones(2), 0, dtype=lt.bool), NotImplementedError, '"cumsum_out_cpu" not'),
    (lambda: lt.logcumsumexp(lt.tensor([1]), 0), NotImplementedError, '"logcumsumexp_out_cpu"'),
    (lambda: lt.cummax(lt.tensor(1.0), 1), BoundsError, "cummax(): Expected reduction dim -1 or 0"),
    (lambda: lt.diff(lt.tensor(1.0)), LazytError, "diff expects input to be at least one"),
    (lambda: lt.diff(lt.ones(2), -1), LazytError, "order must be non-negative but got -1"),
    (lambda: lt.diff(lt.ones(2, 2), prepend=lt.ones(2)), LazytError, "diff expects prepend or app"),
    (lambda: lt.sum(NO_TENSOR), DTypeError, "sum(): argument 'input' (position 1) must be Tensor"),
    (lambda: lt.abs(lt.tensor([True])), NotImplementedError, '"abs_cpu" not implemented for \'B'),
    (lambda: lt.frac(lt.tensor([1])), NotImplementedError, '"frac_cpu" not implemented for \'Lo'),
    (lambda: lt.round(lt.tensor([1]), decimals=1), NotImplementedError, '"round_cpu" not impleme'),
    (lambda: lt.tensor([1.0]) - True, LazytError, "Subtraction, the `-` operator, with a bool"),
    (lambda: lt.lerp(lt.tensor([1]), lt.tensor([2]), 0.5), NotImplementedError, '"lerp_kernel_sc'),
    (lambda: lt.isclose(lt.ones(1), lt.ones(1), rtol=-1), LazytError, "rtol must be greater than"),
    (lambda: lt.tensor([1]).masked_fill(lt.tensor([True]), nan), LazytError, "to type int64_t wi"),
    (lambda: lt.add(lt.ones(1), 1, alpha=True), DTypeError, "Boolean alpha only supported for"),
    (lambda: lt.tensor([True]) ** lt.tensor([True]), NotImplementedError, '"pow" not implemented'),
    (lambda: lt.signbit(lt.ones(1), out=lt.ones(1)), LazytError, "signbit does not support non-b"),
    (lambda: lt.imag(lt.ones(2)), LazytError, "imag is not implemented for tensors with non-comp"),
    (lambda: lt.frexp(lt.tensor([1])), LazytError, "torch.frexp() only supports floating-point"),
    (lambda: lt.heaviside(lt.ones(1), lt.tensor([1])), LazytError, "heaviside is not yet impleme"),
    (lambda: lt.gcd(lt.ones(1), lt.ones(1)), NotImplementedError, '"gcd_cpu" not implemented for'),
]


def test_refusals() -> None:
    for call, error, text in REFUSED:
        with pytest.raises(error) as caught:
            call()
        assert text in str(caught.value)


def test_running_extremes() -> None:
    truths = lt.tensor([True, False, True])
    least, found = lt.cummin(truths, 0)
    assert (least.tolist(), found.tolist()) == ([True, False, False], [0, 1, 1])
    assert least.dtype is lt.bool
    assert lt.cummax(EMPTY, 0)[1].shape == (0, 3)
    values, places = lt.zeros(0), lt.zeros(0, dtype=lt.int64)
    lt.cummax(lt.tensor([1.0, 3.0, 2.0]), 0, out=(values, places))
    assert (values.tolist(), places.tolist()) == ([1, 3, 3], [0, 1, 1])


@pytest.mark.parametrize(("shape", "dim"), [((1_000_003,), 0), ((3, 70_001), 1), ((9001, 5), 0)])
def test_running_sums_of_float32_round_once(shape: tuple[int, ...], dim: int) -> None:
    values = np.random.default_rng(0).random(shape, dtype=np.float32)
    x = lt.from_numpy(values).clone().requires_grad_()
    found = lt.cumsum(x, dim)
    want = values.astype(np.float64).cumsum(dim)
    np.testing.assert_allclose(found.detach().numpy(), want, rtol=6.1e-8)
    factors = 1 + (values - 0.5) / 1024
    product = lt.cumprod(lt.from_numpy(factors), dim)
    np.testing.assert_allclose(
        product.numpy(), factors.astype(np.float64).cumprod(dim), rtol=6.1e-8
    )
    found.sum().backward()
    assert x.grad is not None
    count = lt.arange(shape[dim], 0, -1).reshape([-1 if d == dim else 1 for d in range(x.dim())])
    assert lt.equal(x.grad, count.expand(shape).float())


def test_logcumsumexp_keeps_what_comes_before_a_large_element() -> None:
    numbers = [-1000.0, -1001.0, 3.0, 1000.0, -inf, nan]
    x = lt.tensor(numbers, dtype=lt.float64, requires_grad=True)
    with np.errstate(invalid="ignore"):
        want = np.logaddexp.accumulate(np.array(numbers))
    np.testing.assert_allclose(lt.logcumsumexp(x, 0).tolist(), want, rtol=1e-15)
    lt.logcumsumexp(x[:4], 0)[1].backward()
    assert x.grad is not None
    share = 1 / (1 + math.exp(-1))
    np.testing.assert_allclose(x.grad.tolist()[:4], [share, 1 - share, 0, 0], rtol=1e-12)
    assert lt.logcumsumexp(EMPTY, 0).shape == (0, 3)


def test_diff_with_ends() -> None:
    x = lt.tensor([[1, 4, 9], [0, 1, 0]])
    first, last = lt.tensor([[0], [1]]), lt.tensor([[0.5], [1.5]])
    assert lt.diff(x, prepend=first).tolist() == [[1, 3, 5], [-1, 1, -1]]
    assert lt.diff(x, append=last).tolist() == [[3, 5, -8.5], [1, -1, 1.5]]
    assert lt.diff(x, 2, 0, prepend=x[:1]).tolist() == [[-1, -3, -9]]
    numpy_name: dict[str, Any] = {"axis": 0}
    assert lt.diff(x, **numpy_name).tolist() == [[-1, -3, -9]]
    assert lt.diff(x > 0).tolist() == [[False, False], [True, True]]


def test_elementwise_edges() -> None:
    small = lt.tensor([2, 255], dtype=lt.uint8)
    results = [
        small / -2, lt.copysign(small, -2), lt.xlogy(small, 2), lt.tensor([True, False]) ** False,
        lt.add(lt.tensor([True, False]), lt.tensor([True, False]), alpha=2),
        lt.clamp(lt.tensor([1.0, nan]), min=nan), lt.logit(lt.tensor([0.0, 0.9]), eps=0.6),
        lt.tensor([70000, 3]) * lt.tensor([1.0, 0.5], dtype=lt.float16),
        lt.float_power(lt.tensor([4.0, -0.0]), 0.5),
        lt.lerp(lt.tensor([0.0]), lt.tensor([4.0]), 0.25),
        lt.div(lt.tensor([1.5], dtype=lt.float16), lt.tensor([0.3], dtype=lt.float16),
               rounding_mode="trunc"),
        lt.polygamma(1, lt.tensor([-1e-10])),
    ]  # fmt: skip
    lt.realize(*results)
    found = [r.tolist() for r in results]
    assert str(found[:6]) == str([
        [-1.0, -127.5], [-2.0, -255.0], [found[2][0], found[2][1]], [True, True], [True, False],
        [nan, nan],
    ])  # fmt: skip
    assert found[2] == pytest.approx([2 * math.log(2), 255 * math.log(2)], rel=1e-6)
    assert found[6] == pytest.approx([math.log(1.5), -math.log(1.5)], rel=1e-6)
    assert found[7] == [inf, 1.5]
    assert str(found[8:11]) == "[[2.0, -0.0], [1.0], [4.0]]"
    assert found[11] == pytest.approx([1e20], rel=1e-6)


def test_whole_number_functions() -> None:
    x, y = lt.tensor([12, -18, 0, 7]), lt.tensor([8, 12, 0, 0])
    values, at = lt.tensor([-2.0, 0.0, 3.0, nan]), lt.tensor([0.5])
    halves = lt.tensor([0.5, 0.0, 65504.0, 1.0, inf], dtype=lt.float16)
    towards = lt.tensor([1.0, -1.0, inf, 0.0, 0.0], dtype=lt.float16)
    results = [
        lt.gcd(x, y), lt.lcm(x, y), lt.heaviside(values, at), lt.ldexp(lt.tensor([3.0]), y[:2]),
        lt.nextafter(lt.tensor([1.0, 0.0]), lt.tensor([2.0, -1.0])),
        lt.nextafter(halves, towards), lt.angle(values), lt.isreal(values),
    ]  # fmt: skip
    lt.realize(*results)
    found = [r.tolist() for r in results]
    assert found[:2] == [[4, 6, 0, 7], [24, 36, 0, 0]]
    assert found[2:4] == [[0, 0.5, 1, 0], [768, 12288]]
    assert found[4] == [1 + 2**-23, -(2**-149)]
    assert found[5] == [0.5 + 2**-11, -(2**-24), inf, 1 - 2**-11, 65504]
    assert str(found[6]) == str([float(np.float32(math.pi)), 0.0, 0.0, nan])
    assert found[7] == [True] * 4
    mantissa, exponent = lt.frexp(lt.tensor([0.0, -6.0, 1e-310, inf], dtype=lt.float64))
    assert mantissa.tolist() == [0, -0.75, math.frexp(1e-310)[0], inf]
    assert exponent.tolist()[:3] == [0, 3, math.frexp(1e-310)[1]]
    assert exponent.dtype is lt.int32


def test_functions_write_in_place() -> None:
    x = lt.tensor([1.0, 4.0])
    for name, want in (("sqrt_", [1, 2]), ("exp2_", [2, 4]), ("neg_", [-2, -4])):
        assert getattr(lt, name)(x) is x
        assert x.tolist() == want
    lt.clamp_(x, min=-3)
    assert x.tolist() == [-2, -3]
    assert not hasattr(lt, "add_")
    assert lt.conj(x) is x and lt.real(x) is x and lt.resolve_neg(x) is x
    assert not lt.is_conj(x) and not lt.is_neg(x)
