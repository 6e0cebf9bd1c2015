"""``torch.distributed.fsdp.FullyShardedDataParallel``: a wrapper around a module whose parameters
``fully_shard`` divides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from lazyt.compat.served.choices import ShardingStrategy, StateDictType
from lazyt.distributed.device_mesh import DeviceMesh, init_device_mesh
from lazyt.distributed.gradients import equalize
from lazyt.distributed.process_groups import (
    ProcessGroup,
    get_process_group_ranks,
    get_rank,
    group_of,
)
from lazyt.distributed.tensor.dtensor import DTensor
from lazyt.distributed.tensor.making import distribute_tensor
from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.pytree import flatten, unflatten
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter
from lazyt.nn.utils.clip_grad import clip_grad_norm_ as _clip
from lazyt.sharding.checkpoint.state_dict import whole_tensor
from lazyt.sharding.fsdp.settings import MixedPrecision, StateDictSettings, settings_of
from lazyt.sharding.fsdp.wrap import wrap_children
from lazyt.sharding.fully_shard import MixedPrecisionPolicy, fully_shard
from lazyt.sharding.units import Unit

__all__ = ["FullyShardedDataParallel"]

#: What names of parameters have where a wrapper is.
PREFIX = "_fsdp_wrapped_module."
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_KEEPS = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


class FullyShardedDataParallel(Module):
    """Trains a module whose parameters, gradients and optimizer states ranks divide.

    Parameters have the names and shapes that they have without the wrapper, and are DTensors, as
    with ``fully_shard``. ``state_dict()`` has whole tensors by default, on all ranks, by those
    names; ``state_dict_type`` chooses another form.

    Args:
        module: the same on all ranks.
        process_group: the ranks, all by default; for hybrid strategies a pair: those who divide,
            and those who have the same.
        sharding_strategy: ``FULL_SHARD`` (by default), ``SHARD_GRAD_OP`` (whole parameters stay for
            the backward), ``NO_SHARD``, or ``HYBRID_SHARD`` on a mesh of replicas.
        auto_wrap_policy: which modules inside are wrapped by themselves; see ``wrap``.
        mixed_precision: dtypes.
        ignored_modules, ignored_states: what stays whole, and whose gradients are not averaged.
        param_init_fn: fills a module that is on the meta device; by default its modules'
            ``reset_parameters()``.
        sync_module_states: whether all ranks begin with the first one's values.
        device_mesh: the ranks; of two axes for hybrid strategies.
        cpu_offload, backward_prefetch, device_id, forward_prefetch, limit_all_gathers,
        use_orig_params: accepted: parameters are their own, and gathered ahead of their use.

    Raises ValueError for hybrid strategies without a mesh, LazytError for parameters without axes.

    >>> import lazyt
    >>> import lazyt.distributed as dist
    >>> from lazyt.sharding.fsdp.fully_sharded import FullyShardedDataParallel
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = FullyShardedDataParallel(lazyt.nn.Linear(2, 1))
    >>> model(lazyt.ones(4, 2)).sum().backward()
    >>> model.weight.grad.full_tensor()
    tensor([[4., 4.]])
    >>> list(model.state_dict())
    ['weight', 'bias']
    >>> dist.destroy_process_group()

    Source: PyTorch's class of this name; Zhao et al., "PyTorch FSDP", 2023.
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: Any = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: Any = None,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        mesh = _mesh(process_group, strategy, device_mesh)
        ignored = _ignored(ignored_modules, ignored_states)
        shared = {
            "sharding_strategy": strategy, "cpu_offload": cpu_offload, "device_mesh": mesh,
            "mixed_precision": mixed_precision, "param_init_fn": param_init_fn,
            "sync_module_states": sync_module_states, "ignored_states": ignored,
        }  # fmt: skip
        if auto_wrap_policy is not None:

            def make(child: Module, **settings: Any) -> Module:
                return FullyShardedDataParallel(child, **{**shared, **settings})

            wrap_children(module, auto_wrap_policy, make, ignored)
        _fill(module, param_init_fn, ignored)
        if sync_module_states:
            _begin_alike(module, mesh, ignored)
        self.sharding_strategy, self.mixed_precision = strategy, mixed_precision or MixedPrecision()
        self.process_group, self._mesh = mesh.get_group(mesh.ndim - 1), mesh
        self._settings = StateDictSettings()
        self._buffer_dtypes: dict[str, Any] | None = None
        self._fsdp_wrapped_module = fully_shard(
            module,
            mesh=mesh,
            reshard_after_forward=False if strategy in _KEEPS else None,
            mp_policy=MixedPrecisionPolicy(
                param_dtype=self.mixed_precision.param_dtype,
                reduce_dtype=self.mixed_precision.reduce_dtype,
                cast_forward_inputs=self.mixed_precision.cast_forward_inputs,
            ),
            ignored_params={item for item in ignored if isinstance(item, Parameter)},
        )
        self._is_outer = True
        for inner in self.fsdp_modules(module):
            inner._is_outer = False
        self._register_state_dict_hook(_give)
        self.register_load_state_dict_pre_hook(_take)

    # ------------------------------------------------------------------ as the module

    @property
    def module(self) -> Module:
        """The wrapped module."""
        found: Module = self._fsdp_wrapped_module
        return found

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_fsdp_wrapped_module":
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._fsdp_wrapped_module[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives, in the dtypes of ``mixed_precision``."""
        policy = self.mixed_precision
        if policy.buffer_dtype is not None and self._buffer_dtypes is None:
            self._cast_buffers(policy.buffer_dtype)
        if self._is_outer and policy.cast_root_forward_inputs and policy.param_dtype is not None:
            flat, tree = flatten((args, kwargs))
            args, kwargs = unflatten([_cast(item, policy.param_dtype) for item in flat], tree)
        return self._fsdp_wrapped_module(*args, **kwargs)

    def _cast_buffers(self, dtype: Any) -> None:
        """Gives floating-point buffers a dtype, and notes which they had."""
        self._buffer_dtypes = {}
        for name, module in self.module.named_modules():
            for key, buffer in module._buffers.items():
                if buffer is not None and buffer.dtype.kind == "f":
                    full = f"{name}.{key}" if name else key
                    self._buffer_dtypes[full.replace(PREFIX, "")] = buffer.dtype
                    module._buffers[key] = buffer.to(dtype)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """The parameters by the names that they have without wrappers."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(PREFIX, ""), parameter

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        """The buffers by the names that they have without wrappers."""
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield name.replace(PREFIX, ""), buffer

    def apply(self, fn: Callable[[Module], None]) -> FullyShardedDataParallel:
        """Calls a function with all modules inside, whose parameters are whole meanwhile."""
        with FullyShardedDataParallel.summon_full_params(self):
            super().apply(fn)
        return self

    # ------------------------------------------------------------------ training

    def check_is_root(self) -> bool:
        """Whether this is the outermost wrapper."""
        return self._is_outer

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of what is computed inside stay this rank's and whole; the next backward
        outside averages their sums."""
        self.module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.module.set_requires_gradient_sync(True)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scales all gradients so that the norm of the whole ones is at most ``max_norm``; returns
        the norm before. All ranks call it."""
        total = _clip(list(self.parameters()), max_norm, norm_type)
        return total.full_tensor() if isinstance(total, DTensor) else total

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Raises LazytError: gradients are reduced to rows, which hooks of buckets do not do."""
        raise LazytError("FullyShardedDataParallel.register_comm_hook is not supported")

    # ------------------------------------------------------------------ whole parameters

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The wrappers in a module, itself included, or the outermost ones."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        return [m for m in found if m._is_outer] if root_only else found

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """A block in which parameters are whole tensors. All ranks enter it.

        Args:
            module: has the wrappers.
            recurse: whether those inside of the outermost one are meant, too.
            writeback: whether what the block writes to the parameters stays; each rank writes its
                rows.
            rank0_only: whether only the first rank gets them.
            offload_to_cpu: accepted.
            with_grads: whether they have their whole gradients, of which the same holds.

        Raises NotImplementedError for ``writeback`` with ``rank0_only``.
        """
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported")
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        wrappers = wrappers if recurse else wrappers[:1]
        units: list[Unit] = [unit for w in wrappers for unit in w.module._own_units()]
        whole = [unit.whole_parameters(with_grads) for unit in units]
        shows = not rank0_only or get_rank() == 0
        try:
            if shows:
                for unit, found in zip(units, whole):
                    unit.show_whole(found)
            yield
            if writeback:
                for unit, found in zip(units, whole):
                    unit.write_back(found, with_grads)
        finally:
            for unit in units:
                unit.reshard()

    # ------------------------------------------------------------------ state

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> StateDictSettings:
        """Chooses in which form the wrappers in a module give and take state. Returns the settings
        before. Raises RuntimeError for a configuration of another type."""
        chosen = settings_of(state_dict_type, state_dict_config, optim_state_dict_config)
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for wrapper in FullyShardedDataParallel.fsdp_modules(module):
            wrapper._settings = chosen
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """In which form the wrappers in a module give and take state."""
        for wrapper in FullyShardedDataParallel.fsdp_modules(module):
            return wrapper._settings
        return StateDictSettings()

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Iterator[None]:
        """A block in which ``set_state_dict_type`` holds."""
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            for wrapper in FullyShardedDataParallel.fsdp_modules(module):
                wrapper._settings = before

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """The state of an optimizer by the names of parameters, in the form that
        ``state_dict_type`` says."""
        from lazyt.sharding.fsdp.optim_state import named_state

        return named_state(model, optim, FullyShardedDataParallel.get_state_dict_type(model))

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True,
        group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """``optim_state_dict`` with whole tensors."""
        from lazyt.sharding.fsdp.optim_state import named_state
        from lazyt.sharding.fsdp.settings import FullOptimStateDictConfig

        config = FullOptimStateDictConfig(rank0_only=rank0_only)
        return named_state(model, optim, settings_of(StateDictType.FULL_STATE_DICT, None, config))

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict[str, Any]:
        """``optim_state_dict`` with DTensors."""
        from lazyt.sharding.fsdp.optim_state import named_state

        return named_state(model, optim, settings_of(StateDictType.SHARDED_STATE_DICT))

    @staticmethod
    def optim_state_dict_to_load(
        model: Module, optim: Any, optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False, load_directly: bool = False, group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What ``optim.load_state_dict`` takes, of what ``optim_state_dict`` gave. With
        ``rank0_only`` the first rank's counts.

        Args:
            load_directly: whether it is loaded, too.
        """
        from lazyt.sharding.fsdp.optim_state import numbered_state

        found = numbered_state(
            model, optim, optim_state_dict, FullyShardedDataParallel.get_state_dict_type(model)
        )
        if load_directly:
            optim.load_state_dict(found)
        return found


def _mesh(group: Any, strategy: ShardingStrategy, mesh: DeviceMesh | None) -> DeviceMesh:
    """Who divides parameters along the last axis, and who has the same along the first of two.
    Raises ValueError."""
    hybrid = strategy in _HYBRID
    if hybrid and mesh is None and not isinstance(group, (tuple, list)):
        raise ValueError(
            f"{strategy.name} needs a device_mesh of two axes, or a pair of process groups"
        )
    if mesh is not None:
        if strategy is ShardingStrategy.NO_SHARD and mesh.shape[1:] == (1,):
            return mesh  # that of an outer wrapper
        if hybrid != (mesh.ndim == 2):
            raise ValueError(f"{strategy.name} and a mesh of {mesh.ndim} axes")
        if strategy is not ShardingStrategy.NO_SHARD:
            return mesh if mesh.mesh_dim_names or mesh.ndim == 1 else _named(mesh)
        group = mesh.get_group()
    if hybrid:
        inner, outer = group
        row = [rank - get_rank() for rank in get_process_group_ranks(inner)]
        ranks = [[rank + step for step in row] for rank in get_process_group_ranks(outer)]
        names = ("replicate", "shard")
        return DeviceMesh.from_group([outer, inner], "cpu", ranks, mesh_dim_names=names)
    found = group_of(group)
    if not isinstance(found, ProcessGroup):
        raise ValueError("this process is no member of process_group")
    if strategy is ShardingStrategy.NO_SHARD:
        ranks = [[rank] for rank in get_process_group_ranks(found)]
        return DeviceMesh("cpu", ranks, mesh_dim_names=("replicate", "shard"))
    if group is None:
        return init_device_mesh("cpu", (found.size(),))
    return DeviceMesh.from_group(found, "cpu")


def _named(mesh: DeviceMesh) -> DeviceMesh:
    groups = mesh.get_all_groups()
    names = ("replicate", "shard")
    return DeviceMesh.from_group(groups, "cpu", mesh.mesh, mesh_dim_names=names)


def _ignored(modules: Iterable[Module] | None, states: Iterable[Any] | None) -> set[Any]:
    """Modules and parameters that stay whole."""
    found: set[Any] = set()
    for item in [*(modules or ()), *(states or ())]:
        found.add(item)
        if isinstance(item, Module):
            found |= {*item.modules(), *item.parameters()}
    return found


def _fill(module: Module, init: Callable[[Module], None] | None, ignored: set[Any]) -> None:
    """Fills what is on the meta device. Raises LazytError where nobody says how."""

    def is_meta(part: Module) -> bool:
        own = [*part._parameters.values(), *part._buffers.values()]
        return any(t is not None and t.device.type == "meta" for t in own)

    for part in list(module.modules()):
        if part in ignored or not is_meta(part):
            continue
        if init is not None:
            init(part)
            continue
        part.to_empty(device="cpu", recurse=False)
        reset = getattr(part, "reset_parameters", None)
        if reset is None:
            raise LazytError(
                f"{type(part).__name__} is on the meta device and has no reset_parameters(): give "
                "param_init_fn"
            )
        reset()


def _begin_alike(module: Module, mesh: DeviceMesh, ignored: set[Any]) -> None:
    """All ranks of a mesh take the first one's parameters and buffers, except for divided ones,
    which an inner wrapper has."""
    plain = [
        t
        for t in [*module.parameters(), *module.buffers()]
        if not isinstance(t, DTensor) and t not in ignored
    ]
    for group in reversed(mesh.get_all_groups()):
        equalize(plain, group)


def _cast(value: Any, dtype: Any) -> Any:
    is_float = isinstance(value, Tensor) and value.dtype.kind == "f"
    return value.to(dtype) if is_float else value


def _give(wrapper: Any, state: Any, prefix: str, *_: Any) -> None:
    """A wrapper's part of a state dict, by names without it, in the chosen form."""
    settings: StateDictSettings = wrapper._settings
    kind, config = settings.state_dict_type, settings.state_dict_config
    if kind is StateDictType.LOCAL_STATE_DICT:
        raise LazytError("LOCAL_STATE_DICT is not given: SHARDED_STATE_DICT has each rank's parts")
    inner = prefix + PREFIX
    full = kind is StateDictType.FULL_STATE_DICT
    left_out = full and getattr(config, "rank0_only", False) and get_rank() != 0
    for key in [key for key in state if key.startswith(inner)]:
        value, name = state.pop(key), key[len(inner) :]
        if isinstance(value, Tensor):
            if full and wrapper._buffer_dtypes and name in wrapper._buffer_dtypes:
                value = value.to(wrapper._buffer_dtypes[name])
            if full:
                value = whole_tensor(value)  # a collective, also where nobody takes its value
            if config.offload_to_cpu and not left_out:
                value = value.detach().cpu().clone()
        if not left_out:
            state[prefix + name] = value


def _take(wrapper: Any, state: Any, prefix: str, *_: Any) -> None:
    """Gives a wrapper's part of a state dict the names that it has with it, and divides whole
    tensors."""
    inner = prefix + PREFIX
    for key in [key for key in state if key.startswith(prefix) and not key.startswith(inner)]:
        state[inner + key[len(prefix) :]] = state.pop(key)
    for unit in wrapper.module._own_units():
        unit.reshard()
    own = {entry.parameter for unit in wrapper.module._own_units() for entry in unit.entries}
    for name, parameter in Module.named_parameters(wrapper.module, remove_duplicate=False):
        value = state.get(inner + name)
        is_plain = isinstance(value, Tensor) and not isinstance(value, DTensor)
        if parameter in own and is_plain and value.shape == parameter.shape:
            like: Any = parameter
            with lazyt.no_grad():
                state[inner + name] = distribute_tensor(
                    value.detach(), like.device_mesh, like.placements, src_data_rank=None
                )
