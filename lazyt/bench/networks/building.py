"""Networks as problems: what the modules of ``levels`` declare, made under PyTorch or lazyt.

The declarations are read from the source text, so that a list of them needs neither framework.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.util
import math
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from lazyt.bench.problems import Array, Dims, Network, Problem, extent, no_function

FOLDER = Path(__file__).parents[1] / "levels"
LEVELS = (1, 2, 3)
#: The sizes of a declaration, in its order; a size of the first kind is what ``--quick`` runs.
SIZES = ("quick", "cpu", "full")
#: Parameters are normal numbers of this size over the root of how many values are added up, as
#: rectified sums then neither grow nor vanish; those of one axis are of the second size.
_GAIN, _SHIFT = 1.4, 0.2


def network_of(problem: Problem) -> Network:
    """The network that a problem is. Raises ValueError for one that is a function."""
    if problem.network is None:
        raise ValueError(f"{problem.name} is no network")
    return problem.network


def dims_of(problem: Problem, size: str) -> Dims:
    """What letters stand for at ``quick``, ``cpu`` or ``full``."""
    return problem.quick_dims if size == "quick" and problem.quick_dims else problem.sizes[size]


def build(problem: Problem, torch: Any, dims: Dims, seed: int = 0) -> Any:
    """The network under a module with PyTorch's API; its parameters depend on the seed and on
    their names and shapes alone, so that they are the same in every framework."""
    network = network_of(problem)
    arguments = [extent(word, dims) if isinstance(word, str) else word for word in network.init]
    made = getattr(load(network.module, torch), network.class_name)(*arguments)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(torch.from_numpy(_drawn(name, tuple(parameter.shape), seed)))
    return made


def _drawn(name: str, shape: tuple[int, ...], seed: int) -> Array:
    source = np.random.default_rng([seed, zlib.crc32(name.encode())])
    values = source.standard_normal(shape, np.float32)
    if len(shape) > 1:
        return values * np.float32(_GAIN * math.prod(shape[1:]) ** -0.5)
    is_factor = name.rpartition(".")[2] == "weight"
    return np.asarray(values * np.float32(_SHIFT) + np.float32(is_factor), np.float32)


def _names(text: ast.expr) -> bool:
    return isinstance(text, ast.Name) and text.id == "problem"


def declarations(tree: ast.Module) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Class, arguments and named arguments of each declaration of a module."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and _names(call.func):
                named = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
                yield node.name, [ast.literal_eval(a) for a in call.args], named


def source(module: str) -> str:
    """The text of a module of ``levels``."""
    return (FOLDER / f"{module}.py").read_text(encoding="utf-8")


def declared() -> list[Problem]:
    """All problems, by level and number."""
    found: list[tuple[tuple[int, int], Problem]] = []
    for path in FOLDER.glob("*.py"):
        for class_name, given, named in declarations(ast.parse(source(path.stem))):
            level, number, *_ = given
            found.append(((level, number), _problem(path.stem, class_name, *given, **named)))
    return [problem for _, problem in sorted(found, key=lambda pair: pair[0])]


def _problem(
    module: str,
    class_name: str,
    level: int,
    number: int,
    title: str,
    inputs: str,
    init: tuple[Any, ...] = (),
    tolerance: float = 1e-4,
    **sizes: Any,
) -> Problem:
    dims: dict[str, dict[str, int]] = {size: {} for size in SIZES}
    for letter, extents in sizes.items():
        each = extents if isinstance(extents, tuple) else (extents,) * len(SIZES)
        for size, value in zip(SIZES, each, strict=True):
            dims[size][letter] = value
    quick = dims.pop("quick")
    words = tuple(text.strip() for text in inputs.split(","))
    network = Network(level, number, title, module, class_name, init)
    return Problem(
        f"level{level}/{number}_{title}", f"level{level}", dims, words, no_function, tolerance,
        quick_dims=quick, network=network,
    )  # fmt: skip


# Values of float64 to check others by.


class Reference:
    """A network in float64: PyTorch's where it is installed, else lazyt's, one operation at a time.

    Attributes:
        flops: operations of products and convolutions in the last call; 0 where nobody counts.
    """

    def __init__(self, problem: Problem, dims: Dims) -> None:
        self.torch = _reference_torch()
        self.model = build(problem, self.torch, dims).double()
        self.flops = 0.0

    def parameter_bytes(self) -> int:
        """Of float32."""
        return sum(4 * math.prod(p.shape) for p in self.model.parameters())

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """The results for some arrays, those of numbers being in float64."""
        tensors = [self.torch.from_numpy(array) for array in arrays]
        with self.torch.no_grad(), self._counted():
            result = self.model(*tensors)
        found = result if isinstance(result, tuple) else (result,)
        return tuple(np.asarray(tensor.numpy()) for tensor in found)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        if self.torch.__name__ != "torch":
            yield
            return
        counters = importlib.import_module("torch.utils.flop_counter")
        with counters.FlopCounterMode(display=False) as counter:
            yield
        self.flops = float(counter.get_total_flops())


def _reference_torch() -> Any:
    with contextlib.suppress(ImportError):
        found = importlib.import_module("torch")
        if "_lazyt" not in vars(found):  # under `lazyt run` it is lazyt
            return found
    lazyt = importlib.import_module("lazyt")
    lazyt.config.eager = True  # fused kernels are what is checked
    return lazyt


# Running the programs.


@contextlib.contextmanager
def _imported_as_torch(torch: Any) -> Iterator[None]:
    """Within, ``import torch`` gives the module, which is PyTorch or lazyt."""
    if torch.__name__ != "lazyt":
        yield
        return
    from lazyt.compat import torch_alias

    with torch_alias.standing_in():
        yield


@functools.cache
def load(module: str, torch: Any) -> ModuleType:
    """A module of ``levels`` that was run with PyTorch or lazyt as ``torch``. Its name is outside
    of lazyt, for which it is a user's program."""
    name = f"levels_{torch.__name__}.{module}"
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{module}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no module {module} in {FOLDER}")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    with _imported_as_torch(torch):
        spec.loader.exec_module(made)
    return made
