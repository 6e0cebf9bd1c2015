"""Checkpoints: a function whose inner values are computed again when its gradient is.

PyTorch keeps only the inputs of a checkpointed function and calls it again during ``backward``. So
it is here: the function is called twice, under the same grad mode, random state and autocast. What
is computed twice, though, is for the plan to say: within one plan equal values are one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt.autograd.checkpointing import run_checkpointed
from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import warn
from lazyt.handle.grad_mode import is_grad_enabled
from lazyt.handle.tensor import Tensor

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, whose gradient comes from calling it again.

    Args:
        function: called now, and once more by every ``backward`` through its results.
        use_reentrant: both of PyTorch's ways give the same here, gradients of parameters included;
            with True there is PyTorch's warning where no argument requires a gradient.
        preserve_rng_state: whether the second call draws the same random numbers.

    Returns: what ``function`` returns; tensors may be in tuples, lists and dicts.

    Raises GradientError when the second call gives other shapes than the first.
    """
    if use_reentrant and is_grad_enabled():
        tensors = [item for item in args if isinstance(item, Tensor)]
        if not any(item.requires_grad for item in tensors):
            warn("None of the inputs have requires_grad=True. Gradients will be None")
    return run_checkpointed(function, args, kwargs, preserve_rng_state)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None
) -> Any:
    """Functions one after the other, all but the last of ``segments`` parts checkpointed."""
    steps = list(functions)
    size = max(1, len(steps) // segments)
    start = 0
    for _ in range(segments - 1):
        part = steps[start : start + size]
        input = checkpoint(_run, part, input, use_reentrant=use_reentrant)
        start += size
    return _run(steps[start:], input)


def _run(steps: Sequence[Callable[[Any], Any]], input: Any) -> Any:
    for step in steps:
        input = step(input)
    return input


_explain_absence(__name__)
