"""Gradients that cannot be differentiated again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lazyt.dispatch import wrap
from lazyt.errors import GradientError
from lazyt.grad_mode import mode, no_grad
from lazyt.ir.graph import Node
from lazyt.storage import raw
from lazyt.tape import GradFn, boundary
from lazyt.tensor import Tensor


class DelayedError(GradFn):
    """The grad_fn of what cannot be differentiated: asking for its gradient raises."""

    __slots__ = ("text", "under")

    def __init__(self, text: str, under: list[Node]) -> None:
        self.begin()
        self.text, self.under = text, under

    def below(self) -> list[Node]:
        """What a gradient would go to."""
        return self.under

    def advance(self, cotangents: list[Node | None]) -> list[tuple[Node, Node]]:
        """Raises GradientError."""
        raise GradientError(self.text)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of ``backward``: what it returns cannot be differentiated again, which raises."""

    @functools.wraps(function)
    def inside(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = function(ctx, *args)
        needed = [a.node for a in args if isinstance(a, Tensor) and a.node.needs_grad]
        if not mode.enabled or not needed:
            return outputs
        text = "trying to differentiate twice a function that was marked with @once_differentiable"
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        found = []
        for output in several:
            if isinstance(output, Tensor):
                fn = DelayedError(text, needed)
                node = raw(output.node)
                output = wrap(node)
                output._storage.node, output._storage.fn = boundary(node, fn), fn
            found.append(output)
        return tuple(found) if isinstance(outputs, tuple) else found[0]

    return inside
