"""Saving and loading: what ranks agree on, and in which order."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from typing import Any, Protocol, runtime_checkable

from lazyt.distributed.objects import all_gather_object, broadcast_object_list
from lazyt.distributed.process_groups import get_global_rank, group_of, is_initialized
from lazyt.errors import CheckpointError, LazytError
from lazyt.sharding.checkpoint.metadata import Metadata
from lazyt.sharding.checkpoint.planners import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    LoadPlanner,
    SavePlanner,
)
from lazyt.sharding.checkpoint.storage import (
    FileSystemReader,
    FileSystemWriter,
    StorageReader,
    StorageWriter,
)

__all__ = [
    "CheckpointException", "Stateful", "async_save", "load", "load_state_dict", "save",
    "save_state_dict",
]  # fmt: skip

#: How long the rank that writes the index waits for the others' files, in the background.
_PATIENCE = 1800.0


@runtime_checkable
class Stateful(Protocol):
    """What has a state: ``state_dict`` and ``load_state_dict``."""

    def state_dict(self) -> dict[str, Any]:
        """The state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state over."""
        ...


class CheckpointException(CheckpointError):
    """What went wrong on which ranks while a checkpoint was written or read.

    Attributes:
        failures: by rank.
    """

    def __init__(self, msg: str, failures: dict[int, Any]) -> None:
        self.failures = failures
        text = "; ".join(f"rank {rank}: {failure}" for rank, failure in failures.items())
        super().__init__(f"{msg}: {text}")


class _Ranks:
    """Those who save or load together; alone without a group."""

    def __init__(self, group: Any, no_dist: bool) -> None:
        self.group = None if no_dist or not is_initialized() else group_of(group)
        self.rank = 0 if self.group is None else self.group.rank()
        self.size = 1 if self.group is None else self.group.size()

    @property
    def is_coordinator(self) -> bool:
        """Whether this rank decides."""
        return self.rank == 0

    def all(self, what: str, value: Any, failure: BaseException | None = None) -> list[Any]:
        """The values of all ranks. Raises CheckpointException where one has failed."""
        if self.group is None:
            if failure is not None:
                raise failure
            return [value]
        found: list[Any] = [None] * self.size
        told = None if failure is None else f"{type(failure).__name__}: {failure}"
        all_gather_object(found, (told, value), group=self.group)
        failures = {rank: told for rank, (told, _) in enumerate(found) if told is not None}
        if failures:
            raise CheckpointException(f"{what} failed", failures) from failure
        return [value for _, value in found]

    def step(self, what: str, function: Any) -> list[Any]:
        """What a function gives on all ranks."""
        value, failure = None, None
        try:
            value = function()
        except Exception as error:
            failure = error
        return self.all(what, value, failure)

    def decide(self, what: str, function: Any) -> Any:
        """What a function gives on the coordinator. Raises CheckpointException on all ranks where
        it fails there."""
        value, failure = None, None
        if self.is_coordinator:
            try:
                value = function()
            except Exception as error:
                failure = error
        if self.group is None:
            if failure is not None:
                raise failure
            return value
        told = None if failure is None else f"{type(failure).__name__}: {failure}"
        held = [(told, value)]
        broadcast_object_list(held, src=get_global_rank(self.group, 0), group=self.group)
        told, value = held[0]
        if told is not None:
            raise CheckpointException(f"{what} failed", {0: told}) from failure
        return value


def _writer(checkpoint_id: Any, writer: StorageWriter | None) -> StorageWriter:
    if writer is None:
        if not checkpoint_id:
            raise LazytError(
                "`checkpoint_id` must be specificed if storage_reader/storage_writer is None."
            )
        return FileSystemWriter(checkpoint_id)
    writer.reset(checkpoint_id)
    return writer


def _states(state_dict: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Writes a checkpoint; all ranks call it, each with its parts of divided tensors.

    A checkpoint that is there is replaced in one step, when the new one is complete.

    Args:
        state_dict: nested dictionaries of tensors, other objects, and what has ``state_dict``.
        checkpoint_id: the folder, for the default writer.
        storage_writer, planner: how it is written; a ``FileSystemWriter`` and a
            ``DefaultSavePlanner`` by default.
        process_group: the ranks, all by default.
        no_dist: whether this process writes alone.
        use_collectives: accepted.

    Returns: what the checkpoint holds.

    Raises CheckpointException on all ranks where one fails, LazytError without a place.

    >>> import lazyt, tempfile
    >>> from lazyt.sharding import checkpoint
    >>> folder = tempfile.mkdtemp()
    >>> _ = checkpoint.save({"w": lazyt.ones(2), "step": 3}, checkpoint_id=folder)
    >>> state = {"w": lazyt.zeros(2), "step": 0}
    >>> checkpoint.load(state, checkpoint_id=folder)
    >>> state
    {'w': tensor([1., 1.]), 'step': 3}

    Source: PyTorch's function of this name.
    """
    writer = _writer(checkpoint_id, storage_writer)
    ranks = _Ranks(process_group, no_dist)
    plan, metadata, planner = _planned(_states(state_dict), writer, planner, ranks)
    results = ranks.step("writing", lambda: writer.write_data(plan, planner).wait())

    def finish() -> Metadata:
        writer.finish(metadata, results)
        found: Metadata = metadata
        return found

    written: Metadata = ranks.decide("writing the index", finish)
    return written


def _planned(
    states: dict[str, Any], writer: StorageWriter, planner: SavePlanner | None, ranks: _Ranks
) -> tuple[Any, Any, SavePlanner]:
    """This rank's plan, what the checkpoint will hold (on the coordinator), and the planner."""
    chosen = DefaultSavePlanner() if planner is None else planner

    def local() -> Any:
        chosen.set_up_planner(states, writer.storage_meta(), ranks.is_coordinator)
        writer.set_up_storage_writer(ranks.is_coordinator)
        return writer.prepare_local_plan(chosen.create_local_plan())

    plans = ranks.step("planning", local)

    def together() -> Any:
        central, metadata = chosen.create_global_plan(plans)
        return writer.prepare_global_plan(central), metadata

    central, metadata = ranks.decide("planning", together)
    return chosen.finish_plan(central[ranks.rank]), metadata, chosen


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: Any = None,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata]:
    """``save`` whose files are written in the background, while the program computes on.

    Values are those of the call: what is written to the tensors later does not change them.

    Args:
        state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist: as of ``save``;
            the writer has to be a ``FileSystemWriter``.
        async_checkpointer_type, async_stager, use_collectives: accepted.

    Returns: a future of what the checkpoint holds, ready on each rank when the index is written.

    Raises LazytError for other writers; the future raises CheckpointException.
    """
    writer = _writer(checkpoint_id, storage_writer)
    if not isinstance(writer, FileSystemWriter):
        raise LazytError("async_save writes with a FileSystemWriter")
    ranks = _Ranks(process_group, no_dist)
    plan, metadata, planner = _planned(_states(state_dict), writer, planner, ranks)
    names = ranks.all("planning", plan.storage_data)
    parts = writer.staged(plan, planner)
    future: Future[Metadata] = Future()

    def work() -> None:
        try:
            writer.write_staged(plan.storage_data, parts)
            if ranks.is_coordinator:
                writer.finish(metadata, writer.collected(names, _PATIENCE))
            else:
                writer.wait_for_index(names[0].partition("-")[0], _PATIENCE)
            future.set_result(metadata)
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="checkpoint", daemon=True).start()
    return future


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fills a state dict from a checkpoint; all ranks call it, each with its parts of divided
    tensors, which may be divided otherwise than when they were written.

    Args:
        state_dict: tensors are filled in place, other objects are replaced, and what has
            ``load_state_dict`` gets its state.
        checkpoint_id, storage_reader, planner, process_group, no_dist: as of ``save``.

    Raises CheckpointException on all ranks where one fails: for names that the checkpoint does not
    have, other shapes, and files that are missing or damaged.

    Source: PyTorch's function of this name.
    """
    if storage_reader is None:
        if not checkpoint_id:
            raise LazytError(
                "`checkpoint_id` must be specificed if storage_reader/storage_writer is None."
            )
        reader: StorageReader = FileSystemReader(checkpoint_id)
    else:
        reader = storage_reader
        reader.reset(checkpoint_id)
    ranks = _Ranks(process_group, no_dist)
    chosen = DefaultLoadPlanner() if planner is None else planner
    if isinstance(reader, FileSystemReader):
        reader.process_group = ranks.group
    states = _states(state_dict)
    metadata = ranks.decide("reading the index", reader.read_metadata)

    def local() -> Any:
        chosen.set_up_planner(states, metadata, ranks.is_coordinator)
        reader.set_up_storage_reader(metadata, ranks.is_coordinator)
        return reader.prepare_local_plan(chosen.create_local_plan())

    plans = ranks.step("planning", local)
    central = ranks.decide(
        "planning", lambda: reader.prepare_global_plan(chosen.create_global_plan(plans))
    )
    plan = chosen.finish_plan(central[ranks.rank])
    ranks.step("reading", lambda: reader.read_data(plan, chosen).wait())
    for key, found in states.items():
        value = state_dict.get(key)
        if isinstance(value, Stateful):
            value.load_state_dict(found)
        else:
            state_dict[key] = found


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """The older form of ``save``."""
    return save(
        state_dict, storage_writer=storage_writer, planner=planner, process_group=process_group,
        no_dist=no_dist,
    )  # fmt: skip


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """The older form of ``load``."""
    load(
        state_dict, storage_reader=storage_reader, planner=planner, process_group=process_group,
        no_dist=no_dist,
    )  # fmt: skip
