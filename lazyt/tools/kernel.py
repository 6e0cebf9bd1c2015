"""``python -m lazyt kernel run``: kernel text on data and ``kernel check``: CUDA text.

Every kernel of the file is verified and proved in bounds, gets inputs (a file's, or random ones),
and runs: in C, or as the interpreter has it. Its results are printed as digests, compared with the
other way to compute them, or with what a graph means, and timed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyt.errors import LazytError
from lazyt.tools.arguments import Parser, UsageError, read_input

if TYPE_CHECKING:
    from lazyt.ir.dtypes import DType
    from lazyt.ir.kernel import Kernel
    from lazyt.runtime.cuda.checks.text import KernelText

#: How often a kernel is timed.
SAMPLES = 9
Arrays = dict[str, Any]


class MismatchError(LazytError):
    """Two ways to compute a kernel gave different results."""


def _parser() -> Parser:
    parser = Parser(prog="lazyt kernel", description="Run kernel text, check CUDA text.")
    parts = parser.add_subparsers(dest="action", required=True, parser_class=Parser)
    run_ = parts.add_parser("run", loads=True, help="run every kernel of a file, in C")
    run_.add_argument("file", help="kernel text, - for standard input")
    run_.add_argument("--inputs", help="an .npz file with arrays by the buffers' names")
    run_.add_argument("--output", help="an .npz file to write the results to")
    run_.add_argument("--seed", type=int, default=0, help="of random inputs (0)")
    run_.add_argument("--by", choices=("c", "interpreter"), default="c", help="what runs it (c)")
    run_.add_argument(
        "--against", choices=("c", "interpreter", "graph"), help="compare with another way to do it"
    )
    run_.add_argument("--graph", help="graph text, for `--against graph`; leaves are the inputs")
    run_.add_argument(
        "--ulp",
        type=float,
        help="how far results may differ (4; 16 from a graph, which sums freely)",
    )
    run_.add_argument("--time", action="store_true", help="time it, the median of some runs")
    _add_check(parts)
    return parser


# ------------------------------------------------------------------------- arrays


def _names(kernel: Kernel, roles: Sequence[str]) -> list[tuple[str, str, int, DType]]:
    """Arrays of a kernel's arguments: as files call them, the buffer's name, the number of the
    segment, and the type."""
    count = len(kernel.segments)
    found: list[tuple[str, str, int, DType]] = []
    for buffer in kernel.arguments:
        if buffer.role in roles:
            for number in range(max(count, 1)):
                name = f"{buffer.name}.{number}" if count else buffer.name
                found.append((name, buffer.name, number, buffer.dtype))
    return found


def _array(kernel: Kernel, arrays: Mapping[str, Any], name: str, number: int) -> np.ndarray:
    found: np.ndarray = arrays[name][number] if kernel.segments else arrays[name]
    return found


def load_inputs(kernel: Kernel, path: str, arrays: Arrays) -> None:
    """Puts the arrays of a file into a kernel's memory; ``float32`` becomes bfloat16 where wanted.

    Raises UsageError for a file that cannot be read, and for arrays that are missing or do not fit.
    """
    from lazyt.ir.dtypes import bfloat16
    from lazyt.ir.kernel_interpreter import narrow

    try:
        given = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read arrays from {path}: {error}") from None
    if not isinstance(given, np.lib.npyio.NpzFile):
        raise UsageError(f"{path} is no .npz file")
    with given:
        for name, buffer, number, dtype in _names(kernel, ("in", "inout")):
            if name not in given:
                known = ", ".join(given.files) or "none"
                raise UsageError(f"{path} has no array '{name}'; it has {known}")
            array = given[name]
            if dtype is bfloat16 and array.dtype == np.float32:
                array = narrow(array, dtype)
            place = _array(kernel, arrays, buffer, number)
            if array.shape != place.shape or array.dtype != place.dtype:
                wanted = f"{dtype.name}{list(place.shape)}"
                found = f"{array.dtype}{list(array.shape)}"
                raise UsageError(f"{path}: '{name}' has to be {wanted}, it is {found}")
            place[...] = array


def _copied(arrays: Arrays) -> Arrays:
    return {
        name: [item.copy() for item in given] if isinstance(given, list) else given.copy()
        for name, given in arrays.items()
    }


# ---------------------------------------------------------------------- comparison


def ulps(one: np.ndarray, other: np.ndarray, dtype: DType) -> np.ndarray:
    """How many numbers of a type lie between two stored arrays, element by element; 0 for equal
    bits, equal values and two NaN, infinity for a NaN beside a number."""
    from lazyt.ir.kernel_interpreter import widen

    if dtype.kind != "f":
        return np.where(one == other, 0.0, np.inf)
    left, right = widen(one, dtype), widen(other, dtype)
    signed = np.dtype(f"i{dtype.itemsize}")
    steps = []
    for stored in (one, other):
        bits = stored.view(signed).astype(np.int64)
        least = np.int64(-1 << (8 * dtype.itemsize - 1))
        steps.append(np.where(bits < 0, least - bits, bits).astype(np.float64))
    unknown = np.isnan(left), np.isnan(right)
    apart = np.where(unknown[0] ^ unknown[1], np.inf, abs(steps[0] - steps[1]))
    return np.where((unknown[0] & unknown[1]) | (left == right), 0.0, apart)


def compare(
    name: str, found: np.ndarray, expected: np.ndarray, dtype: DType, most: float
) -> tuple[str, bool]:
    """What there is to say about two results, and whether they agree."""
    apart = ulps(found, expected, dtype)
    wrong = int((apart > 0).sum())
    if not wrong:
        bits = found.tobytes() == expected.tobytes()
        return f"{name}: {'the same bits' if bits else 'the same values'}", True
    worst = float(apart.max())
    place = tuple(map(int, np.argwhere(apart == apart.max())[0]))
    far = f"{worst:g} ulp" if dtype.kind == "f" and np.isfinite(worst) else "no number of ulp"
    text = f"{name}: {wrong} of {found.size} elements differ, at most by {far}"
    values = f"{found[place]!s} and {expected[place]!s}"
    return f"{text}, at {list(place)}: {values}", worst <= most


def graph_results(kernel: Kernel, path: str, arrays: Arrays) -> list[np.ndarray]:
    """What a graph means for a kernel's inputs, in the order of its results. Raises UsageError
    where its leaves are not the kernel's inputs, or its roots not the results."""
    from lazyt.ir.parser import parse_graph
    from lazyt.ops import OPS
    from lazyt.runtime.interpreter import interpret

    if kernel.segments or any(b.role == "inout" for b in kernel.buffers):
        raise UsageError("a graph is compared with kernels that have neither segments nor inout")
    leaves, roots = parse_graph(read_input(path), OPS)
    ins = [b for b in kernel.buffers if b.role == "in"]
    outs = [b for b in kernel.buffers if b.role == "out"]
    for what, nodes, buffers in (("leaves", leaves, ins), ("roots", roots, outs)):
        mine = [(n.dtype, n.shape) for n in nodes]
        theirs = [(b.dtype, b.shape) for b in buffers]
        if mine != theirs:
            listed = (", ".join(f"{d.name}{list(s)}" for d, s in each) for each in (mine, theirs))
            raise UsageError("the graph's {} are {}, the kernel's {}".format(what, *listed))

    for leaf, buffer in zip(leaves, ins, strict=True):
        leaf.data = _Held(arrays[buffer.name])
    return interpret(roots)


class _Held:
    """An array in the place of a leaf's memory."""

    place = ""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.nbytes = array, array.nbytes

    def as_numpy(self, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
        """The array, which has that type and shape."""
        assert self.array.dtype == dtype.numpy and self.array.shape == shape
        return self.array


# ---------------------------------------------------------------------------- runs


def _compute(kernel: Kernel, way: str, arrays: Arrays, timed: bool) -> list[str]:
    """Runs a kernel in place; lines about it."""
    if way == "interpreter":
        from lazyt.ir.kernel_interpreter import run_kernel

        before = _copied(arrays) if timed else {}
        run_kernel(kernel, arrays)
        if not timed:
            return []
        seconds = []
        for _ in range(3):
            again = _copied(before)
            begin = perf_counter()
            run_kernel(kernel, again)
            seconds.append(perf_counter() - begin)
        return [_timing(seconds, way)]
    from lazyt.tuning.compiled_kernel import CompiledKernel

    compiled = CompiledKernel(kernel)
    compiled.run(arrays)
    lines = [f"  form: {compiled.note}"] if compiled.note else []
    return [*lines, _timing(compiled.samples(SAMPLES), "C")] if timed else lines


def _timing(seconds: Sequence[float], way: str) -> str:
    middle, least, most = (1e6 * x for x in (median(seconds), min(seconds), max(seconds)))
    return f"  {middle:.2f} us by {way}, the median of {len(seconds)} ({least:.2f} to {most:.2f})"


def run_one(kernel: Kernel, options: Mapping[str, Any]) -> tuple[list[str], Arrays, bool]:
    """Runs a kernel as the command says: what there is to say, the results as files call them, and
    whether they agree with what they are compared with."""
    from lazyt.tuning.compiled_kernel import random_arrays

    arrays = random_arrays(kernel, np.random.default_rng(options["seed"]))
    if options["inputs"]:
        load_inputs(kernel, options["inputs"], arrays)
    before = _copied(arrays)
    lines = [f"kernel {kernel.name}"]
    lines += _compute(kernel, options["by"], arrays, options["time"])
    results: Arrays = {}
    for name, buffer, number, dtype in _names(kernel, ("inout", "out")):
        array = results[name] = _array(kernel, arrays, buffer, number)
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        lines.append(f"  {name}: {dtype.name}{list(array.shape)} {digest}")
    against, agree = options["against"], True
    if against is None:
        return lines, results, agree
    named = _names(kernel, ("inout", "out"))
    if against == "graph":
        expected = graph_results(kernel, options["graph"], before)
    else:
        lines += _compute(kernel, against, before, options["time"])
        expected = [_array(kernel, before, buffer, number) for _, buffer, number, _ in named]
    for (name, _, _, dtype), other in zip(named, expected, strict=True):
        text, same = compare(name, results[name], other, dtype, options["ulp"])
        lines.append(f"  against {against}: {text}")
        agree = agree and same
    return lines, results, agree


def run(argv: Sequence[str]) -> int:
    """The command. Raises UsageError for a command line that cannot be carried out, ParseError and
    VerifyError for bad text, MismatchError where results differ by more than ``--ulp``."""
    import lazyt.ops  # noqa: F401 - registers the scalar functions
    from lazyt.ir.parser import parse_kernels
    from lazyt.tools.opt import check_kernels, warn_of

    options = vars(_parser().parse_args(argv))
    if options["action"] == "check":
        return check(options)
    if options["against"] == options["by"]:
        raise UsageError(f"--against {options['by']} is what runs it: choose another with --by")
    if (options["against"] == "graph") != (options["graph"] is not None):
        raise UsageError("--against graph and --graph FILE go together")
    if options["ulp"] is None:
        options["ulp"] = 16.0 if options["against"] == "graph" else 4.0
    kernels = parse_kernels(read_input(options["file"]))
    if not kernels:
        raise UsageError(f"{options['file']} has no kernel")
    check_kernels(kernels)
    warn_of(kernels)
    if len(kernels) > 1 and (options["inputs"] or options["output"] or options["graph"]):
        raise UsageError(f"--inputs, --output and --graph are for one kernel, not {len(kernels)}")
    agree = True
    for kernel in kernels:
        lines, results, same = run_one(kernel, options)
        agree = agree and same
        print("\n".join(lines))
        if options["output"]:
            _write(options["output"], results)
    if not agree:
        raise MismatchError(f"results differ by more than {options['ulp']:g} ulp")
    return 0


def _write(path: str, results: Arrays) -> None:
    try:
        with open(path, "wb") as file:
            np.savez(file, **results)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}") from None


# ---------------------------------------------------------------- checks of CUDA text


def _add_check(parts: Any) -> None:
    """Adds the command to those of ``lazyt kernel``."""
    check: Parser = parts.add_parser("check", help="find faults of CUDA text, without a GPU")
    check.add_argument("file", help="CUDA text, - for standard input")
    check.add_argument(
        "--kernel", help="the kernel, as in reduce<256>; needed if there are several"
    )
    check.add_argument("--grid", default="1", help="blocks: 4 or 4,2 or 4,2,1 (1)")
    check.add_argument("--block", default="32", help="threads of a block, likewise (32)")
    check.add_argument("--inputs", help="an .npz file with arrays and numbers by parameters' names")
    check.add_argument(
        "--arg", action="append", default=[], metavar="VALUE",
        help="the next parameter that --inputs does not give: 'float[64]' (not written at first; "
        "the kernel has to write it, unless it is const), 'float[64]=random' (or range, or a "
        "number), a number, or null; or NAME=VALUE",
    )  # fmt: skip
    check.add_argument("--output", action="append", default=[], metavar="NAME",
                       help="a parameter whose elements must all be written")  # fmt: skip
    check.add_argument("--shared", type=int, default=0, help="bytes of dynamic shared memory (0)")
    check.add_argument("--orders", type=int, default=3, help="orders of threads and blocks (3)")
    check.add_argument("--seconds", type=float, default=20.0, help="time limit of each (20)")
    check.add_argument("--include", action="append", default=[], metavar="FOLDER",
                       help="where headers are, besides the file's folder")  # fmt: skip
    check.add_argument("--json", action="store_true", help="findings as JSON")


def check(options: Mapping[str, Any]) -> int:
    """Carries the command out: 0 without findings, 1 with some. Raises UsageError, SourceError and
    ArgumentError."""
    from lazyt.runtime.cuda.checks import check_cuda

    source = read_input(options["file"])
    kernel = _cuda_kernel(source, options["kernel"])
    named = options["kernel"] or kernel.name
    arguments = _cuda_arguments(kernel, options["inputs"], options["arg"])
    own = [] if options["file"] == "-" else [os.path.dirname(options["file"]) or "."]
    found = check_cuda(
        source, named, _numbers(options["grid"], "--grid"), _numbers(options["block"], "--block"),
        arguments, options["shared"], outputs=options["output"], orders=options["orders"],
        seconds=options["seconds"], include=[*own, *options["include"]],
    )  # fmt: skip
    if options["json"]:
        print(json.dumps([asdict(item) for item in found], indent=1))
        return 1 if found else 0
    for item in found:
        print(item.describe(source), end="\n\n")
    what = "1 finding" if len(found) == 1 else f"{len(found) or 'no'} findings"
    print(f"{named}: {what} in {options['orders']} orders of threads and blocks")
    return 1 if found else 0


def _cuda_kernel(source: str, named: str | None) -> KernelText:
    from lazyt.runtime.cuda.checks.text import find_kernels

    kernels = find_kernels(source)
    if not kernels:
        raise UsageError("the text has no kernel (no __global__ function with a body)")
    listed = ", ".join(item.name for item in kernels)
    if named is None:
        if len(kernels) > 1:
            raise UsageError(f"there are several kernels: choose with --kernel from {listed}")
        return kernels[0]
    own = named.split("<")[0].strip().split("::")[-1]
    for item in kernels:
        if item.name == own:
            return item
    raise UsageError(f"there is no kernel {named!r}; there are {listed}")


def _numbers(text: str, option: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,10}([,x]\d{1,10}){0,2}", text):
        raise UsageError(f"{option} takes one to three numbers, as in 4,2; got {text!r}")
    return tuple(int(part) for part in re.split("[,x]", text))


def _cuda_arguments(kernel: KernelText, path: str | None, listed: list[str]) -> list[Any]:
    """The argument of each parameter, from a file and from the command line."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            with np.load(path, allow_pickle=False) as given:
                values = {name: given[name] for name in given.files if name in kernel.parameters}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise UsageError(f"cannot read arrays from {path}: {error}") from None
        values = {
            n: a.item() if a.ndim == 0 else np.ascontiguousarray(a) for n, a in values.items()
        }
    rest = []
    for text in listed:
        name, equals, value = text.partition("=")
        if equals and name.strip() in kernel.parameters:
            values[name.strip()] = _value(value)
        else:
            rest.append(text)
    open_ = [name for name in kernel.parameters if name not in values]
    if len(rest) != len(open_):
        wanted = ", ".join(open_) or "nothing more"
        raise UsageError(f"{kernel.name}: --arg is needed for {wanted}; {len(rest)} are given")
    values.update(zip(open_, map(_value, rest), strict=True))
    return [values[name] for name in kernel.parameters]


def _value(text: str) -> Any:
    text = text.strip()
    if text == "null":
        return None
    if "[" in text:
        return text
    for kind in (lambda t: int(t, 0), float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise UsageError(f"--arg {text!r} is no number, no null, and no array such as 'float[64]'")
