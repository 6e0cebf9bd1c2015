"""Rows of a table by number, alone or added up in bags."""

from __future__ import annotations

import itertools
import math

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, ShapeError
from lazyt.functional.indexing.picking import value_range, within
from lazyt.functional.linalg.norms import norm_node
from lazyt.functional.nn.pooling import largest
from lazyt.functional.operands import choose, constant_of, require_tensor
from lazyt.functional.results import give, known_values, overwrite
from lazyt.handle.dispatch import type_title, wrap
from lazyt.handle.function_table import function
from lazyt.handle.grad_mode import mode as grad_mode
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, int32, int64, package_name
from lazyt.ir.graph import Node


class EmbeddingError(LazytError, ValueError):
    """Arguments of ``embedding_bag`` that do not fit together."""


class PaddingIndexError(LazytError, AssertionError):
    """A ``padding_idx`` beyond the table."""


class WeightedModeError(LazytError, NotImplementedError):
    """Weights per number for another mode than ``sum``."""


def _row_indices(input: Tensor, rows: int, message: str) -> Node:
    """The numbers as int64; raises for other types and for numbers that are no row."""
    if input.dtype not in (int64, int32):
        raise DTypeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {input.type()} instead (while checking arguments for embedding)"
        )
    if input.numel():
        low, high = value_range(input.node, within(0, rows - 1))
        for bad in (low, high):
            if not 0 <= bad < rows:
                raise BoundsError(message.format(bad))
    return ops.cast(input.node, int64)


def _padding_row(padding_idx: int | None, rows: int) -> int | None:
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise PaddingIndexError("Padding_idx must be within num_embeddings")
    return padding_idx % rows


def _by_frequency(found: Node, places: Node, rows: int) -> Node:
    """``found`` with a gradient divided by how often each row occurs; its value is the same."""
    if not found.needs_grad:
        return found
    dtype = found.dtype
    flat = ops.reshape(places, (places.size,))
    one = ops.broadcast_to(constant_of(1, dtype), flat.shape)
    zeros = ops.broadcast_to(constant_of(0, dtype), (rows,))
    counts = ops.gather(ops.scatter(zeros, flat, one, 0, "add"), places, 0)
    plain = ops.detach(found)
    # What is added is zero; only its gradient counts.
    share = ops.apply(
        "div", ops.apply("sub", found, plain), ops.reshape(counts, (*places.shape, 1))
    )
    return ops.apply("add", plain, share)


def _renormalize(weight: Tensor, places: Node, max_norm: float, norm_type: float) -> None:
    """Rows that ``places`` name and that are longer than ``max_norm`` shortened in place."""
    with no_grad():
        node = weight.node
        rows = node.shape[0]
        flat = ops.reshape(places, (places.size,))
        truth = ops.broadcast_to(ops.constant(True, bool_), flat.shape)
        none = ops.broadcast_to(ops.constant(False, bool_), (rows,))
        used = ops.scatter(none, flat, truth, 0, "set") if flat.size else none
        wide = ops.cast(node, node.dtype.compute)
        size = norm_node(wide, float(norm_type), (1,))
        limit = constant_of(float(max_norm), wide.dtype)
        long = ops.apply("logical_and", used, ops.apply("gt", size, limit))
        scale = ops.apply("div", limit, ops.apply("add", size, constant_of(1e-7, wide.dtype)))
        scaled = ops.cast(ops.apply("mul", wide, ops.reshape(scale, (rows, 1))), node.dtype)
        overwrite(weight, choose(ops.reshape(long, (rows, 1)), scaled, node, node.dtype), "", ())


def renormalize_rows(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Rows that ``indices`` name and that are longer than ``max_norm`` shortened in place.

    Raises BoundsError for a number out of range.
    """
    places = _row_indices(indices, weight.shape[0], "index out of range in self")
    _renormalize(weight, places, max_norm, norm_type)
    return weight


@function(saves="k")
def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Rows of ``weight`` [rows, width] by number: [*] to [*, width].

    Args:
        padding_idx: a row that gets no gradient.
        max_norm: rows that are used and have a longer ``norm_type``-norm are shortened, in place.
        scale_grad_by_freq: divide a row's gradient by how often it occurs.
        sparse: the gradient of ``weight``, if that is a leaf, is a sparse tensor of the rows that
            were used. It does not go together with ``scale_grad_by_freq``.

    Raises BoundsError (an IndexError) for a number out of range, and DTypeError.
    """
    require_tensor(input, "embedding")
    if weight.ndim != 2:
        raise ShapeError("'weight' must be 2-D")
    rows = weight.shape[0]
    padding = _padding_row(padding_idx, rows)
    places = _row_indices(input, rows, "index out of range in self")
    if max_norm is not None:
        _renormalize(weight, places, max_norm, norm_type)
    if sparse and weight.requires_grad and grad_mode.enabled:
        return _followed_rows(weight, places, padding, scale_grad_by_freq)
    node = ops.gather(weight.node, places, 0)
    if scale_grad_by_freq:
        node = _by_frequency(node, places, rows)
    if padding is not None and node.needs_grad:
        hit = ops.apply("eq", places, ops.constant(padding, int64))
        hit = ops.reshape(hit, (*places.shape, 1))
        node = choose(hit, ops.detach(node), node, node.dtype)
    return give(node, "Embedding", (weight,))


def _followed_rows(weight: Tensor, places: Node, padding: int | None, by_frequency: bool) -> Tensor:
    """Rows whose gradient is a sparse tensor."""
    from lazyt.functional.sparse.embeddings import Embedding

    found: Tensor = Embedding.apply(weight, wrap(places), padding, by_frequency)
    return found


# ------------------------------------------------------------------ bags


def _check_bag(input: Tensor, weight: Tensor, offsets: Tensor | None, given: Tensor | None) -> None:
    if given is not None and given.shape != input.shape:
        raise EmbeddingError(
            f"embedding_bag: If per_sample_weights ({given.shape}) is not None, then it must have "
            f"the same shape as the input ({input.shape})"
        )
    if weight.ndim != 2:
        raise EmbeddingError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}"
        )
    if input.ndim == 2:
        if offsets is not None:
            raise EmbeddingError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                f"of fixed length sequences. However, found offsets of type {type(offsets)}"
            )
    elif input.ndim == 1:
        if offsets is None:
            raise EmbeddingError("offsets has to be a 1D Tensor but got None")
        if offsets.ndim != 1:
            raise EmbeddingError("offsets has to be a 1D Tensor")
    else:
        raise EmbeddingError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )


def _check_table(weight: Tensor) -> None:
    if weight.dtype.kind != "f":
        title = type_title(weight.dtype)
        found = "CPUBoolType" if title == "Bool" else f"{package_name()}.{title}Tensor"
        raise DTypeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: "
            f"Half, BFloat16, Float, Double; but got {found} instead (while checking arguments for "
            "embedding_bag)"
        )


def _starts(offsets: Tensor, count: int, include_last: bool) -> list[int]:
    """Where the bags start and, last, where they end; looks at the offsets."""
    if offsets.dtype not in (int64, int32):
        raise DTypeError(
            "expected offsets to have one of the following scalar types: Long, Int; but got "
            f"{type_title(offsets.dtype)}"
        )
    values = [int(v) for v in known_values(offsets.node)]
    if values and values[0] != 0:
        raise LazytError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {values[0]}"
        )
    if values and values[-1] > count:
        raise LazytError(
            f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of "
            f"{values[-1]}"
        )
    if include_last and not values:
        raise LazytError("include_last_offset: number of offset should be at least 1")
    return values if include_last else [*values, count]


def _check_mode(mode: str, by_frequency: bool, sparse: bool, weighted: bool) -> None:
    if mode not in ("sum", "mean", "max"):
        raise EmbeddingError("mode has to be one of sum, mean or max")
    if mode == "max" and by_frequency:
        raise EmbeddingError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise EmbeddingError("max mode does not support sparse weights")
    if weighted and mode != "sum":
        raise WeightedModeError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )


@function()
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Rows of ``weight`` [rows, width] by number, added up in bags: [bags, width].

    ``input`` is [bags, size], or a vector of all bags' numbers with ``offsets``, where each bag
    starts (and, with ``include_last_offset``, the last ends). An empty bag gives zeros.

    Args:
        mode: sum, mean or max.
        per_sample_weights: a factor for every number, of the input's shape; ``sum`` only.
        padding_idx: a row that does not count and gets no gradient.
        max_norm, norm_type, scale_grad_by_freq, sparse: as for ``embedding``.

    Offsets are looked at. Raises EmbeddingError (a ValueError) for arguments that do not fit,
    WeightedModeError, BoundsError, DTypeError and LazytError.
    """
    _check_bag(input, weight, offsets, per_sample_weights)
    _check_mode(mode, scale_grad_by_freq, sparse, False)
    rows = weight.shape[0]
    text = "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {}"
    places = _row_indices(input, rows, text)
    if max_norm is not None:
        _renormalize(weight, places, max_norm, norm_type)
    _check_mode(mode, scale_grad_by_freq, sparse, per_sample_weights is not None)
    _check_table(weight)
    padding = _padding_row(padding_idx, rows)
    scale = None if per_sample_weights is None else per_sample_weights.node
    if sparse and weight.requires_grad and grad_mode.enabled:
        whole = _followed_rows(weight, places, padding, scale_grad_by_freq)
        table, parents = whole.node, (whole, per_sample_weights)
    else:
        table, parents = ops.gather(weight.node, places, 0), (weight, per_sample_weights)
    by_frequency = scale_grad_by_freq and not sparse
    if offsets is None:
        present = _present(places, padding)
        found = _scaled(table, places, rows, scale, by_frequency)
        return give(_folded(found, present, mode), "EmbeddingBag", parents)
    starts = _starts(offsets, places.size, include_last_offset)
    if mode == "max":
        places, inside = _ragged(places, starts)
        present = _and(inside, _present(places, padding))
        found = ops.gather(weight.node, places, 0)
        return give(_folded(found, present, mode), "EmbeddingBag", parents)
    found = _scaled(table, places, rows, scale, by_frequency)
    node = _scattered(found, _present(places, padding), offsets, len(starts) - 1, mode)
    return give(node, "EmbeddingBag", parents)


def _scaled(found: Node, places: Node, rows: int, scale: Node | None, by_frequency: bool) -> Node:
    """Rows of a table in the type they are added up in, scaled."""
    if by_frequency:
        found = _by_frequency(found, places, rows)
    if scale is None:
        return found
    return ops.apply("mul", found, ops.cast(ops.reshape(scale, (*places.shape, 1)), found.dtype))


def _present(places: Node, padding: int | None) -> Node | None:
    """Which numbers count; None for all."""
    return None if padding is None else ops.apply("ne", places, ops.constant(padding, int64))


def _and(first: Node, second: Node | None) -> Node:
    return first if second is None else ops.apply("logical_and", first, second)


def _folded(found: Node, present: Node | None, mode: str) -> Node:
    """[bags, size, width] to [bags, width]."""
    dtype = found.dtype
    bags, size, width = found.shape
    if not size or not bags:
        return ops.broadcast_to(constant_of(0, dtype), (bags, width))
    mask = None if present is None else ops.reshape(present, (bags, size, 1))
    if mode == "max":
        if mask is not None:
            found = choose(mask, found, constant_of(-math.inf, dtype), dtype)
        best, _ = largest(ops.permute(found, (0, 2, 1)))
        if present is None:
            return best
        some = ops.reshape(ops.reduce_("any", present, (1,)), (bags, 1))
        return choose(some, best, constant_of(0, dtype), dtype)
    wide = dtype.compute
    found = ops.cast(found, wide)
    if mask is not None:
        found = choose(mask, found, constant_of(0, wide), wide)
    total = ops.reduce_("sum", found, (1,))
    if mode == "mean":
        count = constant_of(float(size), wide)
        if present is not None:
            count = ops.reshape(ops.reduce_("sum", ops.cast(present, wide), (1,)), (bags, 1))
            count = ops.apply("maximum", count, constant_of(1, wide))
        total = ops.apply("div", total, count)
    return ops.cast(total, dtype)


def _ragged(places: Node, starts: list[int]) -> tuple[Node, Node]:
    """The numbers of all bags side by side [bags, longest], and which of them there are."""
    from lazyt.functional.creation.creation import tensor

    lengths = [b - a for a, b in itertools.pairwise(starts)]
    longest = max([*lengths, 1]) if places.size else 0
    columns = ops.iota(longest)
    first = tensor(starts[:-1], dtype=int64).node
    sizes = tensor(lengths, dtype=int64).node
    column = (len(lengths), 1)
    at = ops.apply("add", ops.reshape(first, column), columns)
    inside = ops.apply("lt", columns, ops.reshape(sizes, column))
    if not places.size:
        return ops.broadcast_to(ops.constant(0, int64), inside.shape), inside
    return ops.gather(places, at, 0), inside


def _scattered(found: Node, present: Node | None, offsets: Tensor, bags: int, mode: str) -> Node:
    """[count, width] added up by bag: the bag of a number is how many bags started before it."""
    count, width = found.shape
    dtype = found.dtype
    wide = dtype.compute
    zeros = ops.broadcast_to(constant_of(0, wide), (bags, width))
    if not count or not bags:
        return ops.cast(zeros, dtype)
    starts = ops.slice_(ops.cast(offsets.node, int64), (0,), (bags,), (1,))
    one = ops.broadcast_to(ops.constant(1, int64), (bags,))
    none = ops.broadcast_to(ops.constant(0, int64), (count + 1,))
    marks = ops.slice_(ops.scatter(none, starts, one, 0, "add"), (0,), (count,), (1,))
    bag = ops.apply("sub", ops.scan("sum", marks, 0), ops.constant(1, int64))
    found = ops.cast(found, wide)
    if present is not None:
        found = choose(ops.reshape(present, (count, 1)), found, constant_of(0, wide), wide)
    total = ops.scatter(zeros, bag, found, 0, "add")
    if mode == "mean":
        ones = ops.broadcast_to(constant_of(1, wide), (count,))
        if present is not None:
            ones = ops.cast(present, wide)
        sizes = ops.broadcast_to(constant_of(0, wide), (bags,))
        sizes = ops.apply("maximum", ops.scatter(sizes, bag, ones, 0, "add"), constant_of(1, wide))
        total = ops.apply("div", total, ops.reshape(sizes, (bags, 1)))
    return ops.cast(total, dtype)


# ------------------------------------------------------------------ classes


@function()
def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Class numbers as rows with a single 1. Raises LazytError for numbers out of range."""
    require_tensor(input, "one_hot")
    if input.dtype is not int64:
        raise DTypeError("one_hot is only applicable to index tensor of type LongTensor.")
    node = input.node
    if not node.size and num_classes <= 0:
        raise LazytError("Can not infer total number of classes from empty tensor.")
    safe = [within(0, num_classes - 1)] if num_classes > 0 else []
    low, high = value_range(node, *safe) if node.size else (0, num_classes - 1)
    if low < 0:
        raise LazytError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = high + 1
    if num_classes < 1:
        raise LazytError("num_classes should be positive")
    if high >= num_classes:
        raise LazytError("Class values must be smaller than num_classes.")
    spread = ops.reshape(node, (*node.shape, 1))
    return give(ops.cast(ops.apply("eq", spread, ops.iota(num_classes)), int64), "one_hot", ())
