"""Collectives run: each is started as soon as its operand is there, and waited for when its value
is needed.

The ranks of a group start their collectives in one order: that in which the program makes them,
and in a graph that is computed again, that of their numbers. What a rank computes between a start
and the first use of the value overlaps with the transfer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lazyt.errors import warn
from lazyt.ir.forms import PLACED, place_of
from lazyt.ir.graph import Node, source_text, topological
from lazyt.ops.leaves import INPUT
from lazyt.ops.parallel.collectives import COLLECTIVE, CollectiveParams, renumber, runners
from lazyt.runtime import events
from lazyt.runtime.interpreter import load, store
from lazyt.runtime.memory import Buffer
from lazyt.runtime.ranks.engine import Transfer
from lazyt.runtime.ranks.groups import Collective, Group, as_bytes, named, note_transfer

if TYPE_CHECKING:
    from lazyt.runtime.ranks.device_engine import NcclEngine

#: What computes the graph of some nodes: ``planning.realize``.
Realize = Callable[[Sequence[Node]], list[Node]]


class Call(NamedTuple):
    """A collective apart from its node, which forgets how it was made once its value is there.

    Attributes:
        what, lane, group: what the group does, in which lane, and its name.
        text, line: what all ranks have to call, and where the program does.
        written: what the program calls, which is ``text`` or a function made of it.
        sent, nbytes: sizes of the operand and of the value.
        place: the device of both; empty for the CPU.
    """

    what: Collective
    lane: int
    group: str
    text: str
    line: str
    sent: int
    nbytes: int
    place: str
    written: str

    @staticmethod
    def of(call: Node) -> Call:
        """What a node that has no value yet stands for."""
        params: CollectiveParams = call.params
        sent, line = call.inputs[0].nbytes, source_text(call.source)
        return Call(
            _sized(call), params.lane, params.group, description(call), line, sent, call.nbytes,
            place_of(call.form), written(call),
        )  # fmt: skip


class Started(NamedTuple):
    """A collective that is under way.

    Attributes:
        call: what it is.
        transfer, group, number: what waits for it.
        source, buffer: its operand, and where its value will be.
        begin: for those who time what runs.
    """

    call: Call
    transfer: Transfer
    group: Group
    number: int
    source: Any
    buffer: Buffer
    begin: float

    def wait(self) -> Buffer:
        """Its value, when it is there. Raises RankFailure."""
        call, waiting = self.call, time.monotonic()
        sizes = call.sent, call.nbytes
        self.group.wait(self.transfer, self.number, lane=call.lane, nbytes=sum(sizes))
        if events.watching:  # who times what runs wants to know when it is there
            self.transfer.finish()
        note_transfer(call.text, call.line, self.begin, *sizes, waiting)
        if call.place and not self.buffer.place:
            from lazyt.runtime.cuda.device import device_at

            return device_at(call.place).upload(self.buffer)
        return self.buffer


#: What has been made and not started, in order, and what is under way.
_made: list[Node] = []
_started: dict[Node, Started] = {}
_working = threading.RLock()


def made(node: Node) -> None:
    """Notes a collective that the program has made: the group's next one. A lone rank runs its own
    where a value is needed, as nobody waits for it."""
    if node.params.size > 1:
        _made.append(node)


def are_made(calls: Sequence[Node]) -> bool:
    """Whether collectives are still to be started, or a lone rank's without a value."""
    return all(call.data is None and (call.params.size == 1 or call in _made) for call in calls)


def take(calls: Sequence[Node]) -> None:
    """Somebody else starts these, in their order."""
    taken = set(calls)
    with _working:
        _made[:] = [call for call in _made if call not in taken]


def start_made(realize: Realize) -> None:
    """Starts what has been made, in order; computes the operands. Raises RankFailure."""
    with _working:
        while _made:
            _start_ready(realize)
            if _made:
                _start_at(0, realize)
        renumber()


def advance(realize: Realize) -> None:
    """Starts what has been made, in the order of each lane, up to the first that would have to wait
    for a transfer. Raises RankFailure."""
    if _advancing or not _made:
        return
    with _working:
        _start_ready(realize)
        if not _made:
            renumber()


def _start_ready(realize: Realize) -> None:
    """Starts what has to wait for nothing.

    Two ranks may do so in different orders of the lanes. Before it waits, a rank therefore starts
    all that was made before what it waits for: so the first that any rank waits for is one that
    all will have started.
    """
    if _advancing:
        return
    _advancing.append(True)
    try:
        at, behind = 0, set()
        while at < len(_made):
            params: CollectiveParams = _made[at].params
            lane = params.group, params.lane
            if lane in behind or (at and not _is_agreed(_made[at])) or not _is_ready(_made[at]):
                behind.add(lane)
                at += 1
            else:
                _start_at(at, realize)
                at, behind = 0, set()
    finally:
        _advancing.pop()


def _is_ready(call: Node) -> bool:
    """Whether the operand of a collective can be computed without a pause."""
    return all(map(is_complete, _before(call.inputs[0])))


def _is_agreed(call: Node) -> bool:
    """Whether all ranks have come to the line of a collective before: the first time they wait for
    each other."""
    return named(call.params.group).knows(description(call), source_text(call.source))


def _start_at(place: int, realize: Realize) -> None:
    """Starts one of what was made. One whose operand has no values, in a function that ``vmap`` or
    another transform looks at, is none of the program's."""
    call = _made.pop(place)
    if is_of_program(call):
        _start(call, realize)


def is_of_program(call: Node) -> bool:
    """Whether the operand of a collective has values, or can be computed."""
    order = topological([call.inputs[0]], lambda item: item.data is not None)
    return not any(item.op is INPUT and item.data is None for item in order)


_advancing: list[bool] = []


def _before(node: Node) -> list[Node]:
    """The collectives without a value that a value comes from, itself among them."""
    order = topological([node], lambda item: item.data is not None)
    return [item for item in order if item.op is COLLECTIVE and item.data is None]


def is_complete(call: Node) -> bool:
    """Whether a collective is there, or could be waited for without a pause; moves it on."""
    if call.data is not None:
        return True
    found = _started.get(call)
    if found is not None:
        return found.transfer.test()
    return call.op is not COLLECTIVE and all(map(is_complete, _before(call)))


def is_done(call: Node) -> bool:
    """Whether a collective has its value, on its device, too; moves it on."""
    found = _started.get(call)
    return found.transfer.is_done() if found is not None else is_complete(call)


def start(calls: Sequence[Node], realize: Realize) -> None:
    """Starts those of some collectives that have not been, in the order of their numbers; first
    what was made before them."""
    with _working:
        wanted = set(calls)
        while not wanted.isdisjoint(_made):
            _start_ready(realize)
            if not wanted.isdisjoint(_made):
                _start_at(0, realize)
        for call in sorted(calls, key=lambda node: node.params.number):
            if call.data is None and call not in _started:
                _start(call, realize)


def settle(realize: Realize) -> None:
    """Starts what has been made and waits for all that is under way: before a rank ends, as others
    wait for it. Raises RankFailure."""
    with _working:
        start_made(realize)
        for call in list(_started):
            finish(call)


def finish(call: Node) -> None:
    """Waits until a collective that was started has its value. Raises RankFailure."""
    with _working:
        found = _started.get(call)
        if found is None:
            return
        call.data = found.wait()
        del _started[call]


def forget() -> None:
    """Forgets what has not begun and what is under way: the groups are destroyed."""
    _made.clear()
    _started.clear()


def _start(call: Node, realize: Realize) -> None:
    (operand,) = call.inputs
    if operand.data is None:
        value = operand  # another shape of a value is the same memory
        while value.data is None and (value.op.is_identity or value.op.name == "reshape"):
            value = value.inputs[0]
        if value.data is None:
            realize([value])
        operand.data = value.data
    what = Call.of(call)
    group = named(what.group)
    number = group.come_to(what.text, what.line, lane=what.lane, written=what.written)
    _started[call] = begin(what, group, number, operand.data)


def begin(call: Call, group: Group, number: int, operand: Buffer) -> Started:
    """Begins a collective of a group, whose number it has; the value of the operand is there."""
    if call.place and group.devices is not None:
        return _begin_on_device(call, group, group.devices, number, operand)
    if call.place:
        announce_host_copies(call.place, group)
    buffer = Buffer(call.nbytes)
    source = as_bytes(operand, call.sent)
    now = time.monotonic()
    target = as_bytes(buffer, call.nbytes)
    transfer = group.start(call.what, source, target, call.lane)
    return Started(call, transfer, group, number, source, buffer, now)


def _begin_on_device(
    call: Call, group: Group, engine: NcclEngine, number: int, operand: Buffer
) -> Started:
    from lazyt.runtime.cuda.device import device_at
    from lazyt.runtime.ranks.device_engine import Subject

    target = device_at(call.place).allocate(call.nbytes)
    now = time.monotonic()
    subject = Subject(call.written, call.line, number, call.lane)
    transfer = engine.start(call.what, operand, call.sent, target, subject)
    return Started(call, transfer, group, number, operand, target, now)


#: Devices whose collectives go through host memory, as was said.
_announced: set[str] = set()


def announce_host_copies(place: str, group: Group) -> None:
    """Warns, once for each device, that values go through host memory between ranks."""
    if place not in _announced:
        _announced.add(place)
        warn(
            f"tensors on {place} are copied to the host and back for collectives of group "
            f"{group.name!r}, which moves host memory: backend='nccl' moves device memory"
        )


def description(call: Node) -> str:
    """What all ranks of a group have to call: kind, dtype, shape, and what they make of it."""
    params: CollectiveParams = call.params
    shape = list(call.inputs[0].shape)
    if params.kind == "all_to_all":  # of which ranks have different numbers of rows
        shape[0:1] = ["rows"]  # type: ignore[list-item]
    text = f"{params.kind} {call.dtype.name}[{', '.join(map(str, shape))}]"
    if call.form < PLACED:
        text += f" on {place_of(call.form).partition(':')[0]}"
    if params.reduction:
        text += f" for {params.reduction}"
    if params.kind == "broadcast":
        return f"{text} from {params.root}"
    if params.kind == "permute":
        return f"{text} {' '.join(f'{a}->{b}' for a, b in params.pairs)}"
    return text


def written(call: Node) -> str:
    """What the program calls: ``description`` where it calls the collective itself."""
    params: CollectiveParams = call.params
    if not params.written:
        return description(call)
    device = f" on {place_of(call.form).partition(':')[0]}" if call.form < PLACED else ""
    return params.written + device + (f" for {params.reduction}" if params.reduction else "")


def _computed(call: Node) -> str:
    """The line of a table: what the program calls, and what moves for it."""
    over = f"over {call.params.size} ranks of {call.params.group}"
    called, moved = written(call), description(call)
    return f"{called} {over}" + (f", by {moved}" if called != moved else "")


def _sized(call: Node) -> Collective:
    """The collective with bytes in the place of rows."""
    params: CollectiveParams = call.params
    row = call.nbytes // call.shape[0] if call.shape and call.shape[0] else 0
    if not row and call.inputs[0].shape and call.inputs[0].shape[0]:
        row = call.inputs[0].nbytes // call.inputs[0].shape[0]
    sent, received = (tuple(count * row for count in c) for c in (params.sent, params.received))
    return Collective(params.kind, sent, received, params.root, params.pairs)


def _alone(node: Node, array: Any) -> Any:
    """A collective by itself, for the interpreter."""
    group = named(node.params.group)
    # 16-bit floats travel as other ranks have them in memory.
    stored = np.ascontiguousarray(store(array, node.inputs[0].dtype))
    source, target = stored.reshape(-1).view(np.uint8), np.empty(node.nbytes, np.uint8)
    line = source_text(node.source)
    group.run(_sized(node), source, target, description(node), line, written(node))
    return load(target.view(stored.dtype).reshape(node.shape), node.dtype)


def note(call: Node) -> dict[str, Any]:
    """What a plan's notes say about a kernel, about a collective."""
    params: CollectiveParams = call.params
    again = "it is gathered again, as its memory was given back after the last use before"
    return {
        "name": params.kind,
        "kind": "collective",
        "computes": [_computed(call)],
        "bytes_read": call.inputs[0].nbytes,
        "bytes_written": call.nbytes,
        "flops": 0,
        "scratch": 0,
        "phases": 1,
        "reasons": [
            "it is started when its operand is there, and waited for where its value is needed",
            *_moved_by(call),
            *([again] if params.resharded < 0 else []),
        ],
        "sources": [] if call.source is None else [source_text(call.source)],
    }


def _moved_by(call: Node) -> list[str]:
    """What moves the values of a device."""
    place = place_of(call.form)
    if not place:
        return []
    engine = named(call.params.group).devices
    if engine is None:
        return [f"copied from {place} to the host, moved by MPI, and copied back"]
    return [f"moved by {engine.title} between the memories of devices, this rank's {place}"]


runners.append(_alone)
__all__ = [
    "COLLECTIVE", "Call", "Started", "advance", "announce_host_copies", "are_made", "begin",
    "description", "finish", "forget", "is_complete", "is_done", "is_of_program", "made", "note",
    "settle", "start", "start_made", "take", "written",
]  # fmt: skip
