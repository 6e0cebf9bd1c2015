"""The disk cache: compiled binaries and text, shared by all processes of one user.

Layout under ``config.cache_dir``/v1: ``<key>.json`` says which binary belongs to a key and holds
its checksum, ``<digest>.so`` is a binary named by its own checksum, so that a reader can never see
the binary of one writer with the checksum of another; ``<key>.c`` is its source for people.
``<digest>.o`` is an object file that binaries are linked from.
``<kind>-<key>.txt`` is text after a line with its checksum. All files are written under a
temporary name and renamed. Files that do not match their checksum, or belong to another user, are
treated as absent. When the folder cannot be written, caching is lost and nothing else; a warning
says so once.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from lazyt.config import config
from lazyt.errors import warn
from lazyt.runtime import events

FORMAT = 1  # raise when the meaning of an entry changes: old entries are then never read
_STALE_SECONDS = 3600.0  # a temporary file this old belongs to a process that was killed
_SWEEP_SECONDS = 600.0
_WAIT_SECONDS = 60.0


class NoCacheWarning(UserWarning):
    """The disk cache cannot be written, so that every process compiles again."""


_written = 0  # bytes since this process last swept
_swept_at = 0.0
_broken_folder = ""  # reported once per folder
_held: set[int] = set()  # lock files that this process has open


def folder() -> str:
    """The folder of the current format."""
    return os.path.join(config.cache_dir, f"v{FORMAT}")


def hash_text(*parts: str) -> str:
    """A key, 40 hexadecimal digits, for some text."""
    import hashlib  # not for `import lazyt`

    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def get_binary(key: str) -> str | None:
    """Path of the binary stored under ``key`` after checking it, or None."""
    import json  # not for `import lazyt`

    meta = _get(f"{key}.json")
    if meta is None:
        return None
    try:
        digest = json.loads(meta)["binary"]
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(digest, str) or not digest.isalnum():
        return None
    binary = _get(f"{digest}.so")
    if binary is None or _checksum(binary) != digest:
        return None
    _touch(f"{key}.c")
    return os.path.join(folder(), f"{digest}.so")


def put_binary(key: str, binary: bytes, source: str, facts: dict[str, object]) -> str | None:
    """Store a binary with its source and JSON-compatible facts; its path, or None if refused."""
    import json  # not for `import lazyt`

    digest = _checksum(binary)
    meta = json.dumps({"binary": digest, "bytes": len(binary), **facts}, indent=1)
    path = _put(f"{digest}.so", binary, mode=0o700)
    if path is None or _put(f"{key}.c", source.encode()) is None:
        return None
    # Last: an entry exists from the moment its metadata does.
    return path if _put(f"{key}.json", meta.encode()) else None


def get_object(digest: str) -> str | None:
    """Path of the object file with that checksum after checking it, or None."""
    data = _get(f"{digest}.o") if digest.isalnum() else None
    if data is None or _checksum(data) != digest:
        return None
    return os.path.join(folder(), f"{digest}.o")


def put_object(data: bytes) -> str | None:
    """Store an object file; its checksum, or None if refused."""
    digest = _checksum(data)
    return digest if _put(f"{digest}.o", data) else None


def get_text(kind: str, key: str) -> str | None:
    """The text stored under ``kind`` (a word) and ``key`` (any text), or None."""
    data = _get(_text_name(kind, key))
    if data is None:
        return None
    checksum, _, body = data.partition(b"\n")
    if checksum.decode("ascii", "replace") != _checksum(body):
        return None
    return body.decode()


def put_text(kind: str, key: str, text: str) -> bool:
    """Store text under ``kind`` (a word) and ``key`` (any text); False when it was refused."""
    body = text.encode()
    return _put(_text_name(kind, key), _checksum(body).encode() + b"\n" + body) is not None


def keep_failed(key: str, source: str) -> str | None:
    """Write the source of a failed compile where a person can find it; its path, or None."""
    import tempfile

    name = f"failed-{key}.c"
    if path := _put(name, source.encode()):
        return path
    try:
        place = tempfile.mkdtemp(prefix="lazyt-failed-")
        path = os.path.join(place, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
    except OSError:  # nowhere to write: the error message says so
        return None
    return path


@contextlib.contextmanager
def only_once(key: str) -> Iterator[None]:
    """Hold the lock of ``key`` so that of many processes that miss it only one does the work.

    A best effort: after a minute, or where the folder cannot be locked, the caller goes on
    without the lock and repeats the work, which is correct too. Locks of killed processes vanish.
    """
    handle = _lock_file(key)
    try:
        if handle is not None:
            _held.add(handle)
            _wait_for_lock(handle)
        yield
    finally:
        if handle is not None and handle in _held:
            _held.remove(handle)
            os.close(handle)


def sweep() -> None:
    """Delete files left by killed processes, then the longest unused ones past the bound."""
    global _written, _swept_at
    _written, _swept_at = 0, time.time()
    entries: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(folder()) as listing:
        for entry in listing:
            with contextlib.suppress(OSError):  # another process may sweep at the same time
                status = entry.stat(follow_symlinks=False)
                if entry.name.startswith("tmp-"):
                    if status.st_mtime < _swept_at - _STALE_SECONDS:
                        _remove(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    entries.append((status.st_mtime, status.st_size, entry.path))
    excess = sum(size for _, size, _ in entries) - config.cache_bytes
    for _, size, path in sorted(entries):
        if excess <= 0:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        excess -= size


@contextlib.contextmanager
def scratch(inside: str) -> Iterator[str]:
    """A new folder inside ``inside`` that is deleted at the end; raises OSError if it cannot be.

    Inside the cache folder, ``sweep`` deletes what a killed process left.
    """
    import tempfile

    os.makedirs(inside, mode=0o700, exist_ok=True)
    place = tempfile.mkdtemp(prefix=f"tmp-{os.getpid()}-", dir=inside)
    try:
        yield place
    finally:
        _remove(place)


def scratch_places() -> Iterator[str]:
    """Where ``scratch`` may work, best first."""
    import tempfile

    if config.disk_cache:
        yield folder()
    with contextlib.suppress(OSError):  # no usable temporary folder at all
        yield tempfile.gettempdir()
    yield "/dev/shm"


def usage() -> tuple[int, int]:
    """(bytes, compiled programs) in the cache."""
    total = count = 0
    with contextlib.suppress(OSError), os.scandir(folder()) as listing:
        for entry in listing:
            with contextlib.suppress(OSError):
                total += entry.stat(follow_symlinks=False).st_size
                count += entry.name.endswith(".json")
    return total, count


def _remove(path: str) -> None:
    import shutil

    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        os.unlink(path)


def _text_name(kind: str, key: str) -> str:
    return f"{kind}-{hash_text(key)}.txt"


def _checksum(data: bytes) -> str:
    import hashlib  # not for `import lazyt`

    return hashlib.blake2b(data, digest_size=20).hexdigest()


def _get(name: str) -> bytes | None:
    """A file's bytes if it is readable and ours (or root's); marks it as used."""
    if not config.disk_cache:
        return None
    try:
        with open(os.path.join(folder(), name), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if status.st_uid not in (os.geteuid(), 0):
                return None  # whoever owns a binary decides what runs here
            data = file.readall()
    except OSError:  # absent, unreadable, or not a file: the caller rebuilds it
        return None
    if status.st_mtime < time.time() - 60.0:
        _touch(name)
    return data


def _touch(name: str) -> None:
    with contextlib.suppress(OSError):  # read-only caches cannot be marked, and are never swept
        os.utime(os.path.join(folder(), name))


def _put(name: str, data: bytes, mode: int = 0o600) -> str | None:
    """Write a file in one step that a reader, or a kill, cannot see half of."""
    global _written
    if not config.disk_cache:
        return None
    place = folder()
    path = os.path.join(place, name)
    temporary = os.path.join(place, f"tmp-{os.getpid()}-{os.urandom(6).hex()}")
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        _write_all(temporary, data, mode)
        if os.path.isdir(path):  # somebody's accident; only an empty one is ours to remove
            os.rmdir(path)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        _report(place, error)
        return None
    _written += len(data)
    if _written > config.cache_bytes // 8 or time.time() > _swept_at + _SWEEP_SECONDS:
        sweep()
    return path


def _write_all(path: str, data: bytes, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
    finally:
        os.close(handle)


def _report(place: str, error: OSError) -> None:
    global _broken_folder
    if place != _broken_folder:
        _broken_folder = place
        reason = f"the disk cache cannot be written, so nothing is kept: {error}"
        events.record("cache", reason, folder=place)
        warn(
            f"{reason}. Every process compiles again; set LAZYT_CACHE_DIR to a folder that can be "
            "written, or LAZYT_DISK_CACHE=0 to do without.",
            NoCacheWarning,
        )


def _let_go() -> None:
    """A child has its parent's locks, and would hold them for as long as it lives."""
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


def _lock_file(key: str) -> int | None:
    """One of 256 files that are never deleted: deleting lock files is a race."""
    if not config.disk_cache:
        return None
    place = os.path.join(folder(), "locks")
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        return os.open(os.path.join(place, key[:2]), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        _report(folder(), error)
        return None


def _wait_for_lock(handle: int) -> None:
    import fcntl

    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.005)
        except OSError:  # a file system without locks
            return
