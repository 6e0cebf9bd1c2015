"""Special functions: values to stated errors, edges, dtypes, gradients, and both backends."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import special
from lazyt.codegen.prelude import ULP
from lazyt.errors import DTypeError, GradientError, LazytError
from lazyt.ir.scalar import FUNCTIONS
from tests.functional.special_values import (
    BINARY,
    MULTIGAMMA,
    POLYGAMMA,
    POLYNOMIALS,
    UNARY,
)
from tests.ops_contract.numeric import leaf, value

nan, inf = math.nan, math.inf

#: Relative errors of float64 results without a stated bound.
LOOSE = {
    "ndtr": 1e-13, "airy_ai": 2e-13, "bessel_j0": 1e-13, "bessel_j1": 1e-13, "bessel_y0": 1e-13,
    "bessel_y1": 1e-13, "gammainc": 1e-13, "gammaincc": 1e-13, "zeta": 2e-14,
}  # fmt: skip


def column(points: list[Any], place: int | None = None) -> lt.Tensor:
    """Recorded arguments as a float64 tensor."""
    values = points if place is None else [p[place] for p in points]
    return lt.tensor(values, dtype=lt.float64)


@pytest.mark.compiler
def test_values() -> None:
    """To the errors of kernels: the interpreter's are others."""
    results, wanted = {}, {}
    for name, (points, values) in UNARY.items():
        results[name], wanted[name] = getattr(special, name)(column(points)), values
    for name, (pairs, values) in BINARY.items():
        results[name] = getattr(special, name)(column(pairs, 0), column(pairs, 1))
        wanted[name] = values
    lt.realize(*results.values())
    for name, result in results.items():
        stated = ULP.get(f"lz_{name}_f64", 30) * 2.0**-52
        np.testing.assert_allclose(
            result.tolist(), wanted[name], rtol=LOOSE.get(name, stated), err_msg=name
        )


def test_values_in_float32() -> None:
    results = {
        name: getattr(special, name)(column(points).float()).tolist()
        for name, (points, _) in UNARY.items()
        if name not in ("ndtri", "airy_ai", "log_ndtr", "erfcx", "modified_bessel_k0")
    }
    for name, found in results.items():
        points, values = UNARY[name]
        for x, got, want in zip(points, found, values):
            rounded = float(np.float32(x))
            if 1e-30 < abs(want) < 1e30 and abs(x) < 100:
                # What rounding the argument changes is not the function's error.
                slack = 4e-7 * abs(want) + 4 * abs(rounded - x) * max(1, abs(want) / abs(x))
                assert abs(got - want) <= slack, (name, x)


def test_polynomials() -> None:
    for name, rows in POLYNOMIALS.items():
        x = lt.tensor([r[1] for r in rows], dtype=lt.float64)
        n = lt.tensor([r[0] for r in rows])
        found = getattr(special, name)(x, n)
        np.testing.assert_allclose(found.tolist(), [r[2] for r in rows], rtol=1e-12, err_msg=name)
    x = lt.tensor([0.5, nan], dtype=lt.float64)
    assert special.chebyshev_polynomial_t(x, -1).tolist() == [0, 0]
    assert special.hermite_polynomial_h(0.5, lt.tensor([1.9, 2.0])).tolist() == [1, -1]
    assert not special.legendre_polynomial_p(x.requires_grad_(), 2).requires_grad


def test_polygamma_and_mvlgamma() -> None:
    for n, x, want in POLYGAMMA:
        found = lt.polygamma(n, lt.tensor([x], dtype=lt.float64)).item()
        assert found == pytest.approx(want, rel=2e-13), (n, x)
    for x, p, want in MULTIGAMMA:
        found = lt.mvlgamma(lt.tensor([x], dtype=lt.float64), p).item()
        assert found == pytest.approx(want, rel=1e-14)
    with pytest.raises(LazytError, match="does not support negative n"):
        lt.polygamma(-1, lt.ones(2))
    with pytest.raises(LazytError, match="p has to be greater than or equal to 1"):
        lt.mvlgamma(lt.ones(2), 0)


#: As PyTorch 2.13 gives them.
EDGES: dict[str, list[float]] = {
    "airy_ai": [nan, 0.3550280538878172, nan, nan],
    "bessel_j0": [nan, 1, nan, nan],
    "bessel_j1": [nan, 0, nan, nan],
    "bessel_y0": [nan, -inf, nan, nan],
    "bessel_y1": [nan, -inf, nan, nan],
    "modified_bessel_k0": [nan, inf, 0, nan],
    "scaled_modified_bessel_k1": [nan, inf, 0, nan],
    "i0e": [0, 1, 0, nan],
    "i1e": [-0.0, 0, 0, nan],
    "erfcx": [inf, 1, 0, nan],
    "ndtr": [0, 0.5, 1, nan],
    "log_ndtr": [-inf, -math.log(2), 0, nan],
    "ndtri": [nan, -inf, nan, nan],
    "spherical_bessel_j0": [0, 1, 0, nan],
    "entr": [-inf, 0, -inf, nan],
}


def test_edges() -> None:
    x = lt.tensor([-inf, 0, inf, nan], dtype=lt.float64)
    v = lt.tensor([0, 1, -1, inf, nan], dtype=lt.float64)
    found = {name: getattr(special, name)(x) for name in EDGES}
    grid = {f: getattr(special, f)(v[:, None], v) for f in ("zeta", "gammainc", "gammaincc")}
    lt.realize(*found.values(), *grid.values())
    for name, want in EDGES.items():
        np.testing.assert_allclose(found[name].tolist(), want, 1e-15, err_msg=name)
    rows = grid["zeta"].tolist()
    assert str(rows[:3]) == str([[nan] * 5, [inf] * 5, [nan] * 5])
    assert str(rows[3:]) == str([[inf, 1.0, inf, nan, nan], [inf, nan, inf, nan, nan]])
    lower, upper = grid["gammainc"].tolist(), grid["gammaincc"].tolist()
    assert str([lower[0], lower[3]]) == str([[nan, 1.0, nan, 1.0, nan], [0.0, 0.0, nan, nan, 0.0]])
    assert str([upper[0], upper[3]]) == str([[nan, 0.0, nan, 0.0, nan], [1.0, 1.0, nan, nan, 1.0]])


NEW = [
    "i0", "i0e", "i1", "i1e", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1",
    "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "airy_ai", "erfcx", "ndtri", "mantissa", "exponent", "igamma",
    "igammac", "zeta", "nextafter", "poisson", "binomial", "chebyshev_t", "chebyshev_w",
    "hermite_h", "hermite_he", "laguerre_l", "legendre_p", "xlogy", "xlog1py",
]  # fmt: skip
POLYNOMIAL_ENDS = ("_t", "_w", "_h", "_he", "_l", "_p")
_GRID = np.array([-inf, -30.5, -3, -1.25, -0.0, 0, 1e-9, 0.25, 0.75, 1, 2.5, 7, 24, 60, inf, nan])


@pytest.mark.fused_values
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_kernels_agree_with_their_meaning(dtype: type) -> None:
    """Compiled code against the NumPy meaning, over all pairs of a grid."""
    from lazyt import ops
    from lazyt.handle.dispatch import wrap

    x: np.ndarray = _GRID.astype(dtype)
    compiled, meant = {}, {}
    for name in NEW:
        arity = FUNCTIONS[name].arity
        if name.endswith(POLYNOMIAL_ENDS) and dtype is np.float32:
            continue  # the meaning, in float64, overflows later
        shaped = [x.reshape([-1 if i == a else 1 for i in range(min(arity, 2))])
                  for a in range(min(arity, 2))]  # fmt: skip
        if arity == 3:
            shaped.insert(1, np.full((1, 1), 0.375, dtype))
        meant[name] = value(ops.apply(name, *map(leaf, shaped)))
        nodes = [lt.from_numpy(np.ascontiguousarray(a)).node for a in shaped]
        compiled[name] = wrap(ops.apply(name, *nodes), name=name)
    lt.realize(*compiled.values())
    for name, want in meant.items():
        got = compiled[name].numpy()
        if name in ("poisson", "binomial"):  # their last argument is drawn from [0, 1)
            drawn = (x >= 0) & (x < 1)
            got, want = got[..., drawn], want[..., drawn]
        floor = 1e-14 if dtype is np.float64 else 1e-37
        tolerance = 2e-13 if dtype is np.float64 else 4e-7
        np.testing.assert_allclose(got, want, tolerance, floor, err_msg=name)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: special.log_ndtr(-3 * x), lambda x: special.ndtr(x - 1), special.entr,
        lambda x: special.xlog1py(x, x), lambda x: lt.polygamma(1, x), lambda x: lt.polygamma(2, x),
        lambda x: lt.mvlgamma(x + 3, 3), lambda x: lt.logaddexp2(x, 1 - x), special.erfcx,
        lambda x: special.spherical_bessel_j0(x), lambda x: lt.ldexp(x, lt.tensor(3)),
    ],
)  # fmt: skip
def test_gradients(function: Callable[[lt.Tensor], lt.Tensor]) -> None:
    points = [0.3, 0.9, 1.7]
    x = lt.tensor(points, dtype=lt.float64, requires_grad=True)
    function(x).sum().backward()
    assert x.grad is not None
    step = 1e-6
    ends = lt.tensor([[p + step, p - step] for p in points], dtype=lt.float64)
    high, low = np.array(function(ends).tolist()).T
    np.testing.assert_allclose(x.grad.tolist(), (high - low) / (2 * step), rtol=1e-6)


def slopes(of: lt.Tensor, *by: lt.Tensor) -> list[lt.Tensor]:
    found = lt.autograd.grad(of.sum(), by, create_graph=True)
    return [slope for slope in found if slope is not None]


@pytest.mark.parametrize(("function", "pole"), [(lt.xlogy, 0), (special.xlog1py, -1)])
def test_slopes_of_products_with_logarithms(function: Callable[..., lt.Tensor], pole: int) -> None:
    """At the pole, below it, at infinity and at NaN: PyTorch's, of both orders."""
    nan, inf = math.nan, math.inf
    x = lt.tensor([0.0, 0.0, 0.0, 0.0, 2.0, 0.0], dtype=lt.float64, requires_grad=True)
    points = [pole, pole - 1, inf, nan, pole, pole + 1]
    y = lt.tensor(points, dtype=lt.float64, requires_grad=True)
    result = function(x, y)
    assert repr(result.tolist()) == repr([0.0, 0.0, 0.0, nan, -inf, 0.0])
    by_x, by_y = slopes(result, x, y)
    assert repr(by_x.tolist()) == repr([0.0, 0.0, inf, nan, -inf, 0.0])
    np.testing.assert_array_equal(by_y.tolist(), [nan, 0, 0, nan, inf, 0])
    (mixed,) = slopes(by_x, y)
    np.testing.assert_array_equal(mixed.tolist(), [nan, 0, 0, nan, inf, 1])
    crossed, twice = slopes(by_y, x, y)
    np.testing.assert_array_equal(crossed.tolist(), [inf, -1, 0, nan, inf, 1])
    np.testing.assert_array_equal(twice.tolist(), [nan, 0, 0, nan, -inf, 0])


def test_types() -> None:
    whole = lt.tensor([1, 2], dtype=lt.int32)
    assert special.bessel_j0(whole).dtype is lt.float32
    assert special.zeta(2, whole).dtype is lt.float32
    assert lt.i0(lt.ones(2, dtype=lt.float16)).dtype is lt.float16
    with pytest.raises(NotImplementedError, match=r"bessel_j0_cpu.*'Half'"):
        special.bessel_j0(lt.ones(2, dtype=lt.float16))
    with pytest.raises(NotImplementedError, match=r"igamma_cpu.*'Long'"):
        lt.igamma(lt.tensor([1]), lt.tensor([2]))
    with pytest.raises(DTypeError, match="must be Tensor, not int"):
        lt.igamma(lt.ones(2), 2)
    with pytest.raises(GradientError, match="the derivative for 'igamma: input' is not"):
        lt.igamma(lt.ones(2, requires_grad=True), lt.ones(2))
    out = lt.zeros(0, dtype=lt.float64)
    assert special.i1(whole, out=out) is out
    assert out.tolist() == pytest.approx([0.5651591039924850, 1.590636854637329], rel=1e-7)


def test_every_name_of_the_package() -> None:
    for name in special.__all__:
        assert getattr(special, name).__doc__, name
    assert lt.special is special


def test_mish_keeps_its_digits_on_both_sides_of_zero() -> None:
    """x tanh(log(1 + exp(x))) without overflow, and its first two derivatives."""
    x = lt.linspace(-80, 300, 2281).requires_grad_()
    y = lt.nn.functional.mish(x)
    (slope,) = lt.autograd.grad(y.sum(), x, create_graph=True)
    assert slope is not None
    (bend,) = lt.autograd.grad(slope.sum(), x)
    assert bend is not None
    at = x.detach().numpy().astype(np.float64)
    soft = np.maximum(at, 0) + np.log1p(np.exp(-abs(at)))
    part, wave = 1 / (1 + np.exp(-at)), np.tanh(soft)
    rise = part * (1 - wave * wave)
    np.testing.assert_allclose(y.detach().numpy(), at * wave, rtol=1e-6, atol=1e-45)
    np.testing.assert_allclose(slope.detach().numpy(), wave + at * rise, rtol=3e-6, atol=1e-6)
    turn = 2 * rise + at * rise * (1 - part - 2 * wave * part)
    np.testing.assert_allclose(bend.numpy(), turn, rtol=1e-5, atol=1e-6)


def test_meanings_at_the_ends_of_their_range() -> None:
    """Where a step of a series is beyond float64, and the result is not."""
    found = FUNCTIONS["i0"].evaluate(np.array([1.7e308, math.inf]))
    assert found[0] == math.inf and np.isnan(found[1])
    assert FUNCTIONS["ndtri"].evaluate(np.array([0.5]))[0] == 0
    small = FUNCTIONS["ndtri"].evaluate(np.array([5e-324, 1e-310]))
    np.testing.assert_allclose(small, [-38.467405617144344, -37.66306033194953], rtol=1e-15)
