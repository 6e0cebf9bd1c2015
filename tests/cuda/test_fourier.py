"""Fourier transforms in generated CUDA text, which the emulator runs: the CPU's bits."""

from __future__ import annotations

import pytest

import lazyt

EMU = "cuda:emu"


@pytest.mark.parametrize("name", ["fft", "rfft"])
def test_transforms_have_the_bits_of_the_cpu(name: str) -> None:
    lazyt.manual_seed(0)
    dtype = lazyt.complex64 if name == "fft" else lazyt.float32
    x = lazyt.randn(2, 96, dtype=dtype)
    transform = getattr(lazyt.fft, name)
    there = transform(x.to(EMU))
    assert there.is_cuda
    assert lazyt.equal(there.cpu(), transform(x))


def test_gradients_have_the_bits_of_the_cpu() -> None:
    lazyt.manual_seed(0)
    x = lazyt.randn(2, 40)
    slopes = []
    for device in ("cpu", EMU):
        leaf = x.detach().to(device).requires_grad_()
        (lazyt.fft.rfft(leaf).abs() ** 2).sum().backward()
        assert leaf.grad is not None
        slopes.append(leaf.grad.cpu())
    assert lazyt.equal(*slopes)
