"""Operators that programs define, and how a call of one finds its kernel, gradient and batch rule.

A kernel is a Python function of tensors. It runs when it is called, and what it does with tensors
becomes part of the graph, as everywhere.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from threading import get_ident
from typing import Any

from lazyt import ops as _builders
from lazyt.autograd.function import Function
from lazyt.autograd.levels import stack
from lazyt.errors import ArgumentError, GradientError, LazytError
from lazyt.functional.overriding import candidates, choices, first_answer, holds, refusal, switch
from lazyt.handle.autocast import autocast, is_autocast_enabled
from lazyt.handle.dispatch import one_memory
from lazyt.handle.grad_mode import mode, no_grad
from lazyt.handle.hooks import hook
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.library.fake_context import in_fake
from lazyt.library.schema import Schema


class MissingKernelError(LazytError, NotImplementedError):
    """An operator that has no kernel for the device of its arguments."""


Rule = Callable[..., Any]


class OpOverload:
    """One operator, with one schema. Calling it runs its kernel.

    Attributes:
        kernels: functions by the type of device, ``""`` for any.
        differentiable: kernels whose own operations have the gradient, in the same way.
        backward, setup_context: the gradient that was registered.
        fake: gives results of the right shapes, without values: what runs for meta tensors.
        batch: the rule for ``vmap``.
        looks: whether its kernel looks at values, as far as is known.
        casts: the dtype to compute in under autocast, by the type of device.
        autocasts: what runs under autocast instead, in the same way.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.namespace, _, self._name = schema.full_name.partition("::")
        name, _, overload = self._name.partition(".")
        self._opname, self._overloadname = name, overload or "default"
        self.kernels: dict[str, Rule] = {}
        self.differentiable: dict[str, Rule] = {}
        self.backward: Rule | None = None
        self.setup_context: Rule | None = None
        self.fake: Rule | None = None
        self.batch: Rule | None = None
        self.looks: bool | None = None
        self.casts: dict[str, DType] = {}
        self.autocasts: dict[str, Rule] = {}
        self.__name__ = f"{name}.{self._overloadname}"

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All overloads of the name."""
        return namespaces[self.namespace]._packets[self._opname]

    _overloadpacket = overloadpacket

    @property
    def tags(self) -> list[Any]:
        """None: what PyTorch's compilers are told is nothing to lazyt."""
        return []

    def name(self) -> str:
        """The qualified name."""
        return self._schema.full_name

    def __repr__(self) -> str:
        op = f"{self.namespace}.{self._opname}"
        return f"<OpOverload(op='{op}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator; raises LazytError, in PyTorch's words, for arguments that do not fit
        its schema, and MissingKernelError where there is no kernel for their device."""
        if switch.on:
            if switch.wrappers and holds(switch.wrappers, args, kwargs) and not choices.arguments:
                assert switch.dispatch is not None
                return switch.dispatch(self, args, kwargs)
            found = candidates((*args, *kwargs.values()))
            if choices.modes or (found and choices.arguments):
                return self._asked(found, args, kwargs)
        return self._dispatch(args, kwargs)

    def _asked(self, found: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What modes and arguments with ``__torch_function__`` make of a call."""
        result = first_answer(self, found if choices.arguments else [], (args, kwargs))
        if result is NotImplemented:
            raise TypeError(refusal(str(self), list(map(type, found))))
        return result

    def _dispatch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = self._schema.bind(args, kwargs)
        kinds = [tensor.device.type for tensor in _tensors(bound.values())]
        kind = next((found for found in kinds if found != "cpu"), "cpu")
        rule = self.autocasts.get(kind)
        if rule is not None and is_autocast_enabled(kind):
            with autocast(kind, enabled=False):
                return rule(*args, **kwargs)
        dtype = self.casts.get(kind)
        if dtype is not None and is_autocast_enabled(kind):
            with autocast(kind, enabled=False):
                return self._run(Call(self, _lowered(bound, dtype), kind))
        return self._run(Call(self, bound, kind))

    def _run(self, call: Call) -> Any:
        is_meta = call.kind == "meta" and "meta" not in self.kernels
        fake = self.fake if is_meta else None
        through = self.differentiable.get(call.kind) or self.differentiable.get("")
        if fake is None and through is not None and self.backward is None and self.batch is None:
            return call.run(self._suited(call, through))
        kernel = fake or self.kernels.get(call.kind) or self.kernels.get("") or through
        if kernel is None:
            raise MissingKernelError(
                f"Could not run '{self._schema.qualified_name}' with arguments from the "
                f"'{call.kind.upper()}' backend: no kernel was registered for it "
                f"(register_kernel({call.kind!r}))"
            )
        if fake is not None:
            kernel = _in_fake(fake)
        elif is_meta and self.looks:
            raise LazytError(python_bodies().no_fake(self))
        else:
            kernel = self._suited(call, kernel)
        moving = mode.enabled and any(t.node.needs_grad for t in call.moving())
        batched = hook.watcher is not None and (self.batch is not None or call.is_looped)
        if not self._schema.returns or not (moving or batched):
            with no_grad():
                return call.run(kernel)
        return call.differentiated(kernel)

    def _suited(self, call: Call, kernel: Rule) -> Rule:
        """What to call for a kernel: another one where a function is captured, or observed."""
        if hook.watcher is None and get_ident() not in hook.diaries:
            return kernel
        found: Rule = python_bodies().chosen(call, kernel)
        return found


class Call:
    """One call of an operator: its arguments, taken apart into a flat list and put together.

    Args:
        op: the operator.
        bound: its arguments by name.
        kind: the type of the device.
    """

    def __init__(self, op: OpOverload, bound: dict[str, Any], kind: str) -> None:
        self.op, self.kind, self.bound = op, kind, bound
        schema = op._schema
        self.args = [bound[item.name] for item in schema.arguments if not item.is_keyword]
        self.named = {item.name: bound[item.name] for item in schema.arguments if item.is_keyword}
        self.spread = [
            len(value) if item.kind == "Tensor" and isinstance(value, list) else -1
            for item, value in zip(schema.arguments, self.args)
        ]
        self.results: list[int] = []

    @property
    def is_looped(self) -> bool:
        """Whether ``vmap`` calls the kernel for each example: there is no rule, and nothing says
        that it can be followed."""
        if self.op.batch is not None or self.op.looks is False:
            return False
        return any(level.size and level.symbols for level in stack.levels)

    def moving(self) -> list[Tensor]:
        """The tensors through which a gradient may flow."""
        return _tensors(self.args)

    def run(self, kernel: Rule) -> Any:
        """The kernel's results, as the schema says they are."""
        return self._checked(kernel(*self.args, **self.named), self.args)

    def _checked(self, found: Any, args: Sequence[Any]) -> Any:
        """Results of the types and in the number of the schema, which share no memory with
        arguments, or with each other."""
        op, returns = self.op, self.op._schema.returns
        if not returns:
            return None
        several = len(returns) > 1 or op._schema.grouped
        values = found if several else (found,)
        if not isinstance(values, (tuple, list)) or len(values) != len(returns):
            raise LazytError(
                f"{op}: its schema {op._schema} has {len(returns)} results, and its kernel gave "
                f"{type(found).__name__}"
            )
        for item, value in zip(returns, values):
            inside = value if item.is_list and isinstance(value, (list, tuple)) else [value]
            if item.is_list != isinstance(value, (list, tuple)) or (
                item.kind == "Tensor" and not all(isinstance(v, Tensor) for v in inside)
            ):
                raise LazytError(f"{op}: Unable to cast {value!r} to {item.type_text}")
        self._check_memory(args, values)
        return tuple(values) if several else values[0]

    def _check_memory(self, args: Sequence[Any], values: Sequence[Any]) -> None:
        if any(item.alias for item in self.op._schema.returns):
            return
        known = [*_tensors(args), *_tensors(self.named.values())]
        for value in _tensors(values):
            if any(one_memory(value._storage, other._storage) for other in known):
                raise LazytError(
                    f"{self.op._opname} (with implementation in {self.op.namespace}): The output "
                    "of this custom operator (1) must not also be an input to this custom operator "
                    "and (2) may not alias any inputs to this custom operator or other returns. "
                    "Please return a clone of the offending output tensor(s) (e.g. return "
                    "x.clone()), or refactor the custom operator to not return it."
                )
            known.append(value)

    def spread_results(self, found: Any) -> tuple[Any, ...]:
        """Results in a row, those of lists spread out."""
        returns = self.op._schema.returns
        several = len(returns) > 1 or self.op._schema.grouped
        values = (found if several else (found,)) if returns else ()
        self.results = [len(value) if item.is_list else -1 for item, value in zip(returns, values)]
        return tuple(
            part
            for value, count in zip(values, self.results)
            for part in ([value] if count < 0 else value)
        )

    def gathered(self, values: Sequence[Any]) -> Any:
        """The opposite."""
        found = _gathered(values, self.results)
        return found if len(found) > 1 or self.op._schema.grouped else found[0]

    # --------------------------------------------------------- derivatives

    def flat(self, args: Sequence[Any]) -> list[Any]:
        """Arguments with lists of tensors spread out."""
        out: list[Any] = []
        for value, count in zip(args, self.spread, strict=True):
            out += [value] if count < 0 else list(value)
        return out

    def unflat(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The opposite."""
        return _gathered(values, self.spread)

    def differentiated(self, kernel: Rule) -> Any:
        """The results, with the gradient and the batch rule that were registered."""
        op, call = self.op, self

        spread, gathered = call.spread_results, call.gathered

        def forward(*flat: Any) -> Any:
            args = call.unflat(flat)
            return spread(call._checked(kernel(*args, **call.named), args))

        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            if op.setup_context is None:
                return
            named = {"keyword_only_inputs": call.named} if call.named else {}
            args = call.unflat(inputs)
            op.setup_context(ctx=ctx, inputs=args, output=gathered(output), **named)

        def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
            if op.backward is None:
                raise GradientError(
                    f"Trying to backward through {op} but no autograd formula was registered. "
                    "Please use register_autograd to add one."
                )
            found = op.backward(ctx, *_gathered(cotangents, call.results))
            return call.cotangents(found)

        def vmap(info: Any, in_dims: Any, *flat: Any) -> Any:
            assert op.batch is not None
            dims, args = call.unflat(in_dims), call.unflat(flat)
            found, out_dims = op.batch(info, dims, *args, **call.named)
            made = spread(found)
            if isinstance(out_dims, (tuple, list)):
                pairs = zip(out_dims, call.results)
                out = [d for dim, count in pairs for d in ([dim] if count < 0 else dim)]
                return made, tuple(out)
            return made, (out_dims,) * len(made)

        members: dict[str, Any] = {"forward": forward, "setup_context": setup_context}
        members["backward"] = backward
        if op.batch is not None:
            members["vmap"] = vmap
        elif call.is_looped:
            members["vmap"] = python_bodies().looped(call)
        name = f"GeneratedBackwardFor_{str(op).replace('.', '_')}"
        made: Any = type(name, (Function,), {key: staticmethod(f) for key, f in members.items()})
        return gathered(made.apply(*self.flat(self.args)))

    def cotangents(self, found: Any) -> tuple[Any, ...]:
        """What ``backward`` gave, for the flat arguments."""
        several = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(several) != len(self.args):
            raise GradientError(
                f"{self.op}: backward returned {len(several)} gradients for {len(self.args)} "
                "arguments: one for each, None for what has none"
            )
        out: list[Any] = []
        for place, (value, count) in enumerate(zip(several, self.spread), 1):
            if count >= 0:
                value = [None] * count if value is None else list(value)
                if len(value) != count:
                    raise GradientError(f"{self.op}: a list of {count} gradients is needed")
                out += value
                continue
            if value is not None and not isinstance(self.args[place - 1], Tensor):
                raise GradientError(
                    f"function GeneratedBackwardFor_{str(self.op).replace('.', '_')}Backward "
                    f"returned a gradient different than None at position {place}, but the "
                    "corresponding forward input was not a Variable"
                )
            out.append(value)
        return tuple(out)


def _gathered(values: Sequence[Any], spread: Sequence[int]) -> tuple[Any, ...]:
    """Values with those of lists together again."""
    waiting = iter(values)
    return tuple(
        next(waiting) if count < 0 else [next(waiting) for _ in range(count)] for count in spread
    )


def _tensors(values: Any) -> list[Tensor]:
    """The tensors among values, and in lists of them."""
    found: list[Tensor] = []
    for value in values:
        inside = value if isinstance(value, (list, tuple)) else [value]
        found += [item for item in inside if isinstance(item, Tensor)]
    return found


def _lowered(bound: dict[str, Any], dtype: DType) -> dict[str, Any]:
    """Arguments with tensors of floats cast to a dtype."""

    def cast(value: Any) -> Any:
        if isinstance(value, list):
            return [cast(item) for item in value]
        return value.to(dtype) if isinstance(value, Tensor) and value.dtype.kind == "f" else value

    return {name: cast(value) for name, value in bound.items()}


def _in_fake(fake: Rule) -> Rule:
    """A fake kernel that can ask for its context."""

    def run(*args: Any, **named: Any) -> Any:
        with in_fake():
            return fake(*args, **named)

    return run


def python_bodies() -> Any:
    """The module for operators in captured functions and in ``vmap``, loaded at the first use."""
    return import_module("lazyt.library.python_bodies")


class OpOverloadPacket:
    """The overloads of one name; calling it takes the one that fits the arguments."""

    def __init__(self, namespace: str, name: str) -> None:
        self._qualified_op_name = f"{namespace}::{name}"
        self._label = f"{namespace}.{name}"
        self.__name__ = name
        self._overloads: dict[str, OpOverload] = {}

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._label}')>"

    def __str__(self) -> str:
        return self._label

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return list(self._overloads)

    def __getattr__(self, name: str) -> OpOverload:
        found = self.__dict__.get("_overloads", {}).get(name)
        if found is None:
            label = self.__dict__.get("_label", "")
            raise AttributeError(f"The underlying op of '{label}' has no overload name '{name}'")
        made: OpOverload = found
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the overload whose schema the arguments fit."""
        every = list(self._overloads.values())
        if len(every) == 1:
            return every[0](*args, **kwargs)
        for op in every:
            with contextlib.suppress(LazytError):
                op._schema.bind(args, kwargs)
                break
        else:
            listed = "\n".join(str(op._schema) for op in every)
            raise LazytError(f"no overload of {self._label} fits these arguments:\n{listed}")
        return op(*args, **kwargs)


class OpNamespace:
    """The operators of a namespace, as attributes: ``torch.ops.name``."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self._packets: dict[str, OpOverloadPacket] = {}

    def __repr__(self) -> str:
        return f"<operators of {self.__name__}>"

    def __getattr__(self, name: str) -> OpOverloadPacket:
        found = self.__dict__.get("_packets", {}).get(name)
        if found is None:
            own = self.__dict__.get("__name__", "")
            raise AttributeError(f"'_OpNamespace' '{own}' object has no attribute '{name}'")
        made: OpOverloadPacket = found
        return made

    def __dir__(self) -> list[str]:
        return list(self._packets)

    def __iter__(self) -> Iterator[str]:
        return iter(self._packets)


#: All namespaces, by name.
namespaces: dict[str, OpNamespace] = {}


def add_operator(schema: Schema, replace: bool = False) -> OpOverload:
    """A new operator; raises LazytError where there is one of the name, unless it is replaced."""
    namespace, _, full = schema.full_name.partition("::")
    if namespace in vars(_builders):
        raise ArgumentError(f"{namespace}: lazyt.ops has a name like that; take another namespace")
    name, _, overload = full.partition(".")
    place = namespaces.setdefault(namespace, OpNamespace(namespace))
    packet = place._packets.setdefault(name, OpOverloadPacket(namespace, name))
    key = overload or "default"
    if key in packet._overloads and not replace:
        raise LazytError(
            f"Tried to register an operator ({schema}) with the same name and overload name "
            "multiple times. Each overload's schema should only be registered with a single call "
            f"to def(). Duplicate registration: {packet._overloads[key]._schema}"
        )
    packet._overloads[key] = made = OpOverload(schema)
    return made


def split_name(qualname: str) -> tuple[str, str]:
    """Namespace and name; raises ArgumentError, in PyTorch's words, for other texts."""
    parts = qualname.split("::") if isinstance(qualname, str) else []
    if len(parts) != 2:
        raise ArgumentError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The '
            "qualname passed to the torch.library APIs must consist of a namespace and a name, "
            "e.g. aten::sin"
        )
    for part in (parts[0], *parts[1].split(".")):
        if not re.fullmatch(r"[A-Za-z_]\w*", part):
            raise ArgumentError(f"{qualname}: '{part}' is no name of an operator")
    return parts[0], parts[1]


def find_operator(qualname: str) -> OpOverload | None:
    """The operator of a name such as ``mine::scale`` or ``mine::scale.out``."""
    namespace, full = split_name(qualname)
    name, _, overload = full.partition(".")
    place = namespaces.get(namespace)
    packet = None if place is None else place._packets.get(name)
    return None if packet is None else packet._overloads.get(overload or "default")


def _missing(name: str) -> OpNamespace:
    """A namespace as an attribute; PyTorch, too, has one of every name."""
    if name.startswith("__"):
        raise AttributeError(f"module '{_builders.__name__}' has no attribute '{name}'")
    return namespaces.setdefault(name, OpNamespace(name))


# Not by a function of that module: type checkers would take every name to be there.
vars(_builders)["__getattr__"] = _missing
