"""``functorch.compile``: AOTAutograd, whose place lazyt's graphs take. Using a name says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.compat.names.building import refused

_WHY = (
    "it hands graphs of aten operators to other compilers, and lazyt compiles its own graphs; use "
    "torch.compile"
)
aot_function = refused("functorch.compile.aot_function", _WHY)
aot_module = refused("functorch.compile.aot_module", _WHY)
aot_module_simplified = refused("functorch.compile.aot_module_simplified", _WHY)
default_decompositions = refused("functorch.compile.default_decompositions", _WHY)
default_partition = refused("functorch.compile.default_partition", _WHY)
memory_efficient_fusion = refused("functorch.compile.memory_efficient_fusion", _WHY)
min_cut_rematerialization_partition = refused(
    "functorch.compile.min_cut_rematerialization_partition", _WHY
)
ts_compile = refused("functorch.compile.ts_compile", _WHY)


def make_boxed_func(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """``f`` with its arguments in a list, which is how compilers are handed them."""

    def boxed(args: list[Any]) -> Any:
        return f(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]  # as PyTorch marks such functions
    return boxed


def make_boxed_compiler(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """``compiler`` whose result takes its arguments in a list."""

    def boxed(graph: Any, inputs: Any) -> Callable[[list[Any]], Any]:
        return make_boxed_func(compiler(graph, inputs))

    return boxed


def nop(fx_g: Any, _: Any) -> Any:
    """The compiler that changes nothing."""
    return fx_g
