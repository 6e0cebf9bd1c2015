"""`lazyt cache` and `lazyt warm`: what is taken along to another machine, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lazyt.__main__ import main
from lazyt.config import config
from lazyt.plan import generic
from lazyt.runtime import cache, devices
from lazyt.runtime.cpu import compile
from lazyt.tools.cache import CacheFileError, export, import_
from tests.children import python_path

pytestmark = pytest.mark.skipif(not compile.available(), reason="needs a C compiler")
ROOT = Path(__file__).resolve().parents[2]
Capture = pytest.CaptureFixture[str]

PROGRAM = """
import lazyt
from lazyt.runtime.cpu import compile
x = lazyt.arange(12.0).reshape(3, 4)
print((x * 2 + 1).sum().item(), (x @ x.T)[1, 2].item())
print("started", compile.started)
"""


def _run(folder: Path, program: str = PROGRAM, package: Path = ROOT) -> list[str]:
    """What a program prints, with its cache in a folder and lazyt from another one."""
    environment = {**os.environ, "LAZYT_CACHE_DIR": str(folder), "PYTHONPATH": python_path(package)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment, cwd=package
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with a few programs."""
    folder = tmp_path_factory.mktemp("filled")
    values, started = _run(folder)
    assert values == "144.0 214.0" and started != "started 0"
    return folder


@pytest.fixture
def exported(filled: Path, tmp_path: Path) -> Path:
    """A file with them."""
    with config.override(cache_dir=str(filled)):
        (line,) = export(str(tmp_path / "cache.lz"))
    assert "programs" in line and "plans" in line
    return tmp_path / "cache.lz"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Path]:
    """An empty cache, which is in use."""
    with config.override(cache_dir=str(tmp_path / "other")):
        yield tmp_path / "other"


def _changed(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> Path:
    """A file like another one, with a changed manifest or other contents."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(contents.pop("manifest.json"))
    change(manifest, contents)
    made = path.with_name("changed.lz")
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
        archive.writestr("manifest.json", json.dumps(manifest))
    return made


def _of_machine(path: Path, facts: dict[str, Any]) -> Path:
    """A file like another one, of a machine that differs in these."""
    return _changed(path, lambda manifest, _: manifest["machine"].update(facts))


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.suffix in (".so", ".json"))


def test_programs_need_no_compiler_on_the_other_machine(exported: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    command = f"from lazyt.__main__ import main; main(['cache', 'import', {str(exported)!r}])"
    programs, plans, *_ = _run(other, command)
    count = len([name for name in _names(other) if name.endswith(".so")])
    assert programs == f"programs: {count} taken" and plans.startswith("plans: ")
    assert _run(other) == ["144.0 214.0", "started 0"]
    assert _run(other, command)[0] == f"programs: 0 taken, {count} were there"
    info = "from lazyt.__main__ import main; main(['cache', 'info'])"
    assert f"{count} programs" in _run(other, info)[0]


def test_what_is_written_is_the_users_alone(exported: Path) -> None:
    assert exported.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in exported.parent.glob("cache.lz*")] == ["cache.lz"]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("platform", "plan9 vax", "is of plan9 vax; this is"),
        ("cache", 1, "keeps its cache otherwise"),
    ],
)
def test_files_of_other_kinds_of_machines(
    exported: Path, other: Path, field: str, value: object, text: str
) -> None:
    file = _of_machine(exported, {field: value})
    with pytest.raises(CacheFileError, match=text):
        import_(str(file))
    assert not _names(other)


def test_programs_for_another_cpu_or_compiler_are_left_out(exported: Path, other: Path) -> None:
    features = [*devices.cpu_features()]
    for field, value, text in [
        ("features", [*features, "avx1024"], "a CPU with avx1024, which this one has not"),
        ("features", features[1:], f"a CPU without {features[0]}; this one has it"),
        ("compiler", ["/opt/cc", "cc 1.0"], "another compiler, or with other flags: /opt/cc, here"),
    ]:
        change = {field: value, "made_for": "elsewhere"}
        file = _of_machine(exported, change)
        programs, plans = import_(str(file))
        assert programs.startswith("programs: none of") and text in programs
        assert "none" not in plans
    assert not _names(other)


def test_plans_of_another_version_or_cpu_are_left_out(exported: Path, other: Path) -> None:
    for change, text in [
        ({"code": "other"}, "but with other files"),
        ({"code": "other", "lazyt": "0.0.1"}, "another version of lazyt: 0.0.1, here"),
        ({"cpu": "3 cores"}, "another CPU: 3 cores, here"),
    ]:
        file = _of_machine(exported, change)
        programs, plans = import_(str(file))
        assert "none" not in programs and plans.startswith("plans: none of") and text in plans
    assert not [*other.rglob("plan-*")]


def test_damage_is_found_before_anything_is_taken(
    exported: Path, other: Path, tmp_path: Path
) -> None:
    def corrupt(_: dict[str, Any], contents: dict[str, bytes]) -> None:
        name = next(name for name in contents if name.endswith(".so"))
        contents[name] = contents[name][:-1] + bytes([contents[name][-1] ^ 1])

    def remove(_: dict[str, Any], contents: dict[str, bytes]) -> None:
        del contents[next(name for name in contents if name.endswith(".so"))]

    def reformat(manifest: dict[str, Any], _: dict[str, bytes]) -> None:
        manifest["format"] = 99

    def forget(manifest: dict[str, Any], _: dict[str, bytes]) -> None:
        del manifest["machine"]["code"]

    for change, text in [
        (corrupt, "does not match its checksum"),
        (remove, "is missing"),
        (reformat, "format 99; this version reads 1"),
        (forget, "does not say which machine"),
    ]:
        with pytest.raises(CacheFileError, match=text):
            import_(str(_changed(exported, change)))
    half = tmp_path / "half.lz"
    half.write_bytes(exported.read_bytes()[: exported.stat().st_size // 2])
    with pytest.raises(CacheFileError, match="damaged, or no export"):
        import_(str(half))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme", "text")
    with pytest.raises(CacheFileError, match="no export of a cache"):
        import_(str(tmp_path / "other.zip"))
    with config.override(cache_bytes=1000), pytest.raises(CacheFileError, match="holds more than"):
        import_(str(exported))
    assert not _names(other)


def test_a_plan_under_another_name_is_refused(exported: Path, other: Path) -> None:
    def rename(manifest: dict[str, Any], contents: dict[str, bytes]) -> None:
        name = next(name for name in contents if name.startswith("plan-"))
        for table in (manifest["files"], contents):
            table["plan-" + "0" * 40 + ".txt"] = table.pop(name)

    plans = import_(str(_changed(exported, rename)))[1]
    assert "1 refused" in plans and not [*other.rglob("plan-0000*")]
    assert not cache.adopt_text("../plan-1.txt", b"")


def test_files_that_others_may_write_are_not_taken(
    exported: Path, other: Path, capsys: Capture
) -> None:
    exported.chmod(0o666)
    assert main(["cache", "import", str(exported)]) == 1
    assert "others may write to" in capsys.readouterr().err and not _names(other)
    assert main(["cache", "import", str(exported.with_name("nowhere"))]) == 2
    assert "No such file" in capsys.readouterr().err


def test_without_a_compiler_nothing_is_taken(
    exported: Path, other: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compile, "_found", {})
    monkeypatch.setattr(compile, "_packaged", list)
    with pytest.raises(CacheFileError, match="none that works"):
        import_(str(exported))


def test_tuned_forms_of_another_machine_are_left_out(exported: Path, other: Path) -> None:
    from hashlib import blake2b

    def tune(manifest: dict[str, Any], contents: dict[str, bytes]) -> None:
        found = json.loads(contents["tuned.json"])
        found["kernels"] = {"k": {"form": None, "standard_us": 2, "tuned_us": 1}}
        found["machine"]["cpu"] = manifest.pop("cpu", found["machine"]["cpu"])
        data = contents["tuned.json"] = json.dumps(found).encode()
        checksum = blake2b(data, digest_size=20).hexdigest()
        manifest["files"]["tuned.json"] = {"bytes": len(data), "checksum": checksum}
        manifest["tuned"] = 1

    def tune_elsewhere(manifest: dict[str, Any], contents: dict[str, bytes]) -> None:
        tune({**manifest, "cpu": "another"}, contents)
        manifest["tuned"] = 1
        data = contents["tuned.json"]
        checksum = blake2b(data, digest_size=20).hexdigest()
        manifest["files"]["tuned.json"] = {"bytes": len(data), "checksum": checksum}

    assert import_(str(_changed(exported, tune_elsewhere)))[2].startswith("tuned forms: none taken")
    assert import_(str(_changed(exported, tune)))[2] == "tuned forms: 1 taken"


def test_warming_says_what_it_did(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def compiled(progress: Callable[[int, int], None]) -> int:
        progress(0, 2)
        compile.started += 1
        return 2

    monkeypatch.setattr(generic, "warm", compiled)
    assert main(["warm"]) == 0
    said = capsys.readouterr().out
    assert "2 units, compiled in" in said and compile.find().version in said
    monkeypatch.setattr(generic, "warm", lambda progress: 2)
    assert main(["warm"]) == 0
    assert "2 units, all were there" in capsys.readouterr().out


def test_equal_code_has_an_equal_stamp(tmp_path: Path) -> None:
    """Plans are found on machines whose files have other times."""
    program = "import lazyt; from lazyt.plan import build as making; print(making.code_stamp())"
    copied = tmp_path / "copy"
    package = Path(cache.__file__).parents[1]
    shutil.copytree(package, copied / "lazyt", ignore=shutil.ignore_patterns("__pycache__"))
    for path in copied.rglob("*.py"):
        os.utime(path, (1, 1))
    mine = _run(tmp_path / "one", program)
    assert _run(tmp_path / "two", program, copied) == mine
    with open(copied / "lazyt" / "passes" / "simplify.py", "a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert _run(tmp_path / "two", program, copied) != mine
