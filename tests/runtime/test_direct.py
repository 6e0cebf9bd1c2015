"""Functions of compiled C that the interpreter calls as its own."""

from __future__ import annotations

import ctypes
import gc
import sys

import pytest

import lazyt as lt
from lazyt.config import config
from lazyt.runtime.cpython import direct
from lazyt.runtime.cpython.words import Words


def test_words_are_compared_in_order() -> None:
    values = (ctypes.c_uint64 * 3)(1, 2, 3)
    start = ctypes.addressof(values)
    words = Words([start, start + 8, start + 16])
    assert words.hold() is True
    values[2] = 4
    assert words.hold() is False and words.first() == 2
    values[0] = 4
    assert words.first() == 0 and words.value(0) == 1
    words.take()
    assert words.hold() is True and words.first() is None


def test_functions_neither_leak_nor_take_references() -> None:
    if not direct.available():
        pytest.skip("functions cannot be made here")
    words = Words([id(object) + 8])
    before = [sys.getrefcount(value) for value in (None, True)]
    for _ in range(10_000):
        assert words.hold()
    after = [sys.getrefcount(value) for value in (None, True)]
    assert all(abs(a - b) < 5_000 for a, b in zip(after, before, strict=True))
    del words
    gc.collect()


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_may_change_between_calls(threads: int) -> None:
    x = lt.arange(200_000.0).realize()
    double = lt.jit(lambda x: x * 2 + 1, fullgraph=True)
    expected = (x * 2 + 1).numpy().tobytes()
    for count in (threads, 3 - threads) * 4:
        with config.override(threads=count):
            assert double(x).numpy().tobytes() == expected


def test_parallel_regions_within_each_other() -> None:
    """Ordering many rows sorts them side by side, and each with the loops of one long row."""
    for shape in ((3, 70_000), (1, 200_000), (300, 700)):
        x = lt.randn(*shape).realize()
        found = []
        for count in (1, 2):
            with config.override(threads=count):
                found.append(lt.sort(x).values.realize().numpy().tobytes())
        assert found[0] == found[1]
