"""Random calls of functions that check values, on arguments in every state; what PyTorch raises.

    python -m tests.functional.checked_calls --count 20000          compares
    PYTHON_WITH_TORCH -m tests.functional.checked_calls --record    writes checked_calls.xz anew

A program is a function of ``CALLS``, a value for each of its arguments, which may have wrong
elements in it, and a state: arguments that are computed (``plain``), pending, pending views of
other pending tensors, or arguments of a captured function at its replays. Whether it raises, and an
error of which family, was recorded from PyTorch, which sees the same values in all states; results
that are not random have to have the same bits in all of them. For calls that PyTorch's functions
leave undefined there are no wrong elements in the table.
"""

from __future__ import annotations

import argparse
import lzma
import math
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("checked_calls.xz")
COUNT = 2400  # programs in the suite
STATES = ("plain", "pending", "view", "jit", "jit", "jit_pending")
FAMILIES: dict[str, tuple[str, ...]] = {
    "R": ("RuntimeError", "NotImplementedError"), "V": ("ValueError",), "I": ("IndexError",),
    "T": ("TypeError",), "Z": ("ZeroDivisionError",),
}  # fmt: skip
NAN, INF = math.nan, math.inf

#: Kinds of arguments: dtype, shape, good values (a list, or bounds of a float), bad values.
Kind = tuple[str, tuple[int, ...], Any, tuple[float, ...]]
ARGUMENTS: dict[str, Kind] = {
    "x": ("float32", (4, 5), (-2.0, 2.0), ()),
    "v": ("float32", (6,), (-2.0, 2.0), ()),
    "p": ("float32", (6,), (0.0, 1.0), (-0.5, 1.5, NAN, INF, -INF)),
    "p2": ("float64", (2, 3), (0.0, 1.0), (-1e-9, 1.0000001, NAN)),
    "truth": ("float32", (6,), [0.0, 1.0, 0.5], (-1.0, 2.0, NAN)),
    "rate": ("float32", (6,), (0.0, 9.0), (-1.0, NAN)),
    "std": ("float32", (6,), (0.0, 3.0), (-1.0, NAN, -INF)),
    "weights": ("float32", (2, 5), (0.1, 3.0), (-1.0, NAN, INF)),
    "row": ("float64", (5,), (0.0, 3.0), (-1.0, NAN, INF)),
    "var": ("float32", (6,), (0.0, 3.0), (-0.25,)),
    "label": ("int64", (4,), [0, 1, 2, 3, 4], (-1, 5, 77)),
    "ignored": ("int64", (4,), [0, 1, 4, -100], (-1, 5)),
    "label1": ("int64", (), [0, 1, 2, 3, 4], (5, -2)),
    "labels": ("int64", (4, 5), [0, 1, 2, -1], (5, -2)),
    "rows": ("int64", (3,), [0, 1, 2, 3], (4, -1, -5)),
    "around": ("int64", (3,), [0, 1, 3, -1, -4], (4, -5)),
    "columns": ("int32", (3,), [0, 1, 4, -5], (5, -6)),
    "grid": ("int64", (4, 5), [0, 1, 2, 3], (4, -1)),
    "flat": ("int64", (3,), [0, 7, 19, -1, -20], (20, -21)),
    "count": ("int64", (6,), [0, 1, 2], (-1, -3)),
    "class_": ("int64", (6,), [0, 1, 2], (-1, 3)),
    "divisor": ("int64", (6,), [1, 2, -3], (0,)),
    "small": ("int8", (6,), [1, 2, -3], (0,)),
    "rank": ("float32", (3,), (0.0, 1.0), (-0.1, 1.1, NAN)),
    "sorter": ("int64", (6,), [0, 1, 2, 3, 4, 5], (6, -1)),
    "often": ("int64", (5,), [1, 2, 3], (-1,)),
    "much": ("float32", (5,), (0.5, 2.0), (-1.0,)),
    "place": ("int64", (1, 1, 2), [0, 3, 5], (6, -1, 70)),
    "positive": ("float32", (6,), (0.1, 4.0), (0.0, -1.0, NAN)),
    "real": ("float32", (6,), (-4.0, 4.0), (NAN,)),
    "unit": ("float32", (6,), (0.05, 0.95), (-0.5, 1.5, NAN)),
    "simplex": ("float32", (2, 3), (0.2, 0.9), (-3.0, NAN)),
    "whole": ("float32", (6,), [0.0, 1.0, 2.0], (-1.0, 0.5)),
    "bit": ("float32", (6,), [0.0, 1.0], (2.0, 0.5, NAN)),
    "category": ("int64", (6,), [0, 1, 2], (-1, 3)),
    "lengths": ("int64", (2,), [2, 3], (0, -1)),
    "steps": ("int64", (2,), [4, 5], (6,)),
    "fit": ("int64", (3,), [0, 5, 19], (20, -1)),
}  # fmt: skip

#: Functions, written with ``t`` for the module, and whether what they give is random.
CALLS: dict[str, bool] = {
    "t.bernoulli(p)": True, "t.bernoulli(p2)": True, "v.clone().bernoulli_(p)": True,
    "t.poisson(rate)": True, "t.normal(v, std)": True, "t.normal(0.5, std)": True,
    "t.multinomial(weights, 1)": True, "t.multinomial(weights, 3)": True,
    "t.multinomial(weights, 3, True)": True, "t.multinomial(row, 2, True)": True,
    "F.binary_cross_entropy(p, truth)": False, "F.binary_cross_entropy(p2, p2)": False,
    "F.binary_cross_entropy(p, truth, reduction='none')": False,
    "F.gaussian_nll_loss(v, v * 2, var)": False,
    "F.nll_loss(x, label)": False, "F.nll_loss(x, ignored)": False,
    "F.cross_entropy(x, label)": False, "F.cross_entropy(x, ignored, reduction='sum')": False,
    "F.cross_entropy(x, label, label_smoothing=0.1)": False, "F.cross_entropy(x[0], label1)": False,
    "F.multi_margin_loss(x, label)": False, "F.multilabel_margin_loss(x, labels)": False,
    "F.embedding(rows, x)": False, "F.embedding_bag(rows, x, t.tensor([0, 2]))": False,
    "F.one_hot(class_, 3)": False, "F.one_hot(count)": False, "t.bincount(count)": False,
    "t.bincount(count, v)": False,
    "t.index_select(x, 0, rows)": False, "t.gather(x, 0, grid)": False, "x[around]": False,
    "x[:, columns]": False, "x[around, columns]": False, "t.take(x, flat)": False,
    "t.scatter(x, 0, grid, 1.0)": False, "t.scatter_add(x, 0, grid, x)": False,
    "t.scatter_reduce(x, 0, grid, x, 'amax')": False,
    "t.index_add(x, 0, rows, x[:3])": False,
    "t.index_fill(x, 0, around, 2.0)": False, "t.index_reduce(x, 0, rows, x[:3], 'prod')": False,
    "x.clone().index_put_((around,), t.tensor(2.0))": False,
    "x.clone().put_(flat, v[:3], True)": False,
    "t.repeat_interleave(v, count)": False, "t.searchsorted(v.sort()[0], v, sorter=sorter)": False,
    "t.quantile(v, rank)": False, "t.nanquantile(v, rank)": False,
    "t.floor_divide(class_, divisor)": False, "t.remainder(class_, divisor)": False,
    "class_ // divisor": False, "class_ % small": False, "t.fmod(class_, divisor)": False,
    "t.div(class_, small, rounding_mode='trunc')": False,
    "t.cov(x, fweights=often)": False, "t.cov(x, aweights=much)": False,
    "F.max_unpool1d(x[:1, :2].unsqueeze(0), place, 3)": False,
    "t.unravel_index(fit, (4, 5))[0]": False,
    "F.ctc_loss(x.log_softmax(-1).reshape(4, 1, 5).expand(4, 2, 5), t.ones(2, 3).long(), "
    "steps - 1, t.tensor([1, 1]))": False,
    "t.nn.utils.rnn.pack_padded_sequence(x[:2], lengths, True, False).data": False,
    "D.Normal(real, positive).log_prob(v)": False, "D.Normal(v, 1.0).log_prob(real)": False,
    "D.LogNormal(v, 1.0).log_prob(positive)": False, "D.Exponential(positive).mean": False,
    "D.Laplace(real, positive).variance": False, "D.Gamma(positive, 2.0).log_prob(positive)": False,
    "D.Beta(positive, 1.5).log_prob(unit)": False, "D.Cauchy(real, positive).log_prob(v)": False,
    "D.Gumbel(real, positive).log_prob(v)": False, "D.HalfNormal(positive).mean": False,
    "D.Chi2(positive).mean": False, "D.StudentT(positive).log_prob(v)": False,
    "D.Weibull(positive, positive).log_prob(positive)": False,
    "D.Pareto(1.0, positive).mean": False, "D.Kumaraswamy(positive, 1.0).log_prob(unit)": False,
    "D.VonMises(real, positive).log_prob(v)": False,
    "D.FisherSnedecor(positive, 5.0).mean": False, "D.InverseGamma(positive, 3.0).mean": False,
    "D.Bernoulli(unit).log_prob(bit)": False, "D.Bernoulli(logits=real).log_prob(bit)": False,
    "D.Geometric(unit).log_prob(whole)": False, "D.Poisson(rate).log_prob(whole)": False,
    "D.Binomial(2, unit).log_prob(whole)": False, "D.Binomial(whole, 0.5).mean": False,
    "D.NegativeBinomial(positive, unit).mean": False, "D.Categorical(weights).entropy()": False,
    "D.Categorical(logits=t.zeros(6, 3)).log_prob(category)": False,
    "D.OneHotCategorical(weights).log_prob(t.eye(5)[:2])": False,
    "D.Dirichlet(positive).log_prob(t.ones(6) / 6)": False,
    "D.Dirichlet(t.ones(3)).log_prob(simplex / simplex.sum(-1, keepdim=True))": False,
    "D.ContinuousBernoulli(unit).log_prob(unit)": False,
    "D.Uniform(t.zeros(6), 1.0).log_prob(unit)": False,
    "D.Multinomial(3, t.ones(3)).log_prob(t.stack([whole[:3], whole[:3]]))": False,
    "D.RelaxedBernoulli(t.tensor(0.5), unit).mean": False,
    "D.Independent(D.Normal(real, positive), 1).log_prob(v)": False,
}  # fmt: skip
NAMES = list(CALLS)


def arguments_of(text: str) -> list[str]:
    """The names of ``ARGUMENTS`` that a call uses."""
    found = compile(text, "<call>", "eval").co_names
    return [name for name in found if name in ARGUMENTS]


class Program:
    """A call, a state, and the values of its arguments as nested lists.

    Args:
        number: from which all follows.
    """

    def __init__(self, number: int) -> None:
        chance = random.Random(number)
        self.number = number
        self.text = NAMES[number % len(NAMES)]
        self.state = chance.choice(STATES)
        names = arguments_of(self.text)
        wrong = (
            chance.choice([n for n in names if ARGUMENTS[n][3]]) if chance.random() < 0.5 else ""
        )
        self.values = {name: _values(chance, ARGUMENTS[name], name == wrong) for name in names}

    def __repr__(self) -> str:
        return f"program {self.number}: {self.text}, {self.state}, {self.values}"


def _values(chance: random.Random, kind: Kind, is_wrong: bool) -> list[Any]:
    _, shape, good, bad = kind

    def one() -> Any:
        return chance.choice(good) if isinstance(good, list) else round(chance.uniform(*good), 3)

    flat = [one() for _ in range(math.prod(shape))]
    if is_wrong:
        flat[chance.randrange(len(flat))] = chance.choice(bad)
    return flat


def tensors_of(t: Any, program: Program) -> dict[str, Any]:
    """The arguments as tensors."""
    made = {}
    for name, flat in program.values.items():
        dtype, shape, _, _ = ARGUMENTS[name]
        made[name] = t.tensor(flat, dtype=getattr(t, dtype)).reshape(shape)
    return made


def environment(t: Any) -> dict[str, Any]:
    """What calls name beside their arguments."""
    return {"t": t, "F": t.nn.functional, "D": t.distributions}


def family_of(error: Exception, wanted: str = "") -> str:
    """The letter of an error's family: that which is wanted, if it is of that too."""
    names = [kind.__name__ for kind in type(error).__mro__]
    for letter in (*wanted.strip("."), *"ZIVTR"):
        if any(name in names for name in FAMILIES[letter]):
            return str(letter)
    raise error


def outcome(call: Callable[..., Any], given: dict[str, Any], wanted: str = "") -> tuple[str, Any]:
    """The letter of what a call raises with nothing, or a point with what it gives."""
    try:
        found = call(**given)
        return ".", [found.tolist(), str(found.dtype)]
    except Exception as error:
        return family_of(error, wanted), None


def recorded(count: int) -> Iterator[tuple[Program, str]]:
    """The first programs, with what PyTorch does."""
    letters = lzma.decompress(FILE.read_bytes()).decode()
    for number in range(count):
        yield Program(number), letters[number]


def record(count: int) -> None:
    """Write down what PyTorch does."""
    import torch

    spaces = environment(torch)
    letters = ""
    for number in range(count):
        program = Program(number)
        call = eval(_lambda(program.text), spaces)
        letters += outcome(call, tensors_of(torch, program))[0]
    FILE.write_bytes(lzma.compress(letters.encode(), preset=9))


def _lambda(text: str) -> str:
    return f"lambda {', '.join(arguments_of(text))}: {text}"


class Checker:
    """Runs programs with lazyt, each in its state."""

    def __init__(self) -> None:
        import lazyt

        self.t = lazyt
        self.spaces = environment(lazyt)
        self.calls = {text: eval(_lambda(text), self.spaces) for text in NAMES}
        self.jitted: dict[tuple[str, bool], Any] = {}
        self.refused: dict[str, list[str]] = {}

    def failure(self, program: Program, wanted: str) -> str | None:
        """What is wrong about a program; None where all is right."""
        given = self._given(program)
        plain = outcome(self.calls[program.text], self._computed(program), wanted)
        if plain[0] != wanted:
            return f"{program}: {plain[0]}, PyTorch {wanted}"
        if program.state == "plain":
            return None
        call = self.calls[program.text]
        if program.state.startswith("jit"):
            call = self._captured(program)
        found = outcome(call, given, wanted)
        if found[0] != wanted:
            return f"{program}: {found[0]}, PyTorch {wanted}"
        if not CALLS[program.text] and repr(found[1]) != repr(plain[1]):
            return f"{program}: {found[1]}, computed at once {plain[1]}"
        return None

    def _computed(self, program: Program) -> dict[str, Any]:
        return {name: x.realize() for name, x in tensors_of(self.t, program).items()}

    def _given(self, program: Program) -> dict[str, Any]:
        given = self._computed(program)
        if program.state in ("pending", "jit_pending"):
            return {name: (x + x) - x if x.dtype.is_floating_point else x * 1 for name, x in
                    given.items()}  # fmt: skip
        if program.state == "view":
            return {name: self.t.stack([x * 1, x]).movedim(0, -1)[..., 0]
                    for name, x in given.items()}  # fmt: skip
        return given

    def _captured(self, program: Program) -> Any:
        """The captured function of a call, which is replayed by now."""
        inside = program.state == "jit_pending"
        key = program.text, inside
        if key not in self.jitted:
            names = arguments_of(program.text)
            text = program.text
            function = self.calls[text]
            if inside:
                shifted = ", ".join(f"{n}={n} * 1" for n in names)
                function = eval(
                    f"lambda {', '.join(names)}: call({shifted})", {"call": self.calls[text]}
                )
            self.jitted[key] = self.t.jit(function)
            for good in range(4):
                outcome(self.jitted[key], self._good(text, good))
            why = self.jitted[key].why()
            if why and why[-1].startswith("not captured"):
                self.refused[text] = why
        return self.jitted[key]

    def _good(self, text: str, number: int) -> dict[str, Any]:
        chance = random.Random(number)
        program = Program(NAMES.index(text))
        program.values = {n: _values(chance, ARGUMENTS[n], False) for n in arguments_of(text)}
        return self._computed(program)


def failures(count: int) -> tuple[list[str], dict[str, list[str]]]:
    """What is wrong among the first programs, and why which calls are not captured."""
    checker = Checker()
    found = (checker.failure(program, wanted) for program, wanted in recorded(count))
    return [text for text in found if text is not None], checker.refused


def main() -> None:
    """Compare or record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.record:
        record(options.count)
        return
    wrong, refused = failures(options.count)
    for text in wrong:
        print(text)
    for text, why in refused.items():
        print(f"not captured: {text}: {why}")
    print(f"{options.count} programs, {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
