"""Plans run at once and get their kernels later, from a process in the background: the same bits
before and after, whoever runs them meanwhile, and whatever becomes of that process."""

from __future__ import annotations

import gc
import os
import random
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyt as lt
from lazyt import Tensor, compiler, nn
from lazyt.config import config
from lazyt.plan import generic, planning, tiers
from lazyt.plan.build import Plan
from lazyt.plan.graph_keys import number_graph, structure_of
from lazyt.runtime import cache, events
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.cpu.servers import Server
from tests.end_to_end.conftest import Start

pytestmark = [
    pytest.mark.lazy,
    pytest.mark.skipif(not compile.available(), reason="needs a C compiler"),
]


@pytest.fixture(scope="module")
def library(module_cache: Path) -> Iterator[list[Any]]:
    """Generic kernels that are loaded: all that the graphs of this file need."""
    with config.override(tier=0):
        bits(program(given(9, 9)) + 1)
        bits(turned(given(9, 9)))
        bits((given(7, 9) * 3).sum())
        train(2, False)
        train(4, True)
        held = [*execute._entries.values()]
    planning.clear()
    yield held


@pytest.fixture(autouse=True)
def background(library: list[Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Plans start in tier 0; kernels are looked for at once, and asked for after the first run,
    whatever they are worth."""
    monkeypatch.setattr(tiers, "BASE", 1e-9)
    for name in ("EACH", "LOOK", "LOOK_EACH"):
        monkeypatch.setattr(tiers, name, 0.0)
    planning.clear()
    events.forget()
    with config.override(tier="auto"):
        yield
        assert lt.wait_for_compiler(300)
    monkeypatch.setattr(tiers._queue, "pace", 1.0)


def reasons() -> list[str]:
    return [event.reason for event in lt.why_compiled()]


def background_compiles() -> int:
    return sum("background" in str(event.details.get("tier")) for event in lt.why_compiled())


def program(x: Tensor) -> Tensor:
    return ((x * 2 + 1).exp().softmax(-1) @ x.t()).sum(0)


def given(*shape: int) -> Tensor:
    """Random values, whose plans nobody hears of."""
    with config.override(tier=1):
        x = lt.rand(*shape).realize()
    events.forget()
    return x


def turned(x: Tensor) -> Tensor:
    return lt.roll(x.t() * 2, 3, 1).cumsum(0)


def bits(x: Tensor) -> bytes:
    return x.numpy().tobytes()


def tiers_of(function: Callable[[], Tensor], runs: int) -> list[int]:
    """The tier that each run finds; the bits have to be the same."""
    found, values = [], set()
    for _ in range(runs):
        result = function()
        found.append(_tier_of(result))
        values.add(bits(result))
    assert len(values) == 1
    return found


def _tier_of(result: Tensor) -> int:
    numbers, key = number_graph([result.node])
    structure = structure_of(numbers, key, [result.node])
    plan = planning._find(structure, structure.plain, list(numbers), may_be_tried=True)
    assert plan is not None
    return plan[0].code.tier


def test_a_plan_runs_at_once_and_gets_its_kernels_later() -> None:
    x = given(40, 40)
    assert tiers_of(lambda: program(x), 2) == [0, 0]
    assert lt.wait_for_compiler(300)
    assert background_compiles() == 1, [str(e) for e in events.recorded()]
    assert tiers_of(lambda: program(x), 2) == [1, 1]
    with config.override(tier=1):
        assert bits(program(x)) == bits(program(x))
    assert background_compiles() == 1 and len(reasons()) == 1, reasons()


@pytest.mark.parametrize("looked_for_first", [True, False])
def test_vast_values_on_the_way_are_never_in_memory(
    looked_for_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "VAST", 1 << 16)
    if looked_for_first:  # else the graph begins without a look at the disk
        monkeypatch.setattr(tiers, "LOOK", 10.0)
    x, y = given(50, 9), given(60, 9)
    assert tiers_of(lambda: (x[:, None] - y).abs().sum(-1).amin(1) * 3, 2) == [1, 1]
    assert background_compiles() == 0
    assert tiers_of(lambda: (x - 1).abs() * 3, 1) == [0]


def test_a_graph_that_is_seen_once_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "BASE", 10.0)
    x = given(7, 9)
    assert tiers_of(lambda: (x * 3).sum(), 5) == [0] * 5
    assert lt.wait_for_compiler(0) and reasons() == []


def test_short_runs_are_worth_kernels_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "BASE", 1e9)
    monkeypatch.setattr(tiers, "VERY_OFTEN", 10)
    monkeypatch.setattr(tiers, "SHORT", 0.0)
    x = given(7, 9)
    assert tiers_of(lambda: (x * 3).sum(), 9) == [0] * 9
    assert lt.wait_for_compiler(0)
    bits((x * 3).sum())
    assert lt.wait_for_compiler(300) and background_compiles() == 1


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Small graphs begin by instructions for any numbers; of each that was written down, how many
    nodes it has."""
    found: list[int] = []
    made = generic.encoded

    def noted(order: Any, *rest: Any) -> Any:
        found.append(len(order))
        return made(order, *rest)

    monkeypatch.setattr(tiers, "LOOK", 1e9)
    monkeypatch.setattr(generic, "encoded", noted)
    return found


NUMBERED: dict[str, Callable[[Tensor, int], Tensor]] = {
    "constants": lambda x, n: (x * (n + 0.1) + n).sum(0),
    "slices": lambda x, n: x[n : n + 3, 2 * n : 30 : 2].t() + x[n, n],
    "writes": lambda x, n: lt.slice_scatter(x * 2, x[:4] - n, 0, n, n + 4),
    "windows": lambda x, n: x[n : n + 5].unfold(0, 2, 1).flip(-1).sum(1),
    "rolls": lambda x, n: lt.cat([x[n : n + 4].reshape(-1), x[:, n] * -0.0]),
    "integers": lambda x, n: (x.long() // (n + 1)).cumsum(0),
    "halves": lambda x, n: x.bfloat16() * (n + 0.5) + x.half() * n,
    "doubles": lambda x, n: x.double() + (n or float("nan")),
    "conditions": lambda x, n: lt.where(x > n, x, float("inf") if n else -0.0),
}


@pytest.mark.parametrize("name", NUMBERED)
def test_one_list_of_instructions_serves_all_numbers(name: str, trials: list[int]) -> None:
    x = given(12, 40)
    x = (x * 20).round().realize() if name == "integers" else x
    function = NUMBERED[name]
    with config.override(tier=1):
        expected = [bits(function(x, n)) for n in range(4)]
    planning.clear()
    trials.clear()
    for n in (0, 1, 2, 3, 1, 0, *[n % 4 for n in range(20)]):  # as often as guards are written for
        assert bits(function(x, n)) == expected[n], n
    # The slices have four sizes, and the writes fold what is written at the very beginning.
    assert len(trials) == {"slices": 4, "writes": 2}.get(name, 1)
    assert lt.wait_for_compiler(0) and not background_compiles()


def test_what_stays_of_a_graph_is_little_work_for_pythons_collector_of_cycles(
    trials: list[int],
) -> None:
    """Programs that make another graph each time have thousands of them: objects that stay would
    make each round of the collector longer."""

    def joined(x: Tensor, count: int) -> Tensor:
        return lt.cat([x[0] * 2 + x[1], *[(x[0] + x[1]).exp() for _ in range(count)]]).sum()

    def tracked() -> int:
        gc.collect()
        return len(gc.get_objects())

    x = given(2, 5)
    for count in (97, 98):  # all that the first of its kind leaves
        bits(joined(x, count))
    before = tracked()
    for count in range(100, 110):
        bits(joined(x, count))
    assert len(trials) == 12
    assert (tracked() - before) / 10 < 80  # each is a graph of over 100 instructions


def test_a_trial_ends_when_kernels_are_worth_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    x = given(7, 11)
    with config.override(tier=1):
        expected = bits((x * 3 + 1).cumsum(0))
    planning.clear()
    monkeypatch.setattr(tiers, "LOOK", 1e9)
    assert {bits((x * 3 + 1).cumsum(0)) for _ in range(30)} == {expected}
    assert _tier_of((x * 3 + 1).cumsum(0)) == 0
    planning.clear()
    monkeypatch.setattr(tiers, "LOOK", 1e-4)
    found = []
    for _ in range(100):
        found.append(_tier_of(y := (x * 3 + 1).cumsum(0)))
        assert bits(y) == expected
    assert found[0] == 0 and found[-1] == 1 and not background_compiles()


def test_what_is_on_disk_runs_from_the_beginning() -> None:
    x = given(40, 30)
    with config.override(tier=1):
        wanted = bits(program(x))
    assert tiers_of(lambda: program(x), 1) == [1]
    assert bits(program(x)) == wanted and background_compiles() == 0


def test_settings_that_are_none_are_refused() -> None:
    with (
        pytest.raises(ValueError, match='tier must be 0, 1 or "auto", got 2'),
        config.override(tier=2),
    ):
        pass
    with pytest.raises(ValueError, match="must not be negative"):
        lt.wait_for_compiler(-1)


def test_tier_0_never_compiles() -> None:
    x = given(40, 20)
    with config.override(tier=0):
        assert tiers_of(lambda: program(x), 5) == [0] * 5
        assert lt.wait_for_compiler(0) and reasons() == []


def network() -> tuple[nn.Module, Any]:
    lt.manual_seed(3)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    return net, lt.optim.Adam(net.parameters(), lr=0.01)


def train(steps: int, captured: bool, between: Callable[[], None] = lambda: None) -> bytes:
    """The losses and the parameters of some steps."""
    net, optimizer = network()
    inputs = lt.linspace(-1, 1, 48).reshape(8, 6)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = (net(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run: Any = lt.jit(step) if captured else step
    losses = []
    for _ in range(steps):
        losses.append(run().item())
        between()
    return repr(losses).encode() + b"".join(bits(p.detach()) for p in net.parameters())


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_swaps_at_any_run_change_no_bit(
    captured: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with config.override(tier=1):
        wanted = train(12, captured)
    chance = random.Random(seed)
    swapped: list[Plan] = []

    def swaps(plan: Plan) -> bool:
        if chance.random() < 0.3:
            swapped.append(plan)
        return bool(swapped) and swapped[-1] is plan

    planning.clear()
    monkeypatch.setattr(tiers, "force", swaps)
    with _nothing_on_disk():
        assert train(12, captured) == wanted
    assert swapped


def _nothing_on_disk() -> Any:
    return config.override(disk_cache=False)


def test_captures_go_on_under_the_fast_path() -> None:
    @lt.jit
    def step(x: Tensor) -> Tensor:
        return program(x) * 3

    x = given(30, 30)
    before = {bits(step(x)) for _ in range(10)}
    assert lt.wait_for_compiler(300) and background_compiles() >= 1
    after = {bits(step(x)) for _ in range(2)}
    assert before == after and len(after) == 1
    assert len(step._fast_paths.calls) == 1, "from the first call that runs the new kernels"
    assert {bits(step(x)) for _ in range(50)} == after
    assert step.why() == ["captured"]


def test_threads_run_plans_that_are_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    adopted: list[tiers.Request] = []
    adopt = tiers._adopt

    def noting(request: tiers.Request, *rest: Any) -> None:
        adopt(request, *rest)
        adopted.append(request)

    monkeypatch.setattr(tiers, "_adopt", noting)
    inputs = [given(size, size) for size in (20, 24)]
    with config.override(tier=1):
        wanted = [bits(program(x) + 1) for x in inputs]
    planning.clear()
    events.forget()
    found: list[tuple[int, bytes]] = []
    done = threading.Event()

    def work() -> None:
        while not done.wait(0.002):
            found.extend((n, bits(program(x) + 1)) for n, x in enumerate(inputs))

    with _nothing_on_disk():
        threads = [threading.Thread(target=work) for _ in range(2)]
        try:
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + 200
            while len(adopted) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.2)
        finally:
            done.set()
            for thread in threads:
                thread.join()
    assert set(found) == set(enumerate(wanted))
    assert len(adopted) >= 2


def test_a_killed_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Server.ask
    killed: list[int] = []

    def ask(server: Server, request: dict[str, Any]) -> Any:
        if server.pid == 0:
            server._start()
        if len(killed) < 1:
            killed.append(server.pid)
            threading.Timer(0.05, os.kill, (server.pid, signal.SIGKILL)).start()
        return asked(server, request)

    monkeypatch.setattr(Server, "ask", ask)
    x = given(44, 40)
    assert tiers_of(lambda: program(x), 3) == [0] * 3
    assert lt.wait_for_compiler(300)
    assert tiers_of(lambda: program(x), 1) == [1]
    assert any("does not work" in event.reason for event in events.recorded("fallback"))
    assert tiers._queue.server.pid not in (0, killed[0])


def test_a_graph_that_kills_every_process_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(server: Server, request: dict[str, Any]) -> Any:
        if server.pid == 0:
            server._start()
        os.kill(server.pid, signal.SIGKILL)
        assert server._process is not None
        server._process.wait()
        raise server._failed("it was killed")

    x = given(44, 41)
    with monkeypatch.context() as patched:
        patched.setattr(Server, "ask", ask)
        assert tiers_of(lambda: program(x), 3) == [0] * 3
        assert lt.wait_for_compiler(300)
    assert tiers_of(lambda: program(x), 5) == [0] * 5
    assert lt.wait_for_compiler(0) and not tiers._queue.is_broken
    assert any("the plan runs as it did" in reason for reason in reasons())


def test_without_any_process_plans_are_compiled_before_they_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lazyt.runtime.cpu.servers.sys.executable", "/nowhere/python")
    monkeypatch.setattr(tiers, "_DEATHS", 1)
    monkeypatch.setattr(tiers._queue, "server", Server("lazyt.plan.server"))
    monkeypatch.setattr(tiers._queue, "is_broken", False)
    x = given(44, 42)
    with pytest.warns(tiers.NoServerWarning, match="compiled before they run"):
        assert tiers_of(lambda: program(x), 2) == [0, 0]
        assert lt.wait_for_compiler(300)
    assert tiers_of(lambda: program(x) + 1, 1) == [1]
    assert tiers_of(lambda: program(x), 1) == [0], "it was given up"
    monkeypatch.setattr(tiers._queue, "deaths", 0)


def test_errors_of_the_compiler_are_recorded_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x = given(44, 43)
    bits(x + 1)
    with monkeypatch.context() as patched:
        message = tiers._message

        def broken(meter: tiers.Meter, where: str) -> dict[str, Any]:
            return message(meter, where) | {"graph": "graph(%0: float32[2]) -> (%9)\n"}

        patched.setattr(tiers, "_message", broken)
        assert tiers_of(lambda: program(x), 4) == [0] * 4
        assert lt.wait_for_compiler(300)
    assert tiers_of(lambda: program(x), 4) == [0] * 4
    assert sum("the plan runs as it did" in reason for reason in reasons()) == 1


@pytest.mark.filterwarnings("ignore::lazyt.runtime.cache.NoCacheWarning")
@pytest.mark.parametrize("kind", ["read-only", "file", "none"])
def test_no_cache_is_needed(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    if kind == "file":
        folder.write_text("no folder")
    elif kind == "read-only":
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        folder.mkdir()
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    monkeypatch.setattr(cache, "_broken_folder", "")
    x = given(44, 45 + len(kind))
    with config.override(cache_dir=str(folder), disk_cache=kind != "none"):
        assert tiers_of(lambda: program(x), 2) == [0] * 2
        assert lt.wait_for_compiler(300), reasons()
        assert tiers_of(lambda: program(x), 1) == [1], reasons()
        assert background_compiles() == 1 and cache.usage()[1] == 0


def test_passes_of_a_users_own_are_compiled_before_they_run() -> None:
    x = given(44, 46)
    with compiler.using_passes(compiler.PASSES):
        assert tiers_of(lambda: program(x), 1) == [1]


def test_a_size_that_is_run_often_gets_kernels_of_its_own_in_the_background() -> None:
    for size in ((30, 41), (33, 52)):
        x = given(*size)
        few = {bits(turned(x)) for _ in range(3)}
        assert lt.wait_for_compiler(300)
    assert len(few | {bits(turned(x)) for _ in range(80)}) == 1
    assert lt.wait_for_compiler(300)
    assert few == {bits(turned(x)) for _ in range(3)}
    assert any("kernels of their own" in reason for reason in reasons())


def test_a_forked_child_compiles_with_a_process_of_its_own() -> None:
    x = given(44, 47)
    assert tiers_of(lambda: program(x), 2) == [0, 0]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(100)
            mine = {bits(program(x)) for _ in range(3)}
            status = int(not (lt.wait_for_compiler(90) and mine == {bits(program(x))}))
        finally:
            tiers._queue.end()
            os._exit(status)
    assert lt.wait_for_compiler(300)
    assert os.waitpid(child, 0)[1] == 0
    assert tiers_of(lambda: program(x), 1) == [1]


def test_explanations_say_what_runs() -> None:
    x = given(44, 48)
    text = str(lt.explain(program(x)))
    assert "tier 0: generic kernels run this graph; these are made once" in text
    tiers_of(lambda: program(x), 3)
    assert lt.wait_for_compiler(300)
    after = str(lt.explain(program(x)))
    assert "tier 0" not in after
    assert after.partition("\n\n")[0] == text.partition("\n\n")[0], "the same kernels, and lines"


def test_explanations_are_of_the_settings_that_a_plan_was_made_with() -> None:
    net = nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(4)])
    x = given(512, 32)

    @lt.jit
    def step(x: Tensor) -> Tensor:
        loss = (net(x) ** 2).mean()
        loss.backward()
        result: Tensor = loss.detach()
        return result

    with config.override(memory_budget=0.0):
        for _ in range(3):
            bits(step(x))
        inside = lt.explain(step)
    outside = lt.explain(step)
    assert any(kernel.again for kernel in inside.kernels)
    assert outside.kernels == inside.kernels and outside.arena_bytes == inside.arena_bytes
    assert lt.wait_for_compiler(300)


def test_the_profiler_says_what_ran() -> None:
    x = given(44, 49)
    with lt.profiler.profile() as noted:
        bits(program(x))
    assert "lazyt::" in noted.key_averages().table()
    assert any("kernel" in event.kind for event in noted.events())


ENDING = """
import os, signal, sys, time
import lazyt as lt
from lazyt.plan import tiers
tiers.BASE = 1e-9
tiers.EACH = tiers.LOOK = tiers.LOOK_EACH = 0.0
with lt.config.override(tier=1):
    x = lt.rand(SIZE, 60).realize()
lt.runtime.events.forget()
for _ in range(3):
    y = ((x * 2 + 1).exp().softmax(-1) @ x.t()).sum(0).tolist()
while not tiers._queue.server.pid:
    time.sleep(0.001)
time.sleep(DELAY)
print(tiers._queue.server.pid, flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("killed", [False, True])
def test_nothing_is_left_behind(
    start: Start, module_cache: Path, delay: float, killed: bool
) -> None:
    code = ENDING.replace("DELAY", str(delay)).replace("SIZE", str(60 + int(10 * delay) + killed))
    code += "os.kill(os.getpid(), signal.SIGKILL)\n" if killed else ""
    child = start(code, LAZYT_TIER="auto", LAZYT_CACHE_DIR=str(module_cache))
    output, errors = child.communicate(timeout=120)
    assert child.returncode == (-signal.SIGKILL if killed else 0) and not errors, errors
    server = int(output)
    deadline = time.monotonic() + 10
    while _lives(server) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _lives(server)
    assert not [path.name for path in (module_cache / "v2").glob(f"tmp-{server}-*")]


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_ctrl_c_at_a_terminal_does_not_reach_the_process(start: Start, module_cache: Path) -> None:
    code = (
        ENDING.replace("DELAY", "0.0").replace("SIZE", "90")
        + "print(lt.wait_for_compiler(100), len(lt.why_compiled()))"
    )
    code = code.replace("print(tiers", "os.killpg(os.getpgrp(), signal.SIGUSR1)\nprint(tiers")
    code = "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\n" + code
    child = start(code, LAZYT_TIER="auto", LAZYT_CACHE_DIR=str(module_cache))
    output, errors = child.communicate(timeout=120)
    assert output.split()[1:] == ["True", "1"] and not errors, errors


def test_processes_that_share_a_cache_compile_a_plan_once(start: Start, module_cache: Path) -> None:
    code = ENDING.replace("DELAY", "0.0").replace("SIZE", "95")
    code = code.replace("while not tiers._queue.server.pid:", "if False:")
    code += (
        "print(lt.wait_for_compiler(100),"
        " sum('background' in str(event) for event in lt.why_compiled()))"
    )
    environment = {"LAZYT_TIER": "auto", "LAZYT_CACHE_DIR": str(module_cache)}
    children = [start(code, **environment) for _ in range(3)]
    found = []
    for child in children:
        output, errors = child.communicate(timeout=120)
        assert child.returncode == 0 and not errors, errors
        found.append(output.splitlines()[-1].split())
    assert [words[0] for words in found] == ["True"] * 3
    assert sum(int(words[1]) for words in found) == 1
