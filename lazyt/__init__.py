"""Lazy tensors with PyTorch's API that compile into a few fused C kernels."""

from lazyt.config import config as config
from lazyt.device import device as device
from lazyt.functional import *  # noqa: F403 - the public functions list themselves in __all__
from lazyt.grad_mode import enable_grad as enable_grad
from lazyt.grad_mode import inference_mode as inference_mode
from lazyt.grad_mode import is_grad_enabled as is_grad_enabled
from lazyt.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from lazyt.grad_mode import no_grad as no_grad
from lazyt.grad_mode import set_grad_enabled as set_grad_enabled
from lazyt.ir.dtypes import DType as dtype
from lazyt.tensor import Size as Size
from lazyt.tensor import Tensor as Tensor
