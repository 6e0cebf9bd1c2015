"""A function run once on symbols, as the body of an op of the graph.

The symbols stand for the carries and slices of any step. What the function's results depend on
besides them becomes an operand of the op, too: values from outside, which every step reads. What
cannot be said by one graph for all steps is refused, or left to Python's own loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import lazyt.transforms.batch
import lazyt.transforms.jvp
import lazyt.transforms.vjp  # noqa: F401  by which bodies are transformed
from lazyt import ops
from lazyt.autograd.levels import Level, entered
from lazyt.errors import GradientError, LazytError
from lazyt.handle.grad_mode import mode
from lazyt.handle.storage import Storage
from lazyt.handle.tape import boundaries
from lazyt.handle.tensor import Tensor
from lazyt.ir.forms import PLACED
from lazyt.ir.graph import Body, Node, remake, topological
from lazyt.ops.leaves import VARIABLE


class CannotTrace(Exception):
    """A function has no graph that serves every step; the reason is the text."""


class BodyLevel(Level):
    """The level in which a body is traced.

    Attributes:
        title: what messages call the function.
        leaves: the symbols.
        given: the tensors that stand for them.

    Args:
        size: the number of steps; 0 where the function runs once, and may do all that it may
            elsewhere: then CannotTrace is raised in the place of errors.
    """

    def __init__(self, title: str, size: int) -> None:
        super().__init__(size, "different")
        self.title = title
        self.leaves: set[Node] = set()
        self.given: list[Tensor] = []

    def depends(self, nodes: Iterable[Node]) -> bool:
        """Whether one of ``nodes`` is computed from a symbol."""
        known = self.leaves | self.symbols.keys()
        order = topological(nodes, lambda node: node in known or node.data is not None)
        return any(node in known for node in order)

    def refuse_write(self, value: Node) -> None:
        """Raises GradientError: each step would write."""
        if not self.size:
            raise CannotTrace("it writes into a tensor that was made outside of it")
        raise GradientError(
            f"{self.title}: the function writes into a tensor that was made outside of it. Return "
            "the new value instead."
        )

    def refuse_look(self, reason: str) -> None:
        """Raises LazytError: there is no value yet."""
        if not self.size:
            raise CannotTrace(f"it looks at a value ({reason})")
        raise LazytError(
            f"{self.title}: the function looks at a value that differs from step to step "
            f"({reason}), so that its way through the program may differ, too. Compute both "
            "results and choose with where(), or call cond()."
        )

    def whole(self, node: Node) -> Node:
        """Raises CannotTrace where what is looked at for all steps is not known yet."""
        order = topological([node], lambda item: item in self.symbols or item.data is not None)
        if any(item in self.leaves and item not in self.symbols for item in order):
            raise CannotTrace("an index is computed by the steps before, and has to be checked")
        return super().whole(node) if self.symbols else node


class Traced(NamedTuple):
    """What a function became.

    Attributes:
        body: leaves are the constants, then the symbols as they were given, then the keys of
            random numbers.
        constants: values from outside.
        keys: keys of random numbers, one row for each step.
    """

    body: Body
    constants: list[Node]
    keys: list[Node]


def symbol(level: BodyLevel, like: Node, shape: Sequence[int]) -> tuple[Node, Tensor]:
    """A new leaf of ``level``, and the tensor that the function gets for it."""
    leaf = node = ops.input_(shape, like.dtype)
    level.leaves.add(leaf)
    if mode.enabled and leaf.dtype.kind in "fc":
        node = ops.variable(leaf, -id(leaf))  # so that no_grad and detach say what they do
    made = Tensor.__new__(Tensor)
    made._view = None
    made._storage = Storage(node)
    level.given.append(made)
    return leaf, made


def is_placed(nodes: Iterable[Node]) -> bool:
    """Whether any of these is on another device than the CPU."""
    return any(node.form < PLACED for node in nodes)


def trace(
    level: BodyLevel, leaves: Sequence[Node], function: Callable[[], Sequence[Tensor]]
) -> Traced:
    """The graph of what ``function`` returns, over symbols ``leaves`` of ``level``.

    Raises CannotTrace.
    """
    with entered(level):
        roots = [item.node for item in function()]
    if any(made._storage.was_written for made in level.given):
        level.refuse_write(roots[0])
    keys = {leaf: values for leaf, values in level.symbols.items() if leaf not in level.leaves}
    own = level.leaves | keys.keys()
    table: dict[Node, Node] = {leaf: leaf for leaf in own}
    constants: dict[Node, Node] = {}
    inside: set[Node] = set(own)
    order = topological(roots, lambda node: node in own)
    for node in order:
        if node not in inside and any(item in inside for item in node.inputs):
            inside.add(node)
    wanted = [*(item for node in order if node in inside for item in node.inputs), *roots]
    for node in dict.fromkeys(wanted):
        if node not in inside:
            if _is_literal(node):
                table[node] = node
            else:
                table[node] = constants[node] = ops.input_(node.shape, node.dtype)
    for node in order:
        if node not in inside or node in table:
            continue
        items = tuple([table[item] for item in node.inputs])
        if node.op is VARIABLE:
            if node in boundaries:
                raise CannotTrace("a custom autograd function, or a hook, is run by Python")
            table[node] = items[0]
        else:
            table[node] = remake(node, items)
    body = Body.of([*constants.values(), *leaves, *keys], [table[root] for root in roots])
    given = [*constants, *keys.values()]
    if is_placed(given):
        raise CannotTrace("a value is on another device than the CPU")
    return Traced(body, list(constants), list(keys.values()))


def _is_literal(node: Node) -> bool:
    """Whether a value from outside is a number, perhaps repeated, or a count: part of the body."""
    while node.op.movement == "ordered" and node.data is None:
        node = node.inputs[0]
    return node.op.name in ("const", "iota") and (node.data is None or node.op.name == "const")


def needs_history(nodes: Iterable[Any]) -> bool:
    """Whether gradients will be wanted of what is computed from ``nodes``."""
    return mode.enabled and any(node.needs_grad for node in nodes)
