"""Devices as users name them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lazyt import ops
from lazyt.errors import DeviceError, DTypeError, LazytError, NoValuesError
from lazyt.handle.hooks import hook
from lazyt.ir.forms import PLACED, mixed, place_of
from lazyt.ir.graph import Node

if TYPE_CHECKING:
    from lazyt.handle.storage import Storage
    from lazyt.handle.tensor import Tensor


_KINDS = ("cpu", "cuda", "meta")
_EMULATED = "emu"


class device:
    """``device("cpu")``, ``device("cuda:1")``, ``device("cuda", 1)`` or ``device(1)``.

    ``device("cuda:emu")`` is the CUDA emulator; its index is ``"emu"``.

    Raises LazytError for text that names no device. Naming a device does not need it to exist.
    """

    __slots__ = ("index", "type")
    __module__ = "lazyt"

    if TYPE_CHECKING:  # at run time ``int`` is a dtype in the module that the class says it is in
        type: str
        index: int | None

    def __init__(self, type: str | int | device, index: int | str | None = None) -> None:
        kind, number = _parsed(type, index)
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", number)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attribute '{name}' of 'lazyt.handle.device' objects is not writable")

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
        place = check_device(self)
        _defaults.outer.append(_defaults.place)
        _defaults.place = place
        return self

    def __exit__(self, *_: object) -> None:
        """New tensors are made where they were made before."""
        _defaults.place = _defaults.outer.pop()

    def __reduce__(self) -> tuple[object, ...]:
        return (device, (self.type, self.index))


def _parsed(given: object, index: Any) -> tuple[str, Any]:
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
    if number == _EMULATED or index == _EMULATED:
        if kind != "cuda":
            raise LazytError(f"Invalid device string: '{given}'")
        return kind, _EMULATED
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
#: Where tensors have shapes and dtypes and no values.
META = device("meta")


class _Defaults(threading.local):
    """Where this thread makes new tensors.

    Attributes:
        place: the device.
        outer: those of the ``with`` blocks around.
    """

    def __init__(self) -> None:
        self.place = CPU
        self.outer: list[device] = []


_defaults = _Defaults()


def default_device() -> device:
    """Where new tensors are made when nobody says where."""
    return _defaults.place


def make_default(place: device) -> None:
    """New tensors of this thread are to be made there."""
    _defaults.place = place


def check_device(wanted: object) -> device:
    """``wanted`` (None, text, number or device) as a device that tensors can be on.

    None is where new tensors are made by default. Raises DeviceError, saying what is missing, for
    a GPU that cannot be used.
    """
    if wanted is None:
        return _defaults.place
    if wanted is CPU:
        return CPU
    if not isinstance(wanted, (str, int, device)):
        raise DeviceError(f"a device is a string, a number or lazyt.device, not {wanted!r}")
    place = device(wanted)
    if place.type == "cpu":
        return CPU
    return _cuda(place) if place.type == "cuda" else META


def _cuda(place: device) -> device:
    """A CUDA device with its number. Raises DeviceError, saying what is missing."""
    from lazyt.runtime.cuda import device as cuda_device

    if place.index is None:
        place = device("cuda", cuda_device.current())
    try:
        cuda_device.device_at(str(place))
    except DeviceError as error:
        raise DeviceError(f"cannot use {place}: {error}") from None
    return place


def place_name(place: device) -> str:
    """The device as graphs name it: empty for the CPU."""
    return "" if place.type == "cpu" else str(place)


def device_of(place: str) -> device:
    """The device that graphs name so."""
    if not place:
        return CPU
    found = _known.get(place)
    if found is None:
        found = _known[place] = device(place)
    return found


_known: dict[str, device] = {META.type: META}


# Tensors on devices: which device a result is on, and what is refused.


#: Storages whose values were pending on a device when they were written.
pending_storages: weakref.WeakSet[Storage] = weakref.WeakSet()
#: Functions that take whole numbers from the CPU wherever their tensor is.
_INDEXING = frozenset({"Index", "IndexPut", "IndexPutImpl"})


def placed(node: Node, place: device) -> Node:
    """A value that is made, as one on the device."""
    name = place_name(place)
    if place_of(node.form) == name:
        return node
    if place is META:
        return without_values(node)
    return ops.put(node, name) if name and node.data is None else transferred(node, name)


def transferred(node: Node, name: str) -> Node:
    """A copy on the device of that name; at once for what the host knows, unless a capture has to
    see where it comes from. Raises NoValuesError for what has none."""
    if name == META.type:
        return without_values(node)
    if has_no_values(node):
        raise NoValuesError("Cannot copy out of meta tensor; no data!")
    if node.data is None or node.needs_grad or not name or hook.watcher is not None:
        return ops.transfer(node, name)
    from lazyt.plan.device_plans import moved

    return ops.input_(node.shape, node.dtype, moved(node, name))


def without_values(node: Node) -> Node:
    """A value on the meta device of the shape and dtype of another, which it does not remember."""
    blank = ops.constant(0, node.dtype)
    if node.shape:
        blank = ops.expand(ops.reshape(blank, (1,) * len(node.shape)), node.shape)
    return ops.put(blank, META.type)


def has_no_values(node: Node) -> bool:
    """Whether a value is on the meta device."""
    return node.form < PLACED and place_of(node.form) == META.type


def settled(node: Node, parents: Iterable[Any], name: str | None = None) -> Node:
    """A result on the device of what it was made from.

    Raises DeviceError, in PyTorch's words, for operands on several. What is on the CPU goes with
    all as a number, that is a tensor of no dimensions, and as an index in brackets.
    """
    if node.op is ops.TRANSFER:
        return node
    place = place_of(node.form)
    others: list[Tensor] = []
    for parent in parents:
        storage = getattr(parent, "_storage", None)
        if storage is None:
            continue
        found = place_of(storage.node.form)
        if found and place and found != place:
            raise DeviceError(mixed(place, found))
        if found:
            place = found
        else:
            others.append(parent)
    if place and name not in _INDEXING and any(parent.ndim for parent in others):
        raise DeviceError(mixed(place, ""))
    if place == META.type and not node.needs_grad:
        return without_values(node)
    return ops.put(node, place) if place else node


def placed_as(old: Node, value: Node) -> Node:
    """What is written over ``old``, on the same device."""
    place = place_of(old.form)
    found = place_of(value.form)
    if found == place:
        return value
    if place == META.type:
        return old
    return ops.transfer(value, place) if found else ops.put(value, place)
