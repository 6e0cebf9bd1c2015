"""Where lazyt answers otherwise than PyTorch, on purpose or not yet: pattern and reason.

Patterns are matched against the whole text of a sample. An entry that no sample needs fails a test,
unless its reason ends with "yet": such entries wait for work that may be done at any time.
"""

from __future__ import annotations

Reasons = list[tuple[str, str]]

#: Other dtypes, shapes or errors.
OUTCOMES: Reasons = [
    (
        r"nn\.functional\.(dropout[123]?d?\((line|image|volume)|l1_loss|kl_div|gaussian_nll|hinge_emb"
        r"|hardtanh|embedding_bag).*|torch\.feature_(alpha_)?dropout.*|nn\.(\w*Dropout\w*\(|L1Loss"
        r"|KLDivLoss|HingeEmb|GaussianNLL|Hardtanh|LayerNorm|GroupNorm|CrossMapLRN2d).*|torch\.gradient\(x\)",
        "takes integers or bools, which PyTorch refuses, and lazyt not yet",
    ),
    (r"torch\.matrix_rank.*", "PyTorch only keeps the name, to say that it is linalg.matrix_rank"),
    (
        r"(torch|linalg)\.vander\(.*|torch\.bincount\(labels, u\)",
        "not the wide dtypes of PyTorch yet",
    ),
    (r"nn.*[sS]oft_?[mM]argin_?[lL]oss\(.*", "not PyTorch's dtype with a float32 target yet"),
    (r"nn.*[lL]ocal_?[rR]esponse_?[nN]orm.*", "not float32 from int64 yet"),
    (r"(nn\.functional\.un)?fold\(.*|nn\.functional\.fold.*|nn\.(Unf|F)old\(.*", "no bool yet"),
    (r"nn\.functional\.interpolate\(.*|nn\.Upsampling.*|.*\.upsample.*", "no uint8 yet"),
    (r"torch\.affine_grid_generator\(.*", "no integers yet"),
    (
        r"Tensor\.(float_power_\(.*|cumsum_\(x, 1, dtype=torch\.float64\))",
        "the result is cast to the tensor's dtype, which is not refused yet",
    ),
    (
        r"torch\.(binary_cross_entropy_with_logits|kl_div|hinge_embedding_loss)\(.*",
        "not PyTorch's dtypes of mixed or whole operands yet",
    ),
    (r"nn\.Lazy(Batch|Instance)Norm.*", "lazy norms cannot be cast before their first call yet"),
]

#: Other values in float32.
VALUES: Reasons = [
    (r"linalg\.eigh\(S\)", "eigenvectors have no sign of their own"),
    (r"(torch|nn\.functional)\.kl_div\(.*|nn\.KLDivLoss.*", "negative targets do not give NaN yet"),
]

#: Other strides or offsets.
LAYOUTS: Reasons = [
    (r"linalg\.lstsq\(.*", "PyTorch's solution is a part of a larger buffer"),
    (r"torch\.where\(mask\)|torch\.unravel_index\(.*", "one tensor each, not parts of one, yet"),
    (r"torch\.rot90\(x\)", "a new tensor, row by row, yet"),
]

#: Other gradients.
GRADIENTS: Reasons = [
    (r"(torch|nn\.functional)\.kl_div\(.*|nn\.KLDivLoss.*", "negative targets do not give NaN yet"),
    (r".*\.div_?\(x, y, rounding_mode='floor'\)", "no gradient of zeros yet"),
    (
        r"nn\.CrossMapLRN2d.*",
        "PyTorch's gradient is wrong for even sizes: it disagrees with slopes",
    ),
    (r".*\.([mM]ulti_?[lL]abel_?[mM]argin_?[lL]oss)\(.*", "another choice at a kink"),
    (r"nn\.Lazy(Batch|Instance)Norm.*", "lazy norms cannot be cast before their first call yet"),
    (
        r"torch\.logit\(x\)|Tensor\.logit_\(x\)",
        "outside of [0, 1] the value is NaN, and lazyt leaves the formula's slope",
    ),
    (
        r"Tensor\.logical_(not|and|or|xor)_\(.*\)",
        "PyTorch passes the gradient on through a truth value; here it is zero",
    ),
    (r"torch\.as_strided_scatter\(.*\)", "PyTorch gives overwritten elements a gradient"),
    (r"torch\.logdet\(A\)", "the determinant is negative and the value NaN"),
    (
        r"torch\.cholesky_(inverse\(L\)|solve\(A, L\))",
        "only the lower triangle is read, and only it gets a gradient",
    ),
    (r"linalg\.eigh\(S\)", "eigenvectors have no sign of their own"),
]


#: Parameters that cannot be given as in PyTorch.
PARAMETERS: Reasons = [
    (r"special\..*", "PyTorch's bindings say x and n, its documents input and n"),
    (
        r"(torch|Tensor)\.([dhv]|tensor_)split",
        "one parameter indices_or_sections, as in PyTorch's documents; no second name yet",
    ),
    (r"linalg\.(eig|eigvals)|torch\.(std_mean|var_mean)", "no out yet"),
    (
        r"torch\.(as_strided_|fill_|from_numpy|resize_as_|result_type|rrelu_?|set_default_dtype|vdot"
        r"|set_rng_state|swapaxes|unsafe_split|zero_|save)|nn\.functional\.(elu_|one_hot|rrelu_)"
        r"|Tensor\.(expand|is_pinned|norm|polygamma|split|swapaxes_?|vdot)|nn\.UninitializedBuffer"
        r"|utils\.data\.DataLoader",
        "names differ, or an argument of little use is not there yet",
    ),
    (r"torch\.(diag|tensordot|take_along_dim|matrix_rank)", "no out yet"),
    (r"torch\.where", "no out yet"),
    (r"autograd\.backward", "grad_variables is deprecated"),
    (
        r"nn\.utils\.(clip_grad_norm_|clip_grad_value_|get_total_norm)",
        "foreach chooses kernels, which fusion does here",
    ),
    (
        r"(torch|autograd)\.(enable_grad|set_grad_enabled)|torch\.(Generator|TypedStorage|compile)",
        "arguments of PyTorch's own machinery",
    ),
]
