"""Each rank has the optimizer state of some parameters (``torch.distributed.optim``).

Gradients are whole on all ranks. A rank updates its parameters alone, and gives the new values to
the others: the bits are those of the optimizer that updates all, as no formula looks at two
parameters at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.distributed.collectives import finish, joined, parted, value_of
from lazyt.distributed.objects import gather_object
from lazyt.distributed.process_groups import get_global_rank, group_of, ranks_of
from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.ir.forms import place_of
from lazyt.ops.parallel import collectives as build
from lazyt.optim.optimizer import Group, Optimizer, SettingError

__all__ = ["ZeroRedundancyOptimizer"]


def _checked(params: Any) -> list[Any]:
    """What a program gives, as a list. Raises TypeError and ValueError, in PyTorch's words."""
    if isinstance(params, Tensor):
        raise TypeError(
            "`params` argument should be an iterable of Tensors, but got "
            f"{params.type().replace('lazyt', 'torch')}"
        )
    try:
        found = list(params)
    except TypeError as error:
        raise TypeError(
            "`params` argument should be an iterable of Tensors or dicts, but got "
            f"{type(params).__name__}"
        ) from error
    if not found:
        raise SettingError("ZeroRedundancyOptimizer got an empty parameter list")
    if not (all(isinstance(p, Tensor) for p in found) or all(isinstance(p, dict) for p in found)):
        raise TypeError("`params` argument should be an iterable of Tensors or dicts")
    tensors = found
    if isinstance(found[0], dict):
        if any("params" not in group for group in found):
            raise SettingError(
                "Each parameter group passed-in via `params` must have a 'params' key mapping to "
                "the parameters in the group"
            )
        for group in found:
            one = isinstance(group["params"], Tensor)
            group["params"] = [group["params"]] if one else list(group["params"])
        tensors = [p for group in found for p in group["params"]]
    kinds = list(dict.fromkeys(p.type() for p in tensors))
    if len(kinds) > 1:
        raise SettingError(
            "ZeroRedundancyOptimizer only supports using the same dense type for all parameters "
            f"but got both {kinds[0]} and {kinds[1]}"
        )
    return found


def _copy_settings(source: list[Group], target: list[Group]) -> None:
    """Settings of groups, such as learning rates that a schedule changed."""
    for one, other in zip(source, target):
        for name, value in one.items():
            if name not in ("params", "param_names"):
                other[name] = value


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer whose state is divided among the ranks: each updates some of the parameters.

    Args:
        params: tensors or groups, the same on all ranks; dense and of one dtype.
        optimizer_class: the optimizer that updates a rank's part.
        process_group: the ranks, all by default.
        parameters_as_bucket_view: whether the parameters of a rank are views of one tensor, which
            then is what is sent.
        overlap_with_ddp: accepted as False only: transfers overlap with what does not need them.
        defaults: settings of ``optimizer_class``.

    ``step`` gives every rank all new parameters. Schedules of learning rates change this object's
    ``param_groups``. ``state_dict`` is that of an optimizer with all state, on the rank that
    ``consolidate_state_dict`` brought it to.

    Raises ValueError before ``init_process_group`` and for parameters of several dtypes, TypeError
    for what are no tensors, LazytError with ``overlap_with_ddp``.

    >>> import lazyt
    >>> import lazyt.distributed as dist
    >>> from lazyt.sharding.zero_optimizer import ZeroRedundancyOptimizer
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> w = lazyt.nn.Parameter(lazyt.ones(2))
    >>> optimizer = ZeroRedundancyOptimizer([w], lazyt.optim.SGD, lr=0.5)
    >>> (w * 2).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.0, 0.0]
    >>> dist.destroy_process_group()

    Source: PyTorch's class of this name; Rajbhandari et al., "ZeRO", 2020.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        group = group_of(process_group)
        if group is None:
            raise ValueError("this process is no member of process_group")
        if overlap_with_ddp:
            raise LazytError(
                "overlap_with_ddp is not supported: leave it out, transfers overlap by themselves"
            )
        given = _checked(params)
        self.process_group = group
        self.world_size, self.rank = group.size(), group.rank()
        self.global_rank = get_global_rank(group, self.rank)
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._class, self._given_defaults = optimizer_class, defaults
        self._owners: dict[Tensor, int] = {}
        self._loads = [0] * self.world_size
        self._consolidated: list[dict[str, Any]] = []
        self.optim: Any = None
        self._join_config: Any = None
        super().__init__(given, dict(defaults))
        self.optim = optimizer_class(self._part(), **defaults)
        self.defaults = {**self.optim.defaults, **self.defaults}
        _copy_settings(self.optim.param_groups, self.param_groups)
        self.state = self.optim.state
        self.initialized = True
        if parameters_as_bucket_view:
            self._make_views()

    # ------------------------------------------------------------------ who has what

    def add_param_group(self, param_group: Group) -> None:
        """Adds parameters, the same on all ranks, and divides them: the largest first, each to the
        rank with the least so far. Raises as the constructor."""
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        for parameter in sorted(added["params"], key=lambda p: p.numel(), reverse=True):
            rank = self._loads.index(min(self._loads))
            self._owners[parameter] = rank
            self._loads[rank] += parameter.numel()
        if self.optim is None:  # the constructor adds the first ones
            return
        own = {k: v for k, v in added.items() if k != "params"}
        own["params"] = [p for p in added["params"] if self._owners[p] == self.rank]
        self.optim.add_param_group(own)
        _copy_settings(self.optim.param_groups[-1:], self.param_groups[-1:])
        if self.parameters_as_bucket_view:
            self._make_views()

    def _part(self) -> list[Group]:
        """The groups with this rank's parameters alone."""
        return [
            {**group, "params": [p for p in group["params"] if self._owners[p] == self.rank]}
            for group in self.param_groups
        ]

    def _parameters_of(self, rank: int) -> dict[Any, list[Tensor]]:
        """The parameters that a rank updates, by dtype and device, in the order of groups."""
        found: dict[Any, list[Tensor]] = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                if self._owners[parameter] == rank and parameter.numel():
                    key = parameter.dtype, str(parameter.device)
                    found.setdefault(key, []).append(parameter)
        return found

    def _make_views(self) -> None:
        """The parameters of a rank become views of one tensor."""
        self._buckets = []
        with lazyt.no_grad():
            for rank in range(self.world_size):
                for some in self._parameters_of(rank).values():
                    bucket = lazyt.cat([p.detach().reshape(-1) for p in some])
                    start = 0
                    for parameter in some:
                        part = bucket[start : start + parameter.numel()]
                        parameter.data = part.view(parameter.shape)
                        start += parameter.numel()
                    self._buckets.append((rank, bucket))

    # ------------------------------------------------------------------ stepping

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Updates this rank's parameters, and gives all new values to all ranks.

        Args:
            closure: computes the loss anew and its gradients; called first.

        Returns: the closure's loss, None without one.
        """
        if self._join_config is not None:
            from lazyt.distributed.joining import Join

            Join.notify_join_context(self)
        _copy_settings(self.param_groups, self.optim.param_groups)
        loss = None
        if closure is not None:
            with lazyt.enable_grad():
                loss = closure()
        self.optim.step(**kwargs)
        _copy_settings(self.optim.param_groups, self.param_groups)
        self._share()
        return loss

    def _share(self) -> None:
        """Starts to give the parameters of each rank to all."""
        ranks = ranks_of(self.process_group)
        if ranks.size == 1:
            return
        with lazyt.no_grad():
            for root in range(ranks.size):
                for some in self._parameters_of(root).values():
                    shapes = [tuple(p.shape) for p in some]
                    if root == ranks.rank:
                        row = joined([value_of(p.detach(), "parameter") for p in some])
                    else:
                        zero = ops.constant(0, some[0].dtype)
                        row = ops.broadcast_to(zero, (sum(p.numel() for p in some),))
                        row = ops.put(row, place_of(value_of(some[0].detach(), "parameter").form))
                    whole = build.broadcast(row, ranks, root)
                    finish(list(zip([p.detach() for p in some], parted(whole, shapes))), True)

    # ------------------------------------------------------------------ taking state elsewhere

    def join_hook(self, **kwargs: Any) -> Any:
        """What ``Join`` does on a rank without batches."""
        from lazyt.distributed.joining.hooks import OptimizerJoinHook

        return OptimizerJoinHook(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The ranks."""
        return self.process_group

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings the state of all ranks to one of them (all ranks call this), for ``state_dict``.

        Args:
            to: that rank's number among all.
        """
        _copy_settings(self.param_groups, self.optim.param_groups)
        own = copy.deepcopy(self.optim.state_dict())
        found: list[Any] | None = [None] * self.world_size if self.global_rank == to else None
        gather_object(own, found, dst=to, group=self.process_group)
        self._consolidated = found or []

    def state_dict(self) -> dict[str, Any]:
        """The state of an optimizer with all parameters, as of the last consolidation. Raises
        LazytError (a RuntimeError) where ``consolidate_state_dict`` did not bring it here."""
        if not self._consolidated:
            raise LazytError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to "
                "save the global state."
            )
        groups = []
        number = 0
        state: dict[Any, Any] = {}
        for place, group in enumerate(self.param_groups):
            numbers = range(number, number + len(group["params"]))
            own: list[list[int]] = [[] for _ in range(self.world_size)]
            for index, parameter in zip(numbers, group["params"]):
                own[self._owners[parameter]].append(index)
            for rank, saved in enumerate(self._consolidated):
                local = saved["param_groups"][place]["params"]
                for index, there in zip(own[rank], local, strict=True):
                    if there in saved["state"]:
                        state[index] = saved["state"][there]
            settings = {k: v for k, v in group.items() if k != "params"}
            groups.append({**settings, "params": list(numbers)})
            number += len(group["params"])
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over the state of an optimizer with all parameters: each rank its part.

        Raises SettingError (a ValueError) for groups of other sizes.
        """
        given = state_dict["param_groups"]
        if len(given) != len(self.param_groups):
            raise SettingError("loaded state dict has a different number of parameter groups")
        state: dict[int, Any] = {}
        groups = []
        count = 0
        for group, other in zip(self.param_groups, given):
            if len(other["params"]) != len(group["params"]):
                raise SettingError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    "optimizer's group"
                )
            local = []
            for parameter, index in zip(group["params"], other["params"]):
                if self._owners[parameter] == self.rank:
                    local.append(count)
                    if index in state_dict["state"]:
                        state[count] = state_dict["state"][index]
                    count += 1
            groups.append({**other, "params": local})
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        self.state = self.optim.state
        _copy_settings(self.optim.param_groups, self.param_groups)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or makes them zero."""
        super().zero_grad(set_to_none)
        if self.optim is not None:
            self.optim._compute_pending()
