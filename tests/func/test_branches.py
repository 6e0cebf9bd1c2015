"""``cond`` and ``while_loop``: one branch runs, and steps are counted by the loop itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt.func import cond, grad, jvp, while_loop
from lazyt.plan.control import loops

Tensor = lazyt.Tensor


def ran(pred: Any) -> Tensor:
    """A result that says which branch ran."""
    found: Tensor = cond(pred, lambda x: x.sin(), lambda x: x * 10, (lazyt.tensor([1.0, -2.0]),))
    return found


def test_the_branch_that_a_value_chooses_runs() -> None:
    x = lazyt.tensor([1.0, -2.0])
    for true in (True, 1, 0.5, lazyt.tensor(True), lazyt.tensor([[3]]), lazyt.tensor(0.1)):
        assert lazyt.equal(ran(true), x.sin())
    for false in (False, 0, lazyt.tensor(False), lazyt.tensor([0])):
        assert lazyt.equal(ran(false), x * 10)


@pytest.mark.lazy
def test_the_value_is_not_looked_at() -> None:
    before = len(lazyt.why_realized())
    x = lazyt.arange(4.0)
    result = cond(x.sum() > 100, lambda x: x + 1, lambda x: x - 1, (x,))
    assert len(lazyt.why_realized()) == before
    assert [k.kind for k in lazyt.explain(result).kernels if k.kind == "branch"] == ["branch"]
    assert result.tolist() == [-1.0, 0.0, 1.0, 2.0]


def test_gradients_go_through_the_branch_that_is_taken() -> None:
    w = lazyt.tensor(3.0, requires_grad=True)
    for value, slope, of_w in ((2.0, 12.0, 4.0), (-2.0, -1.0, None)):
        x = lazyt.tensor(value, requires_grad=True)
        w.grad = None
        y = cond(x > 0, lambda x: x * x * w, lambda x: -x, (x,))
        (first,) = lazyt.autograd.grad(y, x, create_graph=True)
        assert first is not None and float(first) == slope
        y.backward()
        assert w.grad is not None and float(w.grad) == (of_w or 0.0)
    f = lambda x: cond(x > 0, lambda x: x**3, lambda x: -x, (x,))  # noqa: E731
    assert float(grad(grad(f))(lazyt.tensor(2.0))) == 12.0
    assert float(grad(grad(f))(lazyt.tensor(-2.0))) == 0.0
    assert float(jvp(f, (lazyt.tensor(2.0),), (lazyt.tensor(0.5),))[1]) == 6.0


def test_examples_take_their_own_ways() -> None:
    xs = lazyt.tensor([[1.0, 2.0], [-1.0, -5.0]])
    f = lambda p, x: cond(p.sum() > 0, lazyt.sin, lazyt.cos, (x,))  # noqa: E731
    both = lazyt.vmap(f)(xs, xs)
    assert lazyt.equal(both, lazyt.stack([xs[0].sin(), xs[1].cos()]))
    shared = lazyt.vmap(f, in_dims=(None, 0))(xs[1], xs)
    assert lazyt.equal(shared, xs.cos())


@pytest.mark.lazy
def test_captured_functions_have_both_branches() -> None:
    @lazyt.jit
    def f(x: Tensor) -> Tensor:
        found: Tensor = cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
        return found

    for value in (1.0, -1.0, 2.0, -3.0, 4.0, -5.0):
        want = value * 2 if value > 0 else value - 1
        assert f(lazyt.tensor([value])).tolist() == [want]
    assert f.why() == ["captured"]


def test_trees_and_branches_that_python_has_to_take() -> None:
    x = lazyt.tensor([1.0, 2.0])
    found = cond(x.sum() > 0, lambda t: {"a": t["x"] + 1}, lambda t: {"a": t["x"]}, ({"x": x},))
    assert found["a"].tolist() == [2.0, 3.0]
    assert cond(x.sum() > 0, lambda x: x[:1], lambda x: x, (x,)).tolist() == [1.0]
    assert cond(x.sum() > 0, lambda x: x.tolist(), lambda x: x, (x,)) == [1.0, 2.0]
    assert cond(x.sum() > 0, lambda: lazyt.ones(2), lambda: lazyt.zeros(2)).tolist() == [1.0, 1.0]
    y = x.clone()
    assert cond(x.sum() > 0, lambda t: t.mul_(2), lambda t: t, (y,)).tolist() == [2.0, 4.0]
    assert y.tolist() == [2.0, 4.0]


def test_cond_refuses_in_pytorchs_words() -> None:
    x, yes = lazyt.ones(2), lazyt.tensor(True)
    for arguments, words in (
        ((lazyt.tensor([True, False]), abs, abs, (x,)), "bool or single-element tensor"),
        (("a", abs, abs, (x,)), "Expected pred to be bool or tensor, but got a."),
        ((yes, 3, abs, (x,)), "Expect both branches to be callable."),
        ((yes, abs, abs, x), "Expect operands to be a tuple"),
        ((yes, abs, abs, (x, 3)), "Expect operands to be a tuple"),
        ((yes, abs, lambda x: x.double(), (x,)), "expected same dtype but got"),
        ((yes, abs, lambda x: (x, x), (x,)), "Unmatched output spec"),
    ):
        with pytest.raises(RuntimeError) as caught:
            cond(*arguments)
        assert words in str(caught.value)


def test_while_loop_goes_on_until_its_test_is_false() -> None:
    end = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, lazyt.tensor([1.0, 2.0])))
    assert end[0] == 3 and isinstance(end[0], int) and end[1].tolist() == [8.0, 16.0]
    limit = lazyt.tensor(50)
    end = while_loop(
        lambda t: t["a"] < limit, lambda t: [{"a": t["b"], "b": t["a"] + t["b"]}],
        [{"a": lazyt.tensor(0), "b": lazyt.tensor(1)}],
    )  # fmt: skip
    assert (int(end[0]["a"]), int(end[0]["b"])) == (55, 89)
    unchanged = while_loop(lambda x: x.sum() < 0, lambda x: (x + 1,), (lazyt.ones(2),))
    assert unchanged[0].tolist() == [1.0, 1.0]


def test_steps_of_a_while_loop_are_compiled_once() -> None:
    def halved(value: float) -> int:
        count: int = while_loop(
            lambda i, x: x > 1, lambda i, x: (i + 1, x / 2), (0, lazyt.tensor(value))
        )[0]
        return count

    assert halved(1000.0) == 10
    before = len(loops._steps)
    assert [halved(value) for value in (3.0, 0.5, 1e30)] == [2, 0, 100]
    assert len(loops._steps) == before


def test_a_while_loop_with_gradients_is_a_scan() -> None:
    w = lazyt.tensor(1.5, requires_grad=True)
    count, x = while_loop(
        lambda i, x: x < 20, lambda i, x: (i + 1, x * w), (lazyt.tensor(0), lazyt.tensor(1.0))
    )
    x.backward()
    assert int(count) == 8 and w.grad is not None
    assert float(x) == 1.5**8 and float(w.grad) == pytest.approx(8 * 1.5**7)
    start = lazyt.tensor(30.0, requires_grad=True)
    (same,) = while_loop(lambda x: x < 20, lambda x: (x * w,), (start,))
    assert float(lazyt.autograd.grad(same * 2, start)[0] or 0) == 2.0


@pytest.mark.lazy
def test_while_loops_of_many_examples_and_captures() -> None:
    f = lambda x: while_loop(lambda x: x < 10, lambda x: (x * 2,), (x,))[0]  # noqa: E731
    assert lazyt.vmap(f)(lazyt.tensor([1.0, 3.0, 20.0])).tolist() == [16.0, 12.0, 20.0]
    captured = lazyt.jit(f)
    for value, want in ((1.0, 16.0), (3.0, 12.0), (20.0, 20.0), (7.0, 14.0)):
        assert float(captured(lazyt.tensor(value))) == want
    assert captured.why() == ["captured"]


def test_a_body_with_a_matrix_routine_runs_step_by_step() -> None:
    a = lazyt.tensor([[2.0, 0.0], [0.0, 4.0]], dtype=lazyt.float64)
    b = lazyt.tensor([16.0, 256.0], dtype=lazyt.float64)
    (x,) = while_loop(lambda x: x.sum() > 10, lambda x: (lazyt.linalg.solve(a, x),), (b,))
    assert x.tolist() == [2.0, 4.0]


def test_while_loop_refuses_in_pytorchs_words() -> None:
    x = lazyt.ones(2)
    going = lambda x: x.sum() < 9  # noqa: E731
    for arguments, words in (
        ((3, abs, (x,)), "Expect cond_fn and body_fn to be callable."),
        ((going, abs, (x, "a")), "consists of tensor or int leaves"),
        ((going, lambda x: (x, x), (x,)), "to have same number of outputs but got"),
        ((going, lambda x: (x[:1],), (x,)), "to have same metadata but found"),
        ((lambda x: x > 3, lambda x: (x,), (x,)), "Expected cond_fn to return a scalar tensor"),
        ((going, lambda x: (x + x.tolist()[0],), (x,)), "looks at a value"),
    ):
        with pytest.raises(RuntimeError) as caught:
            while_loop(*arguments)
        assert words in str(caught.value)


def test_pytorchs_names_are_the_functions(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "from torch._higher_order_ops.cond import cond\n"
        "from torch._higher_order_ops.while_loop import while_loop\n"
        "from torch._higher_order_ops import cond as c, while_loop as w\n"
        "assert torch.cond is cond is c and torch.while_loop is while_loop is w\n"
        "x = torch.ones(2)\n"
        "print(torch.cond(x.sum() > 1, torch.neg, torch.exp, (x,)).tolist())\n"
    )
    found = subprocess.run(
        [sys.executable, "-m", "lazyt", "run", str(program)], capture_output=True, text=True
    )
    assert found.stdout.strip() == "[-1.0, -1.0]", found.stderr
