"""lazyt in the place of PyTorch: programs that say ``import torch`` get lazyt, unchanged.

``python -m lazyt run script.py`` does this for one program. In a program of your own::

    import lazyt.compat.torch_alias

    lazyt.compat.torch_alias.install()
    import torch                      # lazyt
    import torch.nn.functional as F   # lazyt.nn.functional

From then on lazyt calls itself ``torch`` in what it prints (``torch.float32``), and
``torch.__version__`` is that of the PyTorch it is compared with, then lazyt's own. Processes of
``multiprocessing`` have the alias, too, however they are started.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from multiprocessing import spawn
from types import ModuleType
from typing import Any

from lazyt.errors import LazytError
from lazyt.handle.device import device
from lazyt.handle.layout import layout
from lazyt.handle.tensor import Size, Tensor
from lazyt.ir.dtypes import DType
from lazyt.version import __version__

__all__ = ["install", "installed", "uninstall"]

_OURS, _THEIRS = "lazyt", "torch"
#: The PyTorch whose names lazyt is compared with: what a program that asks for a version may use.
_VERSION = "2.13.0+lazyt" + __version__
_NAMED = (Tensor, Size, DType, device, layout)


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``torch`` and ``torch.*`` in lazyt; every module is the one lazyt has, no copy."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for the names of PyTorch that lazyt has, else None.

        Raises ModuleNotFoundError where the reason for not having them is known.
        """
        if fullname != _THEIRS and not fullname.startswith(_THEIRS + "."):
            return None
        if fullname == _THEIRS:
            return importlib.machinery.ModuleSpec(fullname, self, loader_state=_OURS)
        if fullname == "torch.jit":  # no module of lazyt's, but a function with attributes
            return importlib.machinery.ModuleSpec(fullname, _Jit())
        ours = _OURS + fullname[len(_THEIRS) :]
        try:
            importlib.import_module(ours.rpartition(".")[0])  # may make the modules below it
            absent = ours not in sys.modules and importlib.util.find_spec(ours) is None
        except ModuleNotFoundError as error:  # lazyt says why
            text = str(error).replace(f"'{ours}'", f"'{fullname}'", 1)
            raise ModuleNotFoundError(text, name=fullname) from None
        if absent:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, loader_state=ours)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module of lazyt; its own spec is put by, as importing it again replaces it."""
        module = importlib.import_module(str(spec.loader_state))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module, which has run long ago, its own spec back."""
        spec = module.__spec__
        if spec is not None and spec.loader is self:
            module.__spec__ = spec.loader_state


class _Jit(importlib.abc.Loader):
    """Puts ``lazyt.jit`` in the place of the module ``torch.jit``."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """A module, for as long as the import takes."""

    def exec_module(self, module: ModuleType) -> None:
        """Replace the module."""
        sys.modules[module.__name__] = sys.modules[_OURS].jit


_finder = StandIn()


class _Heir:
    """What a process of ``multiprocessing`` that starts anew does when it reads this: the main
    module, which may say ``import torch``, is loaded later."""

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str, dict[str, Any]]]:
        lines = (
            "import sys",
            f"sys.path[:] = {sys.path!r}",  # where lazyt is found; set for the program only later
            "from lazyt.compat import torch_alias",
            "torch_alias.install()",
        )
        return exec, ("\n".join(lines), {})


def _preparation_data(name: str) -> dict[str, Any]:
    """``multiprocessing``'s own, and the alias."""
    return {**_prepare(name), "lazyt": _Heir()}


_prepare = spawn.get_preparation_data


def _aliases() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == _THEIRS]


def installed() -> bool:
    """Whether ``import torch`` gives lazyt."""
    return _finder in sys.meta_path


def install() -> None:
    """Make ``import torch``, and imports of its submodules, give lazyt and its own.

    Does nothing when that is so already. Raises LazytError when PyTorch itself has been imported:
    two halves of a program would then mean different things by ``torch``.
    """
    if installed():
        return
    package = sys.modules[_OURS]
    present = sys.modules.get(_THEIRS)
    if present is not None and present is not package:
        place = getattr(present, "__file__", None) or "an unknown place"
        raise LazytError(
            f"cannot stand in for torch: it is imported already, from {place}. Call "
            "lazyt.compat.torch_alias.install() before anything imports torch, or start the "
            "program with `python -m lazyt run`."
        )
    sys.meta_path.insert(0, _finder)
    sys.modules[_THEIRS] = package
    package.__dict__["__version__"] = _VERSION
    spawn.get_preparation_data = _preparation_data
    for kind in _NAMED:
        kind.__module__ = _THEIRS


def uninstall() -> None:
    """End ``install()``: ``import torch`` means what it meant before. Modules that have imported
    lazyt under that name keep it."""
    if not installed():
        return
    sys.meta_path.remove(_finder)
    sys.modules[_OURS].__dict__["__version__"] = __version__
    spawn.get_preparation_data = _prepare
    for name in _aliases():
        del sys.modules[name]
    for kind in _NAMED:
        kind.__module__ = _OURS
