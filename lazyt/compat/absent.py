"""What the error for a name that lazyt does not have says: the reason, or a name like it."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType

from lazyt.ir.dtypes import package_name

__all__ = [
    "install",
]

#: Reasons, and the names that they are for, tried in order on PyTorch's name without its package.
_REASONS: tuple[tuple[str, str], ...] = (
    (
        "lazyt's complex numbers have parts of float32 or float64: complex64 and complex128",
        r"complex32|chalf|ComplexHalf\w*",
    ),
    (
        "lazyt's sparse tensors have coordinates (COO) or compressed rows or columns (CSR, CSC); "
        "use these, or index_add and scatter_reduce",
        r"_\w*sparse\w*|sparse_(sampled|matrix)\w*|\w*semi_structured|hsmm|saddmm"
        r"|c?(col|row|crow|ccol)_indices(_copy)?|indices(_copy)?|values(_copy)?"
        r"|segment_reduce",
    ),
    (
        "torch.linalg.eigh has all eigenvalues, of which the largest or smallest can be taken",
        r"lobpcg",
    ),
    (
        "nested tensors are there under `import torch` (python -m lazyt run), as torch.nested",
        r"nested|jagged|to_padded_tensor",
    ),
    (
        "tensors with a mask are there under `import torch` (python -m lazyt run), as torch.masked",
        r"(masked\.)?(MaskedTensor|(as_|is_)?masked_tensor)",
    ),
    (
        "lazyt has no quantised tensors; float16 and bfloat16 are its smallest types of fractions",
        r"q_\w+|\w*quanti[sz]e\w*|quantization|q(u?int|scheme)\w*|Q\w*Storage|int_repr"
        r"|quantized_\w+|fake_quantize\w*|fused_moving\w*|fbgemm\w*|float[48]_\w+|u?int[1-7]"
        r"|bits?(\d\w*)?|choose_qparams\w*",
    ),
    (
        "lazyt's ranks have whole models and parts of the batch (lazyt.distributed: all ranks "
        "call the same collectives); this is not there",
        r"distributed\w*",
    ),
    (
        "lazyt has the CPU and CUDA GPUs (lazyt.cuda); other devices and libraries are not there",
        r"(cudnn|miopen|mkldnn)_\w+|to_mkldnn|mtia|ipu|Stream|Event"
        r"|\w*_(xla|ipu)(_\w+)?|get_device_module",
    ),
    (
        "lazyt writes no programs to files; save weights with lazyt.save(model.state_dict(), path) "
        "or lazyt.serialization.safetensors, and make the model again where they are loaded",
        r"onnx",
    ),
    (
        "lazyt compiles the graph that a program builds while it runs (lazyt.jit, lazyt.compile); "
        "PyTorch's own compilers and their representations are not there",
        r"_dynamo|_inductor|_functorch|_export|_subclasses|_ops|_C|dynamo|classes|package|Script\w+"
        r"|Graph\w*|[A-Z][a-z]\w*Type|import_ir\w*|parse_(ir|schema|type_comment)|sym_\w+|Sym\w+"
        r"|fork|wait|futures|FileCheck|CompilationUnit",
    ),
    (
        "lazyt downloads nothing; save and load files with lazyt.save and lazyt.load",
        r"hub",
    ),
    (
        "PyTorch has removed it; use the function of that name in lazyt.linalg",
        r"lstsq|symeig|solve",
    ),
)

#: Reasons by the module's path in PyTorch, for those that are imported from inside of packages.
_MODULES = {
    "utils.cpp_extension": "lazyt loads no extensions; write the function with operations of "
    "tensors, which compile into one kernel",
    "utils.collect_env": "`python -m lazyt doctor` says what this machine gives lazyt",
    "utils.model_zoo": "lazyt downloads nothing; load files with lazyt.load",
    "utils.bottleneck": "use lazyt.profiler",
    "utils.mobile_optimizer": "lazyt compiles for the machine that it runs on",
    "utils.flop_counter": "lazyt.explain(tensor) says what each kernel reads, writes and computes",
    "nn.attention.flex_attention": "call nn.functional.scaled_dot_product_attention with "
    "attn_mask, a mask or what is added to the scores",
    "nn.attention.bias": "call nn.functional.scaled_dot_product_attention with is_causal or "
    "attn_mask",
    "_six": "PyTorch has removed it",
}

_ELSEWHERE = (
    "lazyt.nn", "lazyt.nn.functional", "lazyt.optim", "lazyt.linalg", "lazyt.special",
    "lazyt.utils.data",
)  # fmt: skip


def reason(name: str) -> str | None:
    """Why lazyt does not have ``name`` of PyTorch, if that is a decision."""
    for text, pattern in _REASONS:
        if re.fullmatch(pattern, name):
            return text
    return None


def module_reason(path: str) -> str | None:
    """Why lazyt does not have the module of PyTorch at ``path``, such as ``utils.tensorboard``."""
    parts = path.split(".")
    inside = [".".join(parts[: end + 1]) for end in range(len(parts))]
    named = next((_MODULES[name] for name in inside if name in _MODULES), None)
    return named or reason(parts[0])


def suggestion(name: str, known: Iterable[str]) -> str:
    """``" Did you mean: 'relu'?"`` for a name like one of ``known``, else nothing."""
    spelled: dict[str, list[str]] = {}
    for candidate in known:
        spelled.setdefault(candidate.lower(), []).append(candidate)
    close = difflib.get_close_matches(name.lower(), spelled, 1, 0.7)
    if not close:
        return ""
    return f" Did you mean: '{difflib.get_close_matches(name, spelled[close[0]], 1, 0)[0]}'?"


def elsewhere(name: str) -> str:
    """``" Did you mean: 'lazyt.nn.Linear'?"`` where an imported package has the name."""
    for package in _ELSEWHERE:
        module = sys.modules.get(package)
        if module is not None and name in vars(module):
            return f" Did you mean: '{known_as(package)}.{name}'?"
    return ""


def known_as(module: str) -> str:
    """A module's name as the program wrote it: with ``torch`` where lazyt stands in for that."""
    return package_name() + module.removeprefix("lazyt")


class AbsentName(AttributeError):
    """An AttributeError that looks for its reason when it is shown: most are caught unseen."""

    def __init__(
        self, owner: str, name: str, known: Callable[[], Iterable[str]], why: str | None = None
    ) -> None:
        # Python itself adds a suggestion where it knows the object: one is enough.
        text = f"{owner} has no attribute '{name}'"
        super().__init__(text, name=name, obj=None)
        self.text = text
        self.known = known
        self.why = why

    def __str__(self) -> str:
        name = str(self.name)
        why = self.why or reason(name)
        if why is not None:
            return f"{self.text}: {why}"
        found = elsewhere(name) or suggestion(
            name, (n for n in self.known() if not n.startswith("_"))
        )
        return self.text + ("." if found else "") + found

    @staticmethod
    def of(module: str, name: str, why: str | None = None) -> AbsentName:
        """The error for a name that a module of lazyt does not have."""
        owner = f"module '{known_as(module)}'"
        return AbsentName(owner, name, lambda: dir(sys.modules[module]), why)

    def __reduce__(self) -> tuple[object, ...]:
        return AttributeError, (str(self),)


def explain_absence(module: str) -> None:
    """Make a module of lazyt raise AbsentName for the names that it does not have."""

    def missing(name: str) -> object:
        raise AbsentName.of(module, name)

    # Not by a function of the module: type checkers would take every name to be there.
    vars(sys.modules[module])["__getattr__"] = missing


# Imports of modules that lazyt does not have: the error says why.
#
# A module of its own, as ``import lazyt`` must stay cheap and the reasons are long.


class AbsentModules:
    """Asked last, about modules of lazyt that nothing else finds."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raise ModuleNotFoundError with the reason why lazyt has no such module, if it is one."""
        package, _, name = fullname.partition(".")
        if package != "lazyt" or not name:
            return

        why = module_reason(name)
        if why is not None:
            raise ModuleNotFoundError(f"No module named '{fullname}': {why}", name=fullname)


def install() -> None:
    """Have Python ask for reasons."""
    sys.meta_path.append(AbsentModules)
