"""What results of a captured function have of each other's tapes: a replay makes their grad_fns
anew, and a backward through one result must free what another one needs, as without ``jit``.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.storage import Storage
from lazyt.tape import AccumulateGrad, GradFn, record_view

#: The name of a grad_fn that saved values, and the numbers of the results that depend on it.
Part = tuple[str, tuple[int, ...]]


def parts_of(results: Sequence[Storage], sources: Sequence[Storage]) -> list[Part]:
    """One part for all grad_fns that saved values below the same results.

    ``sources``: what was there before, whose grad_fns stay their own.
    """
    outside = {storage.fn for storage in sources if storage.fn is not None}
    users: dict[GradFn, list[int]] = {}
    for number, storage in enumerate(results):
        seen: set[GradFn] = set(outside)
        stack = [storage.fn]
        while stack:
            fn = stack.pop()
            if fn is None or fn in seen or isinstance(fn, AccumulateGrad):
                continue
            seen.add(fn)
            stack.extend(fn.parents)
            if fn.rule and fn.rule != "o":
                users.setdefault(fn, []).append(number)
    found: dict[tuple[int, ...], str] = {}
    for fn, numbers in users.items():
        if (results[numbers[0]].fn, len(numbers)) != (fn, 1):  # a result's own stands for itself
            found.setdefault(tuple(numbers), type(fn).__name__)
    return [(name, numbers) for numbers, name in found.items()]


def has_hooks(fns: Sequence[GradFn | None], sources: Sequence[Storage]) -> bool:
    """Whether hooks or retained gradients stand between grad_fns and ``sources``."""
    seen: set[GradFn] = {storage.fn for storage in sources if storage.fn is not None}
    stack = [*fns]
    while stack:
        fn = stack.pop()
        if fn is None or fn in seen or isinstance(fn, AccumulateGrad):
            continue
        if fn._extra is not None and fn._extra.interferes:
            return True
        seen.add(fn)
        stack.extend(fn.parents)
    return False


def join_parts(parts: Sequence[Part], fns: Sequence[GradFn | None]) -> None:
    """Let the grad_fns of results have their parts."""
    for name, numbers in parts:
        users = [fn for fn in (fns[n] for n in numbers) if fn is not None]
        below = dict.fromkeys(p for fn in users for p in fn.parents if p is not None)
        if users and below:
            part = record_view(name, next(iter(below)))
            part.parents = tuple(below)
            for fn in users:
                fn.parents = (*fn.parents, part)
