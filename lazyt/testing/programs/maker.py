"""Makes random programs: statements are chosen by what is alive, and run as they are chosen."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from lazyt.testing.programs.machine import Machine
from lazyt.testing.programs.observing import is_tensor, storage_key

Step = Callable[["Maker"], "str | None"]
S = TypeVar("S", bound=Step)
T = TypeVar("T")
STEPS: list[tuple[Step, float]] = []
MOST_ELEMENTS, MOST_TENSORS, LARGEST = 48, 8, 1000.0
FLOATS = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
WHOLE = ("int64", "int64", "int32", "int16", "int8", "uint8")
SHAPES = (
    (), (1,), (4,), (5,), (0,), (2, 3), (3, 2), (3, 4), (4, 1), (1, 3), (2, 0), (2, 2, 3),
    (2, 1, 4), (3, 3), (2, 3, 2), (1, 2, 2, 3),
)  # fmt: skip


def step(weight: float) -> Callable[[S], S]:
    """Register a way to make a statement, chosen as often as ``weight`` says."""

    def register(make: S) -> S:
        STEPS.append((make, weight))
        return make

    return register


class Maker:
    """The state of a program in the making.

    Attributes:
        random: the only source of chance.
        machine: where the statements run.
    """

    def __init__(self, seed: int, module: Any) -> None:
        self.random = random.Random(seed)
        self.machine = Machine(module, reference=True)
        self.looks = self.random.choice((0.0, 0.05, 0.15, 0.5))
        self.errors = self.random.choice((0.3, 0.6, 1.0))
        self.count = 0
        self.looked = False

    # ------------------------------------------------------------------ chance

    def chance(self, p: float) -> bool:
        """True with probability ``p``."""
        return self.random.random() < p

    def one(self, *options: T) -> T:
        """One of the arguments."""
        return self.random.choice(options)

    def new(self, kind: str = "t") -> str:
        """A name that is not in use."""
        self.count += 1
        return f"{kind}{self.count}"

    # ------------------------------------------------------------------ what is alive

    def __getitem__(self, name: str) -> Any:
        return self.machine.names[name]

    def tensors(self, fits: Callable[[Any], bool] | None = None) -> list[str]:
        """Names of the tensors for which ``fits`` holds."""
        live = self.machine.live().items()
        names = [k for k, v in live if is_tensor(v)]
        return names if fits is None else [k for k in names if _holds(fits, self[k])]

    def tensor(self, fits: Callable[[Any], bool] | None = None) -> str | None:
        """The name of a tensor for which ``fits`` holds, mostly a recent one."""
        names = self.tensors(fits)
        if not names:
            return None
        return names[-1] if self.chance(0.3) else self.random.choice(names)

    def sharp(self, name: str) -> bool:
        """Whether functions with jumps may be applied: the values are exact."""
        return name not in self.machine.inexact

    def calm(self, name: str, most: float = 100.0) -> bool:
        """Whether all values are finite and not large."""
        value = self[name]
        flat = np.asarray(value.detach().tolist() if is_tensor(value) else value, np.float64)
        return bool(np.isfinite(flat).all() and (np.abs(flat) <= most).all())

    def plus(self, name: str) -> bool:
        """Whether no zero is negative: what becomes of their sign is an accepted difference."""
        flat = np.asarray(self[name].detach().tolist(), np.float64)
        return not bool((np.signbit(flat) & (flat == 0)).any())

    # ------------------------------------------------------------------ arguments

    def dim(self, rank: int) -> int:
        """A dimension's number; now and then there is no such dimension."""
        if self.chance(0.02 * self.errors):
            return self.one(rank, -rank - 1)
        return self.random.randint(-max(rank, 1), max(rank, 1) - 1)

    def dtype(self) -> str:
        """The name of a dtype."""
        return str(self.one(*FLOATS, *WHOLE, "bool"))

    def number(self, tensor: Any = None) -> str:
        """A number, mostly one that suits ``tensor``'s dtype."""
        kind = "float" if tensor is None else str(tensor.dtype)
        if self.chance(0.1):
            return str(self.one("True", "False", "2", "0.5", "-1.5"))
        if "float" in kind:
            return str(self.one("0.5", "2", "-1.25", "1.5", "0", "-1", "3.0", "0.25"))
        if "bool" in kind:
            return str(self.one("True", "False", "1"))
        return str(self.one("1", "2", "3", "0", "-1" if "uint" not in kind else "4"))

    def reshaped(self, count: int, most: int = 4) -> list[int]:
        """A shape with ``count`` elements."""
        rest, shape = count, []
        for _ in range(self.random.randint(0, most - 1)):
            divisors = [d for d in range(1, rest + 1) if rest % d == 0] or [0]
            extent = self.random.choice(divisors)
            shape.append(extent)
            rest = rest // extent if extent else 0
        if rest != 1 or not shape or count == 0:
            shape.append(rest)
        self.random.shuffle(shape)
        return shape

    def permutation(self, rank: int) -> list[int]:
        """The dimensions in another order."""
        order = list(range(rank))
        self.random.shuffle(order)
        return [d - rank if self.chance(0.2) else d for d in order]

    def fitting(self, name: str) -> str:
        """An expression that can be broadcast to the tensor ``name`` for writing to it."""
        target = self[name]
        shape = tuple(target.shape)
        if self.chance(0.35):
            return self.number(target)

        def fits(t: Any) -> bool:
            own = tuple(t.shape)
            lead = len(shape) - len(own)
            return lead >= 0 and all(n in (1, m) for n, m in zip(own, shape[lead:]))

        source = self.tensor(fits)
        if source is None or self.chance(0.15):
            source = self.tensor()
        if source is None or not self.calm(source):
            return self.number(target)
        if overlaps(self[source], target) and (
            self.chance(0.9) or not self[source].is_contiguous()
        ):
            return source + ".clone()"
        return source

    # ------------------------------------------------------------------ making

    def crowded(self) -> bool:
        """Whether something should go before more is made."""
        return len(self.tensors()) >= MOST_TENSORS

    def next(self) -> str:
        """A statement that suits what is alive."""
        while True:
            if not self.looked and self.chance(self.looks):
                self.looked = True
                return "look()"
            make = self.random.choices([s for s, _ in STEPS], [w for _, w in STEPS])[0]
            text = make(self)
            if text is not None:
                self.looked = False
                return text

    def wild(self) -> list[str]:
        """Names of tensors that have become too large, in extent or in value."""
        bad = []
        for name in self.tensors():
            tensor = self[name]
            size = math.prod(tensor.shape)
            if size > MOST_ELEMENTS or not self.calm(name, LARGEST):
                bad.append(name)
        return bad


def _holds(fits: Callable[[Any], bool], tensor: Any) -> bool:
    try:
        return fits(tensor)
    except RuntimeError:  # its history cannot be followed, so it has none of what is asked for
        return False


def stands_alone(m: Maker, name: str) -> bool:
    """Whether no other tensor shares the memory, and the tensor is not a part of another."""
    key = storage_key(m[name])
    return not m[name]._is_view() and len(m.tensors(lambda t: storage_key(t) == key)) == 1


def repeats(tensor: Any) -> bool:
    """Whether two elements are in one place."""
    addresses = _addresses(tensor)
    return len(set(addresses)) < len(addresses)


def overlaps(target: Any, source: Any) -> bool:
    """Whether writing to ``target`` from ``source`` reads what was already written."""
    if storage_key(target) != storage_key(source):
        return False
    addresses = [_addresses(t) for t in (target, source)]
    return addresses[0] != addresses[1] and bool(set(addresses[0]) & set(addresses[1]))


def _addresses(tensor: Any) -> list[int]:
    shape = tuple(tensor.shape)
    grid = np.zeros(shape, np.int64) + tensor.storage_offset()
    for axis, (extent, stride) in enumerate(zip(shape, tensor.stride())):
        lined = [1] * len(shape)
        lined[axis] = extent
        grid = grid + np.arange(extent).reshape(lined) * stride
    return [int(v) * tensor.element_size() for v in np.asarray(grid).reshape(-1)]
