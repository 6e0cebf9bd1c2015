"""Runs programs of integers at the ends of their types on PyTorch and on lazyt.

``python -m tests.integer_edges.run_edges --record 2400`` records what PyTorch shows for the first
seeds (``recorded_edges.json.xz``); ``--seeds 0:20000`` compares both live, in the interpreter and
compiled. Both need PyTorch.
"""

from __future__ import annotations

import argparse
import importlib
import json
import lzma
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lazyt
from tests.integer_edges.edge_programs import digest, evaluate, program

RECORD = Path(__file__).with_name("recorded_edges.json.xz")
#: Programs that are compiled into one kernel.
TOGETHER = 40

Tensors = dict[tuple[str, str], dict[str, Any]]


def kind_of(error: Exception) -> str:
    """The name of an error's class in PyTorch."""
    return "RuntimeError" if isinstance(error, RuntimeError) else type(error).__name__


def shown_by_pytorch(seed: int, torch: Any, tensors: Tensors) -> str:
    """The digest of a program's result, or the name of the error that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return digest(evaluate(torch, seed, tensors))
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            return "raises " + kind_of(error)


def shown_here(seeds: Iterable[int], interpret: bool) -> Iterator[tuple[int, str]]:
    """The same on lazyt, many programs in one kernel."""
    tensors: Tensors = {}
    waiting: list[tuple[int, Any]] = []

    def looks() -> Iterator[tuple[int, str]]:
        lazyt.realize(*(tensor for _, tensor in waiting))
        yield from ((seed, digest(tensor)) for seed, tensor in waiting)
        waiting.clear()

    with lazyt.config.override(interpret=interpret):
        for seed in sorted(seeds, key=lambda s: program(s)[:2]):
            try:
                waiting.append((seed, evaluate(lazyt, seed, tensors)))
            except (RuntimeError, TypeError, ValueError, OverflowError) as error:
                yield seed, "raises " + kind_of(error)
            if len(waiting) == TOGETHER:
                yield from looks()
        yield from looks()


def recorded() -> dict[int, str]:
    """What PyTorch showed, by seed."""
    found: list[str] = json.loads(lzma.decompress(RECORD.read_bytes()))
    return dict(enumerate(found))


def differing(wanted: dict[int, str], interpret: bool) -> list[str]:
    """The programs that show something else; errors count as equal."""
    wrong = []
    for seed, shown in shown_here(wanted, interpret):
        if shown != wanted[seed] and not (shown[:6] == wanted[seed][:6] == "raises"):
            wrong.append(f"seed {seed}: {' '.join(program(seed))}: {wanted[seed]} -> {shown}")
    return wrong


def main() -> None:
    """Records, or compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=int, default=0, metavar="COUNT")
    parser.add_argument("--seeds", default="0:20000")
    parser.add_argument("--interpret", action="store_true", help="in the interpreter only")
    options = parser.parse_args()
    torch = importlib.import_module("torch")
    tensors: Tensors = {}
    if options.record:
        shown = [shown_by_pytorch(seed, torch, tensors) for seed in range(options.record)]
        text = json.dumps(shown).encode()
        RECORD.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
        print(len(shown), "recorded,", sum(s.startswith("raises") for s in shown), "raise")
        return
    first, _, end = options.seeds.partition(":")
    wanted = {seed: shown_by_pytorch(seed, torch, tensors) for seed in range(int(first), int(end))}
    print(sum(s.startswith("raises") for s in wanted.values()), "raise", flush=True)
    for interpret in (True,) if options.interpret else (True, False):
        wrong = differing(wanted, interpret)
        print("\n".join(wrong[:20]))
        print(f"{len(wanted)} programs, {len(wrong)} differ, {interpret=}", flush=True)


if __name__ == "__main__":
    main()
