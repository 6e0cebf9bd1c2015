"""Kernels that call routines: their text, their rules, and the proof over their C."""

from __future__ import annotations

import pytest

import lazyt.ops  # noqa: F401 - registers the scalar functions
from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.proof.c_bounds import argument_bytes, check_kernel_c
from lazyt.errors import ParseError, VerifyError
from lazyt.ir.parser import parse_kernel
from lazyt.ir.printer import print_kernel
from lazyt.ir.verifier import check_bounds, verify_kernel

SORT = """kernel sorted(in x: float32[4, 90], out y: float32[4, 90], out o: int64[4, 90], \
work k: float32[2, 4, 90], work p: int64[4, 90], out z: float32[4, 90]) {
  call sort_both reads (x) writes (y, o) work (k, p) descending 1
  phase (i: 4, j: 90) lanes grid work 2.0 {
    once {
      store z[i, j] = neg(y[i, j])
    }
  }
}
"""


def test_text_comes_back() -> None:
    kernel = parse_kernel(SORT)
    assert print_kernel(kernel) == SORT
    verify_kernel(kernel)
    check_bounds(kernel)


def test_printed_c_stays_inside() -> None:
    kernel = parse_kernel(SORT)
    text = print_kernel_c(kernel, 32, (1 << 15, 1 << 18, 1 << 22)).source.text
    sizes = argument_bytes(kernel)
    assert "lz_rows_sort_order_u32(4, 90, x0, x1, x2, x3, x3 + 360, x4" in text
    assert not check_kernel_c(text, sizes)
    for wrong in (text.replace("(4, 90", "(5, 90"), text.replace("x3 + 360", "x3 + 361")):
        assert wrong != text
        (found,) = {v.reason for v in check_kernel_c(wrong, sizes)}
        assert found == "bytes of the access may be outside"
    unknown = text.replace("(4, 90, x0", "(threads, 90, x0")
    assert "not understood" in str(check_kernel_c(unknown, sizes)[0])


@pytest.mark.parametrize(
    "old, new, complaint",
    [
        ("sort_both", "merge", "unknown routine 'merge'"),
        ("reads (x)", "reads (z)", "z is read before an earlier phase has written it"),
        ("reads (x)", "reads (w)", "buffer w is unknown"),
        ("writes (y, o)", "writes (x, o)", "x is read only"),
        ("writes (y, o)", "writes (y)", "sort_both writes 2 buffers, not 1"),
        ("writes (y, o)", "writes (o, y)", "takes float32[4, 90] where o stands"),
        ("work (k, p)", "work (k, k)", "a routine takes each buffer once"),
        ("work (k, p)", "work (k, o)", "a routine takes each buffer once"),
        ("work (k, p)", "work (z, p)", "z is no scratch"),
        ("descending 1", "ascending 1", "sort_both has the settings descending"),
        ("reads (x)", "reads ()", "sort_both reads the rows of one buffer"),
    ],
)
def test_rules(old: str, new: str, complaint: str) -> None:
    assert SORT.count(old) == 1
    with pytest.raises(VerifyError) as caught:
        verify_kernel(parse_kernel(SORT.replace(old, new)))
    assert complaint in str(caught.value)


def test_a_call_without_its_lists_is_refused() -> None:
    with pytest.raises(ParseError, match="writes"):
        parse_kernel(SORT.replace("writes (y, o) ", ""))
