"""Hooks on grad_fns, and grad_fns that are called.

Gradients come from the graph, in which a function of the user's may be many nodes. A grad_fn knows
its result's node; the nodes of its inputs are found below that. Where a grad_fn has hooks, backward
goes through the graph by hand: it stops at the node, and after hooks it goes on at the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lazyt import ops
from lazyt.autograd.handles import RemovableHandle
from lazyt.dispatch import wrap
from lazyt.errors import GradientError, LazytError
from lazyt.grad_mode import set_grad_enabled
from lazyt.grad_rules import inputs_of
from lazyt.ir.graph import Node, rebuild, remake
from lazyt.storage import raw
from lazyt.tape import AccumulateGrad, GradFn, boundaries, hooked, next_uid
from lazyt.tensor import Tensor

if TYPE_CHECKING:
    from lazyt.autograd.packing import PackedCall

Hook = Callable[..., Any]
Watch = Callable[[Node, Node, int, Node], None]


def node_of(fn: GradFn) -> Node:
    """The node of what ``fn`` made. Raises LazytError where nothing refers to it any more."""
    reference = getattr(fn, "made", None)
    node = None if reference is None else reference()
    if node is None:
        owner = fn.extra.owner
        tensor = None if owner is None else owner()
        if tensor is None:
            raise LazytError(
                f"hooks on {fn.name()}: the tensor that it made no longer exists; register a hook "
                "on the tensor itself"
            )
        node = tensor.node
        known = boundaries.get(node)
        if known is not None and known[0] is fn and fn.extra.history is not None:
            node = fn.extra.history
    return node


def add(fn: GradFn, hooks: dict[int, Hook], hook: Hook) -> RemovableHandle:
    """Register ``hook`` among ``hooks``, which are those before or after ``fn``."""
    if not isinstance(fn, AccumulateGrad) and not hasattr(type(fn), "ctx"):
        hooked[node_of(fn)] = fn
    return RemovableHandle(hooks, hook)


# ---------------------------------------------------------------------- calling hooks


def _tensors(nodes: Sequence[Node | None]) -> tuple[Tensor | None, ...]:
    return tuple(None if node is None else wrap(node, name="Clone") for node in nodes)


def _replaced(hook: Hook, found: Any, before: Sequence[Node | None]) -> list[Node | None]:
    """What a hook returned in place of gradients. Raises GradientError for another number."""
    values = (found,) if isinstance(found, Tensor) else tuple(found)
    if len(values) != len(before):
        raise GradientError(
            f"hook '{getattr(hook, '__name__', hook)}' has returned an incorrect number of values "
            f"(got {len(values)}, but expected {len(before)})"
        )
    return [None if value is None else value.node for value in values]


def before(fn: GradFn, grads: Sequence[Node | None]) -> list[Node | None]:
    """The gradients that arrive at ``fn`` after the hooks before it."""
    given = list(grads)
    for hook in [] if fn._extra is None else list(fn._extra.prehooks.values()):
        found = hook(_tensors(given))
        if found is not None:
            given = _replaced(hook, found, given)
    return given


def after(
    fn: GradFn, inputs: Sequence[Node | None], grads: Sequence[Node | None]
) -> list[Node | None]:
    """What ``fn`` says of its inputs' gradients after the hooks behind it."""
    chosen = inputs_of(type(fn).__name__, len(inputs))
    given: list[Node | None] = [None if i is None else inputs[i] for i in chosen]
    for hook in [] if fn._extra is None else list(fn._extra.posthooks.values()):
        found = hook(_tensors(given), _tensors(grads))
        if found is not None:
            given = _replaced(hook, found, given)
    places = dict(zip(chosen, given))
    return [places.get(i) for i in range(len(inputs))]


# ---------------------------------------------------------------------- the graph


def parents_of(fn: GradFn, node: Node) -> list[Node | None]:
    """The nodes of the inputs of ``fn`` below its own; None for those without a gradient."""
    wanted: dict[Any, int] = {}
    for number, parent in enumerate(fn.parents):
        if isinstance(parent, AccumulateGrad):
            wanted.setdefault(parent.uid, number)
        elif parent is not None:
            reference = getattr(parent, "made", None)
            made = None if reference is None else reference()
            wanted.setdefault(parent, number)
            if made is not None:
                wanted.setdefault(made, number)
    places: dict[int, Node] = {}
    seen = {node}
    waiting = list(node.inputs)
    while waiting:
        item = waiting.pop()
        if item in seen or not item.needs_grad:
            continue
        seen.add(item)
        known = boundaries.get(item)
        keys = [item] if item.op.name != "variable" else [item, item.params.uid]
        keys += [] if known is None else [known[0]]
        place = next((wanted[key] for key in keys if key in wanted), None)
        if place is None:
            waiting.extend(item.inputs)
        else:
            places[place] = item
    return [places.get(number) for number in range(len(fn.parents))]


def call(fn: GradFn, grads: Sequence[Tensor | None]) -> Any:
    """What ``fn`` says of its inputs' gradients where ``grads`` is its result's."""
    node = node_of(fn)
    given = grads[0]
    inputs = parents_of(fn, node)
    if given is None:
        return tuple(None for _ in inputs)
    cotangent = ops.cast(given.node, node.dtype)
    found = _through(node, cotangent, inputs)
    chosen = inputs_of(type(fn).__name__, len(found))
    results = _tensors([None if i is None else found[i] for i in chosen])
    return results[0] if len(results) == 1 else results


class Derivative:
    """How the gradient of one call's result gives those of its inputs, in terms of stand-ins.

    An input may lie below another one, or below one of the ``others`` that the call reads.
    Stand-ins hide that: each gets what comes to it directly.

    Attributes:
        parts: the gradients of the inputs; None where there is no input.
        cotangent: stands for the result's gradient.
        places: the stand-in of each input.
    """

    def __init__(
        self, node: Node, inputs: Sequence[Node | None], others: Iterable[Node] = ()
    ) -> None:
        from lazyt.transforms.vjp import vjp

        self.places = {n: ops.variable(raw(n), next_uid()) for n in inputs if n is not None}
        self.cotangent = ops.variable(ops.zeros_like(node), next_uid())
        top = substituted([node], {**{n: n for n in others}, **self.places})
        known = dict(zip(self.places, vjp(top, [self.cotangent], [*self.places.values()])))
        self.parts = [None if item is None else known[item] for item in inputs]

    def at(self, cotangent: Node, values: Mapping[Node, Node]) -> list[Node | None]:
        """The gradients where ``cotangent`` is the result's, with ``values[input]`` for inputs."""
        table = {**values, self.cotangent: cotangent}
        table.update((place, values.get(item, item)) for item, place in self.places.items())
        found = iter(substituted([part for part in self.parts if part is not None], table))
        return [None if part is None else next(found) for part in self.parts]


def substituted(roots: Sequence[Node], table: Mapping[Node, Node]) -> list[Node]:
    """``roots`` with ``table[node]`` in the place of each node that is in ``table``."""

    def changed(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node in table:
            return table[node]
        return ops.detach(inputs[0]) if node.op is ops.DETACH else remake(node, inputs)

    return rebuild(roots, changed, table.__contains__)


def _through(node: Node, cotangent: Node, inputs: Sequence[Node | None]) -> list[Node | None]:
    return Derivative(node, inputs).at(cotangent, {})


def _packed(fn: GradFn) -> PackedCall | None:
    return None if fn._extra is None else fn._extra.packed


def pull(
    pairs: Sequence[tuple[Node, Node]],
    wanted: Sequence[Node],
    create_graph: bool,
    watch: Watch | None,
) -> list[Node | None]:
    """``vjp`` for ``wanted`` that calls the hooks of the grad_fns on its way."""
    from lazyt.transforms.cotangents import total
    from lazyt.transforms.derivations import Walk
    from lazyt.transforms.vjp import _pull, connected

    received: dict[Node, list[Node]] = {}
    sums: dict[Node, Node] = {}

    def accumulate(node: Node, part: Node | None) -> None:
        if part is not None:
            received.setdefault(node, []).append(part)

    for node, cotangent in pairs:
        accumulate(node, cotangent)
    inputs = {
        node: parents_of(fn, node) if (call := _packed(fn)) is None else call.inputs
        for node, fn in hooked.items()
    }
    inner = [item for items in inputs.values() for item in items if item is not None]
    path = connected([node for node, _ in pairs], [*wanted, *inner])
    active = set(path)
    given = [node for pair in pairs for node in pair]
    opaque = frozenset(Walk([node for node, _ in pairs], wanted, given).outside)
    for node in reversed(path):
        if node not in received:
            continue
        summed = sums[node] = total(received.pop(node), opaque)
        fn = hooked.get(node)
        if fn is not None:
            with set_grad_enabled(create_graph):
                (changed,) = before(fn, [summed if create_graph else raw(summed)])
                if changed is None:
                    continue
                call = _packed(fn)
                if call is None:
                    parts = _through(node, changed, inputs[node])
                else:
                    parts = call.pull(node, changed, create_graph)
                parts = after(fn, parts, [changed])
            for item, part in zip(inputs[node], parts):
                if item is not None:
                    accumulate(item, part)
        elif any(item in active for item in node.inputs):
            for index, (item, part) in enumerate(zip(node.inputs, _pull(node, summed))):
                if part is not None and item in active:
                    if watch is not None:
                        watch(node, summed, index, part)
                    accumulate(item, part)
    return [
        sums[node] if node in sums else ops.zeros_like(node) if node in active else None
        for node in wanted
    ]
