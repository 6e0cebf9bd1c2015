"""Backward along the tape, one grad_fn after the other, as PyTorch runs it.

``engine.Backward`` differentiates the graph, in which equal values are one node and a view of a
view is a node like any other. That is all a gradient needs. What belongs to tensors rather than to
values needs the tape: hooks, retained gradients, gradients of inner tensors of equal value, saved
operands that hooks unpack or that were written to without autograd knowing. Where a backward meets
one of these, it comes here: each grad_fn gets the whole gradient of its outputs, calls what is
registered there and hands its operands theirs, the latest function first.

The derivative of a single function comes from the graph, too: its result's node over placeholders
for its operands' nodes. A way through the graph that leads past the operands is followed without
hooks.
"""

from __future__ import annotations

import heapq
import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from lazyt import ops
from lazyt.autograd.engine import (
    Backward,
    check_function,
    flat_nodes,
    flattened,
    retain,
    stale_nodes,
    walk_tape,
)
from lazyt.autograd.function import FunctionBackward
from lazyt.autograd.node_hooks import Derivative, after, before, call_hooks, substituted
from lazyt.errors import GradientError
from lazyt.handle.dispatch import wrap
from lazyt.handle.grad_mode import mode, set_grad_enabled
from lazyt.handle.storage import raw
from lazyt.handle.tape import (
    AccumulateGrad,
    Bridge,
    GradFn,
    Moves,
    Written,
    anomaly,
    boundaries,
    boundary,
    inputs_of,
    leaves,
    next_uid,
    output_number,
)
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node, make_of, topological
from lazyt.ops.indexing import UPDATE
from lazyt.ops.leaves import VARIABLE

Place = tuple[GradFn, int]
Parts = list[Tensor | None]
Pair = tuple[Node, Node]


class Root(NamedTuple):
    """A tensor to start from, with its gradient."""

    fn: GradFn
    output: int
    gradient: Tensor


def plain(node: Node, linked: bool) -> Tensor:
    """``node`` as a tensor, whose history is that of the graph if ``linked``."""
    return wrap(node if linked else raw(node), name="Clone")


def linked_tensor(
    node: Node, like: GradFn, parents: Sequence[GradFn | None], operands: Sequence[Any]
) -> Tensor:
    """``node``, part of the derivative of ``like``, as a tensor made of ``parents``."""
    found = wrap(node, name="Clone")
    fn = found._storage.fn
    if fn is not None:
        if type(like).advance is GradFn.advance and not isinstance(like, AccumulateGrad):
            fn.__class__ = type(like)
        fn.parents, fn.operands, fn.saved = tuple(parents), tuple(operands), like.saved
    return found


def added(parts: Sequence[Tensor]) -> Tensor:
    """The sum of what came to one place, from the last user to the first."""
    from lazyt.transforms.vjp import total

    nodes = [part.node for part in parts]
    if not any(node.needs_grad for node in nodes):
        return parts[0] if len(parts) == 1 else wrap(total(nodes), *parts, name="Add")
    result = parts[0]
    for part in parts[1:]:  # two at a time, so that terms of equal value can be told apart
        both = ops.apply("add", result.node, part.node)
        result = wrap(both, result, part, name="Add")
    return result


class Traversal:
    """One run along the tape.

    Args:
        roots: where it starts.
        targets: the places that it is for, with their nodes; None for all leaves.
        create_graph: whether gradients have a history.
        arrived: called with each leaf and its gradient as soon as that is known.
        accumulates: whether the functions of ``targets`` run, too, as PyTorch's do in backward.
        silent: only follow the way, for what another backward has done: call no hooks, retain and
            check nothing.

    Attributes:
        captured: the gradients of the places among ``targets``, after hooks.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        targets: Mapping[Place, Node] | None,
        create_graph: bool,
        arrived: Callable[[AccumulateGrad, Tensor], None],
        accumulates: bool = True,
        silent: bool = False,
    ) -> None:
        self.accumulates, self.silent = accumulates, silent
        self.targets, self.create_graph, self.arrived = targets, create_graph, arrived
        self.captured: dict[Place, Tensor] = {}
        self._received: dict[GradFn, dict[int, list[Tensor]]] = {}
        self._waiting: dict[GradFn, int] = {}
        self._needed: set[GradFn] = set()
        self._ready: list[tuple[float, int, GradFn]] = []
        self._plain: set[GradFn] = set()
        self._below: list[Pair] = []
        self._past: list[Pair] = []
        self._again: list[Tensor] = []
        self._turns = itertools.count()
        self._add(roots)
        while self._ready:
            self._visit(heapq.heappop(self._ready)[2])
        self._follow_graph()

    # ------------------------------------------------------------------ the order

    def _add(self, roots: Sequence[Root]) -> None:
        """Start from ``roots`` as well."""
        order = [f for f in walk_tape([r.fn for r in roots], None) if f not in self._waiting]
        wanted = None if self.targets is None else {fn for fn, _ in self.targets}
        for fn in order:
            self._waiting[fn] = 0
        for fn in order:
            below = [parent for parent in fn.parents if parent is not None]
            for parent in below:
                self._waiting[parent] += 1
            leads = fn in wanted if wanted is not None else True
            if leads or _is_open(fn) or any(p in self._needed for p in below):
                self._needed.add(fn)
            if self._is_plain(fn, wanted) and all(p in self._plain for p in below):
                self._plain.add(fn)
        for root in roots:
            self._send(root.fn, root.output, root.gradient)
        for fn in dict.fromkeys(root.fn for root in roots):
            if not self._waiting[fn]:
                self._push(fn)

    def _is_plain(self, fn: GradFn, wanted: set[GradFn] | None) -> bool:
        """Whether nothing of ``fn`` itself needs the tape."""
        if self.create_graph or (fn._extra is not None and fn._extra.interferes):
            return False  # a gradient has to tell what it was made of
        if isinstance(fn, AccumulateGrad):
            return not fn.post_hooks
        if type(fn).advance is not GradFn.advance or _is_open(fn) or anomaly.enabled:
            return False
        if wanted is not None and fn in wanted:
            return False
        return not any(s.share is not None and stale_nodes(s) for s, _ in fn.saved)

    def _push(self, fn: GradFn) -> None:
        # Leaves come first, as in PyTorch: their hooks run as soon as their gradients are known.
        key = -float("inf") if isinstance(fn, AccumulateGrad) else -fn.number
        heapq.heappush(self._ready, (key, next(self._turns), fn))

    def _send(self, fn: GradFn, index: int, gradient: Tensor) -> None:
        self._received.setdefault(fn, {}).setdefault(index, []).append(gradient)

    # ------------------------------------------------------------------ one function

    def _visit(self, fn: GradFn) -> None:
        received = self._received.pop(fn, {})
        if fn not in self._needed:
            pass
        elif fn in self._plain:
            check_function(fn)
            if received and not self._leave(fn, received):
                self._run(fn, received)
        else:
            self._run(fn, received)
        self._count_down(fn)

    def _run(self, fn: GradFn, received: Mapping[int, list[Tensor]]) -> None:
        """Call the hooks of ``fn``, and give its operands their gradients if those are needed."""
        leaf = isinstance(fn, AccumulateGrad)
        runs = not leaf and (
            self.accumulates or _is_open(fn) or any(p in self._needed for p in fn.parents)
        )
        with set_grad_enabled(self.create_graph):
            grads: Parts = [
                added(received[i]) if i in received else None
                for i in range(self._outputs(fn, received))
            ]
            if runs:  # as in PyTorch, hooks do not matter to who asks for it
                self._keep(fn, grads)
            for index, gradient in enumerate(grads):
                grads[index] = self._arrive(fn, index, gradient)
            if not runs:
                self._keep(fn, grads)
        if leaf:
            if grads[0] is not None and (self.targets is None or (fn, 0) in self.targets):
                assert isinstance(fn, AccumulateGrad)
                self.arrived(fn, grads[0])
        elif runs:
            with set_grad_enabled(self.create_graph):
                self._send_parts(fn, self.parts_of(fn, grads))

    def _keep(self, fn: GradFn, grads: Parts) -> None:
        for index, gradient in enumerate(grads):
            if self.targets is not None and gradient is not None and (fn, index) in self.targets:
                self.captured[fn, index] = gradient

    def _leave(self, fn: GradFn, received: Mapping[int, list[Tensor]]) -> bool:
        """Leave ``fn``, below which nothing needs the tape, to the graph, if that has its node."""
        if isinstance(fn, AccumulateGrad):
            if not self._below:
                return False
            variable = fn.variable
            node = None if variable is None else variable.node
            if node is None or node.op is not VARIABLE or node.params.uid != fn.uid:
                return False
        else:
            node = None if fn.made is None else fn.made()
        if node is None:
            return False
        with set_grad_enabled(self.create_graph):
            self._below.append((node, added(received[0]).node))
        return True

    def _count_down(self, fn: GradFn) -> None:
        for parent in fn.parents:
            if parent is not None:
                self._waiting[parent] -= 1
                if not self._waiting[parent]:
                    self._push(parent)

    def _outputs(self, fn: GradFn, received: Mapping[int, Any]) -> int:
        """How many outputs there are to be told of."""
        own = len(fn.outputs) if isinstance(fn, FunctionBackward) else 1
        return max(own, 1 + max(received, default=0))

    def _arrive(self, fn: GradFn, index: int, gradient: Tensor | None) -> Tensor | None:
        """The gradient of one output after its hooks; stored where somebody requested it."""
        extra = fn._extra
        if extra is not None and not self.silent:
            hooks = extra.hooks if index == 0 else extra.others.get(index)
            if hooks:
                gradient = call_hooks(hooks, gradient, self.create_graph)
            if gradient is not None:
                for number, reference in extra.retained:
                    tensor = reference() if number == index else None
                    if tensor is not None:
                        retain(tensor, gradient)
        return gradient

    def parts_of(self, fn: GradFn, grads: Parts) -> Parts:
        """What those of its outputs mean for the parents of ``fn``, between the hooks around it."""
        if type(fn).advance is not GradFn.advance:
            check_function(fn)
            return self._ask(fn, grads)
        hooks = None if fn._extra is None else fn._extra.prehooks or fn._extra.posthooks
        if self.silent:
            hooks = None
        if hooks:
            grads = before(fn, grads)
        if not self.silent:
            check_function(fn)
        gradient = grads[0]
        parts: Parts = [None] * len(fn.parents)
        if gradient is not None:
            parts = self._derive(fn, gradient)
            if anomaly.enabled and not self.silent:
                _look(fn, gradient, parts)
        return after(fn, parts, grads) if hooks else parts

    def _send_parts(self, fn: GradFn, parts: Sequence[Tensor | None]) -> None:
        for number, (parent, part) in enumerate(zip(fn.parents, parts)):
            if parent is not None and part is not None:
                self._send(parent, fn.output_of_parent(number), part)

    # ------------------------------------------------------------------ derivatives

    def _derive(self, fn: GradFn, gradient: Tensor) -> Parts:
        """What the gradient of the output means for each operand."""
        if isinstance(fn.operands, (Moves, Written)):
            return self._moved(fn, fn.operands, gradient)
        if isinstance(fn, Bridge):
            below = fn.below()
            self._past += [(node, gradient.node) for node in below]
            return []
        node = None if fn.made is None else fn.made()
        if node is None:
            if fn.operands or len(fn.parents) != 1:
                raise GradientError(f"the graph no longer has what {fn.name()} made")
            return [plain(ops.zeros_like(gradient.node), False)]  # another value replaced it
        if not fn.parents:  # a gradient, which does not tell what it was made of
            self._past.append((node, gradient.node))
            return []
        packed = None if fn._extra is None else fn._extra.packed
        if packed is not None:
            found = packed.pull(node, gradient.node, self.create_graph)
            return [None if p is None else self._linked(fn, p, gradient, {}) for p in found]
        values, now = ({}, {}) if self.silent else replaced_values(fn, node, self.create_graph)
        by_result = type(fn).traits.by_result
        if by_result is not None and len(fn.parents) == 1 and (self.create_graph or node in values):
            result = values.get(node, node)
            part = by_result(result, gradient.node)
            return [self._linked_to(fn, part, gradient, (fn,), (result,))]
        inputs = operands_of(fn)
        alike = self.create_graph and len({*inputs}) < len({*zip(inputs, fn.parents)})
        apart = _distinguished(node, inputs) if alike and not values else None
        if apart is not None:
            return self._derive_separately(fn, gradient, *apart)
        found, past = derived(node, inputs, gradient.node, values, now)
        for variable, part in past:
            self._go_past(fn, variable, part)
        parts = [None if p is None else self._linked(fn, p, gradient, now) for p in found]
        if type(fn).traits.replaces and _replaces(node, inputs[0]):
            parts[0] = plain(ops.zeros_like(node), False)  # whatever the gradient is
        return parts

    def _derive_separately(
        self,
        fn: GradFn,
        gradient: Tensor,
        node: Node,
        copies: Sequence[Node | None],
        own: Mapping[Node, Node],
    ) -> Parts:
        """``_derive`` where two operands are one node: each part depends on some of ``copies``."""
        parts: Parts = []
        for part in derived(node, copies, gradient.node, {})[0]:
            if part is None:
                parts.append(None)
                continue
            read = {*topological([part], lambda n: n in own or not n.needs_grad)}
            nodes = [None if c is None or c not in read else own[c] for c in copies]
            (part,) = substituted([part], own)
            parts.append(self._linked_to(fn, part, gradient, fn.parents[: len(nodes)], nodes))
        return parts

    def _linked(self, fn: GradFn, part: Node, gradient: Tensor, now: Mapping[int, Node]) -> Tensor:
        """A part of the derivative of ``fn``, which depends on its operands, or what they are
        ``now``, by their number."""
        given = fn.operands if isinstance(fn.operands, tuple) else ()
        nodes = [None if item is None else item() for item in given]
        used = [None if node is None else now.get(n, node) for n, node in enumerate(nodes)]
        return self._linked_to(fn, part, gradient, fn.parents[: len(used)], used)

    def _linked_to(
        self,
        fn: GradFn,
        part: Node,
        gradient: Tensor,
        parents: Sequence[GradFn | None],
        nodes: Sequence[Node | None],
    ) -> Tensor:
        if self.create_graph and type(fn).traits.second_order:
            part = flattened(part, flat_nodes([fn])[0])
        if not self.create_graph or not part.needs_grad:
            return plain(part, False)
        used = [gradient.node, *nodes]
        ends = set(used)
        read = ends.intersection(topological([part], lambda n: n in ends or not n.needs_grad))
        kept = [node if node in read else None for node in used]
        givers = (gradient._storage.fn, *parents)
        return linked_tensor(
            part,
            fn,
            [None if node is None else giver for node, giver in zip(kept, givers)],
            [None if node is None else weakref.ref(node) for node in kept],
        )

    def _moved(self, fn: GradFn, operands: Moves | Written, gradient: Tensor) -> Parts:
        found = moved_back(operands, gradient.node)
        parts: Parts = [None] * len(fn.parents)
        places = [operands.parent] if isinstance(operands, Moves) else [0, 1]
        if places == [1]:  # the operand replaced the other one
            places, found = [1, 0], [*found, ops.zeros_like(gradient.node)]
        for place, part in zip(places, found):
            if fn.parents[place] is None:
                continue
            if part is gradient.node:
                parts[place] = gradient
            elif self.create_graph and part.needs_grad:
                parts[place] = wrap(part, gradient, name="Clone")
            else:
                parts[place] = plain(part, False)
        return parts

    def _ask(self, fn: GradFn, grads: Parts) -> Parts:
        """``parts_of`` a grad_fn that has a derivative of its own; some go on by themselves."""
        from lazyt.autograd.checkpointing import CheckpointBackward

        if hasattr(type(fn), "answers"):
            answers = cast(FunctionBackward, fn).answers(grads)
            return [answers.get(number) for number in range(len(fn.parents))]
        if any(grad is not None for grad in grads):
            if isinstance(fn, CheckpointBackward):
                results = fn.results()
                self._again += results  # the tape below them does not hold what it was made of
                pairs = [(r, r._fn, g) for r, g in zip(results, grads)]
                self._add([
                    Root(own, output_number(own, r.node), g)
                    for r, own, g in pairs if g is not None and own is not None
                ])  # fmt: skip
            else:
                self._past += fn.advance([None if g is None else g.node for g in grads])
        return [None] * len(fn.parents)

    # ------------------------------------------------------------------ past the operands

    def _go_past(self, fn: GradFn, variable: Node, part: Node) -> None:
        """Hand on what comes to a variable on a way that leads past the operands of ``fn``."""
        known = boundaries.get(variable)
        below = leaves.get(variable.params.uid) if known is None else known[0]
        if below is not None and self._waiting.get(below):
            index = 0 if known is None else known[1]
            self._send(below, index, plain(part, self.create_graph))
            self._needed.add(below)
        else:
            self._past.append((variable, part))

    def _follow_graph(self) -> None:
        """Go on through the graph where the tape does not know the way."""
        targets = {} if self.targets is None else self.targets
        found: dict[AccumulateGrad, Node] = {}
        for pairs, places in ((self._below, {}), (self._past, targets)):
            if not pairs:
                continue
            run = Backward(pairs, [*places.values()], self.create_graph)
            for place, node in places.items():
                part = None if isinstance(place[0], AccumulateGrad) else run.received.get(node)
                if part is not None:
                    self._capture(place, plain(part, self.create_graph))
            for leaf, received in run.leaf_gradients().items():
                known = found.get(leaf)
                found[leaf] = received if known is None else ops.apply("add", known, received)
        for leaf, node in found.items():
            gradient = plain(node, self.create_graph)
            if self.targets is None or (leaf, 0) in self.targets:
                self.arrived(leaf, gradient)
            if (leaf, 0) in targets:
                self._capture((leaf, 0), gradient)

    def _capture(self, place: Place, gradient: Tensor) -> None:
        known = self.captured.get(place)
        self.captured[place] = gradient if known is None else added([known, gradient])


def _is_open(fn: GradFn) -> bool:
    """Whether the tape does not tell what ``fn`` was made of, as for gradients."""
    return not fn.parents and not isinstance(fn, AccumulateGrad)


class Order(Traversal):
    """The order in which a traversal comes to the leaves: ``leaves``."""

    def __init__(self, roots: Sequence[GradFn]) -> None:
        self.leaves: list[AccumulateGrad] = []
        nothing = object.__new__(Tensor)
        super().__init__([Root(fn, 0, nothing) for fn in roots], None, False, lambda *_: None)

    def _visit(self, fn: GradFn) -> None:
        if isinstance(fn, AccumulateGrad):
            self.leaves.append(fn)
        self._count_down(fn)


def parts_of(fn: GradFn, gradient: Tensor) -> Sequence[Tensor | None]:
    """What a grad_fn says of its parents' gradients where ``gradient`` is that of its output."""
    run = Traversal([], None, mode.enabled, lambda *_: None)
    return run.parts_of(fn, [gradient])


def _replaces(node: Node, operand: Node | None) -> bool:
    """Whether ``node`` is another value written over all of ``operand``."""
    if node.op is not UPDATE or node.inputs[0] is not operand:
        return False
    return node.inputs[1].shape == node.shape


def operands_of(fn: GradFn) -> list[Node | None]:
    """The nodes of the operands of ``fn`` that require gradients, as far as they still exist."""
    if not isinstance(fn.operands, tuple):
        return [None] * len(fn.parents)
    found = [None if item is None else item() for item in fn.operands]
    found += [None] * (len(fn.parents) - len(found))
    return [
        node if parent is not None and node is not None and node.needs_grad else None
        for node, parent in zip(found, fn.parents)
    ]


def derived(
    node: Node,
    inputs: Sequence[Node | None],
    cotangent: Node,
    values: Mapping[Node, Node],
    now: Mapping[int, Node] = MappingProxyType({}),
) -> tuple[list[Node | None], list[Pair]]:
    """The gradients of ``inputs`` where ``cotangent`` is that of ``node``, and those of variables
    that the graph reaches past them.

    Args:
        values, now: what to compute them from in place of nodes, as ``replaced_values`` gives it.
    """
    walked = None if values else _walked(node, inputs, cotangent)
    if walked is not None:
        return walked
    apart = _distinguished(node, inputs)
    if apart is not None:
        node, inputs, own = apart
        table = {c: now.get(n, own[c]) for n, c in enumerate(inputs) if c is not None}
        found, past = derived(node, inputs, cotangent, {})
        return [None if p is None else substituted([p], table)[0] for p in found], past
    known: dict[Node, None] = dict.fromkeys(n for n in inputs if n is not None)
    others = _variables(node, known)
    derivative = Derivative(node, [*known, *others], ())
    parts = dict(zip([*known, *others], derivative.at(cotangent, values)))
    found = []
    for item in inputs:
        found.append(parts.pop(item, None) if item is not None and item in known else None)
    return found, [(item, part) for item in others if (part := parts[item]) is not None]


def _walked(
    node: Node, inputs: Sequence[Node | None], cotangent: Node
) -> tuple[list[Node | None], list[Pair]] | None:
    """``derived`` by the rules of the ops between ``node`` and ``inputs``, which are left out
    where they come again below; None where two operands are one node that comes in other ways than
    as inputs of ``node`` itself."""
    from lazyt.transforms.vjp import _pull, total

    given = [item for item in inputs if item is not None]
    ends = set(given)
    if len(ends) < len(given) or node in ends:
        if len(node.inputs) != len(inputs) or node in ends:
            return None
        if any(item is not None and item is not own for item, own in zip(inputs, node.inputs)):
            return None
        pulled = _pull(node, cotangent)
        return [part if item is not None else None for item, part in zip(inputs, pulled)], []
    received: dict[Node, list[Node]] = {node: [cotangent]}
    sums: dict[Node, Node] = {}
    others: list[Node] = []
    order = topological([node], lambda n: n in ends or n.op is VARIABLE or not n.needs_grad)
    for item in reversed(order):
        parts = received.pop(item, None)
        if parts is None:
            continue
        summed = sums[item] = total(parts)
        if item in ends:
            continue
        if item.op is VARIABLE:
            others.append(item)
            continue
        for below, part in zip(item.inputs, _pull(item, summed)):
            if part is not None and below.needs_grad:
                received.setdefault(below, []).append(part)
    reached = ends.intersection(order)  # where every derivative on the way is zero, so is this
    found = [
        sums.get(item) or ops.zeros_like(item) if item is not None and item in reached else None
        for item in inputs
    ]
    return found, [(item, sums[item]) for item in others]


def _variables(node: Node, ends: Iterable[Node]) -> list[Node]:
    """The variables that ``node`` depends on, not through ``ends``."""
    stop = set(ends)
    order = topological([node], lambda n: n in stop or n.op is VARIABLE or not n.needs_grad)
    return [n for n in order if n.op is VARIABLE and n not in stop and n.needs_grad]


def _distinguished(
    node: Node, inputs: Sequence[Node | None]
) -> tuple[Node, list[Node | None], dict[Node, Node]] | None:
    """``node`` over copies of operands that are one node though not one operand, with those copies
    and what they stand for; None where there are none, or where it cannot be told which is which.

    Two tensors of equal value are one node: the difference of the two has no gradient by it.
    """
    given = [item for item in inputs if item is not None]
    if len(set(given)) == len(given) or len(node.inputs) != len(inputs):
        return None
    new: list[Node] = []
    copies: list[Node | None] = []
    own: dict[Node, Node] = {}
    for item, operand in zip(node.inputs, inputs):
        if operand is None:
            new.append(item)
            copies.append(None)
            continue
        copy = ops.variable(operand, next_uid())
        (found,) = substituted([item], {operand: copy})
        if found is item:
            return None
        new.append(found)
        copies.append(copy)
        own[copy] = operand
    return make_of(node.head, tuple(new)), copies, own


def replaced_values(
    fn: GradFn, node: Node, linked: bool
) -> tuple[dict[Node, Node], dict[int, Node]]:
    """What saved values are now that were written to without autograd knowing: by their nodes, and
    for operands by their numbers, too. Tensors of equal value are one node, but not one memory."""
    values: dict[Node, Node] = {}
    now_by_number: dict[int, Node] = {}
    for storage, _ in fn.saved:
        old = stale_nodes(storage) if storage.share is not None else []
        if not old:
            continue
        now = raw(storage.current())
        table = dict.fromkeys(old, now)
        for item in old:  # a storage may have its tensor's axes in another order
            if item.op.name == "permute":
                axes = item.params.axes
                table[item.inputs[0]] = ops.permute(
                    now, sorted(range(len(axes)), key=axes.__getitem__)
                )
        if isinstance(fn.operands, tuple):
            for number, (parent, reference) in enumerate(zip(fn.parents, fn.operands)):
                operand = None if reference is None else reference()
                own = operand is not None and _is_of(parent, storage.fn)
                if own and operand is not None and _shows(operand, table):
                    (value,) = substituted([operand], table)
                    value = raw(value)
                    tied = linked and operand.needs_grad
                    value = boundary(value, Bridge(operand)) if tied else value
                    values[operand] = now_by_number[number] = value
        if node in table:
            result = table[node]
            tied = linked and node.needs_grad
            values[node] = boundary(result, Bridge(node)) if tied else result
    return values, now_by_number


def _is_of(fn: GradFn | None, owner: GradFn | None) -> bool:
    """Whether ``fn`` made a storage whose grad_fn is ``owner``, or a view of it."""
    while fn is not owner and fn is not None and isinstance(fn.operands, Moves):
        fn = fn.parents[fn.operands.parent]
    return fn is owner


def _shows(node: Node, table: Mapping[Node, Node]) -> bool:
    """Whether a view's node shows what is in ``table``."""
    while node not in table and node.op.movement:
        node = node.inputs[0]
    return node in table


def moved_back(operands: Moves | Written, cotangent: Node) -> list[Node]:
    """The gradients of what a grad_fn moved, where ``cotangent`` is that of its output."""
    from lazyt.transforms.vjp import vjp

    zero = ops.broadcast_to(ops.constant(0, operands.dtype), operands.shape)
    base = ops.variable(zero, next_uid())
    if isinstance(operands, Moves):
        top, places = base, [base]
        for step in operands.steps:
            top = step.read(top)
    else:
        view = operands.view
        value = ops.broadcast_to(ops.constant(0, operands.dtype), view.shape)
        places = [base, ops.variable(value, next_uid())]
        top = view.write_back(base, places[1])
        for step in operands.arranged:
            top = step.read(top)
    if top is base:
        found: list[Node | None] = [cotangent]
    else:
        found = vjp([top], [ops.cast(cotangent, top.dtype)], places)
    parts = [ops.zeros_like(p) if f is None else f for f, p in zip(found, places)]
    for step in operands.arranged:
        parts[0] = step.read(parts[0])
    return parts


def _look(fn: GradFn, gradient: Tensor, parts: Parts) -> None:
    """Raise GradientError for a NaN that a function's derivative makes, in anomaly mode."""
    from lazyt.autograd.anomalies import watch

    node = None if fn.made is None else fn.made()
    for number, part in enumerate(parts):
        if part is not None and node is not None:
            watch(node, gradient.node, number, part.node)


def _call(fn: GradFn, *grads: Tensor | None) -> Any:
    """The gradients of the inputs of ``fn`` where ``grads`` is its result's.

    Raises LazytError where the tensor that ``fn`` made no longer exists.
    """
    given = grads[0]
    parts: Sequence[Tensor | None] = [None] * len(fn.parents)
    if given is not None:
        parts = parts_of(fn, given)
    chosen = inputs_of(type(fn), len(parts))
    results = tuple(None if i is None else parts[i] for i in chosen)
    return results[0] if len(results) == 1 else results


# Attached here because the tape must not know of derivatives.
GradFn.__call__ = _call  # type: ignore[method-assign, assignment]
