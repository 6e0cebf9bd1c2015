"""Every scalar function keeps its promises, over all types that it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lazyt import ops
from lazyt.errors import DTypeError, GradientError
from lazyt.ir.dtypes import (
    ALL,
    COMPLEX,
    DType,
    bool_,
    float32,
    float64,
    int16,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)
from lazyt.ir.graph import Node
from lazyt.ir.scalar import FUNCTIONS, ScalarFunction
from lazyt.transforms.vjp import vjp
from tests.ops_contract.numeric import check_first_order, check_second_order, leaf, value

#: Where a function is smooth: one interval per argument, or two for both sides of a gap.
DOMAINS: dict[str, tuple[tuple[float, ...], ...]] = {
    "neg": ((-2, 2),), "abs": ((0.3, 2, -2, -0.3),), "sign": ((0.3, 2, -2, -0.3),),
    "exp": ((-2, 2),), "exp_nonpositive": ((-2, -0.1),), "exp2": ((-2, 2),), "expm1": ((-2, 2),),
    "log": ((0.3, 3),), "log2": ((0.3, 3),), "log10": ((0.3, 3),), "log1p": ((-0.5, 3),),
    "sqrt": ((0.3, 3),), "rsqrt": ((0.3, 3),), "reciprocal": ((0.4, 2, -2, -0.4),),
    "sin": ((-4, 4),), "cos": ((-4, 4),), "tan": ((-1, 1),),
    "asin": ((-0.8, 0.8),), "acos": ((-0.8, 0.8),), "atan": ((-3, 3),),
    "sinh": ((-2, 2),), "cosh": ((-2, 2),), "tanh": ((-2, 2),),
    "asinh": ((-3, 3),), "acosh": ((1.4, 3),), "atanh": ((-0.8, 0.8),),
    "erf": ((-2, 2),), "erfc": ((-2, 2),), "erfinv": ((-0.8, 0.8),),
    "lgamma": ((0.5, 5, -1.7, -1.3),), "digamma": ((0.5, 5, -1.7, -1.3),),
    "sigmoid": ((-4, 4),), "cast": ((-2, 2),),
    "floor": ((0.2, 0.8),), "ceil": ((0.2, 0.8),), "trunc": ((0.2, 0.8),),
    "round": ((0.6, 1.4),),
    "add": ((-2, 2), (-2, 2)), "sub": ((-2, 2), (-2, 2)), "mul": ((-2, 2), (-2, 2)),
    "div": ((-2, 2), (0.4, 2, -2, -0.4)), "floordiv": ((2.2, 2.8), (0.9, 1.1)),
    "mod": ((2.2, 2.8, -2.8, -2.2), (0.9, 1.1)), "fmod": ((2.2, 2.8, -2.8, -2.2), (0.9, 1.1)),
    "pow": ((0.4, 2), (-2, 3)), "atan2": ((0.3, 2, -2, -0.3), (-2, 2)),
    "nextafter": ((0.3, 2), (3, 4)), "xlogy": ((-2, 2), (0.3, 3)), "xlog1py": ((-2, 2), (-0.5, 3)),
    "hypot": ((0.3, 2), (-2, 2)), "copysign": ((0.3, 2, -2, -0.3), (0.3, 2, -2, -0.3)),
    "maximum": ((-2, -0.1), (0.1, 2)), "minimum": ((-2, -0.1), (0.1, 2)),
    "bound_below": ((-2, -0.1, 0.4, 2), (0.1, 0.3)),
    "bound_above": ((-2, -0.1, 0.4, 2), (0.1, 0.3)),
    "fmax": ((0.1, 2), (-2, -0.1)), "fmin": ((-2, -0.1), (0.1, 2)),
    "where": ((), (-2, 2), (-2, 2)), "fma": ((-2, 2), (-2, 2), (-2, 2)),
    "i0": ((-3, 3),), "i0e": ((0.2, 3, -3, -0.2),), "i1": ((0.2, 3, -3, -0.2),),
    "i1e": ((0.2, 3, -3, -0.2),), "bessel_j0": ((-6, 6),), "bessel_j1": ((0.2, 6, -6, -0.2),),
    "bessel_y0": ((0.5, 6),), "bessel_y1": ((0.5, 6),), "modified_bessel_k0": ((0.5, 3),),
    "modified_bessel_k1": ((0.5, 3),), "scaled_modified_bessel_k0": ((0.5, 3),),
    "scaled_modified_bessel_k1": ((0.5, 3),), "erfcx": ((-1, 3),), "ndtri": ((0.1, 0.9),),
    "mantissa": ((1.1, 1.9, -1.9, -1.1),), "exponent": ((0.6, 0.9),),
    "gamma_quantile": ((1.5, 9.0), (0.1, 0.9)),
    "poisson": ((2.05, 2.1), (0.05, 0.1)), "binomial": ((5.05, 5.1), (0.45, 0.46), (0.05, 0.1)),
}  # fmt: skip

#: What is differentiated by its last argument alone, with the others' values.
PARTIAL: dict[str, tuple[float, tuple[float, ...]]] = {
    "igamma": (2.5, (0.5, 4)), "igammac": (0.7, (0.5, 4)), "zeta": (2.5, (0.5, 4)),
}  # fmt: skip

#: What is differentiated once only.
ONCE = {"gamma_quantile"}

#: What gives no floating point number has nothing to differentiate.
DISCRETE = {
    "isnan", "isinf", "isfinite", "signbit", "logical_not", "bitwise_not", "eq", "ne", "lt", "le",
    "gt", "ge", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
    "bitwise_xor", "shift_left", "shift_right", "threefry", "gcd",
    "airy_ai", "gamma_quantile_slope", "chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w",
    "hermite_h", "hermite_he", "laguerre_l", "legendre_p",
    "bitcast",
}  # fmt: skip

#: What takes complex numbers apart or puts them together: tests/tensor/test_complex.py.
OF_PARTS = {"complex", "conj", "imag", "magnitude", "real"}

_functions = pytest.mark.parametrize("fn", list(FUNCTIONS.values()), ids=lambda f: f.name)


def test_every_function_is_covered() -> None:
    sets: list[set[str]] = [set(DOMAINS), set(PARTIAL), DISCRETE, OF_PARTS]
    assert set().union(*sets) == FUNCTIONS.keys()
    assert sum(map(len, sets)) == len(FUNCTIONS)


def _points(bounds: tuple[float, ...], count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if not bounds:
        return rng.integers(0, 2, count).astype(bool)
    halves = [rng.uniform(a, b, count) for a, b in zip(bounds[::2], bounds[1::2])]
    return np.where(np.arange(count) % len(halves), halves[-1], halves[0])


def _apply(fn: ScalarFunction, *nodes: Node) -> Node:
    return ops.apply(fn.name, *nodes, dtype=float64 if fn.name == "cast" else None)


def _smooth(fn: ScalarFunction) -> tuple[Any, list[np.ndarray]]:
    arrays = [_points(b, 6, k) for k, b in enumerate(DOMAINS[fn.name])]
    return (lambda *nodes: _apply(fn, *nodes)), arrays


@_functions
def test_first_order(fn: ScalarFunction) -> None:
    if fn.name in DOMAINS:
        build, arrays = _smooth(fn)
        check_first_order(build, arrays, np.linspace(0.5, 2, 6))


@_functions
def test_second_order(fn: ScalarFunction) -> None:
    if fn.name in DOMAINS and fn.name not in ONCE:
        build, arrays = _smooth(fn)
        check_second_order(build, arrays, np.linspace(2, 0.5, 6))


@pytest.mark.parametrize("name", PARTIAL)
def test_derivative_by_the_last_argument(name: str) -> None:
    first, bounds = PARTIAL[name]

    def build(node: Node) -> Node:
        return ops.apply(name, leaf(np.array(first)), node)

    check_first_order(build, [_points(bounds, 6, 0)], np.linspace(0.5, 2, 6))
    check_second_order(build, [_points(bounds, 6, 0)], np.linspace(2, 0.5, 6))


def _operand_types(fn: ScalarFunction, dtype: DType) -> list[DType]:
    if fn.name == "where":
        return [bool_, dtype, dtype]
    return [dtype] * fn.arity


_EDGES = (0, 1, 2, 3, 7, 100, 127, 128, 250, 255)


def _edge_values(dtype: DType) -> np.ndarray:
    if dtype.kind == "f":
        return np.array([-np.inf, -3.5, -1, -0.0, 0.0, 0.5, 1, 2, 1e30, np.inf, np.nan])
    values = np.array(_EDGES, np.int64)
    return np.concatenate([values, -values]).astype(dtype.compute.numpy)


@_functions
@pytest.mark.parametrize("dtype", ALL, ids=repr)
def test_types_and_edges(fn: ScalarFunction, dtype: DType) -> None:
    """Shape and type are as inferred for every value; what is not taken is refused."""
    types = _operand_types(fn, dtype)
    if fn.name == "threefry":
        types = [uint32, uint32, dtype]
    if dtype.kind not in fn.kinds or (fn.name == "complex" and dtype.is_half):
        with pytest.raises(DTypeError):
            ops.apply(fn.name, *(ops.input_((2,), t) for t in types))
        return
    nodes = []
    for axis, kind in enumerate(types):
        edges = _edge_values(kind)
        shape = [1] * len(types)
        shape[axis] = -1
        nodes.append(leaf(edges.reshape(shape), kind))
    targets: tuple[DType | None, ...] = tuple(ALL) if fn.name == "cast" else (None,)
    if fn.name == "bitcast":
        targets = tuple(t for t in ALL if t.itemsize == dtype.itemsize)
    for target in targets:
        node = ops.apply(fn.name, *nodes, dtype=target)
        found = value(node)
        if dtype.kind in "ui" and node.dtype is dtype and fn.arity == 2:
            value(ops.apply(fn.name, nodes[1], nodes[0]))
        assert found.shape == node.shape


@_functions
@pytest.mark.parametrize("dtype", COMPLEX, ids=repr)
def test_complex_types_and_edges(fn: ScalarFunction, dtype: DType) -> None:
    types = _operand_types(fn, dtype)
    if fn.name == "threefry" or "c" not in fn.kinds:
        with pytest.raises(DTypeError):
            ops.apply(fn.name, *(ops.input_((2,), t) for t in types))
        return
    parts = np.array([-np.inf, -1, -0.0, 0.0, 0.5, 2, np.inf, np.nan], dtype.part.numpy)
    edges = np.empty((len(parts), len(parts)), dtype.numpy)
    edges.real, edges.imag = parts, parts[:, None]
    for target in (float32, dtype) if fn.name == "cast" else (None,):
        node = ops.apply(fn.name, *[_leaf_of(edges, kind) for kind in types], dtype=target)
        found = value(node)
        assert found.shape == node.shape == edges.shape
        assert found.dtype == node.dtype.numpy


def _leaf_of(edges: np.ndarray, kind: DType) -> Node:
    return leaf(edges == edges if kind is bool_ else edges, kind)


def test_integers_never_trap() -> None:
    x = leaf(np.array([-128, 7, -7, 5], np.int8))
    for divisor, quotient in ((0, [0, 0, 0, 0]), (-1, [-128, -7, 7, -5])):
        y = leaf(np.full(4, divisor, np.int8))
        assert value(ops.apply("floordiv", x, y)).tolist() == quotient
        assert value(ops.apply("mod", x, y)).tolist() == [0, 0, 0, 0]
        assert value(ops.apply("fmod", x, y)).tolist() == [0, 0, 0, 0]
    three = leaf(np.full(4, 3, np.int8))
    assert value(ops.apply("mod", x, three)).tolist() == [1, 1, 2, 2]
    assert value(ops.apply("fmod", x, three)).tolist() == [-2, 1, -1, 2]


def test_integer_powers_and_shifts() -> None:
    base = leaf(np.array([2, 1, -1, -1, 0], np.int32))
    power = leaf(np.array([-1, -2, -3, -2, 0], np.int32))
    assert value(ops.apply("pow", base, power)).tolist() == [0, 1, -1, 1, 1]
    x = leaf(np.array([-5, 5, 1], np.int16))
    for count, left, right in (
        (1, [-10, 10, 2], [-3, 2, 0]),
        (16, [0, 0, 0], [-1, 0, 0]),
        (-1, [0, 0, 0], [-1, 0, 0]),
    ):
        n = leaf(np.full(3, count, np.int16))
        assert value(ops.apply("shift_left", x, n)).tolist() == left
        assert value(ops.apply("shift_right", x, n)).tolist() == right


def test_floats_become_integers_by_their_low_bits() -> None:
    x = leaf(np.array([300.7, -1.9, 3e9, -3e9, 2.0**63, 1e30, np.nan]))
    low, low64 = -(2**31), -(2**63)
    expected: dict[DType, list[int]] = {
        uint8: [44, 255, 0, 0, 0, 0, 0],
        int16: [300, -1, 0, 0, 0, 0, 0],
        int32: [300, -1, low, low, low, low, low],
        uint32: [300, 2**32 - 1, 3 * 10**9, 2**32 - 3 * 10**9, 0, 0, 0],
        int64: [300, -1, 3 * 10**9, -3 * 10**9, low64, low64, low64],
        uint64: [300, 2**64 - 1, 3 * 10**9, 2**64 - 3 * 10**9, 2**63, 0, 2**63],
    }
    for dtype, numbers in expected.items():
        assert value(ops.cast(x, dtype)).tolist() == numbers
    assert value(ops.cast(x, bool_)).all()


def _slope(name: str, *arrays: list[Any]) -> list[list[float]]:
    """The gradients of the sum of ``name`` by its floating point arguments."""
    nodes = [leaf(np.array(a)) for a in arrays]
    out = ops.apply(name, *nodes)
    ones = ops.broadcast_to(ops.constant(1, out.dtype), out.shape)
    wanted = [n for n in nodes if n.dtype is float64]
    return [value(g).tolist() for g in vjp([out], [ones], wanted) if g is not None]


def test_gradients_at_kinks() -> None:
    """PyTorch's conventions."""
    assert _slope("abs", [0.0, -2.0]) == [[0, -1]]
    assert _slope("maximum", [1.0, 1.0], [1.0, 3.0]) == [[0.5, 0], [0.5, 1]]
    assert _slope("minimum", [1.0, 1.0], [1.0, 3.0]) == [[0.5, 1], [0.5, 0]]
    assert _slope("fmax", [1.0, np.nan], [1.0, 3.0]) == [[1, 0], [0, 1]]
    assert _slope("atan2", [0.0], [0.0]) == [[0], [0]]
    assert _slope("sqrt", [0.0]) == [[np.inf]]
    assert _slope("pow", [0.0, 0.0, 2.0], [0.0, 2.0, 0.0]) == [[0, 0, 0], [0, 0, np.log(2.0)]]
    assert _slope("where", [True, False], [1.0, 2.0], [3.0, 4.0]) == [[1, 0], [0, 1]]
    assert _slope("copysign", [0.0, 2.0], [-1.0, -1.0]) == [[0, -1], [0, 0]]
    assert _slope("round", [0.4, 2.5]) == [[0, 0]]


def test_fused_steps_are_rounded_once_whatever_their_size() -> None:
    big, tiny = np.finfo(np.float64).max, 5e-324
    x = leaf(np.array([big, -big, big, tiny, -tiny, 3.0]))
    y = leaf(np.array([big, big, 1.0, 0.25, 0.25, 1 / 3]))
    z = leaf(np.array([1.0, 1.0, big / 2, 0.0, 0.0, -1.0]))
    found = value(ops.apply("fma", x, y, z))
    assert found.tolist() == [np.inf, -np.inf, np.inf, 0.0, -0.0, -(2.0**-54)]
    assert np.signbit(found).tolist() == [False, True, False, False, True, True]


def test_masks_hide_infinite_cotangents() -> None:
    """A branch that was not chosen gets 0, whatever its cotangent would have been."""
    x, y = leaf(np.array([0.0, 1.0])), leaf(np.array([1.0, 1.0]))
    chosen = ops.apply("where", leaf(np.array([False, True])), x, y)
    (slope,) = vjp([chosen], [leaf(np.array([np.inf, 2.0]))], [x])
    assert slope is not None and value(slope).tolist() == [0, 2]


def test_random_words_match_the_published_ones() -> None:
    """Known answers of Threefry-2x32-20 from the Random123 distribution."""
    for key, counter, word in (
        ((0, 0), 0, 0x6B200159),
        ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFFFFFFFFFF, 0x1CB996FC),
        ((0x13198A2E, 0x03707344), 0x85A308D3243F6A88, 0xC4923A9C),
    ):
        k0, k1 = (leaf(np.array(k, np.uint32)) for k in key)
        at = leaf(np.array(counter, np.uint64).astype(np.int64))
        assert int(value(ops.apply("threefry", k0, k1, at))) == word


def test_functions_without_gradient_say_why() -> None:
    from lazyt.ir.scalar import arg, call
    from lazyt.ops.pointwise import gradients

    for name in DISCRETE:
        assert "gradient" in FUNCTIONS[name].reason
    # A discrete call inside an expression is never differentiated through.
    mask = call("cast", call("gt", arg(0, float32), arg(1, float32)), dtype=float32)
    assert gradients(mask, 2) == (None, None)
    bad = ScalarFunction("odd", 1, np.negative, None, reason="it is odd")
    with pytest.raises(GradientError, match="it is odd"):
        gradients(call(bad, arg(0, float32)), 1)


@pytest.mark.parametrize("dtype", [float32, float64], ids=repr)
def test_powers_are_exact_also_in_the_interpreter(dtype: DType) -> None:
    """Whoever rounds a logarithm down counts digits."""
    tens = range(-37, 39) if dtype is float32 else range(-300, 300)
    twos = np.arange(-126 if dtype is float32 else -1022, 128 if dtype is float32 else 1024)
    powers = np.array([float(f"1e{power}") for power in tens], dtype.numpy)
    assert [*FUNCTIONS["log10"].evaluate(powers)] == [*tens]
    exact = np.ldexp(np.ones(1, dtype.numpy), twos)
    assert [*FUNCTIONS["exp2"].evaluate(twos.astype(dtype.numpy))] == [*exact]
    assert [*FUNCTIONS["log2"].evaluate(exact)] == [*twos]
