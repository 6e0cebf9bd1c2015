"""Large results go past the caches: which, and that nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor, ops
from lazyt.codegen.c import target
from lazyt.codegen.c.streaming_stores import past_caches, stage_on_stack
from lazyt.codegen.c.target import print_kernel_c
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.handle.dispatch import wrap
from lazyt.ir.dtypes import DType, bfloat16, float32, float64
from lazyt.plan import planning

#: So that the text does not depend on who runs the test.
VECTOR_BYTES, CACHES = 32, (32 << 10, 1 << 20, 8 << 20)
LARGE = (2048, 2048)


def streams(
    function: Callable[[Tensor], Any], shape: tuple[int, ...], dtype: DType = float32
) -> int:
    x = ops.input_(shape, dtype)
    made = function(wrap(x))
    roots = [t.node for t in (made if isinstance(made, tuple) else (made,))]
    kernels = compile_graph(roots, [x])[1]
    texts = [print_kernel_c(k, VECTOR_BYTES, CACHES).source.text for k in kernels]
    return sum(text.count("lz_stream_f32(") for text in texts)


def test_large_results_go_past_the_caches() -> None:
    assert streams(lambda x: x * 2 + 1, LARGE) == 1
    assert streams(lambda x: x[:256] * 2, LARGE) == 1, "a quarter of the last cache"
    assert streams(lambda x: x * 2, (1024, 1024)) == 1, "operand and result fill it"
    assert streams(lambda x: (x * 2, x.exp()), LARGE) == 2, "several at once"
    assert streams(lambda x: x / (x * x).sum(-1, keepdim=True), LARGE) == 1, "rows"
    assert streams(lambda x: x[:, ::2] * 2, (4096, 2048)) == 1, "strided operands"
    assert streams(lambda x: x.t().contiguous() + 1, LARGE) == 1, "turned operands"
    assert streams(lambda x: lt.softmax(x, -1), LARGE) == 1, "what waits in them waits on the stack"


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(-1),  # small results
        lambda x: x[:255] * 2,  # the cache holds them
        lambda x: lt.softmax(x.view(-1, 8192), -1),  # asked for while exponentials are computed
        lambda x: x.cumsum(0),  # steps in order
    ],
)
def test_other_results_do_not(function: Callable[[Tensor], Tensor]) -> None:
    assert streams(function, LARGE) == 0


def test_results_that_the_cache_holds_beside_the_operands_do_not() -> None:
    assert streams(lambda x: x * 2, (1023, 1024)) == 0


def test_results_that_the_kernel_reads_or_converts_do_not() -> None:
    assert streams(lambda x: x * 2, LARGE, bfloat16) == 0

    def twice(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.exp()
        return y, (y / y.sum(-1, keepdim=True)).amax(-1)

    x = ops.input_(LARGE, float32)
    kernels = compile_graph([t.node for t in twice(wrap(x))], [x])[1]
    for kernel in kernels:
        assert not past_caches(kernel, -1) & {b.name for b in kernel.buffers if b.role != "out"}, (
            "what is no result of the kernel"
        )


SHAPES = [(130,), (64,), (5, 64), (7, 63), (3, 1031), (2, 3, 200), (9001,), (4096,)]


@pytest.mark.parametrize("shape", SHAPES)
def test_results_are_the_same(shape: tuple[int, ...], monkeypatch: Any) -> None:
    """Runs, what is left over, rows that begin in the middle of a vector, types of all sizes."""
    values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)

    def run() -> list[bytes]:
        planning.clear()
        x = lt.from_numpy(values)
        found = [
            x * 2 + 1, x > 0, (x * 50).to(lt.int8), x.double() * 3, (x * 1e6).to(lt.int64),
            lt.softmax(x, -1), x.flip(0) - x, lt.full(shape, 3.0), x[..., 1:] + 1,
            x.transpose(0, -1).exp(),
        ]  # fmt: skip
        return [t.numpy().tobytes() for t in found]

    monkeypatch.setattr(config, "verify", True)
    monkeypatch.setattr(config, "disk_cache", False)
    monkeypatch.setattr(config, "any_size", False)
    before = run()
    seen: list[int] = []

    def always(kernel: Any, third: int) -> frozenset[str]:
        found = past_caches(kernel, -1)
        seen.append(len(found))
        return found

    def wait_always(kernel: Any, first: int, third: int) -> Any:
        return stage_on_stack(kernel, first, -1)

    monkeypatch.setattr(target, "past_caches", always)
    monkeypatch.setattr(target, "stage_on_stack", wait_always)
    assert run() == before
    assert sum(seen) >= 8


def test_kernels_that_compute_much_are_ordered_and_store_two_vectors_at_a_time() -> None:
    """With 32 registers; results of narrow numbers still go in whole lines."""

    def text(function: Callable[[Tensor], Tensor], vector_bytes: int) -> str:
        x = ops.input_(LARGE, float32)
        (kernel,) = compile_graph([function(wrap(x)).node], [x])[1]
        return print_kernel_c(kernel, vector_bytes, CACHES).source.text

    def much(x: Tensor) -> Tensor:
        return lt.sigmoid(x) * lt.tanh(x)

    for function, vector_bytes, ordered, run in (
        (much, 64, True, 32),
        (much, 32, False, 64),
        (lambda x: x * 2 + 1, 64, False, 64),
    ):
        found = text(function, vector_bytes)
        assert found.startswith("LZ_ORDERED void ") is ordered
        assert f"lz_stream_f32({run}, " in found
    narrow = text(lambda x: much(lt.cat([x, x])).to(lt.int8), 64)
    assert narrow.startswith("LZ_ORDERED ") and "lz_stream_i8(64, " in narrow


def test_rows_that_begin_within_a_line_are_stored_by_whole_lines_from_the_first_one_on() -> None:
    def text(columns: int, dtype: DType = float32) -> str:
        x = ops.input_((8192, columns), dtype)
        y = wrap(x)
        roots = [(y / (y * y).sum(-1, keepdim=True)).node]
        (kernel,) = compile_graph(roots, [x])[1]
        return print_kernel_c(kernel, VECTOR_BYTES, CACHES).source.text

    assert "lead" not in text(1024)
    assert "lead" not in text(1040), "rows of 65 whole lines"
    assert "lz_stream_f32(16, " in text(1000) and "g = lead" in text(1000)
    assert "lead" not in text(1000, float64), "rows of 125 whole lines of eight"
    assert "lz_stream_f64(8, " in text(1001, float64)


def test_a_thread_waits_for_its_stores_once_for_all_steps_it_takes_in_turn() -> None:
    def text(rows: int, columns: int) -> str:
        x = ops.input_((rows, columns), float32)
        y = wrap(x)
        kernels = compile_graph([(y / (y * y).sum(-1, keepdim=True)).node], [x])[1]
        return "".join(print_kernel_c(k, VECTOR_BYTES, CACHES).source.text for k in kernels)

    many = text(8192, 1000)
    assert many.count("lz_stream_end()") == 1
    assert "schedule(dynamic, 128)" in many
    assert "if (((t0 % 128) == 127) || (t0 == 8191))" in many
    few = text(16, 262144)
    assert "schedule(static)" in few and "lz_stream_end();" in few and "if ((" not in few
