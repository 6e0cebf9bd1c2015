"""Private functions of PyTorch that other packages call."""

from __future__ import annotations

import copy
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Tensor
from lazyt.handle.device import device

__all__ = [
    "DEFAULT_PROTOCOL", "FILE_LIKE", "MAP_LOCATION", "ExceptionWrapper", "KeyErrorMessage",
    "TensorMeta", "get_device_module", "get_unsafe_globals_in_checkpoint", "is_compiling",
    "is_contiguous_or_false", "is_sparse", "matmul",
]  # fmt: skip

#: Of the pickles in files.
DEFAULT_PROTOCOL = 2
FILE_LIKE = Any
MAP_LOCATION = Callable[[Any, str], Any] | device | str | dict[str, str] | None


class KeyErrorMessage(str):
    """The text of a KeyError that is shown with its lines, not with ``\\n``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An error of another process or thread, with its traceback as text.

    Args:
        exc_info: as ``sys.exc_info()`` has it; the error being handled by default.
        where: which process or thread.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: type[BaseException] = kind or RuntimeError
        self.where = where
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))

    def reraise(self) -> None:
        """Raise an error of that class with the text; RuntimeError where the class takes none."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            text = KeyErrorMessage(text)
        try:
            error = self.exc_type(text)
        except Exception:  # a class may want other arguments, and refuse a text with any error
            raise RuntimeError(text) from None
        raise error


class TensorMeta(type(Tensor)):  # type: ignore[misc]
    """The class of the class of tensors, for classes that answer ``isinstance`` themselves."""


def is_compiling() -> bool:
    """False: Python runs the code."""
    return False


def is_contiguous_or_false(a: Tensor) -> bool:
    """Whether a tensor is contiguous."""
    return a.is_contiguous()


def is_sparse(A: Any) -> bool:
    """Whether a tensor has coordinates. Raises TypeError for what is no tensor."""
    if not isinstance(A, Tensor):
        raise TypeError(f"expected Tensor but got {type(A)}")
    return A.is_sparse


def matmul(A: Tensor | None, B: Tensor) -> Tensor:
    """``A @ B``, or ``B`` where ``A`` is None."""
    return B if A is None else A @ B


def get_device_module(device: Any = None) -> Any:
    """The module of a type of device, such as ``torch.cuda``; raises RuntimeError for others."""
    place = lazyt.device(device) if isinstance(device, str) else device
    kind = "cpu" if place is None else place.type
    if kind not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module")
    return import_module(f"lazyt.{kind}")


def _get_device_module(device_type: str) -> Any:
    """The same of a name."""
    return get_device_module(device_type)


def _get_available_device_type() -> str | None:
    """The type of the accelerator that there is, or None."""
    return "cuda" if import_module("lazyt.cuda").is_available() else None


def _get_name(func: Callable[..., Any]) -> str:
    """What a function is called."""
    return getattr(func, "__name__", repr(func))


_MISSING = object()


def swap_tensor(module: Any, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Puts a tensor in the place of a parameter, buffer or attribute of a module, without asking
    what it is; gives the one before.

    Raises TypeError for what is no module or tensor, KeyError for wrong names, and AttributeError
    where there is none before, unless that is allowed.
    """
    if not isinstance(module, import_module("lazyt.nn").Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not _MISSING and not isinstance(tensor, Tensor) and tensor is not None:
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if "." in name or not name:
        raise KeyError('tensor name can\'t contain "."' if name else "tensor name can't be empty")
    place = module._parameters if name in module._parameters else module._buffers
    if name not in place:
        place = module.__dict__
    before = place.get(name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    if before is not _MISSING and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is _MISSING:
        place.pop(name, None)
    else:
        place[name] = tensor
    return before


def set_tensor(module: Any, name: str, tensor: Any) -> None:
    """``swap_tensor`` where there may be none before."""
    swap_tensor(module, name, tensor, allow_missing=True)


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """Names in a file that ``lazyt.load`` refuses to load: it runs no code of files, and names them
    when it loads. Raises UnpicklingError for such a file."""
    lazyt_load = import_module("lazyt.serialization").load
    try:
        lazyt_load(f)
    except pickle.UnpicklingError as error:
        return [str(error)]
    return []


def _element_size(dtype: Any) -> int:
    """How many bytes an element has."""
    size: int = dtype.itemsize
    return size


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device: that of the current one for None with ``optional``, -1 for the CPU
    with ``allow_cpu``. Raises ValueError, in PyTorch's words, for others."""
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    place = lazyt.device(device) if isinstance(device, str) else device
    if place is None:
        if not optional:
            raise ValueError(
                f"Expected a torch.device with a specified index or an integer, but got:{device}"
            )
        return 0
    if place.type == "cpu":
        if not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        return -1
    if place.index is None and not optional:
        raise ValueError(
            f"Expected a torch.device with a specified index or an integer, but got:{device}"
        )
    return int(place.index or 0)


def _rebuild_tensor_v2(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool,
    backward_hooks: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    """A view of a storage, with what pickles of tensors hold."""
    made = lazyt.empty(0, dtype=storage.dtype, device=storage.device)
    made.set_(storage, storage_offset, tuple(size), tuple(stride))
    made.requires_grad_(requires_grad)
    return made


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Tensor:
    """A Parameter, with what pickles of Parameters hold."""
    parameter: Tensor = import_module("lazyt.nn").Parameter(data, requires_grad)
    return parameter


def _rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    """What ``func`` makes of ``args``, as an object of a class, with attributes."""
    made = func(*args)
    if type(made) is not new_type:
        made = made.as_subclass(new_type)
    if isinstance(state, tuple):
        state, slots = state
        for name, value in (slots or {}).items():
            setattr(made, name, value)
    vars(made).update(state or {})
    return made


def _convert(ret: Any, cls: Any) -> Any:
    """Tensors, and those in tuples and lists, as objects of a subclass."""
    if cls is Tensor:
        return ret
    if isinstance(ret, Tensor) and not isinstance(ret, cls):
        return ret.as_subclass(cls)
    if isinstance(ret, (tuple, list)):
        return type(ret)(_convert(item, cls) for item in ret)
    return ret


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors in a row."""
    found: Tensor = lazyt.cat([tensor.contiguous().view(-1) for tensor in tensors])
    return found


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of such a row with the shapes of ``tensors``."""
    parts, start = [], 0
    for tensor in tensors:
        parts.append(flat.narrow(0, start, tensor.numel()).view_as(tensor))
        start += tensor.numel()
    return tuple(parts)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterable[list[Tensor]]:
    """The tensors in lists of one dtype each, of at most ``size_limit`` bytes."""
    groups: dict[Any, list[Tensor]] = {}
    sizes: dict[Any, int] = {}
    for tensor in tensors:
        kind = tensor.type()
        nbytes = tensor.numel() * tensor.element_size()
        held = groups.setdefault(kind, [])
        if held and sizes[kind] + nbytes > size_limit:
            yield groups[kind]
            held = groups[kind] = []
            sizes[kind] = 0
        held.append(tensor)
        sizes[kind] = sizes.get(kind, 0) + nbytes
    yield from (held for held in groups.values() if held)


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """The device, dtype, ``non_blocking`` and memory format that arguments of ``to`` name. Raises
    TypeError for others."""
    place, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    blocking, layout = kwargs.pop("non_blocking", False), kwargs.pop("memory_format", None)
    flags = []
    for value in args:
        if isinstance(value, Tensor):
            place, dtype = value.device, value.dtype
        elif isinstance(value, lazyt.dtype):
            dtype = value
        elif isinstance(value, bool):
            flags.append(value)
        elif isinstance(value, (str, device, int)):
            place = value
        elif value is not None:
            raise TypeError(f"to() received an invalid argument: {type(value).__name__}")
    if flags:
        blocking = flags[0]
    return None if place is None else lazyt.device(place), dtype, blocking, layout


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """Tensors of floats in a dtype, in lists, tuples and dicts, too."""
    if isinstance(value, Tensor):
        fits = value.is_floating_point() and value.device.type == device_type
        return value.to(dtype) if fits and value.dtype is not lazyt.float64 else value
    if isinstance(value, dict):
        return {
            _cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, device_type, dtype) for item in value)
    return value


def _str(self: Tensor, *, tensor_contents: Any = None) -> str:
    """The text of a tensor."""
    return repr(self)


_str_intern = _str


def _add_docstr(obj: Any, doc_obj: str) -> Any:
    """The object, with a text where it may have one."""
    if hasattr(obj, "__dict__"):
        obj.__doc__ = doc_obj
    return obj


def _assert_async(input: Tensor, assert_msg: str = "") -> None:
    """Raises RuntimeError where the one element is zero: looks at it now."""
    if not bool(input):
        raise LazytError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The shape, as int64 numbers."""
    found: Tensor = lazyt.tensor(list(self.shape), dtype=lazyt.int64)
    return found


def _standard_gamma(self: Tensor, generator: Any = None) -> Tensor:
    """Gamma numbers with these shape parameters and rate 1."""
    made = import_module("lazyt.distributions").Gamma(self, lazyt.ones_like(self))
    found: Tensor = made.rsample()
    return found


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The numbers of the GPUs of tensors among the arguments, and the states of their random
    numbers."""
    places = sorted({a.device.index or 0 for a in args if isinstance(a, Tensor) and a.is_cuda})
    return places, [import_module("lazyt.cuda").get_rng_state(place) for place in places]


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """Put the random numbers of GPUs to such states."""
    for place, state in zip(devices, states):
        import_module("lazyt.cuda").set_rng_state(state, place)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """How many inputs, or outputs, a weight has; raises ValueError for another ``mode``."""
    name = mode.lower()
    if name not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = import_module("lazyt.nn.init").fans(tensor)
    return int(fan_in if name == "fan_in" else fan_out)


def _get_activation_fn(activation: str) -> Any:
    """``relu`` or ``gelu``; raises RuntimeError for another name."""
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(import_module("lazyt.nn.functional"), activation)


def _get_clones(module: Any, N: int) -> Any:
    """A ModuleList of copies."""
    return import_module("lazyt.nn").ModuleList([copy.deepcopy(module) for _ in range(N)])


def _default_to_fused_or_foreach(
    params: Any, differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Which forms of an optimizer to take, fused and foreach: neither, as fusion finds both."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Types of devices whose optimizers can be captured: all."""
    return ["cpu", "cuda"]


def _default_schedule_fn(_: int) -> Any:
    """Record every step."""
    return import_module("lazyt.profiler").ProfilerAction.RECORD
