"""The package ``functorch``: the transforms of ``lazyt.func`` by the name that they had first, and
modules as functions of their parameters."""

from __future__ import annotations

from lazyt.compat.names.building import refused
from lazyt.func import functionalize as functionalize
from lazyt.func import grad as grad
from lazyt.func import grad_and_value as grad_and_value
from lazyt.func import hessian as hessian
from lazyt.func import jacfwd as jacfwd
from lazyt.func import jacrev as jacrev
from lazyt.func import jvp as jvp
from lazyt.func import vjp as vjp
from lazyt.func import vmap as vmap
from lazyt.functorch.modules import (
    FunctionalModule as FunctionalModule,
)
from lazyt.functorch.modules import (
    FunctionalModuleWithBuffers as FunctionalModuleWithBuffers,
)
from lazyt.functorch.modules import (
    combine_state_for_ensemble as combine_state_for_ensemble,
)
from lazyt.functorch.modules import make_functional as make_functional
from lazyt.functorch.modules import (
    make_functional_with_buffers as make_functional_with_buffers,
)

make_fx = refused(
    "functorch.make_fx",
    "lazyt's graphs are lazy tensors; lazyt.fx.symbolic_trace gives one of FX",
)
