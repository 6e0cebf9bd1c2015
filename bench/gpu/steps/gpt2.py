"""A training step of GPT-2 (124M, bf16 autocast, AdamW): lazyt, or PyTorch with torch.compile.

    python -m bench.gpu.steps.gpt2 [--framework lazyt|compile|torch] [--batch 4] [--profile]

The same lines for both. ``--profile`` (lazyt) waits after every kernel and lists where time goes.
"""

from __future__ import annotations

import argparse
import importlib
import time
from typing import Any

from bench.gpu.steps.report import DEVICE, EMULATED, SMALL, Report, left, median


def options() -> argparse.Namespace:
    """The command line; sizes of the network, small in rehearsals."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--framework", default="lazyt", choices=("lazyt", "compile", "torch"))
    parser.add_argument("--batch", type=int, default=2 if SMALL else 4)
    parser.add_argument("--length", type=int, default=16 if SMALL else 1024)
    parser.add_argument("--layers", type=int, default=1 if SMALL else 12)
    parser.add_argument("--width", type=int, default=64 if SMALL else 768)
    parser.add_argument("--words", type=int, default=128 if SMALL else 50304)
    parser.add_argument("--profile", action="store_true")
    return parser.parse_args()


def network(t: Any, given: argparse.Namespace) -> Any:
    """GPT-2, with its loss; ``t`` is lazyt or torch."""
    nn, functional = t.nn, t.nn.functional
    module: Any = nn.Module
    width, length = given.width, given.length

    class Block(module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def attention(self, x: Any) -> Any:
            heads = (given.batch, length, width // 64, 64)
            q, k, v = (u.view(heads).transpose(1, 2) for u in self.mix(x).split(width, dim=2))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).contiguous().view(given.batch, length, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class GPT(module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.word, self.place = nn.Embedding(given.words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(given.layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, given.words, bias=False)
            self.head.weight = self.word.weight
            for weight in self.parameters():
                if weight.dim() == 2:
                    nn.init.normal_(weight, std=0.02)

        def forward(self, codes: Any, wanted: Any) -> Any:
            x = self.word(codes) + self.place(t.arange(length, device=codes.device))
            for block in self.blocks:
                x = block(x)
            scores = self.head(self.norm(x)).view(-1, given.words).float()
            return functional.cross_entropy(scores, wanted.view(-1))

    return GPT()


def timed(t: Any, own: bool, work: Any) -> list[float]:
    """Seconds of steps, by events."""
    t.cuda.synchronize()
    times = []
    for _ in range(3 if EMULATED else 10):
        if left() < 5:
            break
        start, end = (t.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        loss = work()
        if own:
            t.realize(loss)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return times


def train(t: Any, given: argparse.Namespace, report: Report) -> str:
    """The first step, some more, and then their times."""
    own = given.framework == "lazyt"
    t.manual_seed(0)
    net = network(t, given).to(DEVICE)
    optimizer = t.optim.AdamW(net.parameters(), 3e-4, weight_decay=0.1)
    shape = given.batch, given.length
    codes, wanted = (t.randint(0, given.words, shape, device=DEVICE) for _ in range(2))
    forward = t.compile(net) if given.framework == "compile" else net

    def step(codes: Any, wanted: Any) -> Any:
        optimizer.zero_grad()
        with t.autocast("cuda", dtype=t.bfloat16):
            loss = forward(codes, wanted)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run: Any = t.jit(step) if own else step
    begun = time.perf_counter()
    losses = [run(codes, wanted).item()]
    report.put("first_step_s", time.perf_counter() - begun)
    print(f"first step {report.data['first_step_s']:.1f} s, loss {losses[0]:.3f}", flush=True)
    losses += [run(codes, wanted).item() for _ in range(4)]
    report.put("losses", losses)
    assert all(x == x for x in losses) and losses[-1] < losses[0], losses
    seconds = median(timed(t, own, lambda: run(codes, wanted)))
    rate, peak = given.batch * given.length / seconds, t.cuda.max_memory_allocated() / 1e9
    report.data |= {"step_s": seconds, "tokens_per_s": rate, "peak_GB": peak}
    if own:
        report.put("why", run.why())
        if given.profile and left() > 10:
            profile(t, report, lambda: run(codes, wanted))
    change = f"loss {losses[0]:.3f} -> {losses[-1]:.3f}"
    return f"{seconds * 1e3:.1f} ms a step, {rate:.0f} tokens/s, peak {peak:.1f} GB, {change}"


def profile(t: Any, report: Report, work: Any) -> None:
    """Each kernel by the host's clock, one by one: an upper bound of its time, by some 10 us."""
    from lazyt.runtime import events

    found: list[events.Timing] = []
    events.watching.append(found)
    try:
        t.realize(work())
        t.cuda.synchronize()
    finally:
        events.watching.remove(found)
    rows: dict[str, list[float]] = {}
    for timing in found:
        note: Any = timing.note
        if note.get("kind") == "plan":
            continue
        computes = "; ".join(note.get("computes", ()))[:70]
        row = rows.setdefault(
            f"{note.get('kind')} {computes} | {note.get('form', '')!s:.40}", [0] * 4
        )
        nbytes = float(note.get("bytes_read", 0)) + float(note.get("bytes_written", 0))
        new = (1, timing.end - timing.begin, nbytes, float(note.get("flops", 0)))
        row[:] = [a + b for a, b in zip(row, new)]
    table = sorted(rows.items(), key=lambda pair: -pair[1][1])
    names = "count", "seconds", "bytes", "flops"
    report.put("profile", {key: dict(zip(names, row)) for key, row in table})
    total = sum(row[1] for row in rows.values())
    for key, (count, seconds, nbytes, flops) in table[:15]:
        print(
            f"{seconds / total:6.1%} {seconds * 1e3:8.2f} ms {count:4.0f} x "
            f"{nbytes / seconds / 1e9:6.0f} GB/s {flops / seconds / 1e12:7.2f} TFLOP/s  {key}",
            flush=True,
        )


def main() -> None:
    """One framework, if it is there."""
    given = options()
    report = Report(f"gpt2.{given.framework}")
    try:
        t = importlib.import_module("lazyt" if given.framework == "lazyt" else "torch")
    except ImportError:
        if given.framework == "lazyt" or not EMULATED:
            raise
        report.end("no PyTorch")
    if given.framework != "lazyt" and EMULATED and not t.cuda.is_available():
        report.end("no GPU for PyTorch")
    name = f"step B={given.batch} T={given.length} layers={given.layers}"
    report.end(report.check(name, lambda: train(t, given, report)) or "")


if __name__ == "__main__":
    main()
