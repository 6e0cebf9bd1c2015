"""Other shapes of the same memory, with PyTorch's strides and errors.

They cost no kernel: a view's value is a movement of the graph value that it looks at.
"""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.autograd.handles import root_view
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.operands import (
    as_shape,
    normalize_dim,
    require_tensor,
    sizes_by_name,
    wrong_arguments,
)
from lazyt.functional.result_layout import preserving, row_major
from lazyt.functional.shapes.view_parts import as_strided, remembered
from lazyt.functional.type_promotion import as_dtype
from lazyt.handle.dispatch import (
    add_property,
    check_writable,
    copied,
    method,
    type_title,
    view_of,
    wrap,
)
from lazyt.handle.function_table import declare, function
from lazyt.handle.grad_mode import mode
from lazyt.handle.layout import channel_order, contiguous_format, dense_strides, preserve_format
from lazyt.handle.storage import Storage
from lazyt.handle.tape import AccumulateGrad, hand_over
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import (
    Conjugate,
    Expand,
    Permute,
    Reshape,
    Slice,
    Step,
    View,
    Window,
    contiguous_strides,
    is_contiguous,
    strides_of_view,
    use_complex,
)
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Shape

__all__ = [
    "adjoint", "as_strided_", "broadcast_to", "clone", "conj", "detach", "detach_", "flatten",
    "is_same_size", "moveaxis", "movedim", "permute", "ravel", "reshape", "resize_as_", "squeeze",
    "squeeze_", "swapaxes", "swapaxes_", "swapdims", "swapdims_", "t", "t_", "transpose",
    "transpose_", "unflatten", "unsqueeze", "unsqueeze_",
]  # fmt: skip


def infer_shape(wanted: Shape, size: int) -> Shape:
    """``wanted`` with its -1 replaced, for ``size`` elements; raises ShapeError when none fits."""
    total = 1
    unknown = -1
    for axis, extent in enumerate(wanted):
        if extent >= 0:
            total *= extent
        elif extent != -1:
            raise ShapeError(
                f"invalid shape dimension {extent} at index {axis} of shape {list(wanted)}"
            )
        elif unknown >= 0:
            raise ShapeError("only one dimension can be inferred")
        else:
            unknown = axis
    if unknown < 0:
        if total == size:
            return wanted
    elif total == 0 and size == 0:
        raise ShapeError(
            f"cannot reshape tensor of 0 elements into shape {list(wanted)} because the "
            "unspecified dimension size -1 can be any value and is ambiguous"
        )
    elif total and size % total == 0:
        return (*wanted[:unknown], size // total, *wanted[unknown + 1 :])
    raise ShapeError(f"shape '{list(wanted)}' is invalid for input of size {size}")


def _arranged(input: Tensor, shape: Shape, name: str) -> Tensor | None:
    """``input`` under another shape, sharing memory; None when its strides do not allow that."""
    strides = strides_of_view(tuple(input.shape), input.strides, shape)
    if strides is None:
        return None
    return view_of(input, (Reshape(shape),), shape, strides, input._offset, name)


@function(layout=row_major)
@method()
@remembered
@sizes_by_name("size")
def view(input: Tensor, *size: Any, dtype: DType | None = None) -> Tensor:
    """The same memory under another shape, of which one extent may be -1, or as another dtype.

    Raises ShapeError when the number of elements differs or the strides do not allow it.
    """
    wanted = dtype if not size else size[0]
    if isinstance(wanted, DType):
        return view_bits(input, wanted)
    shape = infer_shape(as_shape(size, "view"), input.shape.numel())
    found = _arranged(input, shape, "View")
    if found is None:
        raise ShapeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return found


@function(method=True)
@method()
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """``input.view(other.shape)``."""
    return view(input, tuple(other.shape))


@function()
@method()
@remembered
@sizes_by_name("shape")
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """Another shape: a view where the strides allow it, a copy otherwise.

    Raises ShapeError when the number of elements differs.
    """
    wanted = infer_shape(as_shape(shape, "reshape"), input.shape.numel())
    found = _arranged(input, wanted, "View")
    if found is not None:
        return found
    return wrap(ops.reshape(input.node, wanted), input, name="UnsafeView")


@function(method=True)
@method()
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """``input.reshape(other.shape)``."""
    return reshape(input, tuple(other.shape))


@function()
@method()
@remembered
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim`` merged into one.

    Raises ShapeError when they are in the wrong order.
    """
    shape = tuple(input.shape)
    start, end = normalize_dim(start_dim, len(shape)), normalize_dim(end_dim, len(shape))
    if start > end:
        raise ShapeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return reshape(input, (1,))
    if start == end:
        return input
    merged = 1
    for extent in shape[start : end + 1]:
        merged *= extent
    return reshape(input, (*shape[:start], merged, *shape[end + 1 :]))


@function()
@method()
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """Dimension ``dim`` split into ``sizes``, of which one may be -1."""
    shape = tuple(input.shape)
    if not shape:
        raise LazytError(
            "unflatten got an unexpected error:\n"
            f"Dimension specified as {dim} but tensor has no dimensions"
        )
    axis = normalize_dim(dim, len(shape))
    try:
        inner = infer_shape(as_shape((sizes,), "unflatten"), shape[axis])
    except ShapeError:
        raise ShapeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} "
            f"({shape[axis]}) in the input tensor"
        ) from None
    return view(input, (*shape[:axis], *inner, *shape[axis + 1 :]))


def _permuted(input: Tensor, axes: Shape, name: str) -> Tensor:
    shape, strides = input.shape, input.strides
    return view_of(
        input,
        (Permute(axes),),
        tuple(shape[a] for a in axes),
        tuple(strides[a] for a in axes),
        input._offset,
        name,
    )


@function()
@method()
@remembered
@sizes_by_name("dims")
def permute(input: Tensor, *dims: Any) -> Tensor:
    """Dimensions in another order. Raises ShapeError for a wrong number or a repeated one."""
    order = as_shape(dims, "permute")
    rank = input.ndim
    if len(order) != rank:
        raise ShapeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {rank} is not equal "
            f"to len(dims) = {len(order)}"
        )
    axes = tuple(normalize_dim(d, rank) for d in order)
    if len(set(axes)) < rank:
        raise ShapeError("permute(): duplicate dims are not allowed.")
    return _permuted(input, axes, "Permute")


def _swapped(input: Tensor, first: int, second: int, name: str) -> Tensor:
    axes = list(range(input.ndim))
    axes[first], axes[second] = second, first
    return _permuted(input, tuple(axes), name)


@function()
@method("transpose", "swapdims")
@remembered
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged."""
    rank = input.ndim
    first, second = normalize_dim(dim0, rank), normalize_dim(dim1, rank)
    if not rank:
        return view_of(input, (), (), (), input._offset, "Transpose")
    return _swapped(input, first, second, "Transpose")


swapdims = declare("swapdims", transpose)


@function()
@method()
@remembered
def t(input: Tensor) -> Tensor:
    """A matrix transposed; vectors stay. Raises ShapeError for more dimensions."""
    rank = input.ndim
    if rank > 2:
        raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    if rank < 2:
        return view_of(input, (), tuple(input.shape), input.strides, input._offset, "T")
    return _swapped(input, 0, 1, "T")


@remembered
def _reversed(input: Tensor) -> Tensor:
    """All dimensions in reverse order."""
    name = "T" if input.ndim == 2 else "Permute"
    return _permuted(input, tuple(range(input.ndim))[::-1], name)


def _matrices_transposed(input: Tensor, name: str = "mT") -> Tensor:
    """The last two dimensions exchanged. Raises ShapeError for vectors."""
    rank = input.ndim
    if rank == 1:
        raise ShapeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. "
            f"Got {rank}-D tensor."
        )
    return _swapped(input, rank - 2, rank - 1, "Transpose") if rank else input


@function(method=True)
def conj(input: Tensor) -> Tensor:
    """A view with the other sign of the imaginary parts, whose conjugate bit is set; the tensor
    itself where its numbers are real."""
    tensor = require_tensor(input, "conj")
    if tensor.dtype.kind != "c":
        return tensor
    use_complex.any = True
    shape = tuple(tensor.shape)
    return view_of(tensor, (Conjugate(),), shape, tensor.strides, tensor._offset, "Conj")


@function()
@method()
def adjoint(input: Tensor) -> Tensor:
    """``mH``: conjugates with the last two dimensions exchanged. Raises ShapeError for vectors."""
    return conj(_matrices_transposed(input, "adjoint()"))


def _conjugate_matrices(input: Tensor) -> Tensor:
    """Conjugates with the last two dimensions exchanged. Raises ShapeError for vectors."""
    return conj(_matrices_transposed(input, "mH"))


def _conjugate_matrix(input: Tensor) -> Tensor:
    """A matrix transposed, of conjugates. Raises ShapeError for other ranks than 2 and 0."""
    rank = input.ndim
    if rank not in (0, 2):
        more = " For batches of matrices, consider using tensor.mH" if rank > 2 else ""
        raise ShapeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {rank}-D tensor.{more}"
        )
    return conj(t(input))


add_property("T", property(_reversed))
add_property("mT", property(_matrices_transposed))
add_property("mH", property(_conjugate_matrices))
add_property("H", property(_conjugate_matrix))


@function()
@method("movedim", "moveaxis")
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Dimensions moved to other places, the rest in their order."""
    rank = input.ndim
    froms = source if isinstance(source, (tuple, list)) else (source,)
    tos = destination if isinstance(destination, (tuple, list)) else (destination,)
    if len(froms) != len(tos):
        raise ShapeError(
            f"movedim: Invalid source or destination dims: source ({list(froms)} dims) should "
            f"contain the same number of dims as destination ({list(tos)} dims)"
        )
    old = [normalize_dim(d, rank) for d in froms]
    new = [normalize_dim(d, rank) for d in tos]
    for dims, given, which in ((old, froms, "source"), (new, tos, "destination")):
        if len(set(dims)) < len(dims):
            raise ShapeError(f"movedim: repeated dim in `{which}` ({list(given)})")
    rest = iter([d for d in range(rank) if d not in old])
    place = dict(zip(new, old))
    axes = tuple(place[d] if d in place else next(rest) for d in range(rank))
    return _permuted(input, axes, "Permute")


moveaxis = declare("moveaxis", movedim)


@function(method=True)
@method()
@remembered
def squeeze(input: Tensor, dim: Any = None, *more: int) -> Tensor:
    """Without dimensions of extent one: all, or those of ``dim`` (and ``more``) that are."""
    if more:
        dim = (dim, *more)
    shape, strides = input.shape, input.strides
    rank = len(shape)
    if dim is None:
        chosen = [*range(rank)]
        name = "Squeeze"
    else:
        dims = dim if isinstance(dim, (tuple, list)) else (dim,)
        chosen = [normalize_dim(d, rank) for d in dims]
        for place, axis in enumerate(chosen):
            if axis in chosen[:place]:
                raise ShapeError(f"dim {axis} appears multiple times in the list of dims")
        name = "SqueezeBackward1"
    remaining = [i for i in range(rank) if shape[i] != 1 or i not in chosen]
    new = tuple(shape[i] for i in remaining)
    moves = (Reshape(new),) if len(remaining) < rank else ()
    return view_of(input, moves, new, tuple(strides[i] for i in remaining), input._offset, name)


@function(method=True)
@method()
@remembered
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a dimension of extent one at ``dim``."""
    shape, strides = tuple(input.shape), input.strides
    axis = normalize_dim(dim, len(shape) + 1)
    new = (*shape[:axis], 1, *shape[axis:])
    stride = shape[axis] * strides[axis] if axis < len(shape) else 1
    return view_of(
        input,
        (Reshape(new),),
        new,
        (*strides[:axis], stride, *strides[axis:]),
        input._offset,
        "Unsqueeze",
    )


@function()
@method()
@remembered
@sizes_by_name("size")
def expand(input: Tensor, *size: Any) -> Tensor:
    """Dimensions of extent one repeated without copying (stride 0); -1 keeps an extent.

    Raises ShapeError, in PyTorch's words, for sizes that do not fit.
    """
    wanted = as_shape(size, "expand")
    shape, strides = tuple(input.shape), input.strides
    lead = len(wanted) - len(shape)
    if lead < 0:
        raise ShapeError(
            f"expand({input.type()}{{{list(shape)}}}, size={list(wanted)}): the number of sizes "
            f"provided ({len(wanted)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({len(shape)})"
        )
    new, steps = list(wanted), [0] * len(wanted)
    for axis in range(len(wanted) - 1, -1, -1):
        old = axis - lead
        if old >= 0:
            extent, step = shape[old], strides[old]
        else:
            extent = 1
            step = new[axis + 1] * steps[axis + 1] if axis + 1 < len(new) else 1
        if new[axis] < 0:
            if old < 0:
                raise ShapeError(
                    f"The expanded size of the tensor ({new[axis]}) isn't allowed in a leading, "
                    f"non-existing dimension {axis}"
                )
            if new[axis] != -1 and extent == 1:
                raise ShapeError("numel: integer multiplication overflow")
        if new[axis] == -1:
            new[axis] = extent
        elif new[axis] != extent:
            if extent != 1:
                raise ShapeError(
                    f"The expanded size of the tensor ({new[axis]}) must match the existing size "
                    f"({extent}) at non-singleton dimension {axis}.  Target sizes: "
                    f"{list(wanted)}.  Tensor sizes: {list(shape)}"
                )
            step = 0
        steps[axis] = step
    padded, full = (1,) * lead + shape, tuple(new)
    moves: list[Step] = [Reshape(padded)] if lead else []
    if full != padded:
        moves.append(Expand(full))
    return view_of(input, tuple(moves), full, tuple(steps), input._offset, "Expand")


@function(method=True)
@method()
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """``input.expand(other.shape)``."""
    return expand(input, tuple(other.shape))


@function()
@method()
def alias(input: Tensor) -> Tensor:
    """Another tensor of the same memory, shape and strides."""
    return view_of(input, (), tuple(input.shape), input.strides, input._offset, "Alias")


@function(layout=preserving)
@method()
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with memory of its own, in the order of the original or in ``memory_format``.

    Raises LazytError for a format that does not fit the rank.
    """
    return copied(input, input.node, "Clone", memory_format)


@function()
@method()
def contiguous(input: Tensor, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor itself when its elements lie in the order ``memory_format``, else a copy.

    Raises LazytError for a format that does not fit the rank.
    """
    if input.is_contiguous(memory_format=memory_format):
        return input
    if memory_format is preserve_format:
        raise LazytError("preserve memory format is unsupported by the contiguous operator")
    return copied(input, input.node, "Clone", memory_format)


# Tensors that change how they look at memory, or at which: resize_, set_, t_ and the like.


def arranged(storage: Storage, shape: Shape, strides: Shape, offset: int) -> View:
    """How elements of a storage look with any strides; the bounds must hold."""
    whole = storage.node
    size = 1
    for extent in shape:
        size *= extent
    steps: tuple[Step, ...]
    if size and is_contiguous(shape, strides):
        steps = (Reshape(shape),) if whole.shape != shape else ()
        if size != whole.size:
            steps = (Reshape((whole.size,)), Slice((offset,), (size,), (1,)), Reshape(shape))
    else:
        steps = (Window(shape, strides, offset if size else 0),)
    return View(shape, strides, offset, steps, "View")


# ---------------------------------------------------------------------- other shapes in place


def _become(self: Tensor, shown: Tensor) -> Tensor:
    """Let a tensor look as its view ``shown`` does; returns it."""
    check_writable(self)
    new, old = shown._view, self._view
    assert new is not None
    made = None
    if old is None or old.root:
        new.root, new.source = True, None
        made, new.fn = new.fn, None
        new.made_for = None
    else:
        new.source = old.source
    storage = shown._storage
    leaf = storage.fn
    if isinstance(leaf, AccumulateGrad) and new.root:  # its gradient has its shape
        part = View(new.shape, new.strides, new.offset, new.steps, new.name)
        self._storage, self._view = storage.region(part), root_view(new)
        self._storage.node, self._storage.fn = leaf.mark(self._storage.current()), leaf
    else:
        self._storage, self._view = storage, new
        if made is not None and mode.enabled:  # what others see in the storage is seen through it
            hand_over(leaf, made)
            storage.fn = made
    self._storage.touch()
    return self


@function()
@method()
def t_(self: Tensor) -> Tensor:
    """Transpose this matrix in place; vectors stay. Raises ShapeError for more dimensions."""
    return _become(self, t(self))


@function(method=True)
@method("transpose_", "swapdims_")
def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions in place."""
    return _become(self, transpose(self, dim0, dim1))


swapdims_ = declare("swapdims_", transpose_, method=True)


@function()
@method()
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """``transpose`` by NumPy's name. Raises BoundsError."""
    return transpose(input, axis0, axis1)


@function(method=True)
@method()
def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """``transpose_`` by NumPy's name. Raises BoundsError."""
    return _become(self, transpose(self, axis0, axis1))


@function(method=True)
@method()
def squeeze_(self: Tensor, dim: Any = None, *more: int) -> Tensor:
    """Drop dimensions of extent one in place: all, or those of ``dim`` (and ``more``) that are."""
    return _become(self, squeeze(self, dim, *more))


@function(method=True)
@method()
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """Add a dimension of extent one at ``dim`` in place."""
    return _become(self, unsqueeze(self, dim))


@function(method=True)
@method()
def as_strided_(self: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Show the storage with any strides from now on. Raises as ``as_strided`` does."""
    return _become(self, as_strided(self, size, stride, storage_offset))


@function()
@method()
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension: a view where the elements are contiguous, else a copy."""
    found: Tensor = input.contiguous().view(-1)
    return found


@function()
@method()
@sizes_by_name("size")
def broadcast_to(input: Tensor, *size: Any) -> Tensor:
    """``input`` expanded to ``size``. Raises ShapeError for sizes that do not fit."""
    return expand(input, *size)


@function()
def detach(input: Tensor) -> Tensor:
    """A tensor of the same memory without gradient history."""
    found: Tensor = input.detach()
    return found


@function()
def detach_(input: Tensor) -> Tensor:
    """Drop a tensor's gradient history. Raises GradientError for views."""
    found: Tensor = input.detach_()
    return found


@function()
@method()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return input.shape == other.shape


# ---------------------------------------------------------------------- other memory in place


@function(method=True)
@method()
def resize_(self: Tensor, *sizes: Any, memory_format: Any = contiguous_format) -> Tensor:
    """Take another size over the same memory, which grows where it must; new elements are zeros.

    Raises LazytError for a tensor that requires its gradient, and for memory
    of NumPy's that would have to grow.
    """
    if not sizes:
        raise DTypeError('resize_() missing 1 required positional arguments: "size"')
    shape = as_shape(sizes, "resize_")
    if self._fn is not None:
        raise LazytError("cannot resize variables that require grad")
    if any(extent < 0 for extent in shape):
        raise ShapeError("numel: integer multiplication overflow")
    if memory_format is preserve_format:
        raise LazytError("Unsupported memory formatPreserve")
    strides = contiguous_strides(shape)
    if memory_format is not contiguous_format:
        strides = dense_strides(shape, channel_order(shape, memory_format, "resize_"))
    elif shape == tuple(self.shape):
        strides = self.strides
    _show(self, shape, strides, self._offset)
    self._storage.touch()
    return self


def _show(self: Tensor, shape: Shape, strides: Shape, offset: int) -> None:
    """Look at the tensor's memory in a new way; it grows where that needs more."""
    storage, size = self._storage, self.itemsize
    if 0 not in shape:
        reach = 1 + offset + sum((n - 1) * s for n, s in zip(shape, strides))
        if reach * size > storage.nbytes:
            storage.enlarge(reach * size)
    old = self._view
    storage = storage.whole(self.dtype)
    view = arranged(storage, shape, strides, offset)
    if old is None or old.root:
        view.root = True
    else:
        view.source = old.source
    self._storage, self._view = storage, view


@function(method=True)
@method()
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """``resize_`` to the size of another tensor."""
    wanted = contiguous_format if memory_format in (None, preserve_format) else memory_format
    resized: Tensor = resize_(self, tuple(the_template.shape), memory_format=wanted)
    return resized


@function()
@method()
def set_(
    self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Look at other memory: that of a tensor or of a storage object; none without ``source``.

    Args:
        source: a Tensor of this dtype, or what ``storage()`` or ``untyped_storage()`` gave.
        storage_offset, size, stride: the arrangement in it; all of it, row-major, by default.

    Raises DTypeError for memory of another dtype, ShapeError for what leaves it.
    """
    check_writable(self)
    version = self._storage.version_now()
    if source is None:
        self._storage, self._view = Storage(_nothing(self.dtype)), None
    elif isinstance(source, Tensor) and size is None:
        if source.dtype is not self.dtype:
            raise DTypeError(
                f"Could not set tensor of type {c_name(source.dtype)} to a tensor of type "
                f"{c_name(self.dtype)}"
            )
        self._storage, self._view = source._storage, source._view
    else:
        if not isinstance(source, Tensor) and not hasattr(source, "over"):
            forms = ("Storage source", "Tensor source", "Tensor source, int storage_offset, tuple "
                     "of ints size, tuple of ints stride = None")  # fmt: skip
            raise wrong_arguments("set_", (source,), forms)
        storage: Storage = source._storage if isinstance(source, Tensor) else source.over(self)
        storage = storage.whole(self.dtype)
        shape = (storage.node.size,) if size is None else as_shape((size,), "set_")
        strides = contiguous_strides(shape) if stride is None else as_shape((stride,), "set_")
        self._storage, self._view = storage, None
        reach = 1 + storage_offset + sum((n - 1) * s for n, s in zip(shape, strides))
        if 0 not in shape and reach > storage.node.size:
            storage.enlarge(reach * self.itemsize)
            storage = storage.whole(self.dtype)
            self._storage = storage
        self._view = arranged(storage, shape, strides, storage_offset)
        self._view.root = True
    if self._storage.version_now() <= version:
        self._storage.touch()
    return self


def _nothing(dtype: DType) -> Any:
    return ops.expand(ops.reshape(ops.constant(0, dtype), (1,)), (0,))


def c_name(dtype: DType) -> str:
    """What PyTorch's messages about storages call a dtype."""
    names = {"int64": "long int", "float32": "float", "float64": "double", "int32": "int",
             "uint8": "unsigned char", "int8": "signed char", "int16": "short int",
             "bool": "bool"}  # fmt: skip
    return names.get(dtype.name, f"c10::{type_title(dtype)}")


# ---------------------------------------------------------------------- bits


def view_bits(input: Tensor, dtype: DType) -> Tensor:
    """The same memory as elements of another dtype, whose size may differ.

    The last dimension takes up the difference. Raises ShapeError, in PyTorch's words, where sizes,
    strides or the offset do not allow that. Carries no gradient.
    """
    dtype = as_dtype(dtype)
    shape, strides, offset = tuple(input.shape), input.strides, input._offset
    if dtype is not input.dtype and dtype.itemsize != input.itemsize:
        shape, strides, offset = _regrouped(input, dtype)
    storage = input._storage.whole(dtype)
    if storage is input._storage:
        storage = storage.fork()
    made = object.__new__(Tensor)
    made._storage = storage
    made._view = arranged(storage, shape, strides, offset)
    return made


def _regrouped(input: Tensor, dtype: DType) -> tuple[Shape, Shape, int]:
    """Shape, strides and offset in elements of another size."""
    shape, strides, offset = list(input.shape), list(input.strides), input._offset
    old, new = input.itemsize, dtype.itemsize
    pair = f"to view {type_title(input.dtype)} as {type_title(dtype)} (different element sizes)"
    if not shape:
        raise ShapeError(f"self.dim() cannot be 0 {pair}")
    if old > new:
        if strides[-1] != 1:
            raise ShapeError(f"self.stride(-1) must be 1 {pair}, but got {strides[-1]}")
        ratio = old // new
        shape[-1] *= ratio
        return tuple(shape), (*(s * ratio for s in strides[:-1]), 1), offset * ratio
    ratio = new // old
    if shape[-1] % ratio:
        raise ShapeError(f"self.size(-1) must be divisible by {ratio} {pair}, but got {shape[-1]}")
    if offset % ratio:
        raise ShapeError(
            f"self.storage_offset() must be divisible by {ratio} {pair}, but got {offset}"
        )
    if strides[-1] != 1:
        raise ShapeError(f"self.stride(-1) must be 1 {pair}, but got {strides[-1]}")
    for axis, stride in enumerate(strides[:-1]):
        if stride % ratio:
            raise ShapeError(
                f"self.stride({axis}) must be divisible by {ratio} {pair}, but got {stride}"
            )
    shape[-1] //= ratio
    return tuple(shape), (*(s // ratio for s in strides[:-1]), 1), offset // ratio
