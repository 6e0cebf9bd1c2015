"""What operands have in common: numbers, dimensions, broadcasting, and cached expressions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, NumberError, ShapeError
from lazyt.functional.overriding import answered
from lazyt.functional.type_promotion import (
    promote_operands,
    promote_pair,
    promote_scalar,
    refuse,
)
from lazyt.handle.function_table import pair_forms
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bool_, float32, package_name
from lazyt.ir.graph import Head, Node, Shape, head_of, make_of
from lazyt.ir.scalar import Call, Expr, arg, call, post_order, real_number
from lazyt.ops.pointwise import MAP
from lazyt.tracing.symbolic_numbers import SYMBOLIC, leaf_of_number

Number = bool | int | float | complex
Operand = Tensor | Number


def as_number(value: Any) -> Number | None:
    """``value`` as a Python number when it is one (NumPy scalars count), else None."""
    if isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, (np.bool_, np.integer, np.floating, np.complexfloating)):
        found: Number = value.item()
        return found
    return None


def require_tensor(value: Any, function: str, argument: str = "input", position: int = 1) -> Tensor:
    """``value`` when it is a Tensor; raises DTypeError in PyTorch's words otherwise."""
    if isinstance(value, Tensor):
        return value
    raise DTypeError(
        f"{function}(): argument '{argument}' (position {position}) must be Tensor, "
        f"not {type(value).__name__}"
    )


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{package_name()}.{name}" if isinstance(value, DType) else name


def wrong_arguments(
    function: str, given: Sequence[Any], forms: Sequence[str], **named: Any
) -> DTypeError:
    """The error for arguments that fit none of a function's ``forms``, in PyTorch's words.

    ``given`` are the positional arguments and ``named`` those given by name; a form is the list
    of parameters as PyTorch prints it, such as ``"Tensor input, int dim"``.
    """
    kinds = [_kind(v) for v in given] + [f"{name}={_kind(v)}" for name, v in named.items()]
    text = f"{function}() received an invalid combination of arguments - got ({', '.join(kinds)})"
    if len(forms) == 1:
        return DTypeError(f"{text}, but expected ({forms[0]})")
    listed = "".join(f" * ({form})\n" for form in forms)
    return DTypeError(f"{text}, but expected one of:\n{listed}")


def floating_number(value: Any) -> Any:
    """A number as a float, so that it does not wrap around in a small integer type."""
    number = None if isinstance(value, Tensor) else as_number(value)
    require_long(number)
    return value if number is None else number * 1.0


# Constants of recent calls, kept so that a loop does not make them anew.
_constants: dict[tuple[type, Number, DType], Node] = {}
_MAX_CONSTANTS = 1024


def constant_of(value: Number, dtype: DType) -> Node:
    """A constant node; integers wrap around as a C conversion does."""
    if type(value) in SYMBOLIC:
        return leaf_of_number(value, dtype, _new_constant)
    key = (type(value), value, dtype)
    found = _constants.get(key)
    if found is None:
        found = _new_constant(value, dtype)
        if value and is_unique_key(value):
            if len(_constants) >= _MAX_CONSTANTS:
                _constants.clear()
            _constants[key] = found
    return found


def is_unique_key(value: Number) -> bool:
    """Whether no other number than ``value``, which is not zero, is equal as a key: of complex ones
    a part may be a zero, of either sign."""
    return type(value) is not complex or (value.real != 0 and value.imag != 0)


def require_long(value: Any) -> None:
    """Raise NumberError, in PyTorch's words, for an integer beyond 64 bits."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise NumberError("int too big to convert")


def _new_constant(value: Number, dtype: DType) -> Node:
    require_long(value)
    if dtype.kind in "ui":
        value = int(real_number(value))
        bits = 8 * dtype.itemsize
        low = -(1 << (bits - 1)) if dtype.kind == "i" else 0
        if not low <= value < low + (1 << bits):
            value = (value - low) % (1 << bits) + low
    return ops.constant(value, dtype)


def normalize_dim(dim: Any, rank: int) -> int:
    """``dim`` counted from the front; raises BoundsError in PyTorch's words."""
    place: int = operator.index(dim)
    span = rank or 1
    if not -span <= place < span:
        raise BoundsError(
            f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], "
            f"but got {place})"
        )
    return place + span if place < 0 else place


def existing_dim(dim: Any, rank: int) -> int:
    """``normalize_dim`` where a tensor without dimensions has none to name."""
    if not rank:
        raise BoundsError(
            f"Dimension specified as {operator.index(dim)} but tensor has no dimensions"
        )
    return normalize_dim(dim, rank)


def normalize_dims(dims: Any, rank: int) -> tuple[int, ...]:
    """Dimensions as sorted axes; None or an empty list means all. Raises ShapeError for repeats."""
    if dims is None:
        return tuple(range(rank))
    if not isinstance(dims, (tuple, list)):
        axis = normalize_dim(dims, rank)
        return (axis,) if rank else ()
    if not dims:
        return tuple(range(rank))
    axes = [normalize_dim(d, rank) for d in dims]
    for i, axis in enumerate(axes):
        if axis in axes[:i]:
            raise ShapeError(f"dim {axis} appears multiple times in the list of dims")
    return tuple(sorted(axes)) if rank else ()


_Function = TypeVar("_Function", bound=Callable[..., Any])


def sizes_by_name(name: str) -> Callable[[_Function], _Function]:
    """Lets a function of ``(tensor, *numbers)`` take all numbers as one argument ``name``, too."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(input: Any, *numbers: Any, **named: Any) -> Any:
            if name in named and not numbers:
                numbers = (named.pop(name),)
            try:
                return function(input, *numbers, **named)
            except TypeError:
                return answered(call, (input, *numbers), named)

        return cast(_Function, call)

    return decorate


def as_shape(size: Sequence[Any], function: str = "reshape") -> Shape:
    """``f(2, 3)``, ``f((2, 3))`` or ``f(size)`` as a tuple of ints."""
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = size[0]
    try:
        if size and type(size[0]) is bool:  # PyTorch looks no further
            raise TypeError
        return tuple(operator.index(s) for s in size)
    except TypeError:
        wrong = next((s for s in size if not hasattr(s, "__index__")), size[0])
        raise DTypeError(
            f"{function}(): argument 'size' (position 1) must be tuple of ints, "
            f"not {type(wrong).__name__}"
        ) from None


def broadcast_pair(a: Shape, b: Shape) -> Shape:
    """The common shape of two operands; raises ShapeError in PyTorch's words."""
    if a == b or not b:
        return a
    if not a:
        return b
    rank = max(len(a), len(b))
    left = (1,) * (rank - len(a)) + a
    right = (1,) * (rank - len(b)) + b
    # PyTorch reports the last dimension that differs.
    for axis in range(rank - 1, -1, -1):
        m, n = left[axis], right[axis]
        if m != n and m != 1 and n != 1:
            raise ShapeError(
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) "
                f"at non-singleton dimension {axis}"
            )
    return tuple(n if m == 1 else m for m, n in zip(left, right))


def broadcast_all(shapes: Sequence[Shape]) -> Shape:
    """The common shape of any number of operands; raises ShapeError as ``broadcast_pair``."""
    common: Shape = ()
    for shape in shapes:
        common = broadcast_pair(common, shape)
    return common


def expand_to(node: Node, shape: Shape) -> Node:
    """``node`` repeated to ``shape``, which it must broadcast to."""
    if node.shape == shape:
        return node
    lead = len(shape) - len(node.shape)
    if lead:
        node = ops.reshape(node, (1,) * lead + node.shape)
    return node if node.shape == shape else ops.expand(node, shape)


Build = Callable[..., Expr]


def scalar_build(name: str) -> Build:
    """The lasting builder of one scalar function, for ``mapped``."""

    def build(*args: Expr) -> Expr:
        return call(name, *args)

    return build


_mapped: dict[Any, Head] = {}


def _rounded(value: Expr, node: Node, half: DType) -> Expr:
    """``value``, the wide form of ``node``; whole numbers with dimensions go through ``half``."""
    if node.dtype.kind not in "ui" or not node.shape:
        return value
    return call("cast", call("cast", value, dtype=half), dtype=value.dtype)


def mapped(build: Build, nodes: tuple[Node, ...], compute: DType, result: DType | None) -> Node:
    """One ``map`` node of the expression that ``build`` makes of its arguments.

    Arguments are cast to ``compute`` and the value to ``result`` (None leaves it), inside the
    same expression. Half types compute in float32, so a composite rounds once. Expressions are
    kept per builder and dtypes: ``build`` must be a lasting function, not a new lambda each time.
    Tensors of whole numbers round to a half type first, as PyTorch converts them.
    """
    key: tuple[Any, ...] = (build, compute, result, *[n.dtype for n in nodes])
    if compute.is_half:
        key = (*key, *[bool(n.shape) for n in nodes])
    head = _mapped.get(key)
    if head is None:
        wide = compute.compute
        args = [call("cast", arg(i, n.dtype), dtype=wide) for i, n in enumerate(nodes)]
        if compute.is_half:
            args = [_rounded(a, n, compute) for a, n in zip(args, nodes)]
        expr = build(*args)
        if result is not None:
            expr = call("cast", expr, dtype=result)
        if any(n.dtype.kind == "c" for n in nodes):
            _check_complex(expr)
        head = _mapped[key] = head_of(MAP, expr, len(nodes))
    return make_of(head, nodes)


def _check_complex(expr: Expr) -> None:
    """Raise UnsupportedTypeError for a function that complex numbers are not for."""
    for item in post_order(expr):
        if isinstance(item, Call) and "c" not in item.fn.kinds:
            for given in item.args:
                if given.dtype.kind == "c":
                    refuse(f"{item.fn.name}_cpu", given.dtype)


_choices: dict[tuple[DType, DType, DType], Expr] = {}


def without_slope(node: Node, operand: Node) -> Node:
    """``node`` as a function of ``operand``, of the same shape, with a gradient of zeros."""
    if not operand.needs_grad:
        return node
    return choose(ops.constant(True, bool_), node, operand, node.dtype)


def choose(condition: Node, a: Node, b: Node, dtype: DType) -> Node:
    """``where`` on nodes: a bool condition and two values, cast to ``dtype``."""
    key = (a.dtype, b.dtype, dtype)
    expr = _choices.get(key)
    if expr is None:
        values = (call("cast", arg(i, n.dtype), dtype=dtype) for i, n in ((1, a), (2, b)))
        expr = _choices[key] = call("where", arg(0, bool_), *values)
    return ops.elementwise(expr, (condition, a, b))


def pair_nodes(a: Any, b: Any) -> tuple[Node, Node, DType] | None:
    """The nodes of two operands, of which one is a tensor, and the dtype they promote to.

    Returns None when an operand is neither a tensor nor a number. A number meets a half tensor
    as float32, as PyTorch's kernels take it.
    """
    if isinstance(a, Tensor):
        if isinstance(b, Tensor):
            x, y = a.node, b.node
            if x.shape != y.shape:
                broadcast_pair(x.shape, y.shape)
            if x.dtype is y.dtype:
                return x, y, x.dtype
            return x, y, promote_pair(x.dtype, len(x.shape), y.dtype, len(y.shape))
        number = as_number(b)
        if number is None:
            return None
        x = a.node
        dtype = promote_scalar(x.dtype, number)
        return x, constant_of(number, float32 if dtype.is_half else dtype), dtype
    number = as_number(a)
    if number is None:
        return None
    if not isinstance(b, Tensor):
        other = as_number(b)
        if other is None:
            return None
        dtype = promote_operands([], [number, other])
        return constant_of(number, dtype), constant_of(other, dtype), dtype
    y = b.node
    dtype = promote_scalar(y.dtype, number)
    return constant_of(number, float32 if dtype.is_half else dtype), y, dtype


def operand_dtype(operands: Sequence[Operand]) -> DType:
    """PyTorch's ``result_type`` of tensors and numbers."""
    dtypes = {t.dtype for t in operands if isinstance(t, Tensor)}
    if len(dtypes) == 1 and all(isinstance(t, Tensor) for t in operands):
        return dtypes.pop()
    tensors = [(t.dtype, len(t.shape)) for t in operands if isinstance(t, Tensor)]
    numbers = [n for n in operands if not isinstance(n, Tensor)]
    return promote_operands(tensors, numbers)


def operand_node(value: Operand, dtype: DType) -> Node:
    """The node of a tensor, or the constant of a number in the type ``dtype`` computes in."""
    if isinstance(value, Tensor):
        return value.node
    return constant_of(value, dtype.compute)


F = TypeVar("F", bound=Callable[..., Any])


def _refuse_keepdim(name: str, position: str = "") -> NoReturn:
    """``sum(0, 1)`` is meant as two dimensions, and would be one, kept."""
    raise DTypeError(f"{name}(): argument 'keepdim' {position}must be bool, not int")


def numpy_names(function: F) -> F:
    """Decorator: also take NumPy's ``axis`` for ``dim`` and ``keepdims`` for ``keepdim``.

    The first argument has to be a tensor, and ``keepdim`` a bool; DTypeError names the function
    otherwise.
    """
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    place = names.index("keepdim") if "keepdim" in names else -1

    @functools.wraps(function)
    def named(*args: Any, **kwargs: Any) -> Any:
        if args and not isinstance(args[0], Tensor):
            require_tensor(args[0], function.__name__)
        if kwargs:
            if "axis" in kwargs:
                kwargs["dim"] = kwargs.pop("axis")
            if "keepdims" in kwargs:
                kwargs["keepdim"] = kwargs.pop("keepdims")
            if type(kwargs.get("keepdim")) is int:
                _refuse_keepdim(function.__name__)
        if -1 < place < len(args) and type(args[place]) is int:
            _refuse_keepdim(function.__name__, f"(position {place + 1}) ")
        return function(*args, **kwargs)

    return cast(F, named)


# Expressions over operands of several types, as conditions and positions beside values are.


_expressions: dict[Any, Expr] = {}


def mixed(build: Build, nodes: tuple[Node, ...], result: DType | None = None) -> Node:
    """One ``map`` node of what ``build`` makes of its arguments, each in the type it computes in.

    The value is cast to ``result`` (None leaves it). ``build`` must be a lasting function, as for
    ``operands.mapped``.
    """
    key = (build, result, *[n.dtype for n in nodes])
    expr = _expressions.get(key)
    if expr is None:
        args = (call("cast", arg(i, n.dtype), dtype=n.dtype.compute) for i, n in enumerate(nodes))
        expr = build(*args)
        if result is not None:
            expr = call("cast", expr, dtype=result)
        _expressions[key] = expr
    return ops.elementwise(expr, nodes)


# Which pairs of tensors and numbers a function of two operands takes, as PyTorch's forms say.


_TENSORS = "Tensor input, Tensor other, *, Tensor out = None"
_NUMBER_LAST = "Tensor input, Number other, *, Tensor out = None"
_NUMBER_FIRST = "Number self, Tensor other, *, Tensor out = None"
# A number may come first where a form says so. Functions that declare no forms take tensors, and a
# number in their place.
TENSOR_FIRST = (_TENSORS, _NUMBER_LAST)
ONE_TENSOR = (_TENSORS, _NUMBER_FIRST, _NUMBER_LAST)
ONE_TENSOR_PLAIN = (_TENSORS, "Number self, Tensor other", _NUMBER_LAST)


def pair(a: Any, b: Any, function: str) -> tuple[Node, Node, DType]:
    """``pair_nodes``; raises DTypeError for operands that ``function`` does not take."""
    if not isinstance(a, Tensor) and function in pair_forms:
        check_pair(a, b, function)
    found = pair_nodes(a, b)
    if found is None:
        raise _wrong_pair(a, b, function)
    return found


def check_pair(a: Any, b: Any, function: str) -> None:
    """Raise DTypeError unless ``function``, one with several forms, takes these operands."""
    forms = pair_forms.get(function, ONE_TENSOR)
    number_first = any(form.startswith("Number") for form in forms)
    if isinstance(a, Tensor):
        fits = isinstance(b, Tensor) or as_number(b) is not None
    else:
        fits = number_first and as_number(a) is not None and isinstance(b, Tensor)
    if not fits:
        raise wrong_arguments(function, (a, b), forms)


def _wrong_pair(a: Any, b: Any, function: str) -> DTypeError:
    if function in pair_forms:
        return wrong_arguments(function, (a, b), pair_forms[function])
    position, wrong = (1, a) if as_number(a) is None and not isinstance(a, Tensor) else (2, b)
    name = "input" if position == 1 else "other"
    return DTypeError(
        f"{function}(): argument '{name}' (position {position}) must be Tensor, "
        f"not {type(wrong).__name__}"
    )
