"""What tuning found: kept per machine, passed on as files, refused where it is no such file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lazyt.config import config
from lazyt.runtime import cache, winners
from lazyt.runtime.winners import TuneFileError

ENTRY = {"form": {"kind": "dots", "exchanged": False, "parallel": True}, "standard_us": 2.0}
TABLES: dict[str, Any] = {"kernels": {"k #1": ENTRY}, "graphs": {"graph #1": {"form": None}}}


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process would know."""
    monkeypatch.setattr(winners, "known", winners._Known())


def test_winners_survive_the_process(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)
    assert winners.tables() == {"kernels": {}, "graphs": {}} and winners.digest() == ""
    winners.add(TABLES)
    digest = winners.digest()
    assert digest
    forget(monkeypatch)
    assert winners.tables() == TABLES and winners.digest() == digest
    winners.add({"kernels": {"k #2": {"form": None}}, "graphs": {}})
    assert winners.digest() == digest, "only what is chosen decides what a plan is"
    assert list(winners.tables()["kernels"]) == ["k #1", "k #2"]
    with config.override(threads=7):
        assert winners.digest() == "", "another number of threads is another machine"
    winners.clear()
    forget(monkeypatch)
    assert not winners.tables()["kernels"]


def test_processes_add_to_each_other(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)
    winners.add(TABLES)
    mine = winners.known
    forget(monkeypatch)
    winners.tables()
    theirs, winners.known = winners.known, mine
    winners.add({"kernels": {"k #2": ENTRY}})
    winners.known = theirs
    winners.add({"kernels": {"k #3": ENTRY}})
    forget(monkeypatch)
    assert sorted(winners.tables()["kernels"]) == ["k #1", "k #2", "k #3"]


def test_damaged_entries_of_the_cache_count_as_none(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(monkeypatch)
    for text in ("no JSON", "[]", '{"kernels": {"k": 3}, "graphs": {}}'):
        cache.put_text("tuned", winners._key(), text)
        forget(monkeypatch)
        assert winners.tables() == {"kernels": {}, "graphs": {}}


def test_files_round_trip_and_say_what_is_wrong(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(monkeypatch)
    winners.add(TABLES)
    text = winners.to_text()
    assert winners.from_text(text, "f") == TABLES
    raw = json.loads(text)
    other = raw["machine"] | {"cpu": "Another 3000"}
    cases = {
        "f is not JSON": text[:-9],
        "f holds no object but a list": "[]",
        "f has no table 'graphs'": json.dumps({k: v for k, v in raw.items() if k != "graphs"}),
        "the entry of 'k' has no 'form'": json.dumps(raw | {"kernels": {"k": {}}}),
        "f has format 99; this version reads 1": json.dumps(raw | {"format": 99}),
        "does not say which machine": json.dumps(raw | {"machine": None}),
        "cpu 'Another 3000' rather than": json.dumps(raw | {"machine": other}),
    }
    for message, wrong in cases.items():
        with pytest.raises(TuneFileError, match=message.replace("(", r"\(")):
            winners.from_text(wrong, "f")
    assert winners.from_text(json.dumps(raw | {"machine": other}), "f", any_machine=True) == TABLES
