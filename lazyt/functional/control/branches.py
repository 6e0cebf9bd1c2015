"""``cond`` and ``while_loop``: what runs next is decided by a value, when it is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.errors import LazytError, warn
from lazyt.functional.control.loops import described, scan_of
from lazyt.functional.control.tracing import (
    BodyLevel,
    CannotTrace,
    Traced,
    is_placed,
    needs_history,
    symbol,
    trace,
)
from lazyt.functional.creation.creation import tensor
from lazyt.functional.overriding import of_modes, switch
from lazyt.handle.dispatch import wrap
from lazyt.handle.function_table import declare_grad_fn
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.pytree import TreeSpec, flatten, unflatten
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Body, Node
from lazyt.ops.control.branches import branch
from lazyt.ops.control.conditions import repeat

declare_grad_fn("CondAutogradOp", "WhileLoopAutogradOp", saves="a")


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """``true_fn(*operands)`` where ``pred`` is true, else ``false_fn(*operands)``
    (``torch.cond``).

    A tensor ``pred`` is not looked at when ``cond`` is called: the graph has both branches, each
    compiled on its own, and computes one of them when ``pred`` is computed. Captured functions have
    both, too. Where the functions look at values, write to tensors or give results of other shapes
    than each other, ``pred`` is looked at, and Python calls one.

    Args:
        pred: a bool or a number, which Python looks at, or a tensor with one element.
        true_fn, false_fn: from ``operands`` to trees of tensors with the same shapes and dtypes.
            They may read tensors from outside; gradients go through the branch that is taken.
        operands: a tuple or list of trees of tensors.

    Raises LazytError (a RuntimeError), in PyTorch's words, for arguments that do not fit and for
    results of different dtypes.

    Example::

        >>> import lazyt
        >>> x = lazyt.tensor([1.0, -2.0])
        >>> lazyt.func.cond(x.sum() > 0, lazyt.sin, lambda x: x * 10, (x,))
        tensor([ 10., -20.])
    """
    if isinstance(pred, (bool, int, float)):
        return true_fn(*operands) if pred else false_fn(*operands)
    if switch.open:
        found = of_modes(cond, pred, true_fn, false_fn, operands)
        if found is not NotImplemented:
            return found
    flat, tree = _checked_cond(pred, true_fn, false_fn, operands)
    nodes = [item.node for item in (pred, *flat)]
    try:
        if is_placed(nodes):
            raise CannotTrace("a value is on another device than the CPU")
        sides = [_side(f, flat, tree) for f in (true_fn, false_fn)]
        return _chosen(pred, flat, *sides)
    except CannotTrace:
        return true_fn(*operands) if bool(pred) else false_fn(*operands)


def _checked_cond(
    pred: Any, true_fn: Any, false_fn: Any, operands: Any
) -> tuple[list[Tensor], TreeSpec]:
    """The operands, flat. Raises LazytError, in PyTorch's words."""
    if not isinstance(pred, Tensor):
        raise LazytError(f"Expected pred to be bool or tensor, but got {pred}.")
    if pred.numel() != 1:
        raise LazytError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise LazytError("Expect both branches to be callable.")
    flat, tree = flatten(operands)
    if not isinstance(operands, (tuple, list)) or any(not isinstance(x, Tensor) for x in flat):
        raise LazytError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists "
            f"of tensor leaves, but got {operands}."
        )
    return flat, tree


class _Side(NamedTuple):
    """A branch: its graph, and the tree of what it returns."""

    traced: Traced
    tree: TreeSpec


def _side(function: Callable[..., Any], flat: Sequence[Tensor], tree: TreeSpec) -> _Side:
    level = BodyLevel("cond", 0)
    pairs = [symbol(level, item.node, item.shape) for item in flat]
    trees: list[TreeSpec] = []

    def run() -> list[Tensor]:
        found, out_tree = flatten(function(*unflatten([made for _, made in pairs], tree)))
        trees.append(out_tree)
        if not found or not all(isinstance(item, Tensor) for item in found):
            raise CannotTrace("it returns other values than tensors")
        return found

    return _Side(trace(level, [leaf for leaf, _ in pairs], run), trees[0])


def _chosen(pred: Tensor, flat: Sequence[Tensor], then: _Side, other: _Side) -> Any:
    """The results of the branch, by the graph."""
    if then.tree != other.tree:
        raise LazytError(
            "Unmatched output spec from torch.cond branches: true branch tree_spec "
            f"{then.tree.pretty()} vs false branch tree_spec {other.tree.pretty()}."
        )
    for a, b in zip(then.traced.body.roots, other.traced.body.roots):
        if a.dtype is not b.dtype:
            raise LazytError(
                "When merging two branches' output in torch.cond,  expected same dtype but got "
                f"{a.dtype} and {b.dtype}."
            )
        if a.shape != b.shape:
            raise CannotTrace("the branches give results of different shapes")
    constants = list(dict.fromkeys([*then.traced.constants, *other.traced.constants]))
    bodies = [_over(side.traced, constants, len(flat)) for side in (then, other)]
    chosen = ops.reshape(ops.cast(pred.node, bool_), ())
    operands = [*constants, *[item.node for item in flat]]
    found = branch(chosen, bodies[0], bodies[1], operands)
    results = [wrap(node, *flat, name="CondAutogradOp") for node in found]
    return unflatten(results, then.tree)


def _over(traced: Traced, constants: Sequence[Node], count: int) -> Body:
    """A body over the constants of several, and ``count`` symbols behind them."""
    own, leaves = len(traced.constants), traced.body.leaves
    table = dict(zip(traced.constants, leaves))
    first = [table.get(node) or ops.input_(node.shape, node.dtype) for node in constants]
    return Body.of([*first, *leaves[own : own + count]], traced.body.roots)


# ------------------------------------------------------------------------------ while_loop


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> Any:
    """``val = body_fn(*val)`` for as long as ``cond_fn(*val)`` is true, from ``carried_inputs`` on
    (``torch.while_loop``).

    Both functions run once, on symbols; their graphs are compiled once, and how many steps there
    are is not looked at. Where an operand requires a gradient, the loop runs once to count its
    steps, which is a look at a value, and then as a ``scan`` of as many.

    Args:
        cond_fn: from the carried values to a truth value, a tensor with one element.
        body_fn: from the carried values to their successors, of the same shapes and dtypes. Both
            functions may read tensors from outside.
        carried_inputs: a tuple or list of trees of tensors, and of whole numbers, which the
            functions get as tensors.

    Returns: what was carried in the end; whole numbers are Python's.

    Raises LazytError (a RuntimeError), in PyTorch's words, for arguments and results that do not
    fit, and where the functions look at values.

    Example::

        >>> import lazyt
        >>> lazyt.func.while_loop(
        ...     lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, lazyt.tensor([1.0]))
        ... )
        (3, tensor([8.]))
    """
    if switch.open:
        made = of_modes(while_loop, cond_fn, body_fn, carried_inputs)
        if made is not NotImplemented:
            return made
    if not callable(cond_fn) or not callable(body_fn):
        raise LazytError("Expect cond_fn and body_fn to be callable.")
    flat, tree = flatten(carried_inputs)
    if not isinstance(carried_inputs, (tuple, list)) or not all(
        isinstance(item, (Tensor, int)) for item in flat
    ):
        raise LazytError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only"
            f"consists of tensor or int leaves, but got {carried_inputs}."
        )
    start = [item if isinstance(item, Tensor) else tensor(item, dtype=int64) for item in flat]
    loop = _While(cond_fn, body_fn, start, tree)
    try:
        if is_placed([item.node for item in start]):
            raise CannotTrace("a value is on another device than the CPU")
        found = loop.traced()
    except CannotTrace as reason:
        warn(f"while_loop runs as a loop in Python: {reason}")
        found = loop.plain()
    ends = [end if isinstance(item, Tensor) else int(end.item()) for item, end in zip(flat, found)]
    return unflatten(ends, tree)


class _While:
    """One call of ``while_loop``."""

    def __init__(
        self,
        cond_fn: Callable[..., Any],
        body_fn: Callable[..., Any],
        start: list[Tensor],
        tree: TreeSpec,
    ) -> None:
        self.cond_fn, self.body_fn = cond_fn, body_fn
        self.start, self.tree = start, tree

    def test(self, values: Sequence[Tensor]) -> Tensor:
        """Whether there is another step. Raises LazytError for what is no truth value."""
        found = self.cond_fn(*unflatten(list(values), self.tree))
        if isinstance(found, bool):
            found = tensor(found)
        if not isinstance(found, Tensor) or found.numel() != 1 or found.dtype is not bool_:
            what = found.shape if isinstance(found, Tensor) else type(found)
            raise LazytError(
                f"Expected cond_fn to return a scalar tensor or a bool but got {what}."
            )
        return found.reshape(())

    def step(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The next values. Raises LazytError where they do not go on as they began."""
        following, _ = flatten(self.body_fn(*unflatten(list(values), self.tree)))
        following = [tensor(x, dtype=int64) if isinstance(x, int) else x for x in following]
        if len(following) != len(self.start):
            raise LazytError(
                "Expected body_fn_output and carried_inputs to have same number of outputs but got "
                f"lhs:{[described(x) for x in following]} and "
                f"rhs:{[described(x) for x in self.start]}"
            )
        for number, (old, new) in enumerate(zip(self.start, following)):
            if not isinstance(new, Tensor) or (old.dtype, old.shape) != (new.dtype, new.shape):
                raise LazytError(
                    "Expected carried_inputs and body_output to have same metadata but found:\n"
                    f"pair[{number}] differ, where lhs is {described(old)} and rhs is "
                    f"{described(new)}"
                )
        return following

    def plain(self) -> list[Tensor]:
        """The loop in Python."""
        values = self.start
        while bool(self.test(values)):
            values = self.step(values)
        return values

    def traced(self) -> list[Tensor]:
        """The loop in the graph. Raises CannotTrace."""
        test, body = self._side(lambda v: [self.test(v)]), self._side(self.step)
        if test.keys or body.keys:
            raise CannotTrace("random numbers are drawn in each step")
        constants = list(dict.fromkeys([*test.constants, *body.constants]))
        bodies = [_over(side, constants, len(self.start)) for side in (test, body)]
        nodes = [item.node for item in self.start]
        if not needs_history([*constants, *nodes]):
            found = repeat(bodies[0], bodies[1], constants, nodes)
            return [wrap(node, *self.start, name="WhileLoopAutogradOp") for node in found]
        count = _counted(bodies[0], bodies[1])
        with no_grad():
            zero = ops.constant(0, int64)
            fixed, begin = ([ops.detach(node) for node in some] for some in (constants, nodes))
            steps = repeat(*count, fixed, [zero, *begin])
            number = int(wrap(steps[0]).item())
        if not number:
            return list(self.start)
        return scan_of(bodies[1], constants, self.start, number)

    def _side(self, function: Callable[[Sequence[Tensor]], list[Tensor]]) -> Traced:
        level = BodyLevel("while_loop", 1)
        pairs = [symbol(level, item.node, item.shape) for item in self.start]
        return trace(
            level, [leaf for leaf, _ in pairs], lambda: function([made for _, made in pairs])
        )


def _counted(test: Body, body: Body) -> tuple[Body, Body]:
    """The same with a count of the steps as the first carry."""
    found = []
    carries = len(body.roots)
    constants = len(body.leaves) - carries
    for side in (test, body):
        count = ops.input_((), int64)
        leaves = [*side.leaves[:constants], count, *side.leaves[constants:]]
        more = [ops.apply("add", count, ops.constant(1, int64))] if side is body else []
        found.append(Body.of(leaves, [*more, *side.roots]))
    return found[0], found[1]


__all__ = ["cond", "while_loop"]
