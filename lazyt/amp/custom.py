"""Decorators for custom autograd functions that take part in mixed precision."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lazyt.errors import ArgumentError
from lazyt.functional import namespace as lazyt
from lazyt.handle.autocast import autocast, get_autocast_dtype, is_autocast_enabled
from lazyt.handle.tensor import Tensor


def _require_text(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ArgumentError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: lazyt.dtype | None = None,
) -> Any:
    """Decorator of a custom function's ``forward``.

    Args:
        device_type: of the autocast that is meant.
        cast_inputs: under autocast, ``forward`` takes floating-point tensors in this dtype (float64
            stays) and runs with autocast off. Without it, it runs as everything around it.

    Raises ArgumentError (a ValueError) for a device type that is no text.
    """
    _require_text(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        enabled = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if not enabled or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorator of a custom function's ``backward``: autocast is on in it as it was in ``forward``.

    Raises ArgumentError (a ValueError) for a device type that is no text.
    """
    _require_text(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return backward


def _cast(value: Any, dtype: lazyt.dtype) -> Any:
    """Floating-point tensors as ``dtype``, within collections too."""
    if isinstance(value, Tensor):
        wanted = value.dtype.kind == "f" and value.dtype is not lazyt.float64
        return value.to(dtype) if wanted else value
    if isinstance(value, Mapping):
        return {_cast(key, dtype): _cast(item, dtype) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, dtype) for item in value)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return value if hasattr(value, "__array__") else (_cast(item, dtype) for item in value)
    return value
