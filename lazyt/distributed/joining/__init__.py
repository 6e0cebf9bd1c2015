"""Ranks with different numbers of batches: who has no more goes on with the collectives of the
others until they are done, too (``torch.distributed.algorithms.join``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lazyt.distributed.collectives import all_reduce
from lazyt.distributed.process_groups import get_rank
from lazyt.distributed.works import ReduceOp
from lazyt.errors import LazytError, warn
from lazyt.functional import namespace as lazyt

__all__ = ["Join", "JoinConfig", "JoinHook", "Joinable", "common_rank"]

_EARLY = "Detected at least one rank that exhausted inputs. Throwing across all ranks."
#: After how many steps of others this rank is told that it waits for long.
_MANY = 1000


class JoinHook:
    """What a rank does for something that others still use.

    Attributes:
        active: how many ranks make the step.
    """

    active = 0

    def main_hook(self) -> None:
        """The collectives of one step of a rank that has batches."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """After all ranks are done.

        Args:
            is_last_joiner: whether this rank was among the last ones.
        """


@dataclass
class JoinConfig:
    """What a joinable knows of the block that it is used in.

    Attributes:
        enable: whether ranks may have different numbers of batches.
        throw_on_early_termination: whether all ranks raise where one has no more.
        is_first_joinable: whether this one tells others of each step.
    """

    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False

    @staticmethod
    def construct_disabled_join_config() -> JoinConfig:
        """That of what is used in no block."""
        return JoinConfig()


class Joinable(ABC):
    """What can be used in a ``Join`` block. It calls ``Join.notify_join_context(self)`` before the
    collectives of each step."""

    def __init__(self) -> None:
        super().__init__()
        self._join_config = JoinConfig()

    @classmethod
    def __subclasshook__(cls, kind: type) -> Any:
        """Classes that have all that is needed are joinable, such as ``DistributedDataParallel``,
        which this module does not import."""
        if cls is not Joinable:
            return NotImplemented
        needed = ("join_hook", "join_device", "join_process_group")
        return all(hasattr(kind, name) for name in needed) or NotImplemented

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What to do when this rank has no more batches.

        Args:
            kwargs: those of ``Join``.
        """

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of what is sent."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The ranks."""


class Join:
    """A block in which ranks may have different numbers of batches.

    Args:
        joinables: what makes collectives in each step, such as ``DistributedDataParallel`` and
            ``ZeroRedundancyOptimizer``; all of the same ranks.
        enable: False for a block that does nothing.
        throw_on_early_termination: whether all ranks raise a RuntimeError when one is done.
        kwargs: for the ``join_hook`` of each.

    Raises ValueError without joinables, and for those of several groups.

    >>> import lazyt
    >>> import lazyt.distributed as dist
    >>> from lazyt.distributed.joining import Join
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = lazyt.nn.parallel.DistributedDataParallel(lazyt.nn.Linear(1, 1))
    >>> with Join([model]):
    ...     for x in lazyt.ones(3, 2, 1):
    ...         model(x).sum().backward()
    >>> model.module.weight.grad
    tensor([[6.]])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        joinables: Sequence[Any],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        groups = {item.join_process_group for item in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables, self._group = list(joinables), groups.pop()
        self._hooks = [item.join_hook(**kwargs) for item in joinables]
        self._enable, self._throws = enable, throw_on_early_termination

    def __enter__(self) -> None:
        for number, item in enumerate(self._joinables):
            item._join_config = JoinConfig(self._enable, self._throws, not number)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if self._enable and kind is None:
                self._shadow()
        finally:
            for item in self._joinables:
                item._join_config = JoinConfig()

    def _shadow(self) -> None:
        """Takes part in the steps of the other ranks, until there are no more."""
        last, steps = True, 0
        while active := self._active():
            if self._throws:
                all_reduce(lazyt.ones(1), group=self._group)
                raise LazytError(_EARLY)
            last, steps = False, steps + 1
            if steps == _MANY:
                warn(
                    f"Detected uneven input skew of greater than {_MANY}. This means that rank "
                    f"{get_rank()} has at least {_MANY} fewer inputs than other currently-active "
                    "ranks. This level of skew could lead to performance degradation during "
                    "training."
                )
            for hook in self._hooks:
                hook.active = active
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    def _active(self) -> int:
        """How many ranks make another step."""
        count = lazyt.zeros(1)
        all_reduce(count, group=self._group)
        return int(count.item())

    @staticmethod
    def notify_join_context(joinable: Any) -> Any:
        """Tells the ranks that are done of another step. Returns how many ranks make it, a tensor
        of one number, for the first joinable of a block, and None for others. Raises LazytError (a
        RuntimeError) where one is done and the block says so."""
        config = getattr(joinable, "_join_config", None)
        if config is None:
            raise AssertionError(
                f"Check that the {type(joinable)} constructor calls the Joinable constructor"
            )
        if not (config.enable and config.is_first_joinable):
            return None
        group = joinable.join_process_group
        count = lazyt.ones(1)
        all_reduce(count, group=group)
        if config.throw_on_early_termination:
            done = lazyt.zeros(1)
            all_reduce(done, group=group)
            if done.item():
                raise LazytError(_EARLY)
        return count


def common_rank(group: Any, is_chosen: bool) -> int:
    """The last of the ranks of a group that are chosen, which all get to know."""
    number = lazyt.full((1,), group.rank() if is_chosen else -1, dtype=lazyt.int32)
    all_reduce(number, ReduceOp.MAX, group)
    return int(number.item())
