"""``torch._check`` and its kin: conditions of a program, and the errors where they do not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.errors import DTypeError
from lazyt.ir.dtypes import bool_
from lazyt.tensor import Tensor

__all__ = [
    "_assert", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
    "_check_tensor_all", "_check_tensor_all_with", "_check_type", "_check_value", "_check_with",
]  # fmt: skip

Message = Callable[[], Any] | None

_UNNAMED = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, "
    "please report an enhancement request to PyTorch.)"
)


def _assert(condition: Any, message: Any) -> None:
    """Raises AssertionError with ``message`` where ``condition`` is false."""
    if not condition:
        raise AssertionError(message)


def _check_with(error_type: type[Exception], cond: Any, message: Message) -> None:
    """Raises ``error_type`` with what ``message()`` returns where the bool ``cond`` is false."""
    if isinstance(cond, Tensor):
        raise DTypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use "
            "torch._check_tensor_all() to assert that all elements are true."
        )
    if not isinstance(cond, bool):
        raise DTypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is not None and not callable(message):
        raise DTypeError("message must be a callable")
    raise error_type(_UNNAMED if message is None else str(message()))


def _check(cond: Any, message: Message = None) -> None:
    """Raises RuntimeError where ``cond`` is false."""
    _check_with(RuntimeError, cond, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """Raises RuntimeError where ``i`` is negative or beyond ``max``."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """Raises IndexError where ``cond`` is false."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """Raises ValueError where ``cond`` is false."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """Raises TypeError where ``cond`` is false."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """Raises NotImplementedError where ``cond`` is false."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raises ``error_type`` where an element of the tensor ``cond`` of bools is false."""
    if not isinstance(cond, Tensor):
        raise DTypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise DTypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raises RuntimeError where an element of the tensor ``cond`` of bools is false."""
    _check_tensor_all_with(RuntimeError, cond, message)
