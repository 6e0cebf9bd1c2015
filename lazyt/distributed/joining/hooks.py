"""``DistributedDataParallel`` and ``ZeroRedundancyOptimizer`` in a ``Join`` block."""

from __future__ import annotations

from typing import Any

from lazyt.distributed.collectives import all_reduce
from lazyt.distributed.gradients import equalize, used_somewhere
from lazyt.distributed.joining import Join, JoinHook, common_rank
from lazyt.distributed.works import ReduceOp
from lazyt.functional import namespace as lazyt

__all__ = ["GradientsJoinHook", "OptimizerJoinHook", "begin_step"]


def _agreed(module: Any, syncs: bool) -> bool:
    """Whether the backward of a step averages, on ranks with a batch."""
    flag = lazyt.full((1,), int(syncs), dtype=lazyt.int32)
    all_reduce(flag, ReduceOp.MAX, module.process_group)
    return bool(flag.item())


def begin_step(module: Any, syncs: bool) -> int:
    """A rank with a batch begins a forward. Returns the rank whose buffers count."""
    count = Join.notify_join_context(module)
    _agreed(module, syncs)
    if count is not None and not module.__dict__.get("_divides_by_all", True):
        module._buckets.factor = module.process_group.size() / float(count.item())
    has_buffers = module.broadcast_buffers and module.require_backward_grad_sync
    if has_buffers and any(True for _ in module.module.buffers()):
        return common_rank(module.process_group, True)
    return 0


class GradientsJoinHook(JoinHook):
    """The collectives of a module's step.

    Args:
        module: the ``DistributedDataParallel``.
        divides_by_all: whether gradients are divided by the number of all ranks.
    """

    def __init__(self, module: Any, divides_by_all: bool) -> None:
        self._module, self._divides_by_all = module, divides_by_all
        object.__setattr__(module, "_divides_by_all", divides_by_all)

    def main_hook(self) -> None:
        """Buffers and gradients of a step of other ranks."""
        module, group = self._module, self._module.process_group
        if not _agreed(module, False):
            return
        buffers = list(module.module.buffers())
        if buffers and module.broadcast_buffers:
            equalize(buffers, group, common_rank(group, False))
        unused: list[Any] = []
        elsewhere: frozenset[Any] = frozenset()
        if module.find_unused_parameters:
            unused = list(module._learned)
            elsewhere = frozenset(used_somewhere(module._learned, set(), group))
        if not self._divides_by_all:
            module._buckets.factor = group.size() / self.active
        module._buckets.begin(unused, elsewhere)
        module._buckets.start_empty()
        module._expected = False

    def post_hook(self, is_last_joiner: bool) -> None:
        """All ranks take the parameters and buffers of one that was among the last."""
        module = self._module
        module._buckets.factor = None
        root = common_rank(module.process_group, is_last_joiner)
        equalize(
            [*module.module.parameters(), *module.module.buffers()], module.process_group, root
        )


class OptimizerJoinHook(JoinHook):
    """The step of an optimizer whose state ranks divide."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        """This rank's part of the step."""
        self._optimizer.step()
