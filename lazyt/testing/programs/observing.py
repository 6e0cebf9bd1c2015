"""What a program shows: shapes, dtypes, strides, sharing, history and values, as short texts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def storage_key(tensor: Any) -> int:
    """A number that two tensors have in common exactly when they share memory."""
    storage = getattr(tensor, "_storage", None)
    if storage is not None and hasattr(storage, "share"):  # asking lazyt must not compute anything
        return id(storage if storage.share is None else storage.share.memory)
    return int(tensor.untyped_storage()._cdata)


def is_tensor(value: Any) -> bool:
    """Whether ``value`` is a tensor of any module."""
    return hasattr(value, "requires_grad") and hasattr(value, "dtype")


def describe(value: Any, version: int = 0) -> str:
    """All that is known of a value without computing it; versions are counted from ``version``."""
    if is_tensor(value):
        parts = [
            str(value.dtype).rpartition(".")[2],
            _numbers(value.shape),
            _strides(value.shape, value.stride()),
            f"+{value.storage_offset() if value.numel() else 0}",
            _history(value),
            f"v{value._version - version}",
        ]
        return " ".join(parts)
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {_numbers(value.shape)} {_strides(value.shape, value.strides)}"
    return type(value).__name__


def _numbers(values: Any) -> str:
    return "[" + ",".join(str(int(v)) for v in values) + "]"


def _strides(shape: Any, strides: Any) -> str:
    """The strides that lead somewhere: of more than one element, where there are elements."""
    if not math.prod(shape):
        return "/"
    return "/[" + ",".join(str(int(s)) if n > 1 else "" for n, s in zip(shape, strides)) + "]"


def _history(tensor: Any) -> str:
    try:
        if not tensor.requires_grad:
            return "-"
        return "leaf" if tensor.is_leaf else type(tensor.grad_fn).__name__
    except RuntimeError:  # a view whose base was written to in a way that autograd cannot follow
        return "forbidden"


def gradient(value: Any) -> Any:
    """The ``grad`` of a leaf, None of others."""
    if not is_tensor(value) or _history(value) not in ("-", "leaf"):
        return None
    return value.grad


def values_of(value: Any, exact: bool) -> str:
    """The values as text: ``=`` and all digits, or ``~`` and those that are comparable."""
    if isinstance(value, str):
        return "=" + value.replace("lazyt.", "torch.")
    if is_tensor(value):
        found, kind = value.detach().tolist(), str(value.dtype)
    elif isinstance(value, np.ndarray):
        found, kind = value.tolist(), str(value.dtype)
    else:
        found, kind = value, "float64"
    flat = list(_flattened(found))
    if not any(isinstance(v, float) for v in flat):
        return "=" + ",".join(str(v) if v is None else str(int(v)) for v in flat)
    digits = (17 if "64" in kind else 9) if exact else (12 if "64" in kind else 7)
    return ("=" if exact else "~") + ",".join(f"{v:.{digits}g}" for v in flat)


def _flattened(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flattened(item)
    else:
        yield value


def is_plain(value: Any) -> bool:
    """Whether all values are small fractions, on which sums and products are exact."""
    if str(getattr(value, "dtype", "")).endswith("float16"):
        return False
    if isinstance(value, str):
        return True
    flat = _flattened(value.detach().tolist() if is_tensor(value) else
                      value.tolist() if isinstance(value, np.ndarray) else value)  # fmt: skip
    return all(
        not isinstance(v, float) or (abs(v) <= 64 and float(v * 64).is_integer()) for v in flat
    )
