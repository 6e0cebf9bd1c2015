"""Sobol sequences: points that fill a cube more evenly than random ones do."""

from __future__ import annotations

import functools
import lzma
from importlib import resources
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.compat.absent import known_as
from lazyt.errors import LazytError, ShapeError
from lazyt.functional import namespace as lazyt
from lazyt.functional.random.generators import Generator
from lazyt.functional.type_promotion import get_default_dtype
from lazyt.handle.tensor import Tensor

__all__ = ["SobolEngine"]

#: Bits of a coordinate, and dimensions for which there are direction numbers.
_BITS, _DIMENSIONS = 30, 1111


class SobolError(LazytError, ValueError):
    """A number of points or dimensions that a Sobol sequence does not have."""


@functools.cache
def _polynomials() -> list[list[int]]:
    """For each dimension after the first its primitive polynomial over two elements, with the
    coefficients as bits, and its first direction numbers (Joe and Kuo 2008, "Constructing Sobol
    sequences with better two-dimensional projections", numbers "6.21201", the first 1,111)."""
    data = (resources.files(__name__) / "directions.xz").read_bytes()
    lines = lzma.decompress(data).decode().splitlines()
    return [[int(number) for number in line.split()] for line in lines]


def _directions(dimension: int) -> list[int]:
    """The numbers of one dimension that the bits of a point's index choose, as fractions of 2^30:
    the recurrence of the polynomial (Bratley and Fox 1988, "Algorithm 659")."""
    if dimension == 0:
        return [1 << (_BITS - 1 - bit) for bit in range(_BITS)]
    polynomial, *first = _polynomials()[dimension - 1]
    degree = len(first)
    found = [number << (_BITS - 1 - bit) for bit, number in enumerate(first)]
    for bit in range(degree, _BITS):
        value = found[bit - degree] ^ (found[bit - degree] >> degree)
        for back in range(1, degree):
            if polynomial >> (degree - back) & 1:
                value ^= found[bit - back]
        found.append(value)
    return found


class SobolEngine:
    """Points of a (scrambled) Sobol sequence in the unit cube, one after the other.

    >>> engine = lazyt.quasirandom.SobolEngine(2)
    >>> engine.draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    >>> engine.fast_forward(2).draw(1)
    tensor([[0.3750, 0.6250]])

    Args:
        dimension: of the cube, from 1 to 1,111; PyTorch has 21,201.
        scramble: whether points are scrambled by random matrices and shifts (Owen 1998; Matousek
            1998, "On the L2-discrepancy for anchored boxes"), which keeps how even they are.
        seed: of these; None for the default generator.

    Raises SobolError for other dimensions.
    """

    MAXBIT = _BITS
    MAXDIM = _DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= _DIMENSIONS:
            raise SobolError(
                f"Supported range of dimensionality for SobolEngine is [1, {_DIMENSIONS}]"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        rows = [_directions(number) for number in range(dimension)]
        self.sobolstate: Tensor = lazyt.tensor(rows, dtype=lazyt.int64)
        self.shift: Tensor = lazyt.zeros(dimension, dtype=lazyt.int64)
        if scramble:
            self._scramble()
        self.num_generated = 0

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = Generator()
            generator.manual_seed(self.seed)
        places = lazyt.arange(_BITS - 1, -1, -1)
        powers = lazyt.ones_like(places) << places
        shape = (self.dimension, _BITS)
        self.shift = (lazyt.randint(2, shape, generator=generator) * powers).sum(-1)
        matrix = lazyt.randint(2, (*shape, _BITS), generator=generator).tril(-1)
        matrix = matrix + lazyt.eye(_BITS, dtype=lazyt.int64)
        bits = (self.sobolstate[:, :, None] >> places) & 1
        mixed = (matrix[:, None] * bits[:, :, None]).sum(-1) % 2
        self.sobolstate = (mixed * powers).sum(-1)

    def draw(
        self, n: int = 1, out: Tensor | None = None, dtype: Any = None
    ) -> Tensor:  # fmt: skip
        """The next ``n`` points.

        Args:
            out: where they are put.
            dtype: floating; by default the default dtype.

        Returns: [n, dimension], from 0 to 1, 1 excluded.
        """
        if n < 0:
            raise ShapeError(f"cannot draw {n} points")
        dtype = get_default_dtype() if dtype is None else dtype
        index = lazyt.arange(self.num_generated, self.num_generated + n)
        code = (index ^ (index >> 1))[:, None]  # Gray's: neighbours differ in one bit
        points = self.shift.expand(n, self.dimension)
        for bit in range((self.num_generated + max(n, 1)).bit_length()):
            points = points ^ (self.sobolstate[:, bit] * (code >> bit & 1))
        self.num_generated += n
        result: Tensor = points.to(dtype) / (1 << _BITS)
        if out is None:
            return result
        out.resize_(result.shape).copy_(result)
        return out

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2^m points. Raises SobolError where there are not a power of two of them then,
        by which a sequence would lose its balance.

        Returns: [2^m, dimension].
        """
        total = self.num_generated + (1 << m)
        if total & (total - 1):
            raise SobolError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                f"'{known_as('lazyt')}.quasirandom.SobolEngine.draw()' instead."
            )
        return self.draw(1 << m, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Leaves out ``n`` points."""
        self.num_generated += n
        return self

    def reset(self) -> SobolEngine:
        """Begins again."""
        self.num_generated = 0
        return self

    def __repr__(self) -> str:
        scramble = ", scramble=True" if self.scramble else ""
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"{type(self).__name__}(dimension={self.dimension}{scramble}{seed})"


_explain_absence(__name__)
