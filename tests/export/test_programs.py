"""``torch.export``: programs with their signature, shapes that may differ, and files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt import export, nn
from lazyt.errors import CheckpointError, LazytError
from lazyt.export.dimensions import ShapesError
from lazyt.export.recording import RecordingError
from lazyt.export.sizes import ConditionError

Tensor = lazyt.Tensor


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 2)).eval()


def loaded(program: export.ExportedProgram) -> export.ExportedProgram:
    file = io.BytesIO()
    export.save(program, file)
    file.seek(0)
    return export.load(file)


def test_a_program_has_weights_as_arguments_and_a_signature() -> None:
    model = network()
    program = export.export(model, (lazyt.ones(3, 4),))
    signature = program.graph_signature
    assert signature.parameters == tuple(name for name, _ in model.named_parameters())
    assert signature.buffers == ("2.running_mean", "2.running_var", "2.num_batches_tracked")
    assert signature.user_inputs == ("input",) and signature.user_outputs == ("linear_1",)
    assert signature.inputs_to_parameters["p_0_weight"] == "0.weight"
    assert "p_0_weight: PARAMETER target='0.weight'" in str(program)
    ops = [node.op for node in program.graph.nodes]
    assert ops == ["placeholder"] * 10 + ["call_function"] * 4 + ["output"]
    assert list(program.state_dict) == list(model.state_dict())
    weights = [*program.parameters(), *program.buffers()]
    (result,) = program.graph_module(*weights, lazyt.ones(3, 4))
    assert lazyt.equal(result, model(lazyt.ones(3, 4)))
    with pytest.raises(LazytError, match="Unable to call ExportedProgram directly"):
        program(lazyt.ones(3, 4))
    assert program.run_decompositions() is program


def test_sizes_are_fixed_unless_they_have_a_name() -> None:
    model = network()
    fixed = export.export(model, (lazyt.ones(3, 4),))
    for program in (fixed, loaded(fixed)):
        assert lazyt.equal(program.module()(lazyt.ones(3, 4)), model(lazyt.ones(3, 4)))
        with pytest.raises(AssertionError, match=r"Guard failed: input.size\(\)\[0\] == 3"):
            program.module()(lazyt.ones(5, 4))
        with pytest.raises(ConditionError, match=r"input\.dtype == "):
            program.module()(lazyt.ones(3, 4, dtype=lazyt.float64))
        assert program.module(check_guards=False)(lazyt.ones(5, 4)).shape == (5, 2)
    batch = export.Dim("batch", min=2, max=100)
    for shapes in (({0: batch},), {"input": {0: batch}}, [(batch, None)], {"input": (batch, 4)}):
        open_ = export.export(model, (lazyt.ones(3, 4),), dynamic_shapes=shapes)
        for program in (open_, loaded(open_)):
            x = lazyt.linspace(0, 1, 28).reshape(7, 4)
            assert lazyt.equal(program.module()(x), model(x))
            for rows, text in ((1, ">= 2"), (101, "<= 100")):
                with pytest.raises(AssertionError, match=rf"input.size\(\)\[0\] {text}"):
                    program.module()(lazyt.ones(rows, 4))
            assert list(program.range_constraints) == ["batch"]


def test_sizes_of_one_name_are_equal() -> None:
    class Added(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return a + b

    rows = export.Dim("rows")
    shapes = {"a": {0: rows}, "b": {0: rows}}
    program = export.export(Added(), (lazyt.ones(2), lazyt.ones(2)), dynamic_shapes=shapes)
    assert program.module()(lazyt.ones(5), b=lazyt.ones(5)).tolist() == [2.0] * 5
    with pytest.raises(ConditionError, match=r"b.size\(\)\[0\] is 5, and here it is 1"):
        program.module()(lazyt.ones(5), lazyt.ones(1))
    with pytest.raises(ShapesError, match=r"Constraints violated \(rows\): it is 2 and 1"):
        export.export(Added(), (lazyt.ones(2), lazyt.ones(1)), dynamic_shapes=shapes)


def test_what_depends_on_a_size_cannot_have_it_open() -> None:
    class Repeated(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(x.shape[0]):
                x = x + 1
            return x

    assert export.export(Repeated(), (lazyt.ones(3),)).module()(lazyt.ones(3))[0] == 4.0
    with pytest.raises(RecordingError, match=r"Constraints violated \(n\).*x.shape\[0\] being 3"):
        export.export(Repeated(), (lazyt.ones(3),), dynamic_shapes=({0: export.Dim("n")},))


def test_what_depends_on_values_is_refused() -> None:
    class Choosing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(RecordingError, match="makes a bool of a tensor"):
        export.export(Choosing(), (lazyt.ones(3),))


def test_nested_arguments_and_results_and_values() -> None:
    class Nested(nn.Module):
        def forward(self, x: dict[str, Any], *, scale: float = 2.0) -> dict[str, Any]:
            return {"a": x["p"] * scale, "b": [x["q"][0], x["q"][0] + 1]}

    x = {"p": lazyt.ones(3), "q": (lazyt.zeros(2),)}
    first = export.export(Nested(), (x,), {"scale": 3.0})
    for program in (first, loaded(first)):
        found = program.module()(x, scale=3.0)
        assert found["a"].tolist() == [3.0] * 3 and found["b"][1].tolist() == [1.0, 1.0]
        with pytest.raises(ConditionError, match=r"Guard failed: scale == 3\.0"):
            program.module()(x, scale=4.0)
    shapes = ({"p": {0: export.Dim("n")}, "q": None}, None)
    program = export.export(Nested(), (x,), {"scale": 3.0}, dynamic_shapes=shapes)
    assert program.module()({**x, "p": lazyt.ones(5)}, scale=3.0)["a"].shape == (5,)


def test_gradients_of_a_program() -> None:
    model = network()
    module = export.export(model, (lazyt.ones(3, 4),)).module()
    module(lazyt.ones(3, 4)).sum().backward()
    first: Any = model[0]
    assert first.weight.grad is not None  # the weights are the module's


def test_files(tmp_path: Path) -> None:
    program = export.export(network(), (lazyt.ones(3, 4),))
    path = tmp_path / "program.pt2"
    export.save(program, path, extra_files={"note": "text"})
    extra = {"note": ""}
    read = export.load(path, extra_files=extra)
    assert extra == {"note": "text"} and read.example_inputs is None
    assert str(read.graph_signature) == str(program.graph_signature)
    with pytest.raises(CheckpointError, match="of the kind 'export'"):
        lazyt.jit.load(path)  # type: ignore[attr-defined]
    with pytest.raises(LazytError, match="must be an instance of 'ExportedProgram'"):
        export.save(network(), path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((lazyt.ones(3, 4),), {"dynamic_shapes": {"x": {0: export.Dim("n")}}}, "must be the arg"),
        ((lazyt.ones(3, 4),), {"dynamic_shapes": ()}, "has 0 entries for 1"),
        ((lazyt.ones(3, 4),), {"dynamic_shapes": ({5: export.Dim("n")},)}, "no dimension 5"),
        ((lazyt.ones(3, 4),), {"dynamic_shapes": ({0: 5},)}, "does not match input size of 3"),
        ((lazyt.ones(3, 4),), {"dynamic_shapes": ({0: "n"},)}, "is no Dim"),
        ((lazyt.ones(3, 4),), {"dynamic_shapes": ((None,),)}, "to have the same length"),
        (lazyt.ones(3, 4), {}, "Expecting `args` to be a tuple"),
    ],
)
def test_wrong_arguments(arguments: Any, options: Any, text: str) -> None:
    with pytest.raises(LazytError, match=text):
        export.export(network(), arguments, **options)


def test_dims() -> None:
    assert repr(export.Dim("q", min=1, max=3)) == "Dim('q', min=1, max=3)"
    assert [d.__name__ for d in export.dims("a", "b")] == ["a", "b"]
    assert repr(export.Dim.AUTO) == "DimHint(AUTO)"
    for name, low, high in (("1x", 0, 3), ("x", 3, 3)):
        with pytest.raises(ShapesError):
            export.Dim(name, min=low, max=high)
    x, shapes = lazyt.ones(3, 4), export.ShapesCollection()
    shapes[x] = {0: export.Dim.DYNAMIC}
    for _ in range(3):  # tensors that are gone: none that comes into being takes their place
        shapes[lazyt.ones(3, 4)] = {1: export.Dim.DYNAMIC}
    assert len(shapes) == 4
    program = export.export(network(), (x,), dynamic_shapes=shapes)
    assert program.module()(lazyt.ones(9, 4)).shape == (9, 2)
