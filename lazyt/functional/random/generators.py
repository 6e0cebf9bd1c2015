"""Generators of random numbers: a seed, and the number of calls since.

Every call takes a key of its generator's seed and the number of the call. Results are the same for
every number of threads and however the graph is fused; they are not PyTorch's numbers.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.calls import KINDS
from lazyt.functional.creation.creation import fresh
from lazyt.functional.creation.nesting import stored
from lazyt.handle.device import check_device
from lazyt.handle.function_table import function
from lazyt.handle.hooks import each_call, filled, random_key
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import package_name, uint8, uint32
from lazyt.ir.graph import Node

__all__ = [
    "Generator", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state",
]  # fmt: skip


class Generator:
    """A source of random numbers with its own seed.

    Attributes:
        device: where it lives; always the CPU.
        known: keys by the point of the numbers that they belong to, while a function runs that will
            run again from the same point (``checkpoint``): both runs have the very same leaves.
    """

    __slots__ = ("_calls", "_seed", "device", "known")

    def __init__(self, device: Any = "cpu") -> None:
        self.device = check_device(device)
        self._seed = 67280421310721
        self._calls = 0
        self.known: dict[tuple[int, int], Node] | None = None

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed``; returns the generator.

        Raises LazytError for what is no whole number, ShapeError for one beyond 64 bits.
        """
        try:
            number = operator.index(seed)
        except TypeError:
            raise LazytError(
                f"manual_seed expected a long, but got {type(seed).__name__}"
            ) from None
        if not -(1 << 63) <= number < 1 << 64:
            raise ShapeError("Overflow when unpacking long long")
        return self._go_to(lambda: (number & 0xFFFFFFFFFFFFFFFF, 0))

    def _go_to(self, find: Callable[[], tuple[int, int]]) -> Generator:
        """Take seed and position from ``find()``, now and whenever a captured call is replayed."""
        each_call(_Move(self, find))
        return self

    def seed(self) -> int:
        """Start again from a seed that nobody chose, and return it."""

        def start() -> None:
            self._seed, self._calls = time.time_ns(), 0

        each_call(start)
        return self._seed

    def initial_seed(self) -> int:
        """The seed it started from."""
        return self._seed

    def get_state(self) -> Tensor:
        """Seed and position, 16 bytes as a uint8 tensor for ``set_state``."""

        return fresh(filled(self._read_state))

    def _read_state(self) -> Node:
        values = np.array([self._seed, self._calls], np.uint64).view(np.uint8)
        return stored(values, (16,), uint8)

    def set_state(self, state: Tensor) -> Generator:
        """Go on from where ``get_state`` was taken.

        Raises DTypeError for a tensor of another dtype, LazytError for one of another size.
        """
        if not isinstance(state, Tensor) or state.dtype is not uint8:
            raise DTypeError("RNG state must be a torch.ByteTensor")
        if state.numel() != 16:
            raise LazytError(
                "Expected a generator's state of size 16 but found the input RNG state size to be "
                f"{state.numel()}"
            )
        words = np.array(state.tolist(), np.uint8).view(np.uint64)
        return self._go_to(lambda: (int(words[0]), int(words[1])))

    def clone_state(self) -> Generator:
        """Another generator at the same point of the same numbers."""
        return Generator(self.device).graphsafe_set_state(self)

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Go on from where another generator is."""
        return self._go_to(lambda: (state._seed, state._calls))

    def skip(self) -> Generator:
        """Go on behind the next call, as if it had been made."""
        return self._go_to(lambda: (self._seed, self._calls + 1))

    def go_to_part(self, base: Generator, number: int) -> Generator:
        """Start with numbers that belong to ``number``, and to where ``base`` is."""
        return self._go_to(
            lambda: (
                base._seed * 0x9E3779B97F4A7C15 + base._calls * 0xD1B54A32D192ED03
                + (number + 1) * 0xBF58476D1CE4E5B9 & 0x7FFFFFFFFFFFFFFF, 0,
            )
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<{package_name()}._C.Generator object at {id(self):#x}>"

    def next_key(self) -> Node:
        """The key of the next call: a leaf of two words, so that plans do not depend on it."""
        if self.known is None:
            return random_key(self._make_key)
        place = self._seed, self._calls
        key = self.known.get(place)
        if key is None:
            key = self.known[place] = random_key(self._make_key)
        else:
            self._calls += 1
        return key

    def _make_key(self) -> Node:
        self._calls += 1
        mixed = (self._seed * 0x9E3779B97F4A7C15 + self._calls) & 0xFFFFFFFFFFFFFFFF
        words = np.array([mixed & 0xFFFFFFFF, mixed >> 32], np.uint32)
        return stored(words, (2,), uint32)


KINDS["Generator"] = Generator


class _Move:
    """Moves a generator to where ``find()`` says."""

    __slots__ = ("find", "generator")

    def __init__(self, generator: Generator, find: Callable[[], tuple[int, int]]) -> None:
        self.generator = generator
        self.find = find

    def __call__(self) -> None:
        """Move."""
        self.generator._seed, self.generator._calls = self.find()


def generator_of(function: Callable[[], Any]) -> Generator | None:
    """The generator that a call made anew at every replay draws from, moves or reads, if that is
    all it does, and it does the same whenever the generator is at the same point."""
    if isinstance(function, _Move):
        return function.generator
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, Generator) else None


@contextmanager
def returning(generators: Iterable[Generator]) -> Iterator[None]:
    """A block after which these generators are where they were before."""
    before = [(generator, generator._seed, generator._calls) for generator in generators]
    try:
        yield
    finally:
        for generator, seed, calls in before:
            generator._seed, generator._calls = seed, calls


default_generator = Generator()


@function(checks=True)
def manual_seed(seed: int) -> Generator:
    """Start the random numbers again from ``int(seed)``; returns the default generator.

    Raises ValueError for a text that is no number, ShapeError for a seed beyond 64 bits.
    """
    return default_generator.manual_seed(int(seed))


@function(checks=True)
def seed() -> int:
    """Start the random numbers from a seed that nobody chose, and return it."""
    return default_generator.seed()


@function(checks=True)
def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


@function(checks=True)
def get_rng_state() -> Tensor:
    """State of the default generator."""
    return default_generator.get_state()


@function(checks=True)
def set_rng_state(new_state: Tensor) -> None:
    """Go on from a state of the default generator."""
    default_generator.set_state(new_state)
