"""What programs import from ``torch.nn``, ``torch.optim``, ``torch.distributions`` and
``torch.autograd`` besides what lazyt's modules of those names have."""

from __future__ import annotations

from lazyt.compat.names.entries import Harmless, Refused, Served, Table

__all__ = ["MODULES"]


_ONE_DEVICE = Refused("a model of lazyt is on one device; nn.DataParallel calls it there")
_FLEX = Refused(
    "lazyt compiles what a program computes: write scores, masks and softmax as operations, or "
    "call nn.attention.flex_attention"
)

MODULES: Table = {
    "autograd": {
        Harmless("lazyt.compat.served.marks"): """
            _disable_profiler=set_nothing _profiler_enabled=no""",
    },
    "autograd.profiler": {
        Harmless("lazyt.compat.served.marks"): "emit_itt=Nothing emit_nvtx=Nothing",
    },
    "autograd.profiler_legacy": {Served("lazyt.autograd.profiler"): "profile"},
    "distributions": {},
    "distributions.multivariate_normal": {Served("lazyt.distributions"): "Distribution"},
    "nn.attention.flex_attention": {
        Served("lazyt.compat.served.choices"): """
            FlexKernelOptions=EMPTY_DICT _DEFAULT_SPARSE_BLOCK_SIZE=FLEX_BLOCK""",
        _FLEX: "create_nested_block_mask",
    },
    "nn.attention.bias": {
        _FLEX: "CausalBias CausalVariant causal_lower_right causal_upper_left",
    },
    "nn.common_types": {
        Served("lazyt.compat.served.choices"): """
            _maybe_indices_t=Anything _ratio_2_t=Anything _ratio_3_t=Anything _ratio_any_t=Anything
            _size_1_t=Anything _size_2_opt_t=Anything _size_2_t=Anything _size_3_opt_t=Anything
            _size_3_t=Anything _size_4_t=Anything _size_5_t=Anything _size_6_t=Anything
            _size_any_opt_t=Anything _size_any_t=Anything _tensor_list_t=Anything""",
    },
    "nn.init": {
        Served("lazyt.nn.init"): "_calculate_fan_in_and_fan_out=fans _no_grad_uniform_=uniform_",
        Served("lazyt.compat.served.rebuilding"): "_calculate_correct_fan",
    },
    "nn.modules.module": {
        Served("lazyt.compat.served.choices"): "_EXTRA_STATE_KEY_SUFFIX=EXTRA_STATE",
        Served("lazyt.nn.module"): """
            _global_buffer_registration_hooks _global_module_registration_hooks
            _global_parameter_registration_hooks""",
    },
    "nn.utils._named_member_accessor": {
        Served("lazyt.compat.served.rebuilding"): "set_tensor swap_tensor",
    },
    "nn.modules.transformer": {
        Served("lazyt.compat.served.rebuilding"): "_get_activation_fn _get_clones",
    },
    "nn.parameter": {Served("lazyt.nn.parameter"): "is_lazy=is_uninitialized"},
    "optim.optimizer": {
        Served("lazyt.compat.served.rebuilding"): """
            _default_to_fused_or_foreach _get_capturable_supported_devices""",
        Served("lazyt.compat.served.choices"): "_params_t=Anything",
    },
    "nn.modules.utils": {Served("lazyt.nn.modules.sizes"): ""},
    "nn.parallel.data_parallel": {
        Served("lazyt.nn.parallel"): "DataParallel data_parallel",
    },
    "nn.parallel.distributed": {Served("lazyt.nn.parallel"): "DistributedDataParallel"},
    "nn.parallel.parallel_apply": {_ONE_DEVICE: "parallel_apply"},
    "nn.parallel.replicate": {_ONE_DEVICE: "replicate"},
    "nn.parallel.scatter_gather": {
        _ONE_DEVICE: "gather scatter scatter_kwargs",
    },
    "nn.parallel.comm": {Served("lazyt.cuda.comm"): ""},
    "nn.qat": {},
    "nn.quantized": {},
    "nn.intrinsic": {},
}
