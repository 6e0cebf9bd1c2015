"""Loops of modules, whose step is known beforehand: traced once for operands of given types."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.functional.control.tracing import (
    BodyLevel,
    CannotTrace,
    is_placed,
    needs_history,
    symbol,
    trace,
)
from lazyt.handle.autocast import is_autocast_enabled
from lazyt.handle.dispatch import wrap
from lazyt.handle.function_table import declare_grad_fn
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Body
from lazyt.ops.control.building import loop

#: From values that are the same in every step, a slice and a state to the next state.
Recurrence = Callable[[Sequence[Tensor], Tensor, Sequence[Tensor]], Sequence[Tensor]]

declare_grad_fn("Recurrence", saves="a")

_bodies: OrderedDict[Any, Body] = OrderedDict()
#: How many bodies are remembered.
_MOST = 256


def recurrence(
    step: Recurrence,
    constants: Sequence[Tensor],
    start: Sequence[Tensor],
    xs: Tensor,
    reverse: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The first part of every state that ``step`` leads to, stacked, and the last state.

    ``step`` is the same object each time, and reads nothing but what it is given. Raises
    CannotTrace where this is no loop of the graph.
    """
    every = (*constants, *start, xs)
    nodes = [item.node for item in every]
    if is_placed(nodes):
        raise CannotTrace("a value is on another device than the CPU")
    if is_autocast_enabled("cpu"):
        raise CannotTrace("autocast changes the types of a state")
    length, first = xs.shape[0], len(constants)
    key = (step, first, xs.shape[1:], xs.dtype, *[node.type for node in nodes[:-1]])
    body = _bodies.get(key)
    if body is None:
        body = _bodies[key] = _traced(step, constants, start, xs)
        if len(_bodies) > _MOST:
            _bodies.popitem(last=False)
    made = loop(
        body, nodes[:first], nodes[first:-1], nodes[-1:], length, reverse, needs_history(nodes)
    )
    inner = wrap(made.slices[0], *every, name="Recurrence")
    last = tuple([wrap(node, *every, name="Recurrence") for node in made.carries])
    return wrap(made.slices[0], inner, name="Stack"), last


def _traced(
    step: Recurrence, constants: Sequence[Tensor], start: Sequence[Tensor], xs: Tensor
) -> Body:
    level = BodyLevel("a recurrent layer", xs.shape[0])
    pairs = [symbol(level, item.node, item.shape) for item in (*constants, *start)]
    pairs.append(symbol(level, xs.node, xs.shape[1:]))
    given = [made for _, made in pairs]
    first = len(constants)

    def function() -> list[Tensor]:
        state = step(given[:first], given[-1], given[first:-1])
        return [*state, state[0]]

    traced = trace(level, [leaf for leaf, _ in pairs], function)
    if traced.constants or traced.keys:
        raise CannotTrace("a step reads values from outside")
    after = traced.body.roots[: len(start)]
    if any(node.type != item.node.type for node, item in zip(after, start)):
        raise CannotTrace("the types of a state change")
    return traced.body
