"""Bad input: errors name the values and what is allowed, at the line that made them.

Compilers that fail or are missing, broken caches, full disks and bad settings are input too.
"""

from __future__ import annotations

import os
import re
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import lazyt as lt
import lazyt.nn.functional as F
from lazyt.errors import CompileError, LazytError
from lazyt.plan import planning
from lazyt.runtime import cache, events
from lazyt.runtime.cpu import compile, execute

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Run, Wrapper

A = lt.arange(6.0).reshape(2, 3)
B = lt.arange(20.0).reshape(4, 5)
I = lt.tensor([0, 1])  # noqa: E741

#: What is wrong, what PyTorch raises there, and what the message must name.
WRONG: list[tuple[Callable[[], object], type[Exception], list[str]]] = [
    (lambda: A + B, RuntimeError, ["(3)", "(5)", "dimension 1"]),
    (lambda: A @ B, RuntimeError, ["2x3", "4x5"]),
    (lambda: A.view(7), RuntimeError, ["[7]", "size 6"]),
    (lambda: A.t().view(6), RuntimeError, ["view", "reshape"]),
    (lambda: A.reshape(4, -1), RuntimeError, ["[4, -1]", "size 6"]),
    (lambda: A.expand(3, 3), RuntimeError, ["(3)", "(2)", "[2, 3]"]),
    (lambda: A.permute(0, 0), RuntimeError, ["duplicate"]),
    (lambda: lt.cat([A, B]), RuntimeError, ["3", "5", "number 1"]),
    (lambda: lt.stack([A, B]), RuntimeError, ["[2, 3]", "[4, 5]", "entry 1"]),
    (lambda: A.split([1, 5]), RuntimeError, ["[1, 5]", "2"]),
    (lambda: A.copy_(B), RuntimeError, ["(3)", "(5)", "dimension 1"]),
    (lambda: lt.einsum("ij,jk->ik", A, B), RuntimeError, ["j", "4", "3"]),
    (lambda: F.linear(A, B), RuntimeError, ["2x3", "5x4"]),
    (lambda: F.conv2d(lt.ones(1, 3, 5, 5), lt.ones(2, 4, 3, 3)), RuntimeError, ["3", "4"]),
    (lambda: lt.tensor([[1], [2, 3]]), ValueError, ["length 1", "2"]),
    (lambda: lt.zeros(2, -1), RuntimeError, ["negative"]),
    (lambda: A.sum(5), IndexError, ["[-2, 1]", "5"]),
    (lambda: A.transpose(0, -3), IndexError, ["[-2, 1]", "-3"]),
    (lambda: A[5], IndexError, ["5", "dimension 0", "size 2"]),
    (lambda: A[:, -4], IndexError, ["-4", "dimension 1", "size 3"]),
    (lambda: A[0, 0, 0], IndexError, ["2"]),
    (lambda: A[lt.tensor([9])], IndexError, ["9", "dimension 0", "size 2"]),
    (lambda: A.index_select(0, lt.tensor([3])), IndexError, ["out of range"]),
    (lambda: A.gather(1, lt.tensor([[5]])), IndexError, ["5", "dimension 1", "size 3"]),
    (lambda: F.cross_entropy(A, lt.tensor([0, 7])), IndexError, ["7", "out of bounds"]),
    (lambda: B[0].__setitem__(I, lt.ones(3, 2)), RuntimeError, ["[3, 2]", "[2]"]),
    (lambda: A.__setitem__(5, 1), IndexError, ["5", "size 2"]),
    (lambda: I.add_(1.5), RuntimeError, ["Float", "Long"]),
    (lambda: A & A, RuntimeError, ["Float"]),
    (lambda: I.mean(), RuntimeError, ["Long"]),
    (lambda: A @ A.t().double(), RuntimeError, ["float", "double"]),
    (lambda: A.masked_fill(I, 0), RuntimeError, ["int64"]),
    (lambda: A[I.float()], IndexError, ["long"]),
    (lambda: lt.tensor("text"), Exception, ["str"]),
    (lambda: lt.from_numpy(np.ones(2, np.clongdouble)), TypeError, ["clongdouble", "float64"]),
    (lambda: A.to("quantum"), RuntimeError, ["quantum", "cpu", "cuda"]),
    (lambda: A.item(), RuntimeError, ["6"]),
    (lambda: bool(A), RuntimeError, ["ambiguous"]),
    (lambda: A.backward(), RuntimeError, ["does not require grad"]),
    (lambda: I.float().requires_grad_().numpy(), RuntimeError, ["detach()"]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_errors_name_values_at_the_line_that_made_them(number: int) -> None:
    function, kind, wanted = WRONG[number]
    with pytest.raises(kind) as caught:
        function()
    text = str(caught.value)
    assert isinstance(caught.value, LazytError), text
    assert all(word in text for word in wanted), text
    frames = traceback.extract_tb(caught.tb)
    mine = [f for f in frames if f.filename == __file__]
    code = function.__code__
    assert mine[-1].lineno == code.co_firstlineno
    assert not any("planning" in f.filename for f in frames), "raised by computing"


def test_a_device_that_is_not_there_says_what_is_missing() -> None:
    from lazyt.errors import DeviceError

    try:
        lt.zeros(3).to("cuda:99")
    except DeviceError as error:
        assert "cuda:99" in str(error)
    else:
        pytest.fail("there is no such device")


def test_an_error_in_the_middle_leaves_the_operands_as_they_were() -> None:
    x = lt.arange(6.0).reshape(2, 3)
    y = x[1]
    z = (x * 2).exp()
    for function, _, _ in WRONG:
        with pytest.raises(Exception):  # noqa: B017
            function()
    with pytest.raises(RuntimeError):
        x.add_(lt.ones(4))
    with pytest.raises(RuntimeError):
        x[0] = lt.ones(2)
    with pytest.raises(RuntimeError):
        y += lt.ones(3, 3)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and y.tolist() == [3, 4, 5]
    assert x._version == 0
    np.testing.assert_allclose(z.numpy(), np.exp(np.arange(6.0).reshape(2, 3) * 2), rtol=1e-6)


# ------------------------------------------------------------------ compilers


def failing_cc(folder: Path) -> str:
    """A compiler that passes the trial and fails on everything else."""
    path = folder / "failing-cc"
    path.write_text(
        '#!/bin/sh\nfor a in "$@"; do case "$a" in *.c)\n'
        'if ! grep -q lz_probe "$a"; then echo "unit.c:1: out of ideas" >&2; exit 1; fi;;\n'
        f'esac; done\nexec {shutil.which("gcc") or "cc"} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.lazy
def test_a_failing_compiler_shows_command_message_and_source(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", failing_cc(tmp_path))
    x = lt.arange(5.0) * 3
    with pytest.raises(CompileError) as caught:
        (x + 1).exp().tolist()
    error, text = caught.value, str(caught.value)
    assert "failing-cc" in text and "-fPIC" in text and "out of ideas" in text
    assert error.source_path is not None and error.source_path in text
    assert "lz_plan" in Path(error.source_path).read_text()
    assert error.source_path.startswith(str(own_cache))
    monkeypatch.delenv("CC")
    assert (x + 1).tolist() == [1, 4, 7, 10, 13], "a failed compile must not be remembered"


def test_a_compiler_that_cannot_do_anything(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broken-cc"
    path.write_text("#!/bin/sh\necho 'license expired' >&2\nexit 1\n")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    with pytest.raises(CompileError, match="license expired"):
        (lt.arange(5.0) + 1).tolist()


NO_COMPILER = """
import warnings
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import lazyt as lt
    x = lt.arange(6.0).reshape(2, 3)
    print(x.softmax(-1).sum().item(), (x @ x.t()).tolist(), (x + 1).tolist()[0])
    w = lt.ones(3).requires_grad_()
    (x * w).sum().backward()
    print(w.grad.tolist())
messages = [str(w.message) for w in caught]
print(len(messages), "no C compiler" in messages[0], "interpreter" in messages[0])
print(all(name in messages[0] for name in {names}))
"""


@pytest.mark.parametrize("how", ["PATH", "CC"])
def test_without_a_compiler_there_is_one_warning_and_the_same_results(
    run_child: Run, tmp_path: Path, how: str
) -> None:
    missing = str(tmp_path / "nothing")
    names = ["gcc", "clang"] if how == "PATH" else [missing]
    output = run_child(NO_COMPILER.format(names=names), **{how: missing})
    lines = output.splitlines()
    total, product = lines[0].split(" ", 1)
    assert float(total) == pytest.approx(2.0, abs=1e-6)
    assert product == "[[5.0, 14.0], [14.0, 50.0]] [1.0, 2.0, 3.0]"
    assert lines[1:] == ["[3.0, 5.0, 7.0]", "1 True True", "True"]


# ---------------------------------------------------------------------- cache


def forget() -> None:
    """As in a new process."""
    planning.clear()
    execute.forget()
    compile._found.clear()


def compute() -> None:
    x = lt.arange(24.0).reshape(4, 6)
    want = np.arange(24).reshape(4, 6)
    assert (x * 2 + x.sum(1, keepdim=True)).tolist() == (want * 2 + want.sum(1)[:, None]).tolist()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "garbage": lambda data: bytes(np.random.default_rng(0).integers(0, 256, 3000, np.uint8)),
    "another bit": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "text": lambda data: b"{}\n",
    "a plan of nothing": lambda data: sealed(b"{}"),
    "a plan of the wrong types": lambda data: sealed(b'{"kernels": 3, "launches": null}'),
}


def sealed(body: bytes) -> bytes:
    """Text as the cache stores it, with a right checksum."""
    import hashlib

    return hashlib.blake2b(body, digest_size=20).hexdigest().encode() + b"\n" + body


@pytest.mark.fused
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_is_rebuilt_silently(own_cache: Path, damage: str) -> None:
    compute()
    files = [p for p in (own_cache / f"v{cache.FORMAT}").iterdir() if p.is_file()]
    assert {p.suffix for p in files} >= {".so", ".json", ".txt", ".c"}
    for path in files:
        data = DAMAGE[damage](path.read_bytes())
        path.unlink()  # a mapped library must not change
        path.write_bytes(data)
    forget()
    compute()
    forget()
    started = compile.started
    compute()
    assert compile.started == started, "the rebuilt entries were not stored"


@pytest.mark.fused
def test_a_cache_of_folders_and_of_unreadable_files(own_cache: Path) -> None:
    compute()
    for number, path in enumerate(sorted((own_cache / f"v{cache.FORMAT}").glob("*.*"))):
        path.unlink()
        if number % 2:
            path.mkdir()
            (path / "inside").write_text("")
        else:
            path.symlink_to("/dev/zero/nowhere")
    forget()
    with pytest.warns(cache.NoCacheWarning, match="Directory not empty|Is a directory"):
        compute()


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null", "/dev/full/cache"])
def test_a_home_that_cannot_hold_a_cache_costs_only_caching(run_child: Run, place: str) -> None:
    code = "import warnings\nimport lazyt as lt\nfrom lazyt.runtime import events\n"
    code += (
        "with warnings.catch_warnings(record=True) as said:\n    warnings.simplefilter('always')\n"
    )
    code += "    print((lt.arange(5.0) + 1).sum().item(), len(events.recorded('cache')), len(said))"
    assert run_child(code, LAZYT_CACHE_DIR=place) == "15.0 1 1\n"


def test_a_full_disk_costs_only_caching(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.warns(cache.NoCacheWarning, match="No space left"):
        compute()
    assert events.recorded("cache")


# ------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LAZYT_THREADS", "many"),
        ("LAZYT_THREADS", "-1"),
        ("LAZYT_CACHE_BYTES", "1GB"),
        ("LAZYT_MAX_PENDING_NODES", "-5"),
        ("LAZYT_MAX_PENDING_BYTES", "1e9"),
        ("LAZYT_INLINE_REDUCE", "0x10"),
        ("LAZYT_EAGER", "maybe"),
        ("LAZYT_DISK_CACHE", "2"),
        ("LAZYT_VERIFY", "y e s"),
    ],
)
def test_bad_settings_name_the_variable_the_value_and_what_is_allowed(
    run_child: Run, name: str, value: str
) -> None:
    code = "try:\n    import lazyt\nexcept ValueError as error:\n    print(error)"
    text = run_child(code, **{name: value})
    assert name in text and repr(value) in text
    assert re.search("must be (a whole number|1, true|1, 0 or values)", text)


@pytest.mark.parametrize("value", [-1, 1.5, "2", None])
@pytest.mark.parametrize("name", ["threads", "max_pending_nodes", "cache_bytes"])
def test_counts_that_are_none_are_refused(name: str, value: Any) -> None:
    before = getattr(lt.config, name)
    with pytest.raises(ValueError, match=f"{name} must be a whole number, not negative, got"):
        setattr(lt.config, name, value)
    assert getattr(lt.config, name) == before


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(AttributeError, match="thraeds"), lt.config.override(thraeds=3):
        pass
    with pytest.raises(AttributeError):
        lt.config.thraeds = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["MAX_PENDING_NODES", "MAX_PENDING_BYTES", "INLINE_REDUCE"])
def test_settings_of_zero_work(run_child: Run, name: str) -> None:
    code = "import lazyt as lt\nx = lt.arange(6.0)\nfor _ in range(5):\n    x = x + 1\n"
    code += "print(x.reshape(2, 3).sum(1).tolist())"
    assert run_child(code, **{f"LAZYT_{name}": "0"}) == "[18.0, 27.0]\n"


def test_a_wrapper_with_arguments_is_a_compiler(run_child: Run, wrapper: Wrapper) -> None:
    code = "import lazyt as lt\nprint((lt.arange(5.0) + 1).tolist())"
    assert run_child(code, CC=f"{wrapper.command} -g0") == "[1.0, 2.0, 3.0, 4.0, 5.0]\n"
    assert all(line.startswith("-g0") for line in wrapper.starts())
