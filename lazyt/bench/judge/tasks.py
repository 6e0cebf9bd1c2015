"""What a submission is judged against: inputs over a seed, a reference in float64, and the work.

Inputs are described by the words of ``lazyt.bench.problems``: ``"rows columns"`` is a float32 array
of two axes, and kinds (``positive``, ``labels:classes`` ...) and dtypes stand in front. Every
workload of the bench is a task, and a file that ``--load`` names makes others with ``task``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lazyt.bench.names import reference_names
from lazyt.bench.problems import Array, Dims, Function, Workload, described, make, workloads

#: How values are spread in a set of inputs; the first one is by far the most frequent.
SPREADS = ("usual", "large", "small", "uneven", "constant", "sparse", "sorted", "special")
#: Up to this many results, how much they change is estimated from more draws.
_FEW = 1 << 17
DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")


@dataclass(frozen=True)
class Task:
    """A problem that kernels are judged against.

    Attributes:
        name: as on the command line.
        inputs: descriptions by the names of the kernel's parameters.
        sizes: what the letters of the inputs stand for; at the first ones a kernel is timed, at all
            of them it is checked.
        reference: computes the results from functions under PyTorch's names and the arrays, and the
            numbers after them; a tuple for several.
        outputs: the names of the results.
        numbers: parameters that are numbers, with the least and the largest value.
        nan: ``"propagate"`` plants NaN and infinities, which must come out where the reference has
            them; ``"any"`` plants none.
        spreads: how values may be spread; a task whose inputs have a meaning leaves some out.
        flops: operations of a call at some sizes; by default those of products are counted.
        allowance: how much larger than usual errors may be.
        in_place: whether the kernel may write to its inputs.
    """

    name: str
    inputs: Mapping[str, str]
    sizes: Sequence[Dims]
    reference: Function
    outputs: Sequence[str] = ("out",)
    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    nan: str = "propagate"
    spreads: Sequence[str] = SPREADS
    flops: Callable[[Dims], float] | None = None
    allowance: float = 1.0
    in_place: bool = False

    def dims(self) -> list[str]:
        """The letters of the sizes, which are whole numbers among a kernel's parameters."""
        return list(self.sizes[0])


@dataclass
class Case:
    """One set of inputs with what has to come out.

    Attributes:
        inputs: the arrays, in the order of the task's.
        numbers: the values of its numbers.
        exact: the results in float64 (or whole numbers).
        rounded: the reference's own results in the declared dtype.
        noise: how much the results in float64 change if inputs are off by the unit of rounding, at
            random. The errors of ``rounded`` and this say how large errors have to be.
        spread: one of ``SPREADS``.
        flops: operations of products.
    """

    inputs: list[Array]
    numbers: list[float]
    exact: list[Array]
    rounded: list[Array]
    noise: list[Array]
    spread: str
    flops: float = 0.0


#: Tasks that files registered, by name.
TASKS: dict[str, Task] = {}


def task(name: str, **parts: Any) -> Task:
    """Adds a task, see ``Task`` for its parts. Raises ValueError for a name that is taken, and for
    parts that are wrong.

    Example::

        task("scaled", inputs={"x": "n"}, sizes=[{"n": 1000}], numbers={"by": (0.5, 2.0)},
             reference=lambda t, x, by: x * by)
    """
    if name in TASKS:
        raise ValueError(f"there are two tasks called {name}")
    made = Task(name, **parts)
    check(made)
    TASKS[name] = made
    return made


def check(made: Task) -> None:
    """Raises ValueError for a task that nothing can be judged against."""
    if not made.sizes or not made.inputs:
        raise ValueError(f"the task {made.name} needs sizes and inputs")
    if any(set(dims) != set(made.sizes[0]) for dims in made.sizes):
        raise ValueError(f"the sizes of the task {made.name} have different letters")
    if wrong := set(made.spreads) - set(SPREADS):
        raise ValueError(f"unknown spread {min(wrong)}; there are {', '.join(SPREADS)}")
    if made.nan not in ("propagate", "any"):
        raise ValueError(f"nan is 'propagate' or 'any', not {made.nan!r}")
    for text in made.inputs.values():
        dtype = described(text)[1]
        if dtype not in DTYPES:
            raise ValueError(f"the task {made.name}: {dtype} is not judged, as NumPy lacks it")


def of_workload(workload: Workload, quick: bool = False) -> Task:
    """The task that a workload of the bench is. Raises ValueError for steps of training, networks,
    and dtypes that NumPy lacks."""
    problem = workload.problem
    if problem.training is not None:
        raise ValueError(f"{workload.name} is a step of training; kernels are judged, not steps")
    if problem.network is not None:
        raise ValueError(f"{workload.name} is a network with parameters; kernels are judged")
    names = [f"x{n}" for n in range(len(problem.arrays))]
    dims = workload.dims(quick)
    made = Task(
        workload.name,
        dict(zip(names, problem.arrays)),
        [dims, *_others(dims)],
        problem.function,
        nan="any",  # whether a problem of the bench says what NaN does is not written anywhere
        spreads=tuple(spread for spread in SPREADS if spread != "special"),
    )
    check(made)
    return made


def _others(dims: Dims) -> list[dict[str, int]]:
    """Smaller sizes, odd ones among them, in the same proportions: extents up to 16 may be part of
    a problem's meaning."""
    found = []
    for part in (3, 7):
        other = {n: e if e <= 16 else max(16, min(e, 96 * 2 // part) | 1) for n, e in dims.items()}
        if other != dict(dims) and other not in found:
            found.append(other)
    return found


def find(name: str, quick: bool = False) -> Task:
    """A task by its name: one that a file registered, else a workload of the bench.

    Raises ValueError where there is none.
    """
    if name in TASKS:
        return TASKS[name]
    all_of_them = workloads()
    found = all_of_them.get(name)
    found = found or next((w for w in all_of_them.values() if w.problem.name == name), None)
    if found is None:
        own = f" ({', '.join(sorted(TASKS))})" if TASKS else ""
        known = "`lazyt bench --list --suite all` has some"
        raise ValueError(f"no task is called {name}{own}; {known}")
    return of_workload(found, quick)


def draw_numbers(made: Task, source: np.random.Generator) -> list[float]:
    """Values of a task's numbers, which all calls that are made in a row share."""
    return [float(np.float32(source.uniform(*ends))) for ends in made.numbers.values()]


def draw(
    made: Task, dims: Dims, spread: str, source: np.random.Generator, numbers: list[float]
) -> Case:
    """A set of inputs and its results. ``dims`` are some of the task's sizes."""
    inputs = [_drawn(text, dims, spread, source) for text in made.inputs.values()]
    names = reference_names()
    with np.errstate(all="ignore"):
        exact = computed(made, names, [widened(a) for a in inputs], numbers)
        noise = noise_of(
            inputs, exact, source, lambda off: computed(made, reference_names(), off, numbers)
        )
        narrow = [a.astype(np.float32) if a.dtype == np.float16 else a for a in inputs]
        rounded = computed(made, reference_names(), narrow, numbers)
        kinds = output_dtypes(made, exact)
        rounded = [a.astype(kind) for a, kind in zip(rounded, kinds)]
    flops = made.flops(dims) if made.flops is not None else names.flops
    return Case(inputs, numbers, exact, rounded, noise, spread, flops)


def computed(
    made: Task, names: Any, arrays: Sequence[Array], numbers: Sequence[float]
) -> list[Array]:
    """The reference's results."""
    result = made.reference(names, *arrays, *numbers)
    parts = list(result) if isinstance(result, tuple) else [result]
    if len(parts) != len(made.outputs):
        count = len(made.outputs)
        raise ValueError(f"the reference of {made.name} has {len(parts)} results, not {count}")
    return [np.ascontiguousarray(part) for part in parts]


def output_dtypes(made: Task, exact: Sequence[Array]) -> list[np.dtype[Any]]:
    """What a kernel writes: floats as the first input of floats has, whole numbers of 64 bits, and
    bytes for truth values."""
    floats = [dtype for t in made.inputs.values() if (dtype := described(t)[1])[0] == "f"]
    kinds = {"f": floats[0] if floats else "float32", "b": "uint8"}
    return [np.dtype(kinds.get(part.dtype.kind, "int64")) for part in exact]


def noise_of(
    inputs: Sequence[Array], exact: Sequence[Array], source: np.random.Generator,
    compute: Callable[[list[Array]], list[Array]],
) -> list[Array]:  # fmt: skip
    """How much results change if inputs are off by the unit of rounding: root mean squares of
    several draws, as in one the changes may cancel by chance, in a whole row where its results
    share a sum."""
    draws = 8 if sum(part.size for part in exact) <= _FEW else 3
    squares = [np.zeros(part.shape) for part in exact]
    for _ in range(draws):
        off = [widened(a) * rounding(a, source) for a in inputs]
        for square, part, right in zip(squares, compute(off), exact):
            square += np.square(part.astype(np.float64) - right)
    return [np.asarray(np.sqrt(square / draws)) for square in squares]


def rounding(array: Array, source: np.random.Generator) -> Array | int:
    """Factors that differ from 1 by the unit of rounding of an array of floats; 1 for others."""
    if array.dtype.kind != "f":
        return 1
    unit = float(np.finfo(array.dtype).eps) / 2
    return np.asarray(1 + unit * source.choice((-1.0, 1.0), array.shape))


def widened(array: Array) -> Array:
    """Floats in float64, whole numbers with 64 bits."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array.astype(np.int64)


def _drawn(text: str, dims: Dims, spread: str, source: np.random.Generator) -> Array:
    """An array; kinds with a meaning (labels, probabilities, weights) keep it."""
    kind, dtype, _, _ = described(text)
    array = make(text, dims, source)
    if spread == "usual" or not array.size:
        return array
    if dtype[0] != "f":
        if spread == "constant":
            array[...] = array.reshape(-1)[0]
        elif spread == "sorted":
            array = np.sort(array.reshape(-1)).reshape(array.shape)
        return array
    if kind in ("weight", "probs", "ones", "zeros"):
        return array
    changed = spread_out(array.astype(np.float64), kind == "positive", spread, source)
    return np.asarray(changed, array.dtype)


def spread_out(x: Array, positive: bool, spread: str, source: np.random.Generator) -> Array:
    """Random numbers of float64 spread in another way; positive ones stay so."""
    if spread in ("large", "small"):
        return np.asarray(x * (30.0 if spread == "large" else 1e-3))
    if spread == "uneven":
        return np.asarray(x * np.exp2(source.integers(-10, 5, x.shape)))
    if spread == "constant":
        return np.full(x.shape, float(source.uniform(0.25, 2.0)))
    if spread == "sorted":
        return np.asarray(np.sort(x, axis=-1))
    if positive:
        return x  # zeros and NaN are not positive
    if spread == "sparse":
        return np.where(source.random(x.shape) < 2 / x.shape[-1], x * 4, 0.0)
    flat = x.reshape(-1).copy()
    count = max(1, flat.size // 400)
    for value in (np.nan, np.inf, -np.inf):
        flat[source.integers(0, flat.size, count)] = value
    return np.asarray(flat.reshape(x.shape))
