"""Embeddings: learned rows, looked up by number."""

from __future__ import annotations

from typing import Any

import lazyt
from lazyt.errors import LazytError, ShapeError
from lazyt.nn import functional as F
from lazyt.nn import init
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter, blank_parameter
from lazyt.tensor import Tensor


class Embedding(Module):
    """``weight[input]`` for a learned weight [num_embeddings, embedding_dim].

    The weight starts as normal numbers; the row ``padding_idx`` is zero and gets no gradient.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if scale_grad_by_freq or sparse or max_norm is not None:
            raise LazytError(
                "Embedding does not support max_norm, scale_grad_by_freq=True and sparse=True"
            )
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ShapeError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        if _weight is None:
            size = (num_embeddings, embedding_dim)
            self.weight = blank_parameter(*size, dtype=dtype, device=device)
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draw the weight anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with lazyt.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        """Numbers [*] to [*, embedding_dim]. Raises BoundsError (an IndexError)."""
        return F.embedding(input, self.weight, self.padding_idx)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None
    ) -> Embedding:
        """An Embedding of a weight [num_embeddings, embedding_dim]. Raises ShapeError."""
        if embeddings.ndim != 2:
            raise ShapeError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, _weight=embeddings, _freeze=freeze)

    def extra_repr(self) -> str:
        """The sizes."""
        end = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{end}"
