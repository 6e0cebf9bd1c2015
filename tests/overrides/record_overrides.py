"""Records from PyTorch what subclasses and patches of its classes see: ``recorded.json``.

    PYTHON_WITH_PYTORCH -m tests.overrides.record_overrides

The record holds, for each use of ``class_uses.py``, which methods are called in each phase and by
whom, which functions of ``nn.functional`` layers look up, and the bases of the classes of
``torch.nn`` and other packages.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from typing import Any

from tests.overrides import class_uses as uses
from tests.overrides.watching import functions_of, watch_functions, watch_methods

FILE = Path(__file__).with_name("recorded.json")


def record(torch: Any) -> dict[str, Any]:
    """Everything that is compared."""
    module = torch.nn.Module
    groups = {
        "layers": (uses.module_uses, (object, module)),
        "tree": (uses.tree_uses, (object,)),
        "optimizers": (uses.optimizer_uses, (object,)),
        "schedules": (uses.schedule_uses, (object,)),
        "data": (uses.data_uses, (object,)),
        "distributions": (uses.distribution_uses, (object,)),
    }
    found: dict[str, Any] = {"version": torch.__version__}
    for group, (every, stop) in groups.items():
        found[group] = []
        for use in every(torch):
            watch = watch_methods(torch, use, None, stop)
            entry = {"path": use.path, "seen": watch.seen, "failed": watch.failed}
            found[group].append(entry)
    found["functions"] = []
    for use in uses.module_uses(torch):
        watch = watch_functions(torch, use, functions_of(torch.nn.functional))
        found["functions"].append({"path": use.path, "seen": watch.seen})
    found["bases"] = bases(torch)
    return found


def bases(torch: Any) -> dict[str, dict[str, Any]]:
    """By module of ``torch.nn.modules`` and others: its classes, each with its bases."""
    found: dict[str, dict[str, Any]] = {}
    for package in ("nn.modules", "optim", "distributions", "utils.data"):
        home = importlib.import_module(f"torch.{package}")
        for info in pkgutil.iter_modules(home.__path__):
            if info.ispkg or info.name in ("backward_compatibility", "graph"):
                continue
            inner = importlib.import_module(f"{home.__name__}.{info.name}")
            own = {
                name: {"bases": _bases(value), "signature": _signature(value)}
                for name, value in vars(inner).items()
                if inspect.isclass(value) and value.__module__ == inner.__name__
            }
            if own:
                found[f"{package}.{info.name}"] = own
    return found


def _bases(cls: type) -> list[str]:
    return [b.__name__ for b in cls.__mro__[1:] if b.__module__.startswith("torch")]


def _signature(cls: type) -> list[str]:
    try:
        return list(inspect.signature(cls).parameters)
    except ValueError:
        return []


if __name__ == "__main__":
    import torch

    FILE.write_text(json.dumps(record(torch), indent=1, sort_keys=False) + "\n")
