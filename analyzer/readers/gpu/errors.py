"""What nvidia-smi prints instead of a dump. What it means is the pattern library's (patterns/nvidia/smi-errors.yaml)."""

from __future__ import annotations

import re

from analyzer.model import GpuSnapshot
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.strip import bare

ANCHORS: tuple[str, ...] = (
    "NVIDIA-SMI has failed", "Failed to initialize NVML", "No devices were found", "Unable to determine the device handle",
    "NVIDIA-SMI couldn't find", "NVIDIA-SMI couldn’t find", "Mismatch in versions between nvidia-smi and NVML",
    "is not a valid field to query",
    "GPU access blocked by the operating system", "GPU is lost",
)  # fmt: skip

_ERROR = re.compile(
    r"\s*(?:[\w.-]{0,40}\s?[$#>]\s)?(?:NVIDIA-SMI has failed\b|Failed to initialize NVML\b|No devices were found\b"
    r"|Unable to determine the device handle\b|NVIDIA-SMI couldn['’]t find\b|Mismatch in versions between nvidia-smi and NVML\b"
    r"|Field \".{1,80}\" is not a valid field to query|GPU access blocked by the operating system|GPU is lost\b)"
)
_SECOND = re.compile(r"\s*(?:NVML library version:|Please also try adding directory|Reboot the system to recover)")


def read(page: Page) -> list[Reading]:
    """A Reading for every error text that is a line of its own: inside a log's message it is that log's line."""
    found: list[Reading] = []
    for index, line in enumerate(page.lines):
        if not any(anchor in line for anchor in ANCHORS):
            continue
        text = bare(line)
        if not _ERROR.match(text[:400]):
            continue
        last = index
        words = text.strip()
        following = bare(page.lines[index + 1]) if index + 1 < len(page.lines) else ""
        if _SECOND.match(following):
            last = index + 1
            words = f"{words} {following.strip()}"
        source = page.source(index)
        snapshot = GpuSnapshot(source, error=page.redact(words)[:1000])
        found.append(Reading("nvidia-smi-error", index, last, snapshots=[snapshot]))
    return found
