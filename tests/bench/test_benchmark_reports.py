"""What the benchmark makes of its measurements: ratios, tables, files, comparisons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lazyt.__main__ import main
from lazyt.bench import report
from lazyt.bench.report import format_time, main_table, summary
from lazyt.bench.results import (
    SCHEMA,
    Limit,
    Result,
    Run,
    describe_machine,
    from_json,
    geometric_mean,
    read,
    to_json,
    write,
)


def timed(workload: str, framework: str, *seconds: float, **facts: object) -> Result:
    """A result whose one turn had these samples."""
    made = Result(workload, framework, "kernels", {"n": 4}, "1", [list(seconds)])
    made.limits = [Limit(2e9, 1e12)]
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def made_up(own: float = 1e-3) -> Run:
    """Two workloads: lazyt is twice as fast as the best peer in one, half as fast in the other."""
    results = [
        timed("relu", "lazyt", own, own, 9 * own, nbytes=10**6, kernels=1, cold_first_s=0.5),
        timed("relu", "torch", 4e-3, note="not captured"),
        timed("relu", "jax", 2e-3),
        timed("sum", "lazyt", 2e-3, peak_bytes=5 * 10**6, base_bytes=2 * 10**6),
        timed("sum", "torch", 1e-3),
        Result("sum", "jax", problem="wrong result: error 0.5"),
        Result("sum", "numpy", absent="sum"),
    ]
    return Run({"cpu": "one", "cores": 2}, {"threads": 2, "by": "median"}, results)


def test_ratios_are_to_the_best_peer() -> None:
    run = made_up()
    assert run.best_peer("relu") == ("jax", 2e-3) and run.best_peer("sum") == ("torch", 1e-3)
    assert run.ratio("relu") == pytest.approx(0.5) and run.ratio("sum") == pytest.approx(2)
    assert run.share(run.results[0]) == pytest.approx(0.5)
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1) and geometric_mean([]) is None
    run.results[0].rounds.append([5e-4])
    run.settings["by"] = "min"
    assert run.ratio("relu") == pytest.approx(0.25)


def test_a_share_is_that_of_the_limit_beside_each_turn() -> None:
    """Where a machine's bandwidth halves between turns, what keeps up keeps its share."""
    run = made_up()
    own = run.results[0]
    own.rounds = [[1e-3, 1e-3, 5e-3], [2e-3, 2e-3, 8e-3], [1e-3]]
    own.limits = [Limit(2e9, 1e12), Limit(1e9, 1e12), Limit(1.25e9, 1e12)]
    assert run.share(own) == pytest.approx(0.5)
    own.flops = 16e8
    assert run.share(own) == pytest.approx(1.6)
    own.limits = [Limit(2e9)] * 3
    assert run.share(own) is None
    own.flops, own.limits = 0.0, []
    assert run.share(own) is None


def test_the_table_shows_times_ratios_and_what_went_wrong() -> None:
    table = main_table(made_up())
    lines = table.plain().splitlines()
    assert lines[0].split()[:5] == ["workload", "lazyt", "torch", "jax", "numpy"]
    assert lines[2].split()[:8] == ["relu", "1", "ms", "4", "ms", "2", "ms", "-"]
    assert lines[2].split()[8:] == ["0.50", "50", "%", "500", "ms", "-", "-", "1"]
    assert lines[3].split() == [
        "sum",
        "2",
        "ms",
        "1",
        "ms",
        "wrong",
        "-",
        "2.00",
        "0",
        "%",
        "-",
        "-",
        "3",
        "MB",
        "-",
    ]
    assert table.styles == ["green", "red"]
    said = summary(made_up())
    assert "geometric mean of 2: 1.00; faster than every peer in 1; slower than 1.3" in said[0]
    assert "torch 0.71 (2), jax 0.50 (1)" in said[1]
    assert "relu, torch: not captured" in said
    assert said[-1] == "sum, jax: wrong result: error 0.5"
    assert [format_time(s) for s in (None, 2.5, 0.0025, 2.5e-6)] == [
        "-",
        "2.5 s",
        "2.5 ms",
        "2.5 us",
    ]


def test_files_hold_everything_and_other_forms_are_refused(tmp_path: Path) -> None:
    run = made_up()
    run.machine = describe_machine()
    assert {"cpu", "cores", "memory_bytes", "compiler", "date", "load"} <= run.machine.keys()
    write(run, tmp_path / "r.json")
    assert read(tmp_path / "r.json") == run
    facts = to_json(run)
    assert facts["schema"] == SCHEMA and facts["versions"] == {
        "lazyt": "1",
        "torch": "1",
        "jax": "1",
    }
    assert facts["results"][0]["median_s"] == 1e-3 and facts["results"][0]["roofline_share"] == 0.5
    older = json.loads(json.dumps({**facts, "schema": 2}))
    for row in older["results"]:
        del row["limits"]
    assert from_json(older, "it").results[0] == run.results[0]
    for row in older["results"]:
        row.update(bandwidth=3e9, peak=None)
    assert from_json({**older, "schema": 3}, "it").results[0].limits == [Limit(3e9)]
    for broken, message in (
        ({**facts, "schema": 1}, "no result of"),
        ({k: v for k, v in facts.items() if k != "machine"}, "lacks machine"),
        ({**facts, "results": [{"workload": "relu"}]}, "result 0 lacks"),
    ):
        with pytest.raises(ValueError, match=message):
            from_json(json.loads(json.dumps(broken)), "it")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        read(tmp_path / "bad.json")


def test_two_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = made_up(), made_up(own=4e-3)
    after.results[3].problem = "wrong result: error 1"
    write(before, tmp_path / "a.json")
    write(after, tmp_path / "b.json")
    assert main(["bench", "compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    # The largest change first, then what stayed.
    assert lines[3].split() == ["relu", "lazyt", "1", "ms", "4", "ms", "4.00", "0.50", "2.00"]
    assert [line.split()[-3] for line in lines[4:7]] == ["1.00"] * 3
    assert "lazyt: 4.00 over 1 workloads, 1 slower and 0 faster by more than 10 %" in lines
    assert "sum, lazyt: was well -> wrong result: error 1" in lines
    assert main(["bench", "compare", str(tmp_path / "a.json"), __file__]) == 2
    assert "is not JSON" in capsys.readouterr().err


def test_pages_and_pictures(tmp_path: Path) -> None:
    run = made_up()
    run.results[0].workload = run.results[1].workload = run.results[2].workload = "a<b"
    page = report.to_html(run)
    assert "a&lt;b" in page and "a<b" not in page
    assert page.count("<rect") == 2 and 'class="green"' in page and 'class="red"' in page
    pytest.importorskip("matplotlib")
    report.write_png(run, tmp_path / "r.png")
    assert (tmp_path / "r.png").read_bytes()[1:4] == b"PNG"
