"""The proof about emitted C: it holds for every kernel, and breaks when the text is broken."""

from __future__ import annotations

import itertools
import random
import re
from functools import cache

import pytest

from lazyt import ops
from lazyt.codegen.proof.c_bounds import argument_bytes, check_kernel_c, require_in_bounds
from lazyt.codegen.proof.facts import Atom, Facts, Form, number, unknown
from lazyt.errors import VerifyError
from lazyt.testing.random_graphs import random_graph
from tests.codegen.kernel_corpus import GRAPHS, Printed, leaf, print_kernels

RANDOM_GRAPHS = 200
BATCH = 50


def violations(printed: Printed, text: str | None = None) -> list[str]:
    """What the check says about a kernel's text, or about ``text`` in its place."""
    sizes = argument_bytes(printed.kernel, printed.c.workspace, printed.c.offsets)
    found = check_kernel_c(printed.c.source.text if text is None else text, sizes)
    return [str(v) for v in found]


@cache
def kernels(name: str) -> tuple[Printed, ...]:
    """The kernels of a graph of the corpus."""
    return tuple(print_kernels(GRAPHS[name]()))


@pytest.mark.parametrize("name", GRAPHS)
def test_kernels_stay_inside(name: str) -> None:
    for printed in kernels(name):
        assert not violations(printed), printed.c.source.text


def test_corpus_takes_every_form() -> None:
    notes = " ".join(p.c.note for name in GRAPHS for p in kernels(name))
    for form in ("PackedForm", "RowForm", "DotForm", "private=True", "pack=True", "exchanged"):
        assert form in notes, form
    texts = "".join(p.c.source.text for name in GRAPHS for p in kernels(name))
    for piece in ("lz_maximum_i64", "while (", "h /= 2", "g_tiles", "lz_worker()", " ? "):
        assert piece in texts, piece


@pytest.mark.parametrize("first", range(0, RANDOM_GRAPHS, BATCH))
def test_random_kernels_stay_inside(first: int) -> None:
    for seed in range(first, first + BATCH):
        roots = [r for r in random_graph(seed).roots if r.size]
        for printed in print_kernels(roots):
            assert not violations(printed), (seed, printed.c.source.text)


@pytest.mark.parametrize("count", [2, 3, 7, 300])
def test_values_side_by_side_are_found_by_halving(count: int) -> None:
    """A chain of conditions would be as deep as there are values: too deep to be parsed."""
    (printed,) = print_kernels([ops.concat([leaf(3 + n % 2) for n in range(count)], 0)])
    assert not violations(printed), printed.c.source.text
    deepest, depth = 0, 0
    for letter in printed.c.source.text:
        depth += (letter == "(") - (letter == ")")
        deepest = max(deepest, depth)
    assert deepest < 40


# ------------------------------------------------------------------- mutations

#: Graph, which of its kernels, a piece of the text, and what breaks it.
MUTATIONS = [
    ("chain", 0, "u < 1000", "u < 1001"),
    ("chain", 0, "y2[i0]", "y2[i0 + 1]"),
    ("chain", 0, "x0[i0]", "x0[i0 - 1]"),
    ("long_chain", 0, "((100003 - low) < 4096)", "((100004 - low) < 4096)"),
    ("broadcast", 0, "* 33) + ", "* 34) + "),
    ("pad_with_gaps", 0, "i0 >= 1", "i0 >= 0"),
    ("pad_with_gaps", 0, "i0 < 51", "i0 < 52"),
    ("pad_with_gaps", 0, "(i1 * 2) >= 2", "(i1 * 2) >= 0"),
    ("pad_with_gaps", 0, "- 65]", "- 66]"),
    ("concatenation", 0, "i1 < 3", "i1 < 4"),
    ("slices", 0, "+ 1900", "+ 1909"),
    ("overlapping_window", 0, "* 4) + i1]", "* 4) + i1 + 14]"),
    ("reduce_rows", 0, "const lz_i64 end = 1000;", "const lz_i64 end = 1001;"),
    ("reduce_rows", 0, "k < (end - 31)", "k < (end - 7)"),
    ("reduce_rows", 0, "l < (end - k)", "l <= (end - k)"),
    ("reduce_rows", 0, "lz_i64 l = 0; l < 32", "lz_i64 l = 0; l < 33"),
    ("reduce_rows", 0, "l < 16; l++", "l < 17; l++"),
    ("reduce_rows", 0, "r0_a0[l + 16]", "r0_a0[l + 17]"),
    ("reduce_columns", 0, "int h = 16", "int h = 17"),
    ("reduce_columns", 0, "r0_a0[l + h]", "r0_a0[l + h + 1]"),
    ("reduce_columns", 3, "bit4 < 2", "bit4 < 3"),
    ("reduce_columns", 3, "part < 12", "part < 13"),
    ("reduce_columns", 3, "r0_p[6]", "r0_p[5]"),
    ("reduce_rows", 0, "lz_f32 r0_a0[32]", "lz_f32 r0_a0[31]"),
    ("reduce_columns", 0, "? (600 - low)", "? (601 - low)"),
    ("reduce_columns", 0, "< 192) ? (", "< 193) ? ("),
    ("reduce_split_rows", 0, "t0 < 977", "t0 < 978"),
    ("reduce_split_rows", 0, "(q * 1024)]", "(q * 1025)]"),
    ("softmax", 0, "y1[(i0 * 1000)", "y1[(i0 * 1001)"),
    ("softmax_of_halves", 0, "kv4[77]", "kv4[76]"),
    ("gathers", 0, "(lz_i64) 49", "(lz_i64) 50"),
    ("gathers", 0, "(lz_i64) 0)", "(lz_i64) -1)"),
    ("scatters", 0, "lz_minimum_i64", "lz_maximum_i64"),
    ("updates", 0, "+ 131]", "+ 3100]"),
    ("updates", 1, "(-(i0 * 2))", "(i0 * 2)"),
    ("scans", 0, "lz_f64 running[64]", "lz_f64 running[63]"),
    ("matmul_large", 0, "g_mine + 24000", "g_mine + 23936"),
    ("matmul_large", 0, "(lz_i64)lz_worker() * 24320", "(lz_i64)lz_worker() * 24256"),
    ("matmul_large", 0, "threads < 13 ? threads : 13", "threads < 14 ? threads : 14"),
    ("matmul_large", 0, ", 300, 5, g_to)", ", 300, 6, g_to)"),
    ("matmul_large", 0, "if (g_col0 + 16 <= 250)", "if (g_col0 + 16 <= 256)"),
    ("matmul_large", 0, "g_m0 + 20 < 260", "g_m0 + 25 < 260"),
    ("matmul_large", 0, "lz_gemm_f32_5x16v32", "lz_gemm_f32_6x16v32"),
    ("matmul_few_rows", 0, "g_p1 < 299 ? g_p1 : 299", "g_p1 < 300 ? g_p1 : 300"),
    ("matmul_few_rows", 0, "(299) * 250", "(300) * 250"),
    ("matmul_few_rows", 0, "g_col0 + g_i < 250", "g_col0 + g_i < 251"),
    ("matmul_few_rows", 0, "g_last[16]", "g_last[15]"),
    ("matmul_few_rows", 0, "if (g_col0 + 16 <= 250)", "if (g_col0 + 16 <= 256)"),
    ("matmul_small", 0, "g_row + 1 < g_row1", "g_row < g_row1"),
    ("matmul_small", 0, "g_k < 28", "g_k < 29"),
    ("matrix_vector", 0, "g_row + 16 : 203", "g_row + 16 : 204"),
    ("matrix_vector", 0, "g_sums[16]", "g_sums[15]"),
]


def mutated(printed: Printed, old: str, new: str) -> str:
    """The text with the first ``old`` changed; fails when the text does not contain it."""
    text = printed.c.source.text
    assert old in text, f"{old!r} does not occur in\n{text}"
    return text.replace(old, new, 1)


@pytest.mark.parametrize(("name", "number", "old", "new"), MUTATIONS)
def test_broken_text_is_found(name: str, number: int, old: str, new: str) -> None:
    printed = kernels(name)[number]
    assert violations(printed, mutated(printed, old, new))


@pytest.mark.parametrize("name", ["chain", "reduce_rows", "softmax", "gathers", "matmul_large"])
def test_smaller_buffers_are_found(name: str) -> None:
    printed = kernels(name)[0]
    sizes = argument_bytes(printed.kernel, printed.c.workspace, printed.c.offsets)
    for number_ in range(len(sizes)):
        smaller = [s - 1 if n == number_ else s for n, s in enumerate(sizes)]
        assert check_kernel_c(printed.c.source.text, smaller), number_


def test_numbers_may_not_grow() -> None:
    """Loops that run further than they do are found, wherever the loop is."""
    for name in ("broadcast", "transposed", "reduce_middle", "softmax", "scans"):
        for printed in kernels(name):
            text = printed.c.source.text
            for found in re.finditer(r"; (\w+) < (\d+); \1\+\+", text):
                longer = f"; {found[1]} < {int(found[2]) + 1}; {found[1]}++"
                after = text[found.end() :][:150]
                if (found[2] in ("1", "2", "4", "8") and "a0[l + " in after) or "a0[v + " in after:
                    continue  # lanes are folded by halves, inside of 32
                changed = text[: found.start()] + longer + text[found.end() :]
                assert violations(printed, changed), (name, found[0], text)


# --------------------------------------------------------------------- errors

SMALL = "void lz_k(char *b0_, int threads) {{ lz_f32 *restrict y = (lz_f32 *)b0_; {} }}"


def small(body: str, size: int = 40) -> list[str]:
    """What the check says about a body that sees ``y`` of ``size`` bytes."""
    return [str(v) for v in check_kernel_c(SMALL.format(body), [size])]


@pytest.mark.parametrize(
    "body",
    [
        "y[threads] = 0;",
        "y[9 + (threads < 0)] = 0;",
        "*y = 0;",
        "lz_f32 *p = y + 1; p[9] = 0;",
        "for (lz_i64 i = 0; i < 10; i--) y[i] = 0;",
        "for (lz_i64 i = 0; i < 20; i++) { if (i < 10) { y[i] = 0; } else { y[i - 9] = 0; } }",
        "lz_i64 i = 0; while (i < 9) { y[i] = 0; i += 1; i += 1; } y[i] = 0;",
        "lz_i64 i = 0; if (threads) { i = 10; } y[i] = 0;",
        "for (lz_i64 i = 0; i < 10; i++) { lz_i64 j = (lz_i64)y[i]; y[j] = 0; }",
        "lz_i64 a[3]; a[3] = 1; y[0] = 0;",
        "lz_f32 a[3][4]; y[0] = a[0][4];",
        "lz_unknown_f32(y);",
        "for (lz_i64 i = 0; i < 4; i++) { for (lz_i64 i = i; i < 8; i++) { y[i] = 0; } }",
        "lz_i64 i = 3; { const lz_i64 i = (lz_i64) (i + 1); y[i] = 0; }",
        "lz_f32 v = 1; { lz_f32 v = v; y[0] = v; }",
        "y[threads / 2 * 0 + (threads % 10)] = 0;",
        "y[(lz_u8)300] = 0;",
    ],
)
def test_what_cannot_be_proved_is_said(body: str) -> None:
    assert small(body)


@pytest.mark.parametrize(
    "body",
    [
        "if (threads >= 0 && threads < 10) { y[threads] = 0; }",
        "if (!(threads < 0 || threads >= 10)) { y[threads] = 0; }",
        "if (threads >= 0) { y[threads % 10] = 0; }",
        "y[lz_mod_i64((lz_i64)threads, 10)] = 0;",
        "for (lz_i64 i = 0; i < 5; i++) { y[i < 3 ? 2 * i : 9] = 0; }",
        "if (1 > 2) { y[100] = 0; }",
        "for (lz_i64 i = 3; i < 12; i += 4) y[i - 2] = 0;",
        "lz_i64 i = 0; while (i < 8) { y[i] = 0; i += 4; } y[i] = 0;",
    ],
)
def test_what_is_inside_is_proved(body: str) -> None:
    assert not small(body)


def test_pieces_of_a_workspace_must_not_overlap() -> None:
    text = (
        "void lz_k(char *b0_, int threads) {"
        " lz_f32 *restrict a = (lz_f32 *)b0_; lz_f32 *restrict b = (lz_f32 *)(b0_ + 40);"
        " for (lz_i64 i = 0; i < %d; i++) { a[i] = 0; b[i] = 0; } }"
    )
    assert not check_kernel_c(text % 10, [80])
    assert check_kernel_c(text % 11, [1000])[0].extent == 40


def test_errors_show_the_text() -> None:
    printed = kernels("chain")[0]
    sizes = argument_bytes(printed.kernel)
    require_in_bounds(printed.c.source.text, sizes)
    with pytest.raises(VerifyError, match=r"line \d+: y2.*allowed 0\.\.3991\)"):
        require_in_bounds(printed.c.source.text, [*sizes[:-1], 3992])
    with pytest.raises(VerifyError, match="read back"):
        check_kernel_c("void f(char *b0_ {", [1])
    with pytest.raises(VerifyError, match="no size was given for the argument b1_"):
        check_kernel_c("void f(char *b0_, char *b1_) {}", [1])
    with pytest.raises(VerifyError, match="1 sizes more"):
        check_kernel_c("void f(char *b0_) {}", [1, 1])
    with pytest.raises(VerifyError, match="does not know DoWhile"):
        check_kernel_c("void f(char *b0_) { do { } while (1); }", [1])


# ---------------------------------------------------------------- the arithmetic


def random_form(generator: random.Random, atoms: list[Atom]) -> Form:
    """A form with small factors."""
    made = number(generator.randint(-6, 6))
    for atom in atoms:
        made = made + unknown(atom).times(generator.randint(-3, 3))
    return made


def evaluate(form: Form, atoms: list[Atom], values: tuple[int, ...]) -> int:
    """The value of a form."""
    return form.const + sum(f * values[atoms.index(a)] for a, f in form.terms)


@pytest.mark.parametrize("seed", range(40))
def test_proofs_agree_with_trying_all_values(seed: int) -> None:
    """What is proved holds for all values; what holds by a margin is proved."""
    generator = random.Random(seed)
    atoms = [Atom(n, (generator.randint(-3, 0), generator.randint(0, 4))) for n in "abc"]
    known = [random_form(generator, atoms) for _ in range(generator.randint(0, 3))]
    points = list(itertools.product(*(range(a.low, a.high + 1) for a in atoms)))
    points = [p for p in points if all(evaluate(f, atoms, p) >= 0 for f in known)]
    facts = Facts()
    proved = 0
    with facts.scope(known):
        assert not (facts.impossible and points)
        for _ in range(30):
            goal = random_form(generator, atoms)
            least = min((evaluate(goal, atoms, p) for p in points), default=0)
            if facts.proves(goal):
                proved += 1
                assert least >= 0, goal
            else:
                # Rational bounds of such small systems miss the integers' by little.
                assert least < 8, (goal, least)
    assert facts.range_of(unknown(atoms[0])) == (atoms[0].low, atoms[0].high)


def test_quotients_are_exact() -> None:
    facts = Facts()
    for low, divisor, step in itertools.product((-7, 0, 5), (2, 3, 8), (1, 4, 6)):
        atom = Atom("a", (low, low + 9))
        value = unknown(atom).times(step).shifted(3)
        made = facts.quotient(value, divisor)
        rest = value - made.times(divisor)
        assert facts.proves(rest) and facts.proves(number(divisor - 1) - rest)
        least, most = ((e * step + 3) // divisor for e in (low, low + 9))
        assert facts.proves(made.shifted(-least)) and facts.proves(number(most) - made)
        assert not facts.proves(made.shifted(-least - 1))
        assert not facts.proves(number(most - 1) - made)


def test_the_largest_quotient_is_a_whole_number() -> None:
    """Of steps that go on from a chunk's first, no range of a single unknown says enough."""
    text = """void lz_kernel(char *b0_, int threads)
{
  lz_f32 * restrict y0 = (lz_f32 *) b0_;
  for (lz_i64 k = 0; k < 50; k += 32)
    for (lz_i64 i = k; i < ((50 < k + 32) ? 50 : (k + 32)); i++)
      for (lz_i64 u = 0; u < 40; u++)
        y0[1950 - (i * 40 + u) / 50 * 50 + (i * 40 + u) % 50] = 0.0f;
}
"""
    assert not check_kernel_c(text, [8000])
    assert check_kernel_c(text.replace("1950", "1949"), [8000])
