"""What functions of matrices share: checks of dimensions, dtypes and success, and the layout.

PyTorch raises for singular matrices and for iterations that do not converge at the call. So these
functions look at the outcome of their library call, which computes what the call depends on. The
forms that hand out ``info`` instead (``inv_ex``, ``cholesky_ex``, ...) stay lazy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.errors import DTypeError, LinAlgError, ShapeError
from lazyt.functional.operands import broadcast_pair, expand_to
from lazyt.functional.results import give
from lazyt.functional.type_promotion import refuse, torch_name
from lazyt.handle import pending
from lazyt.handle.dispatch import lay_out, wrap
from lazyt.handle.layout import dense_strides
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int32
from lazyt.ir.graph import Node, Shape, topological


def check_matrix(input: Tensor, function: str, argument: str = "A") -> None:
    """Raise ShapeError for fewer than two dimensions."""
    if len(input.shape) < 2:
        name = f"tensor {argument}".rstrip()
        raise ShapeError(f"{function}: The input {name} must have at least 2 dimensions.")


def check_square(input: Tensor, function: str, argument: str = "A") -> None:
    """Raise ShapeError for what is no batch of square matrices."""
    check_matrix(input, function, argument)
    require_square(input, f"{function}: {argument}")


def require_square(input: Tensor, title: str) -> None:
    """Raise ShapeError, which begins with ``title``, for matrices that are not square."""
    rows, columns = input.shape[-2:]
    if rows != columns:
        raise ShapeError(
            f"{title} must be batches of square matrices, but they are {rows} by {columns} matrices"
        )


def check_floating(input: Tensor, function: str, low: bool = True) -> None:
    """Raise DTypeError for integers and, unless ``low`` precision is taken, for 16-bit floats."""
    if input.dtype.kind != "f":
        raise DTypeError(
            f"{function}: Expected a floating point or complex tensor as input. "
            f"Got {torch_name(input.dtype)}"
        )
    if input.dtype.is_half and not low:
        raise DTypeError(
            f"{function}: Low precision dtypes not supported. Got {torch_name(input.dtype)}"
        )


def check_kernel(input: Tensor, kernel: str) -> None:
    """Raise UnsupportedTypeError (a NotImplementedError) for all but float32 and float64."""
    if input.dtype.kind != "f" or input.dtype.is_half:
        refuse(kernel, input.dtype)


def check_same_dtype(
    a: Tensor, b: Tensor, function: str, names: tuple[str, str] = ("A", "B")
) -> None:
    """Raise DTypeError for two dtypes."""
    if a.dtype is not b.dtype:
        x, y = names
        raise DTypeError(
            f"{function}: Expected {x} and {y} to have the same dtype, but found {x} of type "
            f"{torch_name(a.dtype)} and {y} of type {torch_name(b.dtype)} instead"
        )


def check_equation(a: Tensor, b: Tensor, function: str, left: bool = True) -> None:
    """Raise ShapeError unless ``a`` is square and ``a @ x = b`` (or ``x @ a = b``) has sense."""
    check_square(a, function)
    check_matrix(b, function, "B")
    if a.shape[-2 if left else -1] != b.shape[-2 if left else -1]:
        m, n = a.shape[-2:]
        raise ShapeError(
            f"{function}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({m}x{n} and {b.shape[-2]}x{b.shape[-1]})"
        )


def share_batch(*matrices: Node) -> list[Node]:
    """Matrices with their leading axes broadcast against each other."""
    lead: Shape = ()
    for item in matrices:
        lead = broadcast_pair(lead, item.shape[:-2])
    return [expand_to(item, (*lead, *item.shape[-2:])) for item in matrices]


def as_info(info: Node) -> Node:
    """A routine's ``info`` in the dtype that users see, int32."""
    return ops.cast(info, int32)


def require_success(info: Node, function: str, reason: Callable[[int], str]) -> None:
    """Raise LinAlgError, in the words of ``reason``, for the first matrix whose info is not 0.

    ``info`` is the last part of a library call, which is computed now. Where it depends on values
    that do not exist yet, as while a function is batched, nothing can be checked.
    """
    packed = info
    while packed.op is not ops.LIBRARY:
        packed = packed.inputs[0]
    if packed.size == 0 or not _is_computable(packed):
        return
    pending.realize_now([packed], f"{function} checks its result")
    found: Any = packed.data.as_numpy(packed.dtype, packed.shape)[..., -1]
    failed = np.flatnonzero(found)
    if len(failed):
        code = int(found.reshape(-1)[failed[0]])
        batch = f"(Batch element {failed[0]}): " if found.ndim else ""
        raise LinAlgError(f"{function}: {batch}{reason(code)}")


def _is_computable(node: Node) -> bool:
    if node.data is not None:
        return True
    order = topological([node], lambda item: item.data is not None)
    return all(item.data is not None or item.op.name != "input" for item in order)


def give_columns(
    node: Node, name: str, parents: Sequence[Any], out: Tensor | None = None
) -> Tensor:
    """``give`` for matrices that PyTorch's LAPACK leaves column by column in memory."""
    if out is not None:
        return give(node, name, parents, out)
    result = wrap(node, *parents, name=name)
    shape = tuple(max(extent, 1) for extent in result.shape)
    rank = len(shape)
    return lay_out(result, dense_strides(shape, (*range(rank - 2), rank - 1, rank - 2)))
