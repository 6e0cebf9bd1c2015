"""The file of a recording: one JSON object a line, so that what is there survives a crash.

The first line says what was run where. Each other line is a value: one that the program looked at
(``look``), or one that was computed on the way (``node``). Of long values some elements are kept,
evenly spaced, beside a digest of all.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lazyt.errors import LazytError
from lazyt.version import __version__

__all__ = ["FORMAT", "Array", "RecordError", "Value", "Writer", "head_of", "read", "value_of"]

Array = np.ndarray[Any, Any]

FORMAT = "lazyt record 1"
#: Elements of a value that are kept.
MOST_KEPT = 1024


class RecordError(LazytError):
    """A file that is no recording, or is damaged."""


@dataclass(frozen=True)
class Value:
    """A value of a program.

    Attributes:
        kind: ``look`` or ``node``.
        what: how the program looked (``item()``), or the op.
        line: ``file.py:12``, by the file's name alone; empty where it is not known.
        text: that line of the program.
        shape, dtype: of the value.
        digest: of all of its bits, any NaN being one.
        kept: the elements that are kept, in base64, as `numpy_name` has them.
        numpy_name: NumPy's name of their type; that of integers as wide for 16-bit floats that
            NumPy lacks.
    """

    kind: str
    what: str
    line: str
    text: str
    shape: tuple[int, ...]
    dtype: str
    digest: str
    kept: str
    numpy_name: str

    def elements(self) -> Array:
        """The elements that are kept, flat."""
        return np.frombuffer(base64.b64decode(self.kept, validate=True), self.numpy_name)

    @property
    def step(self) -> int:
        """How far apart the elements that are kept lie."""
        return _step(math.prod(self.shape))

    def key(self, by_text: bool = False) -> tuple[str, str, str, tuple[int, ...], str]:
        """What says that two recordings mean the same value: where it was made, or ``by_text`` of
        the line, which moves as lines are added."""
        line = (self.text or self.line) if by_text else self.line
        return self.kind, self.what, line, self.shape, self.dtype


def _step(size: int) -> int:
    return max(1, -(-size // MOST_KEPT))


def value_of(kind: str, what: str, line: str, text: str, array: Array, dtype: str) -> Value:
    """A value from its elements."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind in "fc":
        flat = np.where(np.isnan(flat), np.array(np.nan, flat.dtype), flat)
    kept = base64.b64encode(flat[:: _step(flat.size)].tobytes()).decode()
    found = hashlib.sha256(flat.tobytes()).hexdigest()[:16]
    return Value(kind, what, line, text, array.shape, dtype, found, kept, flat.dtype.name)


def machine() -> dict[str, str]:
    """What a recording says of where it was made."""
    return {
        "machine": platform.machine(), "system": platform.system(),
        "python": platform.python_version(), "lazyt": __version__,
    }  # fmt: skip


class Writer:
    """Writes a recording, value by value; ``close`` ends it. Raises OSError."""

    def __init__(
        self, path: str, program: list[str], module: str, nodes: bool, seed: int = 0
    ) -> None:
        self.file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - closed by `close`
        head = {"format": FORMAT, "program": program, "module": module, "nodes": nodes}
        self._put({**head, "seed": seed, **machine()})
        self.counts = {"look": 0, "node": 0}

    def _put(self, item: dict[str, Any]) -> None:
        self.file.write(json.dumps(item) + "\n")

    def write(self, value: Value) -> None:
        """Adds a value."""
        self.counts[value.kind] += 1
        self._put(asdict(value))

    def close(self) -> None:
        """Ends the file, whole."""
        self._put({"end": self.counts})
        self.file.close()


def _lines(path: str) -> Iterator[dict[str, Any]]:
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    item = json.loads(line)
                except ValueError:
                    what = "no recording" if number == 1 else f"damaged: line {number} is no JSON"
                    raise RecordError(f"{path} is {what}") from None
                if not isinstance(item, dict):
                    raise RecordError(f"{path}:{number}: no object")
                yield item
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: {error}") from None


def head_of(path: str) -> dict[str, Any]:
    """What a recording says of itself. Raises RecordError for other files."""
    head = next(_lines(path), {})
    if head.get("format") != FORMAT:
        raise RecordError(f"{path} is no recording of `lazyt record`")
    return head


def read(path: str) -> list[Value]:
    """The values of a recording; those that are there where its program was stopped.

    Raises RecordError for a file that is no recording, with the line that is none.
    """
    head_of(path)
    found = []
    for number, item in enumerate(_lines(path), 1):
        if number == 1 or "end" in item:
            continue
        try:
            value = Value(**{**item, "shape": tuple(item["shape"])})
            value.elements()
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{path}:{number}: no value ({error})") from None
        found.append(value)
    return found
