"""Kernels that mean nothing, or not the same twice, are refused, with a mark where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import lazyt.ops  # noqa: F401 - registers the scalar functions
from lazyt.errors import ParseError, VerifyError
from lazyt.ir.dtypes import float32
from lazyt.ir.index import Axis, Linear, Quotient
from lazyt.ir.kernel import Bands, Buffer, Kernel, Phase, Store
from lazyt.ir.parser import parse_kernel
from lazyt.ir.proofs.stores import unproved
from lazyt.ir.verifier import check_bounds, verify_kernel

HUGE = 1 << 62


def loops(
    body: str, grid: str = "i: 8", buffers: str = "in x: float32[8], out y: float32[8]"
) -> str:
    """A kernel with one phase."""
    return f"kernel k({buffers}) {{\n  phase ({grid}) lanes grid work 1.0 {{\n    {body}\n  }}\n}}"


def once(
    body: str, grid: str = "i: 8", buffers: str = "in x: float32[8], out y: float32[8]"
) -> str:
    """A kernel with one stage that has no loop."""
    return loops(f"once {{\n      {body}\n    }}", grid, buffers)


PRODUCT = """kernel k(in a: float32[4, 3], in b: float32[3, 5], out c: float32[4, 5]) {
  contract acc: float32 batch () rows (i: 4) columns (j: 5) inner (k: 3) {
    left a[i, k]
    right b[k, j]
    store c[i, j] = %acc
  }
}
"""
TWICE = """kernel k(in x: float32[8], work w: float32[8], out y: float32[8]) {
  phase (i: 8) lanes grid work 1.0 {
    once { store w[i] = x[i] }
  }
  phase (j: 8) lanes grid work 1.0 {
    once { store y[j] = w[j] }
  }
}
"""
SORT = """kernel k(in x: float32[4, 90], work s: float32[4, 90], out y: float32[4, 90], \
work w: float32[4, 90]) {
  phase (i: 4, j: 90) lanes grid work 1.0 {
    once { store s[i, j] = x[i, j] }
  }
  call sort_values reads (s) writes (y) work (w) descending 0
}
"""
BANDS = """kernel k(in x: float32[12, 5], out y: float32[12], band s: float32[12, 5]) bands (2, 6) {
  phase (i: 12) lanes inner work 1.0 {
    for n: 5 { store s[i, n] = x[i, n] }
  }
  phase (i: 12) lanes inner work 1.0 {
    for n: 5 { reduce r: float32 = max s[i, n] }
    once { store y[i] = %r }
  }
}
"""
GUARDED = "for k: 8 if {} {{ reduce s: float32 = sum x[k] }}\n    once {{ store y[i] = %s }}"
INOUT = "inout y: float32[8]"


@pytest.mark.parametrize("text", [PRODUCT, TWICE, SORT, BANDS, once("store y[i] = x[i]")])
def test_what_they_were_made_from_passes(text: str) -> None:
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    check_bounds(kernel)
    assert not unproved(kernel)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        # -- structure
        ("kernel k(out y: float32[8]) {\n}", "a kernel without phases", "kernel k"),
        (loops(""), "a phase without stages", "phase (i: 8)"),
        (loops("once { }"), "a stage without statements", "once"),
        (once("store y[i] = x[i]").replace("work 1.0", "work 1e999"), "work inf is no", ""),
        (once("store y[i] = x[i]").replace("once", "once sequential"), "is not sequential", "once"),
        (loops("for k: 8 sequential { reduce s: float32 = sum x[k] }\n"
               "    once { store y[i] = %s }"), "has no order of its own", "for k"),
        (loops("for k: 8 sequential { scan c: float32 = sum x[k] reduce s: float32 = sum x[k] }\n"
               "    once { store y[i] = %s }"), "folds or scans, not both", "for k"),
        (loops(GUARDED.format("2 <= k < 8")), "may leave out first steps", "for k"),
        (loops(GUARDED.format("0 <= 2*k < 8")), "the condition of a loop is", "for k"),
        (loops(GUARDED.format("0 <= i < 8")), "the condition of a loop is", "for k"),
        # -- sizes
        (once("store y[i] = x[0]", f"i: {HUGE}, j: 9"), "that does not fit into 64 bits", "phase"),
        (once("store y[i] = x[i]", buffers=f"in x: float32[8], in z: int8[{HUGE}, 5], "
              "out y: float32[8]"), "z has more bytes than fit into 64 bits", "kernel k"),
        (once(f"store y[i] = x[{HUGE}*i]"), "does not fit into 64 bits", "store y"),
        (once(f"store y[i] = x[(({2 * HUGE}*i) % 8)]"), "does not fit into 64 bits", "store y"),
        (once(f"store y[i] = x[i] where 0 <= i < {2 * HUGE}"), "has huge bounds", "store y"),
        (once("store y[i] = cast<float32>(300:int8)"), "300 is no int8", "store y"),
        (once("store y[i] = bitcast<float32>(1:int64)"), "bitcast of 8 bytes as 4", "store y"),
        (PRODUCT.replace("float32", "bool"), "truth values have no sum of products", "contract"),
        (BANDS.replace("(2, 6)", "(0, 6)"), "at least one point and one row", "kernel k"),
        (once("store y[i] = x[i]").replace(") {\n  phase", ") segments (8, 0) {\n  phase"),
         "segments are extents up to that of i, 8", "kernel k"),
        # -- several points, one element
        (once("store y[i] = x[i]", "i: 8, j: 3"), "every j stores the same elements", "store y"),
        (loops("for k: 3 { store y[i] = x[k] }"), "every k stores the same elements", "store y"),
        (once("store y[((i) // 2)] = x[i]"), "several points store the same element", "store y"),
        (once("store y[((i) % 4)] = x[i]"), "several points store the same element", "store y"),
        (once("store y[i + j] = x[i]", "i: 4, j: 5"), "several points store the same", "store y"),
        (once("store y[i] = x[i]\n      store y[-1*i + 7] = x[i]"),
         "different points store element", "store y[-1*i + 7]"),
        (loops("for s: 6 sequential { store y[s] = x[s] combine add }", buffers="in x: float32[8], "
               + INOUT), "every i stores the same elements of y", "store y"),
        (PRODUCT.replace("c[i, j] =", "c[i, 0] ="), "every j stores the same", "store c"),
        # -- one point reads what another one stores
        (once("store y[i] = y[((i + 1) % 8)]", buffers=INOUT), "different points load and store",
         "store y"),
        (loops("for k: 7 { store y[k] = y[k + 1] }", "", INOUT), "different points load and store",
         "store y"),
        (PRODUCT.replace("in a", "inout a").replace("store c", "store a[i, 0] = 0.0:float32 "
         "where 0 <= j < 1\n    store c"), "different points load and store element", "left a"),
        # -- results and scratch that are not written wholly
        (once("store y[i] = x[i]", "i: 7"), "result y is incomplete: 7 of its 8", "kernel"),
        (once("store y[2*i] = x[i]", "i: 4"), "4 of its 8 elements are written", "kernel"),
        (once("store y[i] = x[i] where 0 <= i < 5"), "element 5 is not", "kernel"),
        (once("store z[i] = x[i]", buffers="in x: float32[8], out y: int8[8], out z: float32[8]"),
         "the result y is incomplete: 0 of its 8", "kernel"),
        (once("store y[i] = x[0]", "i: 8", f"in x: float32[8], out y: float32[{1 << 40}]"),
         "at most 8 of its 1099511627776 elements", "kernel"),
        (PRODUCT.replace("c: float32[4, 5]", "c: float32[4, 6]"), "c is incomplete", "kernel"),
        (TWICE.replace("i: 8", "i: 5"), "w is read where no earlier phase has written it: 5 of",
         "store y"),
        (TWICE.replace("store w[i] =", "store w[((i) // 2)] ="), "several points store", "store w"),
        (SORT.replace("j: 90", "j: 89"), "sort_values reads s: 356 of its 360 elements", "call"),
        (BANDS.replace("for n: 5 { store", "for n: 4 { store"), "s is read where no earlier phase",
         "reduce r"),
    ],
)  # fmt: skip
def test_it_is_refused_and_marked(text: str, message: str, line: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify_kernel(parse_kernel(text))
    marks = [x for x in str(caught.value).splitlines() if "# <-- " in x]
    assert any(message in x and line in x.partition("# <-- ")[0] for x in marks), caught.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (once("store y[i] = x[i]", buffers="in x: float32[8], in x: float32[8], out y: float32[8]"),
         "buffer x is declared twice"),
        (once("store y[i] = x[i]", buffers="in x: float32[-8], out y: float32[8]"),
         "an extent cannot be negative"),
        (once("store y[((i) // 0)] = x[i]"), "a divisor must be positive"),
    ],
)  # fmt: skip
def test_text_of_that_kind_is_refused_where_it_stands(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=r"line \d+, column \d+") as caught:
        parse_kernel(text)
    assert message in str(caught.value)


def _forged(change: Callable[[Kernel], Kernel], message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify_kernel(change(parse_kernel(once("store y[i] = x[i]"))))
    marks = [x for x in str(caught.value).splitlines() if "# <-- " in x]
    assert any(message in x for x in marks)


def test_kernels_that_no_text_makes() -> None:
    def phase(kernel: Kernel) -> Phase:
        (found,) = kernel.phases
        assert isinstance(found, Phase)
        return found

    def store(kernel: Kernel, index: Linear) -> Kernel:
        stage = phase(kernel).stages[0]
        (item,) = stage.body
        assert isinstance(item, Store)
        body = (replace(item, index=(index,)),)
        whole = replace(phase(kernel), stages=(replace(stage, body=body),))
        return replace(kernel, phases=(whole,))

    twice = Buffer("x", float32, (8,), "in")
    axis = Linear(((Axis("i", 8), 1),), 0)
    _forged(
        lambda k: replace(k, buffers=(twice, *k.buffers)), "buffer x takes a name that is in use"
    )
    _forged(lambda k: replace(k, buffers=(*k.buffers, Buffer("z", float32, (-2,), "in"))),
            "buffer z has a negative extent")  # fmt: skip
    _forged(lambda k: replace(k, phases=(replace(phase(k), grid=(Axis("i", -8),)),)),
            "axis i has a negative extent")  # fmt: skip
    _forged(lambda k: replace(k, phases=(replace(phase(k), lanes="rows"),)), "unknown lanes 'rows'")
    _forged(lambda k: replace(k, bands=Bands(-1, 8)), "bands have at least one point and one row")
    _forged(lambda k: store(k, Linear(((Quotient(axis, -2), 1),), 0)), "divides by -2")
    _forged(lambda k: replace(k, name="no name"), "is no identifier")


SCATTER = """kernel k(in at: int64[6], in x: float32[6], inout y: float32[4]) {
  phase () lanes inner work 6.0 {
    for s: 6 sequential {
      let p = %s
      store y[@p[4]] = x[s] combine add
    }
  }
}
"""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "at[s]",
            "%p lies in -9223372036854775808..9223372036854775807, and is not clamped to 0..3",
        ),
        ("minimum(at[s], 3:int64)", "..3, and is not clamped"),
        ("maximum(minimum(at[s], 4:int64), 0:int64)", "%p lies in 0..4"),
        ("add(mod(at[s], 4:int64), 1:int64)", "%p lies in 1..4"),
        ("maximum(minimum(at[s], 3:int64), 0:int64)", ""),
        ("mod(at[s], 4:int64)", ""),
        ("where(lt(at[s], 2:int64), int64(((s) // 2)), 3:int64)", ""),
    ],
)
def test_positions_from_data_have_to_be_clamped(value: str, message: str) -> None:
    kernel = parse_kernel(SCATTER.replace("%s", value))
    verify_kernel(kernel)
    if not message:
        check_bounds(kernel)
        return
    with pytest.raises(VerifyError) as caught:
        check_bounds(kernel)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        # Data decide whether two points meet: a permutation would be right.
        (loops("for s: 2 sequential {\n let p = maximum(minimum(at[i], 7:int64), 0:int64)\n"
               "store y[@p[8]] = 1.0:float32 }", buffers="in at: int64[8], inout y: float32[8]"),
         "that every point stores its own elements of y"),
        (once("store y[((7*i) % 100000)] = x[0]", "i: 100000", "in x: float32[8], "
              "out y: float32[100000]"), "that all elements of y are written"),
    ],
)  # fmt: skip
def test_what_cannot_be_settled_is_not_refused(text: str, doubt: str) -> None:
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    assert doubt in unproved(kernel)


@pytest.mark.parametrize(
    "body",
    [
        "store y[i, j] = x[j, i]",
        "store y[-1*i + 399, -1*j + 299] = x[0, 0]",
        "store y[((300*i + j) // 300), ((300*i + j) % 300)] = x[0, 0]",
        "store y[i, ((j) // 4) + 75*((j) % 4)] = x[0, 0]",
        "store y[i, j] = 1.0:float32 where 0 <= i < 400",
        "store y[i, j] = 1.0:float32 where 0 <= i < 99\n"
        "store y[i, j] = 2.0:float32 where 0 <= j < 300",
    ],
)
def test_many_points_are_proved_without_counting(body: str) -> None:
    buffers = "in x: float32[300, 400], out y: float32[400, 300]"
    kernel = parse_kernel(once(body, "i: 400, j: 300", buffers))
    verify_kernel(kernel)
    assert unproved(kernel) == []
