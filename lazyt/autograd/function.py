"""Functions whose gradient the user writes."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.autograd.engine import FREED
from lazyt.autograd.node_hooks import after, before
from lazyt.autograd.saving import Packed, pack
from lazyt.errors import DTypeError, GradientError
from lazyt.handle.dispatch import assign, wrap
from lazyt.handle.grad_mode import enable_grad, mode, no_grad
from lazyt.handle.hooks import hook
from lazyt.handle.storage import raw
from lazyt.handle.tape import AccumulateGrad, GradFn, boundary
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import View
from lazyt.ir.graph import Node

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


# Gradients that cannot be differentiated again.


class DelayedError(GradFn):
    """The grad_fn of what cannot be differentiated: asking for its gradient raises."""

    __slots__ = ("refusal", "under")

    def __init__(self, text: str, under: list[Node]) -> None:
        self.begin()
        self.refusal, self.under = text, under

    def below(self) -> list[Node]:
        """What a gradient would go to."""
        return self.under

    def advance(self, cotangents: list[Node | None]) -> list[tuple[Node, Node]]:
        """Raises GradientError."""
        raise GradientError(self.refusal)


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


_NO_JVP = "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."  # noqa: E501  # fmt: skip


class FunctionCtx:
    """What ``forward`` leaves for ``backward``; any attribute may be set on it.

    Attributes:
        needs_input_grad: for every argument of ``forward``, whether it requires its gradient.
    """

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.materialize_grads = True
        self.non_differentiable: tuple[Tensor, ...] = ()
        self.dirty_tensors: tuple[Tensor, ...] = ()
        self._given: tuple[Tensor | None, ...] = ()
        self._packed: list[Packed | None] = []
        self._forward: tuple[Tensor | None, ...] = ()
        self._freed = False

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``backward``, which finds them in ``saved_tensors``.

        Raises TypeError for other values.
        """
        for index, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    "save_for_backward can only save variables, but argument "
                    f"{index} is of type {type(tensor).__name__}"
                )
        self._given = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``, which finds them in ``saved_tensors``."""
        self._forward = tensors

    @property
    def to_save(self) -> tuple[Tensor | None, ...]:
        """What was given to ``save_for_backward``."""
        return self._given

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What ``save_for_backward`` (or ``save_for_forward``) kept.

        Raises GradientError after a backward without ``retain_graph``.
        """
        if self._freed:
            raise GradientError(FREED)
        if self._packed:
            return tuple(None if item is None else item.unpack() for item in self._packed)
        return self._given or self._forward

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Say that these outputs have no gradient."""
        self.non_differentiable = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (True) or None for outputs that were not used."""
        self.materialize_grads = value

    def mark_dirty(self, *inputs: Tensor) -> None:
        """Say that ``forward`` changes these arguments in place; it has to return them."""
        self.dirty_tensors = inputs


class FunctionBackward(GradFn):
    """The grad_fn of a custom function's outputs: runs its ``backward``."""

    __slots__ = ("backward", "ctx", "forward", "inputs", "outputs", "tensors")

    backward: Callable[..., Any]
    ctx: FunctionCtx
    forward: Callable[..., Any]
    inputs: tuple[tuple[Tensor, Node] | None, ...]
    outputs: tuple[Node | None, ...]
    tensors: tuple[int, ...]
    rule = "a"
    several = True
    runs_python = True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.ctx, name)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What the function saved. Raises GradientError after a backward that kept nothing."""
        if self.freed:
            raise GradientError(FREED)
        return self.ctx.saved_tensors

    @property
    def reads_saved(self) -> bool:
        """Whether its ``forward`` saved something."""
        return bool(self.ctx._packed)

    def needs_saved(self) -> bool:
        """Whoever asks for what was saved is told that it was freed; nobody has to ask."""
        return False

    def release(self) -> bool:
        """Let go of what was saved."""
        self.saved = ()
        if self.ctx._packed:
            self.ctx._freed = True
            self.ctx._packed = []
        return False

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """A block in which ``backward`` sees a copy of its ctx."""
        context = self.ctx
        try:
            self.ctx = copy.copy(context)
            yield
        finally:
            self.ctx = context

    def below(self) -> list[Node]:
        """The arguments that require gradients."""
        return [item[1] for item in self.inputs if item is not None]

    def advance(self, cotangents: list[Node | None]) -> list[tuple[Node, Node]]:
        """The arguments with what ``backward`` says their gradients are. Raises as ``answers``."""
        grads = [None if node is None else wrap(node, name="Clone") for node in cotangents]
        nodes = [item[1] for item in self.given if item is not None]
        places = [number for number, item in enumerate(self.given) if item is not None]
        answers = self.answers(grads)
        return [(n, answers[p].node) for p, n in zip(places, nodes) if p in answers]

    @property
    def given(self) -> list[tuple[Tensor, Node] | None]:
        """The arguments that are tensors: one for each parent, None where it has no gradient."""
        return [self.inputs[number] for number in self.tensors]

    def answers(self, cotangents: Sequence[Tensor | None]) -> dict[int, Tensor]:
        """What ``backward`` says of the gradients of its tensors, by their number.

        Raises GradientError for a wrong number or shape of gradients.
        """
        count = len(self.outputs)
        grads = [*cotangents, *[None] * count][:count]
        hooks = self._extra is not None and (self._extra.prehooks or self._extra.posthooks)
        if hooks:
            grads = before(self, grads)
        given = [
            wrap(ops.zeros_like(node))
            if grad is None and node is not None and self.ctx.materialize_grads
            else grad
            for grad, node in zip(grads, self.outputs)
        ]
        returned = self.backward(self.ctx, *given)
        values = returned if isinstance(returned, tuple) else (returned,)
        if hooks:
            values = tuple(after(self, values, grads))
        if len(values) < len(self.inputs) or any(v is not None for v in values[len(self.inputs) :]):
            raise GradientError(
                f"function {self.name()} returned an incorrect number of gradients "
                f"(expected {len(self.inputs)}, got {len(values)})"
            )
        found: dict[int, Tensor] = {}
        for number, index in enumerate(self.tensors):
            item, value = self.inputs[index], values[index]
            if item is not None and value is not None:
                found[number] = self._gradient(index, value, item[1])
        return found

    def _gradient(self, index: int, value: Any, node: Node) -> Tensor:
        if not isinstance(value, Tensor):
            raise DTypeError(f"expected Variable or None (got {type(value).__name__})")
        if value.shape != node.shape:
            found = _summed(value.node, node.shape)
            if found is None:
                raise GradientError(
                    f"Function {self.name()} returned an invalid gradient at index {index} - got "
                    f"{list(value.shape)} but expected shape compatible with {list(node.shape)}"
                )
            return wrap(ops.cast(found, node.dtype), value, name="Sum")
        if value.dtype is not node.dtype:
            return wrap(ops.cast(value.node, node.dtype), value, name="ToCopy")
        return value

    def push(self, tangents: list[Node | None]) -> list[Node | None]:
        """How the outputs move when the arguments do, by the function's ``jvp``."""
        moves = iter(tangents)
        given = [None if item is None else next(moves) for item in self.inputs]
        tensors = [None if node is None else wrap(node, name="Clone") for node in given]
        returned = self.forward(self.ctx, *tensors)
        values = returned if isinstance(returned, tuple) else (returned,)
        return [v.node if isinstance(v, Tensor) else None for v in values]


def _summed(value: Node, shape: tuple[int, ...]) -> Node | None:
    """``value`` summed down to ``shape``, of which it is a broadcast form; None where it is not."""
    extra = len(value.shape) - len(shape)
    if extra < 0:
        return None
    axes = list(range(extra))
    for axis, (own, wanted) in enumerate(zip(value.shape[extra:], shape)):
        if own != wanted:
            if wanted != 1:
                return None
            axes.append(axis + extra)
    return ops.reshape(ops.reduce_("sum", value, tuple(axes)), shape)


class VmapInfo(NamedTuple):
    """What ``vmap`` staticmethods are told: the number of examples, and what randomness does."""

    batch_size: int
    randomness: str


class Function:
    """Base of functions with a gradient of their own.

    Subclasses define static methods ``forward(ctx, *args)``, or ``forward(*args)`` together with
    ``setup_context(ctx, inputs, output)``, and ``backward(ctx, *grad_outputs)``, which returns one
    gradient or None per argument. Call as ``MyFunction.apply(*args)``.

    ``jvp(ctx, *tangents)`` gives forward derivatives, ``vmap(info, in_dims, *args)`` the results
    for all examples with their axes; without it ``vmap`` follows what ``forward`` does.
    """

    generate_vmap_rule = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise GradientError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

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

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Compute how the outputs move; to be defined by the subclass."""
        raise NotImplementedError(_NO_JVP)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what ``backward`` needs, where ``forward`` takes no ctx."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Compute the outputs for many examples; to be defined by the subclass."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward``; the outputs' gradients come from ``backward``.

        Raises GradientError where ``forward`` changes arguments that it must not change.
        """
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        moving = tuple(isinstance(a, Tensor) and a.node.needs_grad for a in args)
        ctx = FunctionCtx(needs)
        before = tuple((a, a.node) if moves else None for a, moves in zip(args, moving))
        with no_grad():
            output = _forward(cls, ctx, args, kwargs)
        if not mode.enabled or not any(moving):
            return output
        outputs = output if isinstance(output, tuple) else (output,)
        _check_dirty(ctx, outputs)
        made = _attach(cls, ctx, args, before, outputs)
        return made if isinstance(output, tuple) else made[0]


def _check_dirty(ctx: FunctionCtx, outputs: tuple[Any, ...]) -> None:
    if any(not any(item is output for output in outputs) for item in ctx.dirty_tensors):
        raise GradientError(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function."
        )


def _forward(
    cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """``forward`` and ``setup_context``; the function's own ``vmap`` where that is what to call."""
    if cls.setup_context is Function.setup_context:
        return cls.forward(ctx, *args, **kwargs)
    output = NotImplemented
    if hook.watcher is not None and cls.vmap is not Function.vmap:
        if cls.generate_vmap_rule:
            raise GradientError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True "
                "and an overridden vmap staticmethod. Please set generate_vmap_rule=False or "
                "delete the overridden vmap staticmethod to avoid ambiguity."
            )
        from lazyt.autograd.vectorizing import vmapped_function

        output = vmapped_function(cls.vmap, VmapInfo, args)
    if output is NotImplemented:
        output = cls.forward(*args, **kwargs)
    cls.setup_context(ctx, args, output)
    return output


def _attach(
    cls: type[Function],
    ctx: FunctionCtx,
    args: tuple[Any, ...],
    before: tuple[tuple[Tensor, Node] | None, ...],
    outputs: tuple[Any, ...],
) -> tuple[Any, ...]:
    """The outputs as tensors whose gradient is the function's."""
    made_type = type(f"{cls.__name__}Backward", (FunctionBackward,), {"__slots__": ()})
    fn: FunctionBackward = object.__new__(made_type)
    fn.begin()
    fn.parents = tuple(a._fn for a in args if isinstance(a, Tensor))
    fn.tensors = tuple(i for i, a in enumerate(args) if isinstance(a, Tensor))
    known = [before[i] for i in fn.tensors]
    fn.operands = tuple(None if item is None else weakref.ref(item[1]) for item in known)
    given = cls.backward if cls.backward is not Function.backward else cls.vjp
    fn.backward, fn.forward, fn.ctx = given, cls.jvp, ctx
    fn.inputs = before
    fn.outputs = tuple(raw(o.node) if isinstance(o, Tensor) else None for o in outputs)
    made = [_output(fn, ctx, index, output) for index, output in enumerate(outputs)]
    _save(fn, ctx, outputs, made)
    return tuple(made)


def _output(fn: FunctionBackward, ctx: FunctionCtx, index: int, output: Any) -> Any:
    """One output behind the function's boundary."""
    if not isinstance(output, Tensor):
        return output
    if output.dtype.kind not in "fc" or any(output is o for o in ctx.non_differentiable):
        return output
    dirty = any(output is item for item in ctx.dirty_tensors)
    shows = not dirty and _shows_others(fn, output)
    result = _shown(output, fn, index) if shows else wrap(raw(output.node))
    result._storage.node = boundary(raw(output.node), fn, index)
    result._storage.fn = fn
    if dirty:
        if isinstance(output._fn, AccumulateGrad):
            raise GradientError(
                "a leaf Variable that requires grad has been used in an in-place operation."
            )
        with enable_grad():
            return assign(output, result)
    return result


def _shows_others(fn: FunctionBackward, output: Tensor) -> bool:
    """Whether an output lies in memory that was there before: a view, or an argument."""
    view = output._view
    if view is not None and not view.root:
        return True
    share = output._storage.share
    for item in fn.inputs:
        own = None if item is None else item[0]._storage
        if own is output._storage:
            return True
        shared = None if own is None else own.share
        if share is not None and shared is not None and shared.memory is share.memory:
            return True
    return False


def _shown(output: Tensor, fn: FunctionBackward, index: int) -> Tensor:
    """A tensor in the memory of ``output`` with a history of its own.

    Views and arguments that are returned may not be written to, as in PyTorch.
    """
    found = object.__new__(Tensor)
    storage, view = output._storage, output._view
    if view is None or (view.root and not view.steps):
        found._storage = storage.fork()
        view = view or View(tuple(output.shape), output.strides, 0, (), "Alias")
    else:
        found._storage = storage.region(view)
    found._view = shown = View(view.shape, view.strides, view.offset, (), view.name)
    shown.root = True
    argument = any(item is not None and item[0] is output for item in fn.inputs)
    if argument or (output._view is not None and not output._view.root):
        shown.custom = (fn.name().removesuffix("Backward"), index)
    return found


def _save(
    fn: FunctionBackward, ctx: FunctionCtx, outputs: Sequence[Any], made: Sequence[Any]
) -> None:
    """Pack what ``save_for_backward`` was given; outputs get their history back when looked at."""
    for tensor in ctx._given:
        if tensor is None:
            ctx._packed.append(None)
            continue
        place = next((i for i, o in enumerate(outputs) if o is tensor), -1)
        if place >= 0 and isinstance(made[place], Tensor) and made[place] is not tensor:
            # A strong reference would keep the graph alive for ever: it refers to this ctx.
            ctx._packed.append(pack(tensor, weakref.ref(made[place].node)))
        else:
            ctx._packed.append(pack(tensor, None))
        if place < 0:
            fn.saved = (*fn.saved, (tensor._storage, tensor._storage.version_now()))
    ctx._given = ()
