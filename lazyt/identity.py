"""Objects as parts of keys: compared by identity, also after they are gone.

An address says which object is meant only while that object lives; the next one may get the same
address. Whatever outlives the objects that it was made from names them by an ``Identity``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


class Identity:
    """Stands for one object: equal to another Identity of the very same, living object only.

    Refers to the object weakly where its class allows that, so that keys keep nothing alive.

    Example::

        >>> from lazyt.identity import Identity
        >>> a, b = {1}, {1}
        >>> Identity(a) == Identity(a), Identity(a) == Identity(b)
        (True, False)
    """

    __slots__ = ("_hash", "_refer")

    _refer: Callable[[], Any]

    def __init__(self, value: Any, strong: bool = False) -> None:
        """
        Args:
            value: the object.
            strong: whether it is kept alive.
        """
        self._hash = hash(id(value))
        if strong:
            self._refer = lambda: value
            return
        try:
            self._refer = weakref.ref(value)
        except TypeError:
            self._refer = lambda: value

    @property
    def value(self) -> Any:
        """The object; None once it is gone."""
        return self._refer()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not Identity:
            return NotImplemented
        value = self._refer()
        return value is not None and value is other._refer()

    def __repr__(self) -> str:
        value = self._refer()
        return "<a freed object>" if value is None else f"<one {type(value).__name__}>"
