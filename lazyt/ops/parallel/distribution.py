"""``distribute`` and ``localize``: between the parts that ranks have and the value they make up.

``distribute`` of a rank's part is the whole value, ``localize`` of a whole value is a rank's part.
What stands between them is an ordinary graph over whole shapes, so functions, gradients and
transforms know nothing of ranks. It is never computed as it stands: ``transforms/partition`` makes
a graph over parts and collectives of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lazyt.errors import InternalError, ShapeError
from lazyt.ir.graph import Node, Shape, Type, make
from lazyt.ops.parallel.collectives import Ranks
from lazyt.ops.parallel.layouts import REPLICATE, Layout, Part
from lazyt.ops.registry import define_op, linear_jvp

__all__ = ["DISTRIBUTE", "LOCALIZE", "distribute", "localize", "on_localized", "reduced"]


class DistributeParams(NamedTuple):
    """``groups``, ``ranks``, ``sizes``: of the layout, for each axis of the grid of ranks the name
    of the group, this rank's number in it, and its size; ``parts``: what each does to the value, as
    text; ``shape``: that of the whole value."""

    groups: tuple[str, ...]
    ranks: tuple[int, ...]
    sizes: tuple[int, ...]
    parts: tuple[str, ...]
    shape: Shape

    @property
    def layout(self) -> Layout:
        """How the value is divided."""
        return _layout(self.groups, self.ranks, self.sizes, self.parts)


class LocalizeParams(NamedTuple):
    """The layout that a value is to have, as ``DistributeParams`` say it."""

    groups: tuple[str, ...]
    ranks: tuple[int, ...]
    sizes: tuple[int, ...]
    parts: tuple[str, ...]

    @property
    def layout(self) -> Layout:
        """How the value is to be divided."""
        return _layout(*self)


@functools.lru_cache(maxsize=1024)
def _layout(
    groups: tuple[str, ...], ranks: tuple[int, ...], sizes: tuple[int, ...], parts: tuple[str, ...]
) -> Layout:
    return Layout(tuple(map(Ranks, groups, ranks, sizes)), tuple(map(Part.parse, parts)))


@functools.lru_cache(maxsize=1024)
def _fields(
    layout: Layout,
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    groups, ranks, sizes = (tuple(column) for column in zip(*layout.ranks))
    return groups, ranks, sizes, tuple(map(str, layout.parts))


def _alone(layout: Layout) -> bool:
    return all(ranks.size == 1 for ranks in layout.ranks)


def _check(layout: Layout, shape: Shape) -> None:
    for part in layout.parts:
        if part.is_shard and not 0 <= part.axis < len(shape):
            raise ShapeError(f"ranks divide axis {part.axis} of a value of {list(shape)}")


def _distribute_infer(params: DistributeParams, node: Node) -> Type:
    _check(params.layout, params.shape)
    expected = params.layout.local_shape(params.shape)
    if node.shape != expected:
        raise ShapeError(
            f"distribute: a part of {list(node.shape)}, expected {list(expected)} of "
            f"{list(params.shape)}"
        )
    return Type(params.shape, node.dtype)


def _localize_infer(params: LocalizeParams, node: Node) -> Type:
    _check(params.layout, node.shape)
    return Type(params.layout.local_shape(node.shape), node.dtype)


def _evaluate(node: Node, array: Any) -> Any:
    if not _alone(node.params.layout):
        raise InternalError("ops.parallel", f"{node.op.name} needs the other ranks' parts")
    return array


def reduced(layout: Layout) -> Layout:
    """The layout of gradients: where values are to be reduced, each rank has the whole gradient."""
    return layout.but([REPLICATE if part.is_partial else part for part in layout.parts])


def _distribute_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [localize(cotangent, reduced(node.params.layout))]


def _localize_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [distribute(cotangent, reduced(node.params.layout), node.inputs[0].shape)]


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    layout: Layout = node.params.layout
    parts = [part._replace(axis=part.axis + 1) if part.is_shard else part for part in layout.parts]
    if node.op is LOCALIZE:
        return localize(inputs[0], layout.but(parts))
    return distribute(inputs[0], layout.but(parts), (inputs[0].shape[0], *node.shape))


DISTRIBUTE = define_op(
    "distribute",
    params=DistributeParams,
    infer=_distribute_infer,
    evaluate=_evaluate,
    vjp=_distribute_vjp,
    jvp=linear_jvp,
    batch=_batch,
    lower="distribution",
)
LOCALIZE = define_op(
    "localize",
    params=LocalizeParams,
    infer=_localize_infer,
    evaluate=_evaluate,
    vjp=_localize_vjp,
    jvp=linear_jvp,
    batch=_batch,
    lower="distribution",
)


def distribute(node: Node, layout: Layout, shape: Sequence[int]) -> Node:
    """The value whose part on this rank is ``node``. Raises ShapeError for another part."""
    return make(DISTRIBUTE, (node,), DistributeParams(*_fields(layout), tuple(shape)))


#: Told of every part that the program makes, in order: collectives for it are made now, when all
#: ranks make them, and not when somebody looks.
on_localized: list[Callable[[Node], None]] = []


def localize(node: Node, layout: Layout) -> Node:
    """This rank's part of a value."""
    if node.op is DISTRIBUTE and node.params.layout == layout:
        return node.inputs[0]
    made = make(LOCALIZE, (node,), LocalizeParams(*_fields(layout)))
    for function in on_localized:
        function(made)
    return made
