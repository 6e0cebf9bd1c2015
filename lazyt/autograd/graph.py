"""The graph of grad_fns (``torch.autograd.graph``), and hooks on what is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lazyt.autograd.engine import running
from lazyt.autograd.node_hooks import GradientEdge as GradientEdge
from lazyt.autograd.saving import disable_saved_tensors_hooks as disable_saved_tensors_hooks
from lazyt.autograd.saving import save_on_cpu as save_on_cpu
from lazyt.autograd.saving import saved_tensors_hooks as saved_tensors_hooks
from lazyt.errors import GradientError
from lazyt.handle.tape import GradFn as Node
from lazyt.handle.tape import RemovableHandle, checks, output_number
from lazyt.handle.tensor import Tensor

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu",
    "saved_tensors_hooks",
]  # fmt: skip


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor. Raises GradientError for one that requires no gradient."""
    fn = tensor._fn
    if fn is None:
        raise GradientError("It is not possible to get the gradient edge for a Tensor that does not require gradients")  # noqa: E501  # fmt: skip
    return GradientEdge(fn, output_number(fn, tensor.node) if fn.several else 0)


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count a write to tensors that autograd did not see."""
    for item in (tensor,) if isinstance(tensor, Tensor) else tensor:
        item._storage.touch()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> Any:
    """Call ``fn`` when the gradients of all ``tensors`` have come, or of the first ("any").

    Tensors that a backward does not reach are not waited for; ``fn`` gets None for them. Returns a
    handle, whose ``remove()`` takes the hook away.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    grads: dict[int, Tensor] = {}
    called: list[bool] = []
    fns = [tensor._fn for tensor in tensors]

    def came(index: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            if mode == "any":
                if not called:
                    called.append(True)
                    fn(grad)
                return
            grads[index] = grad
            reached = set(running.order)
            if len(grads) == sum(own in reached for own in fns):
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
