"""The disk cache: hits, broken entries, folders that cannot be used, bounds."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lazyt.config import config
from lazyt.runtime import cache, events
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.cpython import direct
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
    assert binary.stem in meta.read_text() and compile.find().version in meta.read_text()
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


def values(n: int) -> list[float]:
    """What axpy of ``n`` gives, loaded anew."""
    execute.forget()
    x, y, out = filled(np.arange(n)), filled(np.ones(n)), Buffer(4 * n)
    execute.load(axpy(n)).run([x, y], [out])
    return [float(value) for value in floats(out)]


def test_an_entry_under_the_name_of_another_is_none(cache_dir: Path) -> None:
    """Each is whole and the user's own: only its name is wrong."""
    assert compute(32) and compute(48)
    first, second = files(cache_dir, "*.json")
    content = first.read_bytes(), second.read_bytes()
    first.write_bytes(content[1])
    second.write_bytes(content[0])
    started = compile.started
    assert compute(32) and compute(48) and compile.started == started + 2

    cache.put_text("plan", "a", "of a")
    cache.put_text("plan", "b", "of b")
    cache.put_text("other", "a", "other of a")
    place = cache_dir / f"v{cache.FORMAT}"
    a, b, other = (
        place / cache._text_name(kind, key)
        for kind, key in (("plan", "a"), ("plan", "b"), ("other", "a"))
    )
    shutil.copy(b, a)
    assert cache.get_text("plan", "a") is None and cache.get_text("plan", "b") == "of b"
    shutil.copy(other, a)
    assert cache.get_text("plan", "a") is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_folder_that_others_may_write_to_is_not_used(cache_dir: Path, mode: int) -> None:
    assert compute()
    place = cache_dir / f"v{cache.FORMAT}"
    before = sorted(path.name for path in place.iterdir())
    place.chmod(mode)
    compile._found.clear()
    started = compile.started
    with pytest.warns(
        cache.NoCacheWarning, match="others may write to .*LAZYT_CACHE_DIR"
    ) as warned:
        assert compute() and compute()
    assert len(warned) == 1 and compile.started >= started + 2
    assert sorted(path.name for path in place.iterdir()) == before, "nothing was compiled in there"
    place.chmod(0o700)
    started = compile.started
    assert compute() and compile.started == started


def test_links_in_the_place_of_the_folder_or_an_entry_are_not_followed(
    cache_dir: Path, tmp_path: Path
) -> None:
    assert compute()
    (binary,) = files(cache_dir, "*.so")
    elsewhere = tmp_path / "elsewhere.so"
    os.replace(binary, elsewhere)
    binary.symlink_to(elsewhere)
    started = compile.started
    assert compute() and compile.started == started + 1
    assert not binary.is_symlink(), "the entry was not made anew"

    place = cache_dir / f"v{cache.FORMAT}"
    os.rename(place, tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    with pytest.warns(cache.NoCacheWarning):
        assert compute()


def test_files_that_others_may_write_to_are_made_anew(cache_dir: Path) -> None:
    assert compute()
    (binary,) = files(cache_dir, "*.so")
    binary.chmod(0o777)
    started = compile.started
    assert compute() and compile.started == started + 1
    assert compute() and compile.started == started + 1
    assert any("others may write" in event.reason for event in events.recorded("cache"))


def test_what_was_checked_is_what_is_loaded(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a checked binary is another's when it is opened, and its descriptor's number is
    that of one that was loaded before."""
    assert compute(32)
    (first,) = files(cache_dir, "*.so")
    assert compute(48)
    (second,) = (path for path in files(cache_dir, "*.so") if path != first)
    real, replaced = execute._open, first.read_bytes()

    def open_late(path: str) -> object:
        for name in files(cache_dir, "*.so"):
            other = name.with_suffix(".new")
            other.write_bytes(replaced)
            os.replace(other, name)
        return real(path)

    monkeypatch.setattr(execute, "_open", open_late)
    assert values(48)[-1] == 2 * 47 + 1
    assert second.read_bytes() == replaced


def test_many_libraries_come_through_the_same_descriptor(cache_dir: Path) -> None:
    for n in range(3, 9):
        assert compute(n)
    execute.forget()
    held = [execute.load(axpy(n)) for n in range(3, 9)]
    for n, executable in zip(range(3, 9), held):
        x, y, out = filled(np.arange(n)), filled(np.ones(n)), Buffer(4 * n)
        executable.run([x, y], [out])
        assert floats(out).tolist() == [2.0 * i + 1 for i in range(n)]


def test_the_folder_may_go_while_a_process_runs(cache_dir: Path) -> None:
    for n in (32, 32, 40):
        assert compute(n)
        shutil.rmtree(cache_dir)
    assert compute(32) and files(cache_dir, "*.so")


def test_places_where_others_may_swap_files_are_not_compiled_in(tmp_path: Path) -> None:
    own, shared, sticky = (tmp_path / name for name in ("own", "shared", "sticky"))
    for place, mode in ((own, 0o700), (shared, 0o777), (sticky, 0o1777)):
        place.mkdir()
        place.chmod(mode)
    for place in (own, sticky):
        with cache.scratch(str(place)) as folder:
            assert os.stat(folder).st_mode & 0o777 == 0o700
    for place in (shared, shared / "inner"):
        with pytest.raises(OSError, match="others may rename"), cache.scratch(str(place)):
            pass


def test_libraries_are_unloaded_when_no_plan_uses_them(cache_dir: Path) -> None:
    def mapped() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    if not os.path.exists("/proc/self/maps"):
        pytest.skip("mappings are counted in /proc")
    held = execute.load(axpy(20))
    for n in range(21, 26):
        assert compute(n)
    gc.collect()
    before, loaded = mapped(), execute.libraries.loaded
    for n in range(26, 36):
        assert compute(n)
    gc.collect()
    assert execute.libraries.loaded == loaded and mapped() <= before + 5
    bound = direct.bound_launch(held, 0)
    entry = weakref.ref(held.entry)
    del held
    execute.forget()
    gc.collect()
    assert entry() is not None, "a captured function runs it"
    del bound
    gc.collect()
    assert entry() is None


def test_an_entry_that_may_not_be_read_is_rebuilt(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compute()
    real = os.open

    def refuse(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(path).endswith(".so"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
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
        if str(cache_dir) in os.path.realpath(path) or "memfd" in os.path.realpath(path):
            raise OSError("failed to map segment")
        return real(path)

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
    ended = subprocess.Popen(["true"])
    ended.wait()
    place, mine = cache_dir / f"v{cache.FORMAT}", os.getpid()
    old, new = (place / f"tmp-{ended.pid}-{name}" for name in ("old", "new"))
    at_work = place / f"tmp-{mine}-old"  # the clock was set while this process works on it
    folder = place / f"tmp-{ended.pid}-folder"
    for path in (old, new, at_work):
        path.write_text("half")
    folder.mkdir()
    (folder / "unit0.c").write_text("half")
    for path in (old, folder, at_work):
        os.utime(path, (time.time() - 9999,) * 2)
    cache.sweep()
    assert not old.exists() and not folder.exists() and new.exists() and at_work.exists()
    assert cache.get_text("plan", "a") == "text"


def test_keys_tell_parts_apart() -> None:
    assert cache.hash_text("ab", "c") != cache.hash_text("a", "bc")
    assert cache.hash_text("ab") != cache.hash_text("ab", "")
