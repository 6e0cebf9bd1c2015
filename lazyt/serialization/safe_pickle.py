"""Reading pickles without running them.

A pickle is a program for a stack machine, and Python's own machine lets it call anything. This one
executes only what builds plain values: it imports nothing, calls only the functions that it was
given for the names in the pickle, and sets attributes on nothing but objects of classes that the
user allowed. The instructions are those of CPython's ``pickletools``.

A small pickle can ask for much: every byte for an object, and tuples that hold each other twice for
years of hashing. So instructions are counted, and what is hashed, or handed to a function, may
neither nest deeply nor unfold to much.
"""

from __future__ import annotations

import itertools
import pickletools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lazyt.errors import CheckpointError

_MARK = object()
_VALUES = frozenset(
    (
        "INT", "LONG", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
        "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
        "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
    )
)  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
#: Instructions of a pickle: the largest models have some hundred thousand.
MOST_INSTRUCTIONS = 50_000_000
#: How deeply what is hashed or handed to a function may nest, and how many values may be in it.
_DEEPEST, _MOST_VALUES = 100, 5_000_000
_NESTING = (tuple, list, dict, set, frozenset)


class Called:
    """What a global name stands for when it may be called.

    Attributes:
        function: takes the arguments that the pickle gives.
        takes_functions: whether there may be other ``Called`` among them.
    """

    __slots__ = ("function", "takes_functions")

    def __init__(self, function: Callable[..., Any], takes_functions: bool = False) -> None:
        self.function = function
        self.takes_functions = takes_functions


class Allowed(Called):
    """A class or function that the user allowed: it may be a value, and objects of a class may be
    made and given their attributes."""

    __slots__ = ()


class Machine:
    """The stack machine.

    Args:
        find: what a global name stands for: a value, ``Called`` or ``Allowed``; raises
            CheckpointError for names that are not known.
        load: turns a persistent id into a value.
    """

    def __init__(self, find: Callable[[str, str], Any], load: Callable[[Any], Any]) -> None:
        self._find = find
        self._load = load
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._users: dict[int, Any] = {}

    def run(self, text: bytes) -> Any:
        """The value that the pickle ``text`` describes.

        Raises CheckpointError for instructions and names that are not allowed, and for text that is
        no pickle.
        """
        left = MOST_INSTRUCTIONS
        try:
            for instruction, argument, _ in pickletools.genops(text):
                left -= 1
                if left < 0:
                    raise CheckpointError(
                        f"the pickle inside has more than {MOST_INSTRUCTIONS} instructions"
                    )
                if instruction.name == "STOP":
                    return self._finish()
                self._step(instruction.name, argument)
        except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(
                f"the pickle inside is damaged: {type(error).__name__}: {error}"
            ) from error
        except (RecursionError, MemoryError, OverflowError) as error:
            raise CheckpointError(
                f"the pickle inside asks for too much: {type(error).__name__}: {error}"
            ) from error
        raise CheckpointError("the pickle inside ends too early")

    def _finish(self) -> Any:
        if len(self._stack) != 1 or type(self._stack[0]) is Called:
            raise CheckpointError("the pickle inside is damaged: it leaves no single value")
        return _as_value(self._stack[0])

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack[-count:] = [tuple(self._plain(stack[-count:], count))]
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self._memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self._memo[int(argument)])
        elif name not in ("PROTO", "FRAME"):
            act = _ACTIONS.get(name)
            if act is None:
                raise CheckpointError(f"the pickle inside uses {name}, which is not allowed")
            act(self, argument)

    def _plain(self, values: list[Any], count: int | None = None) -> list[Any]:
        """``values``, which must be values and not names of functions."""
        if count is not None and len(values) != count:
            raise IndexError("the stack is too short")
        if any(value is _MARK for value in values):
            raise IndexError("a mark is in the way")
        return values

    def _values(self, values: list[Any]) -> list[Any]:
        """What goes into containers: no functions, which only stand among arguments, but those that
        the user allowed."""
        if not any(isinstance(value, (Called, tuple)) for value in values):
            return values
        return [_as_value(value) for value in values]

    def _pop(self) -> Any:
        return self._plain([self._stack.pop()])[0]

    def _items(self) -> list[Any]:
        """Everything above the topmost mark; mark and items are taken off."""
        stack = self._stack
        for place in range(len(stack) - 1, -1, -1):
            if stack[place] is _MARK:
                items = stack[place + 1 :]
                del stack[place:]
                return self._plain(items)
        raise IndexError("there is no mark")

    # ------------------------------------------------------------------ containers

    def _mark(self, argument: Any) -> None:
        self._stack.append(_MARK)

    def _tuple(self, argument: Any) -> None:
        self._stack.append(tuple(self._items()))

    def _list(self, argument: Any) -> None:
        self._stack.append(self._values(self._items()))

    def _dict(self, argument: Any) -> None:
        items = self._values(self._items())
        _require_bounded(items[::2])
        self._stack.append(dict(zip(items[::2], items[1::2], strict=True)))

    def _frozenset(self, argument: Any) -> None:
        items = self._values(self._items())
        _require_bounded(items)
        self._stack.append(frozenset(items))

    def _append(self, argument: Any) -> None:
        item = self._pop()
        self._extend([item])

    def _appends(self, argument: Any) -> None:
        self._extend(self._items())

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, list):
            raise TypeError(f"items are appended to a {type(target).__name__}")
        list.extend(target, self._values(items))

    def _add_items(self, argument: Any) -> None:
        items = self._items()
        target = self._stack[-1]
        if not isinstance(target, set):
            raise TypeError(f"items are added to a {type(target).__name__}")
        _require_bounded(items)
        set.update(target, self._values(items))

    def _set_item(self, argument: Any) -> None:
        value, key = self._pop(), self._pop()
        self._update([key, value])

    def _set_items(self, argument: Any) -> None:
        self._update(self._items())

    def _update(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, (dict, OrderedDict)):
            raise TypeError(f"items are set in a {type(target).__name__}")
        items = self._values(items)
        _require_bounded(items[::2])
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[key] = value

    def _drop(self, argument: Any) -> None:
        self._stack.pop()

    def _drop_marked(self, argument: Any) -> None:
        self._items()

    def _duplicate(self, argument: Any) -> None:
        self._stack.append(self._stack[-1])

    # ------------------------------------------------------------------ names and objects

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._stack.append(self._find(module, name))

    def _stack_global(self, argument: Any) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise TypeError("a global is named by something that is no text")
        self._stack.append(self._find(module, name))

    def _persistent(self, argument: Any) -> None:
        name = self._pop()
        _require_bounded([name])
        self._stack.append(self._load(name))

    def _reduce(self, argument: Any) -> None:
        arguments, called = self._pop(), self._stack.pop()
        if not isinstance(called, Called) or not isinstance(arguments, tuple):
            raise CheckpointError(f"the pickle inside calls a {type(called).__name__}")
        if not called.takes_functions:
            arguments = tuple(self._values([*arguments]))
        _require_bounded(arguments)
        self._made(called, called.function(*arguments))

    def _new_object(self, argument: Any) -> None:
        arguments, kind = self._pop(), self._stack.pop()
        if not isinstance(kind, Allowed) or not isinstance(arguments, tuple):
            raise CheckpointError("the pickle inside makes an object of what is no allowed class")
        function: Any = kind.function
        _require_bounded(arguments)
        self._made(kind, function.__new__(function, *arguments))

    def _made(self, called: Called, value: Any) -> None:
        if isinstance(called, Allowed):
            self._users[id(value)] = value
        self._stack.append(value)

    def _build(self, argument: Any) -> None:
        state = self._pop()
        target = self._stack[-1]
        if self._users.get(id(target)) is target:
            _restore(target, state)
        elif isinstance(target, OrderedDict) and isinstance(state, dict):
            # Ordinary attributes of a dictionary, such as the versions in a state_dict.
            target.__dict__.update(state)
        else:
            raise CheckpointError(f"the pickle inside sets attributes of a {type(target).__name__}")


def _as_value(value: Any) -> Any:
    """``value``, or what the user allowed in the place of its name, also in a tuple of such.

    Raises CheckpointError for the name of anything else.
    """
    if isinstance(value, Allowed):
        return value.function
    if isinstance(value, Called):
        raise CheckpointError("the pickle inside holds a function or class as a value")
    if type(value) is tuple and any(isinstance(part, Called) for part in value):
        return tuple([part if isinstance(part, tuple) else _as_value(part) for part in value])
    return value


def _require_bounded(values: Sequence[Any]) -> None:
    """Raises CheckpointError for values that nest too deeply, or unfold to too much."""
    level = [value for value in values if isinstance(value, _NESTING)]
    count = depth = 0
    while level:
        count += sum(map(len, level))
        depth += 1
        if depth > _DEEPEST or count > _MOST_VALUES:
            raise CheckpointError("the pickle inside holds values that nest too deeply")
        parts = itertools.chain.from_iterable(
            itertools.chain(value, value.values()) if isinstance(value, dict) else value
            for value in level
        )
        level = [part for part in parts if isinstance(part, _NESTING)]


def _restore(target: Any, state: Any) -> None:
    """Give an object of a class that the user allowed its attributes, as pickle does."""
    restore = getattr(target, "__setstate__", None)
    if restore is not None:
        restore(state)
        return
    slots: Mapping[str, Any] = {}
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        target.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(target, name, value)


_ACTIONS: dict[str, Callable[[Machine, Any], None]] = {
    "MARK": Machine._mark, "TUPLE": Machine._tuple, "LIST": Machine._list, "DICT": Machine._dict,
    "FROZENSET": Machine._frozenset, "APPEND": Machine._append, "APPENDS": Machine._appends,
    "ADDITEMS": Machine._add_items, "SETITEM": Machine._set_item, "SETITEMS": Machine._set_items,
    "POP": Machine._drop, "POP_MARK": Machine._drop_marked, "DUP": Machine._duplicate,
    "GLOBAL": Machine._global, "STACK_GLOBAL": Machine._stack_global,
    "BINPERSID": Machine._persistent, "REDUCE": Machine._reduce, "NEWOBJ": Machine._new_object,
    "BUILD": Machine._build,
}  # fmt: skip
