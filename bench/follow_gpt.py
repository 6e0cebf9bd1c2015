"""Train the network of examples/char_gpt.py in PyTorch and in lazyt, and compare the losses.

    python bench/follow_gpt.py [--steps 200] [--peer-python FILE] [--json FILE] [--invented]

Both start from the same weights and take the same batches, which NumPy draws. The losses of every
step are compared; `--peer-python` is the Python that has PyTorch. The text is the example's, which
differs between versions of Python, or an invented one. `--run lazyt` prints the losses of one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
RATE_STEPS = 1500  # how long a training the learning rates are those of


def use_as_torch(module: Any) -> None:
    """Makes ``import torch`` give another module of PyTorch's API."""
    for name in ("", ".nn", ".nn.functional"):
        __import__(module.__name__ + name)
        sys.modules["torch" + name] = sys.modules[module.__name__ + name]


def set_weights(torch: Any, net: Any) -> None:
    """Fills the network's matrices with NumPy's normal numbers, biases with zeros."""
    source = np.random.default_rng(0)
    with torch.no_grad():
        for name, weight in sorted(net.named_parameters()):
            if name.endswith("bias"):
                weight.zero_()
            elif weight.dim() == 2:
                drawn = source.standard_normal(tuple(weight.shape), dtype=np.float32)
                weight.copy_(torch.from_numpy(drawn * np.float32(0.02)))


def draw_starts(length: int, context: int, batch: int, steps: int) -> np.ndarray[Any, Any]:
    """Where in the text the pieces of every batch begin: [steps, batch, 1]."""
    return np.random.default_rng(1).integers(0, length - context, (steps, batch, 1))


def invent_text(count: int, letters: int) -> np.ndarray[Any, Any]:
    """Words drawn from a list of 200, the first ones most often, each ended by letter 0."""
    source = np.random.default_rng(2)
    words = [[*source.integers(1, letters, source.integers(2, 8)), 0] for _ in range(200)]
    drawn = (200 * source.random(count // 3) ** 3).astype(int)
    return np.concatenate([words[n] for n in drawn])[:count]


def run(name: str, steps: int, invented: bool) -> list[float]:
    """The losses of one framework in this process."""
    if name == "lazyt":
        import lazyt

        lazyt.config.tier = 1  # kernels, before anything runs

        use_as_torch(lazyt)
    sys.path.insert(0, str(HERE.parent / "examples"))
    import char_gpt
    import torch

    if invented:
        letters, codes = 64, invent_text(20_000, 64)
    else:
        text = char_gpt.Text()
        letters, codes = len(text.letters), text.train.numpy()
    net = char_gpt.GPT(letters)
    set_weights(torch, net)
    optimizer, schedule = char_gpt.make_optimizer(net, RATE_STEPS)
    step = char_gpt.make_step(net, optimizer)
    if name == "lazyt":
        step = torch.compile(step)
    losses = []
    for starts in draw_starts(len(codes), char_gpt.CONTEXT, char_gpt.BATCH, steps):
        batch = codes[starts + np.arange(char_gpt.CONTEXT + 1)]
        losses.append(step(torch.from_numpy(batch)).item())
        schedule.step()
    return losses


def ask(python: str, name: str, options: argparse.Namespace) -> list[float]:
    """The losses of one framework in a process of its own."""
    more = ["--invented"] * options.invented
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [python, __file__, "--run", name, "--steps", str(options.steps), *more],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)},
    )
    losses: list[float] = json.loads(done.stdout.splitlines()[-1])
    return losses


def main() -> int:
    """Train twice, compare, print; 1 when any loss is off by more than half a percent."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--invented", action="store_true", help="train on an invented text")
    parser.add_argument("--run", choices=("torch", "lazyt"), help="only this one, no comparison")
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(options.run, options.steps, options.invented)))
        return 0
    theirs = ask(options.peer_python, "torch", options)
    ours = ask(sys.executable, "lazyt", options)
    off = [abs(a - b) / b for a, b in zip(ours, theirs, strict=True)]
    worst = off.index(max(off))
    print(f"PyTorch {theirs[0]:.4f} ... {theirs[-1]:.4f}, lazyt {ours[0]:.4f} ... {ours[-1]:.4f}")
    print(f"largest difference {100 * off[worst]:.4f} %, at step {worst}")
    if options.json:
        facts = {"largest_difference": off[worst], "torch": theirs, "lazyt": ours}
        options.json.write_text(json.dumps(facts, indent=1) + "\n")
    return off[worst] > 0.005


if __name__ == "__main__":
    sys.exit(main())
