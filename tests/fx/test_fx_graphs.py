"""Graphs of Python calls: nodes, their arguments and users, order, checks, text."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable

import pytest

import lazyt
from lazyt import fx
from lazyt.fx.immutable_collections import immutable_dict, immutable_list


def chain() -> tuple[fx.Graph, list[fx.Node]]:
    """relu(x) + y, and its nodes."""
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y", default_value=2)
    a = graph.call_function(lazyt.relu, (x,))
    b = graph.call_function(operator.add, (a, y))
    out = graph.output(b)
    return graph, [x, y, a, b, out]


def test_nodes_know_their_inputs_and_users() -> None:
    _, (x, y, a, b, out) = chain()
    assert list(x.users) == [a] and list(a.users) == [b] and list(b.users) == [out]
    assert b.all_input_nodes == [a, y] and b.args == (a, y)
    b.args = (y, y)
    assert not a.users and b.all_input_nodes == [y] and list(y.users) == [b]
    b.update_arg(0, a)
    b.update_kwarg("other", x)
    assert b.args == (a, y) and b.kwargs == {"other": x} and list(x.users) == [a, b]
    b.insert_arg(1, 3)
    assert [*b.args] == [a, 3, y]
    with pytest.raises(AssertionError, match="insert_args index"):
        b.insert_arg(5, 3)


def test_arguments_cannot_be_changed_in_place() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    cat = graph.call_function(lazyt.cat, ([x, x],), {"dim": 0})
    assert type(cat.args[0]) is immutable_list and type(cat.kwargs) is immutable_dict
    changes: list[Callable[[], object]] = [
        lambda: cat.args[0].append(x), lambda: cat.kwargs.update(dim=1),
        lambda: cat.args[0].sort(), lambda: cat.kwargs.pop("dim"),
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(TypeError, match="object does not support mutation"):
            change()
    assert cat.args[0] == [x, x] and hash(cat.args[0]) == hash((x, x))
    assert pickle.loads(pickle.dumps(immutable_list([1]))) == [1]
    assert pickle.loads(pickle.dumps(immutable_dict({1: 2}))) == {1: 2}


def test_replacing_uses() -> None:
    _, (x, y, a, b, _) = chain()
    assert a.replace_all_uses_with(y) == [b] and b.args == (y, y)
    b.replace_input_with(y, x)
    assert b.args == (x, x) and not y.users
    assert x.replace_all_uses_with(y, lambda user: user is a) == [a]
    assert a.args == (y,) and b.args == (x, x)
    a.meta["note"] = 1
    a.replace_all_uses_with(b, propagate_meta=True)
    assert b.meta == {"note": 1}
    with pytest.raises(AssertionError, match=r"already has \.meta keys"):
        a.replace_all_uses_with(b, propagate_meta=True)


def test_nodes_may_change_while_somebody_walks_along_them() -> None:
    graph, (_, y, a, _, _) = chain()
    seen = []
    for node in graph.nodes:
        seen.append(node.name)
        if node is a:
            with graph.inserting_after(a):
                new = graph.call_function(lazyt.neg, (a,))
            a.replace_all_uses_with(new, lambda user: user.name != "neg")
        if node.name == "neg":
            node.replace_all_uses_with(y)
            graph.erase_node(node)
    assert seen == ["x", "y", "relu", "neg", "add", "output"]
    assert [n.name for n in graph.nodes] == ["x", "y", "relu", "add", "output"]
    assert next(iter(reversed(graph.nodes))).name == "output" and len(graph.nodes) == 5


def test_order() -> None:
    graph, (x, y, a, b, out) = chain()
    assert x < y < a < b < out and a <= a and b >= a and out > x
    with graph.inserting_before(a):
        first = graph.call_function(lazyt.exp, (x,))
        second = graph.call_function(lazyt.sin, (first,))
    assert y < first < second < a and graph.nodes.__len__() == 7
    a.prepend(second)
    b.append(second)
    assert b < second < out and b.next is second and second.prev is b
    with graph.inserting_before():
        assert graph.placeholder("w").next is x
    with graph.inserting_after():
        assert graph.call_function(len, (x,)).prev is out
    other = fx.Graph()
    with pytest.raises(AssertionError, match="not in graph"):
        other.inserting_before(a)
    with pytest.raises(AssertionError, match="not in graph"):
        other.inserting_after(a)


def test_erasing() -> None:
    graph, (_, y, a, b, out) = chain()
    with pytest.raises(RuntimeError, match="Tried to erase Node relu but it still had 1 users"):
        graph.erase_node(a)
    with pytest.raises(RuntimeError, match="wrong graph"):
        fx.Graph().erase_node(out)
    graph.erase_node(out)
    graph.erase_node(b)
    assert not a.users and not y.users
    with pytest.warns(UserWarning, match="already erased"):
        graph.erase_node(b)


def test_lint() -> None:
    graph, (_, _, a, b, _) = chain()
    graph.lint()
    a.append(b)
    b.append(a)
    with pytest.raises(RuntimeError, match="was used before it has been defined"):
        graph.lint()
    graph, (_, _, a, b, _) = chain()
    b.args = (a, chain()[1][0])
    with pytest.raises(RuntimeError, match="does not belong to this Graph"):
        graph.lint()
    graph, (_, _, _, b, _) = chain()
    b.name = "relu"
    with pytest.raises(RuntimeError, match="redefined name relu"):
        graph.lint()
    graph, (x, _, _, b, _) = chain()
    with graph.inserting_before(b):
        graph.call_module("layer", (x,))
    module = fx.GraphModule({"layer": lazyt.nn.ReLU()}, graph)
    module.delete_submodule("layer")
    with pytest.raises(RuntimeError, match="references nonexistent attribute layer"):
        graph.lint()


def test_dead_code_goes_and_side_effects_stay() -> None:
    graph, (x, _, a, _, _) = chain()
    with graph.inserting_after(a):
        graph.call_function(lazyt.sin, (x,))
        graph.call_function(lazyt.relu_, (a,))
        graph.call_method("add_", (a, 1))
        graph.call_method("add", (a, 1))
        graph.call_function(operator.setitem, (a, 0, 1))
        graph.call_function(lazyt.rand, (2,))
    assert graph.eliminate_dead_code()
    names = [n.name for n in graph.nodes]
    assert names == ["x", "y", "relu", "rand", "setitem", "add_", "relu_", "add", "output"]
    assert not graph.eliminate_dead_code()
    assert graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))
    assert [n.name for n in graph.nodes] == ["x", "y", "relu", "add", "output"]


def test_names_are_free_and_no_words_of_python() -> None:
    graph = fx.Graph()
    names = [
        graph.placeholder(name).name
        for name in ("x", "x", "x_1", "for", "max", "2d", "a.b", "MyLayer", "x_7", "x", "__add__")
    ]
    assert names == [
        "x", "x_1", "x_2", "for_1", "max_1", "_2d", "a_b", "my_layer", "x_7", "x_8", "add",
    ]  # fmt: skip


def test_refused_nodes() -> None:
    graph = fx.Graph()
    with pytest.raises(AssertionError, match="not in _legal_ops"):
        graph.create_node("call", "x")
    with pytest.raises(ValueError, match="a Callable is expected"):
        graph.create_node("call_function", "x")
    with pytest.raises(ValueError, match="a str is expected"):
        graph.create_node("call_method", len, name="x")
    with pytest.raises(AssertionError, match="args must be a tuple"):
        graph.create_node("call_method", "x", [1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a callable"):
        fx.map_arg((), 3)  # type: ignore[arg-type]


def test_copies() -> None:
    graph, (x, _, a, _, _) = chain()
    a.meta["note"] = [1]
    copied = copy.deepcopy(graph)
    assert str(copied) == str(graph) and len(copied.nodes) == 5
    assert all(n.graph is copied for n in copied.nodes)
    assert copied.find_nodes(op="call_function", target=lazyt.relu)[0].meta == {"note": [1]}
    target = fx.Graph()
    known = target.placeholder("z")
    result = target.graph_copy(graph, {x: known})
    assert isinstance(result, fx.Node) and result.graph is target
    assert [n.name for n in target.nodes] == ["z", "y", "relu", "add"]
    assert target.find_nodes(op="placeholder") == [known, next(iter(known.next.users)).args[1]]
    with pytest.raises(AssertionError, match="target must not be None"):
        graph.find_nodes(op="call_function")
    with pytest.raises(AssertionError, match="Expected output node"):
        target.output_node()


def test_text() -> None:
    graph, _ = chain()
    assert str(graph) == (
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %y : [num_users=1] = placeholder[target=y](default=2)\n"
        "    %relu : [num_users=1] = call_function[target=lazyt.relu](args = (%x,), kwargs = {})\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%relu, %y), "
        "kwargs = {})\n"
        "    return add"
    )
    assert graph.python_code("self").src == (
        "\n\n\ndef forward(self, x, y = 2):\n"
        "    relu = lazyt.relu(x);  x = None\n"
        "    add = relu + y;  relu = y = None\n"
        "    return add\n    "
    )


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_method("sum", (x,), {"dim": 1}))
    graph.print_tabular()
    assert capsys.readouterr().out == (
        "opcode       name    target    args      kwargs\n"
        "-----------  ------  --------  --------  ----------\n"
        "placeholder  x       x         ()        {}\n"
        "call_method  sum_1   sum       (x,)      {'dim': 1}\n"
        "output       output  output    (sum_1,)  {}\n"
    )
