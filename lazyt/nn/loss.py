"""Loss functions as modules. ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from lazyt.errors import warn
from lazyt.functional.loss_reduction import chosen_reduction
from lazyt.nn import functional as F
from lazyt.nn.distance import PairwiseDistance
from lazyt.nn.module import Module
from lazyt.tensor import Tensor


class _Reduced(Module):
    """A function with a ``reduction``; ``settings`` names the attributes it takes besides."""

    function: ClassVar[Callable[..., Tensor]]
    settings: ClassVar[tuple[str, ...]] = ()
    reduction: str

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = chosen_reduction(reduction, size_average, reduce)
        self.reduction = reduction

    def _loss(self, *operands: Tensor) -> Tensor:
        settings = {name: getattr(self, name) for name in self.settings}
        return type(self).function(*operands, reduction=self.reduction, **settings)


class _Loss(_Reduced):
    """A function of an input and a target."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` with respect to ``target``."""
        return self._loss(input, target)


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

    function = F.mse_loss


class L1Loss(_Loss):
    """Absolute differences."""

    function = F.l1_loss


class SmoothL1Loss(_Loss):
    """Squared below ``beta``, absolute above (Girshick 2015)."""

    function, settings = F.smooth_l1_loss, ("beta",)

    def __init__(
        self,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta


class HuberLoss(_Loss):
    """Squared below ``delta``, linear above (Huber 1964)."""

    function, settings = F.huber_loss, ("delta",)

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of ``target`` from ``exp(input)``."""

    function, settings = F.kl_div, ("log_target",)

    def __init__(
        self,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities."""

    function, settings = F.binary_cross_entropy, ("weight",)


class BCEWithLogitsLoss(_WeightedLoss):
    """Binary cross entropy of what goes into a sigmoid."""

    function, settings = F.binary_cross_entropy_with_logits, ("weight", "pos_weight")

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


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the right class: [N, classes, *] and classes [N, *]."""

    function, settings = F.nll_loss, ("weight", "ignore_index")

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

    function, settings = F.cross_entropy, ("weight", "ignore_index", "label_smoothing")

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


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))``."""

    function = F.soft_margin_loss


class MultiLabelMarginLoss(_Loss):
    """Hinges between the scores of several right classes and of all others."""

    function = F.multilabel_margin_loss


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Mean binary cross entropy over the classes."""

    function, settings = F.multilabel_soft_margin_loss, ("weight",)


class MultiMarginLoss(_WeightedLoss):
    """Hinges between the score of the right class and of all others."""

    function, settings = F.multi_margin_loss, ("p", "margin", "weight")

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


class HingeEmbeddingLoss(_Loss):
    """The distance of similar pairs, and what others lack of ``margin``."""

    function, settings = F.hinge_embedding_loss, ("margin",)

    def __init__(
        self,
        margin: float = 1.0,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class _PairLoss(_Reduced):
    settings = ("margin",)

    def __init__(
        self,
        margin: float = 0.0,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """The loss of two inputs; ``target`` is 1 or -1."""
        return self._loss(input1, input2, target)


class MarginRankingLoss(_PairLoss):
    """Which of two scores ranks higher."""

    function = F.margin_ranking_loss


class CosineEmbeddingLoss(_PairLoss):
    """The angle of similar pairs and what others lack of ``margin``."""

    function = F.cosine_embedding_loss


class TripletMarginLoss(_Reduced):
    """What the negative's distance lacks of the positive's plus ``margin``."""

    function, settings = F.triplet_margin_loss, ("margin", "p", "eps", "swap")

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
        return self._loss(anchor, positive, negative)


class TripletMarginWithDistanceLoss(_Reduced):
    """``TripletMarginLoss`` by any distance of two tensors."""

    function = F.triplet_margin_with_distance_loss
    settings = ("distance_function", "margin", "swap")

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
        return self._loss(anchor, positive, negative)


class PoissonNLLLoss(_Reduced):
    """Negative log-likelihood of Poisson counts."""

    function, settings = F.poisson_nll_loss, ("log_input", "full", "eps")

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
        return self._loss(log_input, target)


class GaussianNLLLoss(_Reduced):
    """Negative log-likelihood of normal values with predicted variances."""

    function, settings = F.gaussian_nll_loss, ("full", "eps")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        """The loss of means and variances with respect to values."""
        return self._loss(input, target, var)


class CTCLoss(_Reduced):
    """The loss of all alignments of inputs with shorter targets (Graves et al. 2006)."""

    function, settings = F.ctc_loss, ("blank", "zero_infinity")

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """Log-probabilities [T, N, C] and targets [N, S], with the length of each sample's."""
        return self._loss(log_probs, targets, input_lengths, target_lengths)
