"""Leaves of nested values whose shape is known: what generated code calls ``fx_pytree``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.utils import _pytree as pytree

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

#: How values of some classes are taken apart, by class.
_takers: dict[type, Callable[[Any, Any], list[Any]]] = {
    dict: lambda value, spec: [value[key] for key in spec.context],
    list: lambda value, spec: [value[i] for i in range(spec.num_children)],
    tuple: lambda value, spec: [value[i] for i in range(spec.num_children)],
}


def register_pytree_flatten_spec(
    cls: type, flatten_fn_spec: Callable[[Any, Any], list[Any]],
    flatten_fn_exact_match_spec: Callable[[Any, Any], bool] | None = None,
) -> None:  # fmt: skip
    """Have values of a class taken apart by ``flatten_fn_spec(value, spec)``.

    Args:
        flatten_fn_exact_match_spec: taken for PyTorch's sake.
    """
    _takers[cls] = flatten_fn_spec


def tree_flatten_spec(tree: Any, spec: Any, exact_structural_match: bool = False) -> list[Any]:
    """The leaves of a tree whose shape is that of ``spec``, or which has more of the same.

    Args:
        exact_structural_match: whether it may not have more.

    Raises RuntimeError for a tree of another shape.
    """
    if spec.is_leaf():
        return [tree]
    take = None if exact_structural_match else _takers.get(spec.type)
    if take is not None:
        parts = zip(take(tree, spec), spec.children())
        return [leaf for part, below in parts for leaf in tree_flatten_spec(part, below)]
    leaves, found = pytree.tree_flatten(tree)
    if found != spec:
        raise RuntimeError(
            f"Real spec {found} of object {tree} is different from expected spec {spec}."
        )
    return list(leaves)
