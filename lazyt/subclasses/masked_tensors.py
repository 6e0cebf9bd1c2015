"""Tensors with a mask of their own, PyTorch's ``torch.masked.MaskedTensor``: elements that the
mask leaves out do not count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from lazyt import masked
from lazyt.errors import ArgumentError, DTypeError, LazytError, warn
from lazyt.functional import namespace as lazyt
from lazyt.functional.overriding import Disabled
from lazyt.functional.subclasses import as_class
from lazyt.handle.tensor import Tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Functions of elements of one tensor.
_UNARY = _names("""
    abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh
    arctanh bitwise_not ceil clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv
    exp exp2 expm1 floor frac lgamma log log10 log1p log2 logit i0 isnan nan_to_num neg
    negative positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn signbit sin sinc
    sinh sqrt square tan tanh trunc relu isinf isfinite logical_not __invert__ __rsub__
    __rpow__ __pow__ __rdiv__ __floordiv__ __rfloordiv__ resolve_conj resolve_neg to type
    float double half bfloat16 int long bool cpu clone detach contiguous zeros_like ones_like
    fill_ neg_ exp_ log_ sqrt_ abs_ sigmoid_ relu_ clamp_
    """)
#: Functions of elements of two tensors, whose masks have to be the same.
_BINARY = _names("""
    add arctan2 atan2 bitwise_and bitwise_or bitwise_xor div divide eq __eq__ __ne__ floor_divide
    fmod ge greater greater_equal gt hypot le less less_equal logaddexp lt maximum minimum mul
    multiply ne nextafter not_equal remainder sub subtract true_divide add_ sub_ mul_ div_
    logical_and logical_or logical_xor
    """)
_REDUCTIONS = _names("sum mean amax amin prod argmax argmin norm var std")
_SOFTMAX = _names("softmax log_softmax softmin")
#: Functions of shapes, which do the same to the mask.
_SHAPES = _names("""
    view reshape transpose permute t unsqueeze squeeze expand flatten unflatten flip roll movedim
    swapaxes narrow select index_select repeat __getitem__ getitem expand_as
    """)
#: What is no tensor, and does not ask the mask.
_FACTS = _names(
    """
    size dim numel stride is_floating_point is_complex __len__ __hash__ is_contiguous element_size
    storage_offset get_device item tolist __float__ __int__ __bool__
    """
)
#: Those that give several.
_PARTS = _names("unbind split chunk tensor_split")


def _plain(value: Any) -> Any:
    """The data of a masked tensor, with its gradient history."""
    if not isinstance(value, MaskedTensor):
        return value
    with Disabled():
        return as_class(value, Tensor)


class MaskedTensor(Tensor):
    """A tensor of which a mask says which elements count; made by ``masked_tensor``.

    Args:
        data: the elements.
        mask: bools of the same shape, True for those that count.
        requires_grad: whether gradients are wanted.

    Raises DTypeError for other operands, ArgumentError for shapes that differ.
    """

    _asks_when_made = True
    _mask: Tensor

    def __new__(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
        if not isinstance(data, Tensor) or not isinstance(mask, Tensor):
            raise DTypeError("data and mask must be Tensors")
        if isinstance(data, MaskedTensor) or isinstance(mask, MaskedTensor):
            raise DTypeError("data and mask must be plain tensors, not MaskedTensors")
        if mask.dtype is not lazyt.bool:
            raise DTypeError(f"mask must have dtype bool, not {mask.dtype}")
        if data.ndim != mask.ndim:
            raise ArgumentError("data.dim() must equal mask.dim()")
        if data.shape != mask.shape:
            raise ArgumentError("data.size() must equal mask.size()")
        warn(
            "The PyTorch API of MaskedTensors is in prototype stage and will change in the near "
            "future. Please open a Github issue for features requests and see our documentation "
            "on the torch.masked module for further information about the project."
        )
        made = cls._over(data.detach(), mask)
        if requires_grad:
            made.requires_grad_()
        return made

    def __init__(self, *_: Any, **__: Any) -> None:
        """``__new__`` has done everything."""

    @classmethod
    def _over(cls, data: Tensor, mask: Tensor) -> MaskedTensor:
        with Disabled():
            made: Any = as_class(data, cls)
        made._mask = mask
        return made  # type: ignore[no-any-return]

    def get_data(self) -> Tensor:
        """The elements, those included that do not count."""
        found: Tensor = _plain(self)
        return found

    def get_mask(self) -> Tensor:
        """Which elements count."""
        return self._mask

    def to_tensor(self, value: float) -> Tensor:
        """A plain tensor with ``value`` in the place of what does not count."""
        found: Tensor = lazyt.where(self._mask, _plain(self), value)
        return found

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raises LazytError: arrays have no mask."""
        raise LazytError(".numpy() is not supported for tensor subclasses.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo.get(id(self))
        if made is None:
            data = _plain(self)
            copied = data.detach().clone().requires_grad_(data.requires_grad)
            made = memo[id(self)] = MaskedTensor._over(copied, self._mask.clone())
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = _plain(self).detach(), self._mask
        if not data.ndim:
            shown = _shown(data.item()) if mask.item() else "--"
            return f"MaskedTensor({shown}, {mask.item()})"
        lines = "\n".join(f"  {line}" for line in _lines(data.tolist(), mask.tolist()))
        return f"MaskedTensor(\n{lines}\n)"

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        owner = getattr(func, "__self__", None)
        with Disabled():
            if isinstance(owner, property):
                return _attribute(func, owner, args)
            return _run(func, args, kwargs)


def _shown(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(data: Any, mask: Any) -> list[str]:
    """The text of nested lists, by line."""
    if not data or not isinstance(data[0], list):
        texts = [_shown(value) for value in data]
        width = max((len(text) if keep else 8 for text, keep in zip(texts, mask)), default=0)
        return [
            "[" + ", ".join(t if keep else "--".rjust(width) for t, keep in zip(texts, mask)) + "]"
        ]
    blocks = [[f"  {line}" for line in _lines(d, m)] for d, m in zip(data, mask)]
    for block in blocks[:-1]:
        block[-1] += ","
    return ["[", *(line for block in blocks for line in block), "]"]


def _attribute(func: Any, owner: Any, args: Any) -> Any:
    self = args[0]
    if func.__name__ != "__get__":
        return func(_plain(self), *map(_plain, args[1:]))
    if owner is Tensor.grad:
        found: Any = func(self)
        return None if found is None else MaskedTensor._over(found, self._mask)
    if owner in (Tensor.T, Tensor.mT, Tensor.H, Tensor.mH):
        return MaskedTensor._over(owner.__get__(_plain(self)), owner.__get__(self._mask))
    if owner is Tensor.data:
        return MaskedTensor._over(_plain(self).detach(), self._mask)
    return func(*args)


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = func.__name__
    if name in ("requires_grad_", "register_hook", "retain_grad"):
        found = func(*args, **kwargs)
        return args[0] if isinstance(found, Tensor) else found
    if name in ("backward", "_tensor_backward"):
        return func(_plain(args[0]), *map(_plain, args[1:]), **kwargs)
    if name in _BINARY or (name in _UNARY and len(args) > 1 and isinstance(args[1], Tensor)):
        return _binary(func, args, kwargs)
    self = next((arg for arg in args if isinstance(arg, MaskedTensor)), None)
    if name in ("cat", "stack"):
        return _joined(func, args, kwargs)
    if name == "where":
        return _chosen(func, args)
    if self is None:
        raise LazytError(f"{name} does not take a MaskedTensor in this position")
    if name in _UNARY:
        return _result(self, func(_plain(self), *args[1:], **kwargs), self._mask, args)
    if name in _REDUCTIONS:
        return _reduced(name, self, args[1:], kwargs)
    if name in _SOFTMAX:
        dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
        found = getattr(masked, name)(_plain(self), dim, mask=self._mask)
        return MaskedTensor._over(found, self._mask)
    if name == "all":
        rest = args[1:]
        kept = lazyt.where(self._mask, _plain(self), True)
        return MaskedTensor._over(func(kept, *rest, **kwargs), self._mask.any(*rest, **kwargs))
    if name in _SHAPES:
        made = func(_plain(self), *args[1:], **kwargs)
        return MaskedTensor._over(made, _for_mask(func, self._mask, args[1:], kwargs))
    if name in _PARTS:
        pairs = zip(func(_plain(self), *args[1:], **kwargs), func(self._mask, *args[1:], **kwargs))
        return tuple(MaskedTensor._over(data, mask) for data, mask in pairs)
    if name in _FACTS:
        return func(_plain(self), *args[1:], **kwargs)
    raise DTypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: "
        "[MaskedTensor]; take x.to_tensor(value), or x.get_data() and x.get_mask()"
    )


def _for_mask(func: Any, mask: Tensor, rest: Any, kwargs: Any) -> Tensor:
    index = [part.get_mask() if isinstance(part, MaskedTensor) else part for part in rest]
    found: Tensor = func(mask, *index, **kwargs)
    return found


def _result(self: MaskedTensor, found: Any, mask: Tensor, args: Any) -> Any:
    if not isinstance(found, Tensor):
        return found
    if found._storage is _plain(self)._storage and found.shape == self.shape and found is args[0]:
        return self
    return MaskedTensor._over(found, mask)


def _binary(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    several = [arg for arg in args if isinstance(arg, MaskedTensor)]
    first = several[0]
    for other in several[1:]:
        same = other._mask is first._mask or (
            other._mask.shape == first._mask.shape and lazyt.equal(other._mask, first._mask)
        )
        if not same:
            raise ArgumentError(
                "Input masks must match. If you need support for this, please open an issue on "
                "Github."
            )
    found = func(*map(_plain, args), **kwargs)
    if func.__name__.endswith("_") and not func.__name__.endswith("__"):
        return args[0]
    return MaskedTensor._over(found, first._mask.expand(found.shape))


def _reduced(name: str, self: MaskedTensor, rest: Any, kwargs: dict[str, Any]) -> MaskedTensor:
    data, mask = _plain(self), self._mask
    given = dict(kwargs)
    if name == "norm":
        order = rest[0] if rest else given.pop("p", 2.0)
        rest = (order, *rest[1:])
        dim = rest[1] if len(rest) > 1 else given.pop("dim", None)
        found = masked.norm(data, order, dim, mask=mask, **given)
    else:
        dim = rest[0] if rest else given.pop("dim", None)
        if len(rest) > 1:
            given["keepdim"] = rest[1]
        given.pop("out", None)
        function: Any = getattr(masked, name)
        if name in ("var", "std") and "correction" in given:
            given["unbiased"] = bool(given.pop("correction"))
        if dim is None and name not in ("var", "std"):
            found = function(data, mask=mask, **given)
        else:
            found = function(data, dim, mask=mask, **given)
    keep = bool(given.get("keepdim", False))
    kept = mask.any() if dim is None else _any(mask, dim, keep)
    return MaskedTensor._over(found, kept)


def _any(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    return mask.any(dim=dim, keepdim=keepdim)


def _joined(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> MaskedTensor:
    data = func([_plain(part) for part in args[0]], *args[1:], **kwargs)
    masks = [
        part._mask if isinstance(part, MaskedTensor) else lazyt.ones_like(part, dtype=lazyt.bool)
        for part in args[0]
    ]
    return MaskedTensor._over(data, func(masks, *args[1:], **kwargs))


def _chosen(func: Any, args: tuple[Any, ...]) -> MaskedTensor:
    condition, left, right = args
    if not isinstance(left, MaskedTensor) or not isinstance(right, MaskedTensor):
        raise ArgumentError("where: both values have to be MaskedTensors")
    chosen = _plain(condition)
    mask = func(chosen, left._mask, right._mask)
    return MaskedTensor._over(func(chosen, _plain(left), _plain(right)), mask)


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A tensor with a mask, of the same values, without their gradient history.

        >>> import lazyt
        >>> from lazyt.subclasses.masked_tensors import masked_tensor
        >>> masked_tensor(lazyt.tensor([1.0, 2.0]), lazyt.tensor([True, False]))
        MaskedTensor(
          [  1.0000,       --]
        )

    Args:
        data: the elements.
        mask: bools of the same shape, True for those that count.
        requires_grad: whether gradients are wanted.

    Raises DTypeError for other operands, ArgumentError (a ValueError) for shapes that differ.
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A tensor with a mask through which gradients flow back to ``data``."""
    made = MaskedTensor(data, mask)
    return (
        made
        if data.grad_fn is None and not data.requires_grad
        else (MaskedTensor._over(data.view_as(data), mask))
    )


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether a value is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)
