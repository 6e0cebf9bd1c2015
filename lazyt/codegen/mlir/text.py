"""What texts of MLIR have in common: types, literals, and lines that name values."""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Container, Iterator, Sequence

from lazyt.errors import LazytError
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, Shape, source_text
from lazyt.ir.scalar import Const, Number, real_number

#: Element types by dtype, where integers have signs.
SIGNED = {
    "bool": "i1", "uint8": "ui8", "uint16": "ui16", "uint32": "ui32", "uint64": "ui64",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "float16": "f16",
    "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip
#: Those where operations say how they take integers, and types do not.
SIGNLESS = {name: element.removeprefix("u") for name, element in SIGNED.items()}


class Unsupported(LazytError):
    """A graph that a dialect has no text for: the message names the op, its node and its line."""


def refuse(node: Node, dialect: str, what: str) -> Unsupported:
    """The error for a node that ``dialect`` cannot express."""
    kind = f"{node.dtype.name}{list(node.shape)}"
    return Unsupported(
        f"{dialect} cannot express {what} (node {node.op.name} of type {kind}, made at "
        f"{source_text(node.source)})"
    )


#: Ops whose elements are all of one number if those of their operand are.
_REPEATING = frozenset(
    {"reshape", "permute", "expand", "flip", "slice", "window", "variable", "detach", "put"}
)


def uniform(node: Node, names: Container[Node]) -> Const | None:
    """The number that all elements are, where a constant is only repeated; None for arguments,
    which have names already."""
    while node not in names and node.op.name in _REPEATING:
        (node,) = node.inputs
    if node not in names and node.op.name == "const":
        found: Const = node.params
        return found
    return None


def tensor(shape: Shape, element: str) -> str:
    """The type of a value, such as ``tensor<4x5xf32>``."""
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}{element}>"


def literal(value: Number, dtype: DType) -> str:
    """A number as MLIR reads it: floating point to the bit."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind != "f":
        return str(int(real_number(value)))
    number = float(real_number(value))
    if math.isfinite(number):
        return repr(number) if "." in repr(number) else f"{number:.17e}"
    if dtype.itemsize == 8:
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    bits = struct.unpack("<I", struct.pack("<f", number))[0]
    if dtype.name == "float16":
        return f"0x{struct.unpack('<H', struct.pack('<e', number))[0]:04X}"
    return f"0x{bits >> 16:04X}" if dtype.name == "bfloat16" else f"0x{bits:08X}"


def numbers(values: Sequence[int]) -> str:
    """``[1, 2, 3]``."""
    return f"[{', '.join(map(str, values))}]"


def extreme(kind: str, dtype: DType) -> Number:
    """What the greatest (``max``) or smallest (``min``) of no numbers is."""
    if dtype.kind == "f":
        return -math.inf if kind == "max" else math.inf
    if dtype.kind == "b":
        return kind == "min"
    bits = 8 * dtype.itemsize
    low = -(1 << (bits - 1)) if dtype.kind == "i" else 0
    return low if kind == "max" else low + (1 << bits) - 1


def identity(kind: str, dtype: DType) -> Number:
    """What a fold of no elements is."""
    if kind in ("max", "min"):
        return extreme(kind, dtype)
    return 1 if kind in ("prod", "mul", "all") else 0


class Lines:
    """The lines of a function. Every value has a name of its own, in regions as well."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self._count = 0
        self._indent = "    "

    def name(self) -> str:
        """A new name."""
        self._count += 1
        return f"%{self._count - 1}"

    def write(self, text: str) -> None:
        """A line that names nothing."""
        self.text.append(self._indent + text)

    def add(self, text: str) -> str:
        """A line that names one value; that name."""
        name = self.name()
        self.write(f"{name} = {text}")
        return name

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Lines of a region."""
        self._indent += "  "
        try:
            yield
        finally:
            self._indent = self._indent[:-2]
