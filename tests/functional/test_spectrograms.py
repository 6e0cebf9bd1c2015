"""Short-time Fourier transforms against their definition, and signals made of them again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt

Array = np.ndarray[Any, Any]


def signal(*shape: int, is_complex: bool = False) -> Array:
    """Random points."""
    rng = np.random.default_rng(len(shape))
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if is_complex else x


def spectra(x: Array, window: Array, hop: int, onesided: bool) -> Array:
    """Of pieces as long as the window, by the definition, [..., frequencies, pieces]."""
    n = len(window)
    starts = range(0, x.shape[-1] - n + 1, hop)
    pieces = np.stack([x[..., s : s + n] * window for s in starts], -2)
    found = np.fft.rfft(pieces) if onesided else np.fft.fft(pieces)
    return np.swapaxes(found, -1, -2)


def close(found: lazyt.Tensor, expected: Array) -> None:
    """Compare in float64."""
    assert tuple(found.shape) == expected.shape
    assert np.abs(found.detach().numpy() - expected).max() < 1e-12


@pytest.mark.parametrize("shape", [(70,), (3, 70)])
@pytest.mark.parametrize(("n_fft", "hop", "size"), [(16, None, None), (15, 5, 9), (40, 7, 32)])
def test_spectra_of_real_signals(
    shape: tuple[int, ...], n_fft: int, hop: int | None, size: int | None
) -> None:
    x = signal(*shape)
    window = np.hanning((size or n_fft) + 2)[1:-1]
    left = (n_fft - len(window)) // 2
    whole = np.pad(window, (left, n_fft - len(window) - left))
    given: dict[str, Any] = {"window": lazyt.tensor(window), "return_complex": True}
    step = hop or n_fft // 4
    found = lazyt.stft(lazyt.tensor(x), n_fft, hop, size, center=False, **given)
    close(found, spectra(x, whole, step, True))
    padded = np.pad(x, [(0, 0)] * (len(shape) - 1) + [(n_fft // 2,) * 2], mode="reflect")
    close(lazyt.tensor(x).stft(n_fft, hop, size, **given), spectra(padded, whole, step, True))
    found = lazyt.stft(lazyt.tensor(x), n_fft, hop, size, onesided=False, normalized=True, **given)
    close(found, spectra(padded, whole, step, False) / np.sqrt(n_fft))


def test_complex_signals_and_windows() -> None:
    x, window = signal(50, is_complex=True), signal(12, is_complex=True)
    found = lazyt.stft(lazyt.tensor(x), 12, 4, window=lazyt.tensor(window), center=False)
    close(found, spectra(x, window, 4, False))
    found = lazyt.stft(lazyt.tensor(x.real), 12, 4, window=lazyt.tensor(window), center=False)
    close(found, spectra(x.real, window, 4, False))


def test_the_form_of_results() -> None:
    x = lazyt.tensor(signal(2, 40))
    found = lazyt.stft(x, 16, return_complex=True)
    assert found.stride() == (99, 1, 9)
    parts = lazyt.stft(x, 16, return_complex=False)
    assert tuple(parts.shape) == (2, 9, 11, 2)
    assert lazyt.equal(parts, lazyt.view_as_real(found))
    assert lazyt.stft(x.float(), 16, return_complex=True).dtype is lazyt.complex64
    window = lazyt.ones(16)
    assert lazyt.stft(x, 16, window=window, return_complex=True).dtype is lazyt.complex128
    assert lazyt.istft(found.to(lazyt.complex64), 16, window=window).dtype is lazyt.float32


def test_windows_that_begin_with_the_signal() -> None:
    x, window = signal(41), signal(8)
    given: dict[str, Any] = {"window": lazyt.tensor(window), "return_complex": True}
    found = lazyt.stft(lazyt.tensor(x), 16, 4, 8, center=False, align_to_window=True, **given)
    expected = spectra(np.pad(x, 4), np.pad(window, 4), 4, True)
    close(found, expected)
    assert found.shape[-1] == 1 + (41 - 8) // 4


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("n_fft", "hop", "size"), [(16, None, None), (15, 4, 9), (16, 16, 16)])
def test_signals_come_back(
    n_fft: int, hop: int | None, size: int | None, normalized: bool, onesided: bool
) -> None:
    x = lazyt.tensor(signal(2, 64))
    window = lazyt.tensor(np.hanning((size or n_fft) + 2)[1:-1])
    given: dict[str, Any] = {"window": window, "normalized": normalized, "onesided": onesided}
    found = lazyt.stft(x, n_fft, hop, size, return_complex=True, **given)
    back = lazyt.istft(found, n_fft, hop, size, **given)
    count = back.shape[-1]
    assert count == (hop or n_fft // 4) * (found.shape[-1] - 1) + n_fft - 2 * (n_fft // 2)
    assert lazyt.allclose(back[:, :64], x[:, :count], atol=1e-12)
    assert lazyt.allclose(found[0].istft(n_fft, hop, size, **given), back[0], atol=1e-12)
    if not onesided:
        whole = lazyt.istft(found, n_fft, hop, size, return_complex=True, **given)
        assert lazyt.allclose(whole, back.to(lazyt.complex128), atol=1e-12)


def test_complex_signals_come_back() -> None:
    x, window = signal(60, is_complex=True), lazyt.tensor(signal(12) + 2)
    found = lazyt.stft(lazyt.tensor(x), 12, 5, window=window)
    close(lazyt.istft(found, 12, 5, window=window, return_complex=True), x[: 5 * 12])
    turned = window * (1 + 0.5j)
    back = lazyt.istft(found, 12, 5, window=turned, return_complex=True)
    # Pieces times w (1 + i/2), over the overlap of the squares of that.
    close(back, x / (1 + 0.5j))


def test_signals_of_a_given_length() -> None:
    x, window = signal(60), lazyt.hann_window(16, dtype=lazyt.float64)
    found = lazyt.stft(lazyt.tensor(x), 16, window=window, return_complex=True)
    for length in (1, 30, 60, 68):
        back = lazyt.istft(found, 16, window=window, length=length)
        expected = np.concatenate([x, x[-2:-10:-1]])[:length]
        close(back, expected)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        long = lazyt.istft(found, 16, length=100)
    assert "shorter than the length parameter" in str(said[0].message)
    assert tuple(long.shape) == (100,)
    assert not long[68:].any()


def test_without_padding() -> None:
    x, window = signal(48), lazyt.tensor(signal(16) + 3)
    found = lazyt.stft(lazyt.tensor(x), 16, 8, window=window, center=False, return_complex=True)
    close(lazyt.istft(found, 16, 8, window=window, center=False), x)
    close(lazyt.istft(found, 16, 8, window=window, center=False, length=20), x[:20])


def test_gradients() -> None:
    x = lazyt.tensor(signal(40), requires_grad=True)
    window = lazyt.tensor(signal(12) + 3, requires_grad=True)

    def there(x: lazyt.Tensor, window: lazyt.Tensor) -> lazyt.Tensor:
        return lazyt.stft(x, 16, 5, 12, window=window, return_complex=True)

    assert lazyt.autograd.gradcheck(there, (x, window), fast_mode=True)
    spectrum = there(x, window).detach().requires_grad_()

    def back(spectrum: lazyt.Tensor, window: lazyt.Tensor) -> lazyt.Tensor:
        return lazyt.istft(spectrum, 16, 5, 12, window=window)

    assert lazyt.autograd.gradcheck(back, (spectrum, window), fast_mode=True)


def test_captured_functions_and_batches() -> None:
    window = lazyt.hann_window(16)

    @lazyt.jit
    def denoised(x: lazyt.Tensor) -> lazyt.Tensor:
        found = lazyt.stft(x, 16, window=window, return_complex=True)
        return lazyt.istft(found * (found.abs() > 1.0), 16, window=window)

    for seed in range(3):
        x = lazyt.tensor(signal(64) + seed).float()
        found = lazyt.stft(x, 16, window=window, return_complex=True)
        expected = lazyt.istft(found * (found.abs() > 1.0), 16, window=window)
        assert lazyt.equal(denoised(x), expected)
    x = lazyt.tensor(signal(3, 40)).float()
    batched = lazyt.vmap(lambda t: lazyt.stft(t, 16, window=window, return_complex=True))(x)
    assert lazyt.allclose(batched, lazyt.stft(x, 16, window=window, return_complex=True), atol=1e-5)


X, W = lazyt.ones(40), lazyt.hann_window(16)
S = lazyt.ones(9, 11, dtype=lazyt.complex64)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: lazyt.stft(X, 16), "requires the return_complex parameter"),
        (lambda: lazyt.stft(X.long(), 4, return_complex=True), r"LongTensor\[44\], n_fft=4, hop"),
        (lambda: lazyt.stft(X.half(), 4, return_complex=True), "Unsupported dtype Half"),
        (
            lambda: lazyt.stft(X, 41, center=False, return_complex=True),
            "expected 0 < n_fft < 40, but got n_fft=41",
        ),
        (lambda: lazyt.stft(X, 8, 0, return_complex=True), "hop_length > 0, but got hop_length=0"),
        (lambda: lazyt.stft(X, 8, 2, 9, return_complex=True), "but got win_length=9"),
        (lambda: lazyt.stft(X, 8, window=W, return_complex=True), r"window with size \[16\]"),
        (lambda: lazyt.stft(X * 1j, 8, onesided=True), "Cannot have onesided output"),
        (
            lambda: lazyt.stft(X, 8, align_to_window=True, return_complex=True),
            "only be set when center = false",
        ),
        (
            lambda: lazyt.stft(lazyt.ones(2, 2, 9), 4, center=False, return_complex=True),
            "expected a 1D or 2D tensor",
        ),
        (lambda: lazyt.istft(X, 16), "requires a complex-valued input tensor"),
        (lambda: lazyt.istft(S[:, :0], 16), "input tensor cannot be empty"),
        (lambda: lazyt.istft(S[None, None], 16), "with 3 or 4 dimensions, but got 5"),
        (lambda: lazyt.istft(S[0], 16), "Dimension out of range"),
        (lambda: lazyt.istft(S, 20), "when onesided=True, but got 9"),
        (lambda: lazyt.istft(S, 16, onesided=False), "when onesided=False, but got 9"),
        (lambda: lazyt.istft(S, 16, 17), "expected 0 < hop_length <= win_length"),
        (lambda: lazyt.istft(S, 16, 4, 17), "expected 0 < win_length <= n_fft"),
        (lambda: lazyt.istft(S, 16, window=W[:4]), "Invalid window shape"),
        (lambda: lazyt.istft(S, 16, window=W * 0), "window overlap add min: 1"),
        (lambda: lazyt.istft(S, 16, window=W, center=False), "window overlap add min: 1"),
        (lambda: lazyt.istft(S, 16, return_complex=True), "Cannot have onesided output"),
        (lambda: lazyt.istft(S, 16, window=W * 1j), "Complex windows are incompatible"),
        (lambda: lazyt.istft(S, 16, length=0), r"min\(\): Expected reduction dim"),
        (lambda: lazyt.istft(S[:, :1], 16), r"min\(\): Expected reduction dim"),
    ],
)
def test_wrong_calls_are_refused(call: Callable[[], Any], said: str) -> None:
    with pytest.raises((RuntimeError, IndexError), match=said):
        call()
