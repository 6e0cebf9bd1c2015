"""``opcheck``: whether an operator does what it says."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.autograd import grad
from lazyt.autograd.checking import gradcheck
from lazyt.errors import ArgumentError, LazytError
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import complex128, float64
from lazyt.library.definitions import CustomOpDef
from lazyt.library.fake_context import DynamicSizeError
from lazyt.library.operators import Call, OpOverload, OpOverloadPacket
from lazyt.library.python_bodies import Body, no_fake
from lazyt.testing.comparison import assert_close
from lazyt.tracing.jit import jit


class OpCheckError(LazytError):
    """An operator that does not do what it says."""


class MetadataMismatchError(OpCheckError):
    """A fake kernel whose results are of other shapes, dtypes or strides than the kernel's."""


Check = Callable[[OpOverload, tuple[Any, ...], dict[str, Any]], None]


def opcheck(
    op: OpOverload | OpOverloadPacket | CustomOpDef,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = (
        "test_schema",
        "test_autograd_registration",
        "test_faketensor",
        "test_aot_dispatch_dynamic",
    ),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Run an operator on example arguments, and compare what it does with what it says.

    Args:
        op: the operator.
        args, kwargs: arguments to call it with.
        test_utils: which checks: that it writes to nothing but what its schema says, and gives
            memory that is new (``test_schema``), that its results require a gradient where one is
            registered (``test_autograd_registration``), that it has a fake kernel which agrees with
            it (``test_faketensor``), and that it gives the same values and gradients when it is
            captured (``test_aot_dispatch_dynamic``). ``test_gradients``, which is lazyt's alone and
            none of those that run by default, compares gradients with differences of values, for
            arguments of float64.
        raise_exception: whether the first failure raises.
        atol, rtol: how far results may differ when it is captured.

    Returns ``"SUCCESS"`` or the error of each check. Raises OpCheckError, and ArgumentError for
    what is no operator.
    """
    target = op._opoverload if isinstance(op, CustomOpDef) else op
    if isinstance(op, OpOverloadPacket):
        target = op._overloads.get("default", op)
    if not isinstance(target, OpOverload):
        raise ArgumentError(
            f"opcheck(op, ...): op must be instance of OpOverload, got {type(target)}"
        )
    checks: dict[str, Check] = {
        "test_schema": _check_writes,
        "test_autograd_registration": _check_registration,
        "test_faketensor": _check_fake,
        "test_aot_dispatch_dynamic": lambda o, a, k: _check_captured(o, a, k, atol, rtol),
        "test_gradients": _check_values_of_gradients,
    }
    listed = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    if unknown := [name for name in listed if name not in checks]:
        raise ArgumentError(f"opcheck: unknown {unknown[0]}; there are {', '.join(checks)}")
    results: dict[str, Any] = {}
    for name in listed:
        try:
            checks[name](target, _copied(args), _copied(kwargs or {}))
            results[name] = "SUCCESS"
        except Exception as error:  # whatever the operator's own code raises
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            results[name] = error
    return results


def _copied(value: Any) -> Any:
    """Arguments with copies of their tensors."""
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(item) for item in value)
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return value


def _leaves(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in _leaves(item)] if isinstance(value, (list, tuple)) else []


def _check_writes(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    bound = op._schema.bind(args, kwargs)
    # NumPy writes without a count of versions.
    before = {n: [(t, t._version, _values(t)) for t in _leaves(v)] for n, v in bound.items()}
    op(*args, **kwargs)
    for item in op._schema.arguments:
        changed = any(
            tensor._version != version or not _same(_values(tensor), values)
            for tensor, version, values in before[item.name]
        )
        if changed and not item.is_written:
            raise OpCheckError(f"Argument {item.name} is not defined as mutable but was mutated")


def _values(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().realize()


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have equal values, or are NaN in the same places."""
    same = (one == other) | ((one != one) & (other != other))
    return bool(same.all().item())


def _check_registration(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = [tensor for tensor in _leaves([args, kwargs]) if tensor.requires_grad]
    if not given or not op._schema.is_functional:
        return
    found = [t for t in _leaves(op(*args, **kwargs)) if t.dtype.kind in "fc"]
    if found and op.backward is not None and not any(t.requires_grad for t in found):
        raise OpCheckError(
            "an argument requires a gradient, and no result does: the kernel may return tensors "
            "that were there before"
        )


def _check_fake(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    call = Call(op, op._schema.bind(args, kwargs), "meta")
    real = op(*args, **kwargs)
    if op.fake is None and op._schema.returns:
        raise OpCheckError(no_fake(op))
    try:
        fakes = Body(call, op.fake or len, call.bound).fakes()
    except DynamicSizeError:  # which nothing can be compared with
        return
    for fake, value in zip(fakes, _leaves(real), strict=False):
        difference = _difference(fake, value)
        if difference:
            raise MetadataMismatchError(
                f"When comparing the output of {op} on FakeTensor and concrete Tensors, found "
                f"mismatched tensor metadata: {difference}"
            )


def _difference(fake: Tensor, real: Tensor) -> str:
    """How a fake result differs from the real one, in PyTorch's words; "" where it does not."""
    if fake.shape != real.shape:
        return f"Shapes {real.shape} and {fake.shape} are not equal!"
    if fake.dtype is not real.dtype:
        return f"Dtypes {real.dtype} and {fake.dtype} are not equal!"
    one, other = real.stride(), fake.stride()
    for axis, (extent, mine, its) in enumerate(zip(real.shape, one, other)):
        if extent > 1 and mine != its:
            return f"Stride mismatch! Strides are {one} and {other} (mismatched at {axis})!"
    return ""


def _check_captured(
    op: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    atol: float | None,
    rtol: float | None,
) -> None:
    captured = jit(lambda *args, **kwargs: op(*args, **kwargs), fullgraph=True)
    for _ in range(3):
        here, there = _copied((args, kwargs)), _copied((args, kwargs))
        wanted, found = op(*here[0], **here[1]), captured(*there[0], **there[1])
        with _named("the captured call gives other values"):
            for one, other in zip(_leaves([found, there]), _leaves([wanted, here]), strict=True):
                assert_close(one.detach(), other.detach(), atol=atol, rtol=rtol)
        with _named("the captured call gives other gradients"):
            pairs = zip(_gradients(found, there), _gradients(wanted, here), strict=True)
            for ours, its in pairs:
                assert_close(ours, its, atol=atol, rtol=rtol)


def _gradients(results: Any, given: Any) -> list[Tensor]:
    """The gradients of the sum of the results, for the arguments that get one."""
    moving = [t for t in _leaves(results) if t.requires_grad]
    leaves = [t for t in _leaves(given) if t.requires_grad]
    if not moving or not leaves:
        return []
    total = sum((t.sum() for t in moving[1:]), moving[0].sum())
    found = grad(total, leaves, allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


def _check_values_of_gradients(
    op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    moving = [t for t in _leaves([args, kwargs]) if t.requires_grad]
    if not moving:
        raise OpCheckError("no argument requires a gradient")
    if any(t.dtype not in (float64, complex128) for t in moving):
        raise OpCheckError("gradients are compared with differences in float64 only")

    def function(*inputs: Tensor) -> Any:
        own = iter(inputs)

        def replaced(value: Any) -> Any:
            if isinstance(value, Tensor):
                return next(own) if value.requires_grad else value
            if isinstance(value, (list, tuple)):
                return type(value)(replaced(item) for item in value)
            return value

        given = replaced(args)
        named = {name: replaced(value) for name, value in kwargs.items()}
        return tuple(t for t in _leaves(op(*given, **named)) if t.requires_grad)

    gradcheck(function, tuple(moving))


@contextlib.contextmanager
def _named(what: str) -> Any:
    try:
        yield
    except AssertionError as error:
        raise OpCheckError(f"{what}: {error}") from None
