"""Lines asked for before they are needed: where, and that nothing changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor, ops
from lazyt.codegen.c import prefetch, steps
from lazyt.codegen.c.target import print_kernel_c
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.handle.dispatch import wrap
from lazyt.ir.decisions import PLAIN, Traits
from lazyt.ir.dtypes import float32
from lazyt.plan import planning
from lazyt.runtime import devices

#: So that the text does not depend on who runs the test.
VECTOR_BYTES = 32


def kernel_text(
    function: Callable[[Tensor], Tensor],
    *shape: int,
    third: int = 256 << 20,
    any_size: bool = False,
    traits: Traits = PLAIN,
) -> str:
    x = ops.input_(shape, float32)
    kernels = compile_graph([function(wrap(x)).node], [x])[1]
    caches = (32 << 10, 1 << 20, third)
    printed = [
        print_kernel_c(k, VECTOR_BYTES, caches, any_size=any_size, traits=traits) for k in kernels
    ]
    return "".join(p.source.text for p in printed)


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
    assert len(loops_that_ask(softmax)) == 4 and "k) + 512)" in softmax, "2 KB of its results"
    near = kernel_text(lambda x: lt.softmax(x, -1), 640, 2048)
    assert set(loops_that_ask(near)) == {"x0"}, "10 MB: the last cache has the results"


def test_a_later_loop_asks_for_the_next_row_in_memory() -> None:
    text = kernel_text(lambda x: x.var(-1), 2048, 4096)
    assert len(loops_that_ask(text)) == 2 and text.index("lz_ahead") > text.rindex("while")
    assert not loops_that_ask(kernel_text(lambda x: x.var(-1), 640, 2048)), "that is no row away"


@pytest.mark.parametrize("shape", [(2048, 4096), (4001, 1031)])
def test_points_ask_for_what_they_read_and_write(shape: tuple[int, int]) -> None:
    text = kernel_text(lambda x: x.exp() + x, *shape)
    asked = loops_that_ask(text)
    # Four lines of each buffer for 64 elements.
    assert asked == ["y1"] * 4 + ["x0"] * 4 and "g += 64" in text and "+ 512)" in text
    assert text.count("lz_exp_f32(") == (1 if shape[0] * shape[1] % 4096 == 0 else 2), "the rest"


def test_points_that_compute_ask_for_what_the_second_cache_does_not_hold() -> None:
    assert set(loops_that_ask(kernel_text(lambda x: x.exp(), 512, 1024))) == {"x0", "y1"}
    assert not loops_that_ask(kernel_text(lambda x: x.exp(), 256, 1024)), "a megabyte"


def test_results_past_the_caches_are_not_asked_for() -> None:
    for function in (lambda x: lt.log_softmax(x, -1), lambda x: x.exp()):
        text = kernel_text(function, 2048, 4096, third=8 << 20)
        assert set(loops_that_ask(text)) == {"x0"} and "lz_stream" in text
    softmax = kernel_text(lambda x: lt.softmax(x, -1), 1024, 8192, third=8 << 20)
    assert len(loops_that_ask(softmax)) == 4 and "lz_stream" not in softmax, "they are read again"


@pytest.mark.parametrize("shape", [(3, 5), (2048, 4096)])
def test_points_of_any_size_ask_whatever_their_number(shape: tuple[int, int]) -> None:
    text = kernel_text(lambda x: x.exp(), *shape, any_size=True)
    assert len(loops_that_ask(text)) == 8 and text.count("lz_exp_f32(") == 1
    rows = kernel_text(lambda x: lt.softmax(x, -1), *shape, any_size=True)
    assert not loops_that_ask(rows), "their text would depend on sizes in more ways"


def test_processors_that_fetch_streams_are_asked_for_rows_only() -> None:
    def asked(function: Callable[[Tensor], Tensor], any_size: bool = False) -> set[str]:
        fetches = Traits(fetches=frozenset({"streams"}))
        return set(
            loops_that_ask(kernel_text(function, 2048, 4096, any_size=any_size, traits=fetches))
        )

    assert asked(lambda x: lt.log_softmax(x, -1)) == {"x0", "y1"}
    assert not asked(lambda x: x.exp() + x) and not asked(lambda x: x.exp(), any_size=True)
    assert asked(lambda x: lt.nn.functional.layer_norm(x, (4096,))) == {"x0", "y1"}


def test_they_fetch_the_next_row_into_the_second_cache_in_the_loop_that_stores() -> None:
    def text(traits: Traits) -> str:
        norm = lambda x: lt.nn.functional.layer_norm(x, (4096,))  # noqa: E731
        return kernel_text(norm, 2048, 4096, third=8 << 20, traits=traits)

    found = text(Traits(fetches=frozenset({"streams"})))
    assert found.index("lz_ahead_second(x0") > found.index("lz_rsqrt") and "lz_ahead(" not in found
    plain = text(PLAIN)
    assert plain.index("lz_ahead(x0") < plain.index("lz_rsqrt") and "_second" not in plain


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: lt.softmax(x, -1), (64, 1024)),  # stays in cache
        (lambda x: lt.relu(x), (512, 1024)),
        (lambda x: lt.softmax(x, -1), (65536, 128)),  # short rows follow each other
        (lambda x: lt.softmax(x, 0), (4096, 2048)),  # no rows
        (lambda x: x.sum(-1), (2048, 4096)),  # waits for memory all along
        (lambda x: lt.relu(x[:, ::2]), (2048, 8192)),  # groups would cost the compiler's last lanes
    ],
)
def test_nothing_asks_where_it_costs_time(
    function: Callable[[Tensor], Tensor], shape: tuple[int, ...]
) -> None:
    assert not loops_that_ask(kernel_text(function, *shape))


@pytest.mark.parametrize("shape", [(1500, 1031), (2, 800, 1024), (3, 9, 70, 1013)])
def test_results_are_the_same(shape: tuple[int, ...], monkeypatch: Any) -> None:
    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    x = lt.from_numpy(values)
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda x: lt.softmax(x, -1),
        lambda x: lt.log_softmax(x * 2, -1),
        lambda x: lt.logsumexp(x, -1),
        lambda x: lt.softmax(x[..., 3:], -1),
        lambda x: x.var(-1),
        lambda x: lt.nn.functional.layer_norm(x, x.shape[-1:]),
        lambda x: lt.nn.functional.gelu(x),
        lambda x: x.exp().log1p().tanh(),
        lambda x: (x.bfloat16() * 2).float(),
        lambda x: (x > 0) | (x < -1),
        lambda x: x.double() + x.transpose(-1, -2).sum(-2, keepdim=True).transpose(-1, -2),
    ]
    monkeypatch.setattr(config, "verify", True)
    monkeypatch.setattr(prefetch, "FAR", 0)
    monkeypatch.setattr(devices, "traits", lambda: PLAIN)
    monkeypatch.setattr(config, "disk_cache", False)
    asking = [f(x).numpy().tobytes() for f in functions]
    monkeypatch.setattr(steps, "prefetches_of", lambda *_: {})
    planning.clear()
    assert [f(x).numpy().tobytes() for f in functions] == asking
