"""The gradient side of a tensor handle: leaves, ``grad``, ``detach``, ``data``, hooks."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable

from lazyt import ops
from lazyt.errors import DTypeError, GradientError, LazytError, warn
from lazyt.handle.dispatch import add_property, method, type_title
from lazyt.handle.grad_mode import mode
from lazyt.handle.hooks import hook
from lazyt.handle.storage import Storage, raw
from lazyt.handle.tape import (
    AccumulateGrad,
    GradFn,
    RemovableHandle,
    boundaries,
    boundary,
    output_number,
    watched,
)
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import View

#: Leaves of tensors, by identity, that were told to require no gradient.
_former: weakref.WeakValueDictionary[int, AccumulateGrad] = weakref.WeakValueDictionary()


def require_grad(tensor: Tensor, wanted: bool) -> None:
    """Make ``tensor`` a leaf that gradients are computed for, or stop that.

    Raises GradientError for what is no leaf, and DTypeError for whole numbers.
    """
    fn = tensor._fn
    if fn is not None and not isinstance(fn, AccumulateGrad):
        if wanted:
            return
        raise GradientError(
            "you can only change requires_grad flags of leaf variables. If you want to use a "
            "computed variable in a subgraph that doesn't require differentiation use "
            "var_no_grad = var.detach()."
        )
    if not wanted:
        if fn is not None:
            storage = tensor._storage
            storage.node, storage.fn = raw(storage.current()), None
            tensor.__dict__["_grad"] = fn.grad
            _former[id(tensor)] = fn
        return
    if fn is not None:
        return
    if tensor._storage.version < 0 and not mode.inference:
        raise GradientError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        )
    if tensor.dtype.kind not in "fc":
        raise DTypeError("only Tensors of floating point and complex dtype can require gradients")
    former = _former.get(id(tensor))  # what was computed before still leads to it
    if former is None or former.variable is not tensor:
        former = AccumulateGrad(tensor)
    make_leaf(tensor, former)


def _requires_grad(self: Tensor) -> bool:
    """Whether gradients flow to this tensor."""
    view = self._view
    if view is not None and view.multiple is not None:  # its grad_fn may be forbidden
        return self._storage.fn is not None and not view.detached
    return self._fn is not None


def _set_requires_grad(self: Tensor, value: bool) -> None:
    if not isinstance(value, bool):
        raise GradientError("requires_grad must be a bool")
    require_grad(self, value if self.is_leaf else False)  # which is refused for results


def _refuse_in_transform(name: str, others: str = "") -> None:
    from lazyt.autograd.levels import active

    if active():
        raise GradientError(
            f"You are attempting to call Tensor.{name}() {others}inside of a function being "
            "transformed by a functorch transform. This is unsupported, please attempt to use the "
            "functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call "
            f"{name}() outside of a function being transformed instead."
        )


def make_leaf(tensor: Tensor, leaf: AccumulateGrad) -> None:
    """Give ``tensor``, which has no gradient, the leaf ``leaf``."""
    view = tensor._view
    if view is not None and (view.steps or not view.root):
        tensor._view = root_view(view)
        tensor._storage = tensor._storage.region(view)
    elif sys.getrefcount(tensor._storage) > 2:
        # Others look at this storage and must not become differentiable with the tensor.
        tensor._storage = tensor._storage.fork()
    storage = tensor._storage
    leaf.grad = tensor.__dict__.pop("_grad", None)
    storage.node = leaf.mark(storage.current())
    storage.fn = leaf


def root_view(view: View) -> View:
    """The arrangement of ``view`` for a storage that covers just that part."""
    root = View(view.shape, view.strides, view.offset, (), view.name)
    root.root = True
    return root


@method()
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set ``requires_grad``; returns the tensor. Raises as setting the attribute does."""
    if requires_grad and hook.watcher is not None:
        _refuse_in_transform(
            "requires_grad_", "(or perhaps using torch.autograd.functional.* APIs) "
        )
    if requires_grad and self.dtype.kind not in "fc":
        raise DTypeError("only Tensors of floating point dtype can require gradients")
    require_grad(self, requires_grad)
    return self


# ---------------------------------------------------------------------- grad


def _get_grad(self: Tensor) -> Tensor | None:
    """The accumulated gradient of a leaf, or of a tensor with ``retain_grad()``; else None."""
    fn = self._fn
    if isinstance(fn, AccumulateGrad):
        return fn.grad
    found: Tensor | None = self.__dict__.get("_grad")
    if found is None and fn is not None and not _retains(self, fn):
        warn(
            "The .grad attribute of a tensor that is not a leaf is being accessed. It is not "
            "filled by backward() unless .retain_grad() is called on the tensor first."
        )
    return found


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    if value is not None:
        if not isinstance(value, Tensor):
            raise DTypeError(
                "assigned grad expected to be a Tensor or None but got grad of type "
                f"{type(value).__name__}"
            )
        if value is self:
            raise GradientError("can't assign Variable as its own grad")
        if value.dtype is not self.dtype:
            from lazyt.functional.type_promotion import c_name

            raise DTypeError(
                f"attempting to assign a gradient with dtype '{c_name(value.dtype)}' to a tensor "
                f"with grad_dtype '{type_title(self.dtype)}'. The gradient must match the tensor's "
                "dtype."
            )
        if value.shape != self.shape:
            raise LazytError(
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of "
                f"size '{list(self.shape)}'. Please ensure that the gradient and the tensor are "
                "the same size"
            )
    fn = self._fn
    if isinstance(fn, AccumulateGrad):
        fn.grad = value
    else:
        self.__dict__["_grad"] = value


def _delete_grad(self: Tensor) -> None:
    _set_grad(self, None)


# ---------------------------------------------------------------------- detach and data


def _sharing(tensor: Tensor, storage: Storage) -> Tensor:
    """A tensor like ``tensor`` over another Storage of the same memory."""
    found = object.__new__(Tensor)
    found._storage = storage
    view = tensor._view
    if view is not None:
        found._view = View(view.shape, view.strides, view.offset, view.steps, view.name)
        found._view.root = view.root
    else:
        found._view = None
    return found


@method()
def detach(self: Tensor) -> Tensor:
    """A tensor of the same memory without gradient history."""
    return _sharing(self, self._storage.fork())


@method()
def detach_(self: Tensor) -> Tensor:
    """Drop this tensor's gradient history. Raises GradientError for views."""
    if self._view is not None and self._view.source is not None:
        raise GradientError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
            "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
            "these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
            "function in torch/optim/optimizer.py as the solution."
        )
    storage = self._storage
    if isinstance(storage.fn, AccumulateGrad):
        self.__dict__["_grad"] = storage.fn.grad
    storage.node, storage.fn = raw(storage.current()), None
    return self


def _get_data(self: Tensor) -> Tensor:
    """A tensor of the same memory that autograd knows nothing of."""
    return _sharing(self, self._storage.fork(silent=True))


def take_over(self: Tensor, value: Tensor) -> None:
    """``self.data = value`` for a value that nobody else sees: its memory becomes this tensor's
    own, where after ``self.data = value`` both would share it."""
    fn, storage = self._fn, value._storage
    alone = storage.share is None and storage.fn is None and value._view is None
    if not alone or storage.version < 0 or not (fn is None or isinstance(fn, AccumulateGrad)):
        self.data = value
        return
    storage.node, storage.fn, storage.version = raw(storage.current()), fn, 0
    if fn is not None:
        storage.node = fn.mark(storage.node)
    self._storage, self._view = storage, None


def _set_data(self: Tensor, value: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise DTypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    fn = self._fn
    view = value._view
    if view is None or (view.root and not view.steps):
        storage, new_view = value._storage.fork(silent=True), view and root_view(view)
    else:
        storage, new_view = value._storage.region(view), root_view(view)
    if isinstance(fn, AccumulateGrad):
        storage.node, storage.fn = fn.mark(storage.node), fn
    elif fn is not None:
        raise GradientError(
            "cannot set .data of a tensor that is not a leaf; use an in-place copy_"
        )
    self._storage, self._view = storage, new_view


# ---------------------------------------------------------------------- hooks


def _retains(tensor: Tensor, fn: GradFn) -> bool:
    return fn._extra is not None and any(r() is tensor for _, r in fn._extra.retained)


def _place(tensor: Tensor) -> tuple[GradFn, int]:
    """The grad_fn of a non-leaf, and which of its outputs that is, where hooks are called."""
    fn = tensor._fn
    assert fn is not None
    watched.add(fn)
    if hook.watcher is not None:
        _mark(tensor, fn)
    return fn, output_number(fn, tensor.node) if fn.several else 0


def _mark(tensor: Tensor, fn: GradFn) -> None:
    """Put a boundary into the graph where ``vmap``, which follows that, has to meet hooks."""
    from lazyt.autograd.levels import batching

    node = tensor.node
    if not batching() or node in boundaries:
        return
    fn.extra.history = node
    marked = boundary(node, fn)
    view = tensor._view
    if view is None:
        tensor._storage.node = marked
    else:
        if view.root:
            tensor._storage.node = view.write_back(tensor._storage.node, marked)
        view.show(tensor._storage.current(), marked)


@method()
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call ``hook`` with every gradient of this tensor; what it returns replaces the gradient.

    It does not matter what was computed from the tensor, or looked at, before. Raises GradientError
    for a tensor that does not require its gradient.
    """
    fn = self._fn
    if fn is None:
        raise GradientError("cannot register a hook on a tensor that doesn't require gradient")
    index = 0
    if not isinstance(fn, AccumulateGrad):
        fn, index = _place(self)
    return RemovableHandle(fn.extra.hooks_of(index), hook)


@method()
def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call ``hook`` with this leaf each time its ``grad`` has been accumulated.

    Raises GradientError for what is no leaf.
    """
    fn = self._fn
    if not isinstance(fn, AccumulateGrad):
        raise GradientError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return RemovableHandle(fn.post_hooks, hook)


@method()
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this non-leaf tensor in ``grad``.

    Raises GradientError for a tensor that does not require its gradient.
    """
    fn = self._fn
    if fn is None:
        raise GradientError("can't retain_grad on Tensor that has requires_grad=False")
    if isinstance(fn, AccumulateGrad):
        return
    if hook.watcher is not None:
        _refuse_in_transform("retain_grad")
    if not _retains(self, fn):
        fn, index = _place(self)
        fn.extra.retained.append((index, weakref.ref(self)))


def _retains_grad(self: Tensor) -> bool:
    """Whether this non-leaf tensor keeps its gradient."""
    fn = self._fn
    return fn is not None and not isinstance(fn, AccumulateGrad) and _retains(self, fn)


def zero_like(tensor: Tensor) -> Tensor:
    """Zeros of a tensor's shape and dtype, for gradients that do not exist."""
    from lazyt.handle.dispatch import wrap

    shape = tuple(tensor.shape)
    lone = ops.reshape(ops.constant(0, tensor.dtype), (1,) * len(shape))
    return wrap(ops.expand(lone, shape))


# Attached here because the handle must not know of gradients' bookkeeping.
add_property("requires_grad", property(_requires_grad, _set_requires_grad))
add_property("grad", property(_get_grad, _set_grad, _delete_grad))
add_property("data", property(_get_data, _set_data))
add_property("retains_grad", property(_retains_grad))
