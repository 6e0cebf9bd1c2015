"""The best rotation between two sets of points, for 100,000 pairs of sets at once.

    python -m lazyt run examples/alignment.py [--steps 20] [--sets 100000] [--no-compile]

Sets of 20 points are turned, moved and disturbed; Kabsch's method ("A solution for the best
rotation to relate two sets of vectors", 1976) finds the rotations from the singular vectors of 3 by
3 matrices. With PyTorch it runs as `python examples/alignment.py`.
"""

from __future__ import annotations

import torch
import training_display
from torch import Tensor

POINTS, NOISE = 20, 0.05


def rotations(count: int) -> Tensor:
    """Random rotations [count, 3, 3]: unit quaternions as matrices."""
    w, x, y, z = torch.nn.functional.normalize(torch.randn(count, 4)).unbind(1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, 1).reshape(count, 3, 3)


def draw_pairs(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sets [count, POINTS, 3], the same turned, moved and disturbed, and the rotations."""
    first, turned = torch.randn(count, POINTS, 3), rotations(count)
    second = first @ turned.mT + torch.randn(count, 1, 3) + NOISE * torch.randn(first.shape)
    return first, second, turned


def align(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Rotations R for which R p + t is nearest to q, and the distances that are left."""
    p = first - first.mean(1, keepdim=True)
    q = second - second.mean(1, keepdim=True)
    u, _, vh = torch.linalg.svd(p.mT @ q)
    # The volumes that both bases span, 1 or -1, tell whether the best map is a mirror image.
    mirrored = torch.linalg.det(u) * torch.linalg.det(vh) < 0
    last = torch.where(mirrored, -1.0, 1.0).reshape(-1, 1, 1)
    found = (vh.mT * torch.cat([torch.ones_like(last).expand(-1, 1, 2), last], 2)) @ u.mT
    rest = (p @ found.mT - q).pow(2).sum((1, 2)).div(p.shape[1]).sqrt()
    return found, rest


def main() -> None:
    """Draw pairs, align them, compare the rotations with those that were drawn."""
    parser = training_display.arguments(__doc__, steps=20)
    parser.add_argument("--sets", type=int, default=100_000, help="pairs (%(default)s)")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    count = min(options.sets, 2000) if options.short else options.sets
    first, second, turned = draw_pairs(count)
    run = align if options.no_compile else torch.compile(align)
    steps = 5 if options.short else options.steps
    with training_display.training(steps, "alignment") as display:
        for _ in range(steps):
            found, rest = run(first, second)
            display.done(f"distance {rest.mean().item():.4f}")
    cosines = ((found * turned).sum((1, 2)) - 1) / 2
    angles = torch.rad2deg(torch.acos(cosines.clamp(-1, 1)))
    mirrored = (torch.linalg.det(found) < 0).sum().item()
    print(f"{count} pairs: rotations off by {angles.mean().item():.2f} degrees, at most")
    left = rest.mean().item()
    print(f"{angles.max().item():.2f}, {mirrored} of them mirrored, points {left:.4f}")


if __name__ == "__main__":
    main()
