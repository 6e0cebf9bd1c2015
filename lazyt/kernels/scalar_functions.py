"""C functions of numbers as functions of tensors, which fuse and have gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from lazyt.autograd.function import Function
from lazyt.codegen.handwritten.scalar import (
    Translated,
    derivative_of,
    is_real,
    translate,
    uses_real,
)
from lazyt.codegen.handwritten.source import Source
from lazyt.codegen.handwritten.types import NAMES
from lazyt.errors import DTypeError, GradientError, SourceError
from lazyt.functional.operands import Number, as_number, broadcast_all, constant_of
from lazyt.functional.results import give
from lazyt.functional.type_promotion import get_default_dtype
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, float32
from lazyt.ir.graph import Node
from lazyt.ops.pointwise import map_in_parts

#: C text of a derivative, one for each parameter, or a function of the arguments.
Derivative = str | Sequence[str | None] | Callable[..., Any] | None


class CFunction:
    """A C function of numbers, applied to tensors element by element; ``c_function`` makes it.

    Attributes:
        name: what the C function is called.
        parameters: the names of its parameters.
        source: its text.
    """

    def __init__(self, source: str, derivative: Derivative = None) -> None:
        self._text = _read(source)
        self._given = derivative
        parameters = self._text.parameters(self._text.entry)
        self._reals = [number for number, item in enumerate(parameters) if is_real(item.type)]
        if not self._reals and uses_real(self._text):
            raise SourceError("c_function: real is the type of no parameter", 1, 1)
        self.source = source
        self._known: dict[DType | None, Translated] = {}
        first = self._translated(self._example)
        self.name, self.parameters = first.name, first.names
        self.__name__ = self.__qualname__ = first.name
        self._slopes: list[CFunction | None] = []
        if isinstance(derivative, str):
            derivative = [derivative]
        if derivative is not None and not callable(derivative):
            self._slopes = [None if text is None else CFunction(text) for text in derivative]
            if len(self._slopes) != len(self.parameters):
                raise SourceError(
                    f"{self.name} has {len(self.parameters)} parameters, and as many derivatives: "
                    f"{len(self._slopes)} were given"
                )
            for number, slope in enumerate(self._slopes):
                if slope is not None:
                    derivative_of(first, number, slope._translated(slope._example))
        self._rule = None if derivative is None else _rule(self)

    @property
    def _example(self) -> DType | None:
        """A dtype for ``real``, where there is nothing yet to take it from."""
        return float32 if self._reals else None

    def _translated(self, real: DType | None) -> Translated:
        found = self._known.get(real)
        if found is None:
            try:
                found = translate(self._text, real)
            except SourceError as error:
                raise SourceError(f"c_function: {error}", error.line, error.column) from None
            self._known[real] = found
        return found

    def __call__(self, *args: Tensor | Number) -> Tensor:
        """The function of each element; see ``c_function``."""
        self._check(args)
        if self._rule is None:
            return self.applied(args)
        found: Tensor = self._rule.apply(*args)
        return found

    def _check(self, args: Sequence[Any]) -> None:
        if len(args) != len(self.parameters):
            names = ", ".join(self.parameters)
            raise DTypeError(
                f"{self.name}() takes {len(self.parameters)} arguments ({names}), not {len(args)}"
            )
        for name, value in zip(self.parameters, args):
            if not isinstance(value, Tensor) and as_number(value) is None:
                self._refuse(name, f"a tensor or a number, not {type(value).__name__}")

    def applied(self, args: Sequence[Any]) -> Tensor:
        """The value, with the gradient that follows from the expression."""
        made = self._translated(self._real_of(args))
        shapes = [tuple(a.shape) for a in args if isinstance(a, Tensor)]
        broadcast_all(shapes)
        nodes: list[Node] = []
        for name, value, dtype in zip(self.parameters, args, made.dtypes):
            if not isinstance(value, Tensor):
                nodes.append(self._number(name, value, dtype))
            elif value.dtype is dtype:
                nodes.append(value.node)
            else:
                hint = "convert it with .to(...)"
                if dtype.kind == "f":
                    hint += ", or declare the parameter as real"
                self._refuse(name, f"{dtype.name}, not {value.dtype.name}; {hint}")
        return give(map_in_parts(made.expr, nodes), _title(self.name), args)

    def _number(self, name: str, value: Any, dtype: DType) -> Node:
        number = as_number(value)
        assert number is not None
        if dtype.kind != "f" and isinstance(number, float):
            self._refuse(name, f"whole numbers ({dtype.name}), not {number}")
        return constant_of(value, dtype)

    def _refuse(self, name: str, what: str) -> NoReturn:
        raise DTypeError(f"{self.name}(): argument '{name}' must be {what}")

    def _real_of(self, args: Sequence[Any]) -> DType | None:
        """What ``real`` stands for in a call: the dtype of the tensors that are given for it."""
        if not self._reals:
            return None
        found: dict[DType, str] = {}
        for number in self._reals:
            if isinstance(value := args[number], Tensor):
                found.setdefault(value.dtype, self.parameters[number])
        if len(found) > 1:
            given = " and ".join(f"{dtype.name} ({name})" for dtype, name in found.items())
            raise DTypeError(f"{self.name}(): arguments of type real have one dtype, not {given}")
        real = next(iter(found), get_default_dtype())
        if real.kind != "f":
            self._refuse(found[real], f"of floating point, not {real.name}")
        return real

    def slopes(self, args: Sequence[Any]) -> list[Tensor | None]:
        """The given derivatives by each argument; None where there is none."""
        if self._slopes:
            return [None if slope is None else slope(*args) for slope in self._slopes]
        assert callable(self._given)
        found = self._given(*args)
        several = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(several) != len(args):
            raise GradientError(
                f"{self.name}: the derivative gives {len(several)} values for {len(args)} arguments"
            )
        for value in several:
            if value is not None and not isinstance(value, Tensor):
                raise GradientError(
                    f"{self.name}: the derivative gives tensors, not {type(value).__name__}"
                )
        return several

    def __repr__(self) -> str:
        dtypes = self._translated(self._example).dtypes
        kinds = [
            "real" if number in self._reals else NAMES.get(dtype, dtype.name)
            for number, dtype in enumerate(dtypes)
        ]
        listed = ", ".join(f"{kind} {name}" for kind, name in zip(kinds, self.parameters))
        return f"<C function {self.name}({listed})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return c_function, (self.source, self._given)


def _read(source: str) -> Source:
    try:
        return Source(source)
    except SourceError as error:
        raise SourceError(f"c_function: {error}", error.line, error.column) from None


def _title(name: str) -> str:
    """What the grad_fn of a function is called."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) or name


def _rule(made: CFunction) -> type[Function]:
    """The function with the derivative that was given."""

    def forward(*args: Any) -> Tensor:
        return made.applied(args)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.args = [None if isinstance(a, Tensor) else a for a in inputs]
        tensors = [a for a in inputs if isinstance(a, Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    def arguments(ctx: Any) -> list[Any]:
        saved = iter(ctx.saved_tensors)
        return [next(saved) if a is None else a for a in ctx.args]

    def backward(ctx: Any, cotangent: Tensor) -> tuple[Any, ...]:
        args = arguments(ctx)
        found: list[Tensor | None] = []
        for value, slope in zip(args, made.slopes(args)):
            if slope is None or not isinstance(value, Tensor) or value.dtype.kind != "f":
                found.append(None)
            else:
                found.append((cotangent * slope).to(value.dtype).sum_to_size(value.shape))
        return tuple(found)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        args = arguments(ctx)
        total = None
        for tangent, slope in zip(tangents, made.slopes(args)):
            if tangent is not None and slope is not None:
                part = tangent * slope
                total = part if total is None else total + part
        return total

    members = (forward, setup_context, backward, jvp)
    made_type = type(_title(made.name), (Function,), {f.__name__: staticmethod(f) for f in members})
    made_type.__module__ = __name__
    return made_type


def c_function(source: str, derivative: Derivative = None) -> CFunction:
    """A function of numbers in C, as a function of tensors that works element by element.

    The text is translated, not compiled as it stands: the result is an expression of lazyt's own
    functions, which fuses with what is around it, runs on every device, and has the same bits
    everywhere. The last function of the text is the one that is called; it may call those before
    it, and the functions of math.h. It has numbers for parameters and gives a number. Local
    variables, arrays of known size, ``if``, ``?:``, casts and ``for`` loops whose number of turns
    does not depend on arguments (they are unrolled) may stand in it.

    Args:
        source: the C text.
        derivative: by default it follows from the expression. Otherwise C text of a function with
            the same parameters (for several parameters a sequence of texts, None for a derivative
            of zero), or a function of the same tensors that gives the partial derivatives.

    The result takes a tensor or a number for each parameter; their shapes broadcast. A tensor has
    the dtype that C says: ``float`` is float32, ``double`` float64, ``int`` int32, ``long`` int64,
    ``bool`` bool, ``int8_t`` and so on as they are called. A parameter of type ``real`` takes any
    dtype of floats, the same for all of them; constants and functions without a suffix are then
    ``real``, too, and 16-bit floats compute in float32 and round once, in the end. Everything else
    converts as in C: ``2.0 * x`` of a float is a double. The result has the dtype that the function
    returns.

    Raises SourceError, with line and column of the text, for what has no translation: pointers,
    ``while``, ``goto``, globals, functions that are not known. A call raises DTypeError for an
    argument of another dtype, and ShapeError for shapes that do not broadcast.

    Example:
        >>> leaky = lazyt.c_function("float leaky(float x) { return x > 0 ? x : 0.1f * x; }")
        >>> x = lazyt.tensor([-1.0, 2.0], requires_grad=True)
        >>> y = leaky(x)
        >>> y.sum().backward()
        >>> y.tolist(), x.grad.tolist()
        ([-0.10000000149011612, 2.0], [0.10000000149011612, 1.0])
    """
    return CFunction(source, derivative)
