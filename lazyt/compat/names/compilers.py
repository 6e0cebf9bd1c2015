"""What programs import from PyTorch's compilers: TorchScript, FX, Dynamo, Inductor, export, ONNX,
quantisation."""

from __future__ import annotations

from lazyt.compat.names.entries import Harmless, Refused, Served, Table

__all__ = ["MODULES"]

_MARKS = Harmless("lazyt.compat.served.marks")
_SCRIPT = Refused(
    "lazyt has no TorchScript; it captures what a program does (lazyt.jit), and modules stay as "
    "they are"
)
_FX = Refused(
    "functions of lazyt are not made of those of a dispatcher; torch.fx.symbolic_trace records "
    "calls of the functions that a program writes"
)
_SYMBOLIC = Refused("shapes are numbers in lazyt, none are symbols of a compiler's")
_INDUCTOR = Refused("lazyt compiles by itself; PyTorch's Inductor is not there")
_EXPORT = Refused(
    "lazyt's programs have no operators of PyTorch's dispatcher, and it writes no ONNX; "
    "torch.export.save and torch.jit.save write files that lazyt reads"
)
_QUANTISED = Refused(
    "lazyt has no quantised tensors; float16 and bfloat16 are its smallest types of fractions"
)

MODULES: Table = {
    "_dynamo": {
        _MARKS: """
            allow_in_graph=same assume_constant_result=same disable disallow_in_graph=same
            forbid_in_graph=same graph_break=set_nothing is_compiling=no is_dynamo_supported=no
            mark_dynamic=set_nothing mark_static=set_nothing mark_static_address=set_nothing
            maybe_mark_dynamic=set_nothing nonstrict_trace=same reset=set_nothing run=same
            list_backends""",
        Refused("lazyt.compile returns the module or function itself, replayed by lazyt"): """
            OptimizedModule export optimize register_backend""",
        Served("lazyt.subclasses.backends"): "explain",
    },
    "_dynamo.config": {
        Harmless("lazyt.compat.served.settings"): """
            assume_static_by_default automatic_dynamic_shapes cache_size_limit
            capture_dynamic_output_shape_ops capture_scalar_outputs dynamic_shapes
            inline_inbuilt_nn_modules optimize_ddp patch recompile_limit
            skip_fwd_side_effects_in_bwd_under_checkpoint suppress_errors verbose"""
    },
    "_dynamo.decorators": {
        _MARKS: """
            allow_in_graph=same disable mark_dynamic=set_nothing mark_static_address=set_nothing"""
    },
    "_dynamo.eval_frame": {
        _MARKS: "disable is_dynamo_supported=no",
        Refused("lazyt.compile returns the module or function itself"): "OptimizedModule",
    },
    "_dynamo.exc": {
        _SYMBOLIC: """
            BackendCompilerError InternalTorchDynamoError TensorifyScalarRestartAnalysis
            TorchDynamoException TorchRuntimeError Unsupported UserError"""
    },
    "_dynamo.testing": {Served("lazyt.subclasses.backends"): "CompileCounter"},
    "_dynamo.utils": {_MARKS: "is_compile_supported=no"},
    "_dynamo._trace_wrapped_higher_order_op": {_MARKS: "TransformGetItemToIndex=Nothing"},
    "_functorch": {},
    "_functorch.vmap": {
        Served("lazyt.utils._pytree"): "tree_flatten tree_unflatten tree_map_",
        Served("lazyt"): "Tensor",
        Served("lazyt.compat.served.rebuilding"): "_get_name",
        Refused("vmap of lazyt is a transform of graphs: no tensor has a dimension of a batch"): """
            _add_batch_dim _broadcast_to_and_flatten _maybe_remove_batch_dim _remove_batch_dim""",
    },
    "_functorch.config": {
        Harmless("lazyt.compat.served.settings"): "activation_memory_budget donated_buffer"
    },
    "_inductor": {
        _MARKS: """
            cudagraph_mark_step_begin=set_nothing list_mode_options=empty_dict
            list_options=empty_list""",
        _INDUCTOR: "compile compile_aot aoti_compile_and_package aoti_load_package",
    },
    "_inductor.config": {
        Harmless("lazyt.compat.served.settings"): """
            conv_1x1_as_mm coordinate_descent_check_all_directions coordinate_descent_tuning
            epilogue_fusion force_fuse_int_mm_with_mul fx_graph_cache max_autotune
            max_autotune_gemm patch triton=TRITON use_mixed_mm"""
    },
    "_inductor.cpu_vec_isa": {_INDUCTOR: "pick_vec_isa"},
    "_inductor.runtime.cache_dir_utils": {_INDUCTOR: "cache_dir"},
    "ao": {},
    "ao.nn": {},
    "ao.quantization": {
        Served("lazyt.ao.fake_quantize"): """
            FakeQuantize FakeQuantizeBase FusedMovingAvgObsFakeQuantize default_fake_quant
            default_fused_act_fake_quant default_fused_wt_fake_quant
            default_fused_per_channel_wt_fake_quant
            default_per_channel_weight_fake_quant default_weight_fake_quant
            disable_fake_quant disable_observer enable_fake_quant enable_observer""",
        Served("lazyt.ao.observers"): """
            MinMaxObserver MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver
            NoopObserver ObserverBase PerChannelMinMaxObserver PlaceholderObserver
            UniformQuantizationObserverBase""",
        Served("lazyt.ao.preparing"): """
            DeQuantStub QConfig QuantStub QuantWrapper default_dynamic_qconfig
            default_observer default_per_channel_weight_observer
            default_placeholder_observer default_qat_qconfig default_qconfig
            default_weight_observer float16_dynamic_qconfig fuse_modules
            get_default_qat_qconfig get_default_qconfig prepare prepare_qat
            propagate_qconfig_""",
        _QUANTISED: """
            HistogramObserver QConfigMapping convert float_qparams_weight_only_qconfig
            fuse_modules_qat get_default_qconfig_mapping quantize quantize_dynamic
            quantize_qat""",
    },
    "ao.quantization.fake_quantize": {
        Served("lazyt.ao.fake_quantize"): """
            FakeQuantize FakeQuantizeBase FusedMovingAvgObsFakeQuantize default_fake_quant
            default_fused_act_fake_quant default_fused_wt_fake_quant
            default_fused_per_channel_wt_fake_quant
            default_per_channel_weight_fake_quant default_weight_fake_quant
            disable_fake_quant disable_observer enable_fake_quant enable_observer""",
    },
    "ao.quantization.observer": {
        Served("lazyt.ao.observers"): """
            MinMaxObserver MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver
            NoopObserver ObserverBase PerChannelMinMaxObserver PlaceholderObserver
            UniformQuantizationObserverBase""",
        _QUANTISED: """
            HistogramObserver""",
    },
    "ao.quantization.qconfig": {
        Served("lazyt.ao.preparing"): """
            QConfig default_dynamic_qconfig default_qat_qconfig default_qconfig
            get_default_qat_qconfig get_default_qconfig""",
    },
    "ao.quantization.stubs": {Served("lazyt.ao.preparing"): "DeQuantStub QuantStub QuantWrapper"},
    "ao.nn.intrinsic": {
        Served("lazyt.ao.preparing"): "ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU"
    },
    "ao.nn.qat": {
        Served("lazyt.ao.preparing"): """
            Conv1d=QatConv1d Conv2d=QatConv2d Conv3d=QatConv3d Linear=QatLinear"""
    },
    "ao.quantization.fx._decomposed": {_QUANTISED: "quantized_decomposed_lib"},
    "ao.quantization.quantize_fx": {_QUANTISED: "convert_fx fuse_fx prepare_fx prepare_qat_fx"},
    "compiler": {
        _MARKS: """
            allow_in_graph=same assume_constant_result=same cudagraph_mark_step_begin=set_nothing
            disable is_dynamo_compiling=no list_backends
            nested_compile_region=same reset=set_nothing set_enable_guard_collectives=set_nothing
            set_stance=Nothing substitute_in_graph keep_tensor_guards_unsafe=same
            skip_guard_on_all_nn_modules_unsafe=same
            skip_guard_on_inbuilt_nn_modules_unsafe=same""",
        Served("lazyt.compat.compile"): "is_compiling=is_exporting is_exporting",
        Served("lazyt"): "compile",
        _INDUCTOR: "load_cache_artifacts load_compiled_function save_cache_artifacts wrap_numpy",
    },
    "export": {
        Served("lazyt.export"): """
            Dim ExportGraphSignature ExportedProgram ShapesCollection dims draft_export=export
            export export_for_training=export load register_dataclass save""",
        _EXPORT: """
            Constraint CustomDecompTable ExportBackwardSignature FlatArgsAdapter ModuleCallEntry
            ModuleCallSignature UnflattenedModule default_decompositions unflatten""",
    },
    "export._trace": {Served("lazyt.export"): "_export=export"},
    "export.decomp_utils": {_EXPORT: "CustomDecompTable"},
    "export.dynamic_shapes": {
        Served("lazyt.export"): "Dim ShapesCollection",
        _EXPORT: "refine_dynamic_shapes_from_suggested_fixes",
    },
    "export.exported_program": {Served("lazyt.export"): "ExportedProgram"},
    "export.graph_signature": {
        Served("lazyt.export.signature"): """
            ConstantArgument ExportGraphSignature InputKind InputSpec OutputKind OutputSpec
            TensorArgument"""
    },
    "fx._compatibility": {_MARKS: "compatibility=mark"},
    "fx._lazy_graph_module": {Served("lazyt.fx.graph_module"): "_make_graph_module=GraphModule"},
    "fx.experimental.proxy_tensor": {
        _MARKS: "get_proxy_mode=none get_innermost_proxy_mode=none",
        _FX: "ProxyTorchDispatchMode",
    },
    "fx.experimental.symbolic_shapes": {
        Served("lazyt.compat.served.symbols"): """
            free_symbols=no_symbols free_unbacked_symbols=no_symbols guard_or_false=truth
            guard_or_true=truth guard_size_oblivious=truth has_free_symbols=no_free ShapeEnv
            is_concrete_bool is_concrete_int statically_known_true=truth sym_eq""",
        _SYMBOLIC: "DimDynamic GuardOnDataDependentSymNode StatelessSymbolicContext",
    },
    "jit": {
        Harmless("lazyt.compat.compile"): """
            Attribute Final=typing_final _overload=unchanged _overload_method=unchanged
            _script_if_tracing=unchanged annotate enable_onednn_fusion=set_nothing
            export freeze fuser=no_fuser ignore interface=unchanged is_scripting
            is_tracing isinstance=_isinstance optimize_for_inference
            optimized_execution=no_fuser script script_if_tracing=unchanged
            script_method=unchanged set_fusion_strategy=set_nothing strict_fusion=no_fuser trace
            trace_module unused=unchanged run_frozen_optimizations=set_nothing""",
        Served("lazyt.export.script"): """
            RecursiveScriptModule ScriptFunction ScriptModule TopLevelTracedModule TracedModule load
            save""",
        Served("lazyt.compat.served.futures"): "fork wait",
        _SCRIPT: """
            CompilationUnit Error ScriptWarning _get_trace_graph jit_module_from_flatbuffer
            onnx_exporter""",
        Served("lazyt.compat.served.choices"): "TracerWarning",
    },
    "jit._script": {
        Harmless("lazyt.compat.compile"): "script",
        Served("lazyt.export.script"): "RecursiveScriptModule ScriptModule",
    },
    "jit._trace": {Served("lazyt.compat.served.choices"): "TracerWarning"},
    "jit._recursive": {_SCRIPT: "concrete_type_store wrap_cpp_module"},
    "jit.annotations": {
        Served("typing"): """
            Any BroadcastingList1=List BroadcastingList2=List BroadcastingList3=List Dict List
            Optional Tuple Union"""
    },
    "jit.mobile": {_SCRIPT: "_load_for_lite_interpreter"},
    "onnx": {
        _MARKS: """
            is_in_onnx_export=no is_onnxrt_backend_supported=no
            register_custom_op_symbolic=set_nothing unregister_custom_op_symbolic=set_nothing""",
        Served("lazyt.compat.served.choices"): "OperatorExportTypes TrainingMode",
        _EXPORT: """
            ExportOptions JitScalarType ONNXProgram OnnxExporterError dynamo_export
            enable_fake_mode enable_log export
            select_model_mode_for_export""",
    },
    "onnx._internal": {},
    "onnx._internal.exporter": {_EXPORT: "ONNXProgram"},
    "onnx.errors": {_EXPORT: "OnnxExporterError SymbolicValueError UnsupportedOperatorError"},
    "onnx.symbolic_helper": {
        _MARKS: "parse_args=mark quantized_args=mark",
        Served("lazyt.compat.served.choices"): "cast_pytorch_to_onnx=EMPTY_DICT",
        _EXPORT: "_get_const _get_tensor_sizes _maybe_get_const _unimplemented",
    },
    "onnx.symbolic_opset9": {_EXPORT: "masked_fill softmax"},
    "onnx.symbolic_opset11": {_EXPORT: "pad"},
    "onnx.symbolic_opset12": {_EXPORT: "einsum"},
    "onnx.utils": {_EXPORT: "export _export _run_symbolic_function"},
    "onnx.verification": {_EXPORT: "verify"},
    "package": {_EXPORT: "PackageExporter PackageImporter"},
    "quantization": {
        Served("lazyt.ao.fake_quantize"): """
            FakeQuantize FakeQuantizeBase FusedMovingAvgObsFakeQuantize default_fake_quant
            default_fused_act_fake_quant default_fused_wt_fake_quant
            default_fused_per_channel_wt_fake_quant
            default_per_channel_weight_fake_quant default_weight_fake_quant
            disable_fake_quant disable_observer enable_fake_quant enable_observer""",
        Served("lazyt.ao.observers"): """
            MinMaxObserver MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver
            NoopObserver ObserverBase PerChannelMinMaxObserver PlaceholderObserver
            UniformQuantizationObserverBase""",
        Served("lazyt.ao.preparing"): """
            DeQuantStub QConfig QuantStub QuantWrapper default_dynamic_qconfig
            default_observer default_per_channel_weight_observer
            default_placeholder_observer default_qat_qconfig default_qconfig
            default_weight_observer float16_dynamic_qconfig fuse_modules
            get_default_qat_qconfig get_default_qconfig prepare prepare_qat
            propagate_qconfig_""",
        _QUANTISED: """
            convert fuse_modules_qat quantize quantize_dynamic quantize_qat""",
    },
}
