"""Functions of PyTorch for numbers that may be a compiler's symbols; here they are numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

__all__ = [
    "ShapeEnv",
    "is_concrete_bool", "is_concrete_int", "no_free", "no_symbols", "sym_eq", "sym_float",
    "sym_fresh_size", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
    "truth",
]  # fmt: skip


class ShapeEnv:
    """What a compiler knows of symbols: shapes are numbers here, and there are none.

    Args: all are taken for PyTorch's sake.

    Attributes:
        guards, var_to_val: empty.
    """

    def __init__(self, **_: Any) -> None:
        self.guards: list[Any] = []
        self.var_to_val: dict[Any, int] = {}

    def format_guards(self, verbose: bool = False) -> str:
        """The conditions about symbols: none."""
        return ""


def sym_int(a: Any) -> int:
    """The number without its fraction."""
    found: int = math.trunc(a)
    return found


def sym_float(a: Any) -> float:
    """The number as a float."""
    return float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger number, a float if one of the two is."""
    found = max(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, a float if one of the two is."""
    found = min(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_not(a: Any) -> bool:
    """``not a``."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """``t`` if ``b``, else ``f``."""
    return t if b else f


def sym_sum(args: Iterable[Any]) -> Any:
    """The sum."""
    return sum(args)


def sym_sqrt(a: Any) -> float:
    """The square root."""
    return math.sqrt(a)


def sym_fresh_size(expr: Any) -> Any:
    """The size."""
    return expr


def sym_eq(a: Any, b: Any) -> bool:
    """Whether numbers, or shapes, are equal."""
    return bool(a == b)


def truth(a: Any) -> bool:
    """Whether it is true: conditions of numbers are known."""
    return bool(a)


def no_free(*args: Any) -> bool:
    """False: there are no symbols in it."""
    return False


def no_symbols(val: Any) -> set[Any]:
    """The symbols in it: none."""
    return set()


def is_concrete_int(a: Any) -> bool:
    """Whether it is an int; all are known."""
    return isinstance(a, int)


def is_concrete_bool(a: Any) -> bool:
    """Whether it is a bool; all are known."""
    return isinstance(a, bool)
