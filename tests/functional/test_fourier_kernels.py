"""Transforms of whole rows by one kernel: their bits, their errors, and how many kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.ir.dtypes import float32, float64
from lazyt.ir.fourier.evaluation import transformed
from lazyt.ir.fourier.tables import KINDS, lanes, plan_of, row_sizes, table

Array = np.ndarray[Any, Any]
#: Powers of two with an even and an odd exponent, stages of all sizes, odd numbers, few columns and
#: columns left over, a prime and twice a prime, which take a convolution.
COUNTS = [36, 512, 31 * 17, 1001, 4096, 2310, 101, 2 * 67]


def pairs(x: Array) -> Array:
    """Complex numbers as pairs."""
    return np.stack([x.real, x.imag], -1)


def rows(kind: str, n: int, dtype: Any) -> Array:
    rng = np.random.default_rng(n)
    return rng.standard_normal((3, row_sizes(kind, n)[0])).astype(dtype)


def by_kernel(kind: str, sign: int, n: int, x: Array) -> lazyt.Tensor:
    """What the functions that make such transforms give."""
    if kind == "half":
        name = "rfft" if sign < 0 else "ihfft"
        given = lazyt.tensor(x)
    else:
        given = lazyt.view_as_complex(lazyt.tensor(x.reshape(3, -1, 2)))
        forward, back = ("fft", "ifft") if kind == "complex" else ("hfft", "irfft")
        name = forward if sign < 0 else back
    norm = "backward" if sign < 0 else "forward"
    found: lazyt.Tensor = getattr(lazyt.fft, name)(given, n, norm=norm)
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", COUNTS)
def test_kernels_have_the_bits_of_the_interpreter(n: int, dtype: Any) -> None:
    named = float32 if dtype is np.float32 else float64
    every = [(kind, sign, rows(kind, n, dtype)) for kind in KINDS for sign in (-1, 1)]
    made = [by_kernel(kind, sign, n, x) for kind, sign, x in every]
    lazyt.realize(*made)
    for (kind, sign, x), tensor in zip(every, made):
        constants = table(kind, n, 1.0, named).astype(dtype)
        expected = transformed(kind, sign, n, x, constants, lanes(named))
        found = tensor.numpy()
        found = found if kind == "real" else pairs(found)
        assert np.array_equal(found.reshape(3, -1), expected)


def test_rows_and_threads_do_not_change_a_bit() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((40, 4096)) + 1j * rng.standard_normal((40, 4096))).astype("complex64")
    whole = lazyt.fft.fft(lazyt.tensor(x)).numpy()
    assert np.array_equal(lazyt.fft.fft(lazyt.tensor(x[17])).numpy(), whole[17])
    half = lazyt.fft.rfft(lazyt.tensor(x[:3].real.copy())).numpy()
    shorter = lazyt.fft.rfft(lazyt.tensor(x[:3, :2048].real.copy())).numpy()
    for threads in (1, 3, 40):
        with lazyt.config.override(threads=threads):
            for count in (1, 40):
                found = lazyt.fft.fft(lazyt.tensor(x[:count])).numpy()
                assert np.array_equal(found, whole[:count])
            found = lazyt.fft.rfft(lazyt.tensor(x[:3].real.copy())).numpy()
            assert np.array_equal(found, half)
            back = lazyt.fft.irfft(lazyt.tensor(half)).numpy()
            few = lazyt.fft.rfft(lazyt.tensor(x[:3, :2048].real.copy())).numpy()
            assert np.array_equal(few, shorter)
            assert np.abs(back - x[:3].real).max() < 2e-6


@pytest.mark.parametrize("n", [256, 1000, 1 << 16, 3**9, 1021])
def test_errors_are_a_few_units(n: int) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype("complex64")
    expected = np.fft.fft(x.astype("complex128"))
    error = np.linalg.norm(lazyt.fft.fft(lazyt.tensor(x)).numpy() - expected)
    assert error < 2e-7 * np.linalg.norm(expected)


@pytest.mark.lazy
def test_rows_are_transformed_by_one_kernel() -> None:
    signal = lazyt.ones(4, 512).realize()
    points = lazyt.ones(4, 512, dtype=lazyt.complex64).realize()
    half = lazyt.fft.rfft(signal).realize()
    made = [
        lazyt.fft.fft(points), lazyt.fft.ifft(points), lazyt.fft.rfft(signal),
        lazyt.fft.irfft(half), lazyt.fft.hfft(half),
    ]  # fmt: skip
    assert len(lazyt.explain(*made).kernels) == len(made)


def test_plans() -> None:
    plan = plan_of("complex", 4096)
    assert plan is not None and plan[:4] == (64, 64, (8, 8), (8, 8)) and not plan.whole
    for kind, n, whole, length in (
        ("complex", 67 * 8, True, 2048), ("half", 512, False, 256), ("half", 1001, True, 1001),
        ("real", 2 * 67, True, 512), ("complex", 1001, False, 1001),
    ):  # fmt: skip
        plan = plan_of(kind, n)
        assert plan is not None and (plan.whole, plan.a * plan.b) == (whole, length)
    assert plan_of("complex", 67 * 64) is None and plan_of("complex", 1 << 25) is None


@pytest.mark.lazy
def test_a_mel_spectrogram_is_three_kernels() -> None:
    lazyt.manual_seed(0)
    signal, window = lazyt.randn(1, 8000).realize(), lazyt.hann_window(400).realize()
    weights = lazyt.rand(201, 80).realize()
    spectra = lazyt.stft(signal, 400, 160, window=window, return_complex=True)
    mel = lazyt.einsum("bft,fm->bmt", spectra.abs() ** 2, weights)
    assert len(lazyt.explain(mel).kernels) == 3
