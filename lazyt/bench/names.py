"""PyTorch's functions over arrays in NumPy's manner: for NumPy, for JAX, and as the reference.

Written out apart from lazyt and from PyTorch, so that float64 arrays give values to check both by.
A function that a framework does not offer raises ``NotOffered``.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np


class NotOffered(Exception):
    """A framework has no such function; its name is the message."""


def _pair(value: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,) * count


class _Arrays:
    """The functions by PyTorch's names and with its arguments. Products count their operations."""

    #: What the array module calls by the same name.
    SAME = ("exp", "log", "sqrt", "tanh", "abs", "sin", "cos", "where", "maximum", "minimum")
    ALSO = ("round", "floor", "square", "sign", "log1p", "expm1")

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self.flops = 0.0

    def __getattr__(self, name: str) -> Any:
        if name in self.SAME or name in self.ALSO:
            return getattr(self.xp, name)
        raise NotOffered(name)

    # elementwise

    def relu(self, x: Any) -> Any:
        return self.xp.maximum(x, 0)

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + self.xp.exp(-x))

    def silu(self, x: Any) -> Any:
        return x * self.sigmoid(x)

    def softplus(self, x: Any) -> Any:
        return self.xp.maximum(x, 0) + self.xp.log1p(self.xp.exp(-self.xp.abs(x)))

    def mish(self, x: Any) -> Any:
        return x * self.xp.tanh(self.softplus(x))

    def elu(self, x: Any) -> Any:
        return self.xp.where(x > 0, x, self.xp.expm1(self.xp.minimum(x, 0)))

    def leaky_relu(self, x: Any, slope: float = 0.01) -> Any:
        return self.xp.where(x > 0, x, x * slope)

    def hardtanh(self, x: Any, low: float = -1.0, high: float = 1.0) -> Any:
        return self.xp.clip(x, low, high)

    def hardswish(self, x: Any) -> Any:
        return x * self.xp.clip(x + 3, 0, 6) / 6

    def clamp(self, x: Any, low: float | None = None, high: float | None = None) -> Any:
        return self.xp.clip(x, low, high)

    def rsqrt(self, x: Any) -> Any:
        return 1 / self.xp.sqrt(x)

    def erf(self, x: Any) -> Any:
        raise NotOffered("erf")

    def gelu(self, x: Any, approximate: str = "none") -> Any:
        if approximate == "none":
            return x * (1 + self.erf(x * math.sqrt(0.5))) * 0.5
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + self.xp.tanh(inner))

    def cast(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype)

    # shapes

    def transpose(self, x: Any, first: int, second: int) -> Any:
        return self.xp.swapaxes(x, first, second)

    def permute(self, x: Any, dims: tuple[int, ...]) -> Any:
        return self.xp.transpose(x, dims)

    def cat(self, tensors: list[Any], dim: int = 0) -> Any:
        return self.xp.concatenate(tensors, dim)

    def stack(self, tensors: list[Any], dim: int = 0) -> Any:
        return self.xp.stack(tensors, dim)

    def tril(self, x: Any) -> Any:
        return self.xp.tril(x)

    def causal_mask(self, length: int) -> Any:
        return self.xp.tril(self.xp.ones((length, length), bool))

    # reductions and scans

    def sum(self, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return x.sum(dim, keepdims=keepdim)

    def mean(self, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return x.mean(dim, keepdims=keepdim)

    def amax(self, x: Any, dim: Any, keepdim: bool = False) -> Any:
        return x.max(dim, keepdims=keepdim)

    def amin(self, x: Any, dim: Any, keepdim: bool = False) -> Any:
        return x.min(dim, keepdims=keepdim)

    def argmax(self, x: Any, dim: int) -> Any:
        return x.argmax(dim)

    def var(self, x: Any, dim: Any, correction: int = 1, keepdim: bool = False) -> Any:
        return x.var(dim, ddof=correction, keepdims=keepdim)

    def logsumexp(self, x: Any, dim: int, keepdim: bool = False) -> Any:
        top = x.max(dim, keepdims=True)
        found = self.xp.log(self.xp.exp(x - top).sum(dim, keepdims=True)) + top
        return found if keepdim else self.xp.squeeze(found, dim)

    def cumsum(self, x: Any, dim: int) -> Any:
        return self.xp.cumsum(x, dim)

    def cumprod(self, x: Any, dim: int) -> Any:
        return self.xp.cumprod(x, dim)

    def sort(self, x: Any) -> Any:
        return self.xp.sort(x)

    # products

    def matmul(self, a: Any, b: Any) -> Any:
        found = self.xp.matmul(a, b)
        self.flops += 2.0 * math.prod(found.shape) * a.shape[-1]
        return found

    def bmm(self, a: Any, b: Any) -> Any:
        return self.matmul(a, b)

    def linear(self, x: Any, weight: Any, bias: Any = None) -> Any:
        found = self.matmul(x, self.xp.swapaxes(weight, 0, 1))
        return found if bias is None else found + bias

    def int_matmul(self, a: Any, b: Any) -> Any:
        return self.matmul(a.astype("int32"), b.astype("int32"))

    def scaled_dot_product_attention(
        self, q: Any, k: Any, v: Any, attn_mask: Any = None, is_causal: bool = False
    ) -> Any:
        scores = self.matmul(q, self.xp.swapaxes(k, -1, -2)) / math.sqrt(q.shape[-1])
        if attn_mask is not None:
            scores = scores + attn_mask
        if is_causal:
            scores = self.xp.where(self.causal_mask(q.shape[-2]), scores, -self.xp.inf)
        return self.matmul(self.softmax(scores, -1), v)

    # normalization

    def softmax(self, x: Any, dim: int) -> Any:
        powers = self.xp.exp(x - x.max(dim, keepdims=True))
        return powers / powers.sum(dim, keepdims=True)

    def log_softmax(self, x: Any, dim: int) -> Any:
        return x - self.logsumexp(x, dim, keepdim=True)

    def _standard(self, x: Any, dims: Any, eps: float) -> Any:
        centred = x - x.mean(dims, keepdims=True)
        return centred / self.xp.sqrt((centred * centred).mean(dims, keepdims=True) + eps)

    def layer_norm(self, x: Any, shape: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
        dims = tuple(range(x.ndim - len(shape), x.ndim))
        return self._standard(x, dims, eps) * weight + bias

    def rms_norm(self, x: Any, shape: Any, weight: Any, eps: float = 1e-5) -> Any:
        dims = tuple(range(x.ndim - len(shape), x.ndim))
        return x / self.xp.sqrt((x * x).mean(dims, keepdims=True) + eps) * weight

    def _along_channels(self, x: Any, vector: Any) -> Any:
        return vector.reshape(-1, *[1] * (x.ndim - 2))

    def group_norm(
        self, x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> Any:
        parts = x.reshape(x.shape[0], groups, -1)
        found = self._standard(parts, -1, eps).reshape(x.shape)
        if weight is None:
            return found
        return found * self._along_channels(x, weight) + self._along_channels(x, bias)

    def instance_norm(self, x: Any) -> Any:
        return self._standard(x, tuple(range(2, x.ndim)), 1e-5)

    def batch_norm(self, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
        found = self._standard(x, (0, *range(2, x.ndim)), eps)
        return found * self._along_channels(x, weight) + self._along_channels(x, bias)

    # losses

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        logs = self.log_softmax(scores, -1)
        return -self.xp.take_along_axis(logs, labels[:, None], 1).mean()

    def mse_loss(self, x: Any, y: Any) -> Any:
        return ((x - y) ** 2).mean()

    def smooth_l1_loss(self, x: Any, y: Any) -> Any:
        size = self.xp.abs(x - y)
        return self.xp.where(size < 1, 0.5 * size * size, size - 0.5).mean()

    def kl_div(self, logs: Any, target: Any) -> Any:
        return (target * (self.xp.log(target) - logs)).sum() / logs.shape[0]

    def triplet_margin_loss(self, anchor: Any, near: Any, far: Any) -> Any:
        def distance(x: Any, y: Any) -> Any:
            return self.xp.sqrt(((x - y + 1e-6) ** 2).sum(-1))

        return self.xp.maximum(distance(anchor, near) - distance(anchor, far) + 1, 0).mean()

    def embedding(self, labels: Any, table: Any) -> Any:
        return table[labels]


class _Convolving(_Arrays):
    """With convolutions, which a framework has as one function."""

    def conv(
        self, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        """A convolution over as many axes as there are behind the channels."""
        raise NotImplementedError

    def _conv(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        return self.conv(x, weight, bias, stride, padding, dilation, groups)

    conv1d = conv2d = conv3d = _conv


class _Reference(_Convolving):
    """NumPy with what NumPy lacks, written for exactness alone."""

    def __init__(self) -> None:
        super().__init__(np)

    def erf(self, x: Any) -> Any:
        try:
            found = importlib.import_module("scipy.special").erf(x)
        except ImportError:
            found = np.vectorize(math.erf, otypes=[float])(x)
        return found

    def _windows(
        self, x: Any, kernel: tuple[int, ...], stride: Any, padding: Any, fill: float, dilation: Any
    ) -> Any:
        """[batch, channels, *places, *kernel]"""
        count = len(kernel)
        stride, padding, dilation = (_pair(v, count) for v in (stride, padding, dilation))
        width = [(0, 0), (0, 0), *[(p, p) for p in padding]]
        x = np.pad(x, width, constant_values=fill) if any(padding) else x
        spans = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation))
        views = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(2, 2 + count)))
        places = [slice(None, None, s) for s in stride]
        inside = [slice(None, None, d) for d in dilation]
        return views[(slice(None), slice(None), *places, *inside)]

    def conv(
        self, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        count = x.ndim - 2
        kernel = weight.shape[2:]
        views = self._windows(x, kernel, stride, padding, 0.0, dilation)
        outs = []
        inner = [1, *range(2 + count, 2 + 2 * count)]
        for part, filters in zip(np.split(views, groups, 1), np.split(weight, groups, 0)):
            found = np.tensordot(part, filters, (inner, list(range(1, 2 + count))))
            outs.append(np.moveaxis(found, -1, 1))
        found = np.concatenate(outs, 1)
        self.flops += 2.0 * found.size * math.prod(weight.shape[1:])
        return found if bias is None else found + self._along_channels(x, bias)

    def conv_transpose2d(self, x: Any, weight: Any, bias: Any = None, stride: int = 1) -> Any:
        batch, channels, height, width = x.shape
        rows, columns = height * stride - stride + 1, width * stride - stride + 1
        spread = np.zeros((batch, channels, rows, columns), x.dtype)
        spread[:, :, ::stride, ::stride] = x
        flipped = weight[:, :, ::-1, ::-1].swapaxes(0, 1)
        before = self.flops
        found = self.conv(spread, flipped, bias, 1, weight.shape[-1] - 1, 1, 1)
        self.flops = before + 2.0 * x.size * math.prod(weight.shape[1:])
        return found

    def max_pool1d(self, x: Any, kernel: int, stride: int, padding: int = 0) -> Any:
        return self._windows(x, (kernel,), stride, padding, -np.inf, 1).max(-1)

    def max_pool2d(self, x: Any, kernel: int, stride: int, padding: int = 0) -> Any:
        return self._windows(x, (kernel,) * 2, stride, padding, -np.inf, 1).max((-1, -2))

    def avg_pool2d(self, x: Any, kernel: int, stride: int) -> Any:
        return self._windows(x, (kernel,) * 2, stride, 0, 0.0, 1).mean((-1, -2))

    def avg_pool1d(self, x: Any, kernel: int, stride: int) -> Any:
        return self._windows(x, (kernel,), stride, 0, 0.0, 1).mean(-1)


def numpy_names() -> Any:
    """What NumPy offers."""
    return _Arrays(np)


def reference_names() -> Any:
    """What the float64 reference is computed with; its ``flops`` counts those of products."""
    return _Reference()


# PyTorch's functions in PyTorch, and in whatever else has its API.


class _Torch:
    """A module's functions and those of its ``nn.functional``, with a few turned to plainer
    arguments. Nothing is looked up twice, as a user would have written the function itself."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        functional = torch.nn.functional
        #: Written by ``torch.`` where it has the function, else by ``torch.nn.functional``.
        self._homes = (torch, functional)
        self.softmax, self.layer_norm = torch.softmax, functional.layer_norm
        self.gelu, self.max_pool1d = functional.gelu, functional.max_pool1d
        self.max_pool2d = functional.max_pool2d
        self.cast = lambda x, dtype: x.to(getattr(torch, dtype))
        self.sort = lambda x: torch.sort(x).values
        self.group_norm = functional.group_norm
        self.instance_norm = functional.instance_norm
        self.rms_norm = functional.rms_norm
        self.embedding = functional.embedding
        self.triplet_margin_loss = functional.triplet_margin_loss
        self.kl_div = lambda logs, target: functional.kl_div(logs, target, reduction="batchmean")
        self.causal_mask = lambda length: torch.ones(length, length, dtype=torch.bool).tril()
        if hasattr(torch, "_int_mm"):
            self.int_matmul = torch._int_mm
        else:
            self.int_matmul = lambda a, b: a.to(torch.int32) @ b.to(torch.int32)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        for home in self._homes:
            if hasattr(home, name):
                setattr(self, name, getattr(home, name))
                return getattr(home, name)
        raise AttributeError(name)

    def batch_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        functional = self._torch.nn.functional
        return functional.batch_norm(x, None, None, weight, bias, training=True)


def torch_names(torch: Any) -> Any:
    """What a module with PyTorch's API offers."""
    return _Torch(torch)


# PyTorch's functions over JAX arrays, each by what JAX itself offers for it.


class _Jax(_Convolving):
    """JAX's own functions where it has them."""

    def __init__(self, jax: Any) -> None:
        super().__init__(jax.numpy)
        self.jax, self.nn, self.lax = jax, jax.nn, jax.lax
        for name in ("relu", "sigmoid", "silu", "softplus", "mish", "elu", "leaky_relu"):
            setattr(self, name, getattr(jax.nn, name))
        for name in ("softmax", "log_softmax"):
            setattr(self, name, getattr(jax.nn, name))
        for name in ("rsqrt", "erf"):
            setattr(self, name, getattr(jax.lax, name))

    def gelu(self, x: Any, approximate: str = "none") -> Any:
        return self.nn.gelu(x, approximate=approximate == "tanh")

    def logsumexp(self, x: Any, dim: int, keepdim: bool = False) -> Any:
        return self.nn.logsumexp(x, dim, keepdims=keepdim)

    def int_matmul(self, a: Any, b: Any) -> Any:
        return self.lax.dot(a, b, preferred_element_type=self.xp.int32)

    def conv(
        self, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        count = x.ndim - 2
        found = self.lax.conv_general_dilated(
            x,
            weight,
            _pair(stride, count),
            [(p, p) for p in _pair(padding, count)],
            rhs_dilation=_pair(dilation, count),
            feature_group_count=groups,
        )
        return found if bias is None else found + self._along_channels(x, bias)

    def conv_transpose2d(self, x: Any, weight: Any, bias: Any = None, stride: int = 1) -> Any:
        size = weight.shape[-1] - 1
        flipped = self.xp.flip(weight, (2, 3)).swapaxes(0, 1)
        found = self.lax.conv_general_dilated(
            x, flipped, (1, 1), [(size, size)] * 2, lhs_dilation=(stride, stride)
        )
        return found if bias is None else found + self._along_channels(x, bias)

    def _reduce(self, x: Any, kernel: int, stride: int, padding: int, add: bool) -> Any:
        count = x.ndim - 2
        start, combine = (0.0, self.lax.add) if add else (-self.xp.inf, self.lax.max)
        width = [(0, 0), (0, 0), *[(padding, padding)] * count]
        extents = (1, 1, *[kernel] * count)
        return self.lax.reduce_window(x, start, combine, extents, (1, 1, *[stride] * count), width)

    def _max_pool(self, x: Any, kernel: int, stride: int, padding: int = 0) -> Any:
        return self._reduce(x, kernel, stride, padding, add=False)

    def _avg_pool(self, x: Any, kernel: int, stride: int) -> Any:
        return self._reduce(x, kernel, stride, 0, add=True) / kernel ** (x.ndim - 2)

    max_pool1d = max_pool2d = _max_pool
    avg_pool1d = avg_pool2d = _avg_pool


def jax_names(jax: Any) -> Any:
    """What JAX offers."""
    return _Jax(jax)


# PyTorch's functions over tinygrad's tensors, each by what tinygrad itself offers for it.


#: Methods of a tensor that take PyTorch's arguments in PyTorch's order.
_SAME = (
    "relu sigmoid silu tanh exp log sqrt rsqrt abs sin cos where maximum minimum round floor square"
    " sign softplus mish elu leaky_relu hardtanh hardswish clamp erf transpose permute cat stack"
    " tril sum mean argmax var logsumexp cumsum cumprod matmul linear softmax log_softmax"
)


class _Tinygrad:
    """tinygrad's methods as functions."""

    def __init__(self, tinygrad: Any) -> None:
        tensor = tinygrad.Tensor
        self._tinygrad = tinygrad
        for name in _SAME.split():
            if hasattr(tensor, name):
                setattr(self, name, getattr(tensor, name))
        self.where = lambda condition, x, y: condition.where(x, y)
        self.cat = lambda tensors, dim=0: tensors[0].cat(*tensors[1:], dim=dim)
        self.stack = lambda tensors, dim=0: tensors[0].stack(*tensors[1:], dim=dim)
        self.amax = lambda x, dim, keepdim=False: x.max(dim, keepdim)
        self.amin = lambda x, dim, keepdim=False: x.min(dim, keepdim)
        self.bmm = tensor.matmul
        self.linear = lambda x, w, b=None: x.linear(w.T, b)
        self.permute = lambda x, dims: x.permute(*dims)
        self.sort = lambda x: x.sort()[0]
        self.embedding = lambda labels, table: table[labels]
        self.cross_entropy = lambda scores, labels: scores.cross_entropy(labels)
        self.causal_mask = lambda length: tensor.ones(length, length).tril().cast("bool")
        self.cast = lambda x, dtype: x.cast(dtype)
        self.mse_loss = lambda x, y: ((x - y) ** 2).mean()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotOffered(name)

    def gelu(self, x: Any, approximate: str = "none") -> Any:
        if approximate == "tanh":
            return x.gelu()
        return 0.5 * x * (1 + (x * 0.5**0.5).erf())

    def scaled_dot_product_attention(
        self, q: Any, k: Any, v: Any, attn_mask: Any = None, is_causal: bool = False
    ) -> Any:
        return q.scaled_dot_product_attention(k, v, attn_mask=attn_mask, is_causal=is_causal)

    def _standard(self, x: Any, dims: Any, eps: float) -> Any:
        centred = x - x.mean(dims, keepdim=True)
        return centred * ((centred * centred).mean(dims, keepdim=True) + eps).rsqrt()

    def layer_norm(self, x: Any, shape: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
        return x.layernorm(tuple(range(x.ndim - len(shape), x.ndim)), eps) * weight + bias

    def rms_norm(self, x: Any, shape: Any, weight: Any, eps: float = 1e-5) -> Any:
        dims = tuple(range(x.ndim - len(shape), x.ndim))
        return x * ((x * x).mean(dims, keepdim=True) + eps).rsqrt() * weight

    def group_norm(
        self, x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> Any:
        found = x.reshape(x.shape[0], groups, -1).layernorm(-1, eps).reshape(*x.shape)
        if weight is None:
            return found
        ones = [1] * (x.ndim - 2)
        return found * weight.reshape(-1, *ones) + bias.reshape(-1, *ones)

    def instance_norm(self, x: Any) -> Any:
        return self._standard(x, tuple(range(2, x.ndim)), 1e-5)

    def batch_norm(self, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
        ones = [1] * (x.ndim - 2)
        found = self._standard(x, (0, *range(2, x.ndim)), eps)
        return found * weight.reshape(-1, *ones) + bias.reshape(-1, *ones)

    def _conv(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        return x.conv2d(weight, bias, groups, stride, dilation, padding)

    conv1d = conv2d = conv3d = _conv

    def max_pool2d(self, x: Any, kernel: int, stride: int, padding: int = 0) -> Any:
        return x.max_pool2d((kernel, kernel), stride, 1, padding)

    def avg_pool2d(self, x: Any, kernel: int, stride: int) -> Any:
        return x.avg_pool2d((kernel, kernel), stride)


def tinygrad_names(tinygrad: Any) -> Any:
    """What tinygrad offers."""
    return _Tinygrad(tinygrad)
