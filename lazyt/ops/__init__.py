"""The vocabulary of graphs: every op in one block with all its rules, and the builders.

Rules of one op name the builders of others through this package, which is complete by the time
any rule runs.
"""

from lazyt.ops import scalars as scalars
from lazyt.ops import special_scalars as special_scalars
from lazyt.ops.contraction import contract, product
from lazyt.ops.indexing import gather, scatter, update
from lazyt.ops.leaves import (
    DETACH,
    TRANSFER,
    constant,
    detach,
    input_,
    iota,
    put,
    random,
    transfer,
    variable,
)
from lazyt.ops.libraries import LIBRARY, library, library_parts
from lazyt.ops.movement import broadcast_to, concat, expand, flip, pad, permute, reshape, slice_
from lazyt.ops.pointwise import apply, cast, elementwise
from lazyt.ops.reduction import arg_reduce, reduce_, sum_to
from lazyt.ops.registry import OPS, along_axis, batch_all, positions, zeros_like
from lazyt.ops.scanning import exclusive_product, linear_recurrence, scan
from lazyt.ops.sorting import pick_rows, sort
from lazyt.ops.windowing import contract_spread, row_major, slice_contract, window

__all__ = [
    "DETACH", "LIBRARY", "OPS", "TRANSFER", "along_axis", "apply", "arg_reduce", "batch_all",
    "broadcast_to", "cast", "concat", "constant", "contract", "contract_spread", "detach",
    "elementwise", "exclusive_product", "expand", "flip", "gather", "input_", "iota", "library",
    "library_parts", "linear_recurrence", "pad", "permute", "pick_rows", "positions", "product",
    "put", "random", "reduce_", "reshape", "row_major", "scan", "scatter", "slice_",
    "slice_contract", "sort", "sum_to", "transfer", "update", "variable", "window", "zeros_like",
]  # fmt: skip
