"""Notes what traced programs print under PyTorch: ``recorded_graphs.json``.

PYTHON_WITH_PYTORCH -m tests.fx.record_graphs
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

from tests.fx.traced_programs import printed

if __name__ == "__main__":
    importlib.import_module("torch.fx")
    text = json.dumps(printed(importlib.import_module("torch")), indent=1) + "\n"
    Path(__file__).with_name("recorded_graphs.json").write_text(text, encoding="utf-8")
