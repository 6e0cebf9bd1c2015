"""``FlopCounterMode``: how many floating-point operations the products of a program take.

Counted are products of matrices, convolutions and attention, two operations for each
multiplication and its sum, as PyTorch counts them; what is elementwise is not.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.compat.served.packages import aten
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)  # fmt: skip
from lazyt.nn.recurrent import RNNBase
from lazyt.overrides import TorchFunctionMode
from lazyt.utils import _pytree as pytree

__all__ = ["FlopCounterMode", "register_flop_formula"]


class _Count(NamedTuple):
    """The operations of one call.

    Attributes:
        op: what they are counted as.
        forward: how many there are.
        backward: what those of the gradients are counted as.
        gradients: by each operand with a gradient, how many that takes.
    """

    op: str
    forward: int
    backward: str
    gradients: Sequence[tuple[Any, int]]


def _product(op: str, backward: str, flops: int, *operands: Any) -> _Count:
    """A product whose gradients take as many operations each."""
    return _Count(op, flops, backward, [(operand, flops) for operand in operands])


# ------------------------------------------------------------------------- formulas


def _matmul(a: Tensor, b: Tensor, **_: Any) -> _Count | None:
    if a.ndim < 2 or b.ndim < 2:
        return None  # products of vectors, which PyTorch does not count
    batch, (rows, inner) = a.shape[:-2], a.shape[-2:]
    other, columns = b.shape[:-2], b.shape[-1]
    repeats = math.prod(batch) if not other else math.prod(_broadcast(batch, other))
    op = "bmm" if other else "mm"
    return _product(op, op, 2 * repeats * rows * inner * columns, a, b)


def _broadcast(a: Sequence[int], b: Sequence[int]) -> list[int]:
    length = max(len(a), len(b))
    pairs = zip([1] * (length - len(a)) + list(a), [1] * (length - len(b)) + list(b))
    return [max(x, y) for x, y in pairs]


def _added(op: str) -> Callable[..., _Count | None]:
    def count(input: Any, a: Tensor, b: Tensor, *_: Any, **__: Any) -> _Count | None:
        made = _matmul(a, b)
        return None if made is None else made._replace(op=op)

    return count


def _linear(input: Tensor, weight: Tensor, bias: Any = None) -> _Count:
    flops = 2 * input.numel() * weight.shape[0]
    return _product("mm" if bias is None else "addmm", "mm", flops, input, weight)


def _bilinear(a: Tensor, b: Tensor, weight: Tensor, bias: Any = None) -> _Count:
    rows = a.numel() // a.shape[-1]
    return _product("bmm", "bmm", 2 * rows * weight.numel(), a, b, weight)


def _einsum(equation: Any, *operands: Any) -> _Count | None:
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not isinstance(equation, str) or len(operands) != 2:
        return None
    terms = re.sub(r"\s|->.*", "", equation).split(",")
    sizes: dict[str, int] = {}
    for term, operand in zip(terms, operands):
        letters = term.replace("...", "")
        shape = operand.shape
        if len(letters) != len(shape):  # dimensions behind "..." are counted as a whole
            begin = term.index("...")
            end = len(shape) - (len(letters) - begin)
            sizes["..."] = max(sizes.get("...", 1), math.prod(shape[begin:end]))
            shape = (*shape[:begin], *shape[end:])
        sizes.update(zip(letters, shape))
    return _product("bmm", "bmm", 2 * math.prod(sizes.values()), *operands)


def _tensordot(a: Tensor, b: Tensor, dims: Any = 2, **_: Any) -> _Count:
    summed = range(a.ndim - dims, a.ndim) if isinstance(dims, int) else dims[0]
    inner = math.prod(a.shape[dim] for dim in summed)
    return _product("mm", "mm", 2 * a.numel() * b.numel() // max(inner, 1), a, b)


def _convolution(transposed: bool) -> Callable[..., _Count]:
    def count(input: Tensor, weight: Tensor, *_: Any, result: Tensor, **__: Any) -> _Count:
        moved = input if transposed else result
        spatial = moved.ndim - (weight.ndim - 2)
        batch = moved.shape[0] if spatial == 2 else 1
        places = batch * math.prod(moved.shape[spatial:])
        flops = 2 * places * weight.numel()
        return _product("convolution", "convolution_backward", flops, input, weight)

    return count


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> _Count:
    rows = math.prod(query.shape[:-1])
    flops = 2 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1])
    name = "_scaled_dot_product_flash_attention_for_cpu"
    # The scores are computed again, and there are two products for each gradient.
    gradients = [(query, flops), (key, flops // 2), (value, flops)]
    return _Count(name, flops, f"{name}_backward", gradients)


def _multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, size: int, heads: int, *_: Any, **__: Any
) -> _Count:
    """The four projections, and the attention of the heads between them."""
    projected = sum(x.numel() for x in (query, key, value)) + query.numel()
    scores = (query.numel() // size) * key.shape[0] * 2 * size
    flops = 2 * (projected * size + scores)
    return _product("mm", "mm", flops, query, key, value)


#: By the name of the function.
_FORMULAS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("matmul", "__matmul__", "mm", "bmm"), _matmul),
    **{name: _added(name) for name in ("addmm", "baddbmm", "addbmm")},
    "linear": _linear,
    "bilinear": _bilinear,
    "einsum": _einsum,
    "tensordot": _tensordot,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention_forward": _multi_head_attention,
}
_CONVOLUTIONS = {
    f"conv{kind}{rank}d": _convolution(bool(kind))
    for kind in ("", "_transpose")
    for rank in (1, 2, 3)
}  # fmt: skip
#: Formulas of programs, by the operator.
_registered: dict[str, Callable[..., Any]] = {}


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Any], Any]:
    """Decorator: counts calls of operators (``torch.ops.aten.NAME``, or ones that a program has
    defined) or functions by a function of the shapes of their tensors, and of ``out_shape``.

    Args:
        targets: one, or a list of them.
        get_raw: give the function tensors instead of shapes, and ``out_val``.
    """

    def attach(formula: Any) -> Any:
        def count(*args: Any, result: Any, **kwargs: Any) -> _Count:
            if get_raw:
                flops = formula(*args, **kwargs, out_val=result)
            else:
                shapes = [_shapes(value) for value in args]
                named = {key: _shapes(value) for key, value in kwargs.items()}
                flops = formula(*shapes, **named, out_shape=_shapes(result))
            return _Count(name, int(flops), name, ())

        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            name = _name_of(target)
            _registered[name] = count
        return formula

    return attach


def _shapes(value: Any) -> Any:
    return pytree.tree_map(lambda leaf: leaf.shape if isinstance(leaf, Tensor) else leaf, value)


def _name_of(function: Any) -> str:
    name = getattr(function, "_opname", None) or getattr(function, "_operator", None)
    return str(name or getattr(function, "__name__", function))


class FlopCounterMode(TorchFunctionMode):
    """A context that counts the operations of products, and of their gradients.

    >>> from lazyt.utils.flop_counter import FlopCounterMode
    >>> model = lazyt.nn.Linear(4, 3)
    >>> with FlopCounterMode(display=False) as counter:
    ...     model(lazyt.ones(2, 4)).sum().backward()
    >>> counter.get_total_flops()
    96

    Nothing has to be computed for it: shapes are enough, on the meta device, too.

    Args:
        mods: taken for PyTorch's sake.
        depth: down to which level of modules ``get_table`` goes.
        display: whether the table is printed at the end.
        custom_mapping: formulas by operators or functions, as ``register_flop_formula`` takes them.
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        super().__init__()
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self._own: dict[str, Callable[..., Any]] = {}
        before = dict(_registered)
        for target, formula in (custom_mapping or {}).items():
            register_flop_formula(target, getattr(formula, "_get_raw", False))(formula)
            self._own[_name_of(target)] = _registered.pop(_name_of(target))
        _registered.update(before)
        self._path: list[tuple[Module, str]] = []
        self._handles: list[Any] = []

    # ------------------------------------------------------------------ modules

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self._handles = [
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
        ]
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        while self._handles:
            self._handles.pop().remove()
        self._path.clear()
        if self.display:
            print(self.get_table(self.depth))

    def _begin(self, module: Module, args: Any) -> None:
        name = type(module).__name__
        if self._path:
            parent, above = self._path[-1]
            for child, below in parent.named_modules():
                if below is module:
                    name = f"{above}.{child}"
                    break
        self._path.append((module, name))

    def _end(self, module: Module, args: Any, result: Any) -> None:
        if isinstance(module, RNNBase):
            self._add_recurrent(module, args, result)
        if self._path and self._path[-1][0] is module:
            self._path.pop()

    def _add_recurrent(self, module: RNNBase, args: Any, result: Any) -> None:
        """Each matrix is multiplied once for each step of each example."""
        x = args[0].data if hasattr(args[0], "batch_sizes") else args[0]
        rows = x.numel() // x.shape[-1]
        weights = [p for name, p in module.named_parameters() if name.startswith("weight")]
        flops = 2 * rows * sum(weight.numel() for weight in weights)
        made = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        self._note(_product("mm", "mm", flops, x, *weights[:1]), made[0])

    def _module_names(self) -> list[str]:
        return [*dict.fromkeys(name for _, name in self._path), "Global"]

    # ------------------------------------------------------------------ calls

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = _name_of(func)
        if any(isinstance(module, RNNBase) for module, _ in self._path):
            return func(*args, **kwargs)  # counted as a whole
        formula = self._own.get(name) or _registered.get(name)
        if formula is None and name not in _FORMULAS and name not in _CONVOLUTIONS:
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        with suppress(TypeError):  # arguments by other names: not a form that has a formula
            if formula is not None or name in _CONVOLUTIONS:
                chosen = formula or _CONVOLUTIONS[name]
                counted = chosen(*args, **kwargs, result=result)
            else:
                counted = _FORMULAS[name](*args, **kwargs)
            if counted is not None:
                self._note(counted, result)
        return result

    def _note(self, counted: _Count, result: Any) -> None:
        places = self._module_names()
        self._add(places, counted.op, counted.forward)
        flops = sum(
            number
            for operand, number in counted.gradients
            if isinstance(operand, Tensor) and operand.requires_grad
        )
        if flops and isinstance(result, Tensor) and result.requires_grad:

            def note(gradient: Tensor) -> None:
                if self._handles:
                    self._add(places, counted.backward, flops)

            result.register_hook(note)

    def _add(self, places: Sequence[str], op: str, flops: int) -> None:
        target = getattr(aten, op, op)
        for place in places:
            self.flop_counts[place][target] += flops

    # ------------------------------------------------------------------ results

    def get_total_flops(self) -> int:
        """All operations."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Operations by the names of modules, ``"Global"`` for all, and in these by operators."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The operations of modules, down to a level, as text."""
        limit = self.depth if depth is None else depth
        total = self.get_total_flops()
        rows = [("Module", "FLOP", "% Total")]
        rows += self._rows("Global", "Global", 0, total)
        for name in sorted(name for name in self.flop_counts if name != "Global"):
            level = name.count(".") + 1
            if level <= limit:
                rows += self._rows(name, name, level, total)
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(lines)

    def _rows(
        self, name: str, title: str, level: int, total: int
    ) -> Iterator[tuple[str, str, str]]:
        counts = self.flop_counts[name]
        yield self._row(" " * level + title, sum(counts.values()), total)
        for op, flops in counts.items():
            yield self._row(f"{' ' * level} - {op}", flops, total)

    @staticmethod
    def _row(title: str, flops: int, total: int) -> tuple[str, str, str]:
        scale, unit = next(
            ((10**power, unit) for power, unit in ((12, "T"), (9, "B"), (6, "M"), (3, "K"))
             if flops >= 10**power),
            (1, ""),
        )  # fmt: skip
        number = f"{flops / scale:.3f}{unit}" if unit else str(flops)
        return title, number, f"{100 * flops / max(total, 1):.2f}%"


_explain_absence(__name__)
