"""``torch.distributed.tensor``: tensors that the ranks of a mesh have parts of."""

from __future__ import annotations

from lazyt.distributed.device_mesh import DeviceMesh as DeviceMesh
from lazyt.distributed.device_mesh import init_device_mesh as init_device_mesh
from lazyt.distributed.placements import Partial, Placement, Replicate, Shard
from lazyt.distributed.tensor.dtensor import DTensor, explain_partition
from lazyt.distributed.tensor.making import (
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "explain_partition", "full", "init_device_mesh", "ones", "rand",
    "randn", "zeros",
]  # fmt: skip
