"""Products of operands whose elements lie side by side in runs only, such as those of heads."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.codegen.matmul.axes import merge_axes, split_axes
from lazyt.codegen.matmul.spec import Place, run_of
from lazyt.codegen.proof.c_bounds import check_kernel_c
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.ir.dtypes import float32
from lazyt.ir.index import Axis, Load, Var, variable
from lazyt.ir.kernel import ContractPhase, Store
from lazyt.plan import planning
from lazyt.runtime import devices
from lazyt.runtime.cpu import execute
from lazyt.testing.graph_maker import buffer_of

#: Heads, their width, rows of each of a batch, batch, columns of the other operand.
SHAPES = [
    (4, 64, 128, 8, 96), (3, 24, 37, 5, 50), (2, 17, 61, 3, 33), (5, 5, 40, 2, 20),
    (2, 32, 13, 1, 70), (4, 16, 100, 2, 3), (6, 80, 9, 4, 128), (2, 300, 31, 2, 40),
]  # fmt: skip

Product = Callable[[lt.Tensor, lt.Tensor, lt.Tensor], lt.Tensor]
#: Products with rows put together from heads on either side, along rows and along k; the last
#: operand has as many rows as they.
PRODUCTS: dict[str, Product] = {
    "rows": lambda x, w, g: x @ w,
    "columns": lambda x, w, g: w.t() @ x.t(),
    "steps": lambda x, w, g: x.t() @ g,
    "steps of columns": lambda x, w, g: g.t() @ x,
    "activated": lambda x, w, g: x.relu() @ w,
    "with an epilogue": lambda x, w, g: (x @ w + 1).relu(),
}


@pytest.fixture(autouse=True)
def _proved() -> Iterator[None]:
    with config.override(verify=True):
        yield


def from_heads(x: lt.Tensor) -> lt.Tensor:
    """[batch, heads, rows, width] as [batch * rows, heads * width], not moved."""
    batch, heads, rows, width = x.shape
    return x.transpose(1, 2).reshape(batch * rows, heads * width)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_bits_are_those_of_a_copy(name: str, shape: tuple[int, ...]) -> None:
    heads, width, rows, batch, columns = shape
    lt.manual_seed(5)
    x = lt.randn(batch, heads, rows, width).realize()
    w, g = lt.randn(heads * width, columns).realize(), lt.randn(batch * rows, columns).realize()
    product = PRODUCTS[name]
    found = product(from_heads(x), w, g).numpy()
    copied = from_heads(x).contiguous().realize()
    np.testing.assert_array_equal(found, product(copied, w, g).numpy())
    flat = x.numpy().astype(np.float64).transpose(0, 2, 1, 3).reshape(batch * rows, -1)
    exact = {"rows": lambda: flat @ w.numpy(), "steps": lambda: flat.T @ g.numpy()}
    if name in exact:
        np.testing.assert_allclose(found, exact[name](), atol=1e-3)


def text_of(rows: int, heads: int, width: int, along_k: bool) -> str:
    """C of a product of values put together from heads."""
    x = ops.input_((8, heads, rows, width), float32)
    flat = ops.reshape(ops.permute(x, (0, 2, 1, 3)), (8 * rows, heads * width))
    other = ops.input_((heads * width if along_k else 8 * rows, 200), float32)
    made = ops.contract(flat, other, (0, 1) if along_k else (1, 0), (1, 2), (0, 2))
    program, _ = compile_graph([made], [x, other])
    (kernel,) = program.kernels
    return kernel.text


def test_rows_are_turned_run_by_run() -> None:
    text = text_of(128, 8, 64, True)
    assert re.search(r"lz_lay_f32_\d+x\d+_apart\(", text)
    assert "g_line[" not in text  # nothing is copied before it is turned


def test_a_reach_too_far_is_found() -> None:
    text, reach = text_of(128, 8, 64, True), 7 * 8 * 128 * 64 + 127 * 64
    sizes = [4 * 8 * 8 * 128 * 64, 4 * 512 * 200, 4 * 1024 * 200, 1 << 30]
    assert not check_kernel_c(text, sizes)
    assert f", {reach}, g_at," in text
    assert check_kernel_c(text.replace(f", {reach}, g_at,", f", {reach + 1}, g_at,"), sizes)


def test_panels_within_a_run_have_no_divisions_inside() -> None:
    text = text_of(128, 8, 64, False)
    inside = text[text.index("g_from[") :]
    assert "/ 64" not in inside[: inside.index(";")]


def test_axes_are_split_at_what_divides_them_and_joined_again() -> None:
    m, k, n = Axis("m", 6), Axis("k", 24), Axis("n", 10)
    at, head = variable(k) % 8, variable(k) // 8
    phase = ContractPhase(
        (), (m,), (n,), (k,),
        Load("a", (head, variable(m), at), float32),
        Load("b", (variable(k), variable(n)), float32),
        "acc", float32,
        (Store("c", (variable(m), variable(n)), Var("acc", float32)),),
    )  # fmt: skip
    split = split_axes(phase)
    assert [a.extent for a in split.inner] == [3, 8] and split.rows == (m,)
    assert isinstance(split.left, Load)
    assert [str(i) for i in split.left.index] == ["k_1", "m", "k_0"]
    assert merge_axes(split) == split  # one operand needs both
    assert merge_axes(phase) == phase and split_axes(split) == split


def test_a_place_says_where_an_element_is() -> None:
    place = Place("x", 7, ((1, 2, 100),), ((4, 3, 40), (1, 4, 5)), ((8, 2, 20), (1, 8, 1)))
    values = {"x": 0, "b": 1, "i": 6, "k": 11}
    text = place.at("b", "i", "k").replace("/", "//")
    assert eval(text, values) == 7 + 100 + 40 + 2 * 5 + 20 + 3
    assert eval(place.beside("i").replace("/", "//"), values) == 40 + 2 * 5
    assert place.reach == 2 * 40 + 3 * 5 and place.plain is None
    assert run_of(place.steps) == 8 and run_of(place.sides) == 0
    plain = place._replace(sides=((1, 12, 5),), steps=((1, 16, 1),)).plain
    assert plain is not None and (plain.side, plain.k) == (5, 1)


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_steps_of_a_matrix_and_a_column_are_fused(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Clang may move a product away from its sum, behind a condition, and rounds it then unless it
    # is told to fuse.
    if not shutil.which(name) or not {"fma", "asimd"} & {*devices.cpu_features()}:
        pytest.skip(f"needs {name}, and fused steps")
    monkeypatch.setenv("CC", name)
    planning.clear()
    execute.forget()  # what another compiler made
    with config.override(cache_dir=str(tmp_path), any_size=False):
        for depth in (17, 32, 50, 100):
            chance = np.random.default_rng(depth)
            a = chance.standard_normal((64, depth)).astype(np.float32)
            b = chance.standard_normal((depth, 1)).astype(np.float32)
            sums = np.zeros((64, 1), np.float32)
            for k in range(depth):  # exact products, in float64, rounded with each sum
                exact = a[:, k : k + 1].astype(np.float64) * b[k].astype(np.float64)
                sums = (exact + sums.astype(np.float64)).astype(np.float32)
            left, right = (ops.input_(x.shape, float32, buffer_of(x, float32)) for x in (a, b))
            node = ops.contract(left, right, (0, 1), (1, 2), (0, 2))
            planning.realize([node])
            made = node.data.as_numpy(float32, (64, 1))
            assert np.array_equal(made, sums), depth
    planning.clear()
    execute.forget()
