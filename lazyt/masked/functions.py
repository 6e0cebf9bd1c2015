"""Functions of tensors of which a mask says what counts: the others are as if they were not there.

``input`` has any shape, ``mask`` is True where an element counts, and is broadcast to the shape of
``input``; None counts all. A mask that is not bool is True where it is not zero. Elements that do
not count have no part in results and get the gradient 0. All raise RankError (an IndexError) for a
mask with more dimensions than ``input``, ShapeError for one that cannot be broadcast, and
NoIdentityError (a NotImplementedError) for dtypes in which nothing stands for a missing element.

``dim`` is one dimension, several, or None for all of them; ``keepdim`` leaves dimensions of size 1
in the place of those that a function reduces. What is said of a result where no element counts is
that of PyTorch's functions of these names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.errors import ArgumentError, BoundsError, DTypeError, LazytError, RankError
from lazyt.functional import namespace as lazyt
from lazyt.functional.operands import require_tensor
from lazyt.handle.tensor import Tensor
from lazyt.linalg import vector_norm
from lazyt.nn import functional as F

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum",
    "var",
]  # fmt: skip

#: Dimensions as users write them.
Dims = int | Sequence[int] | None


class NoIdentityError(LazytError, NotImplementedError):
    """A dtype in which nothing stands for an element that does not count."""


class TwoCorrectionsError(LazytError, AssertionError):
    """Both forms of a correction, where PyTorch's own check fails (an AssertionError)."""


class NoNormError(DTypeError, AssertionError):
    """A norm that a dtype has not, where PyTorch's own check fails (an AssertionError)."""


def _dims(dim: Dims, input: Tensor) -> tuple[int, ...]:
    """Dimensions counted from 0, in order; raises BoundsError and LazytError, and DTypeError for
    what is no tensor."""
    rank = require_tensor(input, "masked").ndim
    if dim is None or dim == ():
        return tuple(range(rank))
    found: list[int] = []
    for one in (dim,) if isinstance(dim, int) else dim:
        if not -max(rank, 1) <= one < max(rank, 1):
            raise BoundsError(
                "Dimension out of range (expected to be in range of "
                f"[{-max(rank, 1)}, {max(rank, 1) - 1}], but got {one})"
            )
        place = one % max(rank, 1)
        if place in found:
            raise LazytError(f"dim={one} appears multiple times in the list of dims")
        found.append(place)
    return tuple(sorted(found))


def _counting(input: Tensor, mask: Tensor) -> Tensor:
    """The mask as bool, in the shape of the input."""
    if mask.ndim > input.ndim:
        raise RankError(
            "expected a mask that can be broadcast to the input, which has fewer dimensions: "
            f"{input.ndim}, not {mask.ndim}"
        )
    found: Tensor = lazyt.broadcast_to(mask, input.shape).to(lazyt.bool)
    return found


def _lowest(name: str, dtype: Any) -> Any:
    """What is below everything else in a dtype."""
    if dtype.is_floating_point:
        return -math.inf
    if dtype.is_complex or dtype == lazyt.bool:
        raise NoIdentityError(f"identity of {name} on {dtype} input")
    return lazyt.iinfo(dtype).min


def _highest(name: str, dtype: Any) -> Any:
    """What is above everything else in a dtype."""
    lowest = _lowest(name, dtype)
    return math.inf if lowest == -math.inf else lazyt.iinfo(dtype).max


def _filled(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """The input with a number in the place of what does not count."""
    require_tensor(input, "masked")
    if mask is None:
        return input
    number = value(input.dtype) if callable(value) else value
    instead = lazyt.full((), number, dtype=input.dtype, device=input.device)
    found: Tensor = lazyt.where(_counting(input, mask), input, instead)
    return found


def _below(name: str) -> Callable[[Any], Any]:
    return lambda dtype: _lowest(name, dtype)


def _above(name: str) -> Callable[[Any], Any]:
    return lambda dtype: _highest(name, dtype)


def _total_dtype(input: Tensor, dtype: Any) -> Any:
    """Of sums and products: whole numbers count in int64."""
    if dtype is not None:
        return dtype
    small = (lazyt.uint8, lazyt.bool, lazyt.int8, lazyt.int16, lazyt.int32)
    return lazyt.int64 if input.dtype in small else input.dtype


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum of the elements that count, 0 where none does.

    Args:
        dtype: of the result and of all additions; by default that of ``input``, int64 for bool and
            for smaller whole numbers.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([[1.0, 2], [3, 4]]), lazyt.tensor([[True, False], [False, False]])
    >>> lazyt.masked.sum(x, 1, mask=mask)
    tensor([1., 0.])
    """
    dims = _dims(dim, input)
    found: Tensor = _filled(input, mask, 0).sum(dims, keepdim, dtype=_total_dtype(input, dtype))
    return found


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The product of the elements that count, 1 where none does.

    Args:
        dtype: of the result and of all products; by default that of ``input``, int64 for bool and
            for smaller whole numbers.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([[1.0, 2], [3, 4]]), lazyt.tensor([[True, False], [True, True]])
    >>> lazyt.masked.prod(x, 1, mask=mask)
    tensor([ 1., 12.])
    """
    result = _filled(input, mask, 1).to(_total_dtype(input, dtype))
    for place in reversed(_dims(dim, input)):
        result = result.prod(place, keepdim)
    return result


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The running sum of the elements that count along ``dim``, in the shape of ``input``.

    Args:
        dtype: of the result; by default that of ``input``, even of whole numbers.

    >>> import lazyt
    >>> lazyt.masked.cumsum(lazyt.tensor([1.0, 2, 3]), 0, mask=lazyt.tensor([True, False, True]))
    tensor([1., 1., 4.])
    """
    place = _dims(dim, input)[0]
    kind = input.dtype if dtype is None else dtype
    found: Tensor = _filled(input, mask, 0).cumsum(place, dtype=kind)
    return found


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The running product of the elements that count along ``dim``, in the shape of ``input``.

    Args:
        dtype: of the result; by default that of ``input``, even of whole numbers.

    >>> import lazyt
    >>> lazyt.masked.cumprod(lazyt.tensor([5.0, 2, 3]), 0, mask=lazyt.tensor([True, False, True]))
    tensor([ 5.,  5., 15.])
    """
    place = _dims(dim, input)[0]
    kind = input.dtype if dtype is None else dtype
    found: Tensor = _filled(input, mask, 1).cumprod(place, dtype=kind)
    return found


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The largest of the elements that count, the lowest number of the dtype where none does.

    Args:
        dtype: of the result, by default that of ``input``: a real one.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([[1.0, 2], [3, 4]]), lazyt.tensor([[True, False], [False, False]])
    >>> lazyt.masked.amax(x, 1, mask=mask)
    tensor([1., -inf])
    """
    whole = _filled(input, mask, _below("amax"))
    found: Tensor = lazyt.amax(whole, _dims(dim, input), keepdim)
    return found.to(input.dtype if dtype is None else dtype)


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The smallest of the elements that count, the highest number of the dtype where none does.

    Args:
        dtype: of the result, by default that of ``input``: a real one.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([[1, 2], [3, 4]]), lazyt.tensor([[False, True], [True, True]])
    >>> lazyt.masked.amin(x, 1, mask=mask)
    tensor([2, 3])
    """
    whole = _filled(input, mask, _above("amin"))
    found: Tensor = lazyt.amin(whole, _dims(dim, input), keepdim)
    return found.to(input.dtype if dtype is None else dtype)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the largest of the elements that count is: its index along ``dim``, or in row-major
    order.

    Args:
        dtype: of the result, by default that of ``input``, as in PyTorch.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([5, 7, 6]), lazyt.tensor([True, False, True])
    >>> lazyt.masked.argmax(x, mask=mask)
    tensor(2)
    """
    found: Tensor = lazyt.argmax(_filled(input, mask, _below("argmax")), dim, keepdim)
    return found.to(input.dtype if dtype is None else dtype)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the smallest of the elements that count is: its index along ``dim``, or in row-major
    order.

    Args:
        dtype: of the result, by default that of ``input``, as in PyTorch.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([5, 7, 6]), lazyt.tensor([False, True, True])
    >>> lazyt.masked.argmin(x, mask=mask)
    tensor(2)
    """
    found: Tensor = lazyt.argmin(_filled(input, mask, _above("argmin")), dim, keepdim)
    return found.to(input.dtype if dtype is None else dtype)


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Any:
    """How many elements count, as int64."""
    if mask is None:
        there = lazyt.ones(input.shape, dtype=lazyt.int64, device=input.device)
    else:
        there = _counting(input, mask)
    return there.sum(dims, keepdim)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean of the elements that count, NaN where none does.

    Args:
        dtype: of the result, by default that of ``input``.

    Raises ArgumentError (a ValueError) where that is a dtype of whole numbers.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([[1.0, 2], [3, 4]]), lazyt.tensor([[True, False], [True, True]])
    >>> lazyt.masked.mean(x, 1, mask=mask)
    tensor([1.0000, 3.5000])
    """
    dims = _dims(dim, input)
    kind = input.dtype if dtype is None else dtype
    if not (kind.is_floating_point or kind.is_complex):
        which = "Input" if dtype is None else "Optional"
        raise ArgumentError(
            f"mean(): Could not infer output dtype. {which} dtype must be either a floating point "
            f"or complex dtype. Got: {kind}"
        )
    total = sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask)
    found: Tensor = total / _count(input, dims, keepdim, mask)
    return found


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The median of the elements that count along one dimension, the lower of two; NaN where none
    does.

    Args:
        dtype: of the result where ``input`` has whole numbers, by default that of ``input``.

    Raises ArgumentError (a ValueError) where none of some whole numbers counts; it looks at the
    values for that.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([3.0, 9, 1, 2]), lazyt.tensor([True, False, True, True])
    >>> lazyt.masked.median(x, mask=mask)
    tensor(2.)
    """
    place = _dims(dim, input)[0]
    real = input.dtype.is_floating_point
    whole = _filled(input if real else input.float(), mask, math.nan)
    found: Tensor = lazyt.nanmedian(whole, place, keepdim).values
    if real:
        return found
    if lazyt.isnan(found).any():
        raise ArgumentError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return found.to(input.dtype if dtype is None else dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The logarithm of the sum of the exponentials of the elements that count, -inf where none
    does.

    Args:
        dtype: of the result, by default that of ``input``, whole numbers too.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([0.0, 0, 5]), lazyt.tensor([True, True, False])
    >>> lazyt.masked.logsumexp(x, mask=mask)
    tensor(0.6931)
    """
    dims = _dims(dim, input)
    lowest = -math.inf if input.dtype.is_complex else _below("logsumexp")
    found: Tensor = lazyt.logsumexp(_filled(input, mask, lowest), dims, keepdim)
    return found.to(input.dtype if dtype is None else dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``log(exp(input) + exp(other))`` of each two elements, each of which may not count: -inf
    where neither does.

    Args:
        input, other: floating point tensors that are broadcast to one shape.
        dtype: of the result, by default that of ``input``.
        input_mask, other_mask: which of their elements count.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([-100.0, -200, -300]), lazyt.tensor([True, False, True])
    >>> lazyt.masked.logaddexp(x, x / 100, input_mask=mask, other_mask=mask)
    tensor([-1., -inf, -3.])
    """
    first = _filled(input, input_mask, _below("logaddexp"))
    second = _filled(other, other_mask, _below("logaddexp"))
    found: Tensor = lazyt.logaddexp(first, second)
    return found.to(input.dtype if dtype is None else dtype)


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The vector norm of the elements that count, as ``linalg.vector_norm``; 0 where none does,
    and inf with ``ord=-inf``.

    Args:
        ord: which norm; inf is the largest magnitude, -inf the smallest, 0 counts what is not 0.
        dtype: in which it is computed, by default that of ``input``.

    Raises NoNormError (a TypeError) for ``ord=-inf`` with a mask, unless ``input`` is real floating
    point.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([3.0, 4, 100]), lazyt.tensor([True, True, False])
    >>> lazyt.masked.norm(x, mask=mask)
    tensor(5.)
    """
    dims = _dims(dim, input)
    kind = input.dtype if dtype is None else dtype
    order = 2.0 if ord is None else ord
    if mask is not None and order == -math.inf and not input.dtype.is_floating_point:
        raise NoNormError(f"input must be floating point, got {input.dtype}")
    whole = _filled(input, mask, math.inf if order == -math.inf else 0)
    found: Tensor = vector_norm(whole, order, dims, keepdim, dtype=kind)
    return found


def _variance(
    input: Tensor, dim: Dims, unbiased: bool | None, correction: float | None, keepdim: bool,
    dtype: Any, mask: Tensor | None,
) -> Tensor:  # fmt: skip
    if unbiased is not None and correction is not None:
        raise TwoCorrectionsError("Only one of unbiased and correction may be given")
    dims = _dims(dim, input)
    fewer = float(correction) if correction is not None else float(unbiased is not False)
    kind = input.dtype if dtype is None else dtype
    if dtype is None and not (kind.is_floating_point or kind.is_complex):
        kind = lazyt.float32
    inner = kind if kind.is_floating_point or kind.is_complex else lazyt.float32
    average = sum(input, dim, keepdim=True, dtype=kind, mask=mask) / _count(input, dims, True, mask)
    offset = input - average
    total = sum(offset * offset.conj(), dim, keepdim=keepdim, dtype=inner, mask=mask)
    count = _count(input, dims, keepdim, mask)
    if fewer:
        count = (count.to(inner.to_real()) - fewer).clamp_min(0)
    found: Tensor = (total / count).to(kind)
    return found


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance of the elements that count, NaN where none does.

    Args:
        unbiased: whether it is divided by one less than the number of elements that count.
        correction: how many less, instead of ``unbiased``; 1 by default.
        dtype: of the result, by default that of ``input``, float32 for whole numbers. That of
            complex numbers is complex, as in PyTorch.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([1.0, 3, 100]), lazyt.tensor([True, True, False])
    >>> lazyt.masked.var(x, mask=mask)
    tensor(2.)
    """
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation of the elements that count: the root of ``var``.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([1.0, 3, 100]), lazyt.tensor([True, True, False])
    >>> lazyt.masked.std(x, correction=0, mask=mask)
    tensor(1.)
    """
    found: Tensor = _variance(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()
    return found


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmax along ``dim`` of the elements that count, 0 for the others, NaN where none counts.

    Args:
        dtype: to which ``input`` is converted first.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([1.0, 1, 7]), lazyt.tensor([True, True, False])
    >>> lazyt.masked.softmax(x, 0, mask=mask)
    tensor([0.5000, 0.5000, 0.0000])
    """
    whole = _filled(input, mask, _below("amax"))
    place = _dims(dim, input)[0]
    found: Tensor = F.softmax(whole, place, dtype=input.dtype if dtype is None else dtype)
    return found


def log_softmax(
    input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of ``softmax``: -inf for elements that do not count.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([1.0, 1, 7]), lazyt.tensor([True, True, False])
    >>> lazyt.masked.log_softmax(x, 0, mask=mask)
    tensor([-0.6931, -0.6931,    -inf])
    """
    whole = _filled(input, mask, _below("amax"))
    place = _dims(dim, input)[0]
    found: Tensor = F.log_softmax(whole, place, dtype=input.dtype if dtype is None else dtype)
    return found


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """``softmax`` of the numbers of the other sign.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([1.0, 1, 7]), lazyt.tensor([False, True, False])
    >>> lazyt.masked.softmin(x, 0, mask=mask)
    tensor([0., 1., 0.])
    """
    whole = _filled(input, mask, _above("amin"))
    place = _dims(dim, input)[0]
    found: Tensor = F.softmin(whole, place, dtype=input.dtype if dtype is None else dtype)
    return found


def normalize(
    input: Tensor, ord: float, dim: Dims, *, eps: float = 1e-12, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The elements that count over their ``norm`` along ``dim``, 0 for the others.

    Args:
        ord: which norm.
        eps: what the norm is at least taken for.
        dtype: in which the norm is computed, by default that of ``input``.

    >>> import lazyt
    >>> x, mask = lazyt.tensor([3.0, 4, 100]), lazyt.tensor([True, True, False])
    >>> lazyt.masked.normalize(x, 2.0, 0, mask=mask)
    tensor([0.6000, 0.8000, 0.0000])
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    found: Tensor = _filled(input, mask, 0) / lazyt.maximum(length, length.new_full([], eps))
    return found
