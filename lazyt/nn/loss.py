"""Loss functions as modules. ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from lazyt.errors import LazytError, ShapeError, warn
from lazyt.functional import namespace as lazyt
from lazyt.functional.nn.loss_reduction import chosen_reduction
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn.containers import ModuleList, Sequential
from lazyt.nn.linear import Linear
from lazyt.nn.module import Module

# How near vectors are, as modules.


class CosineSimilarity(Module):
    """The cosine of the angle between two tensors along ``dim``."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Two tensors to their cosines, without dimension ``dim``."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the difference of two tensors along the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Two tensors [*, D] to distances [*]."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


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


# Softmax over very many classes in clusters (Grave et al. 2017).


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


# A linear layer and the cross entropy of its results, as one module.


class OptionError(LazytError, ValueError):
    """An option that PyTorch does not know."""


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How PyTorch cuts the product in pieces. Nothing is cut here: fusion keeps the logits from
    being stored more than once. Raises OptionError (a ValueError) for what PyTorch refuses."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: lazyt.dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise OptionError(f"invalid acc_policy: {self.acc_policy!r}")
        name, colon, factor = (self.chunking_method or "auto").partition(":")
        number = int(factor) if factor.isdigit() else 0
        if (name, colon) != ("auto", "") and (name != "aspect_ratio" or (colon and number < 1)):
            raise OptionError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise OptionError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype is not None and self.acc_dtype.kind != "f":
            raise OptionError(
                "acc_dtype must be one of {None, lazyt.float16, lazyt.bfloat16, lazyt.float32, "
                f"lazyt.float64}}, got {self.acc_dtype!r}. Pass acc_dtype=None to let the op pick "
                "automatically."
            )


class LinearCrossEntropyLoss(_WeightedLoss):
    """The cross entropy of a linear layer's results. Its weight is ``linear.weight``
    [num_classes * prod(out_features), in_features].

    Args:
        in_features: length of an input.
        num_classes: number of classes.
        out_features: further dimensions, with a loss each.
        bias: whether the layer has one.
        weight: [num_classes], a factor for each class.
        ignore_index: a target that does not count, -100 unless given.
        label_smoothing: the share of all classes in every target.
        options: changes nothing; see LinearCrossEntropyOptions.

    Raises LazytError for a ``weight`` of another size and smoothing outside of [0, 1].
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise LazytError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise LazytError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """[N, in_features] or [in_features] and targets [N, *out_features] (classes) or
        [N, num_classes, *out_features] (probabilities). Raises as ``linear_cross_entropy``."""
        linear, sizes = self.linear, (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input,
            linear.weight.reshape(*sizes, linear.in_features),
            target,
            linear_bias=None if linear.bias is None else linear.bias.reshape(sizes),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
