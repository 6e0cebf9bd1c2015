"""Records every value that tests look at, to compare whole runs of the suite bit by bit.

``--record-values FOLDER`` writes them, ``--compare-values FOLDER`` fails each test that looks at
another value than it did when they were written. Under ``LAZYT_EAGER=1 LAZYT_TIER=0`` the second
run shows that neither fusion nor kernels compiled for a graph change a bit: float16 and bfloat16
may differ by one rounding, all else must be equal.
Tests that looked at no value of the compiler's in the first run are left out of the second: those
of texts, shapes, errors and the interpreter, and those whose values are in processes of their own.
So are tests that failed or were interrupted in the first run: they looked at a part of their
values, and the report of their failure at others.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.config import config
from lazyt.functional.indexing.masks import COUNTING
from lazyt.handle.interop import numpy
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bfloat16, float16

#: dtype, shape, digest of the bytes; for 16-bit types the first bit patterns as well
Look = list[Any]

#: set for tests whose function returned
PASSED = pytest.StashKey[bool]()

#: how many elements of a 16-bit tensor are compared one by one
COMPARED = 4096


def steps_apart(new: list[int], old: list[int]) -> int:
    """The largest distance between two lists of 16-bit floats, in steps of the format."""

    def place(bits: int) -> int:  # on a line on which neighbouring numbers are neighbours
        return bits if bits < 0x8000 else 0x8000 - bits

    return max((abs(place(a) - place(b)) for a, b in zip(new, old, strict=True)), default=0)


def differ(new: Look, old: Look) -> bool:
    """Whether a look saw something else: another bit; in 16 bits, more than one rounding."""
    if new[:2] != old[:2]:
        return True
    if len(new) == 3:
        return bool(new[2] != old[2])
    return steps_apart(new[3], old[3]) > 1


class Recorder:
    """The looks of the test that runs, and those of all tests so far."""

    def __init__(self, folder: Path, compare: bool, worker: str) -> None:
        self.folder = folder
        self.compare = compare
        self.worker = worker
        self.tests: dict[str, list[Look]] = {}
        self.looks: list[Look] = []
        self.known: dict[str, list[Look]] = {}
        if compare:
            for path in sorted(folder.glob("*.json")):
                self.known.update(json.loads(path.read_text(encoding="utf-8")))
            if not self.known:
                raise pytest.UsageError(f"no values were recorded in {folder}: run make test first")
        else:
            folder.mkdir(parents=True, exist_ok=True)

    def watch(self, read: Callable[[Tensor, str], Any]) -> Callable[[Tensor, str], Any]:
        """``read``, which gives values as an array, that notes them."""

        def read_and_note(tensor: Tensor, reason: str) -> Any:
            stored = read(tensor, reason)
            if reason != COUNTING:  # counts are looked up again as long as their mask's node
                self._note(tensor.dtype, stored)  # lives, which is another time when eager
            return stored

        return read_and_note

    def watch_number(self, read: Callable[[Tensor, str], Any]) -> Callable[[Tensor, str], Any]:
        """``read``, which gives a single number, that notes it."""

        def read_and_note(tensor: Tensor, reason: str) -> Any:
            before = len(self.looks)
            number = read(tensor, reason)
            del self.looks[before:]  # the same, where it was read as an array of one element
            if tensor.dtype is bfloat16:
                self._note(bfloat16, (np.float32(number).view(np.uint32) >> 16).astype(np.uint16))
            else:
                self._note(tensor.dtype, np.array(number, tensor.dtype.numpy))
            return number

        return read_and_note

    def watch_shared(self, share: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
        """``share``, which gives an array on the memory of a tensor, that notes what is there."""

        def share_and_note(tensor: Tensor) -> Any:
            array = share(tensor)
            self._note(tensor.dtype, array)
            return array

        return share_and_note

    def _note(self, dtype: DType, values: Any) -> None:
        if config.interpret:  # NumPy's last bits depend on how operands lie in memory
            return
        if values.dtype.kind == "f":  # which NaN it is has no meaning
            values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
        values = np.ascontiguousarray(values)
        digest = hashlib.sha256(values.tobytes()).hexdigest()[:16]
        look = [dtype.name, list(values.shape), digest]
        if dtype in (float16, bfloat16):
            look.append(values.reshape(-1).view(np.uint16)[:COMPARED].tolist())
        self.looks.append(look)

    def finish(self, name: str) -> str | None:
        """Records or compares what the test looked at; the first difference, if there is one."""
        looks, self.looks = self.looks, []
        if not self.compare:
            self.tests[name] = looks
            return None
        known = self.known.get(name)
        if known is None:
            return None
        for number, (new, old) in enumerate(zip(looks, known, strict=False)):
            if differ(new, old):
                return f"look {number} of {len(known)}: was {old}, is {new}"
        if len(looks) != len(known):
            return f"{len(looks)} looks, were {len(known)}"
        return None

    def write(self) -> None:
        """Writes what was recorded, one file a process."""
        if not self.compare:
            path = self.folder / f"{self.worker}.json"
            path.write_text(json.dumps(self.tests), encoding="utf-8")


@contextmanager
def attached(recorder: Recorder) -> Iterator[None]:
    """Lets every module that reads values read them through ``recorder``."""
    ways: dict[str, Callable[[Any], Any]] = {
        "read_values": recorder.watch,
        "only_number": recorder.watch_number,
        "shared_array": recorder.watch_shared,
    }
    changed: list[tuple[Any, str, Any]] = []
    for name, watch in ways.items():
        original = getattr(numpy, name)
        watched = watch(original)
        for module in list(sys.modules.values()):
            if vars(module).get(name) is original:
                changed.append((module, name, original))
                setattr(module, name, watched)
    try:
        yield
    finally:
        for module, name, original in changed:
            setattr(module, name, original)


def around_test(recorder: Recorder, request: pytest.FixtureRequest) -> Iterator[None]:
    """The body of a fixture around every test."""
    if request.node.get_closest_marker("lazy") or request.node.get_closest_marker("varies"):
        yield
        return
    recorder.looks = []
    # Tests run in another order and on other workers each time.
    lazyt.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    with attached(recorder):
        yield
    if not request.node.stash.get(PASSED, False):
        return
    difference = recorder.finish(request.node.nodeid)
    if difference is not None:
        how = "eager" if config.eager else "lazy"
        pytest.fail(f"other values than in the recorded run ({how} now): {difference}")
