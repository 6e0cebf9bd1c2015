"""Imports of modules that lazyt does not have: the error says why.

A module of its own, as ``import lazyt`` must stay cheap and the reasons are long.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["install"]


class AbsentModules:
    """Asked last, about modules of lazyt that nothing else finds."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raise ModuleNotFoundError with the reason why lazyt has no such module, if it is one."""
        package, _, name = fullname.partition(".")
        if package != __package__ or not name:
            return
        from lazyt.absent import module_reason

        why = module_reason(name)
        if why is not None:
            raise ModuleNotFoundError(f"No module named '{fullname}': {why}", name=fullname)


def install() -> None:
    """Have Python ask for reasons."""
    sys.meta_path.append(AbsentModules)
