"""A migrated database, and reports to put into it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from analyzer.model import (
    Action,
    AttemptInfo,
    Basis,
    Confidence,
    EngineInfo,
    EnvChange,
    Fact,
    Finding,
    Fix,
    FlagChange,
    Gpu,
    GpuProcess,
    GpuSnapshot,
    InputInfo,
    Ledger,
    LedgerLine,
    NotThis,
    OptionChange,
    Outcome,
    Report,
    Segment,
    Series,
    Setting,
    Severity,
    Source,
    State,
    Text,
)
from analyzer.store.keep import Keeper
from analyzer.store.secrets import new_id
from analyzer.store.values import KeptInput, NewAnalysis


def kept(text: str, name: str = "engine.log") -> KeptInput:
    keeper = Keeper(lambda clean: clean, 1 << 20, 1 << 20)
    keeper.feed(text.encode())
    return KeptInput(name, keeper.finish(), len(text.encode()))


def report(cause: str | None = "cuda_oom.weights", text: str = "line", engine: str = "vllm") -> Report:
    """A report with something in every list."""
    source = Source("engine.log", 3, text)
    series = Series("kv_cache.usage", "%", 0)
    for step in range(10):
        series.add(f"11-02 10:00:{step:02}", step * 1.5)
    ledger = Ledger(
        0,
        0,
        0,
        "weight_load",
        (LedgerLine("total", 1 << 34, Basis.MEASURED, source), LedgerLine("free", 1 << 20, Basis.DERIVED, None, "total − process")),
    )
    fix = Fix(
        Text("lower it", "调低"),
        (
            FlagChange("--gpu-memory-utilization", 0.95, 0.9),
            FlagChange("--x", None, None),
            EnvChange("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
            OptionChange("--shm-size", "docker", "8g"),
            Action(Text("stop it", "停掉它")),
        ),
        Text("because", "因为"),
        Text("slower", "更慢"),
        ledger,
        ">=0.6",
        True,
    )
    finding = Finding(
        cause,
        Severity.ERROR,
        Confidence.LIKELY,
        Text("The weights do not fit", "权重放不下"),
        Text("why", "原因"),
        (source,),
        True,
        None,
        (Text("nvidia-smi", "nvidia-smi"),),
        (NotThis(Text("a smaller model", "换更小的模型"), Text("no", "没用")),),
        (fix,),
        "torch.cuda_oom",
        "weight_load",
    )
    return Report(
        inputs=[InputInfo("engine.log", 100, 4, segments=[Segment("engine-log", 1, 4, "vllm")])],
        engine=EngineInfo(engine, "0.6.4", ">=0.6", "v0"),
        settings={
            "--a": Setting(True, source),
            "--b": Setting(1, source),
            "--c": Setting(1.0, source),
            "--d": Setting("1", source),
            "--e": Setting(None, source),
        },
        attempts=[AttemptInfo(0, "engine.log", State.FAILED, "weight_load", 1, 4, cause)],
        outcome=Outcome(State.FAILED, "weight_load", cause, Confidence.LIKELY),
        facts=[
            Fact("weights", 7.51, "GiB", source, rank=0),
            Fact("gpu.name", "A100", "name", source),
            Fact("preemptions", 7, "count", source),
        ],
        series=[series],
        gpu_snapshots=[
            GpuSnapshot(source, gpus=[Gpu(0, "A100", memory_total_mib=40960.0)], processes=[GpuProcess(0, 12, "python", "C", 10.0)])
        ],
        ledgers=[ledger],
        earlier=[],
        findings=[finding],
        command="vllm serve x",
        library="abc",
    )


def new(made: Report | None = None, *texts: str, created: datetime | None = None) -> NewAnalysis:
    return NewAnalysis(
        new_id(),
        created or datetime.now(UTC),
        hashlib.sha256(b"token").digest(),
        made or report(),
        tuple(kept(text) for text in texts or ("one\ntwo\n",)),
    )
