"""A graph as a program in PyTorch's style that computes the same, to be sent to somebody.

Each node is a statement by public functions. A statement is believed only after it made, on leaves
of the node's types, what the node is (the same graph in normal form, or the same bits). Where none
does, the program reads the node as IR text, and says so.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import lazyt
from lazyt.compiler import run_passes
from lazyt.errors import LazytError
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bfloat16, bool_
from lazyt.ir.graph import Node, rebuild, remake, topological
from lazyt.ir.parser import parse_graph
from lazyt.ir.printer import print_graph
from lazyt.ir.scalar import Arg, Call, Const, Expr, post_order, real_number
from lazyt.ops import OPS, input_
from lazyt.runtime.interpreter import interpret
from lazyt.testing.graph_maker import buffer_of

#: Elements that are written out as numbers, and bytes that are written as text.
MOST_NUMBERS, MOST_BYTES = 48, 200_000
#: Parts of an expression that stand in one statement.
_DEEPEST = 4
#: Writes the statements of a node, given its name and those of its inputs; none where it cannot.
Spell = Callable[[Node, str, Sequence[str]], list[str]]
#: How functions of elements are called; those that are not here have their own names in ``torch``.
_SPELLED: Mapping[str, str] = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})", "neg": "(-{})",
    "bitwise_and": "({} & {})", "bitwise_or": "({} | {})", "bitwise_xor": "({} ^ {})",
    "bitwise_not": "(~{})", "shift_left": "({} << {})", "shift_right": "({} >> {})",
    "eq": "({} == {})", "ne": "({} != {})", "lt": "({} < {})", "le": "({} <= {})",
    "gt": "({} > {})", "ge": "({} >= {})", "floordiv": "torch.floor_divide({}, {})",
    "mod": "torch.remainder({}, {})", "bound_below": "torch.clamp({}, min={})",
    "bound_above": "torch.clamp({}, max={})", "erfinv": "torch.special.erfinv({})",
    "xlog1py": "torch.special.xlog1py({}, {})", "i0e": "torch.special.i0e({})",
    "i1": "torch.special.i1({})", "i1e": "torch.special.i1e({})",
    "erfcx": "torch.special.erfcx({})", "ndtri": "torch.special.ndtri({})",
    "zeta": "torch.special.zeta({}, {})", "igamma": "torch.special.gammainc({}, {})",
    "igammac": "torch.special.gammaincc({}, {})",
}  # fmt: skip
#: Functions that take a number as it is, on the right of a tensor.
_WITH_NUMBERS = frozenset(
    {"add", "bound_above", "bound_below", "eq", "ge", "gt", "le", "lt", "mul", "ne", "sub"}
)


def evaluate(text: str, *tensors: Tensor) -> Tensor:
    """The first result of a graph in IR text whose leaves are ``tensors``, for nodes that no public
    function makes.

    Raises ParseError for text that cannot be read.

    >>> text = "graph(%0: float32[2]) -> (%1)\\n%1 = map(%0) {mul($0, $0)}"
    >>> evaluate(text, lazyt.tensor([2.0, 3.0]))
    tensor([4., 9.])
    """
    leaves, roots = parse_graph(text, OPS)
    given = dict(zip(leaves, map(unwrap, tensors), strict=True))
    (made,) = rebuild(roots[:1], lambda node, inputs: given.get(node) or remake(node, inputs))
    return wrap(made, *tensors, name="evaluate")


def reproduction(
    roots: Sequence[Node],
    inputs: Sequence[np.ndarray[Any, Any]] | None = None,
    framework: str = "lazyt",
    values: Sequence[np.ndarray[Any, Any]] | None = None,
) -> str:
    """A Python program that computes the graph and prints its results.

    Args:
        roots: the results.
        inputs: arrays for the leaves, in the order in which ``print_graph`` lists them; by default
            the data that they have. bfloat16 as its bits, in uint16. Large data is drawn from a
            seed instead, as is that of leaves without any; the program says so.
        framework: the module that is imported as ``torch``: ``lazyt`` or ``torch``.
        values: what the results should be, as arrays like ``inputs``: the program asserts that they
            are equal to the bit, NaN to NaN.

    Raises LazytError where ``framework`` is ``torch`` and a node has no public spelling.

    >>> from lazyt import ops
    >>> from lazyt.ir.dtypes import float32
    >>> x = ops.input_((2,), float32, buffer_of(np.array([1.0, 2.0]), float32))
    >>> print(reproduction([ops.reduce_("sum", ops.apply("exp", x), [0])]))
    import lazyt as torch
    <BLANKLINE>
    t0 = torch.tensor([1.0, 2.0], dtype=torch.float32)
    t1 = torch.exp(t0)
    t2 = t1.sum([0], dtype=torch.float32)
    <BLANKLINE>
    print("t2 =", t2)
    <BLANKLINE>
    """
    return _Writer(roots, framework).program(inputs, values)


class _Writer:
    """Writes one program."""

    def __init__(self, roots: Sequence[Node], framework: str) -> None:
        self.roots = list(roots)
        self.framework = framework
        self.order = topological(self.roots)
        self.names = {node: f"t{number}" for number, node in enumerate(self.order)}
        self.lines: list[str] = []
        self.imports: set[str] = set()

    def program(
        self,
        inputs: Sequence[np.ndarray[Any, Any]] | None,
        values: Sequence[np.ndarray[Any, Any]] | None,
    ) -> str:
        """The text."""
        leaves = [n for n in self.order if n.op.name == "input"]
        arrays: list[np.ndarray[Any, Any] | None]
        if inputs is None:
            arrays = [None if n.data is None else n.data.as_numpy(n.dtype, n.shape) for n in leaves]
        else:
            arrays = list(inputs)
        given = dict(zip(leaves, arrays, strict=True))
        for node in self.order:
            if node in given:
                text = self._tensor(given[node], node, self.names[node])
                self.lines.append(f"{self.names[node]} = {text}")
            else:
                self.lines += self._statements(node)
        self.lines.append("")
        for place, root in enumerate(self.roots):
            name = self.names[root]
            self.lines.append(f'print("{name} =", {name})')
            if values is not None:
                wanted = self._tensor(values[place], root, f"the value of {name}", whole=True)
                self.lines.append(
                    f"torch.testing.assert_close({name}, {wanted}, rtol=0, atol=0, equal_nan=True)"
                )
        head = [
            f"import {self.framework} as torch" if self.framework != "torch" else "import torch"
        ]
        return "\n".join([*sorted(self.imports), *head, "", *self.lines, ""])

    # ------------------------------------------------------------------ data

    def _tensor(
        self, array: np.ndarray[Any, Any] | None, node: Node, what: str, whole: bool = False
    ) -> str:
        """An expression for a tensor of ``node``'s type; its elements are ``array``'s."""
        shape, dtype = tuple(node.shape), node.dtype
        if array is not None and array.size <= MOST_NUMBERS:
            text = _numbers(array, dtype)
            if text is not None:
                shaped = "" if array.ndim == 1 else f".reshape({shape})"
                text = f"torch.tensor({text}, dtype=torch.{dtype.name})"
                return text if not array.ndim else text + shaped
        if array is not None and node.size:
            packed = zlib.compress(np.ascontiguousarray(array).tobytes(), 9)
            if whole or len(packed) <= MOST_BYTES:
                self.imports |= {"import base64", "import zlib"}
                data = base64.b85encode(packed).decode()
                stored = "uint8" if dtype is bool_ else dtype.name
                made = f'torch.frombuffer(bytearray(zlib.decompress(base64.b85decode("{data}"))), '
                made += f"dtype=torch.{stored})"
                return made + (".bool()" if dtype is bool_ else "") + f".reshape({shape})"
        if not node.size:
            return f"torch.zeros({shape}, dtype=torch.{dtype.name})"
        self.lines.append(f"# the data of {what} is not in this text: drawn from a seed")
        seeded = f"generator=torch.Generator().manual_seed({len(self.lines)})"
        if dtype.kind == "f":
            return f"torch.randn({shape}, {seeded}).to(torch.{dtype.name})"
        return f"torch.randint(0, 2, {shape}, {seeded}).to(torch.{dtype.name})"

    # ------------------------------------------------------------------ nodes

    def _statements(self, node: Node) -> list[str]:
        """The statements that compute a node, whose inputs have names."""
        name, given = self.names[node], [self.names[i] for i in node.inputs]
        spell = _STATEMENTS.get(node.op.name)
        lines = [] if spell is None else spell(node, name, given)
        if spell is not None and lines and _makes(node, spell):
            return lines
        if self.framework == "torch":
            what = f"{node.op.name} {print_graph([node], stop=lambda n: n is not node)}"
            raise LazytError(f"reproduction: PyTorch has no function for {what}")
        self.imports.add("from lazyt.testing.reproduction import evaluate")
        text = print_graph([node], stop=lambda n: n is not node)
        unique = ", ".join(dict.fromkeys(given))
        return [
            f"# no public function makes this {node.op.name}",
            f"{name} = evaluate({text!r}{', ' if unique else ''}{unique})",
        ]


def _numbers(array: np.ndarray[Any, Any], dtype: DType) -> str | None:
    """The elements as a list of Python numbers in row-major order, or one number; None where they
    do not tell all bits."""
    if dtype is bfloat16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    if dtype.kind == "f" and not np.isfinite(array).all():
        return None
    return repr(array.reshape(-1).tolist() if array.ndim else array.item())


def _makes(node: Node, spell: Spell) -> bool:
    """Whether the statements for a node make it out of leaves of its inputs' types."""
    given = dict(zip(node.inputs, (f"x{number}" for number in range(len(node.inputs)))))
    leaves = _leaves(node)
    wanted = remake(node, tuple(leaves[item] for item in node.inputs))
    lines = spell(wanted, "made", [given[item] for item in node.inputs])
    scope: dict[str, Any] = {"torch": lazyt}
    scope.update((given[item], wrap(leaf)) for item, leaf in leaves.items())
    try:
        exec("\n".join(lines), scope)
        made = unwrap(scope["made"])
    except (LazytError, RuntimeError, TypeError, ValueError, IndexError, AttributeError):
        return False  # it is written as IR text then
    if made.type != wanted.type:
        return False
    if made is wanted or node.op.name in ("variable", "detach"):
        return True
    (one,), (other,) = run_passes([made]), run_passes([wanted])
    if one is other:
        return True
    with np.errstate(all="ignore"):
        found = interpret([made, wanted])
    return found[0].tobytes() == found[1].tobytes()


def _leaves(node: Node) -> dict[Node, Node]:
    """Leaves with random data in the place of a node's inputs; where the node's parameters name no
    extents, of such sizes that much is seen of what it does."""
    data = np.random.default_rng(0)
    leaves: dict[Node, Node] = {}
    for place, item in enumerate(node.inputs):
        shape = tuple(item.shape)
        if node.op.name == "map":
            shape = (600,)
        elif node.op.name in ("contract", "reduce", "scan", "sort"):
            shape = tuple(min(n, 5) for n in shape)
        if item.op.name == "const":
            array = np.full(shape, item.params.value)
        elif item.dtype.kind == "f":
            array = np.asarray(data.standard_normal(shape) * 3)
            if node.op.name == "map":
                array[::10] = data.choice([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], 60)
        elif place == 1 and node.op.name in ("gather", "scatter"):
            array = np.zeros(shape)  # every axis has an element of that number
        else:
            array = np.asarray(data.integers(0 if item.dtype.kind == "b" else 1, 2, shape))
            if node.op.name == "map" and item.dtype.kind != "b":  # some functions refuse zeros
                array = np.asarray(data.integers(0, 30, shape))
        leaves[item] = input_(shape, item.dtype, buffer_of(array, item.dtype))
    return leaves


# ---------------------------------------------------------------- statements by op


def _shape(node: Node) -> str:
    return str(tuple(node.shape))


def _of(node: Node) -> str:
    return f"torch.{node.dtype.name}"


def _number(value: Const) -> str:
    """A constant as a tensor of no dimensions."""
    found = value.value
    if isinstance(found, float) and not math.isfinite(found):
        text = f'float("{found}")'
    else:
        text = repr(found)
    return f"torch.full((), {text}, dtype=torch.{value.dtype.name})"  # in lazyt, a constant


def _map(node: Node, name: str, given: Sequence[str]) -> list[str]:
    """An expression of elements, in several statements where it is long."""
    root = node.params
    order = post_order(root)
    uses: dict[Expr, int] = {}
    for expr in order:
        for part in expr.args if isinstance(expr, Call) else ():
            uses[part] = uses.get(part, 0) + 1
    texts: dict[Expr, str] = {}
    depths: dict[Expr, int] = {}
    lines: list[str] = []
    for expr in order:
        depths[expr] = 0
        if isinstance(expr, Arg):
            texts[expr] = given[expr.index]
        elif isinstance(expr, Const):
            texts[expr] = _number(expr)
        elif isinstance(expr, Call):
            texts[expr] = _call(expr, texts)
            depths[expr] = 1 + max(depths[a] for a in expr.args)
            if expr is not root and (uses[expr] > 1 or depths[expr] >= _DEEPEST):
                lines.append(f"{name}_{len(lines)} = {_bare(texts[expr])}")
                texts[expr], depths[expr] = f"{name}_{len(lines) - 1}", 0
    used = [node.inputs[e.index].shape for e in order if isinstance(e, Arg)]
    broadcast = np.broadcast_shapes(*used) == tuple(node.shape)
    text = _bare(texts[root]) if broadcast else f"{texts[root]}.expand({_shape(node)})"
    return [*lines, f"{name} = {text}"]


def _bare(text: str) -> str:
    """An expression without the parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[1:-1] if place == len(text) - 1 else text
    return text


def _call(expr: Call, texts: Mapping[Expr, str]) -> str:
    """One function of elements."""
    parts = [texts[a] for a in expr.args]
    function = expr.fn.name
    if function == "cast":
        return f"{parts[0]}.to(torch.{expr.dtype.name})"
    if function == "bitcast":
        return f"{parts[0]}.view(torch.{expr.dtype.name})"
    if function in _WITH_NUMBERS:
        first, last = expr.args
        number = real_number(last.value) if isinstance(last, Const) else math.nan
        if math.isfinite(number) and not isinstance(number, bool) and not isinstance(first, Const):
            parts[1] = repr(number)
    pattern = _SPELLED.get(function)
    if pattern is not None:
        return pattern.format(*parts)
    return f"torch.{function}({', '.join(parts)})"


def _slices(starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> str:
    """Indices of a part of each axis."""
    texts = []
    for start, size, step in zip(starts, sizes, steps):
        stop = start + (size - 1) * step + (1 if step > 0 else -1) if size else start
        text = f"{start}:{'' if stop < 0 else stop}"
        texts.append(text if step == 1 else f"{text}:{step}")
    return ", ".join(texts) or "..."


def _part(node: Node, name: str, given: Sequence[str]) -> list[str]:
    p = node.params
    rows = list(zip(p.starts, p.sizes, p.steps))  # PyTorch's steps are positive
    starts = [at + (size - 1) * step if step < 0 < size else at for at, size, step in rows]
    backwards = [axis for axis, step in enumerate(p.steps) if step < 0]
    text = f"{given[0]}[{_slices(starts, p.sizes, [abs(step) for step in p.steps])}]"
    return [f"{name} = {text}" + (f".flip({backwards})" if backwards else "")]


def _pad(node: Node, name: str, given: Sequence[str]) -> list[str]:
    p = node.params
    fill = _number(p.fill)
    steps = [n + 1 for n in p.interior]
    where = _slices(p.low, node.inputs[0].shape, steps)
    return [
        f"{name} = {fill}.expand({_shape(node)}).clone()",
        f"{name}[{where}] = {given[0]}",
    ]


def _update(node: Node, name: str, given: Sequence[str]) -> list[str]:
    p = node.params
    where = _slices(p.starts, node.inputs[1].shape, p.steps)
    return [f"{name} = {given[0]}.clone()", f"{name}[{where}] = {given[1]}"]


def _reduce(node: Node, name: str, given: Sequence[str]) -> list[str]:
    kind, axes = node.params
    function = {"max": "amax", "min": "amin"}.get(kind, kind)
    if kind in ("argmax", "argmin"):
        return [f"{name} = {given[0]}.{kind}({axes[0]})"]
    if kind == "prod":
        if len(axes) > 1:
            return []
        return [f"{name} = {given[0]}.prod({axes[0]}, dtype={_of(node)})"]
    more = f", dtype={_of(node)}" if kind == "sum" else ""
    return [f"{name} = {given[0]}.{function}({list(axes)}{more})"]


def _scan(node: Node, name: str, given: Sequence[str]) -> list[str]:
    kind, axis = node.params
    if kind in ("sum", "prod"):
        return [f"{name} = {given[0]}.cum{kind}({axis}, dtype={_of(node)})"]
    return [f"{name} = {given[0]}.cum{kind}({axis})[0]"]


def _contract(node: Node, name: str, given: Sequence[str]) -> list[str]:
    p = node.params
    found = sorted({*p.left, *p.right})
    if len(found) > 26:
        return []
    letter = {label: chr(ord("a") + place) for place, label in enumerate(found)}
    left, right, out = ("".join(letter[n] for n in part) for part in (p.left, p.right, p.out))
    return [f'{name} = torch.einsum("{left},{right}->{out}", {given[0]}, {given[1]})']


def _gather(node: Node, name: str, given: Sequence[str]) -> list[str]:
    axis, batch = node.params
    x, index = given
    if batch:
        return []
    if len(node.inputs[1].shape) == 1:
        return [f"{name} = {x}.index_select({axis}, {index})"]
    return [f"{name} = {x}[{':, ' * axis}{index}]"]


def _scatter(node: Node, name: str, given: Sequence[str]) -> list[str]:
    axis, kind, batch = node.params
    x, index, updates = given
    if batch:
        return []
    ranks = len(node.inputs[1].shape)
    if kind == "set":
        return [f"{name} = {x}.clone()", f"{name}[{':, ' * axis}{index}] = {updates}"]
    if ranks != 1:
        flat = (*node.shape[:axis], node.inputs[1].size, *node.shape[axis + 1 :])
        index, updates = f"{index}.reshape(-1)", f"{updates}.reshape({flat})"
    if kind == "add":
        return [f"{name} = {x}.index_add({axis}, {index}, {updates})"]
    reduce = {"mul": "prod", "max": "amax", "min": "amin"}[kind]
    return [f'{name} = {x}.index_reduce({axis}, {index}, {updates}, "{reduce}")']


def _sort(node: Node, name: str, given: Sequence[str]) -> list[str]:
    kind, down = node.params
    place = 0 if kind == "values" else 1
    return [f"{name} = {given[0]}.sort(dim=-1, descending={down}, stable=True)[{place}]"]


def _window(node: Node, name: str, given: Sequence[str]) -> list[str]:
    shape, strides, offset = node.params
    return [f"{name} = torch.as_strided({given[0]}, {shape}, {strides}, {offset})"]


_STATEMENTS: Mapping[str, Spell] = {
    "map": _map, "slice": _part, "pad": _pad, "update": _update, "reduce": _reduce, "scan": _scan,
    "contract": _contract, "gather": _gather, "scatter": _scatter, "sort": _sort,
    "window": _window,
    "const": lambda node, name, given: [f"{name} = {_number(node.params)}"],
    "iota": lambda node, name, given: [f"{name} = torch.arange({node.size}, dtype={_of(node)})"],
    "reshape": lambda node, name, given: [f"{name} = {given[0]}.reshape({_shape(node)})"],
    "expand": lambda node, name, given: [f"{name} = {given[0]}.expand({_shape(node)})"],
    "permute": lambda node, name, given: [f"{name} = {given[0]}.permute({node.params.axes})"],
    "flip": lambda node, name, given: [f"{name} = {given[0]}.flip({node.params.axes})"],
    "concat": lambda node, name, given: [
        f"{name} = torch.cat([{', '.join(given)}], {node.params.axis})"
    ],
    "variable": lambda node, name, given: [f"{name} = {given[0]}.detach()"],
    "detach": lambda node, name, given: [f"{name} = {given[0]}.detach()"],
}  # fmt: skip
