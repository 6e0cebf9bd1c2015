"""Training whose state is divided among ranks: optimizer state (ZeRO-1), gradients (ZeRO-2) and
parameters (ZeRO-3), and checkpoints of such training."""

from __future__ import annotations

from lazyt.sharding.fully_shard import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    UnshardHandle,
    fully_shard,
    register_fsdp_forward_method,
)
from lazyt.sharding.zero_optimizer import ZeroRedundancyOptimizer

__all__ = [
    "CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "UnshardHandle",
    "ZeroRedundancyOptimizer", "fully_shard", "register_fsdp_forward_method",
]  # fmt: skip
