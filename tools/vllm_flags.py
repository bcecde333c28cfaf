"""Makes analyzer/engines/vllm/flags.json out of the reference table of vLLM's options and variables.

    python tools/vllm_flags.py REFERENCE.json > analyzer/engines/vllm/flags.json

Only facts go in: when an option exists, its spellings, defaults and choices by version, what replaced it. The notes are ours.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FLAG_KEYS = (
    "first",
    "last",
    "removed_in",
    "deprecated_in",
    "replaced_by",
    "aliases",
    "negation",
    "negation_since",
    "negation_alias",
    "negation_alias_since",
    "default",
    "choices",
    "known_values",
)
ENV_KEYS = ("first", "last", "removed_in", "default", "replaced_by", "absent_between")

#: The successor takes the same value with the same meaning: a new name and nothing else.
RENAMED = {"--cuda-graph-sizes", "--max-context-len-to-capture", "--override-pooler-config"}

#: Short forms that the parser handles itself, before the table of options.
SHORT = {"--optimization-level": {"0.12.0": ["-O"]}}

#: Types of options that take no value on the command line.
WITHOUT_VALUE = ("switch", "bool")

NOTES: dict[str, tuple[str, str]] = {
    "--block-size": (
        "Only the listed sizes are accepted up to 0.17.1; later any integer is, yet most CUDA backends want a multiple of 16.",
        "0.17.1 及以前只接受列出的取值；之后解析器接受任意整数，但多数 CUDA 后端仍要求 16 的倍数。",
    ),
    "--device": (
        "vLLM finds the platform by itself; choose cards with CUDA_VISIBLE_DEVICES (or --device-ids from 0.24.0 on).",
        "平台由 vLLM 自动识别；选卡请用 CUDA_VISIBLE_DEVICES（0.24.0 起也可用 --device-ids）。",
    ),
    "--disable-frontend-multiprocessing": (
        "VLLM_ENABLE_V1_MULTIPROCESSING=0 comes closest in V1.",
        "V1 中最接近的是 VLLM_ENABLE_V1_MULTIPROCESSING=0。",
    ),
    "--disable-log-requests": (
        "Drop it: requests are not logged by default from 0.10.1 on. The parser rejects it in 0.17.0 to 0.32.0.",
        "直接删掉即可：0.10.1 起默认不记录请求日志；0.17.0 至 0.32.0 的解析器会拒绝该参数。",
    ),
    "--disable-mm-preprocessor-cache": ("Write --mm-processor-cache-gb 0.", "改写为 --mm-processor-cache-gb 0。"),
    "--enable-multimodal-encoder-data-parallel": ("Write --mm-encoder-tp-mode data.", "改写为 --mm-encoder-tp-mode data。"),
    "--gpu-memory-utilization": (
        "A share of the card's total memory for this instance alone; it no longer sizes the pool when --kv-cache-memory-bytes is set.",
        "本实例可用的显存占整卡总显存的比例（按每张 GPU 计）；设置了 --kv-cache-memory-bytes 时不再决定 KV 缓存大小。",
    ),
    "--kv-cache-memory-bytes": (
        "Fixes the KV pool of each GPU; the utilization no longer sizes it.",
        "直接指定每张 GPU 的 KV 缓存大小，不再由显存利用率推算。",
    ),
    "--max-num-queued-reqs": (
        "Only with it does a full queue turn requests away (503); otherwise they wait.",
        "设置后队列满时才会拒绝请求（503）；不设置则一直排队。",
    ),
    "--max-seq-len-to-capture": (
        "Not the same thing: the old option limits sequence length, its successor the batch in tokens.",
        "两者含义不同：旧参数限制序列长度，新参数限制批次的 token 数。",
    ),
    "--model": ("`vllm serve` takes the model as its first argument.", "`vllm serve` 的模型名写在第一个位置参数上。"),
    "--num-lookahead-slots": (
        "It reserved KV slots for speculative decoding; that is part of --speculative-config now.",
        "它为投机解码预留 KV 槽位，现已并入 --speculative-config。",
    ),
    "--num-scheduler-steps": ("Multi-step scheduling ended with V0.", "多步调度是 V0 的功能，已随 V0 移除。"),
    "--rope-scaling": (
        "Pass it in --hf-overrides: as rope_scaling, from 0.12.0 on as rope_parameters.",
        "改用 --hf-overrides 传入 rope_scaling（0.12.0 起为 rope_parameters）。",
    ),
    "--rope-theta": ("Pass it in --hf-overrides.", "改用 --hf-overrides 传入。"),
    "--swap-space": (
        "A V0 feature: 4 GiB of host memory per GPU unless set. V1 recomputes; host offload is --kv-offloading-size (0.11.1+).",
        "换出到主机内存是 V0 的功能（默认每张 GPU 4 GiB）；V1 改为重新计算。主机卸载请用 --kv-offloading-size（0.11.1 起）。",
    ),
    "--task": (
        "Add --convert embed, classify or reward where a generative model is turned into one.",
        "若要把生成模型转作他用，另加 --convert embed、classify 或 reward。",
    ),
    "--worker-use-ray": ("Write --distributed-executor-backend ray.", "改写为 --distributed-executor-backend ray。"),
    "--dry-run": (
        "vLLM's server has no dry run; the memory lines of a normal start show the plan.",
        "vLLM 服务没有试运行参数；正常启动时的显存日志就是分配方案。",
    ),
    "--profile-run": ("An internal method, never an option.", "这是内部方法名，从来不是命令行参数。"),
    "--disable-prefix-cache": ("Never an option, not even abbreviated.", "从来不是命令行参数，也不是任何参数的缩写。"),
    "--disable-prefix-caching": (
        "Accepted from 0.33.0 on only. Use --no-enable-prefix-caching from 0.6.5 on; before, prefix caching is off unless asked for.",
        "仅 0.33.0 起接受。0.6.5 起请用 --no-enable-prefix-caching；更早的版本默认关闭前缀缓存。",
    ),
    "--sliding-window": (
        "The window comes with the model; --disable-sliding-window (0.4.3+) can only switch it off.",
        "窗口大小由模型配置决定；--disable-sliding-window（0.4.3 起）只能将其关闭。",
    ),
    "--ray-address": ("Ray reads RAY_ADDRESS; vLLM has no such option.", "Ray 读取环境变量 RAY_ADDRESS；vLLM 没有这个参数。"),
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": (
        "Lifts the check against the model's own limit; without rope scaling the answers past it may be garbage.",
        "跳过与模型自身上限的比对；若不配合 RoPE 缩放，超出部分的输出可能不可用。",
    ),
    "VLLM_ATTENTION_BACKEND": ("The option exists from 0.13.0 on.", "对应的命令行参数自 0.13.0 起提供。"),
    "VLLM_CPU_KVCACHE_SPACE": ("GiB of host memory, CPU backend only.", "单位 GiB 的主机内存，仅用于 CPU 后端。"),
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": (
        "Puts CUDA graphs into the budget; on by default from 0.20.0, whatever the log line says.",
        "把 CUDA graph 显存计入预算；0.20.0 起默认开启（日志里写的版本不准）。",
    ),
    "VLLM_USE_V1": (
        "Chooses the engine in 0.6.4 to 0.10.2; from 0.11.0 on there is V1 only.",
        "在 0.6.4 至 0.10.2 中选择引擎；0.11.0 起只有 V1。",
    ),
}


def entry(name: str, facts: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The facts of one option or variable that the product uses."""
    made = {key: facts[key] for key in keys if key in facts}
    if facts.get("exists") is False:
        made["never"] = True
    if "alias_of" in facts:
        made["alias_of"] = facts["alias_of"].split(" ")[0]
        made["negative"] = "negative" in facts["alias_of"]
    if "type" in facts:
        made["no_value"] = {version: kind in WITHOUT_VALUE for version, kind in facts["type"].items()}
    if name in SHORT:
        made["aliases"] = SHORT[name]
    if name in RENAMED:
        made["renamed"] = True
    if name in NOTES:
        made["note"] = list(NOTES[name])
    return made


def main(source: Path) -> str:
    """The text of flags.json: one option a line."""
    reference = json.loads(source.read_text(encoding="utf-8"))
    groups = {
        "flags": {name: entry(name, facts, FLAG_KEYS) for name, facts in sorted(reference["flags"].items())},
        "env": {name: entry(name, facts, ENV_KEYS) for name, facts in sorted(reference["env"].items())},
    }
    lines = ["{", f'"versions": {json.dumps(reference["versions"])},']
    for place, (group, members) in enumerate(groups.items()):
        lines.append(f'"{group}": {{')
        rows = [f"{json.dumps(name)}: {json.dumps(facts, ensure_ascii=False, separators=(',', ':'))}" for name, facts in members.items()]
        lines += [",\n".join(rows), "}" if place else "},"]
    return "\n".join([*lines, "}"]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(main(Path(sys.argv[1])))
