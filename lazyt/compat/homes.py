"""Modules by the names of PyTorch's, for what stands elsewhere here.

PyTorch has a file for nearly every class, such as ``torch.distributions.normal``, and programs
import from them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

__all__ = ["add_homes", "class_homes"]


def add_homes(package: str, homes: Mapping[str, Mapping[str, Any] | ModuleType]) -> None:
    """Give a package modules, unless it has them: modules by another name, or such as hold the
    given objects by name."""
    owner = vars(sys.modules[package])
    for name, held in homes.items():
        full = f"{package}.{name}"
        if full in sys.modules:
            continue
        made = held
        if not isinstance(made, ModuleType):
            made = ModuleType(full, f"What PyTorch has in a module ``{name}``.")
            vars(made).update(held, __path__=[])  # further modules may be put below
        sys.modules[full] = owner[name] = made


def class_homes(names: Mapping[str, Any], homes: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What ``add_homes`` takes, given the names of the objects, with blanks between, by module."""

    def held(listed: Iterable[str]) -> dict[str, Any]:
        return {name: names[name] for name in listed}

    return {home: held(listed.split()) for home, listed in homes.items()}
