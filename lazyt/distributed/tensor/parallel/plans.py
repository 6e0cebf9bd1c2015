"""Plans: which style each submodule of a module has."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

from lazyt.distributed.device_mesh import DeviceMesh
from lazyt.distributed.tensor.layouts import wanted_mesh
from lazyt.distributed.tensor.parallel.styles import ParallelStyle
from lazyt.errors import warn

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Any,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Divides a module among the ranks of a mesh by a plan; returns the module.

    Args:
        module: an ``nn.Module``.
        device_mesh: a mesh of one axis; that of the ``with`` block by default.
        parallelize_plan: a style for the module, or styles by the paths of submodules, in which
            each part may be a pattern (``"layers.*.attention.wq"``); ``""`` is the module itself.
        src_data_rank: whose parameters count; see ``distribute_tensor``.

    Warns of paths that match nothing. Raises TypeError for another plan.

    >>> import lazyt
    >>> import lazyt.distributed as dist
    >>> from lazyt import nn
    >>> from lazyt.distributed.tensor.parallel import (
    ...     ColwiseParallel, RowwiseParallel, parallelize_module,
    ... )
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    >>> net = parallelize_module(net, mesh, plan)
    >>> net[0].weight.placements, net[2].weight.placements, net(lazyt.ones(3, 4)).shape
    ((Shard(dim=0),), (Shard(dim=1),), lazyt.Size([3, 2]))
    >>> dist.destroy_process_group()

    Source: PyTorch's function of this name.
    """
    mesh = wanted_mesh(device_mesh)
    if parallelize_plan is None:
        warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so "
            "this parallelize_module call will do nothing."
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        _apply(module, mesh, path, style, src_data_rank)
    return module


def _apply(
    module: Any, mesh: DeviceMesh, path: str, style: ParallelStyle, src_data_rank: int | None
) -> None:
    """Gives a style to the submodules at a path."""
    first, _, rest = path.partition(".")
    if not path:
        parallelize_module(module, mesh, style, src_data_rank=src_data_rank)
        return
    found = [child for name, child in module.named_children() if fnmatch(name, first)]
    if not found:
        warn(
            f"Parallelize plan key '{path}' could not be resolved: no submodule matching token "
            f"'{first}' in module {module}, skipping this plan entry."
        )
    for child in found:
        plan = {rest: style} if rest else style
        parallelize_module(child, mesh, plan, src_data_rank=src_data_rank)
