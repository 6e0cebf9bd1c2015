"""Collectives that give new tensors, with gradients (``torch.distributed.nn.functional``).

The gradient of a collective is a collective: all ranks have to run backward through it, in the same
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.distributed.process_groups import get_group_rank, group_told, ranks_of
from lazyt.distributed.works import ReduceOp, reduction_of
from lazyt.errors import ArgumentError
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.handle.tensor import Tensor
from lazyt.ops.parallel import collectives as build
from lazyt.ops.parallel import sums

__all__ = ["all_gather", "all_reduce", "all_to_all_single", "broadcast", "reduce_scatter"]


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction over ranks, on each of them: a tensor of the same shape.

    Raises ValueError before ``init_process_group``, ArgumentError where this process is no member.

    >>> import lazyt
    >>> import lazyt.distributed as dist
    >>> from lazyt.distributed import functional
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = lazyt.ones(2, requires_grad=True)
    >>> (functional.all_reduce(x) * 3).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    >>> dist.destroy_process_group()
    """
    ranks = ranks_of(group_told(group))
    return wrap(sums.all_reduce(unwrap(tensor), ranks, reduction_of(op)), tensor)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, of one shape, on each of them."""
    found = group_told(group)
    node = unwrap(tensor)
    rows = build.all_gather(ops.reshape(node, (1, *node.shape)), ranks_of(found))
    return tuple(wrap(build.row(rows, rank), tensor) for rank in range(found.size()))


def reduce_scatter(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """This rank's part of the rows of the reduction: ``[size * n, ...]`` becomes ``[n, ...]``."""
    ranks = ranks_of(group_told(group))
    return wrap(build.reduce_scatter(unwrap(tensor), ranks, reduction_of(op)), tensor)


def all_to_all_single(
    tensor: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Sends some rows to each rank, and gets some from each; equal parts by default.

    Raises ArgumentError where the ranks do not divide the rows.
    """
    found = group_told(group)
    node, size = unwrap(tensor), found.size()
    if node.shape[0] % size and not (output_split_sizes and input_split_sizes):
        raise ArgumentError(f"{size} ranks do not divide {node.shape[0]} rows")
    equal = [node.shape[0] // size] * size
    sent, received = input_split_sizes or equal, output_split_sizes or equal
    return wrap(build.all_to_all(node, ranks_of(found), sent, received), tensor)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of one rank, by its number among all; its gradient there is the sum over ranks."""
    found = group_told(group)
    root = get_group_rank(found, src)
    return wrap(build.broadcast(unwrap(tensor), ranks_of(found), root), tensor)
