"""An error that a person passes on: quoted with a bar, and its sentence broken over lines."""

from tests.logs import facts, told

QUOTED = [
    "On 2x DGX Spark (vLLM 0.29.1rc1) the recipe dies at KV-cache init:",
    "▎",
    "▎ Available KV cache memory: 22.5 GiB",
    "▎ ValueError: To serve at least one request with the model's max seq len (196608),",
    "▎ 23.25 GiB KV cache is needed, which is larger than the available KV cache memory (22.5 GiB).",
    "▎ Based on the available memory, the estimated maximum model length is 190272.",
]


def test_a_quoted_and_broken_sentence_is_the_sentence() -> None:
    report = told(QUOTED)
    assert report.outcome.cause == "kv_cache.too_small_for_max_len"
    found = {name: facts(report, name)[-1].value for name in ("model.max_len", "kv_cache.needed", "kv_cache.estimated_max_len")}
    assert found == {"model.max_len": 196608, "kv_cache.needed": 23.25, "kv_cache.estimated_max_len": 190272}
    assert report.engine.version == "0.29.1rc1"
