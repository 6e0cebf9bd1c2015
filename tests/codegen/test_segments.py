"""Flat kernels: what is one, what is the same program, and what a kernel with segments may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lazyt import ops
from lazyt.codegen.c.segments import segment_starts
from lazyt.codegen.loops.flat import flatten, split_segments, unite
from lazyt.codegen.lower.groups import lower_group
from lazyt.codegen.plan.batches import MOST_SEGMENTS, Batch, make_batches
from lazyt.codegen.plan.duplicates import Alike
from lazyt.compiler import compile_graph, group_graph
from lazyt.errors import VerifyError
from lazyt.ir.dtypes import DType, float32, float64
from lazyt.ir.graph import Node
from lazyt.ir.kernel import Kernel
from lazyt.ir.parser import parse_kernel
from lazyt.ir.printer import print_kernel
from lazyt.ir.program import Program
from lazyt.ir.verifier import check_bounds, verify_kernel
from tests.codegen.kernel_corpus import leaf


def scaled(*shape: int, dtype: DType = float32) -> Node:
    """A map that reads every element of a value, and one number."""
    return ops.apply("exp", ops.apply("mul", leaf(*shape, dtype=dtype), leaf(dtype=dtype)))


def kernel_of(root: Node, whole: bool = False) -> Kernel:
    (group,) = group_graph([root])[1]
    return lower_group(group, 16, whole=whole).kernel


def batches(roots: Sequence[Node]) -> list[Batch]:
    return make_batches(group_graph(roots)[1], Alike(16), set(roots))


def sizes(roots: Sequence[Node]) -> list[int]:
    return sorted(len(batch.groups) for batch in batches(roots))


def total(node: Node) -> Node:
    return ops.reduce_("sum", ops.reshape(node, (node.size,)), (0,))


@pytest.mark.parametrize("shape", [(7,), (3, 5), (1, 4, 1, 2), (2, 3, 4)])
def test_shape_does_not_matter(shape: tuple[int, ...]) -> None:
    one, other = flatten(kernel_of(scaled(100))), flatten(kernel_of(scaled(*shape)))
    assert one is not None and other is not None
    assert one.key == other.key and one.forms == other.forms
    kernel = unite([one, other])
    assert kernel.segments == (one.extent, other.extent)
    verify_kernel(kernel)
    check_bounds(kernel)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)


def test_one_element_fits_any_form() -> None:
    one, many = flatten(kernel_of(scaled())), flatten(kernel_of(scaled(9)))
    assert one is not None and many is not None
    assert one.key == many.key and one.forms == () != many.forms
    assert sizes([scaled(), scaled(1), scaled(1, 1), scaled(9)]) == [4]


def test_parts_of_stacks_begin_at_their_origins() -> None:
    stacks = [leaf(6, 10), leaf(3, 8)]
    parts = [ops.slice_(x, (2, 0), (1, x.shape[1]), (1, 1)) for x in stacks]
    flats = [flatten(kernel_of(ops.apply("exp", part))) for part in parts]
    assert [flat and flat.origins for flat in flats] == [(20, 0), (16, 0)]
    program, _ = compile_graph([ops.apply("exp", part) for part in parts], stacks)
    (launch,) = program.launches
    assert launch.offsets == (80, 0, 64, 0) and launch.extents == (10, 8)
    assert Program.from_json(program.to_json()) == program


def test_what_is_not_flat() -> None:
    x = leaf(4, 6)
    for root in (
        ops.apply("add", x, leaf(6)),
        ops.apply("add", x, ops.permute(leaf(6, 4), (1, 0))),
        ops.apply("neg", ops.slice_(x, (0, 1), (4, 3), (1, 1))),
        ops.apply("neg", ops.flip(leaf(9), (0,))),
        ops.pad(leaf(5), (1,), (2,), (0,), 0.0),
        ops.reduce_("sum", x, (1,)),
    ):
        assert flatten(kernel_of(root, whole=True)) is None


def test_reductions_of_everything_are_flat() -> None:
    values = [leaf(*shape) for shape in ((5,), (3, 7), (40, 50))]
    assert sizes([total(ops.apply("mul", v, v)) for v in values]) == [3]
    kernels = [kernel_of(total(ops.apply("mul", v, v)), whole=True) for v in values]
    flats = [flat for kernel in kernels if (flat := flatten(kernel)) is not None]
    assert len(flats) == 3 and len({flat.key for flat in flats}) == 1
    kernel = unite(flats)
    verify_kernel(kernel)
    check_bounds(kernel)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    plain = split_segments(kernel)
    again = [flatten(one) for one in plain]
    assert [flat.extent for flat in again if flat is not None] == [5, 21, 2000]
    assert split_segments(plain[0]) == plain[:1]


def test_types_and_constants_tell_programs_apart() -> None:
    assert sizes([scaled(5), scaled(6, dtype=float64)]) == [1, 1]
    half, double = ops.constant(0.5, float32), ops.constant(2.0, float32)
    assert sizes([ops.apply("mul", leaf(5), n) for n in (half, double)]) == [1, 1]
    assert sizes([ops.apply("mul", leaf(n), half) for n in (5, 6)]) == [2]


def test_groups_that_share_a_number_are_taken_apart() -> None:
    rate = leaf()
    roots = [ops.apply("mul", leaf(*shape), rate) for shape in ((5,), (5,), (5,), (8,), ())]
    assert sizes(roots) == [5]
    alone = [ops.apply(name, leaf(5), rate) for name in ("mul", "add", "sub")]
    assert sizes(alone) == [1]  # no piece has a partner: they stay one kernel


def test_a_launch_has_so_many_segments() -> None:
    roots = [ops.apply("exp", leaf(n + 1)) for n in range(MOST_SEGMENTS + 3)]
    assert sizes(roots) == [3, MOST_SEGMENTS]


def test_starts_are_multiples_of_the_unit() -> None:
    assert segment_starts((1, 64, 65), 64) == [0, 64, 128, 256]


def _united() -> Kernel:
    flats = [flatten(kernel_of(scaled(n))) for n in (5, 8)]
    return unite([flat for flat in flats if flat is not None])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("segments (5, 8)", "segments (5, 9)", "extents up to"),
        ("segments (5, 8)", "segments (0, 8)", "extents up to"),
        ("x1[0]", "x0[7]", "fixed places and walked"),
        ("x0[i]", "x0[7 + -1*i]", "their own place"),
        ("store y2[i]", "store y2[3]", "their own place"),
        ("phase (i: 8)", "phase (i: 8, j: 1)", "one axis"),
    ],
)
def test_what_segments_may_not_do(old: str, new: str, complaint: str) -> None:
    text = print_kernel(_united())
    verify_kernel(parse_kernel(text))
    assert old in text
    with pytest.raises(VerifyError, match=complaint):
        verify_kernel(parse_kernel(text.replace(old, new)))
    verify_kernel(replace(parse_kernel(text), segments=()))
