"""Gradient accumulation: a batch of 512 images in eight parts, with the memory of one.

    python -m lazyt run examples/accumulation.py [--steps 60] [--parts 8] [--no-compile]

`backward()` adds to the gradients that are there, so calling it for each part and stepping once
is the same as one step for the whole batch. Both are trained, from the same weights, and compared.
With PyTorch it runs as `python examples/accumulation.py`.
"""

from __future__ import annotations

import digit_images
import torch
import torch.nn.functional as F
import training_display
from torch import Tensor, nn

BATCH = 512


def make_network(seed: int) -> nn.Module:
    """A convolutional network without batch norm, which would see the parts' own statistics."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.GELU(), nn.Conv2d(16, 32, 3, padding=1), nn.GELU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def train(net: nn.Module, chosen: Tensor, parts: int, compiled: bool) -> list[float]:
    """One step for every row of ``chosen`` [steps, BATCH], each in so many parts; the losses."""
    images, labels, *_ = digit_images.load()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def add_gradients(images: Tensor, labels: Tensor) -> Tensor:
        loss = F.cross_entropy(net(images), labels) / parts
        loss.backward()
        return loss.detach()

    def update() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)  # to zeros: each call finds the same state

    if compiled:
        add_gradients, update = torch.compile(add_gradients), torch.compile(update)
    losses = []
    with training_display.training(len(chosen), f"{parts} part(s)") as display:
        for rows in chosen:
            pairs = [(images[part], labels[part]) for part in rows.chunk(parts)]
            losses.append(sum(add_gradients(*pair).item() for pair in pairs))
            update()
            display.done(f"loss {losses[-1]:.4f}")
    return losses


def main() -> None:
    """Train in one part and in several, compare."""
    parser = training_display.arguments(__doc__, steps=60)
    parser.add_argument("--parts", type=int, default=8, help="of a batch (%(default)s)")
    options = parser.parse_args()
    if options.parts < 1 or BATCH % options.parts:
        parser.error(f"--parts must divide {BATCH}")
    steps = 3 if options.short else options.steps
    torch.manual_seed(options.seed)
    chosen = torch.randint(1437, (steps, BATCH))
    whole, split = make_network(options.seed), make_network(options.seed)
    one = train(whole, chosen, 1, not options.no_compile)
    many = train(split, chosen, options.parts, not options.no_compile)
    apart = max(abs(a - b) for a, b in zip(one, many))
    pairs = zip(whole.parameters(), split.parameters())
    weights = max((a - b).abs().max().item() for a, b in pairs)
    print(f"last loss {one[-1]:.4f} and {many[-1]:.4f}")
    print(f"greatest difference: {apart:.1e} of the losses, {weights:.1e} of the weights")


if __name__ == "__main__":
    main()
