"""The vocabulary of graphs: every op in one block with all its rules, and the builders.

Importing the package defines all ops. Inside of it modules import what lies below them: registry,
builders, compositions of builders, and the blocks, which import none of each other's rules.
"""

from lazyt.ops import custom as custom
from lazyt.ops import indexing as indexing
from lazyt.ops import libraries as libraries
from lazyt.ops import movement as movement
from lazyt.ops import pointwise as pointwise
from lazyt.ops import reduction as reduction
from lazyt.ops import scalars as scalars
from lazyt.ops import special_scalars as special_scalars
from lazyt.ops.builders import (
    apply,
    arg_reduce,
    broadcast_to,
    cast,
    concat,
    conj,
    constant,
    contract,
    elementwise,
    expand,
    flip,
    gather,
    iota,
    match_call,
    pad,
    permute,
    reduce_,
    reshape,
    row_major,
    scan,
    scatter,
    slice_,
    sort,
    sum_to,
    update,
    window,
)  # fmt: skip
from lazyt.ops.compositions import (
    along_axis,
    batch_all,
    contract_spread,
    exclusive_product,
    linear_recurrence,
    pick_rows,
    positions,
    product,
    shift,
    slice_contract,
    zeros_like,
)  # fmt: skip
from lazyt.ops.leaves import DETACH, TRANSFER, detach, input_, put, random, transfer, variable
from lazyt.ops.libraries import LIBRARY, LINALG
from lazyt.ops.registry import OPS
from lazyt.ops.routines import has_kernel, library, library_parts, refuse_library

__all__ = [
    "DETACH", "LIBRARY", "LINALG", "OPS", "TRANSFER", "along_axis", "apply", "arg_reduce",
    "batch_all", "broadcast_to", "cast", "concat", "conj", "constant", "contract",
    "contract_spread", "detach", "elementwise", "exclusive_product", "expand", "flip", "gather",
    "has_kernel", "input_", "iota", "library", "library_parts", "linear_recurrence", "match_call",
    "pad", "permute", "pick_rows", "positions", "product", "put", "random", "reduce_",
    "refuse_library", "reshape", "row_major", "scan", "scatter", "shift", "slice_",
    "slice_contract", "sort", "sum_to", "transfer", "update", "variable", "window", "zeros_like",
]  # fmt: skip
