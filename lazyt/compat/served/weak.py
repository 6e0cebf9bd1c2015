"""``torch.utils.weak``: references and dictionaries that tell objects apart by identity, as tensors
compare element by element."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from lazyt.handle.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference whose hash is its object's identity, and that equals others to it."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakIdRef):
            return NotImplemented
        mine, theirs = self(), other()
        if mine is not None and theirs is not None:
            return mine is theirs
        return self is other

    def __ne__(self, other: object) -> bool:  # the base's compares the objects
        return not self == other


class TensorWeakRef:
    """A weak reference to a tensor. Raises TypeError for other objects."""

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"a tensor is needed, not {type(tensor).__name__}")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        """The tensor, or None once it is gone."""
        return self.ref()


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary whose keys are told apart by identity, and whose entries go with their keys.

    Args:
        dict: entries to begin with.
        ref_type: the class of references to keys.
    """

    def __init__(self, dict: Any = None, ref_type: type[WeakIdRef] = WeakIdRef) -> None:
        self.data: dict_type[WeakIdRef, Any] = {}
        self.ref_type = ref_type
        own = weakref.ref(self)

        def remove(gone: Any) -> None:
            found = own()
            if found is not None:
                found.data.pop(gone, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __getitem__(self, key: Any) -> Any:
        try:
            return self.data[self.ref_type(key)]
        except KeyError:
            raise KeyError(key) from None

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __iter__(self) -> Iterator[Any]:
        for ref in list(self.data):
            key = ref()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]

    def keyrefs(self) -> list[WeakIdRef]:
        """References to the keys."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Another one with the same entries."""
        return type(self)(self, self.ref_type)

    __copy__ = copy

    def __or__(self, other: Any) -> WeakIdKeyDictionary:
        if not isinstance(other, Mapping):
            return NotImplemented
        made = self.copy()
        made.update(other)
        return made

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self


dict_type = dict
WeakTensorKeyDictionary = WeakIdKeyDictionary
