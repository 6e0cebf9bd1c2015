"""The two sides of a comparison: processes that are given the same inputs at the same moment."""

from __future__ import annotations

import json
import mmap
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lazyt.bench.judge import build
from lazyt.bench.judge.memory import POISONS, Place, layout
from lazyt.bench.judge.process import Limits, Process, python_path
from lazyt.bench.judge.tasks import Case
from lazyt.bench.judge.verdicts import Refusal
from lazyt.bench.problems import Array, Dims


class Side(ABC):
    """A process with the arrays of some calls.

    Attributes:
        process: what runs.
        cases: the calls that are prepared.
        places: for each call, where its inputs and then its results are.
        poison: what results hold before the calls.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.cases: Sequence[Case] = ()
        self.places: list[list[Place]] = []
        self.poison = POISONS[0]
        self.readonly = False
        self._mapped: object = None

    @abstractmethod
    def _announce(self, dims: Dims, readonly: bool, remap: bool) -> None:
        """Tells the process where the arrays are, before they hold anything."""

    def prepare(
        self, cases: Sequence[Case], dims: Dims, *, at_end: bool, readonly: bool, remap: bool,
        poison: int, order: Sequence[int],
    ) -> None:  # fmt: skip
        """Says what the next calls get.

        Args:
            cases: the calls.
            dims: their sizes.
            at_end: whether arrays end at a guard page, or begin at one.
            readonly: whether the pages of inputs cannot be written.
            remap: whether arrays get addresses of their own, or those of the calls before if
                these are as large.
            poison: one of ``POISONS``.
            order: of the arrays in memory.
        """
        arrays = [[*case.inputs, *case.rounded] for case in cases]
        sizes = [array.nbytes for call in arrays for array in call]
        found = layout(sizes, at_end)
        each = len(arrays[0])
        calls = [found[n : n + each] for n in range(0, len(found), each)]
        self.places = [calls[n] for n in order]
        self.process.memory.reserve(found[-1].offset + found[-1].span)
        self.cases, self.poison, self.readonly = cases, poison, readonly
        key = (tuple(sizes), at_end, readonly)
        self._announce(dims, readonly, remap or key != self._mapped)
        self._mapped = key

    def fill(self) -> None:
        """Writes the inputs and poisons the rest, while the process stands still."""
        self.process.stop()
        memory = self.process.memory
        for case, places in zip(self.cases, self.places):
            for place in places:
                memory.part(place)[:] = self.poison
            for array, place in zip(case.inputs, places):
                memory.array(place, array)[...] = array

    def forget(self) -> None:
        """Makes caches forget all arrays."""
        for places in self.places:
            for place in places:
                build.forget(self.process.memory.part(place))

    def run(self) -> float:
        """Makes the calls; their seconds. Raises Refusal with the array that a fault concerns."""
        try:
            return self.process.go()
        except Refusal as refusal:
            raise self._explained(refusal) from None

    def _explained(self, refusal: Refusal) -> Refusal:
        return refusal

    def results(self, number: int) -> list[Array]:
        """What a call wrote."""
        case, places = self.cases[number], self.places[number]
        after = places[len(case.inputs) :]
        return [self.process.memory.array(p, like) for p, like in zip(after, case.rounded)]

    def require_untouched(self, number: int, in_place: bool, names: Sequence[str]) -> None:
        """Raises Refusal where inputs, or bytes around arrays, are not what they were."""
        case, memory = self.cases[number], self.process.memory
        for name, place in zip(names, self.places[number]):
            part, end = memory.part(place), place.within + place.nbytes
            for start, around in ((0, part[: place.within]), (end, part[end:])):
                if (around != self.poison).any():
                    first = start + int((around != self.poison).argmax()) - place.within
                    beyond = first - place.nbytes
                    where = f"{-first} bytes before" if first < 0 else _behind(beyond)
                    raise Refusal("bounds", f"it wrote {where} {name}")
        if in_place:
            return
        for name, array, place in zip(names, case.inputs, self.places[number]):
            now = memory.array(place, array)
            changed = (_raw(now) != _raw(array)).reshape(-1)
            if changed.any():
                first = int(changed.argmax()) // array.itemsize
                evidence = f"it changed the input {name}: element {first} is {now.flat[first]}, "
                raise Refusal("inputs", evidence + f"and was {array.flat[first]}")

    def close(self) -> None:
        """Ends the process."""
        self.process.close()


def _behind(count: int) -> str:
    return f"{count} bytes behind the end of" if count else "directly behind the end of"


def _raw(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class NativeSide(Side):
    """A kernel in C, called by the driver."""

    def __init__(self, library: Path, limits: Limits, names: Sequence[str]) -> None:
        self.names = names
        words = [str(build.driver()[0]), str(library), "{in}", "{out}", "{memory}"]
        super().__init__(Process(words, limits, {}))
        try:
            self.guarded = self.process.understood(self.process.hear()) == "ready guarded"
        except Refusal:
            self.process.close()
            raise
        self._addresses: list[int] = []

    def _announce(self, dims: Dims, readonly: bool, remap: bool) -> None:
        flat = sorted((place for call in self.places for place in call), key=lambda p: p.part)
        if remap:
            inputs = {p.part for call in self.places for p in call[: len(self.cases[0].inputs)]}
            lines = [f"{p.offset} {p.span} {int(readonly and p.part in inputs)}" for p in flat]
            answer = self.process.ask(f"map {len(flat)}\n" + "\n".join(lines))
            words = answer.split()[1:]
            self._addresses = [int(word) for word in words if word.isdigit()]
        case = self.cases[0]
        each = len(self.places[0])
        counts = f"{len(self.cases)} {each} {len(dims)} {len(case.numbers)}"
        arrays = [f"{p.part} {p.within}" for call in self.places for p in call]
        numbers = [str(extent) for extent in dims.values()] + [repr(n) for n in case.numbers]
        self.process.ask(f"set {counts}\n" + "\n".join([*arrays, *numbers]))

    def _explained(self, refusal: Refusal) -> Refusal:
        name, _, place = refusal.evidence.partition(" at 0x")
        if refusal.kind != "crash" or not place or name not in ("SIGSEGV", "SIGBUS"):
            return refusal
        address, page = int(place, 16), mmap.PAGESIZE
        for call in self.places:
            for number, p in enumerate(call):
                if p.part >= len(self._addresses):
                    continue
                offset = address - self._addresses[p.part] - p.within
                if not -p.within - page <= offset < p.span - p.within + page:
                    continue
                what = self.names[number]
                if 0 <= offset < p.nbytes:
                    return Refusal("inputs", f"it wrote to the input {what}, byte {offset}")
                beyond = offset - p.nbytes
                where = f"{-offset} bytes before" if offset < 0 else _behind(beyond)
                return Refusal("bounds", f"it touched memory {where} {what}")
        return Refusal("crash", f"{name} at an address of no array ({address:#x})")


class PythonSide(Side):
    """Python code, called by ``child``.

    Args:
        settings: what ``child`` is told; see there.
        python: the interpreter; this one by default.
        limits: what it may use.
        environment: what it has besides.
    """

    def __init__(
        self, settings: Mapping[str, Any], limits: Limits, python: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        program = str(Path(__file__).with_name("child.py"))
        words = [python or sys.executable, "-B", program, "{in}", "{out}", "{memory}"]
        paths = {"PYTHONPATH": python_path(python), "PYTHONHASHSEED": "0"}
        super().__init__(Process(words, limits, {**paths, **(environment or {})}))
        try:
            self.process.ask(json.dumps(settings), limits.start)
        except Refusal:
            self.process.close()
            raise

    def _announce(self, dims: Dims, readonly: bool, remap: bool) -> None:
        calls = []
        for case, places in zip(self.cases, self.places):
            described = [
                [p.offset + p.within, list(array.shape), str(array.dtype)]
                for p, array in zip(places, [*case.inputs, *case.rounded])
            ]
            calls.append([described, len(case.inputs), list(case.numbers)])
        self.process.ask(json.dumps({"calls": calls}))
