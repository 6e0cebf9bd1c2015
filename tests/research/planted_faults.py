"""Faults to plant in the compiler, one at a time, and the stage that each belongs to.

A fault is a change of the text of one file of the package. ``LAZYT_PLANT=NAME`` with
``--load tests/research/planted_faults.py`` plants one in a process before the file is imported;
``python tests/research/planted_faults.py`` plants all of them in turn and says which of them
``lazyt fuzz`` finds and when, which stage ``lazyt bisect`` names, and what ``lazyt reduce`` leaves.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

PACKAGE = Path(__file__).resolve().parents[2] / "lazyt"


class Fault(NamedTuple):
    """A change of a file.

    Attributes:
        file: relative to the package.
        old, new: what is replaced, once, by what.
        stage: a regular expression that the stage's name has to match.
    """

    file: str
    old: str
    new: str
    stage: str


_SIMPLIFY = "pass . simplify"
FAULTS: dict[str, Fault] = {
    # passes
    "slices of slices begin too early": Fault(
        "passes/simplify.py",
        "(start + first * step, size, step * stride)",
        "(start + first, size, step * stride)",
        _SIMPLIFY,
    ),
    "slices of slices have the outer stride": Fault(
        "passes/simplify.py", "size, step * stride)", "size, stride)", _SIMPLIFY
    ),
    "slices of permutations take other axes": Fault(
        "passes/simplify.py",
        "inner = [ranges[axes.index(axis)] for axis in range(len(axes))]",
        "inner = [ranges[axes[axis]] for axis in range(len(axes))]",
        _SIMPLIFY,
    ),
    "slices of a piece begin at the whole's place": Fault(
        "passes/simplify.py", "(start - first, size, step)", "(start, size, step)", _SIMPLIFY
    ),
    "slices of borders are zero": Fault(
        "passes/simplify.py",
        "ops.broadcast_to(ops.constant(fill.value, node.dtype)",
        "ops.broadcast_to(ops.constant(0, node.dtype)",
        _SIMPLIFY,
    ),
    "a border is cut by one": Fault(
        "passes/simplify.py",
        "before.append(max(border - start, 0))",
        "before.append(max(border - start, 0) * (border < 2))",
        _SIMPLIFY,
    ),
    "permutations are joined the wrong way round": Fault(
        "passes/simplify.py",
        "axes = tuple(source.params.axes[a] for a in axes)",
        "axes = tuple(axes[a] for a in source.params.axes)",
        _SIMPLIFY,
    ),
    "flips of several axes vanish": Fault(
        "passes/simplify.py",
        'if name == "flip" and not node.params.axes:',
        'if name == "flip" and len(node.params.axes) != 1:',
        _SIMPLIFY,
    ),
    "a write in steps is one of everything": Fault(
        "passes/simplify.py",
        "return same and not any(node.params.starts) and all(s == 1 for s in node.params.steps)",
        "return same",
        _SIMPLIFY,
    ),
    "products keep the order of their axes": Fault(
        "passes/simplify.py",
        "[params.out[a] for a in axes])",
        "[params.out[a] for a in axes][::-1])",
        _SIMPLIFY,
    ),
    "reductions fold the first run first": Fault(
        "passes/split_reductions.py", "in reversed(runs):", "in runs:", "pass . split"
    ),
    "sums of nothing are one": Fault(
        "passes/split_reductions.py",
        "ops.constant(IDENTITIES[kind], node.dtype)",
        "ops.constant(1, node.dtype)",
        "pass . split",
    ),
    "reductions of extents of one are dropped with others": Fault(
        "passes/split_reductions.py",
        "if not real:",
        "if len(real) < len(axes) and kind == 'max':",
        "pass . split",
    ),
    "updates by the other operand": Fault(
        "passes/simplify.py",
        "        return inputs[1]\n    return node",
        "        return inputs[0]\n    return node",
        _SIMPLIFY,
    ),
    # fusion and lowering
    "members may read anywhere": Fault(
        "passes/fuse.py",
        "if home > part or (home == part and where != group.place(item)):",
        "if home > part:",
        "fusion|lowering",
    ),
    "groups of the same rows join whatever they read": Fault(
        "passes/fuse.py",
        "return part == 0 and all(at == place for at in group.places.get(read, ()))",
        "return part == 0",
        "fusion|lowering",
    ),
    "what other groups read is not stored": Fault(
        "passes/fuse.py",
        "            needed |= group.reads\n",
        "            needed |= set()\n",
        "fusion",
    ),
    "groups run in the order of their making": Fault(
        "passes/fuse.py", "                if waiting:\n", "                if False:\n", "fusion"
    ),
    "positions of extremes are the last": Fault(
        "codegen/lower/rows.py",
        'call("gt" if kind == "argmax" else "lt", value, best)',
        'call("ge" if kind == "argmax" else "le", value, best)',
        "lowering",
    ),
    "short folds forget a lane": Fault(
        "codegen/lower/rows.py",
        "            if lane + half < len(lanes):\n",
        "            if lane + half < len(lanes) - (len(lanes) == 3):\n",
        "lowering",
    ),
    "writes begin at zero": Fault(
        "codegen/lower/heavy.py",
        "variable(a) * step + start\n",
        "variable(a) * step + min(start, 2)\n",
        "lowering",
    ),
    "scattered positions are one less": Fault(
        "codegen/lower/heavy.py",
        "const(max(extent - 1, 0), int64))",
        "const(max(extent - 2, 0), int64))",
        "lowering|memory plan",
    ),
    "running folds of rows run along another axis": Fault(
        "codegen/lower/heavy.py",
        'Scan("running", kind, value, dtype)',
        'Scan("running", "sum" if kind == "prod" else kind, value, dtype)',
        "lowering",
    ),
    "sorted rows are ascending": Fault(
        "codegen/lower/groups.py",
        '(("descending", int(node.params.descending)),)',
        '(("descending", 0),)',
        "lowering",
    ),
    # printers
    "folds stop at half": Fault(
        "codegen/c/loops.py",
        "            half //= 2\n        if half:",
        "            half //= 4\n        if half:",
        "C printer",
    ),
    "the last element of a row is left out": Fault(
        "codegen/c/loops.py",
        'rest = ct.binary("-", ct.name("end"), ct.name("k"))',
        'rest = ct.binary("-", ct.binary("-", ct.name("end"), ct.integer(1)), ct.name("k"))',
        "C printer",
    ),
    "running values begin with the first element of all": Fault(
        "codegen/c/loops.py",
        "self.e.identity(scan.kind, scan.dtype)",
        'self.e.identity("prod", scan.dtype)',
        "C printer",
    ),
    "lanes of all folds begin with zero": Fault(
        "codegen/c/loops.py",
        "[ct.assign(acc, self.e.identity(r.kind, dtype))]",
        '[ct.assign(acc, self.e.identity("sum", dtype))]',
        "C printer",
    ),
    "exp has a wrong coefficient": Fault(
        "codegen/prelude/exp.h", "0.16666542f, r, 0.5f", "0.16656542f, r, 0.5f", "C printer"
    ),
    "division of integers rounds to zero": Fault(
        "codegen/prelude/integer.h",
        "if (y > 0) return (lz_@S)(q ^ sign);",
        "if (y > 0) return (lz_@S)(sign ? -(lz_@W)q : (lz_@W)q);",
        "C printer",
    ),
    "remainders have the sign of x": Fault(
        "codegen/prelude/integer.h",
        "(r != 0 && (r < 0) != (y < 0) ? r + y : r)",
        "(r)",
        "C printer",
    ),
    "whole vectors begin one element too late": Fault(
        "codegen/c/loops.py",
        'ct.binary("-", ct.name("end"), ct.integer(LANES - 1)) if ragged',
        'ct.binary("-", ct.name("end"), ct.integer(LANES - 2)) if ragged',
        "C printer",
    ),
    "sums over two blocks are finished in the first": Fault(
        "codegen/matmul/packed.py",
        "return spec.k <= form.k_block and not spec.any_size",
        "return spec.k < 2 * form.k_block and not spec.any_size",
        "C printer",
    ),
    "vectors on GPUs may begin anywhere": Fault(
        "codegen/cuda/threads.py",
        "return flat.const % width != 0 or any(factor % width for _, factor in flat.terms)",
        "return any(factor % width for _, factor in flat.terms)",
        "CUDA printer",
    ),
    "blocks of threads do one tile each": Fault(
        "codegen/cuda/threads.py",
        "    if tiles <= most_blocks:\n",
        "    if tiles <= 2 * most_blocks:\n",
        "CUDA printer",
    ),
    "steps behind the last tile of a product are loaded": Fault(
        "codegen/cuda/contraction.py",
        "if self.steps % self.depth:\n            short",
        "if self.steps < self.depth:\n            short",
        "CUDA printer",
    ),
    # interpreters
    "flips do nothing, in meaning": Fault(
        "ops/movement.py",
        "return np.flip(array, node.params.axes)",
        "return np.array(array)",
        "interpreter",
    ),
    "running sums begin behind the first element, in meaning": Fault(
        "ops/reduction.py",
        "return found + 0  # sums",
        "return found - array * 0.5  # sums",
        "interpreter",
    ),
    "sorted rows are ascending, in meaning": Fault(
        "ops/indexing.py", "    if not descending:\n", "    if True:\n", "interpreter"
    ),
    "positions below zero count from the end, in meaning": Fault(
        "ops/indexing.py",
        "else index).astype(np.int64).clip(0)",
        "else index).astype(np.int64)",
        "interpreter",
    ),
}


def patched(file: str, text: str) -> str:
    """The text of a file with the planted fault in it. Raises ValueError where it does not fit."""
    name = os.environ.get("LAZYT_PLANT", "")
    fault = FAULTS.get(name)
    if fault is None or fault.file != file:
        return text
    if text.count(fault.old) < 1:
        raise ValueError(f"{name}: {file} has no {fault.old!r}")
    return text.replace(fault.old, fault.new, 1)


class _Loader(importlib.machinery.SourceFileLoader):
    def get_data(self, path: str) -> bytes:
        data = super().get_data(path)
        if not path.endswith(".py"):
            return data
        return patched(str(Path(path).relative_to(PACKAGE)), data.decode()).encode()

    def path_stats(self, path: str) -> dict[str, float]:
        raise OSError("bytecode is of the text without the fault")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, path: Path) -> None:
        self.module, self.path = module, path

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.module:
            return None
        loader = _Loader(name, str(self.path))
        return importlib.util.spec_from_file_location(name, self.path, loader=loader)


def _functions(
    body: Sequence[ast.stmt], owner: str = ""
) -> Iterator[tuple[tuple[str, str], ast.FunctionDef]]:
    """The functions of a module, and the methods of its classes, by class and name."""
    for item in body:
        if isinstance(item, ast.FunctionDef):
            yield (owner, item.name), item
        elif isinstance(item, ast.ClassDef):
            yield from _functions(item.body, item.name)


def plant() -> None:
    """Has the fault of ``LAZYT_PLANT`` in this process."""
    fault = FAULTS[os.environ["LAZYT_PLANT"]]
    path = PACKAGE / fault.file
    if path.suffix == ".h":
        real = Path.read_text

        def read_text(self: Path, *given: object, **named: object) -> str:
            text = real(self, *given, **named)  # type: ignore[arg-type]
            return patched(fault.file, text) if self == path else text

        Path.read_text = read_text  # type: ignore[method-assign]
        return
    module = "lazyt." + fault.file.removesuffix(".py").replace("/", ".")
    finder = _Finder(module, path)
    if module in sys.modules:  # what differs gets its code there
        was, now = (
            dict(_functions(ast.parse(text).body))
            for text in (path.read_text(), patched(fault.file, path.read_text()))
        )
        differs = [key for key, item in now.items() if ast.dump(item) != ast.dump(was[key])]
        if not differs:
            raise ValueError(f"{os.environ['LAZYT_PLANT']}: no function of {fault.file} differs")
        for owner, name in differs:
            held = vars(sys.modules[module])
            own: dict[str, Any] = {}
            item = now[owner, name]
            item.decorator_list = []
            exec(compile(ast.Module([item], []), str(path), "exec"), held, own)
            target = inspect.unwrap(vars(held[owner])[name] if owner else held[name])
            getattr(target, "__func__", target).__code__ = own[name].__code__
        return
    sys.meta_path.insert(0, finder)


class Seen(NamedTuple):
    """What the commands say of a planted fault.

    Attributes:
        seconds: how long ``lazyt fuzz`` looked for it, until it found it or gave up.
        fuzzed, bisected: the stage that ``lazyt fuzz`` and ``lazyt bisect`` name, empty where they
            find nothing wrong.
        nodes: of the graph that ``lazyt reduce`` leaves, None where it fails.
        valid: whether that is a graph, for the package without the fault.
        told: what the commands say beside that.
    """

    seconds: float
    fuzzed: str = ""
    bisected: str = ""
    nodes: int | None = None
    valid: bool = True
    told: str = ""


def look(name: str, seconds: float, folder: Path, *, jobs: int = 1, target: str = "") -> Seen:
    """Plants a fault, lets ``lazyt fuzz`` look for it, and ``lazyt bisect`` and ``lazyt reduce`` at
    what that found first.

    Args:
        name: of the fault.
        seconds: for fuzzing, at most.
        folder: for what is found.
        jobs: processes of ``lazyt fuzz``.
        target: by default cuda for faults of its printer, else c.
    """
    target = target or ("cuda" if FAULTS[name].stage == "CUDA printer" else "c")
    out = folder / re.sub(r"\W+", "-", name)
    environment = os.environ | {"LAZYT_PLANT": name, "LAZYT_CACHE_DIR": str(folder / "cache")}

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "lazyt", *map(str, words)]
        command += ["--load", __file__, "--target", target]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    begun = time.monotonic()
    done = run(
        "fuzz", "--seconds", seconds, "--most", 1, "--no-reduce", "--jobs", jobs, "--out", out
    )
    took = time.monotonic() - begun
    found = sorted(out.glob("*/finding.txt"))
    if not found:
        return Seen(took, told="" if done.returncode == 0 else done.stderr[-2000:])
    fuzzed = found[0].read_text().partition(": ")[0]
    graph, reduced = found[0].with_name("graph.ir"), found[0].with_name("small.ir")
    given = re.search(r"^again: .*( --seed .*)$", found[0].read_text(), re.MULTILINE)
    inputs = given[1].split() if given else []
    done = run("bisect", graph, *inputs)
    bisected = done.stdout.partition(": ")[0] if done.returncode == 1 else ""
    told = (done.stdout + done.stderr).partition("\n")[0]
    done = run("reduce", graph, "-o", reduced, *inputs)
    if not reduced.exists():
        return Seen(took, fuzzed, bisected, None, True, f"{told}; {done.stderr[-500:]}")
    nodes, valid = measured(reduced.read_text())
    return Seen(took, fuzzed, bisected, nodes, valid, told)


def measured(text: str) -> tuple[int, bool]:
    """How many nodes beside inputs a graph's text has, and whether it is a graph."""
    from lazyt.errors import LazytError
    from lazyt.ir.parser import parse_graph
    from lazyt.ir.verifier import verify_graph
    from lazyt.ops import OPS

    nodes = text.count("\n%")
    try:
        verify_graph(parse_graph(text, OPS)[1])
    except LazytError:
        return nodes, False
    return nodes, True


def row(name: str, seen: Seen) -> str:
    """A fault's row of the table."""
    right = re.match(FAULTS[name].stage, seen.bisected) is not None
    found = f"{seen.seconds:.0f} s" if seen.fuzzed else f"not in {seen.seconds:.0f} s"
    stage = (seen.bisected or "-") + ("" if right or not seen.fuzzed else " (wrong)")
    nodes = "-" if seen.nodes is None else f"{seen.nodes}" + " (invalid)" * (not seen.valid)
    return f"| {name} | `{FAULTS[name].file}` | {found} | {stage} | {nodes} |"


def main() -> int:
    """Plants all faults, one after the other, and prints a table; 0 where all are found, the stage
    of all is right, and what they are reduced to are graphs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for each fault, at most")
    parser.add_argument("--only", default="", help="a regular expression for names")
    parser.add_argument("--jobs", type=int, default=1, help="processes that look for it")
    parser.add_argument("--target", default="", help="for all faults (c, or cuda where needed)")
    given = parser.parse_args()
    all_seen: dict[str, Seen] = {}
    print(
        "| fault | in | found after | stage named by bisect | nodes left |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in FAULTS:
            if re.search(given.only, name):
                seen = look(name, given.seconds, Path(folder), jobs=given.jobs, target=given.target)
                all_seen[name] = seen
                print(row(name, seen), flush=True)
                if " (wrong)" in row(name, seen) or not seen.fuzzed:
                    print(f"{name}: fuzz {seen.fuzzed}; {seen.told}", file=sys.stderr, flush=True)
    found = {name: seen for name, seen in all_seen.items() if seen.fuzzed}
    right = sum(
        re.match(FAULTS[name].stage, seen.bisected) is not None for name, seen in found.items()
    )
    sizes = [seen.nodes for seen in found.values() if seen.nodes is not None]
    valid = all(seen.valid for seen in found.values())
    median = statistics.median(sizes) if sizes else "no"
    print(
        f"\n{len(found)} of {len(all_seen)} found, the stage of {right} of these is right, "
        f"{median} nodes (median) and {max(sizes, default=0)} (most) are left, "
        f"{'all' if valid else 'NOT ALL'} of them graphs"
    )
    return 0 if right == len(all_seen) and valid and len(sizes) == right else 1


if __name__ == "__main__":
    sys.exit(main())
elif os.environ.get("LAZYT_PLANT"):
    plant()
