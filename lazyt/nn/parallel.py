"""Modules on several devices: ``DataParallel`` on the one there is, and the same module on several
ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import LazytError
from lazyt.handle.grad_mode import is_grad_enabled
from lazyt.handle.hooks import each_call
from lazyt.handle.pending import realize_nodes
from lazyt.handle.pytree import flatten
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module


class DataParallel(Module):
    """Calls ``module``. PyTorch would split the batch over the GPUs in ``device_ids``; lazyt runs
    on one device, like PyTorch on a machine without GPUs. State has the prefix ``module.``."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What ``module`` gives."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """``module(*inputs, **module_kwargs)``, on one device; ``inputs`` is one input or a tuple."""
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """Trains a module on several ranks, each with a part of the batch: gradients are averaged over
    the ranks, in buckets, while backward still computes others. State has the prefix ``module.``.

    All ranks begin with the parameters and buffers of the group's first rank.

    Args:
        module: has the same parameters on all ranks.
        device_ids, output_device, dim: accepted; a module is on one device.
        broadcast_buffers: whether each forward gives the first rank's buffers to all.
        init_sync: whether all ranks begin with the first rank's values.
        process_group: the ranks, all by default.
        bucket_cap_mb: size of a bucket. By default the ranks measure latency and bandwidth between
            them, once for a group, and take buckets that are worth their latency: the bits of the
            averages do not depend on it.
        find_unused_parameters: whether some parameters may get no gradient: those that other ranks
            use count as zeros, others keep the gradient that they have, None at first.
        check_reduction, gradient_as_bucket_view, static_graph, mixed_precision,
        delay_all_reduce_named_params, param_to_hook_all_reduce, device_mesh: accepted.

    Raises ValueError before ``init_process_group``, LazytError for a module without parameters that
    require gradients.

    >>> import lazyt
    >>> import lazyt.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = lazyt.nn.parallel.DistributedDataParallel(lazyt.nn.Linear(2, 1))
    >>> model(lazyt.ones(4, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[4., 4.]])
    >>> dist.destroy_process_group()

    Source: PyTorch's class of this name.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:
        from lazyt.distributed import gradients, process_groups

        super().__init__()
        group = process_groups.group_of(process_group)
        if group is None:
            raise ValueError("this process is no member of process_group")
        self.module = module
        self.process_group = group
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters or static_graph
        self.require_backward_grad_sync = True
        self.device_ids = device_ids
        self.dim = dim
        learned = [p for p in module.parameters() if p.requires_grad]
        if not learned:
            raise LazytError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        size = None if bucket_cap_mb is None else int(bucket_cap_mb * (1 << 20))
        object.__setattr__(self, "_buckets", gradients.Buckets(learned, group, size))
        object.__setattr__(self, "_learned", learned)
        self._expected = False
        self._join_config: Any = None
        if init_sync:
            every = [*module.parameters(), *module.buffers()]
            gradients.equalize(every, group)
            # A backward through what is written and not computed yet goes function by function.
            realize_nodes([tensor.node for tensor in every])
            for tensor in every:
                tensor.realize()
        for parameter in learned:
            parameter.register_post_accumulate_grad_hook(self._came)

    def _came(self, parameter: Any) -> None:
        if self.require_backward_grad_sync:
            self._buckets.note(parameter)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What ``module`` gives. Raises LazytError where the last backward missed parameters."""
        from lazyt.distributed import gradients

        buffers = list(self.module.buffers())
        if self._expected:
            self._check_last()
        syncs = self.require_backward_grad_sync and is_grad_enabled()
        root = 0
        if self._join_config is not None and self._join_config.enable:
            from lazyt.distributed.joining.hooks import begin_step

            root = begin_step(self, syncs)
        if buffers and self.broadcast_buffers and self.require_backward_grad_sync:
            gradients.equalize(buffers, self.process_group, root)
        result = self.module(*inputs, **kwargs)
        self._expected = syncs
        if syncs:
            unused, elsewhere = [], set()
            if self.find_unused_parameters:
                leaves = [t for t in flatten(result)[0] if isinstance(t, Tensor)]
                used = gradients.reached(leaves)
                unused = [p for p in self._learned if p not in used]
                elsewhere = gradients.used_somewhere(self._learned, used, self.process_group)
            each_call(partial(self._buckets.begin, unused, frozenset(elsewhere)))
        return result

    def _check_last(self) -> None:
        """Raises LazytError where a backward has begun and has not reached all parameters."""
        buckets = self._buckets
        if buckets.was_touched and buckets.next < len(buckets.groups):
            raise LazytError(
                "Expected to have finished reduction in the prior iteration before starting a new "
                "one. This error indicates that your module has parameters that were not used in "
                "producing loss. You can enable unused parameter detection by passing the keyword "
                "argument `find_unused_parameters=True` to "
                "`torch.nn.parallel.DistributedDataParallel`. Parameter indices which did not "
                f"receive grad for rank {self.process_group.rank()}: {buckets.absent()}"
            )

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of what is computed inside stay this rank's; the next backward outside averages
        their sums."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Any:
        """A block in which ranks may have different numbers of batches; in the end all have the
        parameters of those with the most.

        Args:
            divide_by_initial_world_size: whether gradients are divided by the number of all ranks,
                or by that of those with a batch.
            enable: False for a block that does nothing.
            throw_on_early_termination: whether all ranks raise a RuntimeError when one is done.
        """
        from lazyt.distributed.joining import Join

        return Join(
            [self], enable, throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )  # fmt: skip

    def join_hook(self, **kwargs: Any) -> Any:
        """What ``Join`` does on a rank without batches. ``kwargs``: those of ``join``."""
        from lazyt.distributed.joining.hooks import GradientsJoinHook

        return GradientsJoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self._learned[0].device

    @property
    def join_process_group(self) -> Any:
        """The ranks."""
        return self.process_group

    def _set_static_graph(self) -> None:
        self.find_unused_parameters = True

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Lets a program average gradients: ``hook(state, bucket)`` gets each full bucket
        (``GradBucket``) and gives a future of its row.

        Raises TypeError for what cannot be called, LazytError for a second hook.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self._buckets.hook is not None:
            raise LazytError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self._buckets.hook = state, hook


__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]

_explain_absence(__name__)
