"""Names for annotations, as in ``torch.types``."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.handle.device import device as _device
from lazyt.handle.interop.storage_objects import TypedStorage, UntypedStorage
from lazyt.handle.layout import layout as _layout
from lazyt.handle.tensor import Size, Tensor
from lazyt.ir.dtypes import DType as _dtype

_int, _float, _bool = builtins.int, builtins.float, builtins.bool
_str, _bytes, _complex = builtins.str, builtins.bytes, builtins.complex
_size: TypeAlias = Size | list[int] | tuple[int, ...]
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
Device: TypeAlias = _device | str | int | None
Storage: TypeAlias = UntypedStorage | TypedStorage
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool

__all__ = [
    "BoolLikeType", "Device", "FileLike", "FloatLikeType", "IntLikeType", "Number", "Storage",
    "_bool", "_bytes", "_complex", "_device", "_dtype", "_float", "_int", "_layout", "_size",
    "_str",
]  # fmt: skip

_explain_absence(__name__)
