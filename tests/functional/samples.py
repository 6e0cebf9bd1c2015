"""Every sample call of the API, and what came of it, in words that compare across libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.functional.sample_values import DATA, FIXED, FLOATS, Operands, call
from tests.functional.samples_methods import METHODS
from tests.functional.samples_nn import LINALG, MASKED, MODULES, SPECIAL, F
from tests.functional.samples_torch import FUNCTIONS

#: What is random, or not set at all: only shape and dtype are compared.
RANDOM = """
    rand_like randn_like randint_like rand randn randint randperm bernoulli poisson multinomial
    normal binomial dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d dropout3d
    rrelu gumbel_softmax fractional_max_pool2d fractional_max_pool3d
    fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices random_ uniform_
    normal_ bernoulli_ cauchy_ log_normal_ exponential_ geometric_ empty empty_like
    empty_strided empty_permuted new_empty new_empty_strided resize_ dropout_ alpha_dropout_
    rrelu_ pca_lowrank svd_lowrank feature_dropout feature_dropout_
    feature_alpha_dropout_"""
MOST_NUMBERS, MOST_TOGETHER = 12, 48


@dataclass(frozen=True)
class Sample:
    """A call: ``place`` is torch, Tensor, nn.functional, linalg, special, masked or nn.

    ``made`` has the constructor's arguments of a module.
    """

    place: str
    name: str
    text: str
    made: str = ""

    def __str__(self) -> str:
        if self.place == "nn":
            return f"nn.{self.name}({self.made})({self.text})"
        return f"{self.place}.{self.name}({self.text})"

    @property
    def random(self) -> bool:
        """Whether values cannot be compared."""
        return self.name in RANDOM.split() or (self.place == "nn" and self.name not in _VALUED)


#: Modules with parameters, which are random, and with chance.
DRAWN = """
    PReLU RReLU AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout
    LazyLinear Embedding EmbeddingBag TransformerEncoder TransformerDecoder FractionalMaxPool2d
    FractionalMaxPool3d Bilinear"""
_VALUED = {
    name for made, _, names in MODULES for name in names.split() if not re.search(r"\d, \d", made)
} - set(DRAWN.split())


def _of(place: str, table: list[tuple[str, str]]) -> Iterator[Sample]:
    for text, names in table:
        for name in names.split():
            yield Sample(place, name, text)


def _inplace() -> Iterator[Sample]:
    """The in-place form of each function, called as a method."""
    own = {name for _, names in METHODS for name in names.split()}
    for sample in _of("torch", FUNCTIONS):
        first = re.match(r"\w+", sample.text)
        method = f"{sample.name}_"
        if first and first.group() in {*DATA, *FIXED} and method not in own:
            yield Sample("Tensor", method, sample.text)


def all_samples() -> list[Sample]:
    """All sample calls, those of functions that a library lacks too."""
    found = [
        *_of("torch", FUNCTIONS), *_of("Tensor", METHODS), *_inplace(), *_of("nn.functional", F),
        *_of("linalg", LINALG), *_of("special", SPECIAL),
        *_of("masked", MASKED),
    ]  # fmt: skip
    found += [
        Sample("nn", name, text, made) for made, text, names in MODULES for name in names.split()
    ]
    return list(dict.fromkeys(found))


def owner_of(module: Any, place: str) -> Any:
    """What holds the functions of a place."""
    for part in [] if place == "torch" else place.split("."):
        module = getattr(module, part, None)
    return module


def has(module: Any, sample: Sample) -> bool:
    """Whether the library has the function."""
    return hasattr(owner_of(module, sample.place), sample.name)


def perform(
    module: Any, sample: Sample, dtype: str, gradients: bool = False,
    more: dict[str, Any] | None = None,
) -> tuple[Any, Operands]:  # fmt: skip
    """The result of the call and the operands by name; those of in-place functions are copies.

    Args:
        more: other names that the call may use.
    """
    change = module.clone if sample.name.endswith("_") else None
    names = Operands(module, dtype, gradients, change)
    names.update(more or {})
    function = getattr(owner_of(module, sample.place), sample.name)
    if sample.place == "nn":
        function = call(function, sample.made, names)
        if dtype in FLOATS:
            function = function.to(getattr(module, dtype))
    result = call(function, sample.text, names)
    if isinstance(result, module.Tensor) and result.layout is not module.strided:
        result = result.to_dense()
    return result, names


def tensors_in(module: Any, result: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(result, module.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in tensors_in(module, item)]
    return []


def same_outcome(recorded: str, got: str) -> bool:
    """Whether ``got`` is what PyTorch did: an error that the same ``except`` clause catches."""
    if recorded.startswith("!") and got.startswith("!"):
        return set(recorded[1:].split()) <= set(got[1:].split())
    if got == "?":  # NotImplementedError is a RuntimeError
        return recorded in ("?", "!RuntimeError")
    return recorded == got


def describe(module: Any, result: Any, dtype: str) -> str:
    """Shapes and dtypes of a result in words; ``t`` is the sample's dtype."""
    if isinstance(result, module.Tensor):
        kind = str(result.dtype).split(".")[-1]
        return f"{'t' if kind == dtype else kind}{list(result.shape)}"
    if isinstance(result, (tuple, list)) and tensors_in(module, result):
        return f"({', '.join(describe(module, item, dtype) for item in result)})"
    if isinstance(result, (bool, int, type(None))):
        return repr(result)
    if isinstance(result, float):
        return f"{result:.4g}"
    return type(result).__name__


def outcome(module: Any, sample: Sample, dtype: str) -> str:
    """What the call gives in ``dtype``: the result's description, or ``!`` and what catches it.

    ``?`` means that the library has no kernel for the dtype.
    """
    try:
        result, _ = perform(module, sample, dtype)
    except NotImplementedError:
        return "?"
    except Exception as error:
        if "not implemented for" in str(error) or "not supported for" in str(error):
            return "?"
        names = {base.__name__ for base in type(error).__mro__}
        return "!" + " ".join(base for base in BASES if base in names)
    return describe(module, result, dtype)


BASES = ("TypeError", "IndexError", "ValueError", "AttributeError", "AssertionError",
         "RuntimeError")  # fmt: skip


def layouts(tensors: list[Any]) -> str:
    """Strides and offsets; a stride that nothing is reached by is shown as a star."""
    texts = []
    for tensor in tensors:
        shape = list(tensor.shape)
        empty = 0 in shape
        strides = ["*" if n == 1 or empty else str(s) for n, s in zip(shape, tensor.stride())]
        texts.append(f"({', '.join(strides)})+{tensor.storage_offset()}")
    return " ".join(texts)


def weighted(module: Any, results: list[Any]) -> Any:
    """A number whose gradient depends on every element of the results, or None."""
    total = None
    for tensor in results:
        if tensor.is_floating_point() and tensor.requires_grad:
            count = tensor.numel()
            weights = (module.arange(count, dtype=tensor.dtype) % 7 - 2.5).reshape(tensor.shape)
            part = (tensor * weights).sum()
            total = part if total is None else total + part
    return total


def gradients(module: Any, sample: Sample) -> list[Any] | None:
    """Gradients in float64 of all operands, zeros where there is none; None without a result."""
    result, names = perform(module, sample, "float64", gradients=True)
    loss = weighted(module, compared(sample, tensors_in(module, result)))
    if loss is None:
        return None
    inputs = [names.leaves[name] for name in DATA if name in names.leaves]
    found = module.autograd.grad(loss, inputs, allow_unused=True)
    return [module.zeros_like(x) if g is None else g for g, x in zip(found, inputs)]


#: Functions whose vectors have any sign: their sizes alone are compared.
ANY_SIGN = frozenset({"svd"})


def compared(sample: Sample, tensors: list[Any]) -> list[Any]:
    """What of results has to be equal."""
    return [tensor.abs() for tensor in tensors] if sample.name in ANY_SIGN else tensors


def _parts(value: complex) -> tuple[float, ...]:
    return (value.real, value.imag) if isinstance(value, complex) else (value,)


def numbers(tensors: list[Any]) -> list[float]:
    """The first values of each of some tensors as Python numbers; complex ones give both parts."""
    found = [tensor.detach().reshape(-1)[:MOST_NUMBERS].tolist() for tensor in tensors]
    found = [[part for value in values for part in _parts(value)] for values in found]
    return [float(value) for values in found for value in values][:MOST_TOGETHER]
