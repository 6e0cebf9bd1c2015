"""Samples of the ``custom`` op: a kernel in C with two results, and operands it refuses."""

from __future__ import annotations

import numpy as np

from lazyt.codegen.handwritten.kernel import Kernel
from lazyt.ir.dtypes import float32, int64
from lazyt.ir.graph import Node
from lazyt.kernels import memory_kernels as memory_kernels  # what the interpreter runs them by
from lazyt.ops.custom import CustomParams, custom
from tests import compilers
from tests.ops_contract.op_samples import blank, refuse, sample

_ROWS = Kernel("""
void rows(const long *x, const long *y, long *sums, long *most, long n, long m) {
    for (long i = 0; i < n; i++) {
        long total = 0, top = x[i * m];
        for (long j = 0; j < m; j++) {
            total += x[i * m + j] * y[j];
            if (x[i * m + j] > top) top = x[i * m + j];
        }
        sums[i] = total;
        most[i] = top;
    }
}
""")


def _rows(result: int, x: Node, y: Node) -> Node:
    params = CustomParams(
        name="rows",
        target="c",
        function=_ROWS.function,
        text=_ROWS.text,
        used=_ROWS.used,
        slots=("in", "in", "out", "out", "3", "4"),
        read_shapes=((3, 4), (4,)),
        read_dtypes=(int64, int64),
        shapes=((3,), (3,)),
        dtypes=(int64, int64),
        result=0,
        batched=(0, 0),
        examples=0,
        grid=(),
    )
    return custom(params, [x, y])[result]


if compilers.available():
    _x = np.random.default_rng(5).integers(-9, 9, (3, 4))
    sample("custom", "sums", lambda x, y: _rows(0, x, y), _x, np.arange(4))
    sample("custom", "most", lambda x, y: _rows(1, x, y), _x, np.arange(4))
refuse("custom", "shape", lambda: _rows(0, blank((3, 5), int64), blank((4,), int64)))
refuse("custom", "type", lambda: _rows(0, blank((3, 4), float32), blank((4,), int64)))
