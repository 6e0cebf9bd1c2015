"""What is timed: inputs, the computation in the words of any framework, and its exact value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gpt import gpt_inputs, gpt_reference

Array = np.ndarray[Any, Any]
#: The mathematical functions of a framework, by name; see ``frameworks.py``.
Operators = Any


@dataclass(frozen=True)
class Workload:
    """One computation.

    Attributes:
        title: for the table, with its size.
        inputs: makes the arrays, small ones when asked for quick ones.
        compute: the computation on tensors, given a framework's operators.
        reference: the float64 value, or its first elements.
        tolerance: largest error allowed, relative to the largest value.
        kind: ``call`` (the same computation again and again), ``first`` (another one each time,
            which has to be compiled), ``train`` (a step that changes weights) or ``gpt`` (the step
            of ``gpt.py``).
    """

    title: str
    inputs: Callable[[bool], list[Array]]
    compute: Callable[..., Any]
    reference: Callable[[list[Array]], Array]
    tolerance: float = 2e-5
    kind: str = "call"


def normal(*shapes: tuple[int, ...]) -> list[Array]:
    """Arrays of float32 normal numbers, the same in every process."""
    source = np.random.default_rng(0)
    return [source.standard_normal(shape, dtype=np.float32) for shape in shapes]


def square(full: int, quick: int, count: int = 1) -> Callable[[bool], list[Array]]:
    """Makes ``count`` square matrices."""

    def make(small: bool) -> list[Array]:
        extent = quick if small else full
        return normal(*[(extent, extent)] * count)

    return make


ROWS = 64  # how many rows are compared where rows are independent


def wide(array: Array) -> Array:
    """The array in float64."""
    return array.astype(np.float64)


def sigmoid(x: Array) -> Array:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    """Softmax of rows."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


# --------------------------------------------------------------- elementwise


def compute_axpy(k: Operators, x: Any, y: Any) -> Any:
    return x * 2.5 + y


def compute_chain(k: Operators, x: Any) -> Any:
    y = x * 1.5 + 0.25
    return y * k.sigmoid(y) + k.tanh(x) * 0.5 - k.sqrt(y * y + 1.0)


def chain_reference(arrays: list[Array]) -> Array:
    x = wide(arrays[0][:ROWS])
    y = x * 1.5 + 0.25
    return np.asarray(y * sigmoid(y) + np.tanh(x) * 0.5 - np.sqrt(y * y + 1))


# ---------------------------------------------------------------- reductions


def compute_layer_norm(k: Operators, x: Any, weight: Any, bias: Any) -> Any:
    centred = x - k.row_mean(x)
    spread = k.row_mean(centred * centred)
    return centred / k.sqrt(spread + 1e-5) * weight + bias


def layer_norm_inputs(quick: bool) -> list[Array]:
    rows = 512 if quick else 8192
    return normal((rows, 1024), (1024,), (1024,))


def layer_norm_reference(arrays: list[Array]) -> Array:
    x, weight, bias = wide(arrays[0][:ROWS]), wide(arrays[1]), wide(arrays[2])
    centred = x - x.mean(-1, keepdims=True)
    spread = (centred * centred).mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt(spread + 1e-5) * weight + bias)


def compute_squares(k: Operators, x: Any) -> Any:
    return k.sum_all(x * x)


def compute_distances(k: Operators, a: Any, b: Any) -> Any:
    between = a[:, None, :] - b[None, :, :]
    return k.sqrt(k.sum_last(between * between))


def distance_reference(arrays: list[Array]) -> Array:
    a, b = wide(arrays[0][:ROWS]), wide(arrays[1])
    return np.asarray(np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1)))


def points(quick: bool) -> list[Array]:
    return normal(*[((500 if quick else 3000), 3)] * 2)


# ----------------------------------------------------------- order and picking


def long_vector(quick: bool) -> list[Array]:
    """Ten million normal numbers."""
    return normal((10**5 if quick else 10**7,))


def table_inputs(quick: bool) -> list[Array]:
    """A table of a million rows and a hundred thousand random row numbers."""
    rows = 10**4 if quick else 10**6
    (table,) = normal((rows, 64))
    return [table, np.random.default_rng(1).integers(0, rows, rows // 10)]


# -------------------------------------------------------------------- compile


def compute_small(k: Operators, x: Any) -> Any:
    return k.tanh(x * 1.5 + 0.25)


def compute_new(k: Operators, x: Any, variant: int) -> Any:
    """One kernel that no other variant computes."""
    y = x
    for _ in range(variant + 1):
        y = k.tanh(y * 1.5 + 0.25)
    return y


# ---------------------------------------------------------------------- train


def train_inputs(quick: bool) -> list[Array]:
    """A batch of 32 with labels, and weights of an MLP 64-64-10."""
    x, first, second = normal((32, 64), (64, 64), (64, 10))
    labels = np.random.default_rng(1).integers(0, 10, 32)
    zeros = [np.zeros(n, np.float32) for n in (64, 10)]
    return [x, labels, first / 8, zeros[0], second / 8, zeros[1]]


LEARNING_RATE = 0.1
CHECKED_STEPS = 3


def train_reference(arrays: list[Array]) -> Array:
    """The losses of the first steps, with gradients written out by hand."""
    labels = arrays[1]
    x, first, first_bias, second, second_bias = (wide(a) for a in (arrays[0], *arrays[2:]))
    rows, losses = np.arange(len(labels)), []
    for _ in range(CHECKED_STEPS):
        hidden = np.maximum(x @ first + first_bias, 0)
        share = softmax(hidden @ second + second_bias)
        losses.append(-np.log(share[rows, labels]).mean())
        share[rows, labels] -= 1
        share /= len(labels)
        below = share @ second.T * (hidden > 0)
        second -= LEARNING_RATE * hidden.T @ share
        second_bias -= LEARNING_RATE * share.sum(0)
        first -= LEARNING_RATE * x.T @ below
        first_bias -= LEARNING_RATE * below.sum(0)
    return np.array(losses)


def compute_loss(k: Operators, x: Any, labels: Any, *weights: Any) -> Any:
    first, first_bias, second, second_bias = weights
    hidden = k.relu(x @ first + first_bias)
    return k.cross_entropy(hidden @ second + second_bias, labels)


# ------------------------------------------------------------------ all of them


def matmul(extent: int) -> Workload:
    """The product of two square matrices."""
    return Workload(
        f"matmul {extent}",
        square(extent, extent // 4, 2),
        lambda k, a, b: a @ b,
        lambda arrays: wide(arrays[0][:ROWS]) @ wide(arrays[1]),
    )


WORKLOADS: dict[str, Workload] = {
    "axpy": Workload(
        "axpy 2^24",
        lambda quick: normal(*[(1 << (20 if quick else 24),)] * 2),
        compute_axpy,
        lambda arrays: wide(arrays[0][:4096]) * 2.5 + wide(arrays[1][:4096]),
    ),
    "chain": Workload("chain 4096x4096", square(4096, 512), compute_chain, chain_reference),
    "layer_norm": Workload(
        "layer norm 8192x1024", layer_norm_inputs, compute_layer_norm, layer_norm_reference
    ),
    "softmax": Workload(
        "softmax 4096x4096",
        square(4096, 512),
        lambda k, x: k.softmax(x),
        lambda arrays: softmax(wide(arrays[0][:ROWS])),
    ),
    "sum_axis0": Workload(
        "sum over axis 0, 4096x4096",
        square(4096, 512),
        lambda k, x: k.sum_first(x),
        lambda arrays: wide(arrays[0]).sum(0),
    ),
    "squares": Workload(
        "sum of squares 4096x4096",
        square(4096, 512),
        compute_squares,
        lambda arrays: np.square(wide(arrays[0])).sum(),
    ),
    "distances": Workload(
        "pairwise distances 3000x3000x3", points, compute_distances, distance_reference
    ),
    "matmul1024": matmul(1024),
    "matmul2048": matmul(2048),
    "sort": Workload(
        "sort 10^7 float32",
        long_vector,
        lambda k, x: k.sort(x),
        lambda arrays: np.sort(wide(arrays[0])),
        tolerance=0,
    ),
    "rows": Workload(
        "10^5 rows of 10^6 x 64",
        table_inputs,
        lambda k, table, index: k.rows(table, index),
        lambda arrays: wide(arrays[0][arrays[1]]),
        tolerance=0,
    ),
    "cumsum": Workload(
        "cumsum 10^7",
        long_vector,
        lambda k, x: k.cumsum(x),
        lambda arrays: np.cumsum(wide(arrays[0])[:4096]),
        tolerance=1e-4,
    ),
    "small": Workload(
        "cached call, 100 elements",
        lambda quick: normal((100,)),
        compute_small,
        lambda arrays: np.tanh(wide(arrays[0]) * 1.5 + 0.25),
    ),
    "first": Workload(
        "first call of a new kernel",
        lambda quick: normal((100,)),
        compute_new,
        lambda arrays: np.tanh(wide(arrays[0]) * 1.5 + 0.25),
        kind="first",
    ),
    "train": Workload(
        "train step, MLP 64-64-10, batch 32",
        train_inputs,
        compute_loss,
        train_reference,
        kind="train",
    ),
    "gpt": Workload(
        "train step, GPT 4 layers, width 256, context 128, batch 8",
        gpt_inputs,
        compute_loss,
        gpt_reference,
        kind="gpt",
    ),
}
