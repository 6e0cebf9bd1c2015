"""Discrete Fourier transforms along one axis, as operations of graphs.

A value in between is a pair of planes: a real node [parts, batch, points, inner] whose first axis
has the real and the imaginary part, or only the real one of what is real. A transform of ``n``
points goes in stages, one for each factor of ``n`` (Cooley and Tukey, "An algorithm for the machine
calculation of complex Fourier series", 1965). Each multiplies by the small, dense matrix of a
transform of that many points, and by the twiddle factors that the stages behind it expect. The
digits of the frequency that are done stand behind those of the points that are not (Stockham,
"High-speed convolution and correlation", 1966), so nothing is put in order at the end. Large prime
factors go through a convolution (Bluestein, "A linear filtering approach to the computation of
discrete Fourier transform", 1970).

Gradients, batches and devices are those of the operations that it is made of.
"""

from __future__ import annotations

from lazyt import ops
from lazyt.functional.fourier import tables
from lazyt.functional.operands import mapped
from lazyt.ir.forms import place_of
from lazyt.ir.fourier.tables import plan_of
from lazyt.ir.graph import Node, make
from lazyt.ir.scalar import Expr, call
from lazyt.ops.fourier.transform import FOURIER, FourierParams

#: From so many elements that have one twiddle factor, a loop over them takes it out of a register;
#: of fewer, each has its own in memory.
_WIDE = 32


def transform(x: Node, sign: int, scale: float) -> Node:
    """``scale`` times the sums of ``x[k] * exp(sign 2 pi i j k / n)``, planes of planes."""
    _, batch, n, inner = x.shape
    if not x.size:
        return ops.broadcast_to(ops.constant(0, x.dtype), (2, batch, n, inner))
    if has_kernel("complex", n):
        if x.shape[0] == 1:
            x = ops.pad(x, (0,) * 4, (1, 0, 0, 0), (0,) * 4, 0)
        pairs = along_rows("complex", ops.permute(x, (1, 3, 2, 0)), n, sign, scale, True)
        return ops.permute(pairs, (3, 0, 2, 1))
    left, done = n, inner
    sizes = tables.factors(n)
    for number, size in enumerate(sizes, 1):
        rest = left // size
        last = scale if number == len(sizes) else 1.0
        x = ops.reshape(x, (x.shape[0], batch, size, rest, done))
        x = _bluestein(x, sign, last) if size > tables.LARGEST_PRIME else _dense(x, sign, last)
        if rest > 1:
            x = _twiddled(x, sign)
        left, done = rest, done * size
    return ops.reshape(x, (2, batch, n, inner))


def _twiddled(x: Node, sign: int) -> Node:
    """[2, batch, m, j, done] times ``exp(sign 2 pi i m j / n)``, n the product of both extents."""
    _, batch, rest, size, done = x.shape
    repeats = done if done < _WIDE else 1
    place = place_of(x.form)
    table = tables.twiddles(rest, size, rest * size, sign, x.dtype, place, repeats)
    if repeats < done:
        return _times(x, ops.reshape(table, (2, 1, rest, size, 1)))
    # One loop over what lies side by side, in which a factor stands for each element.
    length = rest * size * done
    x = ops.reshape(x, (2, batch, length))
    return _times(x, ops.reshape(table, (2, 1, length)))


def _dense(x: Node, sign: int, scale: float) -> Node:
    """[parts, batch, k, m, done] to [2, batch, m, j, done] by the matrix of the k points."""
    parts, _, size, _, _ = x.shape
    table = tables.matrix(parts, size, size, 2, sign, scale, x.dtype, place_of(x.form))
    return ops.contract(x, table, (0, 1, 2, 3, 4), (0, 2, 5, 6), (5, 1, 3, 6, 4))


def _bluestein(x: Node, sign: int, scale: float) -> Node:
    """The same for a large prime number of points, by a convolution with a chirp: with
    ``2jk = jj + kk - (j - k)(j - k)`` the sum over k becomes one."""
    parts, batch, size, rest, done = x.shape
    place = place_of(x.form)
    inner = rest * done
    x = ops.reshape(x, (parts, batch, size, inner))
    first = tables.chirp(size, sign, 1.0, x.dtype, place)
    x = _times(x, ops.reshape(first, (2, 1, size, 1)))
    length = tables.convolution_length(size)
    none = (0,) * 4
    x = ops.pad(x, none, (0, 0, length - size, 0), none, 0)
    spectrum = tables.chirp_spectrum(size, length, sign, x.dtype, place)
    x = _times(transform(x, -1, 1.0), ops.reshape(spectrum, (2, 1, length, 1)))
    x = ops.slice_(transform(x, 1, 1.0), none, (2, batch, size, inner), (1,) * 4)
    second = tables.chirp(size, sign, scale, x.dtype, place)
    x = _times(x, ops.reshape(second, (2, 1, size, 1)))
    return ops.permute(ops.reshape(x, (2, batch, size, rest, done)), (0, 1, 3, 2, 4))


# ------------------------------------------------------------------ kernels of whole rows


def has_kernel(kind: str, n: int) -> bool:
    """Whether transforms of ``n`` points are one kernel."""
    return n > tables.DENSE and plan_of(kind, n) is not None


def along_rows(
    kind: str, x: Node, n: int, sign: int, scale: float, pairs: bool = False
) -> Node:  # fmt: skip
    """The rows of an operand of the ``fourier`` op, transformed."""
    return of_rows(FourierParams(kind, sign, n, pairs), x, scale)


def of_rows(params: FourierParams, x: Node, scale: float) -> Node:
    """The same with the op's parameters."""
    dtype = x.dtype.part if x.dtype.kind == "c" else x.dtype
    constants = tables.constants(params.kind, params.points, scale, dtype, place_of(x.form))
    return make(FOURIER, (x, constants), params)


def plane(x: Node, number: int) -> Node:
    """One of the planes, without their axis."""
    starts = (number, *(0,) * (len(x.shape) - 1))
    part = ops.slice_(x, starts, (1, *x.shape[1:]), (1,) * len(x.shape))
    return ops.reshape(part, x.shape[1:])


def together(*planes: Node) -> Node:
    """Planes beside each other, along a new first axis."""
    return ops.concat([ops.reshape(part, (1, *part.shape)) for part in planes], 0)


def _real_product(x: Expr, y: Expr, u: Expr, v: Expr) -> Expr:
    return call("sub", call("mul", x, u), call("mul", y, v))


def _imaginary_product(x: Expr, y: Expr, u: Expr, v: Expr) -> Expr:
    return call("add", call("mul", x, v), call("mul", y, u))


def _product(x: Expr, y: Expr) -> Expr:
    return call("mul", x, y)


def _times(x: Node, table: Node) -> Node:
    """The planes of a product of complex numbers; ``table`` is broadcast."""
    u, v = plane(table, 0), plane(table, 1)
    if x.shape[0] == 1:
        x = plane(x, 0)
        return together(*(mapped(_product, (x, part), x.dtype, None) for part in (u, v)))
    operands = (plane(x, 0), plane(x, 1), u, v)
    return together(
        mapped(_real_product, operands, x.dtype, None),
        mapped(_imaginary_product, operands, x.dtype, None),
    )


# -------------------------------------------------------------------- real signals


def half_spectrum(x: Node, sign: int, scale: float) -> Node:
    """The first ``n // 2 + 1`` frequencies of real points, [1, batch, n, inner] to planes."""
    _, batch, n, inner = x.shape
    half = n // 2 + 1
    if n <= tables.DENSE:
        table = tables.matrix(1, n, half, 2, sign, scale, x.dtype, place_of(x.form))
        return ops.contract(x, table, (0, 1, 2, 3), (0, 2, 4, 5), (4, 1, 5, 3))
    if n % 2:
        whole = transform(x, sign, scale)
        return ops.slice_(whole, (0,) * 4, (2, batch, half, inner), (1,) * 4)
    # Two neighbours are the parts of one complex number: half as many points.
    pairs = ops.permute(ops.reshape(x, (batch, half - 1, 2, inner)), (2, 0, 1, 3))
    return _untangled(transform(pairs, sign, scale / 2), n, sign)


def _untangled(z: Node, n: int, sign: int) -> Node:
    """The spectrum of a real signal from half of that of its pairs: the even points have
    ``z[k] + conj(z[-k])``, the odd ones ``(z[k] - conj(z[-k])) / i``."""
    _, batch, count, inner = z.shape
    first = ops.slice_(z, (0,) * 4, (2, batch, 1, inner), (1,) * 4)
    z = ops.concat([z, first], 2)
    mirrored = ops.flip(z, (2,))
    table = tables.twiddles(2, count + 1, n, sign, z.dtype, place_of(z.form))
    turn = ops.slice_(table, (0, 1, 0), (2, 1, count + 1), (1, 1, 1))
    turn = ops.reshape(turn, (2, count + 1, 1))
    operands = tuple([plane(part, number) for part in (z, mirrored, turn) for number in (0, 1)])
    return together(
        mapped(_real_of_pairs, operands, z.dtype, None),
        mapped(_imaginary_of_pairs, operands, z.dtype, None),
    )


def _real_of_pairs(x: Expr, y: Expr, p: Expr, q: Expr, u: Expr, v: Expr) -> Expr:
    odd = _real_product(call("add", y, q), call("sub", p, x), u, v)
    return call("add", call("add", x, p), odd)


def _imaginary_of_pairs(x: Expr, y: Expr, p: Expr, q: Expr, u: Expr, v: Expr) -> Expr:
    odd = _imaginary_product(call("add", y, q), call("sub", p, x), u, v)
    return call("add", call("sub", y, q), odd)


def real_signal(x: Node, n: int, sign: int, scale: float) -> Node:
    """The ``n`` real points of the spectrum of which planes hold the first ``n // 2 + 1``
    frequencies, [batch, n, inner]; the rest mirrors them. Imaginary parts of the frequencies that
    are their own mirror images do not count."""
    _, batch, half, inner = x.shape
    if not x.size:
        return ops.broadcast_to(ops.constant(0, x.dtype), (batch, n, inner))
    if n <= tables.DENSE:
        table = tables.half_matrix(n, sign, scale, x.dtype, place_of(x.form))
        return ops.contract(x, table, (0, 1, 2, 3), (0, 2, 4), (1, 4, 3))
    own = (0, half - 1) if n % 2 == 0 else (0,)
    re, im = plane(x, 0), plane(x, 1)
    inside = ops.slice_(im, (0, 1, 0), (batch, half - len(own), inner), (1, 1, 1))
    im = ops.pad(inside, (0, 1, 0), (0, len(own) - 1, 0), (0, 0, 0), 0)
    if n % 2:
        return plane(transform(_mirrored(re, im), sign, scale), 0)
    return _paired(transform(_tangled(together(re, im), n, sign), sign, scale))


def _mirrored(re: Node, im: Node) -> Node:
    """The whole spectrum of an odd number of points from its first half."""
    batch, half, inner = re.shape

    def rest(part: Node) -> Node:
        return ops.flip(ops.slice_(part, (0, 1, 0), (batch, half - 1, inner), (1, 1, 1)), (1,))

    mirror = ops.apply("neg", rest(im))
    return together(ops.concat([re, rest(re)], 1), ops.concat([im, mirror], 1))


def _tangled(x: Node, n: int, sign: int) -> Node:
    """The spectrum of the pairs of neighbours, from half of that of the signal: the inverse of
    ``_untangled``."""
    _, batch, half, inner = x.shape
    count = half - 1
    mirrored = ops.flip(ops.slice_(x, (0, 0, 1, 0), (2, batch, count, inner), (1,) * 4), (2,))
    x = ops.slice_(x, (0,) * 4, (2, batch, count, inner), (1,) * 4)
    table = tables.twiddles(2, count, n, sign, x.dtype, place_of(x.form))
    turn = ops.reshape(ops.slice_(table, (0, 1, 0), (2, 1, count), (1, 1, 1)), (2, count, 1))
    operands = tuple([plane(part, number) for part in (x, mirrored, turn) for number in (0, 1)])
    return together(
        mapped(_real_of_halves, operands, x.dtype, None),
        mapped(_imaginary_of_halves, operands, x.dtype, None),
    )


def _real_of_halves(x: Expr, y: Expr, p: Expr, q: Expr, u: Expr, v: Expr) -> Expr:
    odd = _imaginary_product(call("sub", x, p), call("add", y, q), u, v)
    return call("sub", call("add", x, p), odd)


def _imaginary_of_halves(x: Expr, y: Expr, p: Expr, q: Expr, u: Expr, v: Expr) -> Expr:
    odd = _real_product(call("sub", x, p), call("add", y, q), u, v)
    return call("add", call("sub", y, q), odd)


def _paired(z: Node) -> Node:
    """The parts of complex points as neighbours."""
    _, batch, count, inner = z.shape
    return ops.reshape(ops.permute(z, (1, 2, 0, 3)), (batch, 2 * count, inner))
