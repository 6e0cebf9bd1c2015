"""Checkpoints of many ranks as one file, and the other way (``format_utils`` of PyTorch)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lazyt import serialization
from lazyt.sharding.checkpoint.planners import EmptyStateDictLoadPlanner
from lazyt.sharding.checkpoint.saving import load, save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


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
