"""Branches and loops in programs that are exported, traced, saved and loaded."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import lazyt
from lazyt import func, nn
from lazyt.export import Dim
from lazyt.fx.experimental.proxy_tensor import make_fx
from lazyt.fx.graph_module import GraphModule
from lazyt.utils import _pytree as pytree


class Branches(nn.Module):
    """Reads weights, a buffer and a value from around in its branches."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("ones", lazyt.ones(3))

    def forward(self, x: Any) -> Any:
        y = x * 2
        return func.cond(
            x.sum() > 0,
            lambda t: self.linear(t).sin() + y,
            lambda t: (t.cos() + self.ones) * y,
            (x,),
        )


class Nested(nn.Module):
    """A branch within a branch, and results in containers."""

    def forward(self, x: Any, k: Any) -> Any:
        def inner(t: Any) -> Any:
            return func.cond(k.sum() > 0, lambda u: u + 1, lambda u: u - 1, (t,))

        found = func.cond(x.sum() > 0, lambda t: (inner(t), t), lambda t: (t * 2, t.exp()), (x,))
        return {"a": found[0], "b": [found[1]]}


class Doubles(nn.Module):
    """As many steps as the values need."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(lazyt.tensor(1.5), requires_grad=False)

    def forward(self, x: Any) -> Any:
        steps, end = func.while_loop(
            lambda i, t: (t.sum() < 100) & (i < 20),
            lambda i, t: (i + 1, t * self.factor),
            (lazyt.tensor(0), x),
        )
        return steps, end


class Twice(nn.Module):
    """Carries one tensor in two places, and reads it from outside, too."""

    def forward(self, x: Any) -> Any:
        return func.while_loop(
            lambda a, b: a.sum() < 50, lambda a, b: (a + b, b * 2 + x.abs()), (x, x)
        )


class Steps(nn.Module):
    """A recurrent cell."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 3)

    def forward(self, x: Any) -> Any:
        def step(state: Any, slice_: Any) -> Any:
            state = self.cell(slice_, state)
            return state, {"state": state * 2}

        return func.scan(step, lazyt.zeros(x.shape[1], 3), x)


class Mapped(nn.Module):
    """A function of slices that reads a tensor from outside."""

    def forward(self, x: Any, y: Any) -> Any:
        z = y.exp()
        return func.map(lambda row, other: row.sin() + other * z, x, y)


class Sums(nn.Module):
    """Running products."""

    def forward(self, x: Any) -> Any:
        return func.associative_scan(lambda a, b: a * b, x, 0)


_x = lazyt.tensor([[0.5, 1.0, 0.25], [1.5, 2.0, 0.125]])
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...], tuple[Any, ...]]] = {
    "cond": (Branches, (_x,), (-_x,)),
    "nested": (Nested, (_x, lazyt.ones(2)), (_x, -lazyt.ones(2))),
    "while_loop": (Doubles, (_x,), (_x / 100,)),
    "twice": (Twice, (_x,), (_x * 3,)),
    "scan": (Steps, (_x.reshape(2, 1, 3),), (-_x.reshape(2, 1, 3),)),
    "map": (Mapped, (_x, _x[0]), (_x * 2, _x[1])),
    "associative_scan": (Sums, (_x,), (-_x,)),
}


def same(found: Any, wanted: Any) -> bool:
    """Whether two trees are equal."""
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted), strict=True)
    alike = pytree.tree_structure(found) == pytree.tree_structure(wanted)
    return alike and all(lazyt.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", CASES)
def test_exported_programs_decide_by_values(name: str) -> None:
    make, args, other = CASES[name]
    module = make()
    program = lazyt.export.export(module, args)
    file = io.BytesIO()
    lazyt.export.save(program, file)
    file.seek(0)
    for made in (program, lazyt.export.load(file)):
        for given in (args, other):
            assert same(made.module()(*given), module(*given))
        targets = [node.target for node in made.graph.nodes if node.op == "call_function"]
        assert (
            getattr(func, name.replace("nested", "cond").replace("twice", "while_loop")) in targets
        )


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("nested", "scan")])
def test_traced_programs_decide_by_values(name: str) -> None:
    make, args, other = CASES[name]
    module = make()
    graph = make_fx(module)(*args)
    jit: Any = lazyt.jit
    script = jit.trace(module, args)
    file = io.BytesIO()
    jit.save(script, file)
    file.seek(0)
    for made in (graph, script, jit.load(file)):
        for given in (args, other):
            assert same(made(*given), module(*given))


def test_branches_are_graphs_of_their_own_and_read_operands_alone() -> None:
    program = lazyt.export.export(Branches(), (_x,))
    inner = [m for m in program.graph_module.children() if isinstance(m, GraphModule)]
    assert len(inner) == 2
    for graph in inner:
        assert not [node for node in graph.graph.nodes if node.op == "get_attr"]
    assert sorted(program.state_dict) == ["linear.bias", "linear.weight", "ones"]


def test_gradients_go_through_loaded_branches() -> None:
    module = Branches()
    file = io.BytesIO()
    lazyt.export.save(lazyt.export.export(module, (_x,)), file)
    file.seek(0)
    made = lazyt.export.load(file).module()
    for net in (module, made):
        net(_x).sum().backward()
    found, wanted = (dict(net.named_parameters())["linear.weight"].grad for net in (made, module))
    assert found is not None and wanted is not None
    assert lazyt.equal(found, wanted)


def test_sizes_stay_open() -> None:
    size = Dim("size")
    module = Branches()
    program = lazyt.export.export(module, (_x,), dynamic_shapes=({0: size},))
    wide = lazyt.ones(7, 3)
    assert same(program.module()(wide), module(wide))
    steps = Steps()
    program = lazyt.export.export(steps, (lazyt.ones(2, 1, 3),), dynamic_shapes=({0: size},))
    assert same(program.module()(lazyt.ones(5, 1, 3)), steps(lazyt.ones(5, 1, 3)))


def test_numbers_that_a_loop_carries_are_refused() -> None:
    class Counts(nn.Module):
        def forward(self, x: Any) -> Any:
            return func.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (0, x))

    with pytest.raises(lazyt.errors.LazytError, match="carries tensors, no numbers"):
        lazyt.export.export(Counts(), (_x,))
