"""Records programs of operators that tests of another framework run: ``programs.json.xz``.

    PYTHON_WITH_PYTORCH -m tests.operator_programs.record_operator_programs FOLDER

FOLDER is a checkout of tinygrad, whose ``test/backend/test_ops.py`` calls PyTorch. Nothing of its
text is taken: what is recorded are the calls of PyTorch's functions with their arguments, and
samples of what they gave. A program that draws random numbers gets them from NumPy here.
"""

from __future__ import annotations

import importlib
import json
import lzma
import sys
import types
import unittest
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("programs.json.xz")
#: The most elements of a tensor that is written down whole.
LARGEST = 512


class Unwritten(Exception):
    """A value that programs are not written with."""


class Program:
    """Calls in order; arguments are JSON, ``{"at": n}`` what call n gave (inputs come first)."""

    def __init__(self, inputs: list[Any]) -> None:
        self.values = list(inputs)
        self.calls: list[Any] = []

    def encode(self, value: Any) -> Any:
        """A value as JSON."""
        torch = importlib.import_module("torch")
        for place, known in enumerate(self.values):
            if value is known and isinstance(value, torch.Tensor):
                return {"at": place}
        if isinstance(value, torch.Tensor):
            if value.numel() > LARGEST or value.requires_grad:
                raise Unwritten
            return {"tensor": value.tolist(), "dtype": str(value.dtype)}
        if isinstance(value, torch.Size):
            return {"tuple": [int(n) for n in value]}
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return {"float": repr(value)}
        if isinstance(value, torch.dtype | torch.device):
            return {"named": str(value)}
        if value is Ellipsis:
            return {"named": "..."}
        if isinstance(value, slice):
            return {"slice": [self.encode(v) for v in (value.start, value.stop, value.step)]}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self.encode(v) for v in value]}
        raise Unwritten

    def called(self, name: str, args: Any, kwargs: Any, found: Any) -> None:
        """Takes note of one call."""
        torch = importlib.import_module("torch")
        packed = [self.encode(v) for v in args], {k: self.encode(v) for k, v in kwargs.items()}
        parts = list(found) if isinstance(found, list | tuple) else [found]
        if not all(isinstance(part, torch.Tensor) for part in parts):
            return
        self.calls.append([name, *packed, len(parts) if isinstance(found, list | tuple) else None])
        self.values += parts


def sample(array: Any) -> Any:
    """dtype, shape and some elements of an array."""
    flat = array.reshape(-1)
    places: Any = np.unique(np.linspace(0, flat.size - 1, 12).astype(int)) if flat.size else []
    shown = [repr(float(flat[p])) if array.dtype.kind == "f" else int(flat[p]) for p in places]
    return [str(array.dtype), list(array.shape), shown]


class Recorder:
    """Runs the tests' functions and writes their calls down."""

    def __init__(self) -> None:
        self.programs: list[Any] = []
        self.name = ""

    def inputs(self, low: float, high: float, sizes: Any, values: Any, plain: bool) -> list[Any]:
        """The inputs of a test, from a seed."""
        torch = importlib.import_module("torch")
        arrays = values
        if sizes is not None:
            np.random.seed(0)
            arrays = [np.random.uniform(low, high, size).astype(np.float32) for size in sizes]
        made = [torch.tensor(a, requires_grad=not plain) for a in arrays]
        return [t.type(torch.int32) if t.dtype == torch.int64 else t for t in made]

    def run(
        self, shps: Any, torch_fxn: Any, tinygrad_fxn: Any = None, forward_only: bool = False,
        vals: Any = None, low: float = -2, high: float = 2, **_: Any,
    ) -> None:  # fmt: skip
        """What the tests call; its arguments have the names that the tests give them."""
        torch = importlib.import_module("torch")
        overrides = importlib.import_module("torch.overrides")
        given = self.inputs(low, high, shps, vals, forward_only)
        program = Program(given)

        class Mode(overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
            def __torch_function__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                found = func(*args, **(kwargs or {}))
                program.called(overrides.resolve_name(func) or "", args, kwargs or {}, found)
                return found

        try:
            with Mode():
                out = torch_fxn(*given)
            result = program.encode(out)
            if set(result) != {"at"}:
                raise Unwritten
        except Unwritten:
            return
        wanted = [sample(out.detach().numpy())]
        if not forward_only and given:
            wanted += [sample(g.numpy()) for g in torch.autograd.grad(out.sum(), given)]
        made = {"seeded": [low, high, [list(s) if isinstance(s, tuple) else s for s in shps]]}
        if shps is None:
            made = {"values": [np.asarray(v).tolist() for v in vals]}
            made["dtypes"] = [str(t.dtype) for t in given]
        self.programs.append(
            [self.name, made, not forward_only, program.calls, result["at"], wanted]
        )


def random_numbers(torch: Any) -> None:
    """Random numbers of the programs from NumPy."""
    source = np.random.RandomState(7)

    def randint(
        low: Any = 0, high: Any = None, size: Any = None, dtype: Any = None, **_: Any
    ) -> Any:
        if size is None:
            low, high, size = 0, low, high
        made = torch.tensor(source.randint(low, high, tuple(size)))
        return made if dtype is None else made.to(dtype)

    torch.randint = randint


def main(folder: str) -> None:
    """Runs all tests and writes the programs."""
    torch = importlib.import_module("torch")
    sys.path.insert(0, folder)
    random_numbers(torch)
    tests = types.ModuleType("recorded_tests")
    sys.modules["recorded_tests"] = tests
    source = (Path(folder) / "test/backend/test_ops.py").read_text()
    exec(compile(source, "test_ops.py", "exec"), vars(tests))
    recorder = Recorder()
    vars(tests)["helper_test_op"] = recorder.run
    cases = tests.TestOps
    for name in sorted(n for n in dir(cases) if n.startswith("test_")):
        recorder.name = name.removeprefix("test_")
        cases(name).run(unittest.TestResult())
    text = json.dumps(recorder.programs, separators=(",", ":")).encode()
    FILE.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    print(len(recorder.programs), FILE.stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1])
