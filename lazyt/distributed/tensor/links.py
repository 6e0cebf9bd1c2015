"""What DTensors and this rank's tensors have in common: who writes to one of them writes to the
other."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from lazyt.functional.overriding import Disabled
from lazyt.handle.dispatch import assign_value, wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.hooks import settle_parts
from lazyt.handle.storage import Memory, Storage, raw
from lazyt.handle.tape import AccumulateGrad
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node
from lazyt.ops.parallel.distribution import DISTRIBUTE, distribute
from lazyt.ops.parallel.layouts import Layout
from lazyt.transforms.partition.partition import part_of, partition

__all__ = ["Link", "link_anew", "link_of", "links", "note_shared", "rewritten", "writes"]


def writes(storage: Storage) -> tuple[int, int]:
    """How often a storage was written to. Its node changes without, where a value is computed."""
    share = storage.share
    return storage.version_now(), 0 if share is None else share.memory.content


class Link:
    """What a storage without history and this rank's tensor have in common.

    Attributes:
        local: the tensor with this rank's part; who writes to it writes to the whole.
        seen: how often both had been written to when they were last compared.
        whole: the storage's value then.
        layout: how the whole is divided.
    """

    __slots__ = ("layout", "local", "seen", "whole")

    def __init__(self, local: Tensor, whole: Node, layout: Layout) -> None:
        self.local, self.whole, self.layout = local, whole, layout
        self.seen: tuple[object, object] = (None, writes(local._storage))


#: The links of storages without history.
links: WeakKeyDictionary[Storage, Link] = WeakKeyDictionary()
#: This rank's tensor of memories that several storages share, such as a tensor's and its
#: ``detach()``'s.
_shared: WeakKeyDictionary[Memory, Tensor] = WeakKeyDictionary()
#: Which value of such a memory (by its number) a link has made of that tensor, and how often the
#: tensor had been written to then: for links of other storages that is no write to the whole.
_settled: WeakKeyDictionary[Memory, tuple[int, tuple[int, int]]] = WeakKeyDictionary()


def _memory_of(storage: Storage) -> Memory | None:
    share = storage.share
    return None if share is None or share.region is not None or share.partial else share.memory


def note_shared(storage: Storage) -> None:
    """Notes the tensor of a storage's memory, where other storages have that memory, too."""
    link, memory = links.get(storage), _memory_of(storage)
    if link is not None and memory is not None:
        _shared.setdefault(memory, link.local)


def link_of(storage: Storage) -> Link | None:
    """The link of a storage, brought up to date: what was written on one side is written to the
    other."""
    link = links.get(storage)
    if link is None:
        return None
    share = storage.share
    whole = storage.node if share is None else storage.current()
    written, local = writes(storage), writes(link.local._storage)
    if share is not None and whole is not link.whole:
        settled = _settled.get(share.memory)
        known = _shared.get(share.memory) is link.local
        if known and settled is not None and settled[0] == share.memory.content:
            link.whole, link.seen = whole, (written, settled[1])
    if whole is not link.whole and written != link.seen[0]:
        with Disabled(modes=False), no_grad():
            part = part_of(raw(whole), link.layout)
            if part is not link.local.node:
                assign_value(link.local, part)
        _settle(storage, link)
    elif local != link.seen[1]:
        _settle(storage, link)
    else:
        link.whole = whole
    return link


def settle(storage: Storage) -> Storage | None:
    """Has the value of a storage come from its part on this rank and from nothing else, after what
    was written to either. Returns the storage of the part where that is a tensor."""
    link, node = link_of(storage), storage.node
    while node.op.is_identity:
        node = node.inputs[0]
    found = None if node.op is DISTRIBUTE else partition(node)
    if found is not None:
        storage._accept(distribute(found.node, found.layout, node.shape))
        if link is not None:
            link.whole = storage.node
    return None if link is None else link.local._storage


settle_parts.append(settle)


def _settle(storage: Storage, link: Link) -> None:
    """Makes the whole that of the part, and forgets how it was computed."""
    fn = storage.fn
    if fn is None or isinstance(fn, AccumulateGrad):
        whole = distribute(link.local.node, link.layout, storage.node.shape)
        with Disabled(modes=False), no_grad():
            storage._accept(whole)
            memory = _memory_of(storage)
            share = storage.share
            if memory is not None and share is not None and memory.value is not whole:
                memory.value = whole
                memory.content += 1
                share.seen = memory.content
            if memory is not None and _shared.get(memory) is link.local:
                _settled[memory] = memory.content, writes(link.local._storage)
    link.whole = storage.node
    link.seen = writes(storage), writes(link.local._storage)


def rewritten(storage: Storage, layout: Layout) -> None:
    """After a function wrote to a storage: the new value is divided as the old one was."""
    if storage in links:
        link_of(storage)
    elif storage.fn is None or isinstance(storage.fn, AccumulateGrad):
        link_anew(storage, layout)
    else:
        partition(storage.node)


def link_anew(storage: Storage, layout: Layout) -> None:
    """Gives a storage without history its part as a tensor on this rank."""
    node = raw(storage.current())
    memory = _memory_of(storage)
    known = None if memory is None else _shared.get(memory)
    with Disabled(modes=False), no_grad():
        part = part_of(node, layout)
        local = known if known is not None and known.node is part else wrap(part)
    link = links[storage] = Link(local, storage.node, layout)
    _settle(storage, link)
