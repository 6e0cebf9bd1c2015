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

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from multiprocessing import spawn
from types import ModuleType
from typing import Any, ClassVar

from lazyt.compat.absent import AbsentName, module_reason
from lazyt.compat.names import building, table
from lazyt.compat.served.versions import VERSION, TorchVersion
from lazyt.errors import LazytError
from lazyt.handle.device import device
from lazyt.handle.layout import layout
from lazyt.handle.tensor import Size, Tensor
from lazyt.ir.dtypes import DType

__all__ = ["install", "installed", "standing_in", "uninstall"]

_OURS, _THEIRS = "lazyt", "torch"
#: The package that PyTorch installs besides ``torch``, and where its modules are here.
_BESIDES, _SERVED = "functorch", "lazyt.functorch"
_NAMED = (Tensor, Size, DType, device, layout)


class TorchPackage(ModuleType):
    """The module ``torch``: lazyt's names as PyTorch has them, none of its internal modules."""

    def __init__(self) -> None:
        super().__init__(_THEIRS, sys.modules[_OURS].__doc__)
        self._lazyt = package = sys.modules[_OURS]
        self._names = table.names("")
        self.torch = self  # PyTorch imports itself, too
        self.__version__ = TorchVersion(VERSION)
        self.__path__: list[str] = []
        self.__file__ = package.__file__
        self.__all__ = [name for name in package.__all__ if self._shown(name)]

    def _shown(self, name: str) -> bool:
        """Whether an attribute of lazyt is one of ``torch``: a module only where PyTorch has it."""
        found = vars(self._lazyt).get(name)
        return not isinstance(found, ModuleType) or table.has_module(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and not self._names.has(name):
            raise AttributeError(f"module 'torch' has no attribute '{name}'", name=name)
        if self._names.has(name):
            found = self._names.find(name)
        else:
            found = getattr(self._lazyt, name)
            if isinstance(found, ModuleType) and found.__name__.startswith(_OURS + "."):
                raise AbsentName.of(_OURS, name)
        vars(self)[name] = found
        return found

    def __dir__(self) -> list[str]:
        ours = {name for name in dir(self._lazyt) if self._shown(name)}
        return sorted({*vars(self), *ours, *self._names.homes, *self._names.children})


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``torch`` and ``torch.*``: modules of lazyt's that PyTorch has by the same name, and
    those that the table of PyTorch's names describes."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for the names of PyTorch that lazyt has, else None.

        Raises ModuleNotFoundError where the reason for not having them is known.
        """
        package, _, inner = fullname.partition(".")
        if package == _BESIDES:
            found = importlib.util.find_spec(_SERVED + fullname.removeprefix(package))
            return found and importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if package != _THEIRS:
            return None
        if not inner or table.has_module(inner):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        why = module_reason(inner)
        if why is not None:
            raise ModuleNotFoundError(f"No module named '{fullname}': {why}", name=fullname)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module of lazyt, or a new one from the table."""
        package, _, inner = spec.name.partition(".")
        if package == _BESIDES:
            served = importlib.import_module(_SERVED + spec.name.removeprefix(package))
            spec.loader_state = (served.__spec__,)
            return served
        if not inner:
            return TorchPackage()
        if not table.is_own(inner):
            return building.make_module(table.names(inner), table.kind(inner))
        module = importlib.import_module(f"{_OURS}.{inner}")
        building.extend(module, table.names(inner))
        spec.loader_state = (module.__spec__,)  # put by, as importing it again replaces it
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give a module of lazyt, which has run long ago, its own spec back, and see to those below
        it that are there already: nothing may import them again."""
        spec = module.__spec__
        if spec is None or spec.loader is not self or spec.loader_state is None:
            return
        (module.__spec__,) = spec.loader_state
        package, _, inner = spec.name.partition(".")
        if package == _BESIDES:
            return
        for last in table.names(inner).children:
            below, there = f"{inner}.{last}", vars(module).get(last)
            if isinstance(there, ModuleType) and table.is_own(below):
                importlib.import_module(f"{_THEIRS}.{below}")
            elif there is not None and not isinstance(there, ModuleType):  # a function's name, too
                made = building.make_module(table.names(below), table.kind(below))
                sys.modules[f"{_THEIRS}.{below}"] = made

    def find_distributions(self, context: Any = None) -> Iterable[metadata.Distribution]:
        """What ``importlib.metadata`` says of the package ``torch``."""
        if context is None or context.name is None or context.name.lower() == _THEIRS:
            yield _TorchMetadata()


class _TorchMetadata(metadata.Distribution):
    """The metadata of an installed PyTorch, as far as programs ask for it: name and version."""

    _FILES: ClassVar = {
        "METADATA": f"Metadata-Version: 2.1\nName: {_THEIRS}\nVersion: {VERSION}\n",
        "top_level.txt": _THEIRS + "\n",
    }

    def read_text(self, filename: str) -> str | None:
        """The text of a file of metadata, None for those that are not there."""
        return self._FILES.get(str(filename))

    def locate_file(self, path: Any) -> Any:
        """Where the package's files are."""
        return pathlib.Path(str(sys.modules[_OURS].__file__)).parent / path


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
    present = sys.modules.get(_THEIRS)
    if present is not None:
        place = getattr(present, "__file__", None) or "an unknown place"
        raise LazytError(
            f"cannot stand in for torch: it is imported already, from {place}. Call "
            "lazyt.compat.torch_alias.install() before anything imports torch, or start the "
            "program with `python -m lazyt run`."
        )
    sys.meta_path.insert(0, _finder)
    importlib.import_module(_THEIRS)
    spawn.get_preparation_data = _preparation_data
    for kind in _NAMED:
        kind.__module__ = _THEIRS


@contextlib.contextmanager
def standing_in() -> Iterator[None]:
    """Within, ``import torch`` gives lazyt; behind it, what it gave before. Raises LazytError as
    ``install`` does."""
    before = installed()
    install()
    try:
        yield
    finally:
        if not before:
            uninstall()


def uninstall() -> None:
    """End ``install()``: ``import torch`` means what it meant before. Modules that have imported
    lazyt under that name keep it."""
    if not installed():
        return
    sys.meta_path.remove(_finder)
    spawn.get_preparation_data = _prepare
    building.restore()
    for name in [n for n in sys.modules if n.partition(".")[0] == _BESIDES]:
        del sys.modules[name]
    for name in _aliases():
        parent, _, last = name.removeprefix(_THEIRS + ".").rpartition(".")
        owner = vars(sys.modules.get(f"{_OURS}.{parent}", sys.modules[_OURS]))
        module = sys.modules.pop(name)
        if owner.get(last) is module and module.__name__ == name:  # the import put it there
            del owner[last]
    for kind in _NAMED:
        kind.__module__ = _OURS
