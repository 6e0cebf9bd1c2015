"""Faults planted in every stage of the compiler are found, and the right stage is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import compiler, ops
from lazyt.codegen import prelude
from lazyt.compiler import KernelPass, Pass
from lazyt.config import config
from lazyt.errors import VerifyError
from lazyt.extensions import targets
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node, rebuild, remake, topological
from lazyt.ir.group import Group
from lazyt.ir.kernel import Kernel, Phase, Stage, Store
from lazyt.ir.parser import parse_graph
from lazyt.ir.printer import print_graph
from lazyt.ir.scalar import Call, call
from lazyt.runtime.plan_checks import undefined_behaviour
from lazyt.testing.random_graphs import random_graph
from lazyt.testing.stages import Finding, examine
from lazyt.testing.stated_errors import stated_error

GRAPH = """
graph(%0: float32[5, 40], %1: float32[40, 7], %2: int64[4]) -> (%6, %8, %10)
%3 = contract(%0, %1) {left=(0, 1), right=(1, 2), out=(0, 2)} : float32[5, 7]
%4 = map(%3) {tanh($0)} : float32[5, 7]
%5 = reduce(%4) {kind=sum, axes=(1,)} : float32[5]
%6 = map(%5) {sub($0, 0.5:float32)} : float32[5]
%7 = map(%0, %0) {mul($0, exp($1))} : float32[5, 40]
%8 = reduce(%7) {kind=max, axes=(1,)} : float32[5]
%9 = flip(%1) {axes=(0,)} : float32[40, 7]
%10 = gather(%9, %2) {axis=0, batch=0} : float32[4, 7]
"""

Plant = Callable[[pytest.MonkeyPatch], None]


def graph() -> list[Node]:
    return parse_graph(GRAPH.lstrip(), ops.OPS)[1]


def found(target: str = "c") -> Finding:
    result = examine(graph(), target=target)
    assert result is not None
    return result


def test_a_pass_that_declares_a_tolerance_makes_no_fault_of_others() -> None:
    """Of zeros, and of what is nowhere finite, everything is within any tolerance."""
    text = GRAPH.replace("0.5:float32", "inf:float32")
    idle = Pass("idle", list, "changes nothing", exact=False, tolerance=1e-3)
    with compiler.using(passes=[*compiler.PASSES, idle]):
        for kinds in (("zeros",), ("hostile",)):
            assert examine(parse_graph(text.lstrip(), ops.OPS)[1], kinds=kinds, target="") is None


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert examine(graph()) is None
    for seed in range(12):
        assert examine(random_graph(seed).roots, target="") is None
        assert examine(random_graph(seed).roots, kinds=("hostile",), seed=seed, target="") is None


# -------------------------------------------------------------------------------- passes


def flipped(node: Node, inputs: tuple[Node, ...]) -> Node:
    """A rewrite that is wrong: a flip is left out."""
    return inputs[0] if node.op.name == "flip" else remake(node, inputs)


@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_wrong_pass_is_named_with_its_rewrite(place: int) -> None:
    wrong = Pass("unflip", lambda roots: rebuild(roots, flipped), "a test")
    passes = list(compiler.PASSES)
    passes.insert(place, wrong)
    result = examine(graph(), passes=passes, target="")
    assert result is not None and result.stage == f"pass {place + 1} unflip"
    assert result.rewrite == 1 and "<flip float32[40, 7]>" in result.text


def test_one_wrong_rewrite_among_right_ones() -> None:
    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = remake(node, inputs)
        if node.op.name != "map":
            return made
        if isinstance(node.params, Call) and node.params.fn.name == "tanh":
            return ops.apply("sin", inputs[0])
        return ops.reshape(ops.reshape(made, (made.size,)), made.shape)

    passes = [Pass("around", lambda roots: rebuild(roots, change), "a test")]
    result = examine(graph(), passes=passes, target="")
    assert result is not None and result.stage == "pass 1 around"
    assert result.rewrite == 1 and "of 2" in result.text


def test_a_pass_that_raises() -> None:
    def run(roots: Sequence[Node]) -> list[Node]:
        raise IndexError("no such axis")

    result = examine(graph(), passes=[Pass("bad", run, "a test")], target="")
    assert result is not None and result.stage == "pass 1 bad" and "no such axis" in result.text


# ------------------------------------------------------------------------------- fusion


def with_groups(change: Callable[[list[Group]], list[Group]]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        real = compiler.group_graph

        def group_graph(*args: Any, **kwargs: Any) -> tuple[list[Node], list[Group]]:
            normal, groups = real(*args, **kwargs)
            return normal, change(groups)

        patch.setattr(compiler, "group_graph", group_graph)

    return plant


def unstored(groups: list[Group]) -> list[Group]:
    last = groups[-1]
    last.stored.pop()
    return groups


def unread(groups: list[Group]) -> list[Group]:
    group = next(g for g in groups if g.kind in ("map", "row"))
    group.reads.clear()
    return groups


FUSION: dict[str, Plant] = {
    "the last group is dropped": with_groups(lambda groups: groups[:-1]),
    "a group runs too early": with_groups(lambda groups: groups[::-1]),
    "a group runs twice": with_groups(lambda groups: [*groups, groups[0]]),
    "a value is not stored": with_groups(unstored),
    "a read is forgotten": with_groups(unread),
}


@pytest.mark.parametrize("name", FUSION)
def test_fusion_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FUSION[name](monkeypatch)
    assert found("").stage == "fusion"


# ------------------------------------------------------------------------------- lowering


def with_kernels(change: Callable[[Kernel], Kernel]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        from lazyt.codegen.lower import groups
        from lazyt.codegen.plan import assemble, duplicates
        from lazyt.testing import stages

        real = groups.lower_group

        def lower_group(*args: Any, **kwargs: Any) -> Any:
            made = real(*args, **kwargs)
            return dataclasses.replace(made, kernel=change(made.kernel))

        for module in (groups, assemble, duplicates, stages):
            if hasattr(module, "lower_group"):
                patch.setattr(module, "lower_group", lower_group)

    return plant


def without_last_statement(kernel: Kernel) -> Kernel:
    """Of kernels with loops: the last stage does nothing."""
    phase = kernel.phases[-1]
    if not isinstance(phase, Phase) or not isinstance(phase.stages[-1].body[-1], Store):
        return kernel
    stages = (*phase.stages[:-1], Stage(phase.stages[-1].axis, phase.stages[-1].body[:-1]))
    return dataclasses.replace(kernel, phases=(dataclasses.replace(phase, stages=stages),))


def negated(kernel: Kernel) -> Kernel:
    """A valid kernel with results of the other sign, where they are stored at once."""
    (phase,) = kernel.phases
    assert isinstance(phase, Phase)
    (stage,) = phase.stages
    *before, store = stage.body
    assert isinstance(store, Store)
    changed = dataclasses.replace(store, value=call("neg", store.value))
    stages = (dataclasses.replace(stage, body=(*before, changed)),)
    return dataclasses.replace(kernel, phases=(dataclasses.replace(phase, stages=stages),))


LOWERING: dict[str, Plant] = {"results are not stored": with_kernels(without_last_statement)}


@pytest.mark.parametrize("name", LOWERING)
def test_lowering_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    LOWERING[name](monkeypatch)
    assert found("").stage == "lowering"


def test_a_wrong_kernel_pass_is_named() -> None:
    step = KernelPass("empty", without_last_statement, "a test")
    with compiler.register_kernel_pass(step):
        assert found("").stage == "kernel pass empty"


# ------------------------------------------------------------------------- printers, interpreters


def with_text(patch: pytest.MonkeyPatch, change: Callable[[str], str]) -> None:
    """C is printed as usual, and then changed."""
    target = targets.named("c")
    real = target.printer

    def c_printer(*args: Any, **kwargs: Any) -> Any:
        printer = real(*args, **kwargs)

        def wrong(kernel: Kernel, names: Any = None) -> Any:
            made = printer(kernel, names)
            prelude = tuple(map(change, made.source.prelude))
            source = dataclasses.replace(
                made.source, text=change(made.source.text), prelude=prelude
            )
            return dataclasses.replace(made, source=source)

        return wrong

    patch.setattr(target, "printer", c_printer)


def test_the_printer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with_text(monkeypatch, lambda text: text.replace("tanh", "sinh"))
    assert found().stage == "C printer"


def test_undefined_behaviour_is_the_printers(monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = ops.input_((8,), float32)
    roots = [ops.apply("neg", leaf)]
    result = examine(roots)
    assert result is None
    shifted = "{\n  volatile int places = 40, lost = 1 << places;\n  (void)lost;\n"
    with_text(monkeypatch, lambda text: text.replace("{\n", shifted, 1))
    leaves = [leaf]
    program, _ = compiler.compile_graph(roots, leaves)
    told = undefined_behaviour(program, [np.ones(8, np.float32)])
    if told:  # the compiler can look for it
        assert "volatile int places" in told and "shift exponent 40" in told


@pytest.mark.parametrize(
    ("old", "new", "function"),
    [
        ("0.16666542f, r, 0.5f", "0.16656542f, r, 0.5f", "exp"),
        ("8.26294126e-08f, rest", "8.262932e-08f, rest", "log"),
    ],
)
def test_functions_keep_the_errors_that_they_state(
    old: str, new: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"graph(%0: float32[64]) -> (%1)\n%1 = map(%0) {{{function}($0)}} : float32[64]\n"
    roots = parse_graph(text, ops.OPS)[1]
    assert examine(roots) is None
    real = prelude._text
    assert any(old in real(name) for name in prelude.function_names())
    monkeypatch.setattr(prelude, "_text", lambda name: real(name).replace(old, new))
    result = examine(roots, kinds=("positive",))
    assert result is not None and result.stage == "C printer"
    assert f"{function} is " in result.text and "units in the last place" in result.text


def test_exact_functions_have_no_stated_error() -> None:
    text = (
        "graph(%0: float32[64], %1: float32[64]) -> (%2, %3)\n"
        "%2 = map(%0, %1) {nextafter($0, $1)} : float32[64]\n%3 = map(%0) {exp($0)} : float32[64]\n"
    )
    next_one, exp = parse_graph(text, ops.OPS)[1]
    assert stated_error(next_one) is None and stated_error(ops.flip(exp, (0,))) is None
    stated = stated_error(exp)
    assert stated is not None and stated[0].name == "exp" and stated[1] < 4


@pytest.mark.parametrize(
    ("results", "old", "new", "told"),
    [
        ("%2", "end - 31", "end - 30", "nan instead of"),  # an element behind the input is read
        ("%1, %2", "y1[i0] = ", "y1[i0 + 1] = ", "it writes to memory behind output 0"),
    ],
)
def test_memory_that_is_not_the_plans_is_seen(
    results: str, old: str, new: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        f"graph(%0: float32[63]) -> ({results})\n%1 = map(%0) {{neg($0)}} : float32[63]\n"
        "%2 = reduce(%0) {kind=sum, axes=(0,)} : float32[]\n"
    )
    roots = parse_graph(text, ops.OPS)[1]
    assert examine(roots) is None
    with_text(monkeypatch, lambda text: text.replace(old, new))
    result = examine(roots, kinds=("uniform",))
    assert result is not None and result.stage == "C printer"
    assert told in result.text


def test_wrong_meanings_of_functions_and_ops_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from lazyt.ir.scalar import FUNCTIONS

    tanh = FUNCTIONS["tanh"]
    real = tanh.evaluate
    object.__setattr__(tanh, "evaluate", lambda x: real(x) * np.float32(1.001))
    try:
        assert found().stage == "interpreter"
    finally:
        object.__setattr__(tanh, "evaluate", real)
    flip = ops.OPS["flip"]
    meaning = flip.evaluate
    object.__setattr__(flip, "evaluate", lambda node, x: x)
    try:
        assert found("").stage == "interpreter"
    finally:
        object.__setattr__(flip, "evaluate", meaning)


# ---------------------------------------------------------------- where programs run


def test_kernels_and_c_are_verified_where_programs_run(monkeypatch: pytest.MonkeyPatch) -> None:
    x = lazyt.linspace(-1, 1, 24).reshape(4, 6).realize()
    with config.override(verify="values", tier=1):
        y = ((x @ x.t()).softmax(-1) + x.sum(1)).cumsum(0)
        assert y.shape == (4, 4) and y.isfinite().all()
        step = KernelPass("negate", negated, "a test")
        with compiler.register_kernel_pass(step), pytest.raises(VerifyError, match="the kernels"):
            (x * 3 + 1).tolist()


def test_random_graphs_pass_all_verification() -> None:
    with config.override(verify="values", tier=1):
        for seed in range(6):
            roots = parse_graph(print_graph(random_graph(seed).roots), ops.OPS)[1]
            leaves = [node for node in topological(roots) if node.op.name == "input"]
            compiler.compile_graph(roots, leaves)
