"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from lazyt.compat.absent import known_as
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters, one after the other."""
    return lazyt.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Put the elements of ``vec`` into the parameters, one after the other.

    Raises TypeError for what is no tensor.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected {known_as('lazyt.Tensor')}, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        parameter.data = vec[start:stop].view(parameter.shape)
        start = stop
