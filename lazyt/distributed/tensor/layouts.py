"""Placements on meshes of ranks, and the layouts of graph values that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lazyt.distributed.device_mesh import DeviceMesh, current_mesh
from lazyt.distributed.placements import Partial, Placement, Replicate, Shard
from lazyt.distributed.process_groups import on_destroy, ranks_of
from lazyt.errors import DistributedError
from lazyt.ir.graph import Shape
from lazyt.ops.parallel.collectives import Ranks
from lazyt.ops.parallel.layouts import REPLICATE, Layout, Part

__all__ = [
    "DTensorSpec", "TensorMeta", "compute_local_shape_and_global_offset", "layout_on", "mesh_of",
    "normalized", "placements_of", "wanted_mesh",
]  # fmt: skip


class TensorMeta(NamedTuple):
    """Shape, strides and dtype of a whole tensor."""

    shape: Any
    stride: tuple[int, ...]
    dtype: Any


class DTensorSpec:
    """How a tensor is distributed: ``mesh``, ``placements`` and ``tensor_meta``."""

    def __init__(
        self, mesh: DeviceMesh, placements: Sequence[Placement], tensor_meta: Any = None
    ) -> None:
        self.mesh = mesh
        self.placements = tuple(placements)
        self.tensor_meta = tensor_meta

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.mesh

    @property
    def shape(self) -> Any:
        """The shape of the whole tensor."""
        return self.tensor_meta.shape

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.tensor_meta.shape)

    @property
    def dim_map(self) -> list[int]:
        """For each dimension of the tensor the dimension of the mesh that divides it, else -1."""
        found = [-1] * self.ndim
        for number, placement in enumerate(self.placements):
            if isinstance(placement, Shard):
                found[placement.dim] = number
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTensorSpec) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.mesh, self.placements))

    def __repr__(self) -> str:
        return f"Spec(mesh={self.mesh}, placements={self.placements})"


#: The mesh that values with these groups are on.
_meshes: dict[tuple[Ranks, ...], DeviceMesh] = {}
on_destroy.append(_meshes.clear)


def wanted_mesh(device_mesh: Any) -> DeviceMesh:
    """A mesh that a program passes, the one whose ``with`` block this is for None.

    Raises RuntimeError outside of one.
    """
    return current_mesh() if device_mesh is None else device_mesh


def _ranks(mesh: DeviceMesh) -> tuple[Ranks, ...]:
    if mesh.get_coordinate() is None:
        raise DistributedError(f"this process is no member of {mesh}")
    return tuple(ranks_of(mesh.get_group(d)) for d in range(mesh.ndim))


def layout_on(mesh: DeviceMesh, placements: Sequence[Placement]) -> Layout:
    """The layout of values with these placements, one for each axis of a mesh."""
    ranks = _ranks(mesh)
    _meshes[ranks] = mesh
    return Layout(ranks, tuple(map(_part, placements)))


def _part(placement: Placement) -> Part:
    if type(placement) is Shard:
        return Part("shard", placement.dim)
    if isinstance(placement, Partial):
        return Part("partial", -1, placement.reduce_op)
    if isinstance(placement, Replicate):
        return REPLICATE
    raise RuntimeError(f"Unsupported placement {placement}")


def mesh_of(layout: Layout) -> DeviceMesh:
    """The mesh of a layout."""
    return _meshes[layout.ranks]


def placements_of(layout: Layout) -> tuple[Placement, ...]:
    """The placements that a layout stands for."""
    return tuple(
        Shard(part.axis) if part.is_shard
        else Partial(part.reduction) if part.is_partial
        else Replicate()
        for part in layout.parts
    )  # fmt: skip


def normalized(
    placements: Sequence[Placement] | None, mesh: DeviceMesh, dims: int, name: str
) -> tuple[Placement, ...]:
    """Placements with dimensions counted from the first; ``Replicate`` for None.

    Raises ValueError for another number than the mesh has axes, and IndexError for a dimension that
    there is not.
    """
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements "
            f"length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    found = []
    for placement in placements:
        if type(placement) is Shard:
            dim = placement.dim + dims if placement.dim < 0 else placement.dim
            if not 0 <= dim < max(dims, 1):
                raise IndexError(
                    f"{name}: Shard(dim={placement.dim}) of a tensor of {dims} dimensions"
                )
            placement = Shard(dim)
        found.append(placement)
    return tuple(found)


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this rank's part of a tensor, and where in the tensor it begins."""
    shape: Shape = tuple(global_shape)
    layout = layout_on(mesh, normalized(placements, mesh, len(shape), "compute_local_shape"))
    return layout.local_shape(shape), layout.offsets(shape)
