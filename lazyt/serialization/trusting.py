"""Reading a saved file whose author is trusted: Python's own unpickler, which may run anything.

It is used only by ``load(..., weights_only=False)``. Tensors and their memories are made as for
other files; other names are imported, those of PyTorch's packages from lazyt's.
"""

from __future__ import annotations

import functools
import importlib
import io
import pickle
from collections.abc import Callable
from typing import Any

from lazyt.errors import CheckpointError, LazytError
from lazyt.serialization.rebuild import Finder, Loader
from lazyt.serialization.safe_pickle import Called


def _with_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which takes functions as ``Called``, for functions as they are."""

    def call(*args: Any) -> Any:
        return function(*(Called(a) if callable(a) else a for a in args))

    return call


#: Classes of PyTorch that differ from another in their name alone.
_RENAMED = {"NonDynamicallyQuantizableLinear": "Linear"}


def _imported(module: str, name: str) -> Any:
    """A name of lazyt's, from the module of PyTorch's name or a package around it.

    Raises CheckpointError where there is none.
    """
    home, name = module, _RENAMED.get(name, name)
    while home:
        try:
            return functools.reduce(getattr, name.split("."), importlib.import_module(home))
        except (ImportError, AttributeError):
            home = home.rpartition(".")[0]
    theirs = "torch" + module.removeprefix("lazyt")
    raise CheckpointError(f"the file needs {theirs}.{name}, which lazyt does not have")


class _Unpickler(pickle.Unpickler):
    def __init__(self, text: bytes, finder: Finder, loader: Loader) -> None:
        super().__init__(io.BytesIO(text))
        self._finder, self._loader = finder, loader

    def find_class(self, module: str, name: str) -> Any:
        known = self._finder.known(module, name)
        if isinstance(known, Called):
            return _with_names(known.function) if known.takes_functions else known.function
        if known is not None:
            return known
        if module.partition(".")[0] != "torch":
            return super().find_class(module, name)
        return _imported("lazyt" + module.removeprefix("torch"), name)

    def persistent_load(self, pid: Any) -> Any:
        return self._loader(pid)


def run_pickle(text: bytes, finder: Finder, loader: Loader) -> Any:
    """The value of a pickle, with whatever code it calls.

    Raises CheckpointError for damaged text and for names of PyTorch that lazyt does not have, and
    what the code raises.
    """
    try:
        return _Unpickler(text, finder, loader).load()
    except (pickle.UnpicklingError, EOFError, IndexError, KeyError) as error:
        if isinstance(error, LazytError):
            raise
        said = f"{type(error).__name__}: {error}"
        raise CheckpointError(f"the pickle inside is damaged: {said}") from error
