"""State dicts of models and optimizers by the names of parameters, whatever divides these
(``torch.distributed.checkpoint.state_dict``).

Names are those of the model before ``DistributedDataParallel`` and ``compile`` wrapped it. Tensors
are this rank's parts, or whole ones on demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lazyt.distributed.objects import broadcast_object_list
from lazyt.distributed.process_groups import get_rank, is_initialized
from lazyt.distributed.tensor.dtensor import DTensor
from lazyt.distributed.tensor.making import distribute_tensor
from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.tensor import Tensor
from lazyt.handle.tensor_protocol import realize
from lazyt.nn.module import Module
from lazyt.nn.parallel import DistributedDataParallel
from lazyt.optim.optimizer import Optimizer
from lazyt.sharding.zero_optimizer import ZeroRedundancyOptimizer

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
    "init_optim_state", "numbered", "set_model_state_dict", "set_optimizer_state_dict",
    "set_state_dict", "whole_tensor",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """What the functions of this module give and take.

    Attributes:
        full_state_dict: whole tensors; with ``cpu_offload`` on the first rank alone.
        cpu_offload: copies in the host's memory.
        ignore_frozen_params: leave parameters out that require no gradients.
        keep_submodule_prefixes: accepted.
        strict: raise for names that do not fit.
        broadcast_from_rank0: of whole tensors, the first rank's count; the others may pass {}.
        flatten_optimizer_state_dict: one level, with names such as ``state.layer.weight.exp_avg``.
        dsd_fqn_modifiers: accepted.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"

    def check(self) -> StateDictOptions:
        """Raises ValueError for options that contradict each other."""
        if self.broadcast_from_rank0 and not self.full_state_dict:
            raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
        return self


_WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")


def _plain(name: str, wrapped: Iterable[str]) -> str:
    """A name without what wrappers put in front of it."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    for prefix in wrapped:
        if name.startswith(prefix + "module."):
            name = prefix + name[len(prefix) + 7 :]
    return name


def _wrapped(model: Module) -> list[str]:
    """Where ``DistributedDataParallel`` is: prefixes."""
    return [
        f"{name}." if name else ""
        for name, module in model.named_modules()
        if isinstance(module, DistributedDataParallel)
    ]


def _parameters(model: Module) -> Iterator[tuple[str, Tensor]]:
    wrapped = _wrapped(model)
    for module in model.modules():
        if hasattr(module, "reshard"):
            module.reshard()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        yield _plain(name, wrapped), parameter


def whole_tensor(tensor: Tensor) -> Tensor:
    """A tensor that may be divided, as a whole: a collective of those who divide it."""
    with no_grad():
        if not isinstance(tensor, DTensor):
            return tensor.detach()
        whole = tensor.full_tensor()
        realize(whole)
        return whole


def _given(value: Any, options: StateDictOptions) -> Any:
    """A tensor as the options want it."""
    if not isinstance(value, Tensor):
        return value
    if options.full_state_dict:
        value = whole_tensor(value)
    return value.detach().cpu().clone() if options.cpu_offload else value.detach()


def _is_left_out(options: StateDictOptions) -> bool:
    """Whether whole copies are for the first rank alone, and this is another one."""
    alone = options.full_state_dict and options.cpu_offload
    return alone and is_initialized() and get_rank() != 0


def get_model_state_dict(
    model: Module,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of a model, by the names that it has without wrappers.

    Raises ValueError for options that contradict each other.
    """
    chosen = (options or StateDictOptions()).check()
    frozen = {n for n, p in _parameters(model) if not p.requires_grad}
    wrapped = _wrapped(model)
    prefixes = None
    if submodules:
        prefixes = tuple(
            f"{_plain(n + '.', wrapped)}" for n, m in model.named_modules() if m in submodules
        )
    found: dict[str, Any] = {}
    for name, value in model.state_dict().items():
        plain = _plain(name, wrapped)
        if chosen.ignore_frozen_params and plain in frozen:
            continue
        if prefixes is not None and not plain.startswith(prefixes):
            continue
        found[plain] = _given(value, chosen)
    return {} if _is_left_out(chosen) else found


def set_model_state_dict(
    model: Module, model_state_dict: Mapping[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Gives a model a state: this rank's parts, or whole tensors with ``full_state_dict``.

    Returns: names that are missing and names that are unexpected.

    Raises LazytError for wrong names under ``strict``, and for other shapes.
    """
    chosen = (options or StateDictOptions()).check()
    own = {_plain(name, _wrapped(model)): value for name, value in model.state_dict().items()}
    given = dict(model_state_dict)
    if chosen.broadcast_from_rank0:
        given = _from_first(given)
    if chosen.full_state_dict:
        given = {name: _part(value, own.get(name)) for name, value in given.items()}
    if chosen.ignore_frozen_params:
        for name, parameter in _parameters(model):
            if not parameter.requires_grad:
                given.setdefault(name, parameter.detach())
    wrapped = _wrapped(model)
    named = {}
    for name in model.state_dict():
        if _plain(name, wrapped) in given:
            named[name] = given.pop(_plain(name, wrapped))
    return model.load_state_dict({**named, **given}, strict=chosen.strict)


def _part(value: Any, like: Any) -> Any:
    """A whole tensor that all ranks have, divided as another one of its shape."""
    if not isinstance(value, Tensor) or isinstance(value, DTensor):
        return value
    if not isinstance(like, DTensor) or value.shape != like.shape:
        return value
    return distribute_tensor(
        value.detach(), like.device_mesh, like.placements, src_data_rank=None
    ).clone()


def _from_first(state: Any) -> Any:
    """The first rank's state, on all."""
    if not is_initialized():
        return state
    held = [state if get_rank() == 0 else None]
    broadcast_object_list(held, src=0)
    return held[0]


# ------------------------------------------------------------------ optimizers


def _several(optimizers: Any) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def init_optim_state(optim: Optimizer) -> None:
    """Makes the state of an optimizer that has made no step, by a step that changes nothing."""
    groups = optim.param_groups
    if optim.state or not any(group["params"] for group in groups):
        return
    grads = {p: p.grad for group in groups for p in group["params"]}
    rates = [group["lr"] for group in groups]
    for parameter in grads:
        if parameter.requires_grad:
            parameter.grad = lazyt.zeros_like(parameter)
    for group, rate in zip(groups, rates):
        group["lr"] = lazyt.tensor(0.0) if isinstance(rate, Tensor) else 0.0
    optim.step()
    for group, rate in zip(groups, rates):
        group["lr"] = rate
    for parameter, grad in grads.items():
        parameter.grad = grad


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
    everywhere: bool = False,
) -> dict[str, Any]:
    """The state of optimizers, by the names of the model's parameters.

    Args:
        everywhere: whether ``cpu_offload`` leaves whole tensors to all ranks.

    Returns: ``{"state": {name: {...}}, "param_groups": [{"params": [names], ...}]}``, or one level
    with ``flatten_optimizer_state_dict``. An optimizer that has made no step gets its state.
    """
    chosen = (options or StateDictOptions()).check()
    names = {parameter: name for name, parameter in reversed(list(_parameters(model)))}
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _several(optimizers):
        inner: Optimizer = (
            optimizer.optim if isinstance(optimizer, ZeroRedundancyOptimizer) else optimizer
        )
        init_optim_state(inner)
        for parameter, values in inner.state.items():
            state[names[parameter]] = {key: _given(v, chosen) for key, v in values.items()}
        for group in optimizer.param_groups:
            settings = {k: v for k, v in group.items() if k not in ("params", "param_names")}
            groups.append({"params": [names[p] for p in group["params"]], **settings})
    if _is_left_out(chosen) and not everywhere:
        return {}
    if not chosen.flatten_optimizer_state_dict:
        return {"state": state, "param_groups": groups}
    flat: dict[str, Any] = {}
    for name, values in state.items():
        flat.update({f"state.{name}.{key}": value for key, value in values.items()})
    for group in groups:
        for name in group["params"]:
            for key, value in group.items():
                if key != "params":
                    flat[f"param_groups.{name}.{key}"] = value
    return flat


def _unflattened(flat: Mapping[str, Any], optimizers: Sequence[Optimizer], names: Any) -> Any:
    """State and groups of a state dict of one level."""
    state: dict[str, Any] = {}
    groups = []
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            made: dict[str, Any] = {"params": [names[p] for p in group["params"]]}
            for key in group:
                for name in made["params"][:1]:
                    if f"param_groups.{name}.{key}" in flat:
                        made[key] = flat[f"param_groups.{name}.{key}"]
            groups.append(made)
            for name in made["params"]:
                prefix = f"state.{name}."
                values = {k[len(prefix) :]: v for k, v in flat.items() if k.startswith(prefix)}
                if values:
                    state[name] = values
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Gives optimizers a state of ``get_optimizer_state_dict``: this rank's parts, or whole tensors
    with ``full_state_dict``. Raises LazytError for parameters of which no group tells."""
    several = _several(optimizers)
    found = numbered(model, several, optim_state_dict, (options or StateDictOptions()).check())
    for optimizer, state in zip(several, found):
        optimizer.load_state_dict(state)


def numbered(
    model: Module,
    several: Sequence[Optimizer],
    optim_state_dict: Mapping[str, Any],
    chosen: StateDictOptions,
) -> list[dict[str, Any]]:
    """What optimizers load, with parameters by number, of a state by their names. Raises LazytError
    for parameters of which no group tells."""
    names = {parameter: name for name, parameter in reversed(list(_parameters(model)))}
    given: Any = dict(optim_state_dict)
    if chosen.broadcast_from_rank0:
        given = _from_first(given)
    if "param_groups" not in given or "state" not in given:
        given = _unflattened(given, several, names)
    found = []
    told = {name: group for group in given["param_groups"] for name in group["params"]}
    for optimizer in several:
        state: dict[int, Any] = {}
        groups = []
        number = 0
        for group in optimizer.param_groups:
            own = [names[p] for p in group["params"]]
            missing = [name for name in own if name not in told]
            if missing and chosen.strict:
                raise LazytError(
                    f"Expect to have found {missing[0]} in the param_groups of the optimizer state"
                )
            settings = {k: v for k, v in group.items() if k not in ("params", "param_names")}
            if own and own[0] in told:
                settings |= {k: v for k, v in told[own[0]].items() if k != "params"}
            numbers = []
            for parameter, name in zip(group["params"], own):
                values = given["state"].get(name)
                if values is not None:
                    like = parameter if chosen.full_state_dict else None
                    state[number] = {k: _part(v, like) for k, v in values.items()}
                numbers.append(number)
                number += 1
            groups.append({**settings, "params": numbers})
        found.append({"state": state, "param_groups": groups})
    return found


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """``get_model_state_dict`` and ``get_optimizer_state_dict``."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """``set_model_state_dict`` and ``set_optimizer_state_dict``; returns what the first does."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
