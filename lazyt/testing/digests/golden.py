"""Digests of the programs, and where they differ from the golden ones.

``python -m lazyt.testing.digests.golden`` writes ``golden.json``, for changes of bits that are
meant; docs/concepts/numbers.md lists them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lazyt
from lazyt.testing.digests.programs import Program, programs

_FILE = Path(__file__).with_name("golden.json")
#: Programs whose results are computed together, which takes fewer compilers.
_TOGETHER = 6

Progress = Callable[[int, int], None]


def golden() -> dict[str, str]:
    """The golden digests by program."""
    found: dict[str, str] = json.loads(_FILE.read_text(encoding="utf-8"))
    return found


def some_of_each_kind() -> list[Program]:
    """Every eighth program, and all that train networks."""
    return [p for n, p in enumerate(programs()) if n % 8 == 0 or p.name.startswith("training")]


def digests(
    chosen: Sequence[Program] | None = None, progress: Progress | None = None
) -> dict[str, str]:
    """The digest of what each program gives here; for one that raises, the error's name and words.

    ``progress`` is told how many are done, and of how many.
    """
    todo = programs() if chosen is None else chosen
    found: dict[str, str] = {}
    for start in range(0, len(todo), _TOGETHER):
        made: dict[str, list[Any]] = {}
        for program in todo[start : start + _TOGETHER]:
            try:
                made[program.name] = _tensors(program.run())
            except Exception as error:  # part of what is reported
                found[program.name] = _words(error)
        found |= _digested(made)
        if progress is not None:
            progress(min(start + _TOGETHER, len(todo)), len(todo))
    return {program.name: found[program.name] for program in todo}


def _digested(made: Mapping[str, list[Any]]) -> dict[str, str]:
    try:
        lazyt.realize(*(tensor for results in made.values() for tensor in results))
    except Exception:  # whose is told where each is computed alone
        made = dict(made)
    found = {}
    for name, results in made.items():
        try:
            found[name] = digest(results)
        except Exception as error:
            found[name] = _words(error)
    return found


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:120]}"


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, lazyt.Tensor):
        return [value.detach()]
    if isinstance(value, (tuple, list)):
        return [tensor for each in value for tensor in _tensors(each)]
    return [lazyt.tensor(value)]


def digest(results: Iterable[Any]) -> str:
    """The digest of some tensors: shapes, dtypes and bits. All NaNs are one, as only that a result
    is NaN is promised."""
    told = hashlib.sha256()
    for tensor in results:
        dtype = str(tensor.dtype).removeprefix("torch.").removeprefix("lazyt.")
        told.update(f"{dtype}{list(tensor.shape)}".encode())
        plain = tensor.resolve_conj().resolve_neg()
        if plain.is_complex():
            plain = lazyt.view_as_real(plain)
        if plain.dtype is lazyt.bfloat16:
            plain = plain.to(lazyt.float32)
        values = np.array(plain.numpy())
        if values.dtype.kind == "f":
            values[np.isnan(values)] = np.nan
        told.update(np.ascontiguousarray(values).tobytes())
    return told.hexdigest()[:12]


def differences(found: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The programs of ``found`` whose digests are others than those ``wanted``, with theirs."""
    return {name: text for name, text in found.items() if wanted.get(name) != text}


def _write() -> None:
    with lazyt.config.override(tier=0):
        found = digests(progress=lambda done, total: print(f"{done} of {total}", file=sys.stderr))
    wrong = [f"{name}: {text}" for name, text in found.items() if ": " in text]
    if wrong:
        raise SystemExit("\n".join(wrong))
    lines = [f"{json.dumps(name)}:{json.dumps(text)}" for name, text in found.items()]
    _FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
