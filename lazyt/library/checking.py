"""``opcheck``: whether an operator does what it says."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.errors import ArgumentError, LazytError
from lazyt.handle.tensor import Tensor
from lazyt.library.definitions import CustomOpDef
from lazyt.library.operators import OpOverload, OpOverloadPacket
from lazyt.testing.comparison import assert_close
from lazyt.tracing.jit import jit


class OpCheckError(LazytError):
    """An operator that does not do what it says."""


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
        test_utils: which checks: that it writes to nothing but what its schema says
            (``test_schema``), has a gradient where one is asked for
            (``test_autograd_registration``), has a fake kernel that agrees with it
            (``test_faketensor``), and gives the same when it is captured
            (``test_aot_dispatch_dynamic``).
        raise_exception: whether the first failure raises.
        atol, rtol: how far results may differ when it is captured.

    Returns ``"SUCCESS"`` or the error of each check. Raises OpCheckError, and ArgumentError for
    what is no operator.
    """
    target = op
    if isinstance(op, CustomOpDef):
        target = op._opoverload
    elif isinstance(op, OpOverloadPacket):
        target = op._overloads.get("default", op)
    if not isinstance(target, OpOverload):
        raise ArgumentError(
            f"opcheck(op, ...): op must be instance of OpOverload, got {type(target)}"
        )
    checks: dict[str, Check] = {
        "test_schema": _check_writes,
        "test_autograd_registration": _check_gradient,
        "test_faketensor": _check_fake,
        "test_aot_dispatch_dynamic": lambda o, a, k: _check_captured(o, a, k, atol, rtol),
    }
    listed = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    results: dict[str, Any] = {}
    for name in listed:
        if name not in checks:
            raise ArgumentError(f"opcheck: unknown {name}; there are {', '.join(checks)}")
        try:
            checks[name](target, _copied(args), _copied(kwargs or {}))
            results[name] = "SUCCESS"
        except LazytError as error:
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
    before = {name: [(t, t._version) for t in _leaves(value)] for name, value in bound.items()}
    op(*args, **kwargs)
    for item in op._schema.arguments:
        changed = any(tensor._version != version for tensor, version in before[item.name])
        if changed and not item.is_written:
            raise OpCheckError(f"Argument {item.name} is not defined as mutable but was mutated")


def _check_gradient(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not any(tensor.requires_grad for tensor in _leaves([args, kwargs])):
        return
    found = [t for t in _leaves(op(*args, **kwargs)) if t.requires_grad]
    if found:
        total = sum((t.sum() for t in found[1:]), found[0].sum())
        total.backward()


def _check_fake(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if op.fake is None:
        name = op._schema.qualified_name
        raise OpCheckError(
            f"There was no fake impl registered for {name}. PyTorch's compilers need one; add it "
            f"with {op._opname}.register_fake. lazyt does without: test_utils leaves this check out"
        )
    bound = op._schema.bind(args, kwargs)
    positional = [bound[i.name] for i in op._schema.arguments if not i.is_keyword]
    named = {i.name: bound[i.name] for i in op._schema.arguments if i.is_keyword}
    fakes = _leaves(op.fake(*positional, **named))
    for fake, real in zip(fakes, _leaves(op(*args, **kwargs)), strict=True):
        if tuple(fake.shape) != tuple(real.shape) or fake.dtype is not real.dtype:
            raise OpCheckError(
                f"the fake kernel gives {fake.dtype.name}{list(fake.shape)}, and the kernel "
                f"{real.dtype.name}{list(real.shape)}"
            )


def _check_captured(
    op: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    atol: float | None,
    rtol: float | None,
) -> None:
    captured = jit(lambda *args, **kwargs: op(*args, **kwargs))
    for _ in range(3):
        here, there = _copied((args, kwargs)), _copied((args, kwargs))
        wanted, found = op(*here[0], **here[1]), captured(*there[0], **there[1])
        for one, other in zip(_leaves([found, there]), _leaves([wanted, here]), strict=True):
            with _named("the captured call gives other values"):
                assert_close(one.detach(), other.detach(), atol=atol, rtol=rtol)


@contextlib.contextmanager
def _named(what: str) -> Any:
    try:
        yield
    except AssertionError as error:
        raise OpCheckError(f"{what}: {error}") from None
