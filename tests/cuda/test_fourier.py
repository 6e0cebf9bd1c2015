"""Fourier transforms in generated CUDA text, which the emulator runs, have the CPU's bits."""

from __future__ import annotations

import pytest

import lazyt
from lazyt import Tensor
from lazyt.ir.dtypes import DType, float32, float64

EMU = "cuda:emu"
#: Several rows in a block, large primes, a convolution with a chirp in a block, odd numbers of real
#: points; and those, and rows that go through scratch.
LENGTHS = (40, 118, 127, 1000)
LONG = (2, 31, 33, 64, 100, 128, 1009, 2503, 4096, 6000, 10007)


def transforms(n: int, rows: int, *dtypes: DType) -> None:
    """Both ways, of complex and of real points; all of a device are one program."""
    lazyt.manual_seed(n)
    found: dict[str, list[Tensor]] = {"cpu": [], EMU: []}
    for dtype in dtypes:
        pairs = lazyt.complex64 if dtype is float32 else lazyt.complex128
        x, half = lazyt.randn(rows, n, dtype=pairs), lazyt.randn(rows, n // 2 + 1, dtype=pairs)
        real = lazyt.randn(rows, n, dtype=dtype)
        for device, results in found.items():
            a, b, c = (t.to(device) for t in (x, half, real))
            results += [lazyt.fft.fft(a), lazyt.fft.ifft(a), lazyt.fft.rfft(c)]
            results.append(lazyt.fft.irfft(b, n))
    for results in found.values():
        lazyt.realize(*results)
    for number, (here, there) in enumerate(zip(*found.values(), strict=True)):
        assert there.is_cuda
        assert lazyt.equal(there.cpu(), here), (number, n)


@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_have_the_bits_of_the_cpu(n: int) -> None:
    transforms(n, 2, float32, float64)


@pytest.mark.slow
@pytest.mark.parametrize("n", LONG)
def test_more_transforms_have_the_bits_of_the_cpu(n: int) -> None:
    transforms(n, 1, float32, float64)


def test_several_rows_in_a_block() -> None:
    """More rows than there are blocks for; the last block has fewer."""
    transforms(40, 1111, float32)


def test_gradients_and_several_axes_have_the_bits_of_the_cpu() -> None:
    lazyt.manual_seed(0)
    x = lazyt.randn(3, 40, 66)
    slopes = []
    for device in ("cpu", EMU):
        leaf = x.detach().to(device).requires_grad_()
        (lazyt.fft.rfft2(leaf).abs() ** 2).sum().backward()
        assert leaf.grad is not None
        slopes.append(leaf.grad.cpu())
    assert lazyt.equal(*slopes)


def test_a_spectrogram_has_the_bits_of_the_cpu() -> None:
    lazyt.manual_seed(0)
    x, window = lazyt.randn(600), lazyt.hann_window(100)
    found = [
        lazyt.stft(x.to(d), 100, 25, window=window.to(d), return_complex=True).abs().cpu()
        for d in ("cpu", EMU)
    ]
    assert lazyt.equal(*found)
