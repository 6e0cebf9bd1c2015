"""Fourier transforms against NumPy's, which computes in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.functional.fourier import tables
from lazyt.ir.fourier.tables import circle

#: Of one point and a few, of powers, of small and large primes, and of products of them.
LENGTHS = [1, 2, 3, 5, 8, 12, 31, 32, 33, 61, 64, 67, 97, 134, 243, 1000, 1009, 1024]
ALONG_ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
ALONG_SEVERAL = ["fftn", "ifftn", "rfftn", "irfftn"]
ALONG_TWO = ["fft2", "ifft2", "rfft2", "irfft2"]
OF_REALS = ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn")
Array = np.ndarray[Any, Any]


def points(name: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Random points of the kind that a function takes, in float64."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return x if name in OF_REALS else x + 1j * rng.standard_normal(shape)


def ours(name: str) -> Callable[..., lazyt.Tensor]:
    found: Callable[..., lazyt.Tensor] = getattr(lazyt.fft, name)
    return found


def check(found: lazyt.Tensor, expected: Array, units: float = 12.0) -> None:
    """Compare within units in the last place of the largest number."""
    assert tuple(found.shape) == expected.shape
    values = found.detach().numpy()
    assert values.dtype.kind == expected.dtype.kind
    largest = np.abs(expected).max(initial=0.0)
    error = np.abs(values - expected).max(initial=0.0)
    assert error <= units * np.finfo(values.dtype).eps * largest


@pytest.mark.parametrize("name", ALONG_ONE)
@pytest.mark.parametrize("n", LENGTHS)
def test_every_length_agrees_with_numpy(name: str, n: int) -> None:
    halved = name in ("irfft", "hfft")
    x = points(name, (2, n // 2 + 1 if halved else n))
    kwargs: dict[str, Any] = {"n": n} if halved else {}
    expected = getattr(np.fft, name)(x, **kwargs)
    check(ours(name)(lazyt.tensor(x), **kwargs), expected)
    narrow = x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)
    found = ours(name)(lazyt.tensor(narrow), **kwargs)
    assert found.dtype in (lazyt.float32, lazyt.complex64)
    check(found, getattr(np.fft, name)(narrow.astype(x.dtype), **kwargs))


@pytest.mark.parametrize("norm", [None, "backward", "forward", "ortho"])
@pytest.mark.parametrize("name", ALONG_ONE)
def test_sizes_dimensions_and_norms_along_one_dimension(name: str, norm: str | None) -> None:
    x = points(name, (6, 5, 4))
    for n in (None, 3, 9):
        for dim in (0, -1):
            expected = getattr(np.fft, name)(x, n, dim, norm)
            check(ours(name)(lazyt.tensor(x), n, dim, norm), expected)


@pytest.mark.parametrize("norm", [None, "forward", "ortho"])
@pytest.mark.parametrize("name", ALONG_SEVERAL + ALONG_TWO)
def test_sizes_dimensions_and_norms_along_several(name: str, norm: str | None) -> None:
    x = points(name, (3, 4, 5))
    cases: list[dict[str, Any]] = [
        {}, {"dim": (0, 2)}, {"dim": (2, 0)}, {"s": (4, 3), "dim": (0, 1)}, {"s": (6, 7)},
    ]  # fmt: skip
    for case in cases:
        named = {"axes" if key == "dim" else key: value for key, value in case.items()}
        if "s" in named and "axes" not in named:
            named["axes"] = (-2, -1)
        expected = getattr(np.fft, name)(x, norm=norm, **named)
        check(ours(name)(lazyt.tensor(x), norm=norm, **case), expected)


@pytest.mark.parametrize("norm", [None, "forward", "ortho"])
def test_hermitian_signals_of_several_dimensions(norm: str | None) -> None:
    x = lazyt.tensor(points("hfftn", (4, 3, 5)))
    opposite = {None: "forward", "forward": "backward", "ortho": "ortho"}[norm]
    there = lazyt.fft.hfftn(x, dim=(0, 2), norm=norm)
    check(there, lazyt.fft.irfftn(x.conj(), dim=(0, 2), norm=opposite).numpy())
    back = lazyt.fft.ihfftn(there, dim=(0, 2), norm=norm)
    check(lazyt.fft.hfftn(back, dim=(0, 2), norm=norm), there.numpy(), 20)
    check(lazyt.fft.hfft2(x, norm=norm), lazyt.fft.hfftn(x, dim=(-2, -1), norm=norm).numpy())
    real = there.real
    check(lazyt.fft.ihfft2(real), lazyt.fft.ihfftn(real, dim=(1, 2)).numpy())


def test_whole_numbers_count_as_the_default_dtype() -> None:
    whole = lazyt.arange(10)
    assert lazyt.fft.fft(whole).dtype is lazyt.complex64
    assert lazyt.fft.irfft(whole).dtype is lazyt.float32
    check(lazyt.fft.rfft(whole > 3), np.fft.rfft(np.arange(10) > 3))
    lazyt.set_default_dtype(lazyt.float64)
    try:
        assert lazyt.fft.rfft(whole).dtype is lazyt.complex128
    finally:
        lazyt.set_default_dtype(lazyt.float32)


def test_views_and_conjugates() -> None:
    x = points("fft", (6, 8, 5))
    t = lazyt.tensor(x)
    check(lazyt.fft.fft(t.permute(2, 0, 1)[:, ::2]), np.fft.fft(x.transpose(2, 0, 1)[:, ::2]))
    check(lazyt.fft.fft(t.conj(), dim=0), np.fft.fft(x.conj(), axis=0))
    check(lazyt.fft.rfft(t.imag), np.fft.rfft(x.imag))
    assert lazyt.fft.fft(t.permute(2, 0, 1)).is_contiguous()


def test_imaginary_parts_that_do_not_count() -> None:
    for n in (8, 9, 64, 75):
        x = points("irfft", (n // 2 + 1,))
        check(lazyt.fft.irfft(lazyt.tensor(x), n), np.fft.irfft(x, n))
        moved = x.copy()
        moved[0] += 5j
        if n % 2 == 0:
            moved[-1] -= 7j
        again = lazyt.fft.irfft(lazyt.tensor(moved), n)
        assert np.array_equal(again.numpy(), lazyt.fft.irfft(lazyt.tensor(x), n).numpy())


@pytest.mark.parametrize("n", [7, 36, 67])
@pytest.mark.parametrize("name", ALONG_ONE)
def test_gradients(name: str, n: int) -> None:
    halved = name in ("irfft", "hfft")
    x = lazyt.tensor(points(name, (n // 2 + 1 if halved else n,)), requires_grad=True)
    n_given = n if halved else n - 2
    weight = lazyt.tensor(points(name, tuple(ours(name)(x, n_given).shape), 1))

    def loss(t: lazyt.Tensor) -> lazyt.Tensor:
        found = ours(name)(t, n_given, norm="ortho") * weight
        return (found.abs() ** 2).sum()

    assert lazyt.autograd.gradcheck(loss, x, fast_mode=True)


def test_gradients_along_several_dimensions_and_of_gradients() -> None:
    for name in ("fftn", "irfftn", "hfft2", "rfft2"):
        x = lazyt.tensor(points(name, (2, 3)), requires_grad=True)
        assert lazyt.autograd.gradcheck(ours(name), x, fast_mode=True)
    x = lazyt.tensor(points("rfft", (4,)), requires_grad=True)
    assert lazyt.autograd.gradgradcheck(lambda t: lazyt.fft.rfft(t).abs().sum(), x)


def test_the_gradient_is_the_transform_backwards() -> None:
    x = lazyt.tensor(points("fft", (40,)), requires_grad=True)
    given = points("fft", (40,), 1)
    lazyt.fft.fft(x).backward(lazyt.tensor(given))
    assert x.grad is not None
    check(x.grad, np.fft.ifft(given, norm="forward"))


def test_batches_by_vmap_and_captured_functions() -> None:
    x = points("fft", (3, 2, 36))
    batched = lazyt.vmap(lambda t: lazyt.fft.fft2(t).abs())(lazyt.tensor(x))
    check(batched, np.abs(np.fft.fft2(x)), 20)
    spectrum = lazyt.jit(lambda t: lazyt.fft.rfft(t).abs())
    for seed in range(3):
        y = points("rfft", (2, 36), seed)
        check(spectrum(lazyt.tensor(y)), np.abs(np.fft.rfft(y)), 20)


def test_the_interpreter_and_one_operation_at_a_time() -> None:
    x = lazyt.tensor(points("fft", (2, 96)).astype(np.complex64))
    fused = (lazyt.fft.fft(x) * 2).abs().tolist()
    with lazyt.config.override(eager=True):
        assert (lazyt.fft.fft(x) * 2).abs().tolist() == fused


def test_outputs_are_written() -> None:
    x = points("fft", (4, 6)).astype(np.complex64)
    out = lazyt.empty(4, 6, dtype=lazyt.complex128)
    assert lazyt.fft.fft(lazyt.tensor(x), out=out) is out
    check(lazyt.fft.fft(lazyt.tensor(x)), out.numpy())
    real = lazyt.empty(4, 10)
    assert lazyt.fft.irfft(lazyt.tensor(x), out=real) is real
    check(real, np.fft.irfft(x.astype(np.complex128)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        small = lazyt.empty(3, dtype=lazyt.complex64)
        lazyt.fft.fft2(lazyt.tensor(x), out=small)
    assert "resized" in str(said[0].message)
    assert tuple(small.shape) == (4, 6)


def test_frequencies_and_their_order() -> None:
    for n in (0, 1, 2, 5, 8):
        if n:
            check(lazyt.fft.fftfreq(n, 0.1, dtype=lazyt.float64), np.fft.fftfreq(n, 0.1))
            check(lazyt.fft.rfftfreq(n, 3, dtype=lazyt.float64), np.fft.rfftfreq(n, 3))
        x = points("fft", (n, 3))
        for dim in (None, 0, (0, 1)):
            t = lazyt.tensor(x)
            check(lazyt.fft.fftshift(t, dim), np.fft.fftshift(x, dim), 0)
            check(lazyt.fft.ifftshift(t, dim), np.fft.ifftshift(x, dim), 0)
    assert lazyt.fft.fftfreq(0).tolist() == []
    assert lazyt.fft.fftfreq(5).dtype is lazyt.float32
    assert lazyt.fft.fftfreq(5, requires_grad=True).requires_grad
    out = lazyt.empty(0, dtype=lazyt.float64)
    assert lazyt.fft.rfftfreq(5, out=out) is out
    assert tuple(out.shape) == (3,)


X, Z = lazyt.ones(4, 6), lazyt.ones(4, 6, dtype=lazyt.complex64)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: lazyt.fft.fft(lazyt.tensor(1.0)), IndexError, "tensor has no dimensions"),
        (lambda: lazyt.fft.fft(lazyt.ones(0)), RuntimeError, r"data points \(0\) specified"),
        (lambda: lazyt.fft.irfft(Z[:, :1]), RuntimeError, r"data points \(0\) specified"),
        (lambda: lazyt.fft.fft(X, n=-2), RuntimeError, r"data points \(-2\) specified"),
        (lambda: lazyt.fft.fft(X, dim=2), IndexError, r"range of \[-2, 1\], but got 2"),
        (lambda: lazyt.fft.fft(X, norm="no"), RuntimeError, 'normalization mode: "no"'),
        (lambda: ours("fft")(X, n=2.0), TypeError, r"fft_fft\(\): argument 'n'"),
        (lambda: ours("fft")([1.0]), TypeError, "must be Tensor, not list"),
        (lambda: lazyt.fft.fft(X.half()), RuntimeError, "Unsupported dtype Half"),
        (lambda: lazyt.fft.rfft(Z), RuntimeError, "rfft expects a real input tensor, but got Com"),
        (lambda: lazyt.fft.rfft2(Z), RuntimeError, "rfftn expects a real-valued input tensor"),
        (lambda: lazyt.fft.ihfft2(Z), RuntimeError, "floating-point dtypes, but found: Complex"),
        (lambda: lazyt.fft.fft2(X, dim=(0, 0)), RuntimeError, "FFT dims must be unique"),
        (lambda: lazyt.fft.fft2(X, s=(2,)), RuntimeError, "must have the same length"),
        (lambda: lazyt.fft.fft2(X, 3), RuntimeError, "must have the same length"),
        (lambda: lazyt.fft.fftn(X, s=(2, 3, 4)), RuntimeError, "Got shape with 3 values"),
        (lambda: lazyt.fft.rfftn(X, dim=()), RuntimeError, "rfftn must transform at least one"),
        (lambda: lazyt.fft.hfftn(X, dim=()), RuntimeError, "hfftn must transform at least one"),
        (lambda: lazyt.fft.fft(X, out=lazyt.empty(0)), RuntimeError, "fft expects a complex out"),
        (lambda: lazyt.fft.irfft(Z, out=Z), RuntimeError, "irfft expects a floating point output"),
        (lambda: lazyt.fft.fftfreq(-1), RuntimeError, "negative dimension -1"),
        (lambda: lazyt.fft.fftfreq(3, dtype=lazyt.int64), RuntimeError, "requires a floating"),
        (lambda: lazyt.fft.fftshift(X, 3), IndexError, "but got 3"),
        (lambda: lazyt.fft.fftshift(lazyt.tensor(1.0)), RuntimeError, "`shifts` required"),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(
    call: Callable[[], Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        call()


def test_nothing_to_transform() -> None:
    assert tuple(lazyt.fft.fft(lazyt.ones(0, 4)).shape) == (0, 4)
    assert tuple(lazyt.fft.rfft(lazyt.ones(0, 5)).shape) == (0, 3)
    assert tuple(lazyt.fft.irfft(lazyt.ones(0, 5, dtype=lazyt.complex64)).shape) == (0, 8)
    assert lazyt.fft.fftn(lazyt.tensor(2.0)).item() == 2


def test_turns_are_exact() -> None:
    n = 3 * 2**20
    numerators = np.array([0, n // 4, n // 2, 3 * n // 4, n // 8, 10**9 * n + n // 12])
    cos, sin = circle(numerators, n)
    half = np.sqrt(0.5)
    assert np.abs(cos[:4] - [1, 0, -1, 0]).max() <= 1.2e-16
    assert np.abs(sin - [0, 1, 0, -1, half, 0.5]).max() <= 1.2e-16
    for n in (7, 64, 1009):
        k = np.arange(-n, 2 * n)
        cos, sin = circle(k, n)
        angle = np.longdouble(8) * np.arctan(np.longdouble(1)) * (k % n) / n
        assert np.abs(cos - np.cos(angle)).max() <= 1.2e-16
        assert np.abs(sin - np.sin(angle)).max() <= 1.2e-16


@pytest.mark.parametrize("n", [1, 2, 30, 32, 64, 1 << 20, 3 * 2**10, 97 * 4, 5**6, 1009])
def test_factors_are_few_and_small(n: int) -> None:
    found = tables.factors(n)
    assert np.prod(found) == n
    assert all(size <= tables.DENSE or len(tables._primes(size)) == 1 for size in found)
    if n & (n - 1) == 0 and n > 1:
        assert len(found) == -(-(n.bit_length() - 1) // (5 if n < 1 << 14 else 3))
        assert max(found) <= 2 * min(found)


def test_whole_rows_and_all_others_give_the_same() -> None:
    """Transforms along the last axis of all points take a shorter way to the same kernel."""
    lazyt.manual_seed(0)
    x, z = lazyt.randn(3, 64), lazyt.randn(3, 64, dtype=lazyt.complex64)
    for name, operand in (("fft", z), ("ifft", z), ("rfft", x), ("irfft", z), ("hfft", z)):
        function = getattr(lazyt.fft, name)
        found = function(operand)
        for other in (
            function(operand, dim=-1), function(operand, dim=1), function(operand[:]),
            function(operand.t().contiguous(), dim=0).t(),
        ):  # fmt: skip
            assert lazyt.equal(found, other), name
        assert found.dtype is function(operand, dim=0).dtype
        for wrong in ({"norm": "other"}, {"n": 0}, {"dim": 2}):
            with pytest.raises(lazyt.errors.LazytError):
                function(operand, **wrong)
    leaf = x.clone().requires_grad_()
    found = lazyt.fft.rfft(leaf)
    assert found.grad_fn is not None and "FftR2C" in found.grad_fn.name()
