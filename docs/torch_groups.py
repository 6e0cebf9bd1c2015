"""Which of PyTorch's recorded names lie outside of a dense tensor library, and why."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

API: dict[str, Any] = json.loads(
    Path(__file__).with_name("torch_api.json").read_text(encoding="utf-8")
)

#: Reason and pattern of the groups that are left out, tried in order on "place.name".
GROUPS: list[tuple[str, str]] = [
    ("TorchScript and its compiler: lazyt compiles the graph that a program builds",
     r"torch\.(\w*Type|\w*Script\w*|AliasDb|Argument\w*|Block|CallStack|Capsule|Code|Compilation\w*"
     r"|CompleteArgumentSpec|Concrete\w*|DeepCopyMemoTable|DeserializationStorageContext"
     r"|SerializationStorageContext|ErrorReport|ExecutionPlan|FileCheck|FunctionSchema|Future"
     r"|Gradient|Graph\w*|IODescriptor|JITException|Node|OperatorInfo|StaticModule|Tag|Tracing\w*"
     r"|Type|Use|Value|fork|wait|import_ir\w*|parse_\w*|merge_type\w*|unify_type\w*|jit\w*"
     r"|Lite\w*|PyTorchFile\w*|BufferDict|ModuleDict|ParameterDict|AggregationType|AVG|SUM)$"),
    ("symbolic shapes and hooks of torch.compile and export",
     r"torch\.(sym_\w+|Sym\w+|SymInt|cond|while_loop|compiled_with\w*|DispatchKey\w*"
     r"|ExcludeDispatchKeyGuard|DisableTorchFunction\w*|classproperty|prepare_multi\w*)$"
     r"|func\.(functionalize|debug_unwrap|linearize|rearrange)$|\w[\w.]*\.\w*torch_function\w*$"),
    ("loggers and benchmarks of PyTorch's own development",
     r"torch\.(Benchmark\w*|LockingLogger|LoggerBase|NoopLogger|ThroughputBenchmark|Aggregation\w*"
     r"|profiler_\w+|init_num_threads|read_vitals|set_vital|vitals_enabled|thread_safe_generator"
     r"|get_file_path|typename|is_storage|from_file)$"),
    ("storages and tensor types of one dtype, the interface before torch.dtype",
     r"torch\.(\w+Storage|Storage|StorageBase|\w+Tensor|set_default_tensor_type)$"
     r"|Tensor\.(storage|storage_type|untyped_storage|new|is_shared|share_memory_|set_|is_set_to|volatile"
     r"|reinforce|module_load|map_|map2_|apply_|name|const_data_ptr|record_stream)$"
     r"|autograd\.(Variable|variable|NestedIOFunction)$"),
    ("quantised tensors",
     r"[\w.]+\.(q(u?int|scale|_)\w*|\w*quanti[sz]e\w*|Q\w+|int_repr|qscheme|\w*qparams\w*|fbgemm\w*"
     r"|fake_quantize\w*|fused_moving\w*|per_\w+|is_quantized|scaled_mm|scaled_grouped_mm|quint\w*"
     r"|qint\w*|ScalingType|SwizzleType|bit|bits\w+|float4\w*|float8\w*|u?int[1-7])$"),
    ("complex numbers",
     r"[\w.]+\.(\w*complex\w*|Complex\w*|conj\w*|_conj\w*|resolve_conj|is_conj|resolve_neg|is_neg"
     r"|imag|real|polar|cfloat|cdouble|chalf|H|view_as_real\w*|eig|eigvals|eigvalsh_"
     r"|set_default_complex\w*)$"),
    ("sparse and nested tensors",
     r"[\w.]+\.(\w*sparse\w*|\w*Sparse\w*|coalesce|is_coalesced|\w*indices_copy|values_copy|c\w+_indices"
     r"|row_indices|indices|values|dense_dim|to_dense|hspmm|hsmm|smm|spmm|dsmm|saddmm|sspaddmm"
     r"|to_padded_tensor|is_nested|jagged|segment_reduce|lobpcg)$"),
    ("other devices, their libraries and their settings",
     r"[\w.]+\.(cudnn\w*|miopen\w*|\w*mkldnn\w*|\w*vulkan\w*|(\w+_)?ipu(_\w+)?|\w*xla\w*|\w*mps|\w*mtia|xpu"
     r"|is_maia|is_meta|is_xpu|batch_norm_(backward|elemt|gather|stats|update)\w*|native_\w+"
     r"|Stream\w*|Event|DeviceObjType|get_device_module|grouped_mm|grid_sampler\w*|conv_tbc"
     r"|convolution|embedding_renorm_|norm_except_dim|choose_qparams\w*|\w*deterministic\w*"
     r"|\w*float32_matmul\w*|\w*interop_threads|set_flush_denormal|\w*warn_always\w*)$"),
    ("distributed training",
     r"[\w.]+\.(is_distributed|DistributedSampler|DataParallel|SyncBatchNorm|wait)$"),
    ("deprecated names, and functions behind a class that users call instead",
     r"torch\.(symeig|eig|lstsq|matrix_rank|solve|range|norm_except_dim|nuclear_norm|frobenius_norm"
     r"|rnn_\w+|gru\w*|lstm\w*|resize_as_\w*|slice_inverse|chain_matmul|triangular_solve|lu_solve"
     r"|align_tensors|feature_\w+|is_same_size|set_anomaly_enabled|is_anomaly\w*"
     r"|\w*autocast_(cpu|gpu|cache|increment|decrement)\w*|autocast_\w+|clear_autocast_cache)$"
     r"|Tensor\.(symeig|eig|lstsq|solve|resize|resize_as|slice_inverse|is_same_size|lu_solve"
     r"|triangular_solve|stft|refine_names|rename\w*|align_\w+|has_names|names)$"
     r"|nn\.(Container|NLLLoss2d|UpsamplingNearest2d|UpsamplingBilinear2d|CrossMapLRN2d|RNNBase"
     r"|RNNCellBase)$|nn\.functional\.(upsample\w*|Tensor|assert_int_or_pair|boolean_dispatch"
     r"|native_channel_shuffle)$|nn\.init\.(\w+[^_])$|nn\.utils\.(clip_grad_norm|remove_\w+)$"
     r"|utils\.data\.(\w*DataPipe\w*|functional_\w+|\w*determinism\w*|non_\w+|runtime_\w+"
     r"|argument_validation|DataChunk)$|special\.Tensor$|nn\.factory_kwargs$"),
]  # fmt: skip


def group_of(place: str, name: str) -> str | None:
    """The reason why a name is left out, or None when it belongs to a dense tensor library."""
    if place == "nn.init" and name == "calculate_gain":
        return None
    full = f"{place}.{name}"
    return next((reason for reason, pattern in GROUPS if re.fullmatch(pattern, full)), None)


def dense_names(place: str) -> list[str]:
    """PyTorch's names in a module that lazyt could have."""
    return [name for name in API[place] if group_of(place, name) is None]
