"""``scan``, ``map`` and ``associative_scan``: loops over slices of tensors, compiled once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.autograd.vectorizing import vmap
from lazyt.errors import ArgumentError, LazytError, ShapeError, warn
from lazyt.functional.control.tracing import (
    BodyLevel,
    CannotTrace,
    Traced,
    is_placed,
    needs_history,
    symbol,
    trace,
)
from lazyt.functional.operands import normalize_dim
from lazyt.functional.overriding import of_modes, switch
from lazyt.functional.shapes.joining import cat, stack
from lazyt.functional.shapes.view_shapes import movedim
from lazyt.handle.dispatch import wrap
from lazyt.handle.function_table import declare_grad_fn
from lazyt.handle.pytree import TreeSpec, flatten, unflatten
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Body, Node
from lazyt.ops.control.building import loop

declare_grad_fn("ScanAutogradOp", "MapAutogradOp", saves="a")

_SCAN_XS = "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """A loop over slices that carries a state from step to step (PyTorch's
    ``torch._higher_order_ops.scan``, JAX's ``lax.scan``).

    The function runs once, on symbols; its graph is compiled once, whatever the number of steps,
    and launched once for each of them. Values are, bit for bit, those of the loop in Python, and
    gradients are sums of the same terms. Random functions draw other numbers than in such a loop.

    Args:
        combine_fn: from the carry and a slice of every leaf of ``xs`` to the next carry, a tree of
            the same shapes and dtypes, and a tree of tensors. It may read tensors from outside,
            with gradients; it may not write to them.
        init: the first carry, a tree of tensors.
        xs: a tree of tensors with equally many slices.
        dim: the axis of ``xs`` that is scanned.
        reverse: whether the last slice comes first.

    Returns: the last carry, and what the steps gave, stacked along ``dim``.

    Raises LazytError (a RuntimeError) for arguments that do not fit, and where ``combine_fn`` looks
    at values of a step. ShapeError for different numbers of slices.

    Example::

        >>> import lazyt
        >>> last, sums = lazyt.func.scan(
        ...     lambda c, x: (c + x, c + x), lazyt.tensor(0), lazyt.arange(5)
        ... )
        >>> last, sums
        (tensor(10), tensor([ 0,  1,  3,  6, 10]))
    """
    if switch.open:
        made = of_modes(scan, combine_fn, init, xs, dim=dim, reverse=reverse)
        if made is not NotImplemented:
            return made[0], made[1]
    flat_init, init_tree = flatten(init)
    flat_xs, xs_tree = flatten(xs)
    if not flat_xs:
        return init, []
    dim = _checked_scan(combine_fn, flat_init, flat_xs, dim, reverse)
    moved = [movedim(item, dim, 0) if dim else item for item in flat_xs]
    length = _length(moved)

    step = functools.partial(_step_of_scan, combine_fn, flat_init, init_tree, xs_tree)
    carries, results, tree = _scanned(step, flat_init, moved, length, reverse)
    if dim:
        results = [
            movedim(item, 0, dim) if isinstance(item, Tensor) and dim < item.ndim else item
            for item in results
        ]
    return unflatten(carries, init_tree), unflatten(results, tree)


def _step_of_scan(
    combine_fn: Callable[[Any, Any], Any],
    init: list[Any],
    init_tree: TreeSpec,
    xs_tree: TreeSpec,
    carry: Sequence[Tensor],
    slices: Sequence[Tensor],
) -> tuple[list[Any], TreeSpec]:
    """A call of ``combine_fn``, flat. Raises LazytError for what it may not return."""
    found = combine_fn(unflatten(list(carry), init_tree), unflatten(list(slices), xs_tree))
    if not (isinstance(found, (tuple, list)) and len(found) == 2):
        raise LazytError(
            "Expect combine_fn to return a tuple (next_carry, y) but got "
            f"{flatten(found)[1].pretty()}."
        )
    following, tree = flatten(found[0])
    _check_carry(init, init_tree, following, tree)
    results, results_tree = flatten(found[1])
    return [*following, *results], results_tree


def _checked_scan(combine_fn: Any, init: list[Any], xs: list[Any], dim: Any, reverse: Any) -> int:
    """The axis, counted from the front. Raises LazytError, in PyTorch's words."""
    if isinstance(xs[0], Tensor) and isinstance(dim, int):
        dim = normalize_dim(dim, xs[0].ndim)
    if not callable(combine_fn):
        raise LazytError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise LazytError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise LazytError(f"Reverse must be a bool, but got {type(reverse)}")
    if not init:
        raise LazytError("scan() operator requires init leaves.")
    for item in init:
        if not isinstance(item, Tensor):
            raise LazytError(f"All init leaves must be a Tensor but got {item}")
    for item in xs:
        if not isinstance(item, Tensor):
            raise LazytError(f"All xs leaves must be a Tensor but got {item}")
    if any(item.ndim <= dim or item.shape[dim] == 0 for item in xs):
        raise LazytError(_SCAN_XS)
    return dim


def _length(xs: Sequence[Tensor]) -> int:
    sizes = [item.shape[0] for item in xs]
    if len(set(sizes)) > 1:
        raise ShapeError(f"All xs leaves must have the same scan dimension, got {sizes}")
    return int(sizes[0])


def _check_carry(init: list[Tensor], tree: TreeSpec, following: list[Any], found: TreeSpec) -> None:
    """Raises LazytError, in PyTorch's words, where the carry does not go on as it began."""
    if len(init) != len(following) or tree != found:
        raise LazytError(
            "Expected init and carry to have same number of outputs but got "
            f"lhs:{[described(x) for x in init]} and rhs:{[described(x) for x in following]}"
        )
    differing = []
    for number, (old, new) in enumerate(zip(init, following)):
        if not isinstance(new, Tensor):
            raise LazytError(f"All next carry leaves must be a Tensor but got {new}")
        facts = []
        if old.dtype is not new.dtype:
            facts.append(f"'dtype: {old.dtype} vs {new.dtype}'")
        if old.shape != new.shape:
            facts.append(f"'shape: {old.shape} vs {new.shape}'")
        if old.device != new.device:
            facts.append(f"'device: {old.device} vs {new.device}'")
        if facts:
            differing.append(
                f"pair[{number}] differ in {', '.join(facts)}, where lhs is {described(old)} and "
                f"rhs is {described(new)}"
            )
    if differing:
        raise LazytError(
            "Expected init and carry to have same metadata but found:\n" + "\n".join(differing)
        )


def described(value: Any) -> str:
    """A tensor as messages tell it."""
    if not isinstance(value, Tensor):
        return repr(value)
    return f"Tensor(size={tuple(value.shape)}, dtype={value.dtype})"


#: From a carry and slices to the next carry with results, flat, and the results' tree.
Step = Callable[[Sequence[Tensor], Sequence[Tensor]], tuple[list[Any], TreeSpec]]


def _scanned(
    step: Step,
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    length: int,
    reverse: bool,
    title: str = "scan",
) -> tuple[list[Tensor], list[Any], TreeSpec]:
    """The last carry, stacked results and their tree."""
    given = [item.node for item in (*init, *xs)]
    try:
        if is_placed(given):
            raise CannotTrace("a value is on another device than the CPU")
        return _looped(step, init, xs, length, reverse, title)
    except CannotTrace as reason:
        warn(f"{title} runs as a loop in Python: {reason}")
        return _unrolled(step, init, xs, length, reverse)


def _looped(
    step: Step,
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    length: int,
    reverse: bool,
    title: str,
) -> tuple[list[Tensor], list[Any], TreeSpec]:
    level = BodyLevel(title, length)
    pairs = [symbol(level, item.node, item.shape) for item in init]
    scanned = [symbol(level, item.node, item.shape[1:]) for item in xs]
    for (leaf, _), item in zip(scanned, xs):
        level.symbols[leaf] = item.node
    found: list[Any] = []
    trees: list[TreeSpec] = []

    def function() -> list[Tensor]:
        flat, tree = step([made for _, made in pairs], [made for _, made in scanned])
        found.extend(flat)
        trees.append(tree)
        return [_a_tensor(item) for item in flat if item is not None]

    leaves = [leaf for leaf, _ in (*pairs, *scanned)]
    traced = trace(level, leaves, function)
    if reverse and traced.keys:
        raise CannotTrace("random numbers are drawn in the order of the steps")
    begin, slices = [item.node for item in init], [item.node for item in xs]
    history = needs_history([*begin, *slices, *traced.constants])
    made = _made(traced, begin, slices, length, reverse, history)
    name = "MapAutogradOp" if title == "map" else "ScanAutogradOp"
    carries = [wrap(node, *init, *xs, name=name) for node in made.carries]
    rest = iter(made.slices)
    results = [
        None if item is None else wrap(next(rest), *init, *xs, name=name)
        for item in found[len(init) :]
    ]
    return carries, results, trees[0]


def _made(
    traced: Traced,
    begin: list[Node],
    slices: list[Node],
    length: int,
    reverse: bool,
    history: bool,
) -> Any:
    operands = [*slices, *traced.keys]
    return loop(traced.body, traced.constants, begin, operands, length, reverse, history)


def scan_of(
    body: Body, constants: Sequence[Node], start: Sequence[Tensor], length: int
) -> list[Tensor]:
    """What is carried after ``length`` steps of a body over constants and carries."""
    begin = [item.node for item in start]
    made = loop(body, constants, begin, [], length, False, needs_history([*constants, *begin]))
    return [wrap(node, *start, name="WhileLoopAutogradOp") for node in made.carries]


def _a_tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise LazytError(f"Expected the function to return tensors but got {value!r}")
    return value


def _unrolled(
    step: Step, init: Sequence[Tensor], xs: Sequence[Tensor], length: int, reverse: bool
) -> tuple[list[Tensor], list[Any], TreeSpec]:
    """The same by a loop in Python."""
    carry: list[Any] = list(init)
    rows: list[list[Any]] = []
    trees: list[TreeSpec] = []
    numbers = range(length)
    for number in reversed(numbers) if reverse else numbers:
        flat, tree = step(carry, [item[number] for item in xs])
        carry = flat[: len(init)]
        rows.append(flat[len(init) :])
        trees.append(tree)
    if reverse:
        rows.reverse()
    columns = [
        None if column[0] is None else stack([_a_tensor(item) for item in column])
        for column in zip(*rows)
    ]
    return carry, columns, trees[0]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """``f`` of each slice of ``xs`` along the first axis, and its results stacked
    (``torch._higher_order_ops.map``); the slices are computed one after the other, by a step that
    is compiled once. ``vmap`` computes them at once.

    Args:
        f: from a slice of every leaf of ``xs``, and ``args``, to a tree of tensors.
        xs: a tree of tensors with equally many slices.
        args: handed to every call.

    Raises LazytError (a RuntimeError) for arguments that do not fit, and where ``f`` looks at
    values of a slice.

    Example::

        >>> import lazyt
        >>> lazyt.func.map(lambda x, k: x.sum() * k, lazyt.ones(3, 4), 2)
        tensor([8., 8., 8.])
    """
    if switch.open:
        made = of_modes(map, f, xs, *args)
        if made is not NotImplemented:
            return made
    flat, tree = flatten(xs)
    if not all(isinstance(item, Tensor) for item in flat):
        raise LazytError(f"Mapped xs can only consist of tensors. Got xs {flat}.")
    shapes = [item.shape for item in flat]
    if shapes[0][0] == 0:
        raise LazytError("Leading dimensions of mapped xs cannot be 0.")
    if any(shape[0] != shapes[0][0] for shape in shapes):
        raise LazytError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}."
        )

    def step(_: Sequence[Tensor], slices: Sequence[Tensor]) -> tuple[list[Any], TreeSpec]:
        return flatten(f(unflatten(list(slices), tree), *args))

    _, results, found = _scanned(step, [], flat, int(shapes[0][0]), False, "map")
    return unflatten(results, found)


_ASSOCIATIVE_MODES = ("pointwise", "generic")


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "generic",
) -> Any:
    """All running combinations of slices by an associative function
    (``torch._higher_order_ops.associative_scan``, JAX's ``lax.associative_scan``): neighbours are
    combined in pairs, so that few calls, each over many slices, combine all.

    Args:
        combine_fn: from two trees like ``xs``, without axis ``dim``, to their combination.
        xs: a tree of tensors with equally many slices.
        dim: the axis of ``xs`` that is scanned.
        reverse: whether the last slice comes first.
        combine_mode: ``generic``; or ``pointwise`` for tensors on a GPU, which computes the same.

    Returns: a tree like ``xs``, of the combinations of each slice with those before it.

    Raises ArgumentError (a ValueError), in PyTorch's words, for arguments that do not fit.

    Example::

        >>> import lazyt
        >>> lazyt.func.associative_scan(lambda a, b: a * b, lazyt.arange(1, 6), 0)
        tensor([  1,   2,   6,  24, 120])
    """
    said = (combine_fn, xs, dim, reverse, combine_mode)
    if switch.open and (made := of_modes(associative_scan, *said)) is not NotImplemented:
        return made
    flat, tree = flatten(xs)
    if flat and isinstance(flat[0], Tensor) and isinstance(dim, int):
        dim = normalize_dim(dim, flat[0].ndim)
    if not callable(combine_fn):
        raise ArgumentError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ArgumentError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise LazytError(f"Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in _ASSOCIATIVE_MODES:
        raise ArgumentError(
            f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}"
        )
    if not flat:
        raise ArgumentError("Expected at least 1 xs leaf")
    if any(not isinstance(item, Tensor) for item in flat):
        raise ArgumentError("xs leaves must be a Tensor")
    if combine_mode == "pointwise" and any(item.device.type != "cuda" for item in flat):
        raise ArgumentError(
            "For combine_mode='pointwise', all input tensors need to be on CUDA or XPU"
        )
    if any(item.ndim <= dim or item.shape[dim] == 0 for item in flat):
        raise ArgumentError(_SCAN_XS)
    moved = [movedim(item, dim, 0) for item in flat]
    _length(moved)
    moved = [item.flip(0) for item in moved] if reverse else moved
    every = vmap(lambda a, b: _combined(combine_fn, a, b, tree))
    found = _combinations(lambda a, b: list(every(a, b)), moved)
    return unflatten([movedim(x.flip(0) if reverse else x, 0, dim) for x in found], tree)


def _combined(
    combine_fn: Callable[[Any, Any], Any], a: Sequence[Tensor], b: Sequence[Tensor], tree: TreeSpec
) -> tuple[Tensor, ...]:
    flat, _ = flatten(combine_fn(unflatten(list(a), tree), unflatten(list(b), tree)))
    if len(flat) != len(a):
        raise LazytError(f"expected combine_fn to return {len(a)} results but got {len(flat)}")
    return tuple(flat)


def _combinations(
    combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]], items: list[Tensor]
) -> list[Tensor]:
    """All running combinations along the first axis: of pairs first, and of those that end in the
    middle of a pair from these (Blelloch, "Prefix sums and their applications", 1990)."""
    count = items[0].shape[0]
    if count < 2:
        return items
    pairs = combine([item[:-1:2] for item in items], [item[1::2] for item in items])
    odd = _combinations(combine, pairs)
    firsts = [item[:1] for item in items]
    if count > 2:
        before = [item[: (count - 1) // 2] for item in odd]
        rest = combine(before, [item[2::2] for item in items])
        firsts = [cat([first, others]) for first, others in zip(firsts, rest)]
    return [_interleaved(a, b) for a, b in zip(firsts, odd)]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """Elements of both in turn along the first axis; ``even`` may have one more."""
    common = odd.shape[0]
    both = stack([even[:common], odd], 1).flatten(0, 1)
    return cat([both, even[common:]]) if even.shape[0] > common else both


__all__ = ["associative_scan", "map", "scan"]
