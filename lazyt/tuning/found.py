"""What tuning found on this machine, as the compiler's choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lazyt.codegen.plan.choices import ChoiceError, Choices, Fusing, Tuned
from lazyt.runtime import events, winners
from lazyt.runtime.winners import Table, TuneFileError

_latest: tuple[object, int, Choices] | None = None


def current() -> Choices:
    """The choices for this machine and number of threads."""
    global _latest
    tables = winners.tables()
    changes = winners.known.changes
    if _latest is None or _latest[0] is not tables or _latest[1] != changes:
        kernels, graphs = tables["kernels"], tables["graphs"]
        found = Choices(_read(kernels, Tuned.from_dict), _read(graphs, Fusing.from_dict))
        _latest = tables, changes, found
    return _latest[2]


def _read(table: Table, parse: Any) -> dict[str, Any]:
    """The entries that choose something; what another version wrote is left out."""
    found: dict[str, Any] = {}
    for name, entry in table.items():
        if entry["form"] is None:
            continue
        try:
            found[name] = parse(entry["form"])
        except ChoiceError as error:
            events.record("tune", f"the form of {name} is not known: {error}")
    return found


def check(tables: Mapping[str, Table], where: str) -> None:
    """Raises TuneFileError for a form that is not one."""
    for sort, parse in (("kernels", Tuned.from_dict), ("graphs", Fusing.from_dict)):
        for name, entry in tables[sort].items():
            try:
                if entry["form"] is not None:
                    parse(entry["form"])
            except ChoiceError as error:
                raise TuneFileError(f"{where}: the form of {name!r} is wrong: {error}") from None
