"""``repr`` of tensors: their values, and what is not PyTorch's default about them."""

from __future__ import annotations

from lazyt.functional.printing import format_tensor
from lazyt.functional.promotion import get_default_dtype
from lazyt.ir.dtypes import bool_, int64
from lazyt.numpy_bridge import readable_values
from lazyt.tensor import Tensor


def tensor_text(self: Tensor) -> str:
    """``tensor([...])`` as PyTorch prints it; looks at the values."""
    values = readable_values(self, "it is printed")
    suffixes = []
    dtype, shape = self.dtype, tuple(self.shape)
    if not values.size:
        if len(shape) != 1:
            suffixes.append(f"size={shape}")
        if dtype is not get_default_dtype():
            suffixes.append(f"dtype={dtype}")
    elif dtype not in (get_default_dtype(), int64, bool_):
        suffixes.append(f"dtype={dtype}")
    fn = self.grad_fn
    if fn is not None:
        suffixes.append(f"grad_fn=<{fn.name()}>")
    elif self.requires_grad:
        suffixes.append("requires_grad=True")
    return format_tensor(values, suffixes)
