"""Derivatives that are not PyTorch's, and why: for tests and docs/reference/coverage.md."""

from __future__ import annotations

#: In the recorded samples: operators, which of their derivatives, and the reason.
EXCEPTIONS: list[tuple[str, str, str]] = [
    (r"as_strided_scatter", "first second", "PyTorch gives overwritten elements a gradient"),
    (
        r"cholesky_(inverse|solve)", "first second moved",
        "of a triangular factor only the triangle that is read moves the result, as finite "
        "differences say",
    ),
    (
        r"linalg\.cholesky(_ex)?|cholesky|triangular_solve", "moved",
        "only the triangle that is read moves the result; PyTorch assumes a direction that fits",
    ),
    (
        r"linalg\.eigh|(linalg\.)?svd", "first second moved",
        "vectors have no sign of their own, and neither have their gradients",
    ),
    (
        r"(linalg\.)?svd", "error",
        "forward mode has no derivative of the vectors that full_matrices=True adds",
    ),
    (
        r"masked\.logaddexp", "second",
        "PyTorch's is NaN where an operand is left out; the function is constant there",
    ),
    (r"as_strided:partial_views", "error", "the recorded tensor was a part of a larger one"),
]  # fmt: skip

#: At single points: functions and points, which of their derivatives, and the reason.
AT_POINTS: list[tuple[str, str, str]] = [
    (
        "elu, celu and selu at 0, huber_loss at delta, prelu at 0", "second",
        "that of one of the two pieces which meet; PyTorch has 0",
    ),
    (
        "vector_norm, dist, normalize, cosine_similarity, renorm at 0", "second",
        "a number, where PyTorch's is NaN",
    ),
    ("sinc at 0", "second", "0, where PyTorch's is NaN"),
    ("logit outside of [0, 1], entr at 0 and below", "first second",
     "the formula's value, where PyTorch's is NaN or infinite"),
    ("clamp, hardtanh, relu6, hardshrink, threshold at NaN", "first",
     "that of the piece which is chosen; PyTorch has 0 or 1"),
    ("interpolate by a factor after which a size stays or doubles", "first",
     "that of the values taken; PyTorch's kernels take other places backwards than forwards"),
    ("x ** -2 and digamma at poles", "first second", "NaN or infinite, not always as in PyTorch"),
]  # fmt: skip

#: What PyTorch cannot differentiate, or not twice, and lazyt can.
MORE = (
    "bessel_j0, bessel_j1, bessel_y0, bessel_y1, the modified and spherical Bessel functions, "
    "once and twice; cdist, pdist, embedding_bag, hardsigmoid, multi_margin_loss and "
    "multilabel_margin_loss twice; most functions that have no forward mode there"
)
