"""Softmax over very many classes in clusters (Grave et al. 2017)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import lazyt
from lazyt.errors import LazytError, ShapeError
from lazyt.nn import functional as F
from lazyt.nn.containers import ModuleList, Sequential
from lazyt.nn.linear import Linear
from lazyt.nn.module import Module
from lazyt.tensor import Tensor


class CutoffError(LazytError, ValueError):
    """Cutoffs that do not divide the classes."""


class AdaptiveOutput(NamedTuple):
    """What ``AdaptiveLogSoftmaxWithLoss`` gives: log-probabilities [N] of the targets, the loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Frequent classes in a head, rare ones in clusters that the head names first.

    Only the rows whose target lies in a cluster go through it, so targets are looked at.

    Raises CutoffError (a ValueError) unless ``cutoffs`` ascend within the classes.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        ends = list(cutoffs)
        if not ends:
            raise CutoffError("cutoffs should be a sequence of length larger than 0")
        wrong = ends != sorted(set(ends)) or any(int(c) != c for c in ends)
        if wrong or ends[0] <= 0 or ends[-1] > n_classes - 1:
            raise CutoffError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs, self.div_value, self.head_bias = [*ends, n_classes], div_value, head_bias
        self.shortlist_size, self.n_clusters = ends[0], len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, head_bias, **made)
        self.tail = ModuleList()
        for number, (low, high) in enumerate(itertools.pairwise(self.cutoffs), 1):
            width = int(in_features // div_value**number)
            narrow = Linear(in_features, width, False, **made)
            self.tail.append(Sequential(narrow, Linear(width, high - low, False, **made)))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> AdaptiveOutput:
        """[N, in_features] and classes [N], or one of each, to log-probabilities and the loss.

        Raises ShapeError for operands that do not fit, LazytError for a class out of range.
        """
        self._check(input_, target_)
        single = target_.ndim == 0
        input, target = (t.unsqueeze(0) if single else t for t in (input_, target_))
        head = F.log_softmax(self.head(input), 1)
        named = lazyt.where(target < self.shortlist_size, target, lazyt.zeros_like(target))
        output = input.new_zeros(target.shape[0])
        for number, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            inside = (target >= low) & (target < high)
            named = lazyt.where(inside, self.shortlist_size + number, named)
            rows = inside.nonzero().squeeze(1)
            if rows.numel():
                logs = F.log_softmax(self.tail[number](input.index_select(0, rows)), 1)
                own = (target.index_select(0, rows) - low).unsqueeze(1)
                output = output.index_copy(0, rows, logs.gather(1, own).squeeze(1))
        output = output + head.gather(1, named.unsqueeze(1)).squeeze(1)
        return AdaptiveOutput(output.squeeze(0) if single else output, -output.mean())

    def _check(self, input: Tensor, target: Tensor) -> None:
        if target.ndim > 1:
            raise ShapeError("0D or 1D target tensor expected, multi-target not supported")
        if target.ndim == 1 and input.shape[0] != target.shape[0]:
            raise ShapeError("Input and target should have the same size in the batch dimension.")
        wanted = target.ndim + 1
        if input.ndim != wanted:
            raise ShapeError(
                f"{target.ndim}D target tensor expects {wanted}D input tensors, but found inputs "
                f"with size {input.shape}"
            )
        if target.numel():
            low, high = int(target.min()), int(target.max())
            if low < 0 or high >= self.n_classes:
                raise LazytError(
                    f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                    f"[{low}, {high}] were found. "
                )

    def log_prob(self, input: Tensor) -> Tensor:
        """[N, in_features] to the log-probabilities of all classes [N, n_classes]."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for number, cluster in enumerate(self.tail):
            column = head[:, self.shortlist_size + number].unsqueeze(1)
            parts.append(F.log_softmax(cluster(input), 1) + column)
        result: Tensor = lazyt.cat(parts, 1)
        return result

    def predict(self, input: Tensor) -> Tensor:
        """[N, in_features] to the head's best class, or where that is a cluster, the best of all.

        As PyTorch's, it looks at no cluster where the head's best is a class of its own.
        """
        best = self.head(input).argmax(1)
        found: Tensor = lazyt.where(
            best < self.shortlist_size, best, self.log_prob(input).argmax(1)
        )
        return found
