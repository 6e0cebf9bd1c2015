"""C kernels over memory as operations: values, gradients, batches, captures, proofs, errors."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import ops
from lazyt.codegen.handwritten.kernel import Kernel
from lazyt.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    ShapeError,
    SourceError,
)
from lazyt.ir.parser import parse_graph, parse_kernel
from lazyt.ir.printer import print_graph, print_kernel
from lazyt.ir.verifier import verify_kernel
from tests.kernels import hostile_texts

SOFTMAX = """
void softmax(const float *restrict x, float *restrict y, long rows, long columns) {
    #pragma omp parallel for
    for (long i = 0; i < rows; i++) {
        const float *row = x + i * columns;
        float most = -INFINITY, total = 0;
        for (int j = 0; j < columns; j++) most = fmaxf(most, row[j]);
        for (int j = 0; j < columns; j++) total += expf(row[j] - most);
        for (size_t j = 0; j < columns; j++) y[i * columns + j] = expf(row[j] - most) / total;
    }
}
"""
EXTREMES = """
void extremes(const float *x, float *low, float *high, long *at, size_t n, float scale) {
    float a = x[0], b = x[0];
    long place = 0;
    for (size_t i = 1; i < n; i++) {
        if (x[i] < a) { a = x[i]; place = i; }
        b = fmaxf(b, x[i]);
    }
    low[0] = a * scale; high[0] = b * scale; at[0] = place;
}
"""


def _pull(inputs: Any, y: Any, cotangent: Any) -> Any:
    return y * (cotangent - (y * cotangent).sum(-1, keepdim=True))


def _push(inputs: Any, y: Any, tangents: Any) -> Any:
    return y * (tangents[0] - (y * tangents[0]).sum(-1, keepdim=True))


def _softmax(**settings: Any) -> Any:
    return lazyt.c_kernel(SOFTMAX, inputs={"x": "*rows columns"}, **settings)


def _close(a: lazyt.Tensor, b: lazyt.Tensor) -> None:
    steps = np.abs(a.detach().numpy().view(np.int32) - b.detach().numpy().view(np.int32))
    assert steps.max() <= 16, steps


def test_softmax_is_that_of_lazyt_within_ulps() -> None:
    softmax = _softmax(vjp=_pull)
    lazyt.manual_seed(0)
    x = lazyt.randn(7, 33, requires_grad=True)
    y = softmax(x * 2)
    _close(y, lazyt.softmax(x * 2, -1))
    weights = lazyt.randn(7, 33)
    found: Any
    wanted: Any
    (found,) = lazyt.autograd.grad((y * weights).sum(), x)
    (wanted,) = lazyt.autograd.grad((lazyt.softmax(x * 2, -1) * weights).sum(), x)
    assert lazyt.allclose(found, wanted, atol=1e-6)


def test_it_is_captured_and_in_order_with_other_kernels() -> None:
    softmax = _softmax(vjp=_pull)

    @lazyt.jit
    def step(w: Any, x: Any) -> Any:
        loss = (softmax(x @ w) * x).sum()
        loss.backward()
        with lazyt.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
        return loss

    def plain(w: Any, x: Any) -> Any:
        loss = (lazyt.softmax(x @ w, -1) * x).sum()
        slope: Any = lazyt.autograd.grad(loss, w)[0]
        return loss, (w - 0.1 * slope).detach().requires_grad_()

    w, v = (lazyt.eye(5).requires_grad_() for _ in range(2))
    for number in range(5):
        x = lazyt.randn(4, 5, generator=lazyt.Generator().manual_seed(number))
        loss = step(w, x)
        wanted, v = plain(v, x)
        assert lazyt.allclose(loss, wanted, atol=1e-5) and lazyt.allclose(w, v, atol=1e-5)
    assert step.why() == ["captured"]


def test_several_results_come_from_one_launch() -> None:
    extremes = lazyt.c_kernel(
        EXTREMES, inputs={"x": "n"}, out={"low": "", "high": lambda shape: (), "at": "1"}
    )
    x = lazyt.randn(50).realize()
    low, high, at = extremes(x, 2.0)
    report = lazyt.explain(low, high, at)
    assert len(report.kernels) == 1, report
    assert low == 2 * x.min() and high == 2 * x.max()
    assert at.dtype is lazyt.int64 and at.tolist() == [x.argmin().item()]
    assert extremes(x, scale=lazyt.tensor(3.0))[1] == 3 * x.max()
    assert repr(extremes) == "<C kernel extremes(x, scale)>"


@pytest.mark.parametrize("threads", [1, 2])
def test_vmap_calls_it_for_every_example_in_one_launch(threads: int) -> None:
    with lazyt.config.override(threads=threads):
        softmax = _softmax()
        x = lazyt.randn(3, 40, 70, 5)
        made = lazyt.func.vmap(lazyt.func.vmap(softmax))(x)
        kinds = [kernel.kind for kernel in lazyt.explain(made).kernels]
        assert kinds.count("custom") == 1, kinds
        _close(made, lazyt.softmax(x, -1))
        extremes = lazyt.c_kernel(EXTREMES, inputs={"x": "n"}, out="")
        values, scales = lazyt.randn(4, 6), lazyt.randn(3)
        every = lazyt.func.vmap(lambda s: lazyt.func.vmap(lambda v: extremes(v, s)[1])(values))(
            scales
        )
        assert (every == scales[:, None] * values.amax(-1)).all()


def test_derivatives_that_were_given_count_everywhere() -> None:
    softmax = _softmax(vjp=_pull, jvp=_push)
    x = lazyt.randn(2, 6)
    wanted = lazyt.func.jacrev(lambda x: lazyt.softmax(x, -1))(x)
    assert lazyt.allclose(lazyt.func.jacrev(softmax)(x), wanted, atol=1e-6)
    _, tangent = lazyt.func.jvp(softmax, (x,), (lazyt.ones_like(x),))
    assert lazyt.allclose(tangent, lazyt.zeros_like(x), atol=1e-6)
    leaf = x.clone().requires_grad_()
    with pytest.raises(GradientError, match="a kernel of your own has no gradient"):
        _softmax()(leaf).sum().backward()
    with pytest.raises(GradientError, match="2 cotangents for 1 tensors"):
        _softmax(vjp=lambda inputs, y, g: (g, g))(leaf).sum().backward()


def test_a_rule_for_vmap_may_be_given() -> None:
    called = []

    def rule(info: Any, in_dims: Any, x: Any) -> Any:
        called.append(info.batch_size)
        return softmax(x.movedim(in_dims[0], 0)), 0

    softmax = _softmax(vjp=_pull, vmap=rule)
    x = lazyt.randn(4, 3, 5)
    _close(lazyt.func.vmap(softmax)(x), lazyt.softmax(x, -1))
    assert called == [4]


@pytest.mark.parametrize("case", hostile_texts.NO_KERNELS, ids=lambda c: c[0][:60])
def test_what_is_no_kernel_is_refused_with_its_place(case: tuple[str, str]) -> None:
    text, part = case
    with pytest.raises(SourceError) as caught:
        lazyt.c_kernel(text)
    assert part in str(caught.value) and caught.value.line > 0
    assert f"line {caught.value.line}, column {caught.value.column}: " in str(caught.value)


@pytest.mark.parametrize("text", hostile_texts.NO_RACES, ids=lambda text: text.split("{")[2][:40])
def test_turns_that_write_to_elements_of_their_own_are_no_race(text: str) -> None:
    assert lazyt.c_kernel(text)


@pytest.mark.parametrize(("text", "part"), hostile_texts.NO_C, ids=lambda v: repr(v)[:40])
def test_what_is_no_c_is_no_kernel(text: Any, part: str) -> None:
    with pytest.raises(SourceError):
        lazyt.c_kernel(text)


def _eight(body: str, trust: bool = False) -> Any:
    text = f"void f(const float *x, float *y, long n) {{ {body} }}"
    return lazyt.c_kernel(text, inputs={"x": "n"}, trust=trust)


@pytest.mark.parametrize("case", hostile_texts.OUTSIDE, ids=lambda c: c[0][:60])
def test_accesses_that_may_be_outside_are_refused_before_they_happen(
    case: tuple[str, str],
) -> None:
    body, access = case
    with pytest.raises(SourceError) as caught:
        _eight(body)(lazyt.ones(8))
    assert access in str(caught.value) and caught.value.line == 1
    assert "trust=True" in str(caught.value)


INSIDE = (
    "for (int i = 0; i < n; i++) y[i] = x[i] * 2;",
    "for (int i = n - 1; i >= 0; i -= 1) y[i] = x[i] * 2;",
    "for (size_t i = 0; i < n; ++i) { if (i >= n) return; y[i] = x[i] * 2; }",
    "int i = 0; while (i < n) { if (i % 2 == 3) break; y[i] = x[i] * 2; i += 1; }",
    "for (int i = 0; i < n; i++) { int k = x[i]; if (k < 0 || k >= n) continue; y[i] = x[i] * 2; }",
    "for (int i = 0; i < n / 2; i++) { y[2 * i] = 2 * x[2 * i]; y[2 * i + 1] = 2 * x[2 * i + 1]; }",
    "for (int i = 0; i < n; i++) { float a[3] = {1, 2}; y[i] = x[i] * a[i % 3 > 2 ? 0 : 1]; }",
    "for (int b = 0; b < n; b += 3) for (int i = b; i < b + 3 && i < n; i++) y[i] = 2 * x[i];",
    "unsigned h = 4294967295u; h += 3; for (int i = 0; i < n; i++) y[i] = x[i] * h;",
    "int z = 0; for (int i = 0; i < n; i++) y[i] = x[i] * (2 + n / z + n % (z - 1));",
    "\n#pragma omp simd\nfor (int i = 0; i < n; i++) y[i] = x[i] * 2;\n",
    "for (int i = 0; i < n; i++) y[i] = fabsf(x[i]) + (isnan(x[i]) ? NAN : abs((int)x[i]));",
)


@pytest.mark.parametrize("body", INSIDE)
def test_accesses_that_are_inside_are_proved(body: str) -> None:
    x = lazyt.arange(8.0)
    with lazyt.config.override(verify=True):
        assert (_eight(body)(x) == 2 * x).all(), body
    assert (_eight(body, trust=True)(x) == 2 * x).all()


def test_whoever_is_trusted_may_use_pointers_freely() -> None:
    text = """
    static void one(const float *from, float *to) { *to = *from + 1; }
    void all(const float *x, float *y, long n) {
        const float *end = x + n;
        while (x != end) { one(x, y); x++; y += 1; }
    }"""
    with pytest.raises(SourceError, match="only the last function is void"):
        lazyt.c_kernel(text)
    made = lazyt.c_kernel(
        text.replace("while (x != end)", "for (long i = 0; i < n; i++)"),
        inputs={"x": "n"},
        trust=True,
    )
    assert made(lazyt.arange(5.0)).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_operands_are_compared_with_the_text() -> None:
    softmax = _softmax()
    with pytest.raises(DTypeError, match=r"'x' must be float32 \(float in C\), not float64"):
        softmax(lazyt.ones(2, 3, dtype=lazyt.float64))
    with pytest.raises(DTypeError, match="must be a tensor, not int"):
        softmax(1)
    with pytest.raises(DTypeError, match=r"takes 1 arguments \(x\), not 2"):
        softmax(lazyt.ones(2, 3), 1)
    with pytest.raises(DTypeError, match="'y' is none of its arguments"):
        softmax(lazyt.ones(2, 3), y=1)
    with pytest.raises(DTypeError, match="missing x"):
        softmax()
    with pytest.raises(ShapeError, match=r"x has the shape \[\], not \[\*rows, columns\]"):
        softmax(lazyt.tensor(1.0))
    with pytest.raises(DeviceError, match="takes tensors on cpu, not on cuda"):
        softmax(lazyt.ones(2, 3).to("cuda:emu"))
    pair = lazyt.c_kernel(
        "void f(const float *a, const float *b, float *c, long n) { c[0] = a[n - 1] + b[n - 1]; }",
        inputs={"a": "n", "b": "n"}, out="1",
    )  # fmt: skip
    with pytest.raises(ShapeError, match=r"b has the shape \[4\], not \[n\]: n is 3"):
        pair(lazyt.ones(3), lazyt.ones(4))
    assert pair(lazyt.ones(3), lazyt.ones(3)).tolist() == [2.0]
    with pytest.raises(DTypeError, match="'n' must be a whole number, not float"):
        lazyt.c_kernel(
            "void f(const float *x, float *y, long n) { y[0] = x[0]; }", out="1"
        )(lazyt.ones(3), 1.5)  # fmt: skip


def test_descriptions_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ArgumentError, match="y is no const pointer"):
        lazyt.c_kernel(SOFTMAX, inputs={"y": "rows columns"})
    with pytest.raises(ArgumentError, match="the shape of x is sizes"):
        lazyt.c_kernel(SOFTMAX, inputs={"x": "rows *columns"})
    with pytest.raises(ArgumentError, match="its results are y, and out= has z"):
        lazyt.c_kernel(SOFTMAX, out={"z": "rows"})
    with pytest.raises(ArgumentError, match="unknown sizes: depth"):
        lazyt.c_kernel(SOFTMAX, inputs={"x": "rows columns"}, out="depth")(lazyt.ones(2, 3))
    with pytest.raises(ArgumentError, match="it reads no array"):
        lazyt.c_kernel("void f(float *y) { y[0] = 1; }")
    assert lazyt.c_kernel("void f(float *y) { y[0] = 1; }", out="1")().tolist() == [1.0]


def test_without_elements_nothing_happens() -> None:
    assert _softmax()(lazyt.ones(0, 3)).shape == (0, 3)
    total = lazyt.c_kernel(
        "void f(const float *x, float *y, long n) { y[0] = 0; "
        "for (long i = 0; i < n; i++) y[0] += x[i]; }",
        inputs={"x": "n"}, out="1",
    )  # fmt: skip
    assert total(lazyt.ones(0)).shape == (1,)


def test_the_interpreter_says_that_it_compiles() -> None:
    softmax = _softmax()
    x = lazyt.randn(3, 4)
    with lazyt.config.override(interpret=True), pytest.warns(UserWarning, match="softmax is comp"):
        _close(softmax(x + 1), lazyt.softmax(x + 1, -1))


def test_views_and_dtypes_arrive_as_they_are_in_memory() -> None:
    for dtype, word in (("int16", "short"), ("uint8", "unsigned char"), ("bool", "bool")):
        text = f"void f(const {word} *x, {word} *y, long n) {{ for (long i = 0; i < n; i++) " + (
            "y[i] = x[n - 1 - i]; }"
        )
        x = lazyt.randint(0, 2, (4, 3)).to(getattr(lazyt, dtype))
        back = lazyt.c_kernel(text, inputs={"x": "*n"})
        assert (back(x.t()) == x.t().flatten().flip(0).reshape(3, 4)).all()


def test_graphs_and_kernels_with_it_are_text() -> None:
    softmax = _softmax()
    leaf = ops.input_((2, 3), lazyt.float32)
    node = softmax(lazyt.randn(2, 3)).node
    text = print_graph([ops.custom.custom(node.params, [leaf])[0]])
    _, (read,) = parse_graph(text, ops.OPS)
    assert read.params == node.params and print_graph([read]) == text
    from lazyt.compiler import compile_graph

    program, (kernel,) = compile_graph([read], [read.inputs[0]])
    assert parse_kernel(print_kernel(kernel)).phases == kernel.phases
    verify_kernel(kernel)
    assert any(name == node.params.function for name, _ in program.sections)
    assert "a kernel of the user's" in lazyt.compiler.program_text(program)


def test_it_can_be_pickled() -> None:
    softmax = pickle.loads(pickle.dumps(_softmax(vjp=_pull)))
    _close(softmax(lazyt.eye(3)), lazyt.softmax(lazyt.eye(3), -1))


PROGRAM = """
import lazyt
kernel = lazyt.c_kernel('''void f(const float *x, float *y, long n) {
    for (long i = 0; i < n; i++) y[i] = x[i] * FACTOR;
}''', inputs={"x": "n"})
scalar = lazyt.c_function("float f(float x) { return x + FACTOR; }")
fast = lazyt.jit(lambda x: kernel(x) + scalar(x))
for _ in range(3):
    found = fast(lazyt.ones(3)).tolist()
print(found, fast.why())
"""


def test_an_edited_text_gives_new_results_from_a_warm_cache(tmp_path: Any) -> None:
    environment = {**os.environ, "LAZYT_CACHE_DIR": str(tmp_path), "LAZYT_PROGRESS": "0"}
    for factor in (2, 3, 2):
        program = PROGRAM.replace("FACTOR", str(factor))
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == f"{[2.0 * factor + 1] * 3} ['captured']"


def test_what_is_printed_leaves_nothing_undefined() -> None:
    text = Kernel(
        """void f(const int *x, long *y, long n) {
            int a; unsigned b = 3; long c[2];
            for (int i = 0; i < n; i++) { a = x[i] / n; b = b * 7 + x[i]; y[i] = a + b % n; }
            y[0] = (int)2.5f + (int)n + (n << 70) + c[1];
        }"""
    ).text
    assert "lz_i64 a = 0;" in text and "lz_i64 c[2] = {0};" in text
    assert "lz_cast_f32_i32(2.5f)" in text and "(lz_i64) ((int) n)" in text
    assert "& 63" in text and "lz_own_rest_i64" in text and "lz_own_quotient_i64" in text
    assert "b * ((lz_u32) 7LL)" in text


def test_plans_with_it_are_verified_as_far_as_they_can_be_interpreted() -> None:
    softmax, x = _softmax(), lazyt.randn(3, 4)
    with lazyt.config.override(verify="values"):
        _close(softmax(x * 2), lazyt.softmax(x * 2, -1))
