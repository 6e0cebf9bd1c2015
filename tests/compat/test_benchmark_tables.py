"""Measurements of ``utils.benchmark`` as tables."""

from __future__ import annotations

import pytest

from lazyt.utils.benchmark import Compare, Measurement, TaskSpec, select_unit


def measured(times: list[float], **spec: object) -> Measurement:
    return Measurement(1, times, TaskSpec("x + 1", **spec))  # type: ignore[arg-type]


def test_a_table_has_rows_columns_and_blocks_of_threads() -> None:
    items = [
        measured([n * 1e-6 * t], label="ops", sub_label=f"n={n}", description=d, num_threads=t)
        for n in (10, 100)
        for d in ("add", "mul")
        for t in (1, 2)
    ]
    lines = str(Compare(items)).splitlines()
    assert "ops" in lines[0] and lines[1].split()[1::2] == ["add", "mul"]
    assert [line.split()[0] for line in lines[2:8]] == ["1", "n=10", "n=100", "2", "n=10", "n=100"]
    assert lines[6].split("|")[1].strip() == "20.0"
    assert lines[-1] == "Times are in microseconds (us)."


def test_measurements_of_the_same_are_merged() -> None:
    parts = [measured([1e-3]), measured([3e-3]), measured([5e-3], env="other")]
    merged = Measurement.merge(parts)
    assert [item.times for item in merged] == [[1e-3, 3e-3], [5e-3]]
    table = Compare(parts)
    table.extend_results([measured([1e-3], sub_label="row")])
    assert "(other)  x + 1" in str(table) and "row" in str(table)
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        table.extend_results([3])  # type: ignore[list-item]


def test_digits_and_notes_follow_the_spread() -> None:
    table = Compare([measured([1e-3, 1.5e-3, 2e-3, 2.5e-3], description="wide")])
    table.trim_significant_figures()
    table.highlight_warnings()
    assert "2.0 (! 43%)" in str(table)


def test_units() -> None:
    assert [select_unit(t)[0] for t in (2.0, 0.5, 3e-4, 1e-8, 0.0)] == ["s", "ms", "us", "ns", "ns"]
