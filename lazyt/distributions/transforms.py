"""Functions that carry one distribution into another, as ``torch.distributions.transforms``."""

from lazyt.distributions.composed_transforms import ComposeTransform as ComposeTransform
from lazyt.distributions.composed_transforms import IndependentTransform as IndependentTransform
from lazyt.distributions.composed_transforms import Transform as Transform
from lazyt.distributions.composed_transforms import _InverseTransform as _InverseTransform
from lazyt.distributions.composed_transforms import identity_transform as identity_transform
from lazyt.distributions.elementary_transforms import AbsTransform as AbsTransform
from lazyt.distributions.elementary_transforms import AffineTransform as AffineTransform
from lazyt.distributions.elementary_transforms import (
    CumulativeDistributionTransform as CumulativeDistributionTransform,
)
from lazyt.distributions.elementary_transforms import ExpTransform as ExpTransform
from lazyt.distributions.elementary_transforms import (
    LowerCholeskyTransform as LowerCholeskyTransform,
)
from lazyt.distributions.elementary_transforms import (
    PositiveDefiniteTransform as PositiveDefiniteTransform,
)
from lazyt.distributions.elementary_transforms import PowerTransform as PowerTransform
from lazyt.distributions.elementary_transforms import ReshapeTransform as ReshapeTransform
from lazyt.distributions.elementary_transforms import SigmoidTransform as SigmoidTransform
from lazyt.distributions.elementary_transforms import SoftmaxTransform as SoftmaxTransform
from lazyt.distributions.elementary_transforms import SoftplusTransform as SoftplusTransform
from lazyt.distributions.elementary_transforms import (
    StickBreakingTransform as StickBreakingTransform,
)
from lazyt.distributions.elementary_transforms import TanhTransform as TanhTransform

__all__ = [
    "AbsTransform", "AffineTransform", "ComposeTransform", "CumulativeDistributionTransform",
    "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform",
    "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform",
    "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip
