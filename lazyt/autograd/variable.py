"""``Variable``, which has been another name of tensors since PyTorch 0.4."""

from __future__ import annotations

from typing import Any

from lazyt.handle.tensor import Tensor

__all__ = ["Variable"]


class _Kind(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_Kind):
    """``Variable(data, requires_grad)`` is a tensor of the same memory; every tensor is one."""

    def __new__(cls, data: Tensor, requires_grad: bool = False) -> Any:
        return data.detach().requires_grad_(requires_grad)
