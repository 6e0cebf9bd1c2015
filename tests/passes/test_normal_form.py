"""The passes that bring graphs into the form that fusion knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import lazyt
from lazyt import compiler, ops
from lazyt.compiler import PASSES, run_passes
from lazyt.config import config
from lazyt.ir.dtypes import bool_, float16, float32, int64
from lazyt.ir.graph import Node, topological
from lazyt.passes.markers import strip_markers
from lazyt.passes.split_reductions import split_reductions
from lazyt.plan import planning
from lazyt.runtime.interpreter import interpret
from lazyt.testing.graph_maker import buffer_of

DOCS = Path(__file__).parents[2] / "docs"


def leaf(*shape: int) -> Node:
    """An input without data."""
    return ops.input_(shape, float32)


Fold = tuple[tuple[int, ...], tuple[int, ...]]


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its axes of size 1."""
    return tuple(e for e in shape if e != 1)


def reductions(root: Node) -> list[Fold]:
    """Shape and axes of what each reduction folds, inputs first."""
    found = [n for n in topological([root]) if n.op.name == "reduce"]
    return [(n.inputs[0].shape, tuple(n.params.axes)) for n in found]


# -------------------------------------------------------------- split_reductions


@pytest.mark.parametrize(
    ("shape", "axes", "wanted"),
    [
        ((4, 5), (1,), [((4, 5), (1,))]),
        ((4, 5), (0, 1), [((20,), (0,))]),
        ((2, 3, 4, 5), (1, 2), [((2, 12, 5), (1,))]),
        ((2, 3, 4), (0, 2), [((2, 3, 4), (2,)), ((2, 3, 1), (0,))]),
        ((2, 1, 3), (0, 2), [((6,), (0,))]),
        ((4, 1, 5), (1,), []),
        ((1, 1), (0, 1), []),
    ],
)
def test_reductions_fold_one_axis(
    shape: tuple[int, ...], axes: tuple[int, ...], wanted: list[Fold]
) -> None:
    root = ops.reduce_("sum", leaf(*shape), axes)
    done = split_reductions([root])[0]
    assert (done.shape, done.dtype) == (root.shape, root.dtype)
    assert [(squeezed(s), len(a)) for s, a in reductions(done)] == [
        (squeezed(s), len(a)) for s, a in wanted
    ]


@pytest.mark.parametrize("kind", ["sum", "prod", "any", "all"])
def test_reductions_of_nothing_are_constants(kind: str) -> None:
    dtype = bool_ if kind in ("any", "all") else float32
    root = ops.reduce_(kind, ops.input_((3, 0), dtype), (1,))
    done = split_reductions([root])[0]
    assert not reductions(done)
    assert interpret([done])[0].tolist() == [{"sum": 0, "prod": 1, "any": 0, "all": 1}[kind]] * 3


def test_results_keep_every_bit() -> None:
    """The pass decides the order of folding; folding exact numbers shows its bookkeeping."""
    array = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    for dtype in (float32, float16, int64):
        x = ops.input_(array.shape, dtype, buffer_of(array % 7, dtype))
        for axes in ((0,), (1, 3), (0, 1, 2, 3), (2, 3), (0, 3)):
            root = ops.reduce_("max", x, axes)
            got, want = interpret([*split_reductions([root]), root])
            assert np.array_equal(got, want)


def test_positions_and_other_nodes_stay() -> None:
    root = ops.arg_reduce("argmax", ops.apply("exp", leaf(3, 4)), 1)
    assert split_reductions([root])[0] is root


# ----------------------------------------------------------------- strip_markers


def test_markers_vanish_and_equal_values_meet() -> None:
    x = leaf(3)
    marked = ops.apply("exp", ops.variable(x, 7))
    other = ops.apply("exp", ops.detach(ops.variable(x, 8)))
    assert marked is not other
    first, second = strip_markers([marked, ops.apply("neg", other)])
    assert first is ops.apply("exp", x)
    assert second.inputs[0] is first


def test_a_marked_root_becomes_what_it_marks() -> None:
    x = leaf(3)
    assert strip_markers([ops.detach(ops.detach(x))]) == [x]


# -------------------------------------------------------------------- the recipe


def test_recipe_reaches_normal_form() -> None:
    x = ops.variable(leaf(2, 3, 4), 1)
    root = ops.reduce_("sum", ops.reshape(ops.reshape(x, (24,)), (2, 3, 4)), (0, 1, 2))
    done = run_passes([root])
    names = {n.op.name for n in topological(done)}
    assert names <= {"input", "reshape", "reduce"}
    assert all(len(axes) == 1 for _, axes in reductions(done[0]))
    assert run_passes(done) == done


def test_every_pass_says_why_it_stands_where_it_stands() -> None:
    assert all(p.reason for p in PASSES)
    names = [p.name for p in PASSES]
    assert len(names) == len({*names})
    # Both pages have the list in its order: one with the reasons, one with the modules.
    levels = (DOCS / "concepts" / "levels.md").read_text(encoding="utf-8")
    shown = "".join(f"{p.name}: {p.reason}\n" for p in PASSES)
    assert f"```output\n{shown}```" in levels, (
        "run `python docs/page_examples.py docs/concepts/levels.md`, and look at the difference"
    )
    tour = (DOCS / "tour.md").read_text(encoding="utf-8")
    part = tour.partition("## 5. Passes")[2].partition("\nThen the graph")[0]
    modules = [p.run.__module__.rpartition(".")[2] for p in PASSES]
    told = re.findall(r"^\d+\. `lazyt/passes/(\w+)\.py`", part, re.M)
    assert told == list(dict.fromkeys(modules)), "tell of each pass in part 5 of docs/tour.md"


@pytest.mark.compiler
def test_a_program_may_compile_with_passes_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def count(roots: Sequence[Node]) -> list[Node]:
        seen.append(len(roots))
        return list(roots)

    def twice() -> list[float]:
        found: list[float] = (lazyt.arange(7.0) * 3).flip(0).tolist()
        return found

    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    monkeypatch.setattr(config, "disk_cache", True)
    usual = PASSES
    wanted = twice()
    stored = len(list(tmp_path.rglob("plan-*")))
    mine = compiler.Pass("count", count, "to see that it runs")
    for _ in range(2):
        with compiler.using_passes([*usual, mine]):
            assert (*usual, mine) == compiler.PASSES
            assert twice() == wanted and twice() == wanted
    assert len(seen) == 1  # though there was a plan of other passes; and that of these came back
    assert len(list(tmp_path.rglob("plan-*"))) == stored + 1
    planning.clear()
    with compiler.using_passes([*usual, mine]):
        assert twice() == wanted
    assert len(seen) == 1  # it was on disk
    with pytest.raises(ZeroDivisionError), compiler.using_passes([mine]):
        raise ZeroDivisionError
    assert usual == compiler.PASSES
    assert twice() == wanted and len(seen) == 1
