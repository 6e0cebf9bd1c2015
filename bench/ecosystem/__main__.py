"""``python -m bench.ecosystem``: runs the programs of packages that import torch under lazyt.

    python -m bench.ecosystem                              all of them; writes the page of the docs
    python -m bench.ecosystem --only 'timm*,GPT-2'         those whose names match
    python -m bench.ecosystem --record --python PYTHON     writes down what PyTorch gives
    python -m bench.ecosystem --times --python PYTHON      how long compiled networks take

Results are remembered in build/ecosystem/results until lazyt or the program changes, so that a run
that was stopped goes on where it was (``--again`` runs everything).
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import inspect
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from bench.ecosystem import environment, report, scripts, suites, timing
from bench.ecosystem.entries import ROOT, STAGES, Entry, entries

PAGE = ROOT / "docs" / "reference" / "ecosystem.md"


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m bench.ecosystem", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--only", default="", metavar="PATTERNS", help="names or patterns, separated by commas")
    add("--jobs", type=int, default=1, help="how many programs run at a time")
    add("--again", action="store_true", help="run what has a result already, too")
    add("--list", action="store_true", help="print the names of the programs, run nothing")
    add("--env", type=Path, default=environment.BUILD / "env", help="the environment's folder")
    add("--memory", type=float, default=environment.MEMORY_GIB, help="GiB for each process")
    add("--seconds", type=float, help="for each process, instead of the program's own limit")
    add("--json", type=Path, help="write the table as JSON")
    add("--page", type=Path, help="write the table as a page (docs/reference/ecosystem.md of all)")
    add("--scripts", action="store_true", help="run the scripts of other repositories instead")
    add("--suites", action="store_true", help="run the packages' own tests instead")
    add("--failed", action="store_true", help="of them, run again what did not pass only")
    add("--sources", type=Path, help="a folder that has clones of these repositories")
    add("--times", action="store_true", help="measure compiled networks, beside --python's PyTorch")
    add("--rounds", type=int, default=7, help="of --times: how often each is measured")
    add("--record", action="store_true", help="write recorded.json with --python, under PyTorch")
    add("--python", help="an interpreter that has PyTorch")
    return parser.parse_args(argv)


class Runner:
    """Runs entries, several at a time, and tells how it goes."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.python = environment.make(given.env)
        self.limits = environment.Limits(given.memory, given.seconds)
        self.seen = environment.fingerprint()

    def under_lazyt(self, entry: Entry) -> dict[str, Any]:
        """What the entry's program told, now or when nothing had changed since."""
        where = environment.BUILD / "results" / f"{entry.slug}.json"
        key = hashlib.sha256((self.seen + _source(entry)).encode()).hexdigest()[:16]
        if where.exists() and not self.given.again:
            known = json.loads(where.read_text(encoding="utf-8"))
            if known["key"] == key:
                return dict(known["told"])
        command = [str(self.python), "-m", "lazyt", "run"]
        told = environment.run(entry, command, [ROOT], self.limits)
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(json.dumps({"key": key, "told": told}), encoding="utf-8")
        return told

    def under_torch(self, entry: Entry) -> dict[str, Any]:
        """The same of PyTorch, without "compile", which is compared with the forward pass."""
        path = [ROOT, environment.site_packages(self.given.env)]
        wanted = [stage for stage in STAGES if stage != "compile"]
        return environment.run(entry, [self.given.python], path, self.limits, wanted)

    def all(self, chosen: list[Entry]) -> dict[str, dict[str, Any]]:
        """What each told, by name; a line about each when it has ended."""
        how = self.under_torch if self.given.record else self.under_lazyt
        known, found = report.recorded(), {}
        with ThreadPoolExecutor(max(1, self.given.jobs)) as pool:
            pending = {pool.submit(how, entry): entry for entry in chosen}
            for number, done in enumerate(as_completed(pending), 1):
                entry = pending[done]
                told = found[entry.name] = done.result()
                record = _as_recorded(told, "") if self.given.record else known.get(entry.name)
                line = report.judge(entry, told, record)
                cells = " ".join(line.stages[s] for s in STAGES)
                where = f" ({line.at})" if line.at else ""
                print(
                    f"[{number}/{len(chosen)}] {entry.name}: {cells} in {line.seconds:g} s"
                    f" {line.reason[:220]}{where}".rstrip(),
                    file=sys.stderr,
                    flush=True,
                )
        return found


def _source(entry: Entry) -> str:
    """The text of the module that has the entry's program."""
    module = sys.modules[entry.make.__module__]
    return inspect.getsource(module) + entry.name


def _as_recorded(told: dict[str, Any], version: str) -> dict[str, Any]:
    good = {n: told[n]["values"] for n in STAGES if n != "compile" and "values" in told.get(n, {})}
    return {"torch": version, "stages": {n: v for n, v in good.items() if n != "import"}}


def record(runner: Runner, chosen: list[Entry]) -> int:
    """Replaces the chosen entries' part of the record; 1 if PyTorch cannot do one of them."""
    ask = "import torch; print(torch.__version__.partition('+')[0])"
    version = subprocess.run(
        [runner.given.python, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.strip()
    told = runner.all(chosen)
    failed = {n for n, t in told.items() if any("error" in t.get(s, {}) for s in STAGES)}
    names = {entry.name for entry in entries()}
    known = {n: e for n, e in report.recorded().items() if n in names}
    known |= {name: _as_recorded(told[name], version) for name in told.keys() - failed}
    report.record(known)
    for name in sorted(failed):
        print(f"{name} fails under PyTorch itself: nothing is recorded", file=sys.stderr)
    return 1 if failed else 0


def run_scripts(runner: Runner) -> int:
    """Runs the scripts of other repositories, and writes what the page says of them."""
    given = runner.given
    recorder = given.python if given.record else None
    found = scripts.all_scripts(runner.python, given.env, given.sources, recorder, given.only)
    if not (given.record or given.only):
        _replace("## Scripts", scripts.section(found, datetime.date.today().isoformat()))
    return 0


def _replace(title: str, section: str) -> None:
    """Puts a section in the place of the page's own one of that title, or at its end."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(report.with_section(text, title, section), encoding="utf-8")


def run_times(runner: Runner, chosen: list[Entry]) -> int:
    """Measures those that are compiled networks, and writes what the page says of all."""
    given, date = runner.given, datetime.date.today().isoformat()
    networks = [entry for entry in chosen if timing.is_network(entry)]
    packages = environment.site_packages(given.env)
    found = timing.measure_all(
        networks, runner.python, given.python, packages, environment.BUILD, given.rounds
    )
    for column in ("torch", "lazyt"):
        for ratio, what in timing.worst(found, column):
            if ratio > 1:
                print(f"{what}: {ratio:.2f} of the time of {column}")
    if given.json:
        given.json.write_text(timing.as_json(found, date, given.rounds), encoding="utf-8")
    if not given.only:
        _replace("## Times", timing.section(found, date))
    return 0


def run_suites(given: argparse.Namespace) -> int:
    """Runs the packages' own tests, and writes what the page says of them."""
    python = given.python if given.record else str(environment.make(given.env))
    packages = environment.site_packages(given.env) if given.record else None
    limits = environment.Limits(given.memory, given.seconds)
    options = {"jobs": given.jobs, "failed": given.failed, "again": given.again}
    runner = suites.Runner(python, packages, limits, **options)
    found = list(suites.run(runner, given.sources, given.only, given.record))
    for result in found:
        print(f"{result.suite.name}: {result.both} of {result.tests}")
        for why, count in suites.causes(result)[:40]:
            print(f"    {count} x {why}")
        for name, why in result.broken.items():
            print(f"    {name}: {why}")
    if not (given.record or given.only):
        _replace("## Test suites", suites.section(found, datetime.date.today().isoformat()))
    return 0


def main(argv: Sequence[str]) -> int:
    """The exit status: 0 when everything chosen has run, whatever passes."""
    given = arguments(argv)
    chosen = entries("" if given.scripts or given.suites else given.only)
    if not chosen:
        print(f"no program is called like {given.only}", file=sys.stderr)
        return 2
    if given.list:
        print("\n".join(entry.name for entry in chosen))
        return 0
    if given.record and not given.python:
        print("--record needs --python, an interpreter that has PyTorch", file=sys.stderr)
        return 2
    if given.suites:
        return run_suites(given)
    runner = Runner(given)
    if given.scripts:
        return run_scripts(runner)
    if given.record:
        return record(runner, chosen)
    if given.times:
        return run_times(runner, chosen)
    told, known = runner.all(chosen), report.recorded()
    lines = [report.judge(entry, told[entry.name], known.get(entry.name)) for entry in chosen]
    date = datetime.date.today().isoformat()
    print("\n".join(report.table(lines)))
    if given.json:
        given.json.write_text(report.as_json(lines, date), encoding="utf-8")
    page = given.page or (None if given.only else PAGE)
    if page:
        text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        made = report.page(lines, date)
        for title in ("## Times", "## Scripts", "## Test suites"):  # which options have written
            made = report.with_section(made, title, report.section_of(text, title))
        page.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
