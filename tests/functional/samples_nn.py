"""A sample call for every function of nn.functional, linalg and special, and for every module.

Written as in ``samples_torch``. A module's sample has the constructor's arguments and the call's.
"""

from __future__ import annotations

F: list[tuple[str, str]] = [
    ("x", "celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_"),
    ("x, 0.5, 0.0", "threshold_"),
    ("image, scale_factor=2", "upsample upsample_nearest upsample_bilinear"),
    ("image.repeat(1, 2, 1, 1), 2", "native_channel_shuffle"),
    (
        "x",
        """
        celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid
        mish relu relu6 selu sigmoid silu softplus softshrink softsign tanh tanhshrink
        normalize rrelu pdist""",
    ),
    ("x, dim=-1", "softmax log_softmax softmin glu gumbel_softmax"),
    ("x, 0.5, 0.0", "threshold"),
    ("x, w", "prelu"),
    ("x, 0.0", "dropout alpha_dropout feature_alpha_dropout"),
    ("x, 0.5, False", "dropout alpha_dropout feature_alpha_dropout"),
    ("line, 0.5", "dropout dropout1d"),
    ("image, 0.5", "dropout2d"),
    ("volume, 0.5", "dropout3d"),
    (
        "x, y",
        """
        mse_loss l1_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss cosine_similarity
        pairwise_distance""",
    ),
    ("x, y, reduction='sum'", "mse_loss l1_loss smooth_l1_loss huber_loss kl_div"),
    ("x, y, reduction='none'", "mse_loss l1_loss smooth_l1_loss huber_loss kl_div"),
    ("x, p", "binary_cross_entropy_with_logits"),
    ("p, p.flip(0)", "binary_cross_entropy"),
    ("x, labels", "cross_entropy nll_loss multi_margin_loss"),
    ("x, p", "cross_entropy multilabel_soft_margin_loss"),
    ("x, labels, label_smoothing=0.1, reduction='sum'", "cross_entropy"),
    ("x, labels, v.abs(), ignore_index=0", "cross_entropy nll_loss"),
    ("x, places.repeat(1, 2)", "multilabel_margin_loss"),
    ("x, y, q", "gaussian_nll_loss triplet_margin_loss triplet_margin_with_distance_loss"),
    ("x, mask * 2.0 - 1", "hinge_embedding_loss soft_margin_loss"),
    ("x, y, mask * 2.0 - 1", "margin_ranking_loss"),
    ("x, y, flags * 2.0 - 1", "cosine_embedding_loss"),
    ("x, (4,)", "layer_norm rms_norm"),
    ("x, (4,), w", "rms_norm"),
    ("x, (4,), v, w", "layer_norm"),
    ("image, 2", "group_norm local_response_norm"),
    ("image, two, two", "batch_norm"),
    ("image, None, None, two, two, True", "batch_norm"),
    ("image", "instance_norm"),
    ("x, B.t()", "linear"),
    ("x, B.t(), B[0]", "linear"),
    ("x[:, :3], S, A.expand(2, 3, 3)", "bilinear"),
    ("i, x", "embedding"),
    ("i, x, mode='sum'", "embedding_bag"),
    ("labels", "one_hot"),
    ("labels, 5", "one_hot"),
    ("line, kernel1", "conv1d"),
    ("line, line.mT, u", "conv_tbc"),
    ("image, kernel2", "conv2d"),
    ("volume, kernel3", "conv3d"),
    ("image, kernel2, padding='same'", "conv2d"),
    ("image, kernel2[:, :1].repeat(2, 1, 1, 1), None, 2, 1, 1, 2", "conv2d"),
    ("line, kernel1.transpose(0, 1)", "conv_transpose1d"),
    ("image, kernel2.transpose(0, 1), None, 2, 1, 1", "conv_transpose2d"),
    ("volume, kernel3", "conv_transpose3d"),
    (
        "line, 2",
        """
        avg_pool1d max_pool1d adaptive_avg_pool1d adaptive_max_pool1d
        max_pool1d_with_indices adaptive_max_pool1d_with_indices""",
    ),
    (
        "image, 2",
        """
        avg_pool2d max_pool2d adaptive_avg_pool2d adaptive_max_pool2d
        max_pool2d_with_indices adaptive_max_pool2d_with_indices pixel_unshuffle""",
    ),
    (
        "volume, 2",
        """
        avg_pool3d max_pool3d adaptive_avg_pool3d adaptive_max_pool3d
        max_pool3d_with_indices adaptive_max_pool3d_with_indices""",
    ),
    ("image, 3, 2, 1, True", "avg_pool2d"),
    ("image, 3, 2, 1, 1", "max_pool2d"),
    ("line.abs() + 0.5, 2.0, 2", "lp_pool1d"),
    ("image.abs() + 0.5, 2.0, 2", "lp_pool2d"),
    ("volume.abs() + 0.5, 2.0, 2", "lp_pool3d"),
    ("image, 2, output_size=3", "fractional_max_pool2d fractional_max_pool2d_with_indices"),
    ("volume, 2, output_size=2", "fractional_max_pool3d fractional_max_pool3d_with_indices"),
    ("line[:, :, :2], torch.tensor([0, 3]).expand(2, 3, 2), 2", "max_unpool1d"),
    ("image[:, :, :2, :2], torch.tensor([[0, 3], [9, 14]]).expand(2, 2, 2, 2), 2", "max_unpool2d"),
    ("volume[:, :, :1, :1, :1], torch.tensor(5).expand(1, 2, 1, 1, 1), 2", "max_unpool3d"),
    ("image, (1, 2)", "pad"),
    ("image, (1, 2, 0, 1), 'reflect'", "pad"),
    ("image, (1, 1), 'constant', 3", "pad"),
    ("image, (1, 2, 0, 1), 'replicate'", "pad"),
    ("image, (1, 2, 0, 1), 'circular'", "pad"),
    ("image.repeat(1, 2, 1, 1), 2", "pixel_shuffle channel_shuffle"),
    ("image, 3", "unfold"),
    ("torch.nn.functional.unfold(image, 3), (6, 6), 3", "fold"),
    ("image, scale_factor=2", "interpolate"),
    ("image, (3, 9), mode='bilinear'", "interpolate"),
    ("image, (3, 9), mode='bicubic', align_corners=True", "interpolate"),
    ("line, 5, mode='linear'", "interpolate"),
    ("image, (4, 4), mode='area'", "interpolate"),
    ("E.reshape(1, 2, 4)[:, :, :3], (1, 2, 3, 4), align_corners=False", "affine_grid"),
    ("image, image[:, 0, :, :2].reshape(2, 3, 2, 2), align_corners=False", "grid_sample"),
    (
        "torch.log_softmax(line.permute(2, 0, 1), -1), torch.tensor([[1, 2], [2, 1]]), "
        "torch.tensor([8, 7]), torch.tensor([2, 1])",
        "ctc_loss",
    ),
    ("D, D * 0.5, D.flip(1)", "scaled_dot_product_attention"),
    ("D, D * 0.5, D, is_causal=True", "scaled_dot_product_attention"),
    (
        "D.transpose(0, 1), D.transpose(0, 1), D.transpose(0, 1), 5, 1, B.repeat(4, 1)[:15], "
        "B.reshape(20)[:15], None, None, False, 0.0, B[:, :5].repeat(2, 1)[:5], B[0]",
        "multi_head_attention_forward",
    ),
    ("x, B.t(), labels", "linear_cross_entropy"),
]

LINALG: list[tuple[str, str]] = [
    (
        "A",
        """
        cond det inv inv_ex lu lu_factor lu_factor_ex matrix_exp matrix_norm matrix_rank
        pinv qr slogdet svd svdvals norm vector_norm diagonal""",
    ),
    ("S", "cholesky cholesky_ex eigh eigvalsh ldl_factor ldl_factor_ex det inv"),
    ("x", "svd svdvals qr pinv matrix_norm vector_norm norm matrix_rank cond diagonal"),
    ("A, u", "solve solve_ex vecdot"),
    ("A, A.flip(0)", "matmul solve vecdot cross lstsq"),
    ("(A, S, A)", "multi_dot"),
    ("A, 3", "matrix_power"),
    ("A, -1", "matrix_power"),
    ("A.triu(), S, upper=True", "solve_triangular"),
    ("x, 1", "vector_norm norm"),
    ("x, 'nuc'", "norm matrix_norm"),
    ("x, 1, dim=0", "norm vector_norm"),
    ("x, float('inf')", "vector_norm norm"),
    ("*torch.linalg.lu_factor(A), S", "lu_solve"),
    ("*torch.linalg.ldl_factor(S), A", "ldl_solve"),
    ("*torch.geqrf(A)", "householder_product"),
    ("A.reshape(3, 3, 1), ind=1", "tensorinv"),
    ("A, u", "tensorsolve"),
    ("u", "vander"),
]

SPECIAL: list[tuple[str, str]] = [
    (
        "p",
        """
        airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma entr erf erfc erfcx erfinv
        exp2 expit expm1 gammaln i0 i0e i1 i1e log1p log_ndtr logit modified_bessel_i0
        modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 ndtr ndtri psi round
        scaled_modified_bessel_k0 scaled_modified_bessel_k1 sinc spherical_bessel_j0""",
    ),
    (
        "x",
        """
        airy_ai bessel_j0 bessel_j1 digamma erf erfc erfcx exp2 expit expm1 i0 i0e i1 i1e
        log_ndtr modified_bessel_i0 modified_bessel_i1 ndtr psi round sinc
        spherical_bessel_j0""",
    ),
    (
        "p, k",
        """
        chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
        chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he
        laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t
        shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
        shifted_chebyshev_polynomial_w""",
    ),
    ("p, q", "gammainc gammaincc xlog1py xlogy"),
    ("q, p", "zeta xlogy"),
    ("q, 1", "multigammaln"),
    ("1, q", "polygamma"),
    ("x, 0", "softmax log_softmax logsumexp"),
]

#: Constructor's arguments, arguments of the call, modules.
MODULES: list[tuple[str, str, str]] = [
    ("2", "image", "CrossMapLRN2d SyncBatchNorm"),
    ("", "image, image[:, 0].abs().to(torch.int64) % 2", "NLLLoss2d"),
    ("scale_factor=2", "image", "UpsamplingBilinear2d UpsamplingNearest2d"),
    (
        "",
        "x",
        """
        CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU
        LogSigmoid Mish PReLU ReLU ReLU6 RReLU SELU SiLU Sigmoid Softplus Softshrink
        Softsign Tanh Tanhshrink Sequential""",
    ),
    ("0.5, 0.0", "x", "Threshold"),
    ("dim=1", "x", "Softmax LogSoftmax Softmin"),
    ("", "image", "Softmax2d Flatten Dropout2d Dropout FeatureAlphaDropout AlphaDropout"),
    ("0.5", "line", "Dropout1d"),
    ("0.5", "volume", "Dropout3d"),
    (
        "",
        "x, y",
        """
        MSELoss L1Loss SmoothL1Loss HuberLoss KLDivLoss PoissonNLLLoss CosineSimilarity
        PairwiseDistance""",
    ),
    ("", "x, labels", "CrossEntropyLoss NLLLoss MultiMarginLoss"),
    ("", "x, p", "BCEWithLogitsLoss MultiLabelSoftMarginLoss"),
    ("", "p, p", "BCELoss"),
    ("", "x, mask * 2.0 - 1", "HingeEmbeddingLoss SoftMarginLoss"),
    ("", "x, y, mask * 2.0 - 1", "MarginRankingLoss"),
    ("", "x, y, flags * 2.0 - 1", "CosineEmbeddingLoss"),
    ("", "x, y, q", "GaussianNLLLoss TripletMarginLoss TripletMarginWithDistanceLoss"),
    ("", "x, places.repeat(1, 2)", "MultiLabelMarginLoss"),
    (
        "",
        "torch.log_softmax(line.permute(2, 0, 1), -1), torch.tensor([[1, 2], [2, 1]]), "
        "torch.tensor([8, 7]), torch.tensor([2, 1])",
        "CTCLoss",
    ),
    ("4, 5", "x", "Linear"),
    ("5", "x", "LazyLinear"),
    ("4, 4, 2", "x, y", "Bilinear"),
    ("4", "x", "LayerNorm RMSNorm BatchNorm1d"),
    ("2, 2", "image", "GroupNorm"),
    ("2", "image", "BatchNorm2d InstanceNorm2d LocalResponseNorm"),
    ("3", "line", "InstanceNorm1d"),
    ("2", "volume", "BatchNorm3d InstanceNorm3d"),
    ("", "line", "LazyBatchNorm1d LazyInstanceNorm1d"),
    ("", "image", "LazyBatchNorm2d LazyInstanceNorm2d"),
    ("", "volume", "LazyBatchNorm3d LazyInstanceNorm3d"),
    ("3, 4, 3", "line", "Conv1d ConvTranspose1d"),
    ("2, 4, 3", "image", "Conv2d ConvTranspose2d"),
    ("2, 4, 3", "volume", "Conv3d ConvTranspose3d"),
    ("4, 3", "line", "LazyConv1d LazyConvTranspose1d"),
    ("4, 3", "image", "LazyConv2d LazyConvTranspose2d"),
    ("4, 3", "volume", "LazyConv3d LazyConvTranspose3d"),
    (
        "2",
        "line",
        """
        AvgPool1d MaxPool1d AdaptiveAvgPool1d AdaptiveMaxPool1d ZeroPad1d ReflectionPad1d
        ReplicationPad1d CircularPad1d""",
    ),
    (
        "2",
        "image",
        """
        AvgPool2d MaxPool2d AdaptiveAvgPool2d AdaptiveMaxPool2d ZeroPad2d ReflectionPad2d
        ReplicationPad2d CircularPad2d Unfold PixelUnshuffle ChannelShuffle""",
    ),
    (
        "2",
        "volume",
        """
        AvgPool3d MaxPool3d AdaptiveAvgPool3d AdaptiveMaxPool3d ZeroPad3d ReflectionPad3d
        ReplicationPad3d CircularPad3d""",
    ),
    ("2.0, 2", "line.abs() + 0.5", "LPPool1d"),
    ("2.0, 2", "image.abs() + 0.5", "LPPool2d"),
    ("2.0, 2", "volume.abs() + 0.5", "LPPool3d"),
    ("2, output_size=3", "image", "FractionalMaxPool2d"),
    ("2, output_size=2", "volume", "FractionalMaxPool3d"),
    ("2", "line[:, :, :2], torch.tensor([0, 3]).expand(2, 3, 2)", "MaxUnpool1d"),
    ("2", "image[:, :, :2, :2], torch.tensor([[0, 3], [9, 14]]).expand(2, 2, 2, 2)", "MaxUnpool2d"),
    ("2", "volume[:, :, :1, :1, :1], torch.tensor(5).expand(1, 2, 1, 1, 1)", "MaxUnpool3d"),
    ("1, 0.5", "line", "ConstantPad1d"),
    ("1, 0.5", "image", "ConstantPad2d"),
    ("1, 0.5", "volume", "ConstantPad3d"),
    ("2", "image.repeat(1, 2, 1, 1)", "PixelShuffle"),
    ("(6, 6), 3", "torch.nn.functional.unfold(image, 3)", "Fold"),
    ("1, (2, 2)", "x", "Unflatten"),
    ("scale_factor=2", "image", "Upsample"),
    ("5, 4", "i", "Embedding EmbeddingBag"),
    ("5, 1", "D, D, D", "MultiheadAttention"),
    ("5, 3", "D", "RNN LSTM GRU"),
    ("4, 3", "x", "RNNCell LSTMCell GRUCell"),
    ("4, 2, 1, 1, 8, 0.0", "C, C", "Transformer"),
    ("4, 2, 8, 0.0", "C", "TransformerEncoderLayer"),
    ("4, 2, 8, 0.0", "C, C", "TransformerDecoderLayer"),
    ("4, 9, [3, 6]", "x, torch.tensor([1, 4, 8])", "AdaptiveLogSoftmaxWithLoss"),
    ("torch.nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2", "C", "TransformerEncoder"),
    ("torch.nn.TransformerDecoderLayer(4, 2, 8, 0.0), 2", "C, C", "TransformerDecoder"),
    ("4, 6", "x, labels", "LinearCrossEntropyLoss"),
]

#: Reductions and normalizations of what a mask leaves.
MASKED: list[tuple[str, str]] = [
    ("x, mask=mask", "sum prod amax amin argmax argmin mean median norm var std logsumexp"),
    (
        "x, 1, mask=mask",
        """
        sum prod amax amin argmax argmin mean var std cumsum cumprod logsumexp softmax
        log_softmax softmin""",
    ),
    ("x, 0, keepdim=True, mask=mask", "sum prod amax amin argmax argmin mean median var std"),
    ("x, 0, dtype=torch.float64, mask=mask[0]", "sum prod mean cumsum softmax log_softmax"),
    ("x, 1", "sum mean argmax softmax cumprod median"),
    ("x, (0, 1), correction=0, mask=mask", "var std"),
    ("x, 1, 0, mask=mask", "norm"),
    ("x, 2.0, 1, mask=mask", "normalize"),
    ("x, float('-inf'), 1, mask=mask", "normalize norm"),
    ("x, y, input_mask=mask, other_mask=mask.flip(1)", "logaddexp"),
]

#: Their results are complex.
WITHOUT_LINALG = "eig eigvals"

#: Not called with tensors alone; tested where they are made.
WITHOUT_MODULES = """
    Module ModuleDict ModuleList Parameter ParameterDict ParameterList Buffer UninitializedBuffer
    UninitializedParameter LinearCrossEntropyOptions DataParallel RNNBase RNNCellBase"""
