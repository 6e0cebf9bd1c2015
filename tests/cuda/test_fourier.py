"""Fourier transforms in generated CUDA text, which the emulator runs: the CPU's bits where both
compute products with the matrix of a transform, and values close to them where the CPU has a kernel
for whole rows."""

from __future__ import annotations

import pytest

import lazyt

EMU = "cuda:emu"


@pytest.mark.parametrize("name", ["fft", "rfft"])
def test_transforms_have_the_bits_of_the_cpu(name: str) -> None:
    lazyt.manual_seed(0)
    dtype = lazyt.complex64 if name == "fft" else lazyt.float32
    transform = getattr(lazyt.fft, name)
    for n in (31, 96):
        x = lazyt.randn(2, n, dtype=dtype)
        there = transform(x.to(EMU))
        assert there.is_cuda
        if n == 31:
            assert lazyt.equal(there.cpu(), transform(x))
        else:
            assert lazyt.allclose(there.cpu(), transform(x), atol=1e-5)


def test_gradients_have_the_bits_of_the_cpu() -> None:
    lazyt.manual_seed(0)
    x = lazyt.randn(2, 30)
    slopes = []
    for device in ("cpu", EMU):
        leaf = x.detach().to(device).requires_grad_()
        (lazyt.fft.rfft(leaf).abs() ** 2).sum().backward()
        assert leaf.grad is not None
        slopes.append(leaf.grad.cpu())
    assert lazyt.equal(*slopes)
