"""What-if: the ledger of a start as it would be with other settings, whether that start would come up, and by how much.

Takes a report (or its JSON, or a single ledger of the contract's shape) and settings; the arithmetic is the engine's own. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from analyzer.model import Ledger, Report, Text, Value
from analyzer.model.as_json import ledger_line_json
from analyzer.model.message import MessageError

#: Engine name -> module with ``what_if(Start, settings)``.
MODULES = {"vllm": "analyzer.engines.vllm.what_if"}


class WhatIfError(MessageError, ValueError):
    """A question that cannot be answered: an unknown setting, a value out of range, an engine without arithmetic, no ledger."""


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of a start. ``passed`` None: the inputs do not tell. ``margin``: what is to spare in ``unit``, below 0 what is missing.

    Names: ``start_free`` (the budget is free at start), ``card`` (the budget is not above the card), ``kv_pool`` (anything is left for the
    pool), ``one_request`` (a request of full length fits into it), ``beside_budget`` (graphs and late buffers fit beside the budget),
    ``pinned_pool`` (a pool set by hand fits beside everything else), ``state_blocks`` (a state block for each sequence).
    """

    name: str
    passed: bool | None
    margin: int | None
    text: Text
    rank: int | None = None
    unit: str = "B"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer. ``fits``: True, every check passes; False, one fails; None, one cannot be told and none fails.

    ``margin``: bytes of the tightest check of memory, below 0 what is missing; None where none has figures. ``max_model_len``: in force
    after the change, ``longest``: the longest request that the pool holds, ``concurrency``: requests of max_model_len at the same time,
    ``tokens``: what the pool holds in all. ``kept``: ledger lines that stay as measured, ``scaled``: those worked out in proportion or
    from the model's shape (their formula says how). ``changed``: setting -> (before, after); before None where not known.
    """

    ledgers: tuple[Ledger, ...]
    fits: bool | None
    margin: int | None
    checks: tuple[Check, ...]
    changed: Mapping[str, tuple[Value | None, Value | None]]
    kept: tuple[str, ...]
    scaled: tuple[str, ...]
    notes: tuple[Text, ...]
    max_model_len: int | None = None
    longest: int | None = None
    concurrency: float | None = None
    tokens: int | None = None

    def to_json(self, language: str = "en") -> dict[str, Any]:
        """The answer as plain values, in the shapes of the report's contract."""
        return {
            "schema": "vramledger/what-if/1",
            "fits": self.fits,
            "margin": self.margin,
            "ledgers": [
                {
                    "attempt": ledger.attempt,
                    "gpu": ledger.gpu,
                    "rank": ledger.rank,
                    "moment": ledger.moment,
                    "lines": [ledger_line_json(line) for line in ledger.lines],
                }
                for ledger in self.ledgers
            ],
            "checks": [
                {
                    "name": check.name,
                    "passed": check.passed,
                    "margin": check.margin,
                    "unit": check.unit,
                    "rank": check.rank,
                    "text": check.text.get(language),
                }
                for check in self.checks
            ],
            "settings": {flag: {"from": before, "to": after} for flag, (before, after) in self.changed.items()},
            "max_model_len": self.max_model_len,
            "longest": self.longest,
            "concurrency": self.concurrency,
            "tokens": self.tokens,
            "kept": list(self.kept),
            "scaled": list(self.scaled),
            "notes": [note.get(language) for note in self.notes],
        }


def what_if(given: Report | str | Mapping[str, Any], settings: Mapping[str, Value | None]) -> WhatIf:
    """The start of ``given`` with ``settings`` changed.

    ``given``: a Report, its JSON text or parsed JSON (``vramledger/report/1``), or one ledger of that contract (``{"lines": […]}``).
    ``settings``: long flag (or its Python name) -> new value; None takes a setting away, a value that is in force already changes nothing.
    For vLLM: ``--gpu-memory-utilization`` (0 to 1), ``--max-model-len`` (tokens), ``--max-num-seqs``, ``--max-num-batched-tokens``,
    ``--kv-cache-dtype``, ``--tensor-parallel-size``, ``--pipeline-parallel-size``, ``--num-gpu-blocks-override``,
    ``--kv-cache-memory-bytes``, ``--enforce-eager``. Raises WhatIfError for what cannot be answered.
    """
    from analyzer.engines.start import Start

    if isinstance(given, Report):
        start = Start.of(given)
    else:
        try:
            start = Start.of_json(json.loads(given) if isinstance(given, str) else given)
        except (json.JSONDecodeError, RecursionError) as error:
            raise WhatIfError("this is no JSON: {reason}", reason=error) from None
    module = MODULES.get(start.engine or "vllm")
    if module is None:
        raise WhatIfError("what-if knows the arithmetic of vLLM, and this is {engine}", engine=start.engine)
    if not start.ledgers:
        raise WhatIfError("there is no ledger in it: no line of the inputs says where the memory was")
    answer = import_module(module).what_if(start, settings)
    assert isinstance(answer, WhatIf)
    return answer
