"""All suites of problems; loading them fills ``problems.PROBLEMS``."""

from __future__ import annotations

import importlib

#: What ``--suite`` takes, besides ``all``. ``sizes`` holds further sizes of ``peers``.
NAMES = ("peers", "sizes", "kernels", "liger", "dtypes", "optimizers", "training", "gpu")

_MODULES = (
    "peers",
    "kernels",
    "fused",
    "liger",
    "dtypes",
    "training",
    "gpu",
)


def load() -> None:
    """Imports every suite."""
    for name in _MODULES:
        importlib.import_module(f"lazyt.bench.suites.{name}")
