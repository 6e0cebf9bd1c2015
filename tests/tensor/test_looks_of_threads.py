"""Threads that look at one tensor at the same time get the same memory, and it stays."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pytest

import lazyt as lt

T = TypeVar("T")
THREADS = 4


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads take turns as often as can be."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def together(look: Callable[[], T]) -> list[T]:
    """What several threads get that begin at once."""
    found: list[T] = []
    barrier = threading.Barrier(THREADS)

    def wait_and_look() -> None:
        barrier.wait()
        found.append(look())

    threads = [threading.Thread(target=wait_and_look) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == THREADS
    return found


def test_one_address() -> None:
    for offset in range(40):
        tensor = lt.arange(3000).float() * 2 + offset
        addresses = set(together(tensor.data_ptr))
        assert addresses == {tensor.data_ptr()}


def test_what_numpy_sees_is_shared() -> None:
    for offset in range(20):
        tensor = lt.arange(50).float() + offset
        arrays = together(tensor.numpy)
        arrays[0][0] = -1.0
        assert all(array[0] == -1.0 for array in arrays)
        assert tensor[0].item() == -1.0


def test_results_that_several_threads_need() -> None:
    for offset in range(20):
        shared = (lt.arange(2000).float() + offset).sin()
        wanted = np.sin(np.arange(2000, dtype=np.float32) + offset)
        for found in together(lambda s=shared: (s * 2).numpy()):  # type: ignore[misc]
            np.testing.assert_allclose(found, 2 * wanted, atol=1e-5)
