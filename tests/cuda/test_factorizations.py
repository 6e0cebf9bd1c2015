"""Factorizations in generated CUDA text, which the emulator runs, have the CPU's bits; larger ones
are the CPU's, which is said."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import Tensor, linalg, ops
from lazyt.ir.factorizations.sizes import ALONE, MODES
from lazyt.ops.routines import announce_host
from tests.functional.test_small_matrices import matrices, operands, same_bits

EMU = "cuda:emu"
#: In registers, in arrays, and in scratch.
SIZES = [(3, 3), (5, 3), (8, 8)]
MORE = [(1, 1), (2, 2), (3, 5), (5, 5), (17, 17), (32, 7), (7, 32), (32, 32)]


def both(routine: str, mode: str, given: tuple[Any, ...]) -> list[list[Tensor]]:
    """The results here and there."""
    found = []
    for device in ("cpu", EMU):
        nodes = [lazyt.tensor(array).to(device).node for array in given]
        parts = ops.library(routine, *nodes, mode=mode)
        found.append([lazyt.handle.dispatch.wrap(part) for part in parts])
    return found


def compare(size: tuple[int, int], dtype: Any) -> None:
    """Every routine on hostile matrices; all of a device are one program."""
    cases = [(r, m) for r in sorted(MODES.keys() - ALONE) for m in MODES[r]]
    if size[0] != size[1]:
        cases = [(r, m) for r, m in cases if r in ("lu", "qr", "svd")]
    made = [both(r, m, operands(r, matrices(*size, dtype))) for r, m in cases]
    for side in (0, 1):
        lazyt.realize(*[part for case in made for part in case[side]])
    for case, (here, there) in zip(cases, made, strict=True):
        for a, b in zip(here, there, strict=True):
            assert b.is_cuda
            assert same_bits(a.numpy(), b.cpu().numpy()), (*case, size)


@pytest.mark.parametrize("size", SIZES)
def test_factorizations_have_the_bits_of_the_cpu(size: tuple[int, int]) -> None:
    compare(size, np.float32 if size[0] % 2 else np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [*SIZES, *MORE])
def test_more_factorizations_have_the_bits_of_the_cpu(size: tuple[int, int], dtype: Any) -> None:
    compare(size, dtype)


def test_more_matrices_than_have_scratch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks take the matrices of nine in turn."""
    monkeypatch.setattr("lazyt.ir.factorizations.sizes.MOST_GRID_SCRATCH", 2 * 32 * 4 * 600)
    a = np.random.default_rng(0).standard_normal((280, 17, 17)).astype(np.float32)
    here, there = both("inv", "plain", (a,))
    for x, y in zip(here, there, strict=True):
        assert same_bits(x.numpy(), y.cpu().numpy())


def test_one_kernel_on_the_device_and_no_warning() -> None:
    x = lazyt.eye(3, device=EMU) * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explained = linalg.cholesky_ex(x.expand(100, 3, 3)).L.explain()
    kinds = [kernel.kind for kernel in explained.kernels]
    assert "linalg" in kinds and "library" not in kinds and "copy" not in str(explained)


def test_larger_ones_are_the_cpus_and_say_so() -> None:
    """With its bits, and gradients."""
    lazyt.manual_seed(0)
    a = lazyt.randn(2, 40, 40)
    spread = a @ a.mT + lazyt.eye(40)
    found, slopes = [], []
    announce_host.__globals__["_announced"].clear()
    for device in ("cpu", EMU):
        leaf = spread.detach().to(device).requires_grad_()
        if device == EMU:
            with pytest.warns(UserWarning, match="cholesky.* copied to the host"):
                factor = linalg.cholesky(leaf)
        else:
            factor = linalg.cholesky(leaf)
        assert factor.device.type == lazyt.device(device).type
        factor.square().sum().backward()
        assert leaf.grad is not None
        found.append(factor.detach().cpu())
        slopes.append(leaf.grad.cpu())
    assert lazyt.equal(*found) and lazyt.equal(*slopes)


def losses(a: Tensor, b: Tensor) -> list[Tensor]:
    """Numbers that depend on everything that is factorized."""
    spread = a @ a.mT + lazyt.eye(4, device=a.device)
    values, vectors = linalg.eigh(spread)
    u, s, v = linalg.svd(a, full_matrices=False)
    q, r = linalg.qr(a)
    return [
        linalg.cholesky(spread).sum(),
        linalg.solve(a, b).square().sum(),
        (linalg.inv(a) * b[..., :1]).sum(),
        linalg.det(a).sum() + linalg.slogdet(spread).logabsdet.sum(),
        values.sqrt().sum() + vectors.abs().sum(),
        s.square().sum() + (u @ v).sum(),
        (q * r).sum(),
        linalg.solve_triangular(r, b, upper=True).sum(),
    ]


@pytest.mark.filterwarnings("ignore:cofactors")
def test_gradients_have_the_bits_of_the_cpu() -> None:
    lazyt.manual_seed(1)
    a, b = lazyt.randn(5, 4, 4, dtype=lazyt.float64), lazyt.randn(5, 4, 2, dtype=lazyt.float64)
    found = []
    for device in ("cpu", EMU):
        x, y = a.to(device).requires_grad_(), b.to(device).requires_grad_()
        every = []
        for loss in losses(x, y):
            slopes = lazyt.autograd.grad(loss, (x, y), allow_unused=True, retain_graph=True)
            every += [loss.detach(), *[s for s in slopes if s is not None]]
        lazyt.realize(*every)
        found.append([value.cpu() for value in every])
    assert len(found[0]) == 8 + 8 + 3
    for number, (here, there) in enumerate(zip(*found, strict=True)):
        assert lazyt.equal(here, there), number


def test_vmap_and_capture_have_the_bits_of_the_cpu() -> None:
    lazyt.manual_seed(2)
    a, b = lazyt.randn(6, 3, 3), lazyt.randn(6, 3)

    def distance(x: Tensor, y: Tensor) -> Tensor:
        values, vectors = linalg.eigh(x @ x.mT)
        return (vectors @ linalg.solve(x, y)) * values

    each = lazyt.vmap(distance)
    wanted = each(a, b)
    assert lazyt.equal(wanted, each(a.to(EMU), b.to(EMU)).cpu())
    step = lazyt.jit(each)
    for _ in range(3):
        assert lazyt.equal(wanted, step(a.to(EMU), b.to(EMU)).cpu())


def test_singular_ones_raise_there() -> None:
    x = lazyt.zeros(2, 3, 3, device=EMU)
    with pytest.raises(linalg.LinAlgError, match=r"Batch element 0.*singular"):
        linalg.inv(x)
    with pytest.raises(linalg.LinAlgError, match="not positive-definite"):
        linalg.cholesky(x)
    assert linalg.inv_ex(x).info.tolist() == [1, 1]
