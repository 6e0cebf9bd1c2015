"""Modules whose parameters are left for later."""

from __future__ import annotations

import inspect
from typing import Any

from lazyt.errors import LazytError
from lazyt.nn.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module of this class whose parameters' values mean nothing yet.

    Drawing them is cheap here: values that nobody looks at are never computed. Raises LazytError
    for what is no Module class, or takes no ``device``.
    """
    if not issubclass(module_cls, Module):
        raise LazytError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise LazytError("Module must support a 'device' arg to skip initialization")
    device = kwargs.get("device")
    return module_cls(*args, **kwargs).to_empty(device="cpu" if device is None else device)
