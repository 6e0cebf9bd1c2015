"""Ops on ``cuda:emu`` have the CPU's bits: structural samples with gradients, scalar functions.

``LAZYT_CUDA_SHARE`` is how many of them are seen: every so many-th (default 6; 1 for all). The CPU
is held against the interpreter by the other files of this folder.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Sequence

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.errors import DTypeError
from lazyt.handle.device import check_device
from lazyt.ir.dtypes import (
    ALL,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
)
from lazyt.ir.graph import Node
from lazyt.ir.scalar import FUNCTIONS
from lazyt.ops import routines
from lazyt.plan.device_plans import moved
from lazyt.plan.planning import realize
from lazyt.runtime.cuda.memory import DeviceBuffer
from lazyt.testing.graph_maker import buffer_of
from tests.ops_contract import library_samples as library_samples
from tests.ops_contract.op_samples import SAMPLES, Sample, gradients
from tests.ops_contract.test_scalar_contract import DOMAINS, _points

EMULATOR = "cuda:emu"
SHARE = int(os.environ.get("LAZYT_CUDA_SHARE", "6"))
DTYPES = (float32, float64, float16, bfloat16, int32, int64, uint8, bool_)

#: Ops that are computed on the CPU, or by another kernel there; samples of transforms have their
#: tables on the CPU.
_ELSEWHERE = (
    "branch", "collective", "custom", "fourier", "library", "linalg", "loop", "python", "transfer",
    "while",
)  # fmt: skip

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("g++")), reason="needs C and C++ compilers"
)


def leaves(arrays: Sequence[np.ndarray], dtype: DType | None) -> list[list[Node]]:
    """Inputs on the CPU and on the emulator; floats as ``dtype``."""
    check_device(EMULATOR)
    found: list[list[Node]] = [[], []]
    for array in arrays:
        own = dtype if dtype is not None and array.dtype == np.float64 else None
        kind = own or next(d for d in ALL if d.numpy == array.dtype)
        node = ops.input_(array.shape, kind, buffer_of(np.ascontiguousarray(array), kind))
        found[0].append(node)
        found[1].append(ops.input_(array.shape, kind, moved(node, EMULATOR)))
    return found


def agree(names: Sequence[str], on_cpu: Sequence[Node], on_device: Sequence[Node]) -> None:
    """All values have the same bits. One plan computes each side."""
    there = [ops.put(node, EMULATOR) for node in on_device]
    realize(list(on_cpu))
    realize(there)
    for name, a, b in zip(names, on_cpu, there, strict=True):
        assert isinstance(b.data, DeviceBuffer), name
        want, got = (n.data.as_numpy(n.dtype, n.shape) for n in (a, b))
        np.testing.assert_array_equal(got, want, err_msg=name, strict=True)


def test_structural_ops() -> None:
    chosen: list[Sample] = [
        s for n, s in enumerate(SAMPLES)
        if n % SHARE == 0 and s.op not in _ELSEWHERE and "float16" not in s.name
    ]  # fmt: skip
    names, on_cpu, on_device = [], [], []
    for sample in chosen:
        sides = leaves(sample.arrays, float32)
        made = [sample.build(*side) for side in sides]
        if not made[0].size:
            continue
        parts = [[node, *gradients(node, side)] for node, side in zip(made, sides, strict=True)]
        names += [f"{sample.name}[{n}]" for n in range(len(parts[0]))]
        on_cpu += parts[0]
        on_device += parts[1]
    assert len(names) >= len(chosen)
    agree(names, on_cpu, on_device)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_scalar_functions(dtype: DType) -> None:
    names, on_cpu, on_device = [], [], []
    for number, fn in enumerate(FUNCTIONS.values()):
        if (number + DTYPES.index(dtype)) % SHARE:
            continue
        bounds = DOMAINS.get(fn.name, ((0.4, 0.9),) * fn.arity)
        points = [_points(b, 33, k) for k, b in enumerate(bounds)]
        if dtype.kind != "f":
            points = [np.arange(33) % (2 if dtype is bool_ else 7) + k for k in range(fn.arity)]
        stored = [p.astype(np.float64) if dtype.kind == "f" else p.astype(dtype.numpy)
                  for p in points]  # fmt: skip
        if fn.name == "where":
            stored[0] = np.arange(33) % 2 == 0
        sides = leaves(stored, dtype if dtype.kind == "f" else None)
        wanted = float64 if fn.name in ("cast", "bitcast") else None
        try:
            made = [ops.apply(fn.name, *side, dtype=wanted) for side in sides]
        except DTypeError:  # not a type of this function
            continue
        names.append(fn.name)
        on_cpu.append(made[0])
        on_device.append(made[1])
    if names:
        agree(names, on_cpu, on_device)


def test_library_calls_go_by_the_host() -> None:
    """They have the CPU's values, on the device, and the first of each routine says so."""
    routines._announced.clear()
    warned: set[str] = set()
    samples = [s for s in SAMPLES if s.op == "library"]
    for sample in samples:
        on_cpu, on_device = (sample.build(*side) for side in leaves(sample.arrays, float64))
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            realize([on_device])
        warned.update(str(w.message) for w in found)
        realize([on_cpu])
        agree([sample.name], [on_cpu], [on_device])
    assert samples and all("tensors on cuda:emu are copied to the host" in text for text in warned)
    assert len(warned) == len({s.partition(" ")[0] for s in warned}) > 1
    text = str(lt.explain(lt.linalg.matrix_exp(lt.eye(3, device=EMULATOR))))
    assert "it runs on the host: operands come from cuda:emu" in text
