"""What the gradient of a function reads, by the name of its grad_fn in PyTorch."""

from __future__ import annotations

# What a gradient formula reads, by PyTorch's name of the operation: the letters of its rule.
#   a  every input            s  the first input         k  indices and masks
#   r  the result             p  an input when another one requires a gradient (products)
#   d  the divisor, and the dividend when the divisor requires a gradient
#   P  as p, and D as d, of the inputs after the first
#   o  every input, and O those after the first, when the second requires a gradient
#   K  as k, when the second input requires a gradient
#   l  the inputs after the second
#   e  each input that requires a gradient itself
#   q  something that only the function itself knows, such as an order
#   x  there is no gradient
RULES = {
    "a": (
        "Abs Acos Acosh Asin Asinh Atan Atan2 Atanh BinaryCrossEntropy "
        "BinaryCrossEntropyWithLogits "
        "Clamp ClampMax ClampMin Convolution Cos Cosh Digamma Elu Erf Erfc Erfinv Fmax Fmin Gather "
        "Gelu Hardtanh HuberLoss Igamma Igammac LeakyRelu Lgamma Log Log10 Log1P Log2 LogSigmoid "
        "Logaddexp Logaddexp2 Logit MaskedSelect Maximum Minimum MseLoss NativeBatchNorm "
        "NativeGroupNorm NativeLayerNorm PowBackward0 PreluKernel Selu Silu Sin Sinh SmoothL1Loss "
        "Softplus Take Var VarMean Xlogy"
    ),
    "s": (
        "AvgPool1D AvgPool2D AvgPool3D Celu Cummax Cummin Hardshrink Hardsigmoid Hardswish I0 "
        "LinalgMatrixExp Mish NanToNum Nansum Polygamma Renorm Sinc Softshrink SpecialEntr "
        "Threshold"
    ),
    "r": (
        "Exp Exp2 Expm1 LinalgInvEx LogSoftmax Reciprocal Relu Rsqrt Sigmoid Softmax Sqrt Tan Tanh"
    ),
    "ar": (
        "Amax Amin Aminmax Cdist CholeskyInverse Cumprod Dist LinalgDet LinalgSolveEx "
        "LinalgVectorNorm Logcumsumexp Logsumexp MaxBackward1 MinBackward1 Norm Pow Prod Sgn Std"
    ),
    "sr": "Copysign",
    "er": "Hypot",
    "k": "Embedding Index IndexFill IndexPut IndexSelect MaskedFill NllLoss Scatter Where",
    "kO": "IndexCopy",
    "K": "ScatterAdd",
    "p": "Bilinear Bmm Dot Einsum LinalgCross Matmul Mm Mul Mv Outer",
    "P": "Addbmm Addcmul Addmm Addmv Baddbmm",
    "d": "Div KlDiv",
    "D": "Addcdiv",
    "o": "Fmod Remainder",
    "O": "IndexAdd",
    "l": "Lerp ScaledDotProductAttention",
    "q": (
        "CopySlices Kthvalue LinalgEigh LinalgQr LinalgSvd MaxBackward0 Median MinBackward0 Mode "
        "NativeDropout "
        "Sort Topk"
    ),
    "x": "FloorDivide Unique2 UniqueConsecutive UniqueDim UniqueDimConsecutive",
}
RULE_OF = {name: rule for rule, names in RULES.items() for name in names.split()}

# Linear functions whose gradient counts as one of the input all the same, with create_graph: that
# of pools and the like has a gradient of zeros there, others have none.
FLAT = frozenset(
    f"{kind}{rank}DBackward0"
    for kind in (
        "AdaptiveAvgPool", "AdaptiveMaxPool", "AvgPool", "FractionalMaxPool", "ReflectionPad",
        "ReplicationPad",
    )
    for rank in (1, 2, 3)
) | {
    "MaxPool1DWithIndicesBackward0", "MaxPool2DWithIndicesBackward0",
    "MaxPool3DWithIndicesBackward0", "NllLossBackward0",
}  # fmt: skip
ENDS = FLAT | {"ConvolutionBackward0", "GridSampler2DBackward0", "GridSampler3DBackward0"}

# Names that a function's own does not lead to.
NAMES = {
    f"{own}{rank}DBackward0": f"{theirs}{rank}DBackward0"
    for own, theirs in (("ReflectPad", "ReflectionPad"), ("ReplicatePad", "ReplicationPad"))
    for rank in (1, 2, 3)
} | {
    "PdistForwardBackward0": "PdistBackward0", "NarrowBackward0_copy": "NarrowCopyBackward0",
}  # fmt: skip
# Functions whose second operand counts as an input though it is a number.
_PAIRS = frozenset({"AddBackward0", "DivBackward0", "MulBackward0", "SubBackward0"})
# Where functions take indices, conditions and masks, which are no inputs in PyTorch; a number
# below zero stands for all operands from there on.
_INDICES = {
    "GatherBackward0": 1, "IndexAddBackward0": 2, "IndexBackward0": -1, "IndexCopyBackward0": 2,
    "IndexFillBackward0": 1, "IndexPutBackward0": -2, "IndexSelectBackward0": 1,
    "MaskedFillBackward0": 1, "MaskedSelectBackward0": 1, "ScatterAddBackward0": 2,
    "ScatterBackward0": 2, "TakeBackward0": 1, "WhereBackward0": 0,
}  # fmt: skip


def inputs_of(name: str, count: int) -> list[int | None]:
    """Which of ``count`` operands PyTorch counts as a function's inputs; None for a number."""
    if count == 1 and name in _PAIRS:
        return [0, None]
    at = _INDICES.get(name, count)
    return [i for i in range(count) if i != at and not (at < 0 and i >= -at)]
