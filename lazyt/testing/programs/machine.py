"""Runs programs, one statement after the other, and writes down what they show."""

from __future__ import annotations

import copy
import math
import pickle
import re
import warnings
from typing import Any

import numpy as np

from lazyt.testing.programs.observing import (
    describe,
    gradient,
    is_plain,
    is_tensor,
    storage_key,
    values_of,
)
from lazyt.testing.programs.program import Facts

NAME = re.compile(r"\b([tan]\d+)\b")
BOUND = re.compile(r"^\s*((?:[tan]\d+(?:, )?)+)(?:\*rest|,)? = ", re.MULTILINE)
WRITES = re.compile(r"_\(|\] \S*= |out=|^\s*\w+ \S+= |\.data = |backward\(", re.MULTILINE)
#: Functions whose results may differ in the last digits between implementations.
ROUNDED = re.compile(
    r"\.(exp|exp2|expm1|log|log2|log10|log1p|sin|cos|tan|tanh|sinh|cosh|atan|asin|acos|sigmoid|"
    r"softmax|log_softmax|logsumexp|erf|gelu|silu|softplus|pow|rsqrt|var|std|norm|mean|lerp|"
    r"addcmul|addcdiv|linspace|cumprod|logcumsumexp|addmm|baddbmm|float_power|hypot|atan2|"
    r"logaddexp|reciprocal)_?\(|\*\*"
)
#: Functions that are exact on small fractions only.
SUMMED = re.compile(
    r"sum|prod|@|matmul|mm\(|mv\(|dot|outer|trace|scatter_add|index_add|accumulate|scatter_reduce|"
    r"backward|grad\(|einsum|square"
)


class Machine:
    """One module running one program.

    Attributes:
        names: what the program can refer to.
        reference: whether others are to be compared with what is seen here; then it is
            followed which values are comparable only within a tolerance, and ``inexact`` has
            their names. That needs values, so a lazy module's laziness is not tested.
    """

    def __init__(self, module: Any, reference: bool = False) -> None:
        self.module = module
        self.reference = reference
        self.names: dict[str, Any] = {
            "torch": module,
            "np": np,
            "copy": copy,
            "pickle": pickle,
            "math": math,
            "look": lambda: None,
            "realize": self._realize,
        }
        self.inexact: set[str] = set()
        self._known: dict[str, str] = {}
        self._first: dict[str, tuple[Any, int]] = {}
        self._values: dict[str, str] = {}

    def _realize(self, *tensors: Any) -> None:
        for tensor in tensors:
            if hasattr(tensor, "realize"):
                tensor.realize()

    def live(self) -> dict[str, Any]:
        """The program's names and their values."""
        return {k: v for k, v in self.names.items() if NAME.fullmatch(k)}

    def step(self, text: str) -> Facts:
        """Run a statement.

        Returns: under ``error`` the exception's type and message; under ``is`` what changed about
            the names' descriptions; under ``gone`` the names that no longer exist; under
            ``values`` what changed of all values, when the statement looks.
        """
        facts: Facts = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(compile(text, "<program>", "exec"), self.names)
            except Exception as error:
                facts["error"] = [_classes(error), str(error).partition("\n")[0][:160]]
            if self.reference:
                self._spread_inexactness(text)
            self._observe(facts)
            if text == "look()":
                self._look(facts)
        return facts

    def run(self, steps: tuple[str, ...]) -> tuple[Facts, ...]:
        """Run a whole program; what it leaves is looked at in the end."""
        found = tuple(self.step(text) for text in steps)
        return (*found, self.step("look()"))

    def _observed(self) -> dict[str, Any]:
        seen = {}
        for name, value in self.live().items():
            seen[name] = value
            if gradient(value) is not None:
                seen[name + ".grad"] = value.grad
        return seen

    def _observe(self, facts: Facts) -> None:
        now: dict[str, str] = {}
        owners: dict[int, str] = {}
        for name, value in self._observed().items():
            if not is_tensor(value):
                now[name] = describe(value)
                continue
            if self._first.get(name, (None, 0))[0] is not value:
                self._first[name] = (value, value._version)
            now[name] = describe(value, self._first[name][1])
            if name.endswith(".grad"):  # its strides are an accepted difference
                now[name] = re.sub(r"/\S* \+\d+", "/", now[name])
            now[name] += " of " + owners.setdefault(storage_key(value), name)
        changed = {k: v for k, v in now.items() if self._known.get(k) != v}
        gone = [k for k in self._known if k not in now]
        for name in gone:
            self._first.pop(name, None)
        if changed:
            facts["is"] = changed
        if gone:
            facts["gone"] = gone
        self._known = now

    def _look(self, facts: Facts) -> None:
        seen = self._observed()
        tensors = [v for v in seen.values() if is_tensor(v)]
        if tensors and hasattr(self.module, "realize"):
            self.module.realize(*tensors)
        now, shown = {}, {}
        for name, value in seen.items():
            owner = name.partition(".")[0]
            rounded = owner in self.inexact or (owner != name and bool(self.inexact))
            now[name] = values_of(value, True)
            if self._values.get(name) != now[name]:
                shown[name] = values_of(value, not rounded)
        if shown:
            facts["values"] = shown
        self._values = now

    def _spread_inexactness(self, text: str) -> None:
        named = set(NAME.findall(text))
        live = self.live()
        bound = {n for names in BOUND.findall(text) for n in NAME.findall(names)}
        read = set(NAME.findall(BOUND.sub("", text)))
        hit = bool(read & self.inexact) or bool(ROUNDED.search(text))
        if "grad" in text or "backward" in text:
            hit = hit or bool(self.inexact)
        if not hit and SUMMED.search(text):
            hit = not all(is_plain(live[n]) for n in named if n in live)
        if not hit:
            self.inexact -= bound
            return
        touched = set(bound)
        if WRITES.search(text):
            touched |= named
        keys = {storage_key(live[n]) for n in touched if is_tensor(live.get(n))}
        touched |= {n for n, v in live.items() if is_tensor(v) and storage_key(v) in keys}
        if WRITES.search(text):
            touched |= {n for n, v in live.items() if isinstance(v, np.ndarray)}
        self.inexact |= touched & set(live)


def _classes(error: Exception) -> str:
    names = [kind.__name__ for kind in type(error).__mro__]
    return " ".join(names[: names.index("Exception")]) or "Exception"
