"""Report → text, Markdown, HTML, JSON. Renderers read a Report and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analyzer.model import Report

FORMATS = ("text", "json", "markdown", "html")


def render(
    report: Report,
    format: str = "text",  # noqa: A002 - the option's own name on every surface
    language: str = "en",
    *,
    width: int = 80,
    color: bool = False,
    url: str | None = None,
) -> str:
    """``report`` as text in one of FORMATS, in ``language`` (en, zh).

    ``width`` (columns) and ``color`` are for text; ``url`` is the report's own address, where it has one. ValueError for another format.
    """
    if format == "text":
        from analyzer.report.text import text

        return text(report, language, width=width, color=color, url=url)
    if format == "json":
        return report.to_json(language, indent=2) + "\n"
    if format == "markdown":
        from analyzer.report.markdown import markdown

        return markdown(report, language, url=url)
    if format == "html":
        from analyzer.report.html import document

        return document(report, language, url=url) + "\n"
    raise ValueError(f"no format {format!r}: {', '.join(FORMATS)}")
