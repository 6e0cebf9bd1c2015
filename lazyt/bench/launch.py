"""The beginning of a worker's process: ``python launch.py FRAMEWORK THREADS``.

Only lazyt's own processes load lazyt: for the others the package is a mere place of modules, so
that neither its import nor its memory is part of what they need.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def main() -> None:
    """Prepares the process and hands over to ``worker``."""
    framework, threads = sys.argv[1], int(sys.argv[2])
    if hasattr(os, "sched_setaffinity"):
        # The one limit that every framework respects.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    # The folder of this file is not a place to import from: its modules have everyday names.
    sys.path[0] = str(PACKAGE.parent)
    if framework not in ("lazyt", "lazy", "machine"):
        package = types.ModuleType("lazyt")
        package.__path__ = [str(PACKAGE)]
        sys.modules["lazyt"] = package
    importlib.import_module("lazyt.bench.worker").main(framework, threads)


if __name__ == "__main__":
    main()
