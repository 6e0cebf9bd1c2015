"""What programs pass to ``FullyShardedDataParallel`` (``torch.distributed.fsdp.api``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lazyt.compat.served.choices import StateDictType

__all__ = [
    "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig", "LocalOptimStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig",
    "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "StateDictConfig",
    "StateDictSettings",
]  # fmt: skip


@dataclass(frozen=True)
class MixedPrecision:
    """Dtypes of a module under ``FullyShardedDataParallel``; parameters are stored in their own.

    Attributes:
        param_dtype: of the whole parameters, and of what is computed with them.
        reduce_dtype: in which gradients are averaged; that of ``param_dtype`` by default.
        buffer_dtype: of floating-point buffers, from the first forward on; a full state dict has
            them in the dtype before.
        keep_low_precision_grads: accepted as False: gradients have the dtypes of parameters.
        cast_forward_inputs: whether floating-point arguments become ``param_dtype``.
        cast_root_forward_inputs: the same of the outermost module's arguments.
        _module_classes_to_ignore: accepted.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = ()


@dataclass
class CPUOffload:
    """Whether parameters are in the host's memory while nobody needs them, where they are anyway.

    Attributes:
        offload_params: accepted.
    """

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """How a model's state is given.

    Attributes:
        offload_to_cpu: copies in the host's memory.
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Whole tensors.

    Attributes:
        rank0_only: on the first rank alone; the others get empty dictionaries.
    """

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Each rank's part as it is stored, which other numbers of ranks could not load: not given."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """DTensors, of which each rank has a part.

    Attributes:
        _use_dtensor: accepted: they always are.
    """

    _use_dtensor: bool = True


@dataclass
class OptimStateDictConfig:
    """How an optimizer's state is given.

    Attributes:
        offload_to_cpu: copies in the host's memory.
    """

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors.

    Attributes:
        rank0_only: on the first rank alone; the others get empty dictionaries.
    """

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Each rank's part as it is stored: not given."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """DTensors, of which each rank has a part.

    Attributes:
        _use_dtensor: accepted: they always are.
    """

    _use_dtensor: bool = True


#: The settings of each type, for the model and for the optimizer.
KINDS = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}


@dataclass
class StateDictSettings:
    """How a model's and its optimizer's state are given."""

    state_dict_type: StateDictType = StateDictType.FULL_STATE_DICT
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)


def settings_of(kind: Any, config: Any = None, optim_config: Any = None) -> StateDictSettings:
    """Settings of a type. Raises RuntimeError for a configuration of another one."""
    if kind not in KINDS:
        raise ValueError(f"Unexpected state_dict_type: {kind}")
    found: list[Any] = []
    for wanted, given in zip(KINDS[kind], (config, optim_config)):
        if given is not None and type(given) is not wanted:
            raise RuntimeError(f"Expected state_dict_config of type {wanted} but got {type(given)}")
        found.append(wanted() if given is None else given)
    return StateDictSettings(kind, *found)
