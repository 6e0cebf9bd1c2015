"""Levels: functions run on symbolic leaves, whose graph a transform then changes.

A function transform (``lazyt.func``) enters a level, runs the function on leaves of its own, leaves
the level, and takes the results' graph to where the leaves are replaced: by the values they
stand for (derivatives), or by values with one more axis (``vmap``). Levels nest; each removes its
own leaves, so that what comes out is an ordinary graph for the level around it.

While a level is on, its watcher hears of new storages, writes and looks at values: what the
transform could not do right is refused at the line that does it, in PyTorch's words.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lazyt import ops
from lazyt.autograd.node_hooks import run_hooks
from lazyt.errors import GradientError, LazytError
from lazyt.handle import pending
from lazyt.handle.grad_mode import mode
from lazyt.handle.hooks import hook
from lazyt.handle.tape import AccumulateGrad, GradFn, boundaries, boundary
from lazyt.ir.graph import Node, remake
from lazyt.ops.leaves import VARIABLE
from lazyt.tracing.capture import _lock as watching_lock

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from types import FrameType

    from lazyt.handle.storage import Storage


# Taking a graph out of a level: its leaves are replaced, boundaries included.
#
# ``replaced`` puts other values in the place of leaves; ``batched`` puts values with one more axis
# there, and every op that depends on them works on all examples at once. A boundary (a custom
# function, a hook) becomes a boundary again where a gradient may still come from outside: when that
# arrives, the old one is asked, and what it says is taken out of the level in the same way.


Table = dict[Node, Node]


def replaced(roots: Sequence[Node], table: Table) -> list[Node]:
    """``roots`` over ``table[leaf]`` instead of each leaf; leaves need gradients.

    What needs no gradient would be right with the leaves, which are identities, but two versions
    of one value would be computed twice. ``table`` is filled.
    """
    _carry(roots, table, _is_done, _remade, _ReplacedFn, lambda node: replaced([node], table)[0])
    return [table.get(root, root) for root in roots]


def batched(roots: Sequence[Node], table: Table, level: Level) -> list[Node | None]:
    """``roots`` for all examples, on a new leading axis; None for what is the same for all.

    ``table`` has every symbol of ``level`` with its values, and is filled.
    """

    def value(node: Node) -> Node:
        (found,) = batched([node], table, level)
        return repeated(node, level.size) if found is None else found

    kind = _maker(level)
    _carry(roots, table, lambda node: node.data is not None, _all_examples, kind, value)
    return [table.get(root) for root in roots]


def repeated(node: Node, size: int) -> Node:
    """``node`` with a leading axis of ``size``."""
    return ops.broadcast_to(node, (size, *node.shape))


def _is_done(node: Node) -> bool:
    return node.data is not None and not node.needs_grad


def _remade(node: Node, table: Table) -> Node:
    items = tuple(table.get(item, item) for item in node.inputs)
    if node.op is VARIABLE:
        return ops.variable(items[0], node.params.uid)
    if node.op is ops.DETACH:
        return ops.detach(items[0])
    return remake(node, items)


def _all_examples(node: Node, table: Table) -> Node:
    flags = [item in table for item in node.inputs]
    return node.op.batch(node, [table.get(item, item) for item in node.inputs], flags)


def _below(node: Node) -> Sequence[Node]:
    known = boundaries.get(node) if node.op is VARIABLE else None
    return node.inputs if known is None else (*node.inputs, *known[0].below())


def _carry(
    roots: Sequence[Node],
    table: Table,
    ends: Callable[[Node], bool],
    change: Callable[[Node, Table], Node],
    kind: Callable[[GradFn, Table], GradFn],
    value: Callable[[Node], Node],
) -> None:
    """Fill ``table`` with what everything between its leaves and ``roots`` becomes.

    ``ends`` tells where to stop, ``change`` what a node becomes, ``kind`` what the grad_fn of a
    boundary becomes and ``value`` what the value behind it does.
    """
    fns: dict[GradFn, GradFn] = {}
    seen: set[Node] = set()
    waiting: list[tuple[Node, bool]] = [(root, False) for root in roots]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            below = _below(node)
            if any(item in table for item in below):
                known = boundaries.get(node) if node.op is VARIABLE else None
                if known is None:
                    table[node] = change(node, table)
                else:
                    table[node] = _across(node, known, table, fns, kind, value)
            continue
        if node in seen or node in table or ends(node):
            continue
        seen.add(node)
        waiting.append((node, True))
        waiting.extend((item, False) for item in _below(node) if item not in seen)


def _across(
    node: Node,
    known: tuple[GradFn, int],
    table: Table,
    fns: dict[GradFn, GradFn],
    kind: Callable[[GradFn, Table], GradFn],
    value: Callable[[Node], Node],
) -> Node:
    """What a boundary becomes."""
    hidden = node.inputs[0]
    while hidden.op is ops.DETACH:
        hidden = hidden.inputs[0]
    fn, index = known
    found = value(hidden)
    if not any(table.get(item, item).needs_grad for item in fn.below()):
        return ops.detach(found) if found.needs_grad else found
    if fn not in fns:
        fns[fn] = kind(fn, table)
    return boundary(found, fns[fn], index)


class _CarriedFn(GradFn):
    """A boundary outside of the level where it was made."""

    __slots__ = ("inner", "table")

    def __init__(self, inner: GradFn, table: Table) -> None:
        self.begin()
        self.inner = inner
        self.table = table

    def name(self) -> str:
        """The name of the boundary that it stands for."""
        return self.inner.name()

    def below(self) -> list[Node]:
        """What the boundary depends on, outside of the level."""
        return [self.table.get(item, item) for item in self.inner.below()]


class _ReplacedFn(_CarriedFn):
    """A boundary whose level's leaves are replaced by their values."""

    __slots__ = ()

    def advance(self, cotangents: list[Node | None]) -> list[tuple[Node, Node]]:
        """What the boundary says, outside of the level."""
        pairs = self.inner.advance(cotangents)
        flat = replaced([node for pair in pairs for node in pair], self.table)
        return list(zip(flat[::2], flat[1::2]))


class _BatchedFn(_CarriedFn):
    """A boundary for all examples at once: it is asked for one, symbolically."""

    __slots__ = ("level",)

    level: Level

    def below(self) -> list[Node]:
        """What the boundary depends on, for all examples."""
        batched(self.inner.below(), self.table, self.level)
        return super().below()

    def advance(self, cotangents: list[Node | None]) -> list[tuple[Node, Node]]:
        """What the boundary says, for all examples; summed for what all of them share."""
        level = Level(self.level.size, self.level.randomness)
        level.symbols = dict(self.level.symbols)
        table = dict(self.table)
        symbols: list[Node | None] = []
        for cotangent in cotangents:
            if cotangent is None:
                symbols.append(None)
            else:
                symbols.append(symbol(level, cotangent))
                table[symbols[-1] or cotangent] = cotangent
        with entered(level):
            if symbols[0] is not None:
                symbols[0] = run_hooks(self.inner, symbols[0], mode.enabled)
            pairs = self.inner.advance(symbols)
        table.update(level.symbols)
        found = []
        for node, part in pairs:
            whole, many = batched([node, part], table, level)
            many = repeated(part, level.size) if many is None else many
            if whole is None:
                found.append((node, ops.reduce_("sum", many, (0,))))
            else:
                found.append((whole, many))
        return found


def _maker(level: Level) -> Callable[[GradFn, Table], GradFn]:
    def made(inner: GradFn, table: Table) -> GradFn:
        fn = _BatchedFn(inner, table)
        fn.level = level
        return fn

    return made


_marks = iter(range(-1, -(1 << 62), -1))


def symbol(level: Level, values: Node) -> Node:
    """A new leaf of ``level`` for one example of ``values``, whose first axis counts them."""
    leaf = ops.input_(values.shape[1:], values.dtype)
    if values.needs_grad:
        leaf = ops.variable(leaf, next(_marks))  # so that no_grad and detach say what they do
    level.symbols[leaf] = values
    return leaf


_CAPTURED = (
    "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call "
    "in-place operation (aten::{name}) that would mutate a captured Tensor. This is not supported; "
    "please rewrite the function being transformed to explicitly accept the mutated Tensor(s) as "
    "inputs."
)
_UNBATCHED = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor "
    "`other` in extra_args that has more elements than `self`. This happened due to `other` being "
    "vmapped over but `self` not being vmapped over in a vmap. Please try to use out-of-place "
    "operators instead of inplace arithmetic."
)
_ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling "
    ".item() on a Tensor, please try to rewrite what you're doing with other operations: the "
    "examples have one value each."
)
_CONTROL = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. "
    "We don't support that yet: all examples take the same way through the program. Compute both "
    "results and choose with where()."
)
_DYNAMIC = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap "
    "over aten::{name}, whose result would have another shape for each example."
)
_MASK = (
    "vmap: We do not support batching operators that can support dynamic shape. Attempting to "
    "batch over indexing with a boolean mask."
)
# Modules whose functions are wrapped around others.
_AROUND = frozenset({
    "lazyt.autograd.derivatives", "lazyt.autograd.vectorizing", "lazyt.functional.calls",
    "lazyt.functional.results", "lazyt.handle.autocast", "lazyt.handle.dispatch",
    "lazyt.tracing.jit",
})  # fmt: skip
# Where shapes that depend on values come from; brackets call it, too.
_MASKS = "lazyt.functional.indexing.masks"
_BRACKETS = "lazyt.functional.indexing.brackets"
_NO_MEMORY = "Cannot access data pointer of Tensor that doesn't have storage"
_RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)


class Level:
    """One transform that is running a function.

    Attributes:
        born: storages made since, by identity.
        symbols: leaves without a value that stand for one of many examples, with all of them.
        randomness: what random functions do: "error", "same" or "different".
        size: the number of examples; 0 for derivatives.
    """

    def __init__(self, size: int = 0, randomness: str = "same") -> None:
        self.size = size
        self.randomness = randomness
        self.born: dict[int, Storage] = {}
        self.symbols: dict[Node, Node] = {}

    def depends(self, nodes: Iterable[Node]) -> bool:
        """Whether one of ``nodes`` is computed from a symbol."""
        if not self.symbols:
            return False
        seen: set[Node] = set()
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if node in self.symbols:
                return True
            if node not in seen and node.data is None:
                seen.add(node)
                stack.extend(node.inputs)
        return False

    def refuse_write(self, value: Node) -> None:
        """Raises where memory from outside may not be given ``value``."""
        if self.size == 0:
            raise GradientError(_CAPTURED.format(name=_writer()))
        if self.depends((value,)):
            raise GradientError(_UNBATCHED)

    def refuse_look(self, reason: str) -> None:
        """Raises because the program looks at values that depend on a symbol."""
        raise LazytError(_look_error(reason))

    def whole(self, node: Node) -> Node:
        """All values that ``node`` has among the examples."""
        if not self.symbols:
            return node
        (found,) = batched([node], dict(self.symbols), self)
        return node if found is None else found


class _Stack(threading.local):
    """The levels of one thread, outermost first."""

    def __init__(self) -> None:
        self.levels: list[Level] = []


stack = _Stack()


def _key_of_examples(key: Node) -> Node:
    """What a random function inside of ``vmap`` uses for ``key``: one for all, or one of many.

    Raises LazytError where randomness is an error.
    """
    for level in stack.levels:
        if level.size and level.randomness == "error":
            raise LazytError(_RANDOM)
    for level in stack.levels:
        if level.size and level.randomness == "different":
            many = ops.random(key, (level.size, 2))
            key = symbol(level, many)
    return key


class _Watcher:
    """Hears what happens while levels are on, and tells the capture around them, if one is."""

    def __init__(self, outer: Any) -> None:
        self.outer = outer
        self.thread = threading.get_ident()

    @property
    def mine(self) -> bool:
        """Whether this thread is the one with the levels."""
        return threading.get_ident() == self.thread

    def read(self, storage: Storage) -> None:
        """``storage`` is about to be read."""
        if self.outer is not None:
            self.outer.read(storage)

    def wrote(self, storage: Storage, value: Node) -> None:
        """``storage`` is about to be given ``value``. Raises GradientError where that would leave
        a level."""
        if self.outer is not None:
            self.outer.wrote(storage, value)
        if not self.mine:
            return
        for level in reversed(stack.levels):
            if id(storage) in level.born:
                return
            level.refuse_write(value)

    def looked_behind(self, storage: Storage) -> None:
        """All of a memory is about to be read."""
        if self.outer is not None:
            self.outer.looked_behind(storage)

    def created(self, storage: Storage) -> None:
        """``storage`` is new."""
        if self.mine and stack.levels:
            stack.levels[-1].born[id(storage)] = storage
        if self.outer is not None:
            self.outer.created(storage)

    def verified(self, node: Node) -> bool:
        """Whether every call of a captured function tells; not of all examples together."""
        if any(level.depends([node]) for level in stack.levels):
            return False
        return self.outer is not None and self.outer.verified(node)

    def looked(self, reason: str, where: str, nodes: Sequence[Node]) -> None:
        """The program looks at values. Raises LazytError where they are those of all examples."""
        for level in reversed(stack.levels) if self.mine else ():
            if level.depends(nodes):
                level.refuse_look(reason)
        if self.outer is not None:
            self.outer.looked(reason, where, nodes)

    def number(self, node: Node, reason: str) -> int | None:
        """None: values of examples are nobody's, and those of other tensors are looked at."""
        return None

    def checked(self, node: Node, bounds: tuple[tuple[int, int], tuple[int, int]]) -> None:
        """An index was found in range."""
        if self.outer is not None:
            self.outer.checked(node, bounds)

    def communicated(self, node: Node) -> None:
        """A collective is made."""
        if self.outer is not None:
            self.outer.communicated(node)

    def accumulated(self, leaf: AccumulateGrad) -> None:
        """A leaf receives a gradient."""
        if self.outer is not None:
            self.outer.accumulated(leaf)

    def differentiated(self, order: Sequence[GradFn]) -> None:
        """A backward runs through these."""
        if self.outer is not None:
            self.outer.differentiated(order)

    def filled(self, make: Callable[[], Node], key: Hashable) -> Node:
        """A leaf that Python fills."""
        found: Node = make() if self.outer is None else self.outer.filled(make, key)
        return found

    def random_key(self, make: Callable[[], Node]) -> Node:
        """The key of a random function: one for all examples, or one for each."""
        key: Node = make() if self.outer is None else self.outer.random_key(make)
        return _key_of_examples(key)

    def whole(self, node: Node) -> Node:
        """The node for all examples of all levels."""

        for level in reversed(stack.levels):
            node = level.whole(node)
        return node if self.outer is None else self.outer.whole(node)

    def counted(
        self, table: Mapping[str, Any], names: tuple[str, ...], value: Hashable
    ) -> Hashable:
        """Numbers are computed from a table."""
        return value if self.outer is None else self.outer.counted(table, names, value)

    def renewed(self, storage: Storage, name: str) -> None:
        """Python gives the storage another value on every call."""
        if self.outer is not None:
            self.outer.renewed(storage, name)

    def each_call(self, function: Callable[[], Any]) -> Any:
        """Something that Python does on every call."""
        return function() if self.outer is None else self.outer.each_call(function)


def _writer() -> str:
    """The in-place function that is running."""
    frame = sys._getframe(1)
    name = "copy_"
    while frame.f_back is not None and "lazyt" in frame.f_globals.get("__name__", ""):
        code = frame.f_code.co_name
        if code == "write" and "name" in frame.f_locals:
            name = str(frame.f_locals["name"])
        elif code.endswith("_") and not code.startswith("_"):
            name = code
        frame = frame.f_back
    if name.startswith("__i"):
        name = name[3:-2] + "_"
    overload = ".Tensor" if name in ("add_", "sub_", "mul_", "div_") else ""
    return name + overload


def _calls_of_the_library() -> Iterator[list[tuple[str, str]]]:
    """(module, function) of frames on the stack, innermost first, in stretches without others.

    What a program puts around functions, such as a counter of calls, ends a stretch.
    """
    frame: FrameType | None = sys._getframe(3)
    names: list[tuple[str, str]] = []
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] == "lazyt":
            names.append((module, frame.f_code.co_name))
        elif names:
            yield names
            names = []
        frame = frame.f_back
    if names:
        yield names


def _look_error(reason: str) -> str:
    names: list[tuple[str, str]] = []
    modules: set[str] = set()
    for names in _calls_of_the_library():
        modules = {module for module, _ in names}
        if _MASKS in modules:
            break
    own = (name for module, name in reversed(names) if module not in _AROUND)
    called = next(own, names[-1][1])
    title = {"unique": "_unique2", "argwhere": "nonzero"}.get(called, called)
    if modules >= {_MASKS, _BRACKETS}:
        return _MASK
    if _MASKS in modules:
        return _DYNAMIC.format(name=title)
    if reason.startswith("its truth"):
        return _CONTROL
    return _ITEM if reason.startswith("item") else _NO_MEMORY


@contextmanager
def entered(level: Level) -> Iterator[Level]:
    """Run with ``level`` as the innermost one."""
    first = not stack.levels
    if first:
        watching_lock.acquire()
    outer, nodes = hook.watcher, pending.budget.nodes
    if first:
        hook.watcher, pending.budget.nodes = _Watcher(outer), -1  # every new storage is reported
    stack.levels.append(level)
    try:
        yield level
    finally:
        stack.levels.pop()
        if stack.levels:
            stack.levels[-1].born.update(level.born)
        if first:
            hook.watcher = outer
            pending.budget.nodes = nodes - len(level.born) if outer is None else nodes
            watching_lock.release()
        level.born = {}


@contextmanager
def outside() -> Iterator[None]:
    """Run as if the innermost level had not been entered."""
    level = stack.levels.pop()
    try:
        yield
    finally:
        stack.levels.append(level)


def active() -> bool:
    """Whether this thread runs inside of a function transform."""
    return bool(stack.levels)


def batching() -> bool:
    """Whether the innermost function transform of this thread is ``vmap``."""
    return bool(stack.levels) and stack.levels[-1].size > 0
