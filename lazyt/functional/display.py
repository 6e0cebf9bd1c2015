"""``repr`` of tensors: their values, and what is not PyTorch's default about them."""

from __future__ import annotations

from lazyt.device import CPU
from lazyt.errors import GradientError
from lazyt.functional.printing import format_tensor, frame_text, hides_all
from lazyt.functional.promotion import get_default_dtype
from lazyt.ir.dtypes import bool_, int64
from lazyt.numpy_bridge import readable_values
from lazyt.tensor import Tensor


def tensor_text(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """``tensor([...])`` as PyTorch prints it; looks at the values.

    Args:
        tensor_contents: shown in the place of the values, which then are not looked at.
    """
    suffixes = []
    dtype, shape = self.dtype, tuple(self.shape)
    if self.device is not CPU:
        suffixes.append(f"device='{self.device}'")
    if tensor_contents is None and 0 in shape:
        if len(shape) != 1:
            suffixes.append(f"size={shape}")
        plain = dtype is get_default_dtype()
    else:
        if tensor_contents is None and hides_all():
            suffixes.append(f"size={shape}")
        plain = dtype in (get_default_dtype(), int64, bool_)
    if not plain:
        suffixes.append(f"dtype={dtype}")
    try:
        fn = self.grad_fn
        if fn is not None:
            suffixes.append(f"grad_fn=<{fn.name().rpartition('::')[2]}>")
        elif self.requires_grad:
            suffixes.append("requires_grad=True")
    except GradientError:  # one of several views, after a write to what it shows
        suffixes.append("grad_fn=<Invalid>")
    kind = type(self)
    # Users' subclasses print under their own names.
    ours = kind is Tensor or kind.__module__.partition(".")[0] == "lazyt"
    prefix = "tensor(" if ours else f"{kind.__name__}("
    if tensor_contents is not None:
        return frame_text(tensor_contents, suffixes, prefix)
    return format_tensor(readable_values(self, "it is printed"), suffixes, prefix)
