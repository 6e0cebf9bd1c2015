"""Training in float32, in bfloat16 by autocast, and in float16 with a scaled loss, side by side.

    python -m lazyt run examples/mixed_precision.py [--steps 300] [--no-compile]

Weights and optimizer stay float32; autocast lets matrix products run in the smaller type. float16
has no room for small gradients, so GradScaler makes the loss larger before the backward pass and
skips steps whose gradients overflow. With PyTorch it runs as `python examples/mixed_precision.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import digit_images
import torch
import training_display
from torch import Tensor, nn

BATCH = 128


@dataclass
class Result:
    """What came of one precision."""

    name: str
    loss: float
    accuracy: float
    scale: float
    milliseconds: float


def train(name: str, dtype: torch.dtype, steps: int, seed: int, compiled: bool) -> Result:
    """Trains a network from the same weights on the same batches."""
    torch.manual_seed(seed)
    images, labels, test_images, test_labels = digit_images.load()
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
        nn.Linear(256, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    small = dtype is not torch.float32
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, enabled=dtype is torch.float16)

    def forward(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype if small else torch.bfloat16, enabled=small):
            loss = nn.functional.cross_entropy(net(images), labels)
        scaler.scale(loss).backward()
        return loss.detach()

    if compiled:
        forward = torch.compile(forward)
    with training_display.training(steps, name) as display:
        for _ in range(steps):
            chosen = torch.randint(len(labels), (BATCH,))
            loss = forward(images[chosen], labels[chosen])
            scaler.step(optimizer)  # looks for gradients that overflowed, so it is not compiled
            scaler.update()
            display.done(f"loss {loss.item():.4f}")
    with torch.no_grad():
        hits = (net(test_images).argmax(1) == test_labels).float().mean().item()
    times = sorted(display.times)
    return Result(name, loss.item(), hits, scaler.get_scale(), 1e3 * times[len(times) // 2])


def main() -> None:
    """Train three times, print a table."""
    options = training_display.arguments(__doc__, steps=300).parse_args()
    steps = 20 if options.short else options.steps
    kinds = [("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float16)]
    results = [train(*kind, steps, options.seed, not options.no_compile) for kind in kinds]
    print(f"{'precision':10} {'loss':>10} {'accuracy':>9} {'scale':>8} {'ms a step':>10}")
    for r in results:
        print(f"{r.name:10} {r.loss:10.6f} {r.accuracy:9.1%} {r.scale:8.0f} {r.milliseconds:10.2f}")


if __name__ == "__main__":
    main()
