"""What programs import from ``torch.utils``, ``torch.hub``, ``torch.backends`` and other services
around tensors, besides what lazyt's modules of those names have."""

from __future__ import annotations

from lazyt.compat.names.entries import Harmless, Refused, Served, Table

__all__ = ["MODULES"]

_MARKS = Harmless("lazyt.compat.served.marks")
_FILES = Served("lazyt.compat.served.downloads")
_NO_CODE = Refused(
    "lazyt loads no extensions; write the function with operations of tensors, or with "
    "lazyt.c_kernel and lazyt.cuda_kernel"
)
_NO_LOGS = Refused("lazyt writes logs with SummaryWriter; it has no files of records")
_NO_PIPES = Refused("PyTorch has stopped its data pipes; write an IterableDataset")
_NO_XPU = Refused("lazyt has the CPU and CUDA GPUs; there is no XPU")

MODULES: Table = {
    "amp.autocast_mode": {
        Served("lazyt.amp"): "autocast custom_bwd custom_fwd is_autocast_available",
        Served("lazyt.compat.served.rebuilding"): "_cast",
    },
    "amp.grad_scaler": {
        Served("lazyt.amp"): "GradScaler",
        Served("lazyt.compat.served.choices"): "OptState",
    },
    "backends.mkldnn": {
        _MARKS: "is_available=no flags=Nothing",
        Served("lazyt.compat.served.choices"): "enabled=FALSE deterministic=FALSE",
    },
    "backends.opt_einsum": {
        _MARKS: "is_available=no get_opt_einsum=none",
        Served("lazyt.compat.served.choices"): "enabled=FALSE strategy=NONE",
    },
    "backends.cpu": {Served("lazyt.compat.served.hardware"): "get_cpu_capability"},
    "backends.cusparselt": {_MARKS: "is_available=no version=none"},
    "backends.xnnpack": {Served("lazyt.compat.served.choices"): "enabled=FALSE"},
    "cuda.sparse": {
        Refused(
            "make sparse tensors with lazyt.sparse_coo_tensor, of tensors on the GPU"
        ): "DoubleTensor FloatTensor HalfTensor",
    },
    "hub": {
        _FILES: """
            HASH_REGEX _get_torch_home _hub_dir=NONE get_dir help list load
            load_state_dict_from_url set_dir tqdm urlparse""",
        Refused("lazyt downloads nothing; put files into torch.hub.get_dir()/checkpoints"): """
            download_url_to_file""",
    },
    "library": {
        _MARKS: "register_torch_dispatch=mark wrap_triton=same",
        Served("lazyt.library"): "triton_op=custom_op",
    },
    "monitor": {_MARKS: "log_event=set_nothing"},
    "mps": {
        _MARKS: """
            current_allocated_memory=zero driver_allocated_memory=zero empty_cache=set_nothing
            manual_seed=set_nothing recommended_max_memory=zero""",
    },
    "cuda": {Served("lazyt.compat.served.choices"): "_initialized=FALSE"},
    "mtia": {_MARKS: "is_available=no device_count=zero is_initialized=no"},
    "profiler.profiler": {
        Served("lazyt.profiler"): "ProfilerAction ProfilerActivity profile schedule",
        Served("lazyt.compat.served.rebuilding"): "_default_schedule_fn",
    },
    "serialization": {
        Served("lazyt.compat.served.rebuilding"): """
            DEFAULT_PROTOCOL FILE_LIKE MAP_LOCATION get_unsafe_globals_in_checkpoint""",
    },
    "utils._foreach_utils": {
        Served("lazyt.compat.served.foreach"): """
            _device_has_foreach_support _get_foreach_kernels_supported_devices
            _get_fused_kernels_supported_devices _group_tensors_by_device_and_dtype
            _has_foreach_support""",
    },
    "utils._python_dispatch": {
        Served("lazyt.subclasses.dispatch_modes"): """
            TorchDispatchMode _disable_current_modes _get_current_dispatch_mode
            _get_current_dispatch_mode_stack _pop_mode_temporarily is_traceable_wrapper_subclass
            return_and_correct_aliasing transform_subclass""",
    },
    "utils._sympy": {},
    "utils._sympy.numbers": {_NO_PIPES: "IntInfinity NegativeIntInfinity"},
    "utils._sympy.value_ranges": {_NO_PIPES: "ValueRangeError ValueRanges bound_sympy"},
    "utils._triton": {_MARKS: "has_triton=no has_triton_package=no"},
    "utils.bottleneck": {Refused("use lazyt.profiler"): "main"},
    "utils.collect_env": {
        Served("lazyt.compat.served.versions"): "get_pretty_env_info main=show_environment",
    },
    "utils.cpp_extension": {
        _NO_CODE: """
            BuildExtension CUDAExtension CppExtension include_paths library_paths load
            load_inline""",
        Served("lazyt.compat.served.choices"): "CUDA_HOME=NONE ROCM_HOME=NONE",
    },
    "utils.data": {
        Served("lazyt.compat.served.choices"): """
            DFIterDataPipe=NoPipe DataChunk=NoPipe IterDataPipe=NoPipe MapDataPipe=NoPipe""",
        _MARKS: "functional_datapipe=mark guaranteed_datapipes_determinism=Nothing",
    },
    "utils.data._utils": {},
    "utils.data._utils.collate": {
        Served("lazyt.utils.data.collate"): """
            collate collate_float_fn collate_int_fn collate_numpy_array_fn collate_str_fn
            collate_tensor_fn default_collate default_collate_err_msg_format
            default_collate_fn_map default_convert""",
        Served("lazyt.compat.served.loading"): "np_str_obj_array_pattern",
    },
    "utils.data._utils.pin_memory": {Served("lazyt.utils.data.collate"): "pin_memory=pinned"},
    "utils.data._utils.worker": {
        Served("lazyt.utils.data"): "get_worker_info WorkerInfo",
        Served("lazyt.compat.served.loading"): "_generate_state",
    },
    "utils.data.datapipes": {},
    "utils.data.datapipes.iter": {_NO_PIPES: "Batcher IterableWrapper Mapper Shuffler"},
    "utils.data.datapipes.iter.combinatorics": {_NO_PIPES: "ShufflerIterDataPipe"},
    "utils.data.graph_settings": {_NO_PIPES: "apply_shuffle_settings apply_sharding"},
    "utils._contextlib": {
        Served("lazyt.handle.grad_mode"): """
            _DecoratorContextManager=DecoratorContext
            _NoParamDecoratorContextManager=NoParameterDecoratorContext""",
    },
    "utils.weak": {
        Served("lazyt.compat.served.weak"): """
            TensorWeakRef WeakIdKeyDictionary WeakIdRef WeakTensorKeyDictionary""",
    },
    "utils.mobile_optimizer": {
        Refused("lazyt compiles for the machine that it runs on"): "optimize_for_mobile",
    },
    "utils.model_zoo": {
        _FILES: "load_url=load_state_dict_from_url tqdm",
        Refused("lazyt downloads nothing"): "_download_url_to_file",
    },
    "utils.tensorboard": {_NO_LOGS: "RecordWriter"},
    "utils.tensorboard._convert_np": {Served("lazyt.utils.tensorboard.summary"): "make_np"},
    "utils.throughput_benchmark": {Refused("use lazyt.utils.benchmark"): "ThroughputBenchmark"},
    "utils._pytree": {
        Served("lazyt.compat.served.trees"): """
            BUILTIN_TYPES Context FlattenFunc GetAttrKey KeyEntry KeyPath LeafSpec MappingKey
            PyTree SUPPORTED_NODES SequenceKey UnflattenFunc _dict_flatten
            _dict_flatten_with_keys _dict_unflatten _get_node_type _is_leaf=tree_is_leaf
            _list_flatten _list_flatten_with_keys _list_unflatten
            _register_pytree_node=register_pytree_node
            _tuple_flatten _tuple_flatten_with_keys _tuple_unflatten is_structseq_instance keystr
            tree_flatten_with_path tree_map_with_path treespec_dumps treespec_loads
            treespec_pprint""",
        Served("lazyt.handle.pytree"): "TreeSpec",
    },
    "utils.checkpoint": {
        Served("lazyt.compat.served.rebuilding"): "get_device_states set_device_states",
        _MARKS: "set_checkpoint_debug_enabled=Nothing",
        Served("lazyt.compat.served.choices"): "DefaultDeviceType",
    },
    "xpu": {
        _NO_XPU: """
            current_device current_stream device empty_cache get_device_capability
            get_device_name get_device_properties get_rng_state get_rng_state_all
            max_memory_allocated max_memory_reserved mem_get_info memory_allocated
            memory_reserved reset_peak_memory_stats set_device set_rng_state set_rng_state_all
            stream synchronize""",
        _MARKS: """
            is_bf16_supported=no is_current_stream_capturing=no is_initialized=no
            manual_seed=set_nothing manual_seed_all=set_nothing""",
    },
}
