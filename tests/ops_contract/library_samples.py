"""Samples of ``library`` and ``linalg``: every routine that has a derivative, in every mode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lazyt import ops
from lazyt.ir.dtypes import float32, int64
from lazyt.ir.graph import Node, make
from lazyt.ops.compositions import zeros_like
from lazyt.ops.matrix_algebra import beside, identity, plus, product, times, transpose
from lazyt.ops.registry import OPS
from lazyt.ops.routines import LibraryParams, library_parts
from tests.ops_contract.op_samples import blank, refuse, sample


def _positive(x: Node) -> Node:
    """A positive definite matrix of any square one."""
    square = product(x, transpose(x))
    return plus(square, identity(square))


def _symmetric(x: Node) -> Node:
    """A symmetric matrix with eigenvalues well apart."""
    n = x.shape[-1]
    spread = ops.apply("mul", identity(x), ops.cast(ops.iota(n), x.dtype))
    return plus(plus(x, transpose(x)), plus(spread, spread))


def _joined(parts: list[Node]) -> Node:
    """All parts of one matrix as one vector."""
    return ops.concat([ops.reshape(part, (part.size,)) for part in parts], 0)


def _routine(op: str, name: str, *operands: Node, mode: str = "plain") -> list[Node]:
    """The results of a routine, by kernels or by a library."""
    if op == "linalg":  # of which there are kernels for two types
        operands = tuple([ops.cast(n, float32) if n.dtype.is_half else n for n in operands])
    return library_parts(make(OPS[op], operands, LibraryParams(name, mode)))


_tall = np.array([[1.1, 0.3], [0.2, 1.7], [0.6, 0.9]])
_pair = np.array([[[2.0, 0.3], [0.4, 1.5]], [[1.2, -0.5], [0.3, 2.1]]])


def _missing(x: Node) -> Node:
    """That no matrix of ``x`` has an inverse."""
    return ops.broadcast_to(ops.constant(1, x.dtype), (*x.shape[:-2], 1, 1))


for op in ("library", "linalg"):
    sample(op, "cholesky", lambda x, op=op: _routine(op, "cholesky", _positive(x))[0], (2, 2, 2))
    sample(op, "cholesky-3", lambda x, op=op: _routine(op, "cholesky", _positive(x))[0], (3, 3))
    sample(op, "lu", lambda x, op=op: _routine(op, "lu", x)[0], (3, 3))
    sample(op, "lu-wide", lambda x, op=op: _routine(op, "lu", x)[0], (2, 2, 3))
    sample(op, "lu-tall", lambda x, op=op: _routine(op, "lu", x)[0], (3, 2))
    sample(op, "solve", lambda a, b, op=op: _routine(op, "solve", a, b)[0], _pair, (2, 2, 1))
    sample(
        op,
        "gelsy",
        lambda a, b, op=op: _routine(op, "gelsy", a, beside(b, times(b, zeros_like(b))))[0],
        _tall,
        (3, 1),
    )
    sample(op, "inv", lambda x, op=op: _routine(op, "inv", x)[0], (2, 2))
    sample(op, "det", lambda x, op=op: _routine(op, "det", x)[0], (3, 3))
    sample(op, "slogdet", lambda x, op=op: _routine(op, "slogdet", x)[1], (2, 2, 2))
    for _mode in ("lower", "upper", "lowerunit", "upperunit"):
        sample(
            op,
            f"triangular-{_mode}",
            lambda a, b, op=op, mode=_mode: _routine(op, "triangular", a, b, mode=mode)[0],
            (2, 2),
            (2, 2),
        )
    for _name, _matrix in (("tall", _tall), ("wide", _tall.T), ("square", _tall[:2])):
        sample(
            op,
            f"svd-{_name}",
            lambda x, op=op: _joined(_routine(op, "svd", x, mode="reduced")[:3]),
            _matrix,
        )
        sample(
            op,
            f"qr-{_name}",
            lambda x, op=op: _joined(_routine(op, "qr", x, mode="reduced")),
            _matrix,
        )
    sample(
        op, "svd-full", lambda x, op=op: _joined(_routine(op, "svd", x, mode="full")[:3]), _tall[:2]
    )
    sample(op, "svd-values", lambda x, op=op: _routine(op, "svd", x, mode="values")[0], (2, 2, 3))
    sample(
        op, "qr-complete", lambda x, op=op: _joined(_routine(op, "qr", x, mode="complete")), _tall.T
    )
    sample(
        op,
        "eigh",
        lambda x, op=op: _joined(_routine(op, "eigh", _symmetric(x), mode="lower")[:2]),
        _pair[0],
    )
    sample(
        op,
        "eigh-values",
        lambda x, op=op: _routine(op, "eigh", _symmetric(x), mode="uppervalues")[0],
        (3, 3),
    )
sample("library", "cofactors", lambda x: ops.library("cofactors", x, _missing(x))[0], (2, 3, 3))
sample("library", "exp", lambda x: ops.library("exp", x)[0], (2, 2, 2))


def _no_tolerance(x: Node) -> Node:
    """Tolerances of zero for the matrices of ``x``."""
    return ops.broadcast_to(ops.constant(0, x.dtype), (*x.shape[:-2], 1, 1))


def _pinv(op: str, x: Node) -> Node:
    limits = ops.broadcast_to(ops.constant(0, x.dtype), (*x.shape[:-1], 2))
    return _routine(op, "pinv", x, limits)[0]


for op in ("library", "linalg"):
    sample(op, "pinv-tall", lambda x, op=op: _pinv(op, x), _tall)
    sample(op, "pinv-wide", lambda x, op=op: _pinv(op, x), _tall.T)
sample(
    "library", "lstsq", lambda a, b: ops.library("lstsq", a, b, _no_tolerance(a))[0], _tall, (3, 1)
)


def _refused(op: str, name: str, *operands: Node) -> Callable[[], Node]:
    return lambda: _routine(op, name, *operands)[0]


for op in ("library", "linalg"):
    refuse(op, "square", _refused(op, "inv", blank((2, 3))))
    refuse(op, "rank", _refused(op, "det", blank((2,))))
    refuse(op, "integers", _refused(op, "det", blank((2, 2), int64)))
    refuse(op, "types", _refused(op, "solve", blank((2, 2)), blank((2, 1), float32)))
    refuse(op, "rows", _refused(op, "solve", blank((2, 2)), blank((3, 1))))
    refuse(op, "batch", _refused(op, "solve", blank((2, 2)), blank((1, 2, 1))))
