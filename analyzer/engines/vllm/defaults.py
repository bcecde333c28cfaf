"""What vLLM uses where an option is not given and the parser holds null: by version, generation and card (``vllm/engine/arg_utils.py``).

For the API server (`vllm serve`). None where the references leave it open: nothing is guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyzer.engines.vllm import flags
from analyzer.engines.vllm.eras import as_range
from analyzer.model.units import GIB
from analyzer.model.versions import Range

if TYPE_CHECKING:
    from analyzer.engines.vllm.eras import Generation, Where

#: Block sizes that backends insist on.
BACKEND_BLOCK_SIZE = {"FLASHMLA": 64, "CUTLASS_MLA": 128}

_LARGE, _HUGE = 70 * GIB, 160 * GIB


def _in(where: Where, text: str) -> bool | None:
    """Whether all of ``where`` lies in the range (True), none of it (False), or some (None)."""
    span, reach = as_range(where), Range.parse(text)
    if not span & reach:
        return False
    inside = [version in reach for version in flags.resolve(where)]
    return True if all(inside) else None


def _large(total: int | None, device_name: str | None, *, a100_counts: bool) -> bool | None:
    """Whether the card is of the large class: at least 70 GiB, from 0.9.0 on no A100."""
    if total is None:
        return None
    if total < _LARGE:
        return False
    if a100_counts:
        return True
    return None if device_name is None else "a100" not in device_name.lower()


def max_num_seqs(where: Where, generation: Generation | None, *, total: int | None = None, device_name: str | None = None) -> int | None:
    """--max-num-seqs when it is not given. ``total``: bytes of the card (CUDA's figure), ``device_name`` as nvidia-smi prints it."""
    if generation == "v0" or _in(where, "<0.6.4"):
        return 256
    if generation is None:
        return None
    if _in(where, "<0.6.5"):
        return 256
    if _in(where, ">=0.6.5,<0.8.4"):
        return 1024
    old = _in(where, ">=0.8.4,<0.9.0")
    if old is None or not _in(where, ">=0.8.4"):
        return None
    large = _large(total, device_name, a100_counts=old)
    return None if large is None else 1024 if large else 256


def max_num_batched_tokens(
    where: Where,
    generation: Generation | None,
    *,
    max_model_len: int | None = None,
    chunked: bool | None = None,
    total: int | None = None,
    device_name: str | None = None,
) -> int | None:
    """--max-num-batched-tokens when it is not given.

    V0 without chunked prefill ``max(max_model_len, 2048)``; with it the figure is not in the references (None). V1 by the card's class.
    """
    if generation == "v0" or _in(where, "<0.6.4"):
        if chunked is None:
            chunked = chunked_prefill(where, "v0", max_model_len)
        return None if chunked is not False or max_model_len is None else max(max_model_len, 2048)
    if generation is None or not _in(where, ">=0.8.0"):
        return None
    by_name = _in(where, ">=0.8.0,<0.8.4")
    if by_name is None:
        return None
    if by_name:
        if device_name is None:
            return None
        return 8192 if any(name in device_name.upper() for name in ("H100", "H200")) else 2048
    old, new = _in(where, ">=0.8.4,<0.9.0"), _in(where, ">=0.28.0")
    if old is None or new is None:
        return None
    if new and total is not None and total >= _HUGE:
        return 16384
    large = _large(total, device_name, a100_counts=old)
    return None if large is None else 8192 if large else 2048


def chunked_prefill(where: Where, generation: Generation | None, max_model_len: int | None) -> bool | None:
    """Whether prompts are cut into steps when nothing is said: always in V1 (0.8.0+); in V0 from 0.5.3 on above 32,768 tokens."""
    if generation == "v1":
        return True if _in(where, ">=0.8.0") else None
    if generation is None and not _in(where, "<0.6.4"):
        return True if _in(where, ">=0.11.0") else None
    by_itself = _in(where, ">=0.5.3")
    if by_itself is False:
        return False
    if by_itself is None or max_model_len is None:
        return None
    return max_model_len > 32768


def prefix_caching(where: Where, generation: Generation | None) -> bool | None:
    """Whether finished blocks are kept for the next request with the same beginning when nothing is said: in V1, not in V0.

    For models that generate and keep keys and values only; models with states differ by version.
    """
    if generation == "v0" or _in(where, "<0.6.4"):
        return False
    if generation == "v1" and _in(where, ">=0.6.5"):
        return True
    return True if _in(where, ">=0.11.0") else None


def block_size(backend: str | None = None, *, state_layers: bool = False) -> int | None:
    """Tokens per block on CUDA: 16 unless the attention backend asks for more; None for models with states, whose line says it."""
    if state_layers:
        return None
    return BACKEND_BLOCK_SIZE.get((backend or "").upper().removesuffix("_VLLM_V1"), 16)


def swap_space(where: Where) -> int | None:
    """Bytes of host memory per GPU of --swap-space when it is not given: 4 GiB (V0 uses it); 0 where the option is gone (0.18.0+)."""
    found = flags.default("--swap-space", where)
    if found is not None and isinstance(found.value, (int, float)):
        return int(found.value * GIB)
    return 0 if _in(where, ">=0.18.0") else None
