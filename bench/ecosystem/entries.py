"""The registry: which packages there are, and the program that stands for each."""

from __future__ import annotations

import fnmatch
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
#: The stages that a program may have, in the order in which they run.
STAGES = ("import", "forward", "backward", "step", "compile", "save")


@dataclass
class Case:
    """One network with its input, from which all stages follow.

    Attributes:
        module: the network; its parameters are filled with numbers that both frameworks have.
        inputs: positional arguments as a tuple, or keyword arguments as a mapping.
        loss: a scalar of what the module returns; the mean square of its first tensor if missing.
        outputs: the tensors of what it returns that are compared; all that are found if missing.
        optimizer: an optimizer of the parameters; AdamW if missing.
        training: whether the module is in training mode; dropout does nothing in either.
        fill: whether parameters are filled.
        double: whether it is computed in float64, where float32 decides little (batch statistics of
            few elements).
        compiled: whether torch.compile is tried.
        more: further values to compare, by name, computed after the forward pass.
    """

    module: Any
    inputs: tuple[Any, ...] | Mapping[str, Any] = ()
    loss: Callable[[Any], Any] | None = None
    outputs: Callable[[Any], Any] | None = None
    optimizer: Callable[[list[Any]], Any] | None = None
    training: bool = True
    fill: bool = True
    double: bool = False
    compiled: bool = True
    more: Callable[[Any], Mapping[str, Any]] | None = None


#: A program that is no network: what each stage computes, by the stage's name.
Steps = Mapping[str, Callable[[], Any]]


@dataclass(frozen=True)
class Entry:
    """One line of the table.

    Attributes:
        name: what ``--only`` is compared with, "package" or "package: what of it".
        package: the distribution's name, as pip knows it.
        make: gives the :class:`Case`, or the steps.
        modules: what the stage "import" imports.
        seconds: how long the process may take.
    """

    name: str
    package: str
    make: Callable[[], Case | Steps]
    modules: tuple[str, ...]
    seconds: int = 300

    @property
    def slug(self) -> str:
        """The name as a file's."""
        return "".join(c if c.isalnum() else "-" for c in self.name).strip("-").replace("--", "-")


@dataclass
class Registry:
    """All entries by name."""

    entries: dict[str, Entry] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        """Raises ValueError for a name that there is already."""
        if entry.name in self.entries:
            raise ValueError(f"there are two programs called {entry.name}")
        self.entries[entry.name] = entry


REGISTRY = Registry()


def program(
    name: str, *, package: str = "", modules: tuple[str, ...] = (), seconds: int = 300
) -> Callable[[Callable[[], Case | Steps]], Callable[[], Case | Steps]]:
    """Enters the decorated function. The package is the name up to its colon if missing, and the
    module is called like the package."""
    package = package or name.partition(":")[0]
    modules = modules or (package.replace("-", "_"),)

    def enter(make: Callable[[], Case | Steps]) -> Callable[[], Case | Steps]:
        REGISTRY.add(Entry(name, package, make, modules, seconds))
        return make

    return enter


def entries(only: str = "") -> list[Entry]:
    """Those whose name matches one of the patterns, separated by commas, in the table's order."""
    from bench.ecosystem import programs

    for module in sorted(m.name for m in pkgutil.iter_modules(programs.__path__)):
        importlib.import_module(f"{programs.__name__}.{module}")
    patterns = [p if any(c in p for c in "*?[") else f"*{p}*" for p in only.split(",") if p]
    found = sorted(REGISTRY.entries.values(), key=lambda e: (e.package.lower(), e.name.lower()))
    return [e for e in found if not patterns or any(fnmatch.fnmatch(e.name, p) for p in patterns)]


def requirements() -> dict[str, str]:
    """Version of each distribution of the environment, by its name in small letters."""
    found = {}
    for line in (FOLDER / "requirements.txt").read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if text:
            name, _, version = text.partition("==")
            found[name.lower().replace("_", "-")] = version
    return found
