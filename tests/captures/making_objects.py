"""Random programs that call a function several times on objects that change in between.

A program is text: statements that make what the function holds, the function, and for every call
the statements before it. It runs twice, with the function as it is and captured by ``lazyt.jit``,
and everything that can be seen has to be the same.
"""

from __future__ import annotations

import contextlib
import gc
import random
import struct
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import lazyt as lt
from tests.captures import kinds as K

_COMBINED = {1: ("r0 * 2", "r0 + 1", "-r0"), 2: ("r0 + r1", "r0 * r1 - 1", "r1 - r0 * 2"),
             3: ("r0 + r1 * r2", "r0 * r1 + r2")}  # fmt: skip
_RESULTS = (
    "y", "y", "y", "(y, y * 2)", "{{'out': y}}", "[y, [y]]", "K.Batch(y)", "K.Frozen(y)",
    "K.OrderedDict(b=y, a=y + 1)", "K.Output(a=y)", "K.Point(y, 1)", "K.Pair(y, y + 1)",
    "K.deque([y], 3)", "y.reshape(1, 3).max(0)", "(y, {h})", "K.Plain(y)", "None", "(lambda: y)",
)  # fmt: skip
_PLACES = ("argument", "argument", "argument", "keyword", "global", "closure", "owner", "in a list")


class Held(NamedTuple):
    """One object of a program.

    Attributes:
        name: of the variable that holds it.
        kind: its kind, by name.
        place: how the function reaches it.
    """

    name: str
    kind: str
    place: str

    @property
    def outside(self) -> str:
        """The expression for it between calls."""
        return f"{self.name}_owner.h" if self.place == "owner" else self.name

    @property
    def inside(self) -> str:
        """The expression for it in the function."""
        if self.place == "owner":
            return f"{self.name}_owner.h"
        return f"{self.name}_list[0]" if self.place == "in a list" else self.name

    @property
    def parameter(self) -> str | None:
        """Its parameter of the function, if it has one."""
        if self.place in ("global", "closure"):
            return None
        return {"owner": f"{self.name}_owner", "in a list": f"{self.name}_list"}.get(
            self.place, self.name
        )

    @property
    def given(self) -> str:
        """What a call gives for its parameter."""
        if self.place == "in a list":
            return f"[{self.name}]"
        return f"{self.name}_owner" if self.place == "owner" else self.name


class Program(NamedTuple):
    """A program's text.

    Attributes:
        seed: what it was made from.
        start: statements that make what there is.
        function: the text of the function ``function``.
        calls: for each call the statements before it, and its expression.
        late: whether results are looked at after all calls only.
    """

    seed: int
    start: list[str]
    function: str
    calls: list[tuple[list[str], str]]
    late: bool

    def __str__(self) -> str:
        lines = [*self.start, *self.function.split("\n")]
        for before, call in self.calls:
            lines += [*before, f"results.append({call})"]
        return "\n".join(lines)


def make_program(seed: int, simple: bool = False) -> Program:
    """The program of a seed; a ``simple`` one has few graphs in common with all other such."""
    chance = random.Random(f"objects {seed}")
    count = 1 if simple else chance.choice((1, 1, 2, 2, 3))
    names = list(K.KINDS)
    held = [
        Held(f"h{n}", chance.choice(names), chance.choice(_PLACES)) for n in range(count)
    ]  # fmt: skip
    start = []
    for item in held:
        start.append(_made(item, chance))
        if item.place == "owner":
            start.append(f"{item.name}_owner = K.Plain(K.ones); {_bound(item, chance)}")
    calls = []
    for number in range(chance.randint(6, 9)):
        before = [s for item in held for s in _event(item, number, chance)] if number else []
        given = [h.given for h in held if h.parameter and h.place != "keyword"]
        given += [f"{h.name}={h.given}" for h in held if h.place == "keyword"]
        calls.append((before, f"function({', '.join(given)})"))
    text = _function(held, simple, chance)
    return Program(seed, start, text, calls, not simple and chance.random() < 0.4)


def _number(chance: random.Random) -> str:
    return str(chance.randint(1, 7))


def _made(item: Held, chance: random.Random) -> str:
    return f"{item.name} = {K.KINDS[item.kind].make.format(v=_number(chance))}"


def _bound(item: Held, chance: random.Random) -> str:
    return f"{item.name}_owner.h = {item.name}"


def _event(item: Held, number: int, chance: random.Random) -> list[str]:
    """What happens to an object before a call."""
    found = chance.random()
    changes = K.KINDS[item.kind].change
    if found < 0.35:
        return []
    if found < 0.65 or (found < 0.9 and not changes):
        made = [_made(item, chance)]
        if chance.random() < 0.3:
            made.insert(0, f"{item.name} = None")
        if chance.random() < 0.1:
            made.insert(0, f"saved.append({item.name})")
        if item.place == "owner":
            if chance.random() < 0.4:
                made.append(f"{item.name}_owner = K.Plain(K.ones)")
            made.append(_bound(item, chance))
        return made
    if found < 0.9:
        change = chance.choice(changes).format(h=item.outside, v=_number(chance))
        return [change]
    return [chance.choice((
        f"saved.append({item.name})", f"{item.name} = saved[0] if saved else {item.name}",
        "gc.collect(0)", f"{item.name} = copy.copy({item.name})",
        f"{item.name} = copy.deepcopy({item.name})",
    ))]  # fmt: skip


def _function(held: list[Held], simple: bool, chance: random.Random) -> str:
    lines = []
    for number, item in enumerate(held):
        kind = K.KINDS[item.kind]
        if kind.inside and chance.random() < (0.15 if simple else 0.25):
            lines.append(chance.choice(kind.inside).format(h=item.inside))
        lines.append(f"r{number} = {chance.choice(kind.read).format(h=item.inside)}")
    lines.append(
        f"y = {_COMBINED[len(held)][0] if simple else chance.choice(_COMBINED[len(held)])}"
    )
    result = chance.choice(_RESULTS).format(h=held[0].inside) if not simple else "y"
    lines.append(f"return {result}")
    positional = [h.parameter for h in held if h.parameter and h.place != "keyword"]
    named = [f"{h.name}=None" for h in held if h.place == "keyword"]
    head = f"def function({', '.join([*map(str, positional), *(['*', *named] if named else [])])}):"
    body = [head, *("    " + line for line in lines)]
    closed = [h.name for h in held if h.place == "closure"]
    if closed:
        body = [f"def outer({', '.join(closed)}):", *("    " + line for line in body),
                "    return function", f"function = outer({', '.join(closed)})"]  # fmt: skip
    return "\n".join(body)


# ---------------------------------------------------------------------- running


def dict_keys(value: dict[Any, Any]) -> list[Any]:
    """In their order."""
    return list((OrderedDict if isinstance(value, OrderedDict) else dict).__iter__(value))


def show(value: Any, seen: tuple[int, ...] = ()) -> Any:
    """All that can be seen of a value, tensors to the bit."""
    if id(value) in seen:
        return "again"
    seen = (*seen, id(value))
    if isinstance(value, lt.Tensor):
        bits = value.detach().clone().numpy().tobytes()
        return [str(value.dtype), list(value.shape), value.requires_grad, bits]
    if isinstance(value, float):
        return struct.pack("d", value)
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.tolist()]
    found: list[Any] = [type(value).__name__]
    if isinstance(value, dict):
        found += [(key, show(dict.__getitem__(value, key), seen)) for key in dict_keys(value)]
    elif isinstance(value, (list, tuple, deque)):
        found += [show(item, seen) for item in value]
    elif isinstance(value, (set, frozenset)):
        found += sorted(value)
    elif isinstance(value, lt.nn.Module):
        return [*found, show(value.state_dict(), seen), value.training]
    elif type(value).__module__ != K.__name__ and not hasattr(value, "__closure__"):
        return found if hasattr(value, "__dict__") else [*found, repr(value)]
    if hasattr(value, "__closure__"):
        return [*found, [show(c.cell_contents, seen) for c in value.__closure__ or ()]]
    names = {*getattr(value, "__dict__", ()), *getattr(value, "__slots__", ())}
    return [
        *found,
        [(n, show(getattr(value, n), seen)) for n in sorted(names) if hasattr(value, n)],
    ]


@contextlib.contextmanager
def _as_always() -> Iterator[None]:
    """A block in which programs change nothing for later ones."""
    factor = K.Plain.factor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            K.Plain.factor = factor


def run(program: Program, wrap: Callable[[Any], Any]) -> tuple[list[Any], list[str]]:
    """What a program shows with its function wrapped, and what captures say of it."""
    import copy

    space: dict[str, Any] = {"__name__": "captured_program", "torch": lt, "K": K, "gc": gc}
    space.update(copy=copy, saved=[], results=[])
    shown: list[Any] = []

    def step(text: str) -> Any:
        try:
            if text.startswith("function("):
                return eval(compile(text, "<program>", "eval"), space)
            exec(compile(text, "<program>", "exec"), space)
        except Exception as error:  # what PyTorch's users would see, too
            shown.append(type(error).__name__)
        return None

    with _as_always():
        for text in (*program.start, program.function):
            step(text)
        space["function"] = call = wrap(space["function"])
        results = space["results"]
        for before, text in program.calls:
            for statement in before:
                step(statement)
            results.append(step(text))
            if not program.late:
                shown.append(show(results[-1]))
                shown += [show(space[n]) for n in sorted(space) if n[0] == "h" and n[1:].isdigit()]
        shown += [show(result) for result in results]
    return shown, call.why() if hasattr(call, "why") else []


def difference(program: Program) -> str | None:
    """How a program differs when its function is captured; None where it does not."""
    plain, _ = run(program, lambda function: function)
    captured, why = run(program, lt.jit)
    if plain == captured:
        return None
    number = next((n for n, (a, b) in enumerate(zip(plain, captured)) if a != b), -1)
    told = f"{plain[number]} became {captured[number]}" if number >= 0 else "more or less is shown"
    return f"seed {program.seed}:\n{program}\n{told}\n{why}"
