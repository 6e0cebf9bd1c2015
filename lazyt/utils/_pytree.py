"""Trees of lists, tuples, dicts and registered classes, under PyTorch's names; None is a leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lazyt.autograd.trees import Maker, Taker, Tree, register, taken_apart
from lazyt.autograd.trees import flatten as _flatten
from lazyt.compat.absent import explain_absence as _explain_absence

PyTree = Any
TreeSpec = Tree
IsLeaf = Callable[[Any], bool] | None


def register_pytree_node(cls: type, flatten_fn: Taker, unflatten_fn: Maker, **names: Any) -> None:
    """Make values of a class trees: ``flatten_fn`` gives the parts of one and a context, which
    ``unflatten_fn`` takes. Names for serialized shapes are not used. Raises ValueError where
    they are trees already."""
    register(cls, flatten_fn, unflatten_fn)


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a value is a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or taken_apart(tree) is None


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, in order, and the shape."""
    return _flatten(tree, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The value of a shape with these leaves. Raises TypeError for what is no shape, ValueError
    where the number of leaves is another."""
    if not isinstance(treespec, Tree):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but "
            f"got item of type {type(treespec)}."
        )
    given = list(leaves)
    if len(given) != treespec.count:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(given)} but the spec "
            f"refers to a pytree that holds {treespec.count} items ({treespec})."
        )
    return treespec.build(iter(given))


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves one by one."""
    yield from _flatten(tree, is_leaf)[0]


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves, in order."""
    return _flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The shape."""
    return _flatten(tree, is_leaf)[1]


def _upper_parts(tree: PyTree, shape: Tree) -> list[Any]:
    """What stands in ``tree`` where ``shape`` has leaves; raises ValueError where shapes differ."""
    if shape.kind is None:
        return [tree]
    apart = taken_apart(tree)
    if type(tree) is not shape.kind or apart is None:
        raise ValueError(f"Node type mismatch; expected {shape.kind}, but got {type(tree)}.")
    items, keys = list(apart[0]), apart[1]
    if len(items) != len(shape.parts):
        raise ValueError(f"Node arity mismatch; expected {len(shape.parts)}, but got {len(items)}.")
    if isinstance(tree, dict):
        if set(keys) != set(shape.keys):
            raise ValueError(f"Node keys mismatch; expected {shape.keys}, but got {keys}.")
        items = [tree[key] for key in shape.keys]
    elif keys != shape.keys:
        raise ValueError(f"Node context mismatch; expected {shape.keys}, but got {keys}.")
    return [leaf for item, part in zip(items, shape.parts) for leaf in _upper_parts(item, part)]


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """The tree with ``func`` of each leaf, and of what stands there in the other trees. Raises
    ValueError where those have another shape."""
    leaves, shape = _flatten(tree, is_leaf)
    others = [_upper_parts(rest, shape) for rest in rests]
    return shape.build(iter([func(*items) for items in zip(leaves, *others)]))


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """``func`` of each leaf for its effect; returns the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(kinds: Any) -> Callable[[Any], bool]:
    """Whether a leaf is of the given class or classes, or one that a predicate accepts."""
    if isinstance(kinds, (type, tuple)) or hasattr(kinds, "__or__"):
        return lambda leaf: isinstance(leaf, kinds)
    accepts: Callable[[Any], bool] = kinds
    return accepts


def tree_map_only(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """The tree with ``func`` of the leaves of some classes, or that a predicate accepts."""
    chosen = _chosen(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """``tree_map_only`` for its effect; returns the tree."""
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether ``pred`` holds for all leaves of some classes."""
    chosen = _chosen(type_or_types)
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if chosen(leaf))


def tree_any_only(
    type_or_types: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether ``pred`` holds for a leaf of some classes."""
    chosen = _chosen(type_or_types)
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if chosen(leaf))


_explain_absence(__name__)
