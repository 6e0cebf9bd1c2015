"""Backward: the tape says what may be differentiated, the graph transform does it.

A graph without boundaries takes one call of ``vjp``. Boundaries (hooks, custom functions, values
replaced behind autograd's back) cut it into segments; the segments run from the outputs down,
each boundary receiving its whole gradient before the segment below it starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager

from lazyt import ops
from lazyt.autograd.node_hooks import after, before, beginning, gradient_tensor, run_hooks
from lazyt.errors import GradientError
from lazyt.handle import pending
from lazyt.handle.device import placed_as
from lazyt.handle.dispatch import assign, lay_out, type_title, wrap
from lazyt.handle.grad_mode import mode, set_grad_enabled
from lazyt.handle.hooks import capturing
from lazyt.handle.layout import strided as strided_layout
from lazyt.handle.layout import strides_like
from lazyt.handle.storage import Storage, raw
from lazyt.handle.tape import (
    AccumulateGrad,
    Flat,
    GradFn,
    anomaly,
    boundaries,
    boundary,
    checks,
    leaves,
    sparse_forms,
)
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import package_name
from lazyt.ir.forms import use
from lazyt.ir.graph import Node
from lazyt.ops.leaves import VARIABLE

Pair = tuple[Node, Node]

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


_WITHOUT = {
    "Unique2": "_unique2", "UniqueConsecutive": "unique_consecutive", "UniqueDim": "unique_dim",
    "UniqueDimConsecutive": "unique_dim_consecutive",
}  # fmt: skip


class _Running(threading.local):
    """The grad_fns that the latest backward of one thread runs through."""

    def __init__(self) -> None:
        self.order: Sequence[GradFn] = ()

    @contextmanager
    def through(self, order: Sequence[GradFn]) -> Iterator[None]:
        """``order`` until the block ends, or raises: held for longer it would hold the tape."""
        before, self.order = self.order, order
        try:
            yield
        finally:
            self.order = before


running = _Running()


class NoGradientError(GradientError, NotImplementedError):
    """A function that PyTorch gives no derivative either; it raises NotImplementedError."""


# ---------------------------------------------------------------------- the tape


def walk_tape(roots: Sequence[GradFn], targets: set[GradFn] | None) -> list[GradFn]:
    """The grad_fns to be run, parents first: all below ``roots``, or those above ``targets``.

    A target itself runs only when another target is below it.
    """
    order: list[GradFn] = []
    seen: set[GradFn] = set()
    stack: list[tuple[GradFn, bool]] = [(fn, False) for fn in reversed(roots)]
    while stack:
        fn, ready = stack.pop()
        if ready:
            order.append(fn)
        elif fn not in seen:
            seen.add(fn)
            stack.append((fn, True))
            stack.extend((p, False) for p in fn.parents if p is not None and p not in seen)
    if targets is None:
        return order
    needed: set[GradFn] = set()
    for fn in order:
        if any(p in targets or p in needed for p in fn.parents if p is not None):
            needed.add(fn)
    return [fn for fn in order if fn in needed]


def check_tape(order: Sequence[GradFn]) -> None:
    """Raise GradientError for what was freed, or for saved values that were overwritten."""
    for fn in reversed(order):  # as they run, so that the first to fail is PyTorch's
        if fn.dead:
            raise GradientError(FREED)
        if fn.saved or fn.rule == "x":
            check_saved(fn)


def check_function(fn: GradFn) -> None:
    """``check_tape`` for one function that is about to run: for what itself has freed."""
    if fn.dead and (fn.needs_saved() or not any(p.dead for p in fn.parents if p is not None)):
        raise GradientError(FREED)
    check_saved(fn)


def check_saved(fn: GradFn) -> None:
    """Raise GradientError for saved values that were overwritten, and functions without gradient.

    PyTorch raises NotImplementedError for the latter.
    """
    if fn.rule == "x":
        name = fn.name().removesuffix("Backward0")
        if name == "FloorDivide":
            raise GradientError("derivative for aten::floor_divide is not implemented")
        raise NoGradientError(f"the derivative for '{_WITHOUT[name]}' is not implemented.")
    for storage, version in fn.saved:
        if storage.version_now() != version and checks.versions:
            raise GradientError(_overwritten(storage, version, fn))


def stale_nodes(storage: Storage) -> list[Node]:
    """What a storage held before others wrote to its memory, as far as that is still in use."""
    share = storage.share
    if share is None:
        return []
    storage._synchronize(share)  # which finds out what it holds now
    now = storage.node
    alive = [node for item in share.stale if (node := item()) is not None and node is not now]
    return [node for node in alive if node.data is None or node.data is not now.data]


def _overwritten(storage: Storage, version: int, fn: GradFn) -> str:

    node = storage.node
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{package_name()}.{type_title(node.dtype)}Tensor {list(node.shape)}], which "
        f"is used by {fn.name()}, is at version {storage.version_now()}; expected version "
        f"{version} instead. Copy the tensor with clone() before writing to it."
    )


def free_tape(order: Sequence[GradFn]) -> None:
    """Let go of what the grad_fns saved, and remember that another backward must fail."""
    for fn in order:
        if isinstance(fn, AccumulateGrad):
            continue
        fn.freed = True
        fn.dead = fn.release() or any(p.dead for p in fn.parents if p is not None)
    for fn in order:
        if fn.several:
            fn.freed_all()


# ---------------------------------------------------------------------- the graph


def find_variables(roots: Sequence[Node]) -> list[Node]:
    """The variable nodes below ``roots``, also behind boundaries, inputs before users."""
    found: list[Node] = []
    seen: set[Node] = set()
    stack: list[Node | tuple[Node]] = [*roots]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):  # what is behind it was found
            found.append(node[0])
            continue
        if node in seen or not node.needs_grad:
            continue
        seen.add(node)
        if node.op is not VARIABLE:
            stack += node.inputs
            continue
        known = boundaries.get(node) if boundaries else None
        if known is None:
            found.append(node)
        else:
            stack.append((node,))
            stack += known[0].below()
    pending.budget.nodes -= 2 * len(seen)  # the gradient's nodes are pending work, too
    return found


def through_inner(pairs: list[Pair], known: Sequence[Node]) -> list[Pair]:
    """The pairs, with those behind boundaries between them and ``known``: whoever goes backward
    from elsewhere knows only those."""
    from lazyt.transforms.vjp import vjp

    inner: dict[GradFn, dict[int, Node]] = {}
    ends = set(known)
    for node in find_variables([node for node, _ in pairs]):
        fn, index = boundaries.get(node, (None, 0))
        if fn is not None and node not in ends:
            inner.setdefault(fn, {})[index] = node
    for fn in reversed(list(inner)):
        nodes = [inner[fn].get(index) for index in range(max(inner[fn]) + 1)]
        wanted = [node for node in nodes if node is not None]
        found = iter(vjp([n for n, _ in pairs], [c for _, c in pairs], wanted))
        parts = [None if node is None else next(found) for node in nodes]
        if any(part is not None for part in parts):
            plain = [p if p is None or mode.enabled else raw(p) for p in parts]
            pairs = pairs + fn.advance(plain)
    return pairs


def _anomaly_check() -> Callable[[Node, Node, int, Node], None]:
    from lazyt.autograd.anomalies import watch

    return watch


class Backward:
    """One run from outputs to leaves.

    Args:
        idle: the functions of users' that lead to none of the targets, and are not called.

    Attributes:
        received: what arrived so far at variables and targets.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        targets: Sequence[Node],
        create_graph: bool,
        idle: Container[GradFn] = (),
    ) -> None:
        for told in beginning:
            told()
        self.create_graph = create_graph
        self._idle = idle
        self.received: dict[Node, Node] = {}
        self.variables = find_variables([node for node, _ in pairs])
        self.wanted = list(dict.fromkeys([*self.variables, *targets]))
        self._segment(pairs)
        self._cross_boundaries()

    def _segment(self, pairs: Sequence[Pair]) -> None:
        from lazyt.transforms.vjp import vjp

        pairs = [(node, cotangent) for node, cotangent in pairs if node.needs_grad]
        if not pairs:
            return
        check = _anomaly_check() if anomaly.enabled else None
        grads = vjp([n for n, _ in pairs], [c for _, c in pairs], self.wanted, check)
        for node, grad in zip(self.wanted, grads):
            if grad is not None:
                grad = grad if self.create_graph else raw(grad)
                grad = placed_as(node, grad) if use.any else grad
                known = self.received.get(node)
                self.received[node] = grad if known is None else ops.apply("add", known, grad)

    def _cross_boundaries(self) -> None:
        if not boundaries:
            return
        outputs: dict[GradFn, list[Node]] = {}
        for node in self.variables:
            known = boundaries.get(node)
            if known is not None and known[0] not in self._idle:
                outputs.setdefault(known[0], []).append(node)
        for fn in sorted(outputs, key=lambda item: item.number, reverse=True):
            self._segment(self._advance(fn, outputs[fn]))

    def _advance(self, fn: GradFn, nodes: Sequence[Node]) -> list[Pair]:
        slots: dict[int, Node] = {}
        for node in nodes:
            grad = self.received.get(node)
            if grad is not None:
                index = boundaries[node][1]
                known = slots.get(index)
                slots[index] = grad if known is None else ops.apply("add", known, grad)
        if not slots:
            return []
        if fn._extra is not None and 0 in slots:  # of a tensor that a transform follows
            slots[0] = run_hooks(fn, slots[0], self.create_graph)
            if len(nodes) == 1:  # who requested this gradient gets what the hooks made of it
                self.received[nodes[0]] = slots[0]
        with set_grad_enabled(self.create_graph):
            return fn.advance([slots.get(i) for i in range(max(slots) + 1)])

    def leaf_gradients(self) -> dict[AccumulateGrad, Node]:
        """What arrived at every living leaf, before its hooks."""
        found: dict[AccumulateGrad, Node] = {}
        crossed = boundaries if boundaries else ()
        for node in self.variables:
            leaf = None if node in crossed else leaves.get(node.params.uid)
            grad = self.received.get(node)
            if leaf is None or grad is None:
                continue
            known = found.get(leaf)
            found[leaf] = grad if known is None else ops.apply("add", known, grad)
        return found


def _gradient_sum(total: Node, *terms: Tensor) -> Tensor:
    """``total``, the sum of gradients, as a tensor with the history of ``terms``."""
    if not total.needs_grad:
        return wrap(total)
    with set_grad_enabled(True):
        return wrap(total, *terms, name="Add")


def accumulate(
    leaf: AccumulateGrad, grad: Node, create_graph: bool, source: Tensor | None = None
) -> None:
    """Add ``grad`` to the leaf's ``grad``, in place where its history, that of ``source``, does
    not matter.

    Hooks run as the rest of backward does: what they do has a history with ``create_graph`` only,
    so that they may write to the leaf.
    """
    watcher = capturing()
    if watcher is not None:
        watcher.accumulated(leaf)
    extra = leaf._extra
    if extra is not None and (extra.prehooks or extra.posthooks):
        (changed,) = before(leaf, [gradient_tensor(grad, source)])
        if changed is None:
            return
        grad, source = changed.node, changed
    old, variable = leaf.grad, leaf.variable
    if variable is not None and not variable.requires_grad:  # it did when it was used
        return
    if old is None:
        leaf.grad = gradient_tensor(grad, source)
        strided = not sparse_forms or leaf.grad.layout is strided_layout
        if (
            strided and variable is not None and variable._view is not None
        ):  # it lies as the variable does
            lay_out(leaf.grad, strides_like(tuple(variable.shape), variable.strides))
    else:
        total = ops.apply("add", old.node, grad)
        if sparse_forms and old.layout is not strided_layout:
            leaf.grad = gradient_tensor(total)
        elif create_graph or total.needs_grad or old.requires_grad:
            # who holds the old one keeps its value
            leaf.grad = _gradient_sum(total, old, gradient_tensor(grad, source))
        else:
            assign(old, wrap(total))
    tensor = leaf.variable
    if tensor is not None:
        for hook in list(leaf.post_hooks.values()):
            with set_grad_enabled(create_graph):
                returned = hook(tensor)
            if returned is not None and returned is not tensor:
                raise GradientError("Tensor post accumulate grad hooks should return None.")
    if extra is not None and extra.posthooks:
        after(leaf, [], [gradient_tensor(grad, source)])


def flattened(grad: Node, nodes: Sequence[Node]) -> Node:
    """``grad`` as a function of ``nodes`` that does not change with them."""
    return grad if grad.needs_grad else boundary(grad, Flat(nodes))


def flat_nodes(order: Sequence[GradFn]) -> tuple[list[Node], set[GradFn]]:
    """The operands of functions in ``order`` whose gradients count as functions of them, and the
    grad_fns below such functions."""
    nodes: list[Node] = []
    under: set[GradFn] = set()
    for fn in reversed(order):
        second_order = type(fn).traits.second_order
        if second_order or fn in under:
            under.update(parent for parent in fn.parents if parent is not None)
        if second_order == "zeros" and isinstance(fn.operands, tuple):
            found = [None if item is None else item() for item in fn.operands]
            nodes += [node for node in found if node is not None and node.needs_grad]
    return nodes, under


def retain(tensor: Tensor, grad: Tensor) -> None:
    """Add ``grad`` to the ``grad`` of a tensor that is no leaf; the sum of two has a history only
    where gradients are enabled."""
    old = tensor.__dict__.get("_grad")
    if old is None:
        found = gradient_tensor(grad.node, grad)
    else:
        found = wrap(ops.apply("add", old.node, grad.node), old, grad, name="Add")
    tensor.__dict__["_grad"] = found


__all__ = [
    "Backward",
    "accumulate",
    "check_tape",
    "free_tape",
    "mode",
    "running",
    "through_inner",
    "walk_tape",
]
