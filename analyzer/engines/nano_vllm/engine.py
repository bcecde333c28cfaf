"""nano-vllm, as diagnosis sees it (see analyzer/engines/__init__.py).

``blocks = (total × f − used − peak + current) / block bytes``; ``used`` is all memory in use on the card, other processes included
(reference/engines.md, section 8). None of it is printed, so the ledger is PyTorch's sentence or nothing.
"""

from __future__ import annotations

from analyzer.engines.base import Engine
from analyzer.engines.neighbours import stop_process
from analyzer.facts.view import View

SOLVERS = {"stop_process": stop_process}


class NanoVLLM(Engine):
    """Only somebody else's process can be computed: the identity's terms are not printed."""

    solvers = SOLVERS

    def default_utilization(self, view: View) -> float | None:
        """0.9 in its Config."""
        return 0.9


ENGINE = NanoVLLM()
