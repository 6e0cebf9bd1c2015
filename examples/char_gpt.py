"""A character-level GPT that learns to write Python's documentation.

    python -m lazyt run examples/char_gpt.py [--steps 1500] [--no-compile] [--write 400]
                                             [--checkpoint FILE] [--every 100]
    python -m lazyt.distributed.run --nproc-per-node 4 --lazyt examples/char_gpt.py --exact 8

The text is that of the help topics that come with every Python (`pydoc_data.topics`). Four layers
of width 128, contexts of 128 characters, batches of 16. In the end it writes some text of its own.
With a checkpoint file, training that was interrupted goes on where that was written, to the bit.
With `--exact 8` each batch is cut into eight shares, which several processes divide among them: the
losses and weights are the same to the bit for any number of processes (lazyt only). `--zero` says
what the processes divide besides: with 1 the optimizer's state, with 2 the gradients, too, with 3
the parameters as well. With `--save DIR` they write a checkpoint together, every `--every` steps;
`--resume` goes on from it, on any number of processes.
With PyTorch it runs as `python examples/char_gpt.py`.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from pydoc_data.topics import topics
from typing import Any

import torch
import torch.nn.functional as F
import training_display
from torch import Tensor, nn

LAYERS, WIDTH, HEADS, CONTEXT, BATCH = 4, 128, 4, 128, 16
RATE, WARM_UP = 2e-3, 100


class Text:
    """The documentation as numbers: every tenth part of it is kept for the test."""

    def __init__(self) -> None:
        text = "\n".join(topics[name] for name in sorted(topics))
        self.letters = sorted(set(text))
        numbers = {letter: n for n, letter in enumerate(self.letters)}
        codes = torch.tensor([numbers[letter] for letter in text])
        cut = len(text) * 9 // 10
        self.train, self.test = codes[:cut].clone(), codes[cut:].clone()


class Attention(nn.Module):
    """Each position looks at itself and at those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """x [n, length, WIDTH] to the same shape."""
        n, length, width = x.shape
        parts = self.mix(x).reshape(n, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(n, length, width))


class Block(nn.Module):
    """Attention, then a layer of neurons, each added to what comes in."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.drop = nn.Dropout(dropout) if dropout else nn.Identity()
        self.attention = Attention()
        self.neurons = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """x [n, length, WIDTH] to the same shape."""
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.neurons(self.norm2(x)))


class GPT(nn.Module):
    """Scores of the next character, at every position."""

    def __init__(self, letters: int, layers: int = LAYERS, dropout: float = 0.0) -> None:
        super().__init__()
        self.letter = nn.Embedding(letters, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block(dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, letters, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:  # what is added to the stream begins smaller, as in GPT-2
                scale = 0.02 / math.sqrt(2 * layers) if name.endswith("out.weight") else 0.02
                nn.init.normal_(weight, std=scale)

    def forward(self, codes: Tensor) -> Tensor:
        """int64 [n, length] to float32 [n, length, letters]."""
        places = torch.arange(codes.shape[1])
        return self.head(self.norm(self.blocks(self.letter(codes) + self.position(places))))

    def loss(self, codes: Tensor) -> Tensor:
        """Mean nats per character of int64 [n, length + 1]."""
        return F.cross_entropy(self(codes[:, :-1]).flatten(0, 1), codes[:, 1:].flatten())


def draw_batch(codes: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Pieces from anywhere in the text: int64 [BATCH, CONTEXT + 1]."""
    starts = torch.randint(len(codes) - CONTEXT, (BATCH, 1), generator=generator)
    return codes[starts + torch.arange(CONTEXT + 1)]


def divide(net: GPT, zero: int) -> None:
    """From ``zero`` 2 on each process has a part of the parameters; with 3 they are whole only
    while a block needs them."""
    if zero >= 2:
        from torch.distributed.fsdp import fully_shard

        for block in net.blocks:
            fully_shard(block, reshard_after_forward=zero == 3)
        fully_shard(net, reshard_after_forward=zero == 3)


def make_optimizer(net: GPT, steps: int, zero: int = 0) -> tuple[torch.optim.Optimizer, Any]:
    """AdamW with a warm-up and a cosine; weights decay, biases and norms do not."""
    matrices = [w for w in net.parameters() if w.dim() == 2]
    others = [w for w in net.parameters() if w.dim() != 2]
    groups = [
        {"params": matrices, "weight_decay": 0.1},
        {"params": others, "weight_decay": 0.0},
    ]
    settings: dict[str, Any] = {"lr": RATE, "betas": (0.9, 0.95)}
    optimizer: torch.optim.Optimizer
    if zero == 1:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(groups, torch.optim.AdamW, **settings)
    else:
        optimizer = torch.optim.AdamW(groups, **settings)

    def rate(step: int) -> float:
        return min(1.0, (step + 1) / WARM_UP) * (0.55 + 0.45 * math.cos(math.pi * step / steps))

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def make_step(
    net: GPT, optimizer: torch.optim.Optimizer, shares: Any = None
) -> Callable[[Tensor], Tensor]:
    """What a batch does to the network; gives the loss before it. ``shares``: in how many of them,
    and on which ranks."""

    def step(codes: Tensor) -> Tensor:
        optimizer.zero_grad()
        if shares is None:
            loss = net.loss(codes)
            loss.backward()
        else:
            own = codes[shares.rows(len(codes))]
            loss = shares.backward(net.loss, own, parameters=net.parameters())
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


class Checkpoint:
    """All that training depends on, in a file: weights, optimizer, schedule, random numbers."""

    def __init__(self, path: str, **parts: Any) -> None:
        self.path, self.parts = path, parts

    def load(self) -> list[float]:
        """Takes over what the file holds, if there is one; the losses of the steps done."""
        if not os.path.exists(self.path):
            return []
        saved = torch.load(self.path)
        for name, part in self.parts.items():
            part.load_state_dict(saved[name])
        torch.set_rng_state(saved["random"])
        losses: list[float] = saved["losses"]
        return losses

    def save(self, losses: list[float]) -> None:
        """Writes the file in one step: whoever is interrupted here still has the one before."""
        states = {name: part.state_dict() for name, part in self.parts.items()}
        rest = {"random": torch.get_rng_state(), "losses": losses}
        torch.save({**states, **rest}, self.path + ".new")
        os.replace(self.path + ".new", self.path)


class SharedCheckpoint:
    """The same in a folder, which several processes write and read together."""

    def __init__(self, path: str, net: GPT, optimizer: Any, schedule: Any) -> None:
        self.path, self.net, self.optimizer, self.schedule = path, net, optimizer, schedule

    def _state(self) -> dict[str, Any]:
        from torch.distributed.checkpoint.state_dict import get_state_dict

        net, optimizer = get_state_dict(self.net, self.optimizer)
        rest = {"schedule": self.schedule.state_dict(), "random": torch.get_rng_state()}
        return {"net": net, "optimizer": optimizer, **rest}

    def load(self) -> list[float]:
        """Takes over what the folder holds, if there is a checkpoint; the losses of the steps
        done."""
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_state_dict

        if not os.path.exists(self.path) or not os.listdir(self.path):
            return []
        state: dict[str, Any] = {**self._state(), "losses": None}
        dcp.load(state, checkpoint_id=self.path)
        set_state_dict(
            self.net, self.optimizer,
            model_state_dict=state["net"], optim_state_dict=state["optimizer"],
        )  # fmt: skip
        self.schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["random"])
        losses: list[float] = state["losses"]
        return losses

    def save(self, losses: list[float]) -> None:
        """Writes the folder. Whoever is interrupted here still has the checkpoint before."""
        import torch.distributed.checkpoint as dcp

        dcp.save({**self._state(), "losses": losses}, checkpoint_id=self.path)


def train(
    net: GPT,
    text: Text,
    steps: int,
    compiled: bool,
    path: str = "",
    every: int = 100,
    shares: Any = None,
    zero: int = 0,
    folder: str = "",
    resume: bool = False,
) -> list[float]:
    """Trains the network; returns the loss of every step. ``path``: a checkpoint, written
    ``every`` so many steps and at the end; training goes on from it when it is there. ``shares``:
    see ``make_step``; the seed of each share is drawn at every step, outside of any capture."""
    optimizer, schedule = make_optimizer(net, steps, zero)
    step = make_step(net, optimizer, shares)
    if compiled and shares is None:
        step = torch.compile(step)
    checkpoint: Any = Checkpoint(path, net=net, optimizer=optimizer, schedule=schedule)
    if folder:
        checkpoint = SharedCheckpoint(folder, net, optimizer, schedule)
    losses = checkpoint.load() if resume or not folder else []
    with training_display.training(steps - len(losses), "GPT") as display:
        while len(losses) < steps:
            losses.append(step(draw_batch(text.train)).item())
            schedule.step()
            if (path or folder) and (len(losses) % every == 0 or len(losses) == steps):
                checkpoint.save(losses)
            display.done(f"{losses[-1]:.3f} nats per character")
    return losses


def test(score: Callable[[Tensor], Tensor], text: Text, count: int) -> float:
    """Mean loss over ``count`` batches of text that was not trained on, always the same."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        return sum(score(draw_batch(text.test, generator)).item() for _ in range(count)) / count


def write(net: GPT, text: Text, count: int) -> str:
    """``count`` characters, each drawn from what the network expects after those before it."""
    codes = torch.zeros(1, CONTEXT, dtype=torch.int64) + text.letters.index("\n")
    written = []
    with torch.no_grad():
        for _ in range(count):
            chances = F.softmax(net(codes)[0, -1] / 0.8, dim=0)
            new = torch.multinomial(chances, 1)
            written.append(text.letters[int(new)])
            codes = torch.cat([codes[:, 1:], new.reshape(1, 1)], 1)
    return "".join(written)


def start_ranks(count: int) -> tuple[Any, int]:
    """The shares of a batch, ``count`` of them, and which of the processes this is."""
    import torch.distributed as dist

    from lazyt.distributed import Shares

    if "RANK" in os.environ or "PMI_SIZE" in os.environ or "OMPI_COMM_WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
        return Shares(count), dist.get_rank()
    return Shares(count), 0


def whole_weights(net: GPT) -> list[float]:
    """All weights, wherever they are."""
    whole = [w.full_tensor() if hasattr(w, "full_tensor") else w for w in net.parameters()]
    return torch.cat([w.detach().reshape(-1) for w in whole]).tolist()


def digest(numbers: list[float]) -> str:
    """The first digits of a hash of numbers."""
    return hashlib.sha256(" ".join(map(float.hex, numbers)).encode()).hexdigest()[:16]


def main() -> None:
    """Train, test, write."""
    parser = training_display.arguments(__doc__, steps=1500)
    parser.add_argument("--write", type=int, default=400, help="characters (%(default)s)")
    parser.add_argument("--checkpoint", default="", metavar="FILE", help="where to go on from")
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--exact", type=int, default=0, metavar="SHARES", help="of each batch")
    parser.add_argument("--save", default="", metavar="DIR", help="where processes save together")
    parser.add_argument("--resume", action="store_true", help="go on from what --save has written")
    parser.add_argument("--layers", type=int, default=LAYERS, help="of the network (%(default)s)")
    parser.add_argument("--dropout", type=float, default=0.0, metavar="P", help="(%(default)s)")
    parser.add_argument("--zero", type=int, default=0, choices=range(4), help="what is divided")
    options = parser.parse_args()
    shares, rank = start_ranks(options.exact) if options.exact else (None, 0)
    torch.manual_seed(options.seed)
    text = Text()
    net = GPT(len(text.letters), 1 if options.short else options.layers, options.dropout)
    count = sum(w.numel() for w in net.parameters())
    print(f"{len(text.train)} characters to train with, {count} parameters")
    divide(net, options.zero)
    steps, tested, written = options.steps, 20, options.write
    if options.short:
        steps, tested, written = min(steps, 30), 1, 10
    losses = train(
        net, text, steps, not options.no_compile, options.checkpoint, options.every, shares,
        options.zero, options.save, options.resume,
    )  # fmt: skip
    net.eval()
    if options.exact:
        print(
            f"rank {rank}: last loss {losses[-1].hex()}, all losses {digest(losses)}, "
            f"weights {digest(whole_weights(net))}",
            flush=True,
        )
    # All processes compute this: where parameters are divided, they gather them together.
    found = f"on other text: {test(net.loss, text, tested):.3f} nats per character"
    text_written = write(net, text, written)
    if not rank:
        print(found, text_written, sep="\n")


if __name__ == "__main__":
    main()
