"""Which words of a shell command start an engine: programs, wrappers around them, containers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from analyzer.readers.launch.arguments import arguments, is_flag
from analyzer.readers.launch.invocation import SHELL, Invocation, Variable, image_engine
from analyzer.readers.launch.shell import Command, Word

#: Reads the launches of a script that is one quoted word, from its place in the text.
Inner = Callable[[int, int], list[Invocation]]

#: Programs that name an engine and do not start it: what follows them is no launch.
NO_LAUNCH = frozenset(
    {
        "echo", "pip", "pip3", "which", "grep", "egrep", "rg", "pgrep", "pkill", "kill", "killall", "ps", "cat", "less", "tail",
        "head", "man", "git", "cd", "ls", "find", "sed", "awk", "apt", "apt-get", "brew", "conda", "mamba", "curl", "wget", "vim",
        "nano", "code", "mkdir", "cp", "mv", "rm", "chmod", "chown", "tar", "unzip", "hf", "huggingface-cli", "export", "unset",
        "alias", "type", "file", "stat", "du", "df", "top", "htop", "usage", "nvidia-smi", "systemctl", "journalctl",
    }
)  # fmt: skip
#: Programs that start another one: the command begins with them.
WRAPPERS = frozenset(
    {
        "sudo", "nohup", "env", "exec", "time", "timeout", "nice", "numactl", "taskset", "setsid", "stdbuf", "unbuffer", "script",
        "screen", "tmux", "uv", "uvx", "poetry", "pipx", "conda", "micromamba", "srun", "torchrun", "accelerate", "ssh", "bash", "sh",
        "zsh", "docker", "podman", "nerdctl", "kubectl", "singularity", "apptainer", "nsys", "ncu", "py-spy", "strace", "gdb",
        "modal", "cmd", "start", "python", "python3",
    }
)  # fmt: skip
_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?(?:\.exe)?$")
_MODULES: tuple[tuple[str, str, bool], ...] = (
    ("vllm.entrypoints.openai.api_server", "vllm", False),
    ("vllm.entrypoints.api_server", "vllm", False),
    ("vllm.entrypoints.openai.run_batch", "vllm", False),
    ("sglang.launch_server", "sglang", False),
    ("sglang.bench_one_batch", "sglang", False),
    ("llama_cpp.server", "llama.cpp", False),
    ("tensorrt_llm.commands.serve", "tensorrt-llm", True),
)
_PROGRAMS: dict[str, str] = {
    "llama-server": "llama.cpp",
    "llama-cli": "llama.cpp",
    "llama-bench": "llama.cpp",
    "text-generation-launcher": "tgi",
    "text-generation-server": "tgi",
    "trtllm-build": "tensorrt-llm",
}
#: docker run's options that take no value.
_DOCKER_ALONE = frozenset(
    {
        "--detach", "--interactive", "--tty", "--rm", "--init", "--privileged", "--read-only", "--no-healthcheck",
        "--oom-kill-disable", "--publish-all", "--sig-proxy", "--quiet", "--help", "--disable-content-trust",
    }
)  # fmt: skip
_EXPANSION = re.compile(r"\$(?:\w+|\{\w+\})")
_DOCKER_SHORT_ALONE = frozenset("ditPq")
_DOCKER_SIZES = frozenset({"--shm-size", "--memory", "-m", "--memory-swap"})
_ENVIRONMENT_OPTIONS = frozenset({"-e", "--env"})


def program(words: Sequence[Word], at: int) -> tuple[str, int, bool] | None:
    """(engine, place of its first argument, whether that may be the model) where ``words[at]`` starts an engine, else None."""
    name = re.split(r"[/\\]", words[at].value)[-1]
    following = words[at + 1].value if at + 1 < len(words) else ""
    if name == "vllm" or name == "vllm.exe":
        if following == "serve":
            return "vllm", at + 2, True
        if following == "bench" and at + 2 < len(words) and words[at + 2].value in ("latency", "throughput"):
            return "vllm", at + 3, False
        return ("vllm", at + 2, False) if following == "run-batch" else None
    if name == "sglang" and following == "serve":
        return "sglang", at + 2, False
    if name == "ollama" and following in ("serve", "run"):
        return "ollama", at + 2, following == "run"
    if name == "lmdeploy" and following in ("serve", "chat"):
        return "lmdeploy", at + 2, False
    if name == "trtllm-serve":
        return "tensorrt-llm", at + 1 + (following == "serve"), True
    if name in _PROGRAMS:
        return _PROGRAMS[name], at + 1, False
    if _PYTHON.match(name):
        place = at + 1
        while place < len(words) and words[place].value.startswith("-") and words[place].value != "-m":
            place += 1
        if place < len(words) and words[place].value == "-m":
            place += 1
        if place < len(words):
            return _module(words, place)
    if name.startswith("vllm.entrypoints.") or name == "sglang.launch_server":
        return _module(words, at)
    return None


def _module(words: Sequence[Word], at: int) -> tuple[str, int, bool] | None:
    value = words[at].value
    if value == "vllm.entrypoints.cli.main" and at + 1 < len(words) and words[at + 1].value == "serve":
        return "vllm", at + 2, True
    dotted = value.removesuffix(".py").replace("/", ".") if value.endswith(".py") else value
    for module, engine, takes_model in _MODULES:
        if dotted == module or (value.endswith(".py") and dotted.endswith("." + module)):
            return engine, at + 1, takes_model
    return None


def launches(command: Command, *, prompt: bool, inner: Inner) -> list[Invocation]:
    """The launches in one simple command. Without a ``prompt`` it may be a sentence, so a launch in its middle must look like one;
    ``inner`` reads a quoted script."""
    words = command.words
    first = 0
    while first < len(words) and words[first].assignment is not None:
        first += 1
    name = words[first].value.rsplit("/", 1)[-1] if first < len(words) else ""
    if name in NO_LAUNCH or (name == "uv" and first + 1 < len(words) and words[first + 1].value in ("pip", "add")):
        return []
    if name in ("docker", "podman", "nerdctl"):
        run = next((place for place in range(first + 1, min(first + 4, len(words))) if words[place].value in ("run", "create")), None)
        if run is not None:
            return _container(command, first, run, inner)
    for at in range(first, len(words)):
        started = program(words, at)
        if started is not None:
            return _started(words, command, first, at, started, prompt=prompt, wrapped=name in WRAPPERS)
        value = words[at].value
        if " " in value and words[at].end - words[at].start > len("vllm serve") and any(sign in value for sign in SIGNS):
            found_inside = inner(words[at].start, words[at].end)
            if found_inside:
                for invocation in found_inside:
                    invocation.environment[:0] = _assignments(words[:at])
                    invocation.comment = invocation.comment or command.comment
                return found_inside
    return []


#: Words that follow a program's name in a sentence and are no model.
_SENTENCE = frozenset(
    {
        "with", "to", "and", "or", "is", "for", "on", "in", "the", "a", "an", "from", "has", "can", "will", "it", "that", "this",
        "command", "commands", "crashes", "fails", "failed", "hangs", "works", "using", "via", "after", "when", "without", "process",
        "server", "api", "does", "not",
    }
)  # fmt: skip
#: Literals one of which every launch in shell form holds.
SIGNS = (
    "vllm serve", "vllm bench", "vllm run-batch", "vllm.entrypoints", "vllm/entrypoints", "sglang.launch_server", "sglang serve",
    "llama-server", "llama-cli", "llama_cpp.server", "ollama serve", "ollama run", "text-generation-launcher", "trtllm-", "lmdeploy serve",
)  # fmt: skip


def _started(
    words: list[Word], command: Command, first: int, at: int, started: tuple[str, int, bool], *, prompt: bool, wrapped: bool
) -> list[Invocation]:
    engine, place, takes_model = started
    own = words[place:]
    flags = any(is_flag(word.value) for word in own)
    leading = at == first or wrapped
    prose = not leading and not prompt
    named = bool(own) and ("/" in own[0].value or len(own) == 1)
    if takes_model and own and not prompt and own[0].value.lower() in _SENTENCE:
        return []
    if engine == "vllm" and not (flags or (own and takes_model and (named or prompt))):
        return []
    if prose and not (flags or (own and "/" in own[0].value)):
        return []
    begin = 0 if leading else at
    while not leading and begin > 0 and words[begin - 1].assignment is not None:
        begin -= 1
    if prose:
        own = _without_prose(own)
    invocation = Invocation(SHELL, engine, words[begin].start, command.end, own, comment=command.comment)
    invocation.arguments = arguments(own, engine, takes_model=takes_model)
    invocation.environment = _assignments(words[begin:at])
    invocation.before = words[begin].start if words[begin].value != "sudo" else words[begin].end + 1
    invocation.after = (own or words[at:place])[-1].end
    return [invocation]


def _without_prose(words: list[Word]) -> list[Word]:
    """``words`` without the sentence behind them: bare words that no option takes."""
    kept = len(words)
    while kept > 2 and not is_flag(words[kept - 1].value) and not is_flag(words[kept - 2].value):
        kept -= 1
    return words[:kept] if kept < len(words) - 1 else words


def _assignments(words: Sequence[Word]) -> list[Variable]:
    found = []
    for word in words:
        pair = word.assignment
        if pair is not None:
            name, value = pair
            found.append(Variable(name, value, (word.start + len(name) + 1, word.end), (word.start, word.end)))
    return found


def _container(command: Command, first: int, run: int, inner: Inner) -> list[Invocation]:
    """``docker run [options] image [arguments]``."""
    words = command.words
    invocation = Invocation(SHELL, None, words[0].start, command.end, docker=True, comment=command.comment)
    invocation.environment = _assignments(words[:first])
    place = run + 1
    while place < len(words) and words[place].value.startswith("-"):
        place = _docker_option(words, place, invocation)
    while place + 1 < len(words) and _EXPANSION.fullmatch(words[place].value) and image_engine(words[place + 1].value) is not None:
        place += 1  # options in a variable, not the image
    if place >= len(words):
        return []
    image = words[place]
    invocation.image = image.value
    invocation.engine = image_engine(image.value)
    invocation.before = image.start
    own = words[place + 1 :]
    script = next((word for word in own if " " in word.value and any(sign in word.value for sign in SIGNS)), None)
    if script is not None:
        launched = inner(script.start, script.end)
        for launch in launched:
            launch.environment[:0] = invocation.environment
            launch.image, launch.options, launch.docker = invocation.image, invocation.options, True
            launch.start, launch.end, launch.before = invocation.start, invocation.end, invocation.before
        return launched
    if own:
        takes_model = True  # the newer images' entry point is "vllm serve"
        started = next((found for at in range(min(len(own), 6)) if (found := program(own, at)) is not None), None)
        if started is not None:
            invocation.engine, skipped, takes_model = started
            own = own[skipped:]
        elif own[0].value == "serve" and invocation.engine == "vllm":
            own = own[1:]
        elif not is_flag(own[0].value) and not (len(own) > 1 and "/" in own[0].value and is_flag(own[1].value)):
            return []  # another program of the image: nvidia-smi, bash
        invocation.arguments = arguments(own, invocation.engine, takes_model=takes_model and invocation.engine == "vllm")
    if invocation.engine is None:
        return []
    invocation.words = own
    invocation.after = (own or [image])[-1].end
    return [invocation]


def _docker_option(words: Sequence[Word], place: int, invocation: Invocation) -> int:
    """Read the option at ``place`` into ``invocation``; the place behind it and its value."""
    word = words[place]
    option, equals, value = word.value.partition("=")
    place += 1
    if option.startswith("--"):
        if not equals and option not in _DOCKER_ALONE and place < len(words):
            word, value = words[place], words[place].value
            place += 1
    elif set(option[1:]) <= _DOCKER_SHORT_ALONE:
        return place
    elif len(option) > 2 and option[1] not in _DOCKER_SHORT_ALONE:  # -p8000:8000, -eX=y
        option, value = word.value[:2], word.value[2:]
    elif place < len(words):
        option = "-" + option[-1]
        word, value = words[place], words[place].value
        place += 1
    if option in _ENVIRONMENT_OPTIONS:
        name, has_value, content = value.partition("=")
        if has_value:
            invocation.environment.append(Variable(name, content, (word.end - len(content), word.end), (word.start, word.end)))
    elif option in _DOCKER_SIZES:
        invocation.options[option] = (value, (word.start, word.end))
    return place
