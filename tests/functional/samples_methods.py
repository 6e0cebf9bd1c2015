"""Sample calls of those methods of Tensor whose arguments differ from the function's, or that have
none. Other methods are called with the samples of the function that has their name.
"""

from __future__ import annotations

METHODS: list[tuple[str, str]] = [
    ("q, 1", "polygamma polygamma_"),
    ("x", "to_dense"),
    (
        "x",
        """
        contiguous cpu dim element_size get_device is_contiguous is_pinned ndimension
        nelement size stride storage_offset tolist numpy bfloat16 bool byte char double cdouble
        cfloat
        float half int long short requires_grad_ clone type is_inference ravel
        dim_order zero_ squeeze_ t_ random_ uniform_ normal_ bernoulli_ cauchy_ log_normal_
        exponential_""",
    ),
    ("s", "item is_nonzero"),
    ("x, (4, 3)", "view reshape resize_"),
    ("x, 4, 3", "view reshape"),
    ("x, -1", "view reshape"),
    ("x, y", "view_as reshape_as type_as copy_ resize_as_ to"),
    ("v, x", "expand_as"),
    ("v, 3, 4", "expand"),
    ("x, 2, 3", "repeat"),
    ("x, (2, 3)", "repeat"),
    ("C, 2, 0, 1", "permute"),
    ("x, (1, 4)", "sum_to_size"),
    ("x, torch.float64", "to type"),
    ("x, torch.int32", "to type"),
    ("x, 'cpu'", "to"),
    ("x, 1", "fill_ random_ size stride unsqueeze_"),
    ("x, (2, 3)", "new_empty new_ones new_zeros"),
    ("x, (2, 3), 7", "new_full"),
    ("x, [1, 2]", "new_tensor"),
    ("x, (2, 3), (3, 1)", "new_empty_strided"),
    ("A, 1", "fill_diagonal_"),
    ("x, 0.5", "geometric_ bernoulli_ bernoulli"),
    ("x, 1, 2, 1", "unfold"),
    ("C, 0, 1", "transpose_ swapaxes_ swapdims_"),
    ("x, j, u", "put_"),
    ("x, (2, 2), (4, 1)", "as_strided as_strided_"),
    ("x, (j,), y", "index_put_"),
    ("x, mask, y", "where"),
    ("x, 2, 2", "tile"),
    ("x, 2", "split"),
    ("x", "to_sparse to_sparse_coo to_sparse_csr to_sparse_csc sparse_dim dense_dim"),
    ("x.to_sparse()", "coalesce is_coalesced indices values to_dense sparse_dim dense_dim"),
    ("x.to_sparse_csr()", "crow_indices col_indices values to_sparse_coo to_sparse_csc"),
    ("x.to_sparse_csc()", "ccol_indices row_indices values to_sparse_coo to_sparse_csr"),
    ("x, y.to_sparse()", "sparse_mask"),
    ("x, y.to_sparse_csr()", "sparse_mask"),
    ("A.to_sparse(), A", "smm hspmm mm matmul"),
    ("A.to_sparse_csr(), A", "mm matmul"),
    ("A.to_sparse(), u", "mv"),
    ("A.to_sparse(), S.to_sparse(), A", "sspaddmm"),
    ("x.to_sparse(), (4, 5), 2, 0", "sparse_resize_ sparse_resize_and_clear_"),
    ("x, (1, 3), 1", "split split_with_sizes"),
]

#: Not functions of values: hooks, gradients, names of memory; tested where they are made.
WITHOUT_METHODS = """
    alias to_device const_data_ptr apply_ map_ map2_ is_set_to new storage storage_type
    untyped_storage backward register_hook register_post_accumulate_grad_hook retain_grad
    as_subclass detach_ requires_grad_ pin_memory record_stream cuda data_ptr set_ share_memory_
    to_sparse_bsr to_sparse_bsc is_shared numpy tolist item explain realize retains_grad"""
