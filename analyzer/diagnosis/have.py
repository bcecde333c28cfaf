"""What an input settles need not be asked for: by the name of a need, whether the inputs hold it."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.diagnosis.kernel import is_kernel
from analyzer.facts.view import View


def _facts(*prefixes: str) -> Callable[[View], bool]:
    """Whether a document or the log states a figure of these names."""
    return lambda view: any(fact.name.startswith(prefixes) for fact in [*view.documents, *view.facts])


def _signs(*names: str) -> Callable[[View], bool]:
    """Whether one of these signs was seen."""
    return lambda view: any(name in view.attempt.signs for name in names)


def _lines(*patterns: str) -> Callable[[View], bool]:
    """Whether a line of one of these patterns is there."""
    return lambda view: not view.attempt.patterns.isdisjoint(patterns)


def _kernel(*prefixes: str) -> Callable[[View], bool]:
    """Whether the kernel log is there, with a line of this kind."""
    return lambda view: any(is_kernel(event) and event.pattern.id.startswith(prefixes) for event in view.attempt.all_events())


def _busy(view: View) -> bool:
    """Whether a dump shows the load of a card."""
    return any(gpu.utilization_percent is not None for snapshot in view.snapshots for gpu in snapshot.gpus)


def _dump(view: View) -> bool:
    """Whether there is a dump of the GPUs, or none to be had: the run used no GPU."""
    return bool(view.snapshots) or view.on_cpu


def _total(view: View) -> bool:
    """Whether the card's total is known, or of no use: a pool set by hand is not sized by the utilization, and a CPU has no card."""
    return _dump(view) or any(view.fact(name) is not None for name in ("device.total", "oom.total", "kv_cache.requested"))


def _engine_log(view: View) -> bool:
    return bool(view.attempt.processes or view.attempt.stages or view.attempt.last_statistics)


#: Need -> whether the inputs hold what it asks for. What is not listed is always asked for.
HAVE: dict[str, Callable[[View], bool]] = {
    "log_head": lambda view: view.arguments_seen or bool(view.attempt.settings),
    "nvidia_smi_now": _dump,
    "card_total": _total,
    "full_oom_line": lambda view: view.fact("oom.tried") is not None and view.fact("oom.total") is not None,
    "engine_version": lambda view: view.version is not None,
    "serve_help": lambda view: view.version is not None,
    "topology": lambda view: any(snapshot.links for snapshot in view.snapshots),
    "assertion_lines": _lines("cuda.device_assertion", "cuda.masked_scatter_assertion"),
    "launch_command": lambda view: view.command is not None,
    "model_config": lambda view: view.model is not None,
    "df_all": _facts("disk."),
    "df_shm": _facts("shm.total", "shm.free"),
    "host_memory": _facts("host.total"),
    "host_memory_now": _facts("host.available", "host.limit_used"),
    "container_memory_series": _facts("host.limit_used", "host.used"),
    "shard_sizes": _facts("file.size"),
    "ray_status": _facts("ray.gpus_total"),
    "exit_code_and_oomkilled": lambda view: any(fact.name == "process.exit_code" for fact in view.documents),
    "describe_pod": lambda view: any(reading.kind == "k8s" for reading in view.readings),
    "statistics_lines": lambda view: view.attempt.last_statistics is not None,
    "port_owner": _signs("linux.socket_owner"),
    "iommu_and_acs": _signs("linux.iommu.translated", "linux.iommu.passthrough", "linux.acs.redirect"),
    "nvidia_smi_while_hanging": _busy,
    "preload_and_smi": lambda view: _signs("linux.vgpu_interposer")(view) and _busy(view),
    "nccl_debug_log": _signs("nccl.init_complete", "nccl.init_start", "nccl.connected", "nccl.channel_p2p", "nccl.nvls_available"),
    "xid_lines": _kernel("nvidia.xid.", "nvidia.sxid.", "nvidia.nvrm."),
    "kernel_oom_lines": _kernel("linux.oom"),
    "dmesg_oom": _kernel("linux.oom"),
    "engine_log_same_time": _engine_log,
    "versions_of_stack": lambda view: _signs("python.sign.torch_version")(view) and view.version is not None,
    "driver_version": lambda view: any(snapshot.driver for snapshot in view.snapshots),
    "nvidia_smi_processes": lambda view: any(snapshot.process_table for snapshot in view.snapshots),
    "parent_pids": lambda view: any(row.parent is not None for reading in view.readings for row in reading.processes),
}


#: Needs that ask for what only a GPU has.
OF_A_GPU = frozenset({"two_nvidia_smi_samples", "nccl_debug_info", "nvidia_smi_now", "nvidia_smi_while_hanging", "nvidia_smi_processes"})


def have(need: str, view: View) -> bool:
    """Whether the inputs hold what ``need`` asks for, or rule out that there is anything to ask for."""
    if need in OF_A_GPU and view.on_cpu:
        return True
    answered = HAVE.get(need)
    return answered is not None and answered(view)
