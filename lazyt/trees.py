"""Nested lists, tuples and dicts: their leaves, their shapes, and what holds them."""

from __future__ import annotations

from typing import Any


class Tree:
    """Nested lists, tuples and dicts taken apart into leaves and a shape."""

    @staticmethod
    def flatten(value: Any, leaves: list[Any]) -> Any:
        """The shape; appends the leaves."""
        kind = type(value)
        if kind in (tuple, list):
            return (kind, tuple([Tree.flatten(v, leaves) for v in value]))
        if kind is dict:
            return (kind, tuple([(k, Tree.flatten(v, leaves)) for k, v in value.items()]))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return (kind, tuple([Tree.flatten(v, leaves) for v in value]))
        leaves.append(value)
        return None

    @staticmethod
    def containers(value: Any) -> set[int]:
        """Identities of the lists and dicts in a value."""
        found: set[int] = set()
        stack = [value]
        while stack:
            item = stack.pop()
            if type(item) in (list, dict):
                found.add(id(item))
            if isinstance(item, (list, tuple)):
                stack.extend(item)
            elif type(item) is dict:
                stack.extend(item.values())
        return found

    @staticmethod
    def build(shape: Any, leaves: Any) -> Any:
        """The value of this shape with the next of ``leaves``, an iterator."""
        if shape is None:
            return next(leaves)
        kind, parts = shape
        if kind is dict:
            return {key: Tree.build(part, leaves) for key, part in parts}
        items = [Tree.build(part, leaves) for part in parts]
        if kind in (tuple, list):
            return kind(items)
        return kind(*items)
