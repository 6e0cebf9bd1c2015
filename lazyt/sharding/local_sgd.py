"""Ranks that average parameters every few steps (``torch.distributed.algorithms.model_averaging``).

Gradients are averaged among neighbours only, or not at all, once training has warmed up; what this
saves in communication it costs in how far the ranks drift apart in between (Lin et al., "Don't Use
Large Mini-Batches, Use Local SGD", 2020).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from lazyt.distributed.collectives import all_reduce
from lazyt.distributed.comm_hooks import GradBucket, allreduce_hook, noop_hook
from lazyt.distributed.process_groups import default_group, new_subgroups
from lazyt.errors import warn
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.optim.optimizer import Optimizer

__all__ = [
    "ModelAverager", "PeriodicModelAverager", "PostLocalSGDOptimizer", "PostLocalSGDState",
    "average_parameters", "post_localSGD_hook",
]  # fmt: skip


def average_parameters(params: Iterable[Any], process_group: Any = None) -> None:
    """Replaces parameters by their averages over ranks.

    Args:
        params: parameters, or an optimizer's groups, of which those without a gradient are left.
        process_group: over which ranks; all by default.
    """
    chosen: list[Tensor] = []
    for entry in params:
        if isinstance(entry, dict):
            chosen += [p for p in entry["params"] if p.grad is not None]
        else:
            chosen.append(entry)
    if not chosen:
        return
    group = default_group() if process_group is None else process_group
    with lazyt.no_grad():
        row = lazyt.cat([p.detach().reshape(-1) for p in chosen]) / group.size()
        all_reduce(row, group=group)
        start = 0
        for parameter in chosen:
            end = start + parameter.numel()
            parameter.copy_(row[start:end].view(parameter.shape))
            start = end


class ModelAverager(ABC):
    """What averages parameters over ranks.

    Attributes:
        process_group: over which ranks.
        step: how often it was called.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = default_group() if process_group is None else process_group
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Averages parameters, where it is time to."""


class PeriodicModelAverager(ModelAverager):
    """Averages parameters every few steps.

    Args:
        period: how many steps.
        warmup_steps: how many steps come before the first average.
        process_group: over which ranks; all by default.

    Raises ValueError for a period below 1 and a negative number of steps.

    >>> import lazyt
    >>> import lazyt.distributed as dist
    >>> from lazyt.sharding.local_sgd import PeriodicModelAverager
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> averager = PeriodicModelAverager(period=4, warmup_steps=100)
    >>> averager.average_parameters([lazyt.nn.Parameter(lazyt.ones(2))])
    >>> averager.step
    1
    >>> dist.destroy_process_group()

    Source: PyTorch's class of this name.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warn(
                "averaging parameters after every step costs as much as averaging gradients, which "
                "DistributedDataParallel does"
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Averages parameters, or an optimizer's groups, where it is time to."""
        after = self.step - self.warmup_steps
        if after >= 0 and after % self.period == 0:
            average_parameters(params, self.process_group)
        self.step += 1


class PostLocalSGDState:
    """What ``post_localSGD_hook`` knows.

    Args:
        process_group: over which ranks gradients are averaged at first; all by default.
        subgroup: over which ranks later; by default a group of the ranks of each machine.
        start_localSGD_iter: after how many steps.
        post_local_gradient_allreduce: whether they are averaged at all later.
    """

    def __init__(
        self, process_group: Any, subgroup: Any, start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:  # fmt: skip
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Any:
    """Averages a bucket of gradients over all ranks at first, later over neighbours or not at all:
    a future of the row (a hook for ``DistributedDataParallel.register_comm_hook``)."""
    if state.iter < state.start_localSGD_iter:
        state.iter += bucket.is_last()
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        return noop_hook(state, bucket)
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return allreduce_hook(state.subgroup, bucket)


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer after whose steps parameters are averaged.

    Args:
        optim: the optimizer of this rank.
        averager: what averages parameters, after as many steps as the gradients' hook waits.

    Source: PyTorch's class of this name.
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager

    def __getattr__(self, name: str) -> Any:
        # The optimizer's, which it replaces where state is loaded.
        if name in ("state", "param_groups", "defaults"):
            return getattr(self.optim, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, with the number of steps of the averager under ``step``."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what ``state_dict`` gave; without ``step``, the averager begins at 0."""
        self.optim.load_state_dict(state_dict)
        if "step" not in state_dict:
            warn("the state has no number of steps: parameters are averaged as from the beginning")
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Any = None) -> Any:
        """One step of the optimizer, then that of the averager."""
        loss = self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """That of the optimizer."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """That of the optimizer."""
        self.optim.add_param_group(param_group)
