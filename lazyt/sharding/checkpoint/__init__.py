"""Checkpoints that several ranks write and read together (``torch.distributed.checkpoint``)."""

from __future__ import annotations

from lazyt.sharding.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    StorageMeta,
    TensorStorageMetadata,
)
from lazyt.sharding.checkpoint.planners import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
)
from lazyt.sharding.checkpoint.saving import (
    CheckpointException,
    Stateful,
    async_save,
    load,
    load_state_dict,
    save,
    save_state_dict,
)
from lazyt.sharding.checkpoint.storage import (
    FileSystemReader,
    FileSystemWriter,
    StorageReader,
    StorageWriter,
)

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "DefaultLoadPlanner",
    "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "LoadPlan", "LoadPlanner",
    "Metadata", "ReadItem", "SavePlan", "SavePlanner", "Stateful", "StorageMeta", "StorageReader",
    "StorageWriter", "TensorStorageMetadata", "WriteItem", "async_save", "load", "load_state_dict",
    "save", "save_state_dict",
]  # fmt: skip
