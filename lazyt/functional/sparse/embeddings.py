"""Rows of a table whose gradient is a sparse tensor of the rows that were used."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.autograd.function import Function
from lazyt.errors import GradientError
from lazyt.functional.sparse.tensors import coo, picked
from lazyt.handle.dispatch import wrap
from lazyt.handle.tensor import Tensor


class Embedding(Function):
    """``weight[places]`` [*, width]; the gradient has a row for each place, in their order."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, places: Tensor, padding: int | None, by_frequency: bool
    ) -> Tensor:
        """The rows."""
        ctx.size, ctx.places = tuple(weight.shape), places
        ctx.padding, ctx.by_frequency = padding, by_frequency
        return wrap(ops.gather(weight.node, places.node, 0))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """A hybrid tensor of the table's size. Raises GradientError where rows are to be scaled by
        how often they occur."""
        if ctx.by_frequency:
            raise GradientError(
                "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
            )
        flat = ctx.places.reshape(-1)
        values = grads[0].reshape((flat.shape[0], ctx.size[1]))
        if ctx.padding is not None:
            used = (flat != ctx.padding).nonzero().reshape(-1)
            flat, values = picked(flat, used), picked(values, used)
        return coo(flat.unsqueeze(0), values, ctx.size, checked=True), None, None, None
