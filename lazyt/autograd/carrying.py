"""Taking a graph out of a level: its leaves are replaced, boundaries included.

``replaced`` puts other values in the place of leaves; ``batched`` puts values with one more axis
there, and every op that depends on them works on all examples at once. A boundary (a custom
function, a hook) becomes a boundary again where a gradient may still come from outside: when that
arrives, the old one is asked, and what it says is taken out of the level in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lazyt import ops
from lazyt.autograd.levels import Level, entered
from lazyt.grad_mode import mode
from lazyt.ir.graph import Node, remake
from lazyt.ops.leaves import VARIABLE
from lazyt.tape import GradFn, boundaries, boundary

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
        from lazyt.autograd.engine import run_hooks

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
