"""The test suites of packages, run by pytest under lazyt: what passes there and under PyTorch.

They come from the packages' repositories, cloned by commit into ``build/ecosystem/suites``. The
files of a folder are run in a separate process with limits; what has ended is remembered test by
test, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.ecosystem import environment
from bench.ecosystem.entries import FOLDER, ROOT
from bench.ecosystem.scripts import checked_out

RECORDED = FOLDER / "recorded_suites.json"
BUILD = environment.BUILD / "suites"
#: How often files are started again after a test ended their process.
CRASHES = 20


@dataclass(frozen=True)
class Suite:
    """The tests of one package.

    Attributes:
        repository: whose they are.
        commit: which ones.
        version: the package's version there, as pip and its authors count.
        files: patterns of the files that are run, in the repository.
        why: which files these are, and what the others need, for the page.
        path: a folder of the repository that Python looks for modules in first.
        folder: where pytest is run.
        options: more arguments of pytest.
        variables: environment variables of its processes.
        left: tests that are not run, by a part of their name, with the reason.
    """

    repository: str
    commit: str
    version: str
    files: tuple[str, ...]
    why: str = "all"
    path: str = "."
    folder: str = "."
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the table calls it."""
        return self.repository.partition("/")[2]


SUITES = (
    Suite(
        "data-apis/array-api-compat", "bbfe8c21dcf99d8f7f65f216b5478b8c9a401850", "1.15",
        ("tests/test_*.py",), "all; other array libraries than NumPy and torch are not installed",
    ),
    Suite(
        "data-apis/array-api-extra", "693b257ed3903045fcd5f5fc0cb8d0f07f783581", "0.11.1",
        ("tests/main/test_*.py",), "the main folder, with torch, NumPy and array-api-strict",
        path="src",
    ),
    Suite(
        "arogozhnikov/einops", "8e911db71f2e693a0c434b041180388c685ed06f", "0.8.2",
        ("einops/tests/test_*.py",), "all, with NumPy and torch; warnings are no errors",
        options=("-W", "ignore"),
        variables={"EINOPS_TEST_BACKENDS": "numpy,torch"},
    ),
    Suite(
        "cornellius-gp/gpytorch", "7c4ec80f0f05cf530348a8a8972d67a11dd26ed2", "1.15.2",
        tuple(
            f"test/{folder}/**/test_*.py"
            for folder in (
                "constraints", "distributions", "functions", "kernels", "likelihoods", "means",
                "metrics", "mlls", "models", "optim", "priors", "utils", "variational",
            )
        ),
        "all folders but examples, which trains for long; KeOps is not installed",
        options=("-W", "ignore"),
    ),
    Suite(
        "dgasmith/opt_einsum", "c15aec2c7dbbcaf5b9790b980f699bf295baa7d9", "3.4.0",
        ("opt_einsum/tests/test_*.py",), "all; other array libraries are not installed",
    ),
    Suite(
        "huggingface/safetensors", "24b0b2857fef49be734b9ab72ce97c09bb25f5b9", "0.8.0",
        ("bindings/python/tests/test_*.py",),
        "all, with the installed library; those of Flax, MLX, Paddle and TensorFlow are skipped",
        path="bindings/python/tests", folder="bindings/python",
    ),
    Suite(
        "rtqichen/torchdiffeq", "657943acefa826ef04c025ebeb1ff5e9d60dc268", "0.2.5",
        ("tests/*_tests.py",), folder="tests", options=("-c", os.devnull),
    ),
    Suite(
        "Lightning-AI/torchmetrics", "700261d3683ba77517e9650043f62a8313027437", "1.9.0",
        tuple(
            f"tests/unittests/{folder}/**/test_*.py"
            for folder in (
                "clustering", "pairwise", "regression", "segmentation", "utilities",
            )
        ),
        "five folders whose references are scikit-learn, SciPy, MONAI and the tests themselves",
        path="src", folder="tests", options=("-W", "ignore"),
    ),
)  # fmt: skip


@dataclass
class Told:
    """What the tests of one file did.

    Attributes:
        outcomes: passed, failed or skipped, by the test's name.
        reasons: why a test did not pass, and where.
        broken: why the file could not be collected, or is not done.
    """

    outcomes: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    broken: str = ""


class Runner:
    """Runs suites in the environment's interpreter, or in one that has PyTorch.

    Args:
        python: the interpreter.
        packages: site-packages of the environment, for an interpreter with PyTorch.
        recording: whether PyTorch's outcomes are written down.
        limits: of each process.
        jobs: how many folders at a time.
        failed: whether results of another version of lazyt hold where a test passed.
        again: whether everything runs again.
        seconds: for each test.
    """

    def __init__(
        self,
        python: str,
        packages: Path | None,
        limits: environment.Limits,
        *,
        jobs: int = 1,
        failed: bool = False,
        again: bool = False,
        seconds: int = 120,
    ) -> None:
        self.python, self.packages, self.limits = python, packages, limits
        self.jobs, self.failed, self.again, self.seconds = jobs, failed, again, seconds
        self.seen = "PyTorch" if packages else environment.fingerprint()

    def suite(self, suite: Suite, root: Path, only: str = "") -> dict[str, Told]:
        """What each of its files did; ``only`` is a part of the files' names. Files of one folder
        share a process."""
        files = sorted({p for pattern in suite.files for p in root.glob(pattern)})
        folders: dict[Path, list[str]] = {}
        for path in files:
            name = path.relative_to(root).as_posix()
            if only in name:
                folders.setdefault(path.parent, []).append(name)
        found: dict[str, Told] = {}
        with ThreadPoolExecutor(max(1, self.jobs)) as pool:
            for told in pool.map(lambda names: self.folder(suite, root, names), folders.values()):
                found |= told
        return found

    def folder(self, suite: Suite, root: Path, names: list[str]) -> dict[str, Told]:
        """Runs files of one folder, as often as their tests end the process."""
        outputs = {name: self._output(suite, name) for name in names}
        left = {n: output for n, output in outputs.items() if self._start(output, suite)}
        for _ in range(CRASHES):
            if not left:
                break
            self._run(suite, root, left)
            left = {n: output for n, output in left.items() if "end" not in _lines(output)[-1]}
        for output in left.values():
            _add(output, end=f"ended {CRASHES} processes")
        found = {name: read(output) for name, output in outputs.items()}
        for name, told in found.items():
            counts = Counter(told.outcomes.values())
            line = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))
            text = f"{suite.name}: {name}: {line} {told.broken}"
            print(text.rstrip(), file=sys.stderr, flush=True)
        return found

    def _output(self, suite: Suite, name: str) -> Path:
        kind = "torch" if self.packages else "lazyt"
        return BUILD / "results" / kind / suite.name / f"{name.replace('/', '-')}.jsonl"

    def _start(self, output: Path, suite: Suite) -> bool:
        """Whether something is left to do; takes out of the output what has to run again."""
        known = _lines(output)
        key = hashlib.sha256(f"{self.seen} {suite}".encode()).hexdigest()[:16]
        if known and known[0].get("key") == key and not self.again and not self.failed:
            return "end" not in known[-1]
        kept = []
        if self.failed:
            last = {line["test"]: line for line in known if "test" in line}
            kept = [line for line in last.values() if line.get("outcome") in ("passed", "skipped")]
            ended = known[-1].get("end") if known else None
            if len(kept) == len(last) and (ended == "" or str(ended).startswith("skipped")):
                kept.append({"end": ended})
        text = "".join(json.dumps(line) + "\n" for line in [{"key": key}, *kept])
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
        return not (kept and "end" in kept[-1])

    def _run(self, suite: Suite, root: Path, left: Mapping[str, Path]) -> None:
        """One process with what is left of some files."""
        path = [root / suite.path, ROOT, *([self.packages] if self.packages else [])]
        run = [] if self.packages else ["-m", "lazyt", "run"]
        where = [os.path.relpath(root / name, root / suite.folder) for name in left]
        outputs = json.dumps(dict(zip(left, map(str, left.values()))))
        command = [self.python, *run, str(FOLDER / "suite_child.py"), outputs]
        command += [str(self.seconds), f"--rootdir={root}", *suite.options, *where]
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "LAZYT_CACHE_DIR": str(environment.BUILD / "cache"),
            "HF_HUB_OFFLINE": "1",
            "MPLBACKEND": "Agg",
            **({"ECOSYSTEM_RECORDS": "1"} if self.packages else {}),
            **suite.variables,
        }
        first = next(iter(left.values()))
        with first.with_suffix(".log").open("w", encoding="utf-8") as told:
            process = subprocess.Popen(
                command,
                env=variables,
                cwd=root / suite.folder,
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=self.limits.apply,
            )
            ended = self._wait(process, list(left.values()))
        ended = ended or f"ended with status {process.returncode}"
        for output in left.values():
            last = _lines(output)[-1]
            if "test" in last and "outcome" not in last:
                _add(output, test=last["test"], outcome="failed", why=ended)
                return
        for output in left.values():
            if "end" not in _lines(output)[-1]:
                _add(output, end=ended)

    def _wait(self, process: subprocess.Popen[bytes], outputs: list[Path]) -> str:
        """Why the process was stopped: nothing was written for longer than a test may take."""
        quiet = 3 * self.seconds
        while True:
            known = [output.stat().st_mtime_ns for output in outputs]
            if not (ended := environment.wait(process, quiet, stop=False)):
                return ""
            if known == [output.stat().st_mtime_ns for output in outputs]:
                environment.wait(process, 0)
                return ended


def _add(output: Path, **what: Any) -> None:
    with output.open("a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def _lines(output: Path) -> list[dict[str, Any]]:
    found = []
    if output.exists():
        for text in output.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # a line that was not written whole
                found.append(json.loads(text))
    return found


def read(output: Path) -> Told:
    """What the output of a file's processes says."""
    told = Told()
    for line in _lines(output):
        if "outcome" in line:
            told.outcomes[line["test"]] = line["outcome"]
            told.reasons.pop(line["test"], None)
            if line["outcome"] != "passed":
                told.reasons[line["test"]] = line.get("why", "")
        elif "end" in line:
            told.broken = line["end"]
    return told


@dataclass(frozen=True)
class Result:
    """One line of the table.

    Attributes:
        suite: which.
        tests: how many PyTorch passes.
        both: how many of them lazyt passes.
        failed: the others that were run, by name, with the reason.
        broken: files that could not be collected, with the reason.
    """

    suite: Suite
    tests: int
    both: int
    failed: dict[str, str]
    broken: dict[str, str]


def compare(
    suite: Suite, told: Mapping[str, Told], known: Mapping[str, Mapping[str, Any]]
) -> Result:
    """What lazyt did beside what PyTorch did, of the files that lazyt was given."""
    tests = both = 0
    failed: dict[str, str] = {}
    broken: dict[str, str] = {}
    for name, found in told.items():
        record = known.get(name)
        if record is None:
            continue
        tests += record["passed"]
        skipped, failing = record.get("skipped", ""), record.get("failed", ())
        for test, outcome in found.outcomes.items():
            if test in failing or _short(test) in _parts(skipped):
                continue
            if outcome == "passed":
                both += 1
            else:
                failed[test] = f"{outcome}: {found.reasons.get(test, '')}"
        if found.broken and record["passed"]:
            broken[name] = found.broken
    return Result(suite, tests, both, failed, broken)


def _short(test: str) -> str:
    """Eight letters that stand for a test's name: thousands are skipped."""
    return hashlib.sha256(test.encode()).hexdigest()[:8]


@functools.cache
def _parts(text: str) -> frozenset[str]:
    return frozenset(text[i : i + 8] for i in range(0, len(text), 8))


def recorded() -> dict[str, dict[str, Any]]:
    """What PyTorch did: for each suite and file how many passed, and what did not."""
    if not RECORDED.exists():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def record(suite: Suite, told: Mapping[str, Told]) -> None:
    """Writes down what PyTorch did, one line for each file."""
    known = recorded()
    files = known.setdefault(suite.name, {})
    for name, found in told.items():
        passed = sum(outcome == "passed" for outcome in found.outcomes.values())
        files[name] = {"passed": passed}
        failing = sorted(t for t, outcome in found.outcomes.items() if outcome == "failed")
        skipped = sorted(_short(t) for t, outcome in found.outcomes.items() if outcome == "skipped")
        if failing:
            files[name]["failed"] = failing
        if skipped:
            files[name]["skipped"] = "".join(skipped)
    lines = []
    for title, entries in sorted(known.items()):
        each = ",\n".join(f"  {json.dumps(n)}: {json.dumps(e)}" for n, e in sorted(entries.items()))
        lines.append(f" {json.dumps(title)}: {{\n{each}\n }}")
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def run(runner: Runner, sources: Path | None, only: str, recording: bool) -> Iterator[Result]:
    """Runs the suites whose names ``only`` names, "SUITE" or "SUITE:PART OF A FILE'S NAME"."""
    wanted = dict(part.partition(":")[::2] for part in only.split(",") if part)
    for suite in SUITES:
        part = next((v for k, v in wanted.items() if k in suite.name), None)
        if wanted and part is None:
            continue
        root = checked_out(suite.repository, sources, suite.commit, BUILD).resolve()
        told = runner.suite(suite, root, part or "")
        if recording:
            record(suite, told)
        yield compare(suite, told, recorded().get(suite.name, {}))


def causes(result: Result) -> list[tuple[str, int]]:
    """The reasons of what fails, without their numbers, and how many tests have each."""
    counts: Counter[str] = Counter()
    for why in result.failed.values():
        counts[re.sub(r"0x[0-9a-f]+|\d[\d.e+-]*", "N", why)] += 1
    return counts.most_common()


def section(found: list[Result], date: str) -> str:
    """What the page of the docs says about them."""
    rows, reasons = [], []
    for result in found:
        suite = result.suite
        failing = result.tests - result.both
        rows.append(
            f"| {suite.name} | {suite.version} | {result.tests} | {result.both} | {failing} |"
            f" {suite.why} |"
        )
        known = [(why, count) for why, count in causes(result)]
        known += [(f"{file}: {why}", 0) for file, why in result.broken.items()]
        for why, count in known[:MOST_CAUSES] if failing else ():
            reasons.append(f"- **{suite.name}**, {count or 'a file'}: `{_plain(why)}`")
    tests, both = sum(r.tests for r in found), sum(r.both for r in found)
    return _SECTION.format(
        date=date,
        tests=tests,
        both=both,
        rows="\n".join(rows),
        reasons="\n".join(reasons) or "None.",
    )


#: How many causes of one suite the page has.
MOST_CAUSES = 8


def _plain(text: str) -> str:
    short = " ".join(text.replace(f"{BUILD}/", "").split())
    short = short if len(short) <= 170 else short[:167] + "..."
    return short.replace("`", "'").replace("|", "/")


_SECTION = """## Test suites

Tests of packages, from their repositories by commit, run by pytest under `python -m lazyt run`.
What counts is each test that passes under PyTorch 2.13 (`bench/ecosystem/recorded_suites.json`).

Run on {date}: {both} of {tests} tests pass.

| suite | version | pass under PyTorch | pass here, too | fail here only | which tests |
|---|---|---|---|---|---|
{rows}

### What fails here only

How many tests fail for the same reason, numbers in it aside.

{reasons}
"""
