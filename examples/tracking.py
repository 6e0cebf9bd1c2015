"""A Kalman filter that follows 10,000 bodies at once, from measurements of where they are.

    python -m lazyt run examples/tracking.py [--steps 200] [--tracks 10000] [--no-compile]

Each body has a state of six numbers, its position and velocity in space. A step predicts all of
them, weighs the measurement against the prediction (Kalman, "A new approach to linear filtering and
prediction problems", 1960), and corrects state and covariance, in Joseph's form, which keeps that
positive. With PyTorch it runs as `python examples/tracking.py`.
"""

from __future__ import annotations

import torch
import training_display
from torch import Tensor

TIME, PUSH, ERROR = 0.1, 0.5, 0.4


def motion() -> tuple[Tensor, Tensor]:
    """How states move in a step, [6, 6], and the covariance of unknown accelerations."""
    one, moves = torch.eye(3), torch.eye(6)
    moves[:3, 3:] = TIME * one
    effect = torch.cat([one * TIME**2 / 2, one * TIME]) * PUSH
    return moves, effect @ effect.mT


def follow(
    state: Tensor, spread: Tensor, seen: Tensor, moves: Tensor, pushes: Tensor
) -> tuple[Tensor, Tensor]:
    """States [n, 6, 1] and covariances [n, 6, 6] after a measurement [n, 3, 1]."""
    state = moves @ state
    spread = moves @ spread @ moves.mT + pushes
    noise = ERROR**2 * torch.eye(3)
    # The gain K solves (H P H' + R) K' = H P; H picks the position.
    gain = torch.linalg.solve(spread[:, :3, :3] + noise, spread[:, :3]).mT
    state = state + gain @ (seen - state[:, :3])
    rest = torch.eye(6) - torch.nn.functional.pad(gain, (0, 3))
    return state, rest @ spread @ rest.mT + ERROR**2 * (gain @ gain.mT)


def main() -> None:
    """Move bodies, measure them, follow them."""
    parser = training_display.arguments(__doc__, steps=200)
    parser.add_argument("--tracks", type=int, default=10_000, help="bodies (%(default)s)")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    count = min(options.tracks, 500) if options.short else options.tracks
    steps = 40 if options.short else options.steps
    truth = torch.cat([torch.randn(count, 3, 1) * 5, torch.randn(count, 3, 1)], 1)
    state, spread = torch.zeros(count, 6, 1), (25 * torch.eye(6)).repeat(count, 1, 1)
    moves, pushes = motion()
    run = follow if options.no_compile else torch.compile(follow)
    error = raw = 0.0
    with training_display.training(steps, "tracking") as display:
        for _ in range(steps):
            push = PUSH * torch.randn(count, 3, 1)
            truth = moves @ truth + torch.cat([push * TIME**2 / 2, push * TIME], 1)
            seen = truth[:, :3] + ERROR * torch.randn(count, 3, 1)
            state, spread = run(state, spread, seen, moves, pushes)
            error = (state - truth)[:, :3].pow(2).sum(1).mean().sqrt().item()
            raw = (seen - truth[:, :3]).pow(2).sum(1).mean().sqrt().item()
            display.done(f"error {error:.4f}")
    expected = spread[:, :3, :3].diagonal(0, 1, 2).sum(1).mean().sqrt().item()
    print(f"{count} bodies: measurements off by {raw:.3f}, the filter by {error:.3f},")
    print(f"as it expects: {expected:.3f}")


if __name__ == "__main__":
    main()
