"""Python processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["python_path"]


def python_path(*first: Path | str) -> str:
    """``PYTHONPATH`` of a child: these folders, then what this process was given, where a Python
    that an emulator runs has its packages."""
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join([*map(str, first), *filter(None, given.split(os.pathsep))])
