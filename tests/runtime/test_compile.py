"""Finding a compiler, giving it its flags, splitting Programs into units."""

from __future__ import annotations

import os
import shutil
import types
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lazyt
from lazyt.config import config
from lazyt.errors import CompileError, NoCompilerError
from lazyt.ir.program import Program
from lazyt.runtime import cache, devices
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.cpu.objects import Objects
from lazyt.runtime.memory import Buffer
from tests import compilers
from tests.runtime.sample_programs import axpy, chain, failing, filled, floats

pytestmark = pytest.mark.usefixtures("cache_dir")
REAL = compilers.command()
Wrapper = Callable[[str], Path]


@pytest.fixture
def wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wrapper:
    """Make CC a script with some first lines that then starts the real compiler."""

    def make(lines: str) -> Path:
        path = tmp_path / "wrapped-cc"
        path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\n{lines}\nexec {REAL} "$@"\n')
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))
        return tmp_path / "log"

    return make


def computes() -> bool:
    x, y, out = filled(np.arange(8)), filled(np.ones(8)), Buffer(32)
    execute.load(axpy(8)).run([x, y], [out])
    return bool((floats(out) == 2 * np.arange(8, dtype=np.float32) + 1).all())


def test_the_compiler_describes_itself() -> None:
    compiler = compile.find()
    assert compiler is compile.find() and compile.available()
    assert compiler.version and compiler.target
    assert {"-ffp-contract=off", "-fvisibility=hidden"} <= set(compiler.flags)
    assert compiler.flags.count("-O2") + compiler.flags.count("-O3") == 1
    assert ("-fopenmp" in compiler.flags) == compiler.openmp


def test_cc_may_hold_arguments(wrapper: Wrapper, monkeypatch: pytest.MonkeyPatch) -> None:
    log = wrapper("")
    monkeypatch.setenv("CC", f"{log.parent}/wrapped-cc -DLZ_MARK='1 2'")
    assert compile.find().command[1:] == ("-DLZ_MARK=1 2",)
    assert computes()
    # zig, where it is the real one, asks CC for the folders of headers.
    lines = [line for line in log.read_text().splitlines() if "-Wp,-v" not in line]
    assert all(line.startswith("-DLZ_MARK=1 2") for line in lines), lines


def test_a_level_of_optimization_in_cc_takes_the_place_of_lazyts(
    wrapper: Wrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = wrapper("")
    assert computes()
    full, started = compile.find(), compile.started
    execute.forget()
    monkeypatch.setenv("CC", f"{log.parent}/wrapped-cc -O1")
    compiler = compile.find()
    levels = [flag for flag in (*compiler.command, *compiler.flags) if flag.startswith("-O")]
    assert levels == ["-O1"] and compiler.identity() != full.identity()
    assert {"-ffp-contract=off", "-fvisibility=hidden"} <= set(compiler.flags)
    assert compiler.openmp == full.openmp
    assert computes() and compile.started > started, "its kernels are compiled anew"
    assert log.read_text().splitlines()[-1].startswith("-O1 ")


def test_another_compiler_is_another_entry(wrapper: Wrapper) -> None:
    assert computes()
    started = compile.started
    execute.forget()
    wrapper("# another file")
    assert computes() and compile.started > started


def test_without_openmp_kernels_are_serial_and_it_is_said_once(wrapper: Wrapper) -> None:
    wrapper('case "$*" in *-fopenmp*) echo "no openmp" >&2; exit 1;; esac')
    with pytest.warns(compile.NoOpenMPWarning, match="one core") as caught:
        assert compile.available() and computes()
    assert len(caught) == 1 and not compile.find().openmp
    compile._found.clear()
    assert computes()  # warnings are errors here: it is not said again


def test_flags_that_a_compiler_does_not_know_are_left_out(wrapper: Wrapper) -> None:
    wrapper('case "$*" in *=native*) echo "unknown argument" >&2; exit 1;; esac')
    compiler = compile.find()
    assert compiler.openmp and not any("native" in flag for flag in compiler.flags)
    assert computes()
    wrapper('case "$*" in *--param*) echo "unknown argument" >&2; exit 1;; esac  # another')
    compile._found.clear()
    assert {"-O3", "-fopenmp"} <= set(compile.find().flags) and computes()


def test_gcc_gathers_where_the_processor_does_it_fast(
    wrapper: Wrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathers = compile._GATHERS
    features = set(devices.cpu_features()) - {"amx_tile"}
    monkeypatch.setattr(devices, "cpu_features", lambda: (*features,))
    assert not any(gathers in flags for flags in compile._attempts("-march=native", False))
    monkeypatch.setattr(devices, "cpu_features", lambda: (*features, "amx_tile"))
    first, second, *rest = compile._attempts("-march=native", False)
    assert gathers in first and set(first) - {gathers} == set(second)
    assert not any(gathers in flags for flags in rest + compile._attempts("-march=native", True))
    wrapper('case "$*" in *mtune-ctrl*) echo "unknown argument" >&2; exit 1;; esac')
    assert gathers not in compile.find().flags and computes()


@pytest.fixture
def nothing_packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no package had brought a compiler."""
    monkeypatch.setattr(compile, "_packaged", lambda: [])


@pytest.mark.usefixtures("nothing_packaged")
def test_no_compiler_is_said_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.warns(compile.NoCompilerWarning, match="gcc is not on the PATH") as caught:
        assert not compile.available() and not compile.available()
    assert len(caught) == 1
    with pytest.raises(NoCompilerError, match="Install gcc or clang"):
        execute.load(axpy(4))
    monkeypatch.setenv("CC", "no-such-cc")
    with pytest.raises(NoCompilerError, match="no-such-cc is not on the PATH"):
        compile.find()


@pytest.mark.usefixtures("nothing_packaged")
def test_a_compiler_on_the_path_that_does_not_work_counts_as_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "gcc"
    broken.write_text("#!/bin/sh\necho 'cannot find as' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert not compile.available()
    assert "gcc does not work: cannot find as" in str(caught[0].message)


def test_a_cc_that_does_not_work_is_an_error(wrapper: Wrapper) -> None:
    wrapper("exit 1")
    with pytest.raises(CompileError, match="status 1 and no message") as caught:
        compile.available()
    assert caught.value.command[0].endswith("wrapped-cc")


def test_a_compile_that_fails_raises_again_and_keeps_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(2):
        with pytest.raises(CompileError) as caught:
            execute.load(failing())
    error = caught.value
    assert "error" in error.stderr and error.source_path
    assert "no such thing" in Path(error.source_path).read_text()
    monkeypatch.setattr(config, "cache_dir", "/proc/nowhere")
    with pytest.warns(cache.NoCacheWarning), pytest.raises(CompileError) as caught:
        execute.load(failing())
    kept = caught.value.source_path
    assert kept and "no such thing" in Path(kept).read_text()
    shutil.rmtree(Path(kept).parent)


def test_a_compiler_that_dies_without_a_word_is_reported(wrapper: Wrapper) -> None:
    wrapper('[ -e "$0.dead" ] && kill -9 $$')
    program = axpy(4)
    compile.find()
    Path(compile.find().command[0] + ".dead").touch()
    with pytest.raises(CompileError, match="status -9"):
        execute.load(program)


def test_a_full_disk_moves_the_work_elsewhere(wrapper: Wrapper, cache_dir: Path) -> None:
    wrapper(f'case "$*" in *{cache_dir}*) echo "x.s: No space left on device" >&2; exit 1;; esac')
    assert computes()


@pytest.mark.parametrize(
    "words",
    [
        "ld: final link failed: No space left on device",
        "as: can't write 12 bytes to section .text of x.o: 'No space left on device'",
        "ld: final link failed: Disk quota exceeded",
        "Cannot create temporary file in /tmp/: Permission denied",
        "ld: x.o: file truncated",
    ],
)
def test_words_of_a_full_disk(wrapper: Wrapper, cache_dir: Path, words: str) -> None:
    wrapper(f'case "$*" in *{cache_dir}*) echo "{words}" >&2; exit 1;; esac')
    assert computes()


def test_a_linker_that_dies_of_a_full_disk(
    wrapper: Wrapper, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile.find()
    real = os.statvfs

    def full(path: str) -> object:
        found = real(path)
        if str(cache_dir) not in str(path):
            return found
        return types.SimpleNamespace(f_bavail=0, f_frsize=4096, f_favail=1, f_files=1)

    monkeypatch.setattr(os, "statvfs", full)
    wrapper(f'case "$*" in *{cache_dir}*) echo "ld terminated with signal 7" >&2; exit 1;; esac')
    assert computes()


def test_a_folder_that_goes_while_a_compiler_works(wrapper: Wrapper, cache_dir: Path) -> None:
    wrapper(f'case "$*" in *{cache_dir}*-shared*) rm -rf {cache_dir}/*;; esac')
    assert computes()


def test_no_place_at_all_is_said_once_and_plans_are_interpreted(
    wrapper: Wrapper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper(f'test -e {tmp_path}/room || {{ echo "No space left on device" >&2; exit 1; }}')
    lazyt.plan.planning.clear()
    x = lazyt.arange(5.0) * 3 - 1
    with pytest.warns(compile.NoPlaceWarning, match="No space left.*TMPDIR") as warned:
        assert x.tolist() == [-1, 2, 5, 8, 11]
        assert (x * 7).tolist() == [-7, 14, 35, 56, 77]
    assert len(warned) == 1
    started = compile.started
    (tmp_path / "room").touch()
    assert (x * 9).tolist() == [-9, 18, 45, 72, 99], "it is compiled as soon as there is room"
    assert compile.started > started


def test_what_passes_hand_to_each_other_lies_in_the_folder_of_the_plan(
    wrapper: Wrapper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    wrapper(f'echo "$TMPDIR" >> {tmp_path}/places')
    assert computes()
    places = (tmp_path / "places").read_text().split()
    assert places and not any("nowhere" in place for place in places)


def test_cc_may_have_blanks_in_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "my tools"
    place.mkdir()
    (place / "cc").write_text(f'#!/bin/sh\nexec {REAL} "$@"\n')
    (place / "cc").chmod(0o755)
    for words in (f"{place}/cc", f"'{place}/cc' -g0", f'"{place}/cc"'):
        monkeypatch.setenv("CC", words)
        assert compile.find().command[0] == f"{place}/cc"
    monkeypatch.chdir(place)
    monkeypatch.setenv("CC", "./cc")
    found = compile.find()
    monkeypatch.chdir(tmp_path)
    assert found.command == (f"{place}/cc",) and computes()


@pytest.mark.parametrize("words", ["'gcc", 'gcc "-O2', "gcc \\"])
def test_quotes_of_cc_that_do_not_end(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", words)
    with pytest.raises(CompileError, match="cannot be read as a command"):
        compile.find()


def test_small_programs_are_one_unit() -> None:
    (unit,) = compile.split_units(axpy(4), 8)
    assert unit.index("typedef float") < unit.index("lz_scale(lz_f32 x)") < unit.index("void axpy(")
    assert "this is not C" not in unit, "sections that no kernel names are left out"
    assert unit.count("lz_plan") == 2


@pytest.mark.parametrize(("length", "cores"), [(2, 2), (5, 2), (9, 4), (3, 16)])
def test_large_programs_are_split_evenly(length: int, cores: int) -> None:
    program = chain(4, length, padding=3000)
    units = compile.split_units(program, cores)
    assert len(units) == min(length, cores)
    for kernel in program.kernels:
        assert sum(kernel.text in unit for unit in units) == 1
    assert sum(program.entry in unit for unit in units) == 1
    assert all(unit.startswith("typedef float") for unit in units)
    assert max(map(len, units)) < 2 * min(map(len, units)) + 4000


def test_batches_are_compiled_and_linked(wrapper: Wrapper, monkeypatch: pytest.MonkeyPatch) -> None:
    log = wrapper("")
    compile.find()
    log.write_text("")
    monkeypatch.setattr(devices, "core_count", lambda: 3)
    x, out = filled(np.arange(8)), Buffer(32)
    execute.load(chain(8, 6, 5000)).run([x], [out])
    assert floats(out).tolist() == [float(v) for v in range(15, 23)]
    lines = log.read_text().splitlines()
    assert sum("/unit" in line and " -c " in line for line in lines) == 3
    assert sum("-shared" in line for line in lines) == 1


def test_kernels_of_other_programs_are_linked_and_not_compiled() -> None:
    def compiled(program: Program) -> int:
        """How many kernels were compiled for a program, which gives what it should."""
        before = len([*Path(config.cache_dir).rglob("kernel-*.txt")])
        x, out = filled(np.zeros(8)), Buffer(32)
        execute.load(program).run([x], [out])
        assert floats(out)[0] == sum(range(len(program.kernels)))
        return len([*Path(config.cache_dir).rglob("kernel-*.txt")]) - before

    assert compiled(chain(8, 4)) == 4
    assert compiled(chain(8, 5)) == 1
    mixed = chain(8, 5)
    mixed = replace(mixed, kernels=(*mixed.kernels[:3], *chain(8, 5, 1).kernels[3:]))
    assert compiled(mixed) == 2
    last = chain(8, 6, 1)  # two of its kernels are in a file with two that are in another one, too
    last = replace(last, kernels=(*chain(8, 4).kernels[:3], *last.kernels[3:]))
    assert compiled(last) == 1


def test_compilers_start_before_a_program_is_whole(
    wrapper: Wrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = wrapper("")
    compile.find()
    monkeypatch.setattr(devices, "core_count", lambda: 2)
    program = chain(8, 6, 8000)
    log.write_text("")
    with Objects() as objects:
        for kernel in program.kernels[:3]:
            objects.add(kernel, program.sections)
        assert objects.has_begun
        entry = execute.load(program, objects=objects)
    x, out = filled(np.arange(8)), Buffer(32)
    entry.run([x], [out])
    assert floats(out)[0] == 15 and "/unit1.c" in log.read_text()
    with Objects() as objects:  # what is given up is stopped
        objects.add(chain(9, 1, 12000).kernels[0], program.sections)
        assert objects.has_begun
    assert not list(Path(config.cache_dir).rglob("tmp-*"))


def test_an_object_with_an_older_form_of_another_kernel_does_not_lend_it() -> None:
    def program(helper: str) -> Program:
        made = chain(8, 4)
        calling = made.kernels[3]
        text = calling.text.replace("+ 3.0f", "+ lz_three()")
        changed = replace(calling, text=text, prelude=("three",))
        section = ("three", f"static lz_f32 lz_three(void) {{ return {helper}; }}")
        kernels = (*made.kernels[:3], changed)
        return replace(made, kernels=kernels, sections=(*made.sections, section))

    for helper, wanted in (("3.0f", 6), ("100.0f", 103)):
        x, out = filled(np.zeros(8)), Buffer(32)
        execute.load(program(helper)).run([x], [out])
        assert floats(out)[0] == wanted


def test_one_failing_batch_fails_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "core_count", lambda: 2)
    program = chain(8, 4, 3000)
    object.__setattr__(program.kernels[2], "text", program.kernels[2].text + "#error broken\n")
    with pytest.raises(CompileError, match="broken") as caught:
        execute.load(program)
    assert caught.value.source_path
    assert "#error broken" in Path(caught.value.source_path).read_text()
