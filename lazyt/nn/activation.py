"""Activation functions as modules."""

from __future__ import annotations

from typing import Any

from lazyt.errors import LazytError, warn
from lazyt.functional import namespace as lazyt
from lazyt.functional.nn.dropouts import ProbabilityError
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn import init
from lazyt.nn.module import Module
from lazyt.nn.parameter import blank_parameter

# Softmax and its relatives as modules.


class DimensionError(LazytError, ValueError):
    """An input with another number of dimensions than the layer takes."""


class _AlongDim(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"dim": None} | state)  # files of old have none

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x), scaled to sum to 1 along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """The function along ``dim``; without it, F's choice and warning."""
        return F.softmax(input, self.dim)


class Softmin(_AlongDim):
    """exp(-x), scaled to sum to 1 along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """The function along ``dim``; without it, F's choice and warning."""
        return F.softmin(input, self.dim)


class LogSoftmax(_AlongDim):
    """The logarithm of softmax along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """The function along ``dim``; without it, F's choice and warning."""
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """``softmax`` over the channels of [N, C, H, W] or [C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        """Channels that sum to 1 at every place. Raises DimensionError (a ValueError)."""
        if input.ndim not in (3, 4):
            raise DimensionError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead"
            )
        return F.softmax(input, -3)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return lazyt.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return lazyt.tanh(input)


class LogSigmoid(Module):
    """The logarithm of the sigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.tanhshrink(input)


class _Inplace(Module):
    """A function that may write its result into its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def _ending(self) -> str:
        return ", inplace=True" if self.inplace else ""

    def extra_repr(self) -> str:
        """Whether the input is overwritten."""
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.relu(input, inplace=self.inplace)


class SiLU(_Inplace):
    """x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.silu(input, inplace=self.inplace)


class Mish(_Inplace):
    """x * tanh(softplus(x)) (Misra 2019)."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.mish(input, inplace=self.inplace)


class SELU(_Inplace):
    """The self-normalising ELU (Klambauer et al. 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.selu(input, inplace=self.inplace)


class Hardswish(_Inplace):
    """x * relu6(x + 3) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """PyTorch shows nothing here."""
        return ""


class Hardsigmoid(_Inplace):
    """relu6(x + 3) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """PyTorch shows nothing here."""
        return ""


class LeakyReLU(_Inplace):
    """x where positive, else ``negative_slope * x``."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """The setting, and whether the input is overwritten."""
        return f"negative_slope={self.negative_slope}{self._ending()}"


class ELU(_Inplace):
    """x where positive, else ``alpha * (exp(x) - 1)``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """The setting, and whether the input is overwritten."""
        return f"alpha={self.alpha}{self._ending()}"


class CELU(_Inplace):
    """x where positive, else ``alpha * (exp(x / alpha) - 1)``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """The setting, and whether the input is overwritten."""
        return f"alpha={self.alpha}{self._ending()}"


class GELU(Module):
    """x times the normal distribution function (Hendrycks & Gimpel 2016).

    Args:
        approximate: ``"tanh"`` for the formula with tanh.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The formula."""
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta; x itself past ``threshold``."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The settings."""
        return f"beta={self.beta}, threshold={self.threshold}"


class SettingError(LazytError, AssertionError):
    """A setting of a layer that makes no sense."""


def _renamed(old: str, new: str, given: float | None, value: float) -> float:
    if given is None:
        return value
    text = f"keyword argument `{old}` is deprecated and renamed to `{new}`"
    warn(text, FutureWarning)
    return given


class Hardtanh(Module):
    """x, but at least ``min_val`` and at most ``max_val``.

    ``min_value`` and ``max_value`` are older names. Raises SettingError for an empty range.
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        min_val = _renamed("min_value", "min_val", min_value, min_val)
        max_val = _renamed("max_value", "max_val", max_value, max_val)
        if max_val <= min_val:
            raise SettingError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        end = ", inplace=True" if self.inplace else ""
        return f"min_val={self.min_val}, max_val={self.max_val}{end}"


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Whether the input is overwritten."""
        return "inplace=True" if self.inplace else ""


class Threshold(Module):
    """x where above ``threshold``, else ``value``."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        end = ", inplace=True" if self.inplace else ""
        return f"threshold={self.threshold}, value={self.value}{end}"


class _Shrink(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """The width."""
        return str(self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by ``lambd``."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.softshrink(input, self.lambd)


class Hardshrink(_Shrink):
    """x, or 0 where it is within ``lambd`` of 0."""

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.hardshrink(input, self.lambd)


class PReLU(Module):
    """x where positive, else ``weight * x`` with learned weights [num_parameters]."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = blank_parameter(num_parameters, dtype=dtype, device=device)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every weight as at the start."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element; weights are per channel (dimension 1)."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of weights."""
        return f"num_parameters={self.num_parameters}"


class GLU(Module):
    """The first half of dimension ``dim`` times the sigmoid of the second half."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Half as large as ``input`` along ``dim``. Raises ShapeError."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class RReLU(Module):
    """x where positive, else times a random slope; the slopes' middle outside of training."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The function of every element."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The bounds of the slopes."""
        end = ", inplace=True" if self.inplace else ""
        return f"lower={self.lower}, upper={self.upper}{end}"


# Dropout.


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ProbabilityError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        """The settings."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Elements set to zero at random (Srivastava et al. 2014)."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, zeros with probability ``p`` and the rest scaled by 1 / (1 - p); else
        ``input``."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Whole channels set to zero at random."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, zeros with probability ``p`` and the rest scaled by 1 / (1 - p); else
        ``input``."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Whole channels of [N, C, L] set to zero at random."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, zeros with probability ``p`` and the rest scaled by 1 / (1 - p); else
        ``input``."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Whole channels of [N, C, D, H, W] set to zero at random."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, zeros with probability ``p`` and the rest scaled by 1 / (1 - p); else
        ``input``."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1 (Klambauer et al. 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, some set to the limit of SELU, and all moved and scaled; else ``input``."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """``AlphaDropout`` of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, some set to the limit of SELU, and all moved and scaled; else ``input``."""
        return F.feature_alpha_dropout(input, self.p, self.training)
