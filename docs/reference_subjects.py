"""Which subject of the reference a public name belongs to.

Functions of ``lazyt`` itself are listed here by name, as patterns; those of other modules stand on
their module's page. What no pattern fits stands on the page of dtypes, devices and the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Subject:
    """One page: its file, its title, a sentence, and the names of ``lazyt`` that it takes."""

    file: str
    title: str
    about: str
    words: str

    def takes(self, name: str) -> bool:
        """Whether a name of ``lazyt`` belongs here."""
        return any(re.fullmatch(word, name.rstrip("_")) for word in self.words.split())


SUBJECTS = (
    Subject("lazy", "Computing, explaining, capturing",
            "When values are computed, what computing them takes, and why. These are lazyt's own.",
            r"realize explain why_\w+ wait_for_compiler tune jit compile explain_broadcast"),
    Subject("creating", "Making tensors",
            "Tensors from data, from shapes, and from other libraries' memory.",
            r"tensor as_tensor asarray zeros(_like)? ones(_like)? empty\w* full(_like)? arange"
            r" range linspace logspace eye complex heaviside from_numpy frombuffer from_dlpack"
            r" to_dlpack scalar_tensor tril_indices triu_indices \w+_window clone vander"
            r" meshgrid from_file zero cartesian_prod combinations diag_embed diagflat polar"
            r" sparse\w* \w+Tensor"),
    Subject("random", "Random numbers",
            "Draws that depend on the seed alone, and the generators that make them.",
            r"rand\w* bernoulli binomial multinomial normal poisson Generator \w*rng_state"
            r" manual_seed (initial_)?seed rrelu \w*dropout\w* uniform"),
    Subject("elementwise", "Elementwise functions",
            "One result for each element, or pair of elements after broadcasting.",
            r"abs\w* a?(sin|cos|tan)h? arc(sin|cos|tan)h? arctan2 atan2 add addc(div|mul)"
            r" angle bitwise_\w+ ceil clamp\w* clip conj\w* copysign deg2rad rad2deg div divide"
            r" digamma erf\w* exp exp2 expm1 fake_\w+ fix float_power floor floor_divide fmod"
            r" frac frexp gradient imag ldexp lerp lgamma log log10 log1p log2 logaddexp2?"
            r" logical_\w+ logit hypot i0 igammac? mul multiply mvlgamma nan_to_num neg"
            r" negative nextafter polygamma positive pow real reciprocal remainder round rsqrt"
            r" rsub sigmoid sign sgn signbit sinc sqrt square sub subtract true_divide trunc"
            r" xlogy fill square gcd lcm where threshold hardshrink relu celu selu prelu elu"
            r" gelu dequantize resolve_\w+ erfcx"),
    Subject("comparing", "Comparing",
            "Tests of elements and of whole tensors, and the larger or smaller of two.",
            r"eq ne lt le gt ge equal not_equal less\w* greater\w* isclose allclose"
            r" is(finite|inf|nan|neginf|posinf|real|in) maximum minimum fmax fmin is_nonzero"),
    Subject("reducing", "Sums, means and other reductions",
            "Fewer elements than before: over all of a tensor, or along some of its dimensions.",
            r"all any a?(max|min) aminmax arg(max|min) count_nonzero dist logsumexp (nan)?mean"
            r" (nan)?median mode (nan)?sum norm prod (nan)?quantile std(_mean)? var(_mean)?"
            r" trace cum\w+ logcumsumexp trapz trapezoid diff histc histogram\w* bincount cov"
            r" corrcoef nuclear_norm frobenius_norm renorm kthvalue"),
    Subject("sorting", "Sorting and searching",
            "Orders of elements, places of elements, and sets of them.",
            r"(arg|m)?sort topk searchsorted bucketize unique\w* nonzero\w* argwhere"),
    Subject("shaping", "Shapes, views, joining and splitting",
            "Other shapes of the same elements, tensors in pieces and together.",
            r"reshape\w* view\w* permute\w* transpose\w* t t_copy moveaxis movedim swap\w+"
            r" squeeze\w* unsqueeze\w* flatten unflatten ravel expand\w* broadcast_\w+"
            r" atleast_\dd cat concat\w* (h|v|d|column_|row_)?stack split\w*"
            r" unsafe_(split|chunk)\w* chunk tensor_split [hvd]split (un)?tile repeat\w* roll"
            r" rot90 flip(lr|ud)? unbind\w* unfold\w* narrow\w* as_strided\w* block_diag"
            r" alias_copy detach\w* adjoint diagonal\w* diag tri[lu] resize_as sum_to_size"
            r" pixel_(un)?shuffle channel_shuffle native_channel_shuffle constant_pad_nd"
            r" slice\w* unsafe\w* align_tensors"),
    Subject("indexing", "Indexing, gathering, scattering",
            "Elements by place, and writes to places.",
            r"gather index\w* take\w* unravel_index masked\w* scatter\w* select\w* put\w*"),
    Subject("matrices", "Products and matrices",
            "Products of matrices and vectors. `lazyt.linalg` has factorizations and solvers.",
            r"matmul mm bmm mv dot inner outer ger vdot einsum tensordot addmm addmv addr"
            r" addbmm baddbmm chain_matmul kron cross matrix_\w+ cholesky\w* qr svd\w* lu\w*"
            r" geqrf orgqr ormqr pinverse inverse det logdet slogdet triangular_solve lobpcg"
            r" pca_lowrank linalg_\w+ cdist pdist eigh? householder\w* cosine_similarity"
            r" pairwise_distance"),
    Subject("layers", "Functions of layers",
            "What `lazyt.nn.functional` has as well, under the names of `lazyt`.",
            r"conv\w+ \w*_pool\dd\w* \w*pool\dd\w* batch_norm layer_norm group_norm"
            r" instance_norm rms_norm embedding\w* bilinear (log_)?softmax ctc_loss \w+_loss"
            r" affine_grid_generator grid_sampler\w* binary_cross_entropy\w* kl_div rnn_\w+"
            r" lstm_cell gru_cell lstm gru scaled_dot_product_attention norm_except_dim"
            r" hinge_\w+ fused_\w+ native_\w+ local_response_norm"),
    Subject("gradients", "Gradients",
            "Whether operations are recorded, and derivatives of functions.",
            r"(enable|no)_grad inference_mode set_grad_enabled is_grad_enabled is_inference\w*"
            r" is_anomaly\w* vmap autocast\w* \w*autocast\w* GradScaler"),
    Subject("types", "Dtypes, devices, settings and the rest",
            "What a tensor is made of, and settings of the process.",
            r"DType dtype layout memory_format typename is_distributed finfo iinfo"
            r" promote_types result_type can_cast get_\w+ set_\w+ are_\w+ use_\w+"
            r" is_tensor is_storage is_floating_point is_complex is_signed is_conj is_neg"
            r" is_\w*warn\w* is_vulkan\w* is_deterministic\w*"
            r" Size Tensor \w*Storage device OutOfMemoryError numel is_same_size"),
    Subject("files", "Files",
            "Saving and loading; `lazyt.serialization` has more.",
            r"save load"),
)  # fmt: skip

#: Modules with a page each: name, file, title.
MODULES = (
    ("nn.functional", "nn-functional", "lazyt.nn.functional"),
    ("nn", "nn", "lazyt.nn"),
    ("nn.init", "nn-init", "lazyt.nn.init"),
    ("nn.utils", "nn-utils", "lazyt.nn.utils"),
    ("optim", "optim", "lazyt.optim"),
    ("optim.lr_scheduler", "schedules", "lazyt.optim.lr_scheduler"),
    ("autograd", "autograd", "lazyt.autograd"),
    ("func", "func", "lazyt.func"),
    ("amp", "amp", "lazyt.amp"),
    ("linalg", "linalg", "lazyt.linalg"),
    ("special", "special", "lazyt.special"),
    ("signal.windows", "windows", "lazyt.signal.windows"),
    ("distributions", "distributions", "lazyt.distributions"),
    ("utils.data", "data", "lazyt.utils.data"),
    ("serialization", "serialization", "lazyt.serialization"),
    ("profiler", "profiler", "lazyt.profiler"),
    ("testing", "testing", "lazyt.testing"),
    ("overrides", "overrides", "lazyt.overrides"),
    ("cuda", "cuda", "lazyt.cuda"),
)


#: For researchers: what lies below the API.
BELOW = (
    ("compiler", "compiler", "lazyt.compiler"),
    ("ir.graph", "ir-graph", "lazyt.ir.graph"),
    ("ir.op", "ir-op", "lazyt.ir.op"),
    ("ir.scalar", "ir-scalar", "lazyt.ir.scalar"),
    ("ir.index", "ir-index", "lazyt.ir.index"),
    ("ir.kernel", "ir-kernel", "lazyt.ir.kernel"),
    ("ops", "builders", "lazyt.ops"),
)

_REST = next(subject for subject in SUBJECTS if subject.file == "types")


def subject_of(name: str) -> Subject:
    """The page of a name of ``lazyt``."""
    return next((s for s in SUBJECTS if s.takes(name)), _REST)
