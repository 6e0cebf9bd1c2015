"""Graphs of Python programs: trace a module or a function into one, change it, run it as Python.

``symbolic_trace`` runs a program once with proxies in the place of its arguments, which record
every function, method and operator that they are given to. Graphs can be read, edited and written
as Python code again. They are made of Python calls, and have nothing to do with the graph that
lazyt compiles: what they run is lazy as every other program is.
"""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from lazyt.fx.graph import CodeGen, Graph
from lazyt.fx.graph_module import GraphModule
from lazyt.fx.interpreter import Interpreter, Transformer
from lazyt.fx.node import Node, has_side_effect, map_aggregate, map_arg
from lazyt.fx.proxy import Proxy
from lazyt.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "ProxyableClassMeta",
    "Tracer", "Transformer", "has_side_effect", "map_aggregate", "map_arg", "replace_pattern",
    "symbolic_trace", "wrap",
]  # fmt: skip

_explain_absence(__name__)
