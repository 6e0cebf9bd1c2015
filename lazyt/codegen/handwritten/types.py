"""Types of users' C: which dtype each is, how they convert in arithmetic, what math.h gives."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from pycparser import c_ast

from lazyt.codegen.handwritten.source import Source
from lazyt.ir.dtypes import (
    DType,
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

#: Types by their words, sorted. ``long`` has 64 bits, as on Linux and macOS.
_TYPES: dict[str, DType] = {
    "_Bool": bool_, "bool": bool_, "float": float32, "double": float64,
    "int8_t": int8, "int16_t": int16, "int32_t": int32, "int64_t": int64, "uint8_t": uint8,
    "uint16_t": uint16, "uint32_t": uint32, "uint64_t": uint64, "size_t": uint64,
    "ptrdiff_t": int64,
    "char signed": int8, "char unsigned": uint8, "short": int16, "int short": int16,
    "short signed": int16, "int short signed": int16, "short unsigned": uint16,
    "int short unsigned": uint16, "int": int32, "signed": int32, "int signed": int32,
    "unsigned": uint32, "int unsigned": uint32,
    "long": int64, "int long": int64, "long long": int64, "int long long": int64,
    "long signed": int64, "int long signed": int64, "long long signed": int64,
    "int long long signed": int64, "long unsigned": uint64, "int long unsigned": uint64,
    "long long unsigned": uint64, "int long long unsigned": uint64,
}  # fmt: skip
#: The C name of each dtype, for messages.
NAMES = {
    bool_: "bool", int8: "int8_t", int16: "int16_t", int32: "int", int64: "long", uint8: "uint8_t",
    uint16: "uint16_t", uint32: "unsigned", uint64: "unsigned long", float32: "float",
    float64: "double",
}  # fmt: skip
_SMALL = frozenset({bool_, int8, int16, uint8, uint16})

#: Functions of math.h: lazyt's name and the number of arguments, by C's name for double.
FUNCTIONS: dict[str, tuple[str, int]] = {
    **{
        name: (name, 1)
        for name in (
            "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan",
            "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
            "erfc", "lgamma", "floor", "ceil", "trunc",
        )
    },
    **{name: (name, 2) for name in ("pow", "atan2", "hypot", "fmod", "copysign", "fmax", "fmin")},
    "fma": ("fma", 3), "fabs": ("abs", 1), "rint": ("round", 1), "nearbyint": ("round", 1),
}  # fmt: skip
#: Tests of floats, whatever their type.
TESTS = ("isnan", "isinf", "isfinite", "signbit")
#: Constants that headers define, with their types.
CONSTANTS: dict[str, tuple[int | float, DType]] = {
    "INFINITY": (math.inf, float32), "NAN": (math.nan, float32), "HUGE_VALF": (math.inf, float32),
    "HUGE_VAL": (math.inf, float64),
    "M_PI": (math.pi, float64), "M_PI_2": (math.pi / 2, float64), "M_PI_4": (math.pi / 4, float64),
    "M_1_PI": (1 / math.pi, float64), "M_2_PI": (2 / math.pi, float64), "M_E": (math.e, float64),
    "M_LN2": (math.log(2), float64), "M_LN10": (math.log(10), float64),
    "M_SQRT2": (math.sqrt(2), float64), "M_SQRT1_2": (math.sqrt(0.5), float64),
    "FLT_EPSILON": (2.0**-23, float32), "FLT_MIN": (2.0**-126, float32),
    "FLT_MAX": ((2 - 2.0**-23) * 2.0**127, float32), "DBL_EPSILON": (2.0**-52, float64),
    "DBL_MIN": (2.0**-1022, float64), "DBL_MAX": ((2 - 2.0**-52) * 2.0**1023, float64),
    "INT_MAX": (2**31 - 1, int32), "INT_MIN": (-(2**31), int32), "LONG_MAX": (2**63 - 1, int64),
    "LONG_MIN": (-(2**63), int64), "true": (1, int32), "false": (0, int32),
}  # fmt: skip


def promoted(dtype: DType) -> DType:
    """The type that an operand has in arithmetic: small integers are int."""
    return int32 if dtype in _SMALL else dtype


def common(a: DType, b: DType) -> DType:
    """The type in which an operator with two operands computes."""
    a, b = promoted(a), promoted(b)
    if a is b:
        return a
    if "f" in (a.kind, b.kind):
        return float64 if float64 in (a, b) else float32
    if a.itemsize != b.itemsize:  # long holds every unsigned int
        return max(a, b, key=lambda dtype: dtype.itemsize)
    return a if a.kind == "u" else b


def nearest_float(value: float) -> float:
    """A double rounded to float."""
    try:
        found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return found


class Types:
    """Which dtype the types of one text are.

    Args:
        source: the text.
        real: what ``real`` stands for, None where it has no meaning.
    """

    def __init__(self, source: Source, real: DType | None) -> None:
        self.source = source
        self.real = real

    def named(self, node: Any, names: Sequence[str]) -> DType:
        """The dtype of a type's words; raises SourceError for those that are none."""
        words = " ".join(sorted(names))
        if words == "real":
            if self.real is None:
                self.source.fail("real is a type of scalar functions only", node)
            return self.real
        found = _TYPES.get(words)
        if found is not None:
            return found
        said = " ".join(names)
        why = "there is no such type of numbers"
        if said == "char":
            why = "its sign depends on the machine; write signed char or unsigned char"
        elif said == "void":
            why = "there are no values of it"
        elif words == "double long":
            why = "its precision depends on the machine; write double"
        elif said in ("__half", "_Float16", "half"):
            why = "16-bit floats have no arithmetic of their own; write float, or real"
        self.source.fail(f"{said}: {why}", node)

    def scalar(self, declared: Any, what: str) -> DType:
        """The dtype of a plain declaration; raises SourceError for pointers and the like."""
        if isinstance(declared, c_ast.TypeDecl):
            kind = declared.type
            if isinstance(kind, c_ast.IdentifierType):
                for word in declared.quals or ():
                    if word != "const":
                        self.source.fail(f"{word} has no meaning here", declared)
                return self.named(kind if kind.coord else declared, kind.names)
            self.source.refuse(kind, f"{what} is a number")
        self.source.refuse(declared, f"{what} is a number")

    def literal(self, node: c_ast.Constant, generic: bool = False) -> tuple[int | float, DType]:
        """Value and type of a number; ``generic`` floats without a suffix are ``real``."""
        text = node.value.lower()
        if node.type == "string" or node.type.endswith("char"):
            self.source.fail("there are numbers only", node)
        is_hex = text.startswith("0x")
        if any(c in text for c in (".pe" if not is_hex else ".p")):
            suffix = text[-1] if text[-1] in "fl" and not (is_hex and "p" not in text) else ""
            digits = text[: len(text) - len(suffix)]
            if suffix == "l":
                self.source.fail("long double depends on the machine", node)
            value = float.fromhex(digits) if is_hex else float(digits)
            if suffix == "f":
                return value, float32
            return value, self.real if generic and self.real is not None else float64
        digits = text.rstrip("ul")
        suffix = text[len(digits) :]
        if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
            self.source.fail("octal numbers are hard to read; write the decimal one", node)
        if suffix not in ("", "u", "l", "ul", "lu", "ll", "ull", "llu"):
            self.source.fail(f"{node.value} is no number that is known", node)
        number = int(digits, 0)
        unsigned = "u" in suffix
        if number >= 1 << 64 or (not unsigned and not is_hex and number >= 1 << 63):
            self.source.fail(f"{node.value} has more than 64 bits", node)
        wide = "l" in suffix or number >= 1 << (32 if unsigned or is_hex else 31)
        if unsigned or (is_hex and number >= 1 << (63 if wide else 31)):
            return number, uint64 if wide else uint32
        return number, int64 if wide else int32
