"""Tensors as Python objects: conversion, truth, iteration, and their facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lazyt import pending
from lazyt.dispatch import add_property, method
from lazyt.errors import DTypeError, GradientError, LazytError, ShapeError
from lazyt.functional.operands import as_number, existing_dim
from lazyt.functional.rearranging import flip
from lazyt.functional.splitting import unbind
from lazyt.numpy_bridge import item, only_number
from lazyt.runtime import events
from lazyt.tensor import Tensor
from lazyt.watching import capturing, hook

if TYPE_CHECKING:
    from lazyt.explanation import Explanation

__all__ = ["explain", "realize", "wait_for_compiler", "why_compiled", "why_realized"]

# As in PyTorch; what NumPy's functions do with tensors is decided in lazyt/numpy_calls.py.
Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- numbers


@method()
def __bool__(self: Tensor) -> bool:
    view = self._view
    if self._storage.node.shape if view is None else view.shape:
        count = self.shape.numel()
        if count == 0:
            raise LazytError("Boolean value of Tensor with no values is ambiguous")
        if count > 1:
            raise LazytError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(only_number(self, "its truth was asked for"))


def _number(tensor: Tensor) -> bool | int | float:
    if tensor.shape.numel() != 1:
        raise ShapeError("only one element tensors can be converted to Python scalars")
    return item(tensor)


@method()
def __int__(self: Tensor) -> int:
    return int(_number(self))


@method()
def __float__(self: Tensor) -> float:
    return float(_number(self))


@method()
def __complex__(self: Tensor) -> complex:
    return complex(_number(self))


@method()
def __index__(self: Tensor) -> int:
    if self.dtype.kind == "f" or self.shape.numel() != 1:
        raise DTypeError("only integer tensors of a single element can be converted to an index")
    return int(item(self))


@method()
def __format__(self: Tensor, spec: str) -> str:
    if self.ndim == 0:
        return format(item(self), spec)
    return object.__format__(self, spec)


# ---------------------------------------------------------------------- sequences


@method()
def __len__(self: Tensor) -> int:
    if self.ndim == 0:
        raise DTypeError("len() of a 0-d tensor")
    return self.shape[0]  # type: ignore[no-any-return]


@method()
def __iter__(self: Tensor) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise DTypeError("iteration over a 0-d tensor")
    return iter(unbind(self))


@method()
def __reversed__(self: Tensor) -> Tensor:
    return flip(self, 0) if self.ndim else self


@method()
def __contains__(self: Tensor, element: object) -> bool:
    if isinstance(element, Tensor) or as_number(element) is not None:
        return bool((self == element).any())
    raise LazytError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
    )


# ---------------------------------------------------------------------- facts


@method()
def stride(self: Tensor, dim: int | None = None) -> Any:
    """The strides in elements, or that of one dimension."""
    return self.strides if dim is None else self.strides[existing_dim(dim, self.ndim)]


@method()
def storage_offset(self: Tensor) -> int:
    """Where in its storage the tensor begins, in elements."""
    return self._offset


@method()
def data_ptr(self: Tensor) -> int:
    """The address of the first element. From here on the memory counts as shared: it stays put,
    writes take effect in it at once, and what is written to it from outside is seen. On a device
    it is where the values are now."""
    if 0 in self.shape:
        return 0
    if self.is_cuda:  # values that are computed: a look, not shared
        return self._storage.placed_pointer() + self._offset * self.itemsize
    token = self._storage.expose(forever=True)
    return token.ptr + self._offset * self.itemsize


def _version(self: Tensor) -> int:
    """How often the memory was written to. Raises GradientError for an inference tensor."""
    if self._storage.version < 0:
        raise GradientError("Inference tensors do not track version counter.")
    return self._storage.version_now()


add_property("_version", property(_version))


def _base(self: Tensor) -> Tensor | None:
    view = self._view
    return None if view is None else view.source


add_property("_base", property(_base))


@method()
def _is_view(self: Tensor) -> bool:
    """Whether the tensor is a view that autograd follows to another."""
    return self._view is not None and self._view.source is not None


@method()
def dim_order(self: Tensor, *, ambiguity_check: bool = False) -> tuple[int, ...]:
    """The dimensions from the slowest to the fastest in memory.

    Args:
        ambiguity_check: raise LazytError where equal strides leave the order open.
    """
    strides = self.strides
    if ambiguity_check and len(set(strides)) < len(strides):
        raise LazytError("The tensor does not have unique dim order, or cannot map to exact one of "
                         "the given memory formats.")  # fmt: skip
    return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))


# ---------------------------------------------------------------------- computing


def realize(*tensors: Tensor) -> None:
    """Compute all of ``tensors`` now, in one plan. Raises TypeError for anything else."""
    for tensor in tensors:
        if not _is_there(tensor):
            break
    else:  # most often: a captured call has computed them
        return
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            hint = ": realize(*tensors)" if isinstance(tensor, list | tuple) else ""
            raise TypeError(f"realize expects tensors, not {type(tensor).__name__}{hint}")
    if capturing() is None:  # a captured function computes everything at its end
        pending.realize_nodes([tensor.node for tensor in tensors])


@method("realize")
def _realize(self: Tensor) -> Tensor:
    """Compute this tensor's value now; returns the tensor."""
    if not _is_there(self):
        realize(self)
    return self


def _is_there(tensor: Tensor) -> bool:
    """Whether a tensor is plain, computed, in memory of its own, and nobody watches reads."""
    if type(tensor) is not Tensor or tensor._view is not None or hook.watcher is not None:
        return False
    storage = tensor._storage
    node = storage.node
    if node.data is None or storage.share is not None:
        return False
    inputs = node.inputs
    # A parameter is a value with a mark on it, which is all that is left of its history.
    return not inputs or (node.op.name == "variable" and not inputs[0].inputs)


def explain(*tensors: Any) -> Explanation:
    """What computing ``tensors`` would do: kernels, the reason of every fusion decision, and the
    memory and time that it takes (``footprint``).

    Args:
        tensors: tensors, or one function captured by ``lazyt.jit``: what its replays do.

    Raises DTypeError for anything else.
    """
    from lazyt import compiler
    from lazyt.staging import Captured, CapturedModule

    if len(tensors) == 1 and isinstance(tensors[0], (Captured, CapturedModule)):
        return tensors[0].explain()
    for given in tensors:
        if not isinstance(given, Tensor):
            raise DTypeError(f"explain() takes tensors, not {type(given).__name__}")
    return compiler.explain([tensor.node for tensor in tensors])


@method("explain")
def _explain(self: Tensor) -> Explanation:
    """``lazyt.explain`` of this tensor."""
    return explain(self)


def wait_for_compiler(timeout: float | None = None) -> bool:
    """Wait until no plan waits for its kernels or is being compiled in the background.

    Whoever measures time calls this once the program has run a few times. Plans that have not run
    for long enough to be worth a compiler stay as they are, see ``config.tier``.

    Args:
        timeout: seconds to wait at the most, None for as long as it takes.

    Returns:
        Whether nothing is left to compile.

    Raises:
        ValueError: ``timeout`` is negative.

    Example:
        >>> import lazyt
        >>> lazyt.wait_for_compiler(timeout=60)
        True
    """
    from lazyt import tiers

    if timeout is not None and timeout < 0:
        raise ValueError(f"timeout must not be negative, got {timeout}")
    return tiers.wait(timeout)


def why_realized() -> Sequence[events.Event]:
    """The values that were computed without ``realize()``, with the line that looked at them."""
    return events.recorded("realize")


def why_compiled() -> Sequence[events.Event]:
    """What was compiled, and why it was not found in a cache."""
    return events.recorded("compile")
