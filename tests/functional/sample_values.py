"""Small operands for sample calls, the same for lazyt and for PyTorch, in any dtype.

Nothing here imports either: the module to call is an argument.
"""

from __future__ import annotations

from typing import Any

#: dtypes that samples are called in.
DTYPES = (
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool",
)  # fmt: skip
FLOATS = DTYPES[:4]

_X = [[0.5, -1.25, 2.0, -0.75], [1.5, 0.25, -1.75, 1.0], [-0.5, 1.75, -1.5, 0.75]]
_Y = [[-0.75, 1.25, 0.5, 2.25], [0.25, -1.0, 1.75, -2.0], [1.0, 0.5, -0.25, -1.25]]
_UNIT = [[0.125, 0.75, 0.5, 0.25], [0.875, 0.375, 0.625, 0.0625], [0.1875, 0.9375, 0.3125, 0.5625]]
_A = [[2.0, 0.5, -0.25], [0.75, -1.5, 0.5], [-0.5, 0.25, 1.75]]
_S = [[2.0, 0.5, -0.25], [0.5, 1.5, 0.25], [-0.25, 0.25, 1.75]]
_COUNTS = [[1, 2, 3, 1], [2, 1, 1, 2], [3, 3, 1, 2]]


def _spread(count: int, step: int) -> list[float]:
    """Different multiples of 1/8 in a fixed disorder, around 0."""
    return [((at * step) % count - count // 2) / 8 for at in range(count)]


#: Name, values and shape. ``x`` and ``y`` have either sign, ``p`` lies in (0, 1), ``q`` above 1.
DATA: dict[str, tuple[Any, tuple[int, ...]]] = {
    "x": (_X, (3, 4)),
    "y": (_Y, (3, 4)),
    "p": (_UNIT, (3, 4)),
    "q": ([[v + 1 for v in row] for row in _UNIT], (3, 4)),
    "k": (_COUNTS, (3, 4)),
    "v": (_X[0], (4,)),
    "w": (_Y[0], (4,)),
    "u": (_A[0], (3,)),
    "s": (1.5, ()),
    "A": (_A, (3, 3)),
    "S": (_S, (3, 3)),
    "L": ([[2.0, 0, 0], [0.5, 1.5, 0], [-0.25, 0.25, 1.75]], (3, 3)),
    "B": (_spread(20, 7), (4, 5)),
    "C": (_spread(24, 5), (2, 3, 4)),
    "D": (_spread(40, 7), (2, 4, 5)),
    "E": (_spread(8, 3), (2, 4)),
    "line": (_spread(48, 5), (2, 3, 8)),
    "image": (_spread(144, 11), (2, 2, 6, 6)),
    "volume": (_spread(128, 11), (1, 2, 4, 4, 4)),
    "kernel1": (_spread(36, 5), (4, 3, 3)),
    "kernel2": (_spread(54, 5), (3, 2, 3, 3)),
    "kernel3": (_spread(32, 5), (2, 2, 2, 2, 2)),
    "two": ([0.5, 1.25], (2,)),
    "empty0": ([], (0,)),
}

#: Tensors whose dtype does not follow the sample's.
FIXED: dict[str, tuple[Any, str]] = {
    "i": ([[0, 2, 1, 0], [2, 1, 0, 1]], "int64"),
    "j": ([0, 2, 1], "int64"),
    "places": ([[3, 0], [1, 2], [2, 1]], "int64"),
    "labels": ([1, 0, 3], "int64"),
    "mask": ([[True, False, True, False], [False, True, True, False], [True] * 4], "bool"),
    "flags": ([True, False, True], "bool"),
    "chances": (_UNIT, "float32"),
    "columns": ([3, 1, 0, 2], "int64"),
}


def _value(number: float, kind: str) -> Any:
    if kind == "bool":
        return number > 0
    if kind.startswith("float") or kind.startswith("bfloat"):
        return number
    whole = int(number * 4) if number * 4 == int(number * 4) else round(number * 4)
    return abs(whole) if kind.startswith("uint") else whole


def _cast(values: Any, kind: str) -> Any:
    if isinstance(values, list):
        return [_cast(v, kind) for v in values]
    return _value(values, kind)


class Operands(dict[str, Any]):
    """The sample operands by name, each made when first used; ``t`` is the dtype.

    ``change`` is applied to each tensor as it is handed out.
    """

    def __init__(
        self, module: Any, dtype: str, gradients: bool = False, change: Any = None
    ) -> None:
        super().__init__(torch=module, t=getattr(module, dtype))
        self.module, self.kind, self.gradients, self.change = module, dtype, gradients, change
        #: The tensors themselves, by name.
        self.leaves: dict[str, Any] = {}

    def __missing__(self, name: str) -> Any:
        if name in FIXED:
            values, kind = FIXED[name]
            leaf = self.module.tensor(values, dtype=getattr(self.module, kind))
        elif name in DATA:
            values, shape = DATA[name]
            data = values if name == "k" and self.kind != "bool" else _cast(values, self.kind)
            leaf = self.module.tensor(data, dtype=self["t"])
            if tuple(leaf.shape) != shape:
                leaf = leaf.reshape(shape)
            if self.gradients:
                leaf = leaf.requires_grad_()
        else:
            raise KeyError(name)
        self.leaves[name] = leaf
        self[name] = self.change(leaf) if self.change else leaf
        return self[name]


def call(function: Any, text: str, names: Operands) -> Any:
    """``function`` called with the arguments that ``text`` says, such as ``x, dim=0``."""
    return eval(f"function({text})", {"function": function}, names)
