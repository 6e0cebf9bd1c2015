"""``torch.distributed.tensor.parallel``: modules whose parameters the ranks of a mesh divide, by a
plan that says how inputs, parameters and outputs of each are placed."""

from __future__ import annotations

from lazyt.distributed.tensor.parallel.losses import loss_parallel
from lazyt.distributed.tensor.parallel.plans import parallelize_module
from lazyt.distributed.tensor.parallel.styles import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel",
    "parallelize_module",
]  # fmt: skip
