"""Fake tensors, PyTorch's ``torch._subclasses``: shapes, dtypes and devices without values.

A fake tensor lives on the meta device and says that it is on another one, which may be one that
this machine does not have. Functions give fake tensors of the devices of their arguments; what
depends on values raises.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from threading import local
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from lazyt.compat.served.packages import aten
from lazyt.errors import DeviceError, LazytError, NoValuesError
from lazyt.functional.overriding import Disabled, choices
from lazyt.functional.subclasses import as_class
from lazyt.functional.type_promotion import get_default_dtype
from lazyt.fx.graph_module import GraphModule
from lazyt.fx.interpreter import Interpreter
from lazyt.fx.node import Node
from lazyt.fx.passes.shape_prop import _extract_tensor_metadata
from lazyt.handle.device import META, default_device, device
from lazyt.handle.tensor import Tensor
from lazyt.nn.parameter import Parameter
from lazyt.overrides import TorchFunctionMode
from lazyt.utils import _pytree as pytree

__all__ = [
    "DataDependentOutputException", "DynamicOutputShapeException", "FakeInputError", "FakeTensor",
    "FakeTensorConverter", "FakeTensorMode", "FakeTensorProp", "UnsupportedFakeTensorException",
    "detect_fake_mode", "is_fake", "maybe_get_fake_mode", "unset_fake_temporarily",
]  # fmt: skip

#: Functions that give numbers, by the operator that PyTorch names.
_NUMBERS = {
    **dict.fromkeys(
        [
            "item",
            "tolist",
            "__bool__",
            "__int__",
            "__float__",
            "__index__",
            "__complex__",
            "is_nonzero",
            "__contains__",
            "__format__",
        ],
        "_local_scalar_dense",
    ),
    "equal": "equal",
    "allclose": "_local_scalar_dense",
}
#: Functions whose results are as large as values say.
_SIZED_BY_VALUES = {
    "nonzero": "nonzero", "argwhere": "nonzero", "masked_select": "masked_select",
    "unique": "_unique2", "unique_consecutive": "unique_consecutive", "bincount": "bincount",
    "unique_dim": "unique_dim",
}  # fmt: skip
#: Functions that make tensors of numbers.
_OF_NUMBERS = frozenset(("tensor", "as_tensor", "asarray", "scalar_tensor", "from_numpy"))


class DataDependentOutputException(LazytError):
    """A number that depends on values was needed.

    Args:
        func: the operator.
    """

    def __init__(self, func: Any) -> None:
        super().__init__(f"{func}")
        self.func = func


class DynamicOutputShapeException(DataDependentOutputException):
    """A shape that depends on values was needed."""


class UnsupportedFakeTensorException(LazytError):
    """A tensor that cannot become a fake one.

    Args:
        reason: why.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class FakeInputError(LazytError, AssertionError):
    """A tensor with values among fake ones."""


class _Inside(local):
    """Whether this thread runs a function for fake tensors, which sees their real device."""

    depth = 0


_inside = _Inside()


@contextlib.contextmanager
def _as_meta() -> Iterator[None]:
    """A block in which fake tensors are on the meta device."""
    _inside.depth += 1
    try:
        with Disabled(modes=False):
            yield
    finally:
        _inside.depth -= 1


def _concrete(place: Any) -> device:
    """A device with its number."""
    found = device(place)
    return device(found.type, 0) if found.type == "cuda" and found.index is None else found


class FakeTensor(Tensor):
    """A tensor with a shape, a dtype and a device, and without values.

    Args:
        fake_mode: the mode that it belongs to.
        elem: a tensor on the meta device.
        device: where it claims to be.

    Raises UnsupportedFakeTensorException for a tensor of another device.

    Attributes:
        fake_device: where it claims to be.
        constant: the value, of one that a program made of numbers and did not write to.
    """

    _asks_when_made = True
    fake_device: Any
    fake_mode: Any
    constant: Tensor | None

    def __new__(
        cls, fake_mode: FakeTensorMode, elem: Tensor, device: Any, constant: Tensor | None = None
    ) -> FakeTensor:
        with _as_meta():
            if not elem.is_meta:
                raise UnsupportedFakeTensorException(f"{elem.device} is not the meta device")
            made: Any = as_class(elem, cls)
        made.fake_mode, made.fake_device, made.constant = fake_mode, _concrete(device), constant
        return made  # type: ignore[no-any-return]

    def __init__(self, *_: Any, **__: Any) -> None:
        """``__new__`` has done everything."""

    @staticmethod
    def from_tensor(t: Tensor, fake_mode: FakeTensorMode) -> FakeTensor:
        """``fake_mode.from_tensor``."""
        return fake_mode.from_tensor(t)

    @property
    def device(self) -> Any:
        """The device that it claims to be on."""
        return META if _inside.depth else self.fake_device

    @property
    def is_cpu(self) -> bool:
        """Whether it claims to be on the CPU."""
        return bool(self.device.type == "cpu")

    @property
    def is_cuda(self) -> bool:
        """Whether it claims to be on a GPU."""
        return bool(self.device.type == "cuda")

    @property
    def is_meta(self) -> bool:
        """Whether it claims to be on the meta device."""
        return bool(self.device.type == "meta")

    def get_device(self) -> int:
        """The number of the GPU that it claims to be on, else -1."""
        number = self.device.index
        return number if self.is_cuda else -1

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        with _as_meta():
            parts = ["...", f"size={tuple(self.shape)}"]
            if self.fake_device.type != "cpu":
                parts.insert(1, f"device='{self.fake_device}'")
            kind = f"{self.dtype}"
            if self.dtype is not get_default_dtype():
                parts.append(f"dtype={kind}")
            if self.grad_fn is not None:
                parts.append(f"grad_fn=<{type(self.grad_fn).__name__}>")
            elif self.requires_grad:
                parts.append("requires_grad=True")
        head = "Parameter(FakeTensor" if isinstance(self, Parameter) else "FakeTensor"
        return f"{head}({', '.join(parts)})" + (")" if head != "FakeTensor" else "")

    def tolist(self) -> Any:
        """The value, of one that was made of numbers; raises DataDependentOutputException."""
        with Disabled(modes=False):
            return self.fake_mode.value_of(self, "tolist").tolist()

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raises LazytError: there are no values."""
        raise LazytError(".numpy() is not supported for tensor subclasses.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo.get(id(self))
        if made is None:
            with _as_meta():
                copied = self.detach().clone()
                copied.requires_grad_(self.requires_grad)
            made = FakeTensor(self.fake_mode, copied, self.fake_device)
            if isinstance(self, Parameter):
                made = Parameter(made, self.requires_grad)
            memo[id(self)] = made
        return made

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        modes = [
            leaf.fake_mode
            for leaf in pytree.tree_leaves((args, kwargs or {}))
            if isinstance(leaf, FakeTensor)
        ]
        if any(mode is not modes[0] for mode in modes):
            raise FakeInputError("Mixing fake modes NYI")
        return modes[0].dispatch(func, tuple(args), dict(kwargs or {}))


class FakeTensorMode(TorchFunctionMode):
    """A block in which functions make fake tensors, and what makes them of others.

        >>> import lazyt
        >>> from lazyt.subclasses.fake_tensors import FakeTensorMode
        >>> with FakeTensorMode() as mode:
        ...     y = lazyt.empty(2, 3, device="cuda") @ lazyt.empty(3, 4, device="cuda")
        >>> y
        FakeTensor(..., device='cuda:0', size=(2, 4))
        >>> mode.from_tensor(lazyt.ones(5)).sum()
        FakeTensor(..., size=())

    Args:
        allow_fallback_kernels: taken for PyTorch's sake.
        allow_non_fake_inputs: whether functions may be given tensors with values, too.
        shape_env: kept as an attribute; shapes are numbers, so that none are made symbols.
        static_shapes, export: taken for PyTorch's sake.
    """

    def __init__(
        self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = False,
        shape_env: Any = None, static_shapes: bool | None = None, export: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        self.fake_tensor_converter = FakeTensorConverter()
        self.epoch = 0

    # ------------------------------------------------------------ making fake tensors

    def from_tensor(
        self, tensor: Tensor, *, static_shapes: bool | None = None, source: Any = None,
        symbolic_context: Any = None, trace: bool = True,
    ) -> FakeTensor:  # fmt: skip
        """The fake tensor of a tensor: of its shape, strides, dtype, device and of whether it
        requires a gradient. The same one for the same tensor.

        Raises UnsupportedFakeTensorException for sparse tensors, and FakeInputError for a fake
        tensor of another mode.
        """
        return self.fake_tensor_converter.from_real_tensor(self, tensor)

    def value_of(self, tensor: FakeTensor, name: str) -> Tensor:
        """The constant of a fake tensor; raises DataDependentOutputException without one."""
        if tensor.constant is None:
            raise DataDependentOutputException(_operator(_NUMBERS.get(name, name)))
        return tensor.constant

    # ---------------------------------------------------------------- running functions

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.dispatch(func, tuple(args), dict(kwargs or {}))

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a function, with fake tensors.

        Raises DataDependentOutputException where it needs values, FakeInputError for a tensor that
        has values, and DeviceError for fake tensors on several devices.
        """
        name = getattr(func, "__name__", "")
        if isinstance(getattr(func, "__self__", None), property):
            return self._attribute(func, args)
        if name in _OF_NUMBERS:
            return self._of_numbers(func, args, kwargs)
        fakes = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, FakeTensor)]
        self._check_values(name, fakes, (args, kwargs))
        if name in _NUMBERS and fakes:
            values = [self.value_of(fake, name) for fake in fakes]
            with Disabled(modes=False):
                return func(*values, *args[len(values) :], **kwargs)
        if name in ("cuda", "cpu") and fakes:
            number = args[1] if len(args) > 1 else kwargs.get("device")
            return self._moved(fakes[0], name if number is None else number)
        place, args, kwargs = self._placed(name, fakes, args, kwargs)
        args, kwargs = pytree.tree_map(
            functools.partial(self._operand, func, (args, kwargs)), (args, kwargs)
        )
        try:
            with _as_meta():
                result = func(*args, **kwargs)
                if fakes and result is fakes[0] and place != fakes[0].fake_device:
                    result = result.clone()
        except NoValuesError as error:
            raise DataDependentOutputException(_operator(name)) from error
        if name.endswith("_") or name == "__setitem__":
            for fake in fakes[:1]:
                fake.constant = None
        return pytree.tree_map(lambda part: self._wrapped(part, place), result)

    def _attribute(self, func: Any, args: tuple[Any, ...]) -> Any:
        with _as_meta():
            result = func(*args)
        owner = args[0]
        place = owner.fake_device if isinstance(owner, FakeTensor) else None
        if place is None and isinstance(owner, Tensor):
            return result
        return pytree.tree_map(lambda part: self._wrapped(part, place), result)

    def _of_numbers(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        place = _concrete(kwargs.pop("device", None) or default_device())
        given = args[0] if args else kwargs.get("data")
        if isinstance(given, FakeTensor):
            dtype = kwargs.get("dtype") or given.dtype
            return self._wrapped(given.to(dtype), place)
        needs = bool(kwargs.pop("requires_grad", False))
        with Disabled(modes=False):
            value = func(*args, **kwargs)
            meta = value.to("meta")
            if needs:
                meta.requires_grad_()
        small = value if value.numel() <= 1024 and not needs else None
        return FakeTensor(self, meta, place, small)

    def _check_values(self, name: str, fakes: list[FakeTensor], given: Any) -> None:
        """Raise what functions that need values do."""
        if not fakes:
            return
        if name in _SIZED_BY_VALUES:
            raise DynamicOutputShapeException(_operator(_SIZED_BY_VALUES[name]))
        if name in ("where",) and len(given[0]) == 1 and not given[1]:
            raise DynamicOutputShapeException(_operator("nonzero"))
        if name in ("getitem", "__getitem__"):
            index = given[0][1]
            parts = index if isinstance(index, tuple) else (index,)
            if any(isinstance(p, Tensor) and f"{p.dtype}".endswith("bool") for p in parts):
                raise DynamicOutputShapeException(_operator("nonzero"))

    def _placed(
        self, name: str, fakes: list[FakeTensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The device of the results, and the arguments without it."""
        place: Any = None
        if name in ("to", "_to_copy"):
            rest = list(args)
            for number, part in enumerate(rest[1:], 1):
                if isinstance(part, Tensor):
                    place = _concrete(part.device)
                    rest[number] = part.dtype
                elif isinstance(part, (device, str)):
                    place = _concrete(part)
                    rest[number] = META
            args = tuple(rest)
        if kwargs.get("device") is not None:
            place = _concrete(kwargs["device"])
            kwargs = {**kwargs, "device": META}
        elif not fakes and place is None:
            place = _concrete(default_device())
            if _takes_device(name):
                kwargs = {**kwargs, "device": META}
        if place is None:
            place = _common_device(name, fakes)
        return place, args, kwargs

    def _moved(self, tensor: FakeTensor, to: Any) -> FakeTensor:
        """A fake tensor on another device, or on a GPU of a number."""
        place = _concrete(device("cuda", to) if isinstance(to, int) else to)
        if place == tensor.fake_device:
            return tensor
        with _as_meta():
            return FakeTensor(self, tensor.clone(), place)

    def _operand(self, func: Any, given: Any, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if isinstance(value, FakeTensor):
            if value.fake_mode is not self:
                raise FakeInputError("Mixing fake modes NYI")
            return value
        with Disabled(modes=False):
            if value.is_meta:
                return value
        if not self.allow_non_fake_inputs:
            raise FakeInputError(
                "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode "
                f"with 'allow_non_fake_inputs'. Found in {_operator(getattr(func, '__name__', ''))}"
            )
        return self.from_tensor(value)

    def _wrapped(self, value: Any, place: Any) -> Any:
        if not isinstance(value, Tensor) or isinstance(value, FakeTensor):
            if isinstance(value, FakeTensor) and not hasattr(value, "fake_mode"):
                value.fake_mode, value.fake_device, value.constant = self, place, None
            return value
        with Disabled(modes=False):
            meta = value if value.is_meta else value.to("meta")
        return FakeTensor(self, meta, place or "cpu")


def _takes_device(name: str) -> bool:
    """Whether a function makes tensors and takes a device."""
    return name in _FACTORIES


_FACTORIES = frozenset(
    [
        "zeros",
        "ones",
        "empty",
        "full",
        "rand",
        "randn",
        "randint",
        "randperm",
        "arange",
        "range",
        "linspace",
        "logspace",
        "eye",
        "empty_strided",
        "empty_permuted",
        "tril_indices",
        "triu_indices",
        "hann_window",
        "hamming_window",
        "blackman_window",
        "bartlett_window",
        "kaiser_window",
        "fftfreq",
        "rfftfreq",
        "complex_",
        "normal",
        "sparse_coo_tensor",
        "vander_",
    ]
)


def _common_device(name: str, fakes: list[FakeTensor]) -> Any:
    """The device of operands, of which those of no dimensions may be on the CPU."""
    found: Any = None
    for fake in fakes:
        place = fake.fake_device
        if found is None or (found[1] == 0 and found[0].type == "cpu"):
            found = place, fake.ndim
        elif place != found[0] and not (place.type == "cpu" and fake.ndim == 0):
            raise DeviceError(
                f"Unhandled FakeTensor Device Propagation for {_operator(name)}, found two "
                f"different devices {found[0]}, {place}"
            )
    return device("cpu") if found is None else found[0]


def _operator(name: str) -> Any:
    """The operator of a function's name, for errors."""
    plain = name.strip("_") if name.startswith("__") else name
    found = getattr(aten, plain, None)
    return plain if found is None else found.default


class FakeTensorConverter:
    """Makes fake tensors of others; the same one for the same tensor."""

    def __init__(self) -> None:
        self.tensor_memo: WeakValueDictionary[int, FakeTensor] = WeakValueDictionary()
        self._held: dict[int, Any] = {}

    def from_real_tensor(self, fake_mode: FakeTensorMode, t: Tensor, **_: Any) -> FakeTensor:
        """``fake_mode.from_tensor(t)``."""
        if isinstance(t, FakeTensor):
            if t.fake_mode is not fake_mode:
                raise FakeInputError("Mixing fake modes NYI")
            return t
        if id(t) in self._held:
            found: FakeTensor = self._held[id(t)][1]
            return found
        with Disabled(modes=False):
            if t.is_sparse:
                raise UnsupportedFakeTensorException("sparse tensors have no fake ones in lazyt")
            place, needs = t.device, t.requires_grad
            span = 1 + sum((size - 1) * step for size, step in zip(t.shape, t.stride()))
            memory = Tensor.new_empty(t, (max(span, 0) if t.numel() else 0,), device="meta")
            meta = (
                memory.as_strided(t.shape, t.stride())
                if not t.is_contiguous()
                else (memory.reshape(t.shape))
            )
            meta = meta.detach()
            if needs:
                meta.requires_grad_()
        made: Any = FakeTensor(fake_mode, meta, place)
        if isinstance(t, Parameter):
            made = Parameter(made, needs)
            made.fake_mode, made.fake_device, made.constant = fake_mode, _concrete(place), None
        self._held[id(t)] = t, made
        return made  # type: ignore[no-any-return]


def is_fake(x: object) -> bool:
    """Whether a value is a fake tensor."""
    return isinstance(x, FakeTensor)


def maybe_get_fake_mode(t: object) -> FakeTensorMode | None:
    """The mode of a fake tensor, None for others."""
    return t.fake_mode if isinstance(t, FakeTensor) else None


def _active() -> FakeTensorMode | None:
    found = (mode for mode in reversed(choices.modes) if isinstance(mode, FakeTensorMode))
    return next(found, None)


def detect_fake_mode(inputs: Any = None) -> FakeTensorMode | None:
    """The fake mode that is entered, or that of the fake tensors among ``inputs``; None without.

    Raises FakeInputError for those of several modes.
    """
    found = [mode] if (mode := _active()) is not None else []
    for leaf in pytree.tree_leaves(inputs):
        if isinstance(leaf, FakeTensor):
            found.append(leaf.fake_mode)
    if any(mode is not found[0] for mode in found):
        raise FakeInputError("fake mode from several sources do not match")
    return found[0] if found else None


@contextlib.contextmanager
def unset_fake_temporarily() -> Iterator[FakeTensorMode | None]:
    """A block outside of the fake mode that is entered."""
    mode, before = _active(), choices.modes
    choices.modes = [m for m in before if not isinstance(m, FakeTensorMode)]
    try:
        yield mode
    finally:
        choices.modes = before


class FakeTensorProp(Interpreter):
    """Runs a graph with fake tensors and notes in ``meta["val"]`` of each node what it gives.

    Args:
        module: the graph.
        mode: the fake mode; one that takes tensors with values by default.
    """

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = mode or FakeTensorMode(allow_non_fake_inputs=True)

    def run_node(self, n: Node) -> Any:
        """The result of a node."""
        result = super().run_node(n)
        n.meta["val"] = result
        if isinstance(result, Tensor):
            with _as_meta():
                n.meta["tensor_meta"] = _extract_tensor_metadata(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """The results for arguments, of which tensors become fake ones."""
        fakes = [self._mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args]
        return self.propagate_dont_convert_inputs(*fakes)

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """The results for arguments that are fake tensors."""
        with self._mode:
            return super().run(*args)
