"""Random tensors for tests."""

from __future__ import annotations

from typing import Any

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor


def _bounds(dtype: Any, low: Any, high: Any) -> tuple[float, float]:
    """The interval of values where it is not given, as PyTorch chooses it."""
    if dtype is lazyt.bool:
        return 0, 2
    if not dtype.is_floating_point:
        least, most = (0, 10) if dtype is lazyt.uint8 else (-9, 10)
    else:
        least, most = -9, 9
    return (least if low is None else low), (most if high is None else high)


def make_tensor(
    *shape: Any, dtype: Any, device: Any = "cpu", low: float | None = None,
    high: float | None = None, requires_grad: bool = False, noncontiguous: bool = False,
    exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of values drawn evenly from [low, high).

    Args:
        shape: numbers, or one sequence of them.
        dtype: bool, a whole or a floating point type.
        low, high: by default [-9, 9), [-9, 10) for signed and [0, 10) for unsigned whole numbers.
        noncontiguous: leave gaps in memory.
        exclude_zero: put the smallest positive number, or 1, in the place of zeros.

    Raises LazytError for an empty interval and for whole numbers that are to have a gradient.
    """
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    least, most = _bounds(dtype, low, high)
    if not least < most:
        raise LazytError(f"make_tensor: low is below high, but {least} >= {most}")
    wanted = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else tuple(sizes)
    if dtype.is_floating_point:
        made = lazyt.empty(wanted, dtype=dtype, device=device).uniform_(least, most)
    else:
        made = lazyt.randint(int(least), int(most), wanted, device=device).to(dtype)
    if noncontiguous and sizes:
        made = made[..., ::2]
    if exclude_zero:
        instead = lazyt.finfo(dtype).tiny if dtype.is_floating_point else 1
        made.masked_fill_(made == 0, instead)
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_() if requires_grad else made
