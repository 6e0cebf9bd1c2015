"""A convolutional network on handwritten digits, written as for PyTorch.

    python -m lazyt run examples/digits_cnn.py [--steps 400] [--no-compile] [--out digits_cnn.png]

Modules, a DataLoader, AdamW with a schedule. The picture has the loss, and the confusion matrix
over the test images. With PyTorch it runs as `python examples/digits_cnn.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import digit_images
import torch
import training_display
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 64


def make_network() -> nn.Module:
    """Two blocks of convolution, batch norm and pooling, then a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10),
    )  # fmt: skip


def batches(loader: DataLoader, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """``count`` batches, beginning again whenever the data are used up."""
    while True:
        for images, labels in loader:
            if count == 0:
                return
            count -= 1
            yield images, labels


def train(
    net: nn.Module, images: Tensor, labels: Tensor, steps: int, compiled: bool
) -> list[float]:
    """Trains the network; returns the loss of every step."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)

    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(net(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    loader = DataLoader(TensorDataset(images, labels), BATCH, shuffle=True, drop_last=True)
    losses = []
    with training_display.training(steps, "digits") as display:
        for batch in batches(loader, steps):
            losses.append(step(*batch).item())
            schedule.step()
            display.done(f"loss {losses[-1]:.3f}")
    return losses


def confusion(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """How often each label (row) was taken for each digit (column): int64 [10, 10]."""
    net.eval()
    with torch.no_grad():
        guesses = net(images).argmax(1)
    return torch.bincount(labels * 10 + guesses, minlength=100).reshape(10, 10)


def draw(losses: list[float], table: Tensor, path: str) -> None:
    """The loss and the confusion matrix as a picture."""
    plt = training_display.pyplot()
    if plt is None:
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    left.plot(losses)
    left.set(xlabel="step", ylabel="loss", yscale="log", title="training")
    right.imshow(table.numpy(), cmap="Blues")
    for row, counts in enumerate(table.tolist()):
        for column, count in enumerate(counts):
            if count:
                color = "white" if count > 20 else "black"
                right.text(column, row, str(count), ha="center", va="center", color=color)
    right.set(xlabel="guess", ylabel="label", xticks=range(10), yticks=range(10))
    right.set_title("test images")
    figure.savefig(path, dpi=110)
    print(f"picture in {path}")


def main() -> None:
    """Train, test, draw."""
    parser = training_display.arguments(__doc__, steps=400)
    parser.add_argument("--out", default="digits_cnn.png", help="the picture (%(default)s)")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    images, labels, test_images, test_labels = digit_images.load()
    net = make_network()
    steps = 40 if options.short else options.steps
    losses = train(net, images, labels, steps, not options.no_compile)
    table = confusion(net, test_images, test_labels)
    right = int(table.diagonal().sum())
    print(f"test accuracy {right / len(test_labels):.1%} ({right} of {len(test_labels)})")
    draw(losses, table, options.out)


if __name__ == "__main__":
    main()
