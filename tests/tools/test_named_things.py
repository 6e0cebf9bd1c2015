"""What other packages mention or import of PyTorch: dtypes that are only names, trees, types,
processes, clocks, ``__torch_function__`` and the distributed package."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import multiprocessing, nn, overrides, types
from lazyt.compat import legacy
from lazyt.errors import DTypeError
from lazyt.utils import _pytree, benchmark

X = lazyt.ones(4)


def test_dtypes_that_are_only_names_can_be_listed_and_compared() -> None:
    named = (getattr(lazyt, name) for name in legacy.__all__)
    kinds = {kind for kind in named if isinstance(kind, lazyt.dtype)}
    assert len(kinds) == 12  # one has two names
    for kind in kinds:
        assert isinstance(kind, lazyt.dtype)
        assert str(kind) == f"lazyt.{kind.name}"
        assert pickle.loads(pickle.dumps(kind)) is copy.deepcopy(kind) is kind
    assert (lazyt.complex64.itemsize, lazyt.complex64.is_complex) == (8, True)
    assert lazyt.float8_e5m2.is_floating_point
    assert lazyt.float8_e5m2.is_signed
    assert lazyt.cfloat is lazyt.complex64
    assert lazyt.complex64 not in kinds
    assert X.dtype not in kinds


@pytest.mark.parametrize(
    "use",
    [
        lambda kind: lazyt.zeros(3, dtype=kind),
        lambda kind: lazyt.empty_like(X, dtype=kind),
        lambda kind: lazyt.tensor([1.0], dtype=kind),
        lambda kind: lazyt.arange(3, dtype=kind),
        lambda kind: lazyt.randn(3, dtype=kind),
        lambda kind: lazyt.frombuffer(b"12345678", dtype=kind),
        lambda kind: lazyt.as_tensor(np.ones(3), dtype=kind),
        lambda kind: lazyt.promote_types(lazyt.float32, kind),
        lambda kind: lazyt.set_default_dtype(kind),
        lambda kind: nn.Linear(2, 2).to(kind),
        lambda kind: X.to(kind),
        lambda kind: X.type(kind),
        lambda kind: X.view(kind),
        lambda kind: X.sum(dtype=kind),
        lambda kind: lazyt.view_copy(X, kind),
    ],
)
def test_nothing_computes_in_them(use: Callable[[lazyt.dtype], object]) -> None:
    with pytest.raises(DTypeError, match=r"lazyt\.complex32 is only a name here: "):
        use(lazyt.complex32)
    with pytest.raises(DTypeError, match=r"float8_e4m3fn is only a name here: "):
        use(lazyt.float8_e4m3fn)


Point = namedtuple("Point", "x y")


class Pair:
    def __init__(self, left: Any, right: Any, name: str) -> None:
        self.left, self.right, self.name = left, right, name


def test_trees_come_apart_and_together() -> None:
    tree = {"b": [1, (2, None)], "a": Point(3, OrderedDict(k=4))}
    leaves, spec = _pytree.tree_flatten(tree)
    assert leaves == [1, 2, None, 3, 4]
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (5, 10, 2)
    assert (spec.type, spec.context) == (dict, ["b", "a"])
    assert [child.type for child in spec.children()] == [list, Point]
    assert _pytree.tree_unflatten(leaves, spec) == tree
    assert _pytree.tree_structure(tree) == spec
    with pytest.raises(ValueError, match="has length 1 but the spec refers to a pytree that hold"):
        _pytree.tree_unflatten([1], spec)
    assert _pytree.tree_map(lambda v: v and 10 * v, tree) == {
        "b": [10, (20, None)], "a": Point(30, OrderedDict(k=40)),
    }  # fmt: skip
    assert _pytree.tree_map_only(int, str, [1, "x", (2.0,)]) == ["1", "x", (2.0,)]
    assert _pytree.tree_map_only(lambda v: v == 1, str, [1, 2]) == ["1", 2]
    pairs = _pytree.tree_leaves([(1, 2), 3], is_leaf=lambda v: isinstance(v, tuple))
    assert pairs == [(1, 2), 3]


def test_trees_of_one_shape_are_mapped_together() -> None:
    first, second = {"a": 1, "b": [2, 3]}, {"b": [20, 30], "a": 10}
    total = _pytree.tree_map(lambda u, v: u + v, first, second)
    assert total == {"a": 11, "b": [22, 33]}
    assert _pytree.tree_map(lambda u, v: (u, v), [1], [(2, 3)]) == [(1, (2, 3))]
    with pytest.raises(ValueError, match="Node arity mismatch; expected 2, but got 1"):
        _pytree.tree_map(lambda u, v: u, [1, 2], [1])
    with pytest.raises(ValueError, match="Node keys mismatch"):
        _pytree.tree_map(lambda u, v: u, {"a": 1}, {"b": 1})
    assert _pytree.tree_all(bool, [1, (2,)])
    assert not _pytree.tree_any(bool, [0, {"a": 0}])
    assert _pytree.tree_any_only(str, lambda v: v == "x", [0, "x"])


def test_registered_classes_are_trees_for_transforms_too() -> None:
    _pytree.register_pytree_node(
        Pair,
        lambda pair: ([pair.left, pair.right], pair.name),
        lambda parts, name: Pair(parts[0], parts[1], name),
    )
    with pytest.raises(ValueError, match="already registered"):
        _pytree.register_pytree_node(Pair, lambda pair: ([], None), lambda parts, name: None)
    pair = _pytree.tree_map(lambda v: v + 1, Pair(1, (2, 3), "n"))
    assert (pair.left, pair.right, pair.name) == (2, (3, 4), "n")
    assert "Pair, n, [*" in repr(_pytree.tree_structure(pair))
    doubled = lazyt.vmap(lambda p: Pair(p.left * 2, p.right, p.name))(Pair(X, X, "m"))
    assert doubled.left.tolist() == [2.0] * 4
    assert doubled.name == "m"


@dataclasses.dataclass
class Point3:
    x: Any
    y: Any
    label: str = "none"


def test_containers_keep_what_they_are() -> None:
    table = defaultdict(list, a=1, b=[2])
    spec = _pytree.tree_structure(table)
    assert repr(spec) == (
        "TreeSpec(defaultdict, [<class 'list'>, ['a', 'b']], [*,\n  TreeSpec(list, None, [*])])"
    )
    copied = _pytree.tree_map(lambda v: v + 1, table)
    assert copied == {"a": 2, "b": [3]} and copied["new"] == []
    queue = _pytree.tree_map(lambda v: v + 1, deque([1, 2], maxlen=3))
    assert queue == deque([2, 3], maxlen=3) and queue.maxlen == 3
    assert _pytree.tree_structure(deque([1], maxlen=4)).context == 4
    other = OrderedDict(b=[20], a=10)
    assert _pytree.tree_map(lambda u, v: u + v, table, other) == {"a": 11, "b": [22]}


def test_dataclasses_are_trees_once_registered() -> None:
    assert _pytree.tree_leaves(Point3(1, 2)) == [Point3(1, 2)]
    with pytest.raises(ValueError, match=r"Missing fields in `field_names`: \{'y'\}"):
        _pytree.register_dataclass(Point3, field_names=["x"], drop_field_names=["label"])
    with pytest.raises(ValueError, match="as it is not a dataclass"):
        _pytree.register_dataclass(int)
    _pytree.register_dataclass(Point3, drop_field_names=["label"])
    assert _pytree.tree_map(lambda v: v + 1, Point3(1, (2, 3), "l")) == Point3(2, (3, 4))
    assert repr(_pytree.tree_structure(Point3(1, None))) == (
        "TreeSpec(Point3, [['x'], ['y']], [*])"
    )
    doubled = lazyt.vmap(lambda p: Point3(p.x * 2, p.y))(Point3(X, X))
    assert doubled.x.tolist() == [2.0] * 4


def test_captured_functions_return_registered_classes() -> None:
    class Both:
        def __init__(self, left: Any, right: Any) -> None:
            self.left, self.right, self.note = left, right, "made"

    captured = lazyt.jit(lambda x: Both(x + 1, x * 2))
    _pytree.register_pytree_node(
        Both, lambda both: ([both.left, both.right], None), lambda parts, _: Both(*parts)
    )
    for number in range(5):
        found = captured(lazyt.full((2,), float(number)))
        assert type(found) is Both and vars(found).keys() == {"left", "right", "note"}
        assert found.left.tolist() == [number + 1.0] * 2
        assert found.right.tolist() == [number * 2.0] * 2 and found.note == "made"
    assert captured.why() == ["captured"]


def test_a_timer_computes_what_it_times() -> None:
    computed: list[str] = []

    names = {"x": lazyt.ones(8), "y": None, "note": computed.append}
    for statement in ("x * 2 + 1", "y = x * 3", "note('ran')"):
        timer = benchmark.Timer(statement, "z = x + 1", globals=names, label="scale")
        found = timer.timeit(3)
        assert (found.number_per_run, len(found.times)) == (3, 1)
        assert found.median > 0
        assert repr(found).splitlines()[1] == "scale"
        assert "3 runs , 1 thread" in repr(found)
    assert computed == ["ran"] * 4
    # The statement's result is computed, though the statement never looks at it.
    results: list[lazyt.Tensor] = []
    kept = "(results.append(x.cos() - 7), results[-1])[1]"
    benchmark.Timer(kept, globals={**names, "results": results}).timeit(1)
    assert [result.node.data is not None for result in results] == [True, True]
    found = benchmark.Timer("x + 1", globals=names).blocked_autorange(min_run_time=0.01)
    assert sum(found.raw_times) >= 0.01
    assert found.iqr >= 0


def _fill(index: int, folder: str) -> None:
    value = float(lazyt.full((2,), index).sum())
    Path(folder, str(index)).write_text(str(value))


def _fail(index: int) -> None:
    raise ValueError(f"in process {index}")


def test_processes_are_spawned(tmp_path: Path) -> None:
    multiprocessing.start_processes(_fill, (str(tmp_path),), nprocs=2, start_method="fork")
    assert [(tmp_path / str(i)).read_text() for i in range(2)] == ["0.0", "2.0"]
    with pytest.raises(multiprocessing.ProcessRaisedException, match="in process 0"):
        multiprocessing.start_processes(_fail, nprocs=1, start_method="fork")
    assert multiprocessing.get_sharing_strategy() in multiprocessing.get_all_sharing_strategies()
    assert multiprocessing.Queue is not None


class Scaled:
    """Something that handles calls of functions with it."""

    @classmethod
    def __torch_function__(cls, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func.__name__, cls


class Twice(Scaled):
    pass


def test_functions_of_users_ask_their_arguments() -> None:
    assert not overrides.has_torch_function((X, 1))
    assert overrides.has_torch_function_unary(Scaled())
    assert overrides.is_tensor_like(X)
    assert not overrides.is_tensor_like(1.0)
    handled = overrides.handle_torch_function(_fill, (Scaled(), Twice()), 1)
    assert handled == ("_fill", Twice)


def test_types_are_there_to_annotate_with() -> None:
    assert isinstance(1.0, types._Number)
    assert types._dtype is lazyt.dtype
    assert isinstance(X.device, types._device)


def test_there_is_no_group_of_processes() -> None:
    assert lazyt.distributed.is_available()
    assert not lazyt.distributed.is_initialized()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        nn.parallel.DistributedDataParallel(nn.Linear(2, 2))


def test_files_are_storages(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(8)))
    private = lazyt.UntypedStorage.from_file(str(path), False, 8)
    assert lazyt.asarray(private[2:4], dtype=lazyt.uint8).tolist() == [2, 3]
    private.fill_(9)
    assert path.read_bytes() == bytes(range(8))
    with pytest.raises(
        RuntimeError, match="size <8> is smaller than the required mapping size <9>"
    ):
        lazyt.UntypedStorage.from_file(str(path), False, 9)
