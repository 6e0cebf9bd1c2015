"""PyTorch's names that lazyt serves from a table: each is there, does what it says, or says why not
when it is called."""

from __future__ import annotations

import gc
import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lazyt
from lazyt.compat import torch_alias
from lazyt.compat.names import table
from lazyt.compat.names.entries import Refused
from lazyt.errors import UnsupportedNameError


@pytest.fixture
def torch() -> Iterator[Any]:
    torch_alias.install()
    yield importlib.import_module("torch")
    torch_alias.uninstall()


def test_printed_text_has_the_name_that_a_program_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert str(lazyt.float16) == "lazyt.float16"
    monkeypatch.setitem(sys.modules, "torch", lazyt)  # a program may do that itself
    assert str(lazyt.float16) == "torch.float16"
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))  # some other module
    assert str(lazyt.float16) == "lazyt.float16"


def test_printed_text_under_the_alias(torch: Any) -> None:
    assert str({torch.float16: 1}) == "{torch.float16: 1}"


def test_every_name_of_the_table_is_there(torch: Any) -> None:
    for path in sorted(table.OWN | table.MODULES.keys()):
        module = importlib.import_module(f"torch.{path}" if path else "torch")
        for name in table.names(path).homes:
            assert getattr(module, name, module) is not module, f"{path}.{name}"


def test_refused_names_can_be_used_until_they_are_called(torch: Any) -> None:
    count = 0
    for path, groups in table.MODULES.items():
        module = importlib.import_module(f"torch.{path}" if path else "torch")
        for group, names in groups.items():
            refuses = isinstance(group, Refused) and not group.place
            for name in names.split() if refuses else ():
                found = getattr(module, name)
                count += 1
                if isinstance(found, type) and issubclass(found, BaseException):
                    continue
                if isinstance(found, type):
                    assert not isinstance(lazyt.nn.Linear(1, 1), found)
                    found = type("Mine", (found,), {})
                with pytest.raises(UnsupportedNameError) as caught:
                    found(1, key=2)
                assert isinstance(group, Refused)
                assert group.reason in str(caught.value)
                assert f"{module.__name__.replace('lazyt', 'torch')}.{name}" in str(caught.value)
    assert count > 200


def test_internal_modules_do_not_answer_under_the_name_of_torch(torch: Any) -> None:
    for name in ("ir", "codegen", "handle", "runtime", "plan", "passes", "tools", "compat"):
        importlib.import_module(f"lazyt.{name}")
        assert not hasattr(torch, name)
        with pytest.raises(ImportError):
            importlib.import_module(f"torch.{name}")
    for name in ("ops", "compiler", "functional"):
        assert importlib.import_module(f"torch.{name}") is not importlib.import_module(
            f"lazyt.{name}"
        )
    assert torch.functional.einsum is lazyt.einsum
    assert not hasattr(torch.functional, "nn")
    assert torch.compiler.is_compiling() is False


def test_the_package_is_a_module_of_its_own(torch: Any) -> None:
    assert type(torch).__mro__[1] is ModuleType
    assert torch.__name__ == "torch"
    assert torch.Tensor is lazyt.Tensor
    assert {"Tensor", "nn", "jit", "hub", "add", "float32"} <= set(dir(torch))
    assert "ir" not in dir(torch)
    scope: dict[str, Any] = {}
    exec("from torch import *", scope)
    assert scope["add"] is lazyt.add
    with pytest.raises(AttributeError, match="Did you mean: 'softmax'"):
        torch.sotfmax  # noqa: B018


def test_nothing_stays_behind() -> None:
    before = {name: set(vars(module)) for name, module in _ours()}
    torch_alias.install()
    importlib.import_module("torch.utils.model_zoo")
    torch: Any = importlib.import_module("torch")
    assert torch.distributed.ReduceOp.SUM == 0
    assert torch.autograd.profiler.emit_nvtx
    torch_alias.uninstall()
    with pytest.raises(AttributeError):
        vars(lazyt.utils)["__getattr__"]("model_zoo")
    with pytest.raises(AttributeError, match="all ranks"):
        lazyt.distributed.Reducer  # noqa: B018
    for name, module in _ours():
        if name in before:
            left = {n for n in set(vars(module)) - before[name] if "torch" in repr(vars(module)[n])}
            assert not left, name


def _ours() -> list[tuple[str, ModuleType]]:
    return [(n, m) for n, m in sys.modules.items() if n.split(".")[0] == "lazyt" and m is not None]


def test_operators_are_attributes_of_namespaces(torch: Any) -> None:
    def twice(x: lazyt.Tensor) -> lazyt.Tensor:
        return x * 2

    torch.library.custom_op("named::twice", twice, mutates_args=())
    assert torch.ops.named.twice(lazyt.ones(2)).tolist() == [2.0, 2.0]
    assert torch.ops.aten.add.Tensor(lazyt.ones(2), 1.0).tolist() == [2.0, 2.0]
    assert torch.ops.aten.softmax(lazyt.zeros(2), 0).tolist() == [0.5, 0.5]
    assert torch.ops.aten.add_.Tensor(lazyt.ones(1), 1.0).tolist() == [2.0]
    with pytest.raises(NotImplementedError, match="dispatcher"):
        torch.ops.aten._fft_c2c.default(lazyt.ones(1))
    assert not hasattr(torch.ops.aten, "no_such_operator")


def test_a_program_asks_whether_it_is_alone(torch: Any) -> None:
    dist = importlib.import_module("torch.distributed")
    assert dist.is_available()
    assert not dist.is_initialized()
    assert dist.ReduceOp is lazyt.distributed.ReduceOp
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.get_rank()
    with pytest.raises(NotImplementedError, match="whole models"):
        importlib.import_module("torch.distributed.pipelining").ScheduleGPipe(None, 2)


def test_debug_levels_are_remembered(torch: Any) -> None:
    dist = importlib.import_module("torch.distributed")
    assert str(dist.get_debug_level()) == "DebugLevel.OFF"
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    assert dist.get_debug_level() == 2
    dist.set_debug_level_from_env()
    assert dist.get_debug_level() == dist.DebugLevel.OFF
    assert [dist.get_default_backend_for_device(d) for d in ("cpu", "cuda:1")] == ["gloo", "nccl"]
    with pytest.raises(ValueError, match="not registered"):
        dist.get_default_backend_for_device("meta")
    assert dist.supports_complex(dist.ReduceOp.SUM)
    assert not dist.supports_complex(dist.ReduceOp.MAX)


def test_calls_to_other_processes_are_refused_when_they_are_made(torch: Any) -> None:
    def far(x: int) -> int:
        """Adds one elsewhere."""
        return x + 1

    api: Any = importlib.import_module("torch.distributed.rpc.api")
    far = api._require_initialized(far)
    assert (far.__name__, far.__doc__) == ("far", "Adds one elsewhere.")
    with pytest.raises(RuntimeError, match=r"far\(\) calls other processes"):
        far(1)


def test_marks_for_compilers_change_nothing(torch: Any) -> None:
    def double(x: Any) -> Any:
        return 2 * x

    assert torch.compiler.disable(double) is double
    assert torch.compiler.disable(recursive=False)(double) is double
    assert torch._dynamo.allow_in_graph(double) is double
    assert torch.jit._overload(double) is double
    with torch._dynamo.config.patch(cache_size_limit=3), torch._C.DisableTorchFunctionSubclass():
        assert double(1) == 2


def test_lists_of_tensors(torch: Any) -> None:
    xs = [lazyt.tensor([1.0, -2.0]), lazyt.tensor([3.0])]
    torch._foreach_add_(xs, [lazyt.ones(2), lazyt.ones(1)], alpha=2)
    assert [x.tolist() for x in xs] == [[3.0, 0.0], [5.0]]
    torch._foreach_mul_(xs, 2)
    torch._foreach_lerp_(xs, [lazyt.zeros(2), lazyt.zeros(1)], 0.5)
    assert [x.tolist() for x in xs] == [[3.0, 0.0], [5.0]]
    torch._foreach_maximum_(xs, 1.0)
    assert [x.tolist() for x in torch._foreach_neg(xs)] == [[-3.0, -1.0], [-5.0]]
    torch._foreach_addcdiv_(xs, [x.clone() for x in xs], [x.clone() for x in xs], value=-1.0)
    assert [x.tolist() for x in xs] == [[2.0, 0.0], [4.0]]
    torch._foreach_copy_(xs, [lazyt.ones(2), lazyt.zeros(1)])
    assert [x.item() for x in torch._foreach_norm(xs, 1)] == [2.0, 0.0]
    with pytest.raises(RuntimeError, match="same number of tensors"):
        torch._foreach_add(xs, [lazyt.ones(2)])


def test_shapes_of_trees(torch: Any) -> None:
    pytree = importlib.import_module("torch.utils._pytree")
    tree = {"a": [1, (2, 3)], "b": 4}
    found, shape = pytree.tree_flatten_with_path(tree)
    assert [(pytree.keystr(path), leaf) for path, leaf in found] == [
        ("['a'][0]", 1), ("['a'][1][0]", 2), ("['a'][1][1]", 3), ("['b']", 4),
    ]  # fmt: skip
    assert pytree.tree_unflatten([leaf for _, leaf in found], shape) == tree
    doubled = pytree.tree_map_with_path(lambda path, x, y: x + y + len(path), tree, tree)
    assert doubled == {"a": [4, (7, 9)], "b": 9}
    for kind, value in ((dict, tree), (list, [1]), (tuple, (1, 2))):
        node = pytree.SUPPORTED_NODES[pytree._get_node_type(value)]
        assert node.type is kind
        assert node.unflatten_fn(*node.flatten_fn(value)) == value
    placed, keys = pytree._dict_flatten_with_keys(tree)
    assert [(key.get(tree), value) for key, value in placed] == [([1, (2, 3)],) * 2, (4, 4)]
    assert keys == ["a", "b"]
    assert int not in pytree.SUPPORTED_NODES
    assert pytree.LeafSpec() == pytree.tree_structure(1)
    assert isinstance(pytree.tree_structure(1), pytree.LeafSpec)
    assert not isinstance(shape, pytree.LeafSpec)


def test_hub_finds_what_is_there(torch: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    hub = importlib.import_module("torch.hub")
    assert hub.get_dir() == str(tmp_path / "hub")
    address = "https://example.org/weights/small-0123abcd.pth"
    assert hub.HASH_REGEX.search(address)[1] == "0123abcd"
    with pytest.raises(NotImplementedError, match="0123abcd"):
        hub.load_state_dict_from_url(address)
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    lazyt.save({"w": lazyt.ones(2)}, tmp_path / "hub" / "checkpoints" / "small-0123abcd.pth")
    assert hub.load_state_dict_from_url(address)["w"].tolist() == [1.0, 1.0]
    (tmp_path / "hubconf.py").write_text("def small(n):\n    'Small.'\n    return [n]\n")
    assert hub.list(str(tmp_path), source="local") == ["small"]
    assert hub.load(tmp_path, "small", 3, source="local") == [3]
    with pytest.raises(NotImplementedError, match="downloads nothing"):
        hub.load("some/one", "small")


def test_futures_are_set_once(torch: Any) -> None:
    futures = importlib.import_module("torch.futures")
    first, second = futures.Future(), futures.Future()
    both = futures.collect_all([first, second])
    twice = first.then(lambda done: 2 * done.value())
    first.set_result(3)
    assert (twice.wait(), first.done(), both.done()) == (6, True, False)
    with pytest.raises(RuntimeError, match="complete again"):
        first.set_result(4)
    second.set_exception(KeyError("x"))
    assert both.done()
    with pytest.raises(KeyError):
        futures.wait_all([first, second])
    assert torch.jit.wait(torch.jit.fork(lambda x: x + 1, 1)) == 2


def test_libraries_cannot_be_loaded(torch: Any) -> None:
    with pytest.raises(OSError, match="no libraries"):
        torch.ops.load_library("lib.so")


@pytest.mark.parametrize(
    "features, wanted",
    [
        ("avx avx2 fma", "AVX2"),
        ("avx2 avx512f fma", "AVX2"),
        ("avx2 avx512bw avx512dq avx512f avx512vl fma", "AVX512"),
        ("asimd", "DEFAULT"),
        ("", "DEFAULT"),
    ],
)
def test_capability_of_the_processor(
    features: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lazyt.compat.served import hardware

    monkeypatch.setattr(hardware, "cpu_features", lambda: tuple(features.split()))
    assert hardware.get_cpu_capability() == wanted


def test_private_names_of_loaders() -> None:
    from lazyt.compat.served import loading

    # recorded under PyTorch 2.13
    assert loading._generate_state(123456789012345, 3) == [
        3999280408, 2418223825, 1775828080, 3641838301,
    ]  # fmt: skip
    assert loading._generate_state(5, 0) == [161328693, 2841646664, 2763651139, 2546215728]
    assert loading.np_str_obj_array_pattern.search("<U3") is not None
    assert loading.np_str_obj_array_pattern.search("<f4") is None


def test_dictionaries_of_tensors() -> None:
    from lazyt.compat.served.weak import TensorWeakRef, WeakIdKeyDictionary, WeakIdRef

    one, two = lazyt.ones(2), lazyt.ones(2)
    known = WeakIdKeyDictionary({one: "one"})
    known[two] = "two"
    assert known[one] == "one" and known[two] == "two" and len(known) == 2
    assert one in known and lazyt.ones(2) not in known and 3 not in known
    assert [known[key] for key in known] == ["one", "two"]
    with pytest.raises(KeyError):
        known[lazyt.ones(2)]
    both = known | {one: "changed"}
    assert both[one] == "changed" and known[one] == "one"
    assert known.copy() == known and both != known
    ref, identity = TensorWeakRef(two), WeakIdRef(two)
    assert ref() is two and identity == WeakIdRef(two) != WeakIdRef(one)
    assert hash(identity) == id(two)
    del two, both
    gc.collect()
    assert ref() is None and identity() is None
    assert list(known.values()) == ["one"] and len(known.keyrefs()) == 1
    assert known.pop(one) == "one" and not known
    with pytest.raises(TypeError, match="a tensor is needed, not int"):
        wrong: Any = 3
        TensorWeakRef(wrong)


def test_blocks_that_decorate(torch: Any) -> None:
    contexts = importlib.import_module("torch.utils._contextlib")
    base: Any = contexts._DecoratorContextManager
    plain: Any = contexts._NoParamDecoratorContextManager
    seen: list[str] = []

    class Noting(base):  # type: ignore[misc]
        def __init__(self, name: str = "one") -> None:
            self.name = name

        def clone(self) -> Any:
            return type(self)(self.name)

        def __enter__(self) -> None:
            seen.append(f"in {self.name}")

        def __exit__(self, *_: object) -> None:
            seen.append("out")

    @Noting("two")
    def doubled(x: int) -> int:
        seen.append("call")
        return 2 * x

    assert doubled(3) == 6 and seen == ["in two", "call", "out"]

    @Noting()
    def counted() -> Iterator[int]:
        yield 1
        yield 2

    seen.clear()
    steps = counted()
    assert next(steps) == 1 and seen == ["in one", "out"]
    assert list(steps) == [2]

    class Plain(plain):  # type: ignore[misc]
        def __enter__(self) -> None:
            seen.append("in")

        def __exit__(self, *_: object) -> None:
            seen.append("out")

    seen.clear()
    assert Plain(lambda: seen.append("call"))() is None and seen == ["in", "call", "out"]
    with Plain():
        assert seen[-1] == "in"


def test_tensors_of_modules_are_swapped(torch: Any) -> None:
    members = importlib.import_module("torch.nn.utils._named_member_accessor")
    layer, other = torch.nn.Linear(2, 3), torch.ones(3, 2)
    weight = layer.weight
    assert members.swap_tensor(layer, "weight", other) is weight
    assert layer.weight is other and layer._parameters["weight"] is other
    members.set_tensor(layer, "extra", other)
    assert layer.extra is other
    with pytest.raises(AttributeError, match="has no attribute `missing`"):
        members.swap_tensor(layer, "missing", other)
    with pytest.raises(KeyError, match=r'contain "\."'):
        members.swap_tensor(layer, "a.b", other)
    with pytest.raises(TypeError, match=r"not an instance of torch\.Tensor"):
        members.swap_tensor(layer, "weight", 3)


def test_types_of_results(torch: Any) -> None:
    kinds = importlib.import_module("torch.return_types")
    assert isinstance(torch.ones(2, 3).max(0), kinds.max)
    assert isinstance(torch.linalg.slogdet(torch.eye(2)), kinds.linalg_slogdet)
    trees = importlib.import_module("torch.utils._pytree")
    assert trees.is_structseq_instance(time.gmtime()) and not trees.is_structseq_instance((1,))
    key = trees.SequenceKey(0)
    assert trees._list_flatten_with_keys(["a"]) == trees._tuple_flatten_with_keys(("a",))
    assert trees._list_flatten_with_keys(["a"]) == ([(key, "a")], None)


def test_names_of_annotations_can_be_imported() -> None:
    with torch_alias.standing_in():
        types = importlib.import_module("torch.nn.common_types")
        assert types._size_2_t is types._size_any_t
        assert importlib.import_module("torch._C")._is_tracing() is False
        library = importlib.import_module("torch.library")
        assert library.triton_op is library.custom_op
        with pytest.raises(UnsupportedNameError, match="TensorType"):
            importlib.import_module("torch").TensorType()
