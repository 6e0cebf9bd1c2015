"""Attention with several heads (Vaswani et al. 2017)."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn import init
from lazyt.nn.functional import AttentionError
from lazyt.nn.linear import NonDynamicallyQuantizableLinear
from lazyt.nn.module import Module
from lazyt.nn.parameter import blank_parameter


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
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AttentionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim = embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        joint = self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim}
        widths["v_proj_weight"] = self.vdim
        for name, width in widths.items():
            weight = None if joint else blank_parameter(embed_dim, width, **made)
            self.register_parameter(name, weight)
        stacked = blank_parameter(3 * embed_dim, embed_dim, **made) if joint else None
        self.register_parameter("in_proj_weight", stacked)
        added = blank_parameter(3 * embed_dim, **made) if bias else None
        self.register_parameter("in_proj_bias", added)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, **made)
        for name in ("bias_k", "bias_v"):
            extra = blank_parameter(1, 1, embed_dim, **made) if add_bias_kv else None
            self.register_parameter(name, extra)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draw the weights of the projections anew; biases are zero at first."""
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_qkv_same_embed_dim": True} | state)  # files of old have none

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

        Raises LazytError for ``is_causal`` without a mask, AttentionError (an AssertionError) and
        ShapeError for shapes that do not fit.
        """
        batched = query.ndim == 3
        if self.batch_first and batched:
            query, key, value = _sequence_first(query, key, value)
        separate = not self._qkv_same_embed_dim
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask,
            need_weights, attn_mask, separate, self.q_proj_weight, self.k_proj_weight,
            self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return (out.transpose(0, 1) if self.batch_first and batched else out), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one [N, num_heads, L, L], for queries [N, L, E], and which it was made of:
        2 with ``attn_mask``, 1 for the padding alone (as it is), None for no mask."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[:2]
        own = (batch, -1) if attn_mask.ndim == 3 else (1, 1)
        merged = attn_mask.view(*own, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            padding = key_padding_mask.view(batch, 1, 1, length)
            merged = merged + padding.expand(-1, self.num_heads, -1, -1)
        return merged, 2


class SDPBackend(enum.IntEnum):
    """PyTorch's ways to compute ``scaled_dot_product_attention``. Here they are all the same."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(
    backends: list[SDPBackend] | SDPBackend, set_priority: bool = False
) -> Iterator[dict[str, Any]]:
    """Where PyTorch would choose among its ways to compute attention; there is one here, and so
    nothing to choose. Raises AttentionError (an AssertionError) for what is no backend."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AttentionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    yield {}


def _sequence_first(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The sequence as the first dimension; what was one tensor stays one."""
    q = query.transpose(0, 1)
    k = q if key is query else key.transpose(0, 1)
    v = q if value is query else k if value is key else value.transpose(0, 1)
    return q, k, v


_explain_absence(__name__)
