"""The array API namespace against NumPy's, which keeps to the same standard."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.array_api import elementwise
from lazyt.config import config

xp: Any = lt.array_api
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float32", "float64"]
NUMERIC = INTEGERS + FLOATS
chance = np.random.default_rng(7)
_BEGIN = chance.bit_generator.state


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # What is tested is which functions are called; the kernels have tests of their own.
    monkeypatch.setattr(config, "interpret", True)
    chance.bit_generator.state = _BEGIN  # every test sees the same numbers, in any order
    with np.errstate(all="ignore"):
        yield


def values(dtype: str, shape: tuple[int, ...] = (3, 4)) -> Any:
    """Numbers of a type; floats with infinities, NaN and zeros of both signs."""
    if dtype == "bool":
        return chance.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        return chance.integers(0 if dtype[0] == "u" else -20, 20, shape).astype(dtype)
    some = [0.0, -0.0, 1, -1, 2.5, -2.5, 3.5, 0.5, np.nan, np.inf, -np.inf, 1e-3, 100.7]
    return chance.choice(np.array(some), shape).astype(dtype)


def same(found: Any, wanted: Any) -> None:
    """Shape, type and values are equal; zeros have one sign."""
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted):
            same(one, other)
        return
    given, right = found.numpy(), np.asarray(wanted)
    assert (given.dtype, given.shape) == (right.dtype, right.shape)
    if right.dtype.kind != "f":
        np.testing.assert_array_equal(given, right)
        return
    close = 1e-5 if right.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(given, right, rtol=close, atol=close)
    zero = (given == 0) & (right == 0)
    np.testing.assert_array_equal(np.signbit(given)[zero], np.signbit(right)[zero])


def tensor(array: Any) -> Any:
    return lt.from_numpy(np.array(array))


UNARY = {
    "bitwise_invert": ["bool", *INTEGERS], "logical_not": ["bool"], "conj": [], "imag": [],
    "real": [], "negative": [*INTEGERS[:4], *FLOATS], "signbit": FLOATS,
}  # fmt: skip
for _name in (
    "abs", "ceil", "floor", "trunc", "round", "positive", "sign", "square", "isfinite", "isinf",
    "isnan",
):  # fmt: skip
    UNARY[_name] = NUMERIC
BINARY = {
    "bitwise_left_shift": INTEGERS, "bitwise_right_shift": INTEGERS,
    "equal": ["bool", *NUMERIC], "not_equal": ["bool", *NUMERIC],
}  # fmt: skip
for _name in ("and", "or", "xor"):
    BINARY |= {f"bitwise_{_name}": ["bool", *INTEGERS], f"logical_{_name}": ["bool"]}
for _name in (
    "add", "subtract", "multiply", "floor_divide", "remainder", "pow", "less", "less_equal",
    "greater", "greater_equal", "maximum", "minimum",
):  # fmt: skip
    BINARY[_name] = NUMERIC


def mix(first: str, second: str) -> bool:
    """Whether the standard says what the two types give together."""
    kinds = {np.dtype(first).kind.replace("u", "i"), np.dtype(second).kind.replace("u", "i")}
    return len(kinds) == 1 and np.result_type(first, second).kind in "biu" + "f" * ("f" in kinds)


@pytest.mark.parametrize("name", sorted({*elementwise._UNARY, "sign"}))
def test_functions_of_one_array(name: str) -> None:
    function, reference = getattr(xp, name), getattr(np, name)
    for dtype in UNARY.get(name, FLOATS):
        array = values(dtype)
        for part in (array, array[0, 0].reshape(()), array[:0]):
            same(function(tensor(part)), reference(part))


COMPLEX = ["complex64", "complex128"]


def numbers(dtype: str, *shape: int) -> Any:
    """Finite numbers, complex or not."""
    array = chance.normal(size=shape)
    if dtype in COMPLEX:
        array = array + 1j * chance.normal(size=shape)
    return array.astype(dtype)


def close(found: Any, wanted: Any) -> None:
    """Shape and type are the same, values nearly."""
    given, right = found.resolve_conj().numpy(), np.asarray(wanted)
    assert (given.dtype, given.shape) == (right.dtype, right.shape)
    near = 1e-4 if right.dtype in (np.float32, np.complex64) else 1e-10
    np.testing.assert_allclose(given, right, rtol=near, atol=near)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_arrays(dtype: str) -> None:
    a, b = numbers(dtype, 3, 4), numbers(dtype, 3, 4)
    x, y = tensor(a), tensor(b)
    for name in ("exp", "sin", "cosh", "tanh", "log", "sqrt", "square", "reciprocal", "conj",
                 "real", "imag", "abs", "negative", "sign", "acos", "expm1"):  # fmt: skip
        close(getattr(xp, name)(x), getattr(np, name)(a))
    for name in ("add", "subtract", "multiply", "divide", "equal", "not_equal", "pow"):
        close(getattr(xp, name)(x, y), getattr(np, name)(a, b))
    close(xp.multiply(x, 2.5j), a * 2.5j)
    for name in ("sum", "prod", "mean"):
        close(getattr(xp, name)(x, axis=1), getattr(np, name)(a, axis=1))
    assert xp.sum(x).dtype == x.dtype
    close(xp.cumulative_sum(x, axis=0), np.cumulative_sum(a, axis=0))
    close(xp.vecdot(x, y), np.vecdot(a, b))
    close(xp.matmul(x, y.mT), a @ b.T)
    close(xp.linalg.vector_norm(x), np.linalg.vector_norm(a))
    close(xp.linalg.solve(x[:, :3], y), np.linalg.solve(a[:, :3], b))


def test_complex_types() -> None:
    assert xp.isdtype(xp.complex64, "complex floating")
    assert xp.isdtype(xp.complex128, "numeric")
    assert not xp.isdtype(xp.complex64, "real floating")
    assert xp.result_type(xp.float64, xp.complex64) == xp.complex128
    assert xp.finfo(xp.complex64).dtype == xp.float32
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["complex floating"] == xp.complex64
    assert info.dtypes(kind="complex floating") == {
        "complex64": xp.complex64, "complex128": xp.complex128,
    }  # fmt: skip
    assert xp.astype(xp.asarray([1.5]), xp.complex128).dtype == xp.complex128
    assert xp.asarray([1 + 2j]).dtype == xp.complex64


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms_along_an_axis(name: str) -> None:
    real = name in ("rfft", "ihfft")
    for dtype in ("float64", "float32") if real else COMPLEX:
        array = numbers(dtype, 3, 6)
        for named in ({}, {"n": 4}, {"n": 9}, {"axis": 0}, {"norm": "ortho"}, {"norm": "forward"}):
            found = getattr(xp.fft, name)(tensor(array), **named)
            close(found, getattr(np.fft, name)(array, **named))


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_transforms_along_several_axes(name: str) -> None:
    array = numbers("float64" if name == "rfftn" else "complex128", 2, 3, 4)
    some: tuple[dict[str, Any], ...] = (
        {}, {"axes": (0, 2)}, {"s": (4, 5), "axes": (1, 2)}, {"norm": "ortho"},
    )  # fmt: skip
    for named in some:
        found = getattr(xp.fft, name)(tensor(array), **named)
        close(found, getattr(np.fft, name)(array, **named))


def test_frequencies() -> None:
    for n in (1, 4, 5):
        close(xp.fft.fftfreq(n, d=0.5, dtype=xp.float64), np.fft.fftfreq(n, 0.5))
        close(xp.fft.rfftfreq(n, d=0.5, dtype=xp.float64), np.fft.rfftfreq(n, 0.5))
    array = numbers("float64", 3, 4)
    for axes in (None, 0, (0, 1)):
        close(xp.fft.fftshift(tensor(array), axes=axes), np.fft.fftshift(array, axes))
        close(xp.fft.ifftshift(tensor(array), axes=axes), np.fft.ifftshift(array, axes))
    assert xp.fft.fftfreq(4).dtype == xp.float32


def test_transforms_refuse() -> None:
    x = xp.ones((4,))
    with pytest.raises(ValueError, match="backward, ortho or forward"):
        xp.fft.fft(x, norm="both")
    with pytest.raises(TypeError, match="real floating point"):
        xp.fft.rfft(xp.ones((4,), dtype=xp.complex64))
    with pytest.raises(TypeError, match="floating point arrays"):
        xp.fft.fft(xp.ones((4,), dtype=xp.int64))
    with pytest.raises(TypeError, match="real floating point type"):
        xp.fft.fftfreq(4, dtype=xp.complex64)
    with pytest.raises(IndexError):
        xp.fft.fft(x, axis=1)


def test_diagonals_far_away() -> None:
    for k in (-(2**63) - 1, -3, -2, 0, 3, 4, 2**70):
        wanted = np.eye(3, 4, k=max(-9, min(k, 9)))
        np.testing.assert_array_equal(xp.eye(3, 4, k=k).numpy(), wanted)


def test_repeats_in_small_integers() -> None:
    found = xp.repeat(xp.asarray([1, 2]), xp.asarray([0, 3], dtype=xp.int8))
    assert found.tolist() == [2, 2, 2]


def floor_divide(a: Any, b: Any) -> Any:
    """As the standard has it: of an infinity by a number an infinity, where NumPy gives NaN, and of
    a number by an infinity zero."""
    found = np.floor_divide(a, b)
    if found.dtype.kind != "f":
        return found
    one_infinite = np.isinf(a) != np.isinf(b)
    one_infinite &= ~np.isnan(a) & ~np.isnan(b)
    return np.where(one_infinite, np.divide(a, b), found).astype(found.dtype)


@pytest.mark.parametrize("name", sorted({*elementwise._BINARY, "floor_divide", "remainder"}))
def test_functions_of_two_arrays(name: str) -> None:
    function = getattr(xp, name)
    reference = floor_divide if name == "floor_divide" else getattr(np, name)
    kinds = BINARY.get(name, FLOATS)
    for first in kinds:
        for second in kinds:
            a, b = values(first), values(second)
            if not mix(first, second):
                continue
            if name in ("maximum", "minimum"):  # which zero is larger is left open
                a, b = a + a.dtype.type(0), b + b.dtype.type(0)
            if b.dtype.kind in "iu" and name in ("floor_divide", "remainder"):
                b[b == 0] = 3
            if b.dtype.kind in "iu" and (name == "pow" or "shift" in name):
                b = (np.abs(b.astype(np.int64)) % 4).astype(second)
            same(function(tensor(a), tensor(b)), reference(a, b))
            same(function(tensor(a), tensor(b[0])), reference(a, b[0]))
        number = {"b": True, "f": 2.5}.get(np.dtype(first).kind, 2)
        a = values(first)
        same(function(tensor(a), number), reference(a, number))


@pytest.mark.parametrize("dtype", ["bool", *NUMERIC])
def test_reductions(dtype: str) -> None:
    array = values(dtype, (2, 3, 4))
    if dtype in FLOATS:
        array = chance.normal(size=(2, 3, 4)).astype(dtype)
    x = tensor(array)
    names = ["all", "any", "count_nonzero"]
    names += [] if dtype == "bool" else ["sum", "prod", "max", "min"]
    names += ["mean", "std", "var"] if dtype in FLOATS else []
    for name in names:
        for axis in (None, 0, -1, (0, 2), (0, 1, 2)):
            for keep in (False, True):
                found = getattr(xp, name)(x, axis=axis, keepdims=keep)
                same(found, getattr(np, name)(array, axis=axis, keepdims=keep))
    if dtype == "bool":
        return
    for axis in (None, 1):
        for name in ("argmax", "argmin"):
            found = getattr(xp, name)(x, axis=axis, keepdims=True)
            same(found, getattr(np, name)(array, axis=axis, keepdims=True))
    for initial in (False, True):
        found = xp.cumulative_sum(x, axis=1, include_initial=initial)
        same(found, np.cumulative_sum(array, axis=1, include_initial=initial))
        found = xp.cumulative_prod(x, axis=-1, include_initial=initial)
        same(found, np.cumulative_prod(array, axis=-1, include_initial=initial))


@pytest.mark.parametrize("dtype", NUMERIC)
def test_orders_and_sets(dtype: str) -> None:
    array = values(dtype, (3, 5)) + np.zeros((), dtype)  # which zero comes first is left open
    x = tensor(array)
    for axis in (0, -1):
        same(xp.sort(x, axis=axis), np.sort(array, axis=axis))
        same(xp.argsort(x, axis=axis), np.argsort(array, axis=axis, stable=True))
        falling = xp.sort(x, axis=axis, descending=True)
        np.testing.assert_array_equal(
            np.sort(falling.numpy(), axis=axis), np.sort(array, axis=axis)
        )
    same(xp.nonzero(x), np.nonzero(array))
    same([*xp.unique_all(x)], [*np.unique_all(array)])
    same([*xp.unique_counts(x)], [*np.unique_counts(array)])
    same([*xp.unique_inverse(x)], [*np.unique_inverse(array)])
    same(xp.unique_values(x), np.sort(np.unique_values(array)))
    plain = np.sort(np.nan_to_num(array).reshape(-1))
    for side in ("left", "right"):
        found = xp.searchsorted(tensor(plain), x, side=side)
        same(found, np.searchsorted(plain, array, side=side))
    same(xp.where(tensor(array > 0), x, 0), np.where(array > 0, array, np.array(0, dtype)))
    same(xp.clip(x, 1, 5), np.clip(array, np.array(1, dtype), np.array(5, dtype)))


def test_shapes_and_places() -> None:
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    x = tensor(array)
    for axis in (0, -1, None):
        same(xp.flip(x, axis=axis), np.flip(array, axis=axis))
        same(xp.roll(x, 5, axis=axis), np.roll(array, 5, axis=axis))
        same(xp.concat([x, x], axis=axis), np.concat([array, array], axis=axis))
        same(xp.repeat(x, 2, axis=axis), np.repeat(array, 2, axis=axis))
    same(xp.stack([x, x], axis=1), np.stack([array, array], axis=1))
    same(xp.unstack(x, axis=1), np.unstack(array, axis=1))
    same(xp.expand_dims(x, axis=1), np.expand_dims(array, 1))
    same(xp.squeeze(x[:1], 0), array[0])
    same(xp.permute_dims(x, (2, 0, 1)), np.permute_dims(array, (2, 0, 1)))
    same(xp.moveaxis(x, 0, -1), np.moveaxis(array, 0, -1))
    same(xp.tile(x, (2, 1, 1, 2)), np.tile(array, (2, 1, 1, 2)))
    same(xp.broadcast_to(x[0], (5, 3, 4)), np.broadcast_to(array[0], (5, 3, 4)))
    same(xp.broadcast_arrays(x, x[0, 0]), np.broadcast_arrays(array, array[0, 0]))
    same(xp.take(x, lt.tensor([1, -1]), axis=2), np.take(array, [1, -1], axis=2))
    index = chance.integers(-3, 3, (2, 3, 4))
    same(xp.take_along_axis(x, tensor(index), axis=1), np.take_along_axis(array, index, axis=1))
    same(xp.reshape(x, (-1, 2)), array.reshape(-1, 2))
    assert xp.reshape(x, (24,), copy=False).data_ptr() == x.data_ptr()
    assert xp.reshape(x, (24,), copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError, match="copy=False"):
        xp.reshape(x.mT, (24,), copy=False)
    with pytest.raises(ValueError, match="cannot be squeezed"):
        xp.squeeze(x, 0)


def test_creation() -> None:
    for arguments in ((5,), (1, 5), (5, 1), (5, 1, -2), (0, 1, 0.25), (0, 0), (-3,)):
        wanted = np.arange(*arguments)
        same(
            xp.arange(*arguments), wanted.astype(np.float32) if wanted.dtype.kind == "f" else wanted
        )
    for name in ["bool", *NUMERIC]:
        dtype = getattr(xp, name)
        same(xp.eye(3, 4, k=-1, dtype=dtype), np.eye(3, 4, k=-1, dtype=name))
        same(xp.full((2,), 1, dtype=dtype), np.full((2,), 1, dtype=name))
        same(xp.zeros_like(xp.ones(2, dtype=dtype)), np.zeros(2, dtype=name))
    same(xp.linspace(0, 5, 4, endpoint=False), np.linspace(0, 5, 4, endpoint=False, dtype="f4"))
    a, b = np.arange(3), np.arange(2)
    for order in ("xy", "ij"):
        found = xp.meshgrid(tensor(a), tensor(b), indexing=order)
        same(found, np.meshgrid(a, b, indexing=order))
    assert [xp.asarray(v).dtype for v in (True, 1, 1.0)] == [xp.bool, xp.int64, xp.float32]


def test_types() -> None:
    for first in NUMERIC:
        for second in NUMERIC:
            one, other = getattr(xp, first), getattr(xp, second)
            wanted = np.result_type(first, second)
            if np.dtype(first).kind == "f" or np.dtype(second).kind == "f":
                continue
            if wanted.kind == "f":
                with pytest.raises(TypeError, match="no type that holds both"):
                    xp.result_type(one, other)
                assert not xp.can_cast(one, other)
            else:
                assert xp.result_type(one, other).name == wanted.name
                assert xp.can_cast(one, other) == np.can_cast(first, second)
    assert xp.result_type(lt.ones(2), 1, xp.float64) is xp.float64
    assert xp.isdtype(xp.uint8, ("signed integer", "unsigned integer"))
    assert not xp.isdtype(xp.bool, "numeric")
    with pytest.raises(ValueError, match="no kind 'float'"):
        xp.isdtype(xp.bool, "float")
    assert (xp.finfo(xp.float32).eps, xp.iinfo(lt.arange(1)).max) == (2.0**-23, 2**63 - 1)
    x = lt.arange(3)
    assert xp.astype(x, xp.int64, copy=False) is x
    assert xp.astype(x, xp.float32).dtype is xp.float32


def test_linear_algebra() -> None:
    m = chance.normal(size=(2, 3, 3))
    m = m @ m.transpose(0, 2, 1) + np.eye(3)
    x = tensor(m)
    for name in ("det", "inv", "cholesky", "eigvalsh", "svdvals", "pinv", "matrix_rank", "slogdet"):
        wanted = getattr(np.linalg, name)(m)
        same(getattr(xp.linalg, name)(x), tuple(wanted) if name == "slogdet" else wanted)
    rows, row = chance.normal(size=(2, 3, 2)), chance.normal(size=3)
    same(xp.linalg.solve(x, tensor(rows)), np.linalg.solve(m, rows))
    same(xp.linalg.solve(x, tensor(row)), np.linalg.solve(m, row))
    for norm in ("fro", "nuc", 1, 2, np.inf):
        same(xp.linalg.matrix_norm(x, ord=norm), np.linalg.matrix_norm(m, ord=norm))
    same(xp.linalg.vector_norm(x, axis=(0, 1), ord=3), np.linalg.vector_norm(m, axis=(0, 1), ord=3))
    same(xp.linalg.trace(x, offset=1), np.linalg.trace(m, offset=1))
    q, r = xp.linalg.qr(x)
    u, s, vh = xp.linalg.svd(x)
    w, v = xp.linalg.eigh(x)
    same([q @ r, (u * s[:, None, :]) @ vh, (v * w[:, None, :]) @ v.mT], [m, m, m])
    same(xp.vecdot(x, tensor(row), axis=-1), np.vecdot(m, row))
    same(xp.tensordot(x, x, axes=((0, 1), (0, 1))), np.tensordot(m, m, axes=((0, 1), (0, 1))))
    same(xp.linalg.cross(x, x.mT[:, :1]), np.linalg.cross(m, m.mT[:, :1]))
    same(xp.linalg.outer(tensor(row), tensor(row)), np.linalg.outer(row, row))
    same(
        xp.matmul(lt.ones(2, 3, dtype=lt.int8), lt.ones(3, 2, dtype=lt.int16)),
        np.full((2, 2), 3, "i2"),
    )


def test_the_namespace() -> None:
    x = lt.arange(3.0)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12").__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match="no version '2019"):
        x.__array_namespace__(api_version="2019.01")
    assert x.to_device("cpu") is x
    assert operator.matmul(x, x).item() == 5
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] is lt.float32
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {"bool", *INTEGERS[4:]}
    assert info.devices() == [info.default_device()] == [x.device]
    assert info.capabilities()["boolean indexing"]
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (np.e, np.pi, np.inf, None)
    for name in (*elementwise.__all__, "concat", "sum", "arange"):
        assert getattr(xp, name).__doc__
        first = next(iter(inspect.signature(getattr(xp, name)).parameters.values()))
        assert first.kind is inspect.Parameter.POSITIONAL_ONLY
