"""What programs add to the compiler: where it stands, how it ends, and which plans are its own."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import compiler, extensions, ops
from lazyt.codegen.plan.candidates import Field
from lazyt.codegen.plan.choices import Tuned
from lazyt.compiler import KernelPass, Pass
from lazyt.config import config
from lazyt.errors import ArgumentError, InternalError, PassError, VerifyError
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.ir.graph import Node, NoGradient, Type, make, rebuild, remake
from lazyt.ir.group import Group
from lazyt.ir.kernel import Kernel, Phase, Store
from lazyt.ir.scalar import FUNCTIONS, HOMES, arg, call, const
from lazyt.ops.registry import OPS
from lazyt.plan import planning
from lazyt.runtime.cpu import compile
from lazyt.runtime.definitions import definition_of

pytestmark = pytest.mark.skipif(not compile.available(), reason="needs a C compiler")


def unchanged(roots: Sequence[Node]) -> list[Node]:
    return list(roots)


def named(name: str, run: Any = unchanged, **facts: Any) -> Pass:
    return Pass(name, run, "a test", **facts)


def doubled(roots: Sequence[Node]) -> list[Node]:
    return [ops.apply("add", root, root) for root in roots]


@pytest.fixture(autouse=True)
def nothing_stays() -> Any:
    yield
    assert not extensions.is_active()


# ------------------------------------------------------------------ graph passes


def test_passes_stand_where_they_are_put() -> None:
    usual = [step.name for step in compiler.PASSES]
    with (
        compiler.register_pass(named("a"), after="simplify"),
        compiler.register_pass(named("b"), after="simplify"),
        compiler.register_pass(named("c"), before="simplify"),
        compiler.register_pass(named("d")),
        compiler.register_pass(named("e"), after="a"),
    ):
        found = [step.name for step in compiler.PASSES]
        at = found.index("simplify")
        assert found[at - 1 : at + 4] == ["c", "simplify", "a", "e", "b"] and found[-1] == "d"
        assert [name for name in found if len(name) > 1] == usual
    assert [step.name for step in compiler.PASSES] == usual


def test_a_handle_is_removed_once() -> None:
    handle = compiler.register_pass(named("mine"))
    with handle:
        handle.remove()
        handle.remove()
    with pytest.raises(ArgumentError, match="no pass is called 'mine'"):
        compiler.register_pass(named("other"), after="mine")


@pytest.mark.parametrize(
    ("step", "places", "error", "message"),
    [
        (unchanged, {}, TypeError, "takes a compiler.Pass, not a function"),
        (named("simplify"), {}, ArgumentError, "a pass called 'simplify' already"),
        (named("x"), {"after": "dance"}, ArgumentError, "there are strip_markers, simplify"),
        (named("x"), {"after": "simplify", "before": "simplify"}, ArgumentError, "not both"),
        (named("x", lambda: []), {}, TypeError, r"test_extensions.py:\d+: pass x is called with 1"),
        (named("x", 3), {}, TypeError, "3 is no function"),
    ],
)
def test_what_is_no_pass_is_refused(step: Any, places: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        compiler.register_pass(step, **places)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda roots: None, "has to return a list of nodes, not None"),
        (lambda roots: [1], r"has to return a list of nodes, not \[1\]"),
        (lambda roots: [], "was given 1 node.s. and returned 0"),
        (
            lambda roots: [ops.cast(r, lazyt.float64) for r in roots],
            r"made float64\[3\] of float32",
        ),
        (lambda roots: [ops.reshape(r, (3, 1)) for r in roots], r"made float32\[3, 1\] of float32"),
    ],
)
def test_garbage_of_a_pass_is_named_with_its_place(run: Any, message: str) -> None:
    x = lazyt.ones(3).realize()
    expected = rf"pass 'bad' \(.*test_extensions.py:\d+\) .*{message}"
    with compiler.register_pass(named("bad", run)), pytest.raises(PassError, match=message) as got:
        (x * 3).tolist()
    import re

    assert re.search(expected, str(got.value))
    assert (x * 3).tolist() == [3.0] * 3


def test_an_exception_of_a_pass_says_which() -> None:
    def bad(roots: Sequence[Node]) -> list[Node]:
        raise KeyError("lost")

    with compiler.register_pass(named("bad", bad)), pytest.raises(KeyError) as got:
        (lazyt.ones(3).realize() * 5).tolist()
    assert "in pass bad" in got.value.__notes__


@pytest.mark.parametrize("captured", [False, True])
def test_plans_of_passes_are_their_own_and_come_back(captured: bool) -> None:
    function: Any = lazyt.jit(lambda x: x * 3) if captured else lambda x: x * 3
    x = lazyt.ones(3).realize()
    mine = named("doubled", doubled)
    for turn in range(3):
        started = compile.started
        for _ in range(4):
            assert function(x).tolist() == [3.0] * 3
        with compiler.register_pass(mine, before="simplify"):
            for _ in range(4):
                assert function(x).tolist() == [6.0] * 3
            with compiler.using(passes=()):
                assert function(x).tolist() == [3.0] * 3
        assert turn == 0 or compile.started == started  # in memory


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("needs", [False, True])
def test_passes_may_have_to_see_numbers(needs: bool, captured: bool) -> None:
    seen: list[list[float]] = []

    def look(roots: Sequence[Node]) -> list[Node]:
        found: list[float] = []

        def change(node: Node, inputs: tuple[Node, ...]) -> Node:
            parts = ops.match_call(node) or ()
            found.extend(p for p in parts if isinstance(p, float))
            return remake(node, inputs)

        made = rebuild(roots, change)
        seen.append(found)
        return made

    def multiply(x: lazyt.Tensor, factor: float) -> lazyt.Tensor:
        return x * factor

    run: Any = lazyt.jit(multiply) if captured else multiply
    x = lazyt.ones(3).realize()
    mine = named("look", look, needs_constants=needs)
    with compiler.register_pass(mine), config.override(disk_cache=False):
        for factor in (0.5, 0.25, 0.125):
            for _ in range(2):
                assert run(x, factor).tolist() == [factor] * 3
    if needs:
        assert seen == [[0.5], [0.25], [0.125]]
    else:
        assert seen == [[0.5], []]  # from the second on it is an input


# ------------------------------------------------------------------ kernel passes


def plus_one(kernel: Kernel) -> Kernel:
    """Adds one to whatever is stored."""

    def change(item: Any) -> Any:
        if not isinstance(item, Store):
            return item
        return replace(item, value=call("add", item.value, const(1, item.value.dtype)))

    phases = [
        replace(p, stages=tuple([replace(s, body=tuple(map(change, s.body))) for s in p.stages]))
        if isinstance(p, Phase)
        else p
        for p in kernel.phases
    ]
    return replace(kernel, phases=tuple(phases))


def test_kernels_go_through_registered_steps() -> None:
    x = lazyt.ones(3).realize()
    with compiler.register_kernel_pass(KernelPass("plus_one", plus_one, "a test")) as handle:
        assert (x * 7).tolist() == [8.0] * 3
        with pytest.raises(ArgumentError, match="a kernel pass called 'plus_one' already"):
            compiler.register_kernel_pass(KernelPass("plus_one", plus_one, "a test"))
        with compiler.using(kernel_passes=[]):
            assert (x * 7).tolist() == [7.0] * 3
        with config.override(verify=True):
            assert (x * 7).tolist() == [8.0] * 3
    handle.remove()
    assert (x * 7).tolist() == [7.0] * 3
    with pytest.raises(TypeError, match=r"takes a compiler\.KernelPass, not a Pass"):
        compiler.register_kernel_pass(named("x"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda kernel: None, "has to return a kernel, not None"),
        (lambda kernel: replace(kernel, buffers=()), "changed the buffers of lz_kernel"),
    ],
)
def test_garbage_of_a_kernel_pass_is_named(run: Any, message: str) -> None:
    step = KernelPass("bad", run, "a test")
    with compiler.register_kernel_pass(step), pytest.raises(PassError, match=message):
        (lazyt.ones(3).realize() * 11).tolist()


def test_kernels_of_a_pass_are_verified_when_asked() -> None:
    def beyond(kernel: Kernel) -> Kernel:
        def change(item: Any) -> Any:
            is_store = isinstance(item, Store)
            return replace(item, index=tuple([i + 1 for i in item.index])) if is_store else item

        (phase,) = kernel.phases
        assert isinstance(phase, Phase)
        stages = tuple([replace(s, body=tuple(map(change, s.body))) for s in phase.stages])
        return replace(kernel, phases=(replace(phase, stages=stages),))

    step = KernelPass("beyond", beyond, "a test")
    with (
        compiler.register_kernel_pass(step), config.override(verify=True),
        pytest.raises(VerifyError, match="kernel pass 'beyond'"),
    ):  # fmt: skip
        (lazyt.ones(3).realize() * 13).tolist()


# ---------------------------------------------------------------------- policies


class Alone:
    """Nothing is fused."""

    def may_join(self, node: Node, group: Group) -> bool:
        return False


class Narrow:
    """Every kernel in the last of its neighbours' forms."""

    def __init__(self) -> None:
        self.chosen: list[Tuned | None] = []

    def form(self, kernel: Kernel, forms: Field) -> Tuned | None:
        first = forms.standard()
        near = forms.neighbours(first) if first is not None else []
        self.chosen.append(near[-1] if near else None)
        return self.chosen[-1]


def test_a_policy_decides_what_is_fused() -> None:
    x = lazyt.linspace(0, 1, 12).reshape(3, 4).realize()

    def program() -> lazyt.Tensor:
        return (x.exp().sum(1) + 1).sqrt()

    expected = program().tolist()
    assert len(lazyt.explain(program()).kernels) == 1
    with compiler.using(fuse=Alone()):
        assert len(lazyt.explain(program()).kernels) == 2
        assert program().tolist() == expected
    with (
        pytest.raises(TypeError, match="fuse: object has no method may_join"),
        compiler.using(
            fuse=object()  # type: ignore[arg-type]
        ),
    ):
        pass


def test_a_tuner_decides_the_forms_and_no_bit_changes() -> None:
    a, b = (lazyt.linspace(-1, 1, 64 * 64).reshape(64, 64).realize() for _ in range(2))
    expected = (a @ b).numpy().tobytes()
    tuner = Narrow()
    # Of a plan that an earlier run left on disk nobody asks the tuner again.
    with compiler.using(tuner=tuner), lazyt.config.override(disk_cache=False):
        assert (a @ b).numpy().tobytes() == expected
        text = lazyt.explain(a @ b).kernels[0].form
    assert tuner.chosen and text != lazyt.explain(a @ b).kernels[0].form
    with (
        pytest.raises(TypeError, match="tuner: int has no method form"),
        compiler.using(
            tuner=3  # type: ignore[arg-type]
        ),
    ):
        pass


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {"target": "dance"},
            ArgumentError,
            "no target for the CPU is called 'dance'; there are c",
        ),
        ({"target": "cuda"}, ArgumentError, "no target for the CPU is called 'cuda'"),
        ({"passes": [3]}, TypeError, "passes takes Passes, not 3"),
        ({"kernel_passes": [named("x")]}, TypeError, "kernel_passes takes KernelPasses"),
    ],
)
def test_what_using_does_not_take(given: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message), compiler.using(**given):
        pass


# ------------------------------------------------------------- ops and functions


def define(name: str, factor: float) -> Any:
    def lower(node: Node, index: Any, read: Any) -> Any:
        value = read(node.inputs[0], index)
        return call("mul", value, const(factor, value.dtype))

    return compiler.define_op(
        name, params=None, infer=lambda params, x: Type(x.shape, x.dtype),
        evaluate=lambda node, x: x * factor, vjp=NoGradient("a test"), jvp=NoGradient("a test"),
        batch=lambda node, inputs, batched: make(node.op, tuple(inputs)), lower=lower,
    )  # fmt: skip


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("tier", [0, 1, "auto"])
def test_an_op_is_defined_anew(captured: bool, tier: Any) -> None:
    mine = SimpleNamespace(op=define("scaled_in_test", 2.0))

    def function(x: lazyt.Tensor) -> lazyt.Tensor:
        return wrap(make(mine.op, (unwrap(x),)), x) + 1

    run: Any = lazyt.jit(function) if captured else function
    x = lazyt.ones(3).realize()
    with config.override(tier=tier):
        for factor in (2.0, 3.0, 2.0):
            mine.op = define("scaled_in_test", factor)
            for _ in range(4):
                assert run(x).tolist() == [factor + 1] * 3
    del OPS["scaled_in_test"]


def test_an_op_of_another_file_is_not_defined_anew() -> None:
    with pytest.raises(InternalError, match="op flip is defined twice"):
        define("flip", 2.0)


def scalar(name: str = "scalar_in_test", **facts: Any) -> Any:
    given = {"evaluate": lambda x: x + 1, "c": "x + 1", "reason": "a test"}
    return compiler.define_scalar(name, **{**given, **facts})


@pytest.mark.parametrize(
    ("facts", "error", "message"),
    [
        ({"name": "exp"}, ArgumentError, "a scalar function called 'exp' already"),
        ({"name": "expm1_poly"}, ArgumentError, "lz_expm1_poly_f32 in C, which lazyt's kernels"),
        ({"name": "Two Words"}, ArgumentError, "lower case letters"),
        ({"c": ""}, ArgumentError, "c has to be C text"),
        ({"reason": ""}, ArgumentError, "give a derivative, or as reason why"),
        ({"evaluate": 3}, TypeError, "evaluate has to be a function"),
        ({"evaluate": lambda *xs: xs}, TypeError, "take its arguments by place"),
        ({"evaluate": lambda double: double}, ArgumentError, "cannot be called 'double' in C"),
        ({"derivative": lambda x: x}, TypeError, "called with 1 argument.s. and the result"),
        ({"kinds": "c"}, ArgumentError, "kinds are some of f, i, u, not 'c'"),
    ],
)
def test_wrong_scalar_functions_are_refused(facts: Any, error: Any, message: str) -> None:
    before = set(FUNCTIONS)
    with pytest.raises(error, match=message):
        scalar(**facts)
    assert set(FUNCTIONS) == before


def test_scalar_functions_of_several_arguments_and_kinds() -> None:
    function = scalar(
        evaluate=lambda x, y: x * 2 + y, c="lz_@S twice = x + x; return twice + y;", kinds="fi",
        derivative=lambda x, y, z: (const(2, x.dtype), const(1, x.dtype)), reason="",
    )  # fmt: skip
    for dtype in (lazyt.float32, lazyt.float64, lazyt.float16, lazyt.int32):
        x = lazyt.arange(4.0).to(dtype).realize()
        expr = call(function, arg(0, dtype), arg(1, dtype))
        node = ops.elementwise(expr, [unwrap(x), unwrap(x)])
        assert wrap(node, x).tolist() == [0, 3, 6, 9], dtype
        with compiler.using(passes=compiler.PASSES), config.override(interpret=True):
            assert wrap(node, x).tolist() == [0, 3, 6, 9]
    x = lazyt.ones(3, requires_grad=True)
    made = ops.elementwise(call(function, arg(0, x.dtype), arg(0, x.dtype)), [unwrap(x)])
    wrap(made, x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0] * 3
    del FUNCTIONS["scalar_in_test"], HOMES["scalar_in_test"]


def test_scalar_functions_run_on_the_emulator() -> None:
    function = scalar(evaluate=lambda x: x * x, c="x * x")
    x = lazyt.arange(4.0).to("cuda:emu")
    made = wrap(ops.elementwise(call(function, arg(0, x.dtype)), [unwrap(x)]), x)
    assert made.tolist() == [0.0, 1.0, 4.0, 9.0]
    del FUNCTIONS["scalar_in_test"], HOMES["scalar_in_test"]


# ----------------------------------------------------------------------- digests


TABLE = {"factors": np.arange(3.0)}


def scaled(roots: Sequence[Node]) -> list[Node]:
    factor = float(TABLE["factors"][1])
    return [ops.apply("mul", r, ops.constant(factor, r.dtype)) for r in roots]


def test_what_code_names_is_part_of_what_it_is() -> None:
    first = definition_of(scaled)
    assert not first.hidden and definition_of(scaled) == first
    TABLE["factors"] = np.arange(1.0, 4.0)
    assert definition_of(scaled).digest != first.digest
    TABLE["factors"] = np.arange(3.0)
    assert definition_of(scaled) == first
    assert definition_of(lambda x: x + 1).digest != definition_of(lambda x: x + 2).digest


def test_plans_by_objects_that_nobody_can_look_into_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    monkeypatch.setattr(config, "disk_cache", True)
    weight = lazyt.ones(3).realize()

    def uses(roots: Sequence[Node]) -> list[Node]:
        assert weight.shape == (3,)
        return list(roots)

    x = lazyt.ones(3).realize()
    stored = len(list(tmp_path.rglob("plan-*")))
    with (
        compiler.register_pass(named("uses", uses)),
        pytest.warns(extensions.NotCachedWarning, match="weight .Tensor."),
    ):
        assert (x * 17).tolist() == [17.0] * 3
    assert len(list(tmp_path.rglob("plan-*"))) == stored
    with compiler.register_pass(named("unchanged")), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (x * 17).tolist() == [17.0] * 3
        assert len(list(tmp_path.rglob("plan-*"))) == stored + 1
        planning.clear()
        started = compile.started
        assert (x * 17).tolist() == [17.0] * 3 and compile.started == started


def test_a_pass_that_sees_constants_is_another_one() -> None:
    def run(roots: Any) -> Any:
        return list(roots)

    seen = []
    for needs in (False, True, False):
        step = compiler.Pass("same", run, "a test", needs_constants=needs)
        with compiler.using(passes=[step]):
            seen.append(lazyt.config.of_plans)
    assert seen[0] == seen[2] != seen[1]
