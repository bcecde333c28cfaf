"""Prefixes of every era of vLLM and every wrapper around them: who printed a line, when, at which level, and what it says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.intake.lines import Line, Process, clean, decode, parse

BODY = "Available KV cache memory: 5.86 GiB"
COLOUR, RESET = "\x1b[0;36m", "\x1b[0;0m"


def row(raw: str, name: str | None = None, pid: int | None = None, rank: int | None = None, **more: object) -> object:
    """A raw line that says BODY at INFO, and what is told of it."""
    wanted = {"level": "INFO", "time": "01-15 10:22:31", "file": "gpu_worker.py", "groups": (), "ip": None} | more
    process = None if name is None else Process(name, pid, rank, wanted["ip"], wanted["groups"])  # type: ignore[arg-type]
    return pytest.param(raw, process, wanted["level"], wanted["time"], wanted["file"], id=raw[:60])


RECORD = f"INFO 01-15 10:22:31 [gpu_worker.py:298] {BODY}"
OLD = f"INFO 01-15 10:22:31 gpu_worker.py:298] {BODY}"

ERAS = [
    # bodies
    row(OLD),
    row(RECORD),
    row(f"INFO 01-15 10:22:31.123 [gpu_worker.py:298] {BODY}"),
    row(f"DEBUG 01-15 10:22:31 [v1/worker/gpu_worker.py:298] {BODY}", level="DEBUG", file="v1/worker/gpu_worker.py"),
    row(f"DEBUG 01-15 10:22:31 [model_executor/.../fp8.py:98] {BODY}", level="DEBUG", file="model_executor/.../fp8.py"),
    row(f"WARNING 01-15 10:22:31 [gpu_worker.py:298] {BODY}", level="WARNING"),
    row(f"CRITICAL 01-15 10:22:31 gpu_worker.py:298] {BODY}", level="CRITICAL"),
    row(f"[prod-a] {RECORD}"),
    row(f"node7: {OLD}"),
    # V0, multiprocessing: the driver has no tag
    row(f"(VllmWorkerProcess pid=4477) {OLD}", "VllmWorkerProcess", 4477),
    row(f"(VllmWorkerProcess pid=4477) {RECORD}", "VllmWorkerProcess", 4477),
    # V1 workers
    row(f"(VllmWorker rank=1 pid=2978) {OLD}", "VllmWorker", 2978, 1),
    row(f"(VllmWorker rank=3 pid=2978) {RECORD}", "VllmWorker", 2978, 3),
    row(f"(VllmWorker TP0 pid=71) {RECORD}", "VllmWorker TP0", 71, groups=(("TP", 0),)),
    row(f"(VllmWorker PP0_TP1 pid=71) {RECORD}", "VllmWorker PP0_TP1", 71, groups=(("PP", 0), ("TP", 1))),
    row(f"(VllmWorker pid=71) {RECORD}", "VllmWorker", 71),
    row(f"(Worker pid=90) {RECORD}", "Worker", 90),
    row(f"(Worker_TP1 pid=90) {RECORD}", "Worker_TP1", 90, groups=(("TP", 1),)),
    row(f"(Worker_PP1_TP0 pid=90) {RECORD}", "Worker_PP1_TP0", 90, groups=(("PP", 1), ("TP", 0))),
    row(f"(Worker_DP1_EP1 pid=90) {RECORD}", "Worker_DP1_EP1", 90, groups=(("DP", 1), ("EP", 1))),
    row(
        f"(Worker_DP1_PP0_PCP1_TP2_DCP0_EP10 pid=90) {RECORD}",
        "Worker_DP1_PP0_PCP1_TP2_DCP0_EP10",
        90,
        groups=(("DP", 1), ("PP", 0), ("PCP", 1), ("TP", 2), ("DCP", 0), ("EP", 10)),
    ),
    # cores and servers
    row(f"(EngineCore_0 pid=318) {RECORD}", "EngineCore_0", 318),
    row(f"(EngineCore_DP0 pid=318) {RECORD}", "EngineCore_DP0", 318, groups=(("DP", 0),)),
    row(f"(EngineCore pid=318) {RECORD}", "EngineCore", 318),
    row(f"(APIServer pid=7) {RECORD}", "APIServer", 7),
    row(f"(ApiServer_2 pid=9) {RECORD}", "ApiServer_2", 9),
    row(f"(MainProcess pid=9) {RECORD}", "MainProcess", 9),
    # Ray
    row(f"(RayWorkerWrapper pid=812, ip=10.1.2.3) {OLD}", "RayWorkerWrapper", 812, ip="10.1.2.3"),
    row(f"(RayWorkerVllm pid=812) {OLD}", "RayWorkerVllm", 812),
    row(f"(pid=812) {OLD}", "pid", 812),
    row(f"(RayWorkerWrapper pid=812, ip=10.1.2.3) (Worker_TP3 pid=812) {RECORD}", "Worker_TP3", 812, ip="10.1.2.3", groups=(("TP", 3),)),
    row(f"(DPMoEEngineCoreActor pid=55) (EngineCore_DP1 pid=55) {RECORD}", "EngineCore_DP1", 55, groups=(("DP", 1),)),
    # colours: real, as a viewer spells them, and as JSON does
    row(f"\x1b[1;36m(EngineCore_DP0 pid=318)\x1b[0;0m {RECORD}", "EngineCore_DP0", 318, groups=(("DP", 0),)),
    row(f"{COLOUR}(EngineCore_DP0 pid=318){RESET} {RECORD}", "EngineCore_DP0", 318, groups=(("DP", 0),)),
    row(f"^[[0;36m(EngineCore_DP0 pid=318)^[[0;0m {RECORD}", "EngineCore_DP0", 318, groups=(("DP", 0),)),
    row(f"\\u001b[0;36m(EngineCore_DP0 pid=318)\\u001b[0;0m {RECORD}", "EngineCore_DP0", 318, groups=(("DP", 0),)),
    row(f"\\x1b[0;36m(Worker pid=318)\\x1b[0;0m {RECORD}", "Worker", 318),
    row(
        f"{COLOUR}(Worker pid=8){RESET} \x1b[32mINFO\x1b[0m \x1b[90m01-15 10:22:31\x1b[0m \x1b[90m[gpu_worker.py:298]\x1b[0m {BODY}",
        "Worker",
        8,
    ),
    # the user's own prefix behind the process's
    row(f"(Worker_TP1 pid=90) [prod-a] {RECORD}", "Worker_TP1", 90, groups=(("TP", 1),)),
]


@pytest.mark.parametrize(("raw", "process", "level", "time", "file"), ERAS)
def test_prefixes_of_every_era(raw: str, process: Process | None, level: str, time: str, file: str) -> None:
    line = parse(raw, 12)
    assert line.body == BODY
    assert line.number == 12
    assert line.process == process
    assert (line.level, line.time, line.file) == (level, time, file)
    assert not line.wrapped
    assert line.repeated == 1
    assert "\x1b" not in line.text


@pytest.mark.parametrize(("raw", "process", "level", "time", "file"), ERAS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[pod/llm-7b-6f7c9d5b8-q2xzv/vllm] ", ""),
        ("vllm-1  | ", ""),
        ("2025-11-21T03:12:41.123456789Z ", ""),
        ("2025-11-21T03:12:41.123456789+08:00 stderr F ", ""),
        ("[pod/llm-0/vllm] 2025-11-21T03:12:41Z ", ""),
        ("vllm  | 2025-11-21T03:12:41.1Z ", ""),
        ("Nov 21 03:12:41 host7 vllm[4410]: ", ""),
        ("Nov  1 03:12:41 host7 docker/vllm[4410]: ", ""),
        ("> ", ""),
        ("> > ", ""),
        ("", "\r"),
    ],
    ids=["kubectl", "compose", "kubelet", "CRI", "kubectl and time", "compose and time", "journald", "syslog", "quote", "quotes", "CR LF"],
)
def test_what_a_platform_puts_before_a_line_changes_nothing(
    before: str, after: str, raw: str, process: Process | None, level: str, time: str, file: str
) -> None:
    line = parse(before + raw + after, 1)
    assert line.body == BODY
    assert line.process == process
    assert (line.level, line.time, line.file) == (level, time, file)
    assert line.wrapped is bool(before)


@pytest.mark.parametrize(
    ("before", "time"),
    [
        ("2025-11-21T03:12:41.123Z ", "2025-11-21T03:12:41.123Z"),
        ("2025-11-21T03:12:41,123Z stdout F ", "2025-11-21T03:12:41,123Z"),
        ("Nov 21 03:12:41 host7 vllm[4410]: ", "Nov 21 03:12:41"),
    ],
)
def test_a_line_without_a_time_has_its_platforms(before: str, time: str) -> None:
    line = parse(f"{before}torch.OutOfMemoryError: CUDA out of memory.", 1)
    assert (line.time, line.body) == (time, "torch.OutOfMemoryError: CUDA out of memory.")


# --- JSON --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        {"log": f"(Worker_TP1 pid=90) {RECORD}\n", "stream": "stderr", "time": "2025-11-21T03:12:41.1Z"},
        {"message": f"(Worker_TP1 pid=90) {RECORD}", "@timestamp": "2025-11-21T03:12:41Z"},
        {"textPayload": f"{COLOUR}(Worker_TP1 pid=90){RESET} {RECORD}", "severity": "ERROR"},
        {"jsonPayload": {"message": f"(Worker_TP1 pid=90) {RECORD}"}},
        {"MESSAGE": f"(Worker_TP1 pid=90) {RECORD}", "_PID": "4410"},
    ],
    ids=["docker", "message", "Stackdriver", "jsonPayload", "journalctl -o json"],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_log_collectors_json_is_unpacked(record: dict[str, object], ascii_only: bool) -> None:
    line = parse(json.dumps(record, ensure_ascii=ascii_only), 1)
    assert (line.body, line.level, line.time) == (BODY, "INFO", "01-15 10:22:31")
    assert line.process == Process("Worker_TP1", 90, None, None, (("TP", 1),))
    assert line.wrapped


def test_a_collectors_time_stands_in_for_a_missing_one() -> None:
    line = parse(json.dumps({"log": "Traceback (most recent call last):\n", "time": "2025-11-21T03:12:41.1Z"}), 1)
    assert (line.body, line.time) == ("Traceback (most recent call last):", "2025-11-21T03:12:41.1Z")


@pytest.mark.parametrize(
    ("before", "level"),
    [("0.00.228.419 I ", "INFO"), ("[37723] 52.17.402.129 W ", "WARNING"), ("ollama-1  | 1.06.520.077 E ", "ERROR"), ("1.06.520 E ", None)],
)
def test_llama_cpps_prefix_of_2026(before: str, level: str | None) -> None:
    line = parse(f"{before}  - CUDA0 : a card", 1)
    assert line.level == level
    assert (line.body == "  - CUDA0 : a card") is (level is not None)
    assert line.unit == ("ollama-1" if "|" in before else None)


def test_vllms_own_json_formatter() -> None:
    """0.32.0 and newer: no file and line, the process in keys of its own."""
    record = {
        "asctime": "2026-01-15 10:22:31",
        "levelname": "INFO",
        "name": "vllm.v1.worker",
        "processName": "Worker_TP1",
        "process": 90,
        "message": BODY,
    }
    line = parse(json.dumps(record), 3)
    assert line == Line(3, BODY, BODY, Process("Worker_TP1", 90, None, None, (("TP", 1),)), "INFO", "2026-01-15 10:22:31", wrapped=True)


@pytest.mark.parametrize("raw", ['{"log": 7}', '{"log": ', "{'model': 'x'}", '["a"]', "{}", '{"other": "key"}', "{not json}"])
def test_what_only_looks_like_a_collectors_json_is_a_line(raw: str) -> None:
    assert parse(raw, 1).body == raw


# --- Ray, ranks, progress ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "body", "repeated"),
    [
        (f"(RayWorkerWrapper pid=8, ip=10.1.2.3) {OLD} [repeated 7x across cluster]", BODY, 7),
        (
            f"(RayWorkerWrapper pid=8) {OLD} [repeated 15x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0)",
            BODY,
            15,
        ),
        (f"{OLD} [repeated 7x across the cluster]", f"{BODY} [repeated 7x across the cluster]", 1),
    ],
)
def test_what_ray_folds_is_counted(raw: str, body: str, repeated: int) -> None:
    line = parse(raw, 1)
    assert (line.body, line.repeated) == (body, repeated)


@pytest.mark.parametrize("colon", [":", ""])
def test_torchs_rank_before_a_message(colon: str) -> None:
    line = parse(f"[rank3]{colon} Traceback (most recent call last):", 1)
    assert (line.body, line.process) == ("Traceback (most recent call last):", Process("rank", None, 3))
    inside = parse(f"(Worker_TP1 pid=90) [rank1]{colon} Traceback (most recent call last):", 1)
    assert (inside.body, inside.process) == ("Traceback (most recent call last):", Process("Worker_TP1", 90, None, None, (("TP", 1),)))


BAR = "Loading safetensors checkpoint shards"


def test_of_a_progress_line_the_last_state_is_read() -> None:
    states = "\r".join(f"{BAR}: {share:3}% Completed | {done}/4 [00:0{done}<00:00]" for done, share in enumerate((0, 25, 50, 75, 100)))
    assert parse(states, 1).body.startswith(f"{BAR}: 100% Completed | 4/4")
    assert parse(f"{states}\r", 1).body.startswith(f"{BAR}: 100%")
    # A message that was printed over a bar is found by its own words.
    mixed = f"{BAR}: 25% Completed\rTried to allocate 20.00 MiB\r{BAR}: 50% Completed"
    assert parse(mixed, 1, "Tried to allocate").body == "Tried to allocate 20.00 MiB"
    assert parse(mixed, 1).body == f"{BAR}: 50% Completed"


# --- what is no prefix -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
        '  File "/usr/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line 298, in determine_available_memory',
        "    return func(*args, **kwargs)",
        "",
        "|  0   N/A  N/A     4477      C   VLLM::Worker_TP0     21866MiB |",
        "INFO:     Application startup complete.",
        'INFO:     192.0.2.9:50126 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "(see the documentation) of pid=7",
        "Capturing CUDA graphs (decode, FULL):  20%|██        | 7/35 [00:06<00:24,  1.16it/s]",
    ],
)
def test_a_line_without_a_prefix_is_its_own_body(raw: str) -> None:
    line = parse(raw, 1)
    assert (line.body, line.text, line.process, line.level, line.file) == (raw, raw, None, None, None)


def test_a_quoted_record_in_a_tagged_message_is_not_the_lines_own() -> None:
    line = parse(f"(EngineCore_DP0 pid=318) ERROR 01-15 10:22:40 [core.py:708] the worker said: {RECORD}", 1)
    assert (line.level, line.time, line.file) == ("ERROR", "01-15 10:22:40", "core.py")
    assert line.body == f"the worker said: {RECORD}"
    printed = f"{'=' * 70} the worker said: {RECORD}"
    assert parse(f"(EngineCore_DP0 pid=318) {printed}", 1).body == printed


@given(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=300))
def test_any_line_is_read(raw: str) -> None:
    line = parse(raw, 1)
    assert line.body in line.text or line.wrapped or line.repeated > 1
    assert not set(line.text) & {chr(code) for code in range(32) if code != 9}


@given(st.binary(max_size=200).filter(lambda raw: b"\n" not in raw))
def test_damaged_bytes_are_replaced(raw: bytes) -> None:
    assert parse(decode(raw + b"\r\n"), 1).number == 1


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\\^"), max_size=80))
def test_cleaning_leaves_text_without_colours_alone(text: str) -> None:
    assert clean(text) == text
    assert clean(f"\x1b[1;31m{text}\x1b[0m") == text
    assert clean(f"\x1b]0;a title\x07{text}\x07\x00") == text


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        ("INFO 06-19 23:05:35 [core.py:162] warmup model) took **34.11 seconds**", "warmup model) took 34.11 seconds"),
        ("INFO 06-19 23:05:35 [runner.py:9] finished in **17 secs**, took **0.48 GiB**", "finished in 17 secs, took 0.48 GiB"),
        ("    return forward_call(*args, **kwargs)", "    return forward_call(*args, **kwargs)"),
        ("    size = 2**30 + 4**15", "    size = 2**30 + 4**15"),
        ("f(**first, **second)", "f(**first, **second)"),
    ],
)
def test_what_a_quotation_made_bold_is_read_plain(raw: str, body: str) -> None:
    assert parse(raw, 1).body == body
