"""How a tensor is placed along one axis of a mesh of ranks (``torch.distributed.tensor``)."""

from __future__ import annotations

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """Where the elements of a tensor are. Equal placements compare equal."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each rank has a part along an axis, along ``dim`` if it is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each rank has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the tensor is the reduction of what the ranks have, by ``reduce_op`` if given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))


class Shard(Placement):
    """Each rank has a part of the elements, neighbours along ``dim``.

    >>> from lazyt.distributed.placements import Shard
    >>> Shard(1), Shard(1) == Shard(0)
    (Shard(dim=1), False)
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"


class StridedShard(Shard):
    """Each rank has some parts along ``dim``: of tensors that two axes of a mesh divide."""

    def __init__(self, dim: int, *, split_factor: int) -> None:
        super().__init__(dim)
        self.split_factor = split_factor

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"


class Replicate(Placement):
    """Each rank has the whole tensor."""

    def __repr__(self) -> str:
        return "Replicate()"


class Partial(Placement):
    """The tensor is the reduction of what the ranks have.

    Args:
        reduce_op: ``sum``, ``avg``, ``product``, ``max`` or ``min``.
    """

    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op = reduce_op

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"
