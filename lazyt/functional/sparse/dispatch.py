"""Which function runs for tensors that are not strided.

Functions and methods are found by their names. What is not here is either a method of the sparse
classes, or refused in PyTorch's words.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from lazyt import autograd
from lazyt.errors import LazytError
from lazyt.functional.overriding import Disabled, Overridable, start, switch
from lazyt.functional.sparse import arithmetic, compressed, coordinates, creation, products
from lazyt.functional.sparse.tensors import (
    CompressedTensor,
    CooTensor,
    SparseTensor,
    need_coo,
    refuse,
)
from lazyt.functional.sparse.text import text_of
from lazyt.functional.type_promotion import can_cast
from lazyt.handle.dispatch import type_title, wrap
from lazyt.handle.layout import sparse_coo, sparse_csc, sparse_csr
from lazyt.handle.tensor import Tensor

Implementation = Callable[..., Any]

#: Functions that give zero for zero: on the values.
_UNARY = [
    "abs",
    "absolute",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "conj_physical",
    "deg2rad",
    "erf",
    "erfinv",
    "expm1",
    "floor",
    "frac",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "log1p",
    "nan_to_num",
    "rad2deg",
    "relu",
    "round",
    "sgn",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "fix",
    "angle",
    "threshold_backward",
]
#: Functions that are linear as well, so that elements may be there several times.
_LINEAR = ["neg", "negative", "positive", "conj", "resolve_conj", "resolve_neg"]
#: What real functions answer rightly of every tensor.
_THROUGH = frozenset(
    [
        "is_tensor",
        "is_floating_point",
        "is_complex",
        "is_signed",
        "is_same_size",
        "get_device",
        "type",
        "dim",
        "ndimension",
        "size",
        "nelement",
        "numel",
        "element_size",
        "typename",
        "is_storage",
        "__len__",
        "can_cast",
        "result_type",
        "promote_types",
        "register_post_accumulate_grad_hook",
        "is_inference",
        "requires_grad_",
        "is_neg",
        "is_conj",
        "check_dispatch",
        "__format__",
        "is_set_to",
        "__hash__",
        "to_sparse",
        "to_sparse_coo",
        "to_sparse_csr",
        "to_sparse_csc",
        "to_sparse_bsr",
        "to_sparse_bsc",
        "is_distributed",
        "hspmm",
        "smm",
        "sspaddmm",
        "svd_lowrank",
        "pca_lowrank",
        "dropout",
        "alpha_dropout",
        "feature_dropout",
        "isfinite_",
        "itemsize",
        "nbytes",
        "assert_close",
    ]
)

table: dict[str, Implementation] = {}


def implementation(*names: str) -> Callable[[Implementation], Implementation]:
    """Decorator: the function that runs for sparse tensors in the place of those called so."""

    def attach(function: Implementation) -> Implementation:
        for name in names or (function.__name__.rstrip("_"),):
            table[name] = function
        return function

    return attach


def run(entry: Overridable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a function that was given a sparse tensor.

    Raises NoBackendError for functions that sparse tensors do not have, and LazytError for ``out``.
    """
    name = entry.name
    with Disabled(modes=False):
        if name in ("__get__", "__set__", "__delete__"):
            return _attribute(entry, args, kwargs)
        found = table.get(name)
        if found is None and name in _MEMBERS:
            need_member(_first_sparse(args, kwargs), name)
        if found is None:
            tensor = _first_sparse(args, kwargs)
            own = getattr(type(tensor), name, None) if args and args[0] is tensor else None
            if own is not None and own is not getattr(Tensor, name, None):
                return own(*args, **kwargs)
            if name in _THROUGH:
                return entry.real(*args, **kwargs)
            refuse(tensor, name.strip("_") if name.startswith("__") else name)
        if kwargs.get("out") is not None:
            raise LazytError(f"{name}(): out= has no sparse form; assign the result")
        kwargs.pop("out", None)
        return found(*args, **kwargs)


#: Methods that tensors of some layouts have, and what errors call that layout.
_MEMBERS = {
    "indices": "sparse coordinate tensor",
    "is_coalesced": "sparse coordinate tensor", "crow_indices": "sparse row compressed tensor",
    "col_indices": "sparse row compressed tensor",
    "ccol_indices": "sparse column compressed tensor",
    "row_indices": "sparse column compressed tensor",
}  # fmt: skip


def need_member(tensor: SparseTensor, name: str) -> None:
    """Raise LazytError, in PyTorch's words, where tensors of that layout have no such method."""
    if not any(name in vars(kind) for kind in type(tensor).__mro__[:-3]):
        raise LazytError(f"{name} expected {_MEMBERS[name]} layout but got {tensor._title()}")


def _attribute(entry: Overridable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor, name = args[0], entry.home.rpartition(".")[2]
    if entry.name == "__get__":
        if name in _MATRIX_ATTRIBUTES:
            return _transpose(tensor, -2, -1)
        if name in _ALIASES:
            return _detach(tensor) if name == "data" else tensor
        own = getattr(type(tensor), name, None)
        if isinstance(own, property) and own.fget is not None and own.fget is not entry.function:
            return own.fget(tensor)
    return entry.real(*args, **kwargs)


_MATRIX_ATTRIBUTES = frozenset({"T", "mT"})
_ALIASES = frozenset({"data", "real"})


def _first_sparse(args: tuple[Any, ...], kwargs: dict[str, Any]) -> SparseTensor:
    for value in (*args, *kwargs.values()):
        if isinstance(value, SparseTensor):
            return value
        if isinstance(value, (list, tuple)):
            for part in value:
                if isinstance(part, SparseTensor):
                    return part
    raise AssertionError("no sparse tensor among the arguments")


# ---------------------------------------------------------------------- element by element


@implementation("add", "__add__")
def _add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return arithmetic.added(input, other, alpha)


@implementation("__radd__")
def _radd(input: Any, other: Any) -> Tensor:
    return arithmetic.added(other, input)


@implementation("sub", "subtract", "__sub__")
def _sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return arithmetic.added(input, other, -alpha)


@implementation("rsub", "__rsub__")
def _rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return arithmetic.added(other, input, -alpha)


table |= {
    "mul": arithmetic.multiplied, "multiply": arithmetic.multiplied,
    "__mul__": arithmetic.multiplied, "__rmul__": arithmetic.multiplied,
    "pow": arithmetic.raised, "__pow__": arithmetic.raised, "sum": arithmetic.total,
    "_sparse_sum": arithmetic.total, "norm": arithmetic.norm, "any": arithmetic.any_of,
}  # fmt: skip


@implementation("div", "divide", "true_divide", "__truediv__", "__div__")
def _div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    return arithmetic.divided(input, other, rounding_mode)


@implementation("floor_divide", "__floordiv__")
def _floor_divide(input: Any, other: Any) -> Tensor:
    return arithmetic.divided(input, other, "floor")


@implementation("__rtruediv__", "__rdiv__", "reciprocal")
def _reciprocal(input: Any, other: Any = None) -> Tensor:
    refuse(input, "reciprocal")


@implementation("__matmul__", "matmul")
def _matmul(input: Any, other: Any) -> Tensor:
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        raise LazytError("matmul(): both factors have to be tensors")
    ranks = input.ndim, other.ndim
    if ranks == (2, 1) and isinstance(input, SparseTensor):
        if isinstance(other, SparseTensor):
            refuse(other, "mv")
        return products.times_vector(input, other)
    if ranks == (1, 2) and isinstance(other, SparseTensor) and not isinstance(input, SparseTensor):
        row = products.dense_times(input.unsqueeze(0), other)
        found: Tensor = row.reshape((other.shape[1],))
        return found
    if ranks == (2, 2):
        return products.matrix_product(input, other)
    if ranks == (3, 3) and isinstance(input, CooTensor) and not isinstance(other, SparseTensor):
        return products.batched(input, other)
    raise LazytError("expand is unsupported for Sparse tensors")


@implementation("__rmatmul__")
def _rmatmul(input: Any, other: Any) -> Any:
    return _matmul(other, input)


@implementation("mm", "spmm", "dsmm")
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices, of which one is sparse."""
    return products.matrix_product(input, mat2)


@implementation("mv")
def _mv(input: Tensor, vec: Tensor) -> Tensor:
    if not isinstance(input, SparseTensor):
        refuse(vec, "mv")  # type: ignore[arg-type]
    return products.times_vector(input, vec)


@implementation("bmm")
def _bmm(input: Tensor, mat2: Tensor) -> Tensor:
    if not isinstance(input, SparseTensor) or isinstance(mat2, SparseTensor):
        raise LazytError("bmm_sparse: Tensor 'mat2' must be dense and 'self' sparse")
    return products.batched(need_coo(input, "bmm"), mat2)


@implementation("addmm")
def _addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    if not isinstance(mat1, SparseTensor) and not isinstance(mat2, SparseTensor):
        refuse(input, "addmm")  # type: ignore[arg-type]
    return products.added_product(input, mat1, mat2, beta, alpha)


@implementation("linear")
def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    flat = input if input.ndim == 2 else input.reshape((-1, input.shape[-1]))
    found = products.matrix_product(flat, weight.t(), "Linear")
    if input.ndim != 2:
        found = found.reshape((*input.shape[:-1], weight.shape[0]))
    return found if bias is None else found + bias


for _name in _UNARY:
    _function = getattr(Tensor, _name, None)
    if _function is not None:
        table[_name] = arithmetic.of_values(_function)
for _name in _LINEAR:
    table[_name] = arithmetic.of_values(getattr(Tensor, _name), linear=True)
table |= {"__neg__": table["neg"], "__abs__": table["abs"], "__pos__": table["positive"]}


# ---------------------------------------------------------------------- shapes


@implementation("t", "adjoint")
def _t(input: SparseTensor) -> SparseTensor:
    if isinstance(input, CooTensor) and (input.dense_dim() or input.ndim > 2):
        raise LazytError(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
            f"{input.sparse_dim()} sparse and {input.dense_dim()} dense dimensions"
        )
    if input.ndim > 2:
        raise LazytError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return input if input.ndim < 2 else _transpose(input, 0, 1)


@implementation("transpose", "swapaxes", "swapdims")
def _transpose(input: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    if isinstance(input, CompressedTensor):
        return compressed.transposed(input, dim0, dim1)
    return coordinates.transposed(need_coo(input, "transpose"), dim0, dim1)


@implementation("permute")
def _permute(input: SparseTensor, *dims: Any) -> SparseTensor:
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    if isinstance(input, CompressedTensor):
        return input if list(order) in ([0, 1], [-2, -1]) else _transpose(input, 0, 1)
    return coordinates.permuted(need_coo(input, "permute"), order)


@implementation("select")
def _select(input: SparseTensor, dim: int, index: int) -> Tensor:
    return coordinates.selected(coordinates.with_coordinates(input), dim, index)


@implementation("index_select")
def _index_select(input: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    if not isinstance(input, SparseTensor):
        refuse(index, "index_select")
    found = coordinates.index_selected(coordinates.with_coordinates(input), dim, index)
    return arithmetic.in_layout_of(found, input)


@implementation("narrow_copy")
def _narrow_copy(input: SparseTensor, dim: int, start: int, length: int) -> SparseTensor:
    return coordinates.narrowed(need_coo(input, "narrow_copy"), dim, start, length)


@implementation("unsqueeze")
def _unsqueeze(input: SparseTensor, dim: int) -> SparseTensor:
    if isinstance(input, CompressedTensor):
        raise LazytError("Sparse CSR tensors do not have strides")
    return coordinates.unsqueezed(need_coo(input, "unsqueeze"), dim)


@implementation("unbind", "__iter__")
def _unbind(input: SparseTensor, dim: int = 0) -> tuple[Tensor, ...]:
    return tuple(_select(input, dim, index) for index in range(input.shape[dim]))


@implementation("__getitem__", "getitem")
def _getitem(input: SparseTensor, index: Any) -> Tensor:
    found: Tensor = input
    axis = 0
    for part in index if isinstance(index, tuple) else (index,):
        if not isinstance(found, SparseTensor):
            return found[index[axis:]] if isinstance(index, tuple) else found
        if part is None:
            found = _unsqueeze(found, axis)
            axis += 1
        elif isinstance(part, int) and not isinstance(part, bool):
            found = _select(found, axis, part)
        elif isinstance(part, slice) and part == slice(None):
            axis += 1
        elif isinstance(part, slice):
            refuse(input, "as_strided")
        else:
            refuse(input, "index.Tensor")
    return found


@implementation("cat", "concat", "concatenate")
def _cat(tensors: Any, dim: int = 0) -> Tensor:
    if not isinstance(tensors[0], SparseTensor):
        raise LazytError(
            "Concatenating sparse tensors, but a dense tensor was found at position 0."
        )
    return coordinates.concatenated(tensors, dim)


@implementation("stack")
def _stack(tensors: Any, dim: int = 0) -> Tensor:
    return coordinates.stacked(tensors, dim)


@implementation("vstack", "row_stack")
def _vstack(tensors: Any) -> Tensor:
    return coordinates.concatenated(tensors, 0)


@implementation("hstack")
def _hstack(tensors: Any) -> Tensor:
    return coordinates.concatenated(tensors, 1 if tensors[0].ndim > 1 else 0)


@implementation("reshape", "flatten", "ravel")
def _reshape(input: SparseTensor, *shape: Any, **_: Any) -> Tensor:
    if isinstance(input, CompressedTensor):
        raise LazytError("Sparse CSR tensors do not have is_contiguous")
    raise LazytError("reshape is not implemented for sparse tensors")


@implementation("expand", "expand_as", "broadcast_to")
def _expand(input: SparseTensor, *shape: Any, **_: Any) -> Tensor:
    raise LazytError("expand is unsupported for Sparse tensors")


@implementation("sparse_mask")
def _sparse_mask(input: Tensor, mask: Tensor) -> Tensor:
    if not isinstance(mask, SparseTensor):
        raise LazytError("sparse_mask(): the mask has to be a sparse tensor")
    found = coordinates.masked(input, coordinates.with_coordinates(mask))
    if isinstance(mask, CompressedTensor):
        return mask.with_values(found._held)
    return found


# ---------------------------------------------------------------------- copies and casts


@implementation("clone")
def _clone(input: SparseTensor, *, memory_format: Any = None) -> SparseTensor:
    made = input.with_values(input._held.clone())
    if isinstance(made, CooTensor):
        made._places = made._places.clone()
    return made


@implementation("detach", "data")
def _detach(input: SparseTensor) -> SparseTensor:
    return input.with_values(input._held.detach())


@implementation("alias")
def _alias(input: SparseTensor) -> SparseTensor:
    return input.with_values(input._held)


@implementation("to", "_to_copy")
def _to(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    if not isinstance(input, SparseTensor):
        other = args[0]
        return input.to(dtype=other.dtype, device=other.device)
    options = [a for a in args if not isinstance(a, SparseTensor)]
    for other in args:
        if isinstance(other, SparseTensor):
            kwargs = {"dtype": other.dtype, "device": other.device, **kwargs}
    kind = kwargs.pop("layout", None)
    if kind is not None and kind is not input.layout:
        raise LazytError(
            "to(options) doesn't support converting to a different layout, but got self.layout "
            f"being {input._title()} and options.layout set as {kind}"
        )
    held = input._held.to(*options, **kwargs)
    if held is input._held:
        return input
    made = input.with_values(held)
    if held.device != input.device:
        _move(made, held.device)
    return made


def _move(tensor: SparseTensor, device: Any) -> None:
    for name in ("_places", "_starts", "_others"):
        part = tensor.__dict__.get(name)
        if part is not None:
            setattr(tensor, name, part.to(device=device))
    if isinstance(tensor, CompressedTensor):
        tensor._rows = None


@implementation("type_as")
def _type_as(input: Tensor, other: Tensor) -> Any:
    if isinstance(input, SparseTensor) != isinstance(other, SparseTensor):
        titles = [t._title() if isinstance(t, SparseTensor) else "Strided" for t in (input, other)]
        raise LazytError(
            "to(options) doesn't support converting to a different layout, but got self.layout "
            f"being {titles[0]} and options.layout set as {titles[1]}"
        )
    return _to(input, dtype=other.dtype, device=other.device)


def _by_method(name: str) -> Implementation:
    """A cast, or a copy to a device, of the values."""

    def cast(input: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        held = getattr(input._held, name)(*args, **kwargs)
        if held is input._held:
            return input
        made = input.with_values(held)
        if held.device != input.device:
            _move(made, held.device)
        return made

    return cast


for _name in (
    "bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "cpu", "cuda", "double", "float",
    "half", "int", "long", "short",
):  # fmt: skip
    table[_name] = _by_method(_name)


@implementation("type")
def _type(input: SparseTensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    if dtype is not None:
        return input.with_values(input._held.type(dtype))
    kind = input._held.type()
    package, _, name = kind.rpartition(".")
    return f"{package}.sparse.{name}"


table["coalesce"] = lambda self: coordinates.coalesced(need_coo(self, "coalesce"))


@implementation("to_dense")
def _to_dense(self: SparseTensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    return self.to_dense(dtype, masked_grad=masked_grad)


def _empty_like(
    input: SparseTensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    kind = layout or input.layout
    dtype, device = dtype or input.dtype, device or input.device
    if kind is not input.layout:
        from lazyt.functional.creation.creation import zeros

        found: Tensor = zeros(input.shape, dtype=dtype, device=device, layout=kind)
        return found
    if isinstance(input, CooTensor):
        return creation.empty_coo(input._size, dtype, device, requires_grad, input.sparse_dim())
    return creation.empty_in(kind, input._size, dtype=dtype, device=device,
                             requires_grad=requires_grad)  # fmt: skip


table |= {"zeros_like": _empty_like, "empty_like": _empty_like}


@implementation("new_zeros", "new_empty", "new")
def _new_zeros(input: SparseTensor, *size: Any, **options: Any) -> Tensor:
    sizes = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    options = {"dtype": input.dtype, "device": input.device, **options}
    return creation.empty_in(input.layout, sizes, **options)


@implementation("__deepcopy__")
def _deepcopy(self: SparseTensor, memo: dict[int, Any]) -> SparseTensor:
    if id(self) in memo:
        known: SparseTensor = memo[id(self)]
        return known
    alike = self.with_values(copy.deepcopy(self._held, memo))
    for name in ("_places", "_starts", "_others"):
        part = self.__dict__.get(name)
        if part is not None:
            setattr(alike, name, copy.deepcopy(part, memo))
    memo[id(self)] = alike
    return alike


@implementation("__copy__")
def _shallow(self: SparseTensor) -> SparseTensor:
    return self.with_values(copy.copy(self._held))


@implementation("__reduce_ex__")
def _reduce(self: SparseTensor, protocol: Any) -> Any:
    return creation.rebuilt, (*creation.members(self), self.requires_grad)


# ---------------------------------------------------------------------- looks


@implementation("__repr__", "__str__")
def _repr(self: SparseTensor, *, tensor_contents: str | None = None) -> str:
    return text_of(self)


def _number(convert: Callable[[Any], Any]) -> Implementation:
    def look(input: SparseTensor) -> Any:
        count = input.numel()
        if count != 1:
            if convert is bool:
                word = "more than one value" if count else "no values"
                raise LazytError(f"Boolean value of Tensor with {word} is ambiguous")
            raise LazytError(f"a Tensor with {count} elements cannot be converted to Scalar")
        return convert(input.to_dense().item())

    return look


table |= {
    "item": _number(lambda value: value), "__float__": _number(float), "__int__": _number(int),
    "__bool__": _number(bool), "is_nonzero": _number(bool), "__index__": _number(int),
    "__complex__": _number(complex),
}  # fmt: skip


@implementation("numpy", "__array__", "__array_interface__")
def _numpy(input: SparseTensor, *_: Any, **__: Any) -> Any:
    raise _NotAnArray(
        f"can't convert {input._title()} layout tensor to numpy. Use Tensor.to_dense() first."
    )


class _NotAnArray(LazytError, TypeError):
    """A sparse tensor is no array."""


@implementation("data_ptr", "tolist", "const_data_ptr")
def _data_ptr(input: SparseTensor) -> Any:
    raise LazytError("Cannot access data pointer of Tensor that doesn't have storage")


@implementation("contiguous")
def _contiguous(input: SparseTensor, *_: Any, **__: Any) -> Any:
    if isinstance(input, CompressedTensor):
        raise LazytError("Sparse CSR tensors do not have is_contiguous")
    raise LazytError("unsupported memory format option Contiguous")


@implementation("is_contiguous")
def _is_contiguous(input: SparseTensor, *_: Any, **__: Any) -> bool:
    if isinstance(input, CompressedTensor):
        raise LazytError("Tensors of type SparseCsrTensorImpl do not have is_contiguous")
    return False


@implementation("stride")
def _stride(input: SparseTensor, dim: int | None = None) -> Any:
    return input.strides if dim is None else input.strides[dim]


# ---------------------------------------------------------------------- in place


def _writes(name: str) -> Implementation:
    """``add_`` and the like: the tensor becomes what ``add`` gives."""
    plain = table[name]

    def write(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        found = plain(self, *args, **kwargs)
        if not isinstance(self, SparseTensor):
            value = found.to_dense() if isinstance(found, SparseTensor) else found
            self.copy_(value)
            return self
        if not isinstance(found, SparseTensor):
            raise LazytError(f"{name}_: a sparse tensor does not become dense in place")
        if found._size != self._size:
            raise LazytError(f"{name}_: the result is of another size")
        if arithmetic.same_indices(self, found) and found.dtype is self.dtype:
            self._held.copy_(found._held)
            return self
        if self._held.is_leaf and self._held.requires_grad:
            raise LazytError("a leaf Variable that requires grad is being used in an in-place "
                             "operation.")  # fmt: skip
        if not can_cast(found.dtype, self.dtype):
            raise LazytError(
                f"result type {type_title(found.dtype)} can't be cast to the desired output type "
                f"{type_title(self.dtype)}"
            )
        return self.become(found.with_values(found._held.to(self.dtype)))

    return write


for _name in (
    *("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide"),
    *("pow", *_UNARY, *_LINEAR),
):
    if _name in table:
        table[f"{_name}_"] = _writes(_name)
for _name in ("add", "sub", "mul", "truediv", "floordiv", "pow"):
    _plain = {"truediv": "div", "floordiv": "floor_divide"}.get(_name, _name)
    table[f"__i{_name}__"] = table[f"{_plain}_"]


@implementation("zero_")
def _zero(self: SparseTensor) -> SparseTensor:
    if isinstance(self, CooTensor):
        return self.become(_empty_like(self))  # type: ignore[arg-type]
    self._held.zero_()
    return self


@implementation("copy_")
def _copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    if not isinstance(self, SparseTensor) or not isinstance(src, SparseTensor):
        raise LazytError("copy_() between dense and sparse Tensors is not implemented! Found self "
                         f"type = {self.type()} and src type = {src.type()}")  # fmt: skip
    if self.layout is not src.layout:
        raise LazytError("copy_() between tensors of different sparse layouts: convert src first")
    return self.become(_clone(src.with_values(src._held.to(self.dtype))))


@implementation("resize_as_sparse_")
def _resize_as(self: CooTensor, other: CooTensor) -> Any:
    return _sparse_resize(self, other._size, other.sparse_dim(), other.dense_dim())


@implementation("sparse_resize_")
def _sparse_resize(self: CooTensor, size: Any, sparse_dim: int, dense_dim: int) -> SparseTensor:
    size = tuple(int(extent) for extent in size)
    if len(size) != sparse_dim + dense_dim:
        raise LazytError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    if self._nnz() and (
        sparse_dim != self.sparse_dim()
        or size[sparse_dim:] != self._size[sparse_dim:]
        or any(new < old for new, old in zip(size, self._size))
    ):
        raise LazytError(
            "changing the number of dimensions, or shrinking the size of dimensions, on a "
            "non-empty sparse tensor is not supported.  If you need an empty sparse tensor of this "
            "size, call `x = torch.sparse_coo_tensor(size)`."
        )
    if not self._nnz():
        empty = creation.empty_coo(size, self.dtype, self.device, False, sparse_dim)
        return self.become(empty)
    self._size = size
    return self


@implementation("sparse_resize_and_clear_")
def _sparse_clear(self: CooTensor, size: Any, sparse_dim: int, dense_dim: int) -> SparseTensor:
    return self.become(creation.empty_coo(size, self.dtype, self.device, False, sparse_dim))


# ---------------------------------------------------------------------- layouts


def changed(tensor: Tensor, sparse_dim: int | None, kind: Any) -> Tensor:
    """``Tensor.to_sparse``: any tensor in a sparse layout. Raises LazytError."""
    if kind is None or kind is sparse_coo:
        if isinstance(tensor, CooTensor):
            return tensor
        if isinstance(tensor, CompressedTensor):
            return coordinates.to_coordinates(tensor)
        return coordinates.from_dense(tensor, sparse_dim)
    if kind in (sparse_csr, sparse_csc):
        return compressed.changed(tensor, kind)
    return creation.sparse_bsr_tensor()


def install() -> None:
    """Lets functions find out about sparse tensors."""
    switch.sparse, switch.layouts = (SparseTensor,), run
    start()


# ---------------------------------------------------------------------- gradients


def _members(tensors: Any) -> Any:
    """The values of sparse tensors, in their place."""
    if isinstance(tensors, SparseTensor):
        return tensors._held
    if isinstance(tensors, (tuple, list)):
        return [_members(tensor) for tensor in tensors]
    return tensors


def _weights(outputs: Any, weights: Any) -> Any:
    """Gradients of outputs, as those of the values of sparse ones."""
    if isinstance(weights, (tuple, list)):
        listed = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return [_weights(output, weight) for output, weight in zip(listed, weights)]
    if not isinstance(outputs, SparseTensor):
        if not isinstance(weights, SparseTensor):
            return weights
        return wrap(weights.node, weights._held, name="ToDense")  # whose form backward knows
    if weights is None:
        return None
    if isinstance(weights, SparseTensor) and arithmetic.same_indices(outputs, weights):
        return weights._held
    found = _sparse_mask(weights, outputs)
    assert isinstance(found, SparseTensor)
    return found._held


@implementation("backward")
def _backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Any = None, gradient: Any = None,
) -> None:  # fmt: skip
    if grad_tensors is None:
        grad_tensors = gradient
    autograd.backward(
        _members(tensors), _weights(tensors, grad_tensors), retain_graph, create_graph,
        _members(inputs),
    )  # fmt: skip


@implementation("grad")
def _grad(outputs: Any, inputs: Any, grad_outputs: Any = None, **options: Any) -> Any:
    found = autograd.grad(
        _members(outputs), _members(inputs), _weights(outputs, grad_outputs), **options
    )
    wanted = inputs if isinstance(inputs, (tuple, list)) else [inputs]
    return tuple(
        tensor.with_values(part) if isinstance(tensor, SparseTensor) and part is not None else part
        for tensor, part in zip(wanted, found)
    )


@implementation("requires_grad_")
def _requires_grad(self: SparseTensor, requires_grad: bool = True) -> SparseTensor:
    self.requires_grad = requires_grad
    return self


@implementation("retain_grad")
def _retain_grad(self: SparseTensor) -> None:
    self._held.retain_grad()


@implementation("register_hook")
def _register_hook(self: SparseTensor, hook: Callable[[Tensor], Any]) -> Any:
    def of_values(values: Tensor) -> Any:
        found = hook(self.with_values(values))
        return None if found is None else _weights(self, found)

    return self._held.register_hook(of_values)


@implementation("detach_")
def _detach_in_place(self: SparseTensor) -> SparseTensor:
    self._held = self._held.detach()
    return self


@implementation("_is_view", "is_inference")
def _never(input: SparseTensor) -> bool:
    return False
