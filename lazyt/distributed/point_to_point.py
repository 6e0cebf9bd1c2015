"""Tensors from one rank to another (``torch.distributed.send`` and ``recv``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.distributed.collectives import value_of
from lazyt.distributed.process_groups import (
    ProcessGroup,
    check_moves,
    get_group_rank,
    group_of,
)
from lazyt.distributed.works import TransferWork, Work
from lazyt.errors import LazinessError, LazytError, ShapeError
from lazyt.handle import pending
from lazyt.handle.dispatch import assign_value
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.hooks import hook
from lazyt.handle.tensor import Tensor
from lazyt.ir.forms import place_of
from lazyt.ir.graph import Node, source_text, user_position
from lazyt.plan import planning
from lazyt.plan.control import collectives as running
from lazyt.runtime.memory import Buffer
from lazyt.runtime.ranks.groups import as_bytes

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _other(group: ProcessGroup, rank: int | None, group_rank: int | None, what: str) -> int:
    """The other rank's number in the group. Raises ValueError."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{what} and {what}")
    if rank is None and group_rank is None:
        raise ValueError(f"Must specify {what} or group_{what}")
    number = get_group_rank(group, int(rank)) if rank is not None else int(group_rank or 0)
    if number == group.rank():
        verb = "Invalid destination rank: destination rank should not be the same as the rank of"
        if what == "src":
            verb = "Invalid source rank: source rank should not be the same as the rank of"
        raise ValueError(f"{verb} the current process.")
    return number


def peers_of(group: ProcessGroup, rank: int) -> list[int]:
    """The numbers among all of a rank of a group; of all others for -1."""
    if rank >= 0:
        return [group.ranks[rank]]
    return [r for number, r in enumerate(group.ranks) if number != group.rank()]


def _not_captured(name: str) -> None:
    if hook.watcher is not None and hook.watcher.mine:
        raise LazinessError(
            f"{name} moves one rank's value at once, and cannot be part of a captured function: "
            "use a collective there, such as permute_tensor"
        )


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begins to send a tensor to one rank.

    Args:
        tensor: any shape and dtype; what it holds now is sent.
        dst: to whom, by its number among all; ``group_dst``: by its number in the group.
        group: all ranks by default.
        tag: ``recv`` with this tag gets it.

    Raises ValueError for this rank itself.

    Source: PyTorch's function of this name.
    """
    node = value_of(tensor, "tensor")
    found = group_of(group)
    if found is None:
        return None
    _not_captured("send")
    target = _other(found, dst, group_dst, "dst")
    check_moves(found, place_of(node.form), "send")
    pending.realize_nodes([node])
    if _by_engine(found, node):
        return _exchanged(found, [_Item(True, tensor, node, target)], "send")[0]
    source = as_bytes(node.data, node.nbytes)
    transfer = found._group.comm.send(source, target, tag)
    return TransferWork(transfer, found._group, peers=(found.ranks[target],))


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begins to receive a tensor from one rank; ``wait`` of what it gives writes it.

    Args:
        tensor: gets the value: as many bytes as are sent.
        src: from whom, by its number among all, None for anybody; ``group_src``: in the group.
        group, tag: see ``isend``.

    Raises ValueError for this rank itself.

    Source: PyTorch's function of this name.
    """
    node = value_of(tensor, "tensor")
    found = group_of(group)
    if found is None:
        return None
    _not_captured("recv")
    anybody = src is None and group_src is None
    source = -1 if anybody else _other(found, src, group_src, "src")
    check_moves(found, place_of(node.form), "recv")
    if _by_engine(found, node):
        if source < 0:
            raise ValueError("recv: NCCL receives from one rank, not from anybody: name src")
        return _exchanged(found, [_Item(False, tensor, node, source)], "recv")[0]
    buffer = Buffer(node.nbytes)
    shape, dtype = node.shape, node.dtype

    def write(transfer: Any) -> None:
        if getattr(transfer, "count", node.nbytes) not in (-1, node.nbytes):
            raise _misfit(node, f"{transfer.count} bytes")
        data = _at_home(buffer, place_of(node.form))
        with no_grad():
            assign_value(tensor, ops.input_(shape, dtype, data))

    memory = as_bytes(buffer, node.nbytes)
    transfer = found._group.comm.receive(memory, source, tag)
    return TransferWork(
        transfer, found._group, done=write, peers=peers_of(found, source),
        refuse=lambda: _misfit(node, "more"),
    )  # fmt: skip


def _at_home(buffer: Buffer, place: str) -> Buffer:
    """What has come to the host, where the tensor is."""
    if not place:
        return buffer
    from lazyt.runtime.cuda.device import device_at

    return device_at(place).upload(buffer)


class _Item(NamedTuple):
    """A message between devices: whether it is sent, its tensor, the value that it has now, and the
    other rank's number in the group."""

    is_sent: bool
    tensor: Tensor
    node: Node
    peer: int


def _by_engine(group: ProcessGroup, node: Node) -> bool:
    """Whether a value goes from device to device."""
    place = place_of(node.form)
    if place and group._group.devices is None:
        running.announce_host_copies(place, group._group)
    return bool(place) and group._group.devices is not None


def _exchanged(group: ProcessGroup, items: Sequence[_Item], name: str) -> list[Work]:
    """Begins messages between devices, all at once."""
    from lazyt.runtime.cuda.device import device_at
    from lazyt.runtime.ranks.device_engine import Subject

    engine = group._group.devices
    assert engine is not None
    messages = []
    for item in items:
        device, nbytes = device_at(place_of(item.node.form)), item.node.nbytes
        buffer = item.node.data if item.is_sent else device.allocate(nbytes)
        if not buffer.place:
            buffer = device.upload(buffer)
        messages.append((item.is_sent, buffer, nbytes, item.peer))
    peers = ", ".join(f"{'to' if i.is_sent else 'from'} {group.ranks[i.peer]}" for i in items)
    subject = Subject(f"{name} {peers}", source_text(user_position()))
    found: list[Work] = []
    for item, message, part in zip(items, messages, engine.exchange(messages, subject)):
        done = None if item.is_sent else _writes(item, message[1])
        peer = (group.ranks[item.peer],)
        found.append(TransferWork(part, group._group, done=done, peers=peer))
    return found


def _writes(item: _Item, buffer: Buffer) -> Callable[[Any], None]:
    def write(transfer: Any) -> None:
        with no_grad():
            assign_value(item.tensor, ops.input_(item.node.shape, item.node.dtype, buffer))

    return write


def _misfit(node: Node, came: str) -> ShapeError:
    return ShapeError(
        f"recv: the tensor is {node.dtype.name}{list(node.shape)}, {node.nbytes} bytes, and {came} "
        "came: it needs the shape and the dtype of what is sent"
    )


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """``isend``, and waits until the memory may be used again."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        running.advance(planning.realize)
        work.wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """``irecv``, and waits for it. Returns the sender's number among all; -1 for no member."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    running.advance(planning.realize)
    work.wait()
    found = group_of(group)
    assert found is not None
    return found.ranks[work.source_rank()]


class P2POp(NamedTuple):
    """One transfer of ``batch_isend_irecv``: ``isend`` or ``irecv`` with its arguments."""

    op: Callable[..., Work | None]
    tensor: Tensor
    peer: int | None = None
    group: Any = None
    tag: int = 0
    group_peer: int | None = None


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begins several transfers; gives one ``Work`` for each.

    Raises LazytError for an empty list and ValueError for other functions.
    """
    if not p2p_op_list:
        raise LazytError("p2p_op_list must not be empty")
    for item in p2p_op_list:
        if item.op not in (isend, irecv):
            raise ValueError("a P2POp takes torch.distributed.isend or torch.distributed.irecv")
    together = _between_devices(p2p_op_list)
    if together is not None:
        return together
    works = [
        op(tensor, peer, group, tag, group_peer)
        for op, tensor, peer, group, tag, group_peer in p2p_op_list
    ]
    return [work for work in works if work is not None]


def _between_devices(p2p_op_list: Sequence[P2POp]) -> list[Work] | None:
    """The same by one call of NCCL, in which no message waits for another; None where some are on
    the host."""
    found = group_of(p2p_op_list[0].group)
    if found is None or found._group.devices is None:
        return None
    items = []
    for op, tensor, peer, group, _, group_peer in p2p_op_list:
        node = value_of(tensor, "tensor")
        if group_of(group) is not found or not place_of(node.form):
            return None
        what = "dst" if op is isend else "src"
        items.append(_Item(op is isend, tensor, node, _other(found, peer, group_peer, what)))
    _not_captured("batch_isend_irecv")
    pending.realize_nodes([item.node for item in items if item.is_sent])
    return _exchanged(found, items, "batch_isend_irecv")
