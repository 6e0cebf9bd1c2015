"""``torch.hub`` without a network: folders, files that are there, and models of local folders."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urlparse

from lazyt.errors import UnsupportedNameError

__all__ = [
    "HASH_REGEX", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir", "tqdm",
    "urlparse",
]  # fmt: skip

T = TypeVar("T")

#: A hash in the name of a file, as in ``model-0123abcd.pth``.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_ADVICE = "lazyt downloads nothing"
NONE = None


class _Folder:
    """Where files are looked for.

    Attributes:
        chosen: by ``set_dir``; None for the folder of the environment.
    """

    chosen: str | None = None


def _get_torch_home() -> str:
    """``TORCH_HOME``, or ``torch`` in the user's folder of caches."""
    caches = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(caches, "torch")))


def get_dir() -> str:
    """The folder whose ``checkpoints`` hold files of weights."""
    return _Folder.chosen or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose that folder."""
    _Folder.chosen = os.path.expanduser(os.fspath(d))


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True,
    check_hash: bool = False, file_name: str | None = None, weights_only: bool = False,
) -> Any:  # fmt: skip
    """What ``lazyt.load`` reads from the file of an address, where that is there already.

    Args:
        url: the last part of its path is the file's name.
        model_dir: the file's folder; ``checkpoints`` in that of ``get_dir`` by default.
        map_location: as of ``lazyt.load``.
        progress, check_hash: not used, as nothing is downloaded.
        file_name: the file's name.
        weights_only: not used: ``lazyt.load`` runs no code of a file.

    Raises UnsupportedNameError where there is no such file; says where it is looked for.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        raise UnsupportedNameError(f"{_ADVICE}; put what is at {url} into {path}")
    load_file = import_module("lazyt.serialization").load
    return load_file(path, map_location=map_location)


def _entries(repo_or_dir: str, source: str) -> ModuleType:
    """The module ``hubconf.py`` of a local folder."""
    if source != "local":
        raise UnsupportedNameError(f"{_ADVICE}; take source='local' and the path of a folder")
    path = os.path.join(repo_or_dir, "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.fspath(repo_or_dir))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(os.fspath(repo_or_dir))
    return module


def _entry(module: ModuleType, model: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(module, model, None)
    if found is None or not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


def list(repo: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """The names of the entries of a local folder's ``hubconf.py``. Raises UnsupportedNameError for
    a ``source`` other than "local"."""
    names = vars(_entries(repo, source))
    return [name for name, value in names.items() if callable(value) and not name.startswith("_")]


def help(repo: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> str | None:
    """The text of an entry of a local folder. Raises UnsupportedNameError for a ``source`` other
    than "local"."""
    return _entry(_entries(repo, source), model).__doc__


def load(
    repo_or_dir: str, model: str, *args: Any, source: str = "github", trust_repo: Any = None,
    force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """What an entry of a local folder's ``hubconf.py`` returns, given further arguments.

    Raises UnsupportedNameError for a ``source`` other than "local", FileNotFoundError without such
    a file, RuntimeError without the entry.
    """
    return _entry(_entries(os.fspath(repo_or_dir), source), model)(*args, **kwargs)


def tqdm(iterable: Iterable[T] = (), *args: Any, **kwargs: Any) -> Iterable[T]:
    """The values, with no bar that shows the progress."""
    return iterable
