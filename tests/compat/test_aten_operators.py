"""``torch.ops.aten``: overloads, names, and operators whose arguments no public function has."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F
from lazyt.compat.served.packages import aten as _aten
from lazyt.compat.served.trees import treespec_dumps, treespec_loads, treespec_pprint
from lazyt.utils import _pytree as pytree

aten: Any = _aten


def test_overloads_have_names_and_a_packet() -> None:
    add = aten.add
    assert add.Tensor is aten.add.Tensor and add.Tensor.overloadpacket is add
    assert (str(add), str(add.Tensor), add.Tensor.name()) == (
        "aten.add",
        "aten.add.Tensor",
        "aten::add.Tensor",
    )
    assert repr(add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert add.overloads()[:3] == ["Tensor", "Scalar", "out"]
    with pytest.raises(AttributeError, match="has no overload name 'nonsense'"):
        _ = add.nonsense


def test_out_and_underscore_overloads_write() -> None:
    x, out = lazyt.ones(2), lazyt.empty(0)
    aten.add.out(x, x, out=out)
    assert out.tolist() == [2.0, 2.0]
    assert aten.mul_.Tensor(x, out) is x and x.tolist() == [2.0, 2.0]
    assert aten.silu_.default(x) is x


def test_arguments_are_those_of_the_operators() -> None:
    x = lazyt.linspace(-1, 1, 12).reshape(3, 4)
    goal = lazyt.tensor([0, 1, 3])
    assert aten.embedding.default(x, lazyt.tensor([1])).tolist() == x[1:2].tolist()
    assert aten.mse_loss.default(x, x + 2, 2).item() == pytest.approx(48)
    assert aten.index.Tensor(x, [None, lazyt.tensor([0])]).shape == (3, 1)
    logs = aten._log_softmax.default(x, 1, False)
    loss, total = aten.nll_loss_forward.default(logs, goal, None, 1, -100)
    assert loss.item() == pytest.approx(F.cross_entropy(x, goal).item()) and total.item() == 3
    image, kernel = lazyt.arange(16.0).reshape(1, 1, 4, 4), lazyt.ones(1, 1, 2, 2)
    found = aten.convolution.default(image, kernel, None, [2], [0], [1], False, [0], 1)
    assert found.tolist() == F.conv2d(image, kernel, stride=2).tolist()
    values, places = aten.max_pool2d_with_indices.default(image, [2, 2])
    assert values.flatten().tolist() == [5, 7, 13, 15] and places.flatten().tolist() == [
        5,
        7,
        13,
        15,
    ]
    assert aten._to_copy.default(x, dtype=lazyt.float64).dtype is lazyt.float64
    assert aten.linalg_vector_norm.default(lazyt.ones(4)).item() == 2
    assert aten.upsample_nearest2d.vec(image, [8, 8], None).shape == (1, 1, 8, 8)


@pytest.mark.parametrize("tree", [[1, (2, 3)], {"b": 1, "a": [None]}, 1])
def test_shapes_of_trees_as_text(tree: Any) -> None:
    shape = pytree.tree_structure(tree)
    assert treespec_loads(treespec_dumps(shape)) == shape
    assert treespec_pprint(pytree.tree_structure({"a": [1, (2,)]})) == "{'a': [*, (*,)]}"
    with pytest.raises(ValueError, match="Unknown protocol 9"):
        treespec_loads("[9, {}]")
