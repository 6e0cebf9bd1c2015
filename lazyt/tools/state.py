"""All mutable state of a process: which module holds it, what it is, and what guards it.

Everything else that lazyt remembers belongs to objects of the user's (tensors, captured functions,
optimizers) or is on disk. A test finds what modules hold and functions change, and compares it with
this table. The module that holds a piece of state writes it; other writers are named.

Guards:

- *thread*: each thread, or context, has its own.
- *import*: written while modules are imported, or while users register something.
- *atomic*: written by single operations on dicts, sets and counters, which CPython does not
  interrupt; two threads may do the same work twice.
- *user*: a setting, for all threads; whoever changes it while others compute has to wait for them.
- a lock, by its module and name.

``report()`` shows how much each piece holds now::

    >>> from lazyt.tools import state
    >>> print(state.report())  # doctest: +SKIP
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple


class State(NamedTuple):
    """One piece of state.

    Attributes:
        module, name: where it is.
        guard: what keeps threads apart, see above.
        meaning: what it is, and who writes it besides its module.
    """

    module: str
    name: str
    guard: str
    meaning: str


_PLANNING, _LOADING = "plan.build.lock", "runtime.cpu.execute._loading"
_RANKS = "plan.control.collectives._working"

#: By module: names with guards and meanings.
_TABLE: dict[str, dict[str, tuple[str, str]]] = {
    "autograd.engine": {"running": ("thread", "grad_fns that the latest backward runs through")},
    "autograd.forward_ad": {"_state": ("thread", "dual tensors of the level of forward mode")},
    "autograd.handles": {"_former": ("atomic", "leaves of tensors that were told to need no grad")},
    "autograd.profiler": {"_recordings": ("user", "profiles that are being recorded")},
    "autograd.retracing": {"_open": ("atomic", "backwards whose gradients may still get hooks")},
    "autograd.saving": {"active": ("thread", "saved_tensors_hooks that are entered")},
    "backends.cuda": {"_switches": ("user", "which kinds of attention programs allow")},
    "bench.judge.process": {"_running": ("atomic", "processes of submissions that run now")},
    "bench.judge.tasks": {"TASKS": ("import", "tasks by name, which users' files register")},
    "bench.loading": {
        "_done": ("atomic", "users' files that this process has run"),
        "_reading": ("atomic", "the one that it runs"),
    },
    "bench.problems": {"PROBLEMS": ("import", "problems by name; the suites fill it")},
    "codegen.generic.encode": {"_patterns": ("atomic", "memo: instructions of maps")},
    "compat.names.building": {"_extensions": ("import", "modules that have names of `torch`, too")},
    "compat.settings": {"_switches": ("user", "switches of PyTorch that change nothing here")},
    "config": {
        "config": ("user", "all settings; compat.settings and workers of loaders write threads"),
        "tuned_here": ("thread", "whether plans that are made here are tuned"),
    },
    "cuda.memory": {"_allocated": ("atomic", "memory of caching_allocator_alloc")},
    "cuda.nvtx": {
        "_numbers": ("atomic", "numbers of ranges"),
        "_started": ("atomic", "ranges that have not ended"),
    },
    "cuda.others": {"_mode": ("user", "set_sync_debug_mode")},
    "cuda.streams": {
        "_made": ("atomic", "queues of a device that streams share"),
        "_turns": ("atomic", "which of the queues is next"),
    },
    "distributed.collectives": {
        "_schedules": ("atomic", "schedules of sums, by type, group and line"),
    },
    "distributed.device_mesh": {"_entered": ("user", "meshes whose with blocks this is")},
    "distributed.process_groups": {
        "_hooked": ("atomic", "whether the end of the process is watched"),
        "_now": ("distributed.process_groups._changing", "this process among the ranks"),
    },
    "distributed.shares": {"_running": ("user", "the shares whose gradients are computed")},
    "distributed.tensor.dtensor": {
        "_mixing": ("user", "implicit_replication"),
        "_recorder": ("user", "explain_partition"),
    },
    "distributed.tensor.links": {
        "_settled": ("atomic", "what these were when they were last compared"),
        "_shared": ("atomic", "the same by memory that storages share"),
        "links": ("atomic", "this rank's parts of distributed tensors, by storage"),
    },
    "distributed.tensor.making": {"_agreed": ("atomic", "meshes with one state of random numbers")},
    "distributed.tensor.layouts": {"_meshes": ("atomic", "meshes by the groups of their lines")},
    "distributions.constraint_registry": {
        "biject_to": ("import", "bijections by constraint"),
        "transform_to": ("import", "transforms by constraint"),
    },
    "distributions.kl": {"_KL_REGISTRY": ("import", "divergences by two classes")},
    "extensions": {
        "_digests": ("atomic", "memo: what was in force, by what it is defined as"),
        "_files": ("import", "files that were loaded"),
        "_last_number": ("user", "counts what was in force"),
        "_loading": ("import", "files that are being loaded"),
        "_numbers": ("user", "numbers of what was in force, for keys of plans"),
        "_redefined": ("import", "counts ops and scalar functions that were defined anew"),
        "_warned": ("atomic", "objects that keep plans from the disk, of which users were told"),
        "registered": ("import", "targets that programs register"),
    },
    "functional.control.recurrences": {"_bodies": ("atomic", "memo: steps of recurrent layers")},
    "functional.elementwise.special_functions": {
        "_mvlgammas": ("atomic", "memo: builders by dimension"),
        "_polygammas": ("atomic", "memo: builders by order"),
    },
    "functional.fourier.tables": {"_leaves": ("its lock", "memo: tables of transforms")},
    "functional.indexing.masks": {"_counts": ("atomic", "memo: how many are true, by node")},
    "functional.indexing.picking": {"_ranges": ("atomic", "memo: extremes of indices, by node")},
    "functional.linalg.products": {"_checked": ("atomic", "memo: operands of linear that fit")},
    "functional.operators": {"INPLACE_FUNCTIONS": ("import", "in-place forms that are functions")},
    "functional.operands": {
        "_choices": ("atomic", "memo: expressions of where"),
        "_constants": ("atomic", "memo: constants of recent calls"),
        "_expressions": ("atomic", "memo: expressions of operands of two dtypes"),
        "_mapped": ("atomic", "memo: expressions of maps"),
    },
    "functional.overriding": {
        "choices": ("thread", "who is asked by __torch_function__, and the modes that are entered"),
        "switch": ("atomic", "whether functions ask, from when somebody may want to be asked"),
    },
    "functional.sparse.creation": {
        "checking": ("user", "check_sparse_tensor_invariants: whether indices are checked"),
    },
    "functional.sparse.dispatch": {"table": ("import", "functions for sparse tensors by name")},
    "functional.printing": {"_OPTIONS": ("user", "set_printoptions")},
    "functional.random.generators": {
        "default_generator": ("atomic", "seed and number of calls; checkpoint notes its keys there")
    },
    "functional.result_layout": {"_elementwise": ("atomic", "memo: strides of mapped results")},
    "functional.results": {"short_forms": ("import", "functions with quick forms, by operators")},
    "functional.type_promotion": {"_default": ("user", "set_default_dtype")},
    "compat.compile": {"recordings": ("thread", "whether a program is recorded for a file")},
    "export.script": {"_classes": ("atomic", "memo: classes of script modules")},
    "utils.flop_counter": {"_registered": ("user", "register_flop_formula")},
    "fx._pytree": {"_takers": ("import", "how classes are taken apart in generated code")},
    "fx._symbolic_trace": {
        "_active": ("thread", "whether a program is being traced"),
        "_proxyable": ("import", "classes whose construction is recorded"),
    },
    "fx.graph_module": {"_numbers": ("atomic", "numbers texts of generated code")},
    "fx.node": {"_with_side_effects": ("import", "functions whose calls are not dead code")},
    "fx.traceback": {"_state": ("thread", "what nodes get into their meta")},
    "fx.wrapping": {"wrapped": ("import", "functions whose calls are recorded as they are")},
    "handle.autocast": {"mode": ("thread", "autocast blocks")},
    "handle.device": {
        "_defaults": ("thread", "set_default_device, and devices that are entered"),
        "_known": ("atomic", "devices by place, so that is compares them"),
        "pending_storages": ("atomic", "with values pending on devices; writers of tensors add"),
    },
    "handle.function_table": {
        "_by_function": ("import", "entries of the function table by function"),
        "entries": ("import", "entries of the function table in order"),
        "grad_fns": ("import", "what is declared of grad_fns by name"),
        "pair_forms": ("import", "forms of functions of two operands by name"),
    },
    "handle.grad_mode": {
        "blocks": ("handle.grad_mode.blocks.lock", "how many inference blocks are open"),
        "mode": ("thread", "no_grad, inference_mode"),
    },
    "handle.hooks": {
        "hook": (
            "tracing.capture._lock",
            "the capture or transform that hears of tensors; capture, levels, recorded_work write",
        ),
        "rules": ("atomic", "functions that programs registered as rules, by code, weakly"),
    },
    "handle.interop.dlpack": {"_exports": ("atomic", "memory that DLPack consumers hold")},
    "handle.pending": {
        "_repeats": ("atomic", "by which periods long graphs were computed in parts"),
        "budget": ("atomic", "nodes and bytes until pending work is measured; wrap counts down"),
    },
    "handle.pytree": {"_registered": ("import", "classes that users registered as trees")},
    "handle.storage": {
        "_fixed": ("atomic", "storages that cannot grow, because their memory was NumPy's"),
        "_pointed": ("atomic", "which storage gave away a device's address"),
    },
    "handle.tape": {
        "_hook_keys": ("atomic", "numbers of hooks"),
        "_types": ("atomic", "classes of grad_fns by name"),
        "_uids": ("atomic", "numbers of leaves and boundaries"),
        "anomaly": ("user", "detect_anomaly; autograd.anomalies writes"),
        "boundaries": ("atomic", "grad_fns of nodes where differentiation is cut, weakly"),
        "checks": ("user", "what is checked of saved tensors; graph and saving write"),
        "sparse_forms": ("atomic", "sparse gradients by the nodes of their dense values"),
        "leaves": ("atomic", "leaves by their numbers, weakly"),
        "watched": ("atomic", "grad_fns with hooks; handles, saving add"),
    },
    "functional.shapes.view_parts": {"_parts": ("atomic", "memo: parts by shape, strides, index")},
    "handle.views": {
        "_routes": ("atomic", "memo: heads between a storage's value and a view's"),
        "use_complex": ("atomic", "whether any view is of parts, pairs or conjugates"),
    },
    "codegen.loops.forms": {"_is_alone": ("thread", "whether text is for a single thread")},
    "codegen.prelude": {"_is_exact": ("thread", "whether text is for config.exact")},
    "ir.decisions": {"_current": ("thread", "where reasons of decisions are collected")},
    "ir.forms": {
        "_forms": ("atomic", "numbers of shapes and dtypes"),
        "_types": ("atomic", "shapes and dtypes by number"),
        "_numbers": ("atomic", "the next form"),
        "_placed": ("atomic", "numbers of shapes and dtypes on devices"),
        "_placed_numbers": ("atomic", "the next form on a device"),
        "_places": ("atomic", "devices by form"),
        "use": ("atomic", "whether any value was ever on a device"),
    },
    "ir.graph": {
        "_ageing": ("thread", "whether nodes that are found again count as new"),
        "_bodies": ("atomic", "bodies of loops, hash-consed, weakly"),
        "_recent_bodies": ("atomic", "bodies that were made last"),
        "clock": (_PLANNING, "how often graphs were computed; pending, planning count"),
    },
    "ir.op": {
        "_recent": ("atomic", "memo: heads that loops make again"),
        "living": ("atomic", "heads by op, parameters and arity, weakly"),
    },
    "ir.parser": {
        "_fresh": ("atomic", "numbers of leaves that were parsed"),
        "_hints": ("atomic", "memo: types of parameters"),
    },
    "ir.scalar": {
        "FUNCTIONS": ("import", "scalar functions by name"),
        "HOMES": ("import", "modules that registered them"),
        "_table": ("atomic", "scalar expressions, hash-consed, weakly"),
    },
    "ir.source_lines": {
        "_own_files": ("atomic", "memo: files of the package"),
        "recording": ("user", "provenance; calls and brackets write their thread's position"),
        "user_files": ("atomic", "memo: files of users"),
    },
    "multiprocessing": {"_strategy": ("user", "set_sharing_strategy")},
    "library.definitions": {"whole_namespaces": ("import", "namespaces with a Library of DEF")},
    "library.operators": {"namespaces": ("import", "operators that programs define, by name")},
    "ops.builders": {"_calls": ("atomic", "memo: expressions of scalar functions")},
    "library.fake_context": {"_open": ("thread", "fake kernels that this thread is in")},
    "ops.control.bodies": {
        "_derived": ("atomic", "memo: bodies of derivatives, weakly"),
        "evaluating": ("thread", "what evaluates bodies; plan.fallback.interpreter sets it"),
    },
    "ops.leaves": {"_uids": ("atomic", "numbers of values that are no constants")},
    "ops.parallel.collectives": {
        "_calling": ("thread", "what the program has called, while its collectives are made"),
        "_known": ("atomic", "collectives that were made, weakly"),
        "_next": ("atomic", "the number of the next collective"),
    },
    "ops.registry": {"OPS": ("import", "ops by name")},
    "optim.optimizer": {"captured_steps": ("atomic", "captured steps by optimizer, weakly")},
    "plan.build": {"recorder": ("user", "what writes plans down, in a capture")},
    "plan.dynamic_shapes": {"_families": (_PLANNING, "graphs that differ by sizes only")},
    "plan.explain": {"_history": (_PLANNING, "graphs that were compiled, for reasons of new ones")},
    "plan.fallback.interpreter": {
        "_real": ("atomic", "memo: C functions that were read, and expressions of them"),
    },
    "plan.generic": {
        "_exact_library": (
            "plan.generic._exact_library._lock", "parts of the generic library for config.exact"
        ),
        "_library": ("plan.generic._library._lock", "parts of the generic library"),
    },
    "plan.graph_keys": {
        "_numbers": ("atomic", "numbers of heads"),
        "_open": ("atomic", "numbers of heads whose constants are left open"),
        "known": ("atomic", "structures of graphs by key"),
    },
    "plan.guarded_plans": {"_known": (_PLANNING, "functions that launch known plans, by root")},
    "runtime.cpu.progress": {"_current": ("thread", "what the thread waits for")},
    "plan.server": {"_stopped": ("atomic", "compile server: whether to leave background work")},
    "ops.control.python_calls": {"_numbers": ("atomic", "numbers of calls of Python")},
    "ops.routines": {"_announced": ("atomic", "factorizations by the host that were warned of")},
    "plan.control.collectives": {
        "_announced": ("atomic", "devices whose collectives by the host were warned of"),
        "_advancing": (_RANKS, "whether collectives are being started"),
        "_made": (_RANKS, "collectives that are not started yet, in order"),
        "_started": (_RANKS, "collectives that are under way"),
    },
    "plan.control.loops": {"_steps": (_PLANNING, "plans of loops' bodies, weakly")},
    "plan.tiers": {"_queue": ("plan.tiers._queue._lock", "plans that wait for a compiler")},
    "runtime.cache": {
        "_broken_folder": ("atomic", "folder that was last warned of"),
        "_held": ("atomic", "lock files that this process has open"),
        "_swept_at": ("atomic", "when the folder was last swept"),
        "_written": ("atomic", "bytes written since"),
    },
    "runtime.dumps": {"dumps": ("runtime.dumps.dumps.lock", "where LAZYT_DUMP writes")},
    "runtime.devices": {"_other": ("thread", "the CPU that kernels are printed for")},
    "runtime.cpu.compile": {
        "_found": ("atomic", "memo: compilers by what was asked for"),
        "_warned": ("atomic", "what was warned of"),
        "started": ("atomic", "how many compilers ran"),
    },
    "runtime.cpu.execute": {
        "_entries": (_LOADING, "loaded functions by text, weakly"),
        "_first": (_LOADING, "the first library, which stays loaded"),
        "_latest": (_LOADING, "libraries that were used last"),
        "_loaded": (_LOADING, "loaded libraries by fingerprint, weakly"),
        "_names": ("atomic", "spellings of paths, new for each load"),
        "libraries": (_LOADING, "how many libraries are loaded"),
    },
    "runtime.cpu.openmp": {"team": ("atomic", "who may use how many threads")},
    "runtime.cpython.forks": {
        "_guarded": ("import", "locks that a fork takes"),
        "_renewed": ("atomic", "locks that are new in children"),
        "_taken": ("thread", "locks that the thread holds for a fork"),
    },
    "runtime.cpython.interrupts": {"words": ("atomic", "what signals tell running plans")},
    "runtime.cpython.words": {"_checked": ("atomic", "slots whose offsets were tried")},
    "runtime.cuda.bound": {"_forked": ("import", "whether this process is a child")},
    "runtime.cuda.checks.build": {
        "_built": ("runtime.cuda.checks.build._lock", "executables of checked texts"),
    },
    "runtime.cuda.device": {
        "_chosen": ("thread", "the current device"),
        "_devices": ("runtime.cuda.device._lock", "opened devices by number"),
    },
    "runtime.cuda.execute": {"_loaded": ("runtime.cuda.execute._lock", "modules by program")},
    "runtime.events": {"_events": ("atomic", "what was compiled and captured lately, and why")},
    "runtime.memory": {"pool": ("runtime.memory.pool.lock", "free memory of the host")},
    "runtime.ranks.groups": {"groups": ("runtime.ranks.groups._adding", "groups of ranks by name")},
    "runtime.ranks.links": {"_known": ("atomic", "links that were measured, by group")},
    "runtime.ranks.progress": {"mover": ("atomic", "the thread that moves transfers on")},
    "runtime.winners": {"known": ("atomic", "what tuning found, as read from disk")},
    "serialization": {"_allowed": ("user", "add_safe_globals")},
    "serialization.writing": {"_names": ("atomic", "memo: names that pickles hold")},
    "testing.programs.maker": {"STEPS": ("import", "how random programs go on")},
    "testing.structural_ops": {"STRUCTURAL": ("import", "how random graphs use each op")},
    "transforms.derivations": {"known": ("atomic", "memo: derivatives of structures")},
    "transforms.partition.partition": {
        "_decisions": ("atomic", "memo: how ops are divided"),
        "_known": ("atomic", "memo: parts of values, weakly"),
        "_taken": ("atomic", "parts that the program has taken, weakly"),
        "_turn": ("atomic", "what of it may be found again now"),
    },
    "sharding.fsdp.wrap": {"_blocks": ("user", "enable_wrap")},
    "sharding.fully_shard": {"_classes": ("atomic", "memo: classes of divided modules")},
    "subclasses.dispatch_modes": {"_state": ("thread", "dispatch modes that are entered")},
    "subclasses.fake_tensors": {
        "_inside": ("thread", "whether a function runs for fake tensors"),
    },
    "subclasses.nested.functions": {
        "_known": ("atomic", "memo: where tensors begin, by the tensors that say so"),
    },
    "subclasses.nested.tensors": {
        "_count": ("atomic", "the numbers by which sizes of nested tensors are shown"),
        "rules": ("import", "what functions do with nested tensors"),
    },
    "tuning.found": {"_latest": ("atomic", "memo: the winners as choices")},
    "utils.data.workers": {"_infos": ("atomic", "of a loader's worker: which one it is")},
}  # fmt: skip


def all_state() -> list[State]:
    """The table, by module."""
    return [
        State(f"lazyt.{module}", name, guard, meaning)
        for module, entries in _TABLE.items()
        for name, (guard, meaning) in entries.items()
    ]


def report() -> str:
    """One line for each piece of state of modules that are imported: where it is, how many items it
    holds where it can be counted, its guard, and what it is."""
    lines = []
    for item in all_state():
        module = sys.modules.get(item.module)
        if module is not None:
            held: Any = getattr(module, item.name)
            size = str(len(held)) if hasattr(held, "__len__") else "-"
            place = f"{item.module}.{item.name}"
            lines.append(f"{place:48} {size:>7}  {item.guard:32} {item.meaning}")
    return "\n".join(lines)
