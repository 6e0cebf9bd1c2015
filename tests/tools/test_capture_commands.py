"""``lazyt replay`` and ``diff`` on captures, whole and damaged ones."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import CodeType

import pytest

import lazyt
from lazyt import nn
from lazyt.__main__ import main
from lazyt.config import config
from lazyt.tools.captures import capture, compare
from lazyt.tools.captures.files import Captured

pytestmark = pytest.mark.fused
Capture = pytest.CaptureFixture[str]


def compute(negative: bool = False) -> None:
    """Two plans, of which the second depends on the argument."""
    lazyt.manual_seed(1)
    x = lazyt.randn(24, 40).realize()
    index = lazyt.tensor([3, 1, 2])
    (x.softmax(-1)[index] * 2).realize()
    product = x @ x.T
    (-product if negative else product).relu().realize()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with inputs, which tests copy before they change it."""
    folder = tmp_path_factory.mktemp("capture") / "out"
    with config.override(tier=1), capture(folder, inputs=True) as written:
        compute()
    assert not written.errors
    return folder


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(made, tmp_path / "own")
    return tmp_path / "own"


def plan_folder(folder: Path, number: int) -> Path:
    """The folder of a plan."""
    return Path(Captured(str(folder)).plans[number].path)


def test_plans_are_replayed_on_their_inputs(made: Path, capsys: Capture) -> None:
    assert main(["replay", str(made), "--check", "--time", "--trials", "3"]) == 0
    said = capsys.readouterr().out
    count = len(Captured(str(made)).plans)
    assert said.count("results are equal to the captured ones") == count
    assert said.count("captured inputs") == count and "plan: " in said
    assert " us (" in said and "3 trials" in said


def test_random_inputs_are_checked_against_the_interpreter(own: Path, capsys: Capture) -> None:
    for path in own.rglob("inputs.safetensors"):
        path.unlink()
    for seed in ("0", "7"):
        assert main(["replay", str(own), "--check", "--seed", seed]) == 0
        said = capsys.readouterr().out
        assert "random inputs" in said and "results are those of the interpreter" in said


def test_a_kernel_is_replayed_alone(made: Path, capsys: Capture) -> None:
    folder = plan_folder(made, len(Captured(str(made)).plans) - 1)
    name = json.loads((folder / "launches.json").read_text())["launches"][0]["kernel"]
    for word in (name, name[:-3], "0"):
        command = ["replay", str(folder), "--kernel", word, "--check", "--time", "--trials", "3"]
        assert main(command) == 0
        said = capsys.readouterr().out
        assert f"launch 0, {name}: " in said and "equal to the captured ones" in said
    assert main(["replay", str(folder), "--kernel", "dance"]) == 2
    assert f"there are {name}" in capsys.readouterr().err
    assert main(["replay", str(made), "--kernel", "0"]) == 2
    assert "say --plan" in capsys.readouterr().err
    assert main(["replay", str(folder), "--kernel", "0"]) == 0


def test_changed_text_is_what_runs(own: Path, capsys: Capture) -> None:
    folder = plan_folder(own, 1)
    text = (folder / "plan.c").read_text()
    changed = text.replace("2.0f", "3.0f") if "2.0f" in text else ""
    assert changed and changed != text, "the kernel multiplies by 2"
    (folder / "plan.c").write_text(changed)
    assert main(["replay", str(folder), "--check"]) == 1
    said = capsys.readouterr().out
    assert "plan.c was changed" in said and "result 0 is not as captured" in said
    last = len(json.loads((folder / "launches.json").read_text())["launches"]) - 1
    assert main(["replay", str(folder), "--check", "--kernel", str(last)]) == 1
    (folder / "inputs.safetensors").unlink()
    assert main(["replay", str(folder), "--check"]) == 1
    assert "is not the interpreter's" in capsys.readouterr().out
    (folder / "plan.c").write_text(text + "\nint broken(\n")
    assert main(["replay", str(folder)]) == 1
    assert "error" in capsys.readouterr().err


def damage_json(name: str, change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    """Changes a file of JSON."""

    def damage(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return damage


def truncated(name: str) -> Callable[[Path], None]:
    """Leaves half of a file."""

    def damage(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])

    return damage


def binary(name: str) -> Callable[[Path], None]:
    """Makes a file something that is no text."""

    def damage(folder: Path) -> None:
        (folder / name).write_bytes(b"\xff\xfe")

    return damage


def without(name: str) -> Callable[[Path], None]:
    """Removes a file."""
    return lambda folder: (folder / name).unlink()


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Changes a text."""

    def damage(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return damage


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "no graph": (without("graph.ir"), "cannot read"),
    "half a graph": (truncated("graph.ir"), "graph.ir"),
    "no facts": (edited("graph.ir", "# plan: ", "# "), "does not begin with"),
    "no program": (truncated("program.json"), "program.json is no program"),
    "no kernels": (edited("kernels.ir", "kernel lz", "colonel lz"), "kernels.ir"),
    "half the kernels": (truncated("kernels.ir"), "kernels.ir"),
    "no text": (without("plan.c"), "plan.c"),
    "binary": (binary("plan.c"), "not UTF-8"),
    "half the inputs": (truncated("inputs.safetensors"), "inputs.safetensors"),
    "other inputs": (edited("graph.ir", "[24, 40]", "[24, 41]"), "graph.ir"),
    "strange slots": (edited("program.json", '"kind":"output"', '"kind":"attic"'), "no kind"),
    "far slots": (edited("program.json", '"slots":[', '"slots":[999,'), "slots that are not there"),
    "results": (edited("program.json", '"results":[0', '"results":[7'), "a result is no output"),
    "no digests": (damage_json("results.json", lambda raw: {"results": 3}), "results.json"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_replay_says_what_is_wrong_with_a_capture(kind: str, own: Path, capsys: Capture) -> None:
    damage, said = DAMAGE[kind]
    folder = plan_folder(own, 1)
    damage(folder)
    assert main(["replay", str(folder), "--check"]) == 1
    error = capsys.readouterr().err
    assert said in error and str(folder) in error
    assert error.startswith("lazyt replay: ")


def test_paths_that_are_no_captures(tmp_path: Path, capsys: Capture) -> None:
    for command in (["replay", str(tmp_path)], ["diff", str(tmp_path), str(tmp_path)]):
        assert main(command) == 1
        assert "has no manifest.json" in capsys.readouterr().err
    assert main(["replay", str(tmp_path / "nowhere")]) == 1
    assert "it is no folder" in capsys.readouterr().err
    assert main(["diff", str(tmp_path)]) == 2
    assert main(["replay", str(tmp_path), "--trials", "0"]) == 2


def test_equal_captures_are_equal(made: Path, tmp_path: Path, capsys: Capture) -> None:
    with capture(tmp_path / "again"):
        compute()
    page = tmp_path / "page.html"
    command = ["diff", str(made), str(tmp_path / "again"), "--results", "--html", str(page)]
    assert main(command) == 0
    said = capsys.readouterr().out
    count = len(Captured(str(made)).plans)
    assert f"all {count} plans are equal" in said and said.count(": equal\n") == count
    assert "plans are equal" in page.read_text() and "http" not in page.read_text()


def test_the_first_level_that_differs_is_named(made: Path, tmp_path: Path, capsys: Capture) -> None:
    with capture(tmp_path / "other"):
        compute(negative=True)
    page, data = tmp_path / "page.html", tmp_path / "found.json"
    command = ["diff", str(made), str(tmp_path / "other"), "--times"]
    assert main([*command, "--html", str(page), "--json", str(data)]) == 1
    said = capsys.readouterr().out
    assert "differs first at graph" in said and "plans differ" in said
    assert "neg" in said and "plan: " in said
    assert "<table>" in page.read_text() and "differs first at graph" in page.read_text()
    found = json.loads(data.read_text())
    assert not found["equal"]
    pair = found["plans"][-1]
    assert pair["first"] == "graph" and not pair["levels"]["C"]["equal"]
    assert any("neg" in line for line in pair["levels"]["graph"]["changes"][0]["lines"])
    assert main([*command, "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out) == found


LOWER: dict[str, Callable[[Path], None]] = {
    "passes": edited("passes/2_simplify.ir", "map(", "mop("),
    "groups": edited("groups.json", '"kind": "', '"kind": "other '),
    "kernels": edited("kernels.ir", "x0", "x7"),
    "forms": edited("program.json", '"form":"', '"form":"Other'),
    "C": edited("plan.c", "float", "double"),
    "launches": edited("launches.json", '"place": "output 0"', '"place": "output 1"'),
    "arena": edited("program.json", '"arena_bytes":', '"arena_bytes":9'),
}


@pytest.mark.parametrize("level", LOWER)
def test_each_level_is_compared(level: str, made: Path, own: Path) -> None:
    folder = plan_folder(own, len(Captured(str(own)).plans) - 1)
    LOWER[level](folder)
    found = compare.compare(Captured(str(made)), Captured(str(own)))
    first = found.pairs[-1].first
    assert first is not None and first.name == level
    assert not found.is_equal and all(pair.is_equal for pair in found.pairs[:-1])


def test_plans_on_one_side_only(made: Path, own: Path, capsys: Capture) -> None:
    gone = plan_folder(own, 0)
    shutil.rmtree(gone)
    assert main(["diff", str(made), str(own)]) == 1
    said = capsys.readouterr().out
    assert f"{gone.name}: only in A" in said and "1 of " in said


def test_moved_lines_are_no_difference(tmp_path: Path) -> None:
    text = "import lazyt\nx = lazyt.full((3, 41), 0.73).realize()\n(x.softmax(-1) + x).realize()\n"
    for name, lines in (("a", text), ("b", "\n\n" + text)):
        path = tmp_path / f"{name}.py"
        path.write_text(lines)
        with capture(tmp_path / name, times=False):
            exec(compile_file(path), {})
    found = compare.compare(Captured(str(tmp_path / "a")), Captured(str(tmp_path / "b")))
    assert found.is_equal and len(found.pairs) == 2
    assert found.pairs[0].title != found.pairs[0].before.name  # type: ignore[union-attr]


def compile_file(path: Path) -> CodeType:
    """A file's code."""
    return compile(path.read_text(), str(path), "exec")


@pytest.mark.slow
def test_commits_are_compared(tmp_path: Path, capsys: Capture) -> None:
    root = Path(lazyt.__file__).parents[1]
    inside = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True
    )
    if inside.returncode:
        pytest.skip("not in a repository")
    path = tmp_path / "sum.py"
    path.write_text("import torch\nprint(torch.ones(3, 4).exp().sum(-1).tolist())\n")
    assert main(["diff", "--commits", "HEAD", "no_such_commit", str(path)]) == 2
    assert "no tree of no_such_commit" in capsys.readouterr().err
    if main(["diff", "--commits", "HEAD", "HEAD", str(path)]):
        assert "cannot be captured at HEAD" in capsys.readouterr().err  # of before captures
    else:
        assert "all 1 plans are equal" in capsys.readouterr().out


def test_a_model_that_is_made_again_is_equal(tmp_path: Path) -> None:
    def train() -> None:
        lazyt.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = lazyt.optim.SGD(model.parameters(), lr=0.1)

        @lazyt.jit
        def step(x: lazyt.Tensor) -> lazyt.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            found: lazyt.Tensor = loss.detach()
            return found

        x = lazyt.randn(5, 4)
        for _ in range(4):
            step(x).item()

    for name in ("one", "two"):
        with capture(tmp_path / name, times=False):
            train()
    one, two = (Captured(str(tmp_path / name)) for name in ("one", "two"))
    assert compare.compare(one, two, values=True).is_equal
