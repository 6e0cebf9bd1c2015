"""The switches of PyTorch that a program may set: threads, devices, determinism, precision.

Results here never depend on the number of threads or on chance, and products are always computed
in full precision, so most switches are only remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.config import config
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.overriding import candidates, first_answer
from lazyt.functional.type_promotion import set_default_dtype
from lazyt.handle.device import CPU, check_device, default_device, device, make_default
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_

__all__ = [
    "_assert", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
    "_check_tensor_all", "_check_tensor_all_with", "_check_type", "_check_value", "_check_with",
    "are_deterministic_algorithms_enabled", "get_default_device", "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads",
    "is_deterministic_algorithms_warn_only_enabled", "is_vulkan_available",
    "is_warn_always_enabled", "set_default_device", "set_default_tensor_type",
    "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal",
    "set_num_interop_threads", "set_num_threads", "set_warn_always", "use_deterministic_algorithms",
]  # fmt: skip


# ``torch._check`` and its kin: conditions of a program, and the errors where they do not hold.


Message = Callable[[], Any] | None

_UNNAMED = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, "
    "please report an enhancement request to PyTorch.)"
)


def _assert(condition: Any, message: Any) -> Any:
    """Raises AssertionError with ``message`` where ``condition`` is false."""
    if type(condition) not in (bool, Tensor) and (found := candidates((condition,))):
        return first_answer(_assert, found, ((condition, message), {}))
    if not condition:
        raise AssertionError(message)
    return None


def _check_with(error_type: type[Exception], cond: Any, message: Message) -> None:
    """Raises ``error_type`` with what ``message()`` returns where the bool ``cond`` is false."""
    if isinstance(cond, Tensor):
        raise DTypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use "
            "torch._check_tensor_all() to assert that all elements are true."
        )
    if not isinstance(cond, bool):
        raise DTypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is not None and not callable(message):
        raise DTypeError("message must be a callable")
    raise error_type(_UNNAMED if message is None else str(message()))


def _check(cond: Any, message: Message = None) -> None:
    """Raises RuntimeError where ``cond`` is false."""
    _check_with(RuntimeError, cond, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """Raises RuntimeError where ``i`` is negative or beyond ``max``."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """Raises IndexError where ``cond`` is false."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """Raises ValueError where ``cond`` is false."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """Raises TypeError where ``cond`` is false."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """Raises NotImplementedError where ``cond`` is false."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raises ``error_type`` where an element of the tensor ``cond`` of bools is false."""
    if not isinstance(cond, Tensor):
        raise DTypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise DTypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raises RuntimeError where an element of the tensor ``cond`` of bools is false."""
    _check_tensor_all_with(RuntimeError, cond, message)


_MODES = ("default", "warn", "error")
_PRECISIONS = ("highest", "high", "medium")


class _Switches:
    """What was requested.

    Attributes:
        mode: 0 for any algorithms, 1 to be warned of, 2 to refuse, those that depend on chance.
        precision: of float32 products: highest, high or medium.
        interop: threads for operations beside each other.
        warn_always: whether every warning is to be given each time.
    """

    def __init__(self) -> None:
        self.mode = 0
        self.precision = "highest"
        self.interop = 0
        self.warn_always = False


_switches = _Switches()


def _count(value: Any, function: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise LazytError(f"{function} expects an int, but got {type(value).__name__}")
    if value <= 0:
        raise LazytError(f"{function} expects a positive integer")
    return value


def _thread_count() -> int:
    from lazyt.runtime.cpu.openmp import team  # a program that asks is about to compute

    return team.count()


def get_num_threads() -> int:
    """How many threads a kernel may use."""
    return _thread_count()


def set_num_threads(int: int) -> None:
    """Let kernels use so many threads; results do not depend on it. Raises LazytError below 1."""
    config.threads = _count(int, "set_num_threads")


def get_num_interop_threads() -> int:
    """How many threads run operations beside each other: as many as one kernel may use."""
    return _switches.interop or _thread_count()


def set_num_interop_threads(int: int) -> None:
    """Remember a number of threads for operations beside each other."""
    _switches.interop = _count(int, "set_num_interop_threads")


def get_default_device() -> device:
    """Where new tensors are made."""
    return default_device()


def set_default_device(device: Any) -> None:
    """Make new tensors of this thread on ``device``; None is the CPU. Raises DeviceError for a
    device that cannot be used."""
    make_default(CPU if device is None else check_device(device))


def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of a legacy tensor type, or of its name, that of new tensors.

    Raises DTypeError for what is no type of floating point tensors.
    """
    from lazyt.compat.legacy import type_called

    kind = type_called(t) if isinstance(t, str) else t
    dtype = getattr(kind, "dtype", None)
    if dtype is None:
        raise DTypeError(f"invalid type object: {t!r}")
    set_default_dtype(dtype)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Refuse, or warn of, algorithms that depend on chance: there are none."""
    _switches.mode = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Whether ``use_deterministic_algorithms`` is on."""
    return _switches.mode != 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether ``use_deterministic_algorithms`` is on and would only warn."""
    return _switches.mode == 1


def get_deterministic_debug_mode() -> int:
    """0 when ``use_deterministic_algorithms`` is off, 1 when it warns, 2 when it raises."""
    return _switches.mode


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """``use_deterministic_algorithms`` by number or name: default, warn or error.

    Raises LazytError for others.
    """
    if not isinstance(debug_mode, (int, str)):
        raise DTypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise LazytError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise LazytError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    _switches.mode = debug_mode


def get_float32_matmul_precision() -> str:
    """What ``set_float32_matmul_precision`` was given; products are exact to float32 always."""
    return _switches.precision


def set_float32_matmul_precision(precision: str) -> None:
    """Remember a precision: highest, high or medium. Raises ShapeError's kin ValueError else."""
    if precision not in _PRECISIONS:
        raise ShapeError(f"expected precision to be one of {_PRECISIONS}, but got {precision}")
    _switches.precision = precision


def is_warn_always_enabled() -> bool:
    """What ``set_warn_always`` was given."""
    return _switches.warn_always


def set_warn_always(b: bool, /) -> None:
    """Remember whether every warning is to be given each time."""
    _switches.warn_always = bool(b)


def set_flush_denormal(mode: bool) -> bool:
    """Whether the CPU now takes tiny numbers for zero: it never does here."""
    return False


def is_vulkan_available() -> bool:
    """Whether tensors can be on a Vulkan device: never."""
    return False
