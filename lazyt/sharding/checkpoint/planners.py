"""What each rank writes and reads: plans, made of a state dict and of what a checkpoint holds.

A tensor that ranks divide is one of the checkpoint; each rank writes its part, and any number of
ranks, divided in any other way, reads the parts that it needs. What several ranks have is written
by one of them.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from math import prod
from typing import Any

from lazyt import serialization
from lazyt.distributed.tensor.dtensor import DTensor, layout_of
from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Size, Tensor
from lazyt.sharding.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

__all__ = [
    "BytesIOWriteData", "DefaultLoadPlanner", "DefaultSavePlanner", "EmptyStateDictLoadPlanner",
    "LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner",
    "TensorWriteData", "WriteItem", "WriteItemType", "extent_of", "flatten_state_dict",
    "set_element",
]  # fmt: skip


class WriteItemType(Enum):
    """What an item writes."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What an item reads."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """Of an object: how many bytes it has."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """Of a part of a tensor: which part, and of what."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """Something that a rank writes."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """The bytes of a tensor; None for an object."""
        if self.tensor_data is None:
            return None
        return prod(self.tensor_data.chunk.sizes) * int(self.tensor_data.properties.dtype.itemsize)


@dataclass(frozen=True)
class ReadItem:
    """A part of a tensor, or an object, that a rank reads.

    Attributes:
        dest_index, dest_offsets: where in this rank's tensor it goes.
        storage_index, storage_offsets: which chunk of the checkpoint, and where in it.
        lengths: the part's shape.
    """

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """All that a rank writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """All that a rank reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


# ------------------------------------------------------------------ names of what is nested

Path = tuple[str | int, ...]


def _has_tensor(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_tensor, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_tensor, value))
    return isinstance(value, Tensor)


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _walk(item, (*path, key if isinstance(key, int) else str(key)))
    elif isinstance(value, (list, tuple)) and _has_tensor(value):
        for number, item in enumerate(value):
            yield from _walk(item, (*path, number))
    else:
        yield path, value


def flatten_state_dict(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """What nested dictionaries hold, by names with dots, and the keys that lead there. Raises
    ValueError where two have one name."""
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for path, value in _walk(state_dict, ()):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path
    return flat, paths


def set_element(root: Any, path: Path, value: Any) -> None:
    """Puts a value into nested dictionaries and lists."""
    for key in path[:-1]:
        root = root[key]
    if isinstance(root, tuple):
        raise LazytError(f"a tuple holds a tensor at {path}, which cannot be replaced")
    root[path[-1]] = value


def extent_of(tensor: Tensor) -> tuple[Size, Size, Tensor]:
    """The whole shape of a tensor that may be divided, where this rank's part starts, and it."""
    if isinstance(tensor, DTensor):
        layout = layout_of(tensor)
        if any(part.is_partial for part in layout.parts):
            raise LazytError(f"a DTensor with the placements {tensor.placements} cannot be saved")
        offsets = layout.offsets(tuple(tensor.shape))
        return Size(tensor.shape), Size(offsets), tensor.parts_on_this_rank()
    return Size(tensor.shape), Size((0,) * tensor.dim()), tensor


# ------------------------------------------------------------------ planners


class SavePlanner(ABC):
    """Says what is written. Subclass ``DefaultSavePlanner`` to change a part of it."""

    @abstractmethod
    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: Any = None, is_coordinator: bool = False
    ) -> None:
        """Begins: this is what to save."""

    @abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this rank could write."""

    @abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """What each rank writes, and what the checkpoint holds then; on one rank."""

    @abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """This rank's plan, as it is carried out."""

    @abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The value of an item."""


class LoadPlanner:
    """Says what is read, and where it goes. Subclass ``DefaultLoadPlanner`` to change a part."""

    @abstractmethod
    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:  # fmt: skip
        """Begins: this is to be filled, from what a checkpoint holds."""

    @abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this rank reads."""

    @abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """What each rank reads; on one rank."""

    @abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """This rank's plan, as it is carried out."""

    @abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Takes an object."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Where an object's bytes go."""
        raise NotImplementedError("LoadPlanner.resolve_bytes is not implemented")

    @abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """The part of this rank's tensor that an item fills."""

    @abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """The part is filled."""


class DefaultSavePlanner(SavePlanner):
    """Writes all tensors and objects of a nested dictionary, each once.

    Args:
        flatten_state_dict: whether nested dictionaries are looked into.
        flatten_sharded_tensors, dedup_replicated_tensors, enable_plan_caching: accepted.
        dedup_save_to_lowest_rank: whether the first rank writes what several have; by default the
            one with the least to write.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.state_dict: dict[str, Any] = {}
        self.mappings: dict[str, Path] = {}
        self.is_coordinator = False
        self._bytes: dict[str, bytes] = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: Any = None, is_coordinator: bool = False
    ) -> None:
        """Begins: this is what to save."""
        self.state_dict, self.mappings = dict(state_dict), {k: (k,) for k in state_dict}
        if self.flatten_state_dict:
            self.state_dict, self.mappings = flatten_state_dict(state_dict)
        self.is_coordinator, self._bytes = is_coordinator, {}

    def create_local_plan(self) -> SavePlan:
        """An item for each tensor, or this rank's part of it, and for each object."""
        items = []
        for name, value in self.state_dict.items():
            if not isinstance(value, Tensor):
                data = self._bytes_of(name)
                index = MetadataIndex(name)
                items.append(WriteItem(index, WriteItemType.BYTE_IO, BytesIOWriteData(len(data))))
                continue
            size, offsets, local = extent_of(value)
            if size.numel() and not local.numel():
                continue  # this rank has none of it
            chunk = ChunkStorageMetadata(offsets, Size(local.shape))
            kind = WriteItemType.TENSOR if size == chunk.sizes else WriteItemType.SHARD
            properties = TensorProperties.create_from_tensor(local)
            data_of = TensorWriteData(chunk, properties, size)
            items.append(WriteItem(MetadataIndex(name, offsets), kind, None, data_of))
        return SavePlan(items, planner_data=self.mappings)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Each item on one of the ranks that have it. Raises LazytError for parts that contradict
        each other, or do not make up a whole tensor."""
        owners: dict[MetadataIndex, list[int]] = {}
        known: dict[MetadataIndex, WriteItem] = {}
        for rank, plan in enumerate(all_plans):
            for item in plan.items:
                owners.setdefault(item.index, []).append(rank)
                first = known.setdefault(item.index, item)
                if first.tensor_data != item.tensor_data:
                    raise LazytError(
                        f"ranks {owners[item.index][0]} and {rank} have different tensors "
                        f"{item.index.fqn!r}: {first.tensor_data} and {item.tensor_data}"
                    )
        chosen: list[list[WriteItem]] = [[] for _ in all_plans]
        loads = [0] * len(all_plans)
        found: dict[str, Any] = {}
        for index, ranks in owners.items():
            item = known[index]
            rank = ranks[0] if self.dedup_save_to_lowest_rank else min(ranks, key=loads.__getitem__)
            chosen[rank].append(item)
            data = item.tensor_data
            loads[rank] += item.tensor_storage_size() or 0
            if data is None:
                found.setdefault(index.fqn, BytesStorageMetadata())
                continue
            entry = found.setdefault(
                index.fqn, TensorStorageMetadata(data.properties, data.size, [])
            )
            if entry.size != data.size or entry.properties.dtype is not data.properties.dtype:
                raise LazytError(f"ranks have tensors {index.fqn!r} of different shapes or dtypes")
            entry.chunks.append(data.chunk)
        for name, entry in found.items():
            if isinstance(entry, TensorStorageMetadata):
                covered = sum(prod(chunk.sizes) for chunk in entry.chunks)
                if covered != prod(entry.size):
                    raise LazytError(
                        f"the parts of {name!r} that ranks have are {covered} elements of "
                        f"{list(entry.size)}"
                    )
        paths: dict[str, Path] = {}
        for plan in all_plans:
            paths.update(plan.planner_data or {})
        plans = [replace(plan, items=some) for plan, some in zip(all_plans, chosen)]
        return plans, Metadata(found, paths)

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """The plan itself."""
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The tensor or the object's bytes, as ``transform_object`` gives them."""
        found: Tensor | io.BytesIO = self.transform_object(
            write_item, self.lookup_object(write_item.index)
        )
        return found

    def lookup_object(self, index: MetadataIndex) -> Any:
        """What has a name."""
        value = self.state_dict[index.fqn]
        return extent_of(value)[2] if isinstance(value, Tensor) else value

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written for a value."""
        if write_item.type is WriteItemType.BYTE_IO:
            return io.BytesIO(self._bytes_of(write_item.index.fqn))
        return object

    def _bytes_of(self, name: str) -> bytes:
        found = self._bytes.get(name)
        if found is None:
            file = io.BytesIO()
            serialization.save(self.state_dict[name], file)
            found = self._bytes[name] = file.getvalue()
        return found


class DefaultLoadPlanner(LoadPlanner):
    """Fills all tensors of a nested dictionary in place, and replaces its objects.

    Args:
        flatten_state_dict: whether nested dictionaries are looked into.
        flatten_sharded_tensors: accepted.
        allow_partial_load: whether what the checkpoint does not have stays as it is.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.allow_partial_load = allow_partial_load
        self.original_state_dict: dict[str, Any] = {}
        self.state_dict: dict[str, Any] = {}
        self.mappings: dict[str, Path] = {}
        self.metadata: Metadata | None = None
        self.is_coordinator = False

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:  # fmt: skip
        """Begins: this is to be filled, from what a checkpoint holds."""
        self.original_state_dict = state_dict
        self.state_dict, self.mappings = dict(state_dict), {k: (k,) for k in state_dict}
        if self.flatten_state_dict:
            self.state_dict, self.mappings = flatten_state_dict(state_dict)
        self.metadata, self.is_coordinator = metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """The parts of the checkpoint that this rank's tensors overlap with. Raises LazytError (a
        RuntimeError) for names that the checkpoint does not have, and ValueError for shapes."""
        assert self.metadata is not None
        items: list[ReadItem] = []
        for name, value in self.state_dict.items():
            entry = self.metadata.state_dict_metadata.get(name)
            if entry is None:
                if self.allow_partial_load:
                    continue
                raise LazytError(f"Missing key in checkpoint state_dict: {name}.")
            none = Size(())
            if isinstance(entry, BytesStorageMetadata):
                index = MetadataIndex(name)
                items.append(ReadItem(LoadItemType.BYTE_IO, index, none, index, none, none))
            elif isinstance(value, Tensor):
                items += self._parts(name, value, entry)
            else:
                raise LazytError(
                    f"{name!r} is a tensor of the checkpoint, and {type(value).__name__} here"
                )
        return LoadPlan(items)

    def _parts(self, name: str, value: Tensor, entry: TensorStorageMetadata) -> Iterator[ReadItem]:
        size, offsets, local = extent_of(value)
        if size != entry.size:
            raise ValueError(
                f"Size mismatch between saved {entry.size} and current: {size} for {name}"
            )
        for number, chunk in enumerate(entry.chunks):
            low = [max(a, b) for a, b in zip(offsets, chunk.offsets)]
            high = [
                min(a + n, b + m)
                for a, n, b, m in zip(offsets, local.shape, chunk.offsets, chunk.sizes)
            ]
            lengths = Size([max(0, h - n) for n, h in zip(low, high)])
            if 0 in lengths:
                continue
            yield ReadItem(
                LoadItemType.TENSOR,
                MetadataIndex(name, offsets),
                Size([n - o for n, o in zip(low, offsets)]),
                MetadataIndex(name, chunk.offsets, number),
                Size([n - o for n, o in zip(low, chunk.offsets)]),
                lengths,
            )

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """The plans themselves."""
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """The plan itself."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Puts an object into the dictionary."""
        name = read_item.dest_index.fqn
        found = serialization.load(value, weights_only=True)
        self.state_dict[name] = found
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], found)
        else:
            self.original_state_dict[name] = found

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """The part of this rank's tensor that an item fills."""
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """This rank's part of a tensor."""
        return extent_of(self.state_dict[index.fqn])[2]

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """The part of a tensor that an item fills."""
        found = tensor.detach()
        for axis, (start, length) in enumerate(zip(read_item.dest_offsets, read_item.lengths)):
            if (start, length) != (0, found.shape[axis]):
                found = lazyt.narrow(found, axis, start, length)
        return found

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Nothing: the part was filled in place."""


class EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty state dict with all that a checkpoint holds, as whole tensors.

    Args:
        keys: load what is below these names alone; everything for None.
    """

    def __init__(self, keys: Collection[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _is_wanted(self, path: Path) -> bool:
        names = {".".join(map(str, path[: end + 1])) for end in range(len(path))}
        return self.keys is None or not names.isdisjoint(self.keys)

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:  # fmt: skip
        """Begins: puts in what the checkpoint names. Raises ValueError for a state dict that holds
        something."""
        if state_dict:
            raise ValueError("the state dict is filled with all that there is, and has to be empty")
        assert metadata is not None
        whole: dict[Any, Any] = {}
        for name, entry in metadata.state_dict_metadata.items():
            path = (metadata.planner_data or {}).get(name, (name,))
            if not self._is_wanted(path):
                continue
            at = whole
            for key in path[:-1]:
                at = at.setdefault(key, {})
            at[path[-1]] = (
                lazyt.empty(entry.size, dtype=entry.properties.dtype)
                if isinstance(entry, TensorStorageMetadata)
                else None
            )
        state_dict.update({key: _with_lists(value) for key, value in whole.items()})
        super().set_up_planner(state_dict, metadata, is_coordinator)


def _with_lists(value: Any) -> Any:
    """Lists in the place of dictionaries with their numbers."""
    if not isinstance(value, dict):
        return value
    found = {key: _with_lists(item) for key, item in value.items()}
    is_list = found and list(found) == list(range(len(found)))
    return list(found.values()) if is_list else found
