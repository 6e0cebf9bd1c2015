"""Gradients of several ranks are averaged in buckets, while backward still computes others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt.distributed.collectives import (
    all_reduce,
    finish,
    joined,
    parted,
    value_of,
    zeros_at,
)
from lazyt.distributed.comm_hooks import GradBucket
from lazyt.distributed.process_groups import ProcessGroup, ranks_of
from lazyt.distributed.works import ReduceOp
from lazyt.functional.creation.creation import tensor as tensor_of
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.tape import AccumulateGrad, GradFn
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int32
from lazyt.ir.forms import place_of
from lazyt.ops.parallel import collectives as build
from lazyt.ops.parallel import sums
from lazyt.plan import planning
from lazyt.plan.control import collectives as running
from lazyt.runtime.ranks.links import link_of

__all__: list[str] = []

#: The first bucket is small, so that the first sum starts early.
_FIRST = 1 << 20


class Buckets:
    """The parameters of a module, in the order in which backward reaches them.

    Args:
        parameters: those that require gradients.
        group: the ranks.
        size: bytes of a bucket; None for what the measured link of the group is good for.

    Attributes:
        groups: the parameters of each bucket: of one dtype.
        missing: of each bucket, the numbers of those without a gradient so far.
        size: bytes of a bucket.
        next: the first bucket whose sum is not started: all ranks start them in one order.
    """

    def __init__(self, parameters: Sequence[Tensor], group: ProcessGroup, size: int | None) -> None:
        first = _FIRST
        if size is None:
            running.start_made(planning.realize)
            place = place_of(unwrap(parameters[0]).form) if parameters else ""
            size = first = link_of(group._group, place).message
        self.size = size
        self.groups: list[list[Tensor]] = []
        self._home: dict[Tensor, tuple[int, int]] = {}
        room, dtype = 0, None
        for parameter in reversed(parameters):
            nbytes = parameter.numel() * parameter.element_size()
            if parameter.dtype is not dtype or room < nbytes:
                self.groups.append([])
                room = min(size, first) if len(self.groups) == 1 else size
                dtype = parameter.dtype
            self._home[parameter] = len(self.groups) - 1, len(self.groups[-1])
            self.groups[-1].append(parameter)
            room -= nbytes
        self._group = group
        #: What a program does instead of averaging, with its state.
        self.hook: tuple[Any, Any] | None = None
        self._coming: list[tuple[list[Tensor], Any]] = []
        #: By what averages are multiplied, where not all ranks have a gradient.
        self.factor: float | None = None
        self.begin(())

    def begin(self, unused: Sequence[Tensor], elsewhere: frozenset[Tensor] = frozenset()) -> None:
        """A backward follows, in which ``unused`` parameters get no gradient on this rank; those of
        ``elsewhere`` get one on another."""
        self._untouched = {*unused} - elsewhere
        self.missing = [set(range(len(some))) for some in self.groups]
        self.next = 0
        self.was_touched = False
        for parameter in unused:
            bucket, number = self._home[parameter]
            self.missing[bucket].discard(number)

    def note(self, parameter: Tensor) -> None:
        """The gradient of a parameter is there; starts the sums of full buckets."""
        bucket, number = self._home[parameter]
        self.missing[bucket].discard(number)
        self.was_touched = True
        while self.next < len(self.groups) and not self.missing[self.next]:
            self.start(self.next)
            self.next += 1
        if self.next == len(self.groups):
            self._take()

    def absent(self) -> list[int]:
        """Numbers of the parameters whose gradients did not come, in the module's order."""
        count = sum(map(len, self.groups))
        numbers = []
        position = 0
        for some, missing in zip(self.groups, self.missing):
            numbers += [count - 1 - (position + i) for i in missing]
            position += len(some)
        return sorted(numbers)

    def start(self, bucket: int) -> None:
        """Starts the average over ranks of the gradients of a bucket, which take its value."""
        some = [p for p in self.groups[bucket] if p not in self._untouched]
        if not some:
            return
        with no_grad():
            for parameter in some:
                if parameter.grad is None:
                    parameter.grad = wrap(zeros_at(unwrap(parameter)))
            if self.hook is not None:
                state, function = self.hook
                last = bucket + 1 == len(self.groups)
                self._coming.append((some, function(state, GradBucket(bucket, some, last))))
                return
            grads = [p.grad for p in some if p.grad is not None]
            nodes = [value_of(g, "grad") for g in grads]
            whole = sums.all_reduce(joined(nodes), ranks_of(self._group), "avg")
            if self.factor is not None:
                whole = unwrap(wrap(whole) * self.factor)
            finish(list(zip(grads, parted(whole, [n.shape for n in nodes]))), True)

    def start_empty(self) -> None:
        """All sums, of a rank without a batch: its gradients are zeros."""
        with no_grad():
            for parameter in (p for some in self.groups for p in some):
                if parameter.grad is not None and parameter not in self._untouched:
                    parameter.grad = wrap(zeros_at(unwrap(parameter)))
        for bucket in range(len(self.groups)):
            self.start(bucket)
        self.next = len(self.groups)
        self._take()

    def _take(self) -> None:
        """Gradients become what the hook's futures give. Raises ValueError for another size."""
        coming, self._coming = self._coming, []
        for some, future in coming:
            row = future.wait()
            row = row[0] if isinstance(row, (list, tuple)) else row
            if row.numel() != sum(p.numel() for p in some):
                raise ValueError(
                    f"a communication hook gave {row.numel()} numbers for a bucket of "
                    f"{sum(p.numel() for p in some)}"
                )
            with no_grad():
                start = 0
                for parameter in some:
                    part = row.reshape(-1)[start : start + parameter.numel()]
                    start += parameter.numel()
                    if parameter.grad is not None:
                        parameter.grad.copy_(part.reshape(parameter.shape))


def equalize(tensors: Sequence[Tensor], group: ProcessGroup, root: int = 0) -> None:
    """Gives the values of one rank to all, in one message for each dtype."""
    by_dtype: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        by_dtype.setdefault(tensor.dtype, []).append(tensor)
    with no_grad():
        for some in by_dtype.values():
            nodes = [value_of(t.detach(), "tensor") for t in some]
            whole = build.broadcast(joined(nodes), ranks_of(group), root)
            shapes = [n.shape for n in nodes]
            finish(list(zip([t.detach() for t in some], parted(whole, shapes))), True)


def used_somewhere(
    parameters: Sequence[Tensor], used: set[Tensor], group: ProcessGroup
) -> set[Tensor]:
    """The parameters that some rank uses; waits for all."""
    flags = [int(p in used) for p in parameters]
    mine = tensor_of(flags, dtype=int32, device=parameters[0].device if parameters else None)
    all_reduce(mine, ReduceOp.MAX, group)
    return {p for p, flag in zip(parameters, mine.tolist()) if flag}


def reached(results: Sequence[Tensor]) -> set[Tensor]:
    """The leaves that a backward from results reaches."""
    seen: set[GradFn] = set()
    found: set[Tensor] = set()
    stack: list[GradFn | None] = [tensor.grad_fn for tensor in results]
    while stack:
        fn = stack.pop()
        if fn is None or fn in seen:
            continue
        seen.add(fn)
        if isinstance(fn, AccumulateGrad):
            if fn.variable is not None:
                found.add(fn.variable)
            continue
        stack.extend(fn.parents)
    return found
