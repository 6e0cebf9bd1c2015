"""Parameters: the tensors that a module learns."""

from __future__ import annotations

from typing import Any, cast

from lazyt.errors import DTypeError, LazytError
from lazyt.functional import namespace as lazyt
from lazyt.functional.overriding import _disabled_torch_function_impl as _disabled
from lazyt.functional.overriding import is_overriding as _overriding
from lazyt.functional.overriding import plain_kinds as _plain_kinds
from lazyt.handle.tensor import Tensor
from lazyt.handle.tensor_protocol import copy_deep


class _Kind(type):
    """The class of Parameter, for ``isinstance``: see ``_mark``."""


def _is_parameter(cls: type, instance: Any) -> bool:
    marked = isinstance(instance, Tensor) and "_is_param" in instance.__dict__
    return (marked and cls is Parameter) or type.__instancecheck__(cls, instance)


def _mark(tensor: Tensor, data: Tensor) -> Any:
    """A tensor of a subclass that overrides functions, as a parameter: it stays of its class, and
    is all the same what ``isinstance`` takes for a Parameter."""
    if type(tensor) is not type(data):
        kinds = type(data).__name__, type(tensor).__name__
        raise DTypeError(
            f"Creating a Parameter from an instance of type {kinds[0]} requires that detach() "
            f"returns an instance of the same type, but return type {kinds[1]} was found instead. "
            "To use the type as a Parameter, please correct the detach() semantics defined by its "
            "__torch_dispatch__() implementation."
        )
    _Kind.__instancecheck__ = _is_parameter  # type: ignore[method-assign]
    tensor.__dict__["_is_param"] = True
    return tensor


class Parameter(Tensor, metaclass=_Kind):
    """A tensor that, set as an attribute of a Module, becomes one of its parameters.

    Args:
        data: the values; memory is shared with it, gradient history is not.
        requires_grad: whether the gradient is computed, as it is by default.

    Raises DTypeError for what is no tensor, or for whole numbers that should require gradients.
    """

    __slots__ = ()
    __torch_function__ = _disabled

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = lazyt.empty(0)
        if not isinstance(data, Tensor):
            raise DTypeError(f"Parameter() takes a Tensor, not {type(data).__name__}")
        if requires_grad and data.dtype.kind not in "fc":
            raise DTypeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        if _overriding(type(data)) or data.layout is not lazyt.strided:
            return cast(Parameter, _mark(data.detach().requires_grad_(requires_grad), data))
        return _over(data.detach(), requires_grad, cls)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A parameter as this one was made: without gradient and attributes."""
        made = memo.get(id(self))
        if made is None:
            made = memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return made

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


def _over(tensor: Tensor, requires_grad: bool, cls: type[Parameter] = Parameter) -> Parameter:
    made = object.__new__(cls)
    made._storage, made._view = tensor._storage, tensor._view
    del tensor  # so that only the parameter looks at the storage
    if requires_grad:
        made.requires_grad_()
    return made


def blank_parameter(*size: int, dtype: Any = None, device: Any = None) -> Parameter:
    """A parameter of zeros in memory of its own, for a layer to initialise."""
    blank = lazyt.zeros(*size, dtype=dtype, device=device)
    if type(blank) is not Tensor:  # a mode has made it
        return Parameter(blank)
    return _over(blank, True)


class Buffer(Tensor):
    """A tensor that, set as an attribute of a Module, becomes one of its buffers.

    Args:
        data: the values; memory is shared with it.
        persistent: whether it belongs to the ``state_dict``.

    Raises DTypeError for what is no tensor.
    """

    __slots__ = ("persistent",)
    __torch_function__ = _disabled
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = lazyt.empty(0)
        if not isinstance(data, Tensor):
            raise DTypeError(f"Buffer() takes a Tensor, not {type(data).__name__}")
        made = object.__new__(cls)
        made._storage, made._view = data._storage, data._view
        made.persistent = persistent
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        made: Buffer = copy_deep(self, memo)  # type: ignore[assignment]
        made.persistent = self.persistent
        return made


_NO_SHAPE = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
    "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. "
    "Call `forward` to initialize the parameters before accessing their attributes."
)


class UninitializedTensorMixin:
    """A tensor whose size is not known yet."""

    __slots__ = ()

    @property
    def shape(self) -> Any:
        """Raises LazytError: there is none yet."""
        raise LazytError(_NO_SHAPE)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[object, ...]:
        tensor: Any = self
        return type(self), (tensor.requires_grad, str(tensor.device), tensor.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo.get(id(self))
        if made is None:
            kind, given = self.__reduce_ex__(2)
            made = memo[id(self)] = cast(Any, kind)(*cast(Any, given))
        return made


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose size is not known before the first forward pass."""

    __slots__ = ()

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        made = object.__new__(cls)
        data = lazyt.empty(0, device=device, dtype=dtype)
        made._storage, made._view = data._storage, data._view
        if requires_grad:
            made.requires_grad_()
        return made

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a Parameter of this shape; the values are for the layer to initialise."""
        made = _over(lazyt.zeros(shape, device=device, dtype=dtype or self.dtype), False)
        needs = self.requires_grad
        self._storage, self._view = made._storage, made._view
        self.__class__ = Parameter  # type: ignore[assignment]
        self.requires_grad_(needs)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose size is not known before the first forward pass.

    Whether it belongs to the ``state_dict`` (``persistent``) is said where it is registered.
    """

    __slots__ = ()
    __torch_function__ = _disabled

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:  # fmt: skip
        made = object.__new__(cls)
        data = lazyt.empty(0, device=device, dtype=dtype)
        made._storage, made._view = data._storage, data._view
        return made

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of this shape; the values are for the layer to initialise."""
        made = lazyt.zeros(shape, device=device, dtype=dtype or self.dtype)
        self._storage, self._view = made._storage, made._view
        self.__class__ = Tensor  # type: ignore[assignment]


def is_uninitialized(value: object) -> bool:
    """Whether a parameter or buffer waits for its size."""
    return isinstance(value, UninitializedTensorMixin)


_plain_kinds.update({Parameter, Buffer})
