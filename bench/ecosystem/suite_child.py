"""Runs files of a package's test suite: ``suite_child.py OUTPUTS SECONDS OPTION ... FILE ...``.

OUTPUTS maps the files to those that get a line of JSON when a test begins and one when it has
ended; tests that have an outcome there are not run. A test that takes longer than SECONDS fails.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest


class Outcomes:
    """A plug-in of pytest that writes outcomes down.

    Args:
        outputs: for each file with tests the one that gets them.
        seconds: the limit of one test.
    """

    def __init__(self, outputs: dict[str, str], seconds: int) -> None:
        self.outputs, self.seconds = outputs, seconds
        self.done, self.parts = set[str](), dict[str, tuple[str, str]]()
        self.broken: dict[str, str] = {}
        for output in outputs.values():
            with open(output, encoding="utf-8") as known:
                for line in known:
                    told = json.loads(line)
                    if "outcome" in told:
                        self.done.add(told["test"])

    def tell(self, name: str, **what: Any) -> None:
        """Writes one line about a test or a file."""
        with open(self.outputs[name.partition("::")[0]], "a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Leaves out what has an outcome."""
        left = [item for item in items if item.nodeid not in self.done]
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid in self.done])
        items[:] = left

    def pytest_collectreport(self, report: Any) -> None:
        """Notes why a file cannot be collected."""
        if report.nodeid in self.outputs and report.outcome != "passed":
            what = "skipped: " if report.skipped else ""
            self.broken[report.nodeid] = what + _reason(report)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        """One test, with its limit of time."""
        self.tell(item.nodeid, test=item.nodeid)
        self.parts.clear()
        start = time.monotonic()

        def stop(*_: Any) -> None:
            raise TimeoutError(f"took longer than {self.seconds} s")

        signal.signal(signal.SIGALRM, stop)
        signal.alarm(self.seconds)
        try:
            yield
        finally:
            signal.alarm(0)
        found = list(self.parts.values())
        outcome = next((p for p in found if p[0] == "failed"), None)
        outcome = outcome or next((p for p in found if p[0] == "skipped"), ("passed", ""))
        told = {"test": item.nodeid, "outcome": outcome[0], "why": outcome[1]}
        self.tell(item.nodeid, **told, seconds=round(time.monotonic() - start, 2))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Notes what set-up, test and tear-down gave."""
        if report.outcome != "passed" or report.when == "call":
            self.parts[report.when] = report.outcome, _reason(report)

    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        """Says that the files have been run."""
        if exitstatus == pytest.ExitCode.INTERNAL_ERROR:
            return  # who started this process says that it ended too early
        for file in self.outputs:
            self.tell(file, end=self.broken.get(file, ""))


def _reason(report: Any) -> str:
    """The last line of an error, with where it was raised."""
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:200]
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        text = " ".join(str(crash.message).split())
        return f"{text[:260]} ({os.path.basename(crash.path)}:{crash.lineno})"
    lines = str(report.longrepr or "").strip().splitlines()
    errors = [line for line in lines if line.startswith("E ")] or lines
    return " ".join(errors[-1].split())[:300] if errors else ""


def main(arguments: list[str]) -> int:
    """The exit status, that of pytest."""
    outputs, seconds, *options = arguments
    usual = ["-q", "-o", "addopts=", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    if os.environ.get("ECOSYSTEM_RECORDS") and importlib.util.find_spec("torchvision"):
        from bench.ecosystem import under_torch

        under_torch.install(False)
    plugin = Outcomes(json.loads(outputs), int(seconds))
    return int(pytest.main([*usual, *options], plugins=[plugin]))


if __name__ == "__main__":
    sys.path[0] = ""
    sys.exit(main(sys.argv[1:]))
