"""Training whose result does not depend on the number of ranks, to the bit.

A batch is cut into a fixed number of shares, each of which is computed by itself: its loss, its
gradient, its random numbers. Ranks divide the shares among them; what they found is added up along
one tree over all shares (``lazyt/ops/parallel/sums.py``). One rank, two or eight: the same tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.autograd import grad
from lazyt.distributed.collectives import joined, parted, zeros_at
from lazyt.distributed.divided import division_of
from lazyt.distributed.process_groups import group_of, is_initialized, ranks_of
from lazyt.errors import ArgumentError, ShapeError
from lazyt.functional.random.generators import default_generator
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node
from lazyt.ops.parallel import sums
from lazyt.ops.parallel.collectives import Ranks
from lazyt.random import fork_rng

__all__ = ["Shares"]

#: Gradients are added up in messages of this size.
_BUCKET = 25 << 20


class Share(NamedTuple):
    """A share that is computed now.

    Attributes:
        number, among: which of how many.
        is_last: whether it is this rank's last one.
        counts: whether its gradient does. A rank with fewer shares than others computes one twice,
            as all take part in gathering divided parameters.
        ranks: who divides the shares.
    """

    number: int
    among: int
    is_last: bool
    counts: bool
    ranks: Ranks


#: The share whose gradient is computed, innermost last.
_running: list[Share] = []


def running_share() -> Share | None:
    """The share whose gradient is computed now, if one is."""
    return _running[-1] if _running else None


@contextmanager
def _computing(share: Share) -> Iterator[None]:
    _running.append(share)
    try:
        yield
    finally:
        _running.pop()


class Shares:
    """A fixed number of shares of each batch, divided among the ranks of a group.

    Without ``init_process_group`` this process has all of them, with the same result.

    Args:
        count: how many; at least as many as ranks. It is part of the result, the number of ranks
            is not.
        group: all ranks by default.

    Attributes:
        count: how many there are.
        mine: the numbers of this rank's.

    Raises ArgumentError for fewer shares than ranks.

    >>> import lazyt
    >>> from lazyt.distributed import Shares
    >>> shares = Shares(4)
    >>> w = lazyt.nn.Parameter(lazyt.ones(3))
    >>> x = lazyt.arange(24.0).reshape(8, 3)
    >>> loss = shares.backward(lambda part: (part @ w).mean(), x[shares.rows(8)], parameters=[w])
    >>> loss.item(), w.grad.tolist()
    (34.5, [10.5, 11.5, 12.5])
    """

    def __init__(self, count: int, group: Any = None) -> None:
        found = group_of(group) if group is not None or is_initialized() else None
        self._ranks = Ranks("", 0, 1) if found is None else ranks_of(found)
        if count < self._ranks.size:
            raise ArgumentError(f"{count} shares cannot be divided among {self._ranks.size} ranks")
        self.count = count
        counts = sums.divide(count, self._ranks.size)
        first = sum(counts[: self._ranks.rank])
        self.mine = range(first, first + counts[self._ranks.rank])

    def rows(self, size: int) -> slice:
        """This rank's rows of a batch of ``size`` rows, which all ranks know.

        Raises ShapeError where the shares do not divide it.
        """
        if size % self.count:
            raise ShapeError(f"{self.count} shares do not divide a batch of {size} rows")
        each = size // self.count
        return slice(self.mine.start * each, self.mine.stop * each)

    def backward(
        self,
        function: Callable[..., Tensor],
        *tensors: Tensor,
        parameters: Iterable[Tensor],
    ) -> Tensor:
        """Adds the gradient of the mean loss of all shares to ``grad`` of the parameters, on all
        ranks; returns the mean loss.

        Args:
            function: gives a loss, a single number, for the rows of one share of each tensor.
                Random numbers inside are drawn for each share by itself.
            tensors: this rank's rows (``rows``), of its shares, one below the other.
            parameters: what to differentiate by, in the same order on all ranks. Those that
                ``fully_shard`` divides get this rank's rows of the gradient.

        Raises ShapeError where the rows are not those of this rank's shares.
        """
        learned = [p for p in parameters if p.requires_grad]
        divided = [p for p in learned if division_of(p) is not None]
        leaves = [p for p in learned if division_of(p) is None]
        owners = list(dict.fromkeys(p.__dict__["division"].owner for p in divided))
        parts = [self._cut(tensor) for tensor in tensors]
        base = default_generator.clone_state()
        default_generator.skip()
        losses: list[Node] = []
        slopes: list[list[Node]] = []
        rounds = [(number, True) for number in range(len(self.mine))]
        if owners and len(rounds) < -(-self.count // self._ranks.size):
            rounds.insert(0, (0, False))
        for number, counts in rounds:
            position, is_last = self.mine[number], number + 1 == len(self.mine) and counts
            share = Share(position, self.count, is_last, counts, self._ranks)
            with fork_rng(), _computing(share):
                default_generator.go_to_part(base, position)
                loss = function(*[part[number] for part in parts])
                # Gradients of divided parameters go to those who divide them.
                found = grad(loss, [*leaves, *divided], allow_unused=True)[: len(leaves)]
                for owner in owners:
                    owner.end_share(share)
            if not counts:
                continue
            losses.append(ops.detach(unwrap(loss)))
            slopes.append([
                zeros_at(unwrap(p)) if g is None else ops.detach(unwrap(g))
                for p, g in zip(leaves, found)
            ])  # fmt: skip
        with no_grad():
            for bucket in self._buckets(leaves):
                rows = [joined([every[i] for i in bucket]) for every in slopes]
                whole = sums.reduce_shares(rows, self._ranks, self.count, "avg")
                shapes = [tuple(leaves[i].shape) for i in bucket]
                self._add([leaves[i] for i in bucket], map(wrap, parted(whole, shapes)))
            for owner in owners:
                for leaf, value in owner.take_shares():
                    self._add([leaf], [value])
            return wrap(sums.reduce_shares(losses, self._ranks, self.count, "avg"))

    def _cut(self, tensor: Tensor) -> Sequence[Tensor]:
        count = len(self.mine)
        if not tensor.dim() or tensor.shape[0] % count:
            raise ShapeError(
                f"a tensor of {list(tensor.shape)} does not have the rows of {count} shares"
            )
        each = tensor.shape[0] // count
        return [tensor[i * each : (i + 1) * each] for i in range(count)]

    def _buckets(self, leaves: Sequence[Tensor]) -> list[list[int]]:
        """Numbers of parameters of one dtype each, the last ones first, as gradients come."""
        found: list[list[int]] = []
        room: dict[Any, int] = {}
        last: dict[Any, list[int]] = {}
        for i in reversed(range(len(leaves))):
            leaf = leaves[i]
            size = leaf.numel() * leaf.element_size()
            if room.get(leaf.dtype, 0) < size:
                last[leaf.dtype] = []
                room[leaf.dtype] = _BUCKET
                found.append(last[leaf.dtype])
            last[leaf.dtype].append(i)
            room[leaf.dtype] -= size
        return found

    def _add(self, leaves: Sequence[Tensor], values: Iterable[Tensor]) -> None:
        for leaf, value in zip(leaves, values):
            if leaf.grad is None:
                leaf.grad = value
            else:
                leaf.grad += value
