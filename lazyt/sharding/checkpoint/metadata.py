"""What a checkpoint holds: names, shapes, and which parts of them there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Size

__all__ = [
    "STATE_DICT_TYPE", "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex",
    "StorageMeta", "TensorProperties", "TensorStorageMetadata",
]  # fmt: skip

STATE_DICT_TYPE = dict[str, Any]


@dataclass(frozen=True)
class ChunkStorageMetadata:
    """A part of a tensor.

    Attributes:
        offsets: where it starts, along each axis.
        sizes: its shape.
    """

    offsets: Size
    sizes: Size


@dataclass
class TensorProperties:
    """What a tensor is besides its shape; only ``dtype`` is stored."""

    dtype: Any = None
    layout: Any = None
    requires_grad: bool = False
    memory_format: Any = None
    pin_memory: bool = False

    @staticmethod
    def create_from_tensor(tensor: Any) -> TensorProperties:
        """Those of a tensor."""
        return TensorProperties(tensor.dtype, lazyt.strided, tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint: its whole shape, and the parts that there are."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An object of a checkpoint that is no tensor."""


@dataclass
class StorageMeta:
    """Which checkpoint it is."""

    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """All that a checkpoint holds.

    Attributes:
        state_dict_metadata: by name.
        planner_data: by name, the keys that lead to the value in a nested dictionary.
        storage_data: by ``MetadataIndex``, where the storage has it.
        storage_meta, version: of the checkpoint.
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """Names a part of a tensor, or an object.

    Attributes:
        fqn: the name.
        offset: where the part starts; None for an object.
        index: its number among the chunks, if it is known; equal indices may differ in it.
    """

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(
        self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None
    ) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "offset", None if offset is None else Size(offset))
        object.__setattr__(self, "index", index)
