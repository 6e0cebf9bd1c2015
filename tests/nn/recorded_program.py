"""Programs over layers, run by PyTorch to record what they give, and by lazyt to compare.

Every line of ``recorded/layers.txt`` is one program: an expression, or statements and an expression
behind ``;;``. A line that begins with ``~`` raises an error whose words differ from PyTorch's.
Run this file with an interpreter that has PyTorch to write ``recorded/layers.json`` anew.
"""

from __future__ import annotations

import importlib
import json
import math
import random
import sys
import warnings
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recorded"


class Program:
    """The names that a program may use, over one of the two libraries."""

    def __init__(self, library: str) -> None:
        self.torch: Any = importlib.import_module(library)
        self.nn: Any = importlib.import_module(f"{library}.nn")
        self.library = library
        self.leaves: list[Any] = []

    def r(
        self, *shape: int, d: str = "float32", s: int = 0, lo: float = -2.0, hi: float = 2.0,
        g: bool = True,
    ) -> Any:  # fmt: skip
        """Numbers in [lo, hi) that require a gradient (unless ``g`` is off)."""
        count = math.prod(shape)
        draw = random.Random(s + count)
        values = [draw.uniform(lo, hi) for _ in range(count)]
        made = self.torch.tensor(values, dtype=self.torch.float64)
        made = made.to(getattr(self.torch, d)).reshape(shape)
        if g and "float" in d:
            made.requires_grad_(True)
            self.leaves.append(made)
        return made

    def ii(self, *shape: int, hi: int = 5, lo: int = 0, s: int = 0, d: str = "int64") -> Any:
        """Whole numbers in [lo, hi)."""
        count = math.prod(shape)
        draw = random.Random(s + count)
        values = [draw.randrange(lo, hi) for _ in range(count)]
        return self.torch.tensor(values, dtype=getattr(self.torch, d)).reshape(shape)

    def bb(self, *shape: int, s: int = 0) -> Any:
        """Bools."""
        return self.ii(*shape, hi=2, s=s).bool()

    def fill(self, module: Any) -> Any:
        """A module with simple values in its parameters."""
        torch = self.torch
        with torch.no_grad():
            for parameter in module.parameters():
                count = parameter.numel()
                values = (torch.arange(count, dtype=torch.float32) * 7) % 11 / 11 - 0.4
                parameter.copy_(values.view(parameter.shape))
        self.leaves += list(module.parameters())
        return module

    def run(self, line: str) -> dict[str, Any]:
        """What the program gives: results and gradients in short, or its error."""
        self.leaves.clear()
        names = {name: getattr(self, name) for name in ("torch", "nn", "r", "ii", "bb", "fill")}
        names["F"] = self.nn.functional
        for name in ("rnn", "prune", "parametrize"):
            names[name] = importlib.import_module(f"{self.library}.nn.utils.{name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                before, _, result = line.removeprefix("~").rpartition(";;")
                exec(before.strip(), names)
                outputs = flat(eval(result.strip(), names))
                return self.report(outputs)
            except Exception as error:
                words = str(error).split("\n")[0].replace("lazyt", "torch")
                return {"error": [c.__name__ for c in type(error).__mro__], "words": words}

    def report(self, outputs: list[Any]) -> dict[str, Any]:
        """Outputs, and the gradients of their weighted sum."""
        torch = self.torch
        tensors = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
        if tensors:
            total = torch.zeros((), dtype=torch.float64)
            for tensor in tensors:
                weights = torch.tensor(ramp(tensor.numel()), dtype=torch.float64)
                total = total + (tensor.double() * weights.reshape(tensor.shape)).sum()
            total.backward()
        grads = [self.short(leaf.grad) for leaf in self.leaves] if tensors else []
        return {"outputs": [self.short(t) for t in outputs], "gradients": grads}

    def short(self, value: Any) -> Any:
        """A tensor as its type, shape, weighted sum, size and number of infinities and NaNs."""
        if not isinstance(value, self.torch.Tensor):
            return repr(value).replace("lazyt", "torch")
        numbers = [float(v) for v in value.detach().double().reshape(-1).tolist()]
        known = [(v, w) for v, w in zip(numbers, ramp(len(numbers))) if math.isfinite(v)]
        total, size = sum(v * w for v, w in known), sum(abs(v) for v, _ in known)
        dtype = str(value.dtype).split(".")[-1]
        lost = len(numbers) - len(known)
        return [dtype, list(value.shape), float(f"{total:.8g}"), float(f"{size:.8g}"), lost]


def ramp(count: int) -> list[float]:
    """The weights of a sum that no permutation leaves alone."""
    return [(k * 5) % 13 / 6 - 1 for k in range(count)]


def flat(value: Any) -> list[Any]:
    """Nested lists and tuples as one list."""
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    return [value]


def lines() -> list[str]:
    """All programs."""
    text = (FOLDER / "layers.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def record() -> None:
    """Write what PyTorch gives."""
    program = Program("torch")
    found = {line: program.run(line) for line in lines()}
    body = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
    (FOLDER / "layers.json").write_text("{\n" + body + "\n}\n", encoding="utf-8")


if __name__ == "__main__" and sys.argv[1:] == ["record"]:
    record()
