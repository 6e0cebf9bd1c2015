"""PyTorch's functions over tinygrad's tensors, each by what tinygrad itself offers for it."""

from __future__ import annotations

from typing import Any

from lazyt.bench.names_arrays import NotOffered

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
