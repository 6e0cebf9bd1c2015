"""What tuning found, kept per machine in the disk cache, and in files that people pass on.

A winner belongs to one machine: its CPU, the compiler, the number of threads. Here it is a name
with JSON-compatible facts; what they mean is the compiler's business.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lazyt.config import config
from lazyt.errors import LazytError
from lazyt.runtime import cache, devices
from lazyt.runtime.cpu import compile
from lazyt.runtime.cpu.openmp import team

FORMAT = 1
#: What winners are for.
SORTS = ("kernels", "graphs")

Table = dict[str, dict[str, Any]]


class TuneFileError(LazytError):
    """A file that is no export of tuning, or belongs to another machine."""


class _Known:
    """The winners of a machine as this process knows them.

    Attributes:
        tables: by where they were read from and for which machine.
        changes: counts what was added or forgotten.
        digest: the latest, with what it belongs to.
    """

    def __init__(self) -> None:
        self.tables: dict[tuple[str, bool, str], dict[str, Table]] = {}
        self.changes = 0
        self.digest: tuple[object, str] | None = None


known = _Known()


def machine() -> dict[str, Any]:
    """What winners depend on: CPU, its features, compiler and number of threads.

    Raises NoCompilerError and CompileError as ``compile.find``.
    """
    return {
        "cpu": devices.cpu_model(),
        "features": cache.hash_text(*devices.cpu_features())[:12],
        "compiler": compile.find().version,
        "threads": team.count(),
    }


def _key() -> str:
    return json.dumps(machine(), sort_keys=True)


def tables() -> dict[str, Table]:
    """All winners of this machine: ``kernels`` and ``graphs``, by name."""
    key = _key()
    place = (config.cache_dir, config.disk_cache, key)
    found = known.tables.get(place)
    if found is None:
        found = known.tables[place] = _read(key)
    return found


def _read(key: str) -> dict[str, Table]:
    stored = cache.get_text("tuned", key)
    empty: dict[str, Table] = {sort: {} for sort in SORTS}
    if stored is None:
        return empty
    try:
        return _checked(json.loads(stored), "the disk cache")
    except (ValueError, TuneFileError):  # written by another version: tuned again when asked to
        return empty


def digest() -> str:
    """A text that differs wherever different forms are chosen; empty for none."""
    state = (_key(), known.changes, config.cache_dir, config.disk_cache)
    if known.digest is None or known.digest[0] != state:
        chosen = [
            (sort, name, entry["form"])
            for sort, table in tables().items()
            for name, entry in sorted(table.items())
            if entry["form"] is not None
        ]
        known.digest = state, cache.hash_text(json.dumps(chosen, sort_keys=True)) if chosen else ""
    return known.digest[1]


def add(new: Mapping[str, Table]) -> None:
    """Keeps winners, in place of those of the same names."""
    key = _key()
    mine = tables()
    with cache.only_once(cache.hash_text("tuned", key)):
        now = _read(key)  # other processes may have added some
        for sort in SORTS:
            mine[sort] |= {k: v for k, v in now[sort].items() if k not in mine[sort]}
            mine[sort] |= new.get(sort, {})
        cache.put_text("tuned", key, json.dumps(mine))
    known.changes += 1


def clear() -> None:
    """Forgets all winners of this machine, those on disk as well."""
    mine = tables()
    for sort in SORTS:
        mine[sort].clear()
    cache.put_text("tuned", _key(), json.dumps(mine))
    known.changes += 1


def to_text() -> str:
    """All winners of this machine as JSON, for people to read and files to hold."""
    return json.dumps({"format": FORMAT, "machine": machine(), **tables()}, indent=1) + "\n"


def from_text(text: str, where: str, any_machine: bool = False) -> dict[str, Table]:
    """The winners that ``to_text`` wrote.

    Args:
        text: the text.
        where: what it was read from, for errors.
        any_machine: also those of another machine.

    Raises TuneFileError when it is something else, or of another machine.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise TuneFileError(f"{where} is not JSON: {error}") from None
    found = _checked(raw, where)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        version = raw.get("format") if isinstance(raw, dict) else None
        raise TuneFileError(f"{where} has format {version!r}; this version reads {FORMAT}")
    theirs, mine = raw.get("machine"), machine()
    if not isinstance(theirs, dict):
        raise TuneFileError(f"{where} does not say which machine it is of")
    if theirs != mine and not any_machine:
        names = [n for n in mine if theirs.get(n) != mine[n]]
        listed = ", ".join(f"{n} {theirs.get(n)!r} rather than {mine[n]!r}" for n in names)
        raise TuneFileError(
            f"{where} is of another machine ({listed}); any_machine=True takes it nevertheless"
        )
    return found


def _checked(raw: object, where: str) -> dict[str, Table]:
    """The two tables of parsed JSON. Raises TuneFileError."""
    if not isinstance(raw, dict):
        raise TuneFileError(f"{where} holds no object but a {type(raw).__name__}")
    found: dict[str, Table] = {}
    for sort in SORTS:
        table = raw.get(sort)
        if not isinstance(table, dict):
            raise TuneFileError(f"{where} has no table {sort!r}")
        for name, entry in table.items():
            if not isinstance(entry, dict) or "form" not in entry:
                raise TuneFileError(f"{where}: the entry of {name!r} has no 'form'")
        found[sort] = dict(table)
    return found
