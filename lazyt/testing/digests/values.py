"""The values that programs of digests compute with: the same on every machine.

They come from Python's integers; lazyt's random numbers are what some programs are about.
"""

from __future__ import annotations

import math
from typing import Any

import lazyt

_WORD = (1 << 64) - 1


def _integers(count: int, seed: int) -> list[int]:
    """Integers of 24 bits (G. Marsaglia, "Xorshift RNGs", 2003)."""
    state, found = 0x9E3779B97F4A7C15 * (2 * seed + 1) & _WORD, []
    for _ in range(count):
        state ^= state << 13 & _WORD
        state ^= state >> 7
        state ^= state << 17 & _WORD
        found.append(state >> 40)
    return found


def unit(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    """Multiples of 2^-24 from 0 to 1, both left out."""
    numbers = [(n | 1) * 2.0**-24 for n in _integers(math.prod(shape), seed)]
    made = lazyt.tensor(numbers, dtype=lazyt.float64).reshape(shape)
    return made.to(getattr(lazyt, dtype))


def spread(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    """Numbers of both signs, from -4 to 4, and small ones among them."""
    numbers = [
        (n - (1 << 23)) * 2.0 ** (-21 - 9 * (n % 5 == 0)) for n in _integers(math.prod(shape), seed)
    ]
    made = lazyt.tensor(numbers, dtype=lazyt.float64).reshape(shape)
    return made.to(getattr(lazyt, dtype))


def whole(*shape: int, below: int = 100, seed: int = 0, dtype: str = "int64") -> Any:
    """Integers from 0, less than ``below``."""
    numbers = [n % below for n in _integers(math.prod(shape), seed)]
    return lazyt.tensor(numbers, dtype=getattr(lazyt, dtype)).reshape(shape)


def matrix(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    """Square matrices that are far from singular."""
    n = shape[-1]
    return spread(*shape, dtype=dtype, seed=seed) / 8 + lazyt.eye(n, dtype=getattr(lazyt, dtype))


def positive(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    """Symmetric positive definite matrices."""
    made = matrix(*shape, dtype=dtype, seed=seed)
    eye = lazyt.eye(shape[-1], dtype=getattr(lazyt, dtype))
    return made @ made.mT / shape[-1] + eye
