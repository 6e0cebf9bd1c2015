"""The tensor types of old programs on a GPU: ``torch.cuda.FloatTensor([1, 2])``."""

from __future__ import annotations

from lazyt.compat import legacy

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip


def _type(kind: legacy.tensortype) -> legacy.cudatype:
    made = legacy.cudatype(kind.__name__, (), {"__module__": "lazyt.cuda"})
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
