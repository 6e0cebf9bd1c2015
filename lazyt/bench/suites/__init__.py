"""All suites of problems; loading them fills ``problems.PROBLEMS``."""

from __future__ import annotations

import importlib

#: What ``--suite`` takes, besides ``all`` and ``levels``. ``sizes`` holds further sizes of
#: ``peers``, and ``-full`` means sizes for a GPU.
NAMES = (
    "peers", "sizes", "kernels", "liger", "dtypes", "optimizers", "training", "gpu", "level1",
    "level2", "level3", "level1-full", "level2-full", "level3-full",
)  # fmt: skip

_MODULES = (
    "peers",
    "kernels",
    "fused",
    "liger",
    "dtypes",
    "training",
    "gpu",
    "levels",
)


def load() -> None:
    """Imports every suite."""
    for name in _MODULES:
        importlib.import_module(f"lazyt.bench.suites.{name}")
