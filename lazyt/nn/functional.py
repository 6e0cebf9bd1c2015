"""``lazyt.nn.functional``: the functions behind the layers, by PyTorch's names."""

from lazyt.functional.activations import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    silu,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
    threshold_,
)
from lazyt.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
)
from lazyt.functional.borders import (
    pad,
)
from lazyt.functional.columns import (
    channel_shuffle,
    fold,
    native_channel_shuffle,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
)
from lazyt.functional.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from lazyt.functional.dropouts import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from lazyt.functional.grid_sampling import (
    affine_grid,
    grid_sample,
)
from lazyt.functional.interpolation import (
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from lazyt.functional.layers import (
    batch_norm,
    cosine_similarity,
    embedding,
    group_norm,
    instance_norm,
    layer_norm,
    one_hot,
    pairwise_distance,
    rms_norm,
    scaled_dot_product_attention,
)
from lazyt.functional.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from lazyt.functional.normalizers import (
    log_softmax,
    normalize,
    softmax,
    softmin,
)
from lazyt.functional.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
)
from lazyt.functional.products import (
    linear,
)
from lazyt.functional.unary import (
    sigmoid,
    tanh,
)
from lazyt.functional.unpooling import (
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "affine_grid", "alpha_dropout",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "celu", "celu_", "channel_shuffle", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity",
    "cross_entropy", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu", "elu_", "embedding",
    "feature_alpha_dropout", "fold", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "gelu", "glu", "grid_sample",
    "group_norm", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "huber_loss",
    "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "leaky_relu_",
    "linear", "log_softmax", "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss",
    "native_channel_shuffle", "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance",
    "pixel_shuffle", "pixel_unshuffle", "prelu", "relu", "relu6", "relu_", "rms_norm", "rrelu",
    "rrelu_", "scaled_dot_product_attention", "selu", "selu_", "sigmoid", "silu", "smooth_l1_loss",
    "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
    "threshold_", "unfold", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip
