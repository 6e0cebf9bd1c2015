"""Hooks on grad_fns, and grad_fns that are called.

A function of the user's may be many nodes of the graph. A grad_fn knows its result's node and those
of its operands; between them lies what it does. Backward calls the hooks where it follows the tape
(``traversal.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lazyt import ops
from lazyt.errors import GradientError, LazytError
from lazyt.handle.dispatch import type_title, wrap
from lazyt.handle.grad_mode import set_grad_enabled
from lazyt.handle.storage import raw
from lazyt.handle.tape import (
    AccumulateGrad,
    GradFn,
    boundaries,
    inputs_of,
    next_uid,
    sparse_forms,
)
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, rebuild, remake

if TYPE_CHECKING:
    pass

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


# ---------------------------------------------------------------------- calling hooks


def _replaced(hook: Hook, found: Any, before: Sequence[Tensor | None]) -> list[Tensor | None]:
    """What a hook returned in place of gradients. Raises GradientError for another number."""
    values = [found] if isinstance(found, Tensor) else list(found)
    if len(values) != len(before):
        raise GradientError(
            f"hook '{getattr(hook, '__name__', hook)}' has returned an incorrect number of values "
            f"(got {len(values)}, but expected {len(before)})"
        )
    return values


def before(fn: GradFn, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The gradients that arrive at ``fn`` after the hooks before it."""
    given = list(grads)
    for hook in [] if fn._extra is None else list(fn._extra.prehooks.values()):
        found = hook(tuple(given))
        if found is not None:
            given = _replaced(hook, found, given)
    return given


def after(
    fn: GradFn, inputs: Sequence[Tensor | None], grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """What ``fn`` says of its inputs' gradients after the hooks behind it."""
    chosen = inputs_of(type(fn), len(inputs))
    given: list[Tensor | None] = [None if i is None else inputs[i] for i in chosen]
    for hook in [] if fn._extra is None else list(fn._extra.posthooks.values()):
        found = hook(tuple(given), tuple(grads))
        if found is not None:
            given = _replaced(hook, found, given)
    places = dict(zip(chosen, given))
    return [places.get(i) for i in range(len(inputs))]


def run_hooks(fn: GradFn, grad: Node, create_graph: bool) -> Node:
    """``grad`` after the hooks of ``fn``, whose own work has a history with ``create_graph``."""
    if fn._extra is None or not fn._extra.hooks:
        return grad
    found = call_hooks(fn._extra.hooks, gradient_tensor(grad), create_graph)
    assert found is not None
    return found.node


def call_hooks(
    hooks: dict[int, Callable[[Any], Any]], grad: Tensor | None, create_graph: bool
) -> Tensor | None:
    """``grad`` after ``hooks``, which are told None where there is none.

    Raises TypeError for what is no tensor, and GradientError for one of another dtype or shape.
    """
    for hook in list(hooks.values()):
        with set_grad_enabled(create_graph):
            replaced = hook(grad)
        if replaced is None:
            continue
        if not isinstance(replaced, Tensor):
            raise TypeError(f"expected Variable, but hook returned '{type(replaced).__name__}'")
        name = getattr(hook, "__name__", hook)
        if grad is not None and replaced.dtype is not grad.dtype:
            was, got = (f"torch.{type_title(d)}Tensor" for d in (grad.dtype, replaced.dtype))
            raise GradientError(
                f"hook '{name}' has changed the type of value (was {was} got {got})"
            )
        if grad is not None and replaced.shape != grad.shape:
            raise GradientError(f"hook '{name}' has changed the size of value")
        grad = replaced
    return grad


def sparse_form(grad: Node) -> Tensor | None:
    """The sparse tensor whose dense value ``grad`` is: one that a function gave as a gradient, or
    the sum of several; None for all other gradients."""
    parts: list[Tensor] = []
    stack = [grad]
    while stack:
        node = stack.pop()
        found = sparse_forms.get(node)
        if found is not None:
            parts.append(found)
        elif node.op.name == "detach":
            stack.append(node.inputs[0])
        elif (call := ops.match_call(node)) is not None and call[0] == "add":
            if len(node.inputs) != 2:
                return None
            stack += reversed(node.inputs)
        else:
            return None
    kind: Any = type(parts[0])
    made: Tensor = kind.joined(parts)
    return made


#: Give the gradients of tensors of other classes those classes.
kinds_of_gradients: list[Callable[[Tensor], Tensor]] = []

#: Told that a backward begins.
beginning: list[Callable[[], None]] = []


def gradient_tensor(grad: Node, source: Tensor | None = None) -> Tensor:
    """``grad`` as a tensor; it keeps its own history exactly when it has one, which is that of
    ``source`` if that is given."""
    if sparse_forms and (found := sparse_form(grad)) is not None:
        return found
    if not grad.needs_grad:
        found = wrap(grad)
    else:
        with set_grad_enabled(True):
            found = wrap(grad, source, name="Clone")
    for give in kinds_of_gradients:
        found = give(found)
    return found


# ---------------------------------------------------------------------- the graph


class Derivative:
    """How the gradient of one call's result gives those of its inputs, in terms of placeholders.

    An input may lie below another one, or below one of the ``others`` that the call reads.
    Placeholders hide that: each gets what comes to it directly.

    Attributes:
        parts: the gradients of the inputs; None where there is no input.
        cotangent: stands for the result's gradient.
        places: the placeholder of each input.
    """

    def __init__(
        self, node: Node, inputs: Sequence[Node | None], others: Iterable[Node] = ()
    ) -> None:
        from lazyt.transforms.vjp import vjp

        self.places = {n: ops.variable(raw(n), next_uid()) for n in inputs if n is not None}
        self.cotangent = ops.variable(ops.zeros_like(node), next_uid())
        top = substituted([node], {**{n: n for n in others}, **self.places})
        known = dict(zip(self.places, vjp(top, [self.cotangent], [*self.places.values()])))
        self._node, self._top = node, top[0]
        self.parts = [None if item is None else known[item] for item in inputs]

    def at(self, cotangent: Node, values: Mapping[Node, Node]) -> list[Node | None]:
        """The gradients where ``cotangent`` is the result's, with ``values[input]`` for inputs, and
        for the result where that is among them."""
        table = {**values, self.cotangent: cotangent}
        table.update((place, values.get(item, item)) for item, place in self.places.items())
        if self._node in values:
            table[self._top] = values[self._node]
        found = iter(substituted([part for part in self.parts if part is not None], table))
        return [None if part is None else next(found) for part in self.parts]


def substituted(roots: Sequence[Node], table: Mapping[Node, Node]) -> list[Node]:
    """``roots`` with ``table[node]`` in the place of each node that is in ``table``."""

    def changed(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node in table:
            return table[node]
        return ops.detach(inputs[0]) if node.op is ops.DETACH else remake(node, inputs)

    return rebuild(roots, changed, table.__contains__)


# Edges of the graph of grad_fns, in place of the tensors that they lead to.


class GradientEdge(NamedTuple):
    """Where a tensor's gradient goes: a grad_fn, and the number of its output."""

    node: GradFn
    output_nr: int


class EdgeEnd:
    """What an edge leads to, with what ``backward`` and ``grad`` ask tensors for."""

    __slots__ = ("_fn", "index", "node")

    def __init__(self, edge: GradientEdge) -> None:
        self._fn, self.index = edge.node, edge.output_nr
        leaf = edge.node.variable if isinstance(edge.node, AccumulateGrad) else None
        self.node: Node = node_of(edge.node) if leaf is None else leaf.node

    @property
    def shape(self) -> Any:
        """The tensor's shape."""
        return wrap(self.node).shape

    @property
    def dtype(self) -> DType:
        """The tensor's dtype."""
        return self.node.dtype


def ends(value: Any) -> tuple[Any, ...]:
    """Tensors, or what stands for them: one, several or none, edges among them."""
    if value is None:
        return ()
    if isinstance(value, (Tensor, GradientEdge)):
        value = (value,)
    return tuple(EdgeEnd(item) if isinstance(item, GradientEdge) else item for item in value)
