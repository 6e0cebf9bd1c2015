"""PyTorch's private functions of lists of tensors, ``torch._foreach_add_`` and its kin.

Each computes what the function of one tensor does, for every tensor of the list; fusion finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Tensor
from lazyt.handle.grad_mode import no_grad

__all__ = [
    "_device_has_foreach_support", "_foreach_copy_", "_foreach_max", "_foreach_norm",
    "_foreach_zero_", "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices", "_group_tensors_by_device_and_dtype",
    "_has_foreach_support",
]  # fmt: skip

Tensors = Sequence[Tensor]

_OF_ONE = """
    abs ceil cos erf exp expm1 floor log log1p neg reciprocal round rsqrt sigmoid sign sin sqrt
    tanh trunc"""
#: Functions of a tensor and a number, a tensor, or one for each of the list.
_OF_TWO = "add clamp_max clamp_min div maximum minimum mul pow sub lerp"
_OF_THREE = "addcdiv addcmul"
_ALIKE = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _each(self: Any, value: Any) -> Sequence[Any]:
    """An argument for each tensor; raises LazytError for lists of another length."""
    if not isinstance(value, (list, tuple)):
        return [value] * len(self)
    if len(value) != len(self):
        raise LazytError(
            f"Tensor lists must have the same number of tensors, got {len(self)} and {len(value)}"
        )
    return value


def _named(name: str, value: Any) -> str:
    """The function to call: ``maximum`` of a number is ``clamp_min``."""
    return _ALIKE.get(name, name) if not isinstance(value, Tensor) else name


def _called(
    tensor: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any], write: bool
) -> Any:
    if name == "pow" and not isinstance(tensor, Tensor):
        return lazyt.pow(tensor, args[0])
    function = _named(name, args[0]) if args else name
    if write and not hasattr(tensor, function + "_"):  # maximum has no such form
        return tensor.copy_(getattr(tensor, function)(*args, **kwargs))
    return getattr(tensor, function + ("_" if write else ""))(*args, **kwargs)


def _made(name: str, write: bool, arguments: int) -> Callable[..., Any]:
    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, (list, tuple)):  # pow of one number with every tensor
            self = [self] * len(args[0])
        lists, rest = args[:arguments], args[arguments:]
        if name in _OF_THREE.split():  # the factor may stand third, and be one for each
            factor = kwargs.pop("scalars", kwargs.pop("value", rest[0] if rest else 1))
            if isinstance(factor, Tensor):
                factor = factor.tolist()
            factors = _each(self, factor)
            found = [
                _called(t, name, parts, {"value": f}, write)
                for t, f, *parts in zip(self, factors, *(_each(self, a) for a in lists))
            ]
        else:
            named = {}
            for key, value in kwargs.items():
                if key in ("other", "exponent", "scalar", "scalars", "tensors1", "weight"):
                    lists = (*lists, value)
                else:
                    named[key] = value
            if rest:  # alpha
                named["alpha"] = rest[0]
            found = [
                _called(t, name, parts, named, write)
                for t, *parts in zip(self, *(_each(self, a) for a in lists))
            ]
        return None if write else tuple(found)

    function.__name__ = function.__qualname__ = f"_foreach_{name}{'_' if write else ''}"
    function.__doc__ = f"``{name}`` of every tensor of a list" + (", in place." if write else ".")
    return function


for _names, _count in ((_OF_ONE, 0), (_OF_TWO, 1), (_OF_THREE, 2)):
    for _name in _names.split():
        for _write in (False, True):
            _function = _made(_name, _write, _count + (_name == "lerp"))
            globals()[_function.__name__] = _function
            __all__ += [_function.__name__]


def _foreach_copy_(self: Tensors, src: Tensors, non_blocking: bool = False) -> None:
    """Copy each tensor of ``src`` into that of ``self``; raises LazytError for lists of two
    lengths."""
    for tensor, source in zip(self, _each(self, src)):
        tensor.copy_(source)


def _foreach_zero_(self: Tensors) -> None:
    """Fill every tensor with zeros."""
    for tensor in self:
        tensor.zero_()


def _foreach_norm(self: Tensors, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of the elements of every tensor."""
    norm: Any = lazyt.linalg_vector_norm if hasattr(lazyt, "linalg_vector_norm") else lazyt.norm
    if dtype is None:
        return tuple(norm(tensor, ord) for tensor in self)
    return tuple(norm(tensor, ord, dtype=dtype) for tensor in self)


def _foreach_max(self: Tensors) -> tuple[Tensor, ...]:
    """The largest element of every tensor."""
    return tuple(tensor.max() for tensor in self)


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Types of devices where PyTorch's optimizers would take these functions by themselves."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Types of devices whose optimizers take ``fused=True``: they do on all."""
    return ["cpu", "cuda"]


def _has_foreach_support(tensors: list[Any], device: Any) -> bool:
    """True: every device computes them."""
    return True


def _device_has_foreach_support(device: Any) -> bool:
    """True: every device computes them."""
    return True


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """The columns of several lists of tensors, by device and dtype of those of the first list, each
    with the indices that it had. Raises LazytError for lists of different lengths.

    Args:
        tensorlistlist: lists of the same length, of tensors and None.
        with_indices: give the indices, else a list of none.
    """
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    with no_grad():
        for index, tensor in enumerate(tensorlistlist[0]):
            key = (tensor.device, tensor.dtype)
            lists, indices = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
            for found, given in zip(lists, tensorlistlist):
                if len(given) > index:
                    found.append(given[index])
            if with_indices:
                indices.append(index)
    return groups
