"""Where lazyt answers otherwise than PyTorch, on purpose or not yet: pattern and reason.

Patterns are matched against the whole text of a sample. An entry that no sample needs fails a test,
unless its reason ends with "yet": such entries wait for work that may be done at any time.
"""

from __future__ import annotations

Reasons = list[tuple[str, str]]

#: Other dtypes, shapes or errors.
OUTCOMES: Reasons = [
    (r"torch\.matrix_rank.*", "PyTorch only keeps the name, to say that it is linalg.matrix_rank"),
    (
        r".*torch\.complex\(x, y\).*|torch\.view_as_complex\(.*",
        "no complex32 yet",
    ),
    (r"torch\.affine_grid_generator\(.*", "no integers yet"),
]

#: Other values in float32.
VALUES: Reasons = [
    (r"linalg\.eigh\(S\)", "eigenvectors have no sign of their own"),
]

#: Other strides or offsets.
LAYOUTS: Reasons = [
    (r"linalg\.lstsq\(.*", "PyTorch's solution is a part of a larger buffer"),
    (r"Tensor\.(col|row)_indices\(.*", "PyTorch's indices are views of those of a COO tensor"),
]

#: Other gradients.
GRADIENTS: Reasons = [
    (
        r"nn\.CrossMapLRN2d.*",
        "PyTorch's gradient is wrong for even sizes: it disagrees with slopes",
    ),
    (r".*\.([mM]ulti_?[lL]abel_?[mM]argin_?[lL]oss)\(.*", "another choice at a kink"),
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
    (r"linalg\.(eig|eigvals)", "no out yet"),
    (
        r"torch\.(std_mean|var_mean|histogramdd)",
        "PyTorch's documents name out, its functions refuse it",
    ),
    (
        r"torch\.(as_strided_|fill_|resize_as_|rrelu_?|set_default_dtype|zero_|save)"
        r"|nn\.functional\.(elu_|rrelu_)|Tensor\.(expand|norm|polygamma|split)",
        "names differ, or an argument of little use is not there yet",
    ),
    (r"torch\.matrix_rank", "PyTorch only keeps the name, to say that it is linalg.matrix_rank"),
    (r"nn\.init\.[a-z_]*[a-z]", "PyTorch's old names take anything and pass it on"),
    (r"autograd\.backward", "grad_variables is deprecated"),
    (
        r"(torch|autograd)\.enable_grad|func\.jacrev|torch\.(Generator|TypedStorage|compile)",
        "arguments of PyTorch's own machinery",
    ),
]
