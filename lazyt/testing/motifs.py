"""Graphs of random pieces of real programs: layers, losses, attention, optimizers, indexing.

``random_graphs`` grows graphs op by op, small and of all kinds. The pieces here are made through
the functions that users call, at sizes at which kernels take their special forms (packed and direct
products, convolutions over panels, bands of rows, vectors with a tail), and half of them are
followed by their gradients. Interpreting one takes a few million multiply-adds.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

import lazyt
from lazyt import ops
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node
from lazyt.nn import functional as F
from lazyt.testing.graph_maker import buffer_of

T = TypeVar("T")
Results = Sequence[Tensor]

#: Extents around multiples of vectors and register tiles, and primes.
EXTENTS = (
    1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 16, 17, 23, 24, 31, 32, 33, 47, 48, 49, 63, 64, 65, 79, 95,
    96, 97, 127, 128, 129, 159, 160, 161, 191, 192, 193, 200,
)  # fmt: skip
#: Multiply-adds of the largest product of a piece. Its gradient takes twice as many.
MACS = 1_300_000
FLOATS = ("float32", "float32", "float32", "float32", "float64", "bfloat16", "float16")
WHOLE = ("int64", "int32", "int16", "int8", "uint8")


class Maker:
    """What a piece is made of: decisions and data of one seed.

    Attributes:
        random: where decisions come from.
        gradient: whether the piece is differentiated.
        leaves: the tensors made so far that get a gradient.
        dtype: of the piece's floating point numbers.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.generator = lazyt.Generator().manual_seed(seed)
        self._data = np.random.default_rng(seed)
        self.gradient = self.chance(0.5)
        self.dtype = getattr(lazyt, self.one(*FLOATS))
        self.leaves: list[Tensor] = []

    def chance(self, p: float) -> bool:
        """True with probability ``p``."""
        return self.random.random() < p

    def one(self, *options: T) -> T:
        """One of the arguments."""
        return self.random.choice(options)

    def any_of(self, *makers: Callable[[], Any]) -> Any:
        """What one of the arguments makes."""
        return self.random.choice(makers)()

    def extent(self, most: int = 200, least: int = 1) -> int:
        """An extent in ``least .. most``."""
        return self.random.choice([n for n in EXTENTS if least <= n <= most])

    def extents(self, count: int, most: int = MACS, least: int = 1) -> list[int]:
        """Extents whose product is ``most`` or less, in random order."""
        found: list[int] = []
        for place in range(count):
            room = most // max(math.prod(found), 1) // least ** (count - 1 - place)
            found.append(self.extent(max(room, least), least))
        self.random.shuffle(found)
        return found

    def floats(
        self, *shape: int, grad: bool = True, positive: bool = False, dtype: Any = None
    ) -> Tensor:
        """A tensor of numbers around zero, or of numbers above it."""
        values = self._data.standard_normal(shape, np.float32)
        values = np.abs(values) + np.float32(0.1) if positive else values
        made = _leaf(values, dtype or self.dtype)
        if grad and self.gradient:
            self.leaves.append(made.requires_grad_())
        return made

    def whole(self, *shape: int, high: int = 100, low: int = 0, dtype: str = "int64") -> Tensor:
        """A tensor of whole numbers in ``low .. high - 1``."""
        return _leaf(np.asarray(self._data.integers(low, high, shape)), getattr(lazyt, dtype))

    def truths(self, *shape: int) -> Tensor:
        """A tensor of bools, most of them True."""
        return _leaf(np.asarray(self._data.random(shape) < 0.7), lazyt.bool)

    def order(self, *shape: int) -> Tensor:
        """The numbers below the first extent in random order, the same in all columns."""
        found = self._data.permutation(shape[0]).reshape(-1, *(1 for _ in shape[1:]))
        return _leaf(np.broadcast_to(found, shape), lazyt.int64)

    def activated(self, x: Tensor) -> Tensor:
        """What a layer does with its results."""
        made: Tensor = self.any_of(
            lambda: x, lambda: x.relu(), lambda: F.gelu(x), lambda: F.silu(x), lambda: x.tanh(),
            lambda: x.sigmoid(), lambda: F.leaky_relu(x, 0.1), lambda: F.softplus(x),
            lambda: F.elu(x), lambda: F.hardswish(x), lambda: F.gelu(x, approximate="tanh"),
        )  # fmt: skip
        return made


def _leaf(values: np.ndarray[Any, Any], dtype: Any) -> Tensor:
    """An input of the graph with these values."""
    return wrap(ops.input_(values.shape, dtype, buffer_of(values, dtype)))


# ------------------------------------------------------------------------- products


def linear(m: Maker) -> Results:
    """One to three linear layers."""
    rows, *widths = m.extents(m.one(3, 3, 4), MACS)
    if m.chance(0.3):  # so many rows that a band of them is worth it
        rows, widths = m.extent(200, 127), [m.extent(64, 16), m.extent(97, 16), m.extent(32, 8)]
    x = m.floats(rows, widths[0])
    if m.chance(0.2):
        x = x.reshape(1, rows, widths[0])
    for before, after in itertools.pairwise(widths):
        bias = m.floats(after) if m.chance(0.7) else None
        x = m.activated(F.linear(x, m.floats(after, before), bias))
    return [x + x.mean() if m.chance(0.1) else x]


def product(m: Maker) -> Results:
    """A product of matrices, in batches or not, of transposed ones or not."""
    batch = m.one(1, 1, 2, 3, 8, 17)
    rows, inner, columns = m.extents(3, MACS // batch)
    a, b = m.floats(batch, rows, inner), m.floats(batch, inner, columns)
    if m.chance(0.4):
        a = m.floats(batch, inner, rows).mT
    if m.chance(0.4):
        b = m.floats(batch, columns, inner).mT
    if batch == 1 or m.chance(0.2):
        a, b = a[0], b[0] if m.chance(0.8) or batch == 1 else b
    if m.chance(0.2):
        a = a * 2 - 1
    made = a @ b
    if m.chance(0.3):
        made = m.activated(made + m.floats(columns))
    return [made.mT if m.chance(0.3) else made]


def large_product(m: Maker) -> Results:
    """A product of an operand that does not fit into the second-level cache."""
    m.gradient = False
    rows, inner, columns = m.one((33, 300, 500), (33, 301, 499), (17, 512, 530), (48, 1021, 96))
    a = m.floats(rows, inner) if m.chance(0.5) else m.floats(inner, rows).T
    b = m.floats(inner, columns) if m.chance(0.3) else m.floats(columns, inner).T
    return [m.activated(a @ b)]


def blocked_product(m: Maker) -> Results:
    """A product whose sums go over one to three blocks of the inner extent, whatever these are."""
    m.gradient = False
    m.dtype = m.one(m.dtype, lazyt.float32, lazyt.float64)
    rows, columns = m.one(9, 17, 33, 34), m.random.randint(97, 330)
    inner = m.random.randint(200, 600)
    a = m.floats(rows, inner) if m.chance(0.6) else m.floats(inner, rows).T
    b = m.floats(inner, columns) if m.chance(0.6) else m.floats(columns, inner).T
    made = a @ b
    return [m.activated(made + m.floats(columns)) if m.chance(0.3) else made]


def long_product(m: Maker) -> Results:
    """A product with many summed elements, or with many rows or columns, and few of the rest."""
    long = m.one(1000, 4099, 20000)
    few = [m.extent(max(MACS // long, 1) // 4 or 1), m.one(1, 2, 3, 4)]
    m.random.shuffle(few)
    inner, outer = m.one((long, few[0]), (few[0], long))
    a = m.floats(outer, inner) if m.chance(0.6) else m.floats(inner, outer).T
    b = m.floats(inner, few[1]) if m.chance(0.6) else m.floats(few[1], inner).T
    if few[1] == 1 and m.chance(0.5):
        return [a @ b[:, 0]]
    return [a @ b if m.chance(0.7) else b.T @ a.T]


def whole_product(m: Maker) -> Results:
    """A product of whole numbers, some of which share a lane of 32 bits."""
    rows, inner, columns = m.extents(3, least=m.one(1, 48, 48))
    m.gradient = False
    kind = m.one("int8", "int8", "int8", "int8", "int16", "int32", "int64", "uint8")
    a = m.whole(rows, inner, low=0 if kind[0] == "u" else -9, high=10, dtype=kind)
    b = m.whole(inner, columns, low=0 if kind[0] == "u" else -9, high=10, dtype=kind)
    if m.chance(0.5):
        a, b = a.int(), b.int()
    return [a @ b, (a.float().mean(1) if m.chance(0.3) else a.sum(1))]


def summed(m: Maker) -> Results:
    """``einsum`` over several labels."""
    text = m.one(
        "ij,kj->ik", "bij,bjk->bik", "bhid,bhjd->bhij", "ij,ij->i", "ijk,jl->ikl", "bij,bkj->ikb",
        "i,j->ij", "ijk,ijl->kl", "abc,cd->abd",
    )  # fmt: skip
    labels = sorted(set(text) - set(",->"))
    extents = dict(zip(labels, m.extents(len(labels))))
    operands = [m.floats(*(extents[c] for c in part)) for part in text.split("->")[0].split(",")]
    return [lazyt.einsum(text, *operands)]


def distances(m: Maker) -> Results:
    """Distances of points to others."""
    rows, others, width = m.extents(3, MACS // 2)
    p = m.one(2.0, 2.0, 1.0)
    m.dtype = m.one(lazyt.float32, lazyt.float64)
    return [lazyt.cdist(m.floats(rows, width), m.floats(others, width), p=p)]


# --------------------------------------------------------------------- convolutions


def convolution(m: Maker) -> Results:
    """A convolution in one, two or three dimensions, transposed or not, with its options."""
    dims = m.one(1, 1, 2, 2, 2, 2, 3)
    kernel = [m.one(1, 2, 3, 3, 5, 7) if dims < 3 else m.one(1, 2, 3) for _ in range(dims)]
    stride, dilation = m.one(1, 1, 1, 2, 3), m.one(1, 1, 1, 2)
    groups = m.one(1, 1, 1, 1, 2, 4)
    channels = [groups * m.one(1, 2, 3, 4, 8, 9, 16), groups * m.one(1, 2, 3, 5, 8, 16, 17)]
    if m.chance(0.2):  # each channel for itself
        groups = channels[0] = m.one(4, 8, 16, 17, 32)
        channels[1] = channels[0] * m.one(1, 2)
    batch = m.one(1, 1, 2, 3, 8, 9)
    taps = math.prod(kernel) * channels[0] * channels[1] // groups
    room = max((MACS / 2 / (taps * batch)) ** (1 / dims), 4.0)
    points = m.one(8, 13, 16, 17, 28, 31, 33, 56, 64, 100, 129) if m.chance(0.6) else room
    space = [max(int(min(points, room)), dilation * (k - 1) + 1) for k in kernel]
    if m.chance(0.4):
        space[-1] = max(space[-1] - 1, dilation * (kernel[-1] - 1) + 1)
    x = m.floats(batch, channels[0], *space)
    bias = m.floats(channels[1]) if m.chance(0.6) else None
    if m.chance(0.2):
        stride = min(stride, 2)
        weight = m.floats(channels[0], channels[1] // groups, *kernel)
        turn = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
        padding = m.one(0, 0, 1) if min(kernel) > 1 else 0
        return [m.activated(turn(x, weight, bias, stride, padding, groups=groups))]
    weight = m.floats(channels[1], channels[0] // groups, *kernel)
    widths = [m.one(0, k // 2, dilation * (k - 1) // 2) for k in kernel]
    conv = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    made = conv(x, weight, bias, stride, widths, dilation, groups)
    return [m.activated(made)]


def pooled(m: Maker) -> Results:
    """A maximum or an average of windows."""
    dims = m.one(1, 2, 2, 3)
    space = [m.one(8, 13, 16, 17, 31, 33) for _ in range(dims)]
    x = m.floats(m.one(1, 2, 3), m.one(1, 3, 8), *space)
    size = m.one(2, 2, 3)
    stride, padding = m.one(size, 1, 2), m.one(0, 0, 1)
    maxima = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dims - 1]
    means = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[dims - 1]
    adaptive = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[dims - 1]
    made: Results = m.any_of(
        lambda: [maxima(x, size, stride, padding)],
        lambda: [means(x, size, stride, padding)],
        lambda: [adaptive(x, m.one(1, 3, 5))],
        lambda: list(maxima(x, size, stride, padding, return_indices=True)),
    )
    return made


def windows(m: Maker) -> Results:
    """Windows as columns, and columns added up to an image again."""
    size, stride, padding = m.one(2, 3, 3), m.one(1, 1, 2), m.one(0, 1)
    side = m.one(8, 13, 16, 17)
    x = m.floats(m.one(1, 2), m.one(1, 3, 4), side, side + m.one(0, 1))
    columns = F.unfold(x, size, padding=padding, stride=stride)
    if m.chance(0.5):
        return [columns]
    return [F.fold(columns * 2, x.shape[2:], size, padding=padding, stride=stride)]


def padded(m: Maker) -> Results:
    """A border of zeros or of elements, and something next to it."""
    x = m.floats(m.one(1, 2), m.one(1, 3), m.extent(33, 5), m.extent(65, 5))
    widths = [m.one(0, 1, 2, 4) for _ in range(4)]
    made = F.pad(x, widths, mode=m.one("constant", "reflect", "replicate", "circular"))
    return [made[..., 1:] - made[..., :-1] if m.chance(0.5) else m.activated(made)]


def resized(m: Maker) -> Results:
    """An image of another size."""
    x = m.floats(m.one(1, 2), m.one(1, 3), m.extent(33, 4), m.extent(33, 4))
    mode = m.one("nearest", "bilinear", "bicubic", "area", "nearest-exact")
    if m.chance(0.5):
        return [F.interpolate(x, scale_factor=m.one(2, 3), mode=mode)]
    return [F.interpolate(x, size=(m.extent(48, 3), m.extent(48, 3)), mode=mode)]


def sampled(m: Maker) -> Results:
    """An image at places of its own, or with its channels spread out."""
    x = m.floats(2, 4, m.extent(24, 4), m.extent(24, 4))
    if m.chance(0.4):
        return [F.pixel_shuffle(x, 2) * 2]
    m.dtype = lazyt.float32
    grid = m.floats(2, m.extent(17, 2), m.extent(17, 2), 2)
    mode = m.one("bilinear", "nearest")
    return [F.grid_sample(x.float(), grid.tanh(), mode=mode, align_corners=m.chance(0.5))]


# ------------------------------------------------------------ normalizations and losses


def normalized(m: Maker) -> Results:
    """Softmax or a norm of rows, of groups or of a batch."""
    rows, width = m.extents(2, 30_000)
    width = m.one(width, width, 1000, 1024)
    x = m.floats(rows, width)

    def of_layer() -> Tensor:
        weights = (m.floats(width), m.floats(width)) if m.chance(0.7) else (None, None)
        return F.layer_norm(x, (width,), *weights)

    def of_images(norm: Callable[[Tensor, int], Tensor]) -> Tensor:
        channels = m.one(4, 8, 12)
        return norm(m.floats(m.one(2, 3), channels, m.extent(17, 2), m.extent(17, 2)), channels)

    def of_batch(image: Tensor, channels: int) -> Tensor:
        weights = m.floats(channels), m.floats(channels)
        return F.batch_norm(image, None, None, *weights, training=True)

    made = m.any_of(
        lambda: x.softmax(-1),
        lambda: (x * 0.3 + 1).softmax(0),
        lambda: x.log_softmax(m.one(0, 1)),
        of_layer,
        of_layer,
        lambda: of_images(lambda image, c: F.group_norm(image, m.one(1, 2, 4), m.floats(c))),
        lambda: of_images(of_batch),
        lambda: of_images(lambda image, c: F.instance_norm(image)),
        lambda: F.rms_norm(x, (width,), m.floats(width)),
        lambda: F.normalize(x, dim=1),
        lambda: x.logsumexp(m.one(0, 1)),
    )
    return [made]


def lost(m: Maker) -> Results:
    """A loss of predictions."""
    rows, classes = m.extents(2, 20_000, 2)
    x = m.floats(rows, classes)
    classes_of = m.whole(rows, high=classes)
    other = m.floats(rows, classes, grad=False)
    reduction = m.one("mean", "sum", "none")
    return [
        m.any_of(
            lambda: F.cross_entropy(x, classes_of, reduction=reduction),
            lambda: F.cross_entropy(x, classes_of, label_smoothing=0.1, ignore_index=1),
            lambda: F.nll_loss(x.log_softmax(1), classes_of, m.floats(classes, grad=False).abs()),
            lambda: F.mse_loss(x, other, reduction=reduction),
            lambda: F.smooth_l1_loss(x, other, reduction=reduction),
            lambda: F.huber_loss(x, other, delta=0.7),
            lambda: F.binary_cross_entropy_with_logits(x, other.sigmoid(), reduction=reduction),
            lambda: F.kl_div(x.log_softmax(1), other.softmax(1), reduction="batchmean"),
            lambda: F.cosine_similarity(x, other, dim=1),
        )
    ]


def attention(m: Maker) -> Results:
    """Attention, of one head or of several, with or without a mask."""
    batch, heads = m.one((1, 1), (1, 2), (2, 3), (1, 8))
    width = m.one(8, 16, 17, 32)
    room = int(math.sqrt(MACS / 2 / (batch * heads * width)))
    length = min(m.one(room, m.extent(129, 4)), room, 200)
    others = length if m.chance(0.7) else m.extent(length)
    if m.chance(0.25):  # scores that do not fit into the second-level cache
        batch, heads, width, length, others = 1, 8, 8, 190, 190
        m.gradient = False
    q, k, v = (m.floats(batch, heads, n, width) for n in (length, others, others))
    kind = m.one("plain", "causal", "mask", "bias", "written out")
    if kind == "written out":
        scores = (q @ k.mT) / math.sqrt(width)
        if others == length:
            later = lazyt.ones(length, length, dtype=lazyt.bool).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        return [(scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, heads * width)]
    mask = None
    if kind == "mask":
        mask = m.truths(length, others)
    elif kind == "bias":
        mask = m.floats(length, others)
    causal = kind == "causal"
    return [F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)]


# -------------------------------------------------------------- elements, folds, order


def elements(m: Maker) -> Results:
    """A chain of functions of elements, with numbers of other dtypes among them."""
    shape = m.extents(m.one(1, 2, 3), m.one(500, 5000, 60_000))
    x, y = m.floats(*shape), m.floats(*shape[1:], positive=True)
    results = []
    for _ in range(m.random.randint(2, 7)):
        x = _function(m, x, y)
        results += [x] if m.chance(0.2) else []
    return [*results, x]


def _function(m: Maker, x: Tensor, y: Tensor) -> Tensor:
    """A function of the elements of ``x``, and mostly of those of ``y``, which are positive."""
    made: Tensor = m.any_of(
        lambda: x + y, lambda: x * y, lambda: x / y, lambda: x - 0.5, lambda: x.abs().sqrt(),
        lambda: x.exp().clamp(max=50), lambda: lazyt.where(x > 0, x, y), lambda: x.sin(),
        lambda: x.clamp(-2, 2), lambda: lazyt.maximum(x, y), lambda: x.erf(),
        lambda: (x * x + 1).log(), lambda: x.atan(), lambda: lazyt.lerp(x, y.to(x.dtype), 0.25),
        lambda: x.to(m.one(lazyt.float32, lazyt.float16, lazyt.bfloat16)), lambda: x.neg(),
        lambda: m.activated(x), lambda: (x * x).add(y, alpha=0.5), lambda: x.floor() + y,
        lambda: lazyt.addcmul(x, x, y, value=0.5),
    )  # fmt: skip
    return made


def much(m: Maker) -> Results:
    """Results so large that they go past the caches."""
    count = m.one(2_800_000, 2_900_003)
    m.dtype, m.gradient = lazyt.float32, False
    shape = (count,) if m.chance(0.5) else (count // 1000, 1000)
    x, y = m.floats(*shape), m.floats(*shape)
    return [x * 2 + y, x - y] if m.chance(0.7) else [(x + y).softmax(-1), x + 1]


def whole_numbers(m: Maker) -> Results:
    """Arithmetic of whole numbers and of their bits."""
    shape, kind = m.extents(m.one(1, 2), 5000), m.one(*WHOLE)
    low = 0 if kind == "uint8" else -100
    x = m.whole(*shape, low=low, dtype=kind)
    y = m.whole(*shape, low=1, high=9, dtype=kind)
    m.gradient = False
    made = m.any_of(
        lambda: (x // y, x % y), lambda: (x & y, x | y), lambda: (x ^ y, ~x),
        lambda: (x << 1, x >> 1),
        lambda: (x * y, x - y), lambda: (x.clamp(2, 50), lazyt.maximum(x, y)),
        lambda: (x.to(getattr(lazyt, m.one(*WHOLE))), x.float() / 3),
        lambda: ((x > y).sum(), x == y),
        lambda: (lazyt.where(x > y, x, y), x.abs()), lambda: (lazyt.gcd(x, y), x.sign()),
        lambda: (lazyt.div(x, y, rounding_mode="trunc"), lazyt.fmod(x, y)),
    )  # fmt: skip
    return list(made)


def folded(m: Maker) -> Results:
    """Sums, extremes and moments along some axes."""
    shape = m.extents(m.one(1, 2, 3), m.one(3000, 60_000, 200_000))
    x = m.floats(*shape)
    axes = sorted(m.random.sample(range(len(shape)), m.random.randint(1, len(shape))))
    keep = m.chance(0.4)
    return [
        m.any_of(
            lambda: x.sum(axes, keepdim=keep), lambda: x.mean(axes, keepdim=keep),
            lambda: x.amax(axes, keepdim=keep), lambda: x.amin(axes),
            lambda: x.var(axes, correction=0), lambda: x - x.mean(axes, keepdim=True),
            lambda: (x * x).sum(axes).sqrt(), lambda: x.norm(dim=axes[0]),
            lambda: x.sum(axes, dtype=lazyt.float64), lambda: x.max(axes[-1])[0],
            lambda: (x > 0).any(axes[0]), lambda: x.argmax(axes[-1]), lambda: x.argmin(axes[-1]),
            lambda: (x * 0.1 + 1).prod(axes[-1]), lambda: lazyt.std_mean(x, axes)[0],
        )
    ]  # fmt: skip


def running(m: Maker) -> Results:
    """Sums and extremes up to each element."""
    x = m.floats(*m.extents(m.one(1, 2), 6000))
    axis = m.random.randrange(x.dim())
    made: Results = m.any_of(
        lambda: [x.cumsum(axis)], lambda: [(x * 0.1 + 1).cumprod(axis)],
        lambda: list(x.cummax(axis)), lambda: [x.logcumsumexp(axis)],
        lambda: [lazyt.flip(lazyt.flip(x, [axis]).cumsum(axis), [axis])],
        lambda: [m.whole(*x.shape).cumsum(axis)],
    )  # fmt: skip
    return made


def ordered(m: Maker) -> Results:
    """Rows in order, and the largest elements."""
    rows, width = m.extents(2, 6000)
    x = m.floats(rows, width) if m.chance(0.7) else m.whole(rows, width, high=30)
    down = m.chance(0.5)
    k = m.random.randint(1, width)
    made: Results = m.any_of(
        lambda: list(x.sort(-1, descending=down)), lambda: list(x.topk(k, largest=down)),
        lambda: [x.argsort(-1, stable=True)], lambda: [x.argmax(-1), x.amax(0)],
        lambda: list(x.sort(0)), lambda: list(x.median(-1)), lambda: list(x.kthvalue(k)),
        lambda: [lazyt.searchsorted(x.sort(-1)[0].detach(), x.detach())],
    )  # fmt: skip
    return made


# ----------------------------------------------------------- places of elements


def embedded(m: Maker) -> Results:
    """Rows of a table, picked and used."""
    words, width = m.extents(2, 20_000)
    tokens = m.whole(m.extent(33), m.extent(17), high=words)
    table = m.floats(words, width)
    if m.chance(0.3):
        return [F.embedding_bag(tokens, table, mode=m.one("sum", "mean"))]
    made = F.embedding(tokens, table)
    if m.chance(0.5):
        made = F.layer_norm(made + m.floats(tokens.shape[1], width), (width,))
    return [made]


def picked(m: Maker) -> Results:
    """Elements read by index."""
    rows, width = m.extents(2, 8000, 2)
    x, count = m.floats(rows, width), m.extent(48)
    row_index, column_index = m.whole(count, high=rows), m.whole(count, high=width)
    made = m.any_of(
        lambda: x[row_index], lambda: x[:, column_index], lambda: x[row_index, column_index],
        lambda: x.index_select(1, column_index), lambda: x.gather(0, m.whole(3, width, high=rows)),
        lambda: x.gather(1, m.whole(rows, 5, high=width)), lambda: x[m.order(rows)],
        lambda: x.take_along_dim(m.whole(rows, 4, high=width), 1),
        lambda: x[m.whole(count, low=-rows, high=rows)] * 2,
        lambda: x.take(m.whole(count, high=rows * width)),
    )  # fmt: skip
    return [made, made.sum() if made.dtype is not lazyt.bool else made]


def placed(m: Maker) -> Results:
    """Elements written, or added up, by index."""
    rows, width = m.extents(2, 8000, 2)
    x, count = m.floats(rows, width), m.extent(97)
    index, other = m.whole(count, high=rows), m.floats(count, width)
    cells = (m.whole(count, high=rows), m.whole(count, high=width))
    order = m.order(rows)
    wide = m.whole(count, width, high=rows)
    made = m.any_of(
        lambda: x.index_add(0, index, other), lambda: x.scatter_add(0, wide, other),
        lambda: x.index_put(cells, other[:, 0], accumulate=True),
        lambda: x.index_copy(0, order, m.floats(rows, width)),
        lambda: x.scatter(0, m.order(rows, width), m.floats(rows, width)),
        lambda: x.scatter_reduce(0, wide, other, reduce=m.one("amax", "amin", "sum", "mean")),
        lambda: lazyt.bincount(index, minlength=rows) + x.sum(1).detach(),
        lambda: F.one_hot(index, rows).sum(0) * x[:, 0], lambda: x.index_fill(0, index, 0.5),
    )  # fmt: skip
    return [made]


def moved(m: Maker) -> Results:
    """Axes in another order, parts of tensors and tensors side by side."""
    a, b, c = m.extents(3, 20_000)
    x, y = m.floats(a, b, c), m.floats(a, b, c)
    made = m.any_of(
        lambda: lazyt.cat([x, y * 2], m.one(0, 1, 2)), lambda: lazyt.stack([x, y], 1) + 1,
        lambda: x.permute(2, 0, 1).reshape(c * a, b) + 1, lambda: x.flip(0, 2) * y,
        lambda: x.roll(1, m.one(0, 1, 2)) + y, lambda: x[::2, :, : (c + 1) // 2] * 3,
        lambda: x.transpose(0, 2).contiguous(), lambda: x.repeat(1, 2, 1) - 1,
        lambda: x.tril() + y.triu(), lambda: lazyt.cat([x[:, :1], y[:, 1:]], 1).tanh(),
        lambda: x.expand(2, a, b, c).sum(0), lambda: x.unfold(2, min(3, c), 1).mean(-1),
        lambda: x.diagonal(dim1=0, dim2=2) * 2, lambda: x.repeat_interleave(2, 1),
    )  # fmt: skip
    return [made]


def shifted(m: Maker) -> Results:
    """Parts of rows that begin inside a vector and are whole vectors long: the next token, halves
    of heads that are rotated, a bias next to its weights."""
    rows, width, first = m.extent(9), 4 * m.extent(17), m.one(1, 2, 3, 5)
    x = m.floats(rows, width + m.one(first, 8))
    part = x[:, first : first + width]
    y = m.floats(rows, width)
    made = m.any_of(
        lambda: part * part, lambda: part - x[:, :width], lambda: (part * y).exp(),
        lambda: lazyt.where(y > 0, part, -part), lambda: x.flatten()[first : first + width] + y[0],
        lambda: lazyt.cat([y, part], 1) * 2,
    )  # fmt: skip
    return [made]


def written(m: Maker) -> Results:
    """Writes into a tensor, some through views."""
    rows, width = m.extents(2, 10_000, 2)
    x, y = m.floats(rows, width, grad=False) * 1, m.floats(rows, width)
    x[::2] = y[: (rows + 1) // 2]
    x[:, 1:].mul_(0.5)
    x[0].copy_(y[-1])
    if m.chance(0.5):
        x.masked_fill_(y.detach() > 1, 0.0)
    return [x, x.sum(0)]


# ------------------------------------------------------------ steps of training


def cell(m: Maker) -> Results:
    """Some steps of a recurrent network."""
    rows, width, hidden = m.extents(3, MACS // 24)
    h, c = m.floats(rows, hidden), m.floats(rows, hidden)
    gates = m.one(3, 4)
    weights = (m.floats(gates * hidden, width), m.floats(gates * hidden, hidden))
    biases = (m.floats(gates * hidden), m.floats(gates * hidden))
    for _ in range(m.one(1, 2, 3)):
        x = m.floats(rows, width)
        if gates == 4:
            h, c = lazyt.lstm_cell(x, (h, c), *weights, *biases)
        else:
            h = lazyt.gru_cell(x, h, *weights, *biases)
    return [h, c * 2]


def step(m: Maker) -> Results:
    """Steps of an optimizer on a layer, the gradient included."""
    rows, width, classes = m.extents(3, MACS // 4)
    m.gradient = False
    m.dtype = m.one(lazyt.float32, lazyt.float32, lazyt.float64)
    weight, bias = m.floats(classes, width), m.floats(classes)
    both = [weight.requires_grad_(), bias.requires_grad_()]
    x, y = m.floats(rows, width), m.floats(rows, classes)
    optimizer: Any = m.any_of(
        lambda: lazyt.optim.Adam(both, lr=0.01),
        lambda: lazyt.optim.SGD(both, lr=0.1, momentum=0.9),
        lambda: lazyt.optim.AdamW(both, lr=0.01), lambda: lazyt.optim.RMSprop(both, lr=0.01),
        lambda: lazyt.optim.SGD(both, lr=0.1), lambda: lazyt.optim.Adagrad(both, lr=0.01),
    )  # fmt: skip
    for _ in range(m.one(1, 1, 2)):
        optimizer.zero_grad()
        loss = F.mse_loss(F.linear(x, weight, bias).tanh(), y)
        loss.backward()
        optimizer.step()
    return [weight.detach(), bias.detach(), loss.detach()]


def drawn(m: Maker) -> Results:
    """Random numbers, and a dropout of them."""
    shape = m.extents(m.one(1, 2), 10_000)
    made: dict[str, Any] = {"generator": m.generator}
    x = m.floats(*shape)
    keep = (lazyt.rand(*shape, **made) < 0.8).to(x.dtype)
    other = m.any_of(
        lambda: lazyt.randn(*shape, **made), lambda: lazyt.rand(*shape, **made) * 2 - 1,
        lambda: lazyt.randint(0, 10, shape, **made), lambda: lazyt.rand(*shape, **made) < 0.3,
        lambda: lazyt.empty(*shape).exponential_(**made), lambda: lazyt.randperm(shape[0], **made),
    )  # fmt: skip
    return [x * keep / 0.8, other]


MOTIFS: tuple[Callable[[Maker], Results], ...] = (
    linear, linear, product, product, blocked_product, large_product, long_product, whole_product,
    whole_product, summed, distances, convolution, convolution, convolution, convolution, pooled,
    windows, padded, resized, sampled, normalized, normalized, lost, attention, attention, elements,
    elements, much, whole_numbers, folded, folded, running, ordered, embedded, picked, placed,
    moved, shifted, written, cell, step, drawn,
)  # fmt: skip


#: Those that are products, which have more forms of kernels than all others.
PRODUCTS = (linear, product, blocked_product, blocked_product, large_product, long_product,
            whole_product, summed)  # fmt: skip


def motif(seed: int, pieces: Sequence[Callable[[Maker], Results]] = MOTIFS) -> list[Node]:
    """The graph of a random piece of a real program, whose leaves have data: nothing is computed.

    The roots are the piece's results, of any shapes and dtypes, and for about half of the seeds
    gradients of a sum of them. One seed gives the same text of a graph, and data, always.

    >>> from lazyt.ir.printer import print_graph
    >>> print_graph(motif(11)) == print_graph(motif(11))
    True
    """
    with _lazily():
        m = Maker(seed)
        results = list(m.one(*pieces)(m))
        smooth = [r for r in results if r.requires_grad]
        if m.leaves and smooth:
            loss = smooth[0].float().sum() * 0
            for result in smooth:
                weight = m.floats(*result.shape, grad=False, dtype=result.dtype)
                loss = loss + (result * weight).float().sum()
            found = lazyt.autograd.grad(loss, m.leaves, allow_unused=True)
            results += [loss, *(g for g in found if g is not None)]
        return list(dict.fromkeys(unwrap(r.detach()) for r in results))


@contextlib.contextmanager
def _lazily() -> Iterator[None]:
    """Settings under which a look at a value is an error, and graphs have any size."""
    with lazyt.config.override(
        strict_laziness=True, eager=False, max_pending_nodes=10**9, max_pending_bytes=1 << 50
    ):
        yield
