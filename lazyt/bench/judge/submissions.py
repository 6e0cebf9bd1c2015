"""Files and folders of submissions: what each is, and what it is judged against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lazyt.bench.judge.emulation import judge_cuda
from lazyt.bench.judge.judging import Options, judge_c
from lazyt.bench.judge.python_code import judge_function, judge_pair
from lazyt.bench.judge.tasks import Task, find
from lazyt.bench.judge.verdicts import Verdict

ENDINGS = (".c", ".cu", ".py")
#: A text that is longer was not written by hand.
_MOST_BYTES = 1 << 24


@dataclass(frozen=True)
class Submission:
    """A file, and its task or the reference's file.

    Raises ValueError where it has neither.
    """

    path: Path
    task: Task | None = None
    reference: Path | None = None

    def __post_init__(self) -> None:
        if self.task is None and self.reference is None:
            raise ValueError(f"{self.path}: no task and no reference")

    @property
    def name(self) -> str:
        """As in reports."""
        return self.path.name

    def judge(self, options: Options, module: str = "lazyt") -> Verdict:
        """Its verdict. Raises ValueError for a reference that does not work."""
        about = self.task.name if self.task is not None else str(self.reference)
        try:
            if self.path.stat().st_size > _MOST_BYTES:
                return Verdict(self.name, about, "compile", "the file has more than 16 MB")
            text = self.path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return Verdict(self.name, about, "compile", "the file is not UTF-8 text")
        if "\0" in text:
            return Verdict(self.name, about, "compile", "the file has bytes that are no text")
        if self.reference is not None:
            return judge_pair(text, self.reference, options, module, self.name)
        assert self.task is not None
        if self.path.suffix == ".c":
            return judge_c(text, self.task, options, self.name)
        if self.path.suffix == ".cu":
            return judge_cuda(text, self.task, options, self.name)
        return judge_function(text, self.task, options, module, self.name)


def collect(
    paths: Sequence[Path], task: str, reference: Path | None, quick: bool = False
) -> list[Submission]:
    """The submissions among files and folders.

    Args:
        paths: files, and folders of them.
        task: the task of all; with ``""``, a file's name without its ending says which.
        reference: the reference of all Python files, or a folder with one of the same name for
            each.
        quick: whether workloads of the bench have small sizes.

    Raises ValueError for paths, tasks and references that do not exist.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if p.suffix in ENDINGS and p.is_file())
            if not inside:
                raise ValueError(f"the folder {path} has no file in C, CUDA C or Python")
            files += inside
        elif not path.is_file():
            raise ValueError(f"there is no file {path}")
        elif path.suffix not in ENDINGS:
            raise ValueError(f"{path} ends in none of {', '.join(ENDINGS)}")
        else:
            files.append(path)
    found = []
    for path in files:
        if path.suffix == ".py" and reference is not None:
            against = reference / path.name if reference.is_dir() else reference
            if not against.is_file():
                raise ValueError(f"there is no reference {against}")
            found.append(Submission(path, reference=against))
        else:
            found.append(Submission(path, find(task or path.stem, quick)))
    return found
