"""Kernels for any shape on a machine that has none: what is waited for, what follows, and that
nothing is lost by Ctrl-C, by a fork, or with the disk cache."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lazyt as lt
from lazyt.codegen.generic import library
from lazyt.codegen.generic.encode import encode
from lazyt.codegen.generic.program import generic_program
from lazyt.config import config
from lazyt.ir.graph import Node, topological
from lazyt.ir.program import Program
from lazyt.plan import generic, planning, tiers
from lazyt.runtime import cache
from lazyt.runtime.cpu import compile
from lazyt.runtime.cpu.execute import Executable
from lazyt.runtime.cpu.servers import Server
from lazyt.runtime.memory import Buffer
from tests.end_to_end.conftest import Run, Start, Wrapper, wrapped

pytestmark = pytest.mark.skipif(not compile.available(), reason="needs a C compiler")
#: A graph whose functions are of several kinds, and its result.
GRAPH = "x = lt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])\ny = (x @ x.t() * 0.1).exp().sum(0)\n"
SHOW = "print([f'{v:.7g}' for v in y.tolist()], flush=True)\n"
#: What counts the compilers that were started, by the wrapper's log or in the program itself.
COUNT = "from lazyt.runtime.cpu import compile\nprint(compile.started, flush=True)\n"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[generic._Library]:
    """A library of which nothing is loaded, and an empty disk cache."""
    with config.override(cache_dir=str(tmp_path / "cache"), disk_cache=True):
        made = generic._Library()
        yield made
        made.end()


@pytest.fixture
def wrapper_of(tmp_path: Path) -> Callable[[str], Wrapper]:
    """A compiler by name behind a script."""

    def made(name: str) -> Wrapper:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"needs {name}")
        return wrapped(found, tmp_path)

    return made


def parts(wrapper: Wrapper) -> list[str]:
    """The compilers that were started on parts of the library."""
    return [line for line in wrapper.starts() if "part.so" in line]


def graph(kind: str) -> list[Node]:
    """Some nodes that need functions of many kinds."""
    x = lt.arange(12, dtype=getattr(lt, kind)).reshape(3, 4)
    with config.override(tier=1):
        x.realize()
    return [each.node for each in ((x * 2 + x.flip(0)).sum(1), x @ x.t(), x.cumsum(0), x.max(0)[0])]


def computed(own: generic._Library, roots: list[Node]) -> list[bytes]:
    """What a library computes."""
    order = topological(roots, lambda node: node.data is not None)
    leaves = [node for node in order if node.data is not None]
    made = encode(order, leaves, roots, {})
    program: Program = generic_program(made, leaves, roots)
    run = Executable(program, own.entry(made.functions, "for a test", ""))
    outputs = [Buffer(slot.nbytes) for slot in program.slots if slot.kind == "output"]
    run.run([*(leaf.data for leaf in leaves), generic.buffer_of(array("q", made.words))], outputs)
    return [outputs[n].as_numpy(root.dtype, root.shape).tobytes()
            for n, root in zip(program.results, roots, strict=True)]  # fmt: skip


@pytest.mark.parametrize("kind", ["float32", "int64", "float64"])
def test_what_a_graph_lacks_is_compiled_at_once(own: generic._Library, kind: str) -> None:
    """By as many compilers as there are cores, and one more for the core of the library."""
    roots, before = graph(kind), compile.started
    found = computed(own, roots)
    started = compile.started - before
    assert started <= 2 * compile.side_by_side() + 2, "what is likely to follow may have begun"
    own.end()
    before = compile.started
    assert computed(own, roots) == found and compile.started == before
    planning.realize(roots)
    assert found == [root.data.as_numpy(root.dtype, root.shape).tobytes() for root in roots]


def test_what_was_compiled_well_takes_the_place_of_the_rest(
    own: generic._Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile, "at_once", 1)  # nothing beforehand
    roots = graph("float32")
    found = computed(own, roots)
    own.end()
    quick = own.quick()
    assert quick
    groups = [group for group in library.groups() if not group.isdisjoint(quick)]
    for _ in groups:
        assert not generic.compile_well(quick)
        own.upgrade()
    assert not own.quick() and computed(own, roots) == found
    fresh, before = generic._Library(), compile.started
    assert computed(fresh, roots) == found
    assert compile.started == before and not fresh.quick() and not fresh.is_whole()


def test_what_nobody_waits_for_can_be_left(own: generic._Library) -> None:
    asked = []

    def is_over() -> bool:
        asked.append(True)
        return len(asked) > 2

    assert not generic.compile_well((), is_over)
    assert len(asked) == 3 and not [*Path(cache.folder()).glob("*.so")]
    assert not [*Path(cache.folder()).glob("tmp-*")]


def test_the_process_in_the_background_leaves_kernels_for_a_plan(
    wrapper: Wrapper, own: generic._Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile, "_found", {})
    monkeypatch.setenv("CC", wrapper.command)
    server, replies = Server("lazyt.plan.server"), list[dict[str, object]]()
    request = {"kernels": [], **tiers._surroundings()}
    assert compile.find()
    wrapper.slow_down(60)
    thread = threading.Thread(target=lambda: replies.append(server.ask(request)[0]))
    thread.start()
    deadline = time.monotonic() + 60
    while not parts(wrapper) and time.monotonic() < deadline:
        time.sleep(0.01)
    server.stop()
    thread.join(20)
    server.close()
    assert replies == [{"done": False, "bytes": 0}]


def test_without_a_disk_cache_all_is_in_memory(own: generic._Library) -> None:
    with config.override(disk_cache=False):
        roots = graph("float32")
        found = computed(own, roots)
        own.end()
        before = compile.started
        assert computed(own, roots) == found and compile.started == before
        with pytest.raises(lt.errors.CompileError, match="keeps nothing"):
            generic.compile_well(())


def test_a_cleared_cache_is_filled_again(own: generic._Library) -> None:
    roots = graph("float32")
    found = computed(own, roots)
    own.end()
    shutil.rmtree(cache.folder())
    fresh = generic._Library()
    assert computed(fresh, roots) == found
    fresh.end()


def test_errors_are_those_of_the_compiler(
    own: generic._Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = compile.core_text(library.core(), compile.find().own_threads) + "\n#error no core\n"
    monkeypatch.setattr(compile, "core_text", lambda *_: broken)
    with pytest.raises(lt.errors.CompileError, match="no core"):
        computed(own, graph("float32"))
    monkeypatch.undo()
    with config.override(cache_dir=cache.folder(), disk_cache=True):
        assert computed(own, graph("float32"))


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_ctrl_c_is_heard_and_nothing_is_compiled_twice(
    start: Start, wrapper_of: Callable[[str], Wrapper], name: str
) -> None:
    wrapper = wrapper_of(name)
    code = (
        "import time\nimport lazyt as lt\nfrom lazyt.runtime.cpu import compile\n"
        "compile.at_once = 1\n" + GRAPH + "compile.find()\nprint('begins', flush=True)\n"
        "try:\n    y.realize()\nexcept KeyboardInterrupt:\n    print(time.time(), flush=True)\n"
        + SHOW
    )
    child = start(code, CC=wrapper.command, LAZYT_TIER="0")
    wrapper.slow_down(0.5)
    assert child.stdout is not None and child.stdout.readline() == "begins\n"
    count = 3 if name == "clang" else 2  # the core, all functions, and, for clang, threads
    deadline = time.monotonic() + 60
    while len(parts(wrapper)) < count and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(0.05)  # what is interrupted while it is started begins again
    sent = time.time()
    os.kill(child.pid, signal.SIGINT)
    heard = float(child.stdout.readline())
    assert heard - sent < 0.4, "0.2 s where the machine is idle"
    output, errors = child.communicate(timeout=120)
    assert child.returncode == 0 and not errors, errors
    assert output.startswith("['37.1706"), "exp(1.4) + exp(3.5)"
    assert len(parts(wrapper)) == count


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_parts_have_all_that_parallel_regions_call(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"needs {name}")
    monkeypatch.setattr(compile, "_found", {})
    monkeypatch.setenv("CC", name)
    found = compile.find()
    kinds = {(unit.op, unit.kind): unit for unit in library.units() if unit.op != "map"}
    functions = [library.numbers()[name] for unit in kinds.values() for name in unit.functions]
    program = library.part(functions, 32)
    for text in (
        compile.part_text(program, found.own_threads),
        compile.core_text(library.core(), found.own_threads),
    ):
        quick = dataclasses.replace(found, flags=(*found.flags, "-O0", "-Wl,-z,defs"))
        assert compile.build_text(text, quick)


def test_a_child_compiles_for_itself_and_leaves_its_parent_alone(run_child: Run) -> None:
    code = (
        "import os\nimport lazyt as lt\nfrom lazyt.plan import generic as generic_library\n"
        + GRAPH + SHOW +
        "assert generic_library._library._parts or generic_library._library._wishes\n"
        "pid = os.fork()\n"
        "z = (y.double().sin() * 1e3).floor()\n"
        "print(z.long().tolist(), flush=True)\n"
        "if pid:\n    assert os.waitpid(pid, 0)[1] == 0\n"
    )  # fmt: skip
    lines = run_child(code, LAZYT_TIER="0").splitlines()
    assert len(lines) == 3 and lines[1] == lines[2]


def test_a_second_process_starts_no_compiler(run_child: Run) -> None:
    code = "import lazyt as lt\n" + GRAPH + SHOW + COUNT
    first, second = (run_child(code, LAZYT_TIER="0").splitlines() for _ in range(2))
    assert first[0] == second[0] and int(first[1]) > 0 and second[1] == "0"


def test_nothing_is_left_in_the_cache_folder(run_child: Run, tmp_path: Path) -> None:
    """A program that ends while compilers work for it, which nobody waits for."""
    run_child("import lazyt as lt\n" + GRAPH + SHOW, LAZYT_TIER="0")
    assert not [*(tmp_path / "cache").glob("*/tmp-*")]
