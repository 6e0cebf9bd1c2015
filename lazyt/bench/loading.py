"""Users' files in the processes of peers, which have no lazyt to load them."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from lazyt.bench.names import NotOffered

#: Processes that lazyt itself loads the files in, and one that needs none.
_NOT_HERE = ("lazyt", "lazy", "reference", "machine")
#: Files that this process has run, and what was wrong with one.
_done: dict[str, str] = {}
#: The file that is being read, if one is.
_reading: list[str] = []


def paths() -> list[str]:
    """The files that processes of this run load."""
    return [path for path in os.environ.get("LAZYT_LOAD", "").split(os.pathsep) if path]


def place_in_loaded(error: BaseException) -> str:
    """``file:line: `` of the innermost line of a user's file that an error went through; empty
    where it went through none."""
    known = {os.path.realpath(path) for path in paths()}
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if os.path.realpath(frame.filename) in known]
    return f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}: " if own else ""


def load_for_peer(framework: str) -> str:
    """Runs the files where that has not been done. Returns what went wrong: a file with passes
    for lazyt cannot be run here, and need not be."""
    if framework in _NOT_HERE:
        return ""
    for path in paths():
        if path not in _done:
            _done[path] = _run(path, framework in ("torch", "compile") and _has_torch())
    return next((text for text in _done.values() if text), "")


def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def _run(path: str, has_torch: bool) -> str:
    module = ModuleType(Path(path).stem)
    module.__file__ = path
    sys.path.append(os.path.dirname(path))
    sys.modules.setdefault(module.__name__, module)
    absent = _Absent()
    if not has_torch:
        sys.meta_path.insert(0, absent)
    _reading.append(path)
    try:
        exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
    except Exception as error:
        where = place_in_loaded(error)
        return f"cannot load {path} beside this framework: {where}{type(error).__name__}: {error}"
    finally:
        _reading.pop()
        if not has_torch:
            sys.meta_path.remove(absent)
            for name in absent.made:  # libraries ask whether torch is there
                sys.modules.pop(name, None)
    return ""


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``torch`` where it is not wanted: a module that has nothing, for files that say
    ``import torch`` at their top and use it in functions that this process does not call."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for ``torch`` and what is below it."""
        if fullname.partition(".")[0] != "torch":
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty one."""
        self.made.append(spec.name)
        return _Nothing(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


class Unavailable:
    """What a file makes with lazyt at its top, in the process of a peer: it can be handed on, and
    raises NotOffered when a workload uses it.

    Args:
        name: of the attribute.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **named: Any) -> Unavailable:
        """The same, while files are read."""
        if _reading:
            return self
        raise NotOffered(self._name)

    def __getattr__(self, name: str) -> Unavailable:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unavailable(f"{self._name}.{name}")


def name_of_lazyt(name: str) -> Unavailable:
    """A name of the package that stands for lazyt in the process of a peer. Raises AttributeError
    for its modules, which are imported, and for names that Python looks for."""
    if name.startswith("__") or importlib.util.find_spec(f"lazyt.{name}") is not None:
        raise AttributeError(f"module 'lazyt' has no attribute {name!r}")
    return Unavailable(f"lazyt.{name}")


class _Nothing(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotOffered(f"{self.__name__}.{name}")
