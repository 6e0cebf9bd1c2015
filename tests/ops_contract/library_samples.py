"""Samples of the ``library`` op: every routine that has a derivative, in every mode."""

from __future__ import annotations

import numpy as np

from lazyt import ops
from lazyt.ir.dtypes import float32, int64
from lazyt.ir.graph import Node
from lazyt.ops.matrix_algebra import identity, plus, product, transpose
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


sample("library", "cholesky", lambda x: ops.library("cholesky", _positive(x))[0], (2, 2, 2))
sample("library", "cholesky-3", lambda x: ops.library("cholesky", _positive(x))[0], (3, 3))
sample("library", "lu", lambda x: ops.library("lu", x)[0], (3, 3))
sample("library", "lu-wide", lambda x: ops.library("lu", x)[0], (2, 2, 3))
sample("library", "lu-tall", lambda x: ops.library("lu", x)[0], (3, 2))
sample("library", "solve", lambda a, b: ops.library("solve", a, b)[0], (2, 2, 2), (2, 2, 1))
sample("library", "inv", lambda x: ops.library("inv", x)[0], (2, 2))
sample("library", "det", lambda x: ops.library("det", x)[0], (3, 3))
sample("library", "cofactors", lambda x: ops.library("cofactors", x)[0], (2, 3, 3))
sample("library", "slogdet", lambda x: ops.library("slogdet", x)[1], (2, 2, 2))
for _mode in ("lower", "upper", "lowerunit", "upperunit"):
    sample(
        "library",
        f"triangular-{_mode}",
        lambda a, b, mode=_mode: ops.library("triangular", a, b, mode=mode)[0],
        (2, 2),
        (2, 2),
    )
_tall = np.array([[1.1, 0.3], [0.2, 1.7], [0.6, 0.9]])
for _name, _matrix in (("tall", _tall), ("wide", _tall.T), ("square", _tall[:2])):
    sample(
        "library",
        f"svd-{_name}",
        lambda x: _joined(ops.library("svd", x, mode="reduced")[:3]),
        _matrix,
    )
    sample(
        "library", f"qr-{_name}", lambda x: _joined(ops.library("qr", x, mode="reduced")), _matrix
    )
sample("library", "svd-full", lambda x: _joined(ops.library("svd", x, mode="full")[:3]), _tall[:2])
sample("library", "svd-values", lambda x: ops.library("svd", x, mode="values")[0], (2, 2, 3))
sample("library", "qr-complete", lambda x: _joined(ops.library("qr", x, mode="complete")), _tall.T)
sample(
    "library",
    "eigh",
    lambda x: _joined(ops.library("eigh", _symmetric(x), mode="lower")[:2]),
    (2, 2),
)
sample(
    "library",
    "eigh-values",
    lambda x: ops.library("eigh", _symmetric(x), mode="uppervalues")[0],
    (3, 3),
)
sample("library", "exp", lambda x: ops.library("exp", x)[0], (2, 2, 2))


def _no_tolerance(x: Node) -> Node:
    """Tolerances of zero for the matrices of ``x``."""
    return ops.broadcast_to(ops.constant(0, x.dtype), (*x.shape[:-2], 1, 1))


def _pinv(x: Node) -> Node:
    return ops.library("pinv", x, _no_tolerance(x), _no_tolerance(x))[0]


sample("library", "pinv-tall", _pinv, _tall)
sample("library", "pinv-wide", _pinv, _tall.T)
sample(
    "library", "lstsq", lambda a, b: ops.library("lstsq", a, b, _no_tolerance(a))[0], _tall, (3, 1)
)
refuse("library", "square", lambda: ops.library("inv", blank((2, 3)))[0])
refuse("library", "rank", lambda: ops.library("det", blank((2,)))[0])
refuse("library", "integers", lambda: ops.library("det", blank((2, 2), int64))[0])
refuse("library", "types", lambda: ops.library("solve", blank((2, 2)), blank((2, 1), float32))[0])
refuse("library", "rows", lambda: ops.library("solve", blank((2, 2)), blank((3, 1)))[0])
refuse("library", "batch", lambda: ops.library("solve", blank((2, 2)), blank((1, 2, 1)))[0])
