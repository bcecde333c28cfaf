"""Faults of a release, and an overridden length check: the generic error becomes the finer cause only with all of its signs."""

from __future__ import annotations

import pytest

from tests.diagnosis.texts import BANNER, NCCL, READY, WEIGHTS, found, said

PREFIX = "(Worker_TP0 pid=4102) ERROR 01-25 19:42:02 [core.py:396] "
PROFILING = PREFIX + 'File "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line 183, in determine_available_memory\n'
COMPILED = PREFIX + 'File "/home/u/.cache/vllm/torch_compile_cache/713c/rank_0_0/inductor_cache/xe/cxek.py", line 663, in call\n'
KERNEL = PREFIX + "    triton_poi_fused_add_mul_3.run(buf9, buf10, 4096, stream=stream0)\n"
ILLEGAL = PREFIX + "RuntimeError: CUDA error: an illegal memory access was encountered\n"
BUG, STRAY = "engine.version_bug.inductor_strides_torch26", "cuda_error.illegal_access"


@pytest.mark.parametrize(
    ("version", "frames", "packages", "cause", "confidence"),
    [
        ("0.8.5", COMPILED + KERNEL, "torch==2.6.0\nvllm==0.8.5\n", BUG, "certain"),
        ("0.8.5.post1", KERNEL, "", BUG, "likely"),
        ("0.8.5", COMPILED, "torch 2.7.0+cu128\n", STRAY, "certain"),
        ("0.9.1", COMPILED + KERNEL, "", STRAY, "certain"),
        ("0.8.4", COMPILED + KERNEL, "torch==2.6.0\n", STRAY, "certain"),
        ("0.8.5", "", "torch==2.6.0\n", STRAY, "certain"),
    ],
)
def test_strides_of_compiled_kernels(version: str, frames: str, packages: str, cause: str, confidence: str) -> None:
    log = BANNER.format(version=version) + NCCL + WEIGHTS + PREFIX + "Traceback (most recent call last):\n" + PROFILING + frames + ILLEGAL
    report = said(log, *([packages] if packages else []))
    assert (report.outcome.cause, report.outcome.confidence.value) == (cause, confidence)
    if cause == BUG:
        stray = found(report, STRAY)
        assert stray is not None
        assert stray.consequence_of == BUG


OVERRIDDEN = (
    "(APIServer pid=4001) WARNING 01-25 19:40:12 [model.py:1790] User-specified max_model_len (131072) is greater than the derived "
    "max_model_len (max_position_embeddings=4096 or model_max_length=None in model's config.json). "
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with extreme caution.\n"
)
BOUNDS = "/tmp/ab/cabc.py:42: unknown: block: [5,0,0], thread: [96,0,0] Assertion `index out of bounds: 0 <= tmp4 < {limit}` failed.\n"
ASSERT = PREFIX + "RuntimeError: CUDA error: device-side assert triggered\n"
BEYOND = NCCL + WEIGHTS + READY + BOUNDS.format(limit=4096) + ASSERT
OUT, ASSERTED = "args.max_len_override_out_of_bounds", "cuda_error.device_assert"


@pytest.mark.parametrize(
    ("inputs", "cause", "confidence"),
    [
        ((OVERRIDDEN + NCCL + WEIGHTS + READY + BOUNDS.format(limit=4096) + ASSERT,), OUT, "certain"),
        ((OVERRIDDEN + NCCL + WEIGHTS + READY + ASSERT,), OUT, "likely"),
        ((BEYOND, "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve m\n"), OUT, "likely"),
        ((BEYOND,), ASSERTED, "certain"),
        ((BEYOND, "VLLM_ALLOW_LONG_MAX_MODEL_LEN=0 vllm serve m\n"), ASSERTED, "certain"),
    ],
)
def test_a_length_beyond_the_models_table(inputs: tuple[str, ...], cause: str, confidence: str) -> None:
    first, *others = inputs
    report = said(BANNER.format(version="0.11.0") + first, *others)
    assert (report.outcome.cause, report.outcome.confidence.value) == (cause, confidence)


def test_the_length_that_the_model_has_is_offered() -> None:
    report = said(BANNER.format(version="0.11.0") + OVERRIDDEN + NCCL + WEIGHTS + READY + BOUNDS.format(limit=4096) + ASSERT)
    root = report.root
    assert root is not None
    assert any("131072 → 4096" in fix.title.en for fix in root.fixes)
