"""TGI's fixes."""

from __future__ import annotations

from tests.engines.logs import changes, of


def test_a_prefill_as_long_as_the_longest_input_goes_down_with_it() -> None:
    assert changes(of("tgi-warmup-8-shards.log")) == {"--max-batch-prefill-tokens": 5000, "--max-input-length": 5000}
