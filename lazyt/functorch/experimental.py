"""``functorch.experimental``: transforms by the names that they had before they were public."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.errors import LazytError
from lazyt.func import functionalize as functionalize
from lazyt.func import hessian as hessian
from lazyt.func import jacfwd as jacfwd
from lazyt.func import jvp as jvp
from lazyt.func import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from lazyt.func import vmap
from lazyt.functional.namespace import Tensor
from lazyt.utils._pytree import tree_flatten


def chunk_vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    chunks: int = 2,
) -> Callable[..., Any]:
    """``vmap(func)`` computed in so many parts. Other arguments are those of ``lazyt.vmap``.

    Raises LazytError where ``chunks`` is no positive number, and what ``vmap`` raises when the
    result is called.
    """
    if chunks < 1:
        raise LazytError(f"chunk_vmap: chunks should be positive, not {chunks}")

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        axes = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
        count = next((n for n in map(_count, args, axes) if n is not None), None)
        size = None if not count else -(-count // chunks)
        return vmap(func, in_dims, out_dims, randomness, chunk_size=size)(*args, **kwargs)

    return wrapped


def _count(argument: Any, axis: Any) -> int | None:
    """How many examples an argument has along its axis; None where it has none."""
    if axis is None:
        return None
    if not isinstance(axis, int):
        values = argument.values() if isinstance(argument, dict) else argument
        places = axis.values() if isinstance(axis, dict) else axis
        return next((n for n in map(_count, values, places) if n is not None), None)
    tensors = [leaf for leaf in tree_flatten(argument)[0] if isinstance(leaf, Tensor)]
    return tensors[0].shape[axis] if tensors else None
