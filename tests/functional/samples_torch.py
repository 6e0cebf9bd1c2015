"""A sample call for every function of the torch namespace: arguments, then who takes them.

The arguments are Python text over the names of ``sample_values``. A name may appear several times.
"""

from __future__ import annotations

UNARY = """
    abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh
    bitwise_not ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac
    i0 isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 logical_not neg
    negative positive rad2deg reciprocal relu round rsqrt selu sgn sigmoid sign signbit sin sinc
    sinh sqrt square tan tanh trunc frexp hardshrink celu logit nan_to_num alias_copy
    detach_copy clone all any amax amin aminmax argmax argmin count_nonzero  max mean
    median min nanmean nanmedian nansum norm prod std std_mean sum var var_mean argsort argwhere
    flatten ravel fliplr flipud nonzero numel ones_like zeros_like empty_like rand_like randn_like
    squeeze squeeze_copy t t_copy trace tril triu unbind unbind_copy unique atleast_1d
    unique_consecutive adjoint is_complex is_floating_point is_signed is_tensor atleast_2d
    atleast_3d diag diag_embed diagflat diagonal diagonal_copy histc histogram msort sort gradient
    corrcoef cov get_device is_inference detach rrelu"""

BINARY = """
    add sub subtract mul multiply div divide true_divide floor_divide remainder fmod float_power
    maximum minimum fmax fmin hypot atan2 arctan2 copysign logaddexp logaddexp2 eq ne lt le gt ge
    not_equal less less_equal greater greater_equal logical_and logical_or logical_xor isclose
    allclose equal rsub dist max min bitwise_and bitwise_or bitwise_xor gcd lcm heaviside ldexp
    nextafter cosine_similarity pairwise_distance cdist kron result_type isin"""

#: Arguments, and the functions to call with them.
FUNCTIONS: list[tuple[str, str]] = [
    ("x", UNARY),
    ("x, y", BINARY),
    ("s", "is_nonzero abs sum square all atleast_1d t"),
    ("p", "logit log sqrt acos bernoulli"),
    ("q", "acosh arccosh log"),
    ("x, 2", "add sub mul div floor_divide remainder fmod pow eq ne lt le gt ge rsub float_power"),
    ("q, x", "pow float_power xlogy copysign"),
    ("x, s", "add mul maximum div"),
    ("k, k", "bitwise_left_shift bitwise_right_shift gcd lcm pow ldexp bitwise_and"),
    ("x, y", "complex polar"),
    ("torch.complex(x, y)", "view_as_real real imag conj angle abs"),
    ("torch.stack([x, y], -1)", "view_as_complex"),
    ("v, 4, return_complex=True", "stft"),
    ("torch.complex(x, y), 4", "istft"),
    ("x, y, alpha=2", "add sub rsub"),
    ("x, y, rounding_mode='floor'", "div"),
    ("x, y, rounding_mode='trunc'", "div"),
    ("x, decimals=1", "round"),
    ("p, q", "xlogy igamma igammac"),
    ("1, q", "polygamma"),
    ("q, 1", "mvlgamma"),
    ("x, -1, 1", "clamp clip"),
    ("x, y, q", "addcmul addcdiv clamp"),
    ("x, 1", "clamp_min"),
    ("x, -1", "clamp_max"),
    ("x, y, 0.25", "lerp"),
    ("mask, x, y", "where"),
    ("x, 0.5, 0.0", "threshold"),
    ("x, w", "prelu"),
    ("x, v", "add mul maximum"),
    ("mask", "where"),
    (
        "x, 0",
        """
        sum mean prod amax amin argmax argmin max min all any nansum std var logsumexp
        cumsum cumprod cummax cummin logcumsumexp softmax log_softmax count_nonzero unbind
        median nanmedian nanmean sort argsort unsqueeze unsqueeze_copy std_mean var_mean""",
    ),
    ("x, -1, keepdim=True", "sum mean amax amin max min argmax std var all logsumexp median mode"),
    ("C, (0, 2)", "sum mean amax amin std var logsumexp flip nansum squeeze count_nonzero any"),
    ("x, 1, dtype=torch.float64", "sum prod cumsum softmax mean"),
    ("x, 2", "topk"),
    ("v, 2", "kthvalue topk"),
    ("x, 0.5", "quantile nanquantile"),
    ("x", "mode diff trapz trapezoid gradient pinverse"),
    ("x, dim=1", "diff cumulative_trapezoid trapezoid aminmax"),
    ("x, 2, 0, 1.0", "renorm"),
    ("x, 2, 1", "norm"),
    ("v, 3", "vander"),
    ("u", "vander diag diagflat"),
    ("x, (4, 3)", "reshape view_copy"),
    ("C, (2, 0, 1)", "permute permute_copy"),
    ("C, 0, 2", "transpose transpose_copy swapaxes swapdims moveaxis movedim"),
    ("C, 1", "flatten unbind squeeze"),
    ("C, 1, 1", "select select_copy"),
    ("x, 1, 1, 2", "narrow narrow_copy"),
    ("x, (2, 3, 4)", "expand_copy broadcast_to"),
    ("v, 0, 2, 1", "unfold_copy"),
    ("C, 2, (2, 2)", "unflatten"),
    ("x, 1, 1", "roll"),
    ("x, 1, 0, 3", "slice_copy"),
    ("x, 2", "chunk tensor_split unsafe_chunk"),
    ("x, 2, 1", "chunk split tensor_split unsafe_chunk unsafe_split split_copy"),
    (
        "x, (1, 3), 1",
        "split split_with_sizes split_with_sizes_copy unsafe_split_with_sizes tensor_split",
    ),
    ("x, 2", "hsplit"),
    ("x, 3", "vsplit"),
    ("C, 2", "dsplit"),
    ("x, (2, 2)", "tile"),
    ("x, 2", "repeat_interleave"),
    ("x", "rot90"),
    ("x, (0,)", "flip"),
    ("x, (2, 6), (1, 2)", "as_strided as_strided_copy"),
    ("x, E, (2, 4), (4, 1)", "as_strided_scatter"),
    ("x, w, 0, 1", "select_scatter"),
    ("x, E, 0, 1, 3", "slice_scatter"),
    ("A, u", "diagonal_scatter"),
    (
        "(x, y)",
        """
        cat concat concatenate stack hstack vstack dstack row_stack column_stack atleast_1d
        atleast_2d atleast_3d""",
    ),
    ("(x, y), 1", "cat concat stack"),
    ("v, w", "cartesian_prod broadcast_tensors dot vdot inner outer ger block_diag"),
    ("u", "combinations"),
    ("v, u, indexing='ij'", "meshgrid"),
    ("x, B", "matmul mm"),
    ("C, D", "bmm"),
    ("x, v", "matmul mv"),
    ("C, B", "matmul"),
    ("x, y", "inner"),
    ("x, B, 1", "tensordot"),
    ("x @ B, x, B", "addmm"),
    ("u, x, v", "addmv"),
    ("x, u, v", "addr"),
    ("C @ D, C, D", "baddbmm"),
    ("x @ B, C, D", "addbmm"),
    ("'ij,jk->ik', x, B", "einsum"),
    ("u, u.flip(0)", "cross"),
    ("A, S", "cross kron"),
    ("A, B[:3, :3], S", "chain_matmul"),
    ("A", "det logdet slogdet inverse matrix_exp trace pinverse geqrf qr svd"),
    ("S", "cholesky logdet"),
    ("L", "cholesky_inverse"),
    ("A, L", "cholesky_solve"),
    ("A, 3", "matrix_power"),
    ("A", "lu"),
    ("x", "qr svd pinverse"),
    ("A, u", "orgqr"),
    ("A, u, S", "ormqr"),
    ("x, 0, i", "gather"),
    ("x, i, 0", "take_along_dim"),
    ("x, 0, j", "index_select"),
    ("x, i", "take"),
    ("x, mask", "masked_select"),
    ("x, mask, 1", "masked_fill"),
    ("x, mask, y", "masked_scatter"),
    ("x, 0, i, y", "scatter scatter_add"),
    ("x, 0, i, 1", "scatter"),
    ("x, 0, i, y, 'sum'", "scatter_reduce"),
    ("x, 0, i, y, 'amax'", "scatter_reduce"),
    ("x, 0, j, y", "index_add index_copy"),
    ("x, 0, j, 1", "index_fill"),
    ("x, 0, j, y, 'prod'", "index_reduce"),
    ("x, (j,), y", "index_put"),
    ("x, j, u", "put"),
    ("k", "nonzero"),
    ("labels", "bincount"),
    ("labels, u", "bincount"),
    ("v.sort()[0], x", "searchsorted"),
    ("x, v.sort()[0]", "bucketize"),
    ("i, (3, 4)", "unravel_index"),
    ("x, size=5", "nonzero_static"),
    ("2, 3, dtype=t", "zeros ones empty"),
    ("(2, 3), 1, dtype=t", "full"),
    ("x, 1", "full_like fill"),
    ("x, 5", "randint_like"),
    ("5, dtype=t", "arange"),
    ("1, 8, 2, dtype=t", "arange"),
    ("0, 1, 5, dtype=t", "linspace logspace"),
    ("3, dtype=t", "eye scalar_tensor tensor asarray"),
    ("3, 3", "tril_indices triu_indices"),
    ("[[1, 0], [3, 2]], dtype=t", "tensor as_tensor"),
    ("x", "as_tensor"),
    ("(2, 3), dtype=t", "rand randn"),
    ("5, (2, 3), dtype=t", "randint"),
    ("5, dtype=t", "randperm"),
    ("chances", "bernoulli poisson"),
    ("chances, 2", "multinomial"),
    ("0.0, 1.0, (2, 3)", "normal"),
    ("(2, 3), (3, 1), dtype=t", "empty_strided"),
    ("(2, 3), (0, 1), dtype=t", "empty_permuted"),
    ("k.to(torch.float32), chances", "binomial"),
    ("5, dtype=t", "bartlett_window blackman_window hamming_window hann_window kaiser_window"),
    ("(2, 1), (3,)", "broadcast_shapes"),
    ("t, torch.float32", "can_cast promote_types"),
    ("t", "finfo iinfo"),
    ("x, 0.0, True", "dropout alpha_dropout"),
    ("x, 0.5, False", "dropout alpha_dropout"),
    (
        "line, 2",
        """
        avg_pool1d max_pool1d adaptive_avg_pool1d adaptive_max_pool1d
        max_pool1d_with_indices""",
    ),
    ("image, 2", "max_pool2d"),
    ("volume, 2", "max_pool3d"),
    ("line, kernel1", "conv1d"),
    ("image, kernel2", "conv2d"),
    ("volume, kernel3", "conv3d"),
    ("line, kernel1.transpose(0, 1)", "conv_transpose1d"),
    ("image, kernel2.transpose(0, 1)", "conv_transpose2d"),
    ("volume, kernel3", "conv_transpose3d"),
    ("x, (4,)", "layer_norm rms_norm"),
    ("image, 2", "group_norm"),
    ("image, None, None, two, two, False, 0.1, 1e-5, False", "batch_norm"),
    ("image, None, None, None, None, True, 0.1, 1e-5, False", "instance_norm"),
    ("x, i", "embedding"),
    ("x, chances", "binary_cross_entropy_with_logits"),
    ("C[0], C[1], flags * 2.0 - 1", "cosine_embedding_loss"),
    ("x, y", "kl_div"),
    ("x, mask * 2.0 - 1", "hinge_embedding_loss"),
    ("x, y, mask * 2.0 - 1", "margin_ranking_loss"),
    ("x, y, q", "triplet_margin_loss"),
    ("x, (1, 2), 1", "constant_pad_nd"),
    ("image.repeat(1, 2, 1, 1), 2", "channel_shuffle pixel_shuffle"),
    ("image, 2", "pixel_unshuffle"),
    ("x", "pdist"),
    ("x, 4", "histc histogram"),
    ("B[:, :2].contiguous(), (2, 2)", "histogramdd"),
    ("x, chances, True, True, 1e-8, 1", "poisson_nll_loss"),
    ("x, i[0], i[0, :2]", "embedding_bag"),
    ("B, 2", "pca_lowrank svd_lowrank"),
    ("x[:, :3], S, A.expand(2, 3, 3)", "bilinear"),
    ("'x'", "is_tensor"),
    (
        "x",
        """
        conj conj_physical imag is_conj is_neg real resolve_conj resolve_neg is_distributed
        is_storage nuclear_norm matrix_rank typename""",
    ),
    ("x, (0, 1)", "frobenius_norm nuclear_norm"),
    ("x, y", "is_same_size"),
    ("image, 0.5, True", "feature_dropout feature_alpha_dropout"),
    ("image, image[:, 0, :, :2].reshape(2, 3, 2, 2), 0, 0, False", "grid_sampler"),
    ("image.repeat(1, 2, 1, 1), 2", "native_channel_shuffle"),
    ("1, 7, 2, dtype=t", "range"),
    ("S, A", "triangular_solve"),
    ("S, *torch.linalg.lu_factor(A)", "lu_solve"),
    ("x, i, 1.0, 2.0", "embedding_renorm_"),
    ("C, 2, 0", "norm_except_dim"),
    ("x, 0.25, 0.75", "rrelu"),
    ("[1.0, 2.0]", "asarray"),
    ("image[:, :, 0, :3], [2, 2, 3, 4], True", "affine_grid_generator"),
    (
        "torch.log_softmax(line.permute(2, 0, 1), -1), torch.tensor([[1, 2], [2, 1]]), "
        "torch.tensor([8, 7]), torch.tensor([2, 1]), 0, 1, False",
        "ctc_loss",
    ),
    ("*torch.linalg.lu_factor(A)", "lu_unpack"),
    ("x", "hash_tensor"),
    ("x, 1", "hash_tensor"),
    ("x, (0,), keepdim=True", "hash_tensor"),
    ("C, (3, 4), None, None, 1e-5", "native_layer_norm"),
    ("image, None, None, 2, 2, 36, 2, 1e-5", "native_group_norm"),
    ("image, None, None, None, None, True, 0.1, 1e-5", "native_batch_norm"),
    ("x, 0.0, True", "native_dropout"),
    ("image, kernel2, None, [1, 2], [0, 1], [1, 1], False, [0, 0], 1", "convolution"),
    ("image, image[:, 0, :, :2].reshape(2, 3, 2, 2), 0, 0, False", "grid_sampler_2d"),
    ("volume, volume.reshape(1, 8, 4, 4)[..., :3].unsqueeze(1), 0, 0, False", "grid_sampler_3d"),
    ("A.to_sparse(), A", "spmm dsmm hspmm smm"),
    ("A.to_sparse(), S.to_sparse(), A", "sspaddmm"),
    ("[[0, 1], [1, 0]], v[:2], (2, 2)", "sparse_coo_tensor"),
    ("[0, 1, 2], [1, 0], v[:2], (2, 2)", "sparse_csr_tensor sparse_csc_tensor"),
    ("[0, 1, 2], [1, 0], v[:2], (2, 2), layout=torch.sparse_csr", "sparse_compressed_tensor"),
    ("A, S, L, A", "rnn_tanh_cell rnn_relu_cell"),
    ("A, S, A.repeat(3, 1), L.repeat(3, 1)", "gru_cell"),
    ("A, (S, L), A.repeat(4, 1), L.repeat(4, 1)", "lstm_cell"),
]

#: Functions that set, ask or hold state, and things that are no functions of tensors: tested where
#: they are made.
WITHOUT = """
    default_generator channels_last channels_last_3d contiguous_format preserve_format strided
    legacy_contiguous_format sparse_bsc sparse_bsr sparse_coo sparse_csc sparse_csr
    sparse_bsc_tensor sparse_bsr_tensor
    manual_seed seed initial_seed get_rng_state set_rng_state set_printoptions get_printoptions
    set_default_dtype get_default_dtype set_default_device get_default_device get_num_threads
    set_num_threads is_grad_enabled is_inference_mode_enabled is_autocast_enabled set_grad_enabled
    are_deterministic_algorithms_enabled get_deterministic_debug_mode get_num_interop_threads
    get_float32_matmul_precision is_deterministic_algorithms_warn_only_enabled is_vulkan_available
    is_anomaly_check_nan_enabled is_anomaly_enabled
    is_warn_always_enabled set_default_tensor_type set_deterministic_debug_mode set_warn_always
    set_float32_matmul_precision set_flush_denormal set_num_interop_threads
    use_deterministic_algorithms
    get_autocast_dtype set_autocast_dtype set_autocast_enabled autocast_decrement_nesting
    autocast_increment_nesting clear_autocast_cache get_autocast_cpu_dtype get_autocast_gpu_dtype
    is_autocast_cache_enabled is_autocast_cpu_enabled set_autocast_cache_enabled
    set_autocast_cpu_dtype set_autocast_cpu_enabled
    from_numpy from_dlpack to_dlpack frombuffer save load compile jit vmap explain explain_broadcast
    realize wait_for_compiler why_compiled why_realized c_function c_kernel cuda_kernel
    check_cuda"""
