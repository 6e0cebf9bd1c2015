"""Everything the user calls on tensors, by PyTorch's names.

Importing this package attaches the methods to Tensor.
"""

from lazyt.functional import (
    activations,
    arithmetic,
    blending,
    choice,
    conversions,
    creation,
    equations,
    indexing,
    joining,
    masks,
    matrices,
    methods,
    normalizers,
    picking,
    printing,
    products,
    promotion,
    random,
    reductions,
    return_types,
    unary,
)
from lazyt.functional.activations import *  # noqa: F403
from lazyt.functional.arithmetic import *  # noqa: F403
from lazyt.functional.blending import *  # noqa: F403
from lazyt.functional.choice import *  # noqa: F403
from lazyt.functional.conversions import *  # noqa: F403
from lazyt.functional.creation import *  # noqa: F403
from lazyt.functional.equations import *  # noqa: F403
from lazyt.functional.indexing import *  # noqa: F403
from lazyt.functional.joining import *  # noqa: F403
from lazyt.functional.masks import *  # noqa: F403
from lazyt.functional.matrices import *  # noqa: F403
from lazyt.functional.normalizers import *  # noqa: F403
from lazyt.functional.picking import *  # noqa: F403
from lazyt.functional.printing import *  # noqa: F403
from lazyt.functional.products import *  # noqa: F403
from lazyt.functional.promotion import *  # noqa: F403
from lazyt.functional.random import *  # noqa: F403
from lazyt.functional.reductions import *  # noqa: F403
from lazyt.functional.unary import *  # noqa: F403

methods.install()

__all__ = ["return_types"]
__all__ += activations.__all__
__all__ += arithmetic.__all__
__all__ += blending.__all__
__all__ += choice.__all__
__all__ += conversions.__all__
__all__ += creation.__all__
__all__ += equations.__all__
__all__ += indexing.__all__
__all__ += joining.__all__
__all__ += masks.__all__
__all__ += matrices.__all__
__all__ += picking.__all__
__all__ += printing.__all__
__all__ += products.__all__
__all__ += promotion.__all__
__all__ += random.__all__
__all__ += reductions.__all__
__all__ += normalizers.__all__
__all__ += unary.__all__
