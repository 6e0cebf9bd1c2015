"""Loss functions as modules. ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.errors import warn
from lazyt.functional.loss_reduction import chosen_reduction
from lazyt.nn import functional as F
from lazyt.nn.distance import PairwiseDistance
from lazyt.nn.module import Module
from lazyt.tensor import Tensor


class _Loss(Module):
    """A function with a ``reduction``."""

    reduction: str

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = chosen_reduction(reduction, size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class MSELoss(_Loss):
    """Squared differences."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Absolute differences."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared below ``beta``, absolute above (Girshick 2015)."""

    def __init__(
        self,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squared below ``delta``, linear above (Huber 1964)."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of ``target`` from ``exp(input)``."""

    def __init__(
        self,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.binary_cross_entropy(input, target, reduction=self.reduction, weight=self.weight)


class BCEWithLogitsLoss(_WeightedLoss):
    """Binary cross entropy of what goes into a sigmoid."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.binary_cross_entropy_with_logits(
            input, target, reduction=self.reduction, weight=self.weight, pos_weight=self.pos_weight
        )


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the right class: [N, classes, *] and classes [N, *]."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.nll_loss(
            input,
            target,
            reduction=self.reduction,
            weight=self.weight,
            ignore_index=self.ignore_index,
        )


class NLLLoss2d(NLLLoss):
    """``NLLLoss`` by its old name for images."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement.",
            FutureWarning,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of what goes into a softmax: scores [N, classes, *], and classes [N, *] or
    probabilities of the scores' shape."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.cross_entropy(
            input,
            target,
            reduction=self.reduction,
            weight=self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))``."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Hinges between the scores of several right classes and of all others."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Mean binary cross entropy over the classes."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.multilabel_soft_margin_loss(
            input, target, reduction=self.reduction, weight=self.weight
        )


class MultiMarginLoss(_WeightedLoss):
    """Hinges between the score of the right class and of all others."""

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.ndim != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.ndim}D "
                "instead"
            )
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.multi_margin_loss(
            input,
            target,
            reduction=self.reduction,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
        )


class HingeEmbeddingLoss(_Loss):
    """The distance of similar pairs, and what others lack of ``margin``."""

    def __init__(
        self,
        margin: float = 1.0,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return F.hinge_embedding_loss(input, target, reduction=self.reduction, margin=self.margin)


class _PairLoss(_Loss):
    def __init__(
        self,
        margin: float = 0.0,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_PairLoss):
    """Which of two scores ranks higher."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """The loss of two inputs; ``target`` is 1 or -1."""
        return F.margin_ranking_loss(
            input1, input2, target, reduction=self.reduction, margin=self.margin
        )


class CosineEmbeddingLoss(_PairLoss):
    """The angle of similar pairs and what others lack of ``margin``."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """The loss of two inputs; ``target`` is 1 or -1."""
        return F.cosine_embedding_loss(
            input1, input2, target, reduction=self.reduction, margin=self.margin
        )


class TripletMarginLoss(_Loss):
    """What the negative's distance lacks of the positive's plus ``margin``."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Three tensors [*, D] to the loss."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            reduction=self.reduction,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """``TripletMarginLoss`` by any distance of two tensors."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got "
                f"{margin} instead"
            )
        self.distance_function = distance_function or PairwiseDistance()
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Three tensors that the distance takes to the loss."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            reduction=self.reduction,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
        )


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of Poisson counts."""

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: Any = None,
        eps: float = 1e-8,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """The loss of logarithms of rates (or rates) and counts."""
        return F.poisson_nll_loss(
            log_input,
            target,
            reduction=self.reduction,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
        )


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of normal values with predicted variances."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        """The loss of means and variances with respect to values."""
        return F.gaussian_nll_loss(
            input, target, var, reduction=self.reduction, full=self.full, eps=self.eps
        )


class CTCLoss(_Loss):
    """The loss of all alignments of inputs with shorter targets (Graves et al. 2006)."""

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """Log-probabilities [T, N, C] and targets [N, S], with the length of each sample's."""
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            reduction=self.reduction,
            blank=self.blank,
            zero_infinity=self.zero_infinity,
        )
