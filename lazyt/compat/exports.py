"""Public functions whose modules are read when one of them is first used.

What makes a tensor and its methods is there after ``import lazyt``; of the rest, networks' layers
most of all, a program uses a few.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

#: Functions of the package's namespace by the module that has them.
_TABLE = {
    "lazyt.amp": "GradScaler",
    "lazyt.functional.sparse.creation": """
        sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor
        sparse_csc_tensor sparse_csr_tensor""",
    "lazyt.functional.sparse.functions": "dsmm hspmm smm spmm sspaddmm",
    "lazyt.autograd.vectorizing": "vmap",
    "lazyt.tools.show_broadcast": "explain_broadcast",
    "lazyt.errors": "OutOfMemoryError",
    "lazyt.kernels.memory_kernels": "c_kernel cuda_kernel",
    "lazyt.runtime.cuda.checks.check": "check_cuda",
    "lazyt.kernels.scalar_functions": "c_function",
    "lazyt.functional.nn.pooling": """
        adaptive_avg_pool1d avg_pool1d max_pool1d max_pool1d_with_indices max_pool2d max_pool3d""",
    "lazyt.functional.linalg.equations": "bilinear einsum",
    "lazyt.functional.nn.columns": """
        channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle""",
    "lazyt.functional.nn.convolution": """
        conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d""",
    "lazyt.functional.linalg.distances": "cdist cosine_similarity pairwise_distance pdist",
    "lazyt.functional.reductions.integrals": "cumulative_trapezoid gradient trapezoid trapz",
    "lazyt.functional.nn.native_forms": """
        adaptive_max_pool1d affine_grid_generator alpha_dropout alpha_dropout_ batch_norm
        binary_cross_entropy_with_logits constant_pad_nd cosine_embedding_loss ctc_loss dropout
        dropout_ embedding embedding_renorm_ feature_alpha_dropout feature_alpha_dropout_
        feature_dropout feature_dropout_ grid_sampler group_norm hinge_embedding_loss
        instance_norm kl_div layer_norm margin_ranking_loss poisson_nll_loss rms_norm
        scaled_dot_product_attention triplet_margin_loss
        convolution grid_sampler_2d grid_sampler_3d gru_cell lstm_cell native_batch_norm
        native_dropout native_group_norm native_layer_norm rnn_relu_cell rnn_tanh_cell""",
    "lazyt.functional.nn.borders": "constant_pad_nd unravel_index",
    "lazyt.functional.creation.windows": """
        bartlett_window blackman_window hamming_window hann_window kaiser_window""",
    "lazyt.compat.compile": "compile",
    "lazyt.tools.tune": "tune",
    "lazyt.compat.legacy": """
        BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor CharStorage
        CharTensor ComplexDoubleStorage ComplexFloatStorage DoubleStorage DoubleTensor FloatStorage
        FloatTensor HalfStorage HalfTensor
        IntStorage IntTensor LongStorage LongTensor ShortStorage ShortTensor
        chalf complex32 float4_e2m1fn_x2 float8_e4m3fn
        float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu qint32 qint8 quint2x4 quint4x2
        quint8""",
}

NAMES = {name: module for module, names in _TABLE.items() for name in names.split()}


def load(name: str, names: dict[str, Any], explain: Callable[..., None]) -> Any:
    """The object called ``name``, one of ``NAMES``, which joins the ``names`` of the package.

    Args:
        explain: gives functions texts for wrong calls (``explain_calls``).
    """
    names[name] = getattr(import_module(NAMES[name]), name)
    explain(names, [name], "lazyt")
    return names[name]
