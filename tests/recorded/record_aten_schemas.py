"""Records the schemas of PyTorch's operators that ``torch.ops.aten`` has here.

    PYTHONPATH=. PYTHON_WITH_TORCH tests/recorded/record_aten_schemas.py NAMES

``NAMES``: a file with the names of those that lazyt has, a line each, as
``python -m tests.recorded.record_aten_schemas`` prints them without PyTorch.
"""

from __future__ import annotations

import lzma
import re
import sys
from pathlib import Path

TARGET = Path(__file__).parents[2] / "lazyt" / "subclasses" / "aten_schemas.xz"


#: What only TorchScript, named axes and streams have.
_STRANGE = re.compile(r"Dict\(|Dimname|Stream|Storage|\bcomplex t\b|\bt\[\]|\.\.\.")


def known_names(names: list[str]) -> list[str]:
    """Those of operators that lazyt has a function for."""
    from lazyt.compat.served.packages import aten

    return [name for name in names if hasattr(aten, name)]


def record(names: set[str]) -> str:
    """Their schemas, a line each, overloads in the order in which they are tried."""
    import torch

    every = [s for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")]
    lines = []
    for name in sorted({s.name[6:] for s in every} & names):
        order = getattr(torch.ops.aten, name).overloads()
        found = {s.overload_name or "default": str(s)[6:] for s in every if s.name[6:] == name}
        texts = [found[overload] for overload in order if overload in found]
        lines += [text for text in texts if "Tensor" in text and not _STRANGE.search(text)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        from lazyt.compat.names import overloads

        print("\n".join(known_names(sorted(overloads._by_operator()))))
    else:
        chosen = set(Path(sys.argv[1]).read_text(encoding="utf-8").split())
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 9}]
        data = record(chosen).encode()
        TARGET.write_bytes(lzma.compress(data, filters=filters, check=lzma.CHECK_CRC32))
        print(f"{TARGET}: {data.count(10)} schemas in {TARGET.stat().st_size} bytes")
