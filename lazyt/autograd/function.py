"""Functions whose gradient the user writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.dispatch import wrap
from lazyt.errors import GradientError
from lazyt.grad_mode import mode, no_grad
from lazyt.ir.graph import Node
from lazyt.storage import raw
from lazyt.tape import GradFn, boundary
from lazyt.tensor import Tensor


class FunctionCtx:
    """What ``forward`` leaves for ``backward``; any attribute may be set on it.

    Attributes:
        needs_input_grad: for every argument of ``forward``, whether it requires its gradient.
    """

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.materialize = True
        self.not_differentiable: tuple[Tensor, ...] = ()
        self._saved: tuple[Tensor | None, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``backward``, which finds them in ``saved_tensors``."""
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What ``save_for_backward`` kept."""
        return self._saved

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Say that these outputs have no gradient."""
        self.not_differentiable = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (True) or None for outputs that were not used."""
        self.materialize = value

    def mark_dirty(self, *inputs: Tensor) -> None:
        """Refused: results must be new tensors. Raises GradientError."""
        raise GradientError(
            "a custom Function cannot change its inputs in place: compute a new tensor instead"
        )


class FunctionBackward(GradFn):
    """The grad_fn of a custom function's outputs: runs its ``backward``."""

    __slots__ = ("backward", "ctx", "inputs", "outputs")

    backward: Callable[..., Any]
    ctx: FunctionCtx
    inputs: tuple[tuple[Tensor, Node] | None, ...]
    outputs: tuple[Node, ...]
    rule = "a"

    def below(self) -> list[Node]:
        """The arguments that require gradients."""
        return [item[1] for item in self.inputs if item is not None]

    def advance(self, cotangents: list[Node | None]) -> list[tuple[Node, Node]]:
        """The arguments with what ``backward`` says their gradients are.

        Raises GradientError for a wrong number or shape of gradients.
        """
        grads: list[Tensor | None] = []
        for index, node in enumerate(self.outputs):
            cotangent = cotangents[index] if index < len(cotangents) else None
            if cotangent is not None:
                grads.append(wrap(cotangent, name="Clone"))
            else:
                grads.append(_zeros(node) if self.ctx.materialize else None)
        returned = self.backward(self.ctx, *grads)
        values = returned if isinstance(returned, tuple) else (returned,)
        if len(values) < len(self.inputs) or any(v is not None for v in values[len(self.inputs) :]):
            raise GradientError(
                f"function {self.name()} returned an incorrect number of gradients "
                f"(expected {len(self.inputs)}, got {len(values)})"
            )
        pairs = []
        for index, (item, value) in enumerate(zip(self.inputs, values)):
            if item is None or value is None:
                continue
            if value.shape != item[1].shape:
                raise GradientError(
                    f"Function {self.name()} returned an invalid gradient at index {index} - got "
                    f"{list(value.shape)} but expected shape compatible with {list(item[1].shape)}"
                )
            pairs.append((item[1], value.node))
        return pairs


def _zeros(node: Node) -> Tensor:
    from lazyt.autograd.handles import zero_like

    return zero_like(wrap(raw(node)))


class Function:
    """Base of functions with a gradient of their own.

    Subclasses define static methods ``forward(ctx, *args)``, or ``forward(*args)`` together with
    ``setup_context(ctx, inputs, output)``, and ``backward(ctx, *grad_outputs)``, which returns one
    gradient or None per argument. Call as ``MyFunction.apply(*args)``.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; to be defined by the subclass."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the arguments; to be defined by the subclass."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what ``backward`` needs, where ``forward`` takes no ctx."""

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward``; the outputs' gradients come from ``backward``."""
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        ctx = FunctionCtx(needs)
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
        if not mode.enabled or not any(needs):
            return output
        outputs = output if isinstance(output, tuple) else (output,)
        made = _attach(cls, ctx, args, outputs)
        return made if isinstance(output, tuple) else made[0]


def _attach(
    cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...], outputs: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The outputs as tensors whose gradient is the function's."""
    made_type = type(f"{cls.__name__}Backward", (FunctionBackward,), {"__slots__": ()})
    fn: FunctionBackward = object.__new__(made_type)
    fn.parents = tuple(a._fn if isinstance(a, Tensor) else None for a in args)
    fn.saved = ()
    fn.freed = fn.dead = False
    fn._extra = None
    fn.backward, fn.ctx = cls.backward, ctx
    fn.inputs = tuple(
        (a, a.node) if needed else None for a, needed in zip(args, ctx.needs_input_grad)
    )
    fn.outputs = tuple(raw(o.node) for o in outputs if isinstance(o, Tensor))
    made = []
    index = -1
    for output in outputs:
        if not isinstance(output, Tensor):
            made.append(output)
            continue
        index += 1
        if output.dtype.kind != "f" or any(output is o for o in ctx.not_differentiable):
            made.append(output)
            continue
        result = wrap(raw(output.node))
        result._storage.node = boundary(raw(output.node), fn, index)
        result._storage.fn = fn
        made.append(result)
    return tuple(made)
