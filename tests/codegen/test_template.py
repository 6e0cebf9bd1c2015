"""Programs of several sizes as one text: what may differ, and what may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lazyt.codegen.plan.template import Template, sample_of
from lazyt.ir.program import KernelSource, Launch, Program, Slot

TEXT = """void lz_map_1(char *b0_, char *b1_, int threads)
{
  float kept[EXTENT];
  for (lz_i64 i0 = 0; i0 < EXTENT; i0++)
    y1[i0 * STRIDE + 3] = x0[i0] * FACTOR;
}
"""


def program(extent: int, stride: int = 8, factor: str = "0.5f", text: str = TEXT) -> Program:
    for name, value in (("EXTENT", extent), ("STRIDE", stride), ("FACTOR", factor)):
        text = text.replace(name, str(value))
    slots = (Slot("input", 0, 0, 4 * extent), Slot("arena", 0, 64 * extent, 4))
    return Program(
        target="c",
        sections=(("types", "text"),),
        kernels=(KernelSource("lz_map_1", text, ("types",), 2),),
        entry="",
        slots=slots,
        launches=(Launch("lz_map_1", (0, 1), (0, 16)),),
        arena_bytes=64 * extent + 64,
        notes=({"name": "lz_map_1"},),
    )


def template(*programs: Program) -> Template:
    found = Template.of([sample_of(p) for p in programs])
    assert found is not None
    return found


def test_numbers_that_differ_become_arguments() -> None:
    made = template(program(10, 8, "0.1f"), program(12, 8, "0.25f"))
    (kernel,) = made.kernels
    assert "i0 < n0_; i0++" in kernel.text and "kept[n0_]" in kernel.text
    assert "x0[i0] * n1_" in kernel.text and "i0 * 8 + 3" in kernel.text
    assert kernel.text.startswith(
        f"void {kernel.name}(char *b0_, char *b1_, int n0_, float n1_, int"
    )
    assert kernel.numbers == ("int", "float")


def test_another_size_is_the_same_text_with_other_values() -> None:
    made = template(program(10), program(12))
    first, last = (made.instance(sample_of(program(n)), 1) for n in (10, 99))
    assert first.text_hash() == last.text_hash()
    assert first.fingerprint() != last.fingerprint()
    assert (first.values, last.values) == ((10,), (99,))
    assert first.slots[0] == Slot("input", 1, 0, 8)
    assert "(int)((const long long *)slots[0])[0], threads" in last.entry
    assert "slots[2] + 16" in last.entry


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(program(12, 9), id="a number that was the same"),
        pytest.param(program(12, text=TEXT.replace("kept", "held")), id="text"),
        pytest.param(program(1 << 40), id="a number of another type"),
        pytest.param(replace(program(12), sections=()), id="helpers"),
        pytest.param(replace(program(12), launches=(Launch("lz_map_1", (1, 0)),)), id="memory"),
    ],
)
def test_what_is_not_the_same_does_not_fit(other: Program) -> None:
    made = template(program(10), program(12))
    assert made.fits(sample_of(program(40)))
    assert not made.fits(sample_of(other))


def test_equal_columns_are_one_argument_until_they_differ() -> None:
    made = template(program(10, 10), program(12, 12))
    assert made.kernels[0].numbers == ("int",)
    assert not made.fits(sample_of(program(14, 15)))
    assert template(program(10, 10), program(12, 12), program(14, 15)).kinds == ("int", "int")


def test_numbers_that_c_must_know_have_no_template() -> None:
    text = TEXT.replace("float kept", "_Alignas(EXTENT) float kept")
    samples = [sample_of(program(n, text=text)) for n in (16, 32)]
    assert Template.of(samples) is None


def test_sizes_that_no_number_depends_on_are_one_text() -> None:
    made = template(program(10), program(10))
    assert made.instance(sample_of(program(10)), 1).values == (0,)
