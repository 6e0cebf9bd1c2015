"""Runs the modules of a folder on stored inputs: ``python mlir_runner.py xla FOLDER`` of
StableHLO, ``iree`` of linalg.

A process of its own, with that compiler and without lazyt. Each graph is NAME.mlir, NAME.npz with
its inputs and right results, and NAME.json with their dtypes. It prints what differs and what the
compiler refuses; the exit code is 1 then.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

#: Errors relative to the largest value, by dtype; others agree to the bit.
TOLERANCES = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}

#: From the text of a module and its arguments to its results.
Run = Callable[[str, Sequence[Any]], list[Any]]


def run_xla(text: str, given: Sequence[Any]) -> list[Any]:
    """By XLA on the CPU, which rounds where the text says so."""
    os.environ["XLA_FLAGS"] = "--xla_allow_excess_precision=false"
    jax, ir = import_module("jax"), import_module("jaxlib.mlir.ir")
    xla_bridge = import_module("jax._src.xla_bridge")
    mlir = import_module("jax._src.interpreters.mlir")
    xla_client = import_module("jax._src.lib").xla_client

    jax.config.update("jax_enable_x64", True)
    client = xla_bridge.get_backend("cpu")
    with mlir.make_ir_context():
        code = mlir.module_to_bytecode(ir.Module.parse(text))
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    made = client.compile_and_load(code, devices, xla_client.CompileOptions())
    return [np.asarray(x) for x in made.execute([jax.device_put(x) for x in given])]


class NotCompiled(Exception):
    """What a compiler says of a text that it cannot compile."""


def run_iree(text: str, given: Sequence[Any]) -> list[Any]:
    """By IREE on the CPU, with the C library's functions where it lacks them.

    Its types have no signs. Raises NotCompiled.
    """
    compiler, runtime = import_module("iree.compiler"), import_module("iree.runtime")
    options = ["--iree-input-demote-f64-to-f32=false", "--iree-llvmcpu-link-embedded=false"]
    options.append("--iree-llvmcpu-target-cpu=host")
    try:
        code = compiler.compile_str(text, target_backends=["llvm-cpu"], extra_args=options)
    except compiler.tools.CompilerToolError as error:
        raise NotCompiled(str(error)) from None
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, code))
    signed = [x.view(x.dtype.name[1:]) if x.dtype.kind == "u" else x for x in given]
    found = context.modules.module["main"](*signed)
    results = found if isinstance(found, tuple | list) else [found]
    return [x.to_host() for x in results]


def difference(path: Path, run: Run) -> str:
    """What is wrong with a graph, empty where nothing is."""
    import ml_dtypes

    types = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    with np.load(path.with_suffix(".npz")) as file:
        stored = {name: file[name] for name in file.files}

    def array(name: str, dtype: str) -> Any:
        found = stored[name]
        return found.view(ml_dtypes.bfloat16) if dtype == "bfloat16" else found

    given = [array(f"i{n}", dtype) for n, dtype in enumerate(types["in"])]
    results = run(path.read_text(encoding="utf-8"), given)
    if len(results) != len(types["out"]):
        return f"{len(results)} results, not {len(types['out'])}"
    for number, (got, dtype) in enumerate(zip(results, types["out"])):
        found = compared(got, array(f"o{number}", dtype), TOLERANCES.get(dtype))
        if found:
            return f"result {number}, {dtype}: {found}"
    return ""


def compared(got: Any, want: Any, tolerance: float | None) -> str:
    """How a result differs."""
    if got.shape != want.shape:
        return f"of shape {got.shape}, not {want.shape}"
    if tolerance is None:
        # Types may have no signs, and truths be bytes: the bits count.
        right = np.asarray(got).astype(want.dtype) == want
    else:
        wide, exact = got.astype(np.float64), want.astype(np.float64)
        finite = exact[np.isfinite(exact)]
        scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
        right = np.isclose(wide, exact, tolerance, tolerance * scale, equal_nan=True)
    if right.all():
        return ""
    return f"{(~right).sum()} of {right.size} are off: {got[~right][:4]}, not {want[~right][:4]}"


def main(compiler: str, folder: Path) -> int:
    """Runs all graphs."""
    runs = {"xla": run_xla, "iree": run_iree}
    wrong = failed = 0
    paths = sorted(folder.glob("*.mlir"))
    for path in paths:
        try:
            found = difference(path, runs[compiler])
        except NotCompiled as error:
            failed += 1
            print(f"{path.stem} is not compiled: {str(error)[:1500]}", flush=True)
            continue
        except Exception as error:
            found = f"{type(error).__name__}: {str(error)[:1500]}"
        if found:
            wrong += 1
            print(f"{path.stem}: {found}", flush=True)
    print(f"{len(paths)} graphs, {wrong} differ, {failed} not compiled")
    return int(wrong + failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
