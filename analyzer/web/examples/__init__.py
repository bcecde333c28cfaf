"""Examples that travel with the program: real logs to try it on, with one click."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.report.messages import N_
from analyzer.web.upload import Outcome, Upload

if TYPE_CHECKING:
    from analyzer.web.service import Service

_FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Example:
    """``title`` and ``text`` are messages of the catalogue. ``files``: read in this order."""

    name: str
    title: str
    text: str
    files: tuple[str, ...]


EXAMPLES = {
    example.name: example
    for example in (
        Example(
            "startup-failure",
            N_("A start that failed"),
            N_("vLLM on two 16 GiB cards; CUDA graphs did not fit beside the budget"),
            ("engine.log",),
        ),
        Example(
            "healthy-start",
            N_("A healthy start"),
            N_("where the memory of two 32 GiB cards went, and why the ranks differ"),
            ("engine.log",),
        ),
        Example(
            "orphan-process",
            N_("A process left behind"),
            N_("a start's log and an nvidia-smi dump: who holds the memory"),
            ("start.log", "smi.txt"),
        ),
    )
}


def analyse(here: Service, example: Example) -> Outcome:
    """The example, read as an upload would be."""
    upload = Upload(here.settings, here.library)
    for name in example.files:
        incoming = upload.open(name)
        upload.feed(incoming, (_FOLDER / example.name / name).read_bytes())
        upload.close(incoming)
    return upload.finish()
