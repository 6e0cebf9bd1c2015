"""How programs define operators, and register kernels, gradients and other rules for them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, NoReturn, TypeVar, overload

from lazyt.errors import ArgumentError, LazytError
from lazyt.handle.hooks import rules
from lazyt.ir.dtypes import DType
from lazyt.library.operators import (
    OpOverload,
    add_operator,
    find_operator,
    namespaces,
    split_name,
)
from lazyt.library.schema import Schema, parse_schema, schema_of

F = TypeVar("F", bound=Callable[..., Any])
DeviceTypes = str | Sequence[str] | None

#: Kernels by PyTorch's dispatch keys: the type of device, and whether a gradient goes through.
_KEYS: dict[str, tuple[str, bool]] = {
    "": ("", True), "CompositeImplicitAutograd": ("", True),
    "CompositeExplicitAutograd": ("", True), "CPU": ("cpu", True), "CUDA": ("cuda", True),
    "Autograd": ("", True), "AutogradCPU": ("cpu", True), "AutogradCUDA": ("cuda", True),
}  # fmt: skip

#: The same of kernels that run under autocast.
_AUTOCAST_KEYS = {"AutocastCPU": "cpu", "AutocastCUDA": "cuda", "AutocastXPU": "xpu"}


#: Namespaces for which there is a Library of kind DEF.
whole_namespaces: set[str] = set()


class CustomOpDef:
    """An operator as ``custom_op`` makes it: call it, and register its rules."""

    def __init__(self, op: OpOverload, function: Callable[..., Any]) -> None:
        self._opoverload = op
        self._qualname = op.name()
        self._namespace, self._name = op.namespace, op._name
        self._init_fn = function
        functools.update_wrapper(self, function, updated=())

    @property
    def _schema(self) -> str:
        return self._opoverload._schema.text("")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        return self._opoverload(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(
        self, device_types: DeviceTypes, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """A kernel for some types of devices (``"cpu"``, ``"cuda"``), None for all; a decorator
        without ``fn``."""
        return register_kernel(self, device_types, fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """A function that gives results of the right shapes and dtypes; see
        ``lazyt.library.register_fake``."""
        return register_fake(self, fn)

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """The gradient; see ``lazyt.library.register_autograd``."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> Callable[..., Any]:
        """The rule for ``vmap``; see ``lazyt.library.register_vmap``."""
        return register_vmap(self, func)

    def register_autocast(self, device_type: str, cast_inputs: DType) -> None:
        """Under autocast for this type of device, compute in ``cast_inputs``."""
        register_autocast(self, device_type, cast_inputs)


AnyOp = str | OpOverload | CustomOpDef


@overload
def custom_op(
    name: str, fn: Callable[..., Any], /, *, mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None, schema: str | None = None, tags: Any = None,
) -> CustomOpDef: ...  # fmt: skip
@overload
def custom_op(
    name: str, fn: None = None, /, *, mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None, schema: str | None = None, tags: Any = None,
) -> Callable[[Callable[..., Any]], CustomOpDef]: ...  # fmt: skip
def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an operator of a function; a decorator without ``fn``.

    The function runs whenever the operator is called. Its own operations have no gradient: that is
    registered (``register_autograd``). A result must not share memory with an argument.

    Args:
        name: ``"namespace::name"``. The operator is ``lazyt.ops.namespace.name``, too.
        fn: a function with annotations, from which the schema follows (``infer_schema``).
        mutates_args: names of the tensors that it writes to, or ``"unknown"`` for all of them.
        device_types: for which types of devices it is, all by default.
        schema: ``"(Tensor x) -> Tensor"`` instead of annotations.
        tags: accepted for PyTorch's sake.

    Raises ArgumentError for a name or a function that makes no operator.

    Example:
        >>> @lazyt.library.custom_op("mine::double", mutates_args=())
        ... def double(x: lazyt.Tensor) -> lazyt.Tensor:
        ...     return x * 2
        >>> double.register_autograd(lambda ctx, cotangent: cotangent * 2)
        >>> x = lazyt.ones(2, requires_grad=True)
        >>> lazyt.ops.mine.double(x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 2.0]
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        namespace, short = split_name(name)
        if schema is None:
            found = replace(schema_of(function, mutates_args), full_name=name)
        else:
            found = parse_schema(f"{short}{schema}", namespace)
            _check_written(found, mutates_args)
        op = add_operator(found, replace=True)
        for kind in _types(device_types):
            op.kernels[kind] = function
        return CustomOpDef(op, function)

    return make if fn is None else make(fn)


def _check_written(schema: Schema, mutates_args: str | Iterable[str]) -> None:
    if mutates_args == "unknown":
        return
    written = {item.name for item in schema.arguments if item.is_written}
    if written != set(mutates_args):
        raise ArgumentError(
            f"custom_op: mutates_args {sorted(set(mutates_args))} differs from what the schema "
            f"{schema} says: {sorted(written)}"
        )


def _types(device_types: DeviceTypes) -> list[str]:
    if device_types is None:
        return [""]
    listed = [device_types] if isinstance(device_types, str) else list(device_types)
    return ["" if kind == "default" else kind for kind in listed]


def _tell(*functions: Any) -> None:
    """Lets captured functions find rules that they run."""
    for function in functions:
        if isinstance(function, FunctionType):
            rules[function.__code__] = function


def _operator(op: AnyOp, what: str) -> OpOverload:
    """The operator that is meant. Raises LazytError where there is none."""
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, OpOverload):
        return op
    if not isinstance(op, str):
        raise ArgumentError(f"{what}(op): got unexpected type for op: {type(op)}")
    found = find_operator(op)
    if found is None:
        raise LazytError(f"operator {op} does not exist")
    return found


def register_kernel(
    op: AnyOp,
    device_types: DeviceTypes,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
) -> Callable[..., Any]:
    """A kernel of an operator for some types of devices; a decorator without ``func``.

    Args:
        op: the operator, or its name.
        device_types: ``"cpu"``, ``"cuda"``, several, or None for all.
        func: the kernel.
        lib: accepted for PyTorch's sake.

    Raises LazytError for an operator that does not exist.
    """
    found = _operator(op, "register_kernel")

    def register(function: F) -> F:
        for kind in _types(device_types):
            found.kernels[kind] = function
        return function

    return register if func is None else register(func)


def register_fake(
    op: AnyOp,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Callable[..., Any]:
    """A function that gives results of the right shapes and dtypes; a decorator without ``func``.

    ``opcheck`` compares it with the kernel. lazyt itself needs none: it finds shapes by running the
    kernel, which computes no values. Raises LazytError for an operator that does not exist.
    """
    found = _operator(op, "register_fake")

    def register(function: F) -> F:
        found.fake = function
        return function

    return register if func is None else register(func)


impl_abstract = register_fake


def register_autograd(
    op: AnyOp,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Any = None,
) -> None:
    """The gradient of an operator.

    Args:
        op: the operator, or its name.
        backward: ``(ctx, *cotangents) -> one gradient for each argument``, None where there is
            none; a list of them for a list of tensors. A list of results has a list of cotangents.
        setup_context: ``(ctx, inputs, output)``, which saves for ``backward`` (as in
            ``autograd.Function``). Where the operator has arguments by name only it takes
            ``keyword_only_inputs``, too.
        lib: accepted for PyTorch's sake.

    Raises LazytError for an operator that does not exist, or writes to its arguments.
    """
    if isinstance(op, str):
        namespace, name = split_name(op)
        if find_operator(op) is None:
            raise AttributeError(
                f"'_OpNamespace' '{namespace}' object has no attribute '{name}'", name=name
            )
    found = _operator(op, "register_autograd")
    if not found._schema.is_functional:
        raise LazytError(
            f"Cannot register autograd formula for non-functional operator {op} with schema "
            f"{found._schema}. Please create a functional operator and register an autograd "
            "formula for that."
        )
    found.backward, found.setup_context = backward, setup_context
    _tell(backward, setup_context)


def register_vmap(
    op: AnyOp, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Callable[..., Any]:
    """The rule of an operator for ``vmap``; a decorator without ``func``.

    ``func(info, in_dims, *args) -> (output, out_dims)``, as in ``autograd.Function``. Without a
    rule, ``vmap`` goes through the kernel. Raises LazytError for an operator that does not exist.
    """
    found = _operator(op, "register_vmap")

    def register(function: F) -> F:
        found.batch = function
        _tell(function)
        return function

    return register if func is None else register(func)


def register_autocast(
    op: AnyOp, device_type: str, cast_inputs: DType, /, *, lib: Any = None
) -> None:
    """Under autocast for ``device_type``, an operator computes in the dtype ``cast_inputs``.

    Raises ArgumentError for other types than ``"cpu"`` and ``"cuda"``.
    """
    if device_type not in ("cpu", "cuda"):
        raise ArgumentError(f"Unknown device type: {device_type}")
    _operator(op, "register_autocast").casts[device_type] = cast_inputs


# Operators whose schema is written first, and whose kernels come after it.


def fallthrough_kernel() -> NoReturn:
    """Stands for "no kernel here, ask the next"; it is never called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """Operators of a namespace: ``define`` gives schemas, ``impl`` kernels.

    Args:
        ns: the namespace.
        kind: ``"DEF"`` (once for each namespace), ``"FRAGMENT"`` to add to one, or ``"IMPL"`` for
            kernels only.
        dispatch_key: that of kernels for which ``impl`` says none.

    Raises ArgumentError for another kind, and LazytError for a second ``"DEF"``.

    Example:
        >>> lib = lazyt.library.Library("shapes", "FRAGMENT")
        >>> lib.define("area(Tensor width, Tensor height) -> Tensor")
        'area'
        >>> lib.impl("area", lambda width, height: width * height, "CPU")
        >>> lazyt.ops.shapes.area(lazyt.tensor([2.0]), lazyt.tensor([3.0])).tolist()
        [6.0]
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ArgumentError(f"Unsupported kind: {kind}")
        if kind == "DEF":
            if ns in whole_namespaces:
                raise LazytError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; "
                    "please put all of your definitions in a single TORCH_LIBRARY block. If you "
                    "were trying to specify implementations, consider using the kind IMPL"
                )
            whole_namespaces.add(ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._own: list[OpOverload] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """A new operator with a schema such as ``"scale(Tensor x, float by=2.0) -> Tensor"``.

        Gives its name. Raises LazytError for what is no schema, or is defined already.
        """
        if self.kind == "IMPL":
            raise LazytError("a Library of kind IMPL has kernels only; define() needs DEF")
        made = add_operator(parse_schema(schema, self.ns))
        self._own.append(made)
        return made._opname

    def impl(
        self,
        op_name: str | OpOverload,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """A kernel of an operator, whose own operations have the gradient unless one is registered.

        ``dispatch_key``: ``"CPU"``, ``"CUDA"``, ``"CompositeImplicitAutograd"`` and the like for
        all devices, ``"AutocastCPU"`` and the like for what runs under autocast, which is off in
        it, ``"Meta"`` for ``register_fake``. Raises ArgumentError for other keys and
        LazytError for an operator that does not exist.
        """
        if isinstance(op_name, OpOverload):
            found: OpOverload | None = op_name
        else:
            short = op_name.removeprefix(f"{self.ns}::")
            found = find_operator(f"{self.ns}::{short}")
        if found is None:
            raise LazytError(f"operator {self.ns}::{op_name} does not exist: define() it first")
        key = dispatch_key or self.dispatch_key
        if key == "Meta":
            found.fake = fn
        elif key in _AUTOCAST_KEYS:
            found.autocasts[_AUTOCAST_KEYS[key]] = fn
        elif key not in _KEYS:
            known = ", ".join([*_KEYS, *_AUTOCAST_KEYS])[2:]
            raise ArgumentError(f"impl: no dispatch key {key}; there are {known}")
        elif fn is not fallthrough_kernel:
            kind, _ = _KEYS[key]
            found.differentiable[kind] = fn

    def _destroy(self) -> None:
        """Take the operators of this library away."""
        for op in self._own:
            packet = namespaces[op.namespace]._packets[op._opname]
            packet._overloads.pop(op._overloadname, None)
            if not packet._overloads:
                del namespaces[op.namespace]._packets[op._opname]
        self._own.clear()
        if self.kind == "DEF":
            whole_namespaces.discard(self.ns)


def define(
    qualname: str | Library, schema: str, *, lib: Library | None = None, tags: Any = ()
) -> Any:
    """A new operator ``"namespace::name"`` with a schema ``"(Tensor x) -> Tensor"``.

    In the older form ``define(library, "name(Tensor x) -> Tensor")`` it is a decorator of the
    kernel. Raises LazytError for what is no schema, or is defined already.
    """
    if isinstance(qualname, Library):
        name = qualname.define(schema)
        owner = qualname

        def register(function: F) -> F:
            owner.impl(name, function)
            return function

        return register
    namespace, short = split_name(qualname)
    target = lib if lib is not None else Library(namespace, "FRAGMENT")
    target.define(f"{short}{schema}", tags=tags)
    return None


@overload
def impl(
    qualname: str, types: str | Sequence[str], func: None = None, *, lib: Library | None = None
) -> Callable[[F], F]: ...


@overload
def impl(
    qualname: str,
    types: str | Sequence[str],
    func: Callable[..., Any],
    *,
    lib: Library | None = None,
) -> None: ...


@overload
def impl(qualname: Library, types: str, func: str = "") -> Callable[[F], F]: ...


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """A kernel for an operator: a decorator, unless ``func`` is given.

    Args:
        qualname: the operator's name; in the older form a Library, with the operator's name for
            ``types`` and a dispatch key for ``func``.
        types: ``"cpu"``, ``"cuda"``, several, or ``"default"`` for all devices.
        func: the kernel.
        lib: accepted for PyTorch's sake.

    Raises LazytError for an operator that does not exist.
    """
    if isinstance(qualname, Library):
        owner, name, key = qualname, types, func or ""

        def older(function: F) -> F:
            owner.impl(name, function, key)
            return function

        return older
    found = _operator(qualname, "impl")

    def register(function: F) -> F:
        for kind in _types(types):
            found.differentiable[kind] = function
        return function

    if func is None:
        return register
    register(func)
    return None
