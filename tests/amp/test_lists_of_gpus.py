"""Autocast on GPUs, function by function: which dtype PyTorch's documentation says comes out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
import lazyt.nn.functional as F
from lazyt import nn
from lazyt.functional.nn import native_forms
from lazyt.handle import function_table
from lazyt.runtime.cuda import device

pytestmark = [
    pytest.mark.lazy,
    pytest.mark.skipif(
        not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler"
    ),
]

PLACE = "cuda:emu"
half, bf16, f32, f64 = lt.float16, lt.bfloat16, lt.float32, lt.float64
Make = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def _gpu() -> None:
    """The emulator is enough, once it is used."""
    lt.ones(1, device=PLACE)


def test_autocast_waits_for_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU it is off, until the emulator is used: also what was made before."""
    monkeypatch.setattr(device, "_devices", {})
    with pytest.warns(UserWarning, match="Disabling autocast"):
        early = lt.autocast("cuda", dtype=bf16)
    with early:
        assert not lt.is_autocast_enabled("cuda") and (lt.ones(2, 2) @ lt.ones(2, 2)).dtype is f32
    x = t(2, 2)
    with early:
        assert lt.is_autocast_enabled("cuda") and (x @ x).dtype is bf16
    with lt.autocast("cuda"):
        assert (x @ x).dtype is half
    with lt.autocast("cuda", enabled=False):
        assert (x @ x).dtype is f32


def t(*shape: int, dtype: Any = f32) -> Any:
    return lt.full(shape, 0.5, dtype=dtype, device=PLACE)


def whole(*values: int) -> Any:
    return lt.tensor(values, device=PLACE)


#: Functions of one tensor [2, 3] in another dtype, by what the documentation says.
LOW_CALLS: dict[str, Make] = {
    "__matmul__": lambda x: x @ x.T, "addbmm": lambda x: lt.addbmm(x @ x.T, x[None], x.T[None]),
    "addmm": lambda x: lt.addmm(t(2, 2), x, x.T), "addmv": lambda x: lt.addmv(t(2), x, t(3)),
    "addr": lambda x: lt.addr(t(2, 3), x[:, 0], x[0]),
    "baddbmm": lambda x: lt.baddbmm(t(1, 2, 2), x[None], x.T[None]),
    "bmm": lambda x: lt.bmm(x[None], x.T[None]), "chain_matmul": lambda x: lt.chain_matmul(x, x.T),
    "multi_dot": lambda x: lt.linalg.multi_dot([x, x.T]), "matmul": lambda x: lt.matmul(x, x.T),
    "conv1d": lambda x: F.conv1d(x[None], t(4, 2, 2)),
    "conv2d": lambda x: F.conv2d(x[None, None], t(1, 1, 2, 2)),
    "conv3d": lambda x: F.conv3d(x[None, None, None], t(1, 1, 1, 2, 2)),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x[None], t(2, 4, 2)),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x[None, None], t(1, 1, 2, 2)),
    "conv_transpose3d": lambda x: F.conv_transpose3d(x[None, None, None], t(1, 1, 1, 2, 2)),
    "einsum": lambda x: lt.einsum("ij,kj->ik", x, x), "linear": lambda x: F.linear(x, t(4, 3)),
    "mm": lambda x: x.mm(x.T), "mv": lambda x: x.mv(t(3)), "prelu": lambda x: F.prelu(x, t(1)),
    "vecdot": lambda x: lt.linalg.vecdot(x, x),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "LSTMCell": lambda x: nn.LSTMCell(3, 4).to(PLACE)(x)[0],
    "GRUCell": lambda x: nn.GRUCell(3, 4).to(PLACE)(x),
    "RNNCell": lambda x: nn.RNNCell(3, 4).to(PLACE)(x),
}  # fmt: skip
ONE = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2",
    "reciprocal", "rsqrt", "sinh", "tan", "arccos", "arcsin", "prod", "norm", "sum",
)  # fmt: skip
FULL_CALLS: dict[str, Make] = {
    "__pow__": lambda x: x**2, "__pow__ of tensors": lambda x: x**x, "__rpow__": lambda x: 2**x,
    "__rdiv__": lambda x: x.__rdiv__(2), "__rtruediv__": lambda x: 2 / x,
    **{name: getattr(lt, name) for name in ONE},
    "dist": lambda x: lt.dist(x, x), "pow": lambda x: lt.pow(x, 3), "method": lambda x: x.exp(),
    "method of sums": lambda x: x.sum(0), "softplus": F.softplus,
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x),
    "cosine_embedding_loss": lambda x: F.cosine_embedding_loss(x, x, whole(1, -1)),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x), "cdist": lambda x: lt.cdist(x, x),
    "cross_entropy": lambda x: F.cross_entropy(x, whole(0, 1)),
    "cumprod": lambda x: x.cumprod(0), "cumsum": lambda x: x.cumsum(0),
    "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(x, x, x),
    "group_norm": lambda x: F.group_norm(x, 1),
    "hinge_embedding_loss": lambda x: F.hinge_embedding_loss(x, x),
    "huber_loss": lambda x: F.huber_loss(x, x), "kl_div": lambda x: F.kl_div(x, x, reduction="sum"),
    "l1_loss": lambda x: F.l1_loss(x, x), "layer_norm": lambda x: F.layer_norm(x, (3,)),
    "LayerNorm": lambda x: nn.LayerNorm(3).to(PLACE)(x), "rms_norm": lambda x: F.rms_norm(x, (3,)),
    "local_response_norm": lambda x: F.local_response_norm(x[None], 2),
    "log_softmax": lambda x: F.log_softmax(x, -1), "softmax": lambda x: x.softmax(-1),
    "Softmax": lambda x: nn.Softmax(-1)(x), "softmin": lambda x: F.softmin(x, -1),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x), "logsumexp": lambda x: x.logsumexp(-1),
    "margin_ranking_loss": lambda x: F.margin_ranking_loss(x, x, x),
    "mse_loss": lambda x: F.mse_loss(x, x), "MSELoss": lambda x: nn.MSELoss()(x, x),
    "multilabel_margin_loss": lambda x: F.multilabel_margin_loss(x[0], whole(0, -1, 1)),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, whole(0, 1)),
    "nll_loss": lambda x: F.nll_loss(x, whole(0, 1)), "normalize": F.normalize,
    "pairwise_distance": lambda x: F.pairwise_distance(x, x), "pdist": lambda x: F.pdist(x),
    "poisson_nll_loss": lambda x: F.poisson_nll_loss(x, x),
    "renorm": lambda x: lt.renorm(x, 2, 0, 1.0), "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x),
    "soft_margin_loss": lambda x: F.soft_margin_loss(x, x),
    "triplet_margin_loss": lambda x: F.triplet_margin_loss(x, x, x),
    "vector_norm": lambda x: lt.linalg.vector_norm(x),
    "matrix_norm": lambda x: lt.linalg.matrix_norm(x), "linalg.norm": lambda x: lt.linalg.norm(x),
    "interpolate": lambda x: F.interpolate(x[None], scale_factor=2),
    "bilinear": lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
    "Upsample": lambda x: nn.Upsample(scale_factor=2)(x[None]),
    "special.softmax": lambda x: lt.special.softmax(x, -1),
}  # fmt: skip
#: Of a low tensor and one that is to be widened.
WIDEST_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "addcdiv": lambda x, y: lt.addcdiv(x, y, y), "addcmul": lambda x, y: x.addcmul(y, x),
    "atan2": lambda x, y: lt.atan2(x, y), "bilinear": lambda x, y: F.bilinear(x, y, t(4, 3, 3)),
    "cross": lambda x, y: lt.linalg.cross(x, y), "dot": lambda x, y: lt.dot(x[0], y[0]),
    "vdot": lambda x, y: lt.vdot(x[0], y[0]),
    "grid_sample": lambda x, y: F.grid_sample(
        x[None, None], y[None, :, None, :2].expand(1, 2, 1, 2), align_corners=False
    ),
    "index_put": lambda x, y: x.index_put((whole(0, 1), whole(1, 1)), y[:, 0]),
    "scatter_add": lambda x, y: x.scatter_add(0, whole(0, 1, 1)[None], y[:1]),
    "tensordot": lambda x, y: lt.tensordot(x, y.T, 1),
}  # fmt: skip
AS_GIVEN: dict[str, Make] = {
    "relu": F.relu, "gelu": F.gelu, "sigmoid": lt.sigmoid, "tanh": lt.tanh, "mean": lt.mean,
    "var": lt.var, "sqrt": lt.sqrt, "add": lambda x: x + x, "div": lambda x: x / 2,
    "max": lambda x: x.max(), "exp2": lt.exp2, "sin": lt.sin, "trace": lt.trace,
    "avg_pool3d": lambda x: F.avg_pool3d(x[None, None], 1), "silu": F.silu,
    "dropout": lambda x: F.dropout(x, 0.5), "in place": lambda x: x.clone().exp_(),
    "area": lambda x: F.interpolate(x[None], scale_factor=2, mode="area"),
    "quantile": lambda x: x.abs(), "dtype": lambda x: x.sum(dtype=half),
    "softmax to": lambda x: x.softmax(-1, half),
    "out": lambda x: lt.exp(x, out=t(2, 3, dtype=half)),
}  # fmt: skip


#: Where a function is tried, by the ``cast`` that it is declared with.
_LIST_OF = {
    "low": "LOW_CALLS", "full": "FULL_CALLS (ONE, if it takes one tensor)",
    "full_by_default": "FULL_CALLS", "widest": "WIDEST_CALLS", "unsafe": "`unsafe`",
}  # fmt: skip


def under(dtype: Any, function: Callable[..., Any], *args: Any) -> Any:
    with lt.autocast("cuda", dtype=dtype):
        return function(*args).dtype


@pytest.mark.parametrize("name", LOW_CALLS)
def test_in_low_precision(name: str) -> None:
    call = LOW_CALLS[name]
    assert under(half, call, t(2, 3)) is half and under(bf16, call, t(2, 3)) is bf16


@pytest.mark.parametrize("name", FULL_CALLS)
def test_in_float32(name: str) -> None:
    call = FULL_CALLS[name]
    assert under(half, call, t(2, 3, dtype=half)) is f32
    assert under(bf16, call, t(2, 3, dtype=bf16)) is f32
    assert under(half, call, t(2, 3)) is f32


@pytest.mark.parametrize("name", WIDEST_CALLS)
def test_in_the_widest(name: str) -> None:
    call = WIDEST_CALLS[name]
    low = t(2, 3, dtype=half)
    assert under(half, call, low, t(2, 3)) is f32 and under(half, call, t(2, 3), low) is f32
    if name != "bilinear":  # whose weight is wide
        assert under(half, call, low, low) is half


@pytest.mark.parametrize("name", AS_GIVEN)
def test_as_given(name: str) -> None:
    assert under(half, AS_GIVEN[name], t(2, 3, dtype=half)) is half


def test_what_is_on_no_list_and_what_is_not_cast() -> None:
    with lt.autocast("cuda"):
        assert (t(2, 2, dtype=f64) @ t(2, 2, dtype=f64)).dtype is f64
        assert t(2, dtype=f64).exp().dtype is f64 and whole(1, 2).sum().dtype is lt.int64
        assert lt.ones(2, dtype=half).exp().dtype is half  # on the CPU
        assert (lt.ones(2, 2) @ lt.ones(2, 2)).dtype is f32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(t(2), t(2))
        with lt.autocast("cuda", enabled=False):
            assert t(2, dtype=half).exp().dtype is half
    assert t(2, dtype=half).exp().dtype is half
    with lt.autocast("cpu"):
        assert t(2, dtype=half).exp().dtype is half and F.mse_loss(t(2), t(2)).dtype is f32
        assert F.binary_cross_entropy(lt.ones(2), lt.ones(2)).dtype is f32


def test_all_that_is_listed_is_tried() -> None:
    tried = {*LOW_CALLS, *FULL_CALLS, *WIDEST_CALLS, "lstm_cell", "gru_cell", "rnn_tanh_cell"}
    # Forms of others, by the same rule.
    composed = {"conv_tbc", "rnn_relu_cell", "native_layer_norm", "frobenius_norm", "nuclear_norm"}
    composed |= {"upsample", "upsample_bilinear", "upsample_nearest", "arctan2"}
    assert native_forms.__all__  # they are declared where the module is read
    listed = {e.name.removeprefix("linalg_"): e.cast for e in function_table.entries if e.cast}
    unsafe = {name for name, cast in listed.items() if cast == "unsafe"}
    assert unsafe == {"binary_cross_entropy"}, "test_what_is_on_no_list tries one unsafe function"
    missing = listed.keys() - tried - unsafe - composed
    assert not missing, "".join(
        f"{name} is declared with cast={listed[name]!r}: add a call to {_LIST_OF[listed[name]]}, "
        "or its name to `composed` if it is another function under the same rule\n"
        for name in sorted(missing)
    )
    gone = composed - listed.keys()
    assert not gone, f"no longer declared with cast=, remove from `composed`: {sorted(gone)}"
    twice = composed & tried
    assert not twice, f"tried now, remove from `composed`: {sorted(twice)}"


def test_a_step_with_a_scaler_has_float32_gradients() -> None:
    lt.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2)).to(PLACE)
    with lt.autocast("cuda", dtype=bf16):
        hidden = net[:3](t(5, 3))
        out = net(t(5, 3))
        loss = F.cross_entropy(out, whole(0, 1, 0, 1, 0))
    assert (hidden.dtype, out.dtype, loss.dtype) == (f32, bf16, f32)
    loss.backward()
    assert all(p.grad is not None and p.grad.dtype is f32 for p in net.parameters())
