"""How functions hand out what they computed: new tensors, ``out=``, writes, and views."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from lazyt import ops
from lazyt.errors import DTypeError, GradientError, LazytError, warn
from lazyt.functional.calls import by_old_form, explain_call
from lazyt.functional.operands import require_tensor
from lazyt.functional.overriding import answered, candidates, switch, undecided
from lazyt.functional.result_layout import arrange_like
from lazyt.functional.type_promotion import c_name, can_cast, torch_name
from lazyt.handle import pending
from lazyt.handle.dispatch import (
    assign,
    assign_value,
    check_writable,
    lay_out,
    refuse_overlap,
    refuse_repeats,
    replaced_whole,
    view_of,
    wrap,
    write_result,
)
from lazyt.handle.function_table import entry_of
from lazyt.handle.grad_mode import mode
from lazyt.handle.hooks import hook
from lazyt.handle.tape import fn_type
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import Reshape, Slice, Step
from lazyt.ir.dtypes import DType
from lazyt.ir.forms import use
from lazyt.ir.graph import Node, Shape

if TYPE_CHECKING:
    from lazyt.functional.indexing.brackets import IndexPlan


# Which dtypes PyTorch writes results to: what ``out=`` has to be for one function or another.
#
# Most functions cast their result to the dtype of ``out``. Others write what they compute as it is,
# and refuse another dtype in words of their own (``out_dtype`` of the function table). These texts
# are those of several functions.


SAME_DTYPE = "Expected out tensor to have dtype {want}, but got {got} instead"
FOUND_DTYPE = "Found dtype {Got} but expected {Want}"
SCALAR_TYPE = "expected scalar_type {Want} but found {Got}"


def check_output(name: str, result: DType, out: DType) -> None:
    """Raise DTypeError when the function ``name`` does not write a ``result`` dtype into ``out``.

    For two different dtypes.
    """
    traits = fn_type(name).traits
    text = traits.out_dtype
    if not text and not can_cast(result, out):
        text = traits.out_category
    if not text or (traits.out_bytes and out.name == "uint8"):
        return
    names = {"want": c_name(result), "got": c_name(out)}
    raise DTypeError(text.format(Want=torch_name(result), Got=torch_name(out), **names))


def warn_resized(name: str, shape: Shape, wanted: Shape) -> None:
    """Warn, as PyTorch does, that ``out=`` with elements takes the size of the result."""
    if fn_type(name).traits.out_resizes:
        return
    warn(
        "An output with one or more elements was resized since it had shape "
        f"{list(shape)}, which does not match the required output shape {list(wanted)}. "
        "This behavior is deprecated: give a tensor of that size, or one without elements, such "
        "as t.resize_(0)."
    )


def give(node: Node, name: str, parents: Sequence[Any], out: Tensor | None = None) -> Tensor:
    """The result of the function called ``name``, made from ``parents``.

    With ``out``, the value is written there; a tensor of another size takes the result's size.
    """
    result = wrap(node, *parents, name=name)
    if out is None:
        for parent in parents:
            if isinstance(parent, Tensor) and parent._view is not None:
                return arrange_like(result, name, parents)
        return result
    if not isinstance(out, Tensor):
        raise DTypeError(
            f"{_snake(name)}(): argument 'out' must be Tensor, not {type(out).__name__}"
        )
    if mode.enabled and any(isinstance(t, Tensor) and t.requires_grad for t in (out, *parents)):
        raise GradientError(
            f"{_snake(name)}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    if out.dtype is not node.dtype:
        check_output(name, node.dtype, out.dtype)
    if node.op.name in ("map", "scan"):
        refuse_overlap(out, parents)
    elif fn_type(name).traits.out_separate:
        refuse_overlap(out, parents, same=True)
    if out.shape != result.shape:
        check_writable(out)
        refuse_repeats(out)
        if 0 not in out.shape:
            warn_resized(name, tuple(out.shape), tuple(result.shape))
        resized = wrap(_zeros_like_result(node, out))
        if any(isinstance(p, Tensor) and p._view is not None for p in parents):
            lay_out(resized, arrange_like(result, name, parents).strides)
        out._storage, out._view = resized._storage, resized._view
    return write_result(out, result)


def _snake(name: str) -> str:
    """The name of a function, given that of its grad_fn: ``LogSoftmax`` becomes log_softmax."""
    title = name.partition("Backward")[0]
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in title).removeprefix("_")


def _zeros_like_result(node: Node, out: Tensor) -> Node:
    zero = ops.reshape(ops.constant(0, out.dtype), (1,) * len(node.shape))
    return ops.expand(zero, node.shape) if node.shape else zero


def known_values(
    node: Node, reason: str = "the values of an index are checked"
) -> np.ndarray[Any, Any]:
    """The values of an index or divisor, to check them; computes it when it is pending."""
    pending.realize_now([node], reason)
    values: np.ndarray[Any, Any] = node.data.as_numpy(node.dtype, node.shape)
    return values


def overwrite(target: Tensor, node: Node, name: str, parents: Sequence[Any]) -> Tensor:
    """Write ``node``, of the same shape and dtype, into ``target``; returns ``target``."""
    storage = target._storage
    is_known = storage.fn is not None or node.needs_grad  # to autograd
    if not mode.enabled or not (is_known or use.any or hook.watcher is not None):
        return assign_value(target, node)
    if node.needs_grad:
        old = target.node
        if old.needs_grad:  # the old value's gradient is zero, not absent
            node = replaced_whole(old, node)
    return assign(target, wrap(node, *parents, name=name))


def view_of_plan(input: Tensor, plan: IndexPlan) -> Tensor:
    """The view that the numbers, slices and new axes of an index make."""
    shape = tuple(input.shape)
    sizes, strides, offset = tuple(plan.sizes), input.strides, input._offset
    moves: tuple[Step, ...] = ()
    name = "Alias"
    if sizes != shape or any(s != 1 for s in plan.steps):
        name = "Slice"
        starts, steps = tuple(plan.starts), tuple(plan.steps)
        offset += sum(s * n for s, n in zip(starts, strides))
        strides = tuple(s * n for s, n in zip(steps, strides))
        if 0 in sizes:  # nothing is shown, so the slice may as well start at the beginning
            starts, steps = (0,) * len(shape), (1,) * len(shape)
        moves = (Slice(starts, sizes, steps),)
    if plan.layout != [*range(len(shape))]:
        name = "Unsqueeze" if len(plan.layout) > len(shape) else "Select"
        moves = (*moves, Reshape(plan.shape))
        strides = _laid_out(plan, strides, shape, input.strides)
    return view_of(input, moves, plan.shape, strides, offset, name)


def _laid_out(plan: IndexPlan, strides: Shape, shape: Shape, old: Shape) -> Shape:
    """The strides of the remaining dimensions; a new one spans what it was put in front of.

    PyTorch reads an index from left to right, so a new dimension sees the tensor's own extents
    and strides, ``shape`` and ``old``, not those that a later slice leaves.
    """
    rank = len(shape)
    spans = iter([shape[d] * old[d] if d < rank else 1 for d in plan.before])
    return tuple(strides[d] if d >= 0 else next(spans) for d in plan.layout)


# ``out=`` for functions that give several tensors.


R = TypeVar("R")


def takes_outputs(function: Callable[..., R]) -> Callable[..., R]:
    """Decorator: ``out=`` takes a tuple with a tensor for each result, which is written there.

    Tensors of other sizes take the results'. Raises DTypeError for other numbers of tensors, and
    GradientError where gradients are required, as PyTorch does.
    """
    name = function.__name__

    @functools.wraps(function)
    def written(*args: Any, out: Any = None, **kwargs: Any) -> R:
        results: Any = function(*args, **kwargs)
        if out is None:
            return cast(R, results)
        if not isinstance(out, (tuple, list)):
            raise DTypeError(
                f"{name}(): argument 'out' must be tuple of Tensors, not {type(out).__name__}"
            )
        if len(out) != len(results):
            raise DTypeError(f"expected tuple of {len(results)} elements but got {len(out)}")
        for target, result in zip(out, results):
            give(result.node, name, (*(a for a in args if isinstance(a, Tensor)),), target)
        return cast(R, type(results)(out))

    signature = inspect.signature(function, eval_str=False)
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    given = [*signature.parameters.values(), out]
    written.__signature__ = signature.replace(parameters=given)  # type: ignore[attr-defined]
    return written


# ---------------------------------------------------------------------- in-place forms


def _c_name(dtype: Any) -> str:
    return {"float32": "float", "float64": "double"}.get(str(dtype).split(".")[-1], str(dtype))


#: Functions of a tensor and an operand, with what does the same in less time where it can.
short_forms: dict[Callable[..., Any], Callable[[Any, Any], Any]] = {}


def inplace_form(function: Callable[..., Any], name: str) -> Callable[..., Tensor]:
    """The function that writes ``function``'s result into its first argument."""
    entry = entry_of(function)
    separate = entry is not None and entry.separate
    end = entry.fills if entry is not None else None
    old_forms = entry.old_forms if entry is not None else ()
    dunder = name.startswith("__")

    @functools.wraps(function)
    def write(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if dunder and isinstance(args[0], (list, tuple, str, dict, type(None))):
            return NotImplemented
        if not isinstance(self, Tensor):
            try:
                require_tensor(self, name)
            except DTypeError:
                return answered(write, (self, *args), kwargs)
        check_writable(self)
        if self._view is not None:
            self._view.refuse_repeats()
        storage = self._storage
        for operand in args if end is None else args[:end]:
            if isinstance(operand, Tensor):
                own = operand._storage
                if own is storage or own.share is not None:
                    refuse_overlap(self, (operand,), separate)
        if kwargs:
            others = [v for k, v in kwargs.items() if end is None or k != "value"]
            refuse_overlap(self, others, separate)
            if kwargs.get("dtype", self.dtype) not in (None, self.dtype):
                raise DTypeError(
                    f"Bad in-place call: input tensor dtype {_c_name(self.dtype)} and output "
                    f"tensor dtype {_c_name(kwargs['dtype'])} should match"
                )
        short = None if kwargs or len(args) != 1 else short_forms.get(function)
        try:
            result = function(self, *args, **kwargs) if short is None else short(self, args[0])
        except (TypeError, AttributeError, ValueError, LazytError) as error:
            if not switch.on and candidates((self, *args, *kwargs.values())):
                return answered(write, (self, *args), kwargs)
            if (old := by_old_form(old_forms, name, (self, *args), kwargs)) is not None:
                return write(*old[0], **old[1])
            better = explain_call(error, function, name, (self, *args), kwargs, 1)
            if better is None:
                raise
            raise better from None
        if result is NotImplemented:
            return undecided(name, self, args[0])
        if self.dtype.kind == "c" and isinstance(result, Tensor) and result.dtype.kind == "f":
            raise LazytError(f"In-place {name[:-1]} is not supported for complex tensors.")
        return write_result(self, result)

    write.__name__ = write.__qualname__ = name
    write.__doc__ = f"In-place form of ``{function.__name__}``."
    return write


def add_method(name: str, function: Callable[..., Any], inplace: bool = False) -> None:
    """Make a function a method of Tensor.

    Args:
        inplace: also add the in-place form of the name: ``add`` gives ``add_``, ``__add__`` gives
            ``__iadd__``; it writes the function's result into its first argument.
    """
    setattr(Tensor, name, function)
    if not inplace:
        return
    changed = f"__i{name[2:]}" if name.startswith("__") else f"{name}_"
    setattr(Tensor, changed, inplace_form(function, changed))
