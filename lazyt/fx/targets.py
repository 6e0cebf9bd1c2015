"""What graphs know of the functions that they call: where each is found, and what it does."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from lazyt.compat.absent import known_as
from lazyt.handle.tensor import Tensor

__all__ = ["is_random", "is_tensor_method", "place_of"]

#: Modules in which functions are looked for, those whose names are shortest first.
_HOMES = ("lazyt", "lazyt.nn.functional", "lazyt.linalg", "lazyt.special", "lazyt.fft")
#: Packages whose modules a program knows by their names here.
_PUBLIC = [
    [name] for name in ("nn", "linalg", "special", "fft", "optim", "utils", "distributions", "fx")
]
#: Where the functions that draw random numbers are written.
_RANDOM = ("lazyt.functional.random.", "lazyt.functional.nn.dropouts")


def is_tensor_method(function: Any) -> bool:
    """Whether a function is a method of tensors, such as ``lazyt.Tensor.add``."""
    name = getattr(function, "__name__", None)
    return name is not None and getattr(function, "__qualname__", "") == f"Tensor.{name}"


def place_of(value: Any) -> tuple[str, str] | None:
    """The public module and name of one of lazyt's functions or classes; None for others."""
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", "")
    if not isinstance(module, str) or module.partition(".")[0] not in ("lazyt", known_as("lazyt")):
        return None
    if is_tensor_method(value) and getattr(Tensor, name, None) is value:
        return "lazyt.Tensor", name
    own = (module,) if module.split(".")[1:2] in _PUBLIC else ()
    homes = [(home, vars(sys.modules[home])) for home in (*own, *_HOMES) if home in sys.modules]
    for home, names in homes:
        if names.get(name) is value:
            return home, name
    for home, names in homes:  # a second name of a function, such as arcsin of asin
        for other, found in list(names.items()):
            if found is value and not other.startswith("_"):
                return home, other
    return None


def name_of(function: Any) -> str:
    """What a function is called: one of lazyt's by its public name."""
    place = None if is_tensor_method(function) else place_of(function)
    return str(function.__name__ if place is None else place[1])


def _written(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def is_random(function: Any) -> bool:
    """Whether a function draws random numbers."""
    module = getattr(_written(function), "__module__", None) or ""
    return module.startswith(_RANDOM)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Functions of ``nn.functional`` that PyTorch writes in C++: calls are recorded as they are given.
_NATIVE = _names("""
    adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d
    conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity
    elu_ gelu hardshrink hardtanh_ leaky_relu_ linear logsigmoid native_channel_shuffle one_hot
    pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_
    scaled_dot_product_attention selu_ sigmoid softplus softshrink tanh threshold_
""")
#: Those of the torch namespace that it writes in Python.
_WRITTEN_IN_PYTHON = _names("cdist norm pca_lowrank split stft svd_lowrank tensordot")


def as_recorded(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with which a call of one of lazyt's functions is recorded.

    Functions that PyTorch writes in Python hand their parameters on: those that have defaults by
    keywords, whether they were given or not. Passes rely on finding them there.
    """
    name, module = function.__name__, function.__module__
    is_written = (module == "lazyt.nn.functional" and name not in _NATIVE) or (
        module == "lazyt" and name in _WRITTEN_IN_PYTHON
    )
    if not is_written:
        return args, kwargs
    signature = inspect.signature(function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    given: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        value = bound.arguments[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            given.extend(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            given.append(value)
        else:
            named[parameter.name] = value
    return tuple(given), named
