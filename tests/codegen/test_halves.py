"""Values of 16 bits in kernels: rounded once where they are stored, and wherever they are used."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.ir.dtypes import DType, bfloat16, float16


@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_a_result_is_rounded_by_its_store_alone(dtype: DType) -> None:
    x = ops.input_((64,), dtype)
    program, _ = compile_graph([ops.apply("exp", ops.apply("mul", x, x))], [x])
    text = program.kernels[0].text
    stored = re.search(rf"= lz_store_{dtype.suffix}\((\w+)\);", text)
    assert stored, text
    made = re.search(rf" {stored[1]} = (.*);", text)
    assert made and "round" not in made[1], text


def test_a_stored_result_that_is_used_again_is_rounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(config, "verify", True)
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    x = lt.from_numpy(finite)
    scaled = x * 0.3
    total = scaled + x
    lt.realize(scaled, total)
    wide = finite.astype(np.float32)
    want = (wide * np.float32(0.3)).astype(np.float16)
    np.testing.assert_array_equal(scaled.numpy().view(np.uint16), want.view(np.uint16))
    with np.errstate(over="ignore"):
        both = (want.astype(np.float32) + wide).astype(np.float16)
    np.testing.assert_array_equal(total.numpy().view(np.uint16), both.view(np.uint16))
