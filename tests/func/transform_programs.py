"""Programs about derivatives and ``vmap`` that run on lazyt and on PyTorch, and what they show.

A program calls ``t(name, function)`` for everything that it shows. Nothing here imports either
library: the module is an argument.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "programs"
RECORDED = Path(__file__).parents[1] / "recorded" / "transforms.json"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))


def shown(torch: Any, value: Any) -> Any:
    """A result in words and numbers that JSON can hold."""
    if isinstance(value, torch.Tensor):
        numbers = [float(v) for v in value.detach().reshape(-1).tolist()]
        kind = str(value.dtype).split(".")[-1]
        return [
            "tensor", [v if math.isfinite(v) else str(v) for v in numbers],
            list(value.shape), kind, value.requires_grad,
        ]  # fmt: skip
    if isinstance(value, (list, tuple)):
        return [shown(torch, item) for item in value]
    if isinstance(value, dict):
        return {str(key): shown(torch, item) for key, item in value.items()}
    return repr(value)


def outcome(torch: Any, function: Callable[[], Any]) -> Any:
    """What a function returns, or the error that it raises."""
    try:
        return shown(torch, function())
    except Exception as error:
        bases = [base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins"]
        return {"error": bases, "text": str(error).replace("lazyt", "torch")}


def run(torch: Any, name: str) -> dict[str, Any]:
    """Everything that a program shows, by name; names that come again are numbered."""
    found: dict[str, Any] = {}

    def show(title: str, function: Callable[[], Any]) -> None:
        while title in found:
            title += "'"
        found[title] = outcome(torch, function)

    code = compile((FOLDER / f"{name}.txt").read_text("utf-8"), f"{name}.txt", "exec")
    names = {"torch": torch, "t": show, "clean": lambda value: shown(torch, value)}
    exec(code, names)
    return found


def said(one: str, other: str) -> bool:
    """Whether an error says the same; where to report PyTorch's is not repeated."""
    core = re.sub(r"[.,] (If (said operator|error) |[Pp]lease file ).*", "", other)
    return one == other if core == other else one.startswith(core)


def agree(one: Any, other: Any) -> bool:
    """Whether two outcomes are the same; numbers to 1e-4."""
    if isinstance(one, dict) and isinstance(other, dict):
        if "error" in other:
            return other["error"][0] in one.get("error", ()) and said(one["text"], other["text"])
        return one.keys() == other.keys() and all(agree(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(agree, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5)
    return bool(one == other)
