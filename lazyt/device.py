"""Devices as users name them."""

from __future__ import annotations

from lazyt.errors import DeviceError, DTypeError, LazytError

_KINDS = ("cpu", "cuda", "meta")


class device:
    """``device("cpu")``, ``device("cuda:1")``, ``device("cuda", 1)`` or ``device(1)``.

    Raises LazytError for text that names no device. Naming a device does not need it to exist.
    """

    __slots__ = ("index", "type")
    __module__ = "lazyt"

    type: str
    index: int | None

    def __init__(self, type: str | int | device, index: int | None = None) -> None:
        kind, number = _parsed(type, index)
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", number)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attribute '{name}' of 'lazyt.device' objects is not writable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type='{self.type}')"
        return f"device(type='{self.type}', index={self.index})"

    def __enter__(self) -> device:
        """New tensors are to be made here; raises DeviceError for a device that cannot be used."""
        check_device(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to undo: there is one device that can be used."""

    def __reduce__(self) -> tuple[object, ...]:
        return (device, (self.type, self.index))


def _parsed(given: object, index: int | None) -> tuple[str, int | None]:
    """Kind and number of a device as users name it; raises LazytError for what names none."""
    if isinstance(given, device):
        return given.type, given.index
    if isinstance(given, int) and not isinstance(given, bool):
        return "cuda", given
    if not isinstance(given, str):
        raise DTypeError(
            "device() received an invalid combination of arguments - got "
            f"({type(given).__name__}), but expected a device, a string or a number"
        )
    if not given:
        raise LazytError("Device string must not be empty")
    kind, colon, number = given.partition(":")
    if kind not in _KINDS:
        raise LazytError(
            f"Expected one of {', '.join(_KINDS)} device type at start of device string: {given}"
        )
    if colon and (not number.isdecimal() or str(int(number)) != number):
        raise LazytError(f"Invalid device string: '{given}'")
    if colon and index is not None:
        raise LazytError(
            f"type (string) must not include an index because index was passed explicitly: {given}"
        )
    if index is not None and index < 0:
        raise LazytError("Device index must not be negative")
    return kind, int(number) if colon else index


CPU = device("cpu")


def check_device(wanted: object) -> device:
    """``wanted`` (None, text, number or device) as a device that tensors can be on.

    Raises DeviceError, saying what is missing, for any device but the CPU.
    """
    if wanted is None:
        return CPU
    if not isinstance(wanted, (str, int, device)):
        raise DeviceError(f"a device is a string, a number or lazyt.device, not {wanted!r}")
    place = device(wanted)
    if place.type == "cpu":
        return CPU
    if place.type == "cuda":
        raise DeviceError(f"cannot use {place}: {_missing_cuda()}")
    raise DeviceError(f"tensors on the {place.type} device are not supported; use 'cpu'")


def _missing_cuda() -> str:
    """Why no CUDA device can be used here, in words a user can act on."""
    import importlib.util

    if importlib.util.find_spec("cuda") is None:
        return "the package cuda-python is not installed (pip install 'lazyt[cuda]')"
    import ctypes

    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver was found (libcuda.so.1 cannot be loaded)"
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "the NVIDIA driver finds no GPU"
    return "lazyt's tensors live on the CPU only so far"
