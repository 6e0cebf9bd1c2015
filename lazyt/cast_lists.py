"""What autocast does on GPUs, function by function: PyTorch's lists for CUDA.

A function that is not here takes the types it is given, whatever it does on the CPU. Functions that
PyTorch writes in Python of others that are listed are listed here by what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.cast_mode import cast_call, kind_of, low_dtype, mode
from lazyt.errors import LazytError
from lazyt.ir.dtypes import DType, float32
from lazyt.ir.forms import use
from lazyt.tensor import Tensor


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: In the low precision, beside what is on the CPU.
LOW = _names("addmv addr conv_tbc gru_cell lstm_cell mv rnn_relu_cell rnn_tanh_cell")
#: In float32: what grows fast, norms, losses, sizes.
FULL = _names("""
    acos asin cosh erfinv exp expm1 log log10 log1p log2 pow reciprocal rsqrt sinh tan
    arccos arcsin

    binary_cross_entropy_with_logits cdist cosine_embedding_loss cosine_similarity cross_entropy
    dist frobenius_norm gaussian_nll_loss group_norm hinge_embedding_loss huber_loss kl_div l1_loss
    layer_norm local_response_norm logsumexp margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss native_layer_norm nll_loss normalize nuclear_norm pairwise_distance pdist
    poisson_nll_loss renorm rms_norm smooth_l1_loss soft_margin_loss softplus triplet_margin_loss

    gumbel_softmax interpolate softmin upsample upsample_bilinear upsample_nearest
""")
#: In float32 unless the call says in which dtype.
FULL_BY_DEFAULT = _names("""
    cumprod cumsum log_softmax matrix_norm norm prod softmax sum vector_norm
""")
#: In the widest dtype among their tensors.
WIDEST = _names("""
    addcdiv addcmul arctan2 atan2 bilinear cross dot grid_sample index_put scatter_add tensordot
    vdot
""")
#: Refused, in PyTorch's words.
UNSAFE = frozenset({"binary_cross_entropy"})


def as_on_gpus(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function of this name as autocast wants it on GPUs: itself if it is on no list."""
    found = next((r for names, r in _RULES if name in names), None)
    if found is None:
        return function
    rule: Callable[..., Any] = found

    def cast(*args: Any, **kwargs: Any) -> Any:
        if use.any and mode.dtype is not None and kwargs.get("out") is None:
            low = low_dtype("cuda")
            if low is not None and kind_of(args, kwargs) == "cuda":
                return rule(function, args, kwargs)
        return function(*args, **kwargs)

    # As in ``explained``: functools.wraps is slow at import.
    cast.__module__, cast.__qualname__ = function.__module__, function.__qualname__
    cast.__name__, cast.__doc__ = function.__name__, function.__doc__
    cast.__annotations__ = function.__annotations__
    cast.__dict__.update(function.__dict__, __wrapped__=function)
    return cast


def _full(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs.get("mode") == "area":  # of ``interpolate``: a mean, which is on no list
        return function(*args, **kwargs)
    return cast_call(function, float32, args, kwargs)


def _full_by_default(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if kwargs.get("dtype") is not None or any(isinstance(value, DType) for value in args):
        return function(*args, **kwargs)
    return cast_call(function, float32, args, kwargs)


def _widest(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    values = [*args, *kwargs.values()]
    wide = any(isinstance(v, Tensor) and v.is_cuda and v.dtype is float32 for v in values)
    return cast_call(function, float32 if wide else low_dtype("cuda"), args, kwargs)


def _low(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return cast_call(function, low_dtype("cuda"), args, kwargs)


def _unsafe(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise LazytError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_"
        "logits\nor torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and "
        "BCEWithLogits are\nsafe to autocast."
    )


_RULES = (
    (LOW, _low), (FULL, _full), (FULL_BY_DEFAULT, _full_by_default), (WIDEST, _widest),
    (UNSAFE, _unsafe),
)  # fmt: skip
