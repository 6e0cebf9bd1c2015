"""Records what PyTorch shows for the programs in tests/func/programs.

    PYTHONPATH=. python tests/recorded/record_transforms.py

with a Python that has PyTorch.
"""

from __future__ import annotations

import importlib
import json
import warnings

from tests.func.transform_programs import NAMES, RECORDED, run

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    found = {name: run(torch, name) for name in NAMES}
    RECORDED.write_text(json.dumps(found, separators=(",", ":")).replace('},"', '},\n"') + "\n")
