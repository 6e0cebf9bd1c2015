"""Buffers and their pool."""

from __future__ import annotations

import gc
import itertools
import threading
import timeit
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyt
from lazyt.errors import OutOfMemoryError
from lazyt.ir import dtypes
from lazyt.runtime import memory
from lazyt.runtime.memory import Buffer, pool


@given(st.integers(0, 1 << 50))
def test_size_classes_waste_at_most_a_quarter(nbytes: int) -> None:
    size = memory.block_size(nbytes)
    assert size % 64 == 0 and size >= max(nbytes, 64)
    assert size <= max(256, nbytes * 1.25)
    assert memory.block_size(size) == size


@pytest.mark.parametrize("nbytes", [0, 1, 64, 4095, 1 << 20, (4 << 20) + 1, 33 << 20])
def test_buffers_are_aligned_and_writable(nbytes: int) -> None:
    buffer = Buffer(nbytes)
    assert buffer.nbytes == nbytes and buffer.ptr and buffer.ptr % 64 == 0
    array = buffer.as_numpy(dtypes.uint8, (nbytes,))
    array[:] = 7
    assert int(array.sum(dtype=np.int64)) == 7 * nbytes


def test_freed_memory_is_used_again() -> None:
    first = Buffer(12345)
    address = first.ptr
    del first
    assert Buffer(12300).ptr == address


def test_two_live_buffers_never_share_memory() -> None:
    buffers = [Buffer(1000 + i % 7) for i in range(200)]
    spans = sorted((b.ptr, b.ptr + b.nbytes) for b in buffers)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def test_an_array_keeps_its_buffer_alive() -> None:
    before = pool.stats().in_use
    array = Buffer(4096).as_numpy(dtypes.float32, (32, 32))
    gc.collect()
    assert pool.stats().in_use == before + 4096
    array[:] = 3.0
    row = array[5]
    del array
    assert pool.stats().in_use == before + 4096 and row.sum() == 96.0
    del row
    assert pool.stats().in_use == before


def test_an_array_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Buffer(100).as_numpy(dtypes.float32, (26,))


def test_foreign_memory_keeps_its_owner() -> None:
    array = np.arange(10, dtype=np.float32)
    before = pool.stats().in_use
    buffer = Buffer.foreign(array.ctypes.data, array.nbytes, array)
    view = buffer.as_numpy(dtypes.float32, (10,))
    assert buffer.is_foreign and not Buffer(4).is_foreign
    del array, buffer
    gc.collect()
    view += 1
    assert view.tolist() == list(range(1, 11))
    assert pool.stats().in_use == before


def test_copy_from_bytes_and_addresses() -> None:
    source, target = Buffer(8), Buffer(8)
    source.copy_from(b"abcdefgh")
    target.copy_from(source.ptr, 8)
    assert target.as_numpy(dtypes.uint8, (8,)).tobytes() == b"abcdefgh"
    for too_much in ((b"123456789", None), (b"12", 3), (source.ptr, 9), (source.ptr, -1)):
        with pytest.raises(ValueError, match="cannot copy"):
            target.copy_from(*too_much)


def test_huge_allocations_are_refused_and_the_next_works() -> None:
    kept = Buffer(1 << 20)
    del kept
    for nbytes in (1 << 45, 1 << 62):
        with pytest.raises(OutOfMemoryError, match=f"cannot allocate {nbytes} bytes"):
            Buffer(nbytes)
    with pytest.raises(MemoryError):
        Buffer(pool.stats().limit + 1)
    assert Buffer(1 << 20).nbytes == 1 << 20
    with pytest.raises(ValueError):
        Buffer(-1)


def test_a_refusing_system_empties_the_pool_before_giving_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, calls = memory._allocate, []

    def refuse_once(size: int) -> int:
        calls.append(pool.stats().pooled)
        return real(size) if len(calls) > 1 else 0

    pool.trim()
    Buffer(1 << 20)
    monkeypatch.setattr(memory, "_allocate", refuse_once)
    buffer = Buffer(777_777)
    assert buffer.ptr and calls[0] >= 1 << 20 and calls[1] == 0


def test_resource_limits_raise_and_leave_the_process_usable(run_child: Callable[..., str]) -> None:
    output = run_child("""
import resource
from lazyt.runtime.memory import Buffer
Buffer(1)
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
try:
    Buffer(4 << 30)
except MemoryError as error:
    print("this process may use 3221225472" in str(error))
print(Buffer(1 << 20).nbytes)
""")
    assert output.split() == ["True", "1048576"]


def test_the_pool_keeps_no_more_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    pool.trim()
    monkeypatch.setattr(memory, "_most_pooled", lambda: 10 << 20)
    large, small = [Buffer(6 << 20) for _ in range(4)], Buffer(5000)
    del small
    while large:
        large.pop()
        assert pool.stats().pooled <= 10 << 20
    assert pool.stats().pooled > 0
    pool.trim()
    assert pool.stats().pooled == 0


def test_an_idle_block_makes_room_for_a_mapped_one() -> None:
    pool.trim()
    Buffer(24 << 20)
    larger = Buffer(28 << 20)
    assert pool.stats().pooled == 0
    del larger
    assert pool.stats().pooled == 28 << 20


def test_blocks_that_are_small_in_use_or_much_larger_make_no_room() -> None:
    pool.trim()
    Buffer(1 << 20)
    Buffer(64 << 20)
    used = Buffer(16 << 20)
    Buffer(20 << 20)
    assert used.ptr and pool.stats().pooled == (1 + 64 + 20) << 20


def test_sizes_that_a_program_comes_back_to_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    pool.trim()
    real, mapped = memory._allocate, list[int]()

    def counted(size: int) -> int:
        mapped.append(size)
        return real(size)

    monkeypatch.setattr(memory, "_allocate", counted)
    for _ in range(6):
        Buffer(40 << 20)
        Buffer(48 << 20)
    assert len(mapped) <= 4 and pool.stats().pooled == (40 + 48) << 20
    pool.trim()


def test_stats_and_peak() -> None:
    pool.reset_peak()
    before = pool.stats().in_use
    buffer = Buffer(1 << 22)
    del buffer
    stats = pool.stats()
    assert stats.in_use == before and stats.peak == before + (1 << 22)
    assert stats.limit > 1 << 28


def test_threads_share_the_pool() -> None:
    before = pool.stats().in_use
    failures: list[str] = []

    def work(mark: int) -> None:
        for step in range(300):
            nbytes = 64 << (step % 6)
            buffer = Buffer(nbytes)
            array = buffer.as_numpy(dtypes.uint8, (nbytes,))
            array[:] = mark
            if not (array == mark).all():
                failures.append(f"{mark} at {step}")

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and pool.stats().in_use == before


def test_a_buffer_that_outlives_the_interpreter_is_silent(run_child: Callable[..., str]) -> None:
    assert (
        run_child("from lazyt.runtime.memory import Buffer; kept = [Buffer(99), Buffer(9 << 20)]")
        == ""
    )


def test_a_pooled_buffer_is_cheap() -> None:
    Buffer(1000)
    seconds = min(timeit.repeat(lambda: Buffer(1000), number=5000, repeat=9)) / 5000
    assert seconds < 15e-6  # ten times the goal: this machine may be busy


def test_refused_memory_has_pytorchs_error() -> None:
    with pytest.raises(lazyt.OutOfMemoryError, match="cannot allocate"):
        lazyt.zeros(1 << 55).realize()
    assert issubclass(lazyt.OutOfMemoryError, RuntimeError)
    assert lazyt.GradScaler is lazyt.amp.GradScaler
