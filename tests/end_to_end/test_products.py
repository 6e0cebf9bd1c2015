"""Matrix products of operands that lie in memory in every way, or are computed on the way."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest

import lazyt
from lazyt.handle.tensor import Tensor

Whole = npt.NDArray[np.int64]
Way = Callable[[Whole, lazyt.dtype], Tensor]


def _stored(values: Whole, dtype: lazyt.dtype) -> Tensor:
    return lazyt.tensor(values.tolist()).to(dtype).realize()


def _inside(values: Whole, dtype: lazyt.dtype) -> Tensor:
    """A part of a larger matrix."""
    wide = np.full((values.shape[0] + 3, values.shape[1] + 5), 3, np.int64)
    wide[2:-1, 4:-1] = values
    return _stored(wide, dtype)[2:-1, 4:-1]


#: How a matrix may lie in memory, or be made of what does. Sums of its products are exact.
WAYS: list[Way] = [
    _stored,
    lambda v, dtype: _stored(v.T, dtype).T,
    _inside,
    lambda v, dtype: _inside(v.T, dtype).T,
    lambda v, dtype: _stored(v.repeat(2, 0), dtype)[::2],
    lambda v, dtype: _stored(v.repeat(2, 1), dtype)[:, ::2],
    lambda v, dtype: _stored(v[:, ::-1], dtype).flip(1),
    lambda v, dtype: _stored(v - 1, dtype) + 1,
    lambda v, dtype: (_stored(v.T - 1, dtype) + 1).T,
    lambda v, dtype: _stored(v, lazyt.int8).to(dtype),
]
DTYPES = (
    lazyt.float32, lazyt.float64, lazyt.bfloat16, lazyt.float16, lazyt.int32, lazyt.int8,
    lazyt.int64,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _proved() -> Iterator[None]:
    with lazyt.config.override(verify=True):
        yield


def _small(rng: np.random.Generator, *shape: int) -> Whole:
    return rng.integers(-4, 5, shape)


@pytest.mark.parametrize("seed", range(2))
def test_every_way_to_lie_in_memory_gives_the_product(seed: int) -> None:
    """Extents from 1 to 70, so that each form of a kernel and its edges occur."""
    rng, pick = np.random.default_rng(seed), random.Random(seed)
    made: list[tuple[Tensor, Whole, lazyt.dtype]] = []
    for number in range(12):
        m, n, k = (pick.randint(*pick.choice([(1, 3), (4, 24), (25, 70)])) for _ in range(3))
        left, right = _small(rng, m, k), _small(rng, k, n)
        dtype = DTYPES[(number + seed) % len(DTYPES)]
        factors = pick.choice(WAYS)(left, dtype), pick.choice(WAYS)(right, dtype)
        made.append((factors[0] @ factors[1], left @ right, dtype))
    lazyt.realize(*(product for product, _, _ in made))
    for product, expected, dtype in made:
        assert lazyt.equal(product, lazyt.tensor(expected.tolist()).to(dtype)), (
            dtype, product.shape,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [lazyt.float32, lazyt.bfloat16])
def test_batches_whose_axes_lie_apart_or_are_shared(dtype: lazyt.dtype) -> None:
    """Heads between the rows, and one operand for all: each batch finds its own."""
    rng = np.random.default_rng(7)
    q, k = _small(rng, 2, 19, 3, 20), _small(rng, 2, 33, 3, 20)
    left, right = (_stored(v.reshape(2, -1), dtype).reshape(v.shape) for v in (q, k))
    shared = _small(rng, 20, 17)
    scores = lazyt.einsum("bthd,bshd->bhts", left, right)
    mixed = left.transpose(1, 2) @ _stored(shared.T, dtype).T
    vectors = left.transpose(1, 2) @ right[:1, 0, :1, :, None]
    lazyt.realize(scores, mixed, vectors)
    for found, expected in (
        (scores, np.einsum("bthd,bshd->bhts", q, k)),
        (mixed, q.swapaxes(1, 2) @ shared),
        (vectors, q.swapaxes(1, 2) @ k[:1, 0, :1, :, None]),
    ):
        assert lazyt.equal(found, lazyt.tensor(expected.tolist()).to(dtype)), found.shape
