"""Parameters: the tensors that a module learns."""

from __future__ import annotations

from typing import Any

import lazyt
from lazyt.errors import DTypeError
from lazyt.tensor import Tensor


class Parameter(Tensor):
    """A tensor that, set as an attribute of a Module, becomes one of its parameters.

    Args:
        data: the values; memory is shared with it, gradient history is not.
        requires_grad: whether the gradient is computed, as it is by default.

    Raises DTypeError for what is no tensor, or for whole numbers that should require gradients.
    """

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = lazyt.empty(0)
        if not isinstance(data, Tensor):
            raise DTypeError(f"Parameter() takes a Tensor, not {type(data).__name__}")
        return _over(data.detach(), requires_grad)

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """All is done by ``__new__``: there is nothing left to initialise."""

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


def _over(tensor: Tensor, requires_grad: bool) -> Parameter:
    made = Tensor.__new__(Parameter)
    made._storage, made._view = tensor._storage, tensor._view
    del tensor  # so that only the parameter looks at the storage
    if requires_grad:
        made.requires_grad_()
    return made


def blank_parameter(*size: int, dtype: Any = None, device: Any = None) -> Parameter:
    """A parameter of zeros in memory of its own, for a layer to initialise."""
    return _over(lazyt.zeros(*size, dtype=dtype, device=device), True)
