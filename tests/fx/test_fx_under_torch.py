"""Programs that import torch.fx: its modules, what they print, files that name the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import copy, importlib, pickle, sys, tempfile
import torch
import torch.fx as fx
from torch import nn
from torch.fx import Graph, GraphModule, Interpreter, Node, Proxy, Tracer, symbolic_trace
from torch.fx._compatibility import compatibility
from torch.fx._symbolic_trace import is_fx_tracing
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.fx.graph import CodeGen, _PyTreeCodeGen
from torch.fx.graph_module import _CodeOnlyModule, _copy_attr
from torch.fx.immutable_collections import immutable_list
from torch.fx.node import map_aggregate, map_arg
from torch.fx.passes.shape_prop import ShapeProp, TensorMetadata
from torch.fx.passes.split_module import split_module
from torch.fx.proxy import GraphAppendingTracer, ParameterProxy, TraceError
from torch.fx.subgraph_rewriter import replace_pattern
import torch.nn.functional as F


@compatibility(is_backward_compatible=True)
@torch.fx.wrap
def leaf(x, flag):
    return x if flag else -x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor, flag: bool = True) -> torch.Tensor:
        x = F.relu(self.norm(self.conv(x)), inplace=True)
        torch._assert(x.dim() == 4, "images")
        return leaf(torch.flatten(x, 1), flag).to(torch.float64)


net = Net().eval()
traced = symbolic_trace(net)
print(traced.code)
print(str(traced.graph).splitlines()[4])
x = torch.randn(2, 3, 5, 5)
assert torch.equal(traced(x), net(x)) and torch.equal(Interpreter(traced).run(x, False), -net(x))
for other in (pickle.loads(pickle.dumps(traced)), copy.deepcopy(traced)):
    assert torch.equal(other(x), net(x)) and other.code == traced.code
with tempfile.TemporaryDirectory() as folder:
    traced.to_folder(folder + "/package_of_net", "Written")
    text = open(folder + "/package_of_net/module.py").read()
    assert "import torch\\n" in text and "lazyt" not in text
    sys.path.insert(0, folder)
    assert torch.equal(importlib.import_module("package_of_net").Written().eval()(x), net(x))
print(make_fx(lambda a: torch.sin(a) + 1)(torch.ones(1)).code.strip())
assert get_proxy_mode() is None and not is_fx_tracing()
"""

PRINTED = """\
torch.fx._symbolic_trace.wrap("__main___leaf")

def forward(self, x : torch.Tensor, flag : bool = True) -> torch.Tensor:
    conv = self.conv(x);  x = None
    norm = self.norm(conv);  conv = None
    relu = torch.nn.functional.relu(norm, inplace = True);  norm = None
    dim = relu.dim()
    eq = dim == 4;  dim = None
    _assert = torch._assert(eq, 'images');  eq = _assert = None
    flatten = torch.flatten(relu, 1);  relu = None
    leaf = __main___leaf(flatten, flag);  flatten = flag = None
    to = leaf.to(torch.float64);  leaf = None
    return to

    %norm : [num_users=1] = call_module[target=norm](args = (%conv,), kwargs = {})
def forward(self, a_1):
    sin = torch.sin(a_1);  a_1 = None
    add = sin.add(1);  sin = None
    return add
"""


def test_a_program_that_imports_torch_fx(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "lazyt", "run", str(script)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = [line.rstrip() for line in done.stdout.strip().splitlines()]
    assert shown == PRINTED.strip().splitlines()
