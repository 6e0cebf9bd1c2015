"""Checkpoints of many ranks as one file, and the other way (``format_utils`` of PyTorch)."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from lazyt import serialization
from lazyt.functional import namespace as lazyt
from lazyt.sharding.checkpoint.metadata import Metadata, TensorStorageMetadata
from lazyt.sharding.checkpoint.planners import DefaultLoadPlanner, Path
from lazyt.sharding.checkpoint.saving import load, save

__all__ = ["EmptyStateDictLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]


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


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Makes one file of a checkpoint, which ``torch.load`` reads. One process calls this, and has
    room for all tensors.

    Args:
        dcp_checkpoint_dir: the folder of the checkpoint.
        torch_save_path: the file. Nested dictionaries are those that were saved; dictionaries whose
            keys are the numbers from 0 on are lists.

    Raises CheckpointException for folders without a checkpoint, and damaged ones.

    >>> import tempfile
    >>> import lazyt
    >>> from lazyt.sharding import checkpoint
    >>> from lazyt.sharding.checkpoint.formats import dcp_to_torch_save
    >>> folder = tempfile.mkdtemp()
    >>> _ = checkpoint.save({"net": {"weight": lazyt.arange(3.0)}}, checkpoint_id=folder)
    >>> dcp_to_torch_save(folder, folder + "/one.pt")
    >>> lazyt.load(folder + "/one.pt")
    {'net': {'weight': tensor([0., 1., 2.])}}

    Source: PyTorch's function of this name.
    """
    found: dict[str, Any] = {}
    load(found, checkpoint_id=dcp_checkpoint_dir, planner=EmptyStateDictLoadPlanner(), no_dist=True)
    serialization.save(found, torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Makes a checkpoint of a file of ``torch.save``, of which any number of ranks loads its parts.
    One process calls this.

    Args:
        torch_save_path: the file, of a dictionary.
        dcp_checkpoint_dir: the folder to write.

    Raises ValueError for a file of something else.

    >>> import tempfile
    >>> import lazyt
    >>> from lazyt.sharding import checkpoint
    >>> from lazyt.sharding.checkpoint.formats import torch_save_to_dcp
    >>> folder = tempfile.mkdtemp()
    >>> lazyt.save({"weight": lazyt.arange(3.0)}, folder + "/one.pt")
    >>> torch_save_to_dcp(folder + "/one.pt", folder + "/many")
    >>> state = {"weight": lazyt.zeros(3)}
    >>> checkpoint.load(state, checkpoint_id=folder + "/many")
    >>> state["weight"]
    tensor([0., 1., 2.])

    Source: PyTorch's function of this name.
    """
    found = serialization.load(torch_save_path, weights_only=False)
    if not isinstance(found, Mapping):
        raise ValueError(f"{torch_save_path} holds a {type(found).__name__}, not a dictionary")
    save(dict(found), checkpoint_id=dcp_checkpoint_dir, no_dist=True)
