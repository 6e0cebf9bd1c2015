"""Modules that run graphs: code, submodules, copies, files, errors, hooks."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt import fx, nn
from lazyt.fx import graph_module
from lazyt.fx.passes.shape_prop import ShapeProp


class Every(fx.Tracer):
    """Takes all modules for leaves."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.register_buffer("shift", lazyt.ones(4))
        self.scale = nn.Parameter(lazyt.full((4,), 2.0))
        self.spare = nn.ReLU()

    def forward(self, x: Any) -> Any:
        return self.inner(self.first(x)) * self.scale + self.shift


def traced_net() -> tuple[Net, fx.GraphModule]:
    net = Net()
    return net, fx.GraphModule(net, Every().trace(net), "Traced")


def test_changes_of_the_graph_take_effect_when_it_is_compiled_again() -> None:
    traced = fx.symbolic_trace(lambda x, y: lazyt.add(x, y))
    (add,) = traced.graph.find_nodes(op="call_function", target=lazyt.add)
    with traced.graph.inserting_after(add):
        product = traced.graph.call_function(lazyt.mul, add.args, add.kwargs)
    add.replace_all_uses_with(product)
    traced.graph.erase_node(add)
    x, y = lazyt.full((2,), 3.0), lazyt.full((2,), 2.0)
    assert traced(x, y).tolist() == [5, 5]
    code = traced.recompile()
    assert traced(x, y).tolist() == [6, 6] and code.src == traced.code
    assert "lazyt.mul" in str(traced) and repr(traced) == "<lambda>()"
    other = fx.symbolic_trace(lambda x, y: x - y)
    traced.graph = other.graph
    assert traced(x, y).tolist() == [1, 1] and traced.graph.owning_module is traced
    with pytest.raises(AssertionError, match="Expected a Graph"):
        traced.graph = 3


def test_only_what_the_graph_names_is_taken_over() -> None:
    net, traced = traced_net()
    assert traced.first is net.first and traced.scale is net.scale and not hasattr(traced, "spare")
    assert repr(traced).startswith("Traced(") and isinstance(traced, fx.GraphModule)
    graph = fx.Graph()
    graph.output(graph.call_module("a.b", (graph.get_attr("w"),)))
    made = fx.GraphModule({"a.b": nn.ReLU(), "w": -lazyt.ones(2), "unused": 3}, graph)
    assert made().tolist() == [0, 0] and [*dict(made.named_buffers())] == ["w"]
    with pytest.raises(RuntimeError, match=r"referenced target a\.b but that target was not"):
        fx.GraphModule({"w": 1}, copy.deepcopy(graph))
    with pytest.raises(RuntimeError, match="Unsupported type 3 passed for root"):
        fx.GraphModule(3, fx.Graph())  # type: ignore[arg-type]


def test_submodules() -> None:
    _, traced = traced_net()
    assert traced.add_submodule("extra.deep", nn.ReLU())
    assert not traced.add_submodule("scale.deep", nn.ReLU())
    assert isinstance(traced.get_submodule("extra.deep"), nn.ReLU)
    assert traced.delete_submodule("extra.deep") and not traced.delete_submodule("extra.deep")
    assert not traced.delete_submodule("nothing.there")
    assert not traced.delete_submodule("scale")
    traced.delete_all_unused_submodules()
    names = [name for name, _ in traced.named_modules()]
    assert names == ["", "first", "inner", "inner.0", "inner.1"]
    with pytest.warns(UserWarning, match="call_module Node with no underlying reference"):
        traced.graph.call_module("missing")
    with pytest.warns(UserWarning, match="get_attr Node with no underlying reference"):
        traced.graph.get_attr("missing")


def test_copies_and_pickles() -> None:
    net, traced = traced_net()
    traced.note = [1]
    traced.meta["a"] = 1
    x = lazyt.randn(2, 3)
    copied = copy.deepcopy(traced)
    assert copied.code == traced.code and str(copied.graph) == str(traced.graph)
    assert copied.graph.owning_module is copied and copied.first is not traced.first
    assert copied.note == [1] and copied.meta == {"a": 1} and type(copied) is not type(traced)
    for other in (
        copied, copy.copy(traced), pickle.loads(pickle.dumps(traced)), _through_file(traced),
    ):  # fmt: skip
        assert lazyt.equal(other(x), net(x)) and other.code == traced.code
        assert other.state_dict().keys() == traced.state_dict().keys()
    (call,) = copied.graph.find_nodes(op="call_module", target="first")
    call.replace_all_uses_with(call.args[0])
    assert traced.graph.find_nodes(op="call_module", target="first")[0].users


def _through_file(module: Any) -> Any:
    file = io.BytesIO()
    lazyt.save(module, file)
    file.seek(0)
    return lazyt.load(file, weights_only=False)


def test_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, traced = traced_net()
    with pytest.warns(UserWarning, match=r"saved as pickled files instead: \['inner'\]"):
        traced.to_folder(tmp_path / "written_net", "WrittenNet")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("written_net").WrittenNet()
    sys.modules.pop("written_net")
    x = lazyt.randn(2, 3)
    assert lazyt.equal(module(x), net(x))


def test_training_and_states() -> None:
    net = Net()
    traced = fx.symbolic_trace(net)
    optimizer = lazyt.optim.SGD(traced.parameters(), 0.5)
    before = net.scale.clone()
    traced(lazyt.ones(2, 3)).sum().backward()
    optimizer.step()
    assert not lazyt.equal(before, net.scale)
    assert traced.state_dict().keys() == {k for k in net.state_dict() if "spare" not in k}
    fresh = fx.symbolic_trace(Net())
    fresh.load_state_dict(traced.state_dict())
    assert lazyt.equal(fresh(lazyt.ones(1, 3)), net(lazyt.ones(1, 3)))
    assert fx.symbolic_trace(Net().eval()).training is False


def test_errors_show_the_line_of_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    traced = fx.symbolic_trace(lambda x, y: lazyt.matmul(x, y) + 1)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        traced(lazyt.ones(2, 3), lazyt.ones(2, 3))
    shown = capsys.readouterr().err
    assert "Call using an FX-traced Module, line 5 of the traced Module's generated" in shown
    assert "matmul = lazyt.matmul(x, y);  x = y = None" in shown and "<--- HERE" in shown

    class Failing(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("inner")

    graph = fx.Graph()
    graph.output(graph.call_module("a", (graph.placeholder("x"),)))
    with pytest.raises(KeyError, match="inner"):
        fx.GraphModule({"a": Failing()}, graph)(1)
    assert not capsys.readouterr().err


def test_readable_text() -> None:
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    ShapeProp(traced).propagate(lazyt.ones(2, 3))
    assert traced.print_readable(print_output=False) == (
        "class Sequential(lazyt.nn.Module):\n"
        '    def forward(self, input: "f32[2, 3]"):\n'
        "        input_1 = input\n"
        "\n"
        "        # No stacktrace found for following nodes\n"
        '        _0: "f32[2, 4]" = getattr(self, "0")(input_1);  input_1 = None\n'
        '        _1: "f32[2, 4]" = getattr(self, "1")(_0);  _0 = None\n'
        "        return _1\n"
    )


def test_hooks() -> None:
    traced = fx.symbolic_trace(lambda x: lazyt.relu(x) + 1)
    seen: list[Any] = []
    x, relu, add, _ = traced.graph.nodes
    with traced._set_replace_hook(lambda old, new, user: seen.append((old.name, new, user.name))):
        add.replace_input_with(relu, x)
    traced._register_create_node_hook(lambda node: seen.append(node.name))
    traced._register_erase_node_hook(lambda node: seen.append(("erased", node.name)))
    traced.graph.erase_node(relu)
    traced.graph.call_function(lazyt.sin, (x,))
    assert seen == [("relu", "x", "add"), ("erased", "relu"), "sin"]


def test_generated_code_can_be_changed(capsys: pytest.CaptureFixture[str]) -> None:
    traced = fx.symbolic_trace(lambda x: x + 1)
    with traced.graph.on_generate_code(lambda _: lambda body: ["print('runs')\n", *body]):
        traced.recompile()
    assert traced(1) == 2 and capsys.readouterr().out == "runs\n"
    traced.recompile()
    assert traced(1) == 2 and not capsys.readouterr().out

    class OfList(fx.CodeGen):
        def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
            names = ", ".join(free_vars)
            return f"def forward(self, values){maybe_return_annotation}:\n    {names}, = values"

        def process_inputs(self, *args: Any) -> Any:
            return args[0]

        def additional_globals(self) -> list[tuple[str, Any]]:
            return [("List", list)]

    summed = fx.symbolic_trace(lambda a, b: a + b)
    summed.graph.set_codegen(OfList())
    assert summed.recompile().globals["List"] is list
    assert summed([1, 2]) == 3 and fx.Interpreter(summed).run([1, 2]) == 3


def test_attributes_at_paths() -> None:
    net = Net()
    assert graph_module._get_attr(net, "inner.0.weight") is net.inner[0].weight
    assert graph_module._has_attr(net, "inner.0") and not graph_module._has_attr(net, "inner.7")
    graph_module._assign_attr(lazyt.ones(1), net, "new.place")
    assert "new.place" in dict(net.named_buffers())
    graph_module._del_attr(net, "new.place")
    assert not graph_module._has_attr(net, "new.place")
