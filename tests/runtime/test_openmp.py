"""lazyt's own threads, for compilers without an OpenMP library, and the compiler of pip's."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lazyt.runtime import cache
from lazyt.runtime.cpu import compile, execute, openmp, regions
from lazyt.runtime.cpu.compile import Compiler

CLANG = shutil.which("clang")
pytestmark = pytest.mark.skipif(
    CLANG is None, reason="needs clang, whose calls these threads serve"
)

#: One function for each thing that generated C does with threads; each says whether it was right.
TEXT = """
typedef long long i64;
int omp_get_thread_num(void);
int omp_get_num_threads(void);
#define TEST(name) __attribute__((visibility("default"))) int name(int threads)

TEST(loops)
{
  int seen[1000] = {0}, wrong = 0;
  for (int n = 0; n < 1000; n = n * 3 + 1)
    {
      for (int i = 0; i < n; i++) seen[i] = 0;
#pragma omp parallel for num_threads(threads) schedule(static)
      for (int i = 0; i < n; i++) seen[i] += 1;
#pragma omp parallel for num_threads(threads) schedule(static, 3)
      for (int i = n - 1; i >= 0; i--) seen[i] += 10;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 5)
      for (unsigned i = 0; i < (unsigned) n; i += 1) seen[i] += 100;
#pragma omp parallel for num_threads(threads) if(threads > 1) schedule(dynamic, 1)
      for (i64 i = n - 1; i >= 0; i -= 1) seen[i] += 1000;
#pragma omp parallel for num_threads(threads) schedule(static)
      for (unsigned long long i = 0; i < (unsigned long long) n; i++) seen[i] += 10000;
      for (int i = 0; i < n; i++) wrong |= seen[i] != 11111;
    }
  return !wrong;
}

TEST(strides)
{
  int seen[100] = {0}, right = 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 2)
  for (int i = 3; i < 97; i += 7) seen[i]++;
#pragma omp parallel for num_threads(threads) collapse(2) schedule(static)
  for (int i = 0; i < 10; i++)
    for (int j = 9; j > 0; j -= 2) seen[i * 10 + j] += 10;
  for (int i = 0; i < 100; i++)
    right &= seen[i] == (i >= 3 && i < 97 && (i - 3) % 7 == 0) + 10 * (i % 2);
  return right;
}

TEST(regions)
{
  /* Many loops in a row, some threads loops ahead of others; barriers; blocks for one of them. */
  int sum[30] = {0}, singles = 0, most = 0, missed = 0;
#pragma omp parallel num_threads(threads)
  {
    for (int n = 0; n < 30; n++)
      {
#pragma omp for schedule(dynamic, 1) nowait
        for (int i = 0; i < 16; i++) __atomic_fetch_add(&sum[n], i, __ATOMIC_RELAXED);
#pragma omp single nowait
        __atomic_fetch_add(&singles, 1, __ATOMIC_RELAXED);
      }
#pragma omp barrier
    for (int n = 0; n < 30; n++)
      if (sum[n] != 120) __atomic_store_n(&missed, 1, __ATOMIC_RELAXED);
#pragma omp single
    most = omp_get_num_threads();
    if (most != omp_get_num_threads() || omp_get_thread_num() >= most)
      __atomic_store_n(&missed, 1, __ATOMIC_RELAXED);
  }
  return singles == 30 && !missed && most == threads && omp_get_num_threads() == 1;
}

TEST(sums)
{
  int bits = 0;
  i64 total = 0;
#pragma omp parallel for num_threads(threads) reduction(|:bits)
  for (int i = 0; i < 20; i++) bits |= 1 << i;
#pragma omp parallel num_threads(threads)
  {
#pragma omp for reduction(+:total)
    for (int i = 0; i <= 1000; i++) total += i;
    if (total != 500500) __atomic_store_n(&bits, 0, __ATOMIC_RELAXED);
  }
  return bits == (1 << 20) - 1 && total == 500500;
}

TEST(inner)
{
  /* A region inside of a region has one thread, its own numbers and its own loops. */
  int count[12] = {0}, wrong = 0;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int i = 0; i < 12; i++)
    {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 2)
      for (int j = 0; j < 7; j++)
        {
          count[i] += 1;
          if (omp_get_num_threads() != 1 || omp_get_thread_num())
            __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
        }
#pragma omp parallel for num_threads(1) if(0) schedule(static)
      for (int j = 0; j < 5; j++) count[i] += 10;
    }
  for (int i = 0; i < 12; i++) wrong |= count[i] != 57;
  return !wrong;
}

#define V(n) i64 v##n##0 = n, v##n##1 = 2, v##n##2 = 3, v##n##3 = 4, v##n##4 = 5;
#define S(n) s += v##n##0 + v##n##1 + v##n##2 + v##n##3 + v##n##4;
#define FOUR(X, a, b, c, d) X(a) X(b) X(c) X(d)
#define ALL(X) FOUR(X, 1, 2, 3, 4) FOUR(X, 5, 6, 7, 8) FOUR(X, 9, 10, 11, 12) \\
  FOUR(X, 13, 14, 15, 16)
TEST(captures)
{
  ALL(V)
  i64 got[64] = {0};
  int right = 1;
#pragma omp parallel for num_threads(threads)
  for (int i = 0; i < 64; i++)
    {
      i64 s = i;
      ALL(S)
      got[i] = s;
    }
  for (int i = 0; i < 64; i++) right &= got[i] == i + 16 * 14 + 136;
  return right;
}
"""
TESTS = ("loops", "strides", "regions", "sums", "inner", "captures")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", str(CLANG))
        compiler = compile.find()
        assert compiler.own_threads
        built = compile.build_text(TEXT + regions.WRAPPED + openmp.TEXT, compiler)
        path = tmp_path_factory.mktemp("openmp") / "tests.so"
        path.write_bytes(built)
        found = ctypes.CDLL(str(path))
        assert execute._lend_threads(found._handle)
    return found


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_what_generated_code_asks_for(library: Any, name: str, threads: int) -> None:
    for _ in range(20):
        assert library[name](threads) == 1


def test_threads_of_python_take_turns(library: Any) -> None:
    # One has the team, the others compute alone meanwhile; `regions` asks for several threads.
    names = ["loops", "strides", "sums", "inner", "captures"]
    wrong: list[str] = []

    def work() -> None:
        wrong.extend(name for _ in range(20) for name in names if library[name](3) != 1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_other_libraries_do_not_see_what_plans_bring_along(library: Any) -> None:
    exported = {"lz_team", "lz_words", *TESTS}
    for name in ("__kmpc_fork_call", "__kmpc_barrier", "omp_get_thread_num"):
        with pytest.raises(OSError):
            _ctypes.dlsym(library._handle, name)
    for name in exported:
        assert _ctypes.dlsym(library._handle, name)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_has_threads_of_its_own(library: Any) -> None:
    assert library.regions(3) == 1
    child = os.fork()
    if not child:
        os._exit(0 if all(library[name](3) == 1 for name in TESTS) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert library.regions(3) == 1


PROGRAM = """
import hashlib, lazyt, numpy as np
from lazyt.runtime.cpu import compile
rng = np.random.default_rng(0)
a, b, w = (lazyt.from_numpy(rng.normal(size=s).astype(np.float32))
           for s in ((300, 200), (200, 310), (8, 6, 3, 3)))
x = lazyt.from_numpy(rng.normal(size=(4, 6, 30, 30)).astype(np.float32)).requires_grad_()
y = lazyt.nn.functional.conv2d(x, w).relu()
(y * y).sum().backward()
parts = [a @ b, (a @ b).softmax(-1).cumsum(0), a.sum(0), a.sort(0)[0], a.view(-1).sort()[1], y,
         x.grad, lazyt.zeros(50).index_add(0, lazyt.arange(6000) % 50, a.view(-1)[:6000])]
print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in parts)).hexdigest())
print(compile.find().own_threads)
"""


def _run(program: str, **settings: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=True, env={**os.environ, **settings},
    )  # fmt: skip
    return done.stdout.split()


def test_results_have_the_same_bits(tmp_path: Path) -> None:
    compilers = [words for words in ("gcc", "clang") if shutil.which(words)]
    found = {
        (cc, threads): _run(PROGRAM, CC=cc, LAZYT_THREADS=threads, LAZYT_CACHE_DIR=str(tmp_path))
        for cc in compilers
        for threads in ("1", "3")
    }
    assert len({bits for bits, _ in found.values()}) == 1, found
    assert {own for (cc, _), (_, own) in found.items() if cc == "clang"} == {"True"}


CHILD = """
import lazyt, os
x = lazyt.arange(200000.0).realize()
wanted = (x * 2).sum().item()
child = os.fork()
if not child:
    from lazyt.runtime.cpu.openmp import team
    os._exit(0 if (x * 2).sum().item() == wanted and team.count() == 2 else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_program_goes_on_with_all_threads(tmp_path: Path) -> None:
    settings = {"LAZYT_THREADS": "2", "LAZYT_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    assert _run(CHILD, CC=str(CLANG), **settings) == ["0"]


def _package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a package like ``ziglang``, whose program starts clang, the only compiler there is."""
    package = folder / "ziglang"
    package.mkdir()
    (package / "__init__.py").touch()
    program = package / "zig"
    program.write_text(
        f'#!/bin/sh\necho "$ZIG_LOCAL_CACHE_DIR" >> {folder}/places\n'
        f'[ "$1" = cc ] || exit 1\nshift\nPATH={os.environ["PATH"]} exec {CLANG} "$@"\n'
    )
    program.chmod(0o755)
    (folder / "bin").mkdir()
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delitem(sys.modules, "ziglang", raising=False)
    monkeypatch.syspath_prepend(folder)
    return program


def test_a_compiler_that_pip_brings_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_dir: Path
) -> None:
    gcc = shutil.which("gcc")
    program = _package(tmp_path, monkeypatch)
    found: Compiler = compile.find()
    assert found.command == (str(program), "cc") and found.own_threads
    places = set((tmp_path / "places").read_text().split())
    assert places and all(str(cache_dir) in place or "tmp" in place for place in places)
    if gcc is not None:
        (tmp_path / "bin" / "gcc").symlink_to(gcc)
        compile._found.clear()
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        assert compile.find().command != (str(program), "cc")


def test_without_any_compiler_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compile, "_packaged", list)
    with pytest.warns(compile.NoCompilerWarning) as caught:
        assert not compile.available()
    (said,) = [str(warning.message) for warning in caught]
    assert "pip install 'lazyt-compiler[compiler]'" in said and "NumPy interpreter" in said


@pytest.mark.slow
def test_zig_compiles_what_gcc_does(tmp_path: Path) -> None:
    words = compile._packaged()
    if not words:
        pytest.skip("needs the package ziglang")
    settings = {"LAZYT_THREADS": "2", "LAZYT_CACHE_DIR": str(tmp_path)}
    bits, own = _run(PROGRAM, CC=" ".join(words), **settings)
    assert own == "True" and bits == _run(PROGRAM, CC=str(CLANG), **settings)[0]


def test_the_pool_is_kept_on_disk(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", str(CLANG))
    execute._own_threads.cache_clear()
    started = compile.started
    assert execute._own_threads()
    assert compile.started > started
    execute._own_threads.cache_clear()
    started = compile.started
    assert execute._own_threads() and compile.started == started
    assert cache.FORMAT
