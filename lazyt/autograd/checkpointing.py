"""The gradient of checkpointed functions: a boundary below which the function is called again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lazyt import ops
from lazyt.autograd.engine import find_variables, through_inner
from lazyt.errors import GradientError
from lazyt.functional.random.generators import default_generator
from lazyt.handle import autocast
from lazyt.handle.dispatch import wrap
from lazyt.handle.grad_mode import enable_grad, mode
from lazyt.handle.storage import Storage
from lazyt.handle.tape import GradFn, boundaries, boundary, leaves
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node, topological


class CheckpointBackward(GradFn):
    """The grad_fn of a checkpointed function's outputs: calls the function again."""

    __slots__ = ("again", "shapes", "variables")

    again: Callable[[], Any]
    shapes: list[Any]
    variables: list[Node]
    rule = "a"
    several = True
    runs_python = computes_again = True

    def below(self) -> list[Node]:
        """The variables that the function's results depend on."""
        return self.variables

    def advance(self, cotangents: list[Node | None]) -> list[tuple[Node, Node]]:
        """The results of the second call, with what arrived at those of the first.

        Raises GradientError when they are not alike.
        """
        pairs = [(r.node, c) for r, c in zip(self.results(), cotangents) if c is not None]
        return through_inner(pairs, self.variables)

    def results(self) -> list[Tensor]:
        """What the function gives when it is called again.

        Raises GradientError for other tensors than at first.
        """
        found = differentiable(self.again())
        if [r.shape for r in found] != self.shapes:
            raise GradientError(
                "checkpoint: the function gave other tensors when it was called again: "
                f"{[list(r.shape) for r in found]} instead of {[list(s) for s in self.shapes]}"
            )
        return found


def run_checkpointed(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    preserve_rng_state: bool,
) -> Any:
    """``function(*args, **kwargs)`` with a gradient that calls it again."""
    if not mode.enabled:
        return function(*args, **kwargs)
    # The state as numbers: asking for it must not compute anything.
    before = (default_generator._seed, default_generator._calls) if preserve_rng_state else None
    keys = default_generator.known  # of a checkpoint around this one
    if keys is None and preserve_rng_state:
        keys = {}
    dtype = autocast.mode.dtype

    def again() -> Any:
        with enable_grad(), _as_before(before, dtype), _noting(keys):
            return function(*args, **kwargs)

    with _noting(keys):
        out = function(*args, **kwargs)
    results = differentiable(out)
    variables = find_variables([r.node for r in results])
    if not variables:
        return out
    fn: CheckpointBackward = object.__new__(CheckpointBackward)
    fn.again, fn.shapes, fn.variables = again, [r.shape for r in results], variables
    since = _since([r.node for r in results], (*args, *kwargs.values()))
    fn.begin()
    fn.parents = tuple(_fns(variables))
    fn.saved = tuple(_saved((*args, *kwargs.values())))
    return _replaced(out, iter([_behind(r, fn, i, since) for i, r in enumerate(results)]))


@contextmanager
def _noting(keys: dict[tuple[int, int], Node] | None) -> Iterator[None]:
    """Random keys are those in ``keys``, by the point of the numbers, and new ones go there; both
    calls have the very same leaves, and what they compute is one value."""
    outer = default_generator.known
    try:
        default_generator.known = keys
        yield
    finally:
        default_generator.known = outer


@contextmanager
def _as_before(state: tuple[int, int] | None, dtype: Any) -> Iterator[None]:
    """Random state and autocast as they were; afterwards as they are now."""
    generator = default_generator
    now, outer = (generator._seed, generator._calls), autocast.mode.dtype
    try:
        autocast.mode.dtype = dtype
        if state is not None:
            generator._seed, generator._calls = state
        yield
    finally:
        autocast.mode.dtype = outer
        if state is not None:
            generator._seed, generator._calls = now


def differentiable(value: Any) -> list[Tensor]:
    """The tensors that require gradients in a structure of tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in differentiable(item)]
    return []


def _replaced(value: Any, new: Iterator[Tensor]) -> Any:
    """The structure with its differentiable tensors replaced, in order."""
    if isinstance(value, Tensor):
        return next(new) if value.requires_grad else value
    if isinstance(value, dict):
        return type(value)((key, _replaced(item, new)) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_replaced(item, new) for item in value])
    if isinstance(value, (tuple, list)):
        return type(value)([_replaced(item, new) for item in value])
    return value


def _since(results: list[Node], values: tuple[Any, ...]) -> tuple[Node, ...]:
    """The arguments that results depend on: what lies between need not be kept."""
    given = [v.node for v in values if isinstance(v, Tensor)]
    known = set(topological(results, lambda n: n.data is not None))
    return tuple(dict.fromkeys(n for n in given if n in known and n not in results))


def _behind(result: Tensor, fn: CheckpointBackward, index: int, since: tuple[Node, ...]) -> Tensor:
    """A tensor of the result's value whose gradient goes to ``fn``."""
    value = ops.detach(result.node, *since)
    value.data = result.node.data
    made = wrap(value)
    made._storage.node = boundary(value, fn, index)
    made._storage.fn = fn
    return made


def _fns(variables: list[Node]) -> Iterator[GradFn]:
    for node in variables:
        known = boundaries.get(node)
        fn: GradFn | None = known[0] if known is not None else leaves.get(node.params.uid)
        if fn is not None:
            yield fn


def _saved(values: tuple[Any, ...]) -> Iterator[tuple[Storage, int]]:
    """The arguments' storages: they must not be written to before the second call."""
    for value in values:
        if isinstance(value, Tensor):
            yield value._storage, value._storage.version_now()


__all__ = ["CheckpointBackward", "run_checkpointed"]
