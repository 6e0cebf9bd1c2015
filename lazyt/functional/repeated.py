"""Compositions of nodes that are noted: the same ops on other values, without asking why again.

A composite function decides, from shapes, dtypes and settings, which ops it is made of. In a loop
the answer is the same at every step, so it is noted once and carried out from then on. It is what
``transforms.derivations`` does for gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.ir.graph import Node
from lazyt.transforms.derivations import Derivation, note

_MOST = 2048


def repeated(build: Callable[..., Node]) -> Callable[..., Node]:
    """Decorator: note what ``build`` makes of nodes of given types with given settings.

    ``build`` takes nodes, None, and hashable settings, all by position, and gives one node. It must
    not look at more of the nodes than shape and dtype, nor make leaves.
    """
    known: dict[tuple[Any, ...], Derivation] = {}

    @functools.wraps(build)
    def composed(*args: Any) -> Node:
        numbers: dict[Node, int] = {}
        key: list[Any] = []
        for item in args:
            if isinstance(item, Node):
                number = numbers.get(item)
                if number is None:
                    number = numbers[item] = len(numbers)
                key += (Node, item.form, number)
            else:
                key.append(item)
        whole = tuple(key)
        found = known.get(whole)
        if found is None:
            found = _noted(build, args, numbers)
            if len(known) >= _MOST:
                known.clear()
            known[whole] = found
        (result,) = found.apply(numbers)
        assert result is not None
        return result

    return composed


def _noted(
    build: Callable[..., Node], args: tuple[Any, ...], numbers: dict[Node, int]
) -> Derivation:
    """How ``build`` makes its result, found on leaves that equal nothing else."""
    fresh = {node: ops.input_(node.shape, node.dtype) for node in numbers}
    made = build(*[fresh[item] if isinstance(item, Node) else item for item in args])
    found = note({fresh[node]: number for node, number in numbers.items()}, [made])
    assert found is not None, f"{build.__name__} makes leaves of its own"
    return found
