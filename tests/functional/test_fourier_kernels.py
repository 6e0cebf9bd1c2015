"""Transforms of whole rows by one kernel: their bits, their errors, and how many kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.ir.dtypes import float32, float64
from lazyt.ir.fourier.evaluation import transformed
from lazyt.ir.fourier.tables import KINDS, lanes, plan_of, table

Array = np.ndarray[Any, Any]
#: Powers of two with an even and an odd exponent, every stage, few columns, and columns left over.
COUNTS = [36, 512, 31 * 17, 1001, 4096, 2310]


def pairs(x: Array) -> Array:
    """Complex numbers as pairs."""
    return np.stack([x.real, x.imag], -1)


def rows(kind: str, n: int, dtype: Any) -> Array:
    rng = np.random.default_rng(n)
    shape = {"complex": (3, n, 2), "half": (3, 2 * n), "real": (3, n + 1, 2)}[kind]
    return rng.standard_normal(shape).astype(dtype)


def by_kernel(kind: str, sign: int, x: Array) -> lazyt.Tensor:
    """What the functions that make such transforms give."""
    if kind == "half":
        name = "rfft" if sign < 0 else "ihfft"
        given = lazyt.tensor(x)
    else:
        given = lazyt.view_as_complex(lazyt.tensor(x))
        forward, back = ("fft", "ifft") if kind == "complex" else ("hfft", "irfft")
        name = forward if sign < 0 else back
    norm = "backward" if sign < 0 else "forward"
    found: lazyt.Tensor = getattr(lazyt.fft, name)(given, norm=norm)
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", COUNTS)
def test_kernels_have_the_bits_of_the_interpreter(n: int, dtype: Any) -> None:
    named = float32 if dtype is np.float32 else float64
    every = [(kind, sign, rows(kind, n, dtype)) for kind in KINDS for sign in (-1, 1)]
    made = [by_kernel(*given) for given in every]
    lazyt.realize(*made)
    for (kind, sign, x), tensor in zip(every, made):
        constants = table(kind, n, 1.0, named).astype(dtype)
        expected = transformed(kind, sign, x, constants, lanes(named))
        found = tensor.numpy()
        assert np.array_equal(found if kind == "real" else pairs(found), expected)


def test_rows_and_threads_do_not_change_a_bit() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((40, 4096)) + 1j * rng.standard_normal((40, 4096))).astype("complex64")
    whole = lazyt.fft.fft(lazyt.tensor(x)).numpy()
    assert np.array_equal(lazyt.fft.fft(lazyt.tensor(x[17])).numpy(), whole[17])
    half = lazyt.fft.rfft(lazyt.tensor(x[:3].real.copy())).numpy()
    for threads in (1, 3, 40):
        with lazyt.config.override(threads=threads):
            for count in (1, 40):
                found = lazyt.fft.fft(lazyt.tensor(x[:count])).numpy()
                assert np.array_equal(found, whole[:count])
            found = lazyt.fft.rfft(lazyt.tensor(x[:3].real.copy())).numpy()
            assert np.array_equal(found, half)
            back = lazyt.fft.irfft(lazyt.tensor(half)).numpy()
            assert np.abs(back - x[:3].real).max() < 2e-6


@pytest.mark.parametrize("n", [256, 1000, 1 << 16, 3**9])
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


def test_what_has_no_plan() -> None:
    assert [n for n in range(1, 20) if plan_of(n) is not None] == [
        4,
        6,
        8,
        9,
        10,
        12,
        14,
        15,
        16,
        18,
    ]
    assert plan_of(17) is None and plan_of(67 * 64) is None and plan_of(1 << 25) is None


@pytest.mark.lazy
def test_a_mel_spectrogram_is_three_kernels() -> None:
    lazyt.manual_seed(0)
    signal, window = lazyt.randn(1, 8000).realize(), lazyt.hann_window(400).realize()
    weights = lazyt.rand(201, 80).realize()
    spectra = lazyt.stft(signal, 400, 160, window=window, return_complex=True)
    mel = lazyt.einsum("bft,fm->bmt", spectra.abs() ** 2, weights)
    assert len(lazyt.explain(mel).kernels) == 3
