"""Samples as plain data: what JSON has no word for is a dictionary with one telling key."""

from __future__ import annotations

import math
from typing import Any

#: What a tensor is made of: dtype, shape, strides (None for row-major), gradient wanted, values.
TENSOR = "tensor"
NUMBER, DTYPE, FORMAT, LAYOUT, DEVICE = "number", "dtype", "format", "layout", "device"
TUPLE, NAMED, SLICE, REST = "tuple", "named", "slice", "..."


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a row-major tensor."""
    steps = [1]
    for extent in reversed(shape[1:]):
        steps.append(steps[-1] * max(extent, 1))
    return tuple(reversed(steps)) if shape else ()


def encoded(value: Any, torch: Any) -> Any:
    """Plain data for a value; ValueError for one that there is no form for."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {NUMBER: repr(value)}
    if isinstance(value, torch.Tensor):
        return _tensor(value, torch)
    for key, kind in ((DTYPE, "dtype"), (FORMAT, "memory_format"), (LAYOUT, "layout")):
        if isinstance(value, getattr(torch, kind)):
            return {key: str(value).rpartition(".")[2]}
    if isinstance(value, torch.device):
        return {DEVICE: str(value)}
    if isinstance(value, slice):
        return {SLICE: [encoded(v, torch) for v in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {REST: 1}
    if isinstance(value, list):
        return [encoded(v, torch) for v in value]
    if isinstance(value, tuple):
        return {TUPLE: [encoded(v, torch) for v in value]}
    if isinstance(value, dict):
        return {NAMED: {k: encoded(v, torch) for k, v in value.items()}}
    raise ValueError(f"no form for {type(value).__name__}")


def _tensor(value: Any, torch: Any) -> Any:
    if value.is_complex() or value.layout is not torch.strided or value.is_quantized:
        raise ValueError("no such tensors")
    shape, strides = tuple(value.shape), tuple(value.stride())
    plain = value.detach()
    numbers = plain.double() if plain.dtype.is_floating_point else plain
    digits = 17 if plain.dtype == torch.float64 else 9
    return {
        TENSOR: [
            str(value.dtype).rpartition(".")[2],
            list(shape),
            None if strides == dense(shape) else list(strides),
            int(value.requires_grad),
            [_short(v, digits) for v in numbers.flatten().tolist()],
        ]
    }


def _short(value: Any, digits: int) -> Any:
    if not isinstance(value, float):
        return int(value)
    if not math.isfinite(value):
        return repr(value)
    text = float(f"{value:.{digits}g}")
    return int(text) if text == int(text) and abs(text) < 1e15 and text else text


def decoded(data: Any, torch: Any) -> Any:
    """The value that plain data stands for; ``torch`` is a module with PyTorch's names."""
    if isinstance(data, list):
        return [decoded(v, torch) for v in data]
    if not isinstance(data, dict):
        return data
    ((key, part),) = data.items()
    if key == TENSOR:
        return tensor_of(part, torch)
    if key == TUPLE:
        return tuple(decoded(v, torch) for v in part)
    if key == NAMED:
        return {name: decoded(v, torch) for name, v in part.items()}
    if key == SLICE:
        return slice(*(decoded(v, torch) for v in part))
    if key == NUMBER:
        return float(part)
    if key == DEVICE:
        return torch.device(part)
    return Ellipsis if key == REST else getattr(torch, part)


def tensor_of(part: list[Any], torch: Any) -> Any:
    """A tensor with its values, strides and wish for a gradient."""
    name, shape, strides, wished, values = part
    dtype = getattr(torch, name)
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    whole = torch.tensor([float(v) if isinstance(v, str) else v for v in values], dtype=wide)
    made = whole.to(dtype).reshape(shape)
    if strides is not None and made.numel():
        extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
        there = torch.zeros(extent, dtype=dtype).as_strided(shape, strides)
        part_of = tuple(
            slice(0, 1) if n > 1 and not s else slice(None) for n, s in zip(shape, strides)
        )
        there[part_of] = made[part_of]
        made = there
    return made.requires_grad_() if wished else made
