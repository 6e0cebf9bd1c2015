"""Parts of a watched run: what a replay has to know of it, or why there can be none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lazyt.capture import Recorder, Run, leaf_of
from lazyt.ir.graph import Node
from lazyt.overlap import one_memory
from lazyt.places import signature
from lazyt.storage import Storage
from lazyt.tape import AccumulateGrad, GradFn
from lazyt.templates import CannotReplay, Origin
from lazyt.tensor import Tensor


def refuse_changed(run: Run, given: Sequence[Tensor]) -> None:
    """Raises CannotReplay where a tensor that was there before looks otherwise afterwards."""
    for tensor, looks in zip(given, run.looks, strict=True):
        if signature(tensor) != looks or id(tensor._storage) not in run.recorder.known:
            raise CannotReplay("it changes what a tensor from outside is, not only its values")


def refuse_wholes(run: Run, parts: Sequence[Storage]) -> None:
    """Raises CannotReplay where the user's code can reach the whole of a part by names that it
    mentions: it may take the very part that an argument is, which is another at another call."""
    names = run.guards.mentioned
    any_name = bool(names & {"getattr", "vars", "__dict__"})
    for place in run.guards.tensors if parts else ():
        if any_name or all(n in names for n in re.findall(r"\.([a-zA-Z]\w*)", place.path)):
            found = place.tensor
            if found is not None and any(one_memory(found._storage, part) for part in parts):
                raise CannotReplay(
                    f"it can read {place.path}, which shares memory with an argument that is a "
                    "part of a tensor; give it a clone()"
                )


def lives(storage: Storage) -> bool:
    """Whether gradients can go on from a result."""
    if isinstance(storage.fn, AccumulateGrad):
        raise CannotReplay("it makes a new tensor that requires a gradient")
    return storage.fn is not None and not storage.fn.dead


def saved_by(
    fn: GradFn | None, recorder: Recorder, fresh: Sequence[Storage]
) -> list[tuple[bool, int, int]]:
    """What the gradient of a result needs unchanged: whether it was there before, its number, and
    its version, counted from the start of the function."""
    found: dict[tuple[bool, int, int], None] = {}
    seen: set[GradFn] = set()
    stack = [fn]
    while stack:
        item = stack.pop()
        if item is None or item in seen:
            continue
        seen.add(item)
        if item.rule == "x":
            raise CannotReplay(f"there is no gradient of {item.name()}")
        stack.extend(item.parents)
        for storage, version in item.saved:
            number = recorder.known.get(id(storage))
            if number is not None and version >= recorder.versions[number]:
                found[True, number, version - recorder.versions[number]] = None
            elif storage in fresh:
                found[False, fresh.index(storage), version] = None
    return list(found)


def written_by(run: Run) -> list[int]:
    """The sources that the function wrote to."""
    found = []
    before = {number: leaf for leaf, number in run.recorder.leaves.items()}
    for number, storage in enumerate(run.recorder.storages):
        if number in before and leaf_of(storage) is not before[number]:
            if storage.fn is not None and not isinstance(storage.fn, AccumulateGrad):
                raise CannotReplay("it makes a tensor from outside part of a graph")
            found.append(number)
    return found


def origins_of(run: Run) -> dict[Node, Origin]:
    """Where the leaves that are no constants come from."""
    found: dict[Node, Origin] = {
        leaf: ("source", number) for leaf, number in run.recorder.leaves.items()
    }
    filled = [node for _, node in run.recorder.calls if node is not None]
    found.update({node: ("call", number) for number, node in enumerate(filled)})
    return found
