"""Random numbers: counter-based (Threefry), so that a graph with them is still pure.

Every call takes a key of its generator's seed and the number of the call. Results are the same for
every number of threads and however the graph is fused; they are not PyTorch's numbers.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.device import check_device
from lazyt.errors import DTypeError, LazytError
from lazyt.functional.creation import fresh
from lazyt.functional.nesting import stored
from lazyt.functional.operands import as_shape, broadcast_all
from lazyt.functional.promotion import as_dtype, get_default_dtype
from lazyt.functional.results import give
from lazyt.ir.dtypes import DType, float32, float64, int64, uint8, uint32
from lazyt.ir.graph import Node, Shape
from lazyt.ir.scalar import Expr, arg, call, const
from lazyt.tensor import Tensor

__all__ = [
    "Generator", "bernoulli", "get_rng_state", "initial_seed", "manual_seed", "normal",
    "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm",
    "seed", "set_rng_state",
]  # fmt: skip


class Generator:
    """A source of random numbers with its own seed.

    Attributes:
        device: where it lives; always the CPU.
    """

    __slots__ = ("_calls", "_seed", "device")

    def __init__(self, device: Any = "cpu") -> None:
        self.device = check_device(device)
        self._seed = 67280421310721
        self._calls = 0

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed``; returns the generator."""
        self._seed = int(seed) & 0xFFFFFFFFFFFFFFFF
        self._calls = 0
        return self

    def seed(self) -> int:
        """Start again from a seed that nobody chose, and return it."""
        self.manual_seed(time.time_ns())
        return self._seed

    def initial_seed(self) -> int:
        """The seed it started from."""
        return self._seed

    def get_state(self) -> Tensor:
        """Seed and position as a tensor for ``set_state``."""
        values = np.array([self._seed, self._calls], np.uint64).view(np.uint8)
        return fresh(stored(values, (16,), uint8))

    def set_state(self, state: Tensor) -> Generator:
        """Go on from where ``get_state`` was taken."""
        words = np.array(state.tolist(), np.uint8).view(np.uint64)
        self._seed, self._calls = int(words[0]), int(words[1])
        return self

    def next_key(self) -> Node:
        """The key of the next call: a leaf of two words, so that plans do not depend on it."""
        self._calls += 1
        mixed = (self._seed * 0x9E3779B97F4A7C15 + self._calls) & 0xFFFFFFFFFFFFFFFF
        words = np.array([mixed & 0xFFFFFFFF, mixed >> 32], np.uint32)
        return stored(words, (2,), uint32)


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Start the random numbers again from ``seed``; returns the default generator."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the random numbers from a seed that nobody chose, and return it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """State of the default generator."""
    return default_generator.get_state()


def set_rng_state(state: Tensor) -> None:
    """Go on from a state of the default generator."""
    default_generator.set_state(state)


def _bits(shape: Shape, generator: Generator | None) -> Node:
    return ops.random((generator or default_generator).next_key(), shape)


def _unit_float(bits: Expr) -> Expr:
    """24 bits as a float32 in [0, 1): every multiple of 2**-24 alike."""
    top = call("cast", call("shift_right", bits, const(8, uint32)), dtype=float32)
    return call("mul", top, const(2.0**-24, float32))


def uniform_node(shape: Shape, dtype: DType, generator: Generator | None) -> Node:
    """Numbers in [0, 1); float64 draws 53 bits, the other types 24."""
    if dtype is float64:
        high = ops.cast(_bits(shape, generator), float64)
        low = ops.cast(_bits(shape, generator), float64)
        expr = call("floor", call("mul", arg(1, float64), const(2.0**-11, float64)))
        scaled = call("mul", arg(0, float64), const(2.0**21, float64))
        expr = call("mul", call("add", scaled, expr), const(2.0**-53, float64))
        return ops.elementwise(expr, (high, low))
    node = ops.elementwise(_unit_float(arg(0, uint32)), (_bits(shape, generator),))
    if not dtype.is_half:
        return ops.cast(node, dtype)
    # Fewer bits, so that rounding to the half type never reaches 1.
    digits = 11 if dtype.name == "float16" else 8
    scale = const(2.0**digits, float32)
    whole = call("floor", call("mul", arg(0, float32), scale))
    return ops.cast(ops.elementwise(call("div", whole, scale), (node,)), dtype)


def normal_node(shape: Shape, dtype: DType, generator: Generator | None) -> Node:
    """Standard normal numbers by Box and Muller (1958), one from every two uniform ones."""
    wide = float64 if dtype is float64 else float32
    first = uniform_node(shape, wide, generator)
    second = uniform_node(shape, wide, generator)
    # 1 - u lies in (0, 1], where the logarithm is finite.
    log = call("log", call("sub", const(1.0, wide), arg(0, wide)))
    radius = call("sqrt", call("mul", const(-2.0, wide), log))
    angle = call("cos", call("mul", const(2 * math.pi, wide), arg(1, wide)))
    return ops.cast(ops.elementwise(call("mul", radius, angle), (first, second)), dtype)


def integer_node(
    shape: Shape, low: int, high: int, dtype: DType, generator: Generator | None
) -> Node:
    """Whole numbers in [low, high): the high bits of a 62-bit draw times the span."""
    wide = ops.cast(_bits(shape, generator), int64)
    span = const(high - low, int64)
    if high - low <= 1 << 31:
        expr = call("shift_right", call("mul", arg(0, int64), span), const(32, int64))
        nodes: tuple[Node, ...] = (wide,)
    else:
        other = ops.cast(_bits(shape, generator), int64)
        joined = call("shift_left", arg(0, int64), const(31, int64))
        joined = call("bitwise_xor", joined, arg(1, int64))
        expr, nodes = call("mod", joined, span), (wide, other)
    expr = call("add", expr, const(low, int64))
    return ops.cast(ops.elementwise(expr, nodes), dtype)


def _float_dtype(dtype: Any, function: str) -> DType:
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    if wanted.kind != "f":
        raise DTypeError(f"\"{function}\" not implemented for '{wanted.name}'")
    return wanted


def rand(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Numbers evenly distributed over [0, 1)."""
    check_device(device)
    shape, wanted = as_shape(size, "rand"), _float_dtype(dtype, "rand")
    return fresh(uniform_node(shape, wanted, generator), requires_grad)


def randn(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Numbers of the normal distribution with mean 0 and deviation 1."""
    check_device(device)
    shape, wanted = as_shape(size, "randn"), _float_dtype(dtype, "randn")
    return fresh(normal_node(shape, wanted, generator), requires_grad)


def rand_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``rand`` of the size and dtype of ``input``."""
    size = tuple(input.shape)
    return rand(size, dtype=dtype or input.dtype, device=device, requires_grad=requires_grad)


def randn_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``randn`` of the size and dtype of ``input``."""
    size = tuple(input.shape)
    return randn(size, dtype=dtype or input.dtype, device=device, requires_grad=requires_grad)


def randint(
    low: Any, high: Any = None, size: Any = None, *, generator: Generator | None = None,
    dtype: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Whole numbers in [low, high), or [0, low) for ``randint(low, size)``."""
    check_device(device)
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if low >= high:
        raise LazytError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    wanted = int64 if dtype is None else as_dtype(dtype)
    node = integer_node(as_shape((size,), "randint"), int(low), int(high), wanted, generator)
    return fresh(node, requires_grad)


def randint_like(input: Tensor, low: int, high: int | None = None, *, dtype: Any = None) -> Tensor:
    """``randint`` of the size and dtype of ``input``."""
    low, high = (0, low) if high is None else (low, high)
    return randint(low, high, tuple(input.shape), dtype=dtype or input.dtype)


def randperm(
    n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers 0 to n-1 in random order (drawn at once, on the host)."""
    check_device(device)
    key = (generator or default_generator).next_key()
    words = key.data.as_numpy(uint32, (2,))
    order = np.random.default_rng(words.tolist()).permutation(n)
    wanted = int64 if dtype is None else as_dtype(dtype)
    return fresh(stored(order, (n,), wanted), requires_grad)


def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """1 with the probability that each element says (or ``p``), else 0."""
    drawn = uniform_node(tuple(input.shape), float32, generator)
    if p is None:
        limit = ops.cast(input.node, float32)
    else:
        limit = ops.constant(p, float32)
    return give(ops.cast(ops.apply("lt", drawn, limit), input.dtype), "Bernoulli", ())


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None,
    dtype: Any = None, device: Any = None,
) -> Tensor:  # fmt: skip
    """Normal numbers of a mean and deviation, each a number or a tensor."""
    check_device(device)
    tensors = [t for t in (mean, std) if isinstance(t, Tensor)]
    if size is None:
        shape = broadcast_all([tuple(t.shape) for t in tensors])
    else:
        shape = as_shape((size,), "normal")
    wanted = tensors[0].dtype if tensors and dtype is None else _float_dtype(dtype, "normal")
    drawn = fresh(normal_node(shape, wanted, generator))
    result: Tensor = drawn * std + mean
    return result


def drop_mask(shape: Shape, keep: float, generator: Generator | None = None) -> Node:
    """A bool node that is true with probability ``keep``."""
    drawn = uniform_node(shape, float32, generator)
    return ops.apply("lt", drawn, ops.constant(keep, float32))
