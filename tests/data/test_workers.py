"""Loading by worker processes: order, failures, and that nothing hangs or stays behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="tests start workers by fork"
)


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    yield
    gc.collect()  # exceptions and their frames hold iterators
    deadline = time.monotonic() + 5
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert multiprocessing.active_children() == []


class Doubled(Dataset[Any]):
    """Rows times two, computed where they are loaded; sample 13 may do something bad."""

    def __init__(self, bad: Any = None, count: int = 20) -> None:
        self.rows = lazyt.arange(2.0 * count).view(count, 2).realize()
        self.bad = bad

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[lazyt.Tensor, int]:
        if index == 13 and self.bad is not None:
            self.bad()
        return self.rows[index] * 2, index


class OwnError(Exception):
    """Takes more than a message."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


def raise_key_error() -> None:
    raise KeyError("no such sample")


def raise_own_error() -> None:
    raise OwnError(3, "odd")


def test_batches_come_in_order_and_computed() -> None:
    (lazyt.ones(1 << 16) * 3).sum().item()  # the parent's OpenMP threads exist before the fork
    loader = DataLoader(Doubled(), batch_size=3, num_workers=2)
    batches = list(loader)
    assert [n for _, numbers in batches for n in numbers.tolist()] == list(range(20))
    rows = lazyt.cat([rows for rows, _ in batches])
    assert rows.tolist() == (lazyt.arange(40.0).view(20, 2) * 2).tolist()
    assert len(list(loader)) == 7  # and again


def test_pending_tensors_of_the_dataset_are_computed_once_before() -> None:
    data = TensorDataset(lazyt.arange(8.0) * 2 + 1)
    loader = DataLoader(data, batch_size=4, num_workers=2)
    assert [b.tolist() for (b,) in loader] == [[1.0, 3.0, 5.0, 7.0], [9.0, 11.0, 13.0, 15.0]]
    assert data.tensors[0].node.data is not None


def test_an_exception_arrives_with_its_traceback() -> None:
    loader = DataLoader(Doubled(raise_key_error), batch_size=4, num_workers=2)
    seen = []
    with pytest.raises(KeyError) as caught:
        for _, numbers in loader:
            seen.append(numbers.tolist())
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    text = str(caught.value)
    assert text.startswith("Caught KeyError in DataLoader worker process 1.\nOriginal Traceback")
    assert "raise_key_error" in text and "no such sample" in text


def test_exceptions_that_cannot_be_made_again_become_runtime_errors() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)Caught OwnError.*3: odd"):
        list(DataLoader(Doubled(raise_own_error), num_workers=1))


def test_what_cannot_be_pickled_is_said() -> None:
    loader = DataLoader([1, 2], num_workers=1, collate_fn=lambda samples: lambda: samples)
    with pytest.raises(Exception, match=r"(?s)DataLoader worker process 0.*pickle"):
        list(loader)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (lambda: os._exit(7), "exited unexpectedly with exit code 7"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "is killed by signal: Killed"),
    ],
)
def test_a_worker_that_dies_is_noticed(bad: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        list(DataLoader(Doubled(bad), batch_size=4, num_workers=2))


def test_a_worker_that_hangs_times_out() -> None:
    loader = DataLoader(Doubled(lambda: time.sleep(60)), batch_size=4, num_workers=2, timeout=1.5)
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=r"timed out after 1\.5 seconds"):
        list(loader)
    assert time.monotonic() - begun < 20


def test_giving_up_early_ends_the_workers() -> None:
    batches = iter(DataLoader(Doubled(), batch_size=2, num_workers=2))
    next(batches)
    assert len(multiprocessing.active_children()) == 2
    del batches


def test_a_failed_batch_does_not_end_the_others() -> None:
    batches = iter(DataLoader(Doubled(raise_key_error), batch_size=4, num_workers=2))
    wanted = [rows.tolist() for rows, _ in DataLoader(Doubled(), batch_size=4)]
    found: list[Any] = []
    for _ in wanted:
        try:
            found.append(next(batches)[0].tolist())
        except KeyError:
            found.append(None)
    assert found.count(None) == 1
    assert all(mine in (None, theirs) for mine, theirs in zip(found, wanted, strict=True))


def test_a_process_forked_later_leaves_the_workers_alone() -> None:
    loader = DataLoader(Doubled(), batch_size=2, num_workers=2)
    batches = iter(loader)
    first = next(batches)[0].tolist()
    child = multiprocessing.get_context("fork").Process(target=batches.__del__)  # type: ignore[attr-defined]
    child.start()
    child.join()
    assert child.exitcode == 0
    rest = [rows.tolist() for rows, _ in batches]
    assert [first, *rest] == [rows.tolist() for rows, _ in DataLoader(Doubled(), batch_size=2)]


def test_the_number_of_workers_does_not_change_the_order() -> None:
    orders = []
    for workers in (0, 1, 2):
        generator = lazyt.Generator().manual_seed(3)
        loader = DataLoader(range(9), 2, shuffle=True, generator=generator, num_workers=workers)
        batches = iter(loader)
        assert len(batches) == 5  # type: ignore[arg-type]
        orders.append([[batch.tolist() for batch in part] for part in (batches, loader)])
    assert orders[0] == orders[1] == orders[2] and orders[0][0] != orders[0][1]


def _killed(pids: Any) -> None:
    batches = iter(DataLoader(Doubled(), batch_size=2, num_workers=2))
    next(batches)
    pids.send([child.pid for child in multiprocessing.active_children()])
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_of_a_main_process_that_was_killed_end() -> None:
    mine, theirs = multiprocessing.Pipe(duplex=False)
    whole = multiprocessing.get_context("fork").Process(target=_killed, args=(theirs,))
    whole.start()
    workers = mine.recv()
    whole.join()
    assert len(workers) == 2
    deadline = time.monotonic() + 30
    while any(map(_lives, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_lives, workers))


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_more_workers_than_processors_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="This DataLoader will create 999 worker processes"):
        DataLoader(range(3), num_workers=999)


def test_persistent_workers_are_the_same_processes() -> None:
    def pids() -> set[int | None]:
        return {child.pid for child in multiprocessing.active_children()}

    loader = DataLoader(Doubled(), batch_size=4, num_workers=2, persistent_workers=True)
    assert len(list(loader)) == 5
    first = pids()
    partly = iter(loader)
    next(partly)
    del partly  # batches of a pass that was given up must not show up in the next one
    assert [n for _, numbers in loader for n in numbers.tolist()] == list(range(20))
    assert pids() == first and len(first) == 2
    del loader


class Shared(IterableDataset[int]):
    """Every worker gives its part of 0..9."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        assert info is not None and info.num_workers == 2
        return iter(range(info.id, 10, info.num_workers))


def test_iterable_dataset_is_shared_out() -> None:
    batches = [b.tolist() for b in DataLoader(Shared(), batch_size=3, num_workers=2)]
    assert batches == [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]
    assert get_worker_info() is None


class Drawn(Dataset[float]):
    """Random numbers of the worker's own."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return float(lazyt.rand(1))


def test_workers_draw_different_numbers_that_can_be_repeated() -> None:
    def numbers(seed: int) -> list[float]:
        generator = lazyt.Generator().manual_seed(seed)
        return [float(x) for x in DataLoader(Drawn(), num_workers=2, generator=generator)]

    first = numbers(5)
    assert len(set(first)) == 4
    assert numbers(5) == first != numbers(6)


def test_worker_init_runs_in_every_worker() -> None:
    def prepare(number: int) -> None:
        if number == 1:
            raise ValueError("cannot start")

    loader = DataLoader(Doubled(), batch_size=4, num_workers=2, worker_init_fn=prepare)
    with pytest.raises(ValueError, match=r"(?s)worker process 1.*cannot start"):
        list(loader)


def test_large_batches_do_not_block() -> None:
    data = TensorDataset(lazyt.arange(1 << 20).view(1 << 12, 1 << 8).realize())
    loader = DataLoader(data, batch_size=1 << 9, num_workers=2, prefetch_factor=4)
    total = sum(int(rows.sum()) for (rows,) in loader)
    assert total == (1 << 19) * ((1 << 20) - 1)
