"""Records what PyTorch makes of the cases of linear algebra, in linear.json beside this file.

Run it from the project's root with a Python that has PyTorch:
``PYTHONPATH=. python tests/recorded/record_linear.py``. Tests read only what it wrote.
"""

from __future__ import annotations

import importlib
import json
import warnings
from pathlib import Path

from tests.functional.einsum_cases import EQUATIONS
from tests.functional.linear_cases import CASES, environment, outcome
from tests.functional.linear_refusals import REFUSED

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    env = environment(importlib.import_module("torch"))
    made = {case: outcome(env, case) for case in (*CASES, *EQUATIONS, *REFUSED)}
    lines = [f"{json.dumps(case)}: {json.dumps(result)}" for case, result in made.items()]
    Path(__file__).with_name("linear.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
