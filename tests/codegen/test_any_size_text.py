"""Kernels for any size have one form: from size to size, only numbers of their text differ."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import lazyt as lt
from lazyt import Tensor, ops
from lazyt.codegen.c.target import print_kernel_c
from lazyt.compiler import compile_graph
from lazyt.handle.dispatch import wrap
from lazyt.ir.dtypes import float32

CACHES = (32 << 10, 1 << 20, 32 << 20)


def form_of(function: Callable[[Tensor], Tensor], *shape: int) -> list[str]:
    """The kernels' texts without numbers."""
    x = ops.input_(shape, float32)
    kernels = compile_graph([function(wrap(x)).node], [x])[1]
    texts = [print_kernel_c(k, 64, CACHES, any_size=True, threads=2).source.text for k in kernels]
    return [re.sub(r"lz_[a-z]+_[0-9a-f]{10}|\d+", "0", text) for text in texts]


@pytest.mark.parametrize(
    ("function", "width"),
    [
        (lambda x: x @ lt.ones(256, 1024), 256),  # one block of rows, or several
        (lambda x: lt.relu(x @ lt.ones(1024, 256).T), 256),
        (lambda x: x.reshape(4, -1, 64) @ lt.ones(4, 64, 64), 256),  # a batch's own panels
        (lambda x: lt.nn.functional.gelu(x), 768),  # in a near cache, or in memory
        (lambda x: lt.softmax(x, -1), 768),
        (lambda x: lt.nn.functional.layer_norm(x, (768,)), 768),
        (lambda x: x.var(-1), 4096),
    ],
)
def test_the_form_of_a_text_for_any_size_does_not_depend_on_the_size(
    function: Callable[[Tensor], Tensor], width: int
) -> None:
    forms = [form_of(function, rows, width) for rows in (36, 144, 448, 9001)]
    assert forms[0] and all(form == forms[0] for form in forms)
