"""PyTorch's functions over JAX arrays, each by what JAX itself offers for it."""

from __future__ import annotations

from typing import Any

from lazyt.bench.names_arrays import _Arrays, _pair


class _Jax(_Arrays):
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

    conv1d = conv2d = conv3d = _conv

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
