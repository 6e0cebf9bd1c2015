"""``vmap``: a function of one example, called for all of them at once.

The function runs once, on symbols that stand for one example; the graph of its results then
becomes one over all examples (``lazyt.transforms.batch``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.autograd.levels import Level, batched, entered, repeated, stack, symbol
from lazyt.errors import BoundsError, LazytError, ShapeError
from lazyt.handle.dispatch import assign, lay_out, wrap
from lazyt.handle.layout import strided, strides_like
from lazyt.handle.pytree import TreeSpec, flatten, spread, unflatten
from lazyt.handle.storage import Storage
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node


def _name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """``func`` of one example as a function of many (PyTorch's and JAX's ``vmap``).

    Args:
        func: takes and returns nested lists, tuples and dicts of tensors.
        in_dims: which axis of every argument counts the examples, None for arguments that all
            share; a number for all, or nested as the arguments are (or an upper part of that).
        out_dims: where that axis goes in the results; likewise.
        randomness: whether random functions raise ("error"), give all examples the same numbers
            ("same") or each its own ("different").
        chunk_size: how many examples to compute at once, all by default.

    Raises ShapeError (a ValueError) for arguments and results that do not fit the axes, and
    LazytError, in PyTorch's words, where ``func`` looks at the values of an example.
    """
    if randomness not in ("error", "different", "same"):
        raise LazytError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ShapeError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def every(*args: Any, **kwargs: Any) -> Any:
        return vmapped(func, in_dims, out_dims, randomness, chunk_size, args, kwargs)

    return every


def vmapped(
    func: Callable[..., Any],
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    chunk_size: int | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """One call of what ``vmap`` returns."""
    _check_out_dims(out_dims, func)
    leaves, tree = flatten(args)
    dims = _checked_dims(in_dims, args, leaves, tree, func)
    size = _batch_size(leaves, dims)
    if chunk_size is None or chunk_size >= size:
        return _call(func, leaves, dims, tree, kwargs, size, out_dims, randomness)
    parts = []
    for start in range(0, size, chunk_size):
        count = min(chunk_size, size - start)
        chunk = [
            leaf if dim is None else leaf.narrow(dim, start, count)
            for leaf, dim in zip(leaves, dims)
        ]
        parts.append(_call(func, chunk, dims, tree, kwargs, count, out_dims, randomness))
    flat = [flatten(part) for part in parts]
    out_tree = flat[0][1]
    places = spread(out_dims, out_tree) or []
    from lazyt.functional.shapes.joining import cat

    joined = [
        column[0] if place is None else cat(list(column), place)
        for column, place in zip(zip(*(part for part, _ in flat)), places)
    ]
    return unflatten(joined, out_tree)


def _check_out_dims(out_dims: Any, func: Any) -> None:
    for item in flatten(out_dims)[0]:
        if not isinstance(item, int) and item is not None:
            raise ShapeError(
                f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None "
                "or a python collection of ints representing where in the outputs the vmapped "
                "dimension should appear."
            )


def _checked_dims(
    in_dims: Any, args: tuple[Any, ...], leaves: list[Any], tree: TreeSpec, func: Any
) -> list[int | None]:
    """The axis of every leaf of the arguments. Raises ShapeError."""
    start = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, (int, tuple)):
        raise ShapeError(
            start + "expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ShapeError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or "
            "you are trying to vmap over a function with no inputs. The latter is unsupported."
        )
    dims = spread(in_dims, tree)
    if dims is None:
        raise ShapeError(
            start + "in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {flatten(in_dims)[1]} but inputs has structure {tree}."
        )
    return [_checked_dim(leaf, dim, start) for leaf, dim in zip(leaves, dims)]


def _checked_dim(leaf: Any, dim: Any, start: str) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ShapeError(
            start + f"Got in_dim={dim} for an input but in_dim must be either an integer "
            "dimension or None."
        )
    if not isinstance(leaf, Tensor):
        raise ShapeError(
            start + f"Got in_dim={dim} for an input but the input is of type {type(leaf)}. We "
            "cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if leaf.layout is not strided:
        raise LazytError(
            "vmap does not take sparse tensors: give it their values, and let the function make "
            "them; those that the function finds elsewhere are the same for all examples"
        )
    rank = leaf.ndim
    if not -rank <= dim < rank:
        raise ShapeError(
            start + f"Got in_dim={dim} for some input, but that input is a Tensor of "
            f"dimensionality {rank} so expected in_dim to satisfy -{rank} <= in_dim < {rank}."
        )
    return dim % rank


def _batch_size(leaves: list[Any], dims: list[int | None]) -> int:
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims) if dim is not None]
    if not sizes:
        raise ShapeError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ShapeError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return int(sizes[0])


def _call(
    func: Callable[..., Any],
    leaves: list[Any],
    dims: list[int | None],
    tree: TreeSpec,
    kwargs: dict[str, Any],
    size: int,
    out_dims: Any,
    randomness: str,
) -> Any:
    run = Vectorized(size, randomness)
    moved = [
        leaf if dim is None else (leaf if dim == 0 else leaf.movedim(dim, 0))
        for leaf, dim in zip(leaves, dims)
    ]
    with run.running():
        given = [leaf if dim is None else run.example(leaf) for leaf, dim in zip(moved, dims)]
        out = func(*unflatten(given, tree), **kwargs)
        flat, out_tree = flatten(out)
        places = _flat_out_dims(out, out_tree, out_dims, func)
        nodes = [_out_node(item, place, func) for item, place in zip(flat, places)]
    results = run.results(flat, nodes, places, _name(func))
    run.write_back()
    return unflatten(results, out_tree)


def _flat_out_dims(out: Any, tree: TreeSpec, out_dims: Any, func: Any) -> list[int | None]:
    if isinstance(out, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return list(out_dims)
    found = spread(out_dims, tree)
    if found is None or (isinstance(out, Tensor) and isinstance(out_dims, (tuple, list, dict))):
        raise ShapeError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible "
            f"with the structure of `outputs`. out_dims has structure {flatten(out_dims)[1]} but "
            f"outputs has structure {tree}."
        )
    return found


def _out_node(item: Any, place: int | None, func: Any) -> Node | None:
    if isinstance(item, Tensor):
        return item.node
    if place is None:
        return None
    raise ShapeError(
        f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type "
        f"{type(item)}. Did you mean to set out_dims= to None for output?"
    )


class Vectorized:
    """A function that runs for one example, symbolically, and its results for all."""

    def __init__(self, size: int, randomness: str) -> None:
        self.level = Level(size, randomness)
        self._given: list[tuple[Tensor, Tensor]] = []

    def running(self) -> Any:
        """The context to run the function in."""
        return entered(self.level)

    def example(self, tensor: Tensor) -> Tensor:
        """One example of ``tensor``, whose first axis counts them."""
        made = object.__new__(Tensor)
        made._view = None
        made._storage = Storage(symbol(self.level, tensor.node))
        self._given.append((tensor, made))
        return made

    def all_of(self, nodes: Sequence[Node]) -> list[Node | None]:
        """``nodes`` for all examples; None for those that are the same for all."""
        return batched(nodes, dict(self.level.symbols), self.level)

    def results(
        self, flat: list[Any], nodes: list[Node | None], places: list[int | None], name: str
    ) -> list[Any]:
        """The function's results for all examples, the new axis where ``places`` say."""
        known = [node for node in nodes if node is not None]
        many = iter(self.all_of(known))
        found = []
        for item, node, place in zip(flat, nodes, places):
            if node is None:
                found.append(item)
                continue
            whole = next(many)
            if place is None:
                if whole is not None:
                    raise ShapeError(
                        f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim "
                        "is None"
                    )
                found.append(item)
                continue
            whole = repeated(node, self.level.size) if whole is None else whole
            made = wrap(whole, name="Clone")
            if item._view is not None:
                inner = strides_like(tuple(item.shape), item.strides)
                lay_out(made, (item.numel(), *inner))
            rank = len(whole.shape)
            if not -rank <= place < rank:
                raise BoundsError(
                    f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], "
                    f"but got {place})"
                )
            found.append(made.movedim(0, place) if place else made)
        return found

    def write_back(self) -> None:
        """What the function wrote into its arguments is written into those outside."""
        for tensor, made in self._given:
            if made._storage.was_written:
                (whole,) = self.all_of([made.node])
                if whole is None:
                    whole = repeated(made.node, self.level.size)
                assign(tensor, wrap(whole, name="Clone"))


def vmapped_function(rule: Callable[..., Any], info: Any, args: tuple[Any, ...]) -> Any:
    """A custom function by its own rule for many examples; its results for one example.

    Args:
        rule: takes ``info(size, randomness)``, the axis of every argument, and the arguments.

    NotImplemented where the arguments are the same for all examples.
    """
    leaves, tree = flatten(args)
    nodes = [leaf.node for leaf in leaves if isinstance(leaf, Tensor)]
    places = [n for n, level in enumerate(stack.levels) if level.depends(nodes)]
    if not places:
        return NotImplemented
    place = places[-1]
    level, inner = stack.levels[place], stack.levels[place:]
    many = iter(batched(nodes, dict(level.symbols), level))
    del stack.levels[place:]
    try:
        dims: list[int | None] = []
        given = []
        for leaf in leaves:
            whole = next(many) if isinstance(leaf, Tensor) else None
            dims.append(None if whole is None else 0)
            given.append(leaf if whole is None else wrap(whole, name="Clone"))
        returned = rule(
            info(level.size, level.randomness), unflatten(dims, tree), *unflatten(given, tree)
        )
        output, out_dims = returned
        flat, out_tree = flatten(output)
        axes = spread(out_dims, out_tree) or []
        moved = [item if axis is None else item.movedim(axis, 0) for item, axis in zip(flat, axes)]
    finally:
        stack.levels.extend(inner)
    found = [
        item if axis is None else wrap(symbol(level, item.node), name="Clone")
        for item, axis in zip(moved, axes)
    ]
    return unflatten(found, out_tree)


__all__ = ["Vectorized", "vmap", "vmapped"]
