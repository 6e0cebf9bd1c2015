"""Generated programs about hooks, retained gradients, views, writes, looks at values and second
derivatives, and what PyTorch shows for them.

    PYTHONPATH=. python -m tests.func.hook_programs --count 20000     compare, with PyTorch at hand
    PYTHONPATH=. python -m tests.func.hook_programs --record          record the tests' programs

with a Python that has PyTorch beside what lazyt needs. A program is a list of statements that
depends on its number alone. Each statement may raise: that is noted, and the next one follows.
"""

from __future__ import annotations

import argparse
import importlib
import json
import lzma
import math
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "recorded" / "hooks.json.xz"
COUNT = 2500

Shape = tuple[int, ...]


class Maker:
    """Writes one program.

    Attributes:
        lines: its statements.
        shapes: of the tensors that it has, by name.
    """

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.lines: list[str] = []
        self.shapes: dict[str, Shape] = {}
        self.differentiable: list[str] = []
        self.leaves: list[str] = []
        self.hooks = 0
        self.memory: dict[str, str] = {}  # whose memory a tensor shows
        self.spread: set[str] = set()  # those that repeat elements
        self.second: set[str] = set()  # second outputs

    def made(self) -> list[str]:
        """The statements of the program."""
        pick = self.random
        for _ in range(pick.choice((1, 1, 2))):
            self._leaf()
        steps: list[tuple[Callable[[], None], int]] = [
            (self._unary, 5), (self._binary, 4), (self._view, 9), (self._write, 3),
            (self._hook, 5), (self._retain, 3), (self._look, 2), (self._quiet_write, 1),
            (self._data, 1), (self._function_hook, 1), (self._custom, 1), (self._reduce, 1),
        ]  # fmt: skip
        for _ in range(pick.randint(4, 12)):
            step = pick.choices([s for s, _ in steps], [weight for _, weight in steps])[0]
            step()
        self._end()
        return self.lines

    # ------------------------------------------------------------------ parts

    def _name(self, shape: Shape) -> str:
        name = f"t{len(self.shapes)}"
        self.shapes[name] = shape
        return name

    def _make(self, text: str, shape: Shape, *sources: str, of: str = "") -> str:
        name = self._name(shape)
        self.lines.append(f"{name} = {text}")
        self.memory[name] = self.memory.get(of, name)
        if not sources or any(s in self.differentiable for s in sources):
            self.differentiable.append(name)
        return name

    def _any(self) -> str:
        names = list(self.shapes)
        recent = names[-3:]
        return self.random.choice(recent if self.random.random() < 0.6 else names)

    def _leaf(self) -> None:
        shape = self.random.choice(((4,), (2, 2), (2, 3), (4,), (2, 2)))
        self.leaves.append(self._make(f"leaf({shape}, {self.random.randint(1, 5)})", shape))

    def _unary(self) -> None:
        x = self._any()
        text = self.random.choice((
            "{x} * 2", "{x}.sin()", "{x} * {x}", "{x} + 1", "{x}.tanh()", "{x}.clone()", "{x} * 2",
            "({x} * 0.3).exp()", "-{x}", "{x}.contiguous()", "{x}.reshape({s})", "{x}.relu()",
        ))  # fmt: skip
        shape = self.shapes[x]
        of = x if "reshape" in text or "contiguous" in text else ""
        made = self._make(text.format(x=x, s=shape), shape, x, of=of)
        if of in self.spread:
            self.spread.add(made)

    def _binary(self) -> None:
        x = self._any()
        same = [n for n, s in self.shapes.items() if s == self.shapes[x]]
        y = self.random.choice(same)
        operation = self.random.choice("+-*")
        self._make(f"{x} {operation} {y}", self.shapes[x], x, y)

    def _reduce(self) -> None:
        x = self._any()
        shape = self.shapes[x]
        if shape:
            self._make(f"{x}.sum(0)", shape[1:], x)

    def _custom(self) -> None:
        x = self._any()
        name = self.random.choice(("Twice", "Scaled", "Pair"))
        call = f"{name}.apply({x})" + ("[1]" if name == "Pair" else "")
        made = self._make(call, self.shapes[x], x)
        if name == "Pair":
            self.second.add(made)

    def _view(self) -> None:
        x = self._any()
        shape = self.shapes[x]
        size = math.prod(shape)
        options: list[tuple[str, Shape]] = [
            (f"{x}[None]", (1, *shape)), (f"{x}.view_as({x})", shape),
            (f"{x}.unsqueeze(-1)", (*shape, 1)), (f"{x}.flatten()", (size,)),
        ]  # fmt: skip
        if size == 4:
            options += [(f"{x}.reshape(2, 2)", (2, 2)), (f"{x}.reshape(4)", (4,))]
        if shape:
            n, rest = shape[0], shape[1:]
            options += [
                (f"{x}[0]", rest), (f"{x}[-1]", rest), (f"{x}.select(0, {n - 1})", rest),
                (f"{x}.expand(2, {', '.join(map(str, shape))})", (2, *shape)),
            ]  # fmt: skip
            if n > 1:
                options += [
                    (f"{x}[1:]", (n - 1, *rest)), (f"{x}[:1]", (1, *rest)),
                    (f"{x}[::2]", ((n + 1) // 2, *rest)),
                    (f"{x}.narrow(0, 1, {n - 1})", (n - 1, *rest)), (f"{x}[1:]", (n - 1, *rest)),
                ]  # fmt: skip
            if n == 1:
                options += [(f"{x}.squeeze(0)", rest), (f"{x}.squeeze(0)", rest)]
        if len(shape) >= 2:
            turned = (*shape[1:-1], shape[-1], shape[0])
            turned = (shape[-1], *shape[1:-1], shape[0])
            options += [
                (f"{x}.transpose(0, -1)", turned), (f"{x}.transpose(0, -1)", turned),
                (f"{x}.movedim(0, -1)", (*shape[1:], shape[0])),
                (f"{x}[:, 0]", (shape[0], *shape[2:])),
            ]  # fmt: skip
        if len(shape) == 2:
            options += [
                (f"{x}.t()", shape[::-1]), (f"{x}.diagonal()", (min(shape),)),
                (f"{x}.T[0]", (shape[0],)),
            ]  # fmt: skip
        text, found = self.random.choice(options)
        made = self._make(text, found, x, of=x)
        if x in self.spread or "expand" in text:
            self.spread.add(made)

    def _write(self) -> None:
        x = self._any()
        # Elements that share memory may not be written to; PyTorch dies of writes to second outputs
        # whose gradient is retained.
        if x in self.spread or self.memory[x] in self.second:
            return
        same = [n for n, s in self.shapes.items() if s == self.shapes[x]]
        y = self.random.choice([n for n in same if n != x] or [x])  # PyTorch dies of x.copy_(x)
        copied = "copy_" if y != x else "mul_"
        part = "[0]" if self.shapes[x] and self.random.random() < 0.3 else ""
        if part:
            text = self.random.choice(
                (f"{x}[0] = 3.0", f"{x}[0].mul_(2)", f"{x}[:1] = {x}[-1:] * 2")
            )
        else:
            text = self.random.choice((
                f"{x}.mul_(3)", f"{x}.add_(1)", f"{x}.add_({y})", f"{x}.sin_()", f"{x}.mul_(2)",
                f"{x}.{copied}({y})", f"{x}.zero_()",
            ))  # fmt: skip
        self.lines.append(text)
        if y in self.differentiable and x not in self.differentiable:
            self.differentiable.append(x)

    def _quiet_write(self) -> None:
        x = self._any()
        # PyTorch loses the gradients of views of a leaf that was written to under no_grad.
        if self.memory[x] not in self.leaves and x not in self.spread:
            self.lines.append(f"quietly({x})")

    def _data(self) -> None:
        self.lines.append(f"{self._any()}.data.mul_(2)")

    def _look(self) -> None:
        x = self._any()
        text = self.random.choice(("show({x})", "show({x}.sum())", "show({x}.detach() * 2)"))
        self.lines.append(text.format(x=x))

    def _hook(self) -> None:
        x = self._any()
        self.hooks += 1
        kind = self.random.choice(("tell", "tell", "double", "double", "replace", "chain"))
        # PyTorch dies of a hook on a view that was written to, before it made its new grad_fn.
        self.lines.append(f"{x}.grad_fn; h{self.hooks} = {x}.register_hook({kind}({self.hooks}))")
        if self.random.random() < 0.1:
            self.lines.append(f"h{self.hooks}.remove()")

    def _function_hook(self) -> None:
        x = self._any()
        self.hooks += 1
        self.lines.append(f"{x}.grad_fn.register_prehook(before({self.hooks}))")

    def _retain(self) -> None:
        x = self._any()
        self.lines.append(f"{x}.grad_fn; {x}.retain_grad()")

    # ------------------------------------------------------------------ backward

    def _loss(self) -> str:
        names = [n for n in self.shapes if n in self.differentiable]
        chosen = self.random.sample(names, min(len(names), self.random.choice((1, 1, 2, 3))))
        last = names[-1]
        terms = [f"{k + 1} * {n}.sum()" for k, n in enumerate(dict.fromkeys((last, *chosen)))]
        return " + ".join(terms)

    def _end(self) -> None:
        pick = self.random
        if pick.random() < 0.2:
            leaf = pick.choice(self.leaves)
            self.hooks += 1
            self.lines.append(f"{leaf}.register_post_accumulate_grad_hook(after({self.hooks}))")
        self.lines.append(f"loss = {self._loss()}")
        inner = [n for n in self.shapes if n in self.differentiable]
        wanted = pick.sample(inner, min(len(inner), pick.randint(1, 3)))
        listed = f"[{', '.join(wanted)}]"
        self.lines += pick.choice((
            ["loss.backward()"],
            ["loss.backward()"],
            ["loss.backward(retain_graph=True)", "loss.backward()"],
            [f"show(grad(loss, {listed}, allow_unused=True))"],
            [f"show(grad(loss, {listed}, allow_unused=True, retain_graph=True))",
             "loss.backward()"],
            [f"loss.backward(inputs={listed})"],
            [f"gs = grad(loss, {listed}, allow_unused=True, create_graph=True)", "show(gs)",
             "squares(gs).backward()"],
            [f"gs = grad((loss * loss), {listed}, allow_unused=True, create_graph=True)",
             "show(gs)", "squares(gs).backward()"],
        ))  # fmt: skip
        self.lines.append("grads()")


_OWN = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * 2
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * 2 * x
class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 1, x * 3
    @staticmethod
    def backward(ctx, g, h): return g + 3 * h
"""


class Run:
    """One program on one library: ``told`` is what it shows."""

    def __init__(self, torch: Any, space: dict[str, Any]) -> None:
        self.torch = torch
        self.told: list[Any] = []
        self.failed = False
        self.space = dict(space)
        for name in (
            "leaf", "quietly", "show", "tell", "double", "replace", "chain", "before", "after",
            "squares", "grads",
        ):  # fmt: skip
            self.space[name] = getattr(self, name)
        self.space["grad"] = torch.autograd.grad

    def clean(self, value: Any) -> Any:
        """A value as JSON holds it."""
        if isinstance(value, self.torch.Tensor):
            numbers = [float(f"{v:.6g}") for v in value.detach().reshape(-1).tolist()]
            return [list(value.shape), [v if math.isfinite(v) else str(v) for v in numbers]]
        if isinstance(value, (list, tuple)):
            return [self.clean(item) for item in value]
        return value

    def show(self, value: Any) -> None:
        """Note a value."""
        self.told.append(self.clean(value))

    def leaf(self, shape: Shape, start: int) -> Any:
        """A leaf of numbers that count from ``start``."""
        size = math.prod(shape)
        numbers = [(start + k) / 8 for k in range(size)]
        return self.torch.tensor(numbers).reshape(shape).requires_grad_()

    def quietly(self, tensor: Any) -> None:
        """Write to a tensor where autograd does not record it."""
        with self.torch.no_grad():
            tensor.add_(1)

    def tell(self, key: int) -> Any:
        """A hook that notes the gradient."""
        return lambda g: self.told.append([f"hook {key}", self.clean(g)])

    def double(self, key: int) -> Any:
        """A hook that notes the gradient and doubles it."""

        def hook(g: Any) -> Any:
            self.told.append([f"hook {key}", self.clean(g)])
            return g * 2

        return hook

    def replace(self, key: int) -> Any:
        """A hook that replaces the gradient by ones."""

        def hook(g: Any) -> Any:
            self.told.append(f"hook {key}")
            return self.torch.ones_like(g)

        return hook

    def chain(self, key: int) -> Any:
        """A hook that squares the gradient, which matters for its own derivative."""
        return lambda g: g * g

    def before(self, key: int) -> Any:
        """A hook before a function."""
        return lambda gs: self.told.append([f"before {key}", self.clean(gs)])

    def after(self, key: int) -> Any:
        """A hook after a leaf's gradient was accumulated."""
        return lambda t: self.told.append([f"after {key}", self.clean(t.grad)])

    def squares(self, gradients: Any) -> Any:
        """The sum of the squares of gradients."""
        return sum((g * g).sum() for g in gradients if g is not None)

    def grads(self) -> None:
        """Note the gradients of all tensors; not those that a backward left that has failed."""
        if self.failed:
            return
        for name, value in self.space.items():
            if name[0] == "t" and name[1:].isdigit():
                kept = value.is_leaf or value.retains_grad
                self.told.append([name, self.clean(value.grad) if kept else "inner"])

    def all(self, lines: list[str]) -> list[Any]:
        """What the statements show; errors by their base."""
        for number, line in enumerate(lines):
            start = len(self.told)
            try:
                exec(line, self.space)
            except Exception as error:
                bases = [b.__name__ for b in type(error).__mro__ if b.__module__ == "builtins"]
                if "backward" in line or "grad(" in line:  # how far it came is its own affair
                    self.failed = True
                    del self.told[start:]
                self.told.append({"error": bases, "line": number})
        return self.told


def run(torch: Any, number: int, spaces: dict[str, dict[str, Any]] = {}) -> list[Any]:  # noqa: B006
    """What program ``number`` shows on a library."""
    space = spaces.get(torch.__name__)
    if space is None:
        space = spaces[torch.__name__] = {"torch": torch}
        exec(_OWN, space)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Run(torch, space).all(Maker(number).made())


_FAMILIES = ("RuntimeError", "IndexError", "ValueError", "TypeError", "AttributeError")


def agree(got: Any, wanted: Any) -> bool:
    """Whether two results are the same but for rounding, and errors of one family."""
    if isinstance(wanted, dict):
        if not isinstance(got, dict) or got["line"] != wanted["line"]:
            return False
        return any(f in got["error"] and f in wanted["error"] for f in _FAMILIES) or (
            got["error"][0] == wanted["error"][0]
        )
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) == len(wanted) and all(map(agree, got, wanted))
    if isinstance(wanted, float) and isinstance(got, float):
        return abs(got - wanted) <= 2e-4 * max(1.0, abs(wanted))
    return bool(got == wanted)


def alike(number: int, got: list[Any], wanted: list[Any]) -> bool:
    """Whether lazyt shows for a program what PyTorch does, or more.

    A second backward through a gradient that was taken without hooks computes it from the values
    that the graph has; PyTorch refuses where such values were saved and written to since.

    Two kinds of program differ and are not excused here, because only their values tell. A write
    whose operand partly shares the memory written to (12889, 15680) reads in PyTorch what it has
    just written, where lazyt's operands keep their values; and float32 may cancel (7424).
    """
    if agree(got, wanted):
        return True
    lines = Maker(number).made()
    for place, item in enumerate(wanted):
        if isinstance(item, dict) and "squares(" in lines[item["line"]]:
            return agree(got[:place], wanted[:place])
    return False


def _compare(torch: Any, lazyt: Any, numbers: range) -> list[int]:
    wrong = []
    for number in numbers:
        wanted, got = run(torch, number), run(lazyt, number)
        if not alike(number, json.loads(json.dumps(got)), json.loads(json.dumps(wanted))):
            wrong.append(number)
            if len(wrong) <= 5:
                print(f"--- {number}\n" + "\n".join(Maker(number).made()))
                for one, other in zip(got, wanted):
                    if not agree(one, other):
                        print(f"  lazyt {one}\n  torch {other}")
                        break
                else:
                    print(f"  lazyt {got[len(wanted) :]}\n  torch {wanted[len(got) :]}")
            sys.stdout.flush()
    return wrong


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    torch = importlib.import_module("torch")
    if given.record:
        found = [run(torch, number) for number in range(COUNT)]
        text = json.dumps(found, separators=(",", ":"))
        RECORDED.write_bytes(lzma.compress(text.encode(), preset=9))
        return
    lazyt = importlib.import_module("lazyt")
    with lazyt.config.override(interpret=True):
        wrong = _compare(torch, lazyt, range(given.start, given.start + given.count))
    print(f"{given.count} programs, {len(wrong)} differ: {wrong[:100]}")


if __name__ == "__main__":
    main()
