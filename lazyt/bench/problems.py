"""What a problem is: a function, the arrays it takes, and the sizes at which it is timed.

Arrays are described by words: ``"n d"`` is a float32 array [n, d] of normal numbers, where the
sizes of a problem say what n and d are. Words in front change what it holds (see ``KINDS``) and
its dtype (``"int8 n d"``); ``"labels:v n"`` is n integers below v, and ``"b*s d"`` multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: Suites of networks; ``levels`` is all three, and ``-full`` behind a name their sizes for a GPU.
LEVELS = ("level1", "level2", "level3")
#: A computation: the functions of a framework under PyTorch's names, then the tensors.
Function = Callable[..., Any]
#: What each letter of an array's shape stands for.
Dims = Mapping[str, int]

#: ``weight`` is scaled for sums over all but the first axis; rows of ``probs`` add up to 1.
#: ``factors`` are about 1, ``signs`` are 1 and -1, a ``mask`` is of bools; matrices may be
#: ``symmetric`` or triangular.
KINDS = (
    "normal", "weight", "positive", "probs", "ones", "zeros", "labels", "factors", "signs", "mask",
    "symmetric", "lower", "upper",
)  # fmt: skip
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32")
#: The dtype of what holds no numbers of a dtype that is named.
_FIXED = {"labels": "int64", "mask": "bool"}

#: Sizes of problems on rows: in the L2 cache, past it, past 100 MB, and odd ones.
ROWS: Mapping[str, Dims] = {
    "small": {"n": 256, "d": 256},
    "middle": {"n": 2048, "d": 1024},
    "large": {"n": 8192, "d": 4096},
    "prime": {"n": 1021, "d": 1031},
    "tall": {"n": 100003, "d": 17},
}


@dataclass(frozen=True)
class Training:
    """What makes a problem a step of training.

    Attributes:
        optimizer: a name of ``RULES``.
        data: how many of the arrays are no weights; they come first.
        losses: the float64 losses of the first steps, where they were worked out by hand.
        gradients: whether the data are the weights' gradients, so that the optimizer is all there
            is to the step; the result is the first weight then, not the loss.
    """

    optimizer: str
    data: int
    losses: Callable[[list[Array]], list[Array]] | None = None
    gradients: bool = False


def no_function(names: Any, *tensors: Any) -> Any:
    """In the place of a problem's function where there are only those of single frameworks."""
    raise AssertionError("this problem has functions of frameworks")


@dataclass(frozen=True)
class Network:
    """What a problem is that is a network with parameters: a class of a module of ``levels``.

    Attributes:
        level: 1 to 3.
        number: KernelBench's number for the title.
        title: the problem's name without level and number.
        module: the module of ``levels``.
        class_name: the class in it.
        init: what the class is made with; texts such as ``"2*n"`` are sizes.
    """

    level: int
    number: int
    title: str
    module: str
    class_name: str
    init: tuple[Any, ...]


@dataclass(frozen=True)
class Problem:
    """Something to be timed, at some sizes.

    Attributes:
        name: unique; ``name@size`` is a workload.
        suite: one of ``suites.NAMES``.
        sizes: what the letters of its arrays stand for; the size ``""`` is the problem's own.
        arrays: descriptions of the inputs.
        function: computes a tensor, or a tuple of them.
        tolerance: largest error allowed, relative to the largest value of a result.
        training: for steps that change their weights; ``function`` is the loss then.
        functions: those of single frameworks, of tensors alone; ``function`` is for the others.
        inputs: makes the arrays where no words describe them.
        reference: the right result by NumPy, where ``function`` cannot give it.
        nbytes, flops: what has to be moved and computed, where it is not counted.
        where: the file and line of a declaration by a user.
        quick_dims: what letters stand for in tests; else the sizes, shrunk.
        network: of a problem that is one; no framework's ``function`` computes it then.
    """

    name: str
    suite: str
    sizes: Mapping[str, Dims]
    arrays: tuple[str, ...]
    function: Function
    tolerance: float = 2e-5
    training: Training | None = None
    quick_dims: Dims | None = None
    network: Network | None = None
    functions: Mapping[str, Function] = field(default_factory=dict)
    inputs: Callable[..., Sequence[Array]] | None = None
    reference: Function | None = None
    nbytes: Callable[..., float] | None = None
    flops: Callable[..., float] | None = None
    where: str = ""

    def function_for(self, framework: str) -> Function | None:
        """A function of a framework's names and its tensors; None where it has none."""
        own = self.functions.get(framework)
        if own is not None:
            return lambda names, *tensors: own(*tensors)
        return None if self.function is no_function else self.function

    def only_for(self) -> str:
        """The frameworks that have a function."""
        if self.network is not None:
            return "frameworks with modules of torch.nn"
        return ", ".join(self.functions)


@dataclass(frozen=True)
class Workload:
    """A problem at one size."""

    problem: Problem
    size: str

    @property
    def name(self) -> str:
        """As on the command line and in reports."""
        return f"{self.problem.name}@{self.size}" if self.size else self.problem.name

    @property
    def suite(self) -> str:
        """The suite; the further sizes of the suite ``peers`` are the suite ``sizes``, and those
        of levels for a GPU are suites of their own."""
        further = self.problem.suite == "peers" and self.size
        if self.problem.suite in LEVELS and self.size == "full":
            return f"{self.problem.suite}-full"
        return "sizes" if further else self.problem.suite

    def dims(self, quick: bool = False) -> dict[str, int]:
        """The sizes, all of them small where it should be quick."""
        full = self.problem.sizes[self.size]
        if quick and self.problem.quick_dims is not None:
            return dict(self.problem.quick_dims)
        return {name: _shrunk(extent) if quick else extent for name, extent in full.items()}

    def inputs(self, seed: int = 0, quick: bool = False) -> list[Array]:
        """The arrays, the same ones for the same seed in every process.

        bfloat16, which NumPy lacks, is given as float32 whose values bfloat16 can hold.
        """
        source = np.random.default_rng(seed)
        dims = self.dims(quick)
        if self.problem.inputs is not None:
            found = self.problem.inputs(source, **dims)
            if not isinstance(found, (list, tuple)) or not found:
                raise ValueError(f"inputs return {type(found).__name__}, not a list of arrays")
            for array in found:
                if not isinstance(array, np.ndarray):
                    raise ValueError(f"inputs return a {type(array).__name__} among the arrays")
            return list(found)
        return [make(text, dims, source) for text in self.problem.arrays]

    def dtypes(self) -> list[str]:
        """The dtype of each array."""
        if self.problem.inputs is not None:
            return [array.dtype.name for array in self.inputs(quick=True)]
        return [described(text)[1] for text in self.problem.arrays]


def _shrunk(extent: int) -> int:
    return extent if extent <= 64 else 64 + extent % 2 * 3


def described(text: str) -> tuple[str, str, list[str], str]:
    """Kind, dtype, extents and the limit of labels of a description."""
    kind, dtype, limit, extents = "normal", "float32", "", []
    for word in text.split():
        head, _, tail = word.partition(":")
        if head in KINDS:
            kind, limit = head, tail
        elif word in DTYPES:
            dtype = word
        else:
            extents.append(word)
    return kind, _FIXED.get(kind, dtype), extents, limit


def extent(word: str, dims: Dims) -> int:
    """What a word of sizes such as ``2*n`` stands for."""
    product = 1
    for factor in word.split("*"):
        product *= int(factor) if factor.isdigit() else dims[factor]
    return product


_CHANGES: dict[str, Callable[[Array], Array]] = {
    "factors": lambda values: np.exp(values * 0.05),
    "signs": lambda values: np.where(values < 0, -1, 1).astype(values.dtype),
    "symmetric": lambda values: (values + values.T) / 2,
    "lower": np.tril,
    "upper": np.triu,
}


def make(text: str, dims: Dims, source: np.random.Generator) -> Array:
    """An array of random numbers as its description says."""
    kind, dtype, extents, limit = described(text)
    shape = tuple(extent(word, dims) for word in extents)
    if kind == "labels":
        return source.integers(0, extent(limit, dims), shape)
    if dtype in ("int8", "uint8", "int32"):
        low = 0 if dtype == "uint8" else -100
        return source.integers(low, 101, shape).astype(dtype)
    if kind == "mask":
        return source.random(shape) < 0.5
    if kind in ("ones", "zeros"):
        return np.full(shape, float(kind == "ones"), dtype)
    wide = np.float64 if dtype == "float64" else np.float32
    if kind == "positive":
        values = source.random(shape, wide) + wide(0.1)
    else:
        values = source.standard_normal(shape, wide)
    if kind == "weight":
        values *= wide(math.prod(shape[1:]) ** -0.5)
    elif kind == "probs":
        values = np.exp(values)
        values /= values.sum(-1, keepdims=True)
    elif kind in _CHANGES:
        values = _CHANGES[kind](values)
    if dtype == "bfloat16":
        return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return values.astype(dtype, copy=False)


#: The suite of what users' files declare.
LOADED = "loaded"
#: Every problem by its name; the suites fill it.
PROBLEMS: dict[str, Problem] = {}


def problem(
    suite: str,
    name: str,
    sizes: Mapping[str, Dims],
    arrays: str,
    function: Function,
    tolerance: float = 2e-5,
    training: Training | None = None,
) -> None:
    """Adds a problem; the descriptions of its arrays are separated by commas."""
    if name in PROBLEMS:
        raise ValueError(f"there are two problems called {name}")
    words = tuple(text.strip() for text in arrays.split(","))
    PROBLEMS[name] = Problem(name, suite, sizes, words, function, tolerance, training)


def workloads() -> dict[str, Workload]:
    """All workloads of all suites, by name."""
    from lazyt.bench import suites

    suites.load()
    found = [Workload(p, size) for p in PROBLEMS.values() for size in p.sizes]
    return {workload.name: workload for workload in found}


def declared() -> bool:
    """Whether a file that was loaded declares any workload."""
    return any(problem.suite == LOADED for problem in PROBLEMS.values())


def fits(problem: Problem, pattern: str, by_title: bool) -> bool:
    """Whether a pattern is meant for a problem: for its name, or, ``by_title``, for a network's
    title, with or without its number."""
    names = [problem.name]
    if by_title and problem.network is not None:
        names += [f"{problem.network.number}_{problem.network.title}", problem.network.title]
    return any(fnmatchcase(name, pattern) for name in names)


def _suites(suite: str) -> set[str]:
    """The suites that a name stands for."""
    from lazyt.bench import suites

    level, _, full = suite.partition("-")
    if level == "levels":
        return {f"{name}-{full}" if full else name for name in LEVELS}
    if suite == "all":
        return {name for name in suites.NAMES if name != "gpu" and not name.startswith(LEVELS)}
    return {suite}


def select(patterns: list[str], suite: str) -> list[Workload]:
    """The workloads that any pattern fits (``*`` and ``?`` as in file names; a problem's name
    alone means all its sizes), or all of a suite where there are no patterns. The suite ``all``
    is every one for the CPU but the levels, which need a framework with modules of networks.
    With a suite of levels, patterns are looked for in it, else everywhere but among sizes for a
    GPU of levels.

    Raises ValueError for a pattern that fits nothing.
    """
    everything = list(workloads().values())
    wanted = _suites(suite)
    if not patterns:
        return [w for w in everything if w.suite in wanted]
    is_level = suite.startswith("level")
    if is_level:
        everything = [w for w in everything if w.suite in wanted]
    chosen: dict[str, Workload] = {}
    for pattern in patterns:
        own = [w for w in everything if fnmatchcase(w.name, pattern)]
        fitting = own or [w for w in everything if fits(w.problem, pattern, is_level)]
        if not (suite.endswith("-full") or pattern.endswith("@full")):
            fitting = [w for w in fitting if not w.suite.endswith("-full")]
        if not fitting:
            raise ValueError(f"no workload is called {pattern}")
        chosen.update((w.name, w) for w in fitting)
    return list(chosen.values())


# Optimizers as formulas, for frameworks without ``torch.optim`` and for the float64 reference.


#: Given the functions, a weight, its gradient, its state and the step's number (from 1): the new
#: weight and state.
Formula = Callable[[Any, Any, Any, list[Any], Any], tuple[Any, list[Any]]]


@dataclass(frozen=True)
class Rule:
    """An optimizer.

    Attributes:
        name: its class in ``torch.optim``.
        options: what the class is given.
        state: how many arrays it keeps for each weight; zero at first.
        formula: what it does.
    """

    name: str
    options: dict[str, Any]
    state: int
    formula: Formula


def _sgd(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    return w - 0.1 * g, []


def _momentum(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    speed = 0.9 * state[0] + g
    return w - 0.01 * speed, [speed]


def _adam(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    mean = 0.9 * state[0] + 0.1 * g
    square = 0.999 * state[1] + 0.001 * g * g
    size = t.sqrt(square / (1 - 0.999**step)) + 1e-8
    return w - 1e-3 * (mean / (1 - 0.9**step)) / size, [mean, square]


def _adamw(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    return _adam(t, w * (1 - 1e-3 * 0.01), g, state, step)


def _rmsprop(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    square = 0.99 * state[0] + 0.01 * g * g
    return w - 1e-3 * g / (t.sqrt(square) + 1e-8), [square]


def _adagrad(t: Any, w: Any, g: Any, state: list[Any], step: Any) -> tuple[Any, list[Any]]:
    total = state[0] + g * g
    return w - 1e-2 * g / (t.sqrt(total) + 1e-10), [total]


RULES: dict[str, Rule] = {
    "sgd": Rule("SGD", {"lr": 0.1}, 0, _sgd),
    "momentum": Rule("SGD", {"lr": 0.01, "momentum": 0.9}, 1, _momentum),
    "adam": Rule("Adam", {"lr": 1e-3}, 2, _adam),
    "adamw": Rule("AdamW", {"lr": 1e-3, "weight_decay": 0.01}, 2, _adamw),
    "rmsprop": Rule("RMSprop", {"lr": 1e-3}, 1, _rmsprop),
    "adagrad": Rule("Adagrad", {"lr": 1e-2}, 1, _adagrad),
}
