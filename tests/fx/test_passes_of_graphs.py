"""Interpreters, transformers, patterns, and the passes that come with them."""

from __future__ import annotations

import operator
from typing import Any

import pytest

import lazyt
from lazyt import fx, nn
from lazyt.fx.experimental.optimization import extract_subgraph, fuse, remove_dropout
from lazyt.fx.operator_schemas import normalize_function, normalize_module
from lazyt.fx.passes.graph_drawer import FxGraphDrawer
from lazyt.fx.passes.infra.pass_base import PassBase, PassResult
from lazyt.fx.passes.shape_prop import ShapeProp
from lazyt.fx.passes.split_module import split_module
from lazyt.fx.subgraph_rewriter import replace_pattern, replace_pattern_with_filters
from lazyt.fx.traceback import annotate, preserve_node_meta
from lazyt.nn import functional


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(lazyt.randn(3, 4))
        self.linear = nn.Linear(4, 5)

    def forward(self, x: Any, y: Any) -> Any:
        z = self.linear(x + self.weight).clamp(min=0.0, max=1.0)
        return z + self.linear(y).clamp(min=0.0, max=1.0)


def test_interpreters_run_graphs() -> None:
    net, x, y = Net(), lazyt.randn(3, 4), lazyt.randn(3, 4)
    traced = fx.symbolic_trace(net)
    runner = fx.Interpreter(traced)
    assert lazyt.equal(runner.run(x, y), net(x, y))
    assert [n.op for n in runner.env] == ["output"]
    keeping = fx.Interpreter(traced, garbage_collect_values=False)
    keeping.run(x, y)
    assert len(keeping.env) == len(traced.graph.nodes)
    (first, *_) = traced.graph.nodes
    given: dict[fx.Node, Any] = {first: x * 0}
    assert lazyt.equal(fx.Interpreter(traced).run(y, initial_env=given), net(x * 0, y))
    values = [x, y]
    assert lazyt.equal(runner.boxed_run(values), net(x, y)) and not values
    with pytest.raises(RuntimeError, match=r"expected 2 arguments .* received 1 \(missing"):
        runner.boxed_run([x])


def test_errors_of_interpreters_name_the_node() -> None:
    traced = fx.symbolic_trace(lambda x, y=None: lazyt.matmul(x, y))
    with pytest.raises(RuntimeError, match=r"be multiplied[\s\S]*While executing %mat"):
        fx.Interpreter(traced).run(lazyt.ones(2, 3), lazyt.ones(2, 3))
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(traced).run()
    looking = fx.symbolic_trace(lambda x: x["a"])
    with pytest.raises(RuntimeError, match=r"a\n\nWhile executing %getitem"):
        fx.Interpreter(looking).run({})
    missing = fx.Interpreter(nn.Module(), graph=(graph := fx.Graph()))
    graph.output(graph.get_attr("nothing"))
    with pytest.raises(RuntimeError, match="Node referenced nonexistent target nothing"):
        missing.run()


class Swapped(fx.Transformer):
    """neg in the place of sigmoid, and the other way round for methods."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is lazyt.sigmoid:
            return lazyt.neg(*args, **kwargs)
        return super().call_function(target, args, kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        return args[0].sigmoid() if target == "neg" else super().call_method(target, args, kwargs)


def test_transformers_make_other_modules() -> None:
    traced = fx.symbolic_trace(lambda x, y=1: lazyt.sigmoid(x).neg() + y)
    traced.graph.output_node().meta["note"] = 1
    made = Swapped(traced).transform()
    x = lazyt.randn(3)
    assert lazyt.equal(made(x), lazyt.neg(x).sigmoid() + 1)
    assert made.graph.output_node().meta["note"] == 1
    net = Net()
    same = fx.Transformer(fx.symbolic_trace(net)).transform()
    assert [n.target for n in same.graph.nodes] == [
        n.target for n in fx.symbolic_trace(net).graph.nodes
    ]
    assert same.linear is net.linear


def test_notes_of_nodes_pass_on() -> None:
    traced = fx.symbolic_trace(lambda x: lazyt.relu(x))
    traced.graph.find_nodes(op="call_function", target=lazyt.relu)[0].meta["mine"] = 3
    made = fx.Transformer(traced).transform()
    assert made.graph.find_nodes(op="call_function", target=lazyt.relu)[0].meta["mine"] == 3
    with preserve_node_meta(), annotate({"stage": 0}):
        noted = fx.symbolic_trace(lambda x: x + 1)
    assert noted.graph.find_nodes(op="call_function", target=operator.add)[0].meta == {
        "custom": {"stage": 0}
    }


def test_patterns_are_replaced() -> None:
    def program(x: Any, a: Any, b: Any) -> Any:
        first = lazyt.cat([a, b])
        second = lazyt.cat([lazyt.cat([a, b]), first])
        return x + lazyt.max(second)

    traced = fx.symbolic_trace(program)
    matches = replace_pattern(
        traced, lambda a, b: lazyt.cat([a, b]), lambda a, b: lazyt.stack([a, b])
    )
    traced.graph.lint()
    assert len(matches) == 3 and lazyt.cat not in [n.target for n in traced.graph.nodes]
    values = lazyt.ones(2), lazyt.zeros(2), lazyt.ones(2)
    assert lazyt.equal(traced(*values), program(*values))


def test_what_is_used_elsewhere_is_no_match() -> None:
    def program(x: Any) -> Any:
        y = lazyt.relu(x)
        return lazyt.exp(y) + y

    def pattern(x: Any) -> Any:
        return lazyt.exp(lazyt.relu(x))

    traced = fx.symbolic_trace(program)
    assert not replace_pattern(traced, pattern, lambda x: lazyt.sin(x))
    traced = fx.symbolic_trace(lambda x: lazyt.exp(lazyt.relu(x)) + 1)
    assert len(replace_pattern(traced, pattern, lambda x: lazyt.sin(x))) == 1
    assert "lazyt.sin(x)" in traced.code and "relu" not in traced.code
    with pytest.raises(AssertionError, match="dead code"):
        replace_pattern(traced, lambda x, y: x + 1, lambda x, y: x)


def test_patterns_with_several_results_and_with_modules() -> None:
    def program(x: Any) -> Any:
        return lazyt.sum(x) + lazyt.max(x)

    traced = fx.symbolic_trace(program)
    found = replace_pattern(
        traced, lambda x: (lazyt.sum(x), lazyt.max(x)), lambda x: (lazyt.mean(x), lazyt.min(x))
    )
    assert len(found) == 1 and traced(lazyt.tensor([1.0, 3.0])).item() == 3.0

    class Sigmoid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Sigmoid()

        def forward(self, x: Any) -> Any:
            return self.layer(x)

    traced = fx.symbolic_trace(lambda x: lazyt.relu(x))
    assert replace_pattern(traced, lambda x: lazyt.relu(x), fx.symbolic_trace(Sigmoid()))
    assert isinstance(traced.layer, nn.Sigmoid) and traced(lazyt.zeros(1)).item() == 0.5


def test_filters_and_literals() -> None:
    traced = fx.symbolic_trace(lambda x: (x * 2) - (x * 3))
    pattern = fx.symbolic_trace(lambda x: x * 2).graph
    assert not replace_pattern_with_filters(
        traced, pattern, lambda x: x, [lambda match, graph, pattern: False]
    )
    found = replace_pattern_with_filters(traced, pattern, lambda x: x + 1, ignore_literals=True)
    assert len(found) == 2 and all(len(match.replacements) == 1 for match in found)
    assert traced(5) == 0

    def by_match(match: Any, graph: fx.Graph, pattern: fx.Graph) -> fx.Graph:
        assert match.anchors[0].target is operator.add
        return fx.symbolic_trace(lambda x: -x).graph

    found = replace_pattern_with_filters(traced, lambda x: x + 1, replacement_callback=by_match)
    assert len(found) == 2 and "add" not in traced.code
    with pytest.raises(AssertionError, match="Must provide either"):
        replace_pattern_with_filters(traced, lambda x: x + 1)
    with pytest.raises(AssertionError, match="Placeholder count mismatch: 1 vs 2"):
        replace_pattern(traced, lambda x: -x, lambda x, y: x)


def test_shapes_are_noted() -> None:
    traced = fx.symbolic_trace(Net())
    ShapeProp(traced).propagate(lazyt.ones(3, 4), lazyt.ones(3, 4))
    meta = traced.graph.output_node().meta
    assert meta["tensor_meta"].shape == (3, 5) and meta["type"] is lazyt.Tensor
    assert meta["tensor_meta"].dtype is lazyt.float32 and meta["tensor_meta"].requires_grad
    assert meta["tensor_meta"].stride == (5, 1)
    assert meta["tensor_meta"].memory_format is lazyt.contiguous_format
    pairs = fx.symbolic_trace(lambda x: (x, [x + 1]))
    ShapeProp(pairs).propagate(lazyt.ones(1, 2, 3, 4).to(memory_format=lazyt.channels_last))
    noted = pairs.graph.output_node().meta["tensor_meta"]
    assert noted[1][0].memory_format is lazyt.channels_last
    with pytest.raises(RuntimeError, match="ShapeProp error for: node=%add"):
        ShapeProp(traced).propagate(lazyt.ones(3, 9), lazyt.ones(3, 4))


@pytest.mark.parametrize("in_order", [False, True])
def test_split_modules_compute_the_same(in_order: bool) -> None:
    net, x, y = Net(), lazyt.randn(3, 4), lazyt.randn(3, 4)
    traced, numbers = fx.symbolic_trace(net), iter(range(9))
    paths: dict[str, str] = {}
    split = split_module(
        traced, net, lambda _: next(numbers) % 3, paths, keep_original_order=in_order
    )
    assert lazyt.allclose(split(x, y), net(x, y))
    assert {name for name, _ in split.named_children()} == {"submod_0", "submod_1", "submod_2"}
    assert paths == {"submod_1.linear": "linear", "submod_0.linear": "linear"}
    assert split.meta["partition_names"] == {"submod_0", "submod_1", "submod_2"}
    assert split.submod_1.linear is net.linear


def test_parts_that_use_each_other_cannot_be_split() -> None:
    traced = fx.symbolic_trace(lambda x: ((x + 1) * 2) + 3)
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split_module(traced, None, lambda node: 1 if node.name == "mul" else 0)
    named = split_module(
        traced, None, lambda node: 1 if node.name == "add_1" else 0,
        keep_original_input_name=False, partition_affix="part", tuple_return=True,
    )  # fmt: skip
    assert [name for name, _ in named.named_children()] == ["submod_part_0", "submod_part_1"]
    assert "arg_0" in named.submod_part_1.code and named(1) == 7


def test_batch_norms_are_folded_and_dropout_is_removed() -> None:
    class Conv(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.drop = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout()
            self.linear, self.flat = nn.Linear(4, 2), nn.BatchNorm1d(2)

        def forward(self, x: Any) -> Any:
            x = self.drop(self.norm(self.conv(x))).relu().mean((2, 3))
            return self.flat(self.linear(x))

    net = Conv()
    net.norm.running_mean.fill_(0.3)
    net.flat.running_var.fill_(2.0)
    net.eval()
    fused, x = fuse(net), lazyt.randn(2, 3, 5, 5)
    assert lazyt.allclose(fused(x), net(x), atol=1e-5)
    kinds = {type(module) for module in fused.modules()}
    assert nn.BatchNorm2d not in kinds and nn.BatchNorm1d not in kinds and nn.Dropout in kinds
    plain = remove_dropout(net)
    assert not plain.graph.find_nodes(op="call_module", target="drop")
    assert lazyt.equal(plain(x), net(x))


def test_parts_of_graphs() -> None:
    traced = fx.symbolic_trace(lambda x: lazyt.exp(x + 1) * 2)
    x, add, exp, _, _ = traced.graph.nodes
    part = extract_subgraph(traced, [add, exp], [x], [exp, add])
    values = part(lazyt.zeros(1))
    assert values[1].item() == 1 and len(values) == 2


def test_arguments_by_parameters() -> None:
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    assert normalize_function(functional.elu, (1, 2.0)) == ((1, 2.0), {"inplace": False})
    assert normalize_function(len, (1,)) is None
    assert normalize_function(functional.relu, (), {"wrong": 1}) is None
    assert normalize_module(traced, "0", (3,), {}, True) == ((), {"input": 3})
    with pytest.raises(RuntimeError, match="did not have that target"):
        normalize_module(traced, "9", ())
    relu = fx.symbolic_trace(lambda x: functional.relu(x))
    (node,) = relu.graph.find_nodes(op="call_function", target=functional.relu)
    found = node.normalized_arguments(relu, normalize_to_only_use_kwargs=True)
    assert found.kwargs == {"input": node.args[0], "inplace": False}


def test_passes_and_pictures() -> None:
    class Erase(PassBase):
        def call(self, graph_module: fx.GraphModule) -> PassResult:
            changed = graph_module.graph.eliminate_dead_code()
            return PassResult(graph_module, changed)

        def requires(self, graph_module: fx.GraphModule) -> None:
            graph_module.graph.lint()

    def program(x: Any) -> Any:
        x + 1
        return x * 2

    traced = fx.symbolic_trace(program)
    first, second = Erase()(traced), Erase()(traced)
    assert first is not None and first.modified and second is not None and not second.modified
    text = FxGraphDrawer(traced, 'a "graph"').source()
    assert '"x" -> "mul";' in text and text.startswith('digraph "a \\"graph\\"" {')
    with pytest.raises(TypeError, match="abstract"):
        PassBase()  # type: ignore[abstract]
