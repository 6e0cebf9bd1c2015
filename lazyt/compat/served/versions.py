"""``torch.version``, ``torch.torch_version``, ``torch.__config__``: which PyTorch this is like."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from typing import Any

from lazyt.version import __version__ as _lazyt

__all__ = ["VERSION", "TorchVersion"]

#: What a program that asks for a version may use.
VERSION = "2.13.0+lazyt" + _lazyt


class TorchVersion(str):
    """A version's text that compares by numbers with texts and tuples, as PyTorch's does.

    Example:
        >>> TorchVersion("2.13.0+x") >= (2, 4), TorchVersion("2.13.0") > "2.9"
        (True, True)
    """

    __slots__ = ()

    def _compared(self, other: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The numbers of both, as many of each."""
        mine, others = _numbers(str(self)), _numbers(other)
        count = max(len(mine), len(others))
        return _padded(mine, count), _padded(others, count)

    def __lt__(self, other: Any) -> bool:
        mine, others = self._compared(other)
        return mine < others

    def __le__(self, other: Any) -> bool:
        mine, others = self._compared(other)
        return mine <= others

    def __gt__(self, other: Any) -> bool:
        mine, others = self._compared(other)
        return mine > others

    def __ge__(self, other: Any) -> bool:
        mine, others = self._compared(other)
        return mine >= others

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other)
        if isinstance(other, tuple):
            mine, others = self._compared(other)
            return mine == others
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _numbers(version: Any) -> tuple[int, ...]:
    """The leading numbers of a version: of its release."""
    parts = version if isinstance(version, tuple) else str(version).partition("+")[0].split(".")
    found = []
    for part in parts:
        digits = re.match(r"\d+", str(part))
        if digits is None:
            break
        found.append(int(digits[0]))
    return tuple(found)


def _padded(numbers: tuple[int, ...], count: int) -> tuple[int, ...]:
    return (*numbers, *(0,) * (count - len(numbers)))


NONE = None


def show() -> str:
    """What PyTorch would say of how it was built; lazyt builds each kernel when it runs."""
    return f"lazyt {_lazyt}: kernels are compiled while a program runs; see `lazyt doctor`"


def parallel_info() -> str:
    """How many threads compute."""
    threads = import_module("lazyt").get_num_threads()
    return f"lazyt: kernels run in {threads} threads (LAZYT_THREADS, torch.set_num_threads)"


def get_pretty_env_info() -> str:
    """What this machine gives lazyt, as ``python -m lazyt doctor`` says it."""
    command = [sys.executable, "-m", "lazyt", "doctor"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def show_environment() -> None:
    """Print it."""
    print(get_pretty_env_info())
