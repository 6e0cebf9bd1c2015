"""Making one batch of several samples."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

import lazyt
from lazyt.errors import LazytError
from lazyt.tensor import Tensor


def pinned(batch: Any) -> Any:
    """The batch with its tensors, and whatever else has ``pin_memory``, in pinned memory."""
    if isinstance(batch, (str, bytes)):
        return batch
    if isinstance(batch, Mapping):
        return _like_mapping(batch, {key: pinned(value) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*[pinned(item) for item in batch])
    if isinstance(batch, (list, tuple)):
        return type(batch)(pinned(item) for item in batch)
    return batch.pin_memory() if hasattr(batch, "pin_memory") else batch


def default_collate(batch: Sequence[Any]) -> Any:
    """Tensors stacked, numbers as a tensor, and so within mappings, tuples and lists.

    Texts stay as they are, a list or, within samples, a tuple. Raises TypeError for other values
    and LazytError for sequences of different lengths.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return lazyt.stack(list(batch))
    if isinstance(first, (np.ndarray, np.generic)) and first.dtype.kind in "biuf":
        return lazyt.tensor(np.stack([np.asarray(item) for item in batch]))
    if isinstance(first, (bool, int)):
        return lazyt.tensor(list(batch))
    if isinstance(first, float):
        return lazyt.tensor(list(batch), dtype=lazyt.float64)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        made = {key: default_collate([item[key] for item in batch]) for key in first}
        return _like_mapping(first, made)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*[default_collate(column) for column in zip(*batch)])
    if isinstance(first, Sequence):
        if any(len(item) != len(first) for item in batch):
            raise LazytError("each element in list of batch should be of equal size")
        columns = [default_collate(column) for column in zip(*batch)]
        return columns if isinstance(first, tuple) else _like(type(first), columns)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {first.dtype if isinstance(first, np.ndarray) else type(first)}"
    )


def _like(kind: type[Any], values: Any) -> Any:
    """``values`` in a collection of the samples' own kind, where that can be made of them."""
    try:
        return kind(values)
    except TypeError:
        return values


def _like_mapping(sample: Any, values: dict[Any, Any]) -> Any:
    """``values`` in a mapping of the sample's own kind, with what else it has."""
    if type(sample) is dict or not isinstance(sample, MutableMapping):
        return values if type(sample) is dict else _like(type(sample), values)
    made = copy.copy(sample)
    made.update(values)
    return made


def default_convert(data: Any) -> Any:
    """Arrays as tensors, within mappings, tuples and lists; everything else as it is."""
    if isinstance(data, np.ndarray) and data.dtype.kind in "biuf":
        return lazyt.from_numpy(data)
    if isinstance(data, np.generic) and data.dtype.kind in "biuf":
        return lazyt.tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*[default_convert(value) for value in data])
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like(type(data), [default_convert(value) for value in data])
    return data
