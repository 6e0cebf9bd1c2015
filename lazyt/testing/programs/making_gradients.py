"""Statements about gradients."""

from __future__ import annotations

from lazyt.testing.programs.maker import Maker, repeats, stands_alone, step
from lazyt.testing.programs.making_math import is_float


@step(2)
def required(m: Maker) -> str | None:
    """A tensor becomes a leaf."""
    x = m.tensor(lambda t: "float" in str(t.dtype) or m.chance(0.03 * m.errors))
    if x is None:
        return None
    own = m.one(f"{m.new()} = {x}.detach().clone()", f"{m.new()} = {x}.clone()")
    if not stands_alone(m, x) or m.chance(0.4):
        return f"{own}.requires_grad_()"
    return f"{x}" + m.one(".requires_grad_()", ".requires_grad = True", ".requires_grad_(False)")


def loss(m: Maker, x: str) -> str:
    """An expression with one element."""
    return str(m.one(f"{x}.sum()", f"({x} * 2).sum()", f"({x} * {x}).sum()", f"{x}.mean()", x))


@step(3)
def backward(m: Maker) -> str | None:
    """Gradients into leaves."""
    x = m.tensor(lambda t: t.requires_grad and (not t.is_leaf or m.chance(0.3)))
    if x is None:
        return None
    keep = m.one("", "", "retain_graph=True")
    if m.chance(0.2):
        weight = m.one(f"torch.ones_like({x})", f"{x}.detach().clone()")
        return f"{x}.backward({weight}{keep and ', ' + keep})"
    return f"{loss(m, x)}.backward({keep})"


@step(1.5)
def asked(m: Maker) -> str | None:
    """Gradients as results."""
    x = m.tensor(lambda t: t.requires_grad and not t.is_leaf)
    leaf = m.tensor(lambda t: t.requires_grad)
    if x is None or leaf is None:
        return None
    more = m.one("", ", retain_graph=True", ", create_graph=True", ", allow_unused=True")
    if not m[x].numel():
        more = ""
    asked = f"torch.autograd.grad({loss(m, x)}, {leaf}{more})[0]"
    return f"{m.new()} = {asked}.clone(memory_format=torch.contiguous_format)"


@step(1.5)
def grads(m: Maker) -> str | None:
    """What is done with gradients."""
    x = m.tensor(lambda t: t.is_leaf and t.grad is not None)
    if x is None:
        return None
    return m.one(
        f"{m.new()} = {x}.grad", f"{x}.grad.zero_()", f"{x}.grad = None", f"{x}.grad.add_(1)",
        f"{x}.grad *= 2", f"{x}.data.sub_({x}.grad)", f"{x}.grad[0] = 1",
        f"with torch.no_grad():\n    {x} -= {x}.grad",
        f"with torch.no_grad():\n    {x}.add_({x}.grad, alpha=-0.5)",
    )  # fmt: skip


@step(2)
def without(m: Maker) -> str | None:
    """A block without gradients."""
    x = m.tensor(lambda t: t.requires_grad) or m.tensor()
    if x is None:
        return None
    mode = m.one("torch.no_grad()", "torch.no_grad()", "torch.set_grad_enabled(False)")
    if repeats(m[x]):
        return None
    body = [f"{m.new()} = {x} * 2", f"{x}.mul_(2)", f"{x}.zero_()", f"{x}[0] = 1",
            f"{m.new('n')} = ({x} + 1).requires_grad", f"{x}.add_({m.fitting(x)})",
            f"{m.new()} = {x}.clone()"]  # fmt: skip
    if not m[x].requires_grad:
        body += [f"{m.new()} = {x}[0]", f"{m.new()} = {x}.view(-1)"]
    return f"with {mode}:\n    {m.random.choice(body)}"


@step(1)
def graph_retained(m: Maker) -> str | None:
    """Gradients of what is no leaf, and hooks."""
    x = m.tensor(lambda t: t.requires_grad)
    if x is None:
        return None
    if m.chance(0.5) or m[x]._is_view():  # PyTorch calls hooks of unused views with None
        return f"{x}.retain_grad()"
    return f"{x}.register_hook(lambda g: {m.one('g * 2', 'g + 1', 'None')})"


@step(1)
def silent(m: Maker) -> str | None:
    """Writes that autograd does not see."""
    x = m.tensor()
    if x is None or not is_float(m, x) or repeats(m[x]):
        return None
    change = m.one("add_(1)", "mul_(2)", "zero_()", "clamp_(min=0)", "copy_(torch.tensor(1.5))")
    return f"{x}.{m.one('data', 'detach()', 'data')}.{change}"
