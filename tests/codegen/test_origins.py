"""Equal work on different parts of a buffer is one kernel."""

from lazyt import ops
from lazyt.compiler import compile_graph
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node


def _chain(steps: int, whole: tuple[int, ...], axis: int) -> tuple[list[Node], Node]:
    """Steps of ``tanh(state @ weights + x[t])`` over the parts of one stack."""
    x, weights = ops.input_(whole, float32), ops.input_((3, 3), float32)
    first = state = ops.input_((2, 3), float32)
    size = tuple(1 if n == axis else extent for n, extent in enumerate(whole))
    for step in range(steps):
        start = tuple(step if n == axis else 0 for n in range(3))
        now = ops.reshape(ops.slice_(x, start, size, (1, 1, 1)), (2, 3))
        product = ops.contract(state, weights, (0, 1), (1, 2), (0, 2))
        state = ops.apply("tanh", ops.apply("add", product, now))
    return [x, weights, first], state


def test_steps_over_a_stack_are_one_kernel() -> None:
    for whole, axis, stride in (((5, 2, 3), 0, 24), ((2, 5, 3), 1, 12)):
        inputs, root = _chain(5, whole, axis)
        program, _ = compile_graph([root], inputs)
        assert len(program.launches) == 5
        assert len(program.kernels) == 1
        assert [max(launch.offsets) for launch in program.launches] == [
            stride * step for step in range(5)
        ]
        assert f"slots[0] + {4 * stride}" in program.entry


def test_a_flipped_part_begins_at_its_lowest_element() -> None:
    x = ops.input_((40, 50), float32)
    part = ops.flip(ops.slice_(x, (20, 10), (5, 7), (2, 3)), (0,))
    root = ops.apply("exp", part)
    program, _ = compile_graph([root], [x])
    assert program.launches[0].offsets == (4 * (20 * 50 + 10), 0)
