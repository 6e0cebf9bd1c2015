"""Where checkpoints are: a folder of safetensors files, one of each rank, and an index.

The index is written last, and takes the place of the one before in one step. Files of another save
have other names, so whoever is interrupted leaves the last complete checkpoint as it was. Values
have checksums, of blocks of rows; each block is read by one of the ranks that need it, which gives
it to the others.
"""

from __future__ import annotations

import io
import json
import os
import re
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from lazyt.compat.served.futures import Future
from lazyt.distributed.objects import gathered_bytes
from lazyt.errors import CheckpointError, LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle import pending
from lazyt.handle.dispatch import wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.tensor import Size, Tensor
from lazyt.ops import input_
from lazyt.runtime.memory import Buffer
from lazyt.serialization.archive import replacing
from lazyt.serialization.safetensors import DTYPES, NAMES
from lazyt.sharding.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from lazyt.sharding.checkpoint.planners import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
)

__all__ = [
    "FileSystemReader", "FileSystemWriter", "StorageReader", "StorageWriter", "WriteResult",
]  # fmt: skip

_INDEX = "index.json"
_FORMAT = "lazyt checkpoint 1"
#: Bytes of a block with a checksum, about.
_BLOCK = 1 << 18
#: Bytes that ranks give each other at a time.
_ROUND = 64 << 20


@dataclass(frozen=True)
class WriteResult:
    """What has been written for an item."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class Stored(NamedTuple):
    """Where a chunk or an object is.

    Attributes:
        file: the name of its file.
        begin, end: its bytes in it.
        rows: how many rows of axis 0 a block has.
        sums: the checksum of each block.
    """

    file: str
    begin: int
    end: int
    rows: int
    sums: tuple[int, ...]


class StorageWriter(ABC):
    """Writes checkpoints somewhere; ranks call these methods in this order."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether this class can write there."""
        return False

    @abstractmethod
    def reset(self, checkpoint_id: Any = None) -> None:
        """Another checkpoint begins."""

    @abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool) -> None:
        """Begins."""

    @abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """A rank's plan, with what the storage adds."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """The plans of all ranks; on one of them."""

    @abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[Any]:
        """Writes a rank's items: a future of ``WriteResult`` of each."""

    @abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """All ranks have written; on one of them."""

    def storage_meta(self) -> StorageMeta | None:
        """Which checkpoint it is."""
        return None


class StorageReader(ABC):
    """Reads checkpoints from somewhere; ranks call these methods in this order."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether this class can read from there."""
        return False

    @abstractmethod
    def reset(self, checkpoint_id: Any = None) -> None:
        """Another checkpoint begins."""

    @abstractmethod
    def read_metadata(self) -> Metadata:
        """What the checkpoint holds."""

    @abstractmethod
    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool) -> None:
        """Begins."""

    @abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """A rank's plan, with what the storage adds."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans of all ranks; on one of them."""

    @abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[Any]:
        """Reads a rank's items, and gives them to the planner: a future of None."""


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def bytes_of(tensor: Tensor) -> Any:
    """The memory of a tensor's value, as an array of bytes."""
    (node,) = (tensor.detach().contiguous().node,)
    pending.realize_now([node], "it is saved")
    if not node.nbytes:
        return np.empty(0, np.uint8)
    return node.data.as_numpy(node.dtype, (node.size,)).view(np.uint8)


def _tensor_of(data: Any, dtype: Any, shape: Sequence[int]) -> Tensor:
    buffer = Buffer(data.size)
    if data.size:
        buffer.as_numpy(lazyt.uint8, (data.size,))[...] = data
    return wrap(input_(tuple(shape), dtype, buffer))


def _rows(shape: Sequence[int], itemsize: int) -> tuple[int, int, int]:
    """Rows of a chunk, bytes of a row, and rows of a block."""
    count = shape[0] if shape else 1
    size = itemsize * prod(shape[1:])
    return count, size, max(1, _BLOCK // max(size, 1))


class FileSystemWriter(StorageWriter):
    """Writes a checkpoint into a folder: a safetensors file of each rank, and ``index.json``.

    Args:
        path: the folder, which is made.
        overwrite: whether a checkpoint that is there may be replaced.
        single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead,
        cache_staged_state_dict, serialization_format: accepted.

    Raises LazytError where a checkpoint is and ``overwrite`` is False.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Any = None,
        serialization_format: Any = None,
    ) -> None:
        self.path = Path(os.fspath(path))
        self.overwrite, self.sync_files = overwrite, sync_files
        self.save_id = uuid4().hex[:12]

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether it is a path."""
        return isinstance(checkpoint_id, (str, os.PathLike)) and "://" not in str(checkpoint_id)

    @property
    def checkpoint_id(self) -> Path:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: Any = None) -> None:
        """Another checkpoint begins."""
        if checkpoint_id:
            self.path = Path(os.fspath(checkpoint_id))
        self.save_id = uuid4().hex[:12]

    def storage_meta(self) -> StorageMeta:
        """Which checkpoint it is."""
        return StorageMeta(str(self.path), self.save_id)

    def set_up_storage_writer(self, is_coordinator: bool) -> None:
        """Makes the folder."""
        if not self.overwrite and (self.path / _INDEX).exists():
            raise LazytError(f"there is a checkpoint in {self.path} already, and overwrite=False")
        self.path.mkdir(parents=True, exist_ok=True)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """The plan itself."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Each rank learns the name of its file."""
        return [
            replace(plan, storage_data=f"{self.save_id}-{rank:05}.safetensors")
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[Any]:
        """Writes this rank's file."""
        parts = [(item, _data_of(planner.resolve_data(item))) for item in plan.items]
        return _done(write_file(self.path, plan.storage_data, parts))

    def staged(self, plan: SavePlan, planner: SavePlanner) -> list[tuple[WriteItem, Any]]:
        """Copies of the values of this rank's items, as they are now."""
        return [(item, _data_of(planner.resolve_data(item)).copy()) for item in plan.items]

    def write_staged(self, name: str, parts: list[tuple[WriteItem, Any]]) -> None:
        """Writes this rank's file, and beside it what is in it."""
        results = write_file(self.path, name, parts)
        with replacing(str(self.path / f"{Path(name).stem}.json")) as file:
            file.write(json.dumps([
                [r.index.fqn, None if r.index.offset is None else list(r.index.offset),
                 r.size_in_bytes, list(r.storage_data)]
                for r in results
            ]).encode())  # fmt: skip

    def collected(self, names: Sequence[str], patience: float) -> list[list[WriteResult]]:
        """What is in the files of all ranks, which write them in the background. Raises
        CheckpointError after ``patience`` seconds."""
        found = []
        end = time.monotonic() + patience
        for name in names:
            path = self.path / f"{Path(name).stem}.json"
            while not path.exists():
                if time.monotonic() > end:
                    raise CheckpointError(f"the rank that writes {path} has not finished")
                time.sleep(0.01)
            told = json.loads(path.read_bytes())
            path.unlink()
            found.append([
                WriteResult(MetadataIndex(fqn, offset), size, _stored(where))
                for fqn, offset, size, where in told
            ])  # fmt: skip
        return found

    def wait_for_index(self, save_id: str, patience: float) -> None:
        """Waits until the index of a save is there. Raises CheckpointError."""
        end = time.monotonic() + patience
        while not _is_index_of(self.path / _INDEX, save_id):
            if time.monotonic() > end:
                raise CheckpointError(f"nobody has written the index of {self.path}")
            time.sleep(0.01)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Writes the index, in one step, and removes the files of earlier checkpoints."""
        metadata.storage_data = {r.index: r.storage_data for some in results for r in some}
        metadata.storage_meta = self.storage_meta()
        with replacing(str(self.path / _INDEX)) as file:
            file.write(_index_text(metadata).encode())
        _sync_folder(self.path)
        files = {stored.file for stored in metadata.storage_data.values()}
        for other in self.path.iterdir():
            ours = re.fullmatch(r"[0-9a-f]{12}-\d{5}\.(safetensors|json)(\.\d+\.tmp)?", other.name)
            if ours and other.name not in files and not other.name.startswith(self.save_id):
                other.unlink(missing_ok=True)


def _data_of(value: Tensor | io.BytesIO) -> Any:
    if isinstance(value, Tensor):
        return bytes_of(value)
    return np.frombuffer(value.getvalue(), np.uint8)


def _is_index_of(path: Path, save_id: str) -> bool:
    return path.exists() and f'"save_id":"{save_id}"'.encode() in path.read_bytes()


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_file(
    folder: Path, name: str, parts: Sequence[tuple[WriteItem, Any]]
) -> list[WriteResult]:
    """Writes the values of items into a safetensors file."""
    header: dict[str, Any] = {}
    begin = 0
    places = []
    # Large elements first, so that every tensor is aligned.
    parts = sorted(parts, key=lambda p: -_kind_of(p[0], p[1])[1].itemsize)
    for item, data in parts:
        shape, dtype = _kind_of(item, data)
        header[_title(item.index)] = {
            "dtype": NAMES[dtype.name], "shape": list(shape),
            "data_offsets": [begin, begin + data.size],
        }  # fmt: skip
        places.append((begin, shape, dtype))
        begin += data.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    start = 8 + len(text)
    found = []
    with replacing(str(folder / name)) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for (item, data), (offset, shape, dtype) in zip(parts, places):
            count, size, rows = _rows(shape, dtype.itemsize)
            file.write(data.data)
            sums = tuple(
                zlib.crc32(data[row * size : min(row + rows, count) * size].data)
                for row in range(0, count, rows)
            )
            stored = Stored(name, start + offset, start + offset + data.size, rows, sums)
            found.append(WriteResult(item.index, data.size, stored))
    return found


def _kind_of(item: WriteItem, data: Any) -> tuple[tuple[int, ...], Any]:
    if item.tensor_data is None:
        return (data.size,), lazyt.uint8
    return tuple(item.tensor_data.chunk.sizes), item.tensor_data.properties.dtype


def _title(index: MetadataIndex) -> str:
    """What a chunk is called in its file."""
    if index.offset is None or not any(index.offset):
        return index.fqn
    return f"{index.fqn}@{','.join(map(str, index.offset))}"


def _index_text(metadata: Metadata) -> str:
    """The index, in JSON."""
    tensors: dict[str, Any] = {}
    for name, entry in metadata.state_dict_metadata.items():
        one: dict[str, Any] = {}
        if isinstance(entry, TensorStorageMetadata):
            one = {"dtype": NAMES[entry.properties.dtype.name], "shape": list(entry.size)}
            one["chunks"] = [
                [list(c.offsets), list(c.sizes), *metadata.storage_data[
                    MetadataIndex(name, c.offsets)]]
                for c in entry.chunks
            ]  # fmt: skip
        else:
            one["object"] = list(metadata.storage_data[MetadataIndex(name)])
        tensors[name] = one
    body = {
        "values": tensors,
        "paths": {k: list(v) for k, v in (metadata.planner_data or {}).items()},
        "save_id": getattr(metadata.storage_meta, "save_id", None),
    }
    text = json.dumps(body, separators=(",", ":"))
    return json.dumps({"format": _FORMAT, "sum": zlib.crc32(text.encode())}) + "\n" + text + "\n"


def _parsed_index(text: bytes, path: Path) -> Metadata:
    """What an index says. Raises CheckpointError where it is damaged."""
    try:
        head, _, body = text.partition(b"\n")
        told = json.loads(head)
        if told["format"] != _FORMAT:
            raise CheckpointError(f"{path} has the format {told['format']!r}, not {_FORMAT!r}")
        if zlib.crc32(body.rstrip(b"\n")) != told["sum"]:
            raise CheckpointError(f"{path} is damaged: its checksum is wrong")
        found = json.loads(body)
        values: dict[str, Any] = {}
        stored: dict[MetadataIndex, Stored] = {}
        for name, one in found["values"].items():
            if "object" in one:
                values[name] = BytesStorageMetadata()
                stored[MetadataIndex(name)] = _stored(one["object"])
                continue
            chunks = []
            for offsets, sizes, *where in one["chunks"]:
                chunks.append(ChunkStorageMetadata(Size(offsets), Size(sizes)))
                stored[MetadataIndex(name, offsets)] = _stored(where)
            properties = TensorProperties(DTYPES[one["dtype"]], lazyt.strided)
            values[name] = TensorStorageMetadata(properties, Size(one["shape"]), chunks)
        paths = {k: tuple(v) for k, v in found["paths"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    return Metadata(values, paths, stored, StorageMeta(str(path.parent), found.get("save_id")))


def _stored(where: Sequence[Any]) -> Stored:
    file, begin, end, rows, sums = where
    if os.path.basename(file) != file:
        raise ValueError(f"{file!r} is no name of a file beside the index")
    return Stored(file, int(begin), int(end), int(rows), tuple(sums))


class _Block(NamedTuple):
    """Rows of a chunk that are read together."""

    chunk: MetadataIndex
    number: int


class _Reading(NamedTuple):
    """What a rank reads, and what ranks give each other.

    Attributes:
        rank: this rank.
        readers: who reads each block, in one order on all ranks.
        shared: the blocks that others need, too.
    """

    rank: int
    readers: dict[_Block, int]
    shared: list[_Block]


class FileSystemReader(StorageReader):
    """Reads a checkpoint from a folder; see ``FileSystemWriter``. Each byte is read by one rank.

    Raises CheckpointError for files that are missing, cut or damaged.
    """

    def __init__(self, path: str | os.PathLike[str], _extension_registry: Any = None) -> None:
        self.path = Path(os.fspath(path))
        #: The ranks that load together; ``load`` says so.
        self.process_group: Any = None
        self._metadata: Metadata | None = None

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether it is a path."""
        return FileSystemWriter.validate_checkpoint_id(checkpoint_id)

    @property
    def checkpoint_id(self) -> Path:
        """The folder."""
        return self.path

    def reset(self, checkpoint_id: Any = None) -> None:
        """Another checkpoint begins."""
        self._metadata = None
        if checkpoint_id:
            self.path = Path(os.fspath(checkpoint_id))

    def read_metadata(self) -> Metadata:
        """The index. Raises CheckpointError where there is none or it is damaged."""
        path = self.path / _INDEX
        try:
            text = path.read_bytes()
        except OSError as error:
            raise CheckpointError(
                f"{self.path} is no checkpoint, or an incomplete one: {error}"
            ) from error
        return _parsed_index(text, path)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool) -> None:
        """Begins."""
        self._metadata = metadata

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan itself."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Says who reads what: each block one of those who need it, the one with the least."""
        needed: dict[_Block, list[int]] = {}
        for rank, plan in enumerate(plans):
            for item in plan.items:
                for block in self._blocks(item):
                    ranks = needed.setdefault(block, [])
                    if rank not in ranks:
                        ranks.append(rank)
        loads = [0] * len(plans)
        readers = {}
        for block, ranks in sorted(needed.items(), key=lambda pair: len(pair[1])):
            rank = min(ranks, key=loads.__getitem__)
            loads[rank] += self._extent(block)[1]
            readers[block] = rank
        shared = [block for block, ranks in needed.items() if len(ranks) > 1]
        return [
            replace(plan, storage_data=_Reading(rank, readers, shared))
            for rank, plan in enumerate(plans)
        ]

    def _shape(self, index: MetadataIndex) -> tuple[tuple[int, ...], Any, Stored]:
        """Shape, dtype and place of what is stored."""
        assert self._metadata is not None
        stored = self._metadata.storage_data[index]
        entry = self._metadata.state_dict_metadata[index.fqn]
        if isinstance(entry, BytesStorageMetadata):
            return (stored.end - stored.begin,), lazyt.uint8, stored
        sizes = next(c.sizes for c in entry.chunks if c.offsets == index.offset)
        return tuple(sizes), entry.properties.dtype, stored

    def _blocks(self, item: ReadItem) -> Iterator[_Block]:
        """The blocks that an item is in."""
        index = MetadataIndex(item.storage_index.fqn, item.storage_index.offset)
        shape, _, stored = self._shape(index)
        first, count = 0, shape[0] if shape else 1
        if item.type is LoadItemType.TENSOR and shape:
            first, count = item.storage_offsets[0], item.lengths[0]
        for number in range(first // stored.rows, -(-(first + count) // stored.rows)):
            yield _Block(index, number)

    def _extent(self, block: _Block) -> tuple[int, int]:
        """First byte of a block in its file, and how many it has."""
        shape, dtype, stored = self._shape(block.chunk)
        count, size, _ = _rows(shape, dtype.itemsize)
        first = block.number * stored.rows
        return stored.begin + first * size, (min(first + stored.rows, count) - first) * size

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[Any]:
        """Reads this rank's blocks, exchanges what others need, and fills the tensors."""
        reading: _Reading = plan.storage_data
        wanted: dict[_Block, list[ReadItem]] = {}
        for item in plan.items:
            for block in self._blocks(item):
                wanted.setdefault(block, []).append(item)
        values: dict[_Block, Any] = {}
        missing: list[str] = []
        for name in sorted({self._shape(b.chunk)[2].file for b, r in reading.readers.items()
                            if r == reading.rank}):  # fmt: skip
            try:
                self._read_file(name, reading, values)
            except OSError as error:
                missing.append(f"the checkpoint lacks a file: {error}")
            except CheckpointError as error:
                missing.append(str(error))
        self._exchange(reading, wanted, values, missing)
        with no_grad():
            for item in plan.items:
                self._fill(item, planner, values)
        return _done(None)

    def _read_file(self, name: str, reading: _Reading, values: dict[_Block, Any]) -> None:
        path = self.path / name
        mine = [
            b for b, rank in reading.readers.items()
            if rank == reading.rank and self._shape(b.chunk)[2].file == name
        ]  # fmt: skip
        with open(path, "rb") as file:
            for block in sorted(mine, key=self._extent):
                begin, size = self._extent(block)
                file.seek(begin)
                data = file.read(size)
                if len(data) != size:
                    raise CheckpointError(
                        f"{path} is damaged: it ends before {block.chunk.fqn!r} does"
                    )
                if zlib.crc32(data) != self._shape(block.chunk)[2].sums[block.number]:
                    raise CheckpointError(
                        f"{path} is damaged: {block.chunk.fqn!r} has a wrong checksum"
                    )
                values[block] = np.frombuffer(data, np.uint8)

    def _exchange(
        self, reading: _Reading, wanted: dict[_Block, Any], values: dict[_Block, Any],
        failures: list[str],
    ) -> None:  # fmt: skip
        """Gives the blocks that several ranks need to all, some at a time. Raises CheckpointError
        on all ranks where one could not read."""
        if self.process_group is None:
            if failures:
                raise CheckpointError("; ".join(failures))
            return
        every = [
            text.decode()
            for text in gathered_bytes(self.process_group, "; ".join(failures).encode(), "read")
        ]
        if any(every):
            raise CheckpointError(
                "; ".join(f"rank {r}: {text}" for r, text in enumerate(every) if text)
            )
        waiting = list(reading.shared)
        while waiting:
            some, total = [], 0
            while waiting and total < _ROUND:
                some.append(waiting.pop(0))
                total += self._extent(some[-1])[1]
            mine = [values[b] for b in some if reading.readers[b] == reading.rank]
            sent = b"".join(bytes(v) for v in mine)
            parts = gathered_bytes(self.process_group, sent, "blocks")
            starts = [0] * len(parts)
            for block in some:
                rank, size = reading.readers[block], self._extent(block)[1]
                if block in wanted and block not in values:
                    part = memoryview(parts[rank])[starts[rank] : starts[rank] + size]
                    values[block] = np.frombuffer(part, np.uint8)
                starts[rank] += size

    def _fill(self, item: ReadItem, planner: LoadPlanner, values: dict[_Block, Any]) -> None:
        """Gives an item to the planner."""
        blocks = list(self._blocks(item))
        shape, dtype, stored = self._shape(
            MetadataIndex(item.storage_index.fqn, item.storage_index.offset)
        )
        parts = [values[block] for block in blocks]
        data = parts[0] if len(parts) == 1 else np.concatenate(parts or [np.empty(0, np.uint8)])
        if item.type is LoadItemType.BYTE_IO:
            planner.load_bytes(item, io.BytesIO(data.tobytes()))
            return
        target = planner.resolve_tensor(item).detach()
        if shape:
            first = blocks[0].number * stored.rows if blocks else 0
            _, size, _ = _rows(shape, dtype.itemsize)
            start = item.storage_offsets[0] - first
            data = data[start * size : (start + item.lengths[0]) * size]
            found = _tensor_of(data, dtype, (item.lengths[0], *shape[1:]))
            for axis in range(1, len(shape)):
                offset, length = item.storage_offsets[axis], item.lengths[axis]
                if (offset, length) != (0, shape[axis]):
                    found = lazyt.narrow(found, axis, offset, length)
        else:
            found = _tensor_of(data, dtype, ())
        if found.shape != target.shape:
            raise LazytError(
                f"{item.dest_index.fqn!r}: a part of shape {list(target.shape)} cannot take "
                f"{list(found.shape)}"
            )
        target.copy_(found)
        planner.commit_tensor(item, target)
