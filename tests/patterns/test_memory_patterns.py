"""The out-of-memory sentence however it is cut or put together, and the words of memory causes and advice as a whole."""

from __future__ import annotations

import string
from collections.abc import Mapping

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from analyzer.data import folder
from analyzer.patterns.load import load
from analyzer.patterns.model import Cause
from analyzer.patterns.runner import Runner

LIBRARY = load()
RUNNER = Runner(LIBRARY)

HINT = (
    " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    "  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)
FULL = (
    "(Worker_TP1 pid=512) ERROR 02-16 10:40:36 [multiproc_executor.py:822] torch.OutOfMemoryError: CUDA out of memory. "
    "Tried to allocate 4.64 GiB. GPU 1 has a total capacity of 44.39 GiB of which 1.37 GiB is free. "
    "Process 90417 has 1.25 GiB memory in use. Including non-PyTorch memory, this process has 41.77 GiB memory in use. "
    "Of the allocated memory 40.88 GiB is allocated by PyTorch, with 571.00 MiB allocated in private pools (e.g., CUDA Graphs), "
    "and 297.00 MiB is reserved by PyTorch but unallocated." + HINT
)
SENTENCES = ("torch.oom.sentence", "torch.oom.bare")


def figures(line: str) -> dict[str, list[tuple[object, str, int | None, int | None]]]:
    found: dict[str, list[tuple[object, str, int | None, int | None]]] = {}
    for hit in RUNNER.scan_lines([line]):
        if hit.pattern.id == "torch.oom.sentence":
            for figure in hit.figures:
                found.setdefault(figure.name, []).append((figure.value, figure.unit, figure.gpu, figure.pid))
    return found


WHOLE = figures(FULL)


def test_every_figure_of_the_sentence_is_read_with_its_gpu() -> None:
    assert {name: [(value, unit, gpu) for value, unit, gpu, _ in values] for name, values in WHOLE.items()} == {
        "oom.tried": [(4.64, "GiB", 1)],
        "oom.total": [(44.39, "GiB", 1)],
        "oom.free": [(1.37, "GiB", 1)],
        "oom.process_in_use": [(41.77, "GiB", 1)],
        "oom.torch_allocated": [(40.88, "GiB", 1)],
        "oom.private_pools": [(571.0, "MiB", 1)],
        "oom.reserved_unallocated": [(297.0, "MiB", 1)],
        "process.used": [(1.25, "GiB", 1)],
    }
    assert WHOLE["process.used"][0][3] == 90417


@pytest.mark.parametrize("end", range(FULL.index("Tried to alloc"), len(FULL) + 1))
def test_a_sentence_cut_anywhere_is_recognised_and_gives_no_other_figure(end: int) -> None:
    cut = FULL[:end]
    hits = [hit for hit in RUNNER.scan_lines([cut]) if hit.pattern.id in SENTENCES]
    assert [hit.pattern.cause for hit in hits] == ["cuda_oom"]
    for name, values in figures(cut).items():
        assert [value[:2] for value in values] == [value[:2] for value in WHOLE[name]]


SENTENCE_PARTS = (
    " GPU 3 has a total capacity of 79.25 GiB of which 745.00 MiB is free.",
    " Process 90417 has 5.81 GiB memory in use.",
    " Process 90418 has 512.00 MiB memory in use.",
    " Including non-PyTorch memory, this process has 72.71 GiB memory in use.",
    " 78.00 GiB allowed;",
    " Of the allocated memory 70.52 GiB is allocated by PyTorch, and 611.00 MiB is reserved by PyTorch but unallocated.",
)


@given(st.lists(st.booleans(), min_size=len(SENTENCE_PARTS), max_size=len(SENTENCE_PARTS)), st.sampled_from(["", " ...", " …", " [...]"]))
def test_parts_may_be_left_out_or_replaced_by_dots(kept: list[bool], dots: str) -> None:
    parts = [part if keep else dots for part, keep in zip(SENTENCE_PARTS, kept, strict=True)]
    found = figures("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB." + "".join(parts))
    expected = {
        "oom.tried": [1.16],
        **({"oom.total": [79.25], "oom.free": [745.0]} if kept[0] else {}),
        **({"process.used": [value for value, keep in ((5.81, kept[1]), (512.0, kept[2])) if keep]} if kept[1] or kept[2] else {}),
        **({"oom.process_in_use": [72.71]} if kept[3] else {}),
        **({"oom.limit": [78.0]} if kept[4] else {}),
        **({"oom.torch_allocated": [70.52], "oom.reserved_unallocated": [611.0]} if kept[5] else {}),
    }
    assert {name: [value[0] for value in values] for name, values in found.items()} == expected


@given(st.lists(st.tuples(st.integers(1, 4_194_304), st.integers(1, 99_999)), min_size=1, max_size=9))
def test_each_process_keeps_its_own_figure(processes: list[tuple[int, int]]) -> None:
    sentences = "".join(f" Process {pid} has {size / 100:.2f} MiB memory in use." for pid, size in processes)
    found = figures(
        f"CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 9.00 GiB of which 1.00 MiB is free.{sentences}"
    )
    assert [(pid, value) for value, _, _, pid in found["process.used"]] == [(pid, float(f"{size / 100:.2f}")) for pid, size in processes]


def test_a_figure_that_was_not_available_is_no_figure() -> None:
    found = figures(
        "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 9.00 GiB of which 0 bytes is free. "
        "Process 7 has 17179869184.00 GiB memory in use. Process 8 has 3.00 GiB memory in use. "
        "Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use."
    )
    assert [(value, pid) for value, _, _, pid in found["process.used"]] == [(3.0, 8)]
    assert "oom.process_in_use" not in found


@pytest.mark.parametrize(
    "line",
    [
        "INFO 01-15 10:22:31 [logger.py:43] Received request c-4: prompt: 'RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB'",
        'DEBUG 01-15 10:22:31 [serving.py:43] {"prompt": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"}',
        "INFO 01-15 10:22:31 [logger.py:43] Received request cmpl-4: prompt: 'RuntimeError: CUDA error: out of memory', params: None",
        'INFO 01-15 10:22:31 [logger.py:43] Received request c-4: prompt: "DefaultCPUAllocator: can\'t allocate memory: you tried "',
    ],
)
def test_a_prompt_that_quotes_an_error_is_none(line: str) -> None:
    assert [hit.pattern.id for hit in RUNNER.scan_lines([line]) if hit.pattern.cause] == []


FAMILIES = ("healthy", "startup", "kv_cache", "cuda_oom", "host_oom", "unified_memory", "scheduler", "engine", "echo", "symptom")
MEMORY_CAUSES = [cause for cause in LIBRARY.causes.values() if cause.id.split(".")[0] in FAMILIES]
FACTS = yaml.safe_load((folder("patterns") / "facts.yaml").read_bytes())
FACT_PLACEHOLDERS = frozenset(fact["name"].replace(".", "_") for fact in FACTS) | frozenset(
    # derived: analyzer/engines/vllm/fixes/figures.py and explain.py
    [
        "stage_length",
        "concurrency_typical",
        "idle_use",
        "idle_use_at_least",
        "headroom",
        "hundredth",
        "hundredth_alone",
        "hundredth_tokens",
        "utilization_high",
        # analyzer/engines/layout.py
        "memory_layout",
        # analyzer/diagnosis/rules/service.py
        "queue_running",
        "queue_waiting",
        # analyzer/engines/device.py
        "oom_room",
    ]
)


def holes(words: Mapping[str, str]) -> set[str]:
    return {name for text in words.values() for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("cause", [pytest.param(cause, id=cause.id) for cause in MEMORY_CAUSES])
def test_a_cause_explains_itself_without_figures_and_names_only_facts_in_its_details(cause: Cause) -> None:
    assert holes(cause.title) == holes(cause.text) == set()
    for sentence in cause.detail:
        assert holes(sentence)
        assert holes(sentence) <= FACT_PLACEHOLDERS


@pytest.mark.parametrize(
    "cause", [pytest.param(cause, id=cause.id) for cause in MEMORY_CAUSES if cause.severity == "error" and not cause.echo]
)
def test_a_failure_has_something_to_do(cause: Cause) -> None:
    assert cause.fixes


@pytest.mark.parametrize("cause", [pytest.param(cause, id=cause.id) for cause in MEMORY_CAUSES if cause.echo])
def test_a_messenger_suggests_no_fix_and_asks_for_the_cause(cause: Cause) -> None:
    assert not cause.fixes
    assert cause.needs


#: What the solvers of analyzer/engines fill in, beside the facts of the finding.
COMPUTED: dict[str, set[str]] = {
    "fewer_gpu_layers": {"before", "to", "arithmetic"},
    "llama_automatic_fit": set(),
    "gguf_mapped": set(),
    "smaller_context_other_engines": {"to", "arithmetic"},
    "more_gpus_or_smaller_weights": set(),
    "sglang_raise_mem_fraction": {"to", "arithmetic"},
    "sglang_lower_mem_fraction": {"before", "to", "arithmetic"},
    "sglang_cap_tokens": {"before", "to", "each", "frees"},
    "sglang_larger_pool": {"arithmetic"},
    "sglang_smaller_chunks": {"before", "to"},
    "tgi_fewer_prefill_tokens": {"before", "to", "least"},
    "tgi_headroom": {"before", "to"},
    "max_model_len_fits": {"flag", "before", "to", "needed", "available"},
    "raise_utilization": {"before", "to", "gain", "needed"},
    "lower_utilization": {"before", "to", "frees", "kv_after", "kv_note"},
    "leave_the_system_its_share": set(),
    "utilization_to_free": {"before", "to", "free", "total"},
    "cumulative_utilization": {"before", "to", "used"},
    "lower_max_num_seqs": {"before", "to", "why_number"},
    "raise_max_num_seqs": {"before", "to", "why_number"},
    "lower_max_num_batched_tokens": {"before", "to"},
    "kv_cache_fp8": {"flag", "to", "tokens_before", "tokens_after"},
    "kv_cache_memory_bytes": {"flag", "to", "size"},
    "enforce_eager": {"saves"},
    "fewer_capture_sizes": {"flag", "to"},
    "tensor_parallel": {"before", "to", "weights_each", "gpus"},
    "quantized_weights": {"weights", "total"},
    "stop_process": {"pid", "who", "size"},
    "cpu_kv_space": {"setting", "before", "to", "needed"},
    "cpu_utilization": {"before", "to", "total", "arithmetic"},
    "lower_cpu_kv_space": {"before", "to", "available"},
    "disable_sleep_mode": set(),
    "skip_deep_gemm_warmup": set(),
    "flashinfer_sampler_off": set(),
    "upgrade_to": {"version"},
    "swap_space_zero": {"flag", "before"},
    "pp_layer_partition": {"before", "to"},
    "raise_by_missing": {"missing"},
    "raise_utilization_above": {"before", "than", "of", "held"},
    "lower_utilization_by": {"share"},
    "sequences_and_utilization": {"before", "to", "share", "share_before", "share_low"},
    "further_quantized": {"held", "total"},
    "limit_mm_per_prompt": {"flag"},
    "language_model_only": set(),
    "cpu_offload": {"flag", "to", "size"},
    "enable_chunked_prefill": {"flag", "before", "to"},
    "cap_kv_blocks": {"flag", "to", "size"},
    "larger_pinned_pool": {"flag", "before", "to", "needed", "room"},
    "smaller_loras": {"loras", "rank"},
    "mm_ipc_memory": {"flag", "before", "to", "reserve", "available", "needs"},
    "utilization_for_external": {"before", "to", "external", "total", "least", "needs"},
    "startup_plan_off": {"size"},
    "graph_estimate_on": {"estimate"},
    "blocks_override": {"flag", "before", "to", "size", "why_number"},
}


@pytest.mark.parametrize(("name", "filled"), COMPUTED.items())
def test_a_computed_fix_asks_only_for_what_its_solver_gives(name: str, filled: set[str]) -> None:
    advice = LIBRARY.advice[name]
    assert advice.changes == ()
    assert set().union(*(holes(words) for words in advice.words.values())) <= filled


def test_advice_on_memory_that_is_not_computed_says_what_to_change() -> None:
    named = {name for cause in MEMORY_CAUSES for name in cause.fixes}
    assert [name for name in sorted(named - set(COMPUTED)) if not LIBRARY.advice[name].changes] == []
