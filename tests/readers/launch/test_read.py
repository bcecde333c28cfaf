"""Launch commands in every form: settings, environment, version, which command is the run's, and what is no launch."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.readers import launch
from analyzer.readers.base import Page

FIXTURES = Path(__file__).parents[3] / "fixtures" / "readers" / "launch"


def read(text, **options):
    page = Page("x", text.split("\n"), **options)
    return launch.read(page) if any(anchor in text for anchor in launch.ANCHORS) else []


def values(settings):
    return {name: setting.value for name, setting in settings.items()}


@pytest.mark.parametrize(
    ("name", "settings", "environment", "version"),
    [
        (
            "compose-string.yaml",
            {"--model": "Qwen/Qwen3-8B", "--max-model-len": 32000, "--gpu-memory-utilization": 0.95},
            {"HF_TOKEN": None, "VLLM_USE_V1": "0"},
            "0.8.5.post1",
        ),
        (
            "compose-list.yaml",
            {"--model": "/models/q", "--tensor-parallel-size": 2, "--enable-prefix-caching": False},
            {"CUDA_VISIBLE_DEVICES": "0,1"},
            None,
        ),
        (
            "deployment-shell.yaml",
            {
                "--model": "mistralai/Mistral-7B-Instruct-v0.3",
                "--trust-remote-code": True,
                "--max-num-batched-tokens": 1024,
                "--gpu-memory-utilization": 0.8,
            },
            {"VLLM_LOGGING_LEVEL": "DEBUG"},
            "0.11.0",
        ),
        (
            "pod-args.yaml",
            {"--model": "Qwen/Qwen3-32B", "--max-model-len": 131072, "--enforce-eager": True, "--served-model-name": "a"},
            {},
            "0.9.2",
        ),
        (
            "issue-docker-run.md",
            {
                "--model": "/data/x",
                "--tensor-parallel-size": 4,
                "--max-model-len": 1500,
                "--limit-mm-per-prompt": '{"image": 4}',
                "--rope-scaling": '{"type": "yarn"}',
            },
            {"NCCL_DEBUG": "INFO", "VLLM_API_KEY": None},
            "0.10.1.1",
        ),
        ("issue-inline.md", {"--model": "Qwen/Qwen2-7B", "--gpu-memory-utilization": 0.98}, {}, "0.6.3.post1"),
        (
            "offline.py.txt",
            {
                "--model": "meta-llama/Llama-3.1-8B",
                "--tensor-parallel-size": 2,
                "--gpu-memory-utilization": 0.92,
                "--enforce-eager": True,
                "--hf-overrides": '{"a": [1, 2]}',
            },
            {},
            None,
        ),
        ("windows-docker.txt", {"--model": "x/y", "--max-model-len": 2048}, {}, "0.9.0"),
        ("docker-bash-c.sh", {"--model": "a/b", "--max-model-len": 4096}, {}, "0.7.2"),
    ],
)
def test_forms(name, settings, environment, version):
    (reading,) = read((FIXTURES / name).read_text())
    assert reading.engine == "vllm"
    assert values(reading.settings) == settings
    assert values(reading.environment) == environment
    assert reading.engine_version == version
    assert reading.command
    assert not reading.start


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        ("vllm serve a/b -tp 4 --enforce-eager", {"--model": "a/b", "--tensor-parallel-size": 4, "--enforce-eager": True}),
        (
            "vllm serve a/b --gpu-memory-util=0.9 --max_model_len 8192",
            {"--model": "a/b", "--gpu-memory-utilization": 0.9, "--max-model-len": 8192},
        ),
        ("vllm serve a/b --max-model-len 25.6k", {"--model": "a/b", "--max-model-len": 25600}),
        ("vllm serve a/b --max-model-len 4K", {"--model": "a/b", "--max-model-len": 4096}),
        ("vllm serve a/b --max-model-len -1", {"--model": "a/b", "--max-model-len": -1}),
        ("vllm serve a/b --max-model-len auto", {"--model": "a/b", "--max-model-len": "auto"}),
        ("vllm serve a/b --no-enable-prefix-caching", {"--model": "a/b", "--enable-prefix-caching": False}),
        ("vllm serve a/b --enable-chunked-prefill false", {"--model": "a/b", "--enable-chunked-prefill": False}),
        ("vllm serve a/b --enable-chunked-prefill=True --seed 1", {"--model": "a/b", "--enable-chunked-prefill": True, "--seed": 1}),
        ("vllm serve a/b --served-model-name x y --port 1", {"--model": "a/b", "--served-model-name": "x y", "--port": 1}),
        ("vllm serve --port 1 a/b", {"--port": 1, "--model": "a/b"}),
        ("vllm serve a/b --kv-cache-memory=1024", {"--model": "a/b", "--kv-cache-memory-bytes": 1024}),
        ("vllm serve a/b --device-memory-utilization 0.5", {"--model": "a/b", "--gpu-memory-utilization": 0.5}),
        ("vllm serve a/b --disable-prefix-caching --dry-run", {"--model": "a/b", "--disable-prefix-caching": True, "--dry-run": True}),
        ("vllm serve a/b --revision 1234", {"--model": "a/b", "--revision": "1234"}),
        ("vllm serve a/b --api-key sk-abc --port 1", {"--model": "a/b", "--port": 1}),
        ("vllm serve a/b --compilation-config.mode 3", {"--model": "a/b", "--compilation-config.mode": 3}),
        ("vllm serve 'a/b' --max-model-len \"8192\" > log 2>&1 &", {"--model": "a/b", "--max-model-len": 8192}),
        ("nohup vllm serve a/b --port 1 2>&1 | tee x.log", {"--model": "a/b", "--port": 1}),
        ("cd /x && vllm serve a/b --port 1; echo done", {"--model": "a/b", "--port": 1}),
        ("script -qefc 'vllm serve a/b --port 1' engine.log", {"--model": "a/b", "--port": 1}),
        ("/opt/venv/bin/python3.12 -m vllm.entrypoints.openai.api_server --model a/b", {"--model": "a/b"}),
        ("uv run vllm serve a/b --port 1", {"--model": "a/b", "--port": 1}),
        ("启动命令：vllm serve a/b --port 1", {"--model": "a/b", "--port": 1}),
        ("2x H100, vllm serve openai/gpt-oss-120b -tp 2", {"--model": "openai/gpt-oss-120b", "--tensor-parallel-size": 2}),
        ("docker run --gpus all -itd -eX=1 -v /a:/b vllm/vllm-openai:v0.9.0 --model a/b", {"--model": "a/b"}),
        ("docker run --rm $args vllm/vllm-openai:latest --model a/b", {"--model": "a/b"}),
        ("docker run vllm/vllm-openai:latest a/b --port 1", {"--model": "a/b", "--port": 1}),
        ('llm = LLM("a/b", max_model_len=10, swap_space=args.swap)', {"--model": "a/b", "--max-model-len": 10}),
        ("e = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(model='m', max_num_seqs=4))", {"--model": "m", "--max-num-seqs": 4}),
        ("vllm serve a/b --tensor-parallel-size ${TP:-2}", {"--model": "a/b", "--tensor-parallel-size": 2}),
        ("vllm serve a/b --tensor-parallel-size $TP", {"--model": "a/b", "--tensor-parallel-size": "$TP"}),
    ],
)
def test_command(command, settings):
    (reading,) = read(command)
    assert values(reading.settings) == settings


@pytest.mark.parametrize(
    ("command", "engine", "settings"),
    [
        (
            "python -m sglang.launch_server --model Q/q --tp 2 --mem-fraction-static 0.2",
            "sglang",
            {"--model-path": "Q/q", "--tp-size": 2, "--mem-fraction-static": 0.2},
        ),
        (
            "llama-server -m m.gguf -ngl 99 -c 32768 --verbose",
            "llama.cpp",
            {"--model": "m.gguf", "--n-gpu-layers": 99, "--ctx-size": 32768, "--verbose": True},
        ),
        (
            "docker run --shm-size 4g text-generation-inference:latest --model-id a/b --num-shard 4",
            "tgi",
            {"--model-id": "a/b", "--num-shard": 4},
        ),
        ("ollama run qwen3:8b", "ollama", {"--model": "qwen3:8b"}),
    ],
)
def test_other_engines(command, engine, settings):
    (reading,) = read(command)
    assert reading.engine == engine
    assert values(reading.settings) == settings


@pytest.mark.parametrize(
    "text",
    [
        "usage: vllm serve [-h] [--model MODEL]\nvllm serve: error: unrecognized arguments: --dry-run",
        "root  4410 1 02:11:40 /opt/venv/bin/vllm serve /models/Qwen3-8B",
        " 4410     1    02:11:40 /opt/venv/bin/vllm serve /models/Qwen3-8B",
        "(raylet) 19102\t24.90\tpython3 -m vllm.entrypoints.openai.api_server --model /models/Q",
        "INFO 11-29 16:39:06 [a.py:1] With `vllm serve`, you should provide the model as a positional argument",
        "INFO 11-29 16:39:06 [a.py:1] Pass vllm serve a/b --enable-scale-out to enable them.",
        "INFO 11-29 16:39:06 [a.py:1] x\nPlease use vllm serve with --enable-scale-out to enable them.",
        "pkill -f 'vllm serve a/b'",
        "grep 'vllm serve a/b --x' file",
        "# vllm serve a/b --port 1",
        "vllm serve crashes with OOM on my box",
        "docker run --gpus all --rm vllm/vllm-openai:v0.11.0 nvidia-smi -L",
        '  File "a.py", line 3, in f\n    llm = LLM(model="x", max_model_len=4)',
        "image: https://example.com/a.png\nLLM( is a class",
    ],
)
def test_no_launch(text):
    assert read(text) == []


def test_a_prompt_in_a_log_starts_an_attempt_and_each_keeps_its_settings():
    first, second = read((FIXTURES / "two-prompts.log").read_text())
    assert first.start
    assert second.start
    assert values(first.settings) == {"--model": "/m/q", "--tensor-parallel-size": 2}
    assert values(first.environment) == {"CUDA_VISIBLE_DEVICES": "1"}
    assert values(second.settings) == {"--model": "/m/q", "--tensor-parallel-size": 2, "--enforce-eager": True}
    assert second.settings["--enforce-eager"].source.line == 5


def test_the_start_of_a_service_is_a_command_beside_its_log():
    unit = "[Service]\nEnvironment=A=1\nExecStart=/opt/v/bin/vllm serve a/b \\\n    --max-model-len 4096\nRestart=always\n"
    (reading,) = read(unit + "INFO 11-29 16:39:06 [a.py:1] vLLM API server version 0.9.0")
    assert values(reading.settings) == {"--model": "a/b", "--max-model-len": 4096}
    assert reading.command == "/opt/v/bin/vllm serve a/b \\\n    --max-model-len 4096"


def test_root_prompt_is_one_only_before_a_log():
    log = "# vllm serve a/b --port 1\nINFO 11-29 16:39:06 [a.py:1] vLLM API server version 0.9.0"
    (reading,) = read(log)
    assert reading.start
    assert reading.command == "vllm serve a/b --port 1"


def test_the_subject_is_the_last_command_not_called_working():
    readings = read((FIXTURES / "works-and-fails.sh").read_text())
    assert [reading.settings["--max-model-len"].value for reading in readings if reading.settings] == [2000]
    assert [(reading.first, reading.last) for reading in readings] == [(0, 1), (2, 3), (4, 5)]
    assert [bool(reading.command) for reading in readings] == [False, True, False]


def test_exports_before_a_command_belong_to_it():
    (reading,) = read(
        "#!/bin/sh\nexport VLLM_CPU_KVCACHE_SPACE=1\nMODEL=/m/q\nexport HF_TOKEN=hf_x\nvllm serve $MODEL --port 8011 > e.log 2>&1\n"
    )
    assert values(reading.environment) == {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_TOKEN": None}
    assert reading.environment["VLLM_CPU_KVCACHE_SPACE"].source.line == 2
    assert reading.settings["--model"].value == "/m/q"
    assert reading.settings["--model"].source.line == 3
    assert (reading.first, reading.last) == (0, 4)


def test_options_whose_first_line_was_left_out():
    text = "--tensor-parallel-size 4 \\\n--max-model-len 131072 \\\n--gpu-memory-utilization 0.97\nwhy out of memory?\n"
    (reading,) = read(text)
    assert reading.engine == "vllm"
    assert values(reading.settings) == {"--tensor-parallel-size": 4, "--max-model-len": 131072, "--gpu-memory-utilization": 0.97}
    assert not read("--max-model-len MAX_MODEL_LEN\n--gpu-memory-utilization SHARE\n--seed SEED\n")  # a help text


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("vllm serve a/b -pp 2\n# GPU 0: 5070 Ti; vllm 0.15.2rc1.dev93+g11a4c9d30", "0.15.2rc1.dev93+g11a4c9d30"),
        ("vLLM 0.29.1rc1.dev339+gda9888462, torch 2.13.0+cu130", "0.29.1rc1.dev339+gda9888462"),
        ("docker run nvcr.io/nvidia/vllm:25.09-py3 vllm serve a/b --port 1", None),
        ("vllm-0.15.2rc1.dev93+g11a4c9d30.cu128-cp312-cp312-linux_x86_64.whl\nvllm serve a/b", "0.15.2rc1.dev93+g11a4c9d30.cu128"),
        ("**2x RX 7900 XT, vLLM 0.23.1, TP=2**\nINFO 01-23 07:32:01 model_runner.py:1060] Starting", "0.23.1"),
        ("vllm 0.8.5 works, vllm 0.9.1 does not\nvllm serve a/b", None),
        ("docker run registry.example/h2ogpt-runtime:0.1.0 -m vllm.entrypoints.openai.api_server --model a/b", None),
        ("docker run vllm/vllm-openai:v0.11.0-x86_64 --model a/b", "0.11.0"),
        ("# image: cann8.3-910b-sglang0.5.6.post1 ;\npython -m sglang.launch_server --model-path a/b", "0.5.6.post1"),
    ],
)
def test_versions(text, version):
    assert [reading.engine_version for reading in read(text)] == [version]


def test_sizes_of_a_container_are_facts():
    (reading,) = read("docker run --shm-size 4g -m 32g vllm/vllm-openai:v0.9.0 --model a/b")
    assert [(fact.name, fact.value, fact.unit) for fact in reading.facts] == [("shm.total", 4, "GiB"), ("host.limit", 32, "GiB")]


def test_what_a_report_shows_is_redacted():
    (reading,) = read("vllm serve /home/anna/m --port 1", redact=lambda text: text.replace("anna", "<user>"))
    assert reading.command == "vllm serve /home/<user>/m --port 1"
    assert reading.settings["--model"].value == "/home/<user>/m"
    assert "anna" not in reading.settings["--model"].source.text


@given(st.text(alphabet="vllm serve/-=\\'\"$`#&|<>(){}\n\t :docker run-imagecmd", max_size=200))
def test_any_text_ends(rest):
    for prefix in ("vllm serve a/b ", "docker run vllm/vllm-openai ", "image: vllm\ncommand: ", "LLM("):
        for reading in read(prefix + rest):
            assert 0 <= reading.first <= reading.last


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve a/b --x " + '"' * 100_000,
        "vllm serve a/b -tp 2\n" * 20_000,
        "INFO 11-29 16:39:06 [a.py:1] x\nvllm serve a/b -tp 2\n" * 3_000,
        "LLM(" * 30_000,
        "image: vllm\n" + "  - " * 20_000,
        "vllm serve a/b \\\n" * 20_000,
        "`vllm serve " * 20_000,
    ],
)
def test_hostile_text_is_read_in_time(text):
    begin = time.perf_counter()
    read(text)
    assert time.perf_counter() - begin < 10.0


def test_the_flag_table_has_every_flag_of_the_engine():
    import json

    from analyzer.readers.launch import vllm_flags

    table = Path(launch.__file__).parents[2] / "engines" / "vllm" / "flags.json"
    known = json.loads(table.read_text())["flags"]
    assert {flag[2:] for flag, about in known.items() if "first" in about} <= vllm_flags.ALL
