"""A potential learned from forces: the loss contains a gradient, training takes its gradient.

    python -m lazyt run examples/forces.py [--steps 1500] [--no-compile] [--out potential.png]

Clusters of seven atoms that attract and repel each other as Lennard-Jones (1924) has it. The
network sees positions and forces, never an energy: it gives an energy, whose gradient must be the
forces. So every step differentiates twice. The picture compares the pair potential that it found
with the true one. With PyTorch it runs as `python examples/forces.py`.
"""

from __future__ import annotations

import torch
import training_display
from torch import Tensor, nn

ATOMS, BATCH, TRAIN, TEST = 7, 32, 512, 128
NEAREST, CUTOFF, WAVES = 0.8, 3.5, 24


def pair_energy(distances: Tensor) -> Tensor:
    """The true energy of a pair of atoms: 4 (r^-12 - r^-6)."""
    inverse = distances**-6
    return 4 * (inverse * inverse - inverse)


def pair_distances(positions: Tensor) -> Tensor:
    """Distances [n, pairs] of the atoms at positions [n, ATOMS, 3]."""
    first, second = torch.triu_indices(ATOMS, ATOMS, 1)
    steps = positions[:, first] - positions[:, second]
    return steps.pow(2).sum(-1).sqrt()


def forces_of(energy: Tensor, positions: Tensor, create_graph: bool = False) -> Tensor:
    """Minus the gradient of the energy, [n, ATOMS, 3]."""
    (slope,) = torch.autograd.grad(energy.sum(), positions, create_graph=create_graph)
    return -slope


def draw_clusters(count: int) -> tuple[Tensor, Tensor]:
    """Positions and forces, each [count, ATOMS, 3], of clusters in which no atoms collide."""
    found: list[Tensor] = []
    while sum(len(part) for part in found) < count:
        positions = 1.1 * torch.randn(4096, ATOMS, 3)
        distances = pair_distances(positions)
        good = (distances.amin(1) > 0.95) & (distances.amax(1) < CUTOFF)
        found.append(positions[good])
    positions = torch.cat(found)[:count].requires_grad_()
    forces = forces_of(pair_energy(pair_distances(positions)), positions)
    return positions.detach(), forces


class Potential(nn.Module):
    """A sum over pairs of a smooth function of their distance."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centers", torch.linspace(NEAREST, CUTOFF, WAVES))
        self.neurons = nn.Sequential(
            nn.Linear(WAVES, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1)
        )

    def pair(self, distances: Tensor) -> Tensor:
        """Energies of pairs at these distances, of the same shape."""
        width = (CUTOFF - NEAREST) / WAVES
        bumps = torch.exp(-(((distances.unsqueeze(-1) - self.centers) / width) ** 2) / 2)
        return self.neurons(bumps).squeeze(-1) / distances**2

    def forward(self, positions: Tensor) -> Tensor:
        """Energies [n] of clusters [n, ATOMS, 3]."""
        return self.pair(pair_distances(positions)).sum(1)


def train(net: Potential, data: tuple[Tensor, Tensor], steps: int, compiled: bool) -> list[float]:
    """Matches the forces; returns the loss of every step."""
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    all_positions, all_forces = data

    def step(positions: Tensor, true_forces: Tensor) -> Tensor:
        positions = positions.detach().requires_grad_()
        optimizer.zero_grad()
        forces = forces_of(net(positions), positions, create_graph=True)
        loss = (forces - true_forces).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    losses = []
    with training_display.training(steps, "forces") as display:
        for _ in range(steps):
            chosen = torch.randint(TRAIN, (BATCH,))
            losses.append(step(all_positions[chosen], all_forces[chosen]).item())
            schedule.step()
            display.done(f"loss {losses[-1]:.4f}")
    return losses


def test(net: Potential, data: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """The root of the mean squared error of the forces, and of the forces themselves."""
    positions = data[0].clone().requires_grad_()
    wrong = forces_of(net(positions), positions) - data[1]
    return wrong.pow(2).mean().sqrt().item(), data[1].pow(2).mean().sqrt().item()


def draw(net: Potential, path: str) -> None:
    """Both pair potentials; as only forces are known, they may differ by a constant."""
    plt = training_display.pyplot()
    if plt is None:
        return
    distances = torch.linspace(0.97, 3.2, 200)
    with torch.no_grad():
        learned, true = net.pair(distances), pair_energy(distances)
        learned = learned - (learned - true)[40:].mean()
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    axes.plot(distances.numpy(), true.numpy(), lw=4, alpha=0.4, label="Lennard-Jones")
    axes.plot(distances.numpy(), learned.numpy(), "--", label="learned from forces")
    axes.set(xlabel="distance", ylabel="energy of a pair")
    axes.legend()
    figure.savefig(path, dpi=110)
    print(f"picture in {path}")


def main() -> None:
    """Draw clusters, train, test, draw the potential."""
    parser = training_display.arguments(__doc__, steps=1500)
    parser.add_argument("--out", default="potential.png", help="the picture (%(default)s)")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    data, other = draw_clusters(TRAIN), draw_clusters(TEST)
    net = Potential()
    train(net, data, 40 if options.short else options.steps, not options.no_compile)
    error, size = test(net, other)
    print(f"other clusters: error of the forces {error:.4f}, their size {size:.4f}")
    draw(net, options.out)


if __name__ == "__main__":
    main()
