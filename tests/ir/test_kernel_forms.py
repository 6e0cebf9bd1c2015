"""The form of a kernel is printed with it, and read back: a dump runs again as it ran."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lazyt
from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.loops.forms import LoopForm
from lazyt.codegen.matmul.contraction import PackedForm
from lazyt.codegen.plan.candidates import Field
from lazyt.codegen.plan.choices import ChoiceError, Tuned, noted_form, signature, with_form
from lazyt.compiler import print_kernels, with_forms
from lazyt.config import config
from lazyt.errors import ParseError
from lazyt.ir.parser import parse_kernel, parse_kernels
from lazyt.ir.printer import print_kernel
from tests.codegen.kernel_corpus import CACHES, GRAPHS, VECTOR_BYTES
from tests.codegen.kernel_corpus import print_kernels as corpus_kernels

COLUMNS = """kernel columns(in x: float32[64, 96], out y: float32[96]) {
  phase (j: 96) lanes grid work 64.0 {
    for i: 64 {
      reduce s: float32 = sum x[i, j]
    }
    once {
      store y[j] = %s
    }
  }
}
"""
FORM = "  form: loops tile=16 steps=2 lanes=grid share=-1\n"


def with_line(text: str, line: str = FORM) -> str:
    """A kernel's text with a form."""
    head, _, rest = text.partition("\n")
    return f"{head}\n{line}{rest}"


def c_text(text: str) -> str:
    return print_kernels([parse_kernel(text)])


def test_a_form_is_read_printed_and_used() -> None:
    kernel = parse_kernel(with_line(COLUMNS))
    assert noted_form(kernel) == Tuned(loops=(LoopForm(16, 2, "grid", -1),))
    assert print_kernel(kernel, forms=True) == with_line(COLUMNS)
    assert print_kernel(kernel) == COLUMNS, "a form is no part of what a kernel means"
    assert signature(kernel) == signature(parse_kernel(COLUMNS))
    assert c_text(with_line(COLUMNS)) != c_text(COLUMNS)
    assert c_text(with_line(COLUMNS, "  form: standard\n")) == c_text(COLUMNS)


@pytest.mark.parametrize("name", GRAPHS)
def test_every_form_survives_its_text(name: str) -> None:
    for printed in corpus_kernels(GRAPHS[name]()):
        field = Field(printed.kernel, VECTOR_BYTES, CACHES)
        standard = field.standard()
        if standard is None:
            continue
        for form in [standard, *field.neighbours(standard)[:3]]:
            noted = with_form(printed.kernel, form)
            text = print_kernel(noted, forms=True)
            again = parse_kernel(text)
            assert noted_form(again) == form
            assert print_kernel(again, forms=True) == text


@pytest.mark.parametrize("name", ["softmax", "transposed", "linear_with_epilogue", "matmul_types"])
def test_what_runs_here_is_what_its_text_makes(name: str) -> None:
    kernels = [printed.kernel for printed in corpus_kernels(GRAPHS[name]())]
    noted = with_forms(kernels)
    assert all("form: " in print_kernel(kernel, forms=True) for kernel in noted)
    text = "".join(print_kernel(kernel, forms=True) for kernel in noted)
    again, made = print_kernels(parse_kernels(text)), print_kernels(kernels)
    assert again == re.sub(r"\blz_(row|map|contract)_", "lz_kernel_", made)


def test_dumps_have_the_kernels_with_their_forms(tmp_path: Path) -> None:
    with config.override(dump=str(tmp_path), tier=1):
        (lazyt.randn(64, 48).realize() @ lazyt.randn(48, 40).realize()).realize()
    dumped = [path.read_text() for path in sorted(tmp_path.glob("*plan.kernels"))]
    (text,) = [text for text in dumped if "contract" in text]
    assert "\n  form: " in text
    assert "\n".join(print_kernel(k, forms=True) for k in parse_kernels(text)) == text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("form: packed rows=1\n", "'exchanged' has to be true or false"),
        ("form: packed exchanged=false rows=1\n", "has the fields rows, vectors"),
        ("form: tiles\n", "no kind of form 'tiles'"),
        ("form: loops tile=16\n", "has the fields tile, steps, lanes, share"),
        ("form: loops tile=many steps=2 lanes=grid share=0\n", "'tile' of a LoopForm cannot be"),
        ("form: loops tile=1 steps=1 lanes=grid share=0; tile=1 steps=1 lanes=grid share=0\n",
         "has 1 phases, its form 2"),
        ("form: dots exchanged=false parallel=true\n", "no kernel for a form of this kind"),
    ],
)  # fmt: skip
def test_wrong_forms_are_refused(line: str, message: str) -> None:
    with pytest.raises(ChoiceError) as caught:
        noted_form(parse_kernel(with_line(COLUMNS, line)))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("form packed\n", "expected ':'"),
        ("form: loops tile\n", "expected '='"),
        ("form: loops tile=1 tile=2\n", "tile is there twice"),
        ("form: rows m=1; n=2\n", "a form of kind rows has one part"),
    ],
)
def test_wrong_lines_are_marked(line: str, message: str) -> None:
    with pytest.raises(ParseError, match=r"line [23], column") as caught:
        parse_kernel(with_line(COLUMNS, line))
    assert message in str(caught.value)


def test_a_form_that_does_not_fit_leaves_it_to_the_heuristics() -> None:
    wide = with_form(parse_kernel(COLUMNS), Tuned(loops=(LoopForm(4096, 2, "grid", 0),)))
    assert print_kernels([wide]) == c_text(COLUMNS)
    text = """kernel product(in a: float32[4, 6], in b: float32[6, 5], out c: float32[4, 5]) {
      contract acc: float32 batch () rows (i: 4) columns (j: 5) inner (k: 6) {
        left a[i, k] right b[k, j] store c[i, j] = %acc
      }
    }"""
    product = parse_kernel(text)
    large = with_form(product, Tuned(PackedForm(24, 8, 4096, 8, 32, 16, 64, 96, False, True)))
    plain = print_kernel_c(product, VECTOR_BYTES, CACHES).source.text
    asked = print_kernel_c(large, VECTOR_BYTES, CACHES, tuned=noted_form(large)).source.text
    assert asked == plain
