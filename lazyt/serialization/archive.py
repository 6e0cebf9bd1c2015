"""The file that ``save`` writes: PyTorch's zip archive, one entry per memory, nothing compressed.

Entries are ``data.pkl`` (the objects), ``data/0``, ``data/1``, ... (memories, as their bytes) and
facts about the format; all below one folder, whose name does not matter.
"""

from __future__ import annotations

import mmap
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from lazyt.errors import CheckpointError, LazytError
from lazyt.ir.dtypes import uint8
from lazyt.runtime.memory import Buffer

_ALIGNMENT = 64
#: Bytes of the pickle, and of facts about the format: the largest models have some megabytes.
MOST_TEXT = 1 << 29
#: How many times its size in the archive an entry of more than that may unpack to. What ``save``
#: writes is not packed at all.
_MOST_RATIO, _FREE = 100, 1 << 28
_ROOT = "archive"
_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."

_TROUBLE = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError,
    RuntimeError,
)  # fmt: skip

# ---------------------------------------------------------------------- writing


@contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of ``path`` when all went well, else vanishes.

    Raises LazytError where there is no such folder.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise LazytError(f"Parent directory {os.path.dirname(path) or folder} does not exist.")
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:  # a device or a pipe
            yield file
        return
    temporary = f"{target}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def write_archive(file: IO[bytes], objects: bytes, memories: list[Any]) -> None:
    """Write an archive.

    Args:
        objects: the pickle.
        memories: what its storages 0, 1, ... hold, as contiguous arrays.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, "data.pkl", objects)
        _write(archive, ".format_version", b"1")
        _write(archive, ".storage_alignment", str(_ALIGNMENT).encode())
        _write(archive, "byteorder", sys.byteorder.encode())
        for key, memory in enumerate(memories):
            _write(archive, f"data/{key}", memory)
        _write(archive, "version", b"3\n")


def _write(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    view = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
    entry = zipfile.ZipInfo(f"{_ROOT}/{name}")
    entry.file_size = view.nbytes
    # Padding in an extra field of the header, as PyTorch writes it, lets the data be mapped.
    assert archive.fp is not None
    begin = archive.fp.tell() + 30 + len(entry.filename) + 4
    entry.extra = _extra_field(-begin % _ALIGNMENT)
    with archive.open(entry, "w") as out:
        out.write(view)


def _extra_field(length: int) -> bytes:
    return b"FB" + length.to_bytes(2, "little") + b"Z" * length


# ---------------------------------------------------------------------- reading


class Archive:
    """An archive that is open for reading.

    Args:
        source: a path, or a binary file that can seek.
        mapped: map the memories instead of reading them, which needs a path.

    Raises CheckpointError for files of another format, and damaged ones.
    """

    def __init__(self, source: str | IO[bytes], mapped: bool = False) -> None:
        self._source = source
        self.title = source if isinstance(source, str) else "the file"
        self._file = source if not isinstance(source, str) else open(source, "rb")  # noqa: SIM115
        try:
            self._zip = self._open()
            self._map = self._mapped() if mapped else None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if isinstance(self._source, str):
            self._file.close()

    def _open(self) -> zipfile.ZipFile:
        start = self._file.tell()
        head = self._file.read(512)
        self._file.seek(start)
        if not head:
            raise CheckpointError(f"{self.title} is empty")
        if not head.startswith(b"PK"):
            raise CheckpointError(f"{self.title} {_what_else(head)}")
        with self._watched("is damaged, or was not written to its end"):
            found = zipfile.ZipFile(self._file)
            names = found.namelist()
            self._require_disjoint(found)
        roots = [n[: -len("data.pkl")] for n in names if n.endswith("/data.pkl")]
        if not roots:
            raise CheckpointError(f"{self.title} is a zip archive, but none that save() writes")
        if roots[0] + "constants.pkl" in names:
            raise CheckpointError(
                f"{self.title} is a TorchScript archive, which holds code; save the state_dict() "
                "of the model instead"
            )
        self._root = roots[0]
        return found

    def _require_disjoint(self, found: zipfile.ZipFile) -> None:
        """Entries lie side by side: those that share bytes could be more than the file by far."""
        end = self._file.seek(0, os.SEEK_END)
        total = sum(entry.compress_size for entry in found.infolist())
        if total > end:
            raise CheckpointError(
                f"{self.title} is damaged: its entries have {total} bytes, and the file has {end}"
            )

    def _require_modest(self, entry: zipfile.ZipInfo) -> None:
        """Raises CheckpointError for an entry that was packed to be large."""
        if entry.file_size > max(_FREE, _MOST_RATIO * entry.compress_size):
            raise CheckpointError(
                f"{self.title}: {entry.filename} unpacks from {entry.compress_size} bytes to "
                f"{entry.file_size}, which is refused; store the entries without packing them"
            )

    @contextmanager
    def _watched(self, trouble: str = "is damaged") -> Iterator[None]:
        """Say what is wrong with the file where the zip module says how it failed."""
        try:
            yield
        except LazytError:
            raise
        except _TROUBLE as error:
            raise CheckpointError(f"{self.title} {trouble}: {error}") from error

    def read(self, name: str, missing: bytes | None = None) -> bytes:
        """An entry, or ``missing`` where that is given and there is none."""
        try:
            entry = self._zip.getinfo(self._root + name)
        except KeyError:
            if missing is not None:
                return missing
            raise CheckpointError(f"{self.title} lacks the entry {name}") from None
        if entry.file_size > MOST_TEXT:
            raise CheckpointError(
                f"{self.title}: the entry {name} has {entry.file_size} bytes, more than {MOST_TEXT}"
            )
        self._require_modest(entry)
        with self._watched():
            return self._zip.read(entry)

    @property
    def swapped(self) -> bool:
        """Whether the memories were written by a machine of the other byte order."""
        return self.read("byteorder", sys.byteorder.encode()).decode() != sys.byteorder

    def memory(self, key: str, nbytes: int) -> Buffer:
        """The first ``nbytes`` of a memory; raises CheckpointError where it has less."""
        name = f"{self._root}data/{key}"
        try:
            entry = self._zip.getinfo(name)
        except KeyError:
            raise CheckpointError(f"{self.title} lacks the entry data/{key}") from None
        stored = entry.compress_type == zipfile.ZIP_STORED
        if entry.file_size < nbytes or (stored and entry.compress_size != entry.file_size):
            raise CheckpointError(
                f"{self.title} is damaged: data/{key} has {entry.file_size} bytes, and {nbytes} "
                "are needed"
            )
        self._require_modest(entry)
        if self._map is not None and stored:
            found = self._mapped_memory(entry, nbytes)
            if found is not None:
                return found
        buffer = Buffer(entry.file_size)
        whole = buffer.as_numpy(uint8, (entry.file_size,))
        with self._watched(), self._zip.open(entry) as stream:
            self._fill(whole, stream, key)
        return buffer

    def _fill(self, whole: Any, stream: IO[bytes], key: str) -> None:
        view, done = memoryview(whole), 0
        while done < len(view):
            count = stream.readinto(view[done:])  # type: ignore[attr-defined]
            if not count:
                raise CheckpointError(f"{self.title} is damaged: data/{key} ends too early")
            done += count
        stream.read(1)  # at the end the checksum is compared

    # ------------------------------------------------------------------ mapping

    def _mapped(self) -> Any:
        if not isinstance(self._source, str):
            raise LazytError("load(mmap=True) takes a path, not a file object")
        private = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        return np.frombuffer(private, np.uint8)

    def _mapped_memory(self, entry: zipfile.ZipInfo, nbytes: int) -> Buffer | None:
        assert self._map is not None
        head = self._map[entry.header_offset : entry.header_offset + 30].tobytes()
        names = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        begin = entry.header_offset + 30 + names
        part = self._map[begin : begin + nbytes]
        if part.size < nbytes:
            raise CheckpointError(f"{self.title} is damaged: it ends too early")
        where: int = part.__array_interface__["data"][0]
        return Buffer.foreign(where, nbytes, part) if where % 8 == 0 else None


def _what_else(head: bytes) -> str:
    if head.startswith(_LEGACY):
        return (
            "is in the format that PyTorch wrote before 1.6. Load it with PyTorch and save it "
            "again, with torch.save(torch.load(path), path)."
        )
    if head[257:262] == b"ustar":
        return "is in the tar format of PyTorch's first versions, which is not read"
    if head[:1] == b"\x80":
        return "is a plain pickle and not an archive; pickles can run code, so it is not read"
    if head[8:10] == b'{"' and head[:8] != b"":
        return "looks like safetensors; read it with lazyt.serialization.safetensors.load_file"
    return "is no archive that save() writes"


def as_source(file: Any) -> str | IO[bytes]:
    """A path or file as callers give it; raises LazytError for what is neither."""
    if isinstance(file, (str, Path, os.PathLike)):
        return os.fspath(file)
    if not hasattr(file, "read") or not hasattr(file, "seek"):
        raise AttributeError(
            f"'{type(file).__name__}' object has no attribute 'seek'. You can only load from a "
            "file that is seekable. Please pre-load the data into a buffer like io.BytesIO and "
            "try to load from it instead."
        )
    found: IO[bytes] = file
    return found
