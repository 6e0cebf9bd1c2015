"""Collectives of Python objects, which travel pickled (``torch.distributed.all_gather_object``).

As with ``pickle`` everywhere, what is received is run: the other ranks are trusted, as they run the
same program.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt.distributed.point_to_point import peers_of
from lazyt.distributed.process_groups import ProcessGroup, get_group_rank, group_of
from lazyt.ir.graph import source_text, user_position
from lazyt.plan import planning
from lazyt.plan.control import collectives as running
from lazyt.runtime.ranks.groups import Collective, Group

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list",
    "scatter_object_list", "send_object_list",
]  # fmt: skip


def _every(group: Group, data: bytes, name: str) -> list[bytes]:
    """The bytes of all ranks, on each."""
    lengths = np.zeros(group.size, np.int64)
    line = source_text(user_position())
    mine = np.array([len(data)], np.int64)
    group.run(Collective("all_gather"), _bytes(mine), _bytes(lengths), f"{name} lengths", line)
    source = np.frombuffer(data * group.size, np.uint8)
    target = np.empty(int(lengths.sum()), np.uint8)
    what = Collective("all_to_all", (len(data),) * group.size, tuple(map(int, lengths)))
    group.run(what, source, target, name, line)
    ends = np.cumsum(lengths)
    return [bytes(target[end - n : end]) for end, n in zip(ends, lengths)]


def _bytes(array: Any) -> Any:
    return array.view(np.uint8)


def _from(group: Group, data: bytes, root: int, name: str) -> bytes:
    """The bytes of one rank, on all."""
    line = source_text(user_position())
    length = np.array([len(data)], np.int64)
    what = Collective("broadcast", root=root)
    group.run(what, _bytes(length.copy()), _bytes(length), f"{name} length from {root}", line)
    target = np.empty(int(length[0]), np.uint8)
    source = np.frombuffer(data, np.uint8) if group.rank == root else target
    group.run(what, source, target, f"{name} from {root}", line)
    return bytes(target)


def gathered_bytes(group: ProcessGroup, data: bytes, name: str) -> list[bytes]:
    """The bytes of all ranks of a group, on each."""
    running.start_made(planning.realize)
    return _every(group._group, data, name)


def _begin(group: Any) -> ProcessGroup | None:
    found = group_of(group)
    if found is not None:
        running.start_made(planning.realize)
    return found


def _root(group: ProcessGroup, rank: int | None, group_rank: int | None) -> int:
    if group_rank is not None:
        return int(group_rank)
    return get_group_rank(group, 0 if rank is None else int(rank))


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Gives an object of each rank to all: ``object_list[r]`` becomes that of rank r.

    Raises ValueError for a list of another length than there are ranks.

    >>> import lazyt.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [None]
    >>> dist.all_gather_object(found, {"loss": 0.5})
    >>> found
    [{'loss': 0.5}]
    >>> dist.destroy_process_group()

    Source: PyTorch's function of this name.
    """
    found = _begin(group)
    if found is None:
        return
    if len(object_list) != found.size():
        raise ValueError(f"object_list has {len(object_list)} places for {found.size()} ranks")
    every = _every(found._group, pickle.dumps(obj), "all_gather_object")
    object_list[:] = [pickle.loads(data) for data in every]


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Gives an object of each rank to one: ``object_gather_list[r]`` there becomes that of rank r.

    Raises ValueError where that rank has no list of the right length.
    """
    found = _begin(group)
    if found is None:
        return
    root = _root(found, dst, group_dst)
    mine = found.rank() == root
    if mine and (object_gather_list is None or len(object_gather_list) != found.size()):
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    every = _every(found._group, pickle.dumps(obj), f"gather_object to {root}")
    if mine:
        assert object_gather_list is not None
        object_gather_list[:] = [pickle.loads(data) for data in every]


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Gives the objects of one rank's list to all, in the place of theirs."""
    found = _begin(group)
    if found is None:
        return
    root = _root(found, src, group_src)
    data = pickle.dumps(list(object_list)) if found.rank() == root else b""
    received = pickle.loads(_from(found._group, data, root, "broadcast_object_list"))
    if found.rank() != root:
        object_list[:] = received


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Gives one object of a list of one rank to each: it becomes the first of the output list.

    Raises ValueError for lists of other lengths.
    """
    found = _begin(group)
    if found is None:
        return
    if not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    root = _root(found, src, group_src)
    data = b""
    if found.rank() == root:
        objects = scatter_object_input_list
        if objects is None or len(objects) != found.size():
            raise ValueError("scatter_object_input_list has one object for each rank")
        data = pickle.dumps([pickle.dumps(item) for item in objects])
    every = pickle.loads(_from(found._group, data, root, "scatter_object_list"))
    scatter_object_output_list[0] = pickle.loads(every[found.rank()])


def send_object_list(
    object_list: Sequence[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Sends the objects of a list to one rank."""
    found = _begin(group)
    if found is None:
        return
    target, whole = _root(found, dst, group_dst), found._group
    data = np.frombuffer(pickle.dumps(list(object_list)), np.uint8)
    length = np.array([len(data)], np.int64)
    for part in (_bytes(length), data):
        whole.wait(whole.comm.send(part, target, 0), peers=peers_of(found, target))


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receives the objects of a list from one rank, whose number among all it returns."""
    found = _begin(group)
    if found is None:
        return -1
    whole = found._group
    source = -1 if src is None and group_src is None else _root(found, src, group_src)
    length = np.zeros(1, np.int64)
    transfer = whole.comm.receive(_bytes(length), source, 0)
    whole.wait(transfer, peers=peers_of(found, source))
    source = getattr(transfer, "source", source) if source < 0 else source
    data = np.empty(int(length[0]), np.uint8)
    whole.wait(whole.comm.receive(data, source, 0), peers=peers_of(found, source))
    object_list[:] = pickle.loads(bytes(data))
    return found.ranks[source]
