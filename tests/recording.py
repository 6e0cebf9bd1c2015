"""Records every value that tests look at, to compare whole runs of the suite bit by bit.

``--record-values FOLDER`` writes them, ``--compare-values FOLDER`` fails each test that looks at
another value than it did when they were written. Under ``LAZYT_EAGER=1`` the second run shows that
fusion changes no bit: float16 and bfloat16 may differ by a rounding, all else must be equal.
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
from lazyt import numpy_bridge
from lazyt.config import config
from lazyt.ir.dtypes import bfloat16, float16
from lazyt.tensor import Tensor

#: dtype, shape, digest of the bytes
Look = list[Any]


class Recorder:
    """The looks of the test that runs, and those of all tests so far."""

    def __init__(self, folder: Path, compare: bool, worker: str) -> None:
        self.folder = folder
        self.compare = compare
        self.worker = worker
        self.tests: dict[str, list[Look]] = {}
        self.looks: list[Look] = []
        self.inexact = False
        self.known: dict[str, list[Look]] = {}
        if compare:
            for path in sorted(folder.glob("*.json")):
                self.known.update(json.loads(path.read_text(encoding="utf-8")))
        else:
            folder.mkdir(parents=True, exist_ok=True)

    def watch(self, read: Callable[[Tensor, str], Any]) -> Callable[[Tensor, str], Any]:
        """``read`` that notes what it gives."""

        def read_and_note(tensor: Tensor, reason: str) -> Any:
            values = stored = read(tensor, reason)
            if config.interpret:  # NumPy's last bits depend on how operands lie in memory
                return stored
            self.inexact |= tensor.dtype in (float16, bfloat16)
            if values.dtype.kind == "f":  # which NaN it is has no meaning
                values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
            digest = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]
            self.looks.append([tensor.dtype.name, list(values.shape), digest])
            return stored

        return read_and_note

    def finish(self, name: str) -> str | None:
        """Keeps or compares what the test looked at; the first difference, if there is one."""
        looks, inexact = self.looks, self.inexact
        self.looks, self.inexact = [], False
        if not self.compare:
            self.tests[name] = looks
            return None
        known = self.known.get(name)
        if known is None or inexact:
            return None
        for number, (new, old) in enumerate(zip(looks, known, strict=False)):
            if new != old:
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
def _attached(recorder: Recorder) -> Iterator[None]:
    """Lets every module that reads values read them through ``recorder``."""
    original = numpy_bridge.read_values
    watched = recorder.watch(original)
    readers: list[Any] = [
        m for m in list(sys.modules.values()) if vars(m).get("read_values") is original
    ]
    for module in readers:
        module.read_values = watched
    try:
        yield
    finally:
        for module in readers:
            module.read_values = original


def around_test(recorder: Recorder, request: pytest.FixtureRequest) -> Iterator[None]:
    """The body of a fixture around every test."""
    if request.node.get_closest_marker("lazy") or request.node.get_closest_marker("varies"):
        yield
        return
    recorder.looks, recorder.inexact = [], False
    # Tests run in another order and on other workers each time.
    lazyt.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    with _attached(recorder):
        yield
    difference = recorder.finish(request.node.nodeid)
    if difference is not None:
        how = "eager" if config.eager else "lazy"
        pytest.fail(f"other values than in the recorded run ({how} now): {difference}")
