"""Launches that run band by band: the same bits as apart, without what they hand on in memory."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F
from lazyt.codegen.c.band_scratch import idle_tiles, in_place
from lazyt.codegen.c.bands import ends_of_sums
from lazyt.codegen.lower.groups import lower_group
from lazyt.compiler import group_graph
from lazyt.handle.tensor import Tensor
from lazyt.ir.group import Group
from lazyt.ir.kernel import ContractPhase
from lazyt.ir.parser import parse_kernels
from lazyt.passes import bands
from lazyt.plan import dynamic_shapes, planning
from lazyt.runtime.memory import pool
from tests.end_to_end.band_cases import bits_of, check_band, drawn, groups_of, small_cache  # noqa: F401

pytestmark = pytest.mark.lazy  # bands are what becomes of whole graphs

_KINDS = ["plain", "additive", "boolean", "causal"]
_CASES = [((2, 3, 37, 53, 11), kind) for kind in _KINDS]
_CASES += [((1, 2, 101, 64, 16), "causal"), ((1, 1, 16, 17, 8), "plain")]


@pytest.mark.parametrize(("size", "kind"), _CASES, ids=str)
def test_attention_is_one_launch_with_the_same_bits(
    size: tuple[int, int, int, int, int], kind: str
) -> None:
    b, h, rows, keys, d = size
    q, k, v = drawn(b, h, rows, d), drawn(b, h, keys, d), drawn(b, h, keys, d)
    masks = {"additive": drawn(b, 1, rows, keys), "boolean": (drawn(rows, keys) > 0).realize()}
    band = check_band(
        lambda: F.scaled_dot_product_attention(
            q, k, v, attn_mask=masks.get(kind), is_causal=kind == "causal"
        ),
        stages=3,
    )
    assert [n.shape for n in band.stored] == [(b, h, rows, d)]


@pytest.mark.parametrize("dtype", [lazyt.float64, lazyt.bfloat16, lazyt.float16], ids=str)
def test_other_types_have_the_same_bits(dtype: lazyt.dtype) -> None:
    q, k, v = (drawn(2, 2, 45, 16, dtype=dtype) for _ in range(3))
    check_band(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), stages=3)


def test_what_others_read_is_stored_as_well() -> None:
    q, k, v = drawn(2, 40, 24), drawn(2, 33, 24), drawn(2, 33, 8)

    def build() -> tuple[Tensor, Tensor]:
        weights = (q @ k.mT / math.sqrt(24)).softmax(-1)
        return weights @ v, weights

    band = check_band(build, stages=3)
    assert [n.shape for n in band.stored] == [(2, 40, 33), (2, 40, 8)]


def test_rows_may_be_axes_of_the_right_operand() -> None:
    q, k, v = drawn(2, 40, 24), drawn(2, 33, 24), drawn(2, 33, 24)
    band = check_band(lambda: v.mT @ (q @ k.mT).softmax(-1).mT, stages=3)
    assert [stage.exchanged for stage in band.stages] == [False, False, True]


@pytest.mark.parametrize("act", ["softmax", "logsumexp", "gelu"])
def test_layers_without_their_activations_in_memory(act: str) -> None:
    x, first, bias, second = (drawn(*s) for s in ((67, 24), (90, 24), (90,), (20, 90)))

    def build() -> Tensor:
        hidden = F.linear(x, first, bias)
        if act == "softmax":
            return F.gelu(hidden).softmax(-1)
        if act == "logsumexp":
            return lazyt.logsumexp(lazyt.sigmoid(hidden), -1)
        return F.linear(F.gelu(hidden), second)

    check_band(build, stages=2)


def test_reasons_are_told() -> None:
    q, k, v = (drawn(2, 45, 24) for _ in range(3))
    result = F.scaled_dot_product_attention(q, k, v)
    assert "a band: 3 launches run as one" in str(lazyt.explain(result))
    assert group_graph([result.node], cache=1 << 20)[1][0].reasons[-1] == (
        "not one launch with what reads its rows: 32760 bytes stay in cache anyway"
    )


def test_what_another_row_reads_is_stored_first() -> None:
    """A sum over the rows of a softmax waits for all of them."""
    x, w = drawn(67, 24), drawn(90, 24)

    def build() -> Tensor:
        weights = F.linear(x, w).softmax(-1)
        return weights - weights.mean(0)

    band = check_band(build, stages=2)
    assert [n.shape for n in band.stored] == [(67, 90), (67, 1)]
    assert len(groups_of(build())) > 1


def test_a_score_that_is_read_once_more_is_not_written_over() -> None:
    q, k, v = drawn(2, 40, 24), drawn(2, 33, 24), drawn(2, 33, 8)

    def build() -> tuple[Tensor, ...]:
        scores = q @ k.mT
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        return weights @ v, (scores * weights).amax(-1), weights.sum(-1)

    check_band(build, stages=3)


_OVER = """
kernel k(in x: float32[4, 32], out y: float32[4], band a: float32[4, 32], band b: float32[4, 32],
         band c: float32[4, 32], band d: float32[4, 32]) bands (1, 4) {{
  phase (i: 4) lanes inner work 32.0 {{
    for j: 32 {{
      store a[i, j] = x[i, j]
    }}
  }}
  phase (i: 4) lanes inner work 32.0 {{
    for j: 32 {{
      store b[i, j] = exp(a[i, j])
      reduce r: float32 = sum {late}[i, j]
    }}
    once {{
      store y[i] = %r
    }}
  }}
  phase (i: 4) lanes inner work 32.0 {{
    for j: 32 {{
      let v = b[i, j]
      store c[i, j] = exp(%v)
      store d[i, j] = sin(%v)
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("late", "found"), [("x", {"b": "a", "c": "a"}), ("a", {"c": "b"})], ids=["early", "late"]
)
def test_scratch_is_taken_over_once_and_not_before_it_is_read(
    late: str, found: dict[str, str]
) -> None:
    (kernel,) = parse_kernels(_OVER.format(late=late))
    assert in_place(kernel) == found


def test_a_chain_that_saves_nothing_is_left_alone() -> None:
    """Cotangents of layers are needed for the weights' gradients: they are stored anyway."""
    layers = [drawn(24, 24).requires_grad_() for _ in range(4)]
    hidden = drawn(200, 24)
    for weight in layers:
        hidden = F.linear(hidden, weight).tanh()
    gradients = lazyt.autograd.grad(hidden.square().sum(), layers)
    found = groups_of(*(g for g in gradients if g is not None))
    assert all(g.kind != "band" for g in found)


@pytest.mark.parametrize("value", [math.inf, math.nan, -1e-30])
def test_left_out_blocks_leave_no_trace(value: float) -> None:
    """Weights that a mask makes zero meet infinities, and sums that underflowed to -0."""
    row = lazyt.arange(120)
    q, k, v = (drawn(1, 2, 120, 8) for _ in range(3))
    if math.isfinite(value):
        q, k = q * 30, k * 30
        v = lazyt.where(row[:, None] < 60, lazyt.full((120, 8), value), v) * 1e-10
    else:
        v = lazyt.where(row[:, None] == 100, lazyt.full((120, 8), value), v)
    window = ((row[:, None] >= row) & (row[:, None] - row < 30)).realize()
    lazyt.realize(q, k, v)

    def masked(mask: Tensor) -> Tensor:
        scores = (q @ k.mT).masked_fill(mask, -math.inf)
        return lazyt.matmul(scores.softmax(-1), v)

    check_band(lambda: masked(row < 60), stages=3)
    check_band(lambda: masked(row >= 60), stages=3)
    check_band(lambda: masked(~window), stages=3)
    check_band(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), stages=3)


def test_tiles_that_a_mask_hides_are_left_out() -> None:
    q, k, v = (drawn(1, 2, 120, 8) for _ in range(3))
    rows = lazyt.arange(120)
    hidden = (rows[:, None] < rows) | (rows[:, None] - rows >= 40)
    for result, tests in (
        (F.scaled_dot_product_attention(q, k, v, is_causal=True), 1),
        ((q @ k.mT).masked_fill(hidden, -math.inf).softmax(-1) @ v, 2),
        (F.scaled_dot_product_attention(q, k, v), 0),
    ):
        (group,) = groups_of(result)
        phases = lower_group(group, 16).kernel.phases
        first = phases[0]
        assert isinstance(first, ContractPhase)
        assert len(idle_tiles(first)) == tests


def _ends(groups: list[Group]) -> list[tuple[int, int]]:
    """Where ends of rows begin that a band's first contraction leaves."""
    (band,) = [g for g in groups if g.stages]
    kernel = lower_group(band, 16).kernel
    first = kernel.phases[0]
    assert isinstance(first, ContractPhase)
    return [*ends_of_sums(first, {b.name: b for b in kernel.buffers}).values()]


@pytest.mark.parametrize("value", [-math.inf, -1e9, 3.0, math.inf, math.nan])
@pytest.mark.parametrize("shift", [-40, 0, 35])
def test_ends_of_rows_that_hold_one_value(value: float, shift: int) -> None:
    """What a mask leaves at the end of a row is computed once, if no fold can tell; rows that are
    hidden as a whole, and a value that counts, come out as in separate launches."""
    q, k, v = (drawn(2, 150, 8) for _ in range(3))
    row = lazyt.arange(150)

    def build() -> tuple[Tensor, Tensor, Tensor]:
        scores = (q @ k.mT).masked_fill(row[:, None] + shift < row, value)
        weights = scores.softmax(-1)
        return weights @ v, weights, scores.logsumexp(-1)

    assert _ends(groups_of(*build())) == [(1, shift + 1)]
    check_band(build, stages=3)


def test_rows_that_end_with_different_values_have_no_end() -> None:
    q, k = drawn(64, 8), drawn(70, 8)
    row, column = lazyt.arange(64), lazyt.arange(70)
    scores = lazyt.where(row[:, None] >= column, q @ k.mT, column.float()).softmax(-1)
    assert _ends(groups_of(scores @ drawn(70, 8))) == []


@pytest.mark.parametrize("least", [0, 1 << 28])
def test_a_few_sizes_have_bands_of_their_own(monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    """Kernels that take sizes as arguments have none: a fourth size gets those, or the second where
    whole scores are not large."""
    monkeypatch.setattr(dynamic_shapes, "_LARGE", least)
    banded = []
    planning.clear()
    for rows in (40, 44, 48, 52):
        q, k, v = (drawn(2, rows, 11) for _ in range(3))
        result = F.scaled_dot_product_attention(q, k, v)
        # Plans that are found on disk count for no family.
        with lazyt.config.override(any_size=True, disk_cache=False):
            banded.append("a band: 3 launches run as one" in str(lazyt.explain(result)))
    assert banded == ([True] * 3 + [False] if least == 0 else [True] + [False] * 3)


def test_scores_are_never_whole() -> None:
    """The plan's memory holds some rows of scores only, and its prediction knows it."""
    q, k, v = (drawn(2, 200, 8) for _ in range(3))
    result = F.scaled_dot_product_attention(q, k, v)
    scores = 2 * 200 * 200 * 4
    with lazyt.config.override(bands=False):
        assert lazyt.explain(result).arena_bytes > scores
    plan = lazyt.explain(result)
    assert plan.arena_bytes < scores and plan.footprint is not None
    before = pool.in_use
    pool.reset_peak()
    result.realize()
    assert pool.peak - before == plan.footprint.results + plan.footprint.between


@pytest.mark.parametrize("seed", range(6))
def test_random_chains_have_the_same_bits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever can be a band is one, however small."""
    for name in ("LEAST_ROWS", "LEAST_COLUMNS", "LEAST_INNER"):
        monkeypatch.setattr(bands, name, 1)
    monkeypatch.setattr(bands._Search, "_too_dear", lambda self, band: "")
    draw = random.Random(seed)
    points, rows = draw.randint(1, 3), draw.randint(12, 19)
    first = drawn(points, rows, width := draw.randint(1, 9))
    steps: list[tuple[str, list[Tensor]]] = []
    for kind in draw.choices(("linear", "batch", "relu", "softmax", "square", "scaled"), k=6):
        new = draw.randint(1, 13) if kind in ("linear", "batch", "relu") else width
        shape = (points, width, new) if kind == "batch" else (width, new)
        steps.append((kind, [drawn(*shape), drawn(rows, new)]))
        width = new
    chosen = draw.randrange(6)

    def build() -> tuple[Tensor, ...]:
        found = [first]
        for kind, (weight, bias) in steps:
            last = found[-1]
            made: dict[str, Callable[[Any, Any, Any], Any]] = {
                "linear": lambda x, w, b: x @ w,
                "batch": lambda x, w, b: x @ w,
                "relu": lambda x, w, b: F.relu(x @ w) + b,
                "softmax": lambda x, w, b: x.softmax(-1),
                "square": lambda x, w, b: x @ x.mT @ x,
                "scaled": lambda x, w, b: x * x.amax(-1, keepdim=True),
            }
            found.append(made[kind](last, weight, bias))
        return found[-1], found[1 + chosen] * 1

    assert any(group.kind == "band" for group in groups_of(*build()))
    with lazyt.config.override(bands=False):
        apart = bits_of(build)
    assert bits_of(build) == apart


def test_heads_side_by_side_leave_a_band_its_axes() -> None:
    """A product with heads put together divides axes that the rows of a band are told from."""
    lazyt.manual_seed(0)
    layer = lazyt.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    x = drawn(4, 404, 64)
    found = layer(x).detach().tolist()
    with lazyt.config.override(eager=True):
        alone = layer(x).detach().tolist()
    assert found == alone
