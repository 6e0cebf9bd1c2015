"""Rows asked for while the row before is computed with: where, and that nothing changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor, ops, planning
from lazyt.codegen import c_steps
from lazyt.codegen.c import print_kernel_c
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.dispatch import wrap
from lazyt.ir.dtypes import float32

#: So that the text does not depend on who runs the test.
VECTOR_BYTES = 32


def kernel_text(function: Callable[[Tensor], Tensor], *shape: int, third: int = 256 << 20) -> str:
    x = ops.input_(shape, float32)
    kernels = compile_graph([function(wrap(x)).node], [x])[1]
    caches = (32 << 10, 1 << 20, third)
    return "".join(print_kernel_c(k, VECTOR_BYTES, caches).source.text for k in kernels)


def loops_that_ask(text: str) -> list[str]:
    return re.findall(r"lz_ahead\w*\((\w+) \+", text)


def test_the_loop_of_exponentials_asks_for_the_next_row() -> None:
    text = kernel_text(lambda x: lt.log_softmax(x, -1), 2048, 4096)
    asked = loops_that_ask(text)
    # Two lines of each buffer for 32 elements, of both passes over the row in one place.
    assert len(asked) == 4 and len(set(asked)) == 2
    assert text.index("lz_ahead") > text.index("lz_fold_maximum")
    assert "k) + 4096)" in text, "the next row"
    softmax = kernel_text(lambda x: lt.softmax(x, -1), 2048, 4096)
    assert len(loops_that_ask(softmax)) == 2, "exponentials are written where they will stay"


def test_lines_that_are_asked_for_do_not_go_past_the_caches() -> None:
    for function, lines in ((lt.softmax, 2), (lt.log_softmax, 4)):
        text = kernel_text(lambda x, f=function: f(x, -1), 2048, 4096, third=8 << 20)  # type: ignore[misc]
        assert len(loops_that_ask(text)) == lines and "lz_stream" not in text


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.var(-1), (2048, 4096)),  # waits for memory in all loops
        (lambda x: lt.softmax(x, -1), (64, 1024)),  # stays in cache
        (lambda x: lt.softmax(x, -1), (65536, 128)),  # short rows follow each other
        (lambda x: lt.softmax(x, 0), (4096, 2048)),  # no rows
        (lambda x: x.exp().sum(-1), (2048, 4096)),  # one loop
    ],
)
def test_nothing_asks_where_it_costs_time(
    function: Callable[[Tensor], Tensor], shape: tuple[int, ...]
) -> None:
    assert not loops_that_ask(kernel_text(function, *shape))


@pytest.mark.parametrize("shape", [(600, 1031), (2, 300, 1024), (3, 5, 70, 513)])
def test_results_are_the_same(shape: tuple[int, ...], monkeypatch: Any) -> None:
    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    x = lt.from_numpy(values)
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda x: lt.softmax(x, -1),
        lambda x: lt.log_softmax(x * 2, -1),
        lambda x: lt.logsumexp(x, -1),
        lambda x: lt.softmax(x[..., 3:], -1),
    ]
    monkeypatch.setattr(config, "verify", True)
    asking = [f(x).numpy().tobytes() for f in functions]
    monkeypatch.setattr(c_steps, "rows_ahead", lambda *_: {})
    monkeypatch.setattr(config, "disk_cache", False)
    planning.clear()
    assert [f(x).numpy().tobytes() for f in functions] == asking
