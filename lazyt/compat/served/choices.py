"""Constants, enumerations and warnings of PyTorch that programs name in arguments."""

from __future__ import annotations

import enum
from typing import Any

from lazyt.errors import UnsupportedNameError
from lazyt.handle.layout import layout

__all__ = [
    "EMPTY_DICT", "FALSE", "FLEX_BLOCK", "NONE", "BackwardPrefetch", "CheckpointImpl",
    "DebugLevel", "NoPipe", "OperatorExportTypes", "OptState", "OptimStateKeyType",
    "ShardingStrategy", "StateDictType", "TracerWarning", "TrainingMode",
]  # fmt: skip

NONE = None
FALSE = False
#: A key of state, and of what an annotation says.
EXTRA_STATE = "_extra_state"
Anything = Any
EMPTY_DICT: dict[str, Any] = {}
#: Names of layouts, which no tensor has.
LAYOUT_JAGGED, LAYOUT_MKLDNN = layout("jagged"), layout("_mkldnn")
#: Libraries of C++ operators that are loaded.
NO_LIBRARIES: frozenset[str] = frozenset()
#: The default size of a block in flex_attention's masks.
FLEX_BLOCK = 128


class TracerWarning(Warning):
    """PyTorch's warning about traces that would not generalise; never given here."""


class OperatorExportTypes(enum.IntEnum):
    """How exporters to ONNX treat operators that are not in it."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(enum.IntEnum):
    """In which mode exporters to ONNX put a module."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class DefaultDeviceType:
    """The type of device whose state checkpoints would save, where they are not told."""

    _type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Choose it."""
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type() -> str:
        """What was chosen."""
        return DefaultDeviceType._type


class DispatchKey(enum.Enum):
    """Keys of PyTorch's dispatcher, by which packages register kernels."""

    CPU = enum.auto()
    CUDA = enum.auto()
    XPU = enum.auto()
    Meta = enum.auto()
    Autograd = enum.auto()
    AutogradCPU = enum.auto()
    AutogradCUDA = enum.auto()
    AutocastCPU = enum.auto()
    AutocastCUDA = enum.auto()
    AutocastXPU = enum.auto()
    ADInplaceOrView = enum.auto()
    CompositeExplicitAutograd = enum.auto()
    CompositeImplicitAutograd = enum.auto()
    Functionalize = enum.auto()
    FuncTorchBatched = enum.auto()
    Python = enum.auto()


class DispatchKeySet:
    """Several of them.

    Args:
        key: one key.
    """

    def __init__(self, key: DispatchKey) -> None:
        self.keys = frozenset({key})

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        made = DispatchKeySet.__new__(DispatchKeySet)
        made.keys = self.keys | other.keys
        return made

    def has(self, k: DispatchKey) -> bool:
        """Whether a key is among them."""
        return k in self.keys


class OptState(enum.Enum):
    """What a GradScaler has done for an optimizer since its last step."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class DebugLevel(enum.IntEnum):
    """How much PyTorch's distributed package reports."""

    OFF = 0
    INFO = 1
    DETAIL = 2

    __str__ = enum.Enum.__str__


class CheckpointImpl(enum.Enum):
    """The forms of activation checkpointing."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class ShardingStrategy(enum.Enum):
    """What FullyShardedDataParallel would divide among processes."""

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class BackwardPrefetch(enum.Enum):
    """When FullyShardedDataParallel would gather the next parameters."""

    BACKWARD_PRE = enum.auto()
    BACKWARD_POST = enum.auto()


class StateDictType(enum.Enum):
    """The forms of state that FullyShardedDataParallel would give."""

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


class OptimStateKeyType(enum.Enum):
    """By what an optimizer's state is keyed."""

    PARAM_NAME = enum.auto()
    PARAM_ID = enum.auto()


class NoPipe:
    """A data pipe of PyTorch's, which has stopped them: programs may subclass it and ask for it
    with ``isinstance``. Making one raises UnsupportedNameError."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoPipe:
        raise UnsupportedNameError(
            "data pipes cannot be used: PyTorch has stopped them; write an IterableDataset"
        )

    def __class_getitem__(cls, _: Any) -> type[NoPipe]:
        return cls
