"""Parameters in the place of those of a module: DTensors of which each rank has some rows.

A parameter that tensor parallelism divides already is divided again: each rank has some rows of its
part. The axes of the mesh that tensor parallelism uses then come first, as they divide first.
"""

from __future__ import annotations

from typing import Any

from lazyt.distributed.divided import Division, own_rows
from lazyt.distributed.tensor.dtensor import DTensor, over
from lazyt.distributed.tensor.layouts import mesh_of, placements_of
from lazyt.errors import LazytError
from lazyt.handle import pending
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter
from lazyt.ops.parallel.distribution import distribute
from lazyt.ops.parallel.layouts import Layout

__all__ = ["Divided", "divide_parameter"]


class Divided:
    """A parameter of a unit.

    Attributes:
        homes: the modules that have it, and what they call it.
        parameter: a ``DTensor``.
        division, layout: how it is divided.
        shape: of the whole parameter.
        inner: how tensor parallelism divides it; None where it does not. ``division`` is then that
            of this rank's part.
    """

    def __init__(
        self,
        homes: list[tuple[Module, str]],
        parameter: DTensor,
        division: Division,
        layout: Layout,
        inner: Layout | None = None,
    ) -> None:
        self.homes, self.parameter = homes, parameter
        self.division, self.layout, self.inner = division, layout, inner
        self.shape = tuple(parameter.shape)

    @property
    def rows(self) -> Tensor:
        """This rank's rows, whose memory is the parameter's."""
        return self.parameter.parts_on_this_rank()

    def whole(self, rows: Node) -> Node:
        """The value that all ranks' rows make up: what has the parameter's shape."""
        return distribute(rows, self.layout, self.shape)

    def as_used(self, gathered: Tensor) -> Tensor:
        """What modules compute with: what was gathered, or the DTensor whose part that is."""
        if self.inner is None:
            return gathered
        mesh, placements = mesh_of(self.inner), placements_of(self.inner)
        return DTensor.from_local(gathered, mesh, placements, shape=self.shape)

    def refresh(self) -> None:
        """Takes over what the program has put in the parameter's place. Raises LazytError for what
        is not divided as the parameter was."""
        module, name = self.homes[0]
        found: Any = module._parameters.get(name)
        if found is None or found is self.parameter or "whole_of" in found.__dict__:
            return
        wanted = self.parameter.placements
        if (
            not isinstance(found, DTensor)
            or tuple(found.shape) != self.shape
            or found.placements != wanted
        ):
            kind = type(found).__name__
            raise LazytError(
                f"parameter {name!r} of {type(module).__name__} is a {kind} of "
                f"{list(found.shape)} in the place of a DTensor of {list(self.shape)} "
                f"with the placements {wanted}: distribute_tensor makes one of a whole tensor"
            )
        _note(found, self.division, self.inner)
        self.parameter = found
        self.show(found)

    def show(self, tensor: Tensor) -> None:
        """Lets the modules have a tensor: the whole one or this rank's rows."""
        for module, name in self.homes:
            module._parameters[name] = tensor  # type: ignore[assignment]


def divide_parameter(
    parameter: Tensor, division: Division, layout: Layout, inner: Layout | None = None
) -> DTensor:
    """A parameter of which this rank has its rows, and forgets the others."""
    shape = tuple(parameter.shape)
    with no_grad():
        local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        part = wrap(own_rows(unwrap(local.detach()), division))
    if parameter.device.type != "meta":
        part = part.clone()
        pending.realize_nodes([part.node])
    made: Any = Parameter(over(part, layout, shape), parameter.requires_grad)
    _note(made, division, inner)
    return made  # type: ignore[no-any-return]


def _note(parameter: Any, division: Division, inner: Layout | None) -> None:
    """Notes whose a parameter is, and how it is divided where nothing else divides it."""
    parameter.__dict__["unit"] = division.owner
    if inner is None:
        parameter.__dict__["division"] = division
