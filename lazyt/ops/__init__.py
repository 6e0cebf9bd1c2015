"""The vocabulary of graphs: every op in one block with all its rules, and the builders.

Rules of one op name the builders of others through this package, which is complete by the time
any rule runs.
"""

from lazyt.ops import scalars_binary as scalars_binary
from lazyt.ops import scalars_higher as scalars_higher
from lazyt.ops import scalars_unary as scalars_unary
from lazyt.ops.contraction import contract, product
from lazyt.ops.indexing import gather, scatter, update
from lazyt.ops.leaves import DETACH, constant, detach, input_, iota, random, variable
from lazyt.ops.libraries import LIBRARY, library, library_parts
from lazyt.ops.movement import broadcast_to, expand, flip, permute, reshape, slice_
from lazyt.ops.padding import concat, pad
from lazyt.ops.placement import TRANSFER, put, transfer
from lazyt.ops.pointwise import apply, cast, elementwise
from lazyt.ops.reduction import arg_reduce, reduce_, sum_to
from lazyt.ops.registry import OPS
from lazyt.ops.scanning import exclusive_product, linear_recurrence, scan
from lazyt.ops.shorthand import along_axis, batch_all, positions, zeros_like
from lazyt.ops.sliding import contract_spread, slice_contract
from lazyt.ops.sorting import pick_rows, sort
from lazyt.ops.windowing import row_major, window

__all__ = [
    "DETACH", "LIBRARY", "OPS", "TRANSFER", "along_axis", "apply", "arg_reduce", "batch_all",
    "broadcast_to", "cast", "concat", "constant", "contract", "contract_spread", "detach",
    "elementwise", "exclusive_product", "expand", "flip", "gather", "input_", "iota", "library",
    "library_parts", "linear_recurrence", "pad", "permute", "pick_rows", "positions", "product",
    "put", "random", "reduce_", "reshape", "row_major", "scan", "scatter", "slice_",
    "slice_contract", "sort", "sum_to", "transfer", "update", "variable", "window", "zeros_like",
]  # fmt: skip
