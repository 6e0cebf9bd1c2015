"""Scripts of other repositories, run as they are: nanoGPT, minGPT, PyTorch's examples, CleanRL.

They are cloned by commit into ``build/ecosystem/scripts`` (or taken from a folder of clones, see
``--sources``), get tiny data sets that are made here, and run under ``prelude.py``. Their losses
are compared with those that PyTorch gave.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.ecosystem import environment
from bench.ecosystem.entries import FOLDER, ROOT

RECORDED = FOLDER / "recorded_scripts.json"
#: How far a loss may be from PyTorch's.
TOLERANCE = 1e-3
#: The repositories, with the commit that is run.
COMMITS = {
    "karpathy/nanoGPT": "3adf61e154c3fe3fca428ad6bc3818b27a3b8291",
    "karpathy/minGPT": "37baab71b9abea1b76ab957409a1cc2fbfba8a26",
    "pytorch/examples": "77f55b912142e11fcfdf5b530231fb9c52f181e8",
    "vwxyzjn/cleanrl": "fe8d8a03c41a7ef5b523e2e354bd01c363e786bb",
}


@dataclass(frozen=True)
class Script:
    """One script.

    Attributes:
        repository: whose it is.
        path: where it is in there; it is run in its own folder, or in ``folder``.
        arguments: what it gets.
        data: makes what it reads, in the repository's folder.
        stop: whether it is ended after the losses that are compared.
        folder: where it is run.
        double: whether it computes in float64, because last bits grow to differences in float32.
    """

    repository: str
    path: str
    arguments: str = ""
    data: Callable[[Path], None] | None = None
    stop: bool = False
    folder: str | None = None
    double: bool = False

    @property
    def name(self) -> str:
        """What the table calls it."""
        compiled = " (compiled)" if "--compile=True" in self.arguments else ""
        words = self.arguments.split()
        kind = f" ({words[words.index('--model') + 1]})" if "--model" in words else ""
        double = " (float64)" if self.double else ""
        return f"{self.repository.partition('/')[2]}: {self.path}{kind}{compiled}{double}"


def write_digits(root: Path) -> None:
    """Pictures and labels in MNIST's format, for scripts that look for them in ``../data``."""
    drawn = random.Random(1)
    raw = root / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 320), ("t10k", 64)):
        pixels = bytes(drawn.randrange(256) for _ in range(count * 28 * 28))
        labels = bytes(drawn.randrange(10) for _ in range(count))
        head = struct.pack(">HBBIII", 0, 8, 3, count, 28, 28)
        (raw / f"{name}-images-idx3-ubyte").write_bytes(head + pixels)
        head = struct.pack(">HBBI", 0, 8, 1, count)
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(head + labels)


def write_text(path: Path) -> None:
    """Lines of words."""
    drawn = random.Random(0)
    text = "the a to be or not king queen and of his her crown sword night day love thou"
    words = text.split(" ")
    lines = (" ".join(drawn.choice(words) for _ in range(9)) for _ in range(2500))
    path.write_text("\n".join(["O God, O God!", *lines]), encoding="utf-8")


def write_shakespeare(root: Path) -> None:
    """What ``prepare.py`` of nanoGPT makes of a text."""
    folder = root / "data" / "shakespeare_char"
    write_text(folder / "input.txt")
    runpy.run_path(str(folder / "prepare.py"), run_name="__main__")


def write_lines(root: Path) -> None:
    """A text where the script runs."""
    write_text(root / "input.txt")


def write_sentences(root: Path) -> None:
    """Texts in the three files of a corpus."""
    folder = root / "word_language_model" / "data" / "small"
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 200), ("valid", 30), ("test", 30)):
        path = folder / f"{name}.txt"
        write_text(path)
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join([*lines[:count], ""]), encoding="utf-8")


def write_pictures(root: Path) -> None:
    """Pictures where the script has those that it would download."""
    from PIL import Image

    drawn = random.Random(2)
    for name in ("train", "test"):
        folder = root / "super_resolution" / "dataset" / "BSDS300" / "images" / name
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(20 if name == "train" else 2):
            pixels = bytes(drawn.randrange(256) for _ in range(24 * 24 * 3))
            picture = Image.frombytes("RGB", (24, 24), pixels).resize((260, 260))
            picture.save(folder / f"{number}.jpg")


_SMALL = (
    "config/train_shakespeare_char.py --device=cpu --eval_iters=2 --log_interval=1 --block_size=32 "
    "--batch_size=4 --n_layer=2 --n_head=2 --n_embd=32 --max_iters=20 --lr_decay_iters=20 "
    "--dropout=0.0 --eval_interval=20 "
)
_BATCH = "--epochs 1 --batch-size 16 --no-accel"
_WORDS = (
    "--data ./data/small --epochs 1 --emsize 16 --nhid 16 --nhead 2 --batch_size 8 --bptt 10 "
    "--dropout 0 --lr 2 --model "
)
SCRIPTS = (
    Script("karpathy/nanoGPT", "train.py", _SMALL + "--compile=False", write_shakespeare),
    Script("karpathy/nanoGPT", "train.py", _SMALL + "--compile=True", write_shakespeare),
    Script(
        "karpathy/minGPT", "projects/adder/adder.py",
        "--trainer.max_iters=21 --trainer.batch_size=8 --trainer.num_workers=0",
        stop=True, folder=".",
    ),
    Script(
        "karpathy/minGPT", "projects/chargpt/chargpt.py",
        "--trainer.max_iters=21 --trainer.batch_size=4 --trainer.num_workers=0 "
        "--model.model_type=gpt-nano --data.block_size=32",
        write_lines, True, ".",
    ),
    Script("pytorch/examples", "mnist/main.py", _BATCH + " --test-batch-size 32", write_digits),
    Script("pytorch/examples", "mnist_rnn/main.py", "--epochs 1 --batch-size 16", write_digits),
    Script("pytorch/examples", "vae/main.py", _BATCH, write_digits),
    Script(
        "pytorch/examples", "siamese_network/main.py", _BATCH, write_digits, stop=True, double=True
    ),
    *(
        Script("pytorch/examples", "word_language_model/main.py", _WORDS + model, write_sentences)
        for model in ("LSTM", "GRU", "RNN_TANH", "Transformer")
    ),
    Script(
        "pytorch/examples", "dcgan/main.py",
        "--dataset fake --batchSize 4 --niter 1 --ngf 8 --ndf 8 --workers 0 --dry-run", stop=True,
    ),
    Script("pytorch/examples", "regression/main.py"),
    Script("pytorch/examples", "reinforcement_learning/reinforce.py", stop=True),
    Script("pytorch/examples", "reinforcement_learning/actor_critic.py", stop=True),
    Script(
        "pytorch/examples", "super_resolution/main.py",
        "--upscale_factor 4 --batchSize 1 --testBatchSize 1 --nEpochs 1 --threads 0",
        write_pictures, True,
    ),
    Script(
        "vwxyzjn/cleanrl", "cleanrl/ppo.py",
        "--total-timesteps 256 --num-envs 2 --num-steps 32 --no-cuda", stop=True,
    ),
)  # fmt: skip


def checked_out(repository: str, sources: Path | None, commit: str, build: Path) -> Path:
    """The repository at a commit below the folder ``build``, from a folder of clones or GitHub.

    Raises CalledProcessError where there is no such clone, or no network.
    """
    folder = build / repository.replace("/", "-")
    if not (folder / ".git").exists():
        owner, _, name = repository.partition("/")
        known = [] if sources is None else [
            sources / f"{owner}+{name}" / "repo", sources / name, sources / f"{name}.git",
        ]  # fmt: skip
        found = next((str(path) for path in known if path.exists()), None)
        source = found or f"https://github.com/{repository}.git"
        subprocess.run(["git", "clone", "--quiet", "-n", source, str(folder)], check=True)
    git = ["git", "-C", str(folder)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    is_there = any(item.name != ".git" for item in folder.iterdir())
    if head.stdout.strip() != commit or not is_there:
        _leave_out(git, _absent(git, commit))
        subprocess.run([*git, "checkout", "--quiet", commit], check=True)
    return folder


def _absent(git: list[str], commit: str) -> list[str]:
    """Files of a commit that the clone has no content of: large ones, in a folder of clones."""
    listed = subprocess.run(
        [*git, "ls-tree", "-r", "-z", "--format=%(objectname) %(path)", commit],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    files = [line.split(" ", 1) for line in listed.stdout.split("\0") if line]
    known = subprocess.run(
        [*git, "cat-file", "--batch-check"], input="\n".join(name for name, _ in files),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = zip(files, known.stdout.splitlines(), strict=True)
    return [path for (_, path), line in found if line.endswith(" missing")]


def _leave_out(git: list[str], paths: list[str]) -> None:
    """Tells git to check out all files but these."""
    if paths:
        patterns = ["/*", *(f"!/{path}" for path in paths)]
        subprocess.run([*git, "sparse-checkout", "set", "--no-cone", *patterns], check=True)


def run(
    script: Script, root: Path, command: list[str], path: list[Path], recording: bool
) -> dict[str, Any]:
    """What a script told: its first losses, or why it ended."""
    if script.data is not None and not recording:
        made = [*command, "-m", "bench.ecosystem.scripts", script.data.__name__, str(root)]
        known = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(made, cwd=ROOT, env=known, check=True, capture_output=True)
    output = environment.BUILD / "scripts" / "losses.json"
    output.unlink(missing_ok=True)
    where = root / script.path
    folder = where.parent if script.folder is None else root / script.folder
    known = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [*path, root])),
        "LAZYT_CACHE_DIR": str(environment.BUILD / "cache"),
        "PYTHONWARNINGS": "ignore",
        "MPLBACKEND": "Agg",
        **({"ECOSYSTEM_RECORDS": "1"} if recording else {}),
        **({"SCRIPT_IN_DOUBLE": "1"} if script.double else {}),
    }
    whole = [*command, str(FOLDER / "prelude.py"), str(output), "stop" if script.stop else "go on"]
    whole += [str(where), *script.arguments.split()]
    start, seconds = time.monotonic(), 300
    try:
        done = subprocess.run(
            whole, cwd=folder, env=known, capture_output=True, text=True, timeout=seconds
        )
        code, last = done.returncode, done.stderr.strip().splitlines()[-1:]
    except subprocess.TimeoutExpired:
        code, last = -1, [f"took longer than {seconds} s"]
    losses = json.loads(output.read_text(encoding="utf-8")) if output.exists() else []
    told: dict[str, Any] = {"losses": losses, "seconds": round(time.monotonic() - start, 1)}
    if code:
        told["error"] = "".join(last)[:300] or f"ended with status {code}"
    return told


def difference(told: Mapping[str, Any], wanted: list[float] | None) -> str:
    """How the losses differ from PyTorch's, or why there are none; "" where they agree."""
    if "error" in told:
        return str(told["error"])
    if not wanted:
        return "no losses of PyTorch are recorded"
    if len(told["losses"]) != len(wanted):
        return f"{len(told['losses'])} losses, PyTorch has {len(wanted)}"
    for number, (a, b) in enumerate(zip(told["losses"], wanted)):
        if not abs(a - b) <= TOLERANCE * max(1.0, abs(b)):
            return f"loss {number} is {a:.7g}, PyTorch has {b:.7g}"
    return ""


def all_scripts(
    python: Path, env: Path, sources: Path | None, recorder: str | None, only: str = ""
) -> list[tuple[Script, dict[str, Any], str]]:
    """Runs all scripts: each with what it told, and what is wrong about it.

    Args:
        python: the environment's interpreter.
        env: the environment.
        sources: a folder of clones.
        recorder: an interpreter with PyTorch, whose losses are written down instead.
        only: a part of the names of those that are run.
    """
    known: dict[str, list[float]] = {}
    if RECORDED.exists():
        known = json.loads(RECORDED.read_text(encoding="utf-8"))
    found = []
    for script in SCRIPTS:
        plain = script.name.removesuffix(" (compiled)")
        if only not in script.name or (recorder is not None and plain != script.name):
            continue  # what is compiled has the losses of what is not
        commit = COMMITS[script.repository]
        root = checked_out(script.repository, sources, commit, environment.BUILD / "scripts")
        if recorder is None:
            told = run(script, root, [str(python), "-m", "lazyt", "run"], [ROOT], False)
        else:
            packages = environment.site_packages(env)
            told = run(script, root, [recorder], [packages], True)
            if "error" not in told:
                known[script.name] = told["losses"]
        wrong = difference(told, known.get(plain))
        line = f"{script.name}: {wrong or 'yes'} ({told['seconds']:g} s)"
        print(line, file=sys.stderr, flush=True)
        found.append((script, told, wrong))
    if recorder is not None:
        RECORDED.write_text(json.dumps(known, indent=0) + "\n", encoding="utf-8")
    return found


def section(found: list[tuple[Script, dict[str, Any], str]], date: str) -> str:
    """What the page of the docs says about them."""
    good = sum(not wrong for *_, wrong in found)
    rows = [
        f"| {s.name} | {len(t['losses'])} | {w.replace('|', '/') or 'yes'} |" for s, t, w in found
    ]
    return _SECTION.format(date=date, good=good, count=len(found), rows="\n".join(rows))


_SECTION = """## Scripts

Scripts of other repositories, cloned by commit and run unmodified under `python -m lazyt run`, with
tiny data sets. What they draw at random is drawn by NumPy, so that their losses can be compared
with those of PyTorch: the first 20 agree to a thousandth, or the table says what differs.

Run on {date}: {good} of {count} agree.

| script | losses | agree |
|---|---|---|
{rows}
"""


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
