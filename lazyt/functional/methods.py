"""Which functions are methods of Tensor, and which of those have an in-place form."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from lazyt.functional import operators
from lazyt.functional.calls import explained, is_wrapped
from lazyt.functional.creation import creation, filling
from lazyt.functional.elementwise import (
    activations,
    arithmetic,
    choice,
    conversions,
    division,
    special_functions,
    unary,
)
from lazyt.functional.indexing import brackets, combining, masks, picking, writes
from lazyt.functional.linalg import (
    affine_products,
    decompositions,
    matrices,
    matrix_powers,
    norms,
    products,
    pseudoinverses,
    solvers,
    vector_products,
)
from lazyt.functional.nn import normalizers
from lazyt.functional.random import sampling
from lazyt.functional.reductions import covariance, cumulative, reductions
from lazyt.functional.results import add_method
from lazyt.functional.shapes import rearranging, splitting, view_copies
from lazyt.functional.sorting import distinct, searching, sorting
from lazyt.handle.autocast import as_on_gpus
from lazyt.handle.tensor import Tensor

# Public functions by module; a name ending in "_" has an in-place form too, and "." after it says
# that PyTorch has that form as a function as well (torch.exp_).
_TABLE: list[tuple[ModuleType, str]] = [
    (
        arithmetic,
        """
        add_ sub_ subtract_ rsub mul_ multiply_ pow_ float_power maximum minimum fmax fmin hypot_
        atan2_ arctan2_ copysign_ xlogy_. square_. bitwise_and_ bitwise_or_ bitwise_xor_
        bitwise_left_shift_ bitwise_right_shift_ eq_ ne_ lt_ le_ gt_ ge_ not_equal_ less_
        less_equal_ greater_ greater_equal_ logical_and_ logical_or_ logical_xor_""",
    ),
    (division, "div_ divide_ true_divide_ floor_divide_ remainder_ fmod_"),
    (
        unary,
        """
        exp_. exp2_. expm1_. log_. log2_. log10_. log1p_. sqrt_. rsqrt_. reciprocal_. sin_.
        cos_. tan_. asin_. acos_. atan_. arcsin_. arccos_. arctan_. sinh_. cosh_. tanh_.
        asinh_. acosh_. atanh_. arcsinh_. arccosh_. arctanh_. erf_. erfc_. erfinv_ lgamma_
        digamma_ sigmoid_. sinc_. deg2rad_. rad2deg_. frac_. abs_. absolute_ sign_ sgn_ floor_.
        ceil_. trunc_. fix_. isnan isinf isfinite signbit isposinf isneginf neg_. negative_.
        positive logical_not_ bitwise_not_ round_. logit_. is_nonzero""",
    ),
    (arithmetic, "addcmul_ addcdiv_ lerp_"),
    (
        choice,
        """
        clamp_. clip_. clamp_min_. clamp_max_. masked_fill_ nan_to_num_. isclose allclose equal""",
    ),
    (activations, "relu_. prelu hardshrink"),
    (
        unary,
        """
        angle conj conj_physical_. is_conj is_neg isreal resolve_conj resolve_neg""",
    ),
    (
        arithmetic,
        "float_power_! frexp gcd_. heaviside_ lcm_. ldexp_. logaddexp logaddexp2 nextafter_",
    ),
    (special_functions, "i0_. igamma_ igammac_ mvlgamma_"),
    (reductions, "sum nansum nanmean prod mean var std all any count_nonzero"),
    (reductions, "amax amin argmax argmin max min aminmax"),
    (cumulative, "cumsum_ cumprod_ cummax cummin logcumsumexp diff"),
    (normalizers, "softmax log_softmax logsumexp"),
    (norms, "dist norm renorm_"),
    (affine_products, "addmm_ addmv_. addr_ baddbmm_ addbmm_"),
    (decompositions, "cholesky geqrf qr svd"),
    (
        solvers,
        """
        cholesky_inverse cholesky_solve det inverse logdet slogdet triangular_solve""",
    ),
    (solvers, "lu lu_solve"),
    (pseudoinverses, "pinverse"),
    (decompositions, "orgqr ormqr"),
    (matrix_powers, "matrix_exp matrix_power"),
    (vector_products, "cross kron"),
    (covariance, "corrcoef cov"),
    (rearranging, "repeat tile repeat_interleave roll flip fliplr flipud rot90"),
    (
        matrices,
        """
        tril_ triu_ diag diag_embed diagflat trace""",
    ),
    (
        picking,
        """
        gather take_along_dim index_select take scatter_ scatter_add_""",
    ),
    (writes, "index_add_ index_copy_ index_fill_"),
    (combining, "index_reduce_ put_ scatter_reduce_"),
    (brackets, "index_put index_put_!."),
    (masks, "nonzero nonzero_static argwhere masked_select masked_scatter_ bincount"),
    (distinct, "unique unique_consecutive"),
    (sorting, "kthvalue median mode nanmedian nanquantile quantile"),
    (searching, "histc histogram"),
    (sorting, "argsort msort sort topk"),
    (
        products,
        """
        matmul mm bmm mv dot vdot outer ger inner""",
    ),
    (creation, "new_tensor"),
    (filling, "new new_zeros new_ones new_empty new_empty_strided new_full"),
    (
        sampling,
        """
        bernoulli multinomial bernoulli_! cauchy_! exponential_! geometric_! log_normal_! normal_!
        random_! uniform_!""",
    ),
    (writes, "copy_! fill_!. fill_diagonal_! zero_!."),
    (
        splitting,
        """
        split split_with_sizes chunk tensor_split hsplit vsplit dsplit unbind unsafe_chunk
        unsafe_split unsafe_split_with_sizes""",
    ),
    (view_copies, "narrow_copy"),
    (
        view_copies,
        """
        as_strided_scatter diagonal_scatter select_scatter slice_scatter
        sum_to_size""",
    ),
    (
        conversions,
        """
        to type type_as float double half bfloat16 long int short char byte bool cpu cuda
        pin_memory is_pinned record_stream is_floating_point is_complex is_signed element_size size
        dim numel nelement ndimension get_device""",
    ),
]


#: In-place forms that are functions of the torch namespace too, by name.
INPLACE_FUNCTIONS: dict[str, Callable[..., Tensor]] = {}


def install() -> None:
    """Attach every method and operator to Tensor; fills ``INPLACE_FUNCTIONS``."""
    for module, names in _TABLE:
        for marked in names.split():
            entry = marked.removesuffix(".")
            # "!" marks functions that are written as in-place functions themselves.
            name = entry.removesuffix("!" if entry.endswith("!") else "_")
            function = getattr(module, name)
            add_method(name, function, inplace=entry.endswith("_"))
            if is_wrapped(function):
                setattr(
                    Tensor, name, explained(as_on_gpus(function, name), name, "lazyt", method=True)
                )
            if marked.endswith("."):
                changed = entry.removesuffix("!")
                INPLACE_FUNCTIONS[changed] = getattr(Tensor, changed)
    add_method("where", choice.where_method)
    add_method("polygamma", special_functions.polygamma_method, inplace=True)
    operators.install()
