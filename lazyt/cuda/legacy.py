"""The tensor types of old programs on a GPU: ``torch.cuda.FloatTensor([1, 2])``."""

from __future__ import annotations

from typing import Any

from lazyt.compat import legacy
from lazyt.handle.tensor import Tensor

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip


class cudatype(legacy.tensortype):
    """The class of these types: each stands for the tensors of one dtype that are on a GPU."""

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return super().__call__(*args, device="cuda" if device is None else device)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.is_cuda and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return super().__repr__().replace(".", ".cuda.")


def _type(kind: legacy.tensortype) -> cudatype:
    made = cudatype(kind.__name__, (), {"__module__": "lazyt.cuda"})
    made.dtype = kind.dtype
    made.__doc__ = f"Tensors of {kind.dtype.name} on a GPU."
    return made


BoolTensor = _type(legacy.BoolTensor)
ByteTensor = _type(legacy.ByteTensor)
CharTensor = _type(legacy.CharTensor)
ShortTensor = _type(legacy.ShortTensor)
IntTensor = _type(legacy.IntTensor)
LongTensor = _type(legacy.LongTensor)
HalfTensor = _type(legacy.HalfTensor)
BFloat16Tensor = _type(legacy.BFloat16Tensor)
FloatTensor = _type(legacy.FloatTensor)
DoubleTensor = _type(legacy.DoubleTensor)
