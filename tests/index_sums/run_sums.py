"""Runs sums by index in 16 bits: ``python -m tests.index_sums.run_sums``.

``--record 2400`` records what PyTorch gives for the first seeds, computed in float32 and rounded
(``recorded_sums.json.xz``); ``--seeds 0:20000`` compares live. Both need PyTorch.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import lzma
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lazyt
from tests.index_sums.sum_programs import program

RECORD = Path(__file__).with_name("recorded_sums.json.xz")
#: Programs that are realized together.
TOGETHER = 40


def digest(tensor: Any) -> str:
    """A tensor's type, shape and values in 12 digits."""
    array = np.ascontiguousarray(tensor.float().numpy())
    head = f"{str(tensor.dtype).rpartition('.')[2]}{array.shape}".encode()
    return hashlib.sha256(head + (array + 0).tobytes()).hexdigest()[:12]


def right(seed: int, torch: Any) -> str:
    """What PyTorch gives in float32, rounded once."""
    _, half, run = program(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return digest(run(torch, "float32").detach().to(getattr(torch, half)))


def shown_here(seeds: Iterable[int], interpret: bool) -> Iterator[tuple[int, str]]:
    """What lazyt gives in 16 bits."""
    waiting: list[tuple[int, Any]] = []

    def looks() -> Iterator[tuple[int, str]]:
        lazyt.realize(*(tensor for _, tensor in waiting))
        yield from ((seed, digest(tensor)) for seed, tensor in waiting)
        waiting.clear()

    with lazyt.config.override(interpret=interpret):
        for seed in seeds:
            _, half, run = program(seed)
            waiting.append((seed, run(lazyt, half)))
            if len(waiting) == TOGETHER:
                yield from looks()
        yield from looks()


def recorded() -> dict[int, str]:
    """What is right, by seed."""
    found: list[str] = json.loads(lzma.decompress(RECORD.read_bytes()))
    return dict(enumerate(found))


def differing(wanted: dict[int, str], interpret: bool) -> list[str]:
    """The programs that give something else."""
    return [
        f"seed {seed}: {' '.join(program(seed)[:2])}: {wanted[seed]} -> {shown}"
        for seed, shown in shown_here(wanted, interpret)
        if shown != wanted[seed]
    ]


def main() -> None:
    """Records, or compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=int, default=0, metavar="COUNT")
    parser.add_argument("--seeds", default="0:20000")
    parser.add_argument("--compiled", default="0:0", help="seeds that are compiled as well")
    options = parser.parse_args()
    torch = importlib.import_module("torch")
    if options.record:
        text = json.dumps([right(seed, torch) for seed in range(options.record)]).encode()
        RECORD.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
        return
    for seeds, interpret in ((options.seeds, True), (options.compiled, False)):
        first, _, end = seeds.partition(":")
        wanted = {seed: right(seed, torch) for seed in range(int(first), int(end))}
        wrong = differing(wanted, interpret)
        print("\n".join(wrong[:20]))
        print(f"{len(wanted)} programs, {len(wrong)} differ, {interpret=}", flush=True)


if __name__ == "__main__":
    main()
