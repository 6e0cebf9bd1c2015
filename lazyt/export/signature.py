"""What the arguments and results of an exported program are."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ConstantArgument", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind",
    "OutputSpec", "TensorArgument",
]  # fmt: skip


@dataclass(frozen=True)
class TensorArgument:
    """A tensor, by the name of the node that gives it."""

    name: str


@dataclass(frozen=True)
class ConstantArgument:
    """A value that is part of the program, by the name of the argument that had it."""

    name: str
    value: Any


class InputKind(enum.Enum):
    """What an argument of a graph is."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """What a result of a graph is."""

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


@dataclass
class InputSpec:
    """An argument of a graph.

    Attributes:
        target: the path of a parameter, buffer or constant in the module.
        persistent: whether a buffer is part of ``state_dict``.
    """

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    """A result of a graph."""

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None

    def __str__(self) -> str:
        return f"{self.arg.name}: {self.kind.name}"


@dataclass
class ExportGraphSignature:
    """The arguments and results of a graph, in order."""

    input_specs: list[InputSpec] = field(default_factory=list)
    output_specs: list[OutputSpec] = field(default_factory=list)

    def _targets(self, kind: InputKind) -> dict[str, str]:
        return {s.arg.name: s.target or "" for s in self.input_specs if s.kind is kind}

    @property
    def parameters(self) -> tuple[str, ...]:
        """The paths of the parameters."""
        return tuple(self._targets(InputKind.PARAMETER).values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """The paths of the buffers."""
        return tuple(self._targets(InputKind.BUFFER).values())

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """The paths of the buffers that ``state_dict`` does not have."""
        return tuple(s.target or "" for s in self.input_specs if s.persistent is False)

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """The paths of parameters by the names of the arguments."""
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """The paths of buffers by the names of the arguments."""
        return self._targets(InputKind.BUFFER)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The names of the arguments that callers give; of constants their values."""
        return tuple(
            s.arg.value if isinstance(s.arg, ConstantArgument) else s.arg.name
            for s in self.input_specs
            if s.kind is InputKind.USER_INPUT
        )

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The names of the results; of constants their values."""
        return tuple(
            s.arg.value if isinstance(s.arg, ConstantArgument) else s.arg.name
            for s in self.output_specs
            if s.kind is OutputKind.USER_OUTPUT
        )

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """Empty: a program writes to buffers where the module does, not through results."""
        return {}

    def __str__(self) -> str:
        given = "\n".join(map(str, self.input_specs))
        made = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{given}\n\n# outputs\n{made}\n"
