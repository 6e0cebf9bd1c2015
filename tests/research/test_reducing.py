"""Graphs, kernels and programs are made smaller, and stay valid; fuzzing finds planted faults."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from lazyt import ops
from lazyt.__main__ import main
from lazyt.ir.graph import Node, topological
from lazyt.ir.kernel import Kernel
from lazyt.ir.parser import parse_graph, parse_kernel
from lazyt.ir.printer import print_graph, print_kernel
from lazyt.ir.scalar import applied
from lazyt.ir.verifier import check_bounds, verify_graph, verify_kernel
from lazyt.testing import fuzzing
from lazyt.testing.random_graphs import random_graph
from lazyt.testing.reducing import count_nodes, reduce_graph, reduce_kernel, reduce_program


def has_function(roots: list[Node], name: str) -> bool:
    return any(
        node.op.name == "map" and name in {fn.name for fn in applied(node.params)}
        for node in topological(roots)
    )


def test_graphs_shrink_to_what_fails() -> None:
    sizes = []
    for seed in range(60):
        roots = parse_graph(print_graph(random_graph(seed).roots), ops.OPS)[1]
        for name in ("exp", "sin", "maximum", "where"):
            if has_function(roots, name):
                small = reduce_graph(roots, functools.partial(has_function, name=name))
                verify_graph(small)
                assert has_function(small, name)
                sizes.append(count_nodes(small))
                assert all(extent <= 3 for node in topological(small) for extent in node.shape)
    assert len(sizes) > 10 and max(sizes) <= 2 and sorted(sizes)[len(sizes) // 2] == 1


def test_only_valid_graphs_are_tried() -> None:
    roots = parse_graph(print_graph(random_graph(3).roots), ops.OPS)[1]
    seen = 0

    def fails(made: list[Node]) -> bool:
        nonlocal seen
        seen += 1
        verify_graph(made)
        return True

    assert count_nodes(reduce_graph(roots, fails)) == 0 and seen > 1
    with pytest.raises(ValueError, match="does not fail"):
        reduce_graph(roots, lambda made: False)


def kernel() -> Kernel:
    """A kernel whose text is written as the printer writes it."""
    from lazyt.compiler import compile_graph
    from lazyt.ir.dtypes import float32

    x = ops.input_((30, 40), float32)
    powers = ops.apply(
        "exp", ops.apply("sub", x, ops.reshape(ops.reduce_("max", x, (1,)), (30, 1)))
    )
    root = ops.apply("div", powers, ops.reshape(ops.reduce_("sum", powers, (1,)), (30, 1)))
    (made,) = compile_graph([root, ops.apply("sqrt", ops.reduce_("sum", x, (1,)))], [x])[1]
    return made


def test_kernels_shrink_and_stay_valid() -> None:
    start = kernel()

    def fails(made: Kernel) -> bool:
        verify_kernel(made)
        check_bounds(made)
        return "exp(" in print_kernel(made)

    small = reduce_kernel(start, fails)
    text = print_kernel(small)
    assert "exp(" in text and len(text) < len(print_kernel(start)) / 2
    assert print_kernel(parse_kernel(text)) == text


def test_programs_lose_what_is_not_needed() -> None:
    source = (
        "import math\n\ndef f(x):\n    if x > 1:\n        y = x * 2\n        print('no')\n"
        "    else:\n        y = 0\n    return y\n\nfor n in range(3):\n    a = f(n)\n"
        "    b = 1 / (a + 1 - 1) if n == 0 else 2\nprint('end')\n"
    )

    def fails(text: str) -> bool:
        compile(text, "program", "exec")
        try:
            exec(text, {"print": lambda *_: None})
        except ZeroDivisionError:
            return True
        except Exception as error:
            return not isinstance(error, Exception)
        return False

    small = reduce_program(source, fails)
    assert fails(small) and "math" not in small and "end" not in small
    assert len(small.splitlines()) <= 6
    with pytest.raises(ValueError, match="no Python program"):
        reduce_program("def f(:", fails)


# ------------------------------------------------------------------------- command line

PASS = """
from lazyt import compiler, ops
from lazyt.compiler import Pass
from lazyt.ir.graph import rebuild, remake

def change(node, inputs):
    return inputs[0] if node.op.name == "flip" else remake(node, inputs)

step = Pass("unflip", lambda roots: rebuild(roots, change), "a test")
compiler.register_pass(step, after="simplify")
"""


@pytest.fixture
def wrong_pass(tmp_path: Path) -> str:
    path = tmp_path / "unflip.py"
    path.write_text(PASS)
    return str(path)


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lazyt", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=240)


def test_fuzz_finds_reduces_and_writes_down(tmp_path: Path, wrong_pass: str) -> None:
    done = run(
        "fuzz", "--seconds", "40", "--target", "none", "--load", wrong_pass, "--most", "2",
        "--jobs", "1", "--out", "found", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "pass 3 unflip" in done.stdout and "2 faults" in done.stdout
    folders = sorted((tmp_path / "found").iterdir())
    assert len(folders) == 2
    for folder in folders:
        roots = parse_graph((folder / "reduced.ir").read_text(), ops.OPS)[1]
        assert count_nodes(roots) == 1 and roots[0].op.name == "flip"
        assert "unflip" in (folder / "finding.txt").read_text()
    reduced = str(folders[0] / "reduced.ir")
    done = run("bisect", reduced, "--target", "none", "--load", wrong_pass, cwd=tmp_path)
    assert done.returncode == 1 and done.stdout.startswith("pass 3 unflip")
    assert "rewrite 1 of 1" in done.stdout
    original = str(folders[0] / "graph.ir")
    done = run("reduce", original, "--target", "none", "--load", wrong_pass, cwd=tmp_path)
    assert done.returncode == 0 and "flip" in done.stdout and "sum" not in done.stdout


def test_bisect_of_a_program(tmp_path: Path, wrong_pass: str) -> None:
    (tmp_path / "program.py").write_text(
        "import lazyt\nx = lazyt.arange(6.0).realize()\nprint((x + 1).tolist())\n"
        "print((x.flip(0) * 2).tolist())\n"
    )
    done = run("bisect", "program.py", "--target", "none", "--load", wrong_pass, cwd=tmp_path)
    assert done.returncode == 1 and "pass 3 unflip" in done.stdout, done.stderr
    assert "program.py:4" in done.stdout
    done = run("bisect", "program.py", "--target", "none", cwd=tmp_path)
    assert done.returncode == 0 and "every stage is right" in done.stdout
    (tmp_path / "program.py").write_text("import torch\ntorch.ones(3) @ torch.ones(4)\n")
    done = run("bisect", "program.py", "--target", "none", cwd=tmp_path)
    assert done.returncode == 2 and "right" not in done.stdout, done.stdout
    assert "ShapeError" in done.stderr  # by lazyt, under the name of torch


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    done = run("fuzz", "--seconds", "4", "--target", "none", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 0 and "nothing is wrong" in done.stdout, done.stdout
    assert [path.name for path in (tmp_path / "fuzz-out").iterdir()] == ["unreached.txt"]


def test_a_graph_that_ends_the_process(tmp_path: Path) -> None:
    path = tmp_path / "die.py"
    path.write_text(
        "import os\nfrom lazyt.testing import fuzzing\nreal = fuzzing.look\n"
        "def look(item, *rest):\n    if item.seed == 2:\n        os.abort()\n"
        "    return real(item, *rest)\nfuzzing.look = look\n"
    )
    done = run(
        "fuzz", "--seconds", "60", "--most", "1", "--target", "none", "--load", str(path),
        "--jobs", "1",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1 and "seed 2: crash" in done.stdout and "1 fault" in done.stdout


BAD = {
    "no graph": ("bisect", "x = 1"),
    "half a graph": ("bisect", "graph(%0: float32[3]) -> (%1)\n%1 = map(%0) {exp($0"),
    "a type that is wrong": ("reduce", "graph(%0: float33[3]) -> (%0)\n"),
    "nothing": ("bisect", ""),
    "a kernel without a command": ("reduce", "kernel k() {\n}\n"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_an_error_in_a_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, text = BAD[name]
    path = tmp_path / "input.ir"
    path.write_text(text)
    assert main([command, str(path)]) in (1, 2)
    told = capsys.readouterr().err
    assert told.startswith(f"lazyt {command}:") and "Traceback" not in told


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graph.ir"
    path.write_text(print_graph(random_graph(1).roots))
    program = tmp_path / "program.py"
    program.write_text("x = 1\n")
    for arguments in (
        ["bisect", str(path), "--kinds", "friendly"], ["fuzz", "--seconds", "0"],
        ["reduce", str(program)], ["reduce", str(path), "--command", "false"],
        ["reduce", str(path), "--command", "false {}", "--match", "("],
        ["bisect", str(tmp_path / "none.ir")], ["bisect", str(tmp_path / "none.py")],
    ):  # fmt: skip
        assert main(arguments) == 2, arguments
    assert "Traceback" not in capsys.readouterr().err


def test_reduce_with_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graph.ir"
    roots = next(
        made
        for made in (random_graph(seed).roots for seed in range(99))
        if has_function(made, "maximum")
    )
    path.write_text(print_graph(roots))
    command = f"! grep -q maximum {{}} && exit 0; {sys.executable} -c 'print(\"bad\"); exit(3)'"
    assert main(["reduce", str(path), "--command", command, "--match", "bad"]) == 0
    small = parse_graph(capsys.readouterr().out, ops.OPS)[1]
    assert has_function(small, "maximum") and count_nodes(small) <= 2


def test_a_program_goes_on_failing_for_the_same_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    path.write_text("a = 1\nb = a + 1\nc = [b]\nprint(c[b])\n")
    assert main(["reduce", str(path), "--command", f"{sys.executable} {{}}"]) == 0
    small = capsys.readouterr().out  # without the first lines it would be a NameError
    with pytest.raises(IndexError):
        exec(small, {})


def test_a_seed_is_a_graph_and_its_inputs() -> None:
    for seed in range(4):
        one, other = fuzzing.subject(seed), fuzzing.subject(seed)
        assert print_graph(one.roots) == print_graph(other.roots) and one.kinds == other.kinds
    seeds = range(0, 4 * len(fuzzing.SORTS), len(fuzzing.SORTS))
    assert len({json.dumps(fuzzing.subject(seed).kinds) for seed in seeds}) == 4
