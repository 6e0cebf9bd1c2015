"""Public functions on tensors that ranks have parts of: what a rank's process runs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import lazyt
from lazyt.distributed.device_mesh import DeviceMesh
from lazyt.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from tests.functional.sample_values import Operands, call
from tests.functional.samples import Sample, all_samples, has, owner_of, tensors_in

#: What takes tensors that a sample makes beside its operands, which PyTorch refuses, too; tensors
#: of other layouts; and layers without parameters yet.
PASSED_OVER = ("ctc", "CTC", "unpool", "Unpool", "sparse", "spmm", "dsmm", "Lazy", "to_mkldnn")


def check(mesh: DeviceMesh, dim: int, first: int, step: int) -> int:
    """Calls samples of functions with operands divided along a dimension, and compares the whole
    results with those of plain tensors. Returns how many there were."""

    def divided(tensor: Any) -> Any:
        tensor = tensor.clone()
        axis = min(dim, tensor.dim() - 1)
        several = tensor.dim() and tensor.numel() > 1
        return distribute_tensor(tensor, mesh, [Shard(axis) if several else Replicate()])

    count = 0
    for sample in [s for s in all_samples() if has(lazyt, s)][first::step]:
        if any(word in str(sample) for word in PASSED_OVER):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                plain = _values(_called(sample, lazyt.clone))
            except (RuntimeError, TypeError, ValueError, IndexError):
                continue  # what it refuses is tested elsewhere
            found = _values(_called(sample, divided, mesh))
        count += 1
        assert len(found) == len(plain), sample
        for value, wanted in zip(found, plain):
            np.testing.assert_allclose(value, wanted, 1e-4, 1e-5, err_msg=str(sample))
    return count


def _called(sample: Sample, change: Any, mesh: DeviceMesh | None = None) -> Any:
    names = Operands(lazyt, "float32", False, change)
    function = getattr(owner_of(lazyt, sample.place), sample.name)
    lazyt.manual_seed(1)
    if sample.place == "nn":
        function = call(function, sample.made, names)
        if mesh is not None:
            function = distribute_module(function, mesh)
    return call(function, sample.text, names)


def _values(result: Any) -> list[Any]:
    found = [t.full_tensor() if isinstance(t, DTensor) else t for t in tensors_in(lazyt, result)]
    return [np.array(tensor.detach().tolist()) for tensor in found]
