"""Statements in which Python looks at values, copies tensors and forgets them."""

from __future__ import annotations

import math

from lazyt.testing.programs.maker import Maker, repeats, step
from lazyt.testing.programs.making_math import is_float


@step(1.5)
def realized(m: Maker) -> str | None:
    """A lazy module computes."""
    x, y = m.tensor(), m.tensor()
    return m.one(f"realize({x})", f"realize({x}, {y})")


@step(1.5)
def deleted(m: Maker) -> str | None:
    """A name goes."""
    names = list(m.machine.live())
    return f"del {m.random.choice(names)}" if len(names) > 3 else None


@step(1.5)
def number(m: Maker) -> str | None:
    """Values leave as Python's numbers."""
    x = m.tensor(lambda t: math.prod(t.shape) == 1 or m.chance(0.1 * m.errors))
    if x is None or not m.calm(x):
        return None
    ways = ["item()"] if is_float(m, x) else ["item()", "__index__()"]
    name = m.new("n")
    plain = [f"{name} = float({x})", f"{name} = {x}.tolist()"]
    if m.sharp(x):
        plain += [f"{name} = int({x})", f"{name} = bool({x})", f"{name} = len({x})"]
    return m.random.choice([*plain, *[f"{name} = {x}.{way}" for way in ways]])


@step(1)
def used(m: Maker) -> str | None:
    """A number that was looked at goes back."""
    numbers = [k for k, v in m.machine.live().items() if isinstance(v, (int, float))]
    x = m.tensor()
    if not numbers or x is None:
        return None
    n = m.random.choice(numbers)
    if repeats(m[x]):
        return f"{m.new()} = {x} * {n}"
    return m.one(f"{m.new()} = {x} + {n}", f"{x}.mul_({n})", f"{m.new()} = torch.tensor({n})")


@step(1.5)
def printed(m: Maker) -> str | None:
    """The text of a tensor."""
    x = m.tensor()
    if x is None or not m.sharp(x) or not m.calm(x):
        return None
    name = m.new("n")
    return m.one(f"{name} = repr({x})", f"{name} = str({x})", f"{name} = f'{{{x}}}'")


@step(1)
def facts(m: Maker) -> str | None:
    """What can be asked without computing."""
    x = m.tensor()
    if x is None:
        return None
    name = m.new("n")
    return f"{name} = " + m.one(
        f"tuple({x}.shape)", f"{x}.is_contiguous()", f"{x}.dim()", f"{x}.numel()", f"{x}.size(0)",
        f"{x}.element_size()", f"{x}.is_floating_point()", f"len({x})", f"str({x}.dtype)[-5:]",
        f"{x}.stride(0)", f"{x}.nbytes", f"str({x}.device)", f"{x}._is_view()", f"{x}.size(-1)",
    )  # fmt: skip


@step(1.5)
def decided(m: Maker) -> str | None:
    """What happens depends on a value."""
    x, y = m.tensor(), m.tensor()
    if x is None or y is None or not m.sharp(x) or not m.calm(x):
        return None
    test = m.one(f"{x}.sum() > 0", f"{x}.any()", f"({x} == 0).all()", f"{x}.max() < 3")
    name = m.new()
    if repeats(m[y]):
        return f"if {test}:\n    {name} = {y} + 1\nelse:\n    {name} = {y} * 2"
    return f"if {test}:\n    {m.one(f'{y}.add_(1)', f'{name} = {y} + 1', f'{y}[0] = 2')}\n" + (
        f"else:\n    {m.one(f'{y}.mul_(2)', f'{name} = {y} * 2', f'{y} = {y}.clone()')}"
    )


@step(1.5)
def iterated(m: Maker) -> str | None:
    """Rows one after the other, written to as they come."""
    x, y = m.tensor(lambda t: t.ndim > 0), m.tensor()
    if x is None or y is None or repeats(m[x]):
        return None
    return m.one(
        f"for row in {x}:\n    row.add_(1)",
        f"for i, row in enumerate({x}):\n    row.mul_(i)",
        f"for i in range(len({x})):\n    {x}[i] = i",
        f"for i in range({x}.size(0)):\n    {x}[i] += {x}[0].clone()",
        f"for i in range(3):\n    {y} = {y} * 0.5 + i",
        f"{m.new()}, *rest = {x}",
    )


@step(1)
def duplicated(m: Maker) -> str | None:
    """Copies by Python's means."""
    x = m.tensor()
    if x is None:
        return None
    way = m.one("copy.copy", "copy.deepcopy", "copy.deepcopy", "pickle.loads(pickle.dumps")
    return f"{m.new()} = {way}({x}){')' * way.startswith('pickle')}"


@step(0.7)
def renamed(m: Maker) -> str | None:
    """A second name for the same tensor, or the same name for another."""
    x, y = m.tensor(), m.tensor()
    return m.one(f"{m.new()} = {x}", f"{x} = {y} + 1", f"{x} = {x}.contiguous()")
