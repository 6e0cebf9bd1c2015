"""What the benchmark makes of its measurements: ratios, tables, files, comparisons."""

from __future__ import annotations

import csv
import json
import math
import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from lazyt.__main__ import main
from lazyt.bench import report
from lazyt.bench.comparison import Change, Rules, compare, conclusion, undecided
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
from lazyt.tools.bench import draw_roofline


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


def rounds_of(seconds: float, noise: float, seed: int, count: int = 12) -> list[list[float]]:
    """Rounds of three samples about a time, whose logarithms spread by ``noise``."""
    draws = np.random.default_rng(seed).normal(0, noise, (count, 3))
    return [[seconds * math.exp(draw) for draw in turn] for turn in draws]


def two_workloads(seconds: float, seed: int, noise: float = 0.02, machine: float = 1.0) -> Run:
    """One that takes so long, another that never changes, both beside PyTorch, on a machine that
    takes ``machine`` times as long for everything."""
    results = []
    for number, (name, own) in enumerate((("relu", seconds), ("sum", 2e-3))):
        for place, (framework, time) in enumerate((("lazyt", own), ("torch", 3e-3))):
            made = timed(name, framework)
            made.rounds = rounds_of(machine * time, noise, 100 * seed + 10 * number + place)
            made.limits = [Limit(2e9 / machine, 1e12 / machine)] * len(made.rounds)
            results.append(made)
    return Run({"cpu": "one"}, {"threads": 2, "by": "median"}, results)


def told(before: Run, after: Run, **rules: object) -> dict[tuple[str, str], Change]:
    changes = compare(before, after, Rules(**rules))  # type: ignore[arg-type]
    return {(change.workload, change.framework): change for change in changes}


def test_a_slower_workload_is_told_from_a_slower_machine() -> None:
    slower = told(two_workloads(1e-3, 1), two_workloads(1.2e-3, 2))
    assert slower["relu", "lazyt"].verdict == "slower" and slower["relu", "lazyt"].fails
    assert slower["relu", "lazyt"].control == "torch"
    assert slower["sum", "lazyt"].verdict == "no difference" and not slower["sum", "lazyt"].fails
    moved = told(two_workloads(1e-3, 3), two_workloads(1e-3, 4, machine=1.3))
    assert not any(change.fails for change in moved.values())
    assert moved["relu", "lazyt"].ratio.ratio > 1.2  # type: ignore[union-attr]
    faster = told(two_workloads(1e-3, 5), two_workloads(0.7e-3, 6))
    assert faster["relu", "lazyt"].verdict == "faster"
    noisy = told(two_workloads(1e-3, 7, noise=0.5), two_workloads(1e-3, 8, noise=0.5))
    assert noisy["relu", "lazyt"].verdict == "too noisy"


def test_equal_code_seldom_fails_and_a_fifth_more_is_found() -> None:
    runs = 60 if os.environ.get("LAZYT_SLOW") else 18
    alarms = [told(two_workloads(1e-3, 2 * n), two_workloads(1e-3, 2 * n + 1)) for n in range(runs)]
    assert sum(any(change.fails for change in run.values()) for run in alarms) == 0
    runs = 40 if os.environ.get("LAZYT_SLOW") else 12
    found = [
        told(two_workloads(1e-3, 2 * n), two_workloads(1.2e-3, 2 * n + 1)) for n in range(runs)
    ]
    assert sum(run["relu", "lazyt"].fails for run in found) >= 0.95 * runs


def test_looking_again_makes_no_false_alarm_likelier() -> None:
    """Rounds are added until it is sure, four times at most: each look has its share of the false
    alarms. ``looks=1`` at each of them would be the mistake."""
    looks, alarms, first, found = 4, 0, 0, 0
    rules = {"paired": True, "looks": looks}
    for seed in range(10):
        for ratio in (1.0, 1.2):
            runs = [Run({}, {"threads": 2, "by": "median"}, []) for _ in range(2)]
            for look in range(looks):
                for number, run in enumerate(runs):
                    made = timed("relu", "lazyt")
                    made.rounds = rounds_of(
                        1e-3 * ratio**number, 0.5, 1000 * seed + 10 * look + number
                    )
                    run.add(made)
                change = told(runs[0], runs[1], **rules)["relu", "lazyt"]
                first += change.verdict == "slower" and look == 0 and ratio > 1
                if change.verdict != "too noisy":
                    break
            alarms += change.verdict in ("slower", "faster") and ratio == 1
            found += change.verdict == "slower" and ratio > 1
    assert alarms <= 2
    assert found > first


def test_more_rounds_are_wanted_where_they_can_change_the_exit_code() -> None:
    def wanted(ratio: float, noise: float) -> tuple[str, bool, bool]:
        runs = two_workloads(1e-3, 1, noise), two_workloads(1e-3 * ratio, 2, noise)
        change = told(*runs)["relu", "lazyt"]
        return change.verdict, change.fails, undecided(change, Rules())

    assert wanted(1.0, 0.5) == ("too noisy", False, True)
    assert wanted(1.0, 0.02) == ("no difference", False, False)
    assert wanted(1.1, 0.08) == ("slower", False, True)  # by 5 % or less, perhaps
    assert wanted(1.035, 0.01) == ("slower", False, False)
    assert wanted(1.2, 0.02) == ("slower", True, False)


def test_pairs_forgive_what_hits_both() -> None:
    """Rounds that are three times as long for both say nothing of either."""

    def disturbed(seconds: float, seed: int) -> Run:
        made = timed("relu", "lazyt")
        rounds = rounds_of(seconds, 0.01, seed)
        made.rounds = [[3 * s for s in r] if n % 2 else r for n, r in enumerate(rounds)]
        return Run({}, {}, [made])

    before, after = disturbed(1e-3, 1), disturbed(1.1e-3, 2)
    assert told(before, after, paired=True)["relu", "lazyt"].fails
    assert not told(before, after)["relu", "lazyt"].fails


def test_what_went_wrong_fails_and_what_cannot_be_compared_is_said() -> None:
    before, after = two_workloads(1e-3, 1), two_workloads(1e-3, 2)
    after.results[0].problem = "wrong result: error 1"
    after.results[2].dims = {"n": 8}
    found = told(before, after)
    assert found["relu", "lazyt"].fails
    assert found["relu", "lazyt"].verdict == "failed: wrong result: error 1"
    assert found["sum", "lazyt"].verdict == "other sizes" and not found["sum", "lazyt"].fails
    before.results[0].problem = "no memory"
    assert told(before, after)["relu", "lazyt"].verdict == "failed in both: wrong result: error 1"
    before.results[0].problem = ""
    after.results[1].problem = "no memory"
    assert not told(before, after)["relu", "torch"].fails  # a peer says nothing of lazyt
    few = two_workloads(1e-3, 1)
    few.results[0].rounds = few.results[0].rounds[:1]
    assert told(few, before)["relu", "lazyt"].verdict == "too few rounds"
    rules = Rules()
    assert conclusion([], rules) == ["No workload and framework was timed in both."]
    short = two_workloads(1e-3, 1), two_workloads(1e-3, 2)
    for result in (*short[0].results, *short[1].results):
        result.rounds = result.rounds[:3]
    said = "\n".join(conclusion(compare(*short, rules), rules))
    assert "have fewer than the 5 rounds" in said


def test_two_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    write(two_workloads(1e-3, 1), first)
    write(two_workloads(1.3e-3, 2), second)
    files = [str(first), str(second)]
    outputs = ["--json", str(tmp_path / "c.json"), "--csv", str(tmp_path / "c.csv")]
    assert main(["bench", "compare", *files]) == 0
    assert main(["bench", "compare", *files, "--fail-above", "1.05", *outputs]) == 1
    said = capsys.readouterr().out
    assert "1 slower, 0 faster" in said and "written: " in said
    facts = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert facts["fails"] and facts["rules"]["threshold"] == 1.05
    assert facts["changes"][0]["workload"] == "relu" and facts["changes"][0]["fails"]
    rows = list(csv.DictReader((tmp_path / "c.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 4 and rows[0]["verdict"] == "slower" and float(rows[0]["low"]) > 1.05
    assert main(["bench", "compare", *files, "--fail-above", "1.6"]) == 0
    assert main(["bench", "compare", str(first), str(first), "--fail-above", "1.05"]) == 0
    assert "timed only" not in capsys.readouterr().out
    partly = read(second)
    partly.results = [result for result in partly.results if result.workload == "relu"]
    write(partly, second)
    assert main(["bench", "compare", *files]) == 0
    assert "timed only before, or in other frameworks: sum" in capsys.readouterr().out
    partly.results[0].problem = "no memory"
    partly.results = [result for result in partly.results if result.framework == "lazyt"]
    write(partly, second)
    assert main(["bench", "compare", str(second), str(second), "--fail-above", "1.05"]) == 1
    said = capsys.readouterr().out
    assert "failed in both: no memory" in said and "Nothing of lazyt could be compared" in said
    capsys.readouterr()
    for wrong, message in (
        ([str(first), __file__], "is not JSON"),
        ([*files, "--ci", "101"], "--ci is a confidence"),
        ([*files, "--fail-above", "0.5"], "--fail-above is a factor"),
        ([*files, "--csv", str(tmp_path / "no" / "c.csv")], "cannot write"),
    ):
        assert main(["bench", "compare", *wrong]) == 2
        assert message in capsys.readouterr().err


def test_a_roofline_names_its_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_up()
    run.results[0].flops = 1e6
    run.results[1].nbytes = run.results[2].nbytes = 10**6
    draw_roofline(run, tmp_path / "roofline.svg")
    assert "not in the roofline, as nobody counts their operations: sum" in capsys.readouterr().out
    root = ElementTree.parse(tmp_path / "roofline.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    # One in each of three frameworks, which have a colour and a line of the legend each.
    circles = root.findall(f"{space}circle")
    assert len(circles) == 6 and len({circle.get("fill") for circle in circles}) == 3
    texts = [text.text for text in root.findall(f"{space}text")]
    assert texts.count("relu") == 1 and {"lazyt", "torch", "jax"} <= set(texts)
    run.results[0].flops, run.results[3].operations, run.results[3].nbytes = 0, 1e6, 10**6
    draw_roofline(run, tmp_path / "counted.svg")
    assert ">sum<" in (tmp_path / "counted.svg").read_text(encoding="utf-8")
    run.results[3].operations = None
    draw_roofline(run, tmp_path / "none.svg")
    assert "no roofline is drawn: no workload counts operations" in capsys.readouterr().err
    assert not (tmp_path / "none.svg").exists()


def test_pages_and_pictures(tmp_path: Path) -> None:
    run = made_up()
    run.results[0].workload = run.results[1].workload = run.results[2].workload = "a<b"
    page = report.to_html(run)
    assert "a&lt;b" in page and "a<b" not in page
    assert page.count("<rect") == 2 and 'class="green"' in page and 'class="red"' in page
    rows = list(csv.DictReader(report.to_csv(made_up()).splitlines()))
    assert len(rows) == 7 and rows[0]["workload"] == "relu"
    assert float(rows[0]["ratio_to_best_peer"]) == 0.5 and float(rows[0]["median_s"]) == 1e-3
    assert rows[5]["problem"] == "wrong result: error 0.5" and rows[1]["ratio_to_best_peer"] == ""
    pytest.importorskip("matplotlib")
    report.write_png(run, tmp_path / "r.png")
    assert (tmp_path / "r.png").read_bytes()[1:4] == b"PNG"
