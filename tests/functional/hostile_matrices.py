"""Matrices on which factorizations go wrong first, and how large errors are beside LAPACK's.

    python -m tests.functional.hostile_matrices [--count 1000] [--sizes 1,2,3,8,20,32,33]

Errors are what is left of the equation and of orthogonality, in units of the machine's precision
(and, of the equation, of the largest singular value).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import lazyt

Array = np.ndarray[Any, Any]
KINDS = (
    "random",
    "clustered",
    "deficient",
    "scaled",
    "graded",
    "subnormal",
    "huge",
    "near",
    "zeros",
)
#: Those that are not singular.
SOLVED = ("random", "clustered", "graded", "huge")
ROUTINES = ("qr", "eigh", "svd", "solve")
SIZES = (1, 2, 3, 8, 20, 32, 33)


def matrices(kind: str, n: int, count: int, dtype: Any) -> Array:
    """``count`` square matrices of a kind."""
    rng = np.random.default_rng([KINDS.index(kind), n])
    a = rng.standard_normal((count, n, n))
    info = np.finfo(dtype)
    if kind in ("clustered", "deficient", "near"):
        q, _ = np.linalg.qr(a)
        p, _ = np.linalg.qr(rng.standard_normal((count, n, n)))
        values = 1 + float(info.eps) * rng.standard_normal((count, n))
        if kind == "deficient":
            values[:, n // 2 :] = 0
        elif kind == "near":
            values = np.logspace(0, np.log10(float(info.eps)), n) * np.ones((count, 1))
        a = (q * values[:, None]) @ p.swapaxes(1, 2)
    elif kind == "scaled":
        a *= 10 ** rng.uniform(-6, 6, (count, n, 1)) * 10 ** rng.uniform(-6, 6, (count, 1, n))
    elif kind == "graded":
        a *= np.logspace(0, -10, n)[:, None] * np.logspace(0, -10, n)
    elif kind == "subnormal":
        a *= float(info.tiny) / 64
    elif kind == "huge":
        a *= float(info.max) / 64 / n
    elif kind == "zeros":
        a *= rng.random((count, n, n)) < 0.2
    return np.asarray(a.astype(dtype))


def by_lapack(routine: str, *given: Array) -> tuple[Array, ...]:
    """What LAPACK gives: PyTorch's where it is installed, else NumPy's, which is of float64."""
    try:
        import torch
    except ImportError:
        found = getattr(np.linalg, routine)(*[x.astype(np.float64) for x in given])
    else:
        found = getattr(torch.linalg, routine)(*map(torch.tensor, given))
    parts = found if isinstance(found, tuple) else (found,)
    return tuple(np.asarray(part) for part in parts)


def by_lazyt(routine: str, *given: Array) -> tuple[Array, ...]:
    """What lazyt gives."""
    found = getattr(lazyt.linalg, routine)(*map(lazyt.tensor, given))
    parts = found if isinstance(found, tuple) else (found,)
    return tuple(part.numpy() for part in parts)


def errors(
    routine: str, given: Array, run: Callable[..., tuple[Array, ...]]
) -> tuple[float, float]:
    """The largest errors of the equation and of orthogonality, in units of the results' type."""
    count, n, _ = given.shape
    a, right = given, np.ones((count, n, 1), given.dtype)
    if routine == "eigh":
        a = np.tril(given) + np.tril(given, -1).swapaxes(1, 2)
    found = run(routine, a, right) if routine == "solve" else run(routine, a)
    eps = float(np.finfo(found[0].dtype).eps)
    # In extended precision nothing is lost, and no number is too large or too small.
    wide, parts = a.astype(np.longdouble), [part.astype(np.longdouble) for part in found]
    if routine == "solve":
        scale = np.abs(wide) @ np.abs(parts[0]) + 1
        return float((np.abs(wide @ parts[0] - right) / scale).max() / eps), 0.0
    size = np.abs(wide).max((1, 2), keepdims=True)
    size = np.where(size == 0, 1, size)
    norm = np.linalg.norm((wide / size).astype(np.float64), 2, (1, 2))[:, None, None]
    step = float(np.finfo(found[0].dtype).smallest_subnormal)
    limit = eps * size * np.where(norm == 0, 1, norm) + n * step
    turned = [parts[0]]
    if routine == "qr":
        again = parts[0] @ parts[1]
    elif routine == "eigh":
        turned = [parts[1]]
        again = (parts[1] * parts[0][:, None]) @ parts[1].swapaxes(1, 2)
    else:
        turned.append(parts[2])
        again = (parts[0] * parts[1][:, None]) @ parts[2]
    skew = max(float(np.abs(x.swapaxes(1, 2) @ x - np.eye(n)).max()) for x in turned)
    return float((np.abs(again - wide) / limit).max()), skew / eps


def worst(routine: str, n: int, count: int, dtype: Any) -> tuple[Array, Array]:
    """The largest errors over all kinds, by lazyt and by LAPACK."""
    kinds = SOLVED if routine == "solve" else KINDS
    given = [matrices(kind, n, count, dtype) for kind in kinds]
    own, other = (
        np.array([errors(routine, a, run) for a in given]).max(0) for run in (by_lazyt, by_lapack)
    )
    return own, other


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    options = parser.parse_args()
    print("errors of lazyt's equations and orthogonality, then of LAPACK's")
    for dtype in (np.float32, np.float64):
        for routine in ROUTINES:
            for n in map(int, options.sizes.split(",")):
                both = np.concatenate(worst(routine, n, options.count, dtype))
                shown = "  ".join(f"{value:8.2f}" for value in both)
                print(f"{dtype.__name__} {routine:6} {n:3}: {shown}", flush=True)


if __name__ == "__main__":
    main()
