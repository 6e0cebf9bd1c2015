"""Step functions made at random, with a caller that holds on to what it sees.

A program has some state, a function that reads it, writes parts of it and returns values, views and
the state itself, and a caller that runs the function again and again, looks at results late or
never, and writes to the state in between. Run plainly, captured by ``jit``, and with every
operation computed at once by the interpreter, it must show the same values: numbers are chosen so
that no sum is rounded.

    python -m tests.tensor.step_programs 20000            # further programs, without a compiler
    python -m tests.tensor.step_programs 5000 1005000     # those from this seed on
    python -m tests.tensor.step_programs 40 --compile     # with one

A failure names its seed; ``print(make(seed))`` shows the program.
"""

from __future__ import annotations

import contextlib
import random
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import lazyt as lt
from tests.tensor.simulated_plans import simulated

#: How often a program calls its function.
CALLS = 7
#: Names of state by shape.
STATE = {(3, 4): ("a", "b"), (4,): ("v",), (3,): ("u",)}


class Maker:
    """One program, as Python text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = {shape: list(names) for shape, names in STATE.items()}
        self.made = 0
        self.results: list[str] = []

    def one(self, *choices: str) -> str:
        """One of these."""
        return self.random.choice(choices)

    def name(self, shape: tuple[int, ...]) -> str:
        """A value of this shape, rather a late one."""
        known = self.names[shape]
        return known[-1 - int(len(known) * self.random.random() ** 1.3)]

    def number(self) -> str:
        """A number that is not rounded."""
        return self.one("-1.0", "0.5", "2.0", "1.0", "3.0", "0.25")

    def row(self) -> str:
        """An expression of four numbers."""
        m, v = self.name((3, 4)), self.name((4,))
        return self.one(
            v, f"{v} * {self.number()}", f"{m}[{self.random.randrange(3)}]", f"{m}.sum(0)",
            f"x[{self.random.randrange(3)}]", f"{m}.amax(0)", f"({m}[1] - {v})", f"{v}.flip(0)",
            f"{m}[k % 3]",
        )  # fmt: skip

    def column(self) -> str:
        """An expression of three numbers."""
        m, u = self.name((3, 4)), self.name((3,))
        return self.one(
            u, f"{u} + {self.number()}", f"{m}[:, {self.random.randrange(4)}]", f"{m}.sum(1)",
            f"x[:, {self.random.randrange(4)}]", f"{m}.amin(1)", f"{u}.roll(1)",
        )  # fmt: skip

    def matrix(self) -> str:
        """An expression of three rows of four."""
        m, n = self.name((3, 4)), self.name((3, 4))
        return self.one(
            "x", m, f"{m} + {n}", f"{m} * {self.number()}", f"{m}.flip(0)", f"{m}.roll(1, 1)",
            f"lt.where({m} > {n}, {m}, x)", f"({m} @ {n}.t() @ x).clamp(-8, 8).round()",
            f"{m} - {self.row()}", f"{m} + ({self.column()})[:, None]", f"{m}.cumsum(0)",
            f"{m}.t().reshape(3, 4)", f"lt.cat([{m}[1:], {n}[:1]])", f"{m}.sort(1)[0]",
            f"lt.maximum({m}, {n})", f"{m}[[2, 0, 1]]", f"({m} * {n}).clamp(-8, 8).round()",
            f"lt.stack([{self.row()}, {self.row()}, {self.row()}])", f"{m}.clone()",
        )  # fmt: skip

    def write(self) -> str:
        """A statement that writes to state, or to a view of it."""
        m = self.name((3, 4))
        row, start = self.random.randrange(3), self.random.randrange(2)
        return self.one(
            f"{m}[{row}] = {self.row()}", f"{m}[:, {row}] = {self.column()}",
            f"{m}[{start}:{start + 2}, ::2] = {self.number()}", f"{m}[k % 3] = {self.row()}",
            f"{m}[0, 0] = {m}.sum()", f"{m}[{row}] += {self.row()}", f"{m}[:, 1:3] *= 0.5",
            f"{m}[:-1] = {m}[1:].clone()", f"{m}.mul_({self.number()})",
            f"{m}.mul_(0.5).add_({self.matrix()})", f"{m}.add_({self.matrix()})",
            f"{m}.copy_({self.matrix()})", f"{m}.clamp_(-4, 4)", f"{m}.zero_()",
            f"{m}.index_copy_(0, i, ({self.matrix()})[:2])", f"{m}.fill_({self.number()})",
            f"{m}.index_add_(0, i, ({self.matrix()})[1:])", f"{m}.t()[{row}] = {self.column()}",
            f"{m}.masked_fill_({m} > 2, {self.number()})", f"{m}.view(-1)[2:5] = {self.number()}",
            f"{m}[{m} > 3] = 0.0", f"{self.name((4,))}.add_({self.row()})",
            f"{self.name((3,))}.copy_({self.column()})", f"{self.name((4,))}[1:] = 2.0",
            f"{self.name((3,))}.mul_(0.5)", f"{m}.scatter_(1, j, {self.matrix()})",
        )  # fmt: skip

    def local(self) -> str:
        """A statement that names a value, a copy or a view."""
        name = f"t{self.made}"
        self.made += 1
        kind = self.random.random()
        shape: tuple[int, ...]
        if kind < 0.6:
            text, shape = self.matrix(), (3, 4)
        elif kind < 0.7:
            text, shape = f"{self.name((3, 4))}.view(3, 4)", (3, 4)
        elif kind < 0.85:
            text, shape = self.row(), (4,)
        else:
            text, shape = self.column(), (3,)
        self.names[shape].append(name)
        return f"{name} = {text}"

    def result(self) -> str:
        """Something that the function returns."""
        return self.one(
            self.matrix(), self.row(), self.column(), self.name((3, 4)), self.name((4,)),
            f"{self.name((3, 4))}.sum()", f"{self.name((3, 4))}[1:]", f"({self.matrix()}).sum()",
            f"{self.name((3, 4))}.clone()", f"{self.name((3, 4))}.t()",
        )  # fmt: skip

    def body(self) -> list[str]:
        """The lines of the function."""
        lines = []
        for _ in range(self.random.randint(2, 8)):
            lines.append(self.write() if self.random.random() < 0.6 else self.local())
        results = [self.result() for _ in range(self.random.randint(1, 3))]
        lines.append(f"return [{', '.join(results)}]")
        return lines

    def caller(self) -> list[str]:
        """What the caller does after each call, with the number of the call."""
        s = self.one("a", "b", "a", "v", "u")
        m = self.one("a", "b")
        holds = [
            "held += r", f"held.append({s}.clone())", f"held.append({s} * 1)",
            f"held.append({s}[1:])", f"held.append({s}.sum())", f"held.append({s}.detach())",
            f"held.append({s}.tolist())", f"held.append({s}.numpy().copy())", "held.append(r[0])",
            "held.append(r[-1] + 1)", f"held.append({m}.t().clone())", "del held[1:2]",
            f"held.append(lt.cat([{s}, {s}]))", f"held.append({s}.clone().realize())",
            f"if k == 3: {s}.add_(1.0)", f"if k % 2: {m}[0] = 7.0", "r[0].tolist()",
            f"if k == 4: held.append({m}.view(-1))", f"if k == 3: {m} = {m}.clone()",
            "if k == 4: r[0].mul_(2.0)", f"if k == 2: held.append({s}.numpy())",
            f"if k > 3: held.append({s}.contiguous())", f"{s}.realize()", "pass",
        ]  # fmt: skip
        return self.random.sample(holds, self.random.randint(1, 4))

    def program(self) -> str:
        """The program: ``program(lt, wrap)`` returns all that it saw."""
        body = self.body()
        given = self.random.random()
        if given < 0.4:  # all state is given as arguments
            parameters = "a, b, v, u, x, k"
        else:
            parameters = "a, x, k" if given < 0.7 else "x, k"
        if self.random.random() < 0.5:
            parameters = parameters.removesuffix(", k")
            body = [line.replace("k % 3", "1") for line in body]
        lines = [
            "def program(lt, wrap):",
            "    i, j = lt.tensor([2, 0]), lt.tensor([[1, 0, 3, 2]] * 3)",
            "    a = (lt.arange(12.0) - 5).reshape(3, 4).double()",
            "    b = (lt.arange(12.0) % 5).reshape(3, 4).double()",
            "    v, u = lt.arange(4.0).double(), lt.arange(3.0).double()",
            "    lt.realize(a, b, v, u, i, j)",
            f"    def step({parameters}):",
            *(f"        {line}" for line in body),
            "    step, held = wrap(step), []",
            f"    for k in range({CALLS}):",
            "        x = ((lt.arange(12.0) * (k + 1)) % 7 - 3).reshape(3, 4).double().realize()",
            f"        r = step({parameters})",
            *(f"        {line}" for line in self.caller()),
            "    return [*held, *r, a, b, v, u]",
        ]
        return "\n".join(lines) + "\n"


def make(seed: int) -> str:
    """The text of a program."""
    return Maker(seed).program()


def shown(value: Any) -> Any:
    """A value as numbers, row by row."""
    return value.tolist() if hasattr(value, "tolist") else value


def outcome(text: str, wrap: Callable[[Any], Any]) -> Any:
    """What a program shows: its values, or the name of its error."""
    names: dict[str, Any] = {}
    exec(compile(text, "<step program>", "exec"), names)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [shown(value) for value in names["program"](lt, wrap)]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def check(seeds: Sequence[int], compiled: bool) -> tuple[int, int]:
    """How many programs end without an error, and how many are captured; raises AssertionError for
    the first that shows other values captured (those of odd seeds: also plainly) than step by
    step."""
    fine = captured = 0
    for seed in seeds:
        text = make(seed)
        with lt.config.override(eager=True, interpret=True):
            expected = outcome(text, lambda function: function)
        wrapped: list[Any] = []

        def capture(function: Any, wrapped: list[Any] = wrapped) -> Any:
            wrapped.append(lt.jit(function))
            return wrapped[-1]

        with simulated() if not compiled else contextlib.nullcontext() as machine:
            plain = [("plainly", lambda function: function)] if seed % 2 else []
            for what, wrap in (*plain, ("captured", capture)):
                found = outcome(text, wrap)
                if machine is not None and machine.errors:
                    break
                if found != expected:
                    raise AssertionError(
                        f"seed {seed} shows {what}\n{found}\ninstead of\n{expected}\n{text}"
                    )
        fine += not isinstance(expected, str)
        captured += bool(wrapped) and wrapped[0].why()[-1:] == ["captured"]
    return fine, captured


def main(count: int, first: int, compiled: bool) -> None:
    """Checks further programs, and tells how far it is."""
    fine = captured = 0
    for start in range(first, first + count, 100):
        seeds = range(start, min(start + 100, first + count))
        found = check(seeds, compiled)
        fine, captured = fine + found[0], captured + found[1]
        done = seeds.stop - first
        print(f"{done} programs: {fine} without errors, {captured} captured", flush=True)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    main(numbers[0], numbers[1] if len(numbers) > 1 else 1_000_000, "--compile" in sys.argv)
