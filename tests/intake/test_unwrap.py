"""Lines that a terminal or a chat broke at its width are put together again; tables and short lines never are."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.intake.unwrap import MIN_FULL, MIN_WIDTH, unwrap
from tests.case_files import inputs


def wrapped(lines: list[str], width: int) -> list[str]:
    """What a terminal of ``width`` columns makes of ``lines``."""
    return [line[start : start + width] for line in lines for start in range(0, max(len(line), 1), width)]


def starts(lines: list[str], width: int) -> list[int]:
    """The index of the first physical line of every one of ``lines``."""
    found, index = [], 0
    for line in lines:
        found.append(index)
        index += max(1, -(-len(line) // width))
    return found


OOM = (
    "(Worker_TP1 pid=512) ERROR 02-16 10:40:36 [multiproc_executor.py:822] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
    "4.64 GiB. GPU 1 has a total capacity of 44.39 GiB of which 1.37 GiB is free. Process 90417 has 1.25 GiB memory in use. Including "
    "non-PyTorch memory, this process has 41.77 GiB memory in use. Of the allocated memory 40.88 GiB is allocated by PyTorch."
)
LOG = [
    "INFO 01-15 10:22:31 [gpu_worker.py:298] Available KV cache memory: 5.86 GiB",
    OOM,
    "WARNING 02-16 10:40:37 [topk_topp_sampler.py:69] FlashInfer is not available. Falling back to the PyTorch-native implementation.",
    "Traceback (most recent call last):",
    "INFO 02-16 10:40:38 [kv_cache_utils.py:634] GPU KV cache size: 168,384 tokens",
    "(EngineCore_DP0 pid=318) INFO 02-16 10:40:39 [kv_cache_utils.py:637] Maximum concurrency for 40,960 tokens per request: 4.11x, in all",
]


@pytest.mark.parametrize("width", range(MIN_WIDTH, 130))
def test_a_log_wrapped_at_any_width_comes_back_whole(width: int) -> None:
    physical = wrapped(LOG, width)
    full = [line for line in physical if len(line) == width]
    if len(full) < MIN_FULL:
        assert unwrap(physical) == list(enumerate(physical))  # too few to be sure: left as they are
    else:
        assert unwrap(physical) == list(zip(starts(LOG, width), LOG, strict=True))


_WORDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789.,:=_-", min_size=1, max_size=12)
_MESSAGES = st.lists(st.lists(_WORDS, min_size=1, max_size=60).map(" ".join), min_size=4, max_size=20)


@given(_MESSAGES, st.integers(MIN_WIDTH, 120))
def test_wrapping_and_unwrapping_gives_the_log_back(messages: list[str], width: int) -> None:
    lines = [f"INFO 01-15 10:22:{place % 60:02} [core.py:{place}] {message}" for place, message in enumerate(messages)]
    physical = wrapped(lines, width)
    joined = unwrap(physical)
    assert "".join(text for _, text in joined) == "".join(lines)
    if len([line for line in physical if len(line) == width]) >= MIN_FULL and not any(len(line) % width == 0 for line in lines):
        assert joined == list(zip(starts(lines, width), lines, strict=True))


@given(st.lists(st.text(st.characters(exclude_characters="\n"), max_size=200), max_size=40))
def test_nothing_is_lost_or_moved(lines: list[str]) -> None:
    joined = unwrap(lines)
    assert "".join(text for _, text in joined) == "".join(lines)
    assert [index for index, _ in joined] == sorted({index for index, _ in joined})


_SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
| N/A   31C    P0            118W /  700W |   72044MiB /  81559MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
TABLE = _SMI.splitlines()
CSV = ["index, name, memory.used [MiB], memory.total [MiB], timestamp of the query"] + [
    f"{gpu}, NVIDIA H100 80GB HBM3, {70000 + gpu} MiB, 81559 MiB, 2025/11/21 03:12:4{gpu}" for gpu in range(8)
]
#: Records of one writer, all of one length, then something else: twice.
EQUAL = [f"llama_kv_cache_unified:      CUDA{gpu} KV buffer size =  4480.00 MiB" for gpu in range(4)] + [
    "llama_context: failed to allocate"
]
KERNEL = [f"kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=181899{gpu}, name=python3, Ch 0000000{gpu}" for gpu in range(5)]
PANE = [f"│ {line[:78]:78} │" for line in ("INFO 01-15 10:22:31 [a.py:1] one", "two", "three", "four")]
PADDED = [f"{line:100}" for line in ("[2059991.491] oom-kill: one", "[2059991.492] two", "[2059992.056] three", "and four")]
FRAMES = [
    '  File "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", line 1775, in _call_impl',
    "    return forward()",
] * 3
RULER = ["=" * 80, "a title", "=" * 80, "a text", "=" * 80, "another", "=" * 80]


@pytest.mark.parametrize(
    "lines",
    [
        TABLE,
        TABLE * 3,
        CSV,
        CSV[1:],
        EQUAL * 2,
        KERNEL,
        PANE,
        PADDED,
        [*FRAMES, "x" * 200],
        ["short"] * 20,
        [],
        [""],
        ["x" * 59] * 9,
        ["x" * 200],
    ],
)
def test_what_was_not_wrapped_is_left_alone(lines: list[str]) -> None:
    assert unwrap(lines) == list(enumerate(lines))


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_table_beside_a_wrapped_log_keeps_its_lines(width: int) -> None:
    narrow = [line[: width - 1] for line in TABLE]
    texts = [text for _, text in unwrap([*narrow, *wrapped(LOG, width), *narrow])]
    assert texts == [*narrow, *LOG, *narrow]


REAL = ("vllm-v0-graph-capture-oom-16gb", "vllm-v1-gptoss-120b-raising-util-moves-the-oom", "0.32.0-healthy", "xid79-gpu-fell-off-bus-tp8")


@pytest.mark.parametrize("name", REAL)
def test_no_real_log_is_taken_for_a_wrapped_one(name: str) -> None:
    for path in inputs(name):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert unwrap(lines) == list(enumerate(lines)), path


def test_a_part_that_was_wrapped_among_longer_lines_comes_back_whole() -> None:
    longer = "INFO 01-15 10:22:30 [gpu_worker.py:492] " + "x" * 200
    assert [text for _, text in unwrap([longer, *wrapped(LOG, 119), longer])] == [longer, *LOG, longer]


TYPED = [
    "ValueError: Free memory on device cuda:0 (36.75/121.63 GiB) on startup is less than",
    "desired GPU memory utilization (0.85, 103.38 GiB).",
    "Any idea?",
]


@pytest.mark.parametrize("around", ["{}", "> {}", "> > {}"])
def test_a_message_that_its_author_broke_between_words_is_one_line(around: str) -> None:
    assert unwrap([around.format(line) for line in TYPED]) == [(0, around.format(f"{TYPED[0]} {TYPED[1]}")), (2, around.format(TYPED[2]))]


def test_so_is_the_sentence_of_an_out_of_memory_though_it_is_several() -> None:
    broken = textwrap.wrap(OOM, 120)
    assert unwrap([*broken, "", "Any idea?"]) == [(0, OOM), (len(broken), ""), (len(broken) + 1, "Any idea?")]


@pytest.mark.parametrize(
    "following",
    [
        "Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        "",
        "INFO 01-15 10:22:31 [a.py:1] x",
        "make: *** [serve] Error 1",
        "    at frame",
    ],
)
def test_what_follows_a_message_and_is_not_of_its_sentence_stays_a_line(following: str) -> None:
    lines = ["RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}", following]
    assert unwrap(lines) == list(enumerate(lines))
