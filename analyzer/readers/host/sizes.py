"""Sizes as the system's tools write them: "8Gi", "64M", "1.8T", "16g", "32768k"."""

from __future__ import annotations

import re

from analyzer.model.units import Number, number

_SIZE = re.compile(r"(\d[\d,]{0,20}(?:\.\d{1,9})?)\s*([KMGTkmgt]?)(i?)([Bb]?)$")


def size_fact(text: str, *, docker: bool = False) -> tuple[Number, str] | None:
    """(figure as printed, unit that it means) of a size; None for anything else.

    ``Gi`` and ``GiB`` are binary; ``G`` is binary with docker and the tools that print -h sizes (``docker``), decimal in Kubernetes, where
    also a bare number is bytes.
    """
    matched = _SIZE.match(text.strip())
    if matched is None:
        return None
    figure, letter, binary, _ = matched.groups()
    if not letter:
        return number(figure), "B"
    return number(figure), letter.upper() + ("iB" if binary or docker else "B")
