"""Positions in the user's program."""

from __future__ import annotations

import sys
import threading

import pytest

import lazyt as lt
from lazyt.ir.source_lines import recording, source_text


def test_equal_code_of_two_files_is_told_apart() -> None:
    first, second = (compile("x = 1\ny = 2\n", name, "exec") for name in ("a.py", "b.py"))
    last = len(first.co_code) - 2
    assert [source_text((code, last)) for code in (first, second)] == ["a.py:2", "b.py:2"]
    assert source_text((first, 0)).startswith("a.py:") and source_text(None) == "<unknown>"


def line_of(tensor: lt.Tensor) -> int:
    """The line that a tensor's value says it was made in."""
    return int(source_text(tensor.node.source).rpartition(":")[2])


def test_nodes_know_the_line_that_called_whatever_made_them() -> None:
    x = lt.rand(2, 3).realize()
    here = sys._getframe().f_lineno
    joined = lt.cat([x, x * 2])
    x[0] = joined[1, 1]
    assert line_of(joined) == here + 1 and line_of(x) == here + 2
    with pytest.raises(RuntimeError):
        lt.cat([x, lt.ones(2)])
    assert recording.here is None  # what failed left nothing behind
    here = sys._getframe().f_lineno
    assert line_of(lt.softmax(x, 1)) == here + 1


def test_threads_have_lines_of_their_own() -> None:
    """One may be inside a function while others call theirs."""
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = lt.full((3, 4), float(seed))
        for number in range(300):
            here = sys._getframe().f_lineno
            y = lt.cat([x, x + number], 0)
            wrong.extend([line_of(y)] if line_of(y) != here + 1 else [])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
