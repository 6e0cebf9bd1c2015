"""Statements of programs as functions under ``lazyt.jit``: they must do what they do without.

``stages`` takes runs of consecutive statements that touch only tensors made before, or their own,
and makes a function of each. ``difference`` calls it five times, each time after the statements
before it were run anew, so that its arguments share memory and have histories as in the program;
from the fourth call on their values are others. The same is done with the function captured. After
every call all tensors are compared: description, memory they share, version, values to the bit;
then gradients of all that requires one.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import math
import pickle
import random
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import lazyt
from lazyt.handle.dispatch import array_node
from lazyt.handle.storage import Storage, raw
from lazyt.runtime.interpreter import interpret
from lazyt.testing.programs.machine import NAME
from lazyt.testing.programs.observing import describe, is_tensor, storage_key, values_of

Names = dict[str, Any]
#: By how much the values of all memory are moved before each call.
CALLS = (0, 0, 0, 1, 2)
_LEFT = ("look()", "realize(", "del ")


def run_statements(steps: Sequence[str]) -> Names:
    """What is alive after the statements, of which some may fail."""
    names: Names = {
        "torch": lazyt, "np": np, "copy": copy, "pickle": pickle, "math": math,
        "look": lambda: None, "realize": lambda *_: None, "__name__": "__main__",
    }  # fmt: skip
    for text in steps:
        with contextlib.suppress(Exception):
            exec(compile(text, "<program>", "exec"), names)
    return names


def tensors_of(names: Names) -> Names:
    """The program's tensors, by name."""
    return {k: v for k, v in names.items() if NAME.fullmatch(k) and is_tensor(v)}


def move(names: Names, amount: int) -> None:
    """Other values in all memory, of which neither histories nor versions tell."""
    seen: set[int] = set()
    for tensor in tensors_of(names).values():
        storage: Storage = tensor._storage
        if storage_key(tensor) in seen:
            continue
        seen.add(storage_key(tensor))
        if storage.share is not None:
            continue
        node = raw(storage.current())
        if node.dtype is lazyt.bfloat16 or 0 in node.shape:
            continue
        (old,) = interpret([node])
        if node.dtype is lazyt.bool:
            new = np.roll(old.reshape(-1), amount).reshape(old.shape)
        else:
            new = (old + amount * old.dtype.type(1)).astype(old.dtype)
        storage._accept(array_node(new))


class Stage:
    """Statements of a program as a function.

    Attributes:
        before: the statements before it.
        given: names of its arguments.
        text: its text.
    """

    def __init__(self, before: Sequence[str], steps: Sequence[str], alive: Names) -> None:
        named = [n for text in steps for n in NAME.findall(text)]
        self.before = tuple(before)
        self.given = sorted({n for n in named if n in alive})
        tree = ast.parse("\n".join(steps))
        stored = {n.id for n in ast.walk(tree)
                  if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip
        self.made = sorted(n for n in stored if NAME.fullmatch(n))
        fresh = [n for n in self.made if n not in self.given]
        lines = [f"{n} = None" for n in fresh]
        lines += [line for text in steps for line in text.split("\n")]
        lines.append(f"return ({', '.join(self.made)},)" if self.made else "return None")
        self.text = f"def stage({', '.join(self.given)}):\n" + "\n".join("    " + s for s in lines)

    def function(self) -> Any:
        """The function, in a module of its own."""
        names = run_statements(())
        exec(compile(self.text, "<stage>", "exec"), names)
        return names["stage"]


def stages(steps: Sequence[str], chance: random.Random, count: int) -> Iterator[Stage]:
    """Some runs of statements that touch only tensors from before, or their own."""
    starts = list(range(2, len(steps) - 1))
    chance.shuffle(starts)
    for start in starts:
        if not count:
            return
        run = list(steps[start : start + chance.randint(2, 5)])
        if any(text.startswith(_LEFT) for text in run):
            continue
        names = run_statements(steps[:start])
        alive = {k for k in names if NAME.fullmatch(k)}
        used = {n for text in run for n in NAME.findall(text)} & alive
        if used and all(is_tensor(names[n]) for n in used):
            count -= 1
            yield Stage(steps[:start], run, names)


def show(names: Names, versions: dict[str, int]) -> Names:
    """All that can be seen of these tensors and other values."""
    shown: Names = {}
    owners: dict[int, str] = {}
    keys = {k: storage_key(v) for k, v in names.items() if is_tensor(v)}  # looking changes them
    for name, value in names.items():
        shown[name] = values_of(value, True) if isinstance(value, str) else describe(value)
        if is_tensor(value):
            base = versions.get(name, 0)
            shown[name] = [describe(value, base), owners.setdefault(keys[name], name)]
            shown[name].append(values_of(value, True))
            shown[name].append(next(i for i, v in names.items() if v is value))
            with contextlib.suppress(RuntimeError):
                if value.is_leaf and value.grad is not None:
                    shown[name + ".grad"] = values_of(value.grad, True)
        elif isinstance(value, (int, float, np.ndarray)):
            shown[name] = repr(value)
    return shown


def gradients(names: Names) -> Names:
    """What backward gives from everything that requires a gradient."""
    shown: Names = {}
    for name, value in names.items():
        if not is_tensor(value):
            continue
        try:
            if value.requires_grad and value.grad_fn is not None:
                (value.detach() + 1.5).mul(value).sum().backward(retain_graph=True)
        except RuntimeError as error:
            shown[f"backward of {name}"] = type(error).__name__ + str(error)[:60]
    for name, value in names.items():
        with contextlib.suppress(RuntimeError):
            if is_tensor(value) and value.is_leaf and value.grad is not None:
                shown[name + ".grad"] = values_of(value.grad, True)
    return shown


def call(stage: Stage, function: Any, amount: int) -> Names:
    """What one call shows."""
    names = run_statements(stage.before)
    move(names, amount)
    tensors = tensors_of(names)
    versions = {k: v._version for k, v in tensors.items()}
    shown: Names = {}
    try:
        results = function(*[names[n] for n in stage.given])
    except Exception as error:
        shown["error"] = [type(error).__name__, str(error)[:80]]
        results = None
    for name, value in zip(stage.made, results or ()):
        tensors["result " + name] = value
    shown.update(show(tensors, versions))
    shown["gradients"] = gradients(tensors)
    return shown


def difference(stage: Stage) -> tuple[str | None, list[str]]:
    """How the captured function differs from the plain one, None when it does not; and why()."""
    plain = stage.function()
    captured = lazyt.jit(stage.function())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, amount in enumerate(CALLS):
            want, have = call(stage, plain, amount), call(stage, captured, amount)
            if want != have:
                told = [f"{k}:\n    want {want.get(k)}\n    have {have.get(k)}"
                        for k in {**want, **have} if want.get(k) != have.get(k)]  # fmt: skip
                return f"call {number}: " + "\n  ".join(told[:4]), captured.why()
    return None, captured.why()


def report(stage: Stage, found: str, why: list[str]) -> str:
    """A difference, with the program that shows it."""
    return "\n".join([*stage.before, stage.text, found, json.dumps(why)])
