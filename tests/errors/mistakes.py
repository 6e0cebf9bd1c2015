"""Runs programs that hold a mistake, and tells what they raise.

In programs ``t`` is the package, ``F`` its ``nn.functional``; ``x`` is [2, 3], ``w`` [3, 2], ``v``
[3], ``i`` [2, 3] of int64, ``g`` requires its gradient, ``im`` is an image, ``m`` a linear layer
and ``o`` an optimizer. Each program gets new ones.
"""

from __future__ import annotations

import copy
import importlib
import io
import operator
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np

_PACKAGES = ("nn.utils.rnn", "optim.lr_scheduler", "utils.data", "utils.checkpoint", "linalg")


def read_areas() -> dict[str, list[str]]:
    """The programs of mistakes.txt by area, one a line, in which a \\n stands for a new line."""
    areas: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("# "):
            current = areas.setdefault(line[2:], [])
        elif line:
            current.append(line.replace("\\n", "\n"))
    return areas


AREAS = read_areas()


def setting(package: Any) -> dict[str, Any]:
    """The names that programs may use, with new tensors."""
    for name in _PACKAGES:
        importlib.import_module(f"{package.__name__}.{name}")
    t, nn = package, package.nn
    g = t.ones(2, 3, requires_grad=True)
    return {
        "t": t, "nn": nn, "F": nn.functional, "optim": t.optim, "sch": t.optim.lr_scheduler,
        "data": t.utils.data, "np": np, "io": io, "copy": copy, "pickle": pickle,
        "operator": operator, "g": g, "x": t.ones(2, 3), "w": t.ones(3, 2), "v": t.ones(3),
        "i": t.tensor([[1, 2, 3], [4, 5, 6]]), "im": t.ones(1, 3, 4, 4), "m": nn.Linear(3, 4),
        "o": t.optim.SGD([g], 0.1),
    }  # fmt: skip


def outcome(package: Any, program: str) -> tuple[list[str], str]:
    """The built-in types of what a program raises, and its text; nothing when it runs."""
    names = setting(package)
    try:
        exec(program, names)
    except Exception as error:
        known = [c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"]
        return [k for k in known if k not in ("object", "BaseException", "Exception")], str(error)
    return [], ""


def first_sentence(text: str) -> str:
    """What is compared of a message: its first line without advice, in one spelling."""
    line = re.sub(r"\s+", " ", text.replace("lazyt", "torch").split("\n")[0])
    return re.split(r" ?\(Could this error message|, but expected ", line)[0].rstrip(". ")
