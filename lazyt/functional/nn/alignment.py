"""The loss of all alignments of a sequence with a shorter one (Graves et al. 2006)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, ShapeError
from lazyt.functional.creation.creation import tensor
from lazyt.functional.indexing.picking import value_range, within
from lazyt.functional.nn.loss_reduction import chosen_reduction
from lazyt.functional.operands import choose, constant_of, mixed
from lazyt.functional.results import give, known_values
from lazyt.functional.type_promotion import refuse
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.dispatch import type_title
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int32, int64
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const


def _lengths(value: Any, batch: int, name: str) -> list[int]:
    """One length per sample, as numbers; looks at a tensor's values."""
    if isinstance(value, Tensor):
        if value.dtype.kind not in "iu":
            raise DTypeError(f"{name} must be integral")
        found = [int(v) for v in known_values(value.node).reshape(-1)]
    else:
        found = [int(v) for v in value]
    if len(found) != batch:
        raise ShapeError(f"{name} must be of size batch_size")
    return found


def _check(inputs: list[int], targets: list[int], steps: int, widest: int) -> None:
    for place, length in enumerate(inputs):
        if not 0 <= length <= steps:
            raise LazytError(
                f"Expected input_lengths to have value at most {steps}, but got value {length} "
                f"(while checking arguments for ctc_loss_allocate_outputs)"
                if length > steps
                else f"Expected input_lengths to be non-negative, but got {length} at {place}"
            )
    for length in targets:
        if length < 0:
            raise LazytError(f"Expected target_lengths to be non-negative, but got {length}")
        if length > widest:
            raise LazytError(
                f"Expected tensor to have size at least {length} at dimension 1, but got size "
                f"{widest} for argument #2 'targets' (while checking arguments for ctc_loss_cpu)"
            )


def _side_by_side(targets: Tensor, lengths: list[int]) -> Node:
    """Targets [N, longest] of a vector in which they follow each other."""
    starts, place = [], 0
    for length in lengths:
        starts.append(place)
        place += length
    longest = max([*lengths, 1])
    first = ops.reshape(tensor(starts, dtype=int64).node, (len(lengths), 1))
    if not targets.numel():
        return ops.broadcast_to(ops.constant(0, int64), (len(lengths), longest))
    at = ops.apply("add", first, ops.iota(longest))
    return ops.gather(ops.cast(targets.node, int64), at, 0)


def _with_blanks(targets: Node, blank: int) -> tuple[Node, Node]:
    """[N, 2 * S + 1]: the targets with blanks around each, and where two steps may be skipped."""
    batch, size = targets.shape
    blanks = ops.broadcast_to(ops.constant(blank, int64), (batch, size, 1))
    pairs = ops.concat([blanks, ops.reshape(targets, (batch, size, 1))], 2)
    flat = ops.reshape(pairs, (batch, 2 * size))
    last = ops.broadcast_to(ops.constant(blank, int64), (batch, 1))
    labels = ops.concat([flat, last], 1)
    before = _later(labels, 2, blank)
    odd = ops.apply("eq", ops.apply("mod", ops.iota(2 * size + 1), constant_of(2, int64)),
                    constant_of(1, int64))  # fmt: skip
    return labels, ops.apply("logical_and", odd, ops.apply("ne", labels, before))


def _later(node: Node, places: int, fill: float | int) -> Node:
    """``node`` moved along its last axis, ``fill`` moving in."""
    batch, size = node.shape
    kept = ops.slice_(node, (0, 0), (batch, max(size - places, 0)), (1, 1))
    return ops.pad(kept, (0, min(places, size)), (0, 0), (0, 0), fill)


def _top(stay: Expr, one: Expr, two: Expr) -> Expr:
    """The greatest of three, and 0 where all are -inf."""
    top = call("maximum", call("maximum", stay, one), two)
    return call("where", call("eq", top, const(-math.inf, top.dtype)), const(0, top.dtype), top)


def _summed(stay: Expr, one: Expr, two: Expr, top: Expr) -> Expr:
    """The logarithm of up to three probabilities' sum; -inf, without a slope, of none."""
    first, second, third = (call("exp_nonpositive", call("sub", x, top)) for x in (stay, one, two))
    total = call("add", call("add", first, second), third)
    none = call("eq", total, const(0, total.dtype))
    safe = call("where", none, const(1, total.dtype), total)
    found = call("add", call("log", safe), top)
    return call("where", none, const(-math.inf, top.dtype), found)


def _log_sum(stay: Node, one: Node, two: Node) -> Node:
    """``_summed`` relative to the greatest, which cancels out and has no gradient."""
    plain = tuple(ops.detach(n) if n.needs_grad else n for n in (stay, one, two))
    return mixed(_summed, (stay, one, two, mixed(_top, plain)))


def _alignments(logs: Node, labels: Node, skips: Node, inputs: Node) -> Node:
    """[N, 2 * S + 1]: the log-probability of all ways to stand at each label at the end.

    The forward variables, one step of time after the other; samples that ended stand still.
    """
    steps, batch, classes = logs.shape
    size = labels.shape[1]
    never = constant_of(-math.inf, logs.dtype)
    first = ops.apply("lt", ops.iota(size), constant_of(2, int64))
    state = never
    for t in range(steps):
        row = ops.reshape(
            ops.slice_(logs, (t, 0, 0), (1, batch, classes), (1, 1, 1)), (batch, classes)
        )
        emitted = ops.gather(row, labels, 1, 1)
        if t == 0:
            state = choose(first, emitted, never, logs.dtype)
            continue
        going = ops.reshape(ops.apply("gt", inputs, constant_of(t, int64)), (batch, 1))
        skipped = choose(skips, _later(state, 2, -math.inf), never, logs.dtype)
        reached = _log_sum(state, _later(state, 1, -math.inf), skipped)
        state = choose(going, ops.apply("add", reached, emitted), state, logs.dtype)
    return ops.broadcast_to(state, (batch, size))


def _losses(logs: Node, labels: Node, skips: Node, inputs: Node, targets: Node) -> Node:
    """[N]: minus the log-probability of each sample's targets."""
    state = _alignments(logs, labels, skips, inputs)
    batch = state.shape[0]
    end = ops.reshape(ops.apply("mul", targets, constant_of(2, int64)), (batch, 1))
    one, zero = constant_of(1, int64), constant_of(0, int64)
    before = ops.apply("maximum", ops.apply("sub", end, one), zero)
    last, other = (ops.reshape(ops.gather(state, at, 1, 1), (batch,)) for at in (end, before))
    some = ops.apply("gt", targets, constant_of(0, int64))
    other = choose(some, other, constant_of(-math.inf, state.dtype), state.dtype)
    nothing = ops.broadcast_to(constant_of(-math.inf, state.dtype), other.shape)
    loss = ops.apply("neg", _log_sum(last, other, nothing))
    # No input: only an empty target is right.
    empty = ops.apply("eq", inputs, constant_of(0, int64))
    dtype = state.dtype
    answer = choose(some, constant_of(math.inf, dtype), constant_of(0, dtype), dtype)
    return choose(empty, answer, loss, state.dtype)


def _as_of_softmax(loss: Node, logs: Node, inputs: Node) -> Node:
    """The same loss with PyTorch's gradient, which is that of normalised probabilities.

    It holds ``exp(log_probs)`` besides; behind a log-softmax both give the same.
    """
    if not logs.needs_grad:
        return loss
    steps = logs.shape[0]
    shares = ops.apply("exp", logs)
    gap = ops.reduce_("sum", ops.apply("sub", shares, ops.detach(shares)), (2,))
    going = ops.apply("lt", ops.reshape(ops.iota(steps), (steps, 1)), inputs)
    zero = constant_of(0, logs.dtype)
    total = ops.reduce_("sum", choose(going, gap, zero, logs.dtype), (0,))
    finite = ops.apply("isfinite", ops.detach(loss))
    return ops.apply("add", loss, choose(finite, total, zero, logs.dtype))


def _check_labels(rows: Node, sizes: Sequence[int], classes: int) -> None:
    """Raise BoundsError for a target that is no class; beyond its size a row holds anything."""
    longest = max([*sizes, 0])
    if not longest:
        return
    rows = ops.slice_(rows, (0, 0), (rows.shape[0], longest), (1, 1))
    if min(sizes) < longest:
        ends = ops.reshape(tensor(sizes, dtype=int64).node, (len(sizes), 1))
        inside = ops.apply("lt", ops.iota(longest), ends)
        rows = choose(inside, rows, constant_of(0, int64), int64)
    for found in value_range(rows, within(0, classes - 1)):
        if not 0 <= found < classes:
            raise BoundsError(f"Target {found} is out of bounds.")


@function()
@in_full_precision
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Minus the log-probability of all alignments of inputs with targets (Graves et al. 2006).

    Args:
        log_probs: [T, N, C] or [T, C], logarithms of probabilities.
        targets: [N, S], [S], or all samples' targets one after the other in a vector.
        input_lengths, target_lengths: of every sample, tensors (which are looked at) or numbers.
        blank: the class that means no target.
        reduction: ``mean`` divides every loss by its target's length first.
        zero_infinity: 0 for losses, and gradients, of targets that no alignment reaches.

    Raises DTypeError, ShapeError, LazytError for lengths that do not fit, BoundsError for targets
    that are no class (what follows a target in its row is not looked at).
    """
    reduction = chosen_reduction(reduction, None, None)
    if log_probs.dtype.kind != "f" or log_probs.dtype.is_half:
        refuse("ctc_loss_cpu", log_probs.dtype)
    if targets.dtype not in (int64, int32):
        raise DTypeError(
            f"Expected tensor for argument #2 'targets' to have scalar type Long or Int, but got "
            f"{type_title(targets.dtype)}"
        )
    single = log_probs.ndim == 2
    if log_probs.ndim not in (2, 3):
        raise ShapeError(f"log_probs must have two or three dimensions, but has {log_probs.ndim}")
    shape = tuple(log_probs.shape)
    logs = ops.reshape(log_probs.node, (shape[0], 1, shape[-1])) if single else log_probs.node
    steps, batch, classes = logs.shape
    if not 0 <= blank < classes:
        raise LazytError("blank must be in label range")
    inputs = _lengths(input_lengths, batch, "input_lengths")
    sizes = _lengths(target_lengths, batch, "target_lengths")
    if targets.ndim == 1 and not single:
        if targets.shape[0] != sum(sizes):
            raise ShapeError("Expected as many targets as target_lengths add up to, "
                             f"{sum(sizes)}, but got {targets.shape[0]}")  # fmt: skip
        rows = _side_by_side(targets, sizes)
    else:
        rows = ops.reshape(ops.cast(targets.node, int64), (batch, targets.shape[-1]))
    _check(inputs, sizes, steps, rows.shape[1])
    _check_labels(rows, sizes, classes)
    labels, skips = _with_blanks(rows, blank)
    lengths, counts = (tensor(v, dtype=int64).node for v in (inputs, sizes))
    loss = _as_of_softmax(_losses(logs, labels, skips, lengths, counts), logs, lengths)
    node = _reduced(loss, counts, reduction, zero_infinity)
    if single and reduction == "none":
        node = ops.reshape(node, ())
    return give(node, "CtcLoss", (log_probs,))


def _reduced(loss: Node, counts: Node, reduction: str, zero_infinity: bool) -> Node:
    dtype = loss.dtype
    if zero_infinity:
        plain = ops.detach(loss) if loss.needs_grad else loss
        infinite = ops.apply("eq", plain, constant_of(math.inf, dtype))
        loss = choose(infinite, constant_of(0, dtype), loss, dtype)
    if reduction == "none":
        return loss
    if reduction == "mean":
        size = ops.apply("maximum", counts, constant_of(1, int64))
        batch = constant_of(float(max(loss.shape[0], 1)), dtype)
        loss = ops.apply("div", ops.apply("div", loss, ops.cast(size, dtype)), batch)
    return ops.reduce_("sum", loss, (0,))
