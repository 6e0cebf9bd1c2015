"""What programs import from ``torch.distributed`` and ``torch.multiprocessing``; what there is not
yet raises when it is called."""

from __future__ import annotations

from lazyt.compat.names.entries import Harmless, Refused, Served, Table

__all__ = ["MODULES"]

_ALONE = Harmless("lazyt.compat.served.single_process")
_ENUMS = Served("lazyt.compat.served.choices")
_RANKS = Served("lazyt.distributed")
_TENSOR = Served("lazyt.distributed.tensor")
_LAYOUTS = Served("lazyt.distributed.tensor.layouts")
_MESH = Served("lazyt.distributed.device_mesh")
_PLACEMENTS = Served("lazyt.distributed.placements")
_JOINING = Served("lazyt.distributed.joining")
_LOCAL = Served("lazyt.sharding.local_sgd")
_NEW = Served("lazyt.sharding.functional_collectives")
_SAVED = Served("lazyt.sharding.checkpoint")
_ONE_FILE = Served("lazyt.sharding.checkpoint.formats")
_PLANNERS = Served("lazyt.sharding.checkpoint.planners")
_SHARDED = Served("lazyt.sharding.fully_shard")
_WRAPPED = Served("lazyt.sharding.fsdp.fully_sharded")
_SETTINGS = Served("lazyt.sharding.fsdp.settings")
_MANY = Refused("lazyt's ranks have whole models and parts of the batch; this is not there yet")

#: What ``torch.distributed`` and its module of collectives both have.
_OF_RANKS = """
    Backend FileStore GroupMember HashStore P2POp PrefixStore ProcessGroup ReduceOp Store
    TCPStore Work all_gather all_gather_coalesced all_gather_into_tensor
    all_gather_object all_reduce all_reduce_coalesced all_to_all all_to_all_single barrier
    batch_isend_irecv broadcast broadcast_object_list destroy_process_group gather
    gather_object get_backend get_global_rank get_group_rank get_node_local_rank
    get_pg_count get_process_group_ranks get_rank get_world_size group=GroupMember
    init_process_group irecv is_available is_backend_available is_gloo_available
    is_initialized is_mpi_available is_nccl_available is_torchelastic_launched isend
    monitored_barrier new_group new_subgroups new_subgroups_by_enumeration recv
    recv_object_list reduce reduce_op=ReduceOp reduce_scatter reduce_scatter_tensor
    scatter scatter_object_list send send_object_list split_group DistBackendError=DistributedError
    DistError=DistributedError DistNetworkError=DistributedError DistStoreError
    get_backend_config get_default_backend_for_device supports_complex
    _rank_not_in_group=rank_not_in_group _all_gather_base=all_gather_into_tensor
    _reduce_scatter_base=reduce_scatter_tensor"""
_LEVELS = "get_debug_level set_debug_level set_debug_level_from_env"

MODULES: Table = {
    "distributed": {
        _RANKS: _OF_RANKS,
        _ALONE: f"is_ucc_available=no is_xccl_available=no {_LEVELS}",
        _ENUMS: "DebugLevel",
        Served("lazyt.distributed.comm_hooks"): "GradBucket",
        _MANY: "Reducer",
        _MESH: "DeviceMesh init_device_mesh",
    },
    "distributed._composable": {_MANY: "checkpoint contract replicate"},
    "distributed._composable.fsdp": {
        _SHARDED: """
            CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy fully_shard
            register_fsdp_forward_method""",
    },
    "distributed._functional_collectives": {
        _NEW: """
            all_gather_tensor all_gather_tensor_autograd=all_gather_tensor all_to_all_single
            all_to_all_single_autograd=all_to_all_single permute_tensor reduce_scatter_tensor
            reduce_scatter_tensor_autograd=reduce_scatter_tensor wait_tensor""",
        Served("lazyt.distributed.functional"): "all_reduce broadcast",
        _MANY: "AsyncCollectiveTensor",
    },
    "distributed._tensor": {
        _TENSOR: """
            DTensor distribute_module distribute_tensor empty full ones rand randn zeros""",
        _MESH: "DeviceMesh init_device_mesh",
        _PLACEMENTS: "Partial Placement Replicate Shard",
    },
    "distributed._tensor.experimental": {
        Served("lazyt.distributed.tensor.experimental"): "implicit_replication local_map",
    },
    "distributed._tools": {},
    "distributed.algorithms": {_JOINING: "Join JoinHook Joinable"},
    "distributed.algorithms._checkpoint": {},
    "distributed.algorithms._checkpoint.checkpoint_wrapper": {
        _ENUMS: "CheckpointImpl",
        Served("lazyt.sharding.checkpoint_wrapper"): """
            ActivationWrapper CheckpointWrapper OffloadWrapper apply_activation_checkpointing
            checkpoint_wrapper offload_wrapper""",
    },
    "distributed.algorithms.ddp_comm_hooks": {},
    "distributed.algorithms.ddp_comm_hooks.default_hooks": {
        Served("lazyt.distributed.comm_hooks"): """
            allreduce_hook bf16_compress_hook bf16_compress_wrapper fp16_compress_hook
            fp16_compress_wrapper""",
    },
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": {
        _LOCAL: "PostLocalSGDState post_localSGD_hook",
    },
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook": {
        Served("lazyt.sharding.power_sgd"): "PowerSGDState batched_powerSGD_hook powerSGD_hook",
    },
    "distributed.algorithms.join": {
        _JOINING: "Join JoinHook Joinable",
    },
    "distributed.algorithms.model_averaging": {},
    "distributed.algorithms.model_averaging.averagers": {
        _LOCAL: "ModelAverager PeriodicModelAverager",
    },
    "distributed.algorithms.model_averaging.utils": {
        _LOCAL: """
            average_parameters average_parameters_or_parameter_groups=average_parameters""",
    },
    "distributed.checkpoint": {
        _SAVED: """
            BytesStorageMetadata CheckpointException ChunkStorageMetadata DefaultLoadPlanner
            DefaultSavePlanner FileSystemReader FileSystemWriter LoadPlan LoadPlanner Metadata
            ReadItem SavePlan SavePlanner StorageReader StorageWriter TensorStorageMetadata
            WriteItem async_save load load_state_dict save save_state_dict""",
        _MANY: "HuggingFaceStorageReader HuggingFaceStorageWriter",
    },
    "distributed.checkpoint.api": {_SAVED: "CheckpointException"},
    "distributed.checkpoint._consolidate_hf_safetensors": {_MANY: "consolidate_safetensors_files"},
    "distributed.checkpoint.default_planner": {
        _SAVED: "DefaultLoadPlanner DefaultSavePlanner",
        _PLANNERS: "_EmptyStateDictLoadPlanner=EmptyStateDictLoadPlanner",
    },
    "distributed.checkpoint.filesystem": {_SAVED: "FileSystemReader FileSystemWriter"},
    "distributed.checkpoint.format_utils": {
        _ONE_FILE: "dcp_to_torch_save torch_save_to_dcp",
        _PLANNERS: "_EmptyStateDictLoadPlanner=EmptyStateDictLoadPlanner",
        _SAVED: "_load_state_dict=load_state_dict",
    },
    "distributed.checkpoint.hf_storage": {
        _MANY: "HuggingFaceStorageReader HuggingFaceStorageWriter",
    },
    "distributed.checkpoint.metadata": {
        Served("lazyt.sharding.checkpoint.metadata"): """
            BytesStorageMetadata ChunkStorageMetadata Metadata MetadataIndex STATE_DICT_TYPE
            StorageMeta TensorProperties TensorStorageMetadata""",
    },
    "distributed.checkpoint.optimizer": {_MANY: "load_sharded_optimizer_state_dict"},
    "distributed.checkpoint.planner": {
        _PLANNERS: """
            BytesIOWriteData LoadItemType LoadPlan LoadPlanner ReadItem SavePlan SavePlanner
            TensorWriteData WriteItem WriteItemType""",
    },
    "distributed.checkpoint.state_dict": {
        Served("lazyt.sharding.checkpoint.state_dict"): """
            StateDictOptions _init_optim_state=init_optim_state get_model_state_dict
            get_optimizer_state_dict get_state_dict set_model_state_dict
            set_optimizer_state_dict set_state_dict""",
    },
    "distributed.checkpoint.state_dict_loader": {
        _SAVED: "_load_state_dict=load_state_dict load load_state_dict",
    },
    "distributed.checkpoint.state_dict_saver": {_SAVED: "async_save save save_state_dict"},
    "distributed.checkpoint.stateful": {_SAVED: "Stateful"},
    "distributed.checkpoint.storage": {
        Served("lazyt.sharding.checkpoint.storage"): "StorageReader StorageWriter WriteResult",
    },
    "distributed.constants": {_RANKS: "default_pg_timeout"},
    "distributed.device_mesh": {_MESH: "DeviceMesh init_device_mesh"},
    "distributed.distributed_c10d": {
        _RANKS: f"""{_OF_RANKS}
            _get_default_group=default_group _get_default_store=default_store
            _resolve_process_group=group_named default_pg_timeout""",
        _ALONE: f"_pg_map=NO_GROUPS is_ucc_available=no is_xccl_available=no {_LEVELS}",
        _ENUMS: "DebugLevel",
        _MANY: "_object_to_tensor _tensor_to_object",
    },
    "distributed.elastic": {},
    "distributed.elastic.multiprocessing": {},
    "distributed.elastic.multiprocessing.errors": {
        Served("lazyt.distributed.elastic"): "record",
        _MANY: "ChildFailedError ErrorHandler ProcessFailure",
    },
    "distributed.fsdp": {
        _ENUMS: "BackwardPrefetch OptimStateKeyType ShardingStrategy StateDictType",
        _MANY: "FlatParameter",
        _WRAPPED: "FullyShardedDataParallel",
        _SETTINGS: """
            CPUOffload FullOptimStateDictConfig FullStateDictConfig LocalOptimStateDictConfig
            LocalStateDictConfig MixedPrecision OptimStateDictConfig ShardedOptimStateDictConfig
            ShardedStateDictConfig StateDictConfig StateDictSettings""",
        _SHARDED: """
            CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy UnshardHandle
            fully_shard register_fsdp_forward_method share_comm_ctx""",
    },
    "distributed.fsdp.api": {
        _ENUMS: "BackwardPrefetch ShardingStrategy StateDictType",
        _SETTINGS: """
            CPUOffload FullOptimStateDictConfig FullStateDictConfig MixedPrecision
            ShardedOptimStateDictConfig ShardedStateDictConfig""",
    },
    "distributed.fsdp.fully_sharded_data_parallel": {
        _ENUMS: "BackwardPrefetch OptimStateKeyType ShardingStrategy StateDictType",
        _WRAPPED: "FullyShardedDataParallel",
        _SETTINGS: """
            CPUOffload FullOptimStateDictConfig FullStateDictConfig LocalStateDictConfig
            MixedPrecision ShardedOptimStateDictConfig ShardedStateDictConfig""",
    },
    "distributed.fsdp.sharded_grad_scaler": {
        Served("lazyt.sharding.fsdp.sharded_grad_scaler"): "ShardedGradScaler",
    },
    "distributed.fsdp.wrap": {
        Served("lazyt.sharding.fsdp.wrap"): """
            CustomPolicy ModuleWrapPolicy _Policy=Policy _or_policy=or_policy always_wrap_policy
            enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy
            transformer_auto_wrap_policy wrap""",
    },
    "distributed.launcher": {},
    "distributed.launcher.api": {_MANY: "LaunchConfig elastic_launch launch_agent"},
    "distributed.nn": {
        Served("lazyt.distributed.functional"): "all_gather all_reduce broadcast",
        _NEW: """
            all_to_all all_to_all_single=all_to_all_into gather reduce
            reduce_scatter=reduce_scatter_list scatter""",
        _MANY: "RemoteModule",
    },
    "distributed.nn.functional": {
        Served("lazyt.distributed.functional"): "all_gather all_reduce broadcast",
        _NEW: """
            all_to_all all_to_all_single=all_to_all_into gather reduce
            reduce_scatter=reduce_scatter_list scatter""",
    },
    "distributed.optim": {
        Served("lazyt.sharding.zero_optimizer"): "ZeroRedundancyOptimizer",
        _LOCAL: "PostLocalSGDOptimizer",
        _MANY: "DistributedOptimizer",
    },
    "distributed.optim.post_localSGD_optimizer": {_LOCAL: "PostLocalSGDOptimizer"},
    "distributed.optim.zero_redundancy_optimizer": {
        Served("lazyt.sharding.zero_optimizer"): "ZeroRedundancyOptimizer",
    },
    "distributed.pipelining": {
        _MANY: """
            PipelineStage Schedule1F1B ScheduleGPipe ScheduleInterleaved1F1B SplitPoint
            pipe_split pipeline""",
    },
    "distributed.rpc": {
        _MANY: """
            BackendType RRef RpcBackendOptions TensorPipeRpcBackendOptions get_worker_info
            init_rpc remote rpc_async rpc_sync shutdown""",
    },
    "distributed.rpc.api": {
        _ALONE: "_require_initialized=require_initialized",
        _MANY: "_all_gather",
    },
    "distributed.run": {_MANY: "elastic_launch get_args_parser main run"},
    "distributed.tensor": {
        _TENSOR: """
            DTensor distribute_module distribute_tensor empty full ones rand randn zeros""",
        _MESH: "DeviceMesh init_device_mesh",
        _PLACEMENTS: "Partial Placement Replicate Shard",
    },
    "distributed.tensor._api": {_TENSOR: "DTensor distribute_module distribute_tensor"},
    "distributed.tensor._dtensor_spec": {_LAYOUTS: "DTensorSpec TensorMeta"},
    "distributed.tensor._utils": {_LAYOUTS: "compute_local_shape_and_global_offset"},
    "distributed.tensor.experimental": {
        _MANY: "context_parallel",
        Served("lazyt.distributed.tensor.experimental"): "implicit_replication local_map",
    },
    "distributed.tensor.experimental._attention": {_MANY: "set_rotate_method"},
    "distributed.tensor.parallel": {
        Served("lazyt.distributed.tensor.parallel"): """
            ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput
            PrepareModuleOutput RowwiseParallel SequenceParallel loss_parallel
            parallelize_module""",
    },
    "distributed.tensor.parallel.style": {
        Served("lazyt.distributed.tensor.parallel"): """
            ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput
            PrepareModuleOutput RowwiseParallel SequenceParallel""",
    },
    "distributed.tensor.placement_types": {
        _PLACEMENTS: "Partial Placement Replicate Shard _StridedShard=StridedShard",
    },
    "distributed.utils": {_MANY: "_sync_module_states _verify_param_shape_across_processes"},
    "multiprocessing.reductions": {_MANY: "init_reductions reduce_tensor"},
    "multiprocessing.spawn": {
        _MANY: "ProcessExitedException ProcessRaisedException",
        Served("lazyt.multiprocessing"): "spawn start_processes",
    },
    "numa": {},
    "numa.binding": {
        Refused("lazyt binds no processes to processors"): """
            AffinityMode NumaOptions maybe_wrap_command_args_with_numa_binding""",
    },
}
