"""DTensors from tensors and modules that every rank has, and from numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt import ops
from lazyt.distributed.device_mesh import DeviceMesh
from lazyt.distributed.placements import Placement, Replicate
from lazyt.distributed.process_groups import on_destroy
from lazyt.distributed.tensor.dtensor import DTensor, over
from lazyt.distributed.tensor.layouts import layout_on, normalized, wanted_mesh
from lazyt.functional import namespace as lazyt
from lazyt.functional.random.generators import default_generator
from lazyt.handle.device import check_device, place_name
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.storage import raw
from lazyt.handle.tensor import Tensor
from lazyt.ir.forms import place_of
from lazyt.ir.graph import Node
from lazyt.ops import builders as build
from lazyt.ops.parallel import collectives
from lazyt.ops.parallel.collectives import Ranks
from lazyt.ops.parallel.layouts import REPLICATE, Layout, Part, chunk, moved

__all__ = [
    "distribute_module", "distribute_tensor", "empty", "full", "ones", "rand", "randn", "zeros",
]  # fmt: skip


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A tensor of the first rank, divided among all ranks of a mesh: a new leaf.

    Args:
        tensor: the same shape on all ranks.
        device_mesh: the mesh; that of the ``with`` block by default.
        placements: ``Shard`` or ``Replicate`` for each axis of the mesh; ``Replicate`` by default.
        src_data_rank: whose values count, by its number along each axis of the mesh; None: each
            rank takes the part of the value that it has, and nothing is sent.

    Raises RuntimeError for partial placements and for what is no leaf.

    Source: PyTorch's function of this name.
    """
    mesh = wanted_mesh(device_mesh)
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different "
                f"device mesh {mesh}."
            )
        given = normalized(placements, mesh, tensor.dim(), "distribute_tensor")
        if tensor.placements != given:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different "
                f"placements {given}. do you want to call `redistribute` instead?"
            )
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf "
            "tensor!"
        )
    given = normalized(placements, mesh, tensor.dim(), "distribute_tensor")
    for number, placement in enumerate(given):
        if placement.is_partial():
            raise RuntimeError(
                f"Trying to distribute tensor with unsupported placements {placement} on device "
                f"mesh dimension {number}!"
            )
    layout = layout_on(mesh, given)
    node = raw(unwrap(tensor))
    _agree_on_random_numbers(layout, place_of(node.form))
    for ranks, part in zip(layout.ranks, layout.parts):
        node = _handed_out(node, ranks, part, src_data_rank)
    with no_grad():
        made = over(wrap(node), layout, tuple(tensor.shape))
    made.requires_grad_(tensor.requires_grad)
    return made


#: The groups of meshes whose ranks go on from one state of the random numbers.
_agreed: set[tuple[Ranks, ...]] = set()
on_destroy.append(_agreed.clear)


def _agree_on_random_numbers(layout: Layout, place: str) -> None:
    """Once for a mesh: its ranks take the first one's state of the default generator, so that
    random functions of DTensors give all of them parts of the same numbers. It goes by the device
    of the tensors that the ranks distribute."""
    if layout.ranks in _agreed:
        return
    _agreed.add(layout.ranks)
    if all(ranks.size == 1 for ranks in layout.ranks):
        return
    node = ops.transfer(raw(unwrap(default_generator.get_state())), place)
    for ranks in layout.ranks:
        if ranks.size > 1:
            node = collectives.broadcast(node, ranks, 0)
    default_generator.set_state(wrap(ops.transfer(node, "")))


def _handed_out(node: Node, ranks: Ranks, part: Part, root: int | None) -> Node:
    """This rank's part of the value that one rank along an axis of the mesh has."""
    whole = Layout((ranks,), (REPLICATE,))
    if root is None or ranks.size == 1:
        return moved(node, node.shape, whole, (part,))
    if part == REPLICATE:
        return collectives.broadcast(node, ranks, root)
    axis = part.axis
    order = (axis, *(a for a in range(len(node.shape)) if a != axis))
    rows = build.permute(node, order)
    sizes = [chunk(rows.shape[0], ranks.size, r)[1] for r in range(ranks.size)]
    received = [sizes[ranks.rank] if r == root else 0 for r in range(ranks.size)]
    if ranks.rank != root:
        sizes = [0] * ranks.size
        starts, steps = (0,) * len(order), (1,) * len(order)
        rows = build.slice_(rows, starts, (0, *rows.shape[1:]), steps)
    rows = collectives.all_to_all(rows, ranks, sizes, received)
    return build.permute(rows, tuple(sorted(range(len(order)), key=order.__getitem__)))


def distribute_module(
    module: Any,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Any, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Any:
    """Makes the parameters and buffers of a module DTensors; returns the module.

    Args:
        module: an ``nn.Module``.
        device_mesh: the mesh; that of the ``with`` block by default.
        partition_fn: called with the name of each submodule, the submodule and the mesh; what it
            leaves is replicated.
        input_fn: called with the module, its inputs and the mesh before each forward.
        output_fn: called with the module, its outputs and the mesh after each forward.

    Raises RuntimeError where it has been called of the module already.

    Source: PyTorch's function of this name.
    """
    mesh = wanted_mesh(device_mesh)
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been "
            "called on this module!"
        )
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        replicate_module(part, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda owner, inputs: input_fn(owner, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda owner, inputs, outputs: output_fn(owner, outputs, mesh))
    module._distribute_module_applied = True
    return module


def replicate_module(module: Any, mesh: DeviceMesh) -> None:
    """Makes what a module itself has, and is no DTensor yet, DTensors that all ranks have."""
    everywhere = [Replicate()] * mesh.ndim
    for name, parameter in module._parameters.items():
        if parameter is not None and not isinstance(parameter, DTensor):
            made = distribute_tensor(parameter.data, mesh, everywhere)
            module.register_parameter(name, type(parameter)(made, parameter.requires_grad))
    for name, buffer in module._buffers.items():
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh, everywhere)


# ---------------------------------------------------------------------- from numbers


def _made(
    make: Callable[..., Tensor],
    size: Sequence[Any],
    device_mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
    requires_grad: bool,
    **options: Any,
) -> DTensor:
    """This rank's part of a tensor that ``make`` makes of a size: of random numbers, the part of
    those that one process would draw."""
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
    mesh = wanted_mesh(device_mesh)
    given = normalized(placements, mesh, len(shape), "size")
    layout = layout_on(mesh, given)
    _agree_on_random_numbers(layout, place_name(check_device(options.get("device"))))
    node = raw(unwrap(make(shape, **options)))
    whole = layout.but([REPLICATE] * mesh.ndim)
    with no_grad():
        made = over(wrap(moved(node, shape, whole, layout.parts)), layout, shape)
    made.requires_grad_(requires_grad)
    return made


def zeros(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:  # fmt: skip
    """A DTensor of zeros of a size, with placements on a mesh (``Replicate`` by default)."""
    return _made(lazyt.zeros, size, device_mesh, placements, requires_grad, dtype=dtype)


def ones(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:  # fmt: skip
    """A DTensor of ones; see ``zeros``."""
    return _made(lazyt.ones, size, device_mesh, placements, requires_grad, dtype=dtype)


def empty(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:  # fmt: skip
    """A DTensor to be written to; see ``zeros``."""
    return _made(lazyt.empty, size, device_mesh, placements, requires_grad, dtype=dtype)


def full(
    size: Any, fill_value: Any, *, requires_grad: bool = False, dtype: Any = None,
    layout: Any = None, device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:  # fmt: skip
    """A DTensor of one number; see ``zeros``."""

    def make(shape: Any, **options: Any) -> Tensor:
        return lazyt.full(shape, fill_value, **options)

    return _made(make, (size,), device_mesh, placements, requires_grad, dtype=dtype)


def rand(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:  # fmt: skip
    """A DTensor of uniform random numbers in [0, 1): those that one process draws whose seed is
    that of all ranks; see ``zeros``."""
    return _made(lazyt.rand, size, device_mesh, placements, requires_grad, dtype=dtype)


def randn(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:  # fmt: skip
    """A DTensor of normally distributed random numbers; see ``rand``."""
    return _made(lazyt.randn, size, device_mesh, placements, requires_grad, dtype=dtype)
