"""`DistributedDataParallel` as programs use it: a step, a checkpoint, a model in two parts,
and a trainer that goes on from its snapshot.

    python -m lazyt.distributed.run --lazyt --nproc-per-node 2 examples/ranks/ddp.py
    torchrun --nproc-per-node 2 examples/ranks/ddp.py          # with PyTorch
"""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Network(nn.Module):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(10, 10), nn.Linear(10, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(x)))


class InTwoParts(nn.Module):
    """A network whose layers may be on two devices."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__()
        self.one, self.other = torch.device(one), torch.device(other)
        self.first = nn.Linear(10, 10).to(self.one)
        self.last = nn.Linear(10, 5).to(self.other)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(x.to(self.one))).to(self.other))


class Points(Dataset):
    """Pairs of random numbers."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(7)
        self.x = torch.rand(count, 10, generator=generator)
        self.y = torch.rand(count, 5, generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


def step(model: nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> float:
    """One step; the loss before it."""
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def agree(model: nn.Module) -> None:
    """Asserts that all processes have the same parameters."""
    for parameter in model.parameters():
        every = [torch.empty_like(parameter) for _ in range(dist.get_world_size())]
        dist.all_gather(every, parameter.detach())
        assert all(torch.equal(every[0], other) for other in every)


def checkpoint(folder: str) -> None:
    """The first process saves, all load, and train on alike."""
    model = DDP(Network())
    path = f"{folder}/model.pt"
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step(model, optimizer, torch.randn(20, 10), torch.randn(20, 5))
    agree(model)


def two_parts() -> None:
    """A model whose module is on several devices is given no list of them."""
    model = DDP(InTwoParts("cpu", "cpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step(model, optimizer, torch.randn(20, 10), torch.randn(20, 5))
    agree(model)


class Trainer:
    """Epochs over a set of points, with a snapshot after each."""

    def __init__(self, folder: str) -> None:
        self.rank, self.path, self.done = int(os.environ["RANK"]), f"{folder}/snapshot.pt", 0
        points = Points(64)
        self.sampler: DistributedSampler[Any] = DistributedSampler(points)
        self.loader = DataLoader(points, batch_size=8, shuffle=False, sampler=self.sampler)
        torch.manual_seed(0)
        network = Network()
        self.optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        if os.path.exists(self.path):
            snapshot = torch.load(self.path, weights_only=True)
            network.load_state_dict(snapshot["model"])
            self.done = snapshot["epochs"]
        self.model = DDP(network)

    def train(self, epochs: int) -> list[float]:
        """Goes on up to a number of epochs; the mean loss of each."""
        means = []
        for epoch in range(self.done, epochs):
            self.sampler.set_epoch(epoch)
            losses = [step(self.model, self.optimizer, x, y) for x, y in self.loader]
            means.append(sum(losses) / len(losses))
            if self.rank == 0:
                snapshot = {"model": self.model.module.state_dict(), "epochs": epoch + 1}
                torch.save(snapshot, self.path)
        return means


def snapshots(folder: str, epochs: int) -> list[float]:
    """A trainer that is stopped and another one that goes on give what one without a stop does."""
    wanted = Trainer(folder)
    means = wanted.train(epochs)
    dist.barrier()
    if wanted.rank == 0:
        os.remove(wanted.path)
    dist.barrier()
    Trainer(folder).train(1)
    dist.barrier()
    second = Trainer(folder)
    assert second.done == 1
    second.train(epochs)
    for one, other in zip(wanted.model.parameters(), second.model.parameters()):
        assert torch.equal(one, other)
    agree(second.model)
    return means


def uneven() -> None:
    """Processes with different numbers of batches; each has a part of the optimizer's state."""
    torch.manual_seed(0)
    model = DDP(Network(), gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    with Join([model, optimizer]):
        for _ in range(3 + dist.get_rank()):
            step(model, optimizer, torch.randn(4, 10), torch.randn(4, 5))
    agree(model)
    optimizer.consolidate_state_dict(to=0)
    if dist.get_rank() == 0:
        assert len(optimizer.state_dict()["state"]) == 4


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description="DistributedDataParallel.")
    parser.add_argument("--epochs", type=int, default=3)
    epochs = parser.parse_args().epochs
    dist.init_process_group("gloo")
    shared = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(shared)
    folder: Any = shared[0]
    torch.manual_seed(dist.get_rank())
    checkpoint(folder)
    two_parts()
    means = snapshots(folder, epochs)
    uneven()
    dist.barrier()
    if dist.get_rank() == 0:
        print(f"loss {means[0]:.4f} -> {means[-1]:.4f}; snapshots and processes agree")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
