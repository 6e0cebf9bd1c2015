"""Options of the test suite, a disk cache of its own, and the tier in which each test runs.

What each test computes is checked in one of two tiers (docs/concepts/tiers.md), as compiling is
most of the suite's time:

- Tests about what operations compute, those in the folders of ``tier_choice.COMPUTED``, run in tier
  0: generic kernels, compiled once for all tests.
- One in ``tier_choice.SHARES`` of these runs in tier 1, with fused kernels that are compiled
  before it runs. The test's name decides which, and ``--share``: CI takes the next share with
  every commit, so that each test runs fused in one of so many commits.
- All others run in tier 1: those of passes, code generation, the runtime, captures, whole programs,
  and those marked ``fused``, ``fused_values`` or ``lazy``.
- Tests of tier 1 about graphs, plans and values (``tier_choice.QUICKLY``) have the C compiler
  optimize little, which halves its time; bits do not depend on it. One file in
  ``tier_choice.SHARES`` has kernels as users have them, as have all tests about compilers, kernels,
  time and memory, and the share of the tests about operations.
- ``LAZYT_TIER`` chooses for all tests but those marked ``fused`` or ``lazy``: ``LAZYT_TIER=1 make
  test`` runs all fused.

Thousands of random programs, in tests marked ``turns``, take turns likewise: a sixth of them runs
with each commit, all of them where ``LAZYT_TIER`` is set or no ``--share`` is given.

``make bits`` compares every value looked at, whichever tier it is from, with what generic kernels
give one operation at a time. So each run compares fused with unfused: the share, the marked tests,
and the folders in tier 1 by kernels compiled for the graph, the rest by what tier 0 fuses (maps
with the maps and sums that read them).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from lazyt.config import config
from lazyt.runtime.cpu import compile
from tests import compilers, deadlines, recording, tier_choice

# How long an example takes says how busy the machine is; deadlines.py ends what hangs.
hypothesis.settings.register_profile("lazyt", deadline=None)
hypothesis.settings.load_profile("lazyt")

_recorder = pytest.StashKey[recording.Recorder]()
#: which share of the tests about operations runs fused; None where LAZYT_TIER decides
_share = pytest.StashKey["int | None"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` writes the files under tests/golden instead of comparing with them;
    those about values are explained in tests/recording.py."""
    deadlines.add_options(parser)
    parser.addoption(
        "--share", type=int, metavar="N",
        help=f"which share of the tests about operations runs fused, modulo {tier_choice.SHARES}",
    )  # fmt: skip
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")
    parser.addoption("--record-values", metavar="FOLDER", help="write all values looked at")
    parser.addoption("--compare-values", metavar="FOLDER", help="compare with values written")


def pytest_configure(config: pytest.Config) -> None:
    """Starts recording or comparing values when asked to; interrupts arrive also where a shell runs
    the tests in the background, which ignores them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    share = config.getoption("--share") or 0
    config.stash[_share] = None if "LAZYT_TIER" in os.environ else share
    _pin_settings()
    if not compilers.available():
        kind = f"{compile.__name__}.{compile.NoCompilerWarning.__name__}"
        config.addinivalue_line("filterwarnings", f"ignore::{kind}")
    config.pluginmanager.register(deadlines.Deadlines(config), "deadlines")
    record = config.getoption("--record-values")
    compare = config.getoption("--compare-values")
    if record or compare:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        config.stash[_recorder] = recording.Recorder(Path(record or compare), bool(compare), worker)


def _pin_settings() -> None:
    """Outside of tests that run in tier 0, plans have their kernels before they run, as tests count
    and time them, and nobody hears that a compiler takes long, unless the environment says
    otherwise. Processes that tests start have the same settings."""
    for name, value in (("tier", 1), ("progress", False)):
        if f"LAZYT_{name.upper()}" not in os.environ:
            os.environ[f"LAZYT_{name.upper()}"] = str(int(value))
            setattr(config, name, value)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Writes what was recorded."""
    if _recorder in config.stash:
        config.stash[_recorder].write()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests whose turn it is not, and those that have nothing to compare; the longest
    start first, so that no worker waits for another at the end."""
    share = config.getoption("--share")
    if share is not None and config.stash[_share] is not None:
        later = [
            item for item in items
            if item.get_closest_marker("turns") and not tier_choice.is_its_turn(item.nodeid, share)
        ]  # fmt: skip
        if later:
            config.hook.pytest_deselected(items=later)
            left_out = {*later}
            items[:] = [item for item in items if item not in left_out]
    recorder = config.stash.get(_recorder, None)
    if recorder is not None and recorder.compare:
        idle = [item for item in items if not recorder.known.get(item.nodeid)]
        if idle:
            config.hook.pytest_deselected(items=idle)
            items[:] = [item for item in items if recorder.known.get(item.nodeid)]
    if config.getoption("--budget") is None:  # else the nearest to a change come first
        items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    """0 for tests that take long, 1 where whole programs run, 2 for all others."""
    if item.get_closest_marker("slow"):
        return 0
    return 1 if "tests/end_to_end/" in item.nodeid else 2


def pytest_report_header() -> str | None:
    """Says what the tests do without a compiler."""
    if compilers.available():
        return None
    return "no C compiler: graphs are interpreted, tests of kernels and laziness are skipped"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of laziness itself have nothing to test where nothing is lazy, those of kernels where
    there are none."""
    if not compilers.available() and (
        any(map(item.get_closest_marker, ("compiler", "fused", "fused_values", "lazy")))
        or tier_choice.folder_of(item.nodeid) in tier_choice.COMPILED
    ):
        pytest.skip("needs a C compiler")
    if config.eager and item.get_closest_marker("lazy"):
        pytest.skip("a test of laziness, and LAZYT_EAGER is on")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Notes that a test's function returned."""
    result = yield
    item.stash[recording.PASSED] = True
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """A test that leaves lazyt under the name ``torch`` would change what others see."""
    result = yield
    alias = sys.modules.get("lazyt.compat.torch_alias")
    if alias is not None and alias.installed():
        alias.uninstall()
        pytest.fail(f"{item.nodeid} has left lazyt under the name torch")
    return result


@pytest.fixture(autouse=True)
def tier(request: pytest.FixtureRequest) -> Iterator[None]:
    """The tier of the test and how much its compiler optimizes, as said above."""
    node = request.node
    share = request.config.stash[_share]
    about_kernels = bool(node.get_closest_marker("fused") or node.get_closest_marker("lazy"))
    if about_kernels:
        chosen: Any = 1
    elif share is None:
        chosen = config.tier
    elif node.get_closest_marker("fused_values"):
        chosen = 1
    else:
        chosen = tier_choice.tier_of(node.nodeid, share)
    with contextlib.ExitStack() as stack:
        if chosen == 1:
            is_quick = share is not None and (
                tier_choice.is_compiled_quickly(node.nodeid, about_kernels, share)
            )
            stack.enter_context(compilers.chosen(compilers.quick_command() if is_quick else ""))
        if chosen != config.tier:
            stack.enter_context(config.override(tier=chosen))
        yield


@pytest.fixture(autouse=True)
def values_recorded(request: pytest.FixtureRequest) -> Iterator[None]:
    """Records or compares the values that the test looks at, when asked to."""
    recorder = request.config.stash.get(_recorder, None)
    if recorder is None:
        yield
    else:
        yield from recording.around_test(recorder, request)


@pytest.fixture
def nobody_asked() -> Iterator[None]:
    """Functions have their own code, whatever classes other tests have made."""
    from lazyt.functional import overriding

    was, overriding.switch.lasting = overriding.switch.lasting, False
    overriding.stop()
    yield
    if was:
        overriding.start()


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Plans of the tests stay out of the user's cache, unless a folder was named."""
    if "LAZYT_CACHE_DIR" in os.environ:
        yield
        return
    folder = str(tmp_path_factory.mktemp("lazyt-cache"))
    os.environ["LAZYT_CACHE_DIR"] = folder  # for the processes that tests start
    with config.override(cache_dir=folder):
        yield
    del os.environ["LAZYT_CACHE_DIR"]
