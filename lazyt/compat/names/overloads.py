"""The names of the overloads of PyTorch's operators, as ``torch.ops.aten`` has them."""

from __future__ import annotations

import functools

__all__ = ["overload_names"]

#: By the names of the overloads, the operators.
_TABLE = {
    "default out": """
        _adaptive_avg_pool2d _adaptive_avg_pool3d _chunk_cat _conj_physical _fft_c2c _int_mm
        _log_softmax _native_batch_norm_legit_no_training _pin_memory _softmax
        _softmax_backward_data _sparse_addmm _stack _to_copy _unsafe_view abs absolute
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d
        adaptive_max_pool3d addbmm addcdiv addcmul addmv addr affine_grid_generator
        alias_copy amax amin aminmax arccos arccosh arcsin arcsinh arctan arctan2 arctanh
        argmax argmin as_strided_copy as_strided_scatter avg_pool1d avg_pool2d avg_pool3d
        binary_cross_entropy binary_cross_entropy_with_logits bincount binomial bitwise_not
        block_diag cat celu chain_matmul channel_shuffle cholesky cholesky_inverse
        cholesky_solve clone col2im column_stack complex concat concatenate conj_physical
        constant_pad_nd conv_tbc convolution convolution_backward cross cummax cummin
        cumprod cumsum deg2rad detach_copy diag diag_embed diagonal_copy diagonal_scatter
        diff digamma dist dot dstack elu embedding empty_like empty_permuted empty_strided
        erfinv exp2 expand_copy fft_fft fft_fft2 fft_fftfreq fft_fftn fft_hfft fft_hfft2
        fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft
        fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn fix flip fmax fmin
        frac full full_like gather gelu ger glu grid_sampler_2d grid_sampler_3d hardshrink
        hardsigmoid hardswish hardtanh hash_tensor heaviside histc hstack huber_loss hypot
        i0 igamma igammac im2col index_add index_copy index_reduce index_select inner
        inverse isneginf isposinf kron lcm leaky_relu lift lift_fresh_copy linalg_cholesky
        linalg_cross linalg_det linalg_eig linalg_eigvals linalg_eigvalsh
        linalg_householder_product linalg_inv linalg_ldl_factor linalg_ldl_factor_ex
        linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex
        linalg_lu_solve linalg_matmul linalg_matrix_exp linalg_matrix_power linalg_multi_dot
        linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular
        linalg_svdvals linalg_tensorinv linalg_tensorsolve linalg_vecdot linalg_vector_norm
        linear log2 logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or
        logical_xor logit logsumexp lu_solve lu_unpack masked_scatter masked_select matmul
        matrix_power max_pool2d_with_indices max_pool3d_with_indices max_unpool2d
        max_unpool3d maximum minimum mish mse_loss msort multi_margin_loss
        multilabel_margin_loss multinomial mv mvlgamma nan_to_num nanmean nansum narrow_copy
        native_batch_norm native_dropout native_dropout_backward native_group_norm
        native_layer_norm negative new_empty new_empty_strided new_full new_ones new_zeros
        nextafter nll_loss nll_loss2d nonzero nonzero_static ones ones_like orgqr ormqr
        outer permute_copy pixel_shuffle pixel_unshuffle poisson polygamma put rad2deg
        reciprocal reflection_pad1d reflection_pad2d reflection_pad3d relu renorm repeat
        replication_pad1d replication_pad2d replication_pad3d roll rot90 row_stack rsqrt
        scalar_tensor scatter_add select_scatter sgn sigmoid sign signbit silu sinc
        slice_scatter slogdet smooth_l1_loss soft_margin_loss softplus softshrink
        special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0
        special_bessel_y1 special_digamma special_entr special_erf special_erfc
        special_erfcx special_erfinv special_exp2 special_expit special_expm1
        special_gammainc special_gammaincc special_gammaln special_i0 special_i0e special_i1
        special_i1e special_log1p special_log_ndtr special_logit special_logsumexp
        special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
        special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri
        special_polygamma special_psi special_round special_scaled_modified_bessel_k0
        special_scaled_modified_bessel_k1 special_sinc special_spherical_bessel_j0
        split_with_sizes_copy square stack t_copy take take_along_dim tensordot threshold
        trace tril tril_indices triu triu_indices trunc unfold_copy unique_consecutive
        unsafe_split_with_sizes unsqueeze_copy vdot vstack zero zeros zeros_like""",
    "default": """
        _assert_scalar _assert_tensor_metadata _conj _indices _is_all_true
        _local_scalar_dense _nnz _reshape_alias _safe_softmax
        _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
        _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention_backward
        _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_flash_attention_for_cpu_backward _sparse_mm_reduce_impl
        _unsafe_masked_index _unsafe_masked_index_put_accumulate _values abs_ absolute_
        acos_ acosh_ adaptive_max_pool1d addbmm_ addcdiv_ addcmul_ addmm_ addmv_ addr_
        adjoint alias allclose alpha_dropout alpha_dropout_ arccos_ arccosh_ arcsin_
        arcsinh_ arctan2_ arctan_ arctanh_ argwhere as_strided as_strided_ asin_ asinh_
        atan2_ atan_ atanh_ baddbmm_ batch_norm bilinear bitwise_not_ broadcast_tensors
        broadcast_to can_cast cartesian_prod cauchy_ ccol_indices cdist ceil_ celu_ chunk
        coalesce col_indices combinations conj conj_physical_ contiguous conv_transpose1d
        corrcoef cos_ cosh_ cosine_embedding_loss cosine_similarity cov cross_entropy_loss
        crow_indices cumprod_ cumsum_ deg2rad_ dense_dim det detach detach_ diagflat
        diagonal digamma_ dim dropout dropout_ elu_ embedding_renorm_ equal erf_ erfc_
        erfinv_ exp2_ exp_ expand expand_as expm1_ exponential_ feature_alpha_dropout
        feature_alpha_dropout_ feature_dropout feature_dropout_ fft_fftshift fft_ifftshift
        fill_diagonal_ fix_ fliplr flipud floor_ frac_ gcd_ gelu_ geometric_ get_device
        grid_sampler group_norm gru_cell hardsigmoid_ hardswish_ hardtanh_ heaviside_
        hinge_embedding_loss hypot_ i0_ igamma_ igammac_ imag index_add_ index_copy_
        index_reduce_ indices instance_norm is_coalesced is_complex is_conj is_distributed
        is_floating_point is_inference is_neg is_nonzero is_pinned is_same_size is_set_to
        is_signed is_vulkan_available isclose isreal istft item kl_div l1_loss layer_norm
        lcm_ ldexp_ leaky_relu_ lgamma_ lift_fresh linalg_diagonal linalg_vander log10_
        log1p_ log2_ log_ log_normal_ logdet logical_and_ logical_not_ logical_or_
        logical_xor_ logit_ lstm_cell margin_ranking_loss masked_scatter_ matrix_exp
        max_pool1d max_pool1d_with_indices max_pool2d max_pool3d mish_ mvlgamma_ nan_to_num_
        native_channel_shuffle neg_ negative_ nextafter_ norm_except_dim normal_ numel
        one_hot pad pairwise_distance pdist permute pin_memory pinverse poisson_nll_loss
        polygamma_ positive prelu promote_types put_ rad2deg_ ravel real reciprocal_
        record_stream relu6 relu6_ relu_ renorm_ requires_grad_ reshape reshape_as resize_
        resize_as_ resolve_conj resolve_neg retain_grad rms_norm rnn_relu_cell rnn_tanh_cell
        row_indices rrelu rrelu_ rsqrt_ scaled_dot_product_attention scatter_add_ selu selu_
        sgn_ sigmoid_ sign_ silu_ sin_ sinc_ sinh_ smm sparse_dim sparse_resize_
        sparse_resize_and_clear_ special_log_softmax special_softmax split_with_sizes sqrt_
        square_ storage_offset sum_to_size swapaxes swapaxes_ swapdims swapdims_
        sym_constrain_range_for_size sym_numel sym_storage_offset t t_ tan_ tanh_ threshold_
        tile to_dense to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr transpose_
        tril_ triplet_margin_loss triu_ trunc_ type_as unfold uniform_ unsafe_chunk
        unsqueeze unsqueeze_ vander view_as view_as_complex view_as_real zero_""",
    "Tensor Scalar": """
        __iand__ __ilshift__ __ior__ __irshift__ __ixor__ bitwise_and_ bitwise_or_
        bitwise_xor_ copysign_ float_power_ floor_divide_ fmod_ multiply_ remainder_ sub_
        subtract_ true_divide_""",
    "default out int float complex Scalar": """
        acos acosh angle asin asinh atan atanh cos cosh exp log10 neg sin sinh sqrt tan tanh""",
    "Scalar Tensor": """
        eq_ fill_ ge_ greater_ greater_equal_ gt_ le_ lerp_ less_ less_equal_ lt_
        masked_fill_ ne_ not_equal_ pow_""",
    "default out x_scalar x_scalar_out n_scalar n_scalar_out": """
        special_chebyshev_polynomial_t special_chebyshev_polynomial_u
        special_chebyshev_polynomial_v special_chebyshev_polynomial_w
        special_hermite_polynomial_h special_hermite_polynomial_he
        special_laguerre_polynomial_l special_legendre_polynomial_p
        special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
        special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w""",
    "default out int float Scalar": "ceil erf erfc expm1 floor lgamma log1p",
    "default vec out": """
        _upsample_bilinear2d_aa upsample_bicubic2d upsample_linear1d upsample_nearest1d
        upsample_nearest3d upsample_trilinear3d""",
    "Tensor Scalar Scalar_out Tensor_out": "greater greater_equal less less_equal not_equal",
    "default Tensor": "clamp_ clamp_max_ clamp_min_ clip_ narrow",
    "default generator out generator_out": "rand rand_like randn randn_like randperm",
    "int int_out": "log_softmax select_copy softmax transpose_copy unbind_copy",
    "Tensor Scalar Scalar_out Tensor_out int float int_float float_int default str": """
        ge gt le lt""",
    "default Tensor out Tensor_out": "clamp clamp_max clamp_min clip",
    "default out dtype_out dtype": "addmm baddbmm bmm mm",
    "default output": """
        fractional_max_pool2d fractional_max_pool3d log_sigmoid_forward nll_loss_forward""",
    "int default": "size stride sym_size sym_stride",
    "out default": "_batch_norm_with_update hspmm sparse_mask sspaddmm",
    "Tensor Scalar Scalar_Tensor Tensor_out Scalar_out Scalar_Tensor_out": """
        bitwise_and bitwise_or bitwise_xor""",
    "Tensor Tensor_out": "slice_copy split_copy unsafe_split",
    "default Sequence": "atleast_1d atleast_2d atleast_3d",
    "default other_scalar self_scalar out self_scalar_out other_scalar_out": """
        special_xlog1py special_xlogy special_zeta""",
    "default padding": "conv1d conv2d conv3d",
    "default periodic out periodic_out": "bartlett_window blackman_window hann_window",
    "default values": "kthvalue mode topk",
    "int": "transpose unbind unflatten",
    "int array": "dsplit hsplit vsplit",
    "x dx": "cumulative_trapezoid trapezoid trapz",
    "Scalar Scalar_out Tensor Tensor_out": "fill masked_fill",
    "Tensor Scalar Scalar_out Tensor_out int": "__lshift__ __rshift__",
    (
        "Tensor Scalar Scalar_out Tensor_out int_list device bool enum int complex float "
        "int_float float_int float_complex complex_float default str float_list "
        "Tensor_list bool_list str_list"
    ): "eq ne",
    "Tensor Scalar Tensor_out Scalar_out": "bucketize rsub",
    "Tensor Scalar bool int": "__or__ __xor__",
    "Tensor Scalar out": "multiply true_divide",
    "Tensor Scalar t": "add_ mul_",
    (
        "Tensor Tensor_Scalar Scalar_Tensor Tensor_out Tensor_Scalar_out "
        "Scalar_Tensor_out"
    ): "bitwise_left_shift bitwise_right_shift",
    "Tensor_Scalar Tensor": "bitwise_left_shift_ bitwise_right_shift_",
    (
        "Tensor_Tensor Tensor_Scalar Scalar_Tensor default out Tensor_Tensor_out "
        "Tensor_Scalar_out Scalar_Tensor_out"
    ): "linspace logspace",
    "ccol_row_value_size ccol_row_value": "sparse_bsc_tensor sparse_csc_tensor",
    "crow_col_value_size crow_col_value": "sparse_bsr_tensor sparse_csr_tensor",
    "default U": "linalg_svd svd",
    "default dim correction correction_out": "std_mean var_mean",
    "default dim correction correction_out out": "std var",
    "default dim dim_values out": "median nanmedian",
    "default dim dims": "squeeze squeeze_",
    "default grad_input": "max_pool2d_with_indices_backward threshold_backward",
    "default out float complex": "isinf isnan",
    "default out int float int_float float_int Scalar_Scalar": "atan2 polar",
    "default scalar out scalar_out": "nanquantile quantile",
    "default vec out vec_out": "upsample_bilinear2d upsample_nearest2d",
    "input": "conv_transpose2d conv_transpose3d",
    "IntList Tensor": "ctc_loss",
    "Scalar List ScalarList": "_foreach_maximum_",
    "Scalar List ScalarList Tensor": "_foreach_add_",
    (
        "Scalar ScalarOpt_dim ScalarOpt_dim_dtype dtype_out out ScalarOpt_dtype "
        "ScalarOpt_dtype_out Scalar_out"
    ): "norm",
    "Scalar Scalar_out List List_out ScalarList ScalarList_out Tensor Tensor_out": "_foreach_div",
    "Scalar Tensor Scalar_out Tensor_out": "lerp",
    "Scalar Tensor bool int": "__and__",
    "Tensor Scalar Scalar_Tensor Scalar_Scalar": "result_type",
    (
        "Tensor Scalar Scalar_Tensor Tensor_out Scalar_out Scalar_Tensor_out int float "
        "int_float float_int default"
    ): "remainder",
    "Tensor Scalar Tensor_mode Scalar_mode out out_mode": "divide",
    (
        "Tensor Scalar Tensor_mode Scalar_mode out out_mode Scalar_out Scalar_mode_out "
        "int complex float default"
    ): "div",
    "Tensor Scalar Tensor_out Scalar_out int float int_float float_int default": "fmod",
    (
        "Tensor Scalar out Scalar_out int complex float int_complex complex_int "
        "float_complex complex_float int_float float_int default"
    ): "sub",
    "Tensor Scalar out Scalar_out int float int_float float_int default": "copysign",
    (
        "Tensor Scalar out Scalar_out left_t right_ int complex float int_complex "
        "complex_int float_complex complex_float int_float float_int default"
    ): "mul",
    (
        "Tensor Scalar out Scalar_out t str int complex float int_complex complex_int "
        "float_complex complex_float int_float float_int default"
    ): "add",
    "Tensor Scalar_Other": "xlogy_",
    "Tensor Scalar_Other Scalar_Self OutTensor OutScalar_Self OutScalar_Other": "xlogy",
    "Tensor Tensor_mode Scalar Scalar_mode": "div_",
    "Tensor Tensor_mode Scalar_mode Scalar": "divide_",
    "Tensor Tensor_out Scalar Scalar_out": "searchsorted",
    (
        "Tensor Tensor_out Tensor_hacked_twin str list_int list_float list_bool "
        "list_Tensor list_str"
    ): "index",
    "Tensor Tensor_out default": "frexp",
    "Tensor float": "bernoulli_",
    "Tensor out Scalar": "subtract",
    "Tensor out default": "ldexp",
    "Tensor self_Tensor self_int Tensor_out": "repeat_interleave",
    "Tensor sizes str default": "split",
    "Tensor t str": "slice",
    (
        "Tensor_Tensor Tensor_Scalar Scalar Tensor_Tensor_out Scalar_out "
        "Tensor_Scalar_out"
    ): "float_power",
    (
        "Tensor_Tensor Tensor_Scalar Scalar Tensor_Tensor_out Scalar_out "
        "Tensor_Scalar_out int complex float int_float float_int float_complex "
        "complex_float Scalar_Scalar int_to_int"
    ): "pow",
    (
        "Tensor_Tensor Tensor_Tensor_out Tensor_Scalar Tensor_Scalar_out Scalar_Tensor "
        "Scalar_Tensor_out"
    ): "isin",
    (
        "Tensor_float Tensor_float_out float_Tensor_out float_Tensor Tensor_Tensor "
        "Tensor_Tensor_out float_float float_float_out out"
    ): "normal",
    "bins_tensor bins_tensor_out bin_ct bin_ct_out": "histogram",
    "comp_plain_value_size comp_plain_value": "sparse_compressed_tensor",
    "default L": "linalg_cholesky_ex",
    "default Q": "qr",
    "default Scalar out Scalar_out": "floor_divide",
    "default Tensor int float": "copy_",
    (
        "default Tensor low_dtype generator Tensor_generator low_generator_dtype out "
        "generator_out Tensor_out Tensor_generator_out low_dtype_out "
        "low_generator_dtype_out"
    ): "randint_like",
    "default X": "triangular_solve",
    "default a": "geqrf",
    (
        "default atol_rtol_float atol_rtol_tensor atol_rtol_tensor_out "
        "atol_rtol_float_out out rcond_tensor out_rcond_tensor"
    ): "linalg_pinv",
    "default center": "stft",
    "default decimals": "round_",
    "default decimals out decimals_out int float Scalar": "round",
    "default dim dims out dim_out dims_out": "squeeze_copy",
    "default dim dims out dims_out all_out int float bool": "all",
    "default dim dims out dims_out all_out str int float bool": "any",
    "default dim out dim_out": "nuclear_norm",
    "default dim out dtype_out": "mean",
    "default dim_IntList dim_IntList_out out": "count_nonzero",
    "default dim_int int_out out": "prod",
    "default dtype": "view",
    "default dtype out dtype_out": "view_copy",
    "default eigvals": "linalg_eigh",
    "default float complex": "isfinite",
    "default generator low low_generator out generator_out low_out low_generator_out": "randint",
    "default hacked_twin": "index_put_",
    "default indexing": "meshgrid",
    "default int_bins TensorList_bins": "histogramdd",
    "default inverse": "linalg_inv_ex",
    "default m out m_out": "eye",
    "default memory_format": "is_contiguous",
    "default no_stats out no_stats_out": "_native_batch_norm_legit",
    "default ord_str out ord_str_out": "linalg_norm",
    "default out hacked_twin": "index_put",
    "default out int": "gcd",
    (
        "default out int float complex Scalar int_int float_float complex_complex "
        "int_float float_int int_complex complex_int float_complex complex_float "
        "Scalar_Scalar"
    ): "log",
    "default out p Tensor Tensor_out float_out": "bernoulli",
    "default out t Dict_str Dict_int Dict_bool Dict_float Dict_complex Dict_Tensor": "copy",
    "default p_str out p_str_out": "linalg_cond",
    "default padding_idx": "embedding_bag",
    "default periodic beta out periodic_out beta_out": "kaiser_window",
    (
        "default periodic periodic_alpha periodic_alpha_beta out periodic_out "
        "periodic_alpha_out periodic_alpha_beta_out"
    ): "hamming_window",
    "default quantized": "_scaled_dot_product_flash_attention",
    "default stable stable_out": "argsort",
    "default stable values_stable values int float Tensor bool str any": "sort",
    "default start start_step start_out out": "arange",
    "default str int bool float complex Tensor": "values",
    "default str_ord out str_ord_out": "linalg_matrix_norm",
    "default sublist": "einsum",
    (
        "default tol_tensor atol_rtol_tensor atol_rtol_float atol_rtol_tensor_out "
        "atol_rtol_float_out out out_tol_tensor"
    ): "linalg_matrix_rank",
    "deprecated default out": "_convolution",
    "device dtype other dtype_layout prim_Device prim_dtype prim_other": "to",
    "dim out": "frobenius_norm",
    "dim_IntList default IntList_out out int float complex bool": "sum",
    "from to default": "random_",
    "int intlist": "movedim",
    "int t": "select",
    "int_Tensor int_Scalar": "index_fill_",
    "int_Tensor int_Scalar int_Scalar_out int_Tensor_out": "index_fill",
    "intlist int": "moveaxis",
    "memory_format out": "empty",
    "other default dim dim_max unary_out out": "max",
    "other default dim dim_min unary_out out": "min",
    (
        "scalarint scalararray array scalarrayint scalarrayarray tensorarrayint "
        "tensorarray"
    ): "gradient",
    "sections indices tensor_indices_or_sections": "tensor_split",
    "self ScalarOther ScalarSelf Scalar default self_out": "where",
    "size indices indices_size size_out": "sparse_coo_tensor",
    (
        "source_Storage_storage_offset source_Tensor default source_Storage "
        "source_Tensor_storage_offset"
    ): "set_",
    "sparse_dim default": "to_sparse",
    "src value reduce value_reduce": "scatter_",
    "step default out out_": "range",
    "two": "scatter_reduce_",
    "two two_out": "scatter_reduce",
    "using_ints": "flatten",
    "value src reduce value_reduce src_out value_out reduce_out value_reduce_out": "scatter",
}  # fmt: skip


@functools.cache
def _by_operator() -> dict[str, list[str]]:
    return {
        name: overloads.split() for overloads, names in _TABLE.items() for name in names.split()
    }


def overload_names(name: str) -> list[str] | None:
    """The overloads of an operator, None for one that is not known."""
    return _by_operator().get(name)
