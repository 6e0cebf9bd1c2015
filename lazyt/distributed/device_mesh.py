"""Ranks as the points of a grid, whose axes have names (``torch.distributed.device_mesh``).

A mesh has the ranks of a *rank map* in it: axis ``d`` is one or more pairs of size and stride, as
the axes of a strided tensor are. What is sliced out of a mesh shares its map, its groups and its
root, which knows the meshes that were flattened from parts of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from types import TracebackType
from typing import Any

from lazyt.distributed.process_groups import (
    ProcessGroup,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group_named,
    init_process_group,
    is_initialized,
    new_group,
)
from lazyt.errors import warn
from lazyt.functional.creation.creation import tensor as as_tensor
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int32

__all__ = ["DeviceMesh", "current_mesh", "init_device_mesh"]

#: One axis of a mesh: pairs of size and stride in the rank map, the slowest first.
Axis = tuple[tuple[int, int], ...]

_entered: list[DeviceMesh] = []


def current_mesh() -> DeviceMesh:
    """The mesh whose ``with`` block this is. Raises RuntimeError outside of one."""
    if not _entered:
        raise RuntimeError("No device mesh is currently active!")
    return _entered[-1]


def _size(axis: Axis) -> int:
    return prod(size for size, _ in axis)


def _offsets(axes: Sequence[Axis]) -> Iterator[int]:
    """Where in the rank map the points of a mesh are, from its first one on, in order."""
    pairs = [pair for axis in axes for pair in axis]
    for point in product(*(range(size) for size, _ in pairs)):
        yield sum(i * stride for i, (_, stride) in zip(point, pairs))


def _joined(axes: Sequence[Axis]) -> Axis:
    """Axes as one: neighbours that are contiguous become one pair."""
    found: list[tuple[int, int]] = []
    for size, stride in (pair for axis in axes for pair in axis):
        if size == 1:
            continue
        if found and found[-1][1] == size * stride:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return tuple(found) or ((1, 1),)


class DeviceMesh:
    """Ranks in a grid. All ranks make the same meshes in the same order, members or not.

    Each axis of it has a process group for each line of ranks along it.

    Args:
        device_type: ``"cpu"``: what moves between ranks is host memory.
        mesh: the ranks, a nested list or a tensor of integers with the shape of the grid.
        mesh_dim_names: what to call its axes; needed for slices.
        backend_override: accepted, host memory moves by MPI whatever it says.

    Raises RuntimeError for more ranks than there are, AssertionError for a rank twice.

    >>> import lazyt.distributed as dist
    >>> from lazyt.distributed.device_mesh import init_device_mesh
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    >>> mesh["tp"], mesh.get_coordinate(), mesh.get_local_rank("dp")
    (DeviceMesh((tp=1), 'cpu', stride=((),)), (0, 0), 0)
    >>> dist.destroy_process_group()

    Source: PyTorch's class of this name.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
        _axes: tuple[Axis, ...] | None = None,
        _map: tuple[int, ...] | None = None,
        _root: DeviceMesh | None = None,
    ) -> None:
        if _axes is None or _map is None:
            if mesh is None:
                raise TypeError("The mesh argument is required except for PRIVATE USAGE ONLY!")
            given = mesh if isinstance(mesh, Tensor) else as_tensor(mesh)
            _map = tuple(int(rank) for rank in given.reshape(-1).tolist())
            _axes = _contiguous(tuple(given.shape))
        self._device_type = device_type
        self._axes = _axes
        self._map = _map
        self._mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        self._root = _root
        self._flattened: dict[str, DeviceMesh] = {}
        self._dim_group_names: list[str] = []
        self._groups: dict[str, ProcessGroup] = {} if _root is None else _root._groups
        if len(set(_map)) != len(_map):
            raise AssertionError("Please use a non-overlapping layout when creating a DeviceMesh.")
        if backend_override is not None and len(backend_override) != len(_axes):
            raise ValueError(
                "backend_override should have the same length as the number of mesh dimensions, "
                f"but got {len(backend_override)} and {len(_axes)}."
            )
        if _init_backend:
            if not is_initialized():
                init_process_group()
            if self.size() > get_world_size():
                raise RuntimeError(
                    f"Mesh should not be bigger than default world size {get_world_size()}, "
                    f"but found {self.size()} ranks!"
                )
            self._make_groups()
        self._rank = get_rank()
        self._coordinate = self._find_coordinate()

    def _make_groups(self) -> None:
        """A group for each line of ranks along each axis; all ranks make all of them."""
        names = self._mesh_dim_names or [f"dim_{d}" for d in range(self.ndim)]
        for axis, name in zip(self._axes, names):
            found = self._group_along(axis, f"mesh_{name}")
            if found is not None:
                self._dim_group_names.append(found.group_name)
                self._groups[found.group_name] = found

    def _group_along(self, axis: Axis, name: str) -> ProcessGroup | None:
        if _size(axis) == get_world_size() and sorted(self._map) == list(range(_size(axis))):
            return group_named(None)
        mine = None
        for ranks in self._lines((axis,)):
            made = new_group(sorted(ranks), group_desc=name)
            if isinstance(made, ProcessGroup):
                mine = made
        return mine

    def _lines(self, axes: Sequence[Axis]) -> list[list[int]]:
        """The ranks of the rank map, divided into meshes of some axes of it."""
        steps, seen, found = list(_offsets(axes)), set(), []
        for start in range(len(self._map)):
            if start not in seen:
                points = [start + step for step in steps]
                seen.update(points)
                found.append([self._map[point] for point in points])
        return found

    def _ranks(self) -> list[int]:
        """This mesh's ranks; those of the first such part for who is no member."""
        lines = self._lines(self._axes)
        mine = get_rank()
        return next((line for line in lines if mine in line), lines[0])

    def _find_coordinate(self) -> tuple[int, ...] | None:
        ranks = self._ranks()
        if self._rank not in ranks:
            return None
        left, found = ranks.index(self._rank), []
        for size in reversed(self.shape):
            found.append(left % size)
            left //= size
        return tuple(reversed(found))

    # ------------------------------------------------------------------- questions

    @property
    def device_type(self) -> str:
        """The kind of device whose memory moves between the ranks."""
        return self._device_type

    @property
    def mesh(self) -> Tensor:
        """The ranks: an int32 tensor with the shape of the mesh."""
        return as_tensor(self._ranks(), dtype=int32, device="cpu").reshape(self.shape)

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of the axes; None without."""
        return self._mesh_dim_names

    @property
    def ndim(self) -> int:
        """How many axes the mesh has."""
        return len(self._axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many ranks it has along each axis."""
        return tuple(map(_size, self._axes))

    def size(self, mesh_dim: int | None = None) -> int:
        """How many ranks it has, or has along an axis."""
        return prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """This process's number among all."""
        return get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """This rank's place in the grid; None where it is no member."""
        return self._coordinate

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This rank's number along an axis. Raises RuntimeError for several axes and no choice."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
            )
        return self.get_group(0 if mesh_dim is None else mesh_dim).rank()

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of the ranks on this rank's line along an axis.

        Raises RuntimeError for several axes and no choice, KeyError for an unknown name.
        """
        if not self._dim_group_names:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
                "please use `get_all_groups()` instead.",
            )
        flattened = self._get_root_mesh()._flattened
        if isinstance(mesh_dim, str) and mesh_dim in flattened:
            return flattened[mesh_dim].get_group(0)
        if isinstance(mesh_dim, str):
            mesh_dim = self._get_mesh_dim_by_name(mesh_dim)
        if not isinstance(mesh_dim, (int, type(None))):
            raise AssertionError(f"mesh_dim must be an int, got {type(mesh_dim)}")
        name = self._dim_group_names[mesh_dim or 0]
        return self._groups[name] if name in self._groups else group_named(name)

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of this rank's lines along all axes."""
        return [self.get_group(d) for d in range(self.ndim)]

    def _get_root_mesh(self) -> DeviceMesh:
        return self if self._root is None else self._root

    def _get_root_mesh_dim(self) -> int | None:
        """Which axis of its root a mesh of one axis is; None without names."""
        if self._mesh_dim_names is None:
            return None
        if len(self._mesh_dim_names) != 1:
            raise AssertionError("The submesh can only be a 1D mesh.")
        return self._get_root_mesh()._get_mesh_dim_by_name(self._mesh_dim_names[0])

    def _get_mesh_dim_by_name(self, mesh_dim_name: str) -> int:
        if self._mesh_dim_names is None:
            raise KeyError("No `mesh_dim_names` found.")
        if mesh_dim_name not in self._mesh_dim_names:
            raise KeyError(
                f"Mesh dimension '{mesh_dim_name}' does not exist.",
                f"Available mesh dimensions are: mesh_dim_names={self._mesh_dim_names}",
            )
        return self._mesh_dim_names.index(mesh_dim_name)

    # ------------------------------------------------------------------- parts

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of this rank that has some of the axes, in their order.

        Raises RuntimeError without names, KeyError for unknown ones and another order.
        """
        if self._mesh_dim_names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self._mesh_dim_names:
            return self
        flattened = self._flattened if self._root is None else {}
        valid = [*self._mesh_dim_names, *flattened]
        if any(name not in valid for name in names):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {valid}."
            )
        axes: list[Axis] = []
        groups: list[str] = []
        for name in names:
            if name in self._mesh_dim_names:
                source, number = self, self._mesh_dim_names.index(name)
            else:
                warn(
                    "Slicing a flattened dim from root mesh will be deprecated in PT 2.11. "
                    "Users need to bookkeep the flattened mesh directly. "
                )
                source, number = flattened[name], 0
            axes.append(source._axes[number])
            groups += source._dim_group_names[number : number + 1]
        strides = [stride for axis in axes for size, stride in axis if size > 1]
        if strides != sorted(strides, reverse=True):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. "
                "Mesh dim indices should be in ascending order."
            )
        if len(set(_offsets(axes))) != prod(map(_size, axes)):
            raise RuntimeError(f"Slicing overlapping dim_names {names} is not allowed.")
        return self._part(tuple(axes), names, groups)

    def _part(
        self, axes: tuple[Axis, ...], names: Sequence[str] | None, groups: list[str]
    ) -> DeviceMesh:
        made = DeviceMesh(
            self._device_type, mesh_dim_names=names, _init_backend=False,
            _axes=axes, _map=self._map, _root=self._get_root_mesh(),
        )  # fmt: skip
        made._dim_group_names = groups
        return made

    def _get_all_submeshes(self, mesh_dim_name: str) -> list[DeviceMesh]:
        """The meshes of all lines of ranks along an axis."""
        number, found = self._get_mesh_dim_by_name(mesh_dim_name), []
        for ranks in self._lines((self._axes[number],)):
            made = DeviceMesh(
                self._device_type, ranks, mesh_dim_names=(mesh_dim_name,), _init_backend=False
            )
            if get_rank() in ranks:
                made._dim_group_names = [self._dim_group_names[number]]
                made._groups = self._groups
            found.append(made)
        return found

    def _flatten(
        self, mesh_dim_name: str | None = None, backend_override: Any = None
    ) -> DeviceMesh:
        """This mesh as one of a single axis, called by its names joined with ``_`` by default; the
        root knows it by that name.

        Raises RuntimeError without names, ValueError for a name that is taken.
        """
        if self._mesh_dim_names is None:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        name = mesh_dim_name or "_".join(self._mesh_dim_names)
        if self.ndim == 1 and name in self._mesh_dim_names:
            return self
        root = self._get_root_mesh()
        taken = root._mesh_dim_names or ()
        if name in taken:
            raise ValueError(
                f"{name} already exists for submesh of the {root}. ",
                f"The mesh_dim_names of submesh and flattened mesh are {taken}. "
                "Please specify another valid mesh_dim_name.",
            )
        axes = (_joined(self._axes),)
        known = root._flattened.get(name)
        if known is not None and known._axes != axes:
            raise ValueError(
                f"Flatten mesh with mesh_dim_name {name} has been created before, "
                "Please specify another valid mesh_dim_name."
            )
        if known is None:
            known = root._flattened[name] = DeviceMesh(
                self._device_type, mesh_dim_names=(name,), _axes=axes, _map=self._map, _root=root
            )
        return known

    def _unflatten(
        self,
        dim: int | str,
        mesh_sizes: Sequence[int],
        mesh_dim_names: Sequence[str],
        backend_override: Any = None,
    ) -> DeviceMesh:
        """A mesh with several axes in the place of one. Raises ValueError for an axis that there
        is not and sizes that do not fit, RuntimeError for another number of names."""
        names = self._mesh_dim_names
        if (isinstance(dim, int) and dim >= self.ndim) or (
            isinstance(dim, str) and dim not in (names or ())
        ):
            where = f"out of range {self.ndim}" if isinstance(dim, int) else f"not in {names}"
            raise ValueError(f"dim {dim} specified in `_unflatten` is {where}")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        number = dim if isinstance(dim, int) else self._get_mesh_dim_by_name(dim)
        if len(axis := self._axes[number]) != 1 or prod(mesh_sizes) != _size(axis):
            raise ValueError(
                f"The product of mesh_sizes={tuple(mesh_sizes)} is {prod(mesh_sizes)}, "
                f"but the original dimension at dim={number} has size {_size(axis)}. "
                "These must be equal for unflatten to work correctly."
            )
        ((_, stride),) = axis
        inner: tuple[Axis, ...] = tuple(
            ((size, stride * prod(mesh_sizes[i + 1 :])),) for i, size in enumerate(mesh_sizes)
        )
        every = list(names or [f"dim_{d}" for d in range(self.ndim)])
        every[number : number + 1] = mesh_dim_names
        axes = (*self._axes[:number], *inner, *self._axes[number + 1 :])
        groups = list(self._dim_group_names)
        made = []
        for part, name in zip(inner, mesh_dim_names):
            found = self._group_along(part, f"mesh_{name}")
            if found is not None:
                made.append(found.group_name)
                self._groups[found.group_name] = found
        groups[number : number + 1] = made
        return self._part(axes, every, groups)

    @staticmethod
    def _concatenate(device_mesh_list: Sequence[DeviceMesh]) -> DeviceMesh:
        """The mesh that has the axes of several parts of one mesh. Raises RuntimeError where they
        overlap or are parts of different ones."""
        first = device_mesh_list[0]
        if any(mesh._map != first._map for mesh in device_mesh_list):
            raise RuntimeError(
                "Cannot concatenate DeviceMeshes derived from different device meshs"
            )
        axes = tuple(axis for mesh in device_mesh_list for axis in mesh._axes)
        if len(set(_offsets(axes))) != prod(map(_size, axes)):
            raise RuntimeError(f"Cannot concatenate overlapping meshes: {list(device_mesh_list)}")
        names = [name for mesh in device_mesh_list for name in mesh._mesh_dim_names or ()]
        groups = [name for mesh in device_mesh_list for name in mesh._dim_group_names]
        return first._part(axes, names, groups)

    @staticmethod
    def from_group(
        group: ProcessGroup | Sequence[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """The mesh whose axes have groups that there are already.

        Args:
            group: one group, or one for each axis.
            mesh: the ranks of the grid, needed for several groups, as are the names.

        Raises ValueError for what is missing and ranks that are none of the group's.
        """
        if isinstance(group, ProcessGroup):
            ranks = get_process_group_ranks(group)
            given = mesh.tolist() if isinstance(mesh, Tensor) else mesh
            if given is not None and list(given) != ranks:
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks}")
            groups, mesh = [group], ranks
        else:
            groups = list(group)
            if not groups:
                raise ValueError("Expects at least one ProcessGroup to be passed")
            if mesh is None:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            if mesh_dim_names is None:
                raise ValueError("Must pass mesh_dim_names if passing multiple ProcessGroups")
            mesh = mesh if isinstance(mesh, Tensor) else as_tensor(mesh)
            if mesh.dim() != len(groups):
                raise ValueError(
                    "Expects mesh with ndim equal to number of ProcessGroups but got "
                    f"mesh {mesh.tolist()} and {len(groups)} ProcessGroups"
                )
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        made._dim_group_names = [item.group_name for item in groups]
        made._groups = {item.group_name: item for item in groups}
        return made

    # ------------------------------------------------------------------- as a value

    def __enter__(self) -> DeviceMesh:
        _entered.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _entered.pop()

    def _key(self) -> tuple[object, ...]:
        return (self._map, self._axes, self._device_type, self._mesh_dim_names)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __deepcopy__(self, memo: object) -> DeviceMesh:
        return self  # its groups connect processes: there is no other copy of them

    def __getstate__(self) -> dict[str, object]:
        state = dict(self.__dict__)
        state["_groups"] = {}  # found again by their names
        return state

    def __repr__(self) -> str:
        if self._mesh_dim_names:
            pairs = zip(self._mesh_dim_names, self.shape)
            text = f"({', '.join(f'{name}={size}' for name, size in pairs)})"
        else:
            text = str(self.shape)
        steps = [tuple(stride for size, stride in axis if size > 1) for axis in self._axes]
        strides = tuple(step[0] if len(step) == 1 else step for step in steps)
        text = f"DeviceMesh({text}, '{self._device_type}', stride={strides}"
        if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "") == "DETAIL":
            text += f", Mesh: {self.mesh.tolist()}"
        return f"{text})"


def _contiguous(shape: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(((size, prod(shape[d + 1 :])),) for d, size in enumerate(shape))


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """The mesh of the first ranks, in a grid of this shape. Begins with ``init_process_group``
    where nobody has.

    Args:
        device_type: ``"cpu"``, without a number.
        mesh_shape: how many ranks there are along each axis.
        mesh_dim_names: what to call the axes.
        backend_override: accepted, nothing depends on it.

    Raises RuntimeError for a name twice, another number of names, and too many ranks.

    >>> import lazyt.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> dist.device_mesh.init_device_mesh("cpu", (1,))
    DeviceMesh((1,), 'cpu', stride=((),))
    >>> dist.destroy_process_group()

    Source: PyTorch's function of this name.
    """
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique. "
                f"Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}"
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and "
                f"len(mesh_shape):{len(mesh_shape)}."
            )
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    names = set(backend_override or ()) - {*range(len(mesh_shape)), *(mesh_dim_names or ())}
    if names:
        raise RuntimeError(
            f"Found invalid keys in backend_override: got {list(names)}, "
            f"expected integers in range [0, {len(mesh_shape)}) or one of {mesh_dim_names}"
        )
    shape = tuple(int(size) for size in mesh_shape)
    return DeviceMesh(
        device_type,
        mesh_dim_names=mesh_dim_names,
        _axes=_contiguous(shape),
        _map=tuple(range(prod(shape))),
    )
