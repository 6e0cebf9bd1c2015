"""Storages: the mutable place behind tensors, over an immutable graph.

A Storage holds the graph value of its whole memory. A write makes a new value; nothing that was
computed from the old one changes. ``detach()`` gives a second Storage over the same memory, with
its own gradient history: a Memory makes the two equal. When NumPy sees the memory too,
the Memory is exposed: writes take effect in it at once, and every read takes the values it has at
that moment, because NumPy may change them at any time.
"""

from __future__ import annotations

import struct
import sys
import threading
import weakref
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.errors import GradientError, LazytError
from lazyt.handle import pending
from lazyt.handle.device import pending_storages, placed_as
from lazyt.handle.grad_mode import INFERENCE, blocks, first_version, mode
from lazyt.handle.hooks import hook
from lazyt.handle.tape import AccumulateGrad, Bridge, GradFn, boundaries, boundary, record_view
from lazyt.handle.views import Bits, Reshape, Slice, View, is_contiguous
from lazyt.ir.dtypes import DType, float32, float64, int64
from lazyt.ir.forms import PLACED, place_of, use
from lazyt.ir.graph import Node
from lazyt.runtime.cpython import forks
from lazyt.runtime.memory import Buffer

# What several Storages, or a Storage and NumPy, have in common when they share memory.


class Exposure:
    """Memory that code outside of the graph can read and write.

    Attributes:
        buffer: the memory.
        token: what every exported array keeps alive; None for memory exposed for good, and for
            NumPy's.
        own: whether the memory is ours, and not NumPy's.
        array: the array of NumPy whose memory it is, while nobody else got its address from us.
    """

    __slots__ = ("array", "buffer", "own", "token")

    def __init__(
        self, buffer: Buffer, token: weakref.ref[Buffer] | None, own: bool = False,
        array: np.ndarray[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        self.buffer = buffer
        self.token = token
        self.own = own
        self.array = array

    @property
    def over(self) -> bool:
        """Whether nobody outside refers to the memory any more."""
        if self.token is not None:
            return self.token() is None
        return self.array is not None and _is_alone(self.array)


def _is_alone(array: np.ndarray[Any, Any], held: int | None = None) -> bool:
    """Whether nobody but an Exposure can reach the memory of its array, which is the array's, or
    that of the array of which it is a view.

    Args:
        held: how many references to the array are its own; None for those that ``_HELD`` has.
    """
    own, of_base = _HELD
    if sys.getrefcount(array) > (own if held is None else held):
        return False
    if weakref.getweakrefcount(array):
        return False
    if array.base is None:
        return array.flags.owndata
    return type(array.base) is np.ndarray and _is_alone(array.base, of_base)


def _references() -> tuple[int, int]:
    """What ``_is_alone`` counts of an array that an Exposure and its buffer hold, and of the base
    of such a view, where nobody else does."""
    counts: list[int] = []

    def count(array: np.ndarray[Any, Any]) -> None:
        counts.append(sys.getrefcount(array))
        if array.base is not None:
            count(array.base)

    array = np.zeros(2)[1:]
    example = Exposure(Buffer.foreign(0, 0, array), None, array=array)
    del array
    count(example.array)  # type: ignore[arg-type]
    return counts[0], counts[1]


class Versions:
    """How often a memory was written to, as autograd counts: ``count``."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class Memory:
    """What Storages of one memory have in common.

    Attributes:
        value: the graph value of the whole, without history.
        content: counts all writes.
        versions: of all Storages but those that ``.data`` made.
        exposure: set while NumPy can see the memory.
    """

    __slots__ = (
        "__weakref__", "content", "exposure", "value", "versions",
    )  # fmt: skip

    def __init__(self, value: Node, version: int) -> None:
        self.value = value
        self.content = 0
        self.versions = Versions(version)
        self.exposure: Exposure | None = None


class Share:
    """A Storage's part in a Memory.

    Attributes:
        memory: the memory.
        seen: the ``content`` that the Storage's node stands for.
        region: how the Storage sees the memory: a part of it, its bits as another dtype, or None
            for the whole as it is.
        partial: whether that leaves out some of the memory.
        versions: the memory's, or others: autograd does not see writes through ``.data``.
        stale: nodes that the Storage had before others wrote to the memory.
    """

    __slots__ = ("memory", "partial", "region", "seen", "stale", "versions")

    def __init__(
        self, memory: Memory, region: View | None, versions: Versions, partial: bool = False
    ) -> None:
        self.memory = memory
        self.seen = memory.content
        self.region = region
        self.versions = versions
        self.partial = partial
        self.stale: list[weakref.ref[Node]] = []


#: Held while memory gets what all who see it share: threads may look at one tensor.
_exposing = forks.guarded(threading.RLock())
#: Of values on devices: the Storage that gave away their address.
_pointed: weakref.WeakKeyDictionary[Buffer, weakref.ref[Storage]] = weakref.WeakKeyDictionary()
#: From this many bytes on memory that was NumPy's is not copied when it is so no more.
_LARGE = 1 << 20
_INFERENCE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone "
    "to get a normal tensor before doing inplace update.See "
    "https://github.com/pytorch/rfcs/pull/17 for more details."
)


#: References to a Memory that one Storage alone has.
_example = Share(Memory(ops.input_((), float32), 0), None, Versions(0))
_LONE = sys.getrefcount(_example.memory)
_HELD = _references()
#: Storages that cannot grow: their memory was NumPy's.
_fixed: weakref.WeakSet[Storage] = weakref.WeakSet()


def raw(node: Node) -> Node:
    """The value without its gradient history."""
    if not node.needs_grad:
        return node
    hidden = ops.detach(node)
    if hidden.data is None:
        hidden.data = node.data
    return hidden


class Storage:
    """One memory with one gradient history.

    Attributes:
        node: the value of the whole, in row-major order; ask ``current()`` for it.
        fn: the grad_fn, or the leaf, of that value.
        version: counts writes while no Memory does.
        share: set once several Storages, or NumPy, share the memory.
    """

    __slots__ = ("__weakref__", "fn", "node", "share", "version")

    def __init__(self, node: Node, fn: GradFn | None = None, share: Share | None = None) -> None:
        self.node = node
        self.fn = fn
        self.share = share
        self.version = first_version() if blocks.open else 0
        if hook.watcher is not None:
            hook.watcher.created(self)

    def current(self) -> Node:
        """The value now."""
        watcher = hook.watcher
        if watcher is not None:
            watcher.read(self)
        share = self.share
        if share is not None:
            self._synchronize(share)
            if watcher is None and sys.getrefcount(share.memory) == _LONE:
                self._leave(share)
        node = self.node
        if node.data is not None and node.inputs and watcher is None:
            return self._settle(node)
        return node

    def version_now(self) -> int:
        """How often the memory was written to, as autograd counts."""
        share = self.share
        return self.version if share is None else share.versions.count

    @property
    def was_written(self) -> bool:
        """Whether the memory was written to since it was made."""
        return self.version_now() not in (0, INFERENCE)

    def touch(self, times: int = 1) -> None:
        """Count changes that are no writes of values, such as another size."""
        if self.share is not None:  # its own count, below zero in inference mode, is not in use
            self.share.versions.count += times
        else:
            self.version += times

    def _settle(self, node: Node) -> Node:
        """Forget how a computed value was made, unless a gradient may still need to know."""
        fn = self.fn
        if fn is None:
            if not node.needs_grad:
                self.node = ops.input_(node.shape, node.dtype, node.data)
        elif node.op.name == "variable" and not node.inputs[0].inputs:
            return node
        elif isinstance(fn, AccumulateGrad):
            self.node = fn.mark(ops.input_(node.shape, node.dtype, node.data))
        elif fn.dead:
            self.node = boundary(ops.input_(node.shape, node.dtype, node.data), Bridge(None))
        return self.node

    def _accept(self, value: Node) -> None:
        """Take over a value that autograd does not know of: the gradient goes on as before."""
        fn = self.fn
        if fn is None:
            self.node = value
        elif isinstance(fn, AccumulateGrad):
            self.node = fn.mark(value)
        else:
            owner, index = boundaries.get(self.node) or (Bridge(self.node), 0)
            self.node = boundary(value, owner, index)

    # ------------------------------------------------------------------ writing

    def write(self, value: Node, fn: GradFn | None) -> None:
        """Make ``value`` the new value of the whole.

        Args:
            value: a node of the same shape and dtype.
            fn: the grad_fn of ``value``, None when it has no gradient.
        """
        if self.version < 0 and not mode.inference:
            raise GradientError(_INFERENCE)
        if use.any:
            value = placed_as(self.node, value)
            if value.form < PLACED:
                pending_storages.add(self)
        if hook.watcher is not None:
            hook.watcher.wrote(self, value)
        elif hook.diaries:
            hook.note(self)
        exposed = self.exposure()
        if not mode.enabled:
            self._accept(raw(value))
        elif value.needs_grad:
            self.node, self.fn = value, fn
        elif self.fn is None:
            self.node = value
        else:  # the old value's gradient is zero, not absent
            rank = len(value.shape)
            self.node = ops.update(self.current(), value, (0,) * rank, (1,) * rank)
            self.fn = fn if fn is not None else record_view("Copy", self.fn)
        self.version += 1
        share = self.share
        if share is not None:
            self._publish(share)
            if exposed is not None:
                self._store(exposed, share.memory)

    def _publish(self, share: Share) -> None:
        memory = share.memory
        value = raw(self.node)
        if share.region is not None:
            exposed = self.exposure()
            if exposed is not None:
                self._refresh(exposed, memory)
            value = share.region.write_back(memory.value, value)
        memory.value = value
        memory.content += 1
        share.versions.count += 1
        share.seen = memory.content

    def _store(self, exposed: Exposure, memory: Memory) -> None:
        """Carry out a write to memory that NumPy sees."""
        pending.realize_now([memory.value], "a write to memory shared with NumPy")
        exposed.buffer.copy_from(memory.value.data.ptr, memory.value.nbytes)

    # ------------------------------------------------------------------ sharing

    def memory(self) -> Memory:
        """The shared memory, made on first use."""
        share = self.share
        if share is None:
            value = raw(self.current())
            with _exposing:
                share = self.share
                if share is None:
                    memory = Memory(value, self.version)
                    share = self.share = Share(memory, None, memory.versions)
        return share.memory

    def _leave(self, share: Share) -> None:
        """Have the memory to itself again, when nobody else shares it any more."""
        shared = share.memory.exposure is not None
        if share.stale:
            share.stale = [item for item in share.stale if item() is not None]
            shared = shared or bool(share.stale)
        if not shared and share.region is None and not share.partial and self.version >= 0:
            self.version = share.versions.count
            self.share = None

    def fork(self, silent: bool = False) -> Storage:
        """A Storage over the same memory without history; ``silent``: with own versions."""
        memory = self.memory()
        assert self.share is not None
        own = self.share
        versions = Versions(0) if silent else own.versions
        share = Share(memory, own.region, versions, own.partial)
        return self._sibling(raw(self.current()), share)

    def _sibling(self, value: Node, share: Share) -> Storage:
        """A Storage over the same memory: made in inference mode if this one was."""
        found = Storage(value, None, share)
        found.version = INFERENCE if self.version < 0 else 0
        return found

    def region(self, view: View) -> Storage:
        """A Storage over the part of the memory that ``view`` shows, without history."""
        memory = self.memory()
        assert self.share is not None
        outer, versions = self.share.region, self.share.versions
        value = raw(view.read(self))
        if outer is not None:
            steps = outer.steps + view.steps
            view = View(view.shape, view.strides, view.offset, steps, view.name)
        return self._sibling(value, Share(memory, view, versions, True))

    def whole(self, dtype: DType) -> Storage:
        """A Storage over all of the memory as elements of ``dtype``.

        It is this one where that is what it covers; else it has no gradient history.
        """
        share = self.share
        if self.node.dtype is dtype and not (share is not None and share.partial):
            return self
        self.current()
        memory = self.memory()
        if hook.watcher is not None:
            hook.watcher.looked_behind(self)
        assert self.share is not None
        value, region = memory.value, None
        if value.dtype is not dtype:
            count = (value.nbytes // dtype.itemsize,)
            region = View(count, (1,), 0, (Reshape((value.size,)), Bits(dtype)), "View")
            value = region.of(value)
        return self._sibling(value, Share(memory, region, self.share.versions))

    @property
    def nbytes(self) -> int:
        """Bytes of the whole memory."""
        return self.node.nbytes if self.share is None else self.share.memory.value.nbytes

    @property
    def is_fixed(self) -> bool:
        """Whether the memory cannot grow, because it is NumPy's or was so."""
        exposed = self.exposure()
        return self in _fixed if exposed is None else not exposed.own

    def enlarge(self, nbytes: int) -> None:
        """Let the memory have ``nbytes`` bytes, more than now; the new ones are zeros.

        Raises LazytError for memory that NumPy owns.
        """
        if self.is_fixed:
            raise LazytError("Trying to resize storage that is not resizable")
        old, version = raw(self.whole(self.node.dtype).current()), self.version_now()
        count = -(-nbytes // old.dtype.itemsize)
        flat = ops.reshape(old, (old.size,))
        memory = Memory(ops.pad(flat, (0,), (count - old.size,), (0,), 0), version)
        head = Slice((0,), (old.size,), (1,))
        region = View(old.shape, (), 0, (head, Reshape(old.shape)), "View")
        versions = memory.versions
        if self.share is not None:
            if self.share.versions is not self.share.memory.versions:
                versions = self.share.versions
            if self.share.partial and self.share.region is not None:
                steps = region.steps + self.share.region.steps
                region = View(self.node.shape, (), 0, steps, "View")
        self.share = Share(memory, region, versions, True)

    def exposure(self) -> Exposure | None:
        """The live exposure; one that nobody refers to any more ends here."""
        if self.share is None or self.share.memory.exposure is None:
            return None
        memory = self.share.memory
        exposed = memory.exposure
        if exposed is not None and exposed.over:
            value = memory.value
            last = value.data if hook.watcher is not None else None
            if last is not None and last.ptr != exposed.buffer.ptr and exposed.buffer.holds(last):
                pass  # a transform knows the value by its node
            elif exposed.own or exposed.buffer.nbytes >= _LARGE:
                memory.value = ops.input_(value.shape, value.dtype, exposed.buffer)
                memory.content += 1  # NumPy may have written
            else:  # kernels write over no memory of NumPy's
                self._refresh(exposed, memory)
            memory.exposure = None
            if not exposed.own:
                _fixed.add(self)
            return None
        return exposed

    def expose(self, forever: bool = False) -> Buffer:
        """The memory for use outside of the graph.

        Args:
            forever: whether it stays exposed though nobody holds the result.

        Returns: a token to build arrays on; the memory is exposed while it lives.
        """
        memory = self.memory()
        exposed = self.exposure()
        if memory.value.form < PLACED:
            raise LazytError(
                f"the memory of a tensor on {place_of(memory.value.form)} cannot be seen from the "
                "host: use Tensor.cpu() first"
            )
        value = None
        if exposed is None:
            value = self.memory_value()
            pending.realize_now([value], "its memory is looked at from outside")
        with _exposing:  # what one thread gets an address of, no other replaces
            if self.share is None or self.share.memory is not memory:
                return self.expose(forever)
            exposed = memory.exposure if value is not None else exposed
            if exposed is None:
                assert value is not None
                buffer = Buffer(value.nbytes)  # of its own: graph values are never written to
                buffer.copy_from(value.data.ptr, value.nbytes)
                exposed = memory.exposure = Exposure(buffer, None, True)
            elif exposed.token is None:
                forever, exposed.array = True, None
            token = exposed.token() if exposed.token is not None else None
            if token is None:
                token = Buffer.foreign(exposed.buffer.ptr, exposed.buffer.nbytes, exposed.buffer)
            exposed.token = None if forever else weakref.ref(token)
            return token

    def placed_pointer(self) -> int:
        """The address of the values on a device. Memories that have one value in common, such as
        a clone's, get one each when they are asked."""
        node = self.current()
        pending.realize_now([node], "data_ptr()")
        known = _pointed.get(node.data)
        other = known() if known is not None else None
        if other is None or other.node.data is not node.data:
            _pointed[node.data] = weakref.ref(self)
        elif not self._has_memory_of(other) and hook.watcher is None:
            value = ops.input_(node.shape, node.dtype, node.data.copy())
            self._accept(value)
            share = self.share
            if share is not None and share.region is None:
                share.memory.value = value
                share.memory.content += 1
                share.seen = share.memory.content
            _pointed[value.data] = weakref.ref(self)
            return int(value.data.ptr)
        return int(node.data.ptr)

    def _has_memory_of(self, other: Storage) -> bool:
        if self.share is None or other.share is None:
            return self is other
        return self.share.memory is other.share.memory

    def memory_value(self) -> Node:
        """The value of the whole memory, of which the Storage may cover a region."""
        self.current()
        if hook.watcher is not None:
            hook.watcher.looked_behind(self)
        return self.memory().value

    def _synchronize(self, share: Share) -> None:
        memory = share.memory
        exposed = self.exposure()
        if exposed is not None:
            self._refresh(exposed, memory)
        elif memory.value.data is not None and memory.value.inputs and hook.watcher is None:
            value = memory.value
            memory.value = ops.input_(value.shape, value.dtype, value.data)
        if share.seen != memory.content:
            share.seen = memory.content
            share.stale = [item for item in share.stale if item() is not None]
            share.stale.append(weakref.ref(self.node))
            value = memory.value
            self._accept(value if share.region is None else share.region.of(value))

    def _refresh(self, exposed: Exposure, memory: Memory) -> None:
        """Take a snapshot of all of an exposed memory, unless nobody wrote to it since the last."""
        value = memory.value
        last = value.data
        if last is not None and last.ptr != exposed.buffer.ptr and exposed.buffer.holds(last):
            return
        memory.value = _snapshot(exposed.buffer, value.dtype, 0, value.shape)
        memory.content += 1

    def snapshot(self, view: View, last: Node | None = None) -> Node | None:
        """What ``view`` shows of an exposed memory at this moment; None when it is not exposed.

        Only the view's own elements are copied, if ``last``, an earlier snapshot, is no longer it.
        """
        exposed = self.exposure()
        share = self.share
        if exposed is None or share is None or share.region is not None or self.fn is not None:
            return None
        value = share.memory.value
        if is_contiguous(view.shape, view.strides) and not view.conjugated:
            dtype = view.dtype or value.dtype
            if last is not None and last.data is not None and hook.watcher is None:
                begin = exposed.buffer.ptr + view.offset * dtype.itemsize
                if last.data.equals(begin):
                    return last
            return _snapshot(exposed.buffer, dtype, view.offset, view.shape)
        whole = ops.input_(value.shape, value.dtype, exposed.buffer)
        part = view.of(whole)
        pending.realize_now([part], "a read of memory shared with NumPy")
        return ops.input_(part.shape, part.dtype, part.data)


def _snapshot(source: Buffer, dtype: DType, offset: int, shape: tuple[int, ...]) -> Node:
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    copy = Buffer(nbytes)
    copy.copy_from(source.ptr + offset * dtype.itemsize, nbytes)
    pending.spend_bytes(nbytes)
    return ops.input_(shape, dtype, copy)


# Memory of one number that Python counts with.

_PACKED = {float32: struct.Struct("f"), float64: struct.Struct("d"), int64: struct.Struct("q")}
#: The slot of every Storage that ``CountStorage`` fills when it is read.
_node: Any = vars(Storage)["node"]


def number_leaf(value: Any, dtype: DType) -> Node | None:
    """A leaf on the CPU that holds a Python number; None for what takes rounding to infinity, a
    check, or another dtype than the usual ones."""
    form = _PACKED.get(dtype)
    if form is None:
        return None
    try:
        content = form.pack(value)
    except (OverflowError, struct.error):
        return None
    buffer = Buffer(dtype.itemsize)
    buffer.copy_from(content)
    return ops.input_((), dtype, buffer)


def count_leaf(value: float, dtype: DType) -> Node:
    """A leaf that holds a float, where it is known to fit ``dtype``, a float type."""
    found = number_leaf(value, dtype)
    assert found is not None
    return found


class CountStorage(Storage):
    """Memory of one number, which is a Python float until somebody asks for its graph value.

    Optimizers count their steps so: to count makes no graph, no memory and no kernel.

    Attributes:
        count: the number, None where the graph value is what holds it. It is None where other
            Storages share the memory, or autograd knows of it: who makes that so asks for the graph
            value first.
        dtype: float32 or float64.
    """

    __slots__ = ("count", "dtype")

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.dtype = node.dtype

    @property
    def node(self) -> Node:
        """The value; a leaf that is made now where it was a Python float."""
        if self.count is not None:
            self.node = count_leaf(self.count, self.dtype)
        found: Node = _node.__get__(self)
        return found

    @node.setter
    def node(self, value: Node) -> None:
        self.count: float | None = None
        _node.__set__(self, value)
