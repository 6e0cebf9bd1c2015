"""In which order the elements of a result lie in memory, as PyTorch's users can see in strides.

A result of functions that work element by element keeps the order of its operands: the sum of two
transposed matrices is a transposed matrix. Values of the graph are row-major, so such a result is
a permutation of a row-major storage; nothing is moved until somebody looks at the memory itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import Permute, View, contiguous_strides, is_contiguous
from lazyt.ir.dtypes import bfloat16, float32, package_name
from lazyt.ir.graph import Node, Shape

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "layout",
    "memory_format",
    "preserve_format",
    "strided",
]


# Memory layouts as users name them: ``lazyt.strided`` is the only one that tensors have.


class layout:
    """How a tensor's elements lie in memory. Instances are unique, so ``is`` compares them."""

    __slots__ = ("_name",)
    __module__ = "lazyt"

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{package_name()}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


strided = layout("strided")


class memory_format:
    """An order of elements in memory. Instances are unique, so ``is`` compares them."""

    __slots__ = ("_name",)
    __module__ = "lazyt"

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{package_name()}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

_CHANNELS_LAST = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def dense_strides(shape: Shape, order: Sequence[int]) -> Shape:
    """Strides without gaps when the axes lie in memory in ``order``, slowest first.

    Where nothing is permuted they are those of a new tensor, in which PyTorch counts an extent of
    zero as one; in other orders it multiplies by the zero.
    """
    if all(axis == place for place, axis in enumerate(order)):
        return contiguous_strides(shape)
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def is_dense(shape: Shape, strides: Shape) -> bool:
    """Whether the elements fill a piece of memory without gaps or overlaps, in any order."""
    expected = 1
    for stride, extent in sorted((s, n) for n, s in zip(shape, strides) if n != 1):
        if extent == 0:
            return True
        if stride != expected:
            return False
        expected *= extent
    return True


def common_order(shape: Shape, operands: Sequence[tuple[Shape, Shape]]) -> list[int]:
    """The order of axes, slowest first, that fits operands of given shapes and strides.

    PyTorch's rule for element-wise functions: an axis is faster than another where the first
    operand that tells them apart has the smaller stride; broadcast axes do not tell.
    """
    rank = len(shape)
    steps = []
    for own, strides in operands:
        lead = rank - len(own)
        steps.append(
            [0] * lead
            + [0 if n == 1 != shape[lead + i] else s for i, (n, s) in enumerate(zip(own, strides))]
        )

    def compare(first: int, second: int) -> int:
        for given in steps:
            a, b = given[first], given[second]
            if a == 0 or b == 0:
                continue
            if a != b:
                return -1 if a < b else 1
            if shape[first] > shape[second]:
                return 1
        return 0

    order = list(range(rank))[::-1]
    for place in range(1, rank):
        at = place
        for before in range(place - 1, -1, -1):
            found = compare(order[before], order[at])
            if found > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif found < 0:
                break
    return order[::-1]


def strides_like(shape: Shape, strides: Shape) -> Shape:
    """The strides of a copy that preserves the order: the same where they are dense."""
    if is_dense(shape, strides):
        return strides
    return dense_strides(shape, common_order(shape, [(shape, strides)]))


def lay_out(tensor: Tensor, strides: Shape) -> Tensor:
    """A new ``tensor``, of which nobody knows yet, with dense ``strides``; returns it."""
    shape = tuple(tensor.shape)
    if is_contiguous(shape, strides):
        if strides == contiguous_strides(shape):
            return tensor
        order = list(range(len(shape)))
    else:
        order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], shape[axis] != 1, axis))
    storage = tensor._storage
    node = storage.node
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    view = View(shape, strides, 0, (Permute(back),), "Permute")
    view.root = True
    storage.node = ops.permute(node, order)
    view.show(storage.node, node)
    tensor._view = view
    return tensor


# Functions whose last step is element-wise though PyTorch's have code, and results, of their own.
_ROW_MAJOR = frozenset({
    "Softmax", "LogSoftmax", "MaskedFill", "Tril", "Triu", "NativeLayerNorm",
    "Mean", "Var", "Std", "Norm", "Logsumexp", "Cummax", "Cummin", "Addmm", "Addmv", "Baddbmm",
    "Cdist", "LinalgLu", "LuUnpack", "Renorm", "RmsNorm", "Mvlgamma", "Logcumsumexp", "View",
    "AvgPool3D", "MaxPool1D", "Normal", "Ones", "Bernoulli",
})  # fmt: skip
# Functions with other code that keep the order of their first operand.
_PRESERVING = frozenset({
    "Flip", "Put", "Clone", "ToCopy", "IndexPut", "IndexFill", "SelectScatter", "SliceScatter",
    "DiagonalScatter", "AsStridedScatter", "Fill", "Sort", "PreluKernel", "Addr",
})  # fmt: skip
# Functions whose results have their channels last where the first operand has them last.
_CHANNELED = frozenset({
    "AvgPool2D", "MaxPool2DWithIndices", "MaxPool3DWithIndices", "AdaptiveAvgPool2D",
    "AdaptiveMaxPool2D", "MaxUnpool2D", "ConstantPadNd", "ReflectPad2D", "ReflectPad3D",
    "ReplicatePad2D", "ReplicatePad3D", "PixelShuffle", "PixelUnshuffle", "ChannelShuffle",
    "NativeBatchNorm", "NativeGroupNorm", "Roll", "UpsampleNearest2D", "UpsampleNearest3D",
    "UpsampleBilinear2D", "UpsampleBicubic2D", "UpsampleLanczos2D", "UpsampleTrilinear3D",
})  # fmt: skip
# Functions of lines that PyTorch computes as images of one row.
_OF_ROWS = frozenset(
    {"AvgPool1D", "MaxPool1DWithIndices", "AdaptiveAvgPool1D", "AdaptiveMaxPool1D"}
)

# Of whole numbers these are copies.
_ROUNDING = frozenset({"Ceil", "Floor", "Round", "Trunc"})


def suggests_channels_last(shape: Shape, strides: Shape) -> bool:
    """Whether PyTorch takes a tensor of four or five dimensions to have its channels last."""
    if len(shape) not in (4, 5):
        return False
    least = 0
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[axis] == 0 or strides[axis] < least or (axis == 1 and strides[1] == 0):
            return False
        if axis == 0 and least == strides[1]:  # both orders fit
            return False
        least = strides[axis] * max(shape[axis], 1)
    return True


def _as_batch(shape: Shape, strides: Shape, rank: int) -> tuple[Shape, Shape]:
    """Shape and strides of [N, C, *spatial], of one sample or of rows that have no height."""
    if len(shape) == rank + 1:
        shape, strides = (1, *shape), (shape[0] * strides[0], *strides)
    if rank == 1:
        shape = (*shape[:2], 1, shape[2])
        strides = (*strides[:2], strides[2] * shape[3], strides[2])
    return shape, strides


# Functions of several tensors: any of a convolution's first two has its channels last, or all.
_CHANNELS_OF_SEVERAL = {"Convolution": any, "Cat": all, "AdaptiveAvgPool3D": all}


def _channel_strides(title: str, shape: Shape, parents: Sequence[Any]) -> Shape:
    """The strides of the result of a function that looks for channels that lie last."""
    given = [(tuple(p.shape), p.strides) for p in parents if isinstance(p, Tensor)]
    first = given[0][0]
    rank, chooses = len(first) - 2, _CHANNELS_OF_SEVERAL.get(title, all)
    if title == "Convolution":
        rank = len(given[1][0]) - 2
        # Lines are made row-major first; three dimensions have kernels of both orders in two types.
        given = [_as_batch(own, steps, rank) for own, steps in given[rank == 1 : 2]]
        if rank == 3 and parents[0].dtype not in (float32, bfloat16):
            return contiguous_strides(shape)
    elif title in _OF_ROWS and len(first) == 3:
        rank = 1
        given = [_as_batch(*given[0], rank)]
    elif title == "MaxPool3DWithIndices" and len(first) == 4:
        own, steps = given[0]
        found = follows((1, *own), (1, *steps), channels_last_3d)
        return dense_strides(shape, (1, 2, 3, 0)) if found else contiguous_strides(shape)
    elif title == "AdaptiveAvgPool3D" and set(shape[2:]) != {1}:
        return contiguous_strides(shape)
    elif title != "Cat":
        given = given[:1]
    if not chooses(suggests_channels_last(own, steps) for own, steps in given):
        return contiguous_strides(shape)
    wide, _ = _as_batch(shape, contiguous_strides(shape), rank)
    sizes = tuple(max(n, 1) for n in wide)
    strides = dense_strides(sizes, (0, *range(2, len(wide)), 1))
    if rank == 1:
        strides = (*strides[:2], strides[3])
    return strides[len(strides) - len(shape) :]


def arrange_like(result: Tensor, name: str, parents: Sequence[Any]) -> Tensor:
    """``result`` of the function called ``name``, laid out as that function's operands ask for."""
    node = result._storage.node
    if not node.shape or (len(node.shape) == 1 and node.shape[0] > 1):  # there is one order
        return result
    if node.op.name == "detach":  # under no_grad
        node = node.inputs[0]
    title = name.partition("Backward")[0]
    if title in _PRESERVING or (title in _ROUNDING and result.dtype.kind != "f"):
        first = parents[0]
        if first.shape != result.shape:
            return result
        return lay_out(result, strides_like(tuple(first.shape), first.strides))
    if title in _CHANNELED or title in _OF_ROWS or title in _CHANNELS_OF_SEVERAL:
        return lay_out(result, _channel_strides(title, tuple(result.shape), parents))
    power_of_number = title == "Pow" and not isinstance(parents[0], Tensor)
    if node.op.name != "map" or title in _ROW_MAJOR or power_of_number:
        return result
    shape = node.shape
    views = [(p, p._view) for p in parents if isinstance(p, Tensor)]
    key = (shape, *[
        (p._storage.node.shape, None) if view is None else (view.shape, view.strides)
        for p, view in views
    ])  # fmt: skip
    if key not in _elementwise:
        if len(_elementwise) >= _MOST_KEPT:
            _elementwise.clear()
        _elementwise[key] = _elementwise_strides(
            shape, [(tuple(p.shape), p.strides) for p, _ in views]
        )
    strides = _elementwise[key]
    return result if strides is None else lay_out(result, strides)


#: What ``_elementwise_strides`` gave, by shape, and by shapes and strides of the operands.
_elementwise: dict[tuple[Any, ...], Shape | None] = {}
_MOST_KEPT = 4096


def _elementwise_strides(shape: Shape, given: Sequence[tuple[Shape, Shape]]) -> Shape | None:
    """The strides of what an element-wise function makes of operands of these shapes and strides;
    None where it is row-major."""
    if all(is_contiguous(own, strides) for own, strides in given) or not _spans(shape, given):
        return None
    first, strides = given[0]
    if all(pair == given[0] for pair in given) and first == shape and is_dense(first, strides):
        return strides
    return dense_strides(shape, common_order(shape, given))


def _spans(shape: Shape, operands: Sequence[tuple[Shape, Shape]]) -> bool:
    """Whether the operands' shapes broadcast to just ``shape``."""
    rank = len(shape)
    extents = [1] * rank
    for own, _ in operands:
        if len(own) > rank:
            return False
        for axis, extent in enumerate(own, rank - len(own)):
            if extent != 1:
                if extents[axis] not in (1, extent):
                    return False
                extents[axis] = extent
    return tuple(extents) == shape


def strides_in(shape: Shape, strides: Shape, wanted: Any, function: str) -> Shape:
    """The strides of a copy in the format ``wanted``; None preserves.

    Raises LazytError where a channels-last format does not fit the rank, and DTypeError for what
    is no format.
    """
    if wanted is None or wanted is preserve_format:
        return strides_like(shape, strides)
    if wanted is contiguous_format:
        return contiguous_strides(shape)
    order = channel_order(shape, wanted, function)
    return dense_strides(tuple(max(n, 1) for n in shape), order)


def channel_order(shape: Shape, wanted: Any, function: str) -> Shape:
    """The order of axes of a channels-last format. Raises as ``strides_in`` does."""
    order = _CHANNELS_LAST.get(wanted) if isinstance(wanted, memory_format) else None
    if order is None:
        raise DTypeError(
            f"{function}(): argument 'memory_format' must be {package_name()}.memory_format, "
            f"not {type(wanted).__name__}"
        )
    if len(order) != len(shape):
        raise LazytError(f"required rank {len(order)} tensor to use {wanted._name} format")
    return order


def follows(shape: Shape, strides: Shape, wanted: Any) -> bool:
    """Whether strides are those of a format; False for a rank that the format does not have."""
    if wanted in (None, contiguous_format, preserve_format):
        return is_contiguous(shape, strides)
    order = _CHANNELS_LAST.get(wanted) if isinstance(wanted, memory_format) else None
    if order is None:
        channel_order(shape, wanted, "is_contiguous")
        return False
    if len(order) != len(shape):
        return False
    expected = 1
    for axis in reversed(order):
        if shape[axis] != 1:
            if strides[axis] != expected:
                return False
            expected *= shape[axis]
    return True


def copied(input: Tensor, node: Node, name: str, wanted: Any) -> Tensor:
    """A copy of ``input`` with the value ``node``, in the format ``wanted`` (None preserves)."""
    from lazyt.handle.dispatch import wrap

    result = wrap(node, input, name=name)
    shape = tuple(input.shape)
    if wanted is None and input._view is None:
        return result
    return lay_out(result, strides_in(shape, input.strides, wanted, name.lower()))
