"""What a contraction kernel is made from, and what it becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

Load = Callable[[str, str, str], tuple[list[str], str]]
Epilogue = Callable[[str, str, str, str], list[str]]

ITEM_BYTES = {
    "f32": 4, "f64": 8,
    "i8": 1, "i16": 2, "i32": 4, "i64": 8,
    "u8": 1, "u16": 2, "u32": 4, "u64": 8,
    "bf16x2": 4, "i8x2": 4, "i8x4": 4,
}  # fmt: skip
#: Bytes between addresses that share a set of a first-level cache, over its ways.
ALIKE = 1024
#: Types of the sums of groups that share a lane.
_SUMS = {"bf16x2": "f32", "i8x2": "i32", "i8x4": "i32"}


#: (divisor, extent, stride) of each axis of a group, outermost first: a flat position of the group
#: is at ``position // divisor % extent`` of an axis, and elements ``stride`` apart along it.
Strides = tuple[tuple[int, int, int], ...]


def _walked(position: str, walk: Strides) -> list[str]:
    """C terms of the distance at which a flat position of a group lies, none where that is 0."""
    terms = []
    for number, (divisor, extent, stride) in enumerate(walk):
        at = f"({position})" if divisor == 1 else f"({position}) / {divisor}"
        if number:
            at = f"{at} % {extent}"
        if stride:
            terms.append(at if stride == 1 else f"{at} * {stride}")
    return terms


class Plain(NamedTuple):
    """An operand that lies in a buffer at even distances, strides in elements.

    Attributes:
        name: the C variable that points to the buffer.
        start: where element (0, 0, 0) is.
        batch: the axes of the batch.
        side: stride along m or n.
        k: stride along k.
    """

    name: str
    start: int
    batch: Strides
    side: int
    k: int

    def at(self, b: str, side: str, k: str) -> str:
        """C pointer to an element."""
        whole = Place(self.name, self.start, self.batch, ((1, 0, self.side),), ((1, 0, self.k),))
        return whole.at(b, side, k)


class Place(NamedTuple):
    """An operand that is multiplied as it lies in a buffer.

    Attributes:
        name: the C variable that points to the buffer.
        start: where element (0, 0, 0) is.
        batch, sides, steps: the axes of the batch, of m or n, and of k.
    """

    name: str
    start: int
    batch: Strides
    sides: Strides
    steps: Strides

    @property
    def plain(self) -> Plain | None:
        """The same over one axis of m or n and one of k, if that is all there is."""
        if len(self.sides) > 1 or len(self.steps) > 1:
            return None
        side, k = ((walk[0][2] if walk else 0) for walk in (self.sides, self.steps))
        return Plain(self.name, self.start, self.batch, side, k)

    def at(self, b: str, side: str, k: str) -> str:
        """C pointer to an element."""
        walks = ((b, self.batch), (side, self.sides), (k, self.steps))
        terms = [term for position, walk in walks for term in _walked(position, walk)]
        return " + ".join([self.name, *terms, *([str(self.start)] if self.start else [])])

    @property
    def reach(self) -> int:
        """The largest distance between elements of one batch and step of k."""
        return sum((extent - 1) * stride for _, extent, stride in self.sides)

    def beside(self, side: str) -> str:
        """C distance of an element from that of position 0 of m or n."""
        return " + ".join(_walked(side, self.sides)) or "0"


def run_of(walk: Strides) -> int:
    """How many elements lie side by side along a group, from each multiple of that on."""
    return walk[-1][1] if walk and walk[-1][2] == 1 else 0


@dataclass(frozen=True)
class ContractSpec:
    """``out[b, m, n] = epilogue(sum over k of A[b, m, k] * B[b, k, n])``, all extents static.

    Names that start with ``g_`` belong to the kernel; statements handed in must not declare any.
    Statements may declare other names freely: each use stands in a block of its own.

    Attributes:
        name: the C function's name.
        arguments: (C type, name) of each buffer, such as ``("const lz_f32 *restrict", "a")``.
        batch, m, n, k: extents, 0 or more.
        acc: the type suffix in which products are summed. Integers wrap.
        load_a: (b, m, k) index expressions -> (statements, expression of type ``acc``).
        load_b: (b, k, n) index expressions -> the same for B.
        a_unit: ``"m"`` or ``"k"``, the axis along which A's elements are neighbours, None if
            neither; along ``"k"``, a few others may lie between them.
        b_unit: ``"k"`` or ``"n"``, the same for B.
        epilogue: (b, m, n, value) -> statements, run once per output element. Elements must be
            independent of each other.
        vector_bytes: width of the machine's vector registers: 16, 32 or 64.
        cache: bytes of the level 1, 2 and 3 data caches.
        c_unit: ``"m"`` or ``"n"``, the axis along which the epilogue's stores are adjacent.
        max_threads: most threads that the kernel uses; sizes the workspace.
        threads: how many the work is cut for.
        group: kind of the narrow numbers that both operands are, which the packed form may multiply
            several at a time, see ``codegen/matmul/dot_products.py``.
        tiles: whether it does so in matrix registers, see ``codegen/matmul/matrix_registers.py``.
        filled: of ``k``, how many steps at the end are zeros that no operand has.
        any_size: other extents of rows, columns or k may change numbers of the text only.
        a_place, b_place: where A and B lie, if the loads do nothing but read them there.
        a_narrow, b_narrow: the same for narrow numbers, strides in these.
        c_place: where sums go, if nothing is done with them; its sides are m, its steps n.
        ends: how A and B are loaded at the last step of k, where that is another way.
        registers: how many vectors the machine holds in registers.
    """

    name: str
    arguments: tuple[tuple[str, str], ...]
    batch: int
    m: int
    n: int
    k: int
    acc: str
    load_a: Load
    load_b: Load
    a_unit: str | None
    b_unit: str | None
    epilogue: Epilogue
    vector_bytes: int
    cache: tuple[int, int, int]
    c_unit: str = "n"
    max_threads: int = 64
    threads: int = 8
    any_size: bool = False
    group: str | None = None
    a_place: Place | None = None
    b_place: Place | None = None
    tiles: bool = False
    filled: int = 0
    a_narrow: Place | None = None
    b_narrow: Place | None = None
    c_place: Place | None = None
    ends: tuple[Load, Load] | None = None
    registers: int = 16

    @property
    def a_plain(self) -> Plain | None:
        """A, if it lies at even distances."""
        return self.a_place.plain if self.a_place is not None else None

    @property
    def b_plain(self) -> Plain | None:
        """B, if it lies at even distances."""
        return self.b_place.plain if self.b_place is not None else None

    @property
    def c_plain(self) -> Plain | None:
        """Sums, if they go to even distances."""
        return self.c_place.plain if self.c_place is not None else None

    @property
    def item(self) -> int:
        """Bytes of one accumulator."""
        return ITEM_BYTES[self.acc]

    @property
    def lanes(self) -> int:
        """Accumulators in one vector register."""
        return self.vector_bytes // self.item

    @property
    def ctype(self) -> str:
        """C type of an accumulator."""
        return f"lz_{_SUMS.get(self.acc, self.acc)}"

    @property
    def panel_item(self) -> str:
        """What panels are made of."""
        return "u32" if self.acc in _SUMS else self.acc

    @property
    def panel(self) -> str:
        """Its C type."""
        return f"lz_{self.panel_item}"

    @property
    def flops(self) -> int:
        """Multiplications and additions of the whole contraction."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class ContractText:
    """A contraction kernel as C.

    Attributes:
        sections: (name, text) of the helpers it calls; equal names have equal texts.
        text: the function ``void name(char *b0_, ..., char *ws, int threads)``.
        workspace_bytes: size of ``ws``, which must be aligned to 64 bytes.
        note: which form was chosen, and why.
    """

    sections: tuple[tuple[str, str], ...]
    text: str
    workspace_bytes: int
    note: str


def transpose_spec(spec: ContractSpec) -> ContractSpec:
    """The same contraction with A and B exchanged: ``out^T = B^T A^T``.

    A product of two numbers does not depend on their order, so no bit of the result changes.
    """
    axis = {"m": "n", "n": "m", "k": "k", None: None}
    sums = spec.c_place
    return replace(
        spec,
        m=spec.n,
        n=spec.m,
        load_a=lambda b, m, k: spec.load_b(b, k, m),
        load_b=lambda b, k, n: spec.load_a(b, n, k),
        a_unit=axis[spec.b_unit],
        b_unit=axis[spec.a_unit],
        epilogue=lambda b, m, n, value: spec.epilogue(b, n, m, value),
        c_unit="m" if spec.c_unit == "n" else "n",
        a_place=spec.b_place,
        b_place=spec.a_place,
        c_place=sums and sums._replace(sides=sums.steps, steps=sums.sides),
        a_narrow=spec.b_narrow,
        b_narrow=spec.a_narrow,
    )


def ceil_div(a: int, b: int) -> int:
    """``a / b`` rounded up."""
    return -(-a // b)


def round_up(a: int, b: int) -> int:
    """The smallest multiple of ``b`` that is not below ``a``."""
    return ceil_div(a, b) * b
