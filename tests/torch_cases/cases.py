"""Small programs, and what they show when run on a module of PyTorch's API.

The answers of real PyTorch are kept in ``*.json.gz``: pairs of a program and its answer. Run

    python tests/torch_cases/cases.py tests/torch_cases/views.json.gz [MORE_PROGRAMS.txt]

with a Python that has torch to record them anew, together with the programs of a text file (one
a line, or several lines between lines of ``---``). This file imports nothing but NumPy, so that
it runs there.
"""

from __future__ import annotations

import ast
import gzip
import json
import math
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

_CLASSES = (IndexError, ValueError, TypeError, AttributeError, NotImplementedError, RuntimeError)


def _plain(text: str) -> str:
    return text.replace("lazyt", "torch")


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(item) for item in value]
    if isinstance(value, float):
        return str(value) if not math.isfinite(value) else float(f"{value:.7g}")
    return value


def describe(value: Any, torch: Any) -> Any:
    """A value as JSON: of tensors the type, arrangement, gradient and elements."""
    if isinstance(value, torch.Tensor):
        return {
            "dtype": _plain(str(value.dtype)),
            "shape": list(value.shape),
            "strides": list(value.stride()),
            "offset": value.storage_offset(),
            "requires_grad": value.requires_grad,
            "grad_fn": value.grad_fn is not None,
            "values": _number(value.detach().tolist()),
        }
    if isinstance(value, (list, tuple)):
        return [
            "list" if isinstance(value, list) else "tuple",
            *(describe(v, torch) for v in value),
        ]
    if isinstance(value, np.ndarray):
        return ["array", str(value.dtype), list(value.strides), _number(value.tolist())]
    if isinstance(value, (bool, int, str, type(None), float)):
        return _plain(value) if isinstance(value, str) else _number(value)
    return _plain(repr(value))


def _arange(torch: Any) -> Any:
    def arange(*shape: int, dt: Any = None) -> Any:
        count = math.prod(shape)
        return torch.arange(count).reshape(shape).to(torch.float32 if dt is None else dt)

    return arange


def answer(program: str, torch: Any) -> Any:
    """What the last expression of ``program`` gives, or the error that it ends with.

    Programs know ``torch``, ``np``, ``F``, ``A`` (counting numbers in a shape) and ``shares``
    (whether two tensors lie in one memory).
    """

    def shares(a: Any, b: Any) -> bool:
        same: bool = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
        return same

    names: dict[str, Any] = {
        "torch": torch, "np": np, "A": _arange(torch), "shares": shares,
    }  # fmt: skip
    if "F." in program:
        names["F"] = torch.nn.functional
    tree = ast.parse(program)
    last = tree.body[-1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not isinstance(last, ast.Expr):
                exec(compile(tree, "program", "exec"), names)
                return describe(names.get("r"), torch)
            exec(compile(ast.Module(tree.body[:-1], []), "program", "exec"), names)
            return describe(
                eval(compile(ast.Expression(last.value), "program", "eval"), names), torch
            )
    except Exception as error:
        kinds = [c.__name__ for c in _CLASSES if isinstance(error, c)]
        return {"error": kinds, "message": _plain(str(error)).partition("\n")[0]}


def agree(wanted: Any, found: Any) -> bool:
    """Whether an answer is PyTorch's: numbers nearly, errors of at least the same classes."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        if "error" in wanted and "error" in found:
            same = wanted["message"] == found["message"]
            return same and set(wanted["error"]) <= set(found["error"])
        return wanted.keys() == found.keys() and all(agree(wanted[k], found[k]) for k in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(agree, wanted, found))
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(wanted, found, rel_tol=1e-5, abs_tol=1e-6)
    return bool(wanted == found) and type(wanted) is type(found)


def load(path: Path) -> list[tuple[str, Any]]:
    """The programs of a file with PyTorch's answers."""
    return [(program, found) for program, found in json.loads(gzip.decompress(path.read_bytes()))]


def save(path: Path, pairs: Iterable[tuple[str, Any]]) -> None:
    """Write programs with answers."""
    text = json.dumps(list(pairs), separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def programs_in(text: str) -> list[str]:
    """The programs of a text: blocks between lines of ``---``, each line of other blocks."""
    found = []
    for block in text.split("\n---\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        found.extend(lines if block.startswith("#1\n") else [block] if block.strip() else [])
    return found


def main(arguments: list[str]) -> None:
    """Record the answers of real PyTorch."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    path = Path(arguments[0])
    programs = [program for program, _ in load(path)] if path.exists() else []
    for more in arguments[1:]:
        programs += programs_in(Path(more).read_text(encoding="utf-8"))
    save(path, [(program, answer(program, torch)) for program in dict.fromkeys(programs)])


if __name__ == "__main__":
    main(sys.argv[1:])
