"""Lists and dicts that refuse changes: the containers among the arguments of nodes.

A node counts who uses it when its arguments are assigned, so that a list that somebody changes
afterwards would leave the counts wrong. Both print and compare as the classes that they derive
from.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["immutable_dict", "immutable_list"]

_ADVICE = (
    "If you are attempting to modify the kwargs or args of a torch.fx.Node object,\n"
    "instead create a new copy of it and assign the copy to the node:\n\n"
    "    new_args = ...  # copy and mutate args\n"
    "    node.args = new_args"
)


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(f"{type(self).__name__!r} object does not support mutation. {_ADVICE}")


class immutable_list(list[Any]):
    """A list that raises TypeError where it would be changed, and can be hashed.

    >>> lazyt.fx.immutable_collections.immutable_list([1, 2])
    [1, 2]
    """

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dict that raises TypeError where it would be changed, and can be hashed."""

    __delitem__ = __ior__ = __setitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self.items()),)
