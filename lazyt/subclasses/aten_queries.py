"""What packages ask PyTorch's dispatcher, ``torch._C._dispatch_*``: which operators and kernels
there are, and their schemas."""

from __future__ import annotations

from lazyt.compat.served.packages import aten
from lazyt.errors import LazytError
from lazyt.library.operators import OpOverload, find_operator, namespaces
from lazyt.library.schema import Schema, parse_schema
from lazyt.subclasses.aten_schemas import names_of_operators, schema_of, schemas_of

__all__ = [
    "_dispatch_get_all_op_names", "_dispatch_has_computed_kernel_for_dispatch_key",
    "_dispatch_has_kernel", "_dispatch_has_kernel_for_dispatch_key", "_get_schema",
    "_jit_get_schemas_for_operator", "parse_schema_of",
]  # fmt: skip

#: Devices, by the keys of kernels for them.
_DEVICES = {"CPU": "cpu", "CUDA": "cuda"}


def _find(name: str) -> OpOverload | Schema | None:
    """An operator that a program defined, or the schema of one of ``torch.ops.aten``."""
    namespace, _, full = name.partition("::")
    if namespace == "aten":
        plain, _, overload = full.partition(".")
        return schemas_of(plain).get(overload or "default") if hasattr(aten, plain) else None
    return find_operator(name)


def _dispatch_has_kernel(name: str) -> bool:
    """Whether there is an operator of a name such as ``aten::add.Tensor``."""
    return _find(name) is not None


def _dispatch_has_kernel_for_dispatch_key(name: str, dispatch_key: str) -> bool:
    """Whether an operator has its own kernel for a key such as ``CPU``, ``CUDA``, ``Meta`` or
    ``Autograd``. Raises LazytError for an operator that does not exist."""
    found = _find(name)
    if found is None:
        raise LazytError(f"operator {name} does not exist")
    key = str(dispatch_key).rpartition(".")[2]
    if not isinstance(found, OpOverload):
        return key in ("CPU", "CUDA", "Meta")
    if key == "Meta":
        return found.fake is not None
    if key.startswith("Autograd"):
        return found.backward is not None
    if key == "CompositeImplicitAutograd":
        return "" in found.differentiable
    kind = _DEVICES.get(key)
    return kind is not None and any(
        kind in table or "" in table for table in (found.kernels, found.differentiable)
    )


_dispatch_has_computed_kernel_for_dispatch_key = _dispatch_has_kernel_for_dispatch_key


def _dispatch_get_all_op_names() -> list[str]:
    """The names of all operators, with their overloads."""
    found = [
        schema.full_name for name in names_of_operators() for schema in schemas_of(name).values()
    ]
    for namespace in namespaces.values():
        for packet in namespace._packets.values():
            found += [op.name() for op in packet._overloads.values()]
    return found


def _get_schema(name: str, overload: str) -> Schema:
    """The schema of an operator's overload; raises LazytError where there is none."""
    namespace, _, plain = name.partition("::")
    if namespace == "aten":
        return schema_of(plain, overload)
    found = find_operator(f"{name}.{overload}" if overload not in ("", "default") else name)
    if found is None:
        raise LazytError(f"operator {name}.{overload} does not exist")
    return found._schema


def _jit_get_schemas_for_operator(name: str) -> list[Schema]:
    """The schemas of all overloads of an operator."""
    namespace, _, plain = name.partition("::")
    if namespace == "aten":
        return [*schemas_of(plain).values()]
    packet = namespaces[namespace]._packets.get(plain) if namespace in namespaces else None
    return [] if packet is None else [op._schema for op in packet._overloads.values()]


def parse_schema_of(text: str) -> Schema:
    """``torch._C.parse_schema``: the schema that a text such as ``mine::f(Tensor x) -> Tensor``
    has. Raises LazytError for what is none."""
    namespace, mark, rest = text.partition("::")
    return parse_schema(rest, namespace) if mark else parse_schema(text, "")
