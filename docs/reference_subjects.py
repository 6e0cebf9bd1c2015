"""Which subject of the reference a public name belongs to.

A function of ``lazyt`` itself stands on the page of the folder of ``lazyt/functional/`` that it is
in. What belongs elsewhere, or is in no such folder, is listed here by name, as patterns. Functions
of other modules stand on their module's page.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from dataclasses import dataclass

import lazyt.functional


@dataclass(frozen=True)
class Subject:
    """One page.

    Attributes:
        file: its file.
        title: its title.
        about: a sentence about it.
        folder: the folder of ``lazyt/functional/`` whose functions it has, or none.
        words: patterns of other names that it has, whatever their folder.
    """

    file: str
    title: str
    about: str
    folder: str
    words: str

    def takes(self, name: str) -> bool:
        """Whether a name of ``lazyt`` is listed here."""
        return any(re.fullmatch(word, name.rstrip("_")) for word in self.words.split())


SUBJECTS = (
    Subject(
        "lazy", "Computing, explaining, capturing",
        "When values are computed, what computing them takes, and why. These are lazyt's own.",
        "", r"""
        compile explain explain_broadcast jit realize tune wait_for_compiler why_\w+
        """,
    ),
    Subject(
        "creating", "Making tensors",
        "Tensors from data, from shapes, and from other libraries' memory.",
        "creation", r"""
        \w+Tensor
        cartesian_prod clone combinations diag_embed diagflat from_dlpack from_numpy meshgrid
        to_dlpack tril_indices triu_indices vander zero
        """,
    ),
    Subject(
        "making-sparse", "Making sparse tensors",
        "Tensors of which only some elements are held, with coordinates or compressed rows.",
        "sparse", "",
    ),
    Subject(
        "random", "Random numbers",
        "Draws that depend on the seed alone, and the generators that make them.",
        "random", r"""
        \w*dropout rrelu
        """,
    ),
    Subject(
        "elementwise", "Elementwise functions",
        "One result for each element, or pair of elements after broadcasting.",
        "elementwise", r"""
        fill gradient
        """,
    ),
    Subject(
        "comparing", "Comparing",
        "Tests of elements and of whole tensors, and the larger or smaller of two.",
        "", r"""
        allclose eq equal fmax fmin ge greater greater_equal gt isclose isfinite isin isinf isnan
        isneginf isposinf isreal is_nonzero le less less_equal lt maximum minimum ne not_equal
        """,
    ),
    Subject(
        "reducing", "Sums, means and other reductions",
        "Fewer elements than before: over all of a tensor, or along some of its dimensions.",
        "reductions", r"""
        bincount dist histc histogram histogramdd kthvalue logsumexp median mode nanmedian
        nanquantile norm quantile renorm trace (frobenius|nuclear)_norm
        """,
    ),
    Subject(
        "sorting", "Sorting and searching",
        "Orders of elements, places of elements, and sets of them.",
        "sorting", r"""
        argwhere nonzero nonzero_static
        """,
    ),
    Subject(
        "shaping", "Shapes, views, joining and splitting",
        "Other shapes of the same elements, tensors in pieces and together.",
        "shapes", r"""
        adjoint as_strided broadcast_to constant_pad_nd detach diag diagonal flatten moveaxis
        movedim narrow permute ravel reshape resize_as squeeze swapaxes swapdims t transpose tril
        triu unflatten unsqueeze
        pixel_(un)?shuffle (native_)?channel_shuffle
        """,
    ),
    Subject(
        "indexing", "Indexing, gathering, scattering",
        "Elements by place, and writes to places.",
        "indexing", r"""
        masked_fill select select_copy select_scatter unravel_index
        """,
    ),
    Subject(
        "matrices", "Products and matrices",
        "Products of matrices and vectors. `lazyt.linalg` has factorizations and solvers.",
        "linalg", "",
    ),
    Subject(
        "signals", "Signals",
        "Spectra of pieces of signals. `lazyt.fft` has Fourier transforms of whole ones.",
        "fourier", "",
    ),
    Subject(
        "layers", "Functions of layers",
        "What `lazyt.nn.functional` has as well, under the names of `lazyt`.",
        "nn", r"""
        bilinear norm_except_dim
        """,
    ),
    Subject(
        "gradients", "Gradients",
        "Whether operations are recorded, and derivatives of functions.",
        "", r"""
        (enable|no)_grad inference_mode is_grad_enabled set_grad_enabled is_anomaly\w*
        is_inference\w* vmap autocast\w* \w+_autocast\w* GradScaler
        """,
    ),
    Subject(
        "kernels", "Kernels of your own",
        "C functions of numbers, and kernels in C and CUDA C, as operations of the graph.",
        "", r"""
        c_function c_kernel cuda_kernel check_cuda
        """,
    ),
    Subject(
        "types", "Dtypes, devices, settings and the rest",
        "What a tensor is made of, and settings of the process.",
        "", r"""
        DType OutOfMemoryError Size Tensor \w+Storage device dtype layout memory_format
        can_cast finfo iinfo is_complex is_conj is_distributed is_floating_point is_neg
        is_same_size is_signed is_storage is_tensor numel promote_types result_type typename
        are_deterministic\w* is_deterministic\w* is_vulkan_available is_warn_always_enabled
        use_deterministic\w*
        get_default_\w+ get_deterministic\w* get_device get_float32\w* get_num\w*
        get_printoptions
        set_default_\w+ set_deterministic\w* set_float32\w* set_flush_denormal set_num\w*
        set_printoptions set_warn_always
        """,
    ),
    Subject(
        "files", "Files",
        "Saving and loading; `lazyt.serialization` has more.",
        "", r"""
        load save
        """,
    ),
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
    ("fx", "fx", "lazyt.fx"),
    ("amp", "amp", "lazyt.amp"),
    ("library", "library", "lazyt.library"),
    ("linalg", "linalg", "lazyt.linalg"),
    ("fft", "fft", "lazyt.fft"),
    ("special", "special", "lazyt.special"),
    ("sparse", "sparse", "lazyt.sparse"),
    ("masked", "masked", "lazyt.masked"),
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


@functools.cache
def folders() -> dict[str, str]:
    """The folder of ``lazyt/functional/`` that has a function, by the function's name."""
    found: dict[str, str] = {}
    place = f"{lazyt.functional.__name__}."
    for module in pkgutil.walk_packages(lazyt.functional.__path__, place):
        folder = module.name.removeprefix(place).partition(".")[0]
        for name in getattr(importlib.import_module(module.name), "__all__", []):
            found.setdefault(name.rstrip("_"), folder)
    return found


def subject_of(name: str) -> Subject:
    """The page of a name of ``lazyt``. Raises LookupError where nothing says which."""
    folder = folders().get(name.rstrip("_"))
    listed = [subject for subject in SUBJECTS if subject.takes(name)]
    listed += [subject for subject in SUBJECTS if folder and subject.folder == folder]
    if not listed:
        raise LookupError(
            f"no subject has lazyt.{name}: add it to one in docs/reference_subjects.py"
        )
    return listed[0]
