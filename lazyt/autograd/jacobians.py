"""Jacobians and Hessians: products with all unit vectors at once, by ``vmap``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lazyt.autograd.derivatives import Argnums, check_outputs, linear, picked, vjp_by
from lazyt.autograd.trees import flatten, unflatten
from lazyt.autograd.vectorizing import vmap
from lazyt.errors import GradientError
from lazyt.functional.filling import zeros_like
from lazyt.functional.joining import cat
from lazyt.functional.ramps import eye
from lazyt.tensor import Tensor


def unit_vectors(tensors: list[Tensor]) -> list[Tensor]:
    """All unit vectors of the space of ``tensors`` together, as one batch for each of them."""
    total = sum(tensor.numel() for tensor in tensors)
    found, start = [], 0
    for tensor in tensors:
        count = tensor.numel()
        rows = [
            zeros_like(tensor).detach().reshape(1, count).expand(start, count),
            eye(count, dtype=tensor.dtype),
            zeros_like(tensor).detach().reshape(1, count).expand(total - start - count, count),
        ]
        kept = [row for row in rows if row.shape[0]] or rows[1:2]
        found.append(cat(kept, 0).reshape(total, *tensor.shape))
        start += count
    return found


def _parts(stacked: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    """The first axis of ``stacked`` cut into one part for each tensor, of its shape."""
    found, start = [], 0
    for tensor in tensors:
        count = tensor.numel()
        part = stacked.narrow(0, start, count)
        found.append(part.reshape(*tensor.shape, *stacked.shape[1:]))
        start += count
    return found


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """``func`` as a function of its Jacobian, by reverse derivatives: good for few results.

    Args:
        argnums: which arguments to differentiate by; several give a tuple of Jacobians.
        has_aux: whether ``func`` returns a pair, of which the second part is handed through.
        chunk_size: how many rows to compute at once, all by default.

    Returns: a function that gives, in place of every result, the tree of Jacobians by the
    arguments, of the result's shape followed by the argument's. Raises as ``vjp``.
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def inside(*args: Any) -> Any:
        numbers = picked(argnums, len(args))
        output, pull, *aux = vjp_by(func, args, numbers, has_aux)
        flat, out_tree = flatten(output)
        _, in_tree = flatten(tuple(args[n] for n in numbers))

        def rows(*cotangents: Tensor) -> Any:
            return flatten(pull(unflatten(list(cotangents), out_tree)))[0]

        batches = unit_vectors(flat)
        columns = vmap(rows, chunk_size=chunk_size, randomness="same")(*batches)
        by_input = [_parts(column, flat) for column in columns]
        by_output = []
        for place in range(len(flat)):
            tree = unflatten([parts[place] for parts in by_input], in_tree)
            by_output.append(tree[0] if isinstance(argnums, int) else tree)
        found = unflatten(by_output, out_tree)
        return (found, aux[0]) if has_aux else found

    return inside


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """``func`` as a function of its Jacobian, by forward derivatives: good for few arguments.

    Args as for ``jacrev``. ``func`` runs once, so that random numbers in it are the same for all
    columns whatever ``randomness`` says.
    """
    if randomness not in ("error", "different", "same"):
        raise GradientError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )

    @functools.wraps(func)
    def inside(*args: Any) -> Any:
        numbers = picked(argnums, len(args))
        output, push, aux = linear(func, args, numbers, has_aux)
        flat, out_tree = flatten(output)
        check_outputs(flat, "jvp(f, primals, tangents)")
        chosen, in_tree = flatten(tuple(args[n] for n in numbers))

        def columns(*tangents: Tensor) -> Any:
            return flatten(push(list(tangents)))[0]

        moved = vmap(columns, randomness="same")(*unit_vectors(chosen))
        by_output = []
        for item, stacked in zip(flat, moved):
            last = stacked.movedim(0, -1)
            parts = [
                part.movedim(0, -1).reshape(*item.shape, *tensor.shape)
                for part, tensor in zip(_flat_parts(last, chosen), chosen)
            ]
            tree = unflatten(parts, in_tree)
            by_output.append(tree[0] if isinstance(argnums, int) else tree)
        found = unflatten(by_output, out_tree)
        return (found, aux) if has_aux else found

    return inside


def _flat_parts(last: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    """The last axis of ``last`` cut into one part for each tensor, moved to the front."""
    found, start = [], 0
    for tensor in tensors:
        count = tensor.numel()
        found.append(last.narrow(-1, start, count).movedim(-1, 0))
        start += count
    return found


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """``func`` as a function of its second derivatives: forward derivatives of reverse ones."""
    return jacfwd(jacrev(func, argnums), argnums)
