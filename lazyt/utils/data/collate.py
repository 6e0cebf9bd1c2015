"""Making one batch of several samples."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.functional.shapes.joining import with_distinct_nodes
from lazyt.handle.tensor import Tensor


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

    Texts stay as they are, a list or, within samples, a tuple. ``default_collate_fn_map`` says what
    is done with which type. Raises TypeError for other values and LazytError for sequences of
    different lengths.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Any:
    """A batch of samples, or of mappings, tuples and lists of such.

    Args:
        collate_fn_map: by type (or tuple of types), the function of samples and ``collate_fn_map``
            that makes a batch of them; the first type that a sample is an instance of counts,
            unless its own is there.

    Raises TypeError for values of other types, LazytError for sequences of different lengths.
    """
    first, rules = batch[0], collate_fn_map
    for kind in (type(first), *(rules or ())):
        rule = (rules or {}).get(kind)
        if rule is not None and isinstance(first, kind):
            return rule(batch, collate_fn_map=rules)
    if isinstance(first, Mapping):
        made = {key: collate([item[key] for item in batch], collate_fn_map=rules) for key in first}
        return _like_mapping(first, made)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*[collate(column, collate_fn_map=rules) for column in zip(*batch)])
    if isinstance(first, Sequence):
        if any(len(item) != len(first) for item in batch):
            raise LazytError("each element in list of batch should be of equal size")
        columns = [collate(column, collate_fn_map=rules) for column in zip(*batch)]
        return columns if isinstance(first, tuple) else _like(type(first), columns)
    raise TypeError(
        default_collate_err_msg_format.format(
            first.dtype if isinstance(first, np.ndarray) else type(first)
        )
    )


default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)

Rules = dict[Any, Callable[..., Any]]


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Any:
    """Tensors stacked."""
    return lazyt.stack(with_distinct_nodes(batch))


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Any:
    """Arrays of numbers as one tensor. Raises TypeError for arrays of other things."""
    if batch[0].dtype.kind not in "biuf":
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return lazyt.tensor(np.stack([np.asarray(item) for item in batch]))


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Any:
    """Whole numbers, or truth values, as a tensor."""
    return lazyt.tensor(list(batch))


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Any:
    """Numbers as a tensor of float64."""
    return lazyt.tensor(list(batch), dtype=lazyt.float64)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Any:
    """Texts as they are."""
    return batch


#: What ``default_collate`` does with which type; programs may change it.
default_collate_fn_map: Rules = {
    Tensor: collate_tensor_fn, np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number): collate_numpy_array_fn, float: collate_float_fn, int: collate_int_fn,
    str: collate_str_fn, bytes: collate_str_fn,
}  # fmt: skip


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
