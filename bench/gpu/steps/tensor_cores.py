"""What the GPU's tensor cores reach with kernels of our own, beside the vendor's library: a product
by mma.sync, ldmatrix and cp.async, and one by wgmma, TMA and mbarriers. lazyt's products do not use
them (docs/how-to/gpu.md): what that costs, and whether such texts are right on this GPU."""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.gpu.steps.report import EMULATED, Report, median
from lazyt.runtime.cuda import nvrtc

KERNELS = Path(__file__).resolve().parents[1] / "kernels"
ARCH = "sm_90a"
#: Columns of a tile of the wgmma kernel.
WIDTH = 256

report = Report("tensor_cores")


def source() -> str:
    """Both kernels, with the one instruction whose text depends on the tile's width."""
    registers = WIDTH // 2
    results = ",".join(f"%{i}" for i in range(registers))
    bound = ",".join(f'"+f"(d[{i}])' for i in range(registers))
    name = f"wgmma.mma_async.sync.aligned.m64n{WIDTH}k16.f32.bf16.bf16"
    operands = f"{{{results}}},%{registers},%{registers + 1},1,1,1,0,0"
    wgmma = (
        f"template <> DI void lz_wgmma<{WIDTH}>(float *d, u64 a, u64 b) {{\n"
        f'  asm volatile("{name} {operands};" : {bound} : "l"(a), "l"(b) : "memory");\n}}\n'
    )
    prelude, mma, rest = (
        (KERNELS / f"{part}.cuh").read_text(encoding="utf-8")
        for part in ("prelude", "mma", "wgmma")
    )
    return f"{prelude}{wgmma}#define WGN {WIDTH}\n{mma}{rest}"


def compiled() -> nvrtc.Cubin | None:
    """The cubin; nothing is spilled."""
    if EMULATED and not nvrtc.available():
        return None
    made = nvrtc.compile_cubin(source(), ARCH)
    report.put("registers", made.registers)
    assert not any(made.spilled.values()), made.spilled
    return made


class Bench:
    """The loaded kernels, and PyTorch for memory and the reference."""

    def __init__(self, image: bytes) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.driver: Any = importlib.import_module("cuda.bindings.driver")
        self.library = ctypes.CDLL("libcuda.so.1")
        self.torch.zeros(1, device="cuda")  # makes the context
        self.torch.backends.cuda.matmul.allow_tf32 = False
        self.module = self.call("cuModuleLoadData", image)

    def call(self, name: str, *arguments: Any) -> Any:
        """A function of the driver. Raises AssertionError."""
        status, *rest = getattr(self.driver, name)(*arguments)
        assert status.name == "CUDA_SUCCESS", f"{name}: {status.name}"
        return rest[0] if rest else None

    def kernel(
        self, name: str, grid: tuple[int, int], threads: int, shared: int, *values: Any
    ) -> Callable[[], None]:
        """A launch that can be made again and again."""
        found = self.call("cuModuleGetFunction", self.module, name.encode())
        kind = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.call("cuFuncSetAttribute", found, kind, shared)
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))

        def launch(held: tuple[Any, ...] = values) -> None:  # values live as long as the launch
            stream = self.torch.cuda.current_stream().cuda_stream
            self.call(
                "cuLaunchKernel", found, *grid, 1, threads, 1, 1, shared, stream,
                ctypes.addressof(places), 0,
            )  # fmt: skip

        return launch

    def tensor_map(self, matrix: Any, rows_of_box: int) -> Any:
        """A map of a row-major bfloat16 matrix: boxes of 64 columns, swizzled by 128 bytes."""
        room = ctypes.create_string_buffer(192)
        made = (ctypes.c_char * 128).from_buffer(room, -ctypes.addressof(room) % 64)
        rows, columns = matrix.shape
        extents, strides = (ctypes.c_uint64 * 2)(columns, rows), (ctypes.c_uint64 * 1)(columns * 2)
        box, ones = (ctypes.c_uint32 * 2)(64, rows_of_box), (ctypes.c_uint32 * 2)(1, 1)
        bfloat16, none, swizzle_128 = 9, 0, 3  # CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, ...
        status = self.library.cuTensorMapEncodeTiled(
            ctypes.byref(made), bfloat16, 2, ctypes.c_void_p(matrix.data_ptr()), extents, strides,
            box, ones, none, swizzle_128, none, none,
        )  # fmt: skip
        assert status == 0, f"cuTensorMapEncodeTiled: {status}"
        return made

    def rate(self, launch: Callable[[], object], flops: float) -> float:
        """Operations a second."""
        for _ in range(3):
            launch()
        found = []
        for _ in range(5):
            start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(10):
                launch()
            end.record()
            end.synchronize()
            found.append(start.elapsed_time(end) / 10 * 1e-3)
        return flops / median(found)

    def prepared(self, kind: str, a: Any, b: Any, out: Any) -> Callable[[], None]:
        """A kernel on these matrices."""
        (m, k), n = a.shape, b.shape[0]
        sizes = [ctypes.c_int(size) for size in (m, n, k)]
        result = ctypes.c_void_p(out.data_ptr())
        if kind == "mma":
            given = [ctypes.c_void_p(t.data_ptr()) for t in (a, b)]
            return self.kernel("gemm", (n // 128, m // 128), 256, 65536, *given, result, *sizes)
        shared = 4 * (128 + WIDTH) * 128 + 64
        facts = self.torch.cuda.get_device_properties(0)
        blocks = min(facts.multi_processor_count, m // 128 * (n // WIDTH))
        maps = self.tensor_map(a, 128), self.tensor_map(b, WIDTH)
        return self.kernel("gemm90", (blocks, 1), 384, shared, *maps, result, *sizes)

    def product(self, kind: str, m: int, n: int, k: int, timed: bool) -> str:
        """Right or not, and how fast."""
        torch = self.torch
        torch.manual_seed(0)
        a, b = (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
        dtype = torch.float32 if kind == "mma" else torch.bfloat16
        out = torch.full((m, n), float("nan"), device="cuda", dtype=dtype)
        launch = self.prepared(kind, a, b, out)
        launch()
        torch.cuda.synchronize()
        want = a.float() @ b.float().T
        error = ((out.float() - want).norm() / want.norm()).item()
        assert error < (1e-4 if kind == "mma" else 5e-3), f"relative error {error}"  # nor NaN
        if not timed:
            return f"error {error:.1e}"
        flops = 2.0 * m * n * k
        own, library = self.rate(launch, flops), self.rate(lambda: torch.matmul(a, b.T), flops)
        report.put(f"{kind}_{m}", {"flops": own, "library": library, "error": error})
        return f"{own / 1e12:.0f} TFLOP/s, the library {library / 1e12:.0f}, error {error:.1e}"


def main() -> None:
    """Compile; then small products and large ones, where there is a GPU of compute capability 9."""
    made = report.check("compile", compiled)
    if EMULATED or made is None:
        report.end("compiled only" if made else "not compiled")
    bench = report.check("load", lambda: Bench(made.image))
    if bench is None:
        report.end()
    for kind in ("mma", "wgmma"):
        for m, n, k in ((128, 256, 64), (256, 512, 256), (1024, 1024, 512)):
            work = functools.partial(bench.product, kind, m, n, k, False)
            report.check(f"{kind} {m}x{n}x{k}", work, 3)
        for size in (4096, 8192):
            work = functools.partial(bench.product, kind, size, size, size, True)
            report.check(f"{kind} {size}", work, 5)
    rates = {k: v["flops"] for k, v in report.data.items() if isinstance(v, dict) and "flops" in v}
    report.end(", ".join(f"{name} {rate / 1e12:.0f} TFLOP/s" for name, rate in rates.items()))


if __name__ == "__main__":
    main()
