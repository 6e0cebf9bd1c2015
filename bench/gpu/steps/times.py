"""Times of single computations by the device's events: lazyt or PyTorch in a process of its own.

    python -m bench.gpu.steps.times [--framework lazyt|torch|compile] [--only softmax,matmul]

Two sets of inputs take turns and are larger than the L2 together. A time is the median of 7 groups
of calls. ``bytes`` counts inputs and outputs once; ``share`` is that, or the operations, over the
ceiling that GPU_COPY (bytes/s) or GPU_BF16 and GPU_FP32 (operations/s) give.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.gpu.steps.report import DEVICE, EMULATED, SMALL, Report, median

M = 1 << 20
#: The mode of ``torch.compile`` that is measured by default: it takes seconds for each.
COMPILED = (
    "elementwise8", "gelu_bf16", "softmax_4096", "layer_norm_1024", "layer_norm_16384",
    "softmax_131072", "cross_entropy", "linear_gelu_bf16", "layer_norm_1024_grad",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A computation: its inputs, made anew for each set, and what it moves or computes."""

    inputs: Callable[[], tuple[Any, ...]]
    work: Callable[..., Any]
    nbytes: float = 0
    flops: float = 0
    unit: str = "bf16"


def scale(n: int, most: int = 64) -> int:
    """A size of the table, small in rehearsals."""
    return min(n, most) if SMALL else n


class Cases:
    """All computations, by name, of a framework."""

    def __init__(self, t: Any) -> None:
        self.t, self.functional = t, t.nn.functional
        self.found: dict[str, Case] = {}
        self.maps()
        self.rows()
        self.reductions()
        self.windows()
        self.products()
        self.heavy()

    def rand(self, *shape: int, dtype: Any = None) -> Any:
        """Normal numbers."""
        most = 64 if len(shape) < 3 else 8
        x = self.t.randn(*(scale(n, most) for n in shape), device=DEVICE)
        return x if dtype is None else x.to(dtype)

    def whole(self, most: int, count: int) -> Any:
        """Whole numbers below ``most``."""
        return self.t.randint(0, scale(most), (scale(count),), device=DEVICE)

    def many(self, count: int, *shape: int, dtype: Any = None) -> Callable[[], tuple[Any, ...]]:
        """Several tensors of a shape."""
        return lambda: tuple(self.rand(*shape, dtype=dtype) for _ in range(count))

    def gradients(self, work: Callable[..., Any], count: int) -> Callable[..., Any]:
        """Those of the first ``count`` inputs, for the last one as the result's."""

        def both(*args: Any) -> Any:
            leaves = [a.detach().requires_grad_() for a in args[:count]]
            out = work(*leaves, *args[count:-1])
            return self.t.autograd.grad(out, leaves, args[-1])

        return both

    def maps(self) -> None:
        """Element by element."""
        t, functional, half = self.t, self.functional, self.t.bfloat16

        def eight(x: Any) -> Any:
            y = t.abs(x * 1.5 + 0.5)
            return t.relu(t.sqrt(y + 1.0) - x * 0.25)

        self.found |= {
            "elementwise8": Case(self.many(1, 64 * M), eight, 512 * M),
            "add": Case(self.many(2, 64 * M), lambda x, y: x + y, 768 * M),
            "gelu_bf16": Case(self.many(1, 128 * M, dtype=half), functional.gelu, 512 * M),
            "transpose": Case(self.many(1, 8192, 8192), lambda x: x.t().contiguous(), 512 * M),
        }

    def rows(self) -> None:
        """Rows of several lengths, each read and written once if a block can hold it."""
        functional, rand, half = self.functional, self.rand, self.t.bfloat16
        softmax = functools.partial(functional.softmax, dim=-1)

        def norm(x: Any, weight: Any, bias: Any) -> Any:
            return functional.layer_norm(x, weight.shape, weight, bias)

        for width in (1024, 4096, 16384, 131072):
            count = 64 * M // width
            self.found[f"softmax_{width}"] = Case(self.many(1, count, width), softmax, 512 * M)
            inputs = functools.partial(lambda n, d: (rand(n, d), rand(d), rand(d)), count, width)
            self.found[f"layer_norm_{width}"] = Case(inputs, norm, 512 * M)
        narrow = self.many(1, 32768, 4096, dtype=half)
        self.found["softmax_4096_bf16"] = Case(narrow, softmax, 512 * M)
        self.found["layer_norm_1024_grad"] = Case(
            lambda: (rand(65536, 1024), rand(1024), rand(1024), rand(65536, 1024)),
            self.gradients(norm, 3),
            768 * M,
        )

    def reductions(self) -> None:
        """Sums, and what one thread walks in order."""
        functional, rand = self.functional, self.rand
        self.found |= {
            "sum_2^28": Case(self.many(1, 256 * M), lambda x: x.sum(), 1024 * M),
            "column_sum": Case(self.many(1, 8192, 8192), lambda x: x.sum(0), 256 * M),
            "cumsum": Case(self.many(1, 4096, 16384), lambda x: x.cumsum(1), 512 * M),
            "cross_entropy": Case(
                lambda: (rand(4096, 50257), self.whole(50257, 4096)),
                functional.cross_entropy,
                4096 * 50257 * 4,
            ),
            "matvec": Case(lambda: (rand(4096, 16384), rand(16384)), lambda a, b: a @ b, 256 * M),
        }

    def windows(self) -> None:
        """Pictures."""
        functional, picture = self.functional, self.many(1, 64, 64, 256, 256)

        def norm(x: Any) -> Any:
            return functional.batch_norm(x, None, None, training=True)

        def pool(x: Any) -> Any:
            return functional.max_pool2d(x, 3, 2, 1)

        self.found |= {
            "max_pool2d": Case(picture, lambda x: functional.max_pool2d(x, 2), 1280 * M),
            "max_pool2d_3s2": Case(picture, pool, 1280 * M),
            "batch_norm": Case(picture, norm, 2048 * M),
        }

    def products(self) -> None:
        """Matrices."""
        t, functional, rand = self.t, self.functional, self.rand
        half, cube = t.bfloat16, 2 * 4096**3
        for kind, dtype in (("fp32", t.float32), ("bf16", half), ("fp16", t.float16)):
            unit = "fp32" if kind == "fp32" else "bf16"
            square = self.many(2, 4096, 4096, dtype=dtype)
            self.found[f"matmul_4096_{kind}"] = Case(square, t.matmul, 0, cube, unit)

        def linear(x: Any, w: Any, b: Any) -> Any:
            return functional.gelu(functional.linear(x, w, b), approximate="tanh")

        def low(*shapes: tuple[int, ...]) -> Callable[[], tuple[Any, ...]]:
            return lambda: tuple(rand(*shape, dtype=half) for shape in shapes)

        flops = 2 * 16384 * 768 * 3072
        up = low((16384, 768), (3072, 768), (3072,))
        back = low((16384, 768), (16384, 3072))
        self.found |= {
            "linear_gelu_bf16": Case(up, linear, 0, flops),
            "wgrad_bf16": Case(back, lambda x, g: g.t() @ x, 0, flops),
            "matmul_large_k": Case(
                lambda: (rand(256, 131072), rand(131072, 256)),
                t.matmul, 0, 2 * 256 * 256 * 131072, "fp32",
            ),
        }  # fmt: skip

    def heavy(self) -> None:
        """Attention, convolutions, gradients that add where indices say."""
        t, functional, rand, half = self.t, self.functional, self.rand, self.t.bfloat16
        heads, flops = (4, 16, 2048, 64), 2 * 4 * 16 * 2048**2 * 64
        attend = functools.partial(functional.scaled_dot_product_attention, is_causal=True)
        convolved = 2 * 32 * 256 * 256 * 9 * 56 * 56

        def conv(x: Any, w: Any) -> Any:
            return functional.conv2d(x, w, padding=1)

        def pictures(dtype: Any) -> Callable[[], tuple[Any, ...]]:
            shapes = (32, 256, 56, 56), (256, 256, 3, 3)
            return lambda: tuple(rand(*shape, dtype=dtype) for shape in shapes)

        def embedding(w: Any, i: Any, g: Any) -> Any:
            leaf = w.detach().requires_grad_()
            return t.autograd.grad(functional.embedding(i, leaf), leaf, g)

        def add_at(i: Any, x: Any) -> Any:
            return t.zeros(64, device=DEVICE).index_add(0, i, x)

        back = self.gradients(attend, 3)
        self.found |= {
            "attention": Case(self.many(3, *heads, dtype=half), attend, 0, flops),
            "attention_grad": Case(self.many(4, *heads, dtype=half), back, 0, 3.5 * flops),
            "conv3x3": Case(pictures(t.float32), conv, 0, convolved, "fp32"),
            "conv3x3_bf16": Case(pictures(half), conv, 0, convolved),
            "embedding_grad": Case(
                lambda: (rand(50304, 768), self.whole(50304, 16384), rand(16384, 768)),
                embedding,
                205 * M,
            ),
            "index_add": Case(lambda: (self.whole(64, M), rand(M)), add_at, 12 * M),
        }


class Timing:
    """Measures cases of a framework."""

    def __init__(self, t: Any, framework: str, report: Report) -> None:
        self.t, self.framework, self.report = t, framework, report
        self.cases = Cases(t).found
        names = {"copy": "GPU_COPY", "bf16": "GPU_BF16", "fp32": "GPU_FP32"}
        self.ceilings = {unit: float(os.environ.get(n) or 0) for unit, n in names.items()}

    def finish(self, result: Any) -> None:
        """Start the work of lazyt's results."""
        if self.framework == "lazyt":
            self.t.realize(*(result if isinstance(result, (tuple, list)) else (result,)))

    def seconds(self, case: Case) -> float:
        """The median of some groups of calls."""
        sets = [case.inputs() for _ in range(2)]
        for one in sets:
            self.finish(one)
        work = case.work
        if self.framework == "lazyt":
            work = self.t.jit(work)
        elif self.framework == "compile":
            work = self.t.compile(work, dynamic=False)
        for turn in range(4):
            self.finish(work(*sets[turn % 2]))
        self.t.cuda.synchronize()

        def group(calls: int) -> float:
            start, end = (self.t.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for turn in range(calls):
                self.finish(work(*sets[turn % 2]))
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end)) / calls * 1e-3

        first = group(2)
        calls = max(2, min(200, int(0.03 / max(first, 1e-6)))) if first < 0.1 else 1
        groups = 1 if first > 0.5 else 3 if first > 0.05 else 7
        return median([group(calls) for _ in range(groups)])

    def measure(self, name: str) -> str:
        """Time a case, and say what share of the ceiling that is."""
        case = self.cases[name]
        seconds = self.seconds(case)
        found: dict[str, float] = {"seconds": seconds}
        note = f"{seconds * 1e6:.1f} us"
        amounts = {"bytes_per_s": (case.nbytes, "copy"), "flops": (case.flops, case.unit)}
        for key, (amount, unit) in amounts.items():
            if amount and not SMALL:  # it is that of the real size
                found[key] = amount / seconds
                note += f", {found[key] / 1e9:.0f} G{'B' if unit == 'copy' else 'FLOP'}/s"
                if self.ceilings[unit]:
                    found["share"] = found[key] / self.ceilings[unit]
                    note += f", {found['share']:.1%} of the ceiling"
        self.report.data.setdefault("times", {})[name] = found
        return note


def main() -> None:
    """All cases, or some, of a framework that is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--framework", default="lazyt", choices=("lazyt", "torch", "compile"))
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    report = Report(f"times.{given.framework}")
    try:
        t = importlib.import_module("lazyt" if given.framework == "lazyt" else "torch")
    except ImportError:
        if given.framework == "lazyt" or not EMULATED:
            raise
        report.end("no PyTorch")
    if given.framework != "lazyt" and EMULATED and not t.cuda.is_available():
        report.end("no GPU for PyTorch")
    timing = Timing(t, given.framework, report)
    wanted = given.only.split(",")
    chosen = [name for name in timing.cases if any(part in name for part in wanted)]
    if given.framework == "compile" and not given.only:
        chosen = list(COMPILED)
    for name in chosen:
        report.check(name, functools.partial(timing.measure, name), 4)
        if not EMULATED:
            t.cuda.empty_cache()
    report.end()


if __name__ == "__main__":
    main()
