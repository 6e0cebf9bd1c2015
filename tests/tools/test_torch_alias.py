"""lazyt in the place of torch, in this process and by the command line."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lazyt
from lazyt import version
from lazyt.compat import torch_alias
from lazyt.errors import LazytError
from tests.children import python_path


@pytest.fixture
def installed() -> Iterator[None]:
    torch_alias.install()
    yield
    torch_alias.uninstall()


def test_torch_and_its_submodules_are_those_of_lazyt(installed: None) -> None:
    for name in (
        "torch.nn",
        "torch.nn.functional",
        "torch.utils.data",
        "torch.cuda.amp",
        "torch.optim.adamw",
    ):
        ours = importlib.import_module(name.replace("torch", "lazyt", 1))
        spec = ours.__spec__
        assert importlib.import_module(name) is ours
        assert ours.__spec__ is spec
    with pytest.raises(ModuleNotFoundError, match=r"torch\.no_such_thing"):
        importlib.import_module("torch.no_such_thing")


def test_printed_names_follow(installed: None) -> None:
    x = lazyt.ones(2, dtype=lazyt.float64)
    said = [repr(x), repr(x.shape), str(x.dtype), x.type(), repr(lazyt.Tensor), repr(lazyt.dtype)]
    assert said == [
        "tensor([1., 1.], dtype=torch.float64)",
        "torch.Size([2])",
        "torch.float64",
        "torch.DoubleTensor",
        "<class 'torch.Tensor'>",
        "<class 'torch.dtype'>",
    ]
    assert repr(x.max(0)).startswith("torch.return_types.max(\nvalues=tensor(1., dtype=torch.fl")


def test_the_version_is_that_of_the_pytorch_it_is_compared_with(installed: None) -> None:
    torch: Any = importlib.import_module("torch")
    assert torch.__version__ == "2.13.0+lazyt" + version.__version__
    assert torch.__version__ >= (2, 4)
    assert torch.__version__ > "2.9" and not torch.__version__ >= "3"
    assert metadata.version("torch") == torch.__version__ == torch.version.__version__
    assert lazyt.__version__ == version.__version__


def test_jit_can_be_imported(installed: None) -> None:
    scope: dict[str, object] = {}
    exec("import torch, torch.jit\nfrom torch.jit import script", scope)
    assert scope["script"] is lazyt.jit.script  # type: ignore[attr-defined]
    jit: Any = sys.modules["torch.jit"]
    assert jit(lambda x: x + 1)(lazyt.ones(2)).tolist() == [2.0, 2.0]


def test_safetensors_reads_and_writes_tensors(installed: None, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    theirs = importlib.import_module("safetensors.torch")
    tensors = {
        "weight": lazyt.arange(6.0).view(2, 3),
        "steps": lazyt.tensor([1, 2]),
        "half": lazyt.tensor([1.5, -2.0], dtype=lazyt.bfloat16),
    }
    theirs.save_file(tensors, tmp_path / "x.safetensors")
    for found in (theirs.load_file(tmp_path / "x.safetensors"), theirs.load(theirs.save(tensors))):
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert found[name].dtype is tensor.dtype
            assert found[name].tolist() == tensor.tolist()
    model = lazyt.nn.Linear(2, 2)
    theirs.save_model(model, tmp_path / "model.safetensors")
    assert theirs.load_model(lazyt.nn.Linear(2, 2), tmp_path / "model.safetensors") == (set(), [])


def test_who_has_imported_it_may_use_it_later() -> None:
    with torch_alias.standing_in():
        kept = importlib.import_module("torch")
    assert kept.optim.SGD is lazyt.optim.SGD and kept.linalg.det is lazyt.linalg.det
    assert not torch_alias.installed() and "torch" not in sys.modules


def test_uninstall_ends_it() -> None:
    torch_alias.install()
    torch_alias.install()  # a second time changes nothing
    importlib.import_module("torch.nn")
    torch_alias.uninstall()
    assert not torch_alias.installed()
    assert not [name for name in sys.modules if name.split(".")[0] == "torch"]
    assert lazyt.__version__ == version.__version__
    assert str(lazyt.float32) == "lazyt.float32"
    assert repr(lazyt.Size([1])) == "lazyt.Size([1])"
    assert repr(lazyt.Tensor) == "<class 'lazyt.Tensor'>"


def test_no_stand_in_beside_the_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    with pytest.raises(LazytError, match="imported already"):
        torch_alias.install()
    assert not torch_alias.installed()
    assert str(lazyt.float32) == "lazyt.float32"


_PROGRAM = """
import sys
import torch
import torch.nn.functional as F
import beside
assert __name__ == "__main__"
print(torch.float32, F.relu(torch.tensor([-1.0, 2.0])), sys.argv[1:], beside.NAME)
if "fail" in sys.argv:
    torch.ones(2) + torch.ones(3)
sys.exit(3)
"""


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-m", "lazyt", "run", *arguments],
        capture_output=True, text=True, timeout=120, cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path(root)},
    )  # fmt: skip


@pytest.mark.compiler
def test_command_line_runs_programs(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(_PROGRAM)
    (tmp_path / "beside.py").write_text("import torch\nNAME = str(torch.int64)\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run(str(tmp_path / "prog.py"), "-x", "y", folder=elsewhere)
    assert done.stdout == "torch.float32 tensor([0., 2.]) ['-x', 'y'] torch.int64\n"
    assert (done.returncode, done.stderr) == (3, "")
    done = run("-m", "prog", "fail", folder=tmp_path)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "The size of tensor a (2) must match" in done.stderr
    done = run("missing.py", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "lazyt run: error: there is no file missing.py\n")


@pytest.mark.compiler
@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_processes_that_start_anew_keep_it(how: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing\nimport torch\n"
        "def work(n):\n    return torch.arange(n).sum().item(), torch.__name__\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context({how!r}).Pool(1) as pool:\n"
        "        print(pool.map(work, [3, 4]))\n"
    )
    command = [sys.executable, "-m", "lazyt", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("[(3, 'torch'), (6, 'torch')]\n", "")
