"""Which dtypes PyTorch writes results to: what ``out=`` has to be for one function or another.

Most functions cast their result to the dtype of ``out``. The functions below write what they
compute as it is, and refuse another dtype with words of their own.
"""

from __future__ import annotations

from lazyt.errors import DTypeError, warn
from lazyt.functional.promotion import c_name, can_cast, torch_name
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Shape

_STRUCTURED = "Expected out tensor to have dtype {want}, but got {got} instead"
_ITERATED = "Found dtype {Got} but expected {Want}"
_SCANNED = "expected scalar_type {Want} but found {Got}"
_SELECTED = "{name}(): self and result must have the same scalar type"

# What PyTorch says by the name of the function, or of its grad_fn; {want} is the C++ name of the
# result's dtype and {Want} that of tensors, and the same of the dtype that out= has.
_TEXTS: dict[str, str] = {
    **dict.fromkeys(
        ("Mm", "Bmm", "Mv", "Addmm", "Addmv", "Baddbmm", "LinalgCross", "Gather", "Scatter",
         "ScatterAdd", "IndexAdd", "IndexCopy", "IndexReduce", "ScatterReduce", "LinalgVectorNorm",
         "max", "min", "aminmax", "Sort", "Topk", "argmax", "argmin", "Tril", "Triu", "Renorm",
         "Softmax", "LogSoftmax", "LinalgInvEx", "LinalgDet", "LinalgSolveEx", "LinalgCholeskyEx",
         "linalg_qr", "LinalgSvd", "LinalgEigh", "linalg_slogdet", "isin", "Diag", "TakeAlongDim"),
        _STRUCTURED,
    ),
    **dict.fromkeys(("Clamp", "Neg", "Round", "Sign"), _ITERATED),
    **dict.fromkeys(("Cummax", "Cummin", "Logcumsumexp"), _SCANNED),
    "Amax": "Expected the dtype for input and out to match, but got {Want} for input's dtype and "
            "{Got} for out's dtype.",
    "Dot": "result dtype {Got} does not match input dtype {Want}",
    "Addbmm": "self and mat2 must have the same dtype, but got {Got} and {Want}",
    "Tensordot": "tensordot: Expected the output tensor to have dtype {Want}, but got an output "
                 "tensor with dtype {Got}",
    "IndexSelect": _SELECTED.replace("{name}", "index_select"),
    "MaskedSelect": _SELECTED.replace("{name}", "masked_select"),
    "Take": "take(): self and out expected to have the same dtype, but got self.dtype = {Want} and "
            "out.dtype = {Got}",
    "Kthvalue": "output values must be of same type as input",
    "Median": "Expected tensor for 'values' to have the same type as tensor for argument #2 "
              "'self'; but type torch.{Got}Tensor does not equal torch.{Want}Tensor",
    "Mode": "expected scalar type '{Want}' but got '{Got}' for values output",
    "NanToNum": "nan_to_num: dtype of out: {Got} should be same as input: {Want}",
    "all": "all only supports bool tensor for result, got: {Got}",
    "any": "any only supports bool tensor for result, got: {Got}",
    "heaviside": "heaviside is not yet implemented for tensors with different dtypes.",
    "nonzero": "nonzero: Expected out tensor to have scalar type Long but got scalar type{Got}",
    "multinomial": "multinomial expects Long tensor out, got: {Got}",
    "histc": "torch.histogram: input tensor and hist tensor should have the same dtype, but got "
             "input {want} and hist {got}",
    "Frexp": "torch.frexp() expects mantissa to have dtype {want} but got {got}",
    "LinalgSolveTriangular": "expected scalar type {Want} but found {Got}",
    "Where": "Expected out type to be {Want} but got {Got}",
}  # fmt: skip
_TEXTS.update({"Amin": _TEXTS["Amax"], "Nanmedian": _TEXTS["Median"]})
# These may write truth values to bytes.
_BYTES = ("all", "any")
_JOINED = "torch.cat(): input types can't be cast to the desired output type {Got}"
_SAFELY = (
    "{name}: Expected result to be safely castable from {Want} dtype, but got result with dtype "
    "{Got}"
)
# What PyTorch says where a cast loses a category.
_LOSSES: dict[str, str] = {
    "Cat": _JOINED,
    "Stack": _JOINED,
    "LinalgPinv": _SAFELY.replace("{name}", "linalg.pinv"),
    "LinalgMatrixPower": _SAFELY.replace("{name}", "matrix_power"),
    "Logsumexp": "logsumexp(): Expected floating point type for result tensor, but got: {Got}",
    "Mvlgamma": "mvlgamma: result type {Want} can't be cast to the desired output type {Want}",
}
# These take the memory of out= as it comes.
_MAKERS = ("rand", "randn", "randint", "randperm", "zeros", "full", "arange", "Addbmm")


def check_output(name: str, result: DType, out: DType) -> None:
    """Raise DTypeError when the function ``name`` does not write a ``result`` dtype into ``out``.

    For two different dtypes.
    """
    function = name.partition("Backward")[0]
    text = _TEXTS.get(function)
    if text is None and not can_cast(result, out):
        text = _LOSSES.get(function)
    if text is None or (name in _BYTES and out.name == "uint8"):
        return
    names = {"want": c_name(result), "got": c_name(out)}
    raise DTypeError(text.format(Want=torch_name(result), Got=torch_name(out), **names))


def warn_resized(name: str, shape: Shape, wanted: Shape) -> None:
    """Warn, as PyTorch does, that ``out=`` with elements takes the size of the result."""
    if name in _MAKERS:
        return
    warn(
        "An output with one or more elements was resized since it had shape "
        f"{list(shape)}, which does not match the required output shape {list(wanted)}. "
        "This behavior is deprecated: give a tensor of that size, or one without elements, such "
        "as t.resize_(0)."
    )
