"""Gradients as products of thin matrices, which are sent instead
(``torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook``).

A gradient ``M`` [n, m] becomes ``P Q^T`` with ``P`` [n, r] and ``Q`` [m, r]: ``P = M Q`` is summed
over ranks and made orthogonal, then ``Q = M^T P`` is averaged. What is lost is added to the next
gradient. Source: Vogels, Karimireddy, Jaggi, "PowerSGD", 2019.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyt import linalg
from lazyt.distributed.collectives import all_reduce
from lazyt.distributed.comm_hooks import GradBucket, allreduce_hook
from lazyt.distributed.process_groups import default_group
from lazyt.distributed.works import Work
from lazyt.errors import ArgumentError
from lazyt.functional import namespace as lazyt
from lazyt.functional.random.generators import Generator
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.tensor import Tensor

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """What ``powerSGD_hook`` remembers.

    Args:
        process_group: the ranks, all by default.
        matrix_approximation_rank: the columns of the thin matrices.
        start_powerSGD_iter: from which step on gradients are compressed.
        min_compression_rate: gradients that would not become smaller by this are averaged whole.
        use_error_feedback: whether what is lost is added to the next gradient.
        warm_start: whether ``Q`` begins with that of the last step.
        orthogonalization_epsilon: is added to norms that columns are divided by.
        random_seed: of the first ``Q``, the same on all ranks.
        compression_stats_logging_frequency, batch_tensors_with_same_shape: accepted: gradients of a
            bucket travel together.

    Raises ArgumentError (a ValueError) for a start in the first step with feedback or a warm start.
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ArgumentError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[tuple[int, int], Tensor] = {}
        self._random = Generator().manual_seed(random_seed)

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Counts a step at its last bucket."""
        self.iter += bucket.is_last()

    def compression_stats(self) -> tuple[float, int, int]:
        """How much smaller what was sent is, and the elements before and after."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def _first(self, key: tuple[int, int], shape: tuple[int, int], like: Tensor) -> Tensor:
        """Where ``Q`` of a gradient begins."""
        found = self.q_memory_dict.get(key) if self.warm_start else None
        if found is None or tuple(found.shape) != shape:
            drawn = lazyt.randn(*shape, generator=self._random, dtype=lazyt.float32)
            found = drawn.to(like.device, like.dtype)
        return self._orthogonal(found)

    def _orthogonal(self, matrix: Tensor) -> Tensor:
        """Columns of length 1 that are orthogonal to each other."""
        epsilon = self.orthogonalization_epsilon
        if not epsilon and matrix.dtype.itemsize > 2:
            return linalg.qr(matrix).Q
        columns: list[Tensor] = []
        for number in range(matrix.shape[1]):
            column = matrix[:, number]
            for other in columns:
                column = column - (other * column).sum() * other
            columns.append(column / (column.norm() + epsilon))
        return lazyt.stack(columns, 1)


def _summed(state: PowerSGDState, parts: Sequence[Tensor], divides: bool) -> list[Tensor]:
    """Sums or averages over ranks of some tensors, in one message."""
    if not parts:
        return []
    group = default_group() if state.process_group is None else state.process_group
    row = lazyt.cat([part.reshape(-1) for part in parts])
    state.total_numel_after_compression += row.numel()
    all_reduce(row, group=group)
    row = row / group.size() if divides else row
    pieces = row.split([part.numel() for part in parts])
    return [piece.view(part.shape) for piece, part in zip(pieces, parts)]


def _approximated(
    state: PowerSGDState, bucket: int, matrices: Sequence[Tensor], rank: int
) -> list[Tensor]:
    """The averages over ranks of matrices, as far as thin ones hold them."""
    ranks = [min(*matrix.shape, rank) for matrix in matrices]
    starts = [
        state._first((bucket, number), (matrix.shape[1], r), matrix)
        for number, (matrix, r) in enumerate(zip(matrices, ranks))
    ]
    left = _summed(state, [m @ q for m, q in zip(matrices, starts)], False)
    left = [state._orthogonal(p) for p in left]
    right = _summed(state, [m.T @ p for m, p in zip(matrices, left)], True)
    for number, q in enumerate(right):
        state.q_memory_dict[bucket, number] = q
    return [p @ q.T for p, q in zip(left, right)]


def _begin(state: PowerSGDState, bucket: GradBucket) -> Tensor:
    """The gradients of a bucket with what was lost of the last ones."""
    row = bucket.buffer()
    state.total_numel_before_compression += row.numel()
    lost = state.error_dict.get(bucket.index())
    return row if lost is None or not state.use_error_feedback else row + lost


def _end(state: PowerSGDState, bucket: GradBucket, given: Tensor, row: Tensor) -> Any:
    """A future of what takes the gradients' place."""
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = given - row
    state.maybe_increase_iter(bucket)
    return Work((), [row]).get_future().then(lambda future: future.value()[0])


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Any:
    """Averages the gradients of a bucket over ranks, matrices by thin ones: a future of the row.

    Gradients of one axis, and those that would not become smaller by ``min_compression_rate``, are
    averaged whole.
    """
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    rank, rate = state.matrix_approximation_rank, state.min_compression_rate
    with no_grad():
        given = _begin(state, bucket)
        shapes = [tuple(gradient.shape) for gradient in bucket.gradients()]
        pieces = given.split([math.prod(shape) for shape in shapes])
        found: list[Any] = [None] * len(pieces)
        thin: list[int] = []
        rest: list[int] = []
        for number, (piece, shape) in enumerate(zip(pieces, shapes)):
            n = shape[0] if shape else 1
            m = piece.numel() // n if n else 0
            is_thin = len(shape) > 1 and (n + m) * rank * rate < n * m
            (thin if is_thin else rest).append(number)
        for number, whole in zip(rest, _summed(state, [pieces[i] for i in rest], True)):
            found[number] = whole
        matrices = [pieces[i].view(shapes[i][0], -1) for i in thin]
        for number, matrix in zip(thin, _approximated(state, bucket.index(), matrices, rank)):
            found[number] = matrix.reshape(-1)
        row = lazyt.cat(found)
        # Of what is averaged whole nothing is lost.
        kept = lazyt.cat([pieces[i] if i in thin else found[i] for i in range(len(found))])
        return _end(state, bucket, kept, row)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Any:
    """``powerSGD_hook`` of a whole bucket as one square matrix: fewer products, and a coarser
    result."""
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    with no_grad():
        given = _begin(state, bucket)
        size = given.numel()
        side = math.isqrt(max(size - 1, 0)) + 1
        filled = lazyt.cat([given, given.new_zeros(side * side - size)]).view(side, side)
        (matrix,) = _approximated(state, bucket.index(), [filled], state.matrix_approximation_rank)
        return _end(state, bucket, given, matrix.reshape(-1)[:size])
