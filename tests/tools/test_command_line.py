"""The command line tools: what they print, and how they fail."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import lazyt
from lazyt import ops
from lazyt.__main__ import main
from lazyt.compat import torch_alias
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node, topological
from lazyt.ir.printer import print_graph
from lazyt.runtime.cpu import compile
from lazyt.runtime.doctor import Finding
from lazyt.tools.doctor import format_findings
from lazyt.tools.picture import draw_html, draw_svg, place_nodes

GRAPH = """graph(%0: float32[4, 5]) -> (%2)
%1 = detach(%0) : float32[4, 5]
%2 = reduce(%1) {kind=sum, axes=(1,)} : float32[4]
"""
STRIPPED = """graph(%0: float32[4, 5]) -> (%1)
%1 = reduce(%0) {kind=sum, axes=(1,)} : float32[4]
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def graph_file(tmp_path: Path) -> str:
    """A file with graph text."""
    path = tmp_path / "graph.ir"
    path.write_text(GRAPH)
    return str(path)


def test_opt_runs_the_passes_named(graph_file: str, capsys: Capture) -> None:
    assert main(["opt", graph_file, "--passes", "strip_markers"]) == 0
    assert capsys.readouterr().out == STRIPPED
    assert main(["opt", graph_file, "--passes", ""]) == 0
    assert capsys.readouterr().out == GRAPH


def test_opt_reads_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(GRAPH))
    assert main(["opt"]) == 0
    assert "detach" not in capsys.readouterr().out


def test_opt_reads_the_first_graph_of_a_golden_file(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "golden.ir"
    path.write_text(f"{GRAPH}---- simplify\nnot read")
    assert main(["opt", str(path), "--passes", "strip_markers"]) == 0
    assert capsys.readouterr().out == STRIPPED
    path.write_text(f"---- simplify\n{GRAPH}")
    assert main(["opt", str(path)]) == 2
    assert "nothing stands before the line '---- '" in capsys.readouterr().err
    for golden in Path(__file__).parents[1].joinpath("golden", "passes").glob("*.ir"):
        before, _, rest = golden.read_text(encoding="utf-8").partition("---- ")
        passes, _, after = rest.partition("\n")
        assert before and main(["opt", str(golden), "--passes", passes]) == 0
        assert capsys.readouterr().out == after


def test_opt_lists_passes_with_reasons(capsys: Capture) -> None:
    assert main(["opt", "--list"]) == 0
    assert re.search(r"^strip_markers +\w+", capsys.readouterr().out)


def test_opt_prints_after_each_pass_to_stderr(graph_file: str, capsys: Capture) -> None:
    assert main(["opt", graph_file, "--print-after-all"]) == 0
    got = capsys.readouterr()
    assert "# after strip_markers\ngraph(" in got.err
    assert "# after" not in got.out


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("form", "part"),
    [("kernels", "  phase (i0: 4)"), ("c", "(char *b0_"), ("cuda", "__global__")],
)
def test_opt_emits_later_forms(
    form: str, part: str, graph_file: str, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["opt", graph_file, "--emit", form]) == 0
    text = capsys.readouterr().out
    assert part in text
    assert main(["opt", graph_file, "--emit", "kernels"]) == 0
    kernels = tmp_path / "kernels.ir"
    kernels.write_text(capsys.readouterr().out)
    assert main(["opt", str(kernels), "--emit", form]) == 0
    again = capsys.readouterr().out
    if form == "kernels":
        assert again == text
    else:  # the text of kernels, without the entry of a plan, which tells the kinds of groups
        lines = re.sub(r"\blz_\w+_(?=[0-9a-f]{10}\b)", "lz_", text).splitlines()
        known = set(lines)
        again = re.sub(r"\blz_kernel_(?=[0-9a-f]{10}\b)", "lz_", again)
        assert all(line in known for line in again.splitlines())


@pytest.mark.skipif(not compile.available(), reason="needs a C compiler")
def test_opt_emits_the_c_that_runs(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text on disk beside the binary that was loaded is what ``--emit c`` prints."""
    monkeypatch.setattr(lazyt.config, "cache_dir", str(tmp_path / "cache"))
    monkeypatch.setattr(lazyt.config, "disk_cache", True)
    x, w = (lazyt.linspace(-1, 1, 24 * n).realize().reshape(n, 24) for n in (7, 9))
    with lazyt.config.override(any_size=False):
        y = (x @ w.t()).softmax(1).sum(0) * 3
        file = tmp_path / "graph.ir"
        file.write_text(print_graph([y._storage.current()]))
        y.realize()
        assert main(["opt", str(file), "--emit", "c"]) == 0
    text = capsys.readouterr().out
    sources = [path.read_text() for path in (tmp_path / "cache").rglob("*.c")]
    assert text in sources


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["opt", "FILE", "--passes", "fold"], "lazyt opt: error: no pass is called 'fold'"),
        (["opt", "FILE", "--passes", "simplify", "--emit", "c"], "--passes needs --emit graph"),
        (
            ["opt", "FILE", "--emit", "asm"],
            "nothing is called 'asm'; --emit takes graph, stablehlo, linalg, kernels, c",
        ),
        (["opt", "nowhere.ir"], "cannot read nowhere.ir: No such file or directory"),
        (["show", "FILE", "-o", "a.png"], "a.png ends in neither .svg nor .html"),
        (["show", "FILE", "--name", "x"], "--name goes with a Python script"),
        (["show"], "the following arguments are required: file"),
        (["doctor", "--fast"], "unrecognized arguments: --fast"),
        (["run", "."], ". is a folder without a __main__.py"),
        (["bench", "--rounds", "0"], "argument --rounds: 0 is less than 1"),
        (["judge", "k.c", "--rounds", "-1"], "argument --rounds: -1 is less than 1"),
        (
            ["reduce", "FILE", "--command", "lazyt_not_there {}"],
            "--command cannot be run: /bin/sh: 1: lazyt_not_there: not found",
        ),
        (["dance"], "lazyt: error: no command 'dance'; there are opt, show, run, doctor"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(
    arguments: list[str], message: str, graph_file: str, capsys: Capture
) -> None:
    assert main([graph_file if a == "FILE" else a for a in arguments]) == 2
    got = capsys.readouterr()
    assert got.out == ""
    assert message in got.err
    assert got.err.count("\n") == 1


def test_a_program_that_cannot_be_read_has_a_traceback_without_frames(
    tmp_path: Path, capsys: Capture
) -> None:
    program = tmp_path / "program.py"
    program.write_text("x = (1,\n")
    try:
        assert main(["run", str(program)]) == 1
    finally:
        torch_alias.uninstall()
    told = capsys.readouterr().err
    assert "SyntaxError: '(' was never closed" in told
    assert "runpy" not in told and "Traceback" not in told


def test_the_version_is_told(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"lazyt {lazyt.__version__}\n"
    assert main([]) == 2
    assert "COMMAND --help" in capsys.readouterr().out


def test_bad_ir_is_code_1_with_the_place(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.ir"
    path.write_text(GRAPH.replace("kind=sum", "kind=3"))
    assert main(["opt", str(path)]) == 1
    assert "line 3, column 23: kind must be str" in capsys.readouterr().err


def test_ir_that_nests_too_deep_is_code_1(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "deep.ir"
    text = "neg(" * 600 + "$0" + ")" * 600
    path.write_text(f"graph(%0: float32[3]) -> (%1)\n%1 = map(%0) {{{text}}} : float32[3]\n")
    assert main(["opt", "--emit", "c", str(path)]) == 1
    assert capsys.readouterr().err == "lazyt opt: something of the input nests too deep\n"


def test_a_closed_pipe_is_quiet(graph_file: str) -> None:
    command = f"{sys.executable} -m lazyt show {graph_file} | head -c 10"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert len(done.stdout) == 10
    assert done.stderr == ""


SCRIPT = """import lazyt as torch
x = torch.ones(4, 5)
y = torch.exp(x).sum(1)
{}"""


@pytest.mark.lazy
def test_show_draws_a_tensor_of_a_script(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(""))
    assert main(["show", str(path), "--name", "y"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!DOCTYPE html>")
    assert f"{path}:3" in page
    out = tmp_path / "y.svg"
    assert main(["show", str(path), "--name", "y", "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"written: {out}\n"
    ElementTree.parse(out)


def test_show_takes_scripts_that_import_torch(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "model.py"
    path.write_text("import torch\nimport torch.nn as nn\ny = nn.Linear(3, 2)(torch.ones(2, 3))\n")
    assert main(["show", str(path), "--name", "y"]) == 0
    assert "contract" in capsys.readouterr().out
    assert "torch" not in sys.modules


@pytest.mark.lazy
@pytest.mark.parametrize(
    ("end", "name", "message"),
    [
        ("", "z", "has no tensor 'z'; its tensors: x, y"),
        ("z = torch.exp(y); w = torch.exp(z)", None, "has several pending tensors; say --name"),
        ("del x, y", None, "leaves no pending tensor"),
        ("raise ValueError('no')", None, "failed: ValueError: no"),
        ("raise SystemExit(3)", None, "ended itself with exit code 3"),
    ],
)
def test_show_says_what_is_unclear(
    end: str, name: str | None, message: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(end))
    assert main(["show", str(path), *(["--name", name] if name else [])]) == 2
    assert message in capsys.readouterr().err


def diamond() -> Node:
    """A graph with shared values and a script-like name in its parameters."""
    x = ops.input_((3,), float32)
    left, right = ops.apply("exp", x), ops.apply("neg", x)
    both = ops.apply("add", ops.apply("mul", left, right), ops.constant(2, float32))
    return ops.apply("sub", both, left)


def test_no_two_boxes_overlap_and_edges_go_down() -> None:
    root = diamond()
    places = place_nodes([root])
    assert set(places) == set(topological([root]))
    for node, place in places.items():
        assert all(places[i].layer < place.layer for i in node.inputs)
        assert place.column >= 0
        row = [p.column for n, p in places.items() if p.layer == place.layer and n is not node]
        assert all(abs(column - place.column) > 0.999 for column in row)


def test_pictures_are_self_contained_and_complete() -> None:
    root = diamond()
    svg = draw_svg([root])
    tree = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert len(tree.findall(f"{space}g")) == 7
    assert len(tree.findall(f"{space}path")) == 8
    page = draw_html([root], "a <b> & c")
    assert "<title>a &lt;b&gt; &amp; c</title>" in page
    assert not re.search(r"(src|href)\s*=|@import|url\(", page)
    assert page.count('tabindex="0"') == 7
    assert '"ArrowUp": -1' in page


def test_long_graphs_can_be_drawn() -> None:
    node = ops.input_((3,), float32)
    for number in range(3000):
        node = ops.apply("exp" if number % 2 else "neg", node)
    assert draw_svg([node]).count('class="edge"') == 3000


def test_findings_are_a_table_with_advice() -> None:
    findings = [Finding("compiler", "ok", "gcc 12"), Finding("gpu", "warn", "none " * 30, "buy")]
    lines = format_findings(findings).splitlines()
    assert lines[0] == "compiler  ok    gcc 12"
    assert lines[1].startswith("gpu       warn  none none")
    assert lines[-1] == " " * 16 + "-> buy"
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("warn", 0), ("fail", 1)])
def test_doctor_fails_when_a_finding_does(
    status: str, code: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Finding("a", "ok", "fine"), Finding("b", status, "so so", "sleep")]
    monkeypatch.setattr("lazyt.runtime.doctor.examine", lambda: found)
    assert main(["doctor"]) == code
    assert "b  " in capsys.readouterr().out
