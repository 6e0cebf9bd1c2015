"""Collectives with PyTorch's older and newer signatures for those that give new tensors
(``torch.distributed.nn.functional`` and ``torch.distributed._functional_collectives``).

All are those of ``lazyt.distributed.functional``, with gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt.distributed import functional
from lazyt.distributed.process_groups import get_group_rank, group_told
from lazyt.distributed.process_groups import ranks_of as _ranks_of
from lazyt.distributed.works import ReduceOp
from lazyt.errors import ArgumentError
from lazyt.functional import namespace as lazyt
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.handle.tensor import Tensor
from lazyt.ops.parallel import collectives as build

__all__ = [
    "all_gather_tensor", "all_to_all", "all_to_all_into", "all_to_all_single", "gather",
    "permute_tensor", "reduce", "reduce_scatter_list", "reduce_scatter_tensor", "scatter",
    "wait_tensor",
]  # fmt: skip


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: values are waited for where they are needed."""
    return tensor


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any = None, tag: str = "") -> Tensor:
    """The tensors of all ranks, side by side along ``gather_dim``."""
    return lazyt.cat(list(functional.all_gather(self, group)), gather_dim)


def reduce_scatter_tensor(
    self: Tensor, reduceOp: Any, scatter_dim: int, group: Any = None, tag: str = ""
) -> Tensor:
    """This rank's part along ``scatter_dim`` of the reduction. Raises ArgumentError where the ranks
    do not divide it."""
    size = group_told(group).size()
    if self.shape[scatter_dim] % size:
        raise ArgumentError(
            f"input dimension {scatter_dim} ({self.shape[scatter_dim]} must be a multiple of "
            f"group_size {size})"
        )
    rows = lazyt.movedim(self, scatter_dim, 0)
    return lazyt.movedim(functional.reduce_scatter(rows, reduceOp, group), 0, scatter_dim)


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any = None,
    tag: str = "",
) -> Tensor:
    """Sends some rows to each rank, and gets some from each; equal parts by default."""
    return functional.all_to_all_single(self, output_split_sizes, input_split_sizes, group)


def permute_tensor(
    self: Tensor, src_dst: Sequence[int], group: Any = None, tag: str = ""
) -> Tensor:
    """The tensor of the rank whose ``src_dst`` is this one: rank i sends to ``src_dst[i]``."""
    pairs = list(enumerate(src_dst))
    return wrap(build.permute(unwrap(self), _ranks_of(group_told(group)), pairs), self)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Sends a tensor to each rank, and gets one from each, of the shapes of
    ``output_tensor_list``."""
    sent = [t.numel() for t in input_tensor_list]
    received = [t.numel() for t in output_tensor_list]
    row = lazyt.cat([t.reshape(-1) for t in input_tensor_list])
    parts = lazyt.split(functional.all_to_all_single(row, received, sent, group), received)
    return tuple(p.reshape(t.shape) for p, t in zip(parts, output_tensor_list))


def all_to_all_into(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """``all_to_all_single``; ``output`` gives nothing but its name."""
    return functional.all_to_all_single(input, output_split_sizes, input_split_sizes, group)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks on rank ``dst``, zeros on the others."""
    found = functional.all_gather(tensor, group)
    chosen = group_told(group)
    here = get_group_rank(chosen, dst) == chosen.rank()
    return found if here else tuple(t * 0 for t in found)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """This rank's of the tensors of rank ``src``."""
    stacked = functional.broadcast(lazyt.stack(list(tensors)), src, group)
    found: Tensor = stacked[group_told(group).rank()]
    return found


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction over ranks on rank ``dst``; the tensor itself on the others."""
    found = functional.all_reduce(tensor, op, group)
    chosen = group_told(group)
    here = get_group_rank(chosen, dst) == chosen.rank()
    # All ranks run backward through it.
    return found if here else found * 0 + tensor.detach()


def reduce_scatter_list(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """This rank's of the reductions of a list of tensors; ``output`` gives its shape."""
    rows = lazyt.stack([t.reshape(-1) for t in input_list])
    return functional.reduce_scatter(rows, op, group)[0].reshape(output.shape)
