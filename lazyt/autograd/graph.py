"""The graph of grad_fns (``torch.autograd.graph``), and hooks on what is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from lazyt.autograd.handles import RemovableHandle
from lazyt.autograd.saving import disable_saved_tensors_hooks as disable_saved_tensors_hooks
from lazyt.autograd.saving import save_on_cpu as save_on_cpu
from lazyt.autograd.saving import saved_tensors_hooks as saved_tensors_hooks
from lazyt.errors import GradientError, LazytError
from lazyt.tape import AccumulateGrad, checks
from lazyt.tape import GradFn as Node
from lazyt.tensor import Tensor

__all__ = [
    "GradientEdge", "Node", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip


class GradientEdge(NamedTuple):
    """Where a tensor's gradient goes: a grad_fn, and the number of its output."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor. Raises GradientError for one that requires no gradient."""
    fn = tensor._fn
    if fn is None:
        raise GradientError("It is not possible to get the gradient edge for a Tensor that does not require gradients")  # noqa: E501  # fmt: skip
    return GradientEdge(fn, 0)


def add_prehook(fn: Node, hook: Callable[[tuple[Any, ...]], Any]) -> RemovableHandle:
    """Call ``hook`` with the gradients that arrive at ``fn``, as a tuple.

    Raises LazytError where the tensor that ``fn`` made no longer exists.
    """
    owner = None if fn.extra.owner is None else fn.extra.owner()
    if isinstance(fn, AccumulateGrad):
        owner = fn.variable
    if owner is None:
        raise LazytError(
            f"register_prehook: the tensor that {fn.name()} made no longer exists, or was never "
            "asked for its grad_fn; register a hook on the tensor"
        )

    def single(grad: Tensor) -> Any:
        replaced = hook((grad,))
        return replaced[0] if isinstance(replaced, (tuple, list)) else replaced

    found: RemovableHandle = owner.register_hook(single)
    return found


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count a write to tensors that autograd did not see."""
    for item in (tensor,) if isinstance(tensor, Tensor) else tensor:
        item._storage.touch()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> Any:
    """Call ``fn`` when the gradients of all ``tensors`` have come, or of the first ("any").

    Returns a handle, whose ``remove()`` takes the hook away.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    grads: dict[int, Tensor] = {}
    called: list[bool] = []

    def came(index: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            if mode == "any":
                if not called:
                    called.append(True)
                    fn(grad)
                return
            grads[index] = grad
            if len(grads) == len(tensors):
                found = [grads.get(i) for i in range(len(tensors))]
                grads.clear()
                fn(found)

        return hook

    handles = [t.register_hook(came(i)) for i, t in enumerate(tensors)]
    return _Handles(handles)


class _Handles:
    """Several hooks that are removed together."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self.remove()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """A ``with`` block in which saved tensors may be written to, without effect on gradients.

    The graph keeps old values; only the check that PyTorch makes is left out.
    """
    before = checks.versions
    checks.versions = False
    try:
        yield
    finally:
        checks.versions = before
