"""Modules whose parameters ranks divide by a plan: the same loss, gradients and steps as on one
process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt import distributed as dist
from lazyt import nn
from lazyt.distributed.device_mesh import DeviceMesh, init_device_mesh
from lazyt.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from lazyt.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from lazyt.nn import functional as F
from tests.distributed.launching import run

PROGRAM = """
import copy
from lazyt import nn
from lazyt.nn import functional as F
from lazyt.distributed.tensor import Replicate, Shard
from lazyt.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel,
    parallelize_module,
)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.heads = nn.LayerNorm(8), 4
        self.wq, self.wk = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
        self.wo = nn.Linear(8, 8)
    def forward(self, x):
        h = self.norm(x)
        q, k = self.wq(h), self.wk(h)
        q, k = (t.view(2, 4, self.heads, 2).transpose(1, 2) for t in (q, k))
        o = F.scaled_dot_product_attention(q, k, k, is_causal=True)
        return x + self.wo(o.transpose(1, 2).reshape(2, 4, -1))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layers = nn.Embedding(12, 8), nn.ModuleList([Block()])
        self.output = nn.Linear(8, 12, bias=False)
    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(x)

lazyt.manual_seed(0)
plain = Model()
model = copy.deepcopy(plain)
mesh = dist.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
plan = {
    "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "layers.*.norm": SequenceParallel(),
    "layers.*.wq": ColwiseParallel(input_layouts=Shard(1)),
    "layers.*.wk": ColwiseParallel(input_layouts=Shard(1)),
    "layers.*.wo": RowwiseParallel(output_layouts=Shard(1)),
    "output": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
}
model = parallelize_module(model, mesh, plan)
model.layers[0].heads //= 2
tokens = lazyt.arange(8).reshape(2, 4)
wanted = (tokens * 5 + 1) % 12
losses = []
for net in (model, plain):
    optimizer = lazyt.optim.SGD(net.parameters(), lr=0.5)
    for step in range(4):  # derivatives that come back are made otherwise than the first time
        optimizer.zero_grad()
        with loss_parallel():
            scores = net(tokens)
            loss = F.cross_entropy(scores.flatten(0, 1), wanted.flatten())
            loss.backward()
        optimizer.step()
    losses.append(loss)
print(losses[0].placements, abs(losses[0].item() - losses[1].item()) < 1e-5)
print([str(p.placements[0]) for p in model.parameters()])
pairs = zip(model.parameters(), plain.parameters())
print(max((a.full_tensor() - b).abs().max().item() for a, b in pairs) < 1e-5)
"""


def test_a_transformer_on_two_ranks(tmp_path: Path) -> None:
    for text in run(PROGRAM, 2, tmp_path):
        loss, placements, agrees = text.splitlines()
        assert loss == "(Replicate(),) True"
        rows, whole = "Shard(dim=0)", "Replicate()"
        assert placements == str([rows, whole, whole, rows, rows, "Shard(dim=1)", whole, rows])
        assert agrees == "True"


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_styles_print_as_pytorchs() -> None:
    assert repr(ColwiseParallel()) == (
        "ColwiseParallel(input_layouts=(Replicate(),), output_layouts=(Shard(dim=-1),), "
        "use_local_output=True)"
    )
    assert repr(SequenceParallel(sequence_dim=2)) == (
        "SequenceParallel(sequence_dim=2, use_local_output=False)"
    )
    given = PrepareModuleInput(
        input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)
    )
    assert repr(given) == (
        "PrepareModuleInput(input_layouts=(Shard(dim=1), None), "
        "desired_input_layouts=(Replicate(), None), input_kwarg_layouts={}, "
        "desired_input_kwarg_layouts={}, use_local_output=False)"
    )


def test_inputs_and_outputs_are_placed(mesh: DeviceMesh) -> None:
    seen: list[Any] = []

    class Net(nn.Module):
        def forward(self, x: Any, number: int, *, mask: Any = None) -> Any:
            seen.extend([x, number, mask])
            return x, number

    net: Any = parallelize_module(
        Net(),
        mesh,
        PrepareModuleInputOutput(
            input_layouts=(Shard(0), None), desired_input_layouts=(Replicate(), None),
            input_kwarg_layouts={"mask": Shard(0)},
            desired_input_kwarg_layouts={"mask": Replicate()},
            output_layouts=(Replicate(), None), desired_output_layouts=(Shard(1), None),
            use_local_output=False,
        ),
    )  # fmt: skip
    found, number = net(lazyt.ones(2, 2), 5, mask=lazyt.zeros(2))
    assert seen[0].placements == seen[2].placements == (Replicate(),) and seen[1] == 5
    assert found.placements == (Shard(1),) and number == 5
    with pytest.raises(ValueError, match="should have same length"):
        net(lazyt.ones(2, 2))
    with pytest.raises(AssertionError, match="should have same length"):
        PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=(Shard(0), None))


def test_plans_that_do_not_fit(mesh: DeviceMesh) -> None:
    net = nn.Sequential(nn.ReLU())
    with pytest.warns(UserWarning, match="could not be resolved"):
        parallelize_module(net, mesh, {"layers.*": ColwiseParallel()})
    with pytest.warns(UserWarning, match="will do nothing"):
        parallelize_module(net, mesh)
    for style in (ColwiseParallel(), RowwiseParallel()):
        with pytest.raises(NotImplementedError, match=r"only support nn\.Linear and nn\.Emb"):
            parallelize_module(net, mesh, {"0": style})
    with pytest.raises(TypeError, match="Expect Union"):
        parallelize_module(net, mesh, ["0"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expecting input of"):
        parallelize_module(nn.LayerNorm(2), mesh, SequenceParallel())(None)


def test_losses_of_divided_classes(mesh: DeviceMesh) -> None:
    values = lazyt.arange(12.0).reshape(3, 4).sin()
    target, weight = lazyt.tensor([0, 3, 1]), lazyt.tensor([1.0, 2.0, 3.0, 4.0])
    scores: Any = distribute_tensor(values, mesh, [Shard(1)])
    rows = DTensor.from_local(target, mesh, [Replicate()])
    with loss_parallel():
        for reduction in ("mean", "sum", "none"):
            for given in (target, rows):
                found: Any = F.cross_entropy(scores, given, weight, reduction=reduction)
                expected = F.cross_entropy(values, target, weight, reduction=reduction)
                assert lazyt.allclose(found.full_tensor(), expected)
                assert found.placements == (Replicate(),)
        with pytest.raises(ValueError, match="sharded on the dimension 1"):
            F.cross_entropy(scores.redistribute(mesh, [Replicate()]), rows)
    assert F.cross_entropy(scores, rows).placements[0] in (Partial(), Replicate())  # type: ignore[attr-defined]
