"""``loss_parallel``: cross-entropy of scores whose classes ranks divide."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lazyt.distributed.tensor import dtensor

__all__ = ["loss_parallel"]


@contextmanager
def loss_parallel() -> Iterator[None]:
    """A block in which ``cross_entropy`` takes scores that are divided along the classes, targets
    that are plain tensors, and gives the loss on all ranks.

    Scores are not gathered: what moves are their largest values, sums and those of the targets.

    Raises ValueError where the scores are not divided along the classes.

    Source: PyTorch's function of this name.
    """
    with dtensor.whole_losses():
        yield
