"""State of optimizers of ``FullyShardedDataParallel``, by the names of parameters."""

from __future__ import annotations

from typing import Any

from lazyt.compat.served.choices import StateDictType
from lazyt.nn.module import Module
from lazyt.optim.optimizer import Optimizer
from lazyt.sharding.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    numbered,
)
from lazyt.sharding.fsdp.settings import StateDictSettings

__all__ = ["named_state", "numbered_state"]


def _is_full(settings: StateDictSettings) -> bool:
    return settings.state_dict_type is StateDictType.FULL_STATE_DICT


def named_state(model: Module, optim: Optimizer, settings: StateDictSettings) -> dict[str, Any]:
    """``{"state": {name: ...}, "param_groups": ...}``: whole tensors or DTensors."""
    config = settings.optim_state_dict_config
    alone = getattr(config, "rank0_only", False)
    options = StateDictOptions(
        full_state_dict=_is_full(settings), cpu_offload=config.offload_to_cpu or alone
    )
    return get_optimizer_state_dict(model, optim, options=options, everywhere=not alone)


def numbered_state(
    model: Module, optim: Optimizer, given: dict[str, Any], settings: StateDictSettings
) -> dict[str, Any]:
    """What an optimizer loads, of what ``named_state`` gave."""
    alone = getattr(settings.optim_state_dict_config, "rank0_only", False)
    full = _is_full(settings)
    options = StateDictOptions(full_state_dict=full, broadcast_from_rank0=full and alone)
    return numbered(model, [optim], given, options)[0]
