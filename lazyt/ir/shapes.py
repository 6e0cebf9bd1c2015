"""Shapes and how they broadcast."""

from __future__ import annotations

from lazyt.errors import InternalError

Shape = tuple[int, ...]


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The common shape under NumPy's broadcasting rules; raises InternalError when there is none.

    The user's API checks shapes first and raises ShapeError in PyTorch's words.
    """
    first = shapes[0]
    if len(shapes) == 2:  # nearly all calls, and most of them with equal shapes or a number
        second = shapes[1]
        if first == second or not second:
            return first
        if not first:
            return second
    elif all(s == first for s in shapes):
        return first
    rank = max(map(len, shapes))
    out = []
    for axis in range(-rank, 0):
        extent = 1
        for shape in shapes:
            if -axis <= len(shape) and shape[axis] != 1:
                if extent not in (1, shape[axis]):
                    raise InternalError("ir.graph", f"shapes {shapes} do not broadcast")
                extent = shape[axis]
        out.append(extent)
    return tuple(out)
