"""Parameters that are divided among ranks, and whole while a module needs them.

A unit is what is gathered at a time: the parameters of a module that belong to no unit inside of
it. Its graph refers to whole values by leaves. Their memory goes when the module's forward has been
computed, and comes back when backward reaches the module; the graph stays the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from operator import is_
from typing import Any

from lazyt import ops
from lazyt.autograd.function import Function
from lazyt.distributed.divided import Division, gather_rows, own_rows, scatter_rows
from lazyt.distributed.process_groups import get_process_group_ranks, group_named
from lazyt.distributed.shares import Share, running_share
from lazyt.distributed.tensor.dtensor import over
from lazyt.distributed.tensor.layouts import mesh_of
from lazyt.errors import LazytError
from lazyt.handle import pending
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.handle.grad_mode import is_grad_enabled, no_grad
from lazyt.handle.hooks import capturing, looks
from lazyt.handle.pytree import flatten, unflatten
from lazyt.handle.storage import raw
from lazyt.handle.tape import boundaries
from lazyt.handle.tensor import Tensor
from lazyt.ir.forms import common_place, place_of
from lazyt.ir.graph import Node
from lazyt.nn.parameter import Parameter
from lazyt.ops.parallel import sums
from lazyt.ops.parallel.collectives import Ranks
from lazyt.plan import planning
from lazyt.plan.control import collectives as running
from lazyt.sharding.parameters import Divided
from lazyt.sharding.subtrees import Subtrees

__all__ = ["Context", "Gathered", "Unit"]


class Freed:
    """In the place of memory that was given back: whoever reads it is told.

    Attributes:
        place: the device where it was.
    """

    def __init__(self, name: str, place: str) -> None:
        self.__dict__["_name"] = name
        self.__dict__["place"] = place

    def __getattr__(self, name: str) -> Any:
        raise LazytError(
            f"a value that depends on parameters of {self.__dict__['_name']} is needed, and these "
            "are divided among the ranks again. Look at it in the module's forward, or give "
            "fully_shard(..., reshard_after_forward=False)"
        )


class Gathered:
    """The whole values of a unit's parameters, as some graph refers to them.

    Attributes:
        shards: the values of this rank's rows that they come from.
        leaves: the whole values, whose memory comes and goes.
        storages, state: of the parameters, and their versions.
    """

    storages: list[Any]
    state: list[int]

    def __init__(self, unit: Unit, shards: Sequence[Node]) -> None:
        self.unit, self.shards = unit, tuple(shards)
        self._coming: list[Node] | None = None
        self.is_here = False
        if unit.ranks.size == 1:
            self.leaves = list(self._cast())
            self.is_here = True
            return
        cast = self._cast()
        self._freed = Freed(unit.name, common_place([shard.form for shard in cast]))
        self.leaves = []
        for entry, shard in zip(unit.entries, cast):
            self.leaves.append(ops.input_(entry.division.shape, shard.dtype, self._freed))
        self._seen: weakref.WeakSet[Node] = weakref.WeakSet(self.leaves)

    def _cast(self) -> list[Node]:
        dtype = self.unit.policy.param_dtype
        return [
            shard if dtype is None or shard.dtype.kind != "f" else ops.cast(shard, dtype)
            for shard in self.shards
        ]

    def start(self) -> None:
        """Begins to gather, if the values are neither here nor on their way."""
        if self.is_here or self._coming is not None:
            return
        self._coming = gather_rows(self._cast(), [e.division for e in self.unit.entries])
        running.advance(planning.realize)

    def finish(self) -> None:
        """Waits for the values."""
        self.start()
        if self._coming is None:
            return
        coming, self._coming = self._coming, None
        pending.realize_nodes(coming)
        for leaf, node in zip(self.leaves, coming):
            self._set(leaf, node.data)
        self.is_here = True

    def _set(self, leaf: Node, data: Any) -> None:
        for node in list(self._seen):
            if node is leaf or (node.inputs and node.inputs[0] is leaf):
                node.data = data

    def note(self, node: Node) -> None:
        """Another node that has the memory of a leaf: what autograd knows it by."""
        if self.unit.ranks.size > 1:
            self._seen.add(node)

    def free(self) -> None:
        """Gives the memory back."""
        if self.unit.ranks.size == 1:
            return
        self._coming = None
        for leaf in self.leaves:
            self._set(leaf, self._freed)
        self.is_here = False


class Context:
    """The units of one model.

    Attributes:
        order: the calls of this forward, in order; the backward comes in the opposite one.
        following: the unit that came after each in the last forward.
        unfinished: gradients whose reduction is under way.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = list(units)
        self.order: list[Gathered] = []
        self.following: dict[Unit, Unit] = {}
        self.unfinished: list[Node] = []
        self._last: Unit | None = None

    def begin(self) -> None:
        """A forward of the root begins: what earlier ones left is given back."""
        self.order, self._last = [], None
        for unit in self.units:
            unit.forget_calls()
            if not unit.is_manual:
                unit.reshard()

    def note(self, gathered: Gathered) -> Unit | None:
        """A unit's forward begins. Returns the unit that will be next, if it is as last time."""
        unit = gathered.unit
        if self._last is not None and self._last is not unit:
            self.following[self._last] = unit
        self._last = unit
        self.order.append(gathered)
        return self.following.get(unit)

    def before(self, gathered: Gathered) -> Gathered | None:
        """Whose backward comes after that of ``gathered``."""
        for index in range(len(self.order) - 1, 0, -1):
            if self.order[index] is gathered:
                return self.order[index - 1]
        return None

    def forget(self, unit: Unit) -> None:
        """Lets go of a unit's calls: what they hold is of parameters as they were."""
        self.order = [gathered for gathered in self.order if gathered.unit is not unit]

    def take(self, nodes: Sequence[Node]) -> None:
        """Reductions have begun; waits for those before, so that few are under way at a time."""
        before, self.unfinished = self.unfinished, list(nodes)
        pending.realize_nodes(before)


class _Enter(Function):
    """Whole parameters and a module's arguments, whose gradients come together."""

    @staticmethod
    def forward(ctx: Any, gathered: Gathered, numbers: list[int], count: int, *tensors: Any) -> Any:
        ctx.gathered, ctx.numbers, ctx.count = gathered, numbers, count
        ctx.set_materialize_grads(False)
        return (*tensors[:count], *[wrap(gathered.leaves[i]) for i in numbers])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        unit, count = ctx.gathered.unit, ctx.count
        found = unit.reduce(ctx.gathered, ctx.numbers, grads[:count], grads[count:])
        return (None, None, None, *grads[:count], *found)


class _Leave(Function):
    """A module's results: when their gradients come, parameters have to be whole again."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Any) -> Any:
        ctx.call = call
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.call.gathered.unit.before_backward(ctx.call)
        return (None, *grads)


class _Call:
    """A forward of a unit, for its backward.

    Attributes:
        gathered: the whole parameters.
        nodes: by what autograd knows those that have a gradient. The graph holds them.
    """

    def __init__(self, gathered: Gathered, whole: dict[int, Tensor]) -> None:
        self.gathered = gathered
        self.nodes = {n: weakref.ref(t.node) for n, t in whole.items()}

    def whole(self) -> dict[int, Tensor]:
        """The parameters with their history, as the forward had them: what backward computes again
        is a function of the same."""
        found = {}
        for number, reference in self.nodes.items():
            node = reference()
            known = None if node is None else boundaries.get(node)
            if node is not None and known is not None:
                tensor = wrap(self.gathered.leaves[number])
                tensor._storage.node, tensor._storage.fn = node, known[0]
                found[number] = tensor
        return found


class _Whole(Function):
    """Whole parameters in a capture, which are part of its graph, as is the reduction of their
    gradients."""

    @staticmethod
    def forward(ctx: Any, unit: Unit, numbers: list[int], nodes: list[Node], *shards: Any) -> Any:
        ctx.unit, ctx.numbers = unit, numbers
        ctx.set_materialize_grads(False)
        return tuple([wrap(nodes[n]) for n in numbers])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, None, None, *ctx.unit.reduce(None, ctx.numbers, (), grads))


class Unit:
    """Parameters that are gathered together.

    Attributes:
        name: of the module, for messages.
        entries: the parameters.
        ranks: which ranks divide them; ``replicas``: which have the same rows, None for no others.
        policy: dtypes.
        reshard_after_forward, reshard_after_backward: when the whole values go.
        context: the model's units; set at the first forward.
    """

    def __init__(
        self,
        name: str,
        entries: list[Divided],
        ranks: Ranks,
        replicas: Ranks | None,
        policy: Any,
        reshard_after_forward: bool | None,
    ) -> None:
        self.name, self.entries = name, entries
        self.ranks, self.replicas, self.policy = ranks, replicas, policy
        self.reshard_after_forward = reshard_after_forward
        self.reshard_after_backward = True
        self.reduces = self.reduces_replicas = True
        self.reduces_unused = False
        self.factor: float | None = None
        self.all_reduce_hook: Any = None
        self.is_root = self.is_manual = False
        self.context: Context | None = None
        self.prefetch_forward: list[Unit] = []
        self.prefetch_backward: list[Unit] | None = None
        self._current: Gathered | None = None
        self._held: dict[int, Node] = {}
        self._open = 0
        self._calls: list[_Call] = []
        self._exact = Subtrees()

    def __deepcopy__(self, memo: Any) -> Unit:
        """Itself: tensors that are copied stay divided by it."""
        return self

    # ------------------------------------------------------------------ whole and divided

    def gathered(self) -> Gathered:
        """The whole values of the parameters as they are now; they may have to be gathered."""
        for entry in self.entries:
            entry.refresh()
        rows = [entry.rows for entry in self.entries]
        found, state = self._current, [part._storage.version_now() for part in rows]
        storages = [part._storage for part in rows]
        if found is not None and found.state == state and all(map(is_, found.storages, storages)):
            return found
        if found is not None:
            found.free()
        found = self._current = Gathered(self, [raw(unwrap(part)) for part in rows])
        found.state, found.storages = state, storages
        return found

    def reshard(self) -> None:
        """Modules have this rank's rows again, and the whole values are given back."""
        for entry in self.entries:
            entry.refresh()
            entry.show(entry.parameter)
        if self._current is not None:
            self._current.free()
        self.is_manual = False

    def unshard(self) -> Gathered:
        """Modules have the whole parameters until ``reshard``."""
        gathered = self.gathered()
        gathered.finish()
        self._show(gathered, {})
        self.is_manual = True
        return gathered

    def _show(self, gathered: Gathered, tracked: dict[int, Tensor]) -> None:
        """Lets the modules have whole parameters, those of ``tracked`` with their history."""
        for number, entry in enumerate(self.entries):
            tensor = tracked.get(number)
            if tensor is None:
                tensor = wrap(gathered.leaves[number])
            tensor = entry.as_used(tensor)
            tensor.__dict__["whole_of"] = entry
            entry.show(tensor)

    def whole_parameters(self, with_grads: bool) -> list[Parameter]:
        """Copies of the whole parameters, in their own dtypes, for ``show_whole``.

        Args:
            with_grads: whether they have the whole gradients.
        """
        if any(entry.inner is not None for entry in self.entries):
            raise NotImplementedError(
                f"parameters of {self.name} that tensor parallelism divides, too, are not shown as "
                "whole ones: full_tensor() gives their values"
            )
        self.reshard()
        rows = [raw(unwrap(entry.rows)) for entry in self.entries]
        found = []
        with no_grad():
            for entry, node in zip(
                self.entries, gather_rows(rows, [entry.division for entry in self.entries])
            ):
                pending.realize_nodes([node])
                whole = Parameter(wrap(node).clone(), entry.parameter.requires_grad)
                grad: Any = entry.parameter.grad
                if with_grads and grad is not None:
                    whole.grad = grad.full_tensor()
                whole.__dict__["whole_of"] = entry
                found.append(whole)
        return found

    def show_whole(self, whole: Sequence[Parameter]) -> None:
        """Lets the modules have what ``whole_parameters`` gave, until ``reshard``."""
        for entry, tensor in zip(self.entries, whole):
            entry.show(tensor)

    def write_back(self, whole: Sequence[Parameter], with_grads: bool) -> None:
        """Gives the parameters this rank's rows of whole ones."""
        with no_grad():
            for entry, tensor in zip(self.entries, whole):
                entry.rows.copy_(wrap(own_rows(raw(unwrap(tensor)), entry.division)))
                grad: Any = entry.parameter.grad
                if with_grads and grad is not None and tensor.grad is not None:
                    own = own_rows(raw(unwrap(tensor.grad)), entry.division)
                    grad.to_local().copy_(wrap(own))

    def forget_calls(self) -> None:
        """Forwards that have raised are over, and so are backwards that never came."""
        self._calls, self._open = [], 0

    # ------------------------------------------------------------------ forward

    def before_forward(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Gathers the parameters. Returns the module's arguments, behind what takes their
        gradients."""
        args, kwargs = self._cast_inputs(args, kwargs)
        if capturing() is not None:
            self._show_captured()
            return args, kwargs
        gathered = self.gathered()
        gathered.finish()
        context = self.context
        assert context is not None
        following = context.note(gathered)
        ahead = self.prefetch_forward or ([] if following is None else [following])
        for unit in ahead:
            if unit is not self:
                unit.gathered().start()
        flat, tree = flatten((args, kwargs))
        learned = [i for i, e in enumerate(self.entries) if e.parameter.requires_grad]
        moving = [i for i, t in enumerate(flat) if isinstance(t, Tensor) and t.requires_grad]
        if not is_grad_enabled() or not (learned or moving):
            self._show(gathered, {})
            self._calls.append(_Call(gathered, {}))
            return args, kwargs
        inputs = [flat[i] for i in moving]
        shards = [self.entries[i].parameter for i in learned]
        found = _Enter.apply(gathered, learned, len(inputs), *inputs, *shards)
        for place, tensor in zip(moving, found):
            flat[place] = tensor
        whole = dict(zip(learned, found[len(moving) :]))
        for tensor in whole.values():
            gathered.note(tensor.node)
        self._show(gathered, whole)
        self._calls.append(_Call(gathered, whole))
        self._open += 1
        changed: tuple[Any, Any] = unflatten(flat, tree)
        return changed

    def _cast_inputs(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        dtype = self.policy.param_dtype
        if dtype is None or not self.policy.cast_forward_inputs:
            return args, kwargs
        return _cast_tensors((args, kwargs), dtype)  # type: ignore[no-any-return]

    def _show_captured(self) -> None:
        """In a capture the whole parameters are part of its graph, and so is the reduction of
        their gradients."""
        if not self.reduces or self._held:
            looks(f"gradients of {self.name} are added up on this rank, over several backwards")
        assert self.context is not None
        self.reshard()
        self._current = None  # replays change what it comes from, and do not come here
        self.context.forget(self)
        for entry in self.entries:
            entry.refresh()
        rows = [raw(unwrap(entry.rows)) for entry in self.entries]
        dtype = self.policy.param_dtype
        if dtype is not None:
            rows = [ops.cast(r, dtype) if r.dtype.kind == "f" else r for r in rows]
        number = 1 + self.context.units.index(self) if _frees(self) else 0
        nodes = gather_rows(rows, [entry.division for entry in self.entries], number)
        learned = [i for i, e in enumerate(self.entries) if e.parameter.requires_grad]
        whole = dict(enumerate(map(wrap, nodes)))
        if is_grad_enabled() and learned:
            shards = [self.entries[i].parameter for i in learned]
            whole.update(zip(learned, _Whole.apply(self, learned, nodes, *shards)))
            self._open += 1
        for number, entry in enumerate(self.entries):
            tensor = entry.as_used(whole[number])
            tensor.__dict__["whole_of"] = entry
            entry.show(tensor)

    def after_forward(self, result: Any) -> Any:
        """Computes a module's result, gives the whole parameters back, and returns the result
        behind what brings them again."""
        if self.policy.output_dtype is not None:
            result = _cast_tensors(result, self.policy.output_dtype)
        if capturing() is not None:
            for entry in self.entries:
                entry.show(entry.parameter)
            return result
        call = self._calls.pop()
        flat, tree = flatten(result)
        tensors = [t for t in flat if isinstance(t, Tensor)]
        if _frees(self):
            pending.realize_nodes([t.node for t in tensors])
            self.reshard()
        moving = [i for i, t in enumerate(flat) if isinstance(t, Tensor) and t.requires_grad]
        if not is_grad_enabled() or not moving:
            return result
        for place, tensor in zip(moving, _Leave.apply(call, *[flat[i] for i in moving])):
            flat[place] = tensor
        return unflatten(flat, tree)

    # ------------------------------------------------------------------ backward

    def before_backward(self, call: _Call) -> None:
        """Backward has come to a call: its parameters have to be whole, also for what is computed
        again."""
        gathered = call.gathered
        gathered.finish()
        self._show(gathered, call.whole())
        context = self.context
        assert context is not None
        if self.prefetch_backward is not None:
            for unit in self.prefetch_backward:
                unit.gathered().start()
            return
        before = context.before(gathered)
        if before is not None:
            before.start()

    def reduce(
        self,
        gathered: Gathered | None,
        numbers: list[int],
        inputs: Sequence[Any],
        grads: Sequence[Any],
    ) -> list[Tensor | None]:
        """The gradients of this rank's rows, from those of whole parameters, whose memory is given
        back once what depends on it is computed.

        Args:
            gathered: the whole parameters; None where they are part of a captured graph.
            numbers: which parameters the gradients are of.
            inputs: gradients that go on to what is before the module.
        """
        self._open = max(0, self._open - 1)
        values = {
            n: self._reduced_dtype(raw(unwrap(g))) for n, g in zip(numbers, grads) if g is not None
        }
        onward = [raw(unwrap(g)) for g in inputs if g is not None]
        share = running_share()
        found: dict[int, Node] = {}
        if share is not None:
            self._check_ranks(share)
            if share.counts:
                self._exact.add(values)
            else:
                _compute([*onward, *values.values()])
            if not self._open and share.counts:
                self._end_share(share, onward)
        elif not self.reduces:
            for number, node in values.items():
                self._hold(number, node)
            _compute([*onward, *[self._held[n] for n in values]])
        else:
            for number in list(self._held):
                held = self._held.pop(number)
                values[number] = (
                    ops.apply("add", held, values[number]) if number in values else held
                )
            if self.reduces_unused:
                for n in numbers:
                    if n not in values:
                        values[n] = self._zeros(n)
            found = self._scatter(values, onward)
        if self.reshard_after_backward and gathered is not None:
            pending.realize_nodes(onward)
            if gathered is self._current:
                self.reshard()
            else:
                gathered.free()
        return [wrap(self.entries[n].whole(found[n])) if n in found else None for n in numbers]

    def _hold(self, number: int, node: Node) -> None:
        before = self._held.get(number)
        self._held[number] = node if before is None else ops.apply("add", before, node)

    def _zeros(self, number: int) -> Node:
        entry = self.entries[number]
        dtype = self.policy.reduce_dtype or self.policy.param_dtype or entry.parameter.dtype
        zeros = ops.broadcast_to(ops.constant(0, dtype), entry.division.shape)
        return ops.put(zeros, place_of(unwrap(entry.parameter).form))

    def _reduced_dtype(self, node: Node) -> Node:
        dtype = self.policy.reduce_dtype
        return node if dtype is None or node.dtype is dtype else ops.cast(node, dtype)

    def _scatter(self, values: dict[int, Node], onward: Sequence[Node]) -> dict[int, Node]:
        """Starts the average over ranks of gradients, of which each rank gets its rows."""
        numbers = sorted(values)
        # In one plan, before any is sent.
        _compute([*onward, *[values[n] for n in numbers]])
        count = self.ranks.size * (1 if self.replicas is None else self.replicas.size)
        reduction = "avg" if self.factor is None and self.replicas is None else "sum"
        divisions = [self.entries[n].division for n in numbers]
        parts = scatter_rows([[values[n]] for n in numbers], divisions, self.ranks.size, reduction)
        if self.replicas is not None and self.reduces_replicas:
            parts = [sums.all_reduce(part, self.replicas) for part in parts]
        if self.all_reduce_hook is not None:
            for part in parts:
                self.all_reduce_hook(wrap(part))
        if reduction == "sum":
            factor = float(count) if self.factor is None else self.factor
            parts = [
                ops.apply("div", p, ops.broadcast_to(ops.constant(factor, p.dtype), p.shape))
                for p in parts
            ]
        return self._given(numbers, parts)

    def _given(self, numbers: list[int], parts: Sequence[Node]) -> dict[int, Node]:
        """Reduced gradients in the dtypes of their parameters; they may be under way."""
        found = {}
        for number, part in zip(numbers, parts):
            dtype = self.entries[number].parameter.dtype
            found[number] = part if part.dtype is dtype else ops.cast(part, dtype)
        if capturing() is None:
            running.advance(planning.realize)
            assert self.context is not None
            self.context.take(list(found.values()))
        return found

    # ------------------------------------------------------------------ shares

    def _check_ranks(self, share: Share) -> None:
        if any(entry.inner is not None for entry in self.entries):
            raise LazytError(
                f"Shares cannot add up gradients of {self.name}, which tensor parallelism divides"
            )
        if self.replicas is None:
            alone = share.ranks.size == self.ranks.size == 1
            same = alone or share.ranks == self.ranks
        else:
            mesh = mesh_of(self.entries[0].layout).mesh.reshape(-1).tolist()
            same = sorted(mesh) == sorted(get_process_group_ranks(group_named(share.ranks.group)))
        if not same:
            raise LazytError(
                f"the shares are divided among the {share.ranks.size} ranks of group "
                f"{share.ranks.group!r}, and {self.name} among the {self.ranks.size} of "
                f"{self.ranks.group!r}: give Shares and fully_shard the same ranks"
            )

    def end_share(self, share: Share) -> None:
        """The backward of a share is over; with the last one gradients are reduced, unless they
        were."""
        self._check_ranks(share)
        self._open = 0
        if share.counts and not self._exact.has_ended(share.number):
            self._end_share(share, ())

    def _end_share(self, share: Share, onward: Sequence[Node]) -> None:
        learned = [i for i, e in enumerate(self.entries) if e.parameter.requires_grad]
        values = [self._exact.current.get(n) for n in learned]
        leaf = [self._zeros(n) if v is None else v for n, v in zip(learned, values)]
        found = self._exact.push(share.number, leaf)
        _compute([*onward, *[node for nodes in found for node in nodes]])
        if not share.is_last:
            return
        subtrees = self._exact.take()
        divisions = [self.entries[n].division for n in learned]
        wholes = [[nodes[i] for nodes in subtrees] for i in range(len(learned))]
        if not learned:
            parts = []
        elif self.replicas is None:
            parts = scatter_rows(wholes, divisions, share.among, "avg")
        else:  # one tree over the shares of all ranks of the mesh
            every = [Division(d.shape, share.ranks) for d in divisions]
            whole = gather_rows(scatter_rows(wholes, every, share.among, "avg"), every)
            parts = [own_rows(node, d) for node, d in zip(whole, divisions)]
        self._exact.result = self._given(learned, parts)

    def take_shares(self) -> list[tuple[Tensor, Tensor]]:
        """The parameters with the gradients of all shares."""
        found, self._exact.result = self._exact.result, {}
        self._exact = Subtrees()
        entries = [(self.entries[n], node) for n, node in found.items()]
        return [
            (entry.parameter, over(wrap(node), entry.layout, entry.shape))
            for entry, node in entries
        ]


def _frees(unit: Unit) -> bool:
    """Whether the whole parameters are given back after the forward."""
    return not unit.is_root if unit.reshard_after_forward is None else unit.reshard_after_forward


def _compute(nodes: Sequence[Node]) -> None:
    """Computes nodes; in a capture they are part of its graph."""
    if capturing() is None:
        pending.realize_nodes(nodes)


def _cast_tensors(value: Any, dtype: Any) -> Any:
    """Floating-point tensors in a structure in another dtype."""
    flat, tree = flatten(value)
    flat = [t.to(dtype) if isinstance(t, Tensor) and t.dtype.kind == "f" else t for t in flat]
    return unflatten(flat, tree)
