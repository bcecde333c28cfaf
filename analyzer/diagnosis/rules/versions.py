"""Rules that name the fault of a release: the error's line is generic, version and path taken make it this one."""

from __future__ import annotations

from analyzer.diagnosis.verdict import Verdict, renamed
from analyzer.facts.view import View
from analyzer.model import Confidence
from analyzer.model.versions import Range

#: Releases that run on torch 2.6 with the strides of a kernel's inputs changed by Inductor (vllm-project/vllm#17295); torch 2.7 ends it.
INDUCTOR_STRIDES = Range.parse(">=0.8.5,<0.9.0")
#: What a stray access is called, by where it is noticed.
STRAY_ACCESS = ("cuda_error.illegal_access", "gpu.xid.31", "gpu.xid.43")
COMPILED, TORCH = "vllm.sign.compiled_kernel", "python.sign.torch_version"
#: What an access beyond a table is called.
OUT_OF_TABLE = ("cuda_error.device_assert", "cuda_error.illegal_access")
OVERRIDE, BOUNDS, ALLOW = "vllm.sign.max_len_override", "torch.sign.index_bounds", "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def inductor_strides(view: View, verdict: Verdict) -> Verdict | None:
    """A stray access inside a compiled kernel, in a release of the affected range and with its torch 2.6."""
    if verdict.cause not in STRAY_ACCESS or COMPILED not in view.attempt.signs or not _within(view.version, INDUCTOR_STRIDES):
        return None
    torch = view.attempt.signs.get(TORCH)
    stated = torch.values("version") if torch is not None else []
    if stated and not any(version.startswith("2.6.") for version in stated):
        return None
    return renamed(verdict, "engine.version_bug.inductor_strides_torch26", Confidence.CERTAIN if stated else Confidence.LIKELY)


def max_len_override(view: View, verdict: Verdict) -> Verdict | None:
    """An index beyond a table while the check of the length had been overridden; certain where the table ends at the model's length."""
    if verdict.cause not in OUT_OF_TABLE:
        return None
    warned = view.attempt.signs.get(OVERRIDE)
    allowed = view.environment.get(ALLOW)
    overridden = warned is not None or (allowed is not None and str(allowed.value).strip().lower() in ("1", "true"))
    bounds = view.attempt.signs.get(BOUNDS)
    if not overridden or (bounds is None and verdict.cause != "cuda_error.device_assert"):
        return None
    derived = set(warned.values("derived")) if warned is not None else set()
    if view.model is not None:
        derived.add(str(view.model.get("max_position_embeddings")))
    ends = set(bounds.values("limit")) if bounds is not None else set()
    changed = renamed(verdict, "args.max_len_override_out_of_bounds", Confidence.CERTAIN if derived & ends else Confidence.LIKELY)
    if allowed is not None:
        changed.evidence.append(allowed.source)
    return changed


def _within(version: str | None, versions: Range) -> bool:
    if version is None:
        return False
    try:
        return version in versions
    except ValueError:
        return False
