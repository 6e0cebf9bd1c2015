"""Automatic mixed precision: which dtype a function computes in while ``autocast`` is on.

The functions themselves carry the mark, ``in_low_precision`` or ``in_full_precision``, as
PyTorch's lists for the CPU have them; all others take the types they are given. On GPUs more of
them are cast: ``cast_lists`` says which.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from lazyt.errors import ArgumentError, DeviceError, LazytError, warn
from lazyt.handle.device import check_device
from lazyt.handle.function_table import entry_of
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bfloat16, float16, float32, float64
from lazyt.ir.forms import use

__all__ = [
    "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
    "get_autocast_cpu_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_enabled",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


class Casting(NamedTuple):
    """The low-precision dtypes of both kinds of devices, None where autocast is off."""

    cpu: DType | None
    cuda: DType | None


@functools.cache
def _casting(cpu: DType | None, cuda: DType | None) -> DType | Casting | None:
    """What a thread notes: one object for equal dtypes, and the plain dtype of the CPU alone."""
    return cpu if cuda is None else Casting(cpu, cuda)


class _Mode(threading.local):
    """The low-precision dtype of one thread, None while autocast is off; the dtype that the
    innermost autocast, on or off, was made with; and what else can be set and asked."""

    dtype: DType | Casting | None = None
    on_gpu: DType = float16
    chosen: DType = bfloat16
    cached = True
    nesting = 0


mode = _Mode()


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Whether this thread is inside of an enabled ``autocast``."""
    return low_dtype(device_type) is not None


def low_dtype(device_type: str) -> DType | None:
    """The low-precision dtype for a kind of device, None while autocast is off for it."""
    both = mode.dtype
    if isinstance(both, Casting):
        return both.cuda if device_type == "cuda" else both.cpu
    return both if device_type == "cpu" else None


def set_low_dtype(device_type: str, dtype: DType | None) -> None:
    """Turn autocast on, with a dtype, or off for a kind of device."""
    if device_type == "cuda":
        mode.dtype = _casting(low_dtype("cpu"), dtype)
    else:
        mode.dtype = _casting(dtype, low_dtype("cuda"))


def get_autocast_dtype(device_type: str = "cpu") -> DType:
    """The low-precision dtype in use, or PyTorch's default for the device."""
    return mode.on_gpu if device_type == "cuda" else mode.chosen


def is_autocast_available(device_type: str) -> bool:
    """Whether ``autocast`` takes this type of device."""
    return device_type in ("cpu", "cuda")


class autocast:
    """Inside of it, products and convolutions compute in ``dtype``, and losses in float32.

    A context manager and a decorator; blocks nest.

    Args:
        device_type: ``"cpu"``; ``"cuda"`` switches itself off, with a warning, without a GPU and
            where the emulator (``cuda:emu``) was not used yet.
        dtype: bfloat16 (the CPU's default) or float16.
        enabled: False makes a block inside of another compute as usual.
        cache_enabled: without effect: equal conversions are one value in the graph anyway.

    Raises LazytError (a RuntimeError) for other devices, and ArgumentError (a ValueError) for
    what is no text.
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ArgumentError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise LazytError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.dtype: DType = get_autocast_dtype(device_type) if dtype is None else dtype
        self.enabled = enabled
        self._waits = False  # for the emulator
        if enabled and device_type == "cuda" and not _has_gpu():
            warn("CUDA is not available or torch_xla is imported. Disabling autocast.")
            self.enabled, self._waits = False, True
        if (self.enabled or self._waits) and self.dtype not in (bfloat16, float16):
            warn(
                f"In {device_type.upper()} autocast, but the target dtype is not supported. "
                f"Disabling autocast.\n{device_type.upper()} Autocast only supports dtypes of "
                f"{bfloat16}, {float16} currently."
            )
            self.enabled = self._waits = False
        self._outer: list[tuple[DType | Casting | None, DType, DType]] = []

    def __enter__(self) -> autocast:
        if self._waits and _has_gpu():
            self.enabled, self._waits = True, False
        self._outer.append((mode.dtype, mode.chosen, mode.on_gpu))
        set_low_dtype(self.device, self.dtype if self.enabled else None)
        if self.device == "cpu":
            mode.chosen = self.dtype
        else:
            mode.on_gpu = self.dtype
        return self

    def __exit__(self, *_: object) -> None:
        mode.dtype, mode.chosen, mode.on_gpu = self._outer.pop()

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast(F, inside)


def _has_gpu() -> bool:
    """Whether there is a GPU, or the emulator is in use."""
    from lazyt.runtime.cuda.device import EMULATED
    from lazyt.runtime.cuda.device import in_use as devices_in_use

    if any(found.place == EMULATED for found in devices_in_use()):
        return True
    try:
        check_device("cuda")
    except DeviceError:
        return False
    return True


# ---------------------------------------------------------------------- marks


def _converted(value: Any, dtype: DType) -> Any:
    """Tensors of floating point as ``dtype``, also inside of lists; float64 stays."""
    if isinstance(value, Tensor):
        if value.dtype.kind == "f" and value.dtype not in (dtype, float64):
            return value.to(dtype)
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return type(value)(_converted(v, dtype) for v in value)
    return value


def in_low_precision(function: F) -> F:
    """Decorator: under ``autocast`` the function takes its tensors in the low precision."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        dtype: Any = mode.dtype
        if dtype is None or kwargs.get("out") is not None:  # the lists have no forms with out=
            return function(*args, **kwargs)
        if isinstance(dtype, Casting):
            dtype = low_dtype(kind_of(args, kwargs))
            if dtype is None:
                return function(*args, **kwargs)
        return cast_call(function, dtype, args, kwargs)

    return cast(F, inside)


def in_full_precision(function: F) -> F:
    """Decorator: under ``autocast`` of the CPU the function takes its tensors in float32."""
    in_given = in_given_precision(function)

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        dtype = mode.dtype
        if dtype is None or kwargs.get("out") is not None:
            return function(*args, **kwargs)
        if isinstance(dtype, Casting) and (dtype.cpu is None or kind_of(args, kwargs) == "cuda"):
            return in_given(*args, **kwargs)
        return cast_call(function, float32, args, kwargs)

    return cast(F, inside)


def in_given_precision(function: F) -> F:
    """Decorator: ``autocast`` is off for what the function calls, which may be marked."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        outer, mode.dtype = mode.dtype, None
        try:
            return function(*args, **kwargs)
        finally:
            mode.dtype = outer

    return cast(F, inside)


def lowered(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Tensors as a function that is marked ``in_low_precision`` would take them."""
    if mode.dtype is None:
        return tuple(tensors)
    dtype = low_dtype(kind_of(tensors, {}))
    return tuple(tensors) if dtype is None else tuple(_converted(t, dtype) for t in tensors)


def lowered_on_gpu(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Tensors as a function takes them that computes in the low precision on GPUs only."""
    return lowered(tensors) if tensors[0].is_cuda else tuple(tensors)


def raised(tensor: Tensor) -> Tensor:
    """A tensor as a function that is marked ``in_full_precision`` would take it."""
    if mode.dtype is None or low_dtype(tensor.device.type) is None:
        return tensor
    found: Tensor = _converted(tensor, float32)
    return found


def raised_on_gpu(value: Any) -> Any:
    """A tensor as a function takes it that computes in float32 on GPUs, but not on the CPU."""
    return raised(value) if isinstance(value, Tensor) and value.is_cuda else value


def kind_of(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """The kind of device that the first tensor among the arguments is on."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
        if isinstance(value, Tensor):
            return value.device.type
    return "cpu"


def cast_call(
    function: Callable[..., Any], dtype: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The function of converted tensors, with autocast off: it may call others that are marked."""
    outer, mode.dtype = mode.dtype, None
    try:
        converted = {n: v if n == "out" else _converted(v, dtype) for n, v in kwargs.items()}
        return function(*[_converted(value, dtype) for value in args], **converted)
    finally:
        mode.dtype = outer


# What autocast does on GPUs: for each function what PyTorch's lists for CUDA say, in its entry.
#
# A function of which nothing is said takes the types it is given, whatever it does on the CPU.


def as_on_gpus(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as autocast wants it on GPUs: itself where its entry says nothing of that."""
    entry = entry_of(function)
    if entry is None or not entry.cast:
        return function
    rule = _RULES[entry.cast]

    def cast(*args: Any, **kwargs: Any) -> Any:
        if use.any and mode.dtype is not None and kwargs.get("out") is None:
            low = low_dtype("cuda")
            if low is not None and kind_of(args, kwargs) == "cuda":
                return rule(function, args, kwargs)
        return function(*args, **kwargs)

    # As in ``explained``: functools.wraps is slow at import.
    cast.__module__, cast.__qualname__ = function.__module__, function.__qualname__
    cast.__name__, cast.__doc__ = function.__name__, function.__doc__
    cast.__annotations__ = function.__annotations__
    cast.__dict__.update(function.__dict__, __wrapped__=function)
    return cast


def _full(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs.get("mode") == "area":  # of ``interpolate``: a mean, which is on no list
        return function(*args, **kwargs)
    return cast_call(function, float32, args, kwargs)


def _full_by_default(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if kwargs.get("dtype") is not None or any(isinstance(value, DType) for value in args):
        return function(*args, **kwargs)
    return cast_call(function, float32, args, kwargs)


def _widest(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    values = [*args, *kwargs.values()]
    wide = any(isinstance(v, Tensor) and v.is_cuda and v.dtype is float32 for v in values)
    return cast_call(function, float32 if wide else low_dtype("cuda"), args, kwargs)


def _low(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return cast_call(function, low_dtype("cuda"), args, kwargs)


def _unsafe(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise LazytError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_"
        "logits\nor torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and "
        "BCEWithLogits are\nsafe to autocast."
    )


#: By what an entry says of it.
_RULES: dict[str, Callable[..., Any]] = {
    "low": _low, "full": _full, "full_by_default": _full_by_default, "widest": _widest,
    "unsafe": _unsafe,
}  # fmt: skip


# Autocast by functions instead of blocks, by PyTorch's names; ``autocast`` itself is simpler.


def set_autocast_enabled(*args: Any) -> None:
    """Turn autocast on or off: ``(device_type, enabled)``, or ``(enabled)`` for a GPU's."""
    device, enabled = args if len(args) == 2 else ("cuda", args[0])
    set_low_dtype(device, get_autocast_dtype(device) if enabled else None)


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Choose the low-precision dtype. Raises LazytError for another than bfloat16 and float16."""
    if dtype not in (bfloat16, float16):
        raise LazytError(f"Currently, AutocastCPU only support Bfloat16 or Half, but got {dtype}")
    if device_type == "cuda":
        mode.on_gpu = dtype
    else:
        mode.chosen = dtype
    if is_autocast_enabled(device_type):
        set_low_dtype(device_type, dtype)


def is_autocast_cpu_enabled() -> bool:
    """Whether this thread is inside of an enabled ``autocast`` for the CPU."""
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> DType:
    """The low-precision dtype for the CPU."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """The low-precision dtype for a GPU."""
    return get_autocast_dtype("cuda")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """``set_autocast_enabled`` for the CPU."""
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """``set_autocast_dtype`` for the CPU."""
    set_autocast_dtype("cpu", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether converted weights are kept; they always are, since equal values are one node."""
    return mode.cached


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether converted weights are kept; noted, but without effect."""
    mode.cached = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget converted weights; there are none beside the graph."""


def autocast_increment_nesting() -> int:
    """Count a block more around; returns how many there are."""
    mode.nesting += 1
    return mode.nesting


def autocast_decrement_nesting() -> int:
    """Count a block less around; returns how many there are."""
    mode.nesting -= 1
    return mode.nesting
