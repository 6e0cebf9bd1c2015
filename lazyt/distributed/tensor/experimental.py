"""``torch.distributed.tensor.experimental``: functions of parts, and plain tensors beside
DTensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.distributed.device_mesh import DeviceMesh
from lazyt.distributed.placements import Placement
from lazyt.distributed.tensor.dtensor import DTensor, implicit_replication
from lazyt.handle.pytree import flatten, unflatten
from lazyt.handle.tensor import Tensor

__all__ = ["implicit_replication", "local_map"]


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: Any = None,
    in_grad_placements: Any = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
    track_variant_dims: bool = False,
) -> Callable[..., Any]:
    """A function of DTensors that runs a function of the parts that each rank has.

    Args:
        func: takes and gives plain tensors; without it, this is a decorator.
        out_placements: of the results: one sequence of placements for a single result, or one for
            each, None for what is no tensor.
        in_placements: what the arguments have to have, for each of them; None for what is no
            tensor, or as it comes.
        in_grad_placements: those of the gradients of the parts.
        device_mesh: by default that of the first DTensor.
        redistribute_inputs: whether arguments with other placements are moved.
        track_variant_dims: accepted, nothing depends on it.

    Raises ValueError for arguments with other placements than ``in_placements`` says.

    Source: PyTorch's function of this name.
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements,
            in_grad_placements=in_grad_placements, device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs, track_variant_dims=track_variant_dims,
        )  # fmt: skip
    function = func

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = flatten(args)
        mesh = device_mesh
        if in_placements is not None and len(in_placements) != len(leaves):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input "
                f"args {len(leaves)}!"
            )
        local, seen = [], False
        for number, leaf in enumerate(leaves):
            if not isinstance(leaf, DTensor):
                local.append(leaf)
                continue
            seen = True
            mesh = leaf.device_mesh if mesh is None else mesh
            wanted = None if in_placements is None else in_placements[number]
            grads = None if in_grad_placements is None else in_grad_placements[number]
            local.append(_part(leaf, mesh, wanted, grads, redistribute_inputs))
        result = function(*unflatten(local, spec), **kwargs)
        if not seen or mesh is None:
            return result
        return _joined(result, mesh, out_placements)

    return mapped


def _part(
    leaf: DTensor, mesh: DeviceMesh, wanted: Sequence[Placement] | None, grads: Any, may_move: bool
) -> Tensor:
    if wanted is not None and tuple(wanted) != leaf.placements:
        if not may_move:
            raise ValueError(
                f"arg {leaf} in local_map has a mismatched placements: arg placements is "
                f"{leaf.placements} but the input placements is {tuple(wanted)}! If redistribute "
                "is wanted, set redistribute_inputs=True to local_map."
            )
        leaf = leaf.redistribute(mesh, wanted)
    return leaf.to_local(grad_placements=grads)


def _joined(result: Any, mesh: DeviceMesh, placements: Any) -> Any:
    leaves, spec = flatten(result)
    several = isinstance(placements, (list, tuple)) and any(
        isinstance(item, (list, tuple, type(None))) for item in placements
    )
    each = list(placements) if several else [placements] * len(leaves)
    if len(each) != len(leaves):
        raise AssertionError(
            "local_map requires one PlacementType be provided for each output value, received "
            f"{len(each)} out_placements but {len(leaves)} is expected!"
        )
    found = [
        DTensor.from_local(leaf, mesh, given)
        if isinstance(leaf, Tensor) and given is not None and not isinstance(leaf, DTensor)
        else leaf
        for leaf, given in zip(leaves, each)
    ]
    return unflatten(found, spec)
