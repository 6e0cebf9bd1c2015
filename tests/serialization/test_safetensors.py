"""The safetensors format, against the package of that name where it is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.errors import CheckpointError, LazytError
from lazyt.ir.dtypes import ALL
from lazyt.serialization import safetensors


def sample() -> dict[str, lt.Tensor]:
    found = {t.name: lt.tensor([[0, 1, 2], [3, 4, 5]], dtype=t) for t in ALL}
    return {
        **found,
        "turned": lt.arange(6.0).view(2, 3).t(),
        "0d": lt.tensor(7),
        "e": lt.ones(0, 2),
    }


def test_there_and_back(tmp_path: Path) -> None:
    tensors = sample()
    path = tmp_path / "x.safetensors"
    safetensors.save_file(tensors, path, metadata={"format": "pt"})
    for found in (safetensors.load_file(path), safetensors.load(safetensors.save(tensors))):
        assert set(found) == set(tensors)
        for name, tensor in tensors.items():
            assert found[name].dtype is tensor.dtype
            assert found[name].shape == tensor.shape
            assert found[name].tolist() == tensor.tolist()
    mapped = safetensors.load_file(path)
    mapped["float32"].add_(1)
    assert safetensors.load_file(path)["float32"][0, 0] == 0


def test_the_package_agrees(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.numpy")
    tensors = {name: t for name, t in sample().items() if name != "bfloat16"}
    found = package.load(safetensors.save(tensors))
    for name, tensor in tensors.items():
        assert found[name].tolist() == tensor.tolist()
        assert found[name].dtype == tensor.dtype.numpy
    again = safetensors.load(package.save({n: np.array(a, order="C") for n, a in found.items()}))
    assert {n: t.tolist() for n, t in again.items()} == {n: t.tolist() for n, t in tensors.items()}


def built(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(dtype: str, shape: list[Any], begin: int, end: int) -> dict[str, Any]:
    return {"x": {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "header is cut"),
        (b"\xff" * 8, "header is cut"),
        (built(b"{"), "header is wrong"),
        (built([1]), "header is wrong"),
        (built(entry("F99", [1], 0, 4), bytes(4)), "no dtype F99"),
        (built(entry("F32", [2], 0, 4), bytes(4)), r"4 bytes are not float32\[2\]"),
        (built(entry("F32", [-1], 0, 4), bytes(4)), "whole numbers"),
        (built(entry("F32", [1], 4, 8), bytes(8)), "gap or overlap"),
        (built(entry("F32", [1], 0, 4), bytes(3)), "3 bytes of values, not 4"),
        (built(entry("F32", [1], 0, 4), bytes(9)), "9 bytes of values, not 4"),
    ],
)
def test_damaged_data(data: bytes, text: str) -> None:
    with pytest.raises(CheckpointError, match=text):
        safetensors.load(data)


def test_refusals(tmp_path: Path) -> None:
    a = lt.ones(4)
    with pytest.raises(LazytError, match="'a' and 'b' share memory"):
        safetensors.save({"a": a, "b": a[1:]})
    with pytest.raises(TypeError, match="Key `a` is invalid"):
        safetensors.save({"a": 1})  # type: ignore[dict-item]
    (tmp_path / "x").touch()
    with pytest.raises(CheckpointError, match="is empty"):
        safetensors.load_file(tmp_path / "x")
    safetensors.save_file({"a": a}, tmp_path / "y")
    with pytest.raises(CheckpointError, match="looks like safetensors"):
        lt.load(tmp_path / "y")
