"""Kernel text: the round trip of everything that a kernel can say, and its errors."""

from __future__ import annotations

import pytest

import lazyt.ops  # noqa: F401 - registers the scalar functions
from lazyt.errors import ParseError
from lazyt.ir.dtypes import float16, float32, int64
from lazyt.ir.index import (
    Axis,
    Guard,
    Guarded,
    Linear,
    Load,
    Position,
    Quotient,
    Var,
    constant,
    datum,
    variable,
)
from lazyt.ir.kernel import Buffer, Kernel, Let, Phase, Stage, Store
from lazyt.ir.parser import parse_kernel, parse_kernels
from lazyt.ir.printer import print_kernel
from lazyt.ir.scalar import Expr, call, const
from lazyt.ir.verifier import verify_kernel

EVERYTHING = """kernel everything(in a: float32[40, 50], in at: int64[40], inout b: float16[40], \
work w: float32[40], out c: float32[40, 50]) {
  phase (i: 40) lanes inner work 150.0 {
    for k: 50 {
      reduce m: float32 = max a[i, k]
      keep e: float32 = {let t0 = exp(a[i, k]); add(t0, t0)}
      reduce n: int64 = argmax %e
    }
    once {
      let x: float32 = mul(%m, cast<float32>(%n))
      let p: int64 = at[i]
      store w[i] = guarded(3 <= i < 30 and 0 <= ((2*i) % 7) < 5, a[i + -3, 0], nan:float32)
    }
    for r: 50 sequential if 0 <= r < 45 {
      scan s: float32 = sum sub(%e, %x)
      store c[i, r] = where(lt(int64(i + 2*r), 9:int64), %s, -0.0:float32)
      store b[@p[40]] = cast<float16>(%s) combine add where 1 <= r < 44
    }
  }
  contract acc: float32 batch () rows (m: 40) columns (n: 50) inner (k: 4) {
    left w[((4*m + k) // 4)]
    right a[k, n]
    let half: float32 = mul(%acc, 0.5:float32)
    store c[m, n] = %half
  }
}
"""


def test_everything_round_trips() -> None:
    kernel = parse_kernel(EVERYTHING)
    assert print_kernel(kernel) == EVERYTHING
    verify_kernel(kernel)


def test_types_of_names_may_be_left_out_but_not_be_wrong() -> None:
    plain = EVERYTHING.replace("let x: float32", "let x").replace("keep e: float32", "keep e")
    assert plain != EVERYTHING
    assert print_kernel(parse_kernel(plain)) == EVERYTHING
    wrong = EVERYTHING.replace("let p: int64", "let p: int32")
    with pytest.raises(ParseError, match="line 10, column 14: p is written as int32 but is int64"):
        parse_kernel(wrong)


def test_several_kernels_in_one_text() -> None:
    other = EVERYTHING.replace("kernel everything", "kernel again")
    assert [k.name for k in parse_kernels(EVERYTHING + other)] == ["everything", "again"]


def kernel_of(value: Expr) -> Kernel:
    """A kernel that stores ``value``."""
    i = Axis("i", 8)
    buffers = (Buffer("a", float32, (8,), "in"), Buffer("h", float16, (8,), "out"))
    store = Store("h", (variable(i),), value)
    once = Stage(None, (Let("x", Load("a", (variable(i),), float32)), store))
    return Kernel("k", buffers, (Phase((i,), (once,), "grid"),))


def test_equal_expressions_print_the_same_shared_or_not() -> None:
    i = variable(Axis("i", 8))
    one = Load("a", (i,), float32)
    shared = call("add", call("exp", one), call("exp", one))
    apart = call("add", *(call("exp", Load("a", (i,), float32)) for _ in range(2)))
    assert print_kernel(kernel_of(shared)) == print_kernel(kernel_of(apart))
    assert "{let t0 = exp(a[i]); add(t0, t0)}" in print_kernel(kernel_of(shared))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Var("x", float32), "%x"),
        (Var("x", float16), "%x:float16"),
        (Var("unknown", float32), "%unknown:float32"),
        (Load("h", (constant(3),), float32), "h[3]:float32"),
        (Load("h", (datum("x", 5),), float16), "h[@x[5]]"),
        (Load("a", (Linear((), -2),), float32), "a[-2]"),
        (Position(variable(Axis("i", 8)), int64), "int64(i)"),
        (Guarded((), const(1, float32), Var("x", float32)), "guarded(always, 1.0:float32, %x)"),
        (
            Guarded(
                (Guard(Linear(((Quotient(variable(Axis("i", 8)), 3), -2),), 1), -5, 2),),
                Var("x", float32),
                const(0, float32),
            ),
            "guarded(-5 <= -2*((i) // 3) + 1 < 2, %x, 0.0:float32)",
        ),
    ],
)
def test_leaves_print_their_type_where_nothing_tells_it(value: Expr, text: str) -> None:
    printed = print_kernel(kernel_of(value))
    assert f"store h[i] = {text}\n" in printed
    assert print_kernel(parse_kernel(printed)) == printed


def test_indices_are_read_as_written() -> None:
    text = EVERYTHING.replace("a[i + -3, 0]", "a[2*((3*((i + 1) % 5) + 2*i) // 4) + 3*i + 7, 0]")
    assert print_kernel(parse_kernel(text)) == text


def test_deep_expressions_do_not_recurse() -> None:
    expr: Expr = Var("x", float32)
    for _ in range(5000):
        expr = Guarded((), call("neg", expr), const(0, float32))
    text = print_kernel(kernel_of(expr))
    assert print_kernel(parse_kernel(text)) == text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lanes inner", "lanes outer", "expected 'grid' or 'inner', found 'outer'"),
        ("in a: float32", "is a: float32", "expected 'in' or 'out' or 'inout' or 'work'"),
        ("a[i, k]", "a[i, j]", "unknown axis 'j'; known: i, k"),
        ("exp(", "exq(", "unknown function 'exq'"),
        ("%x)", "%y)", "'y' is not defined here"),
        ("combine add", "combine sub", "expected 'add' or 'mul'"),
        ("% 7) < 5", "% 0) < 5", "a divisor must be positive"),
        ("store w[i]", "sture w[i]", "expected 'let' or 'keep'"),
        ("right a", "wrong a", "expected 'right'"),
        ("work 150.0", "work much", "expected a number"),
        ("reduce m: float32 =", "reduce m =", "expected ':'"),
        ("if 0 <= r < 45", "if always", "a stage takes one condition"),
    ],
)
def test_errors_say_what_was_expected(old: str, new: str, message: str) -> None:
    assert old in EVERYTHING
    with pytest.raises(ParseError, match="line") as caught:
        parse_kernel(EVERYTHING.replace(old, new, 1))
    assert message in str(caught.value)
