"""Programs as plain data: lists of Python statements over PyTorch's API.

A statement is a line or a block (``if``, ``for``, ``with``). It refers to the module under test as
``torch``, to NumPy as ``np``, and to what earlier statements made by name: ``t0`` for tensors,
``a0`` for arrays, ``n0`` for anything else. ``look()`` observes every value; ``realize(t0)`` does
on a lazy module what its name says, and nothing on others.

A statement that raises binds no name, and the program goes on. One that needs a name which an
earlier statement failed to bind raises NameError, everywhere alike. So any part of a program is a
program, which is what the minimiser lives on.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Facts = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """A program, and what a module showed when it ran.

    Attributes:
        seed: the number it was made from.
        steps: its statements.
        facts: what was seen after each of them, empty when it was not run.
    """

    seed: int
    steps: tuple[str, ...]
    facts: tuple[Facts, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.steps)


def save(programs: Iterable[Program], path: Path) -> None:
    """Write programs and what they showed, compressed."""
    rows = [[p.seed, list(p.steps), list(p.facts)] for p in programs]
    text = "\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    path.write_bytes(lzma.compress(text.encode(), preset=9))


def load(path: Path) -> list[Program]:
    """The programs of a file written by ``save``."""
    rows = [json.loads(line) for line in lzma.decompress(path.read_bytes()).decode().split("\n")]
    return [Program(seed, tuple(steps), tuple(facts)) for seed, steps, facts in rows]
