"""A variational autoencoder (Kingma and Welling, 2013) that draws digits.

    python -m lazyt run examples/autoencoder.py [--steps 2000] [--no-compile]

Two numbers per image are all that the decoder gets; the picture shows what it makes of a grid of
them, and of test images. With PyTorch it runs as `python examples/autoencoder.py`.
"""

from __future__ import annotations

import digit_images
import torch
import torch.nn.functional as F
import training_display
from torch import Tensor, nn

CODE, HIDDEN, BATCH = 2, 128, 128


class Autoencoder(nn.Module):
    """Images to the mean and the spread of a code, and codes to images."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(64, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, HIDDEN), nn.SiLU(),
            nn.Linear(HIDDEN, 2 * CODE),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(CODE, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, HIDDEN), nn.SiLU(),
            nn.Linear(HIDDEN, 64),
        )  # fmt: skip

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the variance, each [n, CODE], of images [n, 1, 8, 8]."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        return mean, log_variance

    def decode(self, codes: Tensor) -> Tensor:
        """Images [n, 1, 8, 8] of codes [n, CODE]."""
        return torch.sigmoid(self.decoder(codes)).reshape(-1, 1, 8, 8)

    def loss(self, images: Tensor) -> Tensor:
        """The bound on the images' likelihood, with its sign changed: nats per image."""
        mean, log_variance = self.encode(images)
        codes = mean + torch.randn_like(mean) * torch.exp(log_variance / 2)
        scores = self.decoder(codes)
        wrong = F.binary_cross_entropy_with_logits(scores, images.flatten(1), reduction="sum")
        far = -0.5 * torch.sum(1 + log_variance - mean**2 - log_variance.exp())
        return (wrong + far) / len(images)


def train(net: Autoencoder, images: Tensor, steps: int, compiled: bool) -> None:
    """Trains on random batches."""
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)

    def step(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net.loss(batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    with training_display.training(steps, "autoencoder") as display:
        for _ in range(steps):
            loss = step(images[torch.randint(len(images), (BATCH,))])
            display.done(f"{loss.item():.2f} nats per image")


def draw(net: Autoencoder, images: Tensor, path: str) -> None:
    """A grid of codes, decoded, beside test images and what is left of them."""
    side = 16
    marks = torch.linspace(-2.2, 2.2, side)
    codes = torch.stack([marks.repeat(side), marks.repeat_interleave(side).flip(0)], 1)
    with torch.no_grad():
        tiles = F.pad(net.decode(codes), (1, 1, 1, 1)).reshape(side, side, 10, 10)
        grid = tiles.transpose(1, 2).reshape(10 * side, -1)
        again = net.decode(net.encode(images[:8])[0])
    print(as_text(again[:4].squeeze(1)))
    plt = training_display.pyplot()
    if plt is None:
        return
    pairs = F.pad(torch.cat([images[:8], again], 3), (0, 0, 1, 1)).reshape(80, 16)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8, 6), width_ratios=(4, 1), layout="constrained"
    )
    left.imshow(grid.numpy(), cmap="gray_r")
    left.set_title("codes from -2.2 to 2.2, decoded")
    right.imshow(pairs.numpy(), cmap="gray_r")
    right.set_title("test, decoded")
    for axes in (left, right):
        axes.set_axis_off()
    figure.savefig(path, dpi=110)
    print(f"picture in {path}")


def as_text(images: Tensor) -> str:
    """Images [n, 8, 8] side by side, in characters."""
    levels = " .:-=+*#@"
    rows = (images * (len(levels) - 0.01)).long().permute(1, 0, 2).tolist()
    return "\n".join(
        "  ".join("".join(2 * levels[n] for n in part) for part in row) for row in rows
    )


def main() -> None:
    """Train, test, draw."""
    parser = training_display.arguments(__doc__, steps=2000)
    parser.add_argument("--out", default="digits_drawn.png", help="the picture (%(default)s)")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    images, _, test_images, _ = digit_images.load()
    net = Autoencoder()
    train(net, images, 60 if options.short else options.steps, not options.no_compile)
    with torch.no_grad():
        print(f"test images: {net.loss(test_images).item():.2f} nats each")
    draw(net, test_images, options.out)


if __name__ == "__main__":
    main()
