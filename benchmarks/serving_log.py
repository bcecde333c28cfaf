"""A serving log of any size, the same for the same seed: a start, requests with their prompts, statistics every ten seconds, an end.

python benchmarks/serving_log.py PATH MEGABYTES
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

MEGABYTE = 10**6
#: As many requests between two statistics lines make one of them about every 22 KB, as in a server whose requests are logged.
REQUESTS = 10
_START = """\
INFO 05-01 10:00:00 [api_server.py:1090] vLLM API server version 0.9.1
INFO 05-01 10:00:05 [core.py:58] Initializing a V1 LLM engine (v0.9.1) with config: model='org/model', speculative_config=None, \
tokenizer='org/model', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, pipeline_parallel_size=1
INFO 05-01 10:00:30 [gpu_model_runner.py:1774] Model loading took 14.99 GiB and 20.1 seconds
INFO 05-01 10:00:50 [gpu_worker.py:227] Available KV cache memory: 5.86 GiB
INFO 05-01 10:00:51 [kv_cache_utils.py:716] GPU KV cache size: 48,000 tokens
INFO 05-01 10:01:10 [gpu_model_runner.py:2048] Graph capturing finished in 15 secs, took 0.60 GiB
INFO 05-01 10:01:11 [core.py:172] init engine (profile, create kv cache, warmup model) took 40.10 seconds
INFO:     Application startup complete.
"""
_END = """\
ERROR 05-02 11:00:00 [core.py:459] EngineCore encountered a fatal error.
ERROR 05-02 11:00:00 [core.py:459] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity \
of 23.69 GiB of which 594.69 MiB is free. Process 1421 has 23.10 GiB memory in use. Of the allocated memory 21.27 GiB is allocated by \
PyTorch, and 1.31 GiB is reserved by PyTorch but unallocated.
INFO:     Shutting down
"""
_WORDS = (  # the most frequent ones
    "the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you were all her "
    "she there would their we him been has when who will no more if out so what up said its about than into them can only other time new "
    "some could these two may first then do any like my now over such our man me even most made after also did many off before must well "
    "back through years much where your way down should because long each just state those people too mr how little good world make very "
    "year still see own work men day get here old between both life being under three never know same last another while us might great "
    "model answer question table number system user write please following text explain summary function return value list code"
)


def write(path: Path, size: int, seed: int = 1) -> int:
    """Write about ``size`` bytes (never less than a start and an end); the number of statistics lines."""
    rng = random.Random(seed)
    words = _WORDS.split()
    prompts = [" ".join(rng.choices(words, k=rng.randint(300, 460))) for _ in range(512)]
    statistics = step = 0
    with path.open("w", encoding="utf-8") as out:
        written = out.write(_START)
        while written < size - len(_END):
            step += 10
            clock = f"05-{1 + (step + 36120) // 86400 % 28:02} {(step + 36120) // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}"
            lines: list[str] = []
            for place in range(REQUESTS):
                name = f"chatcmpl-{rng.getrandbits(128):032x}"
                client = f"10.{rng.randrange(4)}.{rng.randrange(256)}.{rng.randrange(256)}:{rng.randrange(32768, 61000)}"
                params = f"SamplingParams(n=1, temperature=0.{place}, top_p=0.95, max_tokens={rng.randrange(16, 2048)})"
                prompt = prompts[rng.randrange(512)]
                lines += (
                    f"INFO {clock} [logger.py:43] Received request {name}: prompt: '{prompt}', params: {params}, prompt_token_ids: None.\n",
                    f"INFO {clock} [async_llm.py:270] Added request {name}.\n",
                    f'INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n',
                )
            running = rng.randrange(64)
            lines.append(
                f"INFO {clock} [loggers.py:116] Engine 000: Avg prompt throughput: {rng.randrange(90000) / 10} tokens/s, Avg generation "
                f"throughput: {rng.randrange(30000) / 10} tokens/s, Running: {running} reqs, Waiting: {rng.randrange(8)} reqs, "
                f"GPU KV cache usage: {running * 1.5:.1f}%, Prefix cache hit rate: {rng.randrange(900) / 10}%\n"
            )
            statistics += 1
            written += out.write("".join(lines))
        out.write(_END)
    return statistics


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), int(float(sys.argv[2]) * MEGABYTE)), "statistics lines")
