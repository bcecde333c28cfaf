"""One failure is told, by its own line: not what another one says, and with what was drawn below it."""

from analyzer.model import Confidence
from tests.logs import told

FAILED = "FAILED test_nixl_connector.py::test_abort[{}] - ValueError: To serve at least one request with the model's max seq len (40960), (4.38 GiB KV cache is needed, which is larger than the available KV cache memory ({} GiB). Based on the available memory, the estimated maximum model length is {}."
REFUSED = "(EngineCore_DP0 pid=55) {}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 80.00 MiB. GPU 0 has a total capacity of 139.72 GiB of which 60.69 MiB is free."
FRAME = '(EngineCore_DP0 pid=55) ERROR 12-24 08:50:35 [core.py:866]   File "/opt/vllm/model_executor/layers/x.py", line 3, in apply'
BAR = "Loading safetensors checkpoint shards: {:3d}% Completed | {}/37 [00:02<01:39,  2.77s/it]"


def test_two_failures_are_not_mixed() -> None:
    report = told([FAILED.format("ray", "3.6", 33664), FAILED.format("None", "3.74", 34944)])
    finding = report.findings[0]
    assert "33664" in finding.explanation.en
    assert finding.fixes[0].title.en.endswith("33664")
    assert [ledger.get("kv_cache") for ledger in report.ledgers] == [round(3.6 * 2**30)]


def test_a_bar_below_the_error_dates_it_where_it_stopped_on_its_way() -> None:
    head = [FRAME, REFUSED.format("ERROR 12-24 08:50:35 [core.py:866] ")]
    outcome = told([*head, BAR.format(3, 1)]).outcome
    assert (outcome.stage, outcome.cause, outcome.confidence) == ("weight_load", "cuda_oom.weight_load", Confidence.LIKELY)
    assert told([*head, BAR.format(100, 37)]).outcome.cause is None
