"""Attention with several heads (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from typing import Any

import lazyt
from lazyt.errors import LazytError, ShapeError
from lazyt.nn import functional as F
from lazyt.nn import init
from lazyt.nn.linear import Linear
from lazyt.nn.module import Module
from lazyt.nn.parameter import blank_parameter
from lazyt.tensor import Tensor


class MultiheadAttention(Module):
    """Attention in ``num_heads`` parts of the embedding, each with its own projection.

    ``in_proj_weight`` [3 * embed_dim, embed_dim] makes queries, keys and values; with ``kdim`` or
    ``vdim`` there are three weights instead. Names and initial values are PyTorch's.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ShapeError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim = embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.batch_first = batch_first
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.joint = self.kdim == self.vdim == embed_dim
        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim}
        widths["v_proj_weight"] = self.vdim
        for name, width in widths.items():
            weight = None if self.joint else blank_parameter(embed_dim, width, **made)
            self.register_parameter(name, weight)
        stacked = blank_parameter(3 * embed_dim, embed_dim, **made) if self.joint else None
        self.register_parameter("in_proj_weight", stacked)
        added = blank_parameter(3 * embed_dim, **made) if bias else None
        self.register_parameter("in_proj_bias", added)
        self.out_proj = Linear(embed_dim, embed_dim, bias, **made)
        for weight in self._parameters.values():
            if weight is not None and weight.ndim == 2:
                init.xavier_uniform_(weight)
        if bias:
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Queries [L, N, E], keys and values [S, N, E] to outputs [L, N, E] and weights [N, L, S].

        With ``batch_first`` N comes first; without a batch there is no N.

        Args:
            key_padding_mask: [N, S], true or -inf for keys that nobody attends to.
            need_weights: whether the weights are wanted; else None comes back for them.
            attn_mask: [L, S] or [N * num_heads, L, S], true or -inf where attention is forbidden.
            average_attn_weights: the mean of the heads' weights, else [N, num_heads, L, S].
            is_causal: a hint that ``attn_mask`` is causal; needs the mask.

        Raises LazytError for ``is_causal`` without a mask and ShapeError for shapes that do not
        fit.
        """
        if is_causal and attn_mask is None:
            raise LazytError("Need attn_mask if specifying the is_causal hint.")
        batched = query.ndim == 3
        if not batched:
            query, key, value = (t.unsqueeze(0) for t in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        q, k, v = (self._heads(t) for t in self._project(query, key, value))
        mask = self._mask(attn_mask, key_padding_mask, q, k.shape[-2])
        drop = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
            shares = F.softmax(scores if mask is None else scores + mask, -1)
            shares = F.dropout(shares, drop, self.training)
            out = shares @ v
            weights = shares.mean(1) if average_attn_weights else shares
        else:
            out = F.scaled_dot_product_attention(q, k, v, mask, drop)
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        if not batched:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return (out if self.batch_first else out.transpose(0, 1)), weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        bias = self.in_proj_bias
        if self.joint and query is key and key is value:
            projected: tuple[Tensor, ...] = F.linear(query, self.in_proj_weight, bias).chunk(3, -1)
            return projected
        if self.joint:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        inputs = (query, key, value)
        return tuple(F.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True))

    def _heads(self, x: Tensor) -> Tensor:
        """[N, L, E] to [N, num_heads, L, head_dim]."""
        heads: Tensor = x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
        return heads

    def _mask(
        self, attention: Tensor | None, padding: Tensor | None, q: Tensor, keys: int
    ) -> Tensor | None:
        """What to add to the scores [N, num_heads, L, S]."""
        total = None
        if attention is not None:
            total = _as_addend(attention, q.dtype)
            if total.ndim == 3:
                total = total.unflatten(0, (-1, self.num_heads))
        if padding is not None:
            hidden = _as_addend(padding, q.dtype).view(q.shape[0], 1, 1, keys)
            total = hidden if total is None else total + hidden
        return total


def _as_addend(mask: Tensor, dtype: lazyt.dtype) -> Tensor:
    addend: Tensor = mask.to(dtype)
    if mask.dtype is lazyt.bool:
        addend = lazyt.zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)
    return addend
