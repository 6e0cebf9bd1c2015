"""Values that are not PyTorch's, with the reasons."""

from __future__ import annotations

_ROUNDED_ONCE = (
    "sums by index in 16 bits are taken in float32 and rounded once; PyTorch rounds at each step, "
    "so that its sum depends on the order and stands still at 2048 or 256"
)
_FAR_REMAINDERS = (
    "the remainder is exact; PyTorch's vectors give NaN where the quotient is very large"
)
_SIGN_OF_NAN = "a NaN has no sign; that of PyTorch's shows which instruction made it"
_SIGN_OF_TIE = (
    "the first of two zeros that are equal; PyTorch takes the first or the second, by the place in "
    "the tensor"
)

#: A case, a pattern that matches whole labels, and why lazyt's value is another one.
EXCUSED: list[tuple[str, str, str]] = [
    (
        "a13_func_grad_writes", "(chain|views)-(grad|jacrev|hessian|pergrad)/.*",
        "function transforms differentiate the graph, in which nothing is written over, and give "
        "the gradients of the same function without writes; PyTorch refuses",
    ),
    (
        "b01_int_wraparound", "int8-gcd/.*",
        "a greatest common divisor is not negative; PyTorch's of -128 and -1 is",
    ),
    (
        "b05_half_extrema_grad", "float16-logsumexp-ones",
        "the sum is 190,000, which its logarithm fits into float16; PyTorch's is infinite",
    ),
    (
        "b05_half_extrema_grad", "b?float16-(std-mix|logsumexp-ones|logsumexp-mix|bn-mix)",
        "sums of gradients that were rounded to 16 bits, or cancel: what is left is rounding",
    ),
    (
        "b05_half_extrema_grad", ".*-bn-ones",
        "the gradient is the rounding of a sum of 70,000, times 1 / sqrt(eps); PyTorch adds in "
        "float64",
    ),
    ("c01_division", "(rem|mod|fmod)-float32/.*|scalarfloor-.*-float32", _FAR_REMAINDERS),
    ("c01_division", "signs-float32/.*", _FAR_REMAINDERS),
    ("c01_division", "(signs-float(16|64)|maxmin-float64|copysign-bfloat16)/.*", _SIGN_OF_NAN),
    (
        "d02_argmax_nan", "b?float[0-9]+-[0-9]+-all",
        "sorting leaves equal NaNs in their order; PyTorch's does not from 17 elements on",
    ),
    ("d02_argmax_nan", "2d", "gelu(inf) is inf; PyTorch's vectors give NaN"),
    ("d08_pad_of_reductions", "norm-0/.*", "a gradient of zeros, where PyTorch's is undefined"),
    (
        "d10_reduction_grads", "round-ties-pow/.*",
        "the derivative of pow at 0 to a negative power is infinite; PyTorch's is NaN",
    ),
    (
        "d10_reduction_grads", "self-ama[xi][xn]?-False/.*|self-ami[nx]-False/.*",
        "with include_self=False the tensor's own elements take no part, also where they equal the "
        "extreme; PyTorch takes a share of the gradient away for them",
    ),
    ("e05_index_shapes", r"get x\[::-1\]", "negative steps of slices are those of NumPy"),
    ("e05_index_shapes", "set x.* = np.float32.*", "NumPy's scalars are converted when assigned"),
    (
        "f01_validation_on_replay", "ctc/(jit[467]|plain-bad)",
        "a target that is no class is refused; PyTorch reads memory beyond the row of log_probs",
    ),
    ("n01_float_algebra", "(max0|min0)-.*", _SIGN_OF_TIE),
    ("n01_float_algebra", "sum-neg0-.*", "the sum of negative zeros alone is one"),
    (
        "n01_float_algebra", "log1p-expm1-float32/.*",
        "the smallest numbers stay what they are; PyTorch's vectors make them 0",
    ),
    (
        "n01_float_algebra", "abx/.*",
        "a product and a sum are rounded each, so that a*x and b*x cancel; PyTorch fuses them",
    ),
    ("n04_printing", "grads", "names of grad_fn classes show which kernel ran"),
    (
        "q02_straight_through", "vmap-copy-unbatched",
        "a tensor that the mapped function made itself is written to with rows, and has rows from "
        "then on; PyTorch's vmap refuses to write more into a tensor than it has room for",
    ),
    (
        "r01_attention_masks", "mha-False-False-(band|allpad)",
        "what attends to nothing gets zeros, as in training; PyTorch's fast path gives NaN",
    ),
    ("r01_attention_masks", "x-long", "lengths beyond the tensor are refused; PyTorch reads there"),
    (
        "s01_distributions", "Kumaraswamy-mode",
        "the mode is a number; PyTorch takes the logarithm of a negative one",
    ),
    (
        "s01_distributions", "Relaxed(Bernoulli|OneHot)-(log_prob|expand)",
        "a temperature may be a number; PyTorch's log_prob takes tensors only",
    ),
    ("t01_half_sums", "b?float16-(index_add|grad-embedding|grad-index)", _ROUNDED_ONCE),
]  # fmt: skip
