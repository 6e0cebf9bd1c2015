"""The disk cache: hits, broken entries, folders that cannot be used, bounds."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lazyt.config import config
from lazyt.runtime import cache, compile, events, execute
from lazyt.runtime.memory import Buffer
from tests.runtime.sample_programs import axpy, filled, floats


def compute(n: int = 32) -> bool:
    """Load axpy anew, run it, and tell whether it computes."""
    execute.forget()
    x, y, out = filled(np.arange(n)), filled(np.ones(n)), Buffer(4 * n)
    execute.load(axpy(n)).run([x, y], [out])
    return bool((floats(out) == 2 * np.arange(n, dtype=np.float32) + 1).all())


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted((folder / f"v{cache.FORMAT}").glob(pattern))


def test_an_entry_has_source_binary_and_metadata(cache_dir: Path) -> None:
    assert compute()
    (source,), (binary,), (meta,) = (files(cache_dir, f"*.{end}") for end in ("c", "so", "json"))
    assert "void axpy(" in source.read_text() and source.stem == meta.stem
    assert binary.stem in meta.read_text() and "gcc" in meta.read_text()
    assert not files(cache_dir, "tmp-*")
    assert cache.usage()[1] == 1


def test_a_second_load_starts_no_compiler(cache_dir: Path) -> None:
    assert compute()
    started = compile.started
    assert compute() and compile.started == started
    assert [event.kind for event in events.recorded()] == ["compile", "load"]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("end", ["so", "json"])
@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        flip_a_bit,
        replace_by_folder,
        Path.unlink,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(os.urandom(3000)),
        lambda path: path.write_text('{"binary": ["not", "a", "name"]}'),
        lambda path: path.write_text('{"binary": "../../elsewhere"}'),
    ],
)
def test_a_broken_entry_is_rebuilt(
    cache_dir: Path, end: str, damage: Callable[[Path], object]
) -> None:
    assert compute()
    (path,) = files(cache_dir, f"*.{end}")
    # A new file, as a library that is mapped must not change under this process.
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    os.replace(copy, path)
    damage(path)
    started = compile.started
    assert compute() and compile.started >= started
    rebuilt = compile.started
    assert compute() and compile.started == rebuilt, "the rebuilt entry was not stored"
    if end == "so":
        assert rebuilt == started + 1


def test_an_entry_of_another_user_is_not_trusted(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compute()
    started = compile.started
    uid = os.geteuid()
    if uid == 0:
        for path in files(cache_dir, "*.*"):
            os.chown(path, 65534, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    known = compile.find()  # the compiler's own entry is not what is tested
    monkeypatch.setattr(compile, "find", lambda: known)
    assert compute() and compile.started == started + 1


def test_an_entry_that_may_not_be_read_is_rebuilt(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compute()
    real = open

    def refuse(path: object, *args: object, **kwargs: object) -> object:
        if str(path).endswith(".so") and str(path).startswith(str(cache_dir)):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(cache, "open", refuse, raising=False)
    started = compile.started
    assert compute() and compile.started == started + 1


@pytest.mark.parametrize("place", ["/proc/nowhere", "under-a-file"])
def test_a_folder_that_cannot_exist_costs_only_caching(
    cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    if place == "under-a-file":
        (tmp_path / "file").write_text("")
        place = str(tmp_path / "file" / "cache")
    monkeypatch.setattr(config, "cache_dir", place)
    started = compile.started
    with pytest.warns(cache.NoCacheWarning, match="set LAZYT_CACHE_DIR") as warned:
        assert compute() and compute()
    assert len(warned) == 1
    assert compile.started > started + 1
    (event,) = events.recorded("cache")
    assert "cannot be written" in event.reason


def test_a_full_disk_costs_only_caching(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.warns(cache.NoCacheWarning, match="No space left"):
        assert compute()
    assert not files(cache_dir, "*.so") and not files(cache_dir, "tmp-*")


def test_a_folder_without_execution_costs_only_a_copy(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compute()
    real, opened = execute._open, []

    def refuse(path: str) -> object:
        opened.append(path)
        return None if path.startswith(str(cache_dir)) else real(path)

    monkeypatch.setattr(execute, "_open", refuse)
    started = compile.started
    assert compute() and compile.started == started
    assert not os.path.exists(opened[-1]), "the private copy was left behind"


def test_the_cache_can_be_switched_off(cache_dir: Path) -> None:
    with config.override(disk_cache=False):
        started = compile.started
        assert compute() and compute()
        assert compile.started >= started + 2
        assert not cache.put_text("plan", "k", "text") and cache.get_text("plan", "k") is None
    assert not cache_dir.exists()


def test_text_is_stored_by_kind_and_key(cache_dir: Path) -> None:
    assert cache.get_text("plan", "a") is None
    assert cache.put_text("plan", "a", "first\nline ü\n") and cache.put_text("other", "a", "")
    assert cache.get_text("plan", "a") == "first\nline ü\n"
    assert cache.get_text("other", "a") == "" and cache.get_text("plan", "../a") is None
    assert cache.put_text("plan", "a", "second")
    assert cache.get_text("plan", "a") == "second"
    (path,) = files(cache_dir, "plan-*.txt")
    for damage in (truncate, lambda p: p.write_bytes(b"\xff\xfe\n\xff"), replace_by_folder):
        cache.put_text("plan", "a", "third")
        damage(path)
        assert cache.get_text("plan", "a") is None
    assert cache.put_text("plan", "a", "fourth") and cache.get_text("plan", "a") == "fourth"


def test_the_longest_unused_go_first(cache_dir: Path) -> None:
    now = time.time()
    for number in range(10):
        cache.put_text("plan", str(number), "x" * 1000)
        (path,) = set(files(cache_dir, "plan-*.txt")) - set(files(cache_dir, "plan-seen*"))
        os.utime(path, (now - 5000 + number, now - 5000 + number))
        path.rename(path.with_name(f"plan-seen{number}.txt"))
    with config.override(cache_bytes=5500):
        cache.sweep()
    kept = [path.name for path in files(cache_dir, "plan-seen*")]
    assert kept == [f"plan-seen{number}.txt" for number in range(5, 10)]


def test_a_hit_counts_as_use(cache_dir: Path) -> None:
    cache.put_text("plan", "used", "text")
    (path,) = files(cache_dir, "plan-*")
    os.utime(path, (1000, 1000))
    assert cache.get_text("plan", "used") == "text"
    assert path.stat().st_mtime > time.time() - 100


def test_the_size_is_bounded_while_writing(cache_dir: Path) -> None:
    with config.override(cache_bytes=40_000):
        for number in range(200):
            cache.put_text("plan", str(number), "x" * 1000)
        total, _ = cache.usage()
        assert 20_000 <= total <= 50_000
        assert cache.get_text("plan", "199") is not None


def test_what_killed_processes_left_is_swept_by_age(cache_dir: Path) -> None:
    cache.put_text("plan", "a", "text")
    old, new = (cache_dir / f"v{cache.FORMAT}" / f"tmp-1-{name}" for name in ("old", "new"))
    folder = cache_dir / f"v{cache.FORMAT}" / "tmp-2-folder"
    for path in (old, new):
        path.write_text("half")
    folder.mkdir()
    (folder / "unit0.c").write_text("half")
    for path in (old, folder):
        os.utime(path, (time.time() - 9999,) * 2)
    cache.sweep()
    assert not old.exists() and not folder.exists() and new.exists()
    assert cache.get_text("plan", "a") == "text"


def test_keys_tell_parts_apart() -> None:
    assert cache.hash_text("ab", "c") != cache.hash_text("a", "bc")
    assert cache.hash_text("ab") != cache.hash_text("ab", "")
