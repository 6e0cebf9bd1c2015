"""Saving and loading: PyTorch's file format, read without running what is in it.

Files are exchanged with PyTorch in both directions: ``torch.load`` reads what ``lazyt.save`` wrote
and the other way round, as PyTorch's ``weights_only=True`` does. What is loaded: tensors and
parameters, in memory that they share if they shared it; dictionaries, lists, tuples, sets,
text, bytes and numbers; sizes, dtypes and devices; objects of classes that ``add_safe_globals``
named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lazyt.errors import LazytError

__all__ = [
    "add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save",
]  # fmt: skip

_allowed: dict[str, Any] = {}


def save(
    obj: object,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Save tensors, and objects that hold them, for ``load`` or ``torch.load``.

    Args:
        obj: a tensor, a ``state_dict``, or any object that can be pickled; ``load`` makes the
            kinds of objects that this module's description names, and all others with
            ``weights_only=False``.
        f: a path, whose file is replaced only when all is written, or a file to write to.
        pickle_protocol: from 2 to 5.

    Raises LazytError for other formats and for tensors of several types over one memory.
    """
    from lazyt.serialization.archive import replacing, write_archive
    from lazyt.serialization.writing import write_objects

    if not _use_new_zipfile_serialization:
        raise LazytError("the format of PyTorch before 1.6 is not written")
    if pickle_module is not None and getattr(pickle_module, "__name__", "") != "pickle":
        raise LazytError("save() writes pickles of Python's own pickle module only")
    text, memories = write_objects(obj, pickle_protocol)
    if hasattr(f, "write"):
        write_archive(f, text, memories)
        return
    import os

    with replacing(os.fspath(f)) as file:
        write_archive(file, text, memories)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
) -> Any:
    """What ``save`` or ``torch.save`` wrote; by default nothing in the file is run.

    Args:
        f: a path, or a binary file that can seek.
        map_location: where tensors go: a device, a dictionary from the devices in the file to
            others, or a function of a storage and its device in the file.
        weights_only: True, the default, makes tensors and plain containers and runs nothing. False
            unpickles whatever the file holds, whole models for example, and may run code of it:
            only for files whose author you trust.
        pickle_module: Python's ``pickle`` or nothing.
        mmap: read the values from the file when they are used; needs a path. The file must stay as
            it is, changes to the tensors are not written to it, and checksums are not compared.

    Raises CheckpointError (also a ``pickle.UnpicklingError``) for damaged files, other formats, and
    objects of classes that were not allowed, naming them; DeviceError for devices that are
    not here.
    """
    from lazyt.serialization.archive import Archive, as_source
    from lazyt.serialization.rebuild import Finder, Loader
    from lazyt.serialization.safe_pickle import Machine

    if pickle_module is not None and getattr(pickle_module, "__name__", "") != "pickle":
        raise LazytError("load() reads with Python's own pickle module only")
    if pickle_module is not None and weights_only:
        raise LazytError("Can not safely load weights when explicit pickle_module is specified")
    archive = Archive(as_source(f), mapped=bool(mmap))
    try:
        finder, loader = Finder(_allowed, archive.title), Loader(archive, map_location)
        if weights_only is False:
            from lazyt.serialization.trusting import run_pickle

            return run_pickle(archive.read("data.pkl"), finder, loader)
        return Machine(finder, loader).run(archive.read("data.pkl"))
    finally:
        archive.close()


# ---------------------------------------------------------------------- what else may be loaded


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let ``load`` make objects of these classes, by ``__new__`` and ``__setstate__``, and call
    these functions. An entry is a class, or a class and the full name it has in files."""
    _allowed.update(map(_entry, safe_globals))


def _entry(item: Any) -> tuple[str, Any]:
    if isinstance(item, tuple):
        item, name = item
        module, _, last = str(name).rpartition(".")
        return f"{module} {last}", item
    return f"{item.__module__} {item.__qualname__}", item


def get_safe_globals() -> list[Any]:
    """The classes that the user allowed."""
    return list(_allowed.values())


def clear_safe_globals() -> None:
    """Allow no classes of the user's any more."""
    _allowed.clear()


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """``add_safe_globals`` for the body of a ``with`` statement."""
    before = dict(_allowed)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _allowed.clear()
        _allowed.update(before)
