"""Tuning by the clock: other forms of a plan's kernels are tried on the plan's own data.

``space.py`` has the forms of one kernel, ``strategies.py`` decides which are tried, ``kernels.py``
searches by them, ``plans.py`` goes through a plan, ``session.py`` decides which plans have their
turn and for how long, ``found.py`` is what was found.
"""

from __future__ import annotations

from typing import Any

#: What is here for those who build on it, and where it is: nothing is loaded before it is used.
_HOMES = {
    "Climb": "strategies", "CompiledKernel": "compiled_kernel", "Evolution": "strategies",
    "Measurement": "space", "RandomSearch": "strategies", "STRATEGIES": "strategies",
    "Space": "space", "Strategy": "strategies", "Trial": "strategies", "TrialLog": "trial_log",
    "features": "space", "measure": "space", "random_arrays": "compiled_kernel",
}  # fmt: skip
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
