"""Functions over all parameters of a network, and what makes parameters of others."""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.nn.utils import parametrizations as parametrizations
from lazyt.nn.utils import parametrize as parametrize
from lazyt.nn.utils import prune as prune
from lazyt.nn.utils import rnn as rnn
from lazyt.nn.utils import stateless as stateless
from lazyt.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from lazyt.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from lazyt.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from lazyt.nn.utils.init import skip_init
from lazyt.nn.utils.memory_format import (
    convert_conv2d_weight_memory_format,
    convert_conv3d_weight_memory_format,
)
from lazyt.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from lazyt.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
    "get_total_norm", "parameters_to_vector", "parametrizations", "parametrize", "prune",
    "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "stateless",
    "vector_to_parameters", "weight_norm",
]  # fmt: skip

_explain_absence(__name__)
