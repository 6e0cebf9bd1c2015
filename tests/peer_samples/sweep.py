"""Calls every operator of PyTorch's test database in PyTorch and in lazyt, and lists what differs.

Run it from the project's root with a Python that has PyTorch::

    PYTHONPATH=. LAZYT_TIER=0 python tests/peer_samples/sweep.py --out sweep.json
    PYTHONPATH=. python tests/peer_samples/sweep.py --only linalg.inv --types complex128 --show 5

Where ``record`` keeps a few samples of real numbers for the suite, this calls all samples, of
complex numbers too, in both libraries in one process: it needs PyTorch and is no test of the suite.
An operator is right in a dtype when every sample gives the same dtype, shape and values, and the
same first gradients, where PyTorch has some. Samples that PyTorch refuses are left out.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import json
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lazyt
from lazyt.compat import private_functions
from lazyt.compat.served.packages import aten
from tests.peer_samples.replay import function_of

TYPES = ("float32", "float64", "complex64", "complex128", "bool", "int64", "bfloat16")
WITH_GRADIENTS = ("float32", "float64", "complex64", "complex128")
_TOLERANCES = {
    "float64": (1e-6, 1e-8), "complex128": (1e-6, 1e-8), "float32": (1e-3, 1e-4),
    "complex64": (1e-3, 1e-4), "float16": (3e-2, 3e-2), "bfloat16": (1e-1, 1e-1),
}  # fmt: skip
#: Results whose values are not defined, and drawn ones: only kinds and sizes are compared.
_ANY_VALUES = (
    "empty", "new_empty", "empty_like", "empty_permuted", "empty_strided", "new_empty_strided",
    "rand_like", "randint_like", "randn_like", "randint", "randn", "bernoulli", "multinomial",
    "normal", "cauchy", "exponential", "geometric", "log_normal", "uniform", "randperm",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "resize_", "resize_as_",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "nn.functional.rrelu", "nn.functional.multi_head_attention_forward", "svd_lowrank",
    "pca_lowrank",
)  # fmt: skip
_CHOOSING = ("sort", "topk", "kthvalue", "mode", "median", "nanmedian", "msort")
#: Through which PyTorch's own tests differentiate, as results depend on a part of the operand.
_WRAPPERS = (
    "gradcheck_wrapper_hermitian_input", "gradcheck_wrapper_triangular_input",
    "gradcheck_wrapper_triangular_input_real_positive_diagonal", "gradcheck_wrapper_ctc_loss",
)  # fmt: skip
#: Vectors of these have a phase of their own: parts of results, by magnitude.
_PHASES = {"svd": (0, 2), "linalg.svd": (0, 2), "linalg.eigh": (1,), "linalg.eig": (1,)}


class Different(Exception):
    """A result that is not PyTorch's; the first argument says in which way."""


class TooLong(Exception):
    """A sample took longer than it may."""


class _Lazyt:
    """lazyt by PyTorch's names, private ones too."""

    def __getattr__(self, name: str) -> Any:
        if name == "ops":
            return types.SimpleNamespace(aten=aten)
        try:
            return getattr(lazyt, name)
        except AttributeError:
            return getattr(private_functions, name)


def _with_lazyt(function: Any) -> Any:
    """A Python function of the database that finds lazyt where it says torch."""
    if not isinstance(function, types.FunctionType):
        return None
    names = {**function.__globals__, "torch": _Lazyt()}
    for name in set(_WRAPPERS).intersection(function.__code__.co_names):
        names[name] = _with_lazyt(names[name])
    cells = function.__closure__
    if cells:
        inner = [_with_lazyt(c.cell_contents) or c.cell_contents for c in cells]
        cells = tuple(types.CellType(c) for c in inner)
    made = types.FunctionType(function.__code__, names, None, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def lazyt_function(op: Any) -> Callable[..., Any] | None:
    """lazyt's function for an operator of the database."""
    name = op.name
    label = f"{name}:{op.variant_test_name}" if op.variant_test_name else name
    if name.startswith(("masked.", "signal.")):
        if name.startswith("masked."):
            with contextlib.suppress(ImportError):
                importlib.import_module("lazyt.masked")
        found: Any = lazyt
        with contextlib.suppress(AttributeError):
            for part in name.split("."):
                found = getattr(found, part)
            return found  # type: ignore[no-any-return]
        return None
    if isinstance(op.op, types.FunctionType) and (
        op.op.__name__ == "<lambda>" or op.op.__module__.startswith("torch.testing")
    ):
        made = _with_lazyt(op.op)
        if made is not None:
            return made  # type: ignore[no-any-return]
    last = name.removesuffix(".default").rpartition(".")[2]
    return function_of(label) or getattr(private_functions, last, None)


def _wrapper_of(op: Any) -> Any:
    """Through what PyTorch's tests differentiate an operator, or None."""
    wrapper = op.gradcheck_wrapper
    named = (wrapper.__name__, *wrapper.__code__.co_names)
    return wrapper if any(name in _WRAPPERS for name in named) else None


def _is_drawn(op: Any, call: Any) -> bool:
    """Whether what a call gives depends on numbers that are drawn."""
    return op.name in _ANY_VALUES or bool(call[2].get("dropout_p"))


def _phases(value: Any) -> Any:
    """Complex logarithms with imaginary parts in one turn."""
    turn = 2 * np.pi
    imag = value.imag - turn * (value.imag / turn).round()
    near = (abs(abs(imag) - turn / 2) < 1e-3) & (imag < 0)
    return value - (value.imag - imag - turn * near) * 1j


def _wrapped(wrapper: Any, function: Any, call: Any) -> Any:
    return wrapper(function, call[0], *call[1], **call[2])


class Sides:
    """Values of one library as those of the other."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def across(self, value: Any) -> Any:
        """A value of PyTorch's as lazyt has it."""
        torch = self.torch
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(self.across(v) for v in value)
        if isinstance(value, dict):
            return {k: self.across(v) for k, v in value.items()}
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return getattr(lazyt, str(value).rpartition(".")[2])
        if isinstance(value, torch.device):
            return lazyt.device(str(value))
        if isinstance(value, torch.nn.PairwiseDistance):
            return lazyt.nn.PairwiseDistance(value.norm, value.eps, value.keepdim)
        if isinstance(value, types.FunctionType):
            return _with_lazyt(value)
        return value

    def _tensor(self, value: Any) -> Any:
        torch = self.torch
        plain = value.detach()
        if plain.layout is not torch.strided:
            raise ValueError(f"a tensor of layout {plain.layout}")
        if plain.is_conj():
            made = self._tensor(plain.conj()).conj()
        elif plain.is_neg():
            made = -self._tensor(-plain)
        else:
            whole = torch.empty(0, dtype=plain.dtype).set_(plain.untyped_storage())
            flat = lazyt_flat(whole, torch)
            made = flat.as_strided(plain.shape, plain.stride(), plain.storage_offset())
        return made.requires_grad_() if value.requires_grad and value.is_leaf else made

    def flat_tensors(self, value: Any, kind: Any) -> Iterator[Any]:
        """All tensors of a library in a nested value."""
        if isinstance(value, kind):
            yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from self.flat_tensors(item, kind)
        elif isinstance(value, dict):
            for item in value.values():
                yield from self.flat_tensors(item, kind)


def lazyt_flat(flat: Any, torch: Any) -> Any:
    """A 1-d tensor of PyTorch's in lazyt."""
    name = str(flat.dtype).rpartition(".")[2]
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        bits = torch.int16 if name == "bfloat16" else torch.uint8
        numbers = flat.view(bits).numpy().copy()
        return lazyt.tensor(numbers).view(getattr(lazyt, name))
    return lazyt.tensor(flat.numpy().copy())


def numbers(tensor: Any) -> Any:
    """A tensor's values as numbers wide enough for all."""
    plain = tensor.detach().resolve_conj().resolve_neg().clone()
    if plain.is_complex():
        return np.asarray(plain.numpy()).astype(np.complex128)
    if plain.dtype.is_floating_point:
        return np.asarray(plain.double().numpy())
    return np.asarray(plain.numpy())


def compare(got: Any, wanted: Any, torch: Any, values: bool, phases: tuple[int, ...] = ()) -> None:
    """Raises Different where a nested result is not the other library's."""
    if isinstance(wanted, torch.Tensor):
        if not isinstance(got, lazyt.Tensor):
            raise Different("kind", f"{type(got).__name__}, not a tensor")
        mine, theirs = (str(t.dtype).rpartition(".")[2] for t in (got, wanted))
        if mine != theirs:
            raise Different("dtype", f"{mine}, not {theirs}")
        if tuple(got.shape) != tuple(wanted.shape):
            raise Different("shape", f"{tuple(got.shape)}, not {tuple(wanted.shape)}")
        if not values or not wanted.numel() or wanted.layout is not torch.strided:
            return
        a, b = numbers(got), numbers(wanted)
        if 0 in phases:
            a, b = abs(a), abs(b)
        _close(a, b, theirs)
    elif isinstance(wanted, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(wanted):
            raise Different("kind", f"{type(got).__name__}, not {len(wanted)} results")
        for number, (g, w) in enumerate(zip(got, wanted)):
            compare(
                g,
                w,
                torch,
                values,
                (0,) if number in phases and isinstance(wanted, tuple) and phases != (0,) else (),
            )
    elif isinstance(wanted, torch.dtype):
        if str(got).rpartition(".")[2] != str(wanted).rpartition(".")[2]:
            raise Different("dtype", f"{got}, not {wanted}")
    elif isinstance(wanted, (bool, int, float, complex, np.number)) and values:
        if type(got) is not type(wanted):
            raise Different("kind", f"{got!r}, not {wanted!r}")
        _close(np.asarray(got), np.asarray(wanted), "float32")


def _close(a: Any, b: Any, dtype: str) -> None:
    relative, absolute = _TOLERANCES.get(dtype, (0.0, 0.0))
    if a.dtype.kind in "fc":
        finite = np.isfinite(b)
        absolute *= max(1.0, float(np.max(np.abs(b[finite]), initial=0.0)))
        same = np.isclose(a, b, rtol=relative, atol=absolute, equal_nan=True)
        if a.dtype.kind == "c":  # infinities: which part is infinite, or not a number, may differ
            same |= ~np.isfinite(a) & ~np.isfinite(b)
    else:
        same = a == b
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        raise Different("values", f"{a[at]}, not {b[at]} at {at}, {int((~same).sum())} of {a.size}")


def _seeds(roots: list[Any], library: Any) -> list[Any]:
    made = []
    for root in roots:
        real = library.linspace(0.5, 1.5, root.numel(), dtype=library.float64)
        if root.is_complex():
            real = library.complex(real, 0.25 - real.flip(0) / 3)
        made.append(real.to(root.dtype).reshape(root.shape))
    return made


class Sweep:
    """Samples of operators in both libraries."""

    def __init__(self, torch: Any, limit: int, seconds: int) -> None:
        self.torch, self.limit, self.seconds = torch, limit, seconds
        self.sides = Sides(torch)

    def operator(self, op: Any, dtype: str) -> dict[str, Any] | None:
        """How many samples of an operator were right, and what was not; None if it has none."""
        torch = self.torch
        kind = getattr(torch, dtype)
        if not op.supports_dtype(kind, "cpu"):
            return None
        grad = (
            dtype in WITH_GRADIENTS
            and op.supports_autograd
            and kind in op.supported_backward_dtypes("cpu")
        )
        torch.manual_seed(0)
        try:
            samples = list(op.sample_inputs("cpu", kind, requires_grad=grad))
        except Exception as error:
            return {"skipped": f"no samples: {type(error).__name__}: {error}"[:300]}
        if len(samples) > self.limit:
            step = len(samples) / self.limit
            samples = [samples[int(i * step)] for i in range(self.limit)]
        function = lazyt_function(op)
        row: dict[str, Any] = {"ok": 0, "total": 0, "gradients": 0, "failures": []}
        for sample in samples:
            before = collections.Counter(row)
            signal.alarm(self.seconds)
            try:
                self._sample(op, function, sample, row)
            except TooLong:
                row["total"] = before["total"] + 1
                row["failures"].append(("time", f"longer than {self.seconds} s", ""))
            finally:
                signal.alarm(0)
        return row if row["total"] else {"skipped": "PyTorch refuses its samples"}

    def _sample(self, op: Any, function: Any, sample: Any, row: dict[str, Any]) -> None:
        torch, sides = self.torch, self.sides
        call = (sample.input, tuple(sample.args), dict(sample.kwargs))
        try:
            mine = sides.across(call)
        except (ValueError, TypeError, AttributeError) as error:
            if "layout" not in str(error):
                row["total"] += 1
                row["failures"].append(("input", str(error)[:200], describe(call, torch)))
            return
        whole = call[2].get("some") is False or bool(call[2].get("full_matrices"))
        free = whole and op.name in _PHASES  # any vectors that are orthogonal to the others
        wrapper = _wrapper_of(op)
        try:
            torch.manual_seed(0)
            wanted = op.op(call[0], *call[1], **call[2])
            result = wanted if wrapper is None else _wrapped(wrapper, op.op, call)
            slopes = self._slopes(result, call, sample.output_process_fn_grad, torch)
        except TooLong:
            raise
        except Exception:
            return
        row["total"] += 1
        stage = "forward"
        try:
            if function is None:
                raise Different("missing", op.name)
            lazyt.manual_seed(0)
            got = function(mine[0], *mine[1], **mine[2])
            self._compare_results(op, (got, mine), (wanted, call), free)
            if slopes is not None and not free:
                row["gradients"] += 1
                stage = "gradient"
                if wrapper is not None:
                    got = _wrapped(_with_lazyt(wrapper), function, mine)
                self._compare_slopes(got, mine, sample, slopes, _is_drawn(op, call))
            row["ok"] += 1
        except TooLong:
            raise
        except Different as error:
            kind = error.args[0] if stage == "forward" else f"gradient {error.args[0]}"
            row["failures"].append((kind, error.args[1], describe(call, torch)))
        except Exception as error:
            text = f"{type(error).__name__}: {str(error).strip()}"[:300]
            row["failures"].append((f"{stage} error", text, describe(call, torch)))

    def _compare_results(self, op: Any, ours: Any, theirs: Any, free: bool) -> None:
        """Raises Different where results, each with its call, are not the same."""
        (got, mine), (wanted, call) = ours, theirs
        if free:
            got, wanted = got[1], wanted[1]
        elif op.name in _CHOOSING and isinstance(wanted, (tuple, list)):
            got, wanted = got[0], wanted[0]  # which of equal elements is chosen is not said
        elif op.name == "argsort":
            along = call[1][0] if call[1] else call[2].get("dim", -1)
            if call[0].ndim:
                got, wanted = mine[0].gather(along, got), call[0].gather(along, wanted)
        elif op.name == "logcumsumexp" and wanted.is_complex():
            got, wanted = _phases(got), _phases(wanted)
        compare(got, wanted, self.torch, not _is_drawn(op, call), _PHASES.get(op.name, ()))

    def _compare_slopes(
        self, got: Any, mine: Any, sample: Any, wanted: list[Any], drawn: bool
    ) -> None:
        """Raises Different where gradients are not the same."""
        process = sample.output_process_fn_grad
        if isinstance(process, types.FunctionType):
            process = _with_lazyt(process)
        slopes = self._slopes(got, mine, process, lazyt)
        if slopes is None and any(w is not None and np.any(numbers(w) != 0) for w in wanted):
            raise Different("gradient", "no result requires a gradient")
        for number, (a, b) in enumerate(zip(slopes or [None] * len(wanted), wanted, strict=True)):
            if a is not None and b is not None:
                compare(a, b, self.torch, not drawn and not self.torch.isnan(b).all())
                continue
            one = b if a is None else a
            if one is not None and not drawn and np.any(numbers(one) != 0):
                raise Different("gradient", f"{number}: {a}, not {b}")

    def _slopes(self, result: Any, call: Any, process: Any, library: Any) -> list[Any] | None:
        kind = library.Tensor
        leaves = [t for t in self.sides.flat_tensors(call, kind) if t.requires_grad]
        if not leaves:
            return None
        if process is not None:
            result = process(result)
        roots = [t for t in self.sides.flat_tensors(result, kind) if t.requires_grad]
        if not roots:
            return None
        found = library.autograd.grad(roots, leaves, _seeds(roots, library), allow_unused=True)
        return list(found)


def describe(value: Any, torch: Any) -> str:
    """A call in few words."""
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).rpartition(".")[2]
        marks = "c" * value.is_conj() + "n" * value.is_neg() + "t" * (not value.is_contiguous())
        return f"{kind}{list(value.shape)}{marks}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(describe(v, torch) for v in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}={describe(v, torch)}" for k, v in value.items()) + "}"
    return repr(value)[:60]


def _stop(*_: Any) -> None:
    raise TooLong


def summary(found: dict[str, dict[str, Any]]) -> str:
    """How many operators are right, by dtype."""
    lines = []
    for dtype in TYPES:
        rows = [r[dtype] for r in found.values() if "total" in r.get(dtype, {})]
        if rows:
            right = sum(r["ok"] == r["total"] for r in rows)
            good, total = sum(r["ok"] for r in rows), sum(r["total"] for r in rows)
            slopes = sum(r["gradients"] for r in rows)
            lines.append(
                f"{dtype:11}{right:4} of {len(rows)} operators ({right / len(rows):.1%}), "
                f"{good} of {total} samples ({good / total:.2%}), {slopes} with gradients"
            )
    return "\n".join(lines)


def main() -> None:
    """Calls what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", help="names of operators, or their beginnings with *")
    parser.add_argument("--types", nargs="*", default=TYPES)
    parser.add_argument("--limit", type=int, default=40, help="samples of an operator and dtype")
    parser.add_argument("--seconds", type=int, default=20, help="a sample may take")
    parser.add_argument("--part", default="0/1", help="this of so many parts, as 0/2")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=int, default=2, help="failures of an operator and dtype")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    database: Any = importlib.import_module("torch.testing._internal.common_methods_invocations")
    signal.signal(signal.SIGALRM, _stop)
    sweep = Sweep(torch, chosen.limit, chosen.seconds)
    part, parts = map(int, chosen.part.split("/"))
    found: dict[str, dict[str, Any]] = {}
    for number, op in enumerate(database.op_db):
        if number % parts != part or not _named(op, chosen.only):
            continue
        rows = {t: r for t in chosen.types if (r := sweep.operator(op, t)) is not None}
        found[op.full_name] = rows
        for dtype, row in rows.items():
            for kind, text, call in row.get("failures", [])[: chosen.show]:
                print(
                    f"{op.full_name} {dtype} {row['ok']}/{row['total']} [{kind}] {text} {call}",
                    flush=True,
                )
        if chosen.out:
            chosen.out.write_text(json.dumps(found))
    print(summary(found), file=sys.stderr)


def _named(op: Any, only: list[str] | None) -> bool:
    if not only:
        return True
    names = (op.name, op.full_name)
    return any(n == o or (o.endswith("*") and n.startswith(o[:-1])) for o in only for n in names)


if __name__ == "__main__":
    main()
