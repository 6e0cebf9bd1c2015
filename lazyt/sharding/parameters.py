"""Parameters in the place of those of a module: DTensors of which each rank has some rows."""

from __future__ import annotations

from typing import Any

from lazyt.distributed.divided import Division, own_rows
from lazyt.distributed.tensor.dtensor import DTensor, over
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
    """

    def __init__(
        self,
        homes: list[tuple[Module, str]],
        parameter: DTensor,
        division: Division,
        layout: Layout,
    ) -> None:
        self.homes, self.parameter = homes, parameter
        self.division, self.layout = division, layout

    @property
    def rows(self) -> Tensor:
        """This rank's rows, whose memory is the parameter's."""
        return self.parameter.parts_on_this_rank()

    def whole(self, rows: Node) -> Node:
        """The value that all ranks' rows make up: what has the parameter's shape."""
        return distribute(rows, self.layout, self.division.shape)

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
            or tuple(found.shape) != self.division.shape
            or found.placements != wanted
        ):
            kind = type(found).__name__
            raise LazytError(
                f"parameter {name!r} of {type(module).__name__} is a {kind} of "
                f"{list(found.shape)} in the place of a DTensor of {list(self.division.shape)} "
                f"with the placements {wanted}: distribute_tensor makes one of a whole tensor"
            )
        found.__dict__["division"] = self.division
        self.parameter = found
        self.show(found)

    def show(self, tensor: Tensor) -> None:
        """Lets the modules have a tensor: the whole one or this rank's rows."""
        for module, name in self.homes:
            module._parameters[name] = tensor  # type: ignore[assignment]


def divide_parameter(parameter: Tensor, division: Division, layout: Layout) -> DTensor:
    """A parameter of which this rank has its rows, and forgets the others."""
    with no_grad():
        part = wrap(own_rows(unwrap(parameter.detach()), division))
    if parameter.device.type != "meta":
        part = part.clone()
        pending.realize_nodes([part.node])
    made: Any = Parameter(over(part, layout, division.shape), parameter.requires_grad)
    made.__dict__["division"] = division
    return made  # type: ignore[no-any-return]
