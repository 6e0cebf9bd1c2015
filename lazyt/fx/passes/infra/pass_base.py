"""The form of passes over modules with graphs."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from lazyt.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass has made of a module, and whether that is another program."""

    graph_module: GraphModule
    modified: bool


class PassBase(abc.ABC):
    """A pass: derive from it, with ``call``."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        """Run the pass, between its two checks."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Do the work."""

    def requires(self, graph_module: GraphModule) -> Any:  # noqa: B027 (may stay as it is)
        """Raise an error for modules that the pass cannot take."""

    def ensures(self, graph_module: GraphModule) -> Any:  # noqa: B027
        """Raise an error for what the pass may not leave behind."""
