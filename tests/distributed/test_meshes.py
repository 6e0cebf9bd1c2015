"""Meshes of ranks: what PyTorch prints and raises, on four processes and on one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import lazyt
from lazyt import distributed as dist
from lazyt.distributed.device_mesh import DeviceMesh, current_mesh, init_device_mesh
from tests.distributed.launching import run

PROGRAM = """
from lazyt.distributed.device_mesh import DeviceMesh, init_device_mesh

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
print(mesh, mesh.mesh.tolist(), mesh.get_coordinate(), mesh["tp"].mesh.tolist())
print(mesh.get_local_rank("tp"), mesh.get_local_rank(0), mesh["dp"].get_local_rank())
print(dist.get_process_group_ranks(mesh.get_group("dp")), mesh["tp"].get_group().size())
flat = mesh._flatten()
print(flat, flat.get_local_rank(), mesh.get_group("dp_tp") is dist.group.WORLD)
columns = DeviceMesh("cpu", [[[0], [2]], [[1], [3]]], mesh_dim_names=("a", "b", "c"))
print(columns, columns.get_coordinate(), columns["a", "c"].mesh.tolist())
print(columns["a", "b"]._flatten().mesh.tolist(), [g.size() for g in columns.get_all_groups()])
some = DeviceMesh("cpu", [1, 3])
print(some, some.get_coordinate())
again = DeviceMesh.from_group(mesh.get_all_groups(), "cpu", mesh=mesh.mesh, mesh_dim_names="uv")
print(again, again["v"].mesh.tolist())
parts = init_device_mesh("cpu", (4,), mesh_dim_names=("w",))._unflatten(0, (2, 2), ("x", "y"))
print(parts, parts["y"].mesh.tolist(), parts.get_local_rank("x"))
x = lazyt.full((2,), float(rank))
dist.all_reduce(x, group=mesh.get_group("tp"))
print(x.tolist())
"""


def _expected(rank: int) -> str:
    a, b = divmod(rank, 2)
    return f"""\
DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1)) [[0, 1], [2, 3]] ({a}, {b}) {[2 * a, 2 * a + 1]}
{b} {a} {a}
{[b, b + 2]} 2
DeviceMesh((dp_tp=4), 'cpu', stride=(1,)) {rank} True
DeviceMesh((a=2, b=2, c=1), 'cpu', stride=(2, 1, ())) ({b}, {a}, 0) {[[2 * a], [2 * a + 1]]}
[0, 2, 1, 3] [2, 2, 1]
DeviceMesh((2,), 'cpu', stride=(1,)) {(a,) if b else None}
DeviceMesh((u=2, v=2), 'cpu', stride=(2, 1)) {[2 * a, 2 * a + 1]}
DeviceMesh((x=2, y=2), 'cpu', stride=(2, 1)) {[2 * a, 2 * a + 1]} {a}
{[4 * a + 1.0] * 2}
"""


def test_four_ranks_in_a_square(tmp_path: Path) -> None:
    for rank, text in enumerate(run(PROGRAM, 4, tmp_path)):
        assert text == _expected(rank)


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_errors_are_pytorchs() -> None:
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))
    with pytest.raises(KeyError, match=r"Invalid mesh_dim_names \('x',\) specified"):
        mesh["x"]
    with pytest.raises(KeyError, match="Mesh dimension 'x' does not exist"):
        mesh.get_group("x")
    with pytest.raises(RuntimeError, match="DeviceMesh have 2 dimensions"):
        mesh.get_group()
    with pytest.raises(RuntimeError, match="DeviceMesh have 2 dimensions"):
        mesh.get_local_rank()
    with pytest.raises(RuntimeError, match="Cannot slice a DeviceMesh without"):
        init_device_mesh("cpu", (1,))["a"]
    with pytest.raises(RuntimeError, match="default world size 1, but found 2 ranks"):
        init_device_mesh("cpu", (2,))
    with pytest.raises(RuntimeError, match="Device type with index is not supported"):
        init_device_mesh("cpu:0", (1,))
    with pytest.raises(RuntimeError, match="Each mesh_dim_name must be unique"):
        init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "a"))
    with pytest.raises(RuntimeError, match="should have same length"):
        init_device_mesh("cpu", (1, 1), mesh_dim_names=("a",))
    with pytest.raises(AssertionError, match="non-overlapping"):
        DeviceMesh("cpu", [0, 0])
    with pytest.raises(TypeError, match="mesh argument is required"):
        DeviceMesh("cpu")
    with pytest.raises(ValueError, match="Must pass mesh_dim_names"):
        DeviceMesh.from_group(mesh.get_all_groups(), "cpu", mesh=[[0]])
    with pytest.raises(ValueError, match="Invalid mesh"):
        DeviceMesh.from_group(mesh.get_group(0), "cpu", mesh=[1])
    with pytest.raises(ValueError, match="already exists for submesh"):
        mesh._flatten("a")
    with pytest.raises(ValueError, match="must be equal for unflatten"):
        mesh._unflatten(0, (2, 2), ("x", "y"))


@pytest.mark.usefixtures("alone")
def test_meshes_are_values() -> None:
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))
    assert mesh == init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))
    assert mesh != mesh["a"] != mesh["b"]
    assert len({mesh, copy.copy(mesh), copy.deepcopy(mesh), mesh["a", "b"]}) == 1
    loaded = pickle.loads(pickle.dumps(mesh))
    assert loaded == mesh and loaded.get_group("b").size() == 1
    assert DeviceMesh._concatenate([mesh["a"], mesh["b"]]) == mesh
    assert mesh.mesh.dtype is lazyt.int32
    with pytest.raises(RuntimeError, match="No device mesh"):
        current_mesh()
    with mesh as entered:
        assert current_mesh() is entered is mesh
