"""What collectives give while they are under way, and reductions by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any

from lazyt.errors import DistributedError
from lazyt.handle import pending
from lazyt.ir.graph import Node
from lazyt.ops.parallel.collectives import REDUCTIONS
from lazyt.plan import planning
from lazyt.plan.control import collectives
from lazyt.runtime.ranks.engine import TooLong, Transfer
from lazyt.runtime.ranks.groups import Group

__all__ = ["ReduceOp", "Work", "supports_complex"]


class ReduceOp(IntEnum):
    """How values of ranks become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {self.value}>"

    def __format__(self, format_spec: str) -> str:
        return format(str(self), format_spec)


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


def supports_complex(reduceOp: Any) -> bool:
    """Whether a reduction knows complex numbers."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)


def reduction_of(op: Any) -> str:
    """The name of a reduction in ``lazyt.ops.parallel.sums``. Raises ValueError."""
    name = str(op).lower() if isinstance(op, str) else ReduceOp(op).name.lower()
    if name not in REDUCTIONS:
        raise ValueError(f"Invalid ReduceOp: {op!r}")
    return name


class Work:
    """A collective that may still be under way."""

    def __init__(self, nodes: Sequence[Node] = (), result: Any = None) -> None:
        self._nodes = list(nodes)
        self._result = result
        self._error: BaseException | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until it is done. Raises RankFailure when a rank fails, DistributedError after the
        group's timeout."""
        waiting, self._nodes = [n for n in self._nodes if n.data is None], []
        try:
            if waiting:
                pending.realize_nodes(waiting)
            self._complete()
        except DistributedError as error:
            self._error = error
            raise
        return True

    def _complete(self) -> None:
        """What has to be done once the values are there."""

    def is_completed(self) -> bool:
        """Whether it is done; moves it on."""
        if not self._nodes:  # in a captured function it is part of its graph
            return True
        collectives.advance(planning.realize)
        return all(collectives.is_done(node) for node in self._nodes)

    def is_success(self) -> bool:
        """Whether it is done, without an error."""
        return self._error is None and self.is_completed()

    def exception(self) -> BaseException | None:
        """The error of ``wait``."""
        return self._error

    def synchronize(self) -> None:
        """``wait()``."""
        self.wait()

    def result(self) -> Any:
        """What the collective gives, as a list of tensors; waits for it."""
        self.wait()
        return self._result

    def source_rank(self) -> int:
        """The rank that a received tensor comes from."""
        raise RuntimeError("only what is received has a source")

    def get_future(self) -> Any:
        """A future of ``result()``: it waits when it is asked."""
        return WorkFuture(self)


class WorkFuture:
    """What ``Work.get_future`` gives."""

    def __init__(self, work: Work, then: Callable[[Any], Any] | None = None) -> None:
        self._work, self._then = work, then

    def wait(self) -> Any:
        """Waits, and gives the value."""
        value = self._work.result()
        return value if self._then is None else self._then(self)

    def value(self) -> Any:
        """``wait()``."""
        return self.wait()

    def done(self) -> bool:
        """Whether ``wait`` would return at once."""
        return self._work.is_completed()

    def then(self, callback: Callable[[Any], Any]) -> WorkFuture:
        """A future of what a function makes of this one."""
        return WorkFuture(self._work, lambda _: callback(self))


class TransferWork(Work):
    """A transfer from one rank to another, or a barrier.

    Args:
        transfer: what is under way.
        group: whose it is.
        number: of which collective of the group, -1 for none.
        done: called once, with the transfer, when it is complete.
        patience: seconds, the group's by default.
        peers: the ranks among all that can complete it, if these are not all.
        refuse: the error where more comes than there is room for.
    """

    def __init__(
        self,
        transfer: Transfer,
        group: Group,
        number: int = -1,
        done: Callable[[Any], None] | None = None,
        patience: float | None = None,
        peers: Sequence[int] = (),
        refuse: Callable[[], Exception] | None = None,
    ) -> None:
        super().__init__()
        self._refuse = refuse
        self._peers = peers
        self._transfer: Transfer | None = transfer
        self._group, self._number, self._done = group, number, done
        self._patience = patience
        self._source = -1

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until it is done. Raises RankFailure and DistributedError."""
        transfer = self._transfer
        if transfer is not None:
            seconds = self._patience if timeout is None else timeout.total_seconds()
            try:
                self._group.wait(transfer, self._number, seconds, self._peers)
            except TooLong as error:
                raise (self._refuse() if self._refuse is not None else error) from None
            self._transfer = None
            self._source = getattr(transfer, "source", -1)
            if self._done is not None:
                self._done(transfer)
        return True

    def is_completed(self) -> bool:
        """Whether it is done."""
        return self._transfer is None or self._transfer.is_done()

    def source_rank(self) -> int:
        """The number in the group of the rank that sent it."""
        self.wait()
        return self._source
