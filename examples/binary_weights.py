"""A custom autograd.Function: a network whose weights are all +1 or -1.

    python -m lazyt run examples/binary_weights.py [--steps 600] [--no-compile] [--out weights.png]

The sign of a weight has no useful gradient. As Courbariaux, Bengio and David (2015) do it, the
forward pass takes the sign and the backward pass acts as if it had not, except where a weight has
gone beyond one: a gradient that no formula of the forward pass gives, so it is written by hand.
With PyTorch it runs as `python examples/binary_weights.py`.
"""

from __future__ import annotations

from typing import Any

import digit_images
import torch
import training_display
from torch import Tensor, nn


class Sign(torch.autograd.Function):
    """+1 or -1, with the gradient of a clamp."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor) -> Tensor:
        """The sign, +1 for zero."""
        ctx.save_for_backward(weights)
        return torch.where(weights >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> Tensor:
        """Slopes pass where the weight lies between -1 and 1."""
        (weights,) = ctx.saved_tensors
        return slopes * (weights.abs() <= 1)


class BinaryLinear(nn.Linear):
    """A linear layer that keeps weights as numbers and uses their signs."""

    def forward(self, x: Tensor) -> Tensor:
        """x [n, in] to [n, out], scaled so that the spread stays as it is."""
        scale = self.in_features**-0.5
        return nn.functional.linear(x, Sign.apply(self.weight) * scale, self.bias)


def make_network() -> nn.Module:
    """Three layers with signs for weights, normed in between."""
    return nn.Sequential(
        nn.Flatten(), BinaryLinear(64, 256), nn.BatchNorm1d(256), nn.Hardtanh(),
        BinaryLinear(256, 256), nn.BatchNorm1d(256), nn.Hardtanh(), BinaryLinear(256, 10),
    )  # fmt: skip


def train(net: nn.Module, images: Tensor, labels: Tensor, steps: int, compiled: bool) -> None:
    """Trains on random batches."""
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)

    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    with training_display.training(steps, "signs") as display:
        for _ in range(steps):
            chosen = torch.randint(len(labels), (128,))
            loss = step(images[chosen], labels[chosen])
            display.done(f"loss {loss.item():.4f}")


def draw(net: nn.Module, path: str) -> None:
    """The signs of the first layer as pictures of 8x8."""
    plt = training_display.pyplot()
    if plt is None:
        return
    signs = Sign.apply(net[1].weight.detach())[:64].reshape(8, 8, 8, 8)
    signs = nn.functional.pad(signs, (1, 1, 1, 1)).transpose(1, 2).reshape(80, 80)
    figure, axes = plt.subplots(figsize=(5, 5), layout="constrained")
    axes.imshow(signs.numpy(), cmap="coolwarm")
    axes.set_axis_off()
    axes.set_title("64 neurons of the first layer")
    figure.savefig(path, dpi=110)
    print(f"picture in {path}")


def main() -> None:
    """Train, test, draw."""
    parser = training_display.arguments(__doc__, steps=600)
    parser.add_argument("--out", default="weights.png", help="the picture (%(default)s)")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    images, labels, test_images, test_labels = digit_images.load()
    net = make_network()
    train(net, images, labels, 40 if options.short else options.steps, not options.no_compile)
    net.eval()
    with torch.no_grad():
        hits = (net(test_images).argmax(1) == test_labels).float().mean().item()
    bits = sum(m.weight.numel() for m in net.modules() if isinstance(m, BinaryLinear))
    print(f"test accuracy {hits:.1%} with {bits} weights of one bit ({bits // 8} bytes)")
    draw(net, options.out)


if __name__ == "__main__":
    main()
