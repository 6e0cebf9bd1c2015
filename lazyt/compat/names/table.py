"""The table of PyTorch's names as a whole, by module, and which modules are lazyt's own."""

from __future__ import annotations

import functools
import sys
from importlib import import_module, util
from types import ModuleType

from lazyt.compat.names import compilers, networks, processes, services, tensors
from lazyt.compat.names.building import Names
from lazyt.compat.names.entries import Group, Table, spelled
from lazyt.compat.served.packages import JitPackage, OperatorsPackage

__all__ = ["MODULES", "OWN", "has_module", "is_own", "kind", "names"]

#: Modules that are lazyt's, by the same path below the package.
OWN = frozenset(
    spelled(
        """
        accelerator amp autograd autograd.forward_ad autograd.function autograd.functional
        autograd.graph autograd.profiler autograd.variable backends backends.cuda backends.cudnn
        backends.mkl backends.mps backends.openmp cpu cuda cuda.amp cuda.comm cuda.graphs
        cuda.memory cuda.nvtx cuda.profiler cuda.random cuda.streams distributed distributions
        distributions.bernoulli distributions.beta distributions.binomial
        distributions.categorical distributions.cauchy distributions.chi2
        distributions.constraint_registry distributions.constraints
        distributions.continuous_bernoulli distributions.dirichlet distributions.distribution
        distributions.exp_family distributions.exponential distributions.fishersnedecor
        distributions.gamma distributions.geometric
        distributions.gumbel distributions.half_cauchy distributions.half_normal
        distributions.independent distributions.inverse_gamma distributions.kl
        distributions.kumaraswamy distributions.laplace distributions.lkj_cholesky
        distributions.log_normal distributions.logistic_normal
        distributions.lowrank_multivariate_normal distributions.mixture_same_family
        distributions.multinomial distributions.multivariate_normal
        distributions.negative_binomial distributions.normal distributions.one_hot_categorical
        distributions.pareto distributions.poisson distributions.relaxed_bernoulli
        distributions.relaxed_categorical distributions.studentT
        distributions.transformed_distribution distributions.transforms distributions.uniform
        distributions.utils distributions.von_mises distributions.weibull distributions.wishart
        fft func fx fx._pytree fx._symbolic_trace fx.experimental fx.experimental.optimization
        fx.experimental.proxy_tensor fx.graph fx.graph_module fx.immutable_collections
        fx.interpreter fx.node
        fx.operator_schemas fx.passes fx.passes.graph_drawer fx.passes.infra
        fx.passes.infra.pass_base fx.passes.shape_prop fx.passes.split_module fx.passes.utils
        fx.passes.utils.matcher_utils fx.proxy fx.subgraph_rewriter fx.traceback
        library linalg masked mps multiprocessing nn nn.attention nn.attention.flex_attention
        nn.functional nn.grad nn.init nn.modules nn.modules.activation nn.modules.adaptive
        nn.modules.batchnorm nn.modules.channelshuffle nn.modules.container nn.modules.conv
        nn.modules.distance nn.modules.dropout nn.modules.flatten nn.modules.fold
        nn.modules.instancenorm nn.modules.lazy nn.modules.linear
        nn.modules.linear_cross_entropy_options nn.modules.loss nn.modules.module
        nn.modules.normalization nn.modules.padding nn.modules.pixelshuffle nn.modules.pooling
        nn.modules.rnn nn.modules.sparse nn.modules.transformer nn.modules.upsampling
        nn.modules.utils nn.parallel nn.parameter nn.utils nn.utils.clip_grad
        nn.utils.convert_parameters nn.utils.fusion nn.utils.init nn.utils.memory_format
        nn.utils.parametrizations nn.utils.parametrize nn.utils.prune nn.utils.rnn
        nn.utils.spectral_norm nn.utils.stateless nn.utils.weight_norm optim optim.adadelta
        optim.adagrad optim.adam optim.adamax optim.adamw optim.asgd optim.lbfgs
        optim.lr_scheduler optim.nadam optim.optimizer optim.radam optim.rmsprop optim.rprop
        optim.sgd optim.sparse_adam optim.swa_utils overrides profiler quasirandom random
        serialization signal signal.windows sparse special storage testing types utils
        utils._pytree utils.benchmark utils.checkpoint utils.flop_counter utils.tensorboard
        utils.tensorboard.summary utils.tensorboard.writer utils.data
        utils.data.dataloader utils.data.dataset utils.data.distributed utils.data.sampler
        utils.dlpack utils.hooks xpu"""
    )
)

#: What is in modules besides what lazyt's own of that path have.
MODULES: Table = {
    **tensors.MODULES,
    **networks.MODULES,
    **compilers.MODULES,
    **processes.MODULES,
    **services.MODULES,
}

_KINDS: dict[str, type[ModuleType]] = {"jit": JitPackage, "ops": OperatorsPackage}


@functools.cache
def is_own(path: str) -> bool:
    """Whether the module of PyTorch at ``path`` is one of lazyt's."""
    return path in OWN and _is_there(f"lazyt.{path}")


def _is_there(module: str) -> bool:
    try:
        import_module(module.rpartition(".")[0])  # may make the modules below it
        return module in sys.modules or util.find_spec(module) is not None
    except ModuleNotFoundError:  # a reason is known
        return False


@functools.cache
def _children() -> dict[str, set[str]]:
    """The last parts of the modules below each, those of packages without entries included."""
    found: dict[str, set[str]] = {}
    for path in OWN | MODULES.keys():
        while path:
            parent, _, last = path.rpartition(".")
            found.setdefault(parent, set()).add(last)
            path = parent
    return found


def has_module(path: str) -> bool:
    """Whether ``torch`` has a module at a path below it."""
    parent, _, last = path.rpartition(".")
    return (
        is_own(path) or path in MODULES or (last in _children().get(parent, ()) and path not in OWN)
    )


def names(path: str) -> Names:
    """The names that the table has for the module at a path."""
    groups: dict[Group, str] = dict(MODULES.get(path, {}))
    return Names(path, groups, frozenset(_children().get(path, ())))


def kind(path: str) -> type[ModuleType]:
    """The class of a module that is made from the table."""
    return _KINDS.get(path, ModuleType)
