"""The beginning of a worker's process: ``python launch.py FRAMEWORK THREADS DEVICE``.

Only lazyt's own processes load lazyt: for the others the package is a mere place of modules, so
that neither its import nor its memory is part of what they need.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]


class _AsProgram(importlib.machinery.SourceFileLoader):
    """Runs a module of ``lazyt.bench`` under a name outside of lazyt. ``lazyt.jit`` tells the
    user's code from its own by that, and must see in a benchmark what it sees in any program."""

    def exec_module(self, module: types.ModuleType) -> None:
        code: Any = self.get_code(self.name)
        if not self.is_package(self.name):
            module.__name__ = f"program.{self.name}"
            sys.modules[module.__name__] = module  # dataclasses look their module up
        exec(code, module.__dict__)


class _Finder:
    """Finds the modules of ``lazyt.bench``."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        spec = None
        if name.startswith("lazyt.bench"):
            spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.origin is not None:
            spec.loader = _AsProgram(name, spec.origin)
        return spec


def main() -> None:
    """Prepares the process and hands over to ``worker``."""
    framework, threads, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if hasattr(os, "sched_setaffinity"):
        # The one limit that every framework respects.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    # The folder of this file is not a place to import from: its modules have everyday names.
    sys.path[0] = str(PACKAGE.parent)
    if framework not in ("lazyt", "lazy", "machine"):
        package = types.ModuleType("lazyt")
        package.__path__ = [str(PACKAGE)]
        sys.modules["lazyt"] = package
    sys.meta_path.insert(0, _Finder)
    importlib.import_module("lazyt.bench.worker").main(framework, threads, device)


if __name__ == "__main__":
    main()
