"""``torch.jit``'s modules and functions: run by Python, saved as programs, loaded without them."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt import nn
from lazyt.compat.compile import is_exporting
from lazyt.errors import CheckpointError, LazytError
from lazyt.export import script
from lazyt.export.recording import RecordingError
from lazyt.export.sizes import ConditionError
from lazyt.nn import functional as F

Tensor = lazyt.Tensor
jit: Any = lazyt.jit


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Linear(4 * 16, 3)
        self.register_buffer("scale", lazyt.tensor(2.0))
        self.register_buffer("hidden", lazyt.ones(1), persistent=False)

    def forward(self, x: Tensor) -> Any:
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.last(x.flatten(1)) * self.scale + F.dropout(self.hidden, 0.0, self.training)


X = lazyt.linspace(-1, 1, 128).reshape(2, 1, 8, 8)


def again(module: Any, **options: Any) -> Any:
    """What a file gives of a module."""
    file = io.BytesIO()
    jit.save(module, file, **options)
    file.seek(0)
    return jit.load(file)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(lazyt.equal(a, b))


def test_a_loaded_module_computes_the_same_in_both_modes() -> None:
    module = Convolutions()
    loaded = again(jit.script(copy.deepcopy(module)))
    assert same(module(X), loaded(X))
    assert same(module.norm.running_mean, loaded.norm.running_mean)
    assert int(loaded.norm.num_batches_tracked) == 1
    assert same(module.eval()(X), loaded.eval()(X))
    assert same(module(X[:1]), loaded(X[:1]))  # any size of a batch
    assert sorted(loaded.state_dict()) == sorted(module.state_dict())
    assert [n for n, _ in loaded.named_modules()] == [n for n, _ in module.named_modules()]


def test_a_loaded_module_is_trained_cast_copied_and_saved_again() -> None:
    module = Convolutions()
    loaded = again(again(jit.script(copy.deepcopy(module))))
    for each in (module, loaded):
        optimizer = lazyt.optim.SGD(each.parameters(), 0.01)
        for _ in range(3):
            optimizer.zero_grad()
            each(X).pow(2).mean().backward()
            optimizer.step()
    assert same(module.eval()(X), loaded.eval()(X))
    copied = copy.deepcopy(loaded)
    with lazyt.no_grad():
        copied.last.bias.add_(1.0)
    assert not same(copied(X), loaded(X)) and same(module(X), loaded(X))
    assert same(module.double()(X.double()), loaded.double()(X.double()))
    other = Convolutions()
    other.load_state_dict(loaded.state_dict())


@pytest.mark.lazy
def test_a_loaded_module_is_captured() -> None:
    loaded = again(jit.script(Convolutions())).eval()
    function = lazyt.jit(lambda x: loaded(x))
    with lazyt.no_grad():
        wanted = loaded(X)
        assert all(same(function(X), wanted) for _ in range(4))
        loaded.last.bias.add_(1.0)
        assert same(function(X), loaded(X)) and not same(function(X), wanted)
    assert function.why() == ["captured"]


@pytest.mark.parametrize(
    ("module", "x"),
    [
        (nn.LSTM(3, 4, batch_first=True), lazyt.ones(2, 5, 3)),
        (nn.GRU(3, 4, 2, bidirectional=True), lazyt.ones(5, 2, 3)),
        (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), lazyt.ones(3, 2, 8)),
        (nn.Sequential(nn.Conv1d(2, 3, 3), nn.InstanceNorm1d(3), nn.GELU()), lazyt.ones(1, 2, 9)),
    ],
)
def test_layers_alone_are_written_with_their_settings(module: nn.Module, x: Tensor) -> None:
    loaded = again(jit.script(module.eval()))
    assert same(module(x), loaded(x))
    assert loaded.original_name == type(module).__name__
    assert isinstance(loaded, script.ScriptModule)


class Deciding(nn.Module):
    """Python decides by a size, repeats, and returns nested results."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.rnn = nn.LSTM(3, 4)

    def forward(self, x: Tensor, times: int = 2) -> dict[str, Any]:
        if x.shape[0] > 1:
            x = x * 2
        for _ in range(times):
            x = self.layer(x)
        half = x[: x.shape[0] // 2]
        rows = lazyt.arange(x.shape[0]) / len(self.layer.weight)
        return {"a": x.view(x.shape[0], 1, -1), "b": (half.sum(), rows), "c": self.rnn(x)[1][0]}


def test_decisions_by_sizes_are_conditions_of_the_program() -> None:
    module = Deciding()
    loaded = again(jit.trace(module, lazyt.ones(2, 3)))
    for rows in (2, 3, 7):
        x = lazyt.linspace(0, 1, rows * 3).reshape(rows, 3)
        assert same(module(x), loaded(x))
    with pytest.raises(ConditionError, match=r"where x\.shape\[0\] > 1 is True, and here it is Fa"):
        loaded(lazyt.ones(1, 3))
    assert "LSTM" in repr(loaded)


def test_a_number_made_of_a_size_fixes_it() -> None:
    def repeated(x: Tensor) -> Any:
        for number in range(x.size(1)):
            x = x + number / x.size(0)
        return x

    loaded = again(jit.trace(repeated, lazyt.ones(2, 3)))
    assert same(loaded(lazyt.ones(2, 3)), repeated(lazyt.ones(2, 3)))
    with pytest.raises(ConditionError, match=r"x\.shape\[1\] is 3, and here it is 4"):
        loaded(lazyt.ones(2, 4))
    with pytest.raises(ConditionError, match=r"x\.shape\[0\] is 2"):
        loaded(lazyt.ones(5, 3))


def test_decisions_by_values_warn() -> None:
    function = jit.trace(lambda x: x * 2 if x.sum() > 0 else x, lazyt.ones(3))
    assert function(-lazyt.ones(2)).tolist() == [-1.0, -1.0]  # Python decides here
    with pytest.warns(Warning, match="makes a bool of a tensor that depends on its arguments"):
        loaded = again(function)
    assert loaded(-lazyt.ones(2)).tolist() == [-2.0, -2.0]


def test_without_examples_python_may_decide_nothing() -> None:
    scripted = jit.script(lambda x: x * 2 if x.shape[0] > 1 else x)
    with pytest.raises(RecordingError, match="cannot be recorded without example inputs"):
        jit.save(scripted, io.BytesIO())


def test_several_methods() -> None:
    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Any:
            return self.layer(x)

        @jit.export  # type: ignore[untyped-decorator]
        def encode(self, x: Tensor, scale: float = 2.0) -> Any:
            return self.layer(x) * scale

        def decode(self, x: Tensor) -> Any:
            return -self.layer(x)

    module, x = Coder(), lazyt.ones(2, 3)
    scripted = again(jit.script(module))
    assert same(scripted.encode(x), module.encode(x)) and same(scripted(x), module(x))
    assert same(scripted.encode(x, scale=3.0), module.encode(x, 3.0))
    traced = again(jit.trace_module(module, {"forward": x, "decode": x}))
    assert same(traced.decode(lazyt.ones(4, 3)), module.decode(lazyt.ones(4, 3)))
    assert not hasattr(traced, "encode")
    assert same(copy.deepcopy(traced).decode(x), module.decode(x))


def test_parameters_that_are_there_twice_stay_one() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.out = nn.Embedding(4, 3), nn.Linear(3, 4, bias=False)
            self.out.weight = self.embedding.weight

        def forward(self, rows: Tensor) -> Any:
            return self.out(self.embedding(rows))

    module = Tied()
    loaded = again(jit.script(module))
    assert loaded.out.weight is loaded.embedding.weight
    assert same(loaded(lazyt.tensor([1, 2])), module(lazyt.tensor([1, 2])))


def test_constants_other_files_and_paths(tmp_path: Path) -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = lazyt.tensor([1.0, 2.0, 3.0])

        def forward(self, x: Tensor) -> Any:
            x = x.to(lazyt.float64).clamp(max=float("inf"))
            return x[..., :2] * self.shift[None, 1:] + lazyt.full((1,), float("nan")).nan_to_num(
                1.0
            )

    path = tmp_path / "shifted.pt"
    traced = jit.trace(Shifted(), lazyt.ones(2, 3))
    traced.save(path, _extra_files={"a.txt": "hello"})
    extra = {"a.txt": "", "other": "stays"}
    loaded = jit.load(str(path), map_location="cpu", _extra_files=extra)
    assert extra == {"a.txt": b"hello", "other": "stays"}
    assert same(loaded(lazyt.ones(4, 3)), Shifted()(lazyt.ones(4, 3)))
    assert same(loaded(lazyt.ones(3)), Shifted()(lazyt.ones(3)))  # no shape is looked at
    again_loaded = again(loaded)
    assert same(again_loaded(lazyt.ones(4, 3)), Shifted()(lazyt.ones(4, 3)))


def test_script_modules_are_modules_of_their_classes() -> None:
    module: Any = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    scripted: Any = jit.script(module)
    assert type(scripted).__name__ == "RecursiveScriptModule"
    assert scripted[0].weight is module[0].weight
    scripted.eval()
    assert module.training and module[1].training and not scripted[1].training
    assert jit.script(scripted) is scripted
    assert scripted.original_name == "Sequential" and "def forward(self, input)" in scripted.code
    assert [node.op for node in scripted.graph.nodes][-1] == "output"
    traced = jit.trace(module, lazyt.ones(1, 2))
    assert type(traced).__name__ == "TopLevelTracedModule"
    with pytest.raises(LazytError, match=r"saved using torch\.save"):
        pickle.dumps(scripted)
    with pytest.raises(AttributeError, match="no attribute 'save'"):
        jit.save(module, io.BytesIO())


def test_frozen_modules_require_no_gradient() -> None:
    module = nn.Linear(2, 2)
    with pytest.raises(LazytError, match="expects a ScriptModule"):
        jit.freeze(module)
    scripted = jit.script(module)
    with pytest.raises(LazytError, match="modules in eval mode"):
        jit.freeze(scripted)
    frozen = jit.freeze(scripted.eval())
    assert not frozen(lazyt.ones(1, 2)).requires_grad and scripted(lazyt.ones(1, 2)).requires_grad


# ----------------------------------------------------------------------------- files


def changed(edit: Any) -> io.BytesIO:
    """A file whose text an edit has changed."""
    import json

    file = io.BytesIO()
    jit.save(jit.trace(lambda x: (x.sin() + 1).shape[0] * F.relu(x), lazyt.ones(3)), file)
    file.seek(0)
    whole = lazyt.load(file)
    document = json.loads(whole["document"])
    edit(whole, document, document["programs"]["forward"]["any"]["nodes"])
    if isinstance(whole["document"], str):
        whole["document"] = json.dumps(document)
    out = io.BytesIO()
    lazyt.save(whole, out)
    out.seek(0)
    return out


def test_the_unchanged_file_runs() -> None:
    loaded: Any = jit.load(changed(lambda *_: None))
    assert loaded(lazyt.ones(2)).tolist() == [2.0, 2.0]


def _set(place: int, **values: Any) -> Any:
    return lambda whole, document, nodes: nodes[place].update(values)


@pytest.mark.parametrize(
    "edit",
    [
        _set(1, op="call_function", target="os.system", args=["true"]),
        _set(1, op="call_function", target="save", args=[]),
        _set(1, op="call_function", target="load", args=["x"]),
        _set(1, op="call_function", target="builtins.eval", args=["1"]),
        _set(1, op="call_function", target="operator.attrgetter", args=["__class__"]),
        _set(1, op="call_function", target="operator.methodcaller", args=["__class__"]),
        _set(1, op="call_function", target="builtins.getattr", args=[{"node": "x"}, "__class__"]),
        _set(1, op="call_function", target="ops.nowhere.f"),
        _set(1, op="call_function", target="nn.functional.__builtins__"),
        _set(1, op="call_method", target="__reduce__"),
        _set(1, op="call_method", target="numpy"),
        _set(1, op="call_method", target="sin(); import os"),
        _set(1, op="get_attr", target="x;import os"),
        _set(1, op="get_attr", target="__class__.__init__"),
        _set(1, op="call_module", target="nothing"),
        _set(1, name="x y"),
        _set(1, name="x"),
        _set(1, op="nothing"),
        _set(1, args=[{"node": "later"}]),
        _set(1, args=[{"eval": "1"}]),
        _set(1, args=[{"function": "os.system"}]),
        _set(1, args=[{"dtype": "load"}]),
        _set(1, kwargs={"a=1) or (b": 1}),
        _set(0, target="self, y"),
        lambda whole, document, nodes: nodes.pop(),
        lambda whole, document, nodes: nodes.clear(),
        lambda whole, document, nodes: document["programs"]["forward"].update(any=3),
        lambda whole, document, nodes: document.pop("tree"),
        lambda whole, document, nodes: document["tree"].update(layer="Module2", settings={}),
        lambda whole, document, nodes: document["tree"].update(
            layer="Linear", settings={"__class__": 1}
        ),
        lambda whole, document, nodes: document.update(kind="export"),
        lambda whole, document, nodes: whole.update(version=99),
        lambda whole, document, nodes: whole.update(format="other"),
        lambda whole, document, nodes: whole.update(document=3),
    ],
)  # fmt: skip
def test_files_run_functions_of_tensors_only(edit: Any) -> None:
    with pytest.raises(CheckpointError):
        jit.load(changed(edit))


def test_files_of_other_formats(tmp_path: Path) -> None:
    import zipfile

    with pytest.raises(ValueError, match=r"The provided filename .* does not exist"):
        jit.load(str(tmp_path / "nothing.pt"))
    with pytest.raises(CheckpointError, match="holds no program, but a dict"):
        lazyt.save({"a": lazyt.ones(1)}, tmp_path / "weights.pt")
        jit.load(tmp_path / "weights.pt")
    with zipfile.ZipFile(tmp_path / "theirs.pt", "w") as archive:
        archive.writestr("m/code/__torch__.py", "def forward(self): pass")
    with pytest.raises(CheckpointError, match="is TorchScript"):
        jit.load(tmp_path / "theirs.pt")
    with pytest.raises(CheckpointError):
        jit.load(io.BytesIO(b"garbage"))


def test_what_a_program_cannot_hold() -> None:
    class Odd:
        pass

    kept = Odd()

    def function(x: Tensor) -> Any:
        return kept, x

    with pytest.raises(LazytError):
        jit.save(jit.trace(function, lazyt.ones(1)), io.BytesIO())


@pytest.mark.lazy
def test_traced_graphs_are_captured() -> None:
    module: Any = lazyt.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    function = lazyt.jit(lambda x: module(x))
    with lazyt.no_grad():
        wanted = module(lazyt.ones(2, 3))
        assert all(same(function(lazyt.ones(2, 3)), wanted) for _ in range(4))
    assert function.why() == ["captured"]


def test_operators_and_what_programs_ask_while_they_are_recorded() -> None:
    asked = []

    def function(x: Any) -> Any:
        asked.append((jit.is_tracing(), is_exporting()))
        rows = lazyt.arange(x.shape[0])
        mask = (rows[:, None] >= rows) & (x > 0) | ~(x < -0.5) ^ (x == 0)
        return 1 - (2 ** (3 / (x + 2))) @ x.mT + (mask % 2) // 1 + (-x)[:, x.shape[1] - 1 :]

    x = lazyt.linspace(-1, 1, 9).reshape(3, 3)
    loaded = again(jit.trace(function, x))
    assert asked == [(True, False)]
    assert same(loaded(x), function(x)) and same(loaded(x[:2, :2]), function(x[:2, :2]))
    assert asked[-1] == (False, False)

    class Asking(nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    lazyt.export.export(Asking(), (x,))
    assert asked[-1] == (False, True)


def test_conditions_say_what_they_ask() -> None:
    def function(x: Any) -> Any:
        parts = x.split(2)
        return parts[0] * 2 if (x.shape[0] * 2 + 1) // 2 >= x.numel() else x

    loaded = again(jit.trace(function, lazyt.ones(4, 1)))
    with pytest.raises(ConditionError, match=r"\(\(x\.shape\[0\] \* 2\) \+ 1\) // 2 >= x"):
        loaded(lazyt.ones(4, 2))
    with pytest.raises(ConditionError, match="the number of parts of split is 2"):
        loaded(lazyt.ones(6, 1))
