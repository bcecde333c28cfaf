"""What the size of the weights proves by itself, where no line tells how far the start had come."""

from __future__ import annotations

from analyzer.engines.case import Case
from analyzer.engines.refinement import Refinement
from analyzer.engines.vllm.pool import shape_of, weights_estimate
from analyzer.model import Confidence

#: A worker's word that it was loading, or in the profile run.
LOADING, PROFILING = "vllm.weights.sign.loading", "vllm.profiling.sign.profiling"
#: Parts of a checkpoint that the server leaves on the disk: DeepSeek-V3's layer for drafts is 14 of 685 billion parameters.
LEFT_OUT = 0.03
#: Settings with which a rank need not hold its even share of the weights.
UNEVEN = ("--pipeline-parallel-size", "--data-parallel-size", "--cpu-offload-gb", "--enable-expert-parallel", "--language-model-only")


def still_loading(case: Case) -> Refinement | None:
    """The stage of an undated out-of-memory: profiling, where a worker says that it was at that; weight_load, where the bar of the
    shards stopped on its way, a worker says that it loads, or PyTorch held less than a rank's share of the model's own weights.

    The share, ``parameters × bytes / tensor_parallel``, is a lower bound of what a loaded rank holds: what is not divided comes on top.
    Only for a model that is known and not quantized (shapes.json, config.json), so the answer is likely, not certain.
    """
    event, view = case.event, case.view
    if case.cause is not None or case.state != "failed" or event is None or event.cause != "cuda_oom":
        return None
    if case.stage not in (None, "launch", "device_init", "weight_load"):
        return None
    profiling = view.attempt.signs.get(PROFILING)
    if profiling is not None:
        return Refinement(
            cause="cuda_oom.profiling", stage="profiling", confidence=Confidence.LIKELY, evidence=[view.source(profiling.first)]
        )
    if view.fact("weights") is not None:
        return None
    loaded, planned = view.fact("weights.shards_loaded"), view.fact("weights.shards_total")
    if loaded is not None and planned is not None and float(loaded.value) < float(planned.value):
        # A progress bar is drawn by another stream and may stand below the error that ended it.
        return Refinement(cause="cuda_oom.weight_load", stage="weight_load", confidence=Confidence.LIKELY, evidence=[loaded.source])
    sign = view.attempt.signs.get(LOADING)
    if sign is not None:
        return Refinement(
            cause="cuda_oom.weight_load", stage="weight_load", confidence=Confidence.LIKELY, evidence=[view.source(sign.first)]
        )
    held = next((fact.bytes for fact in case.figures if fact.name == "oom.torch_allocated"), None)
    known = shape_of(view)
    if held is None or known is None or known[1] is not None or view.setting("--quantization") not in (None, "None"):
        return None
    if any(view.setting(flag) not in (None, 1, 0, False, "None") for flag in UNEVEN):
        return None
    whole, tensor = weights_estimate(view), view.setting("--tensor-parallel-size")
    ranks = tensor if isinstance(tensor, int) and tensor > 0 else view.ranks.world_size
    if whole is None or held >= (1 - LEFT_OUT) * whole / ranks:
        return None
    model = view.settings.get("--model")
    evidence = [model.source] if model is not None else []
    return Refinement(cause="cuda_oom.weight_load", stage="weight_load", confidence=Confidence.LIKELY, evidence=evidence)
