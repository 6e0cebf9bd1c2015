"""Tensors that ranks have parts of: functions, gradients, optimizers, in-place writes and printing,
as PyTorch's, on four processes and on one."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt import distributed as dist
from lazyt import nn
from lazyt.distributed import tensor as dt
from lazyt.distributed.device_mesh import DeviceMesh, init_device_mesh
from lazyt.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from lazyt.distributed.tensor.experimental import implicit_replication, local_map
from tests.distributed.launching import run

#: What four ranks print, as PyTorch 2.13 does.
PROGRAM = """
from lazyt.distributed.device_mesh import init_device_mesh
from lazyt.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from lazyt import nn

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
lazyt.manual_seed(rank)
x = distribute_tensor(lazyt.arange(24.0).reshape(4, 6), mesh, [Shard(0), Shard(1)])
assert x.to_local().tolist() == x.full_tensor()[
    2 * (rank // 2) : 2 * (rank // 2) + 2, 3 * (rank % 2) : 3 * (rank % 2) + 3
].tolist()
print(x.redistribute(mesh, [Replicate(), Shard(0)]).placements)
first = nn.functional.dropout(x.redistribute(mesh, [Replicate()] * 2), 0.5).to_local().sum()
y = (x * 2 + 1).sum(0)
print(y.placements, y.full_tensor().tolist())
w = nn.Parameter(
    distribute_tensor(lazyt.arange(12.0).reshape(6, 2), mesh, [Replicate(), Shard(0)])
)
z = x @ w
print(z.placements, z.full_tensor().tolist())
z.sum().backward()
print(w.grad.placements, w.grad.full_tensor().tolist())
optimizer = lazyt.optim.SGD([w], lr=0.5, momentum=0.5)
for _ in range(2):
    optimizer.step()
whole = w.full_tensor()
if rank == 3:
    whole.tolist()  # some ranks may look, and others not
print(w.placements, w.full_tensor()[0].tolist(), w.to_local().shape[0])
norm = nn.utils.clip_grad_norm_([w], 1.0)
print(float(norm.full_tensor()), [round(v, 4) for v in w.grad.full_tensor()[:, 0].tolist()])
with lazyt.no_grad():
    w.fill_(2.0)
print(w.to_local().tolist())
uneven = distribute_tensor(lazyt.arange(5.0), mesh, [Shard(0), Shard(0)])
print(uneven.to_local().tolist(), (uneven * 2).full_tensor().tolist(), uneven.sum().item())
odd = distribute_tensor(lazyt.arange(12.0).reshape(3, 4), mesh, [Shard(0), Shard(1)])
print([half.full_tensor().tolist() for half in lazyt.chunk(odd, 2)])
part = DTensor.from_local(lazyt.full((2,), float(rank)), mesh, [Shard(0), Partial("max")])
print(part.shape, part.full_tensor().tolist())
lazyt.manual_seed(3)
whole = nn.functional.dropout(lazyt.ones(4, 6), 0.5)
lazyt.manual_seed(3)
print((nn.functional.dropout(x * 0 + 1, 0.5).full_tensor() == whole).all().item())
lazyt.manual_seed(4)
whole = lazyt.randn(4, 6)
lazyt.manual_seed(4)
import lazyt.distributed.tensor as dt
masked = nn.functional.dropout(x.redistribute(mesh, [Replicate()] * 2), 0.5).to_local().sum()
every = [lazyt.zeros(2) for _ in range(4)]
dist.all_gather(every, lazyt.stack([first, masked]))
print(len({tuple(value.tolist()) for value in every}))
lazyt.manual_seed(4)
drawn = dt.randn(4, 6, device_mesh=mesh, placements=[Shard(1), Shard(0)])
print(drawn.to_local().shape, (drawn.full_tensor() == whole).all().item())
"""


def _expected(rank: int) -> str:
    part = [[0.0, 1.0], [2.0], [3.0], [4.0]][rank]
    return f"""\
(Replicate(), Shard(dim=0))
(Partial(sum), Shard(dim=0)) [76.0, 84.0, 92.0, 100.0, 108.0, 116.0]
(Shard(dim=0), Partial(sum)) [[110.0, 125.0], [290.0, 341.0], [470.0, 557.0], [650.0, 773.0]]
(Partial(sum), Shard(dim=0)) {[[36.0 + 4 * i] * 2 for i in range(6)]}
(Replicate(), Shard(dim=0)) [-45.0, -44.0] 3
161.0962371826172 [0.2235, 0.2483, 0.2731, 0.298, 0.3228, 0.3476]
{[[2.0, 2.0]] * 3}
{part} [0.0, 2.0, 4.0, 6.0, 8.0] 10.0
[[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]], [[8.0, 9.0, 10.0, 11.0]]]
lazyt.Size([4]) [1.0, 1.0, 3.0, 3.0]
True
1
lazyt.Size([2, 3]) True
"""


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))
    dist.destroy_process_group()


def test_four_ranks(tmp_path: Path) -> None:
    for rank, text in enumerate(run(PROGRAM, 4, tmp_path)):
        assert text == _expected(rank)


def test_printing_and_facts(mesh: DeviceMesh) -> None:
    x: Any = distribute_tensor(lazyt.arange(2.0), mesh, [Shard(0), Replicate()])
    assert repr(x) == (
        "DTensor(local_tensor=tensor([0., 1.]), device_mesh=DeviceMesh((a=1, b=1), 'cpu', "
        "stride=((), ())), placements=(Shard(dim=0), Replicate()))"
    )
    assert x.device_mesh is mesh and x.shape == (2,) and x.is_leaf
    assert x._spec.placements == x.placements and x._spec.tensor_meta.dtype is lazyt.float32
    assert (x + 1)._local_tensor.tolist() == [1, 2] and (x + 1).placements == x.placements
    assert "%1 = map(%0, const) : float32[2] [S0 R] part [2]" in dt.explain_partition(lambda: x + 1)
    assert isinstance(x, lazyt.Tensor)


def test_memory_is_shared(mesh: DeviceMesh) -> None:
    local = lazyt.zeros(2)
    x: Any = DTensor.from_local(local, mesh, [Shard(0), Replicate()])
    local.add_(1)
    assert x.full_tensor().tolist() == [1, 1]
    x.mul_(3)
    assert local.tolist() == [3, 3] and x.to_local() is local
    x[0] = 7.0
    assert local.tolist() == [7, 3] and x.detach().to_local().tolist() == [7, 3]
    x.data.to_local().zero_()
    assert x.tolist() == [0, 0]
    # Both look at what is written to a part between two writes to it.
    w = nn.Parameter(distribute_tensor(lazyt.zeros(3), mesh, [Shard(0), Replicate()]))
    alias: Any = w.detach()
    for number in range(3):
        alias.to_local()[number : number + 1].fill_(number + 1.0)
    with lazyt.no_grad():
        w.copy_(alias)
    assert w.tolist() == alias.tolist() == [1, 2, 3]


def test_gradients_reach_parts_and_parameters(mesh: DeviceMesh) -> None:
    local = lazyt.ones(2, 2, requires_grad=True)
    w: Any = nn.Parameter(distribute_tensor(lazyt.full((2, 1), 3.0), mesh, [Replicate(), Shard(0)]))
    x: Any = DTensor.from_local(local, mesh, [Shard(0), Replicate()])
    y: Any = (x @ w).redistribute(mesh, [Replicate(), Replicate()])
    (y.to_local() * 2).sum().backward()
    assert local.grad is not None and local.grad.tolist() == [[6, 6], [6, 6]]
    assert type(w.grad) is DTensor and w.grad is w.grad
    assert w.grad.full_tensor().tolist() == [[4], [4]]
    w.grad = None
    (w**2).sum().full_tensor().backward()
    assert w.grad.full_tensor().tolist() == [[6], [6]]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_optimizers_step_as_on_plain_tensors(mesh: DeviceMesh, name: str) -> None:
    values = lazyt.arange(6.0).reshape(3, 2) / 4
    plain: Any = nn.Parameter(values.clone())
    parts: Any = nn.Parameter(distribute_tensor(values.clone(), mesh, [Shard(0), Replicate()]))
    steps = []
    parameter: Any
    for parameter in (plain, parts):
        optimizer = getattr(lazyt.optim, name)([parameter], lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            (parameter.sin() * (step + 1)).sum().backward()
            optimizer.step()
        steps.append(optimizer)
    assert parts.full_tensor().tolist() == plain.tolist()
    for key, value in steps[1].state[parts].items():
        if isinstance(value, lazyt.Tensor) and value.dim():
            assert type(value) is DTensor and value.placements == parts.placements
            assert value.full_tensor().tolist() == steps[0].state[plain][key].tolist()


def test_modules(mesh: DeviceMesh) -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    state = {name: value.clone() for name, value in net.state_dict().items()}

    def shard_rows(name: str, part: nn.Module, mesh: DeviceMesh) -> None:
        if isinstance(part, nn.Linear):
            rows = distribute_tensor(part.weight, mesh, [Shard(0), Replicate()])
            part.register_parameter("weight", nn.Parameter(rows))

    dt.distribute_module(net, mesh, shard_rows)
    assert all(isinstance(value, DTensor) for value in net.state_dict().values())
    assert isinstance(net[0].weight, nn.Parameter)
    with pytest.raises(RuntimeError, match="should only be called once"):
        dt.distribute_module(net, mesh)
    x: Any = distribute_tensor(lazyt.ones(4, 3), mesh, [Shard(0), Replicate()])
    net(x).sum().backward()
    assert isinstance(net[0].weight.grad, DTensor)
    other = copy.deepcopy(net)
    other.load_state_dict(net.state_dict())
    for name, value in other.state_dict().items():
        same = state[name] if "running" not in name and "tracked" not in name else None
        assert same is None or value.full_tensor().tolist() == same.tolist()
    weight: Any = net.get_parameter("0.weight")
    loaded: Any = pickle.loads(pickle.dumps(weight))
    assert loaded.placements == weight.placements
    assert loaded.full_tensor().tolist() == weight.full_tensor().tolist()
    lazyt.save(net.state_dict(), file := io.BytesIO())
    file.seek(0)
    saved = lazyt.load(file, weights_only=False)
    assert saved["0.weight"].placements == weight.placements
    assert saved["0.weight"].tolist() == weight.tolist()
    assert isinstance(loaded, nn.Parameter)


def test_errors_are_pytorchs(mesh: DeviceMesh) -> None:
    x: Any = dt.ones(2, 2, device_mesh=mesh, placements=[Shard(0), Replicate()])
    with pytest.raises(RuntimeError, match=r"aten\.add\.Tensor got mixed torch\.Tensor and DT"):
        x + lazyt.ones(2, 2)
    assert (x + lazyt.tensor(1.0)).sum().item() == 8
    with implicit_replication():
        assert (x + lazyt.ones(2, 2)).sum().item() == 8
    with pytest.raises(RuntimeError, match="placements is needed"):
        x.redistribute()
    with pytest.raises(RuntimeError, match="Can not redistribute to Partial"):
        x.redistribute(mesh, [Partial(), Replicate()])
    with pytest.raises(ValueError, match="must have the same length"):
        distribute_tensor(lazyt.ones(2), mesh, [Shard(0)])
    with pytest.raises(RuntimeError, match="unsupported placements"):
        distribute_tensor(lazyt.ones(2), mesh, [Partial(), Replicate()])
    with pytest.raises(RuntimeError, match="leaf tensors"):
        distribute_tensor(lazyt.ones(2, requires_grad=True) * 2, mesh)
    with pytest.raises(RuntimeError, match=r"only accepts torch\.Tensor"):
        DTensor.from_local(x, mesh)


def test_local_map(mesh: DeviceMesh) -> None:
    def product(a: lazyt.Tensor, b: lazyt.Tensor) -> lazyt.Tensor:
        assert type(a) is type(b) is lazyt.Tensor
        return a @ b

    rows, whole = [Shard(0), Replicate()], [Replicate(), Replicate()]
    function = local_map(product, rows, (rows, whole), device_mesh=mesh)
    a: Any = dt.ones(2, 3, device_mesh=mesh, placements=rows)
    b: Any = dt.ones(3, 2, device_mesh=mesh)
    assert function(a, b).placements == tuple(rows)
    assert function(a, b).full_tensor().tolist() == [[3, 3], [3, 3]]
    with pytest.raises(ValueError, match="mismatched placements"):
        function(b.T.redistribute(mesh, [Shard(1), Replicate()]), b)


FUNCTIONS = """
from tests.distributed.function_samples import check
mesh = dist.init_device_mesh("cpu", (2,))
print(check(mesh, {dim}, {first}, 80) > 12)
"""


@pytest.mark.parametrize("dim", [0, 1])
def test_functions_on_two_ranks(dim: int, tmp_path: Path) -> None:
    """One of each 80 samples of the public functions."""
    program = FUNCTIONS.format(dim=dim, first=3 + 11 * dim)
    assert run(program, 2, tmp_path) == ["True\n"] * 2
