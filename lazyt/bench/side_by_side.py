"""Two versions of lazyt, turn by turn in one session, so that a busy moment hits both alike.

A version is a commit, a folder, an interpreter with lazyt installed, or a file that is loaded into
this lazyt (passes, targets, policies). The problems, and the code that times them, are this
package's for both.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lazyt.bench.launch import INSTALLED, PACKAGE
from lazyt.bench.problems import Workload
from lazyt.bench.results import Result
from lazyt.bench.session import Place, Session, Worker

#: What a user calls the lazyt that runs the command.
THIS = "this"
#: How often the processes of a workload are started anew: where the system puts their memory
#: decides over a few per cent of the time, and stays as it is for as long as a process lives.
LAUNCHES = 3


@dataclass(frozen=True)
class Side:
    """A version of lazyt.

    Attributes:
        name: as it was given.
        tree: the folder that holds its package, empty for this one's; ``INSTALLED`` for whatever
            the interpreter finds.
        python: the interpreter.
        load: a file to load.
    """

    name: str
    tree: str = ""
    python: str = sys.executable
    load: str = ""


def side(text: str, scratch: Path) -> Side:
    """What a user means by a word: ``this``, a file ``.py`` to load, a folder with a package
    ``lazyt``, an interpreter, or else a commit of the repository here.

    Args:
        text: the word.
        scratch: a folder, into which a commit's files are written.

    Raises ValueError, which says what was tried.
    """
    if text == THIS:
        return Side(text)
    path = Path(text)
    if path.is_dir():
        if not (path / "lazyt" / "__init__.py").is_file():
            raise ValueError(f"the folder {text} has no package lazyt")
        return Side(text, tree=str(path.resolve()))
    if path.suffix == ".py":
        if not path.is_file():
            raise ValueError(f"there is no file {text}")
        return Side(text, load=str(path.resolve()))
    if path.is_file():
        if not os.access(path, os.X_OK):
            raise ValueError(f"{text} is no interpreter, no folder and no file of Python")
        # Not resolved: an environment's interpreter is a link to another one.
        return Side(text, tree=INSTALLED, python=str(path.absolute()))
    return Side(text, tree=str(_exported(text, scratch)))


def _exported(commit: str, scratch: Path) -> Path:
    """The package as it was at a commit, in a folder below ``scratch``."""
    for folder in (Path.cwd(), PACKAGE.parent):
        found = _git(folder, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
        if found is None:
            continue
        number = found.decode().strip()
        target = scratch / number
        if not target.exists():
            top = _git(folder, "rev-parse", "--show-toplevel")
            packed = top and _git(Path(top.decode().strip()), "archive", number, "lazyt")
            if not packed:
                raise ValueError(f"the commit {commit} has no package lazyt")
            with tarfile.open(fileobj=io.BytesIO(packed)) as file:
                file.extractall(target, filter="data")
        return target
    raise ValueError(
        f"{commit} is no commit of a repository here, no folder, no interpreter, no file of Python"
    )


def _git(folder: Path, *words: str) -> bytes | None:
    """What git prints; None where it fails, or is not installed."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def measure(
    session: Session,
    workload: Workload,
    framework: str,
    sides: Sequence[Side],
    launches: int = LAUNCHES,
) -> list[Result]:
    """A workload in each side, whose rounds belong together one by one.

    Args:
        session: an open one; its options say how many rounds and samples.
        workload: what to time.
        framework: ``lazyt``, or ``lazy`` for lazyt without ``jit``.
        sides: the versions.
        launches: how often processes are started anew.
    """
    options = session.options
    with tempfile.TemporaryDirectory(prefix="lazyt-bench-") as name:
        folder = Path(name)
        facts = session.reference(workload, folder)
        results = [session.empty(workload, framework, facts) for _ in sides]
        if "failed" in facts:
            for result in results:
                result.problem = f"the reference: {facts['failed']}"
            return results
        places = [
            Place(framework, s.python, options.threads, options.device, s.tree, s.load)
            for s in sides
        ]
        # Each has a folder for its plans, which its next launch finds.
        homes = [folder / str(number) for number in range(len(sides))]
        for home in homes:
            home.mkdir()
        count = min(launches, options.rounds)
        for launch in range(count):
            begin, end = (options.rounds * n // count for n in (launch, launch + 1))
            order = list(range(len(sides)))[:: -1 if launch % 2 else 1]
            workers: dict[int, Worker] = {}
            try:
                for number in order:
                    if not results[number].problem:
                        workers[number] = session.nurseries.worker(places[number], homes[number])
                        first = results[number].cold_first_s
                        session.begin(results[number], workers[number], folder)
                        if first is not None:  # a later process finds the plans on disk
                            again = results[number].cold_first_s
                            results[number].cold_first_s = first
                            results[number].warm_first_s = again
                for turn in range(begin, end):
                    # Nobody is always the first, and no round lacks one of the two.
                    if not any(result.problem or result.absent for result in results):
                        for number in order[:: -1 if turn % 2 else 1]:
                            session.sample(results[number], workers[number], turn)
                for number, worker in workers.items():
                    session.check(results[number], worker)
            finally:
                for worker in workers.values():
                    worker.end()
    return results
