"""``DTensor``: a tensor that the ranks of a mesh have parts of (``torch.distributed.tensor``).

A DTensor is an ordinary lazy tensor of the whole shape, whose graph begins at what ranks have
(``lazyt/ops/parallel/distribution.py``). Functions, views, in-place writes, gradients and
optimizers are therefore those of any tensor. After each function the graph is partitioned
(``lazyt/transforms/partition``): this rank's part is an ordinary lazy tensor again, with
collectives in its graph, made in the program's order on all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from weakref import ref

from lazyt.autograd.node_hooks import beginning, kinds_of_gradients
from lazyt.compat.names.overloads import overload_names
from lazyt.distributed.device_mesh import DeviceMesh
from lazyt.distributed.placements import Placement, Replicate, Shard
from lazyt.distributed.tensor.layouts import (
    DTensorSpec,
    TensorMeta,
    layout_on,
    mesh_of,
    normalized,
    placements_of,
    wanted_mesh,
)
from lazyt.distributed.tensor.links import (
    Link,
    link_anew,
    link_of,
    links,
    note_shared,
    rewritten,
    writes,
)
from lazyt.errors import LazytError, ShapeError, warn
from lazyt.functional.creation.creation import in_memory
from lazyt.functional.overriding import Disabled
from lazyt.functional.subclasses import as_class
from lazyt.handle import pending
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.handle.grad_mode import mode, no_grad
from lazyt.handle.layout import strided
from lazyt.handle.storage import raw
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node
from lazyt.ops.parallel import collectives
from lazyt.ops.parallel.distribution import distribute, localize, on_localized, reduced
from lazyt.ops.parallel.layouts import REPLICATE, Layout, full_shape
from lazyt.transforms.partition.partition import (
    Placed,
    begin_backward,
    is_whole,
    listing,
    part_of,
    partition,
    partition_call,
    take_part,
    take_parts,
)

__all__ = [
    "DTensor", "explain_partition", "implicit_replication", "layout_of", "over", "whole_losses",
]  # fmt: skip

pending.of_ranks.append(is_whole)
beginning.append(begin_backward)
kinds_of_gradients.append(lambda grad: _arrived(grad))
on_localized.append(take_part)


def over(local: Tensor, layout: Layout, shape: Sequence[int]) -> DTensor:
    """A new DTensor without history, whose part on this rank is the memory of ``local``."""
    with Disabled(modes=False), no_grad():
        part = local.detach() if local._fn is not None else local
        tensor = wrap(distribute(part.node, layout, shape))
    link = links[tensor._storage] = Link(part, tensor._storage.node, layout)
    link.seen = writes(tensor._storage), link.seen[1]
    return _as_dtensor(tensor)


def _as_dtensor(tensor: Tensor) -> DTensor:
    return cast("DTensor", as_class(tensor, DTensor))


def _placed(tensor: Tensor) -> Placed:
    """This rank's part of a DTensor's value, and how that is divided."""
    link = link_of(tensor._storage)
    if link is not None and tensor._view is None:
        return Placed(link.local.node, link.layout)
    node = tensor.node
    if tensor._view is not None and tensor.__dict__.get("_whole") is not node:
        # Nobody else refers to what a view shows, and what is gone would be partitioned anew.
        partition_call([node], {tensor._storage.node})
        tensor.__dict__["_whole"] = node
    found = partition(node)
    if found is None:
        raise LazytError("this DTensor has lost its placement")
    return found


def layout_of(tensor: DTensor) -> Layout:
    """How the ranks divide a DTensor."""
    return _placed(tensor).layout


class DTensor(Tensor):
    """A tensor whose elements the ranks of a mesh have, as its placements say.

    Made by ``distribute_tensor``, ``DTensor.from_local`` and functions of DTensors. All ranks call
    the same functions of it, in the same order. Shapes are those of the whole tensor.

    >>> import lazyt
    >>> import lazyt.distributed as dist
    >>> from lazyt.distributed.tensor import Shard, distribute_tensor
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> x = distribute_tensor(lazyt.arange(4.0).reshape(2, 2), mesh, [Shard(0)])
    >>> (x @ x.T).sum(0).full_tensor()
    tensor([ 4., 16.])
    >>> dist.destroy_process_group()

    Source: PyTorch's class of this name.
    """

    __slots__ = ()
    _asks_when_made = True
    _is_divided = True

    def __new__(
        cls, local_tensor: Tensor, spec: DTensorSpec, *, requires_grad: bool = False
    ) -> DTensor:
        shape = tuple(spec.tensor_meta.shape)
        made = over(local_tensor, layout_on(spec.mesh, spec.placements), shape)
        if requires_grad:
            made.requires_grad_()
        return made

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: tuple[int, ...] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """The DTensor that the ranks' tensors make up. Gradients flow back to them.

        Args:
            local_tensor: this rank's part.
            device_mesh: the mesh; that of the ``with`` block by default.
            placements: one for each axis of the mesh, ``Replicate`` by default.
            run_check: whether ranks that replicate take the first one's values.
            shape: that of the whole, where parts differ in size.
            stride: accepted, nothing depends on it.
            grad_placements: those of the gradient; by default its own.

        Raises RuntimeError for a DTensor, ShapeError for a part that the shape does not give.
        """
        if isinstance(local_tensor, DTensor):
            raise RuntimeError(
                f"the local_tensor argument only accepts torch.Tensor but got {type(local_tensor)} "
                "value."
            )
        mesh = wanted_mesh(device_mesh)
        given = normalized(placements, mesh, local_tensor.dim(), "from_local")
        layout = layout_on(mesh, given)
        whole = full_shape(layout, tuple(local_tensor.shape)) if shape is None else tuple(shape)
        if layout.local_shape(whole) != tuple(local_tensor.shape):
            raise ShapeError(
                f"from_local: {list(local_tensor.shape)} is no part of {list(whole)} as {given} "
                "divides it; pass shape="
            )
        if run_check:
            local_tensor = _agreed(local_tensor, layout)
        if local_tensor._fn is None:
            return over(local_tensor, layout, whole)
        node = distribute(unwrap(local_tensor), layout, whole)
        if grad_placements is not None:
            wanted = layout_on(mesh, normalized(grad_placements, mesh, len(whole), "from_local"))
            node = distribute(localize(node, layout), wanted, whole) if wanted != layout else node
            node = node if wanted == layout else distribute(localize(node, layout), layout, whole)
        tensor = wrap(node, local_tensor, name="FromTorchTensor")
        partition_call([tensor.node], set())
        return _as_dtensor(tensor)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This rank's part; of a tensor without history its memory.

        Args:
            grad_placements: how the gradient of the part is placed; by default as the tensor,
                replicated where that is partial.
        """
        placed = _placed(self)
        if self._fn is None or not mode.enabled:
            link = links.get(self._storage)
            if link is not None and self._view is None:
                return link.local
            return wrap(raw(placed.node))
        layout, node = placed.layout, self.node
        if grad_placements is not None:
            mesh = mesh_of(layout)
            wanted = normalized(grad_placements, mesh, self.dim(), "to_local")
            node = _with_gradient(node, layout, layout_on(mesh, wanted))
        return wrap(localize(node, layout), self, name="ToTorchTensor")

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole tensor, on each rank. Makes collectives: all ranks call it."""
        mesh = self.device_mesh
        whole = self.redistribute(mesh, [Replicate()] * mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """The same tensor with other placements. Makes collectives: all ranks call it.

        Args:
            device_mesh: the tensor's own.
            placements: the new ones.
            async_op: accepted: a collective overlaps with what does not need it anyway.
            forward_dtype: in which dtype values move, and the result is.
            backward_dtype: the same of the gradient.

        Raises RuntimeError for another mesh, and without placements.
        """
        mesh = device_mesh or self.device_mesh
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        if mesh != self.device_mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        wanted = normalized(placements, mesh, self.dim(), "redistribute")
        if any(p.is_partial() and p != q for p, q in zip(wanted, self.placements)):
            raise RuntimeError("Can not redistribute to Partial, redistributing to Partial is for "
                               "internal use only!")  # fmt: skip
        source = self if forward_dtype is None else self.to(forward_dtype)
        placed = _placed(source)
        layout = layout_on(mesh, wanted)
        if placed.layout.parts == layout.parts:
            return _as_dtensor(_aliased(source))
        if source._fn is None or not mode.enabled:
            part = part_of(raw(source.node), layout)
            return over(wrap(part), layout, tuple(self.shape))
        node = distribute(localize(source.node, layout), layout, tuple(self.shape))
        found = wrap(node, source, name="Redistribute")
        partition_call([found.node], {source.node})
        return _as_dtensor(found)

    # ------------------------------------------------------------------ what it is

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh that the tensor is on."""
        return mesh_of(_placed(self).layout)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """What each axis of the mesh does to the tensor."""
        return placements_of(_placed(self).layout)

    @property
    def _local_tensor(self) -> Tensor:
        with Disabled(modes=False), no_grad():
            return self.to_local()

    @property
    def _spec(self) -> DTensorSpec:
        layout = _placed(self).layout
        meta = TensorMeta(self.shape, self.strides, self.dtype)
        return DTensorSpec(mesh_of(layout), placements_of(layout), meta)

    def parts_on_this_rank(self) -> Tensor:
        """What is computed where the tensor is realized."""
        return self._local_tensor

    def filled_like(self, value: Any, shape: Sequence[int]) -> DTensor:
        """A DTensor of a number: divided as this one where the shape is its own, else whole."""
        layout = reduced(_placed(self).layout)
        if tuple(shape) != tuple(self.shape):
            layout = layout.but([REPLICATE] * len(layout.parts))
        local = layout.local_shape(tuple(shape))
        return over(in_memory(local, value, self.dtype, self.device), layout, shape)

    def replicated(self, whole: Tensor) -> DTensor:
        """A tensor that all ranks of this one's mesh have, as a DTensor."""
        layout = _placed(self).layout
        return over(whole, layout.but([REPLICATE] * len(layout.parts)), tuple(whole.shape))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return (
            f"DTensor(local_tensor={self._local_tensor}, device_mesh={self.device_mesh}, "
            f"placements={self.placements})"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise LazytError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment."
            )
        placed = _placed(self)
        local = self._local_tensor.clone()
        made = memo[id(self)] = over(local, placed.layout, tuple(self.shape))
        made.requires_grad_(self.requires_grad)
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k not in _OWN})
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = (self._local_tensor, self.device_mesh, self.placements, tuple(self.shape))
        return _rebuilt, (*state, self.requires_grad, "_is_param" in self.__dict__)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _call(func, tuple(args), dict(kwargs or {}))


#: Attributes that a copy does not have.
_OWN = ("_grad", "_whole")


def _rebuilt(
    local: Tensor, mesh: DeviceMesh, placements: Sequence[Placement], shape: Any,
    requires_grad: bool, is_parameter: bool,
) -> DTensor:  # fmt: skip
    made = over(local, layout_on(mesh, placements), shape)
    made.requires_grad_(requires_grad)
    if is_parameter:
        made.__dict__["_is_param"] = True
    return made


def _aliased(tensor: Tensor) -> Tensor:
    with Disabled(modes=False):
        return tensor.view_as(tensor) if tensor._fn is not None else tensor


def _with_gradient(node: Node, layout: Layout, wanted: Layout) -> Node:
    """The value in a layout, whose gradient has another one."""
    if reduced(layout) == wanted:
        return node
    return distribute(localize(node, layout), wanted, node.shape)


def _agreed(tensor: Tensor, layout: Layout) -> Tensor:
    """The values of the first ranks along the axes of a mesh that replicate."""
    node = unwrap(tensor)
    for ranks, part in zip(layout.ranks, layout.parts):
        if part == REPLICATE and ranks.size > 1:
            node = collectives.broadcast(node, ranks, 0)
    return wrap(node, tensor)


class _Recorder:
    """What is said of the functions that run: None where nobody listens."""

    lines: list[str] | None = None


_recorder = _Recorder()


def explain_partition(func: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """How a function of DTensors is computed. It is called, so all ranks have to call this.

    For each function that it calls, there is the graph of the result, one op a line: the division
    of each value on each axis of the mesh (``S0``: axis 0 is divided, ``R``: replicated, ``Psum``:
    partial sums), the shape of this rank's part, and which operands had to be moved.

    >>> import lazyt
    >>> import lazyt.distributed as dist
    >>> from lazyt.distributed import tensor as dt
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> x = dt.ones(4, 2, device_mesh=mesh, placements=[dt.Shard(0)])
    >>> print(dt.explain_partition(lambda x: x.sum(0), x))
    sum
      %0 = distribute : float32[4, 2] [S0] part [4, 2]
      %1 = reduce(%0) : float32[2] [Psum] part [2]
    >>> dist.destroy_process_group()
    """
    before, _recorder.lines = _recorder.lines, []
    try:
        func(*args, **kwargs)
        return "\n".join(_recorder.lines)
    finally:
        _recorder.lines = before


# ---------------------------------------------------------------------- functions


class _Mixing:
    """What blocks say that the program is in.

    Attributes:
        depth: in how many plain tensors stand for replicated ones.
        losses: in how many losses of divided classes are whole.
    """

    depth = 0
    losses = 0


_mixing = _Mixing()


class implicit_replication:
    """A block in which plain tensors beside DTensors count as replicated."""

    def __enter__(self) -> None:
        _mixing.depth += 1

    def __exit__(self, *_: object) -> None:
        _mixing.depth -= 1


@contextmanager
def whole_losses() -> Iterator[None]:
    """The block of ``loss_parallel``."""
    _mixing.losses += 1
    try:
        yield
    finally:
        _mixing.losses -= 1


def _whole_loss(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> DTensor:
    """Cross-entropy of scores that are divided along the classes. Raises ValueError for others."""
    scores = args[0] if args else kwargs["input"]
    dim = 1 if scores.dim() > 1 else 0
    mesh = scores.device_mesh
    if not any(placement.is_shard(dim) for placement in scores.placements):
        raise ValueError(
            f"loss_parallel() should be enabled only when the input tensor is sharded on the "
            f"dimension {dim}."
        )
    rows = [Shard(0) if p.is_shard(0) and dim else Replicate() for p in scores.placements]

    def placed(value: Any, placements: Any) -> Any:
        if not isinstance(value, Tensor) or isinstance(value, DTensor):
            return value
        return DTensor.from_local(value, mesh, placements)

    given = [*args, *(None for _ in range(2 - len(args)))]
    given[1] = placed(kwargs.pop("target", given[1]), rows)
    args = tuple(placed(value, None) for value in given)
    kwargs = {name: placed(value, None) for name, value in kwargs.items()}
    before, _mixing.losses = _mixing.losses, 0
    try:
        loss = _call(func, args, kwargs)
    finally:
        _mixing.losses = before
    wanted = [Replicate() if p.is_partial() else p for p in loss.placements]
    found: DTensor = loss.redistribute(mesh, wanted)
    return found


def _tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(value.values())


def _mapped(change: Callable[[Tensor], Any], value: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (list, tuple)) and any(True for _ in _tensors(value)):
        found = [_mapped(change, part) for part in value]
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    if isinstance(value, dict):
        return {key: _mapped(change, part) for key, part in value.items()}
    return value


_GRAD: Any = Tensor.grad


def _call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of DTensors, and perhaps of plain tensors beside them."""
    given = [t for t in _tensors((args, kwargs)) if isinstance(t, DTensor)]
    if not given:
        with Disabled():
            return func(*args, **kwargs)
    name = getattr(func, "__name__", "")
    if name == "__get__" and getattr(func, "__self__", None) is _GRAD:
        with Disabled():
            return _known_gradient(func(*args, **kwargs), given[0])
    if name == "cross_entropy" and _mixing.losses:
        return _whole_loss(func, args, kwargs)
    layout = _placed(given[0]).layout
    if name not in ("__set__", "__get__", "backward"):
        args, kwargs = _mapped(lambda t: _beside(t, layout, func), (args, kwargs))
    for tensor in given:
        link_of(tensor._storage)
    # Weakly: whether others refer to a storage matters to requires_grad_.
    operands = {node for t in given for node in (t.node, t._storage.node)}
    before = [(t, ref(t._storage), t._storage.node, _placed(t).layout) for t in given]
    with Disabled():
        result = func(*args, **kwargs)
    if name != "backward":
        changed = [t for t in given if t._storage.node not in operands]
        made = [*_tensors((result,)), *changed]
        roots = [root for t in made if _is_dense(t) for root in (t._storage.node, t.node)]
        roots = [root for root in roots if root not in operands]  # alive until results have them
        partition_call(roots, operands)
    for tensor, storage, node, old in before:
        note_shared(tensor._storage)
        if tensor._storage.node is not node or tensor._storage is not storage():
            rewritten(tensor._storage, old)
    like = given[0]
    return _mapped(lambda t: _result(t, like, layout, name), result)


def _beside(tensor: Tensor, layout: Layout, func: Any) -> Tensor:
    """A plain tensor beside DTensors, as one that all ranks have. Raises RuntimeError where it is
    none."""
    if isinstance(tensor, DTensor):
        return tensor
    if partition(tensor.node) is not None:  # of an optimizer, which works below functions
        return tensor
    scalar = tensor.numel() == 1
    if scalar and tensor.dim() == 1:
        warn(
            "Found a non-scalar tensor with numel=1 and ndim!=0, we are implicitly creating a "
            "replicated DTensor for it. However, please consider changing it to a scalar tensor or "
            "explicitly create a DTensor under distributed environment."
        )
    if not (scalar or _mixing.depth):
        raise RuntimeError(
            f"{_title(func)} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor "
            "to DTensor before calling distributed operators! Please see "
            "https://docs.pytorch.org/docs/main/distributed.tensor.html"
            "#mixed-tensor-and-dtensor-operations for more details."
        )
    if tensor._fn is None:
        return tensor
    whole = layout.but([REPLICATE] * len(layout.parts))
    node = distribute(unwrap(tensor), whole, tuple(tensor.shape))
    return wrap(node, tensor, name="FromTorchTensor")


def _title(func: Any) -> str:
    name = getattr(func, "__name__", str(func)).strip("_")
    return f"aten.{name}.{'Tensor' if 'Tensor' in (overload_names(name) or ()) else 'default'}"


def _is_dense(tensor: Tensor) -> bool:
    with Disabled(modes=False):
        return bool(tensor.layout is strided)


def _result(tensor: Tensor, like: Tensor, layout: Layout, name: str) -> Any:
    """What a function gave, as a DTensor; its part is an ordinary tensor of this rank."""
    if not _is_dense(tensor):
        raise LazytError(f"{name}: a sparse tensor cannot be distributed; call it with parts")
    if isinstance(tensor, DTensor) and (tensor._view is not None or tensor._storage in links):
        return tensor
    found = partition(tensor.node)
    if _recorder.lines is not None and found is not None:
        text = listing(tensor.node).replace("\n", "\n  ")
        _recorder.lines += [name, f"  {text}"]
    if found is None:  # made from nothing that ranks have, such as zeros_like
        same = tuple(tensor.shape) == tuple(like.shape)
        own = reduced(layout) if same else layout.but([REPLICATE] * len(layout.parts))
        link_anew(tensor._storage, own)
    elif tensor._view is None and tensor._storage.fn is None and tensor._storage not in links:
        link_anew(tensor._storage, found.layout)
    made = tensor if isinstance(tensor, DTensor) else _as_dtensor(tensor)
    if made._view is not None:
        made.__dict__["_whole"] = made.node
    return made


def _arrived(grad: Tensor) -> Any:
    """A gradient where it arrives: its collectives are made, and it is a DTensor if it is one's."""
    take_parts(grad.node)
    return _known_gradient(grad, None)


def _known_gradient(grad: Tensor | None, owner: DTensor | None) -> Any:
    """A gradient as the same DTensor each time; ``owner``: whose it is, if that is known."""
    if grad is None or isinstance(grad, DTensor):
        return grad
    known = grad.__dict__.get("_distributed")
    if known is None:
        found = partition(grad.node) if is_whole(grad.node) else None
        if found is not None:
            layout = found.layout
        elif owner is not None:  # the same everywhere, whatever the tensor is
            layout = reduced(_placed(owner).layout)
        else:
            return grad
        storage = grad._storage
        if storage.fn is None and grad._view is None and storage not in links:
            link_anew(storage, layout)
        known = grad.__dict__["_distributed"] = _as_dtensor(grad)
    return known
