"""The disk cache: compiled binaries and text, shared by all processes of one user.

Layout under ``config.cache_dir``/v2: ``<key>.json`` says which binary belongs to a key,
``<digest>.so`` is a binary named by its own checksum, so that a reader can never see the binary of
one writer with the checksum of another; ``<key>.c`` is its source for people. ``<digest>.o`` is an
object file that binaries are linked from. ``<kind>-<key>.txt`` is text after a line with its kind,
its key and a checksum of all three: a file that was given another's name is no entry.

All files are written under a temporary name and renamed. What runs here is what is in these files,
so they must be the user's (or root's): a folder that belongs to somebody else, or that others may
write to, is not used, and a warning says why. Such files, those that do not match their checksum,
and symbolic links count as absent. Files are opened in the folder that was looked at, and read
once: what was checked is what is used, whatever happens to the names meanwhile. When the folder
cannot be written, caching is lost and nothing else; a warning says so once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass

from lazyt.config import config
from lazyt.errors import warn
from lazyt.runtime import events

FORMAT = 2  # raise when the meaning of an entry changes: old entries are then never read
_STALE_SECONDS = 3600.0  # a temporary file this old belongs to a process that was killed
_SWEEP_SECONDS = 600.0
_WAIT_SECONDS = 60.0
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_NOBODY = 65534  # whom a container shows as owner of folders from outside of it
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW


class NoCacheWarning(UserWarning):
    """The disk cache cannot be used, so that every process compiles again."""


class _Untrusted(OSError):
    """A folder or file that others may have written."""


@dataclass(frozen=True)
class Binary:
    """A binary that was read and checked; a context, which closes its descriptor.

    Attributes:
        data: its content.
        descriptor: the open file, which ``data`` was read from.
    """

    data: bytes
    descriptor: int

    def __enter__(self) -> Binary:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


_written = 0  # bytes since this process last swept
_swept_at = 0.0
_broken_folder = ""  # reported once per folder
_held: set[int] = set()  # lock files that this process has open


def folder() -> str:
    """The folder of the current format."""
    return os.path.join(config.cache_dir, f"v{FORMAT}")


def hash_text(*parts: str) -> str:
    """A key, 40 hexadecimal digits, for some text."""
    return _hash(*(part.encode() for part in parts))


def _hash(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for data in parts:
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def get_binary(key: str) -> Binary | None:
    """The binary stored under ``key``, checked, or None."""
    meta = _get(f"{key}.json")
    if meta is None:
        return None
    try:
        facts = json.loads(meta)
        digest, check = facts["binary"], facts["check"]
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(digest, str) or not digest.isalnum() or check != _check("so", key, digest):
        return None
    handle = _open_entry(f"{digest}.so")
    if handle is None:
        return None
    data = _read(handle)
    if data is None or _checksum(data) != digest:
        os.close(handle)
        return None
    _touch(f"{key}.c")
    return Binary(data, handle)


def facts(key: str) -> dict[str, object]:
    """What ``put_binary`` was told of a binary; nothing where it is not there."""
    try:
        found = json.loads(_get(f"{key}.json") or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def put_binary(key: str, binary: bytes, source: str, facts: dict[str, object]) -> bool:
    """Store a binary with its source and JSON-compatible facts; False if it was refused."""
    digest = _checksum(binary)
    own = {"key": key, "binary": digest, "check": _check("so", key, digest), "bytes": len(binary)}
    meta = json.dumps({**own, **facts}, indent=1)
    if not _put(f"{digest}.so", binary, mode=0o700) or not _put(f"{key}.c", source.encode()):
        return False
    # Last: an entry exists from the moment its metadata does.
    return _put(f"{key}.json", meta.encode()) is not None


def get_object(digest: str) -> bytes | None:
    """The object file with that checksum, checked, or None."""
    data = _get(f"{digest}.o") if digest.isalnum() else None
    return None if data is None or _checksum(data) != digest else data


def put_object(data: bytes) -> str | None:
    """Store an object file; its checksum, or None if refused."""
    digest = _checksum(data)
    return digest if _put(f"{digest}.o", data) else None


def get_text(kind: str, key: str) -> str | None:
    """The text stored under ``kind`` (a word) and ``key`` (any text), or None."""
    data = _get(_text_name(kind, key))
    if data is None:
        return None
    line, _, body = data.partition(b"\n")
    return body.decode() if line == _text_line(kind, key, body) else None


def put_text(kind: str, key: str, text: str) -> bool:
    """Store text under ``kind`` (a word) and ``key`` (any text); False when it was refused."""
    body = text.encode()
    return _put(_text_name(kind, key), _text_line(kind, key, body) + b"\n" + body) is not None


def binaries() -> Iterator[tuple[str, dict[str, object]]]:
    """Key and facts of each binary; ``get_binary`` says whether it is whole."""
    for name in _names(".json"):
        try:
            facts = json.loads(_get(name) or b"")
        except ValueError:
            continue
        if isinstance(facts, dict):
            yield name.removesuffix(".json"), facts


def get_source(key: str) -> str:
    """The source of a binary, for people; empty where it is gone."""
    return (_get(f"{key}.c") or b"").decode(errors="replace")


def texts(kind: str) -> Iterator[tuple[str, bytes]]:
    """File name and content of each text of a kind, for ``adopt_text``. Keys are not known."""
    for name in _names(".txt"):
        data = _get(name) if name.startswith(f"{kind}-") else None
        if data is not None and _is_text(name, data):
            yield name, data


def adopt_text(name: str, data: bytes) -> bool:
    """Store what ``texts`` gave in another cache; False for what that did not give, or where it was
    refused."""
    return _is_text(name, data) and _put(name, data) is not None


def _is_text(name: str, data: bytes) -> bool:
    """Whether a file holds the text that its name says."""
    line, _, body = data.partition(b"\n")
    kind, _, hashed = name.removesuffix(".txt").partition("-")
    if not (name.endswith(".txt") and kind.isalnum() and hashed.isalnum() and name.isascii()):
        return False
    return line == f"{kind} {hashed} {_hash(kind.encode(), hashed.encode(), body)}".encode()


def _names(ending: str) -> list[str]:
    with contextlib.suppress(OSError), _entered() as place:
        return sorted(name for name in os.listdir(place) if name.endswith(ending))
    return []


def require_own_file(handle: int, path: str) -> None:
    """Raises OSError for an open file that others may have written: what it holds would run."""
    _require_own(os.fstat(handle), path)


def save_failed(key: str, source: str) -> str | None:
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
def only_once(key: str, kind: str = "") -> Iterator[None]:
    """Hold the lock of ``key`` so that of many processes that miss it only one does the work.

    ``kind``, a word, tells apart what may be done one inside of the other: keys of one kind share
    locks, and who waits for another of the same kind may wait for itself.

    A best effort: after a minute, or where the folder cannot be locked, the caller goes on
    without the lock and repeats the work, which is correct too. Locks of killed processes vanish.
    """
    handle = _lock_file(kind + key[:2])
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
    with contextlib.suppress(OSError), _entered() as place, os.scandir(place) as listing:
        for entry in listing:
            with contextlib.suppress(OSError):  # another process may sweep at the same time
                status = entry.stat(follow_symlinks=False)
                if entry.name.startswith("tmp-"):
                    old = status.st_mtime < _swept_at - _STALE_SECONDS
                    if old and not _is_at_work(entry.name):
                        _remove(entry.name, place)
                elif entry.is_file(follow_symlinks=False):
                    entries.append((status.st_mtime, status.st_size, entry.name))
        excess = sum(size for _, size, _ in entries) - config.cache_bytes
        for _, size, name in sorted(entries):
            if excess <= 0:
                break
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=place)
            excess -= size


@contextlib.contextmanager
def scratch(inside: str) -> Iterator[str]:
    """A new folder inside ``inside`` that is deleted at the end; raises OSError if it cannot be,
    and where others could put their files in the place of what is written there.

    Inside the cache folder, ``sweep`` deletes what a killed process left.
    """
    place = make_scratch(inside)
    try:
        yield place
    finally:
        remove_scratch(place)


def make_scratch(inside: str) -> str:
    """The folder of ``scratch``, for whoever removes it elsewhere; raises OSError as that."""
    import tempfile

    os.makedirs(inside, mode=0o700, exist_ok=True)
    _require_safe_path(inside)
    return tempfile.mkdtemp(prefix=f"tmp-{os.getpid()}-", dir=inside)


def remove_scratch(place: str) -> None:
    """Deletes a folder of ``make_scratch``."""
    with contextlib.suppress(FileNotFoundError):  # somebody has cleared the cache
        _remove(place)


def scratch_folders() -> Iterator[str]:
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
    with contextlib.suppress(OSError), _entered() as place, os.scandir(place) as listing:
        for entry in listing:
            with contextlib.suppress(OSError):
                total += entry.stat(follow_symlinks=False).st_size
                count += entry.name.endswith(".json")
    return total, count


def _remove(path: str, place: int | None = None) -> None:
    import shutil

    if stat.S_ISDIR(os.lstat(path, dir_fd=place).st_mode):
        shutil.rmtree(path, ignore_errors=True, dir_fd=place)
    else:
        os.unlink(path, dir_fd=place)


def _is_at_work(name: str) -> bool:
    """Whether the process that a temporary name tells of lives: the clock may have been set."""
    number = name.split("-")[1]
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (ValueError, PermissionError, OverflowError):
        return False  # not of a process of ours
    return True


def _text_name(kind: str, key: str) -> str:
    return f"{kind}-{hash_text(key)}.txt"


def _text_line(kind: str, key: str, body: bytes) -> bytes:
    name = hash_text(key)
    return f"{kind} {name} {_hash(kind.encode(), name.encode(), body)}".encode()


def _check(kind: str, key: str, digest: str) -> str:
    """What says that a digest is that of this key."""
    return hash_text(kind, key, digest)


def _checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()


# ---------------------------------------------------------------- who may write


def _require_own(status: os.stat_result, what: str) -> None:
    """Raises _Untrusted where others decide what a file or folder holds."""
    if status.st_uid not in (os.geteuid(), 0):
        raise _Untrusted(f"{what} belongs to another user ({status.st_uid})")
    if status.st_mode & _OTHERS_WRITE:
        raise _Untrusted(f"others may write to {what} (mode {stat.S_IMODE(status.st_mode):o})")


def _require_safe_path(place: str) -> None:
    """Raises _Untrusted where others could give another file a path in this folder."""
    path = os.path.realpath(place)
    if path == os.path.realpath(folder()):
        _require_own(os.stat(path), path)
    while True:
        status = os.stat(path)
        if status.st_uid not in (os.geteuid(), 0, _NOBODY):
            raise _Untrusted(f"{path} belongs to another user ({status.st_uid})")
        own_group = status.st_gid == os.getegid() == os.geteuid()
        others = stat.S_IWOTH if own_group else _OTHERS_WRITE
        if status.st_mode & others and not status.st_mode & stat.S_ISVTX:
            raise _Untrusted(f"others may rename files in {path}")
        if path == os.path.dirname(path):
            return
        path = os.path.dirname(path)


@contextlib.contextmanager
def _entered(create: bool = False) -> Iterator[int]:
    """A descriptor of the folder, in which files are opened by name.

    Raises OSError; where it is not the user's alone that is said once.
    """
    place = folder()
    if create:
        os.makedirs(place, mode=0o700, exist_ok=True)
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | _OPEN)
    try:
        try:
            _require_own(os.fstat(handle), place)
        except _Untrusted as error:
            _report(place, error)
            raise
        yield handle
    finally:
        os.close(handle)


def _open_entry(name: str) -> int | None:
    """A descriptor of a file, if it is readable and the user's; marks it as used."""
    if not config.disk_cache:
        return None
    try:
        with _entered() as place:
            handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _OPEN, dir_fd=place)
    except OSError:  # absent, unreadable or a link: the caller builds it again
        return None
    status = os.fstat(handle)
    try:
        _require_own(status, name)
        if not stat.S_ISREG(status.st_mode):
            raise _Untrusted(f"{name} is no file")
    except _Untrusted as error:
        os.close(handle)
        events.record("cache", f"an entry is not used: {error}", folder=folder())
        return None
    if abs(time.time() - status.st_mtime) > 60.0:
        with contextlib.suppress(OSError):  # read-only caches cannot be marked, nor are they swept
            os.utime(handle)
    return handle


def _read(handle: int) -> bytes | None:
    """All of an open file."""
    parts = []
    try:
        while part := os.read(handle, 1 << 24):
            parts.append(part)
    except OSError:  # a broken disk
        return None
    return b"".join(parts)


def _get(name: str) -> bytes | None:
    """A file's bytes, see ``_open_entry``."""
    handle = _open_entry(name)
    if handle is None:
        return None
    try:
        return _read(handle)
    finally:
        os.close(handle)


def _touch(name: str) -> None:
    with contextlib.suppress(OSError), _entered() as place:
        os.utime(name, dir_fd=place, follow_symlinks=False)


def _put(name: str, data: bytes, mode: int = 0o600) -> str | None:
    """Write a file in one step that a reader, or a kill, cannot see half of; its path."""
    global _written
    if not config.disk_cache:
        return None
    temporary = f"tmp-{os.getpid()}-{os.urandom(6).hex()}"
    try:
        with _entered(create=True) as place:
            try:
                _write_all(temporary, data, mode, place)
                _make_way(name, place)
                os.replace(temporary, name, src_dir_fd=place, dst_dir_fd=place)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=place)
                raise
    except OSError as error:
        _report(folder(), error)
        return None
    _written += len(data)
    now = time.time()
    if _written > config.cache_bytes // 8 or abs(now - _swept_at) > _SWEEP_SECONDS:
        sweep()
    return os.path.join(folder(), name)


def _make_way(name: str, place: int) -> None:
    """Removes a folder of that name: somebody's accident; only an empty one is ours to remove."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(name, dir_fd=place).st_mode):
            os.rmdir(name, dir_fd=place)


def _write_all(name: str, data: bytes, mode: int, place: int) -> None:
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, mode, dir_fd=place)
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
        if isinstance(error, _Untrusted):
            reason, advice = f"the disk cache is not used: {error}", "of your own"
        else:
            reason = f"the disk cache cannot be written, so nothing is kept: {error}"
            advice = "that can be written"
        events.record("cache", reason, folder=place)
        warn(
            f"{reason}. Every process compiles again; set LAZYT_CACHE_DIR to a folder {advice}, or "
            "LAZYT_DISK_CACHE=0 to do without.",
            NoCacheWarning,
        )


def _let_go() -> None:
    """A child has its parent's locks, and would hold them for as long as it lives."""
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


def _lock_file(name: str) -> int | None:
    """One of 256 files of a kind, which are never deleted: deleting lock files is a race."""
    if not config.disk_cache:
        return None
    try:
        with _entered(create=True) as place:
            with contextlib.suppress(FileExistsError):
                os.mkdir("locks", 0o700, dir_fd=place)
            locks = os.open("locks", os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=place)
            try:
                return os.open(name, os.O_RDWR | os.O_CREAT | _OPEN, 0o600, dir_fd=locks)
            finally:
                os.close(locks)
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
