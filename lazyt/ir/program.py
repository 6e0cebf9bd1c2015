"""The neutral value in which code generation hands text to the runtime.

A Program is everything the runtime needs to compile and run a plan, and nothing else: source
text, entry names, buffer slots and an arena layout. It converts to JSON and back, which is how
the disk cache stores it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Grid(NamedTuple):
    """One launch of a CUDA function, which takes the kernel's buffers.

    Attributes:
        function: its name.
        blocks, threads: the grid and the block, in one dimension each.
        shared_bytes: dynamic shared memory of a block.
        collective: whether threads wait for each other.
    """

    function: str
    blocks: int
    threads: int
    shared_bytes: int
    collective: bool


@dataclass(frozen=True)
class KernelSource:
    """One kernel as text.

    Attributes:
        name: the C function's name, ``void name(char *b0, char *b1, ..., int threads)``; with
            segments ``void name(char **table, const lz_i64 *extents, const lz_i64 *starts,
            int count, int threads)``.
        text: C (or CUDA C) of the function and of what it needs beside the prelude.
        prelude: names of prelude sections that the text uses, in order.
        arity: how many buffer pointers the function takes (for each segment).
        numbers: C types of the numbers that it takes between them and the threads.
        unit: with segments, at multiples of how many elements each of them begins in ``starts``.
        grids: in CUDA C, the functions that one call of it launches, one after the other.
    """

    name: str
    text: str
    prelude: tuple[str, ...]
    arity: int
    numbers: tuple[str, ...] = ()
    unit: int = 0
    grids: tuple[Grid, ...] = ()


@dataclass(frozen=True)
class Launch:
    """One call of a kernel: which slot each pointer argument comes from, and how many bytes behind
    its beginning each of the first ones points.

    ``extents``: of a kernel with segments, the elements of each; slots and offsets are those of the
    first segment, then those of the second, and so on. ``numbers``: C text of what it is given for
    its ``KernelSource.numbers``.
    """

    kernel: str
    slots: tuple[int, ...]
    offsets: tuple[int, ...] = ()
    extents: tuple[int, ...] = ()
    numbers: tuple[str, ...] = ()


_LAUNCH = ("slots", "offsets", "extents", "numbers")


@dataclass(frozen=True)
class Slot:
    """Where a pointer comes from.

    Attributes:
        kind: ``input`` (number ``index`` of the plan's inputs), ``output`` (number ``index`` of its
            outputs) or ``arena`` (``offset`` bytes into the plan's scratch arena).
        nbytes: size in bytes.
    """

    kind: str
    index: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Program:
    """A plan as text.

    Attributes:
        target: the name of what printed it: ``c``, ``cuda``, or that of a registered one.
        sections: (name, text) of the prelude functions in use, dependencies first.
        kernels: distinct kernels; equal kernels occur once.
        entry: C text of ``void lz_plan(char **slots, int threads)``, which makes all the launches.
        slots: buffer slots that launches refer to.
        launches: calls in order.
        arena_bytes: size of the scratch arena.
        results: where each requested value is: output ``n``, or input ``-n - 1`` when
            nothing had to be computed. Equal values share an output.
        donated: the inputs whose memory launches write to, which their owner needs no more, each
            with the number of the root that is there in the end, -1 for none.
        values: what the last input holds, 8 bytes each, of a program that takes sizes as arguments.
        notes: human-readable facts about each launch, for ``explain()``: a JSON-compatible dict
            per launch.
    """

    target: str
    sections: tuple[tuple[str, str], ...]
    kernels: tuple[KernelSource, ...]
    entry: str
    slots: tuple[Slot, ...]
    launches: tuple[Launch, ...]
    arena_bytes: int
    results: tuple[int, ...] = ()
    donated: tuple[tuple[int, int], ...] = ()
    values: tuple[int | float, ...] = ()
    notes: tuple[dict[str, object], ...] = field(default=(), compare=False)

    @property
    def overwritten(self) -> tuple[int, ...]:
        """Numbers of the inputs that launches write to."""
        return tuple([number for number, _ in self.donated])

    def to_json(self) -> str:
        """The program as lines of JSON text: what is short, then parts of what is long."""
        short = {name: value for name, value in vars(self).items() if name not in _READERS}
        lines = [_dumped(short)]
        for name in _READERS:
            items = getattr(self, name)
            plain = items if name in ("sections", "notes") else [vars(item) for item in items]
            for start in range(0, len(plain), _TOGETHER):
                lines.append(_dumped([name, plain[start : start + _TOGETHER]]))
        return "\n".join(lines)

    @staticmethod
    def from_json(text: str, between: Callable[[], object] | None = None) -> Program:
        """The program that ``to_json`` wrote; else raises ValueError, KeyError or TypeError.
        ``between`` is called after every millisecond's work or less."""
        first, *lines = text.split("\n")
        raw = json.loads(first)
        lists: dict[str, list[Any]] = {name: [] for name in _READERS}
        for line in lines:
            name, items = json.loads(line)
            read = _READERS[name]
            lists[name] += [read(item) for item in items]
            if between is not None:
                between()
        return Program(
            target=raw["target"],
            entry=raw["entry"],
            arena_bytes=int(raw["arena_bytes"]),
            results=tuple(int(n) for n in raw["results"]),
            donated=tuple((int(n), int(root)) for n, root in raw["donated"]),
            values=tuple(raw["values"]),
            **{name: tuple(items) for name, items in lists.items()},
        )

    def fingerprint(self) -> str:
        """A hash of what is computed and where: texts, slots and launches, not the notes."""
        places = self.slots, self.results, self.launches, self.arena_bytes
        facts = (self.text_hash(), *places, self.values)
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def text_hash(self) -> str:
        """A hash of what decides the binary. Programs that take sizes as arguments share one."""
        digest = hashlib.sha256()
        for text in (self.entry, *(k.text for k in self.kernels), *(t for _, t in self.sections)):
            digest.update(text.encode())
            digest.update(b"\0")
        digest.update(self.target.encode())
        grids = [kernel.grids for kernel in self.kernels]
        if any(grids):
            digest.update(repr(grids).encode())
        return digest.hexdigest()


def _dumped(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _source(raw: dict[str, Any]) -> KernelSource:
    lists = {item: tuple(raw[item]) for item in ("prelude", "numbers")}
    return KernelSource(**(raw | lists | {"grids": tuple(Grid(*g) for g in raw["grids"])}))


def _slot(raw: dict[str, Any]) -> Slot:
    return Slot(**raw)


def _launch(raw: dict[str, Any]) -> Launch:
    return Launch(raw["kernel"], *(tuple(raw[k]) for k in _LAUNCH))


#: What may be long in a program, and what makes its parts of what JSON has of them; and how many
#: parts there are in a line.
_READERS: dict[str, Callable[[Any], Any]] = {
    "sections": tuple, "kernels": _source, "slots": _slot, "launches": _launch, "notes": dict,
}  # fmt: skip
_TOGETHER = 32
