"""How the parameters of one module, what goes in and what comes out are placed on a mesh."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from lazyt.distributed.device_mesh import DeviceMesh
from lazyt.distributed.placements import Placement, Replicate, Shard
from lazyt.distributed.tensor.dtensor import DTensor
from lazyt.distributed.tensor.making import distribute_module, distribute_tensor
from lazyt.handle.tensor import Tensor

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel",
]  # fmt: skip

Layouts = tuple[Placement | None, ...]


class ParallelStyle(ABC):
    """What ``parallelize_module`` does to a module. Derived classes define ``_apply``.

    Attributes:
        src_data_rank: see ``distribute_tensor``.
    """

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any: ...


def _is_linear(module: Any) -> bool:
    return hasattr(module, "in_features") and hasattr(module, "out_features")


def _is_embedding(module: Any) -> bool:
    return hasattr(module, "num_embeddings") and hasattr(module, "embedding_dim")


def _as_dtensor(value: Any, mesh: DeviceMesh, layout: Placement) -> DTensor:
    if isinstance(value, DTensor):
        return value
    return DTensor.from_local(value, mesh, (layout,), run_check=False)


def _placed(value: Any, mesh: DeviceMesh, layout: Placement, wanted: Placement | None) -> DTensor:
    """A value with one placement, a plain tensor or not, as a DTensor with another one."""
    found = _as_dtensor(value, mesh, layout)
    if wanted is not None and layout != wanted:
        found = found.redistribute(placements=(wanted,))
    return found


class _Divided(ParallelStyle):
    """Divides the parameters of a linear layer or an embedding among ranks."""

    def __init__(
        self, given: Placement, wanted: Placement, result: Placement, use_local_output: bool
    ) -> None:
        self.input_layouts = (given,)
        self.desired_input_layouts = (wanted,)
        self.output_layouts = (result,)
        self.use_local_output = use_local_output

    def _divide(self, module: Any, mesh: DeviceMesh, by_name: Mapping[str, Placement]) -> None:
        for name, parameter in list(module.named_parameters(recurse=False)):
            made = distribute_tensor(
                parameter, mesh, [by_name[name]], src_data_rank=self.src_data_rank
            )
            module.register_parameter(name, type(parameter)(made, parameter.requires_grad))

    def _hooked(self, module: Any, mesh: DeviceMesh, by_name: Mapping[str, Placement]) -> Any:
        def before(owner: Any, inputs: Any, mesh: DeviceMesh) -> Any:
            return _placed(inputs[0], mesh, self.input_layouts[0], self.desired_input_layouts[0])

        def after(owner: Any, outputs: Any, mesh: DeviceMesh) -> Any:
            if outputs.placements != self.output_layouts:
                outputs = outputs.redistribute(placements=self.output_layouts)
            return outputs.to_local() if self.use_local_output else outputs

        def divide(name: str, part: Any, mesh: DeviceMesh) -> None:
            self._divide(part, mesh, by_name)

        return distribute_module(module, mesh, divide, before, after)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, "
            f"output_layouts={self.output_layouts}, use_local_output={self.use_local_output})"
        )


class ColwiseParallel(_Divided):
    """Ranks divide the outputs of a linear layer, or the columns of an embedding.

    Args:
        input_layouts: how the input is placed if it is a plain tensor, ``Replicate`` by default;
            the layer sees all of it.
        output_layouts: how the output is to be placed, ``Shard(-1)`` by default.
        use_local_output: whether the output is this rank's part instead of a DTensor.

    Source: PyTorch's class of this name.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        given, result = input_layouts or Replicate(), output_layouts or Shard(-1)
        super().__init__(given, Replicate(), result, use_local_output)

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        if _is_linear(module):
            return self._hooked(module, device_mesh, {"weight": Shard(0), "bias": Shard(0)})
        if _is_embedding(module):
            return self._hooked(module, device_mesh, {"weight": Shard(1)})
        raise NotImplementedError(
            "ColwiseParallel currently only support nn.Linear and nn.Embedding!"
        )


class RowwiseParallel(_Divided):
    """Ranks divide the inputs of a linear layer, or the rows of an embedding.

    Args:
        input_layouts: how the input is placed if it is a plain tensor, ``Shard(-1)`` by default.
        output_layouts: how the output is to be placed, ``Replicate`` by default; the terms that
            ranks have are summed for it.
        use_local_output: whether the output is this rank's part instead of a DTensor.

    Source: PyTorch's class of this name.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        given, result = input_layouts or Shard(-1), output_layouts or Replicate()
        super().__init__(given, Shard(-1), result, use_local_output)

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        if _is_linear(module):
            self.desired_input_layouts = (Shard(-1),)
            return self._hooked(module, device_mesh, {"weight": Shard(1), "bias": Replicate()})
        if _is_embedding(module):
            self.desired_input_layouts = (Replicate(),)
            return self._hooked(module, device_mesh, {"weight": Shard(0)})
        raise NotImplementedError(
            "RowwiseParallel currently only support nn.Linear and nn.Embedding!"
        )


class SequenceParallel(ParallelStyle):
    """Ranks divide the positions of a sequence; all have the parameters of the module, a norm or
    dropout.

    Args:
        sequence_dim: the dimension of the positions.
        use_local_output: whether the output is this rank's part instead of a DTensor.

    Source: PyTorch's class of this name.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        def replicate(name: str, part: Any, mesh: DeviceMesh) -> None:
            for own, parameter in list(part.named_parameters(recurse=False)):
                made = DTensor.from_local(parameter.data, mesh, [Replicate()], run_check=False)
                part.register_parameter(own, type(parameter)(made, parameter.requires_grad))

        def before(owner: Any, inputs: Any, mesh: DeviceMesh) -> Any:
            (layout,) = self.sequence_sharding
            value = inputs[0]
            if isinstance(value, DTensor):
                moved = value.placements != self.sequence_sharding
                return value.redistribute(placements=[layout]) if moved else value
            if isinstance(value, Tensor):
                return _as_dtensor(value, mesh, layout)
            raise ValueError(
                f"expecting input of {owner} to be a torch.Tensor or DTensor, but got {value}"
            )

        def after(owner: Any, outputs: Any, mesh: DeviceMesh) -> Any:
            return outputs.to_local() if self.use_local_output else outputs

        return distribute_module(module, device_mesh, replicate, before, after)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(sequence_dim={self.sequence_sharding[0].dim}, "
            f"use_local_output={self.use_local_output})"
        )


def _tuple(layouts: Placement | Sequence[Placement | None] | None) -> Layouts | None:
    if layouts is None:
        return None
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


class PrepareModuleInput(ParallelStyle):
    """Makes the inputs of a module DTensors, and places them otherwise.

    Args:
        input_layouts: how each positional input is placed; None for one that is left as it is.
        desired_input_layouts: how each is to be placed.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same of inputs by name.
        use_local_output: whether the module gets this rank's parts instead of DTensors.

    Raises AssertionError for lists of different lengths.

    Source: PyTorch's class of this name.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | Sequence[Placement | None] | None = None,
        desired_input_layouts: Placement | Sequence[Placement | None] | None = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _tuple(input_layouts)
        self.desired_input_layouts = _tuple(desired_input_layouts)
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError(
                    "input_layouts and desired_input_layouts should have same length!"
                )
        self.with_kwargs = input_kwarg_layouts is not None
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        if self.with_kwargs and len(self.input_kwarg_layouts) != len(
            self.desired_input_kwarg_layouts
        ):
            raise AssertionError(
                "input_kwarg_layouts and desired_input_kwarg_layouts should have same length!"
            )

    def _one(
        self, value: Any, mesh: DeviceMesh, layout: Placement | None, wanted: Placement | None
    ) -> Any:
        if layout is None:
            return value
        if not isinstance(value, Tensor):
            raise AssertionError("expecting input to be a torch.Tensor!")
        found = _placed(value, mesh, layout, wanted)
        return found.to_local() if self.use_local_output else found

    def _prepare_input_fn(self, inputs: Any, device_mesh: DeviceMesh) -> Any:
        if self.input_layouts is None or self.desired_input_layouts is None:
            return inputs
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(given) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        rows = zip(given, self.input_layouts, self.desired_input_layouts)
        return tuple(self._one(value, device_mesh, a, b) for value, a, b in rows)

    def _prepare_input_kwarg_fn(
        self, inputs: Any, kwarg_inputs: dict[str, Any], device_mesh: DeviceMesh
    ) -> Any:
        named = {
            name: self._one(
                value, device_mesh, self.input_kwarg_layouts.get(name),
                self.desired_input_kwarg_layouts.get(name),
            )
            for name, value in kwarg_inputs.items()
        }  # fmt: skip
        return self._prepare_input_fn(inputs, device_mesh), named

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        if self.with_kwargs:
            module.register_forward_pre_hook(
                lambda _, inputs, kwargs: self._prepare_input_kwarg_fn(inputs, kwargs, device_mesh),
                with_kwargs=True,
            )
        else:
            module.register_forward_pre_hook(
                lambda _, inputs: self._prepare_input_fn(inputs, device_mesh)
            )
        return module

    def _shown(self) -> str:
        return (
            f"input_layouts={self.input_layouts}, "
            f"desired_input_layouts={self.desired_input_layouts}, "
            f"input_kwarg_layouts={self.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, "
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shown()}use_local_output={self.use_local_output})"


class PrepareModuleOutput(ParallelStyle):
    """Makes the outputs of a module DTensors, and places them otherwise.

    Args:
        output_layouts: how each output is placed; None for one that is left as it is.
        desired_output_layouts: how each is to be placed.
        use_local_output: whether the outputs are this rank's parts instead of DTensors.

    Raises AssertionError for lists of different lengths.

    Source: PyTorch's class of this name.
    """

    def __init__(
        self,
        *,
        output_layouts: Placement | Sequence[Placement | None],
        desired_output_layouts: Placement | Sequence[Placement | None],
        use_local_output: bool = True,
    ) -> None:
        self.output_layouts = _tuple(output_layouts) or ()
        self.desired_output_layouts = _tuple(desired_output_layouts) or ()
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError(
                "output_layouts and desired_output_layouts should have same length!"
            )

    def _prepare_out_fn(self, outputs: Any, device_mesh: DeviceMesh) -> Any:
        given = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(given) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        found = []
        for value, layout, wanted in zip(given, self.output_layouts, self.desired_output_layouts):
            if layout is not None:
                value = _placed(value, device_mesh, layout, wanted)
                value = value.to_local() if self.use_local_output else value
            found.append(value)
        return found[0] if len(found) == 1 else tuple(found)

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        module.register_forward_hook(
            lambda _, inputs, outputs: self._prepare_out_fn(outputs, device_mesh)
        )
        return module

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(output_layouts={self.output_layouts}, "
            f"desired_output_layouts={self.desired_output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class PrepareModuleInputOutput(ParallelStyle):
    """``PrepareModuleInput`` and ``PrepareModuleOutput`` together.

    Args:
        use_local_input: whether the module gets this rank's parts instead of DTensors.

    Other arguments are theirs.

    Source: PyTorch's class of this name.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | Sequence[Placement | None] | None = None,
        desired_input_layouts: Placement | Sequence[Placement | None] | None = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Placement | Sequence[Placement | None],
        desired_output_layouts: Placement | Sequence[Placement | None],
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)

    def __repr__(self) -> str:
        before, after = self.prepare_module_input, self.prepare_module_output
        return (
            f"{type(self).__name__}({before._shown()}use_local_input={before.use_local_output}, "
            f"output_layouts={after.output_layouts}, "
            f"desired_output_layouts={after.desired_output_layouts}, "
            f"use_local_output={after.use_local_output})"
        )
