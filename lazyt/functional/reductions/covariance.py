"""Covariances and correlations of observed variables."""

from __future__ import annotations

from lazyt.errors import DTypeError, LazytError, ShapeError, warn
from lazyt.functional.elementwise.complex_numbers import complex
from lazyt.functional.linalg.matrices import diag
from lazyt.functional.linalg.products import mm
from lazyt.functional.operands import require_tensor
from lazyt.functional.type_promotion import torch_name
from lazyt.functional.value_checks import all_hold, at_least_zero, compared, values_hold
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_

__all__ = ["corrcoef", "cov"]


def _check_weights(weights: Tensor, name: str, whole: bool, count: int) -> None:
    if len(weights.shape) > 1:
        raise ShapeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{len(weights.shape)} dimensions"
        )
    if (weights.dtype.kind in "ui") is not whole or weights.dtype is bool_:
        kind = "integral" if whole else "floating point"
        raise DTypeError(
            f"cov(): expected {name} to have {kind} dtype but got {name} with "
            f"{torch_name(weights.dtype)} dtype"
        )
    have = weights.shape.numel()
    if have != count:
        raise ShapeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input "
            f"but got {have} != {count}"
        )
    if not values_hold(weights, at_least_zero, "the weights of cov() are checked"):
        raise LazytError(f"cov(): {name} cannot be negative")


@function(method=True)
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The covariances of variables in rows, observed in columns; of one variable its variance.

    Args:
        correction: what is taken off the number of observations that sums are divided by.
        fweights: how often each column was observed, whole numbers.
        aweights: how much each column weighs, floating point.

    Weights are looked at, since negative ones raise LazytError. Raises ShapeError and DTypeError.
    """
    require_tensor(input, "cov")
    if len(input.shape) > 2:
        raise ShapeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{len(input.shape)} dimensions"
        )
    if input.dtype is bool_:
        raise DTypeError("cov(): bool dtype is not supported for input")
    data: Tensor = input.reshape(1, -1) if len(input.shape) < 2 else input
    count = data.shape[1]
    weights: Tensor | None = None
    if fweights is not None:
        _check_weights(fweights, "fweights", True, count)
        weights = fweights
    if aweights is not None:
        _check_weights(aweights, "aweights", False, count)
        weights = aweights if weights is None else weights * aweights
    return _covariance(data, weights, aweights, correction)


def _covariance(
    data: Tensor, weights: Tensor | None, aweights: Tensor | None, correction: int
) -> Tensor:
    count = data.shape[1]
    result: Tensor
    if weights is None:
        centred = data - data.sum(1, keepdim=True) / count if count else data / 1
        freedom = count - correction
        if freedom <= 0:
            warn(
                "cov(): degrees of freedom is <= 0. Correction should be strictly less than the "
                "number of observations."
            )
        result = (mm(centred, centred.t().conj()) / max(freedom, 0)).squeeze()
        return result
    total: Tensor = weights.sum()
    reason = "the weights of cov() are checked"
    if count and not all_hold([compared("ne", total.node, 0)], [total.node], reason):
        raise LazytError("cov(): weights sum to zero, can't be normalized")
    centred = data - (data * weights).sum(1, keepdim=True) / total
    if aweights is None:
        scale = total - correction
    elif correction == 0:
        scale = total
    else:
        scale = total - correction * (weights * aweights).sum() / total
    result = (mm(centred, (centred * weights).t().conj()) / scale.clamp(min=0)).squeeze()
    return result


@function(method=True)
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of variables in rows, observed in columns: ``cov`` over the deviations.

    Raises ShapeError for more than two dimensions.
    """
    require_tensor(input, "corrcoef")
    if len(input.shape) > 2:
        raise ShapeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{len(input.shape)} dimensions"
        )
    shared = cov(input)
    if not shared.shape:
        alone: Tensor = shared / shared
        return alone
    deviations = diag(shared).real.sqrt()
    scaled = shared / deviations.reshape(-1, 1) / deviations.reshape(1, -1)
    if scaled.dtype.kind == "c":
        return complex(scaled.real.clamp(-1, 1), scaled.imag.clamp(-1, 1))
    clipped: Tensor = scaled.clamp(-1, 1)
    return clipped
