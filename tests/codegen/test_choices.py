"""Forms of kernels as values: what may be asked for, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

import lazyt
from lazyt import Tensor, ops
from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.conv.blocks import SlideForm
from lazyt.codegen.loops.forms import LoopForm
from lazyt.codegen.matmul.contraction import PackedForm, RowForm
from lazyt.codegen.plan.candidates import Field
from lazyt.codegen.plan.choices import ChoiceError, Fusing, Tuned, signature
from lazyt.compiler import compile_graph
from lazyt.handle.dispatch import wrap
from lazyt.ir.dtypes import float32
from lazyt.ir.kernel import Kernel

MACHINE = (32, (32 << 10, 512 << 10, 32 << 20))


def kernel_of(function: Callable[..., Tensor], *shapes: Sequence[int]) -> Kernel:
    """The only kernel of a function of float32 tensors."""
    inputs = [ops.input_(tuple(shape), float32) for shape in shapes]
    kernels = compile_graph([function(*map(wrap, inputs)).node], inputs)[1]
    assert len(kernels) == 1
    return kernels[0]


CASES: dict[str, tuple[Callable[..., Tensor], tuple[Sequence[int], ...]]] = {
    "matmul": (lambda a, b: a @ b, ((96, 80), (80, 112))),
    "relu(matmul)": (lambda a, b: (a @ b).relu(), ((31, 77), (77, 200))),
    "bmm": (lambda a, b: a @ b, ((6, 40, 64), (6, 64, 40))),
    "skinny": (lambda a, b: a @ b, ((7, 50), (50, 90))),
    "matvec": (lambda a, b: a @ b, ((300, 200), (200, 2))),
    "conv": (
        lambda a, b: lazyt.nn.functional.conv2d(a, b, padding=1),
        ((2, 8, 20, 20), (16, 8, 3, 3)),
    ),
    "columns": (lambda a: a.sum(0), ((500, 300),)),
    "rows": (lambda a: a.softmax(-1), ((50, 300),)),
    "map": (lambda a: a.exp() + 1, ((100_000,),)),
    "total": (lambda a: a.sum(), ((1_000_000,),)),
}


@pytest.mark.parametrize("name", CASES)
def test_standard_is_what_is_printed_and_neighbours_are_others(name: str) -> None:
    kernel = kernel_of(CASES[name][0], *CASES[name][1])
    field = Field(kernel, *MACHINE)
    standard = field.standard()
    assert standard is not None
    base = print_kernel_c(kernel, *MACHINE)
    assert print_kernel_c(kernel, *MACHINE, tuned=standard).source == base.source
    found = field.neighbours(standard)
    texts = {print_kernel_c(kernel, *MACHINE, tuned=t).source.text for t in found}
    assert standard not in found and len(set(found)) == len(found)
    assert len(texts - {base.source.text}) >= 3
    for tuned in found:
        assert Tuned.from_dict(tuned.to_dict()) == tuned
        assert field.neighbours(tuned), "the search can go on from everywhere"


def test_forms_that_do_not_fit_are_not_used() -> None:
    matmul = kernel_of(*CASES["matmul"][:1], *CASES["matmul"][1])
    packed = PackedForm(6, 2, 80, 24, 112, 32, 80, 112, False, True)
    fits: dict[str, Any] = {"k_block": 40, "row_block": 48, "strip": 16}
    wrong: dict[str, Any] = {
        "rows": 5, "vectors": 3, "k_block": 0, "row_block": 25, "col_block": 100, "strip": 8,
        "col_span": 96, "k_span": 0, "private": True, "straight": True,
    }  # fmt: skip
    base = print_kernel_c(matmul, *MACHINE).source.text

    def text(kernel: Kernel, form: Any) -> str:
        return print_kernel_c(kernel, *MACHINE, tuned=Tuned(form)).source.text

    assert (
        len(
            {base, text(matmul, packed)}
            | {text(matmul, replace(packed, **{k: v})) for k, v in fits.items()}
        )
        == 5
    )
    for name, value in wrong.items():
        if name == "private":  # B packed in parts cannot be everybody's own
            form = replace(packed, private=True, k_span=40, k_block=40)
        elif name == "straight":  # what asks ahead is another tile
            form = replace(packed, straight=True, ahead=True)
        else:
            form = replace(packed, **{name: value})
        assert text(matmul, form) == base, name
    for rows in (RowForm(500, 16, 1, 1, False, True), RowForm(4, 16, 5, 1, False, True)):
        assert text(matmul, rows) == base
    assert text(matmul, SlideForm(1, 1, 4, 2)) == base, "of another kind of kernel"
    conv = kernel_of(CASES["conv"][0], *CASES["conv"][1])
    standard = Field(conv, *MACHINE).standard()
    assert standard is not None and isinstance(standard.form, SlideForm)
    changes: list[dict[str, Any]] = [
        {"chunk": 0}, {"chunk": 99}, {"rows": 40}, {"run": 5}, {"splits": 64}, {"straight": True},
    ]  # fmt: skip
    for change in changes:
        text(conv, replace(standard.form, **change))  # written in some form that fits


def test_loops_refuse_what_would_be_wrong() -> None:
    columns = kernel_of(CASES["columns"][0], *CASES["columns"][1])
    base = print_kernel_c(columns, *MACHINE).source.text
    for form in (
        LoopForm(tile=301), LoopForm(steps=3), LoopForm(steps=32), LoopForm(share=-2),
        LoopForm(tile=64, lanes="inner"), LoopForm(steps=2, lanes="inner"),
    ):  # fmt: skip
        printed = print_kernel_c(columns, *MACHINE, tuned=Tuned(loops=(form,)))
        assert printed.source.text == base, form
    scan = kernel_of(lambda a: a.cumsum(0), (40, 50))
    turned = print_kernel_c(scan, *MACHINE, tuned=Tuned(loops=(LoopForm(lanes="inner"),)))
    assert turned == print_kernel_c(scan, *MACHINE), "steps in order stay on their axis"


def test_choices_are_read_strictly() -> None:
    good = Tuned(loops=(LoopForm(tile=8),)).to_dict()
    assert Tuned.from_dict(good) == Tuned(loops=(LoopForm(tile=8),))
    for raw, message in (
        (3, "has to be an object"),
        ({"kind": "fast"}, "no kind of form 'fast'"),
        ({"kind": ["dots"]}, "no kind of form"),
        ({"kind": "loops", "phases": 3}, "'phases', a list"),
        ({"kind": "loops", "phases": [{"tile": 1}]}, "has the fields tile, steps, lanes, share"),
        ({"kind": "dots", "parallel": True}, "'exchanged' has to be"),
        (
            {"kind": "dots", "exchanged": False, "parallel": 1},
            "'parallel' of a DotForm cannot be 1",
        ),
        ({"kind": "loops", "phases": [good["phases"][0] | {"tile": -5}]}, "cannot be -5"),
    ):
        with pytest.raises(ChoiceError, match=message):
            Tuned.from_dict(raw)
    with pytest.raises(ChoiceError, match="Fusing"):
        Fusing.from_dict({"members": "all", "inline": 4})


def test_signatures_tell_kernels_apart() -> None:
    same = [signature(kernel_of(CASES["matmul"][0], *CASES["matmul"][1])) for _ in range(2)]
    assert same[0] == same[1] and same[0].startswith("contract float32 1x96x112x80 #")
    others = {signature(kernel_of(f, *shapes)) for f, shapes in CASES.values()}
    assert len(others) == len(CASES)
    turned = kernel_of(lambda a, b: a @ b.T, (96, 80), (112, 80))
    assert signature(turned) not in others, "another layout is another kernel"
