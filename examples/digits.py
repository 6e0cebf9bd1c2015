"""Train a small convolutional network on handwritten digits, written with plain tensors.

    python examples/digits.py [--epochs 20] [--seed 0] [--out demo-output]

Nothing here is a class or a decorator: forward pass, gradients and the optimizer's updates are
ordinary tensor code. One ``lazyt.realize`` per step computes them all as one plan of fused
kernels, compiled at the first step and found again at every other one.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table
    from sklearn.datasets import load_digits
except ImportError as missing:
    sys.exit(f"{missing}\nThis needs more packages: pip install scikit-learn matplotlib rich")

import lazyt
import lazyt.nn.functional as F
from lazyt import Tensor

BEGUN = time.perf_counter()  # what follows is lazyt's own time

if TYPE_CHECKING:
    from lazyt.plan.explain import Explanation

BATCH = 64
RATE = 0.1
MOMENTUM = 0.9


# ----------------------------------------------------------------------- data


@dataclass
class Digits:
    """1797 images of 8x8 pixels, scaled to 0..1, of which every fifth is kept for the test."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load_data() -> Digits:
    """The digits that come with scikit-learn, split 80/20 by a fixed shuffle."""
    digits = load_digits()
    images = lazyt.tensor(digits.images, dtype=lazyt.float32).unsqueeze(1) / 16
    labels = lazyt.tensor(digits.target, dtype=lazyt.int64)
    shuffle = lazyt.Generator().manual_seed(2026)
    order = lazyt.randperm(len(digits.target), generator=shuffle)
    cut = len(digits.target) * 4 // 5
    train, test = order[:cut], order[cut:]
    parts = (images[train], labels[train], images[test], labels[test])
    lazyt.realize(*parts)
    return Digits(*parts)


# -------------------------------------------------------------------- network


@dataclass
class Network:
    """Two 3x3 convolutions and a linear layer: weights, and the momentum of each."""

    weights: list[Tensor]
    momenta: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.momenta = [lazyt.zeros_like(w) for w in self.weights]

    def state(self) -> list[Tensor]:
        """Everything that a step changes."""
        return [*self.weights, *self.momenta]


def make_network() -> Network:
    """Weights drawn as He et al. (2015) propose for rectified layers."""

    def draw(*shape: int) -> Tensor:
        inputs = lazyt.Size(shape[1:]).numel()
        return (lazyt.randn(*shape) * (2 / inputs) ** 0.5).requires_grad_()

    def zeros(count: int) -> Tensor:
        return lazyt.zeros(count, requires_grad=True)

    net = Network(
        [draw(16, 1, 3, 3), zeros(16), draw(32, 16, 3, 3), zeros(32), draw(10, 512), zeros(10)]
    )
    lazyt.realize(*net.state())
    return net


def predict(images: Tensor, weights: list[Tensor]) -> Tensor:
    """Scores [n, 10] of images [n, 1, 8, 8]."""
    first, first_bias, second, second_bias, last, last_bias = weights
    hidden = F.conv2d(images, first, first_bias, padding=1).relu()
    hidden = F.conv2d(hidden, second, second_bias, padding=1).relu()
    return F.max_pool2d(hidden, 2).flatten(1) @ last.T + last_bias


# ------------------------------------------------------------------- training


def record_step(data: Digits, chosen: Tensor, net: Network, rate: Tensor) -> Tensor:
    """Forward pass, gradients and the update by momentum; computes nothing. Returns the loss."""
    scores = predict(data.train_images[chosen], net.weights)
    loss = F.cross_entropy(scores, data.train_labels[chosen])
    slopes = lazyt.autograd.grad(loss, net.weights)
    with lazyt.no_grad():
        for weight, momentum, slope in zip(net.weights, net.momenta, slopes, strict=True):
            momentum.mul_(MOMENTUM).add_(slope)
            weight.sub_(rate * momentum)
    return loss.detach()


def accuracy(images: Tensor, labels: Tensor, net: Network) -> float:
    """Share of the images whose highest score is at the label."""
    with lazyt.no_grad():
        hits = predict(images, net.weights).argmax(1) == labels
        return hits.float().mean().item()


@dataclass
class History:
    """Loss and test accuracy after every epoch, and what a training step runs."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    report: Explanation | None = None


def train_epoch(
    data: Digits, net: Network, rate: float, history: History, on_step: Callback
) -> None:
    """One pass over the training images in random order."""
    steps = len(data.train_labels) // BATCH  # whole batches only: one shape, one plan
    batches = lazyt.randperm(len(data.train_labels)).split(BATCH)[:steps]
    step_size = lazyt.tensor(rate)  # an input of the plan, so that its value may change
    lazyt.realize(*batches)
    losses = []
    for chosen in batches:
        losses.append(record_step(data, chosen, net, step_size))
        if history.report is None:  # all steps are alike
            history.report = lazyt.explain(losses[-1], *net.state())
        lazyt.realize(losses[-1], *net.state())
        on_step()
    history.losses.append(lazyt.stack(losses).mean().item())


class Callback:
    """Moves the progress bar, and says once when the first step was done."""

    def __init__(self, console: Console, progress: Progress, task: int) -> None:
        self.console, self.progress, self.task = console, progress, task
        self.first = True

    def __call__(self) -> None:
        if self.first:
            self.first = False
            self.console.print(f"first training step {startup_text()}")
        self.progress.advance(self.task)


def startup_text() -> str:
    """How long it took until now, and what had to be compiled."""
    from lazyt.runtime import events

    compiled, loaded = events.recorded("compile"), events.recorded("load")
    kernels = sum(int(str(event.details["kernels"])) for event in compiled)
    return (
        f"after {time.perf_counter() - BEGUN:.1f} s ({len(compiled)} plans of {kernels} kernels "
        f"compiled, {len(loaded)} plans from the disk cache)"
    )


def train(data: Digits, net: Network, epochs: int, console: Console) -> History:
    """Train with a live display."""
    history = History()
    steps = epochs * (len(data.train_labels) // BATCH)
    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]}  test accuracy {task.fields[hits]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("train", total=steps, epoch=0, loss="-", hits="-")
        on_step = Callback(console, progress, task)
        for epoch in range(1, epochs + 1):
            rate = RATE * (1 + math.cos(math.pi * (epoch - 1) / epochs)) / 2
            train_epoch(data, net, rate, history, on_step)
            history.accuracies.append(accuracy(data.test_images, data.test_labels, net))
            loss, hits = f"{history.losses[-1]:.4f}", f"{history.accuracies[-1]:.1%}"
            progress.update(task, epoch=epoch, loss=loss, hits=hits)
            console.print(f"epoch {epoch:2}  loss {loss}  test accuracy {hits}", highlight=False)
    return history


# --------------------------------------------------------------------- report


def show_report(report: Explanation, console: Console) -> None:
    """The kernels of a step as a table."""
    title = f"one training step: {len(report.kernels)} kernels"
    table = Table("#", "kind", "computes", "read", "written", title=title)
    for number, kernel in enumerate(report.kernels, 1):
        read, written = f"{kernel.bytes_read / 1e3:.1f} kB", f"{kernel.bytes_written / 1e3:.1f} kB"
        table.add_row(str(number), kernel.kind, ", ".join(kernel.computes), read, written)
    console.print(table)
    console.print("The reasons of every decision: print(lazyt.explain(loss, *state))")


def draw_result(history: History, data: Digits, net: Network, folder: Path) -> Path:
    """A picture of the loss curve and of 32 test digits, the wrong ones first and in red."""
    with lazyt.no_grad():
        guesses = predict(data.test_images, net.weights).argmax(1).tolist()
    labels = data.test_labels.tolist()
    wrong_first = sorted(range(len(labels)), key=lambda i: guesses[i] == labels[i])[:32]
    figure = plt.figure(figsize=(12, 5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(2, 3))
    axes = left.subplots()
    epochs = range(1, len(history.losses) + 1)
    axes.plot(epochs, history.losses, marker="o", label="training loss")
    axes.plot(epochs, history.accuracies, marker="s", label="test accuracy")
    axes.set_xlabel("epoch")
    axes.legend()
    for place, index in zip(right.subplots(4, 8).flat, wrong_first, strict=True):
        place.imshow(data.test_images[index, 0].numpy(), cmap="gray_r")
        place.set_axis_off()
        good = guesses[index] == labels[index]
        place.set_title(
            f"{guesses[index]}" if good else f"{guesses[index]}, is {labels[index]}",
            color="black" if good else "red",
            fontsize=10,
        )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "digits.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def main() -> None:
    """Train, report, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=RawText)
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training images")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and batches")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="for the picture")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    console = Console()
    lazyt.manual_seed(options.seed)
    data, net = load_data(), make_network()
    history = train(data, net, options.epochs, console)
    if history.report is not None:
        show_report(history.report, console)
    path = draw_result(history, data, net, options.out)
    console.print(f"test accuracy {history.accuracies[-1]:.1%}, picture in {path}", soft_wrap=True)
    console.print(f"all done {startup_text()}")


RawText = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    main()
