"""Modules whose parameters, gradients and optimizer state are divided among ranks (ZeRO-3, and
ZeRO-2 where parameters stay whole after the forward): ``torch.distributed.fsdp.fully_shard``."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lazyt.distributed.device_mesh import DeviceMesh, init_device_mesh
from lazyt.distributed.divided import Division
from lazyt.distributed.placements import Replicate, Shard
from lazyt.distributed.process_groups import (
    ProcessGroup,
    get_world_size,
    is_initialized,
)
from lazyt.distributed.process_groups import init_process_group as _begin
from lazyt.distributed.tensor.dtensor import DTensor, layout_of
from lazyt.distributed.tensor.layouts import layout_on, mesh_of, placements_of
from lazyt.errors import LazytError
from lazyt.handle.hooks import capturing
from lazyt.handle.tensor import Tensor
from lazyt.nn.containers import ModuleDict, ModuleList
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter
from lazyt.ops.parallel.collectives import Ranks
from lazyt.ops.parallel.layouts import Layout
from lazyt.sharding.parameters import Divided, divide_parameter
from lazyt.sharding.units import Context, Unit

__all__ = [
    "CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "UnshardHandle",
    "fully_shard", "register_fsdp_forward_method", "share_comm_ctx",
]  # fmt: skip


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of a module under ``fully_shard``; parameters are stored in their own.

    Attributes:
        param_dtype: of the whole parameters, and of what is computed with them.
        reduce_dtype: in which gradients are averaged; that of ``param_dtype`` by default.
        output_dtype: of the module's floating-point results.
        cast_forward_inputs: whether floating-point arguments become ``param_dtype``.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Where what a rank stores is, while nobody needs it: on the device that computes."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """In the host's memory, where it is anyway.

    Attributes:
        pin_memory: accepted.
    """

    pin_memory: bool = True


class UnshardHandle:
    """What ``unshard(async_op=True)`` gives: parameters that are on their way."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = list(units)

    def wait(self) -> None:
        """Waits for the whole parameters, which the module then has."""
        units, self._units = self._units, []
        for unit in units:
            unit.unshard()


class FSDPModule:
    """What ``fully_shard`` makes of a module's class.

    ``FSDPModule.unshard()`` and others act on the module's own parameters, those of modules inside
    that are no unit among them; with ``recurse`` on all units inside, too.
    """

    _fsdp_units: tuple[Unit, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A module of the class that this one was made from, as when a container is indexed."""
        original: Any = cls.__mro__[2]
        made = original.__new__(original)
        original.__init__(made, *args, **kwargs)
        return made

    def _own_units(self) -> tuple[Unit, ...]:
        found: tuple[Unit, ...] = self.__dict__["_fsdp_units"]
        return found

    def _units(self, recurse: bool) -> list[Unit]:
        assert isinstance(self, Module)
        modules: Iterable[Module] = self.modules() if recurse else [self]
        found = [u for m in modules if isinstance(m, FSDPModule) for u in m._own_units()]
        return list(dict.fromkeys(found))

    def reshard(self) -> None:
        """Gives the whole parameters back; this rank has its rows again."""
        for unit in self._own_units():
            unit.reshard()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gathers the parameters, until ``reshard``, or the next forward or backward reshards.

        Args:
            async_op: return a handle at once, whose ``wait()`` finishes.
        """
        handle = UnshardHandle(self._own_units())
        for unit in self._own_units():
            unit.gathered().start()
        if async_op:
            return handle
        handle.wait()
        return None

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted: a backward leaves nothing under way that a later one would need."""

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Whether backward averages gradients over ranks. Without, this rank holds the whole
        gradients, which the next backward that averages takes along."""
        for unit in self._units(recurse):
            unit.reduces = unit.reduces_replicas = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether backward averages gradients over replicas, of a mesh of two axes."""
        for unit in self._units(recurse):
            unit.reduces_replicas = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether the whole parameters go after the module's forward. Raises ValueError for
        anything but True and False."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(
                f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}"
            )
        for unit in self._units(recurse):
            unit.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Whether the whole parameters go after the module's backward; without, they stay until
        they change."""
        for unit in self._units(recurse):
            unit.reshard_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Whose parameters are gathered while this module's forward is computed. By default it is
        the module that came next in the last forward. Raises ValueError for other modules."""
        _check_modules(modules)
        for unit in self._own_units():
            unit.prefetch_forward = [u for m in modules for u in m._own_units()]

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Whose parameters are gathered while this module's backward is computed. By default it is
        the module that came before it in the forward. Raises ValueError for other modules."""
        _check_modules(modules)
        for unit in self._own_units():
            unit.prefetch_backward = [u for m in modules for u in m._own_units()]

    def set_all_reduce_hook(self, hook: Callable[[Tensor], None], *, stream: Any = None) -> None:
        """Calls ``hook`` with each of this rank's gradients after the reduction over ranks."""
        for unit in self._own_units():
            unit.all_reduce_hook = hook

    def set_gradient_divide_factor(self, factor: float) -> None:
        """By what the sums of gradients are divided, instead of the number of ranks."""
        for unit in self._own_units():
            unit.factor = float(factor)

    def set_reduce_scatter_divide_factor(self, factor: float) -> None:
        """``set_gradient_divide_factor``."""
        self.set_gradient_divide_factor(factor)

    def set_reduce_scatter_unused_params(
        self, reduce_scatter_unused_params: bool, *, recurse: bool = True
    ) -> None:
        """Whether parameters that a backward does not reach have zeros as gradients: where ranks
        use different ones."""
        for unit in self._units(recurse):
            unit.reduces_unused = reduce_scatter_unused_params

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Accepted: parameters are gathered where backward needs them."""

    def set_post_optim_event(self, event: Any) -> None:
        """Accepted: values are waited for where they are needed."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Accepted: reductions over ranks are sums, which are divided afterwards."""

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Accepted: MPI sends from any memory."""

    def set_reduce_scatter_max_input_buffers(
        self, max_input_buffers: int, *, recurse: bool = True
    ) -> None:
        """Accepted: one reduction is under way while the next one is computed."""

    def set_separate_reduce_scatter_group(
        self, enable: bool = True, *, recurse: bool = True
    ) -> None:
        """Accepted: ranks start all collectives in one order."""

    def _set_unshard_async_op(self, async_op: bool) -> None:
        """Accepted."""

    def reset_iter_state(self) -> None:
        """Gives back all whole parameters, as after a step that raised."""
        for unit in self._units(True):
            unit.reshard()

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self.reshard()
        found = super()._apply(*args, **kwargs)  # type: ignore[misc]
        for unit in self._own_units():
            for entry in unit.entries:
                entry.refresh()
        return found

    def __deepcopy__(self, memo: Any) -> Any:
        raise LazytError("FSDP does not support deepcopy. Please use state dict for serialization.")


def _check_modules(modules: Any) -> None:
    if not isinstance(modules, (list, tuple)) or not all(
        isinstance(m, FSDPModule) for m in modules
    ):
        raise ValueError("modules should be a list of FSDP modules")


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Parameter] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Divides the parameters of a module among ranks: each has some rows of axis 0, and of the
    gradients and the optimizer's state. The whole parameters are gathered before the module's
    forward and again in its backward, and given back after it; gradients are averaged over ranks.
    Of what ``parallelize_module`` divides on another axis of the mesh, each has rows of its part.

    Called for modules inside first, as each call takes the parameters that no earlier one has;
    optimizers are made afterwards. At most two modules' parameters are whole at a time: one, and
    the next one on its way. With ``Shares``, the bits are those of a single process.

    Args:
        module: or a list of modules that are gathered together. Its class becomes a subclass, with
            the methods of ``FSDPModule``.
        mesh: the ranks, all by default; one axis, or two: replicas, and those who divide.
        reshard_after_forward: whether the whole parameters go after the forward (ZeRO-3), or stay
            for the backward (ZeRO-2). None is True except for the outermost module.
        mp_policy: dtypes.
        ignored_params: parameters that stay whole, and whose gradients are not averaged.
        shard_placement_fn, offload_policy, dp_mesh_dims: accepted as far as they change nothing.

    Raises ValueError for containers without forward and meshes of more axes, LazytError for
    parameters without axes, NotImplementedError for other placements than ``Shard(0)``.

    >>> import lazyt
    >>> import lazyt.distributed as dist
    >>> from lazyt.sharding import fully_shard
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = lazyt.nn.Sequential(lazyt.nn.Linear(2, 3), lazyt.nn.Linear(3, 1))
    >>> for layer in model:
    ...     _ = fully_shard(layer)
    >>> _ = fully_shard(model)
    >>> model(lazyt.ones(4, 2)).sum().backward()
    >>> model[1].bias.grad
    tensor([4.])
    >>> dist.destroy_process_group()

    Source: PyTorch's function of this name; Rajbhandari et al., "ZeRO", 2020.
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    _check_targets(modules)
    frees = None if reshard_after_forward is None else bool(reshard_after_forward)
    layout = _layout(mesh, dp_mesh_dims)
    unit = Unit(type(modules[0]).__name__, [], *_ranks(layout), mp_policy, frees)
    for parameter, homes in _free_parameters(modules, set(ignored_params or ())).items():
        unit.entries.append(_divided(parameter, homes, unit, layout, shard_placement_fn))
    for item in modules:
        item.__class__ = _class_of(type(item))
        item.__dict__["_fsdp_units"] = (unit,)
    _watch(modules, unit)
    return module


def _check_targets(modules: Sequence[Any]) -> None:
    """Raises ValueError for what cannot be divided."""
    for item in modules:
        if isinstance(item, (ModuleList, ModuleDict)):
            raise ValueError(
                f"fully_shard does not support containers that do not implement forward: {item}"
            )
        if not isinstance(item, Module):
            raise ValueError(f"fully_shard takes modules, not {type(item).__name__}")
        if isinstance(item, FSDPModule):
            raise AssertionError(
                "Each distinct composable distributed API can only be applied to a module once. "
                f"fully_shard has already been applied to the following module:\n{item}"
            )


def _divided(
    parameter: Parameter,
    homes: list[tuple[Module, str]],
    unit: Unit,
    layout: Layout,
    placement_of: Any,
) -> Divided:
    """This rank's rows in the place of a parameter."""
    placement = None if placement_of is None else placement_of(parameter)
    if placement is not None and getattr(placement, "dim", None) != 0:
        raise NotImplementedError(f"parameters are divided along axis 0, not {placement}")
    if not parameter.dim():
        names = ", ".join(name for _, name in homes)
        raise ValueError(
            f"fully_shard doesn't support scalar parameters. Change {names} to a 1D tensor "
            "with numel equal to 1."
        )
    inner, shape = None, tuple(parameter.shape)
    if isinstance(parameter, DTensor):
        inner = layout_of(parameter)
        shape, layout = inner.local_shape(shape), _below(inner, layout)
    division = Division(shape, unit.ranks, unit)
    made = divide_parameter(parameter, division, layout, inner)
    entry = Divided(homes, made, division, layout, inner)
    entry.show(entry.parameter)
    return entry


def _below(inner: Layout, layout: Layout) -> Layout:
    """What ``layout`` divides is this rank's part in another layout. Raises ValueError for meshes
    that are no parts of one mesh."""
    try:
        mesh = DeviceMesh._concatenate([mesh_of(inner), mesh_of(layout)])
    except RuntimeError:
        raise ValueError(
            "FSDP requires the DP and model parallel TP/EP mesh to have the same parent mesh"
        ) from None
    return layout_on(mesh, (*placements_of(inner), *placements_of(layout)))


def _layout(mesh: Any, dp_mesh_dims: Any) -> Layout:
    """How parameters are divided on a mesh, that of all ranks for None. Raises ValueError."""
    if dp_mesh_dims is not None:
        raise NotImplementedError("dp_mesh_dims is not supported: give the part of the mesh")
    if mesh is None:
        if not is_initialized():
            _begin()
        mesh = init_device_mesh("cpu", (get_world_size(),))
    elif isinstance(mesh, ProcessGroup):
        mesh = DeviceMesh.from_group(mesh, "cpu")
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.ndim == 2 and mesh.mesh_dim_names is None:
        raise AssertionError("Please init the 2D mesh for HSDP with mesh_dim_names specified")
    return layout_on(mesh, (*(Replicate(),) * (mesh.ndim - 1), Shard(0)))


def _ranks(layout: Layout) -> tuple[Ranks, Ranks | None]:
    """Who divides parameters, and who has the same."""
    return layout.ranks[-1], layout.ranks[0] if len(layout.ranks) == 2 else None


def _free_parameters(
    modules: Sequence[Module], ignored: set[Any]
) -> dict[Parameter, list[tuple[Module, str]]]:
    """The parameters that belong to no unit yet, with the modules that have them."""
    found: dict[Parameter, list[tuple[Module, str]]] = {}
    seen: set[Module] = set()

    def look(module: Module) -> None:
        if module in seen or isinstance(module, FSDPModule):
            return
        seen.add(module)
        for name, parameter in module._parameters.items():
            if parameter is None or parameter in ignored or "unit" in parameter.__dict__:
                continue
            found.setdefault(parameter, []).append((module, name))
        for child in module.children():
            look(child)

    for module in modules:
        look(module)
    return found


_classes: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()


def _class_of(kind: type) -> type:
    """The class of a module whose parameters are divided."""
    found = _classes.get(kind)
    if found is None:
        body = {"__module__": kind.__module__}
        found = _classes[kind] = type(f"FSDP{kind.__name__}", (FSDPModule, kind), body)
    return found


class _Calls:
    """The calls of a unit's modules: the first one gathers, the last one gives back."""

    def __init__(self, modules: Sequence[Module], unit: Unit) -> None:
        self._all, self._unit = len(modules), unit
        self._begun: set[int] = set()
        self._done: set[int] = set()

    def before(self, module: Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """A module's forward begins."""
        if self._begun and len(self._begun) < self._all:
            self._begun.add(id(module))
            return args, kwargs
        self._begun, self._done = {id(module)}, set()
        prepare(module)
        return self._unit.before_forward(args, kwargs)

    def after(self, module: Module, result: Any) -> Any:
        """A module's forward is over."""
        self._done.add(id(module))
        return self._unit.after_forward(result) if len(self._done) == self._all else result


def prepare(module: Module) -> None:
    """Before a unit's forward: of the outermost one, all units inside get to know each other."""
    assert isinstance(module, FSDPModule)
    (unit,) = module._own_units()
    if unit.context is None:
        units = module._units(True)
        context = Context(units)
        unit.is_root = True
        for item in units:
            item.context = context
            if item is not unit:
                item.is_root = False
    if unit.is_root and capturing() is None:
        assert unit.context is not None
        unit.context.begin()


def _watch(modules: Sequence[Module], unit: Unit) -> None:
    calls = _Calls(modules, unit)
    for module in modules:
        module.__dict__["_fsdp_calls"] = calls
        module.register_forward_pre_hook(calls.before, prepend=True, with_kwargs=True)
        module.register_forward_hook(
            lambda own, args, result: calls.after(own, result), prepend=False
        )
        module.register_state_dict_pre_hook(lambda own, prefix, keep: own.reshard())


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Lets a method gather the module's parameters as ``forward`` does; of other modules than those
    of ``fully_shard`` nothing changes. Raises ValueError where there is no such method."""
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)
    calls: _Calls = module.__dict__["_fsdp_calls"]

    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = calls.before(module, args, kwargs)
        return calls.after(module, method(*args, **kwargs))

    module.__dict__[method_name] = wrapped


def share_comm_ctx(modules: list[FSDPModule]) -> None:
    """Accepted: all units of a process start their collectives in one order. Raises ValueError for
    other modules than those of ``fully_shard``."""
    _check_modules(modules)
