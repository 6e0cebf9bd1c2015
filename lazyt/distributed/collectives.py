"""Collectives that write into tensors (``torch.distributed.all_reduce`` and others).

A call starts at once what it can; without ``async_op`` it returns when the values are there. Sums
over ranks are taken in an order that depends on the number of ranks alone
(``lazyt/ops/parallel/sums.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from math import prod
from typing import Any

from lazyt import ops
from lazyt.config import config
from lazyt.distributed.process_groups import (
    ProcessGroup,
    before_dividing,
    check_moves,
    get_group_rank,
    group_of,
    known_group,
    on_destroy,
    ranks_of,
)
from lazyt.distributed.works import ReduceOp, TransferWork, Work, reduction_of
from lazyt.errors import DistributedError, ShapeError
from lazyt.handle import pending
from lazyt.handle.dispatch import assign_value, unwrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.hooks import capturing, hook
from lazyt.handle.tensor import Tensor
from lazyt.ir.forms import PLACED, place_of
from lazyt.ir.graph import Node, source_text, user_position
from lazyt.ops.leaves import CONST
from lazyt.ops.parallel import collectives as build
from lazyt.ops.parallel import sums
from lazyt.ops.parallel.collectives import Ranks
from lazyt.plan import planning
from lazyt.plan.control import collectives as running
from lazyt.plan.control.schedules import Schedule, bottom, collectives_of, schedule
from lazyt.plan.steps import Planner

__all__ = [
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "broadcast", "gather",
    "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
]  # fmt: skip


def _tell_capture(node: Node) -> None:
    watcher = capturing()
    if watcher is not None:
        watcher.communicated(node)


def _advance() -> None:
    """Starts what can be; what a capture has made is started by its replay."""
    if capturing() is None:
        running.advance(planning.realize)


def _check_device(node: Node) -> None:
    """Raises DeviceError, in the line that makes it, for a collective of values on a device whose
    memory the group does not move."""
    group = known_group(node.params.group)
    if group is not None:
        check_moves(group, place_of(node.form), node.params.kind)


build.on_made += [_check_device, running.made, _tell_capture]
on_destroy += [
    lambda: running.settle(planning.realize), running.forget, lambda: _schedules.clear()
]  # fmt: skip
before_dividing.append(lambda: running.start_made(planning.realize))
pending.before_realizing.append(lambda: _advance())

Written = list[tuple[Tensor, Node]]


def value_of(tensor: Any, name: str) -> Node:
    """The value of a tensor that takes part, without its history. Raises TypeError."""
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(tensor)} instead."
        )
    return ops.detach(unwrap(tensor))


def _values(tensors: Any, name: str) -> list[Node]:
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(t, Tensor) for t in tensors):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]"
        )
    return [value_of(tensor, name) for tensor in tensors]


def finish(written: Written, async_op: bool) -> Work | None:
    """Writes values of collectives into tensors: at once, or while they are under way."""
    with no_grad():
        for tensor, node in written:
            if tuple(tensor.shape) != node.shape:
                node = ops.reshape(node, tuple(tensor.shape))
            assign_value(tensor, node)
    nodes = [node for _, node in written]
    if hook.watcher is not None and hook.watcher.mine:  # in a capture they are part of its graph
        return Work((), [tensor for tensor, _ in written]) if async_op else None
    running.advance(planning.realize)
    work = Work(nodes, [tensor for tensor, _ in written])
    if async_op:
        return work
    work.wait()
    running.start_made(planning.realize)
    return None


def _member(group: Any) -> tuple[ProcessGroup, Ranks] | None:
    """A group and how nodes refer to it; None where this process is no member."""
    found = group_of(group)
    return None if found is None else (found, ranks_of(found))


def _rank_of(group: ProcessGroup, rank: int | None, group_rank: int | None, name: str) -> int:
    """The number in the group of a rank that is named by either number. Raises ValueError."""
    if rank is None and group_rank is None:
        if name == "src":
            return 0
        raise ValueError(f"Must specify {name} or group_{name}")
    if rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{name} and {name}")
    if rank is not None:
        return get_group_rank(group, int(rank))
    assert group_rank is not None
    if not 0 <= group_rank < group.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return int(group_rank)


def _same_kind(tensors: Sequence[Tensor], name: str) -> None:
    first = tensors[0]
    for tensor in tensors:
        if tensor.dtype is not first.dtype:
            raise ValueError(
                f"Invalid usage of tensors with different dtypes: {tensor.dtype} and {first.dtype}"
                f" in {name}"
            )


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduces a tensor over all ranks of a group; each gets the result in its place.

    Args:
        tensor: any shape; integers and floating-point numbers, complex ones for sums.
        op: a ``ReduceOp``. The order of sums depends on the number of ranks alone.
        group: all ranks by default.
        async_op: give a ``Work`` instead of waiting.

    Raises ValueError before ``init_process_group``, RankFailure when a rank fails or calls
    something else.

    >>> import lazyt
    >>> import lazyt.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = lazyt.ones(2)
    >>> dist.all_reduce(x)
    >>> x
    tensor([1., 1.])
    >>> dist.destroy_process_group()

    Source: PyTorch's function of this name.
    """
    node = value_of(tensor, "tensor")
    found = _member(group)
    if found is None:
        return None
    ranks, reduction = found[1], reduction_of(op)
    if not async_op and ranks.size > 1:
        total = _all_reduce_at_once(node, ranks, reduction)
        if total is not None:
            with no_grad():
                assign_value(tensor, total)
            return None
    return finish([(tensor, sums.all_reduce(node, ranks, reduction))], async_op)


#: Schedules of sums by what they are sums of, and the line that asks for them.
_schedules: dict[Any, Schedule] = {}
_MOST_SCHEDULES = 256


def _all_reduce_at_once(node: Node, ranks: Ranks, reduction: str) -> Node | None:
    """The sum of a value that is there, by the schedule of the last one like it; None where a value
    is not there, or where a graph is wanted."""
    value = bottom(node)
    data = value.data
    if data is None or hook.watcher is not None or config.eager or config.interpret:
        return None
    if value.op is CONST or node.form < PLACED or not node.size:
        return None
    key = node.type, ranks, reduction, user_position(), config.of_plans
    found = _schedules.get(key)
    if found is None:
        leaf = ops.input_(node.shape, node.dtype, data)
        root = sums.all_reduce(leaf, ranks, reduction)
        calls = collectives_of([root], ())
        running.take(calls)
        made = schedule([root], calls, {}, Planner(planning.realize, planning.prepare))
        if made is None:
            return None
        made.leaves = []  # they would hold on to values
        if len(_schedules) >= _MOST_SCHEDULES:
            _schedules.clear()
        found = _schedules[key] = made
    (total,) = found.run([data])
    return ops.input_(node.shape, node.dtype, total)


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """``all_reduce`` of several tensors of one dtype, in one message."""
    nodes = _values(tensors, "tensors")
    found = _member(group)
    if found is None or not nodes:
        return None
    _same_kind(tensors, "all_reduce_coalesced")
    whole = sums.all_reduce(joined(nodes), found[1], reduction_of(op))
    return finish(list(zip(tensors, parted(whole, [n.shape for n in nodes]))), async_op)


def zeros_at(node: Node) -> Node:
    """Zeros of the shape and type of a value, on its device."""
    return ops.put(ops.zeros_like(node), place_of(node.form))


def joined(nodes: Sequence[Node]) -> Node:
    """All elements of some values in one row."""
    flat = [ops.reshape(node, (prod(node.shape),)) for node in nodes]
    return flat[0] if len(flat) == 1 else ops.concat(flat, 0)


def parted(row: Node, shapes: Sequence[tuple[int, ...]]) -> list[Node]:
    """Values of these shapes, one behind the other in a row."""
    found, start = [], 0
    for shape in shapes:
        size = prod(shape)
        part = row if size == row.shape[0] else ops.slice_(row, (start,), (size,), (1,))
        found.append(ops.reshape(part, shape))
        start += size
    return found


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Gives a tensor of one rank to all of its group, in the place of theirs.

    Args:
        tensor: the same shape and dtype on all ranks.
        src: whose value, by its number among all ranks; ``group_src`` is its number in the group.
        group, async_op: see ``all_reduce``.

    Source: PyTorch's function of this name.
    """
    node = value_of(tensor, "tensor")
    found = _member(group)
    if found is None:
        return None
    root = _rank_of(found[0], src, group_src, "src")
    return finish([(tensor, build.broadcast(node, found[1], root))], async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduces a tensor over all ranks of a group; one of them gets the result in its place.

    Args:
        tensor: as of ``all_reduce``; stays as it is on other ranks.
        dst: who gets the result, by its number among all ranks; ``group_dst``: in the group.
        op, group, async_op: see ``all_reduce``.

    Source: PyTorch's function of this name.
    """
    node = value_of(tensor, "tensor")
    found = _member(group)
    if found is None:
        return None
    root = _rank_of(found[0], dst, group_dst, "dst")
    rows, total = build.gather_to(node, found[1], root, reduction_of(op))
    return _sent(rows, async_op) if total is None else finish([(tensor, total)], async_op)


def _sent(node: Node, async_op: bool) -> Work | None:
    """What a rank that gets nothing waits for: that its own value is on its way."""
    if hook.watcher is not None and hook.watcher.mine:
        return Work() if async_op else None
    running.advance(planning.realize)
    if async_op:
        return Work([node])
    running.start_made(planning.realize)
    running.finish(node)
    return None


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Gives the tensors of all ranks to each.

    Args:
        tensor_list: one tensor for each rank, which gets its value; of any shapes with as many
            elements as that rank's.
        tensor: this rank's.
        group, async_op: see ``all_reduce``.

    Source: PyTorch's function of this name.
    """
    outputs = _values(tensor_list, "tensor_list")
    node = value_of(tensor, "tensor")
    found = _member(group)
    if found is None:
        return None
    ranks = found[1]
    if len(outputs) != ranks.size:
        raise ValueError(f"tensor_list has {len(outputs)} tensors for {ranks.size} ranks")
    _same_kind([*tensor_list, tensor], "all_gather")
    sizes = [prod(output.shape) for output in outputs]
    row = ops.reshape(node, (prod(node.shape),))
    with build.written_as("all_gather", node):
        if len(set(sizes)) == 1 and sizes[0] == row.shape[0]:
            whole = build.all_gather(row, ranks)
        else:
            if sizes[ranks.rank] != row.shape[0]:
                room = sizes[ranks.rank]
                raise ShapeError(f"tensor_list has room for {room} elements of this rank")
            every = ops.concat([row] * ranks.size, 0)
            whole = build.all_to_all(every, ranks, [row.shape[0]] * ranks.size, sizes)
    return finish(list(zip(tensor_list, parted(whole, [o.shape for o in outputs]))), async_op)


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """``all_gather`` of several tensors: ``output_tensor_lists[rank][i]`` is rank's i-th."""
    found = _member(group)
    if found is None:
        return None
    written: Written = []
    for number, tensor in enumerate(input_tensor_list):
        node = value_of(tensor, "input_tensor_list")
        whole = build.all_gather(ops.reshape(node, (prod(node.shape),)), found[1])
        parts = parted(whole, [node.shape] * found[1].size)
        written += [(row[number], part) for row, part in zip(output_tensor_lists, parts)]
    return finish(written, async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Gives the tensors of all ranks to each, in one tensor.

    Args:
        output_tensor: ``[size * n, ...]`` (one below the other) or ``[size, n, ...]``.
        input_tensor: ``[n, ...]``, the same shape on all ranks.
        group, async_op: see ``all_reduce``.

    Source: PyTorch's function of this name.
    """
    node, output = value_of(input_tensor, "input_tensor"), value_of(output_tensor, "output_tensor")
    found = _member(group)
    if found is None:
        return None
    _same_kind([output_tensor, input_tensor], "all_gather_into_tensor")
    if prod(output.shape) != prod(node.shape) * found[1].size:
        raise ValueError("output tensor size must be equal to world_size times input tensor size")
    with build.written_as("all_gather_into_tensor", node):
        whole = build.all_gather(ops.reshape(node, (prod(node.shape),)), found[1])
    return finish([(output_tensor, whole)], async_op)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Reduces a list of tensors over all ranks; each rank gets the tensor of its number.

    Args:
        output: gets the result.
        input_list: one tensor for each rank, of the output's shape.
        op, group, async_op: see ``all_reduce``.

    Source: PyTorch's function of this name.
    """
    value_of(output, "output")
    nodes = _values(input_list, "input_list")
    found = _member(group)
    if found is None:
        return None
    if len(nodes) != found[1].size:
        raise ValueError(f"input_list has {len(nodes)} tensors for {found[1].size} ranks")
    _same_kind([output, *input_list], "reduce_scatter")
    row = joined(nodes)
    with build.written_as("reduce_scatter", row):
        total = build.reduce_scatter(row, found[1], reduction_of(op))
    return finish([(output, total)], async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Reduces a tensor over all ranks; each rank gets its part of the rows.

    Args:
        output: ``[n, ...]``, gets the result.
        input: ``[size * n, ...]`` or ``[size, n, ...]``.
        op, group, async_op: see ``all_reduce``.

    Source: PyTorch's function of this name.
    """
    node, shown = value_of(input, "input"), value_of(output, "output")
    found = _member(group)
    if found is None:
        return None
    _same_kind([output, input], "reduce_scatter_tensor")
    if prod(node.shape) != prod(shown.shape) * found[1].size:
        raise ValueError("input tensor must be the same size as output size times world size")
    with build.written_as("reduce_scatter_tensor", node):
        row = ops.reshape(node, (prod(node.shape),))
        total = build.reduce_scatter(row, found[1], reduction_of(op))
    return finish([(output, total)], async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Sends a tensor to each rank, and gets one from each.

    Args:
        output_tensor_list: get what the ranks send, in their order.
        input_tensor_list: go to the ranks, in their order.
        group, async_op: see ``all_reduce``.

    Source: PyTorch's function of this name.
    """
    outputs = _values(output_tensor_list, "output_tensor_list")
    nodes = _values(input_tensor_list, "input_tensor_list")
    found = _member(group)
    if found is None:
        return None
    if len(outputs) != found[1].size or len(nodes) != found[1].size:
        raise ValueError(f"all_to_all needs one tensor for each of {found[1].size} ranks")
    _same_kind([*output_tensor_list, *input_tensor_list], "all_to_all")
    sent, received = [prod(n.shape) for n in nodes], [prod(o.shape) for o in outputs]
    whole = build.all_to_all(joined(nodes), found[1], sent, received)
    shapes = [output.shape for output in outputs]
    return finish(list(zip(output_tensor_list, parted(whole, shapes))), async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Sends some rows of a tensor to each rank, and gets some from each.

    Args:
        output: ``[m, ...]``, gets the rows that the ranks send, in their order.
        input: ``[n, ...]``.
        output_split_sizes, input_split_sizes: how many rows from and to each rank; equal parts by
            default.
        group, async_op: see ``all_reduce``.

    Source: PyTorch's function of this name.
    """
    node, shown = value_of(input, "input"), value_of(output, "output")
    found = _member(group)
    if found is None:
        return None
    _same_kind([output, input], "all_to_all_single")
    sent = _splits(node, input_split_sizes, found[1].size)
    received = _splits(shown, output_split_sizes, found[1].size)
    return finish([(output, build.all_to_all(node, found[1], sent, received))], async_op)


def _splits(node: Node, sizes: Sequence[int] | None, count: int) -> list[int]:
    rows = node.shape[0] if node.shape else 0
    if not sizes:
        if rows % count:
            raise ValueError("Tensor's dim 0 does not divide equally across group size")
        return [rows // count] * count
    if len(sizes) != count:
        raise ValueError("Number of tensor splits not equal to group size")
    if sum(sizes) != rows:
        raise ValueError("Split sizes doesn't match total dim 0 size")
    return [int(size) for size in sizes]


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Gives the tensors of all ranks to one of them.

    Args:
        tensor: this rank's, of the same shape on all.
        gather_list: on rank ``dst`` one tensor for each rank; None elsewhere.
        dst: who gets them, 0 by default, by its number among all; ``group_dst``: in the group.
        group, async_op: see ``all_reduce``.

    Source: PyTorch's function of this name.
    """
    node = value_of(tensor, "tensor")
    found = _member(group)
    if found is None:
        return None
    which, ranks = found
    root = 0 if dst is None and group_dst is None else _rank_of(which, dst, group_dst, "dst")
    mine = root == ranks.rank
    if mine and (gather_list is None or len(gather_list) != ranks.size):
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not mine and gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    with build.written_as("gather", node):
        rows = build.rows_to(ops.reshape(node, (prod(node.shape),)), ranks, root)
    if not mine:
        return _sent(rows, async_op)
    outputs = _values(gather_list, "gather_list")
    assert gather_list is not None
    parts = parted(ops.reshape(rows, (prod(rows.shape),)), [o.shape for o in outputs])
    return finish(list(zip(gather_list, parts)), async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Gives one tensor of a list to each rank.

    Args:
        tensor: gets this rank's.
        scatter_list: on rank ``src`` one tensor for each rank; None elsewhere.
        src: whose list, 0 by default, by its number among all; ``group_src``: in the group.
        group, async_op: see ``all_reduce``.

    Source: PyTorch's function of this name.
    """
    shown = value_of(tensor, "tensor")
    found = _member(group)
    if found is None:
        return None
    which, ranks = found
    root = _rank_of(which, src, group_src, "src")
    size = prod(shown.shape)
    if root == ranks.rank:
        if scatter_list is None or len(scatter_list) != ranks.size:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        nodes = _values(scatter_list, "scatter_list")
        _same_kind([tensor, *scatter_list], "scatter")
        row, sent = joined(nodes), [prod(n.shape) for n in nodes]
    else:
        if scatter_list:
            raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
        nothing = ops.slice_(ops.reshape(shown, (size,)), (0,), (0,), (1,))  # on its device
        row, sent = nothing, [0] * ranks.size
    received = [size if rank == root else 0 for rank in range(ranks.size)]
    with build.written_as("scatter", shown):
        part = build.all_to_all(row, ranks, sent, received)
    return finish([(tensor, part)], async_op)


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Waits until all ranks of a group have come here, with what they have computed so far."""
    found = group_of(group)
    if found is None:
        return None
    running.start_made(planning.realize)
    whole = found._group
    seconds = None if timeout is None else timeout.total_seconds()
    number = whole.come_to("barrier", source_text(user_position()), seconds)
    work = TransferWork(whole.comm.barrier(), whole, number, patience=seconds)
    if async_op:
        return work
    work.wait()
    return None


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """``barrier`` whose error after ``timeout`` names the ranks that have not come."""
    try:
        barrier(group, timeout=timeout)
    except DistributedError as error:
        raise RuntimeError(str(error)) from None
