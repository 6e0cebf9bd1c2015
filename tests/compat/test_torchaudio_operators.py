"""Operators of torchaudio's compiled library, against the same loops in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt.compat import torch_alias


@pytest.fixture
def torch() -> Iterator[Any]:
    import importlib

    torch_alias.install()
    try:
        yield importlib.import_module("torch")
    finally:
        torch_alias.uninstall()


def _loaded(torch: Any, tmp_path: Path) -> Any:
    for name in ("_torchaudio.so", "libtorchaudio.so"):
        torch.ops.load_library(tmp_path / "torchaudio" / "lib" / name)
    return torch.ops


@pytest.mark.parametrize("order", [0, 1, 3])
def test_filters(torch: Any, tmp_path: Path, order: int) -> None:
    ops = _loaded(torch, tmp_path)
    x = (lazyt.arange(2 * 3 * 20.0).reshape(2, 3, 20) * 0.7).sin()
    a = lazyt.cat([(lazyt.arange(3.0 * order).reshape(3, order)).cos() * 0.3, lazyt.ones(3, 1)], 1)
    out = lazyt.zeros(2, 3, 20 + order)
    assert ops.torchaudio._lfilter_core_loop(x, a, out) is None
    wanted = lazyt.zeros(2, 3, 20 + order)
    for t in range(20):
        before = (wanted[:, :, t : t + order] * a[:, :order]).sum(-1)
        wanted[:, :, t + order] = x[:, :, t] - before
    assert lazyt.allclose(out, wanted, atol=1e-6)


def test_distortion(torch: Any, tmp_path: Path) -> None:
    ops = _loaded(torch, tmp_path)
    x = (lazyt.arange(40.0).reshape(2, 20) * 0.7).sin()
    temp, out = x.tanh(), lazyt.zeros(2, 20)
    ops.torchaudio._overdrive_core_loop(x, temp, lazyt.zeros(2), lazyt.zeros(2), out)
    last_in, last_out = lazyt.zeros(2), lazyt.zeros(2)
    for t in range(20):
        last_out = temp[:, t] - last_in + 0.995 * last_out
        last_in = temp[:, t]
        assert lazyt.allclose(out[:, t], x[:, t] * 0.5 + last_out * 0.75, atol=1e-6)


def test_the_library_says_what_it_has(torch: Any, tmp_path: Path) -> None:
    ops = _loaded(torch, tmp_path)
    assert ops._torchaudio.cuda_version() is None and not ops._torchaudio.is_align_available()
    with pytest.raises(AttributeError, match="rnnt_loss_forward"):
        ops.torchaudio.rnnt_loss_forward  # noqa: B018
    with pytest.raises(OSError, match="loads no libraries of C\\+\\+ operators"):
        torch.ops.load_library(tmp_path / "other.so")
