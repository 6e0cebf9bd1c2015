"""Verifiers accept what is right and point at what is wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from lazyt import ops
from lazyt.errors import VerifyError
from lazyt.ir.dtypes import bool_, float32, float64, int8, int32
from lazyt.ir.graph import Node
from lazyt.ir.kernel import Phase
from lazyt.ir.parser import parse_kernel
from lazyt.ir.printer import print_kernel
from lazyt.ir.scalar import arg, call, const
from lazyt.ir.verifier import verify_graph, verify_kernel
from lazyt.runtime.memory import Buffer


def forged(node: Node, **changes: Any) -> Node:
    """A copy of ``node`` that did not come from the constructor, with some fields changed."""
    copy = Node.__new__(Node)
    for name in set(Node.__slots__) - {"__weakref__"}:
        setattr(copy, name, changes.get(name, getattr(node, name)))
    return copy


@pytest.fixture
def graph() -> Node:
    """``exp(a) + b``."""
    a, b = ops.input_((4, 5), float32), ops.input_((5,), float32)
    return ops.apply("add", ops.apply("exp", a), b)


def complaint(root: Node) -> str:
    """What the verifier says."""
    with pytest.raises(VerifyError) as caught:
        verify_graph([root])
    return str(caught.value)


def test_right_graphs_pass(graph: Node) -> None:
    verify_graph([graph, graph.inputs[0]])


def test_wrong_shape_is_marked_beside_its_line(graph: Node) -> None:
    text = complaint(forged(graph, shape=(4, 6)))
    assert text.startswith("invalid graph: its type is inferred as float32[4, 5]")
    (line,) = [item for item in text.splitlines() if "# <--" in item]
    assert "add($0, $1)} : float32[4, 6]  # <-- its type is inferred as float32[4, 5]" in line


def test_wrong_dtype(graph: Node) -> None:
    assert "inferred as float32[4, 5]" in complaint(forged(graph, dtype=float64))


def test_copies_are_not_interned(graph: Node) -> None:
    assert "was not made by make()" in complaint(forged(graph))


def test_wrong_inputs(graph: Node) -> None:
    assert "$1 has no input" in complaint(forged(graph, inputs=graph.inputs[:1]))
    other = ops.input_((5,), int32)
    text = complaint(forged(graph, inputs=(graph.inputs[0], other)))
    assert "$1 is read as float32 but is int32" in text


def test_wrong_params(graph: Node) -> None:
    assert "its parameters are a tuple, not a Expr" in complaint(forged(graph, params=(1,)))
    x = forged(ops.detach(graph), params=3)
    assert "it takes no parameters" in complaint(x)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (lambda: call("add", arg(0, float32), const(1, float64)), "add of different types"),
        (lambda: call("bitwise_not", arg(0, float32)), "bitwise_not does not take float32"),
        (lambda: call("where", *[arg(0, float32)] * 3), "where needs a bool condition"),
        (lambda: call("cast", const(300, int8), dtype=float32), "300 is no int8"),
    ],
)
def test_wrong_expressions(graph: Node, expr: Any, text: str) -> None:
    assert text in complaint(forged(graph, params=expr(), inputs=graph.inputs[:1]))


def test_data_must_fit(graph: Node) -> None:
    leaf = graph.inputs[1]
    leaf.data = Buffer(12)
    assert "its data has 12 bytes, it needs 20" in complaint(graph)
    leaf.data = b"no buffer"
    assert "its data is a bytes" in complaint(graph)
    leaf.data = Buffer(20)
    verify_graph([graph])


def test_integers_have_no_gradient() -> None:
    x = ops.apply("neg", ops.input_((2,), int32))
    x.needs_grad = True
    assert "int32 values have no gradient" in complaint(x)


def test_cycles_are_found(graph: Node) -> None:
    inner = forged(graph.inputs[0])
    outer = forged(graph, inputs=(inner, graph.inputs[1]))
    inner.inputs = (outer,)
    assert "these nodes depend on themselves" in complaint(outer)
    inner.inputs = ()  # let it be freed


def test_long_graphs_are_cut(graph: Node) -> None:
    node = graph
    for number in range(2000):
        node = ops.apply("neg" if number % 2 else "abs", node)
    text = complaint(forged(node, dtype=bool_))
    assert text.count("\n") < 60
    assert "\n...\n" in text


KERNEL = """kernel k(in a: float32[4, 5], in at: int64[4], inout h: float16[4], \
work w: float32[4], out c: float32[4, 5]) {
  phase (i: 4) lanes grid work 1.0 {
    once {
      let x = a[i, 0]
      let p = at[i]
      let q = lt(%x, 2.0:float32)
    }
    for k: 5 {
      reduce m: float32 = max a[i, k]
      reduce first: int64 = argmax a[i, k]
      keep e = mul(a[i, k], %x)
    }
    for r: 5 sequential {
      scan s: float32 = sum %e
      store c[i, r] = %s
      store h[@p[4]] = where(%q, %m, %x) combine add
    }
    once {
      store w[i] = %m
    }
  }
  contract acc: float32 batch () rows (j: 4) columns (n: 5) inner (l: 4) {
    left w[l]
    right a[l, n]
    store c[j, n] = %acc
  }
}
"""


def test_right_kernels_pass() -> None:
    verify_kernel(parse_kernel(KERNEL))


LEFT = """\
kernel left(in a: float32[8, 4], out b: float32[8, 4]) {
  phase (j: 4) lanes grid work 1.0 {
    for i: 8 {
      store b[i, j] = a[i, j]
    }
    for i: 8 {
      store b[i, j] = neg(b[i, j])
    }
  }
}
"""


def test_a_loop_may_read_what_an_earlier_one_left_at_the_same_place() -> None:
    verify_kernel(parse_kernel(LEFT))
    with pytest.raises(VerifyError, match="b is read before an earlier phase has written it"):
        verify_kernel(parse_kernel(LEFT.replace("neg(b[i, j])", "neg(b[0, j])")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("let x = a[i, 0]", "let x = a[i]", "a has 2 axes, indexed with 1"),
        ("let x = a[i, 0]", "let x = b[i, 0]:float32", "buffer b is unknown"),
        ("let x = a[i, 0]", "let x = w[i]", "w is read before an earlier phase has written it"),
        ("let x = a[i, 0]", "let x = %m:float32", "%m is not defined before this line"),
        ("let p = at[i]", "let p = a[i, 0]", "@p is no integer"),
        ("let p = at[i]", "let x = at[i]", "value x takes a name that is in use"),
        ("let p = at[i]", "let a = at[i]", "value a takes a name that is in use"),
        ("2.0:float32", "2:int64", "lt of different types: float32, int64"),
        ("reduce first", "reduce m", "value m takes a name that is in use"),
        ("mul(a[i, k], %x)", "mul(a[i, k], %m:float32)", "%m is not defined before"),
        ("for r: 5", "for r: 4", "%e keeps 5 values; this stage does not loop over them"),
        ("for r: 5 sequential", "for r: 5", "scan needs a sequential stage"),
        ("phase (i: 4)", "phase (i: 4, p: 2)", "value p takes a name that is in use"),
        ("reduce m: float32 = max", "reduce m: float32 = mux", "unknown kind of reduce: mux"),
        ("reduce first: int64", "reduce first: int32", "reduce argmax gives int64, not int32"),
        ("reduce m: float32 = max a[i, k]", "reduce m: float32 = max %q", "gives bool, not"),
        ("store c[i, r] = %s", "store c[i, r] = %first", "c holds float32, not int64"),
        ("store c[i, r] = %s", "store a[i, r] = %s", "a is read only"),
        ("store c[i, r] = %s", "store c[i, r] = %x:float64", "%x is float32, read as float64"),
        ("store w[i] = %m", "store w[i] = %s", "%s is not defined before this line"),
        ("store w[i] = %m", "store w[@p[4]] = %m", "a data-dependent store needs a sequential"),
        ("store w[i] = %m", "store w[i] = %m combine add", "a combining store needs a sequential"),
        ("store w[i] = %m", "reduce z: float32 = sum %m", "reduce needs a stage with a loop"),
        ("store w[i] = %m", "keep z = %m", "keep needs a stage with a loop"),
        ("left w[l]", "left w[l]:float64", "w holds float32, not float64"),
        ("right a[l, n]", "right a[j, n]", "axis j is not in scope"),
        ("right a[l, n]", "right int64(l)", "the operand is int64, the accumulator float32"),
        ("store c[j, n] = %acc", "store c[l, n] = %acc", "axis l is not in scope"),
        ("store c[j, n] = %acc", "keep z = %acc", "an epilogue takes only let and store"),
        ("rows (j: 4)", "rows (j: 4, n: 5)", "axis n takes a name that is in use"),
    ],
)
def test_wrong_kernels(old: str, new: str, message: str) -> None:
    assert old in KERNEL
    with pytest.raises(VerifyError) as caught:
        verify_kernel(parse_kernel(KERNEL.replace(old, new, 1)))
    marks = [line for line in str(caught.value).splitlines() if "# <-- " in line]
    assert any(message in line for line in marks)


def test_only_loops_take_a_condition() -> None:
    guarded = parse_kernel(KERNEL.replace("for k: 5 {", "for k: 5 if 0 <= k < 3 {"))
    verify_kernel(guarded)
    phase = guarded.phases[0]
    assert isinstance(phase, Phase)
    first, second = phase.stages[:2]
    wrong = replace(phase, stages=(replace(first, guard=second.guard),))
    with pytest.raises(VerifyError, match="only a loop takes a condition"):
        verify_kernel(replace(guarded, phases=(wrong,)))


BANDS = """kernel k(in a: float32[2, 6, 4], in b: float32[2, 4, 5], out c: float32[2, 6], \
band s: float32[12, 5]) bands (2, 6) {
  contract acc: float32 batch (p: 2) rows (m: 6) columns (n: 5) inner (k: 4) {
    left a[p, m, k]
    right b[p, k, n]
    store s[6*p + m, n] = %acc
  }
  phase (i: 12) lanes inner work 1.0 {
    for n: 5 {
      reduce r: float32 = max s[i, n]
    }
    once {
      store c[((i) // 6), ((i) % 6)] = %r
    }
  }
}
"""


def test_bands_round_trip_and_pass() -> None:
    kernel = parse_kernel(BANDS)
    assert print_kernel(kernel) == BANDS
    assert [b.name for b in kernel.arguments] == ["a", "b", "c"]
    verify_kernel(kernel)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max s[i, n]", "max s[((i + 1) % 12), n]", "s is not used in the phase's own row only"),
        ("s[6*p + m, n] =", "s[6*p + m, -1*n + 4] =", ""),
        ("bands (2, 6)", "bands (3, 4)", "does not go over 3 times 4 rows"),
        (" bands (2, 6)", "", "a kernel without bands has no band buffers"),
        ("lanes inner", "lanes grid", "does not go over 2 times 6 rows"),
    ],
)
def test_rows_of_bands(old: str, new: str, message: str) -> None:
    kernel = parse_kernel(BANDS.replace(old, new, 1))
    if not message:
        verify_kernel(kernel)
        return
    with pytest.raises(VerifyError, match=re.escape(message)):
        verify_kernel(kernel)
