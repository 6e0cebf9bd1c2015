"""A scaler of losses for models that ranks divide
(``torch.distributed.fsdp.sharded_grad_scaler``)."""

from __future__ import annotations

from typing import Any

from lazyt.amp.scaling import GradScaler
from lazyt.distributed.collectives import all_reduce
from lazyt.distributed.process_groups import group_of, is_initialized
from lazyt.distributed.tensor.dtensor import DTensor
from lazyt.distributed.works import ReduceOp
from lazyt.functional import namespace as lazyt
from lazyt.handle.pytree import Identity

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """A ``GradScaler`` whose ranks leave out a step together: where one of them has a gradient that
    is not finite.

    Args:
        device, init_scale, backoff_factor, growth_factor, growth_interval, enabled: those of
            ``GradScaler``.
        process_group: the ranks, all by default.

    >>> import lazyt
    >>> from lazyt.sharding.fsdp.sharded_grad_scaler import ShardedGradScaler
    >>> w = lazyt.nn.Parameter(lazyt.ones(2))
    >>> optimizer = lazyt.optim.SGD([w], lr=1.0)
    >>> scaler = ShardedGradScaler("cpu", init_scale=8.0)
    >>> scaler.scale((w * float("inf")).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w.tolist(), scaler.get_scale()
    ([1.0, 1.0], 4.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
        self.process_group = process_group

    def unscale_(self, optimizer: Any) -> None:
        """Scales the gradients of an optimizer's parameters down; all ranks call it. Raises as
        ``GradScaler.unscale_``."""
        super().unscale_(optimizer)
        if not self._enabled or not is_initialized():
            return
        progress = self._progress[Identity(optimizer)]
        finite = progress.finite
        found = lazyt.ones(1) if finite is None else finite.reshape(1).to(lazyt.float32)
        found = found.full_tensor() if isinstance(found, DTensor) else found
        all_reduce(found, ReduceOp.MIN, group_of(self.process_group))
        if finite is not None:
            progress.finite = found[0] > 0
