"""What operators of ``torch.ops.aten`` do whose arguments are not those of a public function.

Each is made of public functions. A reduction is a number: 0 none, 1 the mean, 2 the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lazyt.nn.functional as F
from lazyt.autograd import grad
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor

__all__ = [
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_conj", "_conj_physical", "_convolution",
    "_local_scalar_dense", "_log_softmax", "_native_batch_norm_legit_no_training",
    "_reshape_alias", "_softmax", "_stack", "_to_copy", "_unsafe_view", "alias",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "col2im", "convolution",
    "convolution_backward", "copy",
    "cross_entropy_loss", "embedding", "gelu_", "hardsigmoid_", "hardswish_", "huber_loss",
    "im2col", "index", "kl_div", "l1_loss", "lift", "lift_fresh", "lift_fresh_copy",
    "log_sigmoid_forward", "max_pool2d_with_indices", "max_pool3d_with_indices", "mish_",
    "mse_loss", "nll_loss", "nll_loss2d", "nll_loss_forward", "reflection_pad1d",
    "reflection_pad2d", "reflection_pad3d", "relu6_", "replication_pad1d", "replication_pad2d",
    "replication_pad3d", "silu_", "smooth_l1_loss", "soft_margin_loss", "sym_numel", "sym_size",
    "sym_storage_offset", "sym_stride", "threshold_backward", "upsample_bicubic2d",
    "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "upsample_trilinear3d", "zero",
]  # fmt: skip

_REDUCTIONS = ("none", "mean", "sum")


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """``softmax``, of half floats in float32 where that is said."""
    return F.softmax(self, dim, dtype=lazyt.float32 if half_to_float else None)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """``log_softmax``, of half floats in float32 where that is said."""
    return F.log_softmax(self, dim, dtype=lazyt.float32 if half_to_float else None)


def _to_copy(
    self: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool | None = None, non_blocking: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A copy of another dtype, or on another device."""
    return self.to(device=device, dtype=dtype, copy=True, memory_format=memory_format)


def _local_scalar_dense(self: Tensor) -> Any:
    """The only element as a number."""
    return self.item()


def _unsafe_view(self: Tensor, size: Sequence[int]) -> Tensor:
    """``view``."""
    return self.view(size)


def _reshape_alias(self: Tensor, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """A view of these sizes and strides."""
    return self.as_strided(size, stride)


def _stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """``stack``."""
    return lazyt.stack(tensors, dim)


def _conj(self: Tensor) -> Tensor:
    """``conj``."""
    return self.conj()


def _conj_physical(self: Tensor) -> Tensor:
    """``conj_physical``."""
    return lazyt.conj_physical(self)


def alias(self: Tensor) -> Tensor:
    """A view of the whole tensor."""
    return self.view_as(self)


def lift(self: Tensor) -> Tensor:
    """The tensor."""
    return self


lift_fresh = lift


def lift_fresh_copy(self: Tensor) -> Tensor:
    """A copy."""
    return self.clone()


def copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """The values of ``src``, of the shape and dtype of ``self``."""
    return self.clone().copy_(src)


def zero(self: Tensor) -> Tensor:
    """Zeros of the shape of ``self``."""
    return lazyt.zeros_like(self)


def sym_size(self: Tensor, dim: int | None = None) -> Any:
    """The sizes, or that of a dimension."""
    return self.size() if dim is None else self.size(dim)


def sym_stride(self: Tensor, dim: int | None = None) -> Any:
    """The strides, or that of a dimension."""
    return self.stride() if dim is None else self.stride(dim)


def sym_numel(self: Tensor) -> int:
    """The number of elements."""
    return self.numel()


def sym_storage_offset(self: Tensor) -> int:
    """Where the first element is in memory."""
    return int(self.storage_offset())


def index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """``self[indices]``, in which None takes all."""
    return self[tuple(slice(None) if part is None else part for part in indices)]


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of ``weight`` at ``indices``."""
    padding = None if padding_idx < 0 else padding_idx
    return F.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    """A convolution over one, two or three dimensions, or its transpose."""
    rank = weight.ndim - 2
    spread = [tuple(v) * (rank if len(v) == 1 else 1) for v in (stride, padding, dilation)]
    steps, pads, gaps = spread
    if transposed:
        more = tuple(output_padding) * (rank if len(output_padding) == 1 else 1)
        function: Any = getattr(F, f"conv_transpose{rank}d")
        found: Tensor = function(input, weight, bias, steps, pads, more, groups, gaps)
        return found
    function = getattr(F, f"conv{rank}d")
    found = function(input, weight, bias, steps, pads, gaps, groups)
    return found


def convolution_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None,
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int, output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of a convolution for its input, its weight and its bias; None where
    ``output_mask`` is False."""
    rank = weight.ndim - 2
    again = lazyt.is_grad_enabled()

    def leaf(tensor: Tensor) -> Tensor:
        keeps = again and tensor.requires_grad
        return tensor.clone() if keeps else tensor.detach().requires_grad_()

    inner, kernel = leaf(input), leaf(weight)
    settings = stride, padding, dilation, transposed, output_padding, groups
    with lazyt.enable_grad():
        result = convolution(inner, kernel, None, *settings)
    wanted = [t for t, flag in zip((inner, kernel), output_mask) if flag]
    found = iter(grad(result, wanted, grad_output, create_graph=again) if wanted else ())
    first, second = (next(found) if flag else None for flag in output_mask[:2])
    third = None
    if output_mask[2]:
        third = grad_output.sum([0, *range(2, rank + 2)])
    return first, second, third


def _convolution(*args: Any) -> Tensor:
    """``convolution``; settings of libraries follow its arguments."""
    return convolution(*args[:9])


def _native_batch_norm_legit_no_training(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor,
    running_var: Tensor, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Batch normalization by running statistics, and two empty tensors."""
    found = F.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    return found, input.new_empty(0), input.new_empty(0)


# ---------------------------------------------------------------------------- losses


def _loss(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    def loss(self: Tensor, target: Tensor, reduction: int = 1, **more: Any) -> Tensor:
        return function(self, target, reduction=_REDUCTIONS[reduction], **more)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = f"``nn.functional.{name}``, with a number as reduction."
    return loss


mse_loss = _loss(F.mse_loss, "mse_loss")
l1_loss = _loss(F.l1_loss, "l1_loss")
soft_margin_loss = _loss(F.soft_margin_loss, "soft_margin_loss")
kl_div = _loss(F.kl_div, "kl_div")


def smooth_l1_loss(self: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    """``nn.functional.smooth_l1_loss``."""
    return F.smooth_l1_loss(self, target, reduction=_REDUCTIONS[reduction], beta=beta)


def huber_loss(self: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    """``nn.functional.huber_loss``."""
    return F.huber_loss(self, target, reduction=_REDUCTIONS[reduction], delta=delta)


def binary_cross_entropy(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """``nn.functional.binary_cross_entropy``."""
    return F.binary_cross_entropy(self, target, weight, reduction=_REDUCTIONS[reduction])


def binary_cross_entropy_with_logits(
    self: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:  # fmt: skip
    """``nn.functional.binary_cross_entropy_with_logits``."""
    return F.binary_cross_entropy_with_logits(
        self, target, weight, reduction=_REDUCTIONS[reduction], pos_weight=pos_weight
    )


def nll_loss(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1,
    ignore_index: int = -100,
) -> Tensor:  # fmt: skip
    """``nn.functional.nll_loss``."""
    return F.nll_loss(
        self, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction]
    )


nll_loss2d = nll_loss


def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The loss, and the sum of the weights that the mean divides by."""
    found = nll_loss(self, target, weight, reduction, ignore_index)
    if not reduction:
        return found, self.new_zeros(())
    kept = target != ignore_index
    shares = kept.to(self.dtype)
    if weight is not None:
        shares = shares * weight[lazyt.where(kept, target, lazyt.zeros_like(target))]
    return found, shares.sum()


def cross_entropy_loss(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1,
    ignore_index: int = -100, label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """``nn.functional.cross_entropy``."""
    return F.cross_entropy(
        self, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction],
        label_smoothing=label_smoothing,
    )  # fmt: skip


# ------------------------------------------------------------------ layers and their parts


def _adaptive_avg_pool2d(self: Tensor, output_size: Sequence[int]) -> Tensor:
    """``nn.functional.adaptive_avg_pool2d``."""
    return F.adaptive_avg_pool2d(self, output_size)


def _adaptive_avg_pool3d(self: Tensor, output_size: Sequence[int]) -> Tensor:
    """``nn.functional.adaptive_avg_pool3d``."""
    return F.adaptive_avg_pool3d(self, output_size)


def _pool(rank: int) -> Callable[..., Any]:
    function: Any = getattr(F, f"max_pool{rank}d")

    def pool(
        self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:  # fmt: skip
        """The largest of each window, and where it is."""
        return function(
            self, kernel_size, stride or None, padding, dilation, ceil_mode, return_indices=True
        )

    pool.__name__ = pool.__qualname__ = f"max_pool{rank}d_with_indices"
    return pool


max_pool2d_with_indices, max_pool3d_with_indices = _pool(2), _pool(3)


def _padding(mode: str) -> Callable[[Tensor, Sequence[int]], Tensor]:
    def padded(self: Tensor, padding: Sequence[int]) -> Tensor:
        """The tensor with more at its borders."""
        return F.pad(self, list(padding), mode)

    return padded


reflection_pad1d = reflection_pad2d = reflection_pad3d = _padding("reflect")
replication_pad1d = replication_pad2d = replication_pad3d = _padding("replicate")


def _upsampling(mode: str, corners: bool) -> Callable[..., Tensor]:
    def upsampled(self: Tensor, output_size: Any = None, *more: Any) -> Tensor:
        """The tensor with more points, of sizes, or by factors, for each dimension."""
        aligned = {"align_corners": bool(more[0])} if corners and more else {}
        factors = [f for f in more[corners:] if f is not None]
        if output_size is not None:
            return F.interpolate(self, size=list(output_size), mode=mode, **aligned)
        scale = factors[0] if isinstance(factors[0], (list, tuple)) else factors
        return F.interpolate(self, scale_factor=list(scale), mode=mode, **aligned)

    return upsampled


upsample_nearest1d = upsample_nearest2d = upsample_nearest3d = _upsampling("nearest", False)
upsample_linear1d, upsample_trilinear3d = (
    _upsampling("linear", True),
    _upsampling("trilinear", True),
)
upsample_bilinear2d = _upsampling("bilinear", True)
upsample_bicubic2d = _upsampling("bicubic", True)


def im2col(self: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """``nn.functional.unfold``."""
    return F.unfold(self, kernel_size, dilation, padding, stride)


def col2im(
    self: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Tensor:
    """``nn.functional.fold``."""
    return F.fold(self, output_size, kernel_size, dilation, padding, stride)


def _inplace(name: str) -> Callable[[Tensor], Tensor]:
    function: Any = getattr(F, name)

    def written(self: Tensor) -> Tensor:
        found: Tensor = function(self, inplace=True)
        return found

    written.__name__ = written.__qualname__ = f"{name}_"
    written.__doc__ = f"``nn.functional.{name}``, written over its argument."
    return written


silu_, relu6_, mish_ = _inplace("silu"), _inplace("relu6"), _inplace("mish")
hardswish_, hardsigmoid_ = _inplace("hardswish"), _inplace("hardsigmoid")


def gelu_(self: Tensor, *, approximate: str = "none") -> Tensor:
    """``nn.functional.gelu``, written over its argument."""
    found: Tensor = self.copy_(F.gelu(self, approximate=approximate))
    return found


def log_sigmoid_forward(self: Tensor) -> tuple[Tensor, Tensor]:
    """``nn.functional.logsigmoid``, and an empty tensor."""
    return F.logsigmoid(self), self.new_empty(0)


def threshold_backward(grad_output: Tensor, self: Tensor, threshold: float) -> Tensor:
    """The gradient where ``self`` is above the threshold, else 0."""
    found: Tensor = lazyt.where(self > threshold, grad_output, lazyt.zeros_like(grad_output))
    return found
