"""The transformer (Vaswani et al. 2017): attention layers, encoder, decoder, both together."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from lazyt.errors import LazytError, ShapeError, warn
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn import init
from lazyt.nn.activation import GELU, Dropout, ReLU
from lazyt.nn.attention import MultiheadAttention
from lazyt.nn.containers import ModuleList
from lazyt.nn.linear import Linear
from lazyt.nn.module import Module
from lazyt.nn.normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(given, str):
        return given
    known: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
    if given not in known:
        raise LazytError(f"activation should be relu/gelu, not {given}")
    return known[given]


def _addend(mask: Tensor | None, name: str, dtype: Any) -> Tensor | None:
    """A mask as what is added to scores. Raises AssertionError for whole numbers."""
    if mask is None or mask.dtype.kind == "f":
        return mask
    if mask.dtype is not lazyt.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    found: Tensor = lazyt.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)
    return found


def _warn_of_types(padding: Tensor | None, mask: Tensor | None, name: str) -> None:
    if padding is not None and mask is not None and padding.dtype is not mask.dtype:
        warn(
            f"Support for mismatched src_key_padding_mask and {name} is deprecated. Use same type "
            "for both instead."
        )


class _Layer(Module):
    """What encoder and decoder layers share: attention to oneself and the feedforward part.

    Attributes:
        self_attn, linear1, dropout, linear2: PyTorch's names, and so in state dicts.
    """

    def _build(
        self, parts: int, size: int, heads: int, inner: int, dropout: float,
        activation: Activation, eps: float, batch_first: bool, norm_first: bool, bias: bool,
        device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        """The children, in PyTorch's order; ``parts`` is 2 in an encoder and 3 in a decoder."""
        made = {"device": device, "dtype": dtype}
        settings = {"dropout": dropout, "bias": bias, "batch_first": batch_first} | made
        self.self_attn = MultiheadAttention(size, heads, **settings)
        if parts == 3:
            self.multihead_attn = MultiheadAttention(size, heads, **settings)
        self.linear1 = Linear(size, inner, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(inner, size, bias=bias, **made)
        self.norm_first = norm_first
        for number in range(1, parts + 1):
            setattr(self, f"norm{number}", LayerNorm(size, eps=eps, bias=bias, **made))
        for number in range(1, parts + 1):
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention of ``x`` to itself, to be added to what ``x`` was made of."""
        x = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
            is_causal=is_causal,
        )[0]  # fmt: skip
        return self.dropout1(x)  # type: ignore[no-any-return]


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, then a feedforward network; each added to its input.

    Args:
        dim_feedforward: width of the feedforward network.
        activation: "relu", "gelu" or a callable.
        norm_first: normalise what goes into the parts instead of the sums.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._build(
            2, d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip
        self.activation_relu_or_gelu = _known_activation(self.activation)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):  # files of old
            self.activation = F.relu

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """[L, N, d_model] ([N, L, d_model] with ``batch_first``) to the same shape.

        Args:
            src_mask: [L, L] or [N * nhead, L, L], true or -inf where attention is forbidden.
            src_key_padding_mask: [N, L], true or -inf for elements that nobody attends to.
            is_causal: a hint that ``src_mask`` is causal.

        Raises AssertionError and ShapeError for shapes that do not fit.
        """
        _warn_of_types(src_key_padding_mask, src_mask, "src_mask")
        padding = _addend(src_key_padding_mask, "src_key_padding_mask", src.dtype)
        masks = _addend(src_mask, "src_mask", src.dtype), padding
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *masks, is_causal=is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, *masks, is_causal=is_causal))
        return self.norm2(x + self._ff_block(x))  # type: ignore[no-any-return]

    def _ff_block(self, x: Tensor) -> Tensor:
        """The feedforward network, to be added to what ``x`` was made of."""
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout2(x)  # type: ignore[no-any-return]


def _known_activation(activation: Any) -> int:
    """1 for relu, 2 for gelu, 0 for others."""
    if activation is F.relu or isinstance(activation, ReLU):
        return 1
    return 2 if activation is F.gelu or isinstance(activation, GELU) else 0


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself, then to ``memory``, then a feedforward network.

    Arguments are those of TransformerEncoderLayer.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._build(
            3, d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        # As PyTorch has it: a copy, and so every layer of a TransformerDecoder, works with relu
        # where the activation was given as a module.
        super().__setstate__({"activation": F.relu} | state)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """[L, N, d_model] and ``memory`` [S, N, d_model] to [L, N, d_model].

        With ``batch_first`` N comes first. Masks are those of TransformerEncoderLayer, over L and
        L for ``tgt``, over L and S for ``memory``. Raises AssertionError and ShapeError.
        """
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            x = x + self._mha_block(
                self.norm2(x), memory, memory_mask, memory_key_padding_mask, memory_is_causal
            )
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        attended = self._mha_block(
            x, memory, memory_mask, memory_key_padding_mask, memory_is_causal
        )
        x = self.norm2(x + attended)
        return self.norm3(x + self._ff_block(x))  # type: ignore[no-any-return]

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention of ``x`` to the memory, to be added to what ``x`` was made of."""
        x = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
            is_causal=is_causal, need_weights=False,
        )[0]  # fmt: skip
        return self.dropout2(x)  # type: ignore[no-any-return]

    def _ff_block(self, x: Tensor) -> Tensor:
        """The feedforward network, to be added to what ``x`` was made of."""
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout3(x)  # type: ignore[no-any-return]


def _copies(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class TransformerEncoder(Module):
    """Copies of one encoder layer above each other, then perhaps a normalisation.

    ``enable_nested_tensor`` and ``mask_check`` are PyTorch's: they choose how, not what it
    computes.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = False

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """``src`` through all layers; arguments are those of TransformerEncoderLayer."""
        _warn_of_types(src_key_padding_mask, mask, "mask")
        padding = _addend(src_key_padding_mask, "src_key_padding_mask", src.dtype)
        mask = _addend(mask, "mask", src.dtype)
        for layer in self.layers:
            src = layer(
                src, src_mask=mask, is_causal=is_causal is True, src_key_padding_mask=padding
            )
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of one decoder layer above each other, then perhaps a normalisation."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """``tgt`` through all layers; arguments are those of TransformerDecoderLayer."""
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal is True, memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder. Weights of more than one dimension start by ``xavier_uniform_``.

    Args:
        custom_encoder, custom_decoder: instead of those of the usual layers.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made = {"device": device, "dtype": dtype}
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        ways = {"batch_first": batch_first, "norm_first": norm_first, "bias": bias} | made
        if custom_encoder is None:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
            first = TransformerEncoderLayer(*settings, **ways)
            custom_encoder = TransformerEncoder(first, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)
            layer = TransformerDecoderLayer(*settings, **ways)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        """Draw all weights of more than one dimension anew."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """[S, N, d_model] and ``tgt`` [L, N, d_model] to [L, N, d_model].

        With ``batch_first`` N comes first; without a batch there is no N. Masks are those of the
        layers. Raises ShapeError for other sizes.
        """
        place = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[place] != tgt.shape[place]:
            raise ShapeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(  # type: ignore[no-any-return]
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """[sz, sz] with -inf above the diagonal and zeros elsewhere: no looking ahead."""
        full = lazyt.full((sz, sz), -math.inf, dtype=dtype, device=device)
        return lazyt.triu(full, 1)
