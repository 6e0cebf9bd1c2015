"""What programs import from ``torch`` itself and from the modules around tensors."""

from __future__ import annotations

from lazyt.compat.names.entries import Harmless, Refused, Served, Table

__all__ = ["MODULES"]

_IN_PYTHON = Refused(
    "it belongs to PyTorch's C++ library; lazyt is written in Python and has nothing of it"
)
_SYMBOLS = Refused("shapes are numbers in lazyt; it captures a function once for each that it sees")
_SPARSE = Refused(
    "lazyt's sparse tensors have coordinates (COO) or compressed rows or columns (CSR, CSC); there "
    "are no others"
)
_SCRIPT = Refused("lazyt has no TorchScript; it captures what a program does (lazyt.jit)")
_FUNCTIONS = Served("lazyt")
_MARKS = Harmless("lazyt.compat.served.marks")
_PRIVATE = Served("lazyt.compat.served.rebuilding")

MODULES: Table = {
    "": {
        Served("lazyt.func"): "cond while_loop",
        Served("lazyt.ao.functions"): """
            fake_quantize_per_channel_affine fake_quantize_per_tensor_affine""",
        Served("lazyt.ao.observers"): """
            per_channel_affine per_channel_symmetric per_tensor_affine per_tensor_symmetric
            qscheme=Scheme""",
        Served("lazyt.subclasses.nested"): """
            _nested_tensor_from_mask=nested_tensor_from_mask""",
        Served("lazyt.compat.private_functions"): """
            _batch_norm_with_update _chunk_cat _native_batch_norm_legit _safe_softmax
            _segment_reduce _softmax_backward_data _unsafe_masked_index
            _unsafe_masked_index_put_accumulate native_dropout_backward
            segment_reduce=_segment_reduce""",
        Served("lazyt.compat.served.foreach"): """
            _foreach_abs _foreach_abs_ _foreach_add _foreach_add_ _foreach_addcdiv
            _foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_ _foreach_ceil _foreach_ceil_
            _foreach_clamp_max _foreach_clamp_max_ _foreach_clamp_min _foreach_clamp_min_
            _foreach_copy_ _foreach_cos _foreach_cos_ _foreach_div _foreach_div_ _foreach_erf
            _foreach_erf_ _foreach_exp _foreach_exp_ _foreach_expm1 _foreach_expm1_
            _foreach_floor _foreach_floor_ _foreach_lerp _foreach_lerp_ _foreach_log
            _foreach_log_ _foreach_log1p _foreach_log1p_ _foreach_max _foreach_maximum
            _foreach_maximum_ _foreach_minimum _foreach_minimum_ _foreach_mul _foreach_mul_
            _foreach_neg _foreach_neg_ _foreach_norm _foreach_pow _foreach_pow_
            _foreach_reciprocal _foreach_reciprocal_ _foreach_round _foreach_round_
            _foreach_rsqrt _foreach_rsqrt_ _foreach_sigmoid _foreach_sigmoid_ _foreach_sign
            _foreach_sign_ _foreach_sin _foreach_sin_ _foreach_sqrt _foreach_sqrt_ _foreach_sub
            _foreach_sub_ _foreach_tanh _foreach_tanh_ _foreach_trunc _foreach_trunc_
            _foreach_zero_""",
        Served("lazyt.cuda"): "Event Stream",
        Served("lazyt.compat.served.symbols"): """
            sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum""",
        Served("lazyt"): "legacy_contiguous_format=contiguous_format",
        _PRIVATE: "_assert_async _shape_as_tensor _standard_gamma get_device_module",
        _IN_PYTHON: "Graph PyTorchFileReader PyTorchFileWriter TensorType",
        Served("lazyt.compat.served.choices"): """
            _mkldnn=LAYOUT_MKLDNN jagged=LAYOUT_JAGGED""",
        _SYMBOLS: "SymBool SymFloat SymInt",
        _SPARSE: "hsmm",
        Served("lazyt.functional.sparse.old_types"): """
            _convert_indices_from_coo_to_csr=convert_indices_from_coo_to_csr
            _convert_indices_from_csr_to_coo=convert_indices_from_csr_to_coo""",
        _SCRIPT: "ScriptDict ScriptFunction ScriptList ScriptModule ScriptObject",
    },
    "_C": {
        Harmless("lazyt.compat.served.choices"): "DispatchKey DispatchKeySet",
        Harmless("lazyt._C"): "_log_api_usage_once",
        Served("lazyt._C"): """
            DisableTorchFunction DisableTorchFunctionSubclass _disabled_torch_function_impl
            _get_function_stack_at _is_torch_function_all_disabled _is_torch_function_enabled
            _is_torch_function_mode_enabled _len_torch_function_stack _pop_torch_function_stack
            _push_on_torch_function_stack""",
        _FUNCTIONS: """
            Generator Size Tag=memory_format TensorBase=Tensor device dtype layout memory_format
            default_generator""",
        Served("lazyt.linalg"): "_LinAlgError=LinAlgError",
        Harmless("lazyt.compat.served.marks"): """
            _ExcludeDispatchKeyGuard=Nothing _DisableTorchDispatch=Nothing _DisableFuncTorch=Nothing
            _AutoDispatchBelowAutograd=Nothing _are_functorch_transforms_active=no
            _get_accelerator _get_default_device _get_privateuse1_backend_name
            _get_tracing_state=none _is_tracing=no _jit_can_fuse_on_cpu=no _jit_can_fuse_on_gpu=no
            _jit_override_can_fuse_on_cpu=set_nothing _jit_override_can_fuse_on_gpu=set_nothing
            _jit_set_nvfuser_enabled=set_nothing _jit_set_nvfuser_guard_mode=set_nothing
            _jit_set_profiling_executor=set_nothing _jit_set_profiling_mode=set_nothing
            _jit_set_texpr_fuser_enabled=set_nothing
            _set_math_sdp_allow_fp16_bf16_reduction=set_nothing
            _jit_set_bailout_depth=set_nothing
            _cuda_clearCublasWorkspaces=set_nothing""",
        Served("lazyt.compat.served.rebuilding"): "_TensorMeta=TensorMeta _add_docstr",
        _IN_PYTHON: """
            BenchmarkConfig Block BufferDict CallStack ClassType
            CompilationUnit Future Graph IODescriptor InterfaceType JITException
            LiteScriptModule Node NoneType NumberType OptionalType ParameterDict
            PyTorchFileReader PyTorchFileWriter ScriptFunction ScriptMethod ScriptModule
            ScriptObject StreamObjType TensorType ThroughputBenchmark TracingState TupleType Type
            Use Value _dispatch_keys
            _dispatch_tls_is_dispatch_key_excluded _jit_get_all_schemas
            _get_operation_overload _propagate_xla_data
            parse_ir""",
        Served("lazyt.library.schema"): "AliasInfo Argument FunctionSchema=Schema",
        Served("lazyt.subclasses.aten_queries"): """
            _dispatch_get_all_op_names _dispatch_has_computed_kernel_for_dispatch_key
            _dispatch_has_kernel _dispatch_has_kernel_for_dispatch_key _get_schema
            _jit_get_schemas_for_operator parse_schema=parse_schema_of""",
        Served("lazyt.functional.subclasses"): "_disabled_torch_dispatch_impl",
    },
    "_C._nn": {
        Served("lazyt.nn.functional"): """
            adaptive_avg_pool2d adaptive_avg_pool3d avg_pool2d avg_pool3d elu elu_=elu gelu glu
            hardsigmoid hardswish hardtanh leaky_relu linear log_sigmoid=logsigmoid mish one_hot
            pad relu6 scaled_dot_product_attention silu softplus softshrink""",
        Served("lazyt.compat.served.rebuilding"): "_parse_to",
    },
    "_C._functorch": {
        Harmless("lazyt.compat.served.marks"): """
            is_batchedtensor=no is_functorch_wrapped_tensor=no is_gradtrackingtensor=no
            is_legacy_batchedtensor=no maybe_current_level=none maybe_get_level=minus_one
            maybe_get_bdim=minus_one get_unwrapped=same""",
        _IN_PYTHON: "_add_batch_dim _remove_batch_dim CFunctionalizeInterpreterPtr TransformType",
    },
    "_C._distributed_c10d": {
        Refused("lazyt's ranks are those of lazyt.distributed"): """
            FakeProcessGroup Logger ProcessGroupGloo ProcessGroupNCCL Reducer
            _DistributedBackendOptions _register_process_group _resolve_process_group""",
        Served("lazyt.distributed"): """
            FileStore HashStore PrefixStore ProcessGroup ReduceOp Store TCPStore Work""",
    },
    "_C._distributed_rpc": {
        Harmless("lazyt.compat.served.marks"): "_is_current_rpc_agent_set=no",
        Refused("lazyt trains in one process"): "PyRRef RpcAgent WorkerInfo",
    },
    "_C._VariableFunctions": {_FUNCTIONS: "*=*"},
    "_VF": {_FUNCTIONS: "*=*"},
    "_tensor": {
        _FUNCTIONS: "Tensor",
        _PRIVATE: "_rebuild_from_type_v2 _convert",
    },
    "_tensor_str": {
        Served("lazyt.compat.served.rebuilding"): "_str _str_intern _tensor_str=_str",
        Served("lazyt.functional.printing"): "PRINT_OPTS=_OPTIONS",
    },
    "_utils": {
        _PRIVATE: """
            ExceptionWrapper KeyErrorMessage _element_size _flatten_dense_tensors
            _get_available_device_type _get_device_index _get_device_module _rebuild_parameter
            _rebuild_tensor_v2 _take_tensors
            _unflatten_dense_tensors is_compiling""",
    },
    "_custom_ops": {
        Served("lazyt.library"): "custom_op impl impl_abstract",
    },
    "_ops": {
        Served("lazyt.library"): "OpOverload OpOverloadPacket",
        _IN_PYTHON: "HigherOrderOperator OperatorBase TorchBindOpOverload",
    },
    "_jit_internal": {
        Harmless("lazyt.compat.compile"): """
            Final=typing_final _copy_to_script_wrapper=unchanged _overload=unchanged
            _overload_method=unchanged export=unchanged ignore unused=unchanged is_scripting
            boolean_dispatch _isinstance""",
    },
    "_higher_order_ops": {Served("lazyt.func"): "associative_scan cond map scan while_loop"},
    "_higher_order_ops.associative_scan": {Served("lazyt.func"): "associative_scan"},
    "_higher_order_ops.cond": {Served("lazyt.func"): "cond"},
    "_higher_order_ops.map": {Served("lazyt.func"): "map"},
    "_higher_order_ops.scan": {Served("lazyt.func"): "scan"},
    "_higher_order_ops.while_loop": {Served("lazyt.func"): "while_loop"},
    "_prims_common": {
        Served("lazyt.compat.served.rebuilding"): "is_contiguous_or_false",
    },
    "_guards": {
        Served("lazyt.subclasses.fake_tensors"): "detect_fake_mode",
        Refused("lazyt has guards, and a trace, of its own (lazyt.jit)"): """
            CompileContext Source TracingContext""",
    },
    "_subclasses": {
        Served("lazyt.subclasses.fake_tensors"): """
            DynamicOutputShapeException FakeTensor FakeTensorMode UnsupportedFakeTensorException"""
    },
    "_subclasses.fake_tensor": {
        Served("lazyt.subclasses.fake_tensors"): """
            DataDependentOutputException DynamicOutputShapeException FakeTensor
            FakeTensorConverter FakeTensorMode UnsupportedFakeTensorException is_fake
            maybe_get_fake_mode unset_fake_temporarily""",
    },
    "fx.passes.fake_tensor_prop": {Served("lazyt.subclasses.fake_tensors"): "FakeTensorProp"},
    "_vmap_internals": {Served("lazyt"): "vmap"},
    "_lowrank": {Served("lazyt"): "svd_lowrank pca_lowrank"},
    "_linalg_utils": {Served("lazyt.compat.served.rebuilding"): "matmul is_sparse"},
    "classes": {
        Refused("lazyt loads no libraries of C++ classes"): "load_library",
    },
    "functional": {
        _FUNCTIONS: """
            align_tensors=broadcast_tensors atleast_1d atleast_2d atleast_3d block_diag
            broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul einsum lu
            meshgrid norm split stft istft tensordot unique unique_consecutive unravel_index""",
    },
    "masked": {
        Served("lazyt.subclasses.masked_tensors"): """
            MaskedTensor as_masked_tensor is_masked_tensor masked_tensor"""
    },
    "masked.maskedtensor": {
        Served("lazyt.subclasses.masked_tensors"): """
            MaskedTensor as_masked_tensor is_masked_tensor masked_tensor"""
    },
    "nested": {
        Served("lazyt.subclasses.nested"): """
            as_nested_tensor masked_select narrow nested_tensor nested_tensor_from_jagged
            to_padded_tensor"""
    },
    "nested._internal": {},
    "nested._internal.nested_tensor": {
        Served("lazyt.subclasses.nested"): "NestedTensor nested_tensor_from_jagged"
    },
    "ops": {
        Served("lazyt.compat.served.packages"): "aten prims=aten",
        Refused(
            "lazyt loads no libraries of C++ operators (an OSError)", "lazyt.compat.served.packages"
        ): "import_module=load_library load_library",
        Harmless("lazyt.compat.served.choices"): "loaded_libraries=NO_LIBRARIES",
    },
    "return_types": {
        Served("lazyt.functional.return_types"): """
            aminmax cummax cummin frexp geqrf histogram histogramdd kthvalue linalg_cholesky_ex
            linalg_eig linalg_eigh linalg_inv_ex linalg_ldl_factor
            linalg_ldl_factor_ex linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex
            linalg_qr linalg_slogdet linalg_solve_ex linalg_svd lu_unpack max
            median min mode nanmedian qr slogdet sort svd topk triangular_solve""",
    },
    "sparse": {
        Served("lazyt.functional.sparse.old_types"): """
            ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
            ShortTensor""",
        Refused("solve with the dense matrix: torch.linalg.solve(A.to_dense(), B)"): "spsolve",
        _SPARSE: """
            as_sparse_gradcheck
            to_sparse_semi_structured SparseSemiStructuredTensor""",
    },
    "torch_version": {Served("lazyt.compat.served.versions"): "TorchVersion"},
    "version": {
        Served("lazyt.version"): "cuda debug git_version hip",
        Served("lazyt.compat.served.versions"): "__version__=VERSION xpu=NONE rocm=NONE",
    },
    "__config__": {
        Served("lazyt.compat.served.versions"): "parallel_info show",
    },
    "__future__": {
        Harmless("lazyt.compat.served.marks"): """
            get_overwrite_module_params_on_conversion=no get_swap_module_params_on_conversion=no
            set_overwrite_module_params_on_conversion=set_nothing
            set_swap_module_params_on_conversion=set_nothing""",
    },
    "futures": {
        Served("lazyt.compat.served.futures"): "Future collect_all wait_all",
    },
}
