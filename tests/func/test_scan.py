"""``scan``, ``map`` and ``associative_scan`` against loops in Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt.func import associative_scan, scan
from lazyt.func import map as map_slices
from lazyt.plan.control import loops

Tensor = lazyt.Tensor


def python_loop(f: Callable[..., Any], init: Any, xs: Tensor, reverse: bool) -> Any:
    """What ``scan`` means."""
    carry, rows = init, []
    steps = range(len(xs))
    for step in reversed(steps) if reverse else steps:
        carry, row = f(carry, xs[step])
        rows.append(row)
    if reverse:
        rows.reverse()
    return carry, lazyt.stack(rows)


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two float32 tensors have the same bits."""
    return bool((a.detach().view(lazyt.int32) == b.detach().view(lazyt.int32)).all())


def draw(*shape: int, seed: int = 0, dtype: Any = None) -> Tensor:
    """Normal numbers."""
    generator = lazyt.Generator().manual_seed(seed)
    return lazyt.randn(*shape, generator=generator, dtype=dtype)


def relative(a: Tensor, b: Tensor) -> float:
    """The largest difference, by the size of the values."""
    return float((a - b).abs().max() / (b.abs().max() + 1e-30))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_cell_has_the_bits_of_the_loop(length: int, reverse: bool) -> None:
    weight, bias = draw(4, 4).requires_grad_(), draw(4, seed=1).requires_grad_()

    def cell(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        h = lazyt.tanh(h @ weight.T + x + bias)
        return h, h

    def ours(h: Tensor, xs: Tensor) -> Any:
        return scan(cell, h, xs, reverse=reverse)

    def plain(h: Tensor, xs: Tensor) -> Any:
        return python_loop(cell, h, xs, reverse)

    found = []
    for run in (ours, plain):
        xs, h = draw(length, 3, 4, seed=2).requires_grad_(), draw(3, 4, seed=3).requires_grad_()
        last, rows = run(h, xs)
        loss = (rows * rows).sum() + last.sin().sum()
        found.append([last, rows, *lazyt.autograd.grad(loss, [xs, h, weight, bias])])
    for a, b in zip(*found):
        assert same_bits(a, b)


@pytest.mark.parametrize("reverse", [False, True])
def test_trees_counts_and_second_derivatives(reverse: bool) -> None:
    weight = draw(3, 3, dtype=lazyt.float64).requires_grad_()

    def step(carry: Any, x: Any) -> Any:
        h, n = carry["h"], carry["n"]
        h = lazyt.sigmoid(h @ weight + h + x["a"] * x["b"])
        return {"h": h, "n": n + 1}, (h.sum(), n, None)

    def plain(carry: Any, xs: Any) -> Any:
        rows = []
        steps = range(len(xs["a"]))
        for i in reversed(steps) if reverse else steps:
            carry, row = step(carry, {name: x[i] for name, x in xs.items()})
            rows.append(row)
        rows = rows[::-1] if reverse else rows
        return carry, (lazyt.stack([r[0] for r in rows]), lazyt.stack([r[1] for r in rows]), None)

    def ours(carry: Any, xs: Any) -> Any:
        return scan(step, carry, xs, reverse=reverse)

    found = []
    for run in (ours, plain):
        xs = {n: draw(4, 2, 3, seed=k, dtype=lazyt.float64) for k, n in enumerate("ab")}
        h = draw(2, 3, seed=5, dtype=lazyt.float64).requires_grad_()
        xs["a"].requires_grad_()
        end, (sums, numbers, nothing) = run({"h": h, "n": lazyt.tensor(0)}, xs)
        assert nothing is None and int(end["n"]) == 4
        loss = (sums * sums).sum() + end["h"].sum()
        first = lazyt.autograd.grad(loss, [xs["a"], h, weight], create_graph=True)
        squares = lazyt.stack([(g * g).sum() for g in first if g is not None]).sum()
        second = lazyt.autograd.grad(squares, [xs["a"], h, weight])
        found.append([end["h"], sums, numbers, *first, *second])
    for a, b in zip(*found):
        assert relative(a.double(), b.double()) < 1e-13


def test_a_loop_of_any_length_is_compiled_once() -> None:
    def step(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return c * 0.5 + x.cos(), c.exp()

    def total(length: int) -> float:
        last, rows = scan(step, lazyt.zeros(7), draw(length, 7).realize())
        return float(last.sum()) + float(rows[0, 0])

    total(6)
    before = set(loops._steps)
    for length in (7, 50, 3):
        total(length)
    # Steps that nothing holds any more may leave meanwhile.
    assert set(loops._steps) <= before


def test_gradients_follow_a_look_at_the_result() -> None:
    w = lazyt.tensor(0.9, requires_grad=True)
    last, _ = scan(lambda c, x: (c * w + x, c), lazyt.tensor(1.0), lazyt.arange(4.0))
    value = float(last)
    last.backward()
    assert w.grad is not None
    assert value == pytest.approx(0.9**4 + 0.9**2 + 2 * 0.9 + 3, rel=1e-6)
    assert float(w.grad) == pytest.approx(4 * 0.9**3 + 2 * 0.9 + 2, rel=1e-6)


def test_no_grad_and_detach_inside_of_the_step() -> None:
    w = lazyt.tensor(2.0, requires_grad=True)

    def step(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        with lazyt.no_grad():
            stopped = c * x
        return stopped + w * x, c.detach()

    last, rows = scan(step, lazyt.tensor(1.0), lazyt.tensor([1.0, 3.0]))
    last.backward()
    assert w.grad is not None and float(w.grad) == 3.0
    assert rows.tolist() == [1.0, 3.0]
    with lazyt.no_grad():
        last, _ = scan(step, lazyt.tensor(1.0), lazyt.tensor([1.0, 3.0]))
    assert not last.requires_grad


def test_other_axes_are_scanned() -> None:
    xs = draw(2, 5, 3)
    last, rows = scan(lambda c, x: (c + x, c + x), lazyt.zeros(2, 3), xs, dim=1)
    assert lazyt.equal(rows, xs.double().cumsum(1).float()) or relative(rows, xs.cumsum(1)) < 1e-6
    assert rows.shape == xs.shape and lazyt.equal(last, rows[:, -1])
    last, rows = scan(lambda c, x: (c + x, c + x), lazyt.zeros(2, 3), xs, dim=-2, reverse=True)
    assert lazyt.equal(last, rows[:, 0])


def test_vmap_jvp_and_transforms_of_transforms() -> None:
    def f(c: Tensor, xs: Tensor) -> Any:
        last, rows = scan(lambda c, x: (lazyt.sin(c * x), c + x), c, xs)
        return rows.sum() + last

    c, xs = draw(3, dtype=lazyt.float64), draw(3, 4, seed=1, dtype=lazyt.float64)
    whole = lazyt.vmap(f)(c, xs)
    assert relative(whole, lazyt.stack([f(c[i], xs[i]) for i in range(3)])) < 1e-14
    shared = lazyt.vmap(f, in_dims=(None, 0))(c[0], xs)
    assert relative(shared, lazyt.stack([f(c[0], xs[i]) for i in range(3)])) < 1e-14
    gradient = lazyt.vmap(lazyt.func.grad(f, argnums=(0, 1)))(c, xs)
    for part, alone in zip(gradient, lazyt.func.grad(f, argnums=(0, 1))(c[1], xs[1])):
        assert relative(part[1], alone) < 1e-13
    _, moved = lazyt.func.jvp(f, (c[0], xs[0]), (c[1], xs[1]))
    g = lazyt.func.grad(f, argnums=(0, 1))(c[0], xs[0])
    assert float(moved) == pytest.approx(float(g[0] * c[1] + (g[1] * xs[1]).sum()), rel=1e-12)
    operands = c[0].clone().requires_grad_(), xs[0].clone().requires_grad_()
    assert lazyt.autograd.gradcheck(f, operands)
    assert lazyt.autograd.gradgradcheck(f, operands)


def test_captured_functions_have_loops() -> None:
    @lazyt.jit
    def f(c: Tensor, xs: Tensor) -> tuple[Tensor, Tensor]:
        return scan(lambda c, x: (c * x, c + x), c, xs)

    for length in (3, 3, 3, 5, 5):
        for start in (1.0, 2.0):
            last, rows = f(lazyt.tensor(start), lazyt.arange(1.0, length + 1))
            want = python_loop(
                lambda c, x: (c * x, c + x),
                lazyt.tensor(start),
                lazyt.arange(1.0, length + 1),
                False,
            )
            assert lazyt.equal(last, want[0]) and lazyt.equal(rows, want[1])


def test_functions_inside_of_the_step() -> None:
    nested = scan(
        lambda c, row: scan(lambda d, x: (d + x, d * x), c, row),
        lazyt.tensor(0.0),
        lazyt.arange(6.0).reshape(2, 3),
    )
    assert float(nested[0]) == 15.0
    assert nested[1].tolist() == [[0.0, 0.0, 2.0], [9.0, 24.0, 50.0]]
    a = draw(3, 3, dtype=lazyt.float64) + 3 * lazyt.eye(3, dtype=lazyt.float64)
    solved, _ = scan(
        lambda c, x: (lazyt.linalg.solve(a, c) + x, x.sum()),
        lazyt.ones(3, dtype=lazyt.float64),
        lazyt.ones(2, 3, dtype=lazyt.float64),
    )
    want = lazyt.ones(3, dtype=lazyt.float64)
    for _ in range(2):
        want = lazyt.linalg.solve(a, want) + 1
    assert relative(solved, want) < 1e-12


def test_random_functions_draw_in_each_step() -> None:
    lazyt.manual_seed(0)
    _, rows = scan(lambda c, x: (c, c + lazyt.rand(3)), lazyt.zeros(3), lazyt.zeros(4))
    assert len({tuple(row) for row in rows.tolist()}) == 4
    assert float(rows.min()) >= 0 and float(rows.max()) < 1


def test_what_python_has_to_do_runs_as_a_loop_in_python() -> None:
    class Doubled(lazyt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 5

    x = lazyt.tensor(1.0, requires_grad=True)
    with pytest.warns(UserWarning, match="runs as a loop in Python: a custom autograd"):
        last, _ = scan(lambda c, y: (Doubled.apply(c) + y, c), x, lazyt.ones(2))
    last.backward()
    assert float(last) == 7.0 and x.grad is not None and float(x.grad) == 25.0
    table = draw(5, 2)
    with pytest.warns(UserWarning, match="runs as a loop in Python: an index"):
        _, rows = scan(
            lambda c, x: ((c + x) % 5, table[c]), lazyt.tensor(1), lazyt.tensor([2, 3, 4])
        )
    assert lazyt.equal(rows, table[lazyt.tensor([1, 3, 1])])


def test_what_does_not_fit_is_refused() -> None:
    xs, c = lazyt.ones(3, 2), lazyt.zeros(2)
    same = lambda c, x: (c, x)  # noqa: E731
    for arguments, words in (
        ((3, c, xs), "Combine_fn must be a callable, but got 3"),
        ((same, (), xs), "scan() operator requires init leaves."),
        ((same, 3, xs), "All init leaves must be a Tensor but got 3"),
        ((same, c, [xs, 3]), "All xs leaves must be a Tensor but got 3"),
        ((same, c, lazyt.ones(0, 2)), "scan dimension > 0"),
        ((same, c, (xs, lazyt.ones(4))), "same scan dimension"),
        ((lambda c, x: (c.double(), x), c, xs), "dtype: lazyt.float32 vs lazyt.float64"),
        ((lambda c, x: (c[:1], x), c, xs), "shape: lazyt.Size([2]) vs lazyt.Size([1])"),
        ((lambda c, x: ((c, c), x), c, xs), "to have same number of outputs"),
        ((lambda c, x: c, c, xs), "Expect combine_fn to return a tuple (next_carry, y)"),
        ((lambda c, x: (c, x) if c.sum() > 0 else (x, c), c, xs), "looks at a value"),
        ((lambda c, x: (c, c.tolist()), c, xs), "looks at a value"),
    ):
        with pytest.raises(RuntimeError) as caught:
            scan(*arguments)
        assert words in str(caught.value)
    with pytest.raises(IndexError, match="Dimension out of range"):
        scan(same, c, xs, dim=7)
    outside = lazyt.zeros(2)
    with pytest.raises(RuntimeError, match="made outside of it"):
        scan(lambda c, x: (c, outside.add_(x)), c, xs)
    assert scan(same, c, [])[0] is c


def test_map_stacks_what_slices_give() -> None:
    xs = draw(4, 3).requires_grad_()
    scale = lazyt.tensor(2.0, requires_grad=True)
    found = map_slices(lambda x, k: {"s": (x * k).sum(), "y": x.exp() * scale}, xs, 3)
    assert relative(found["s"], (xs * 3).sum(1)) < 1e-6
    assert lazyt.equal(found["y"], xs.exp() * 2)
    found["y"].sum().backward()
    assert xs.grad is not None and scale.grad is not None
    assert relative(xs.grad, 2 * xs.detach().exp()) < 1e-6
    assert float(scale.grad) == pytest.approx(float(xs.detach().exp().sum()), rel=1e-5)
    with pytest.raises(RuntimeError, match="can only consist of tensors"):
        map_slices(lambda x: x, 3)
    with pytest.raises(RuntimeError, match="cannot be 0"):
        map_slices(lambda x: x, lazyt.ones(0, 2))
    with pytest.raises(RuntimeError, match="must be consistent"):
        map_slices(lambda x: x[0], (lazyt.ones(2), lazyt.ones(3)))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 8, 13])
def test_associative_scan_combines_all_before(length: int, reverse: bool) -> None:
    xs = lazyt.arange(1, 2 * length + 1).reshape(2, length)
    sums = associative_scan(lambda a, b: a + b, xs, 1, reverse=reverse)
    want = xs.flip(1).cumsum(1).flip(1) if reverse else xs.cumsum(1)
    assert lazyt.equal(sums, want)
    decay, values = draw(length, 2).sigmoid(), draw(length, 2, seed=1)

    def recurrence(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    _, states = associative_scan(recurrence, (decay, values), 0, reverse=reverse)
    _, want = scan(
        lambda c, x: (c * x[0] + x[1], c * x[0] + x[1]), lazyt.zeros(2), (decay, values),
        reverse=reverse,
    )  # fmt: skip
    assert relative(states, want) < 1e-5


def test_associative_scan_refuses_in_pytorchs_words() -> None:
    xs = lazyt.ones(3)
    for arguments, words in (
        ((3, xs, 0), "Combine_fn must be a callable, but got 3"),
        ((max, 3, 0), "xs leaves must be a Tensor"),
        ((max, [], 0), "Expected at least 1 xs leaf"),
        ((max, xs, 0, False, "other"), "Combine_mode must either 'pointwise' or 'generic'"),
        ((max, xs, 0, False, "pointwise"), "need to be on CUDA"),
    ):
        with pytest.raises(ValueError, match=words.replace("(", r"\(")):
            associative_scan(*arguments)


def test_pytorchs_names_are_the_functions(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from torch._higher_order_ops.associative_scan import associative_scan as inner\n"
        "from torch._higher_order_ops import associative_scan, map, scan\n"
        "import torch, torch._higher_order_ops.scan\n"
        "assert inner is associative_scan\n"
        "assert scan is torch._higher_order_ops.scan\n"
        "print(scan(lambda c, x: (c + x, c * x), torch.tensor(0), torch.arange(4))[1].tolist())\n"
    )
    found = subprocess.run(
        [sys.executable, "-m", "lazyt", "run", str(program)], capture_output=True, text=True
    )
    assert found.stdout.strip() == "[0, 0, 2, 9]", found.stderr
