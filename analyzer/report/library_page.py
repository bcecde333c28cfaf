"""The documentation page of a pattern or a cause, made from its file: what it means, an example, what to do."""

from __future__ import annotations

from analyzer.model.text import Text
from analyzer.patterns.model import Advice, Cause, Library, Pattern
from analyzer.report.markdown import fence, plain
from analyzer.report.messages import N_, translator


def page(library: Library, identifier: str, language: str) -> str | None:
    """The page as Markdown; None for an id that the library does not have."""
    pattern = library.pattern(identifier)
    if pattern is not None:
        return _pattern(library, pattern, language)
    cause = library.causes.get(identifier)
    return _cause(library, cause, language) if cause is not None else None


def _pattern(library: Library, pattern: Pattern, language: str) -> str:
    _ = translator(language)
    parts = [f"# {pattern.id}"]
    about = [pattern.engine or "", pattern.versions or "", pattern.generation or ""]
    parts.append(" · ".join(filter(None, [pattern.topic, *about, pattern.stage or ""])))
    cause = library.causes.get(pattern.cause or "")
    if cause is not None:
        parts += [f"## {_words(cause.title, language)}", _words(pattern.text or cause.text, language)]
    if pattern.facts:
        rows = ["| " + _(N_("figure")) + " | " + _(N_("unit")) + " |", "|---|---|"]
        rows += [f"| `{spec.name}` | {spec.unit} |" for spec in pattern.facts]
        parts.append("\n".join(rows))
    if pattern.examples:
        parts.append("\n".join(["## " + _(N_("Example")), fence(pattern.examples[0]["line"])]))
    if pattern.not_examples:
        parts.append("\n".join(["## " + _(N_("Not this line")), fence(pattern.not_examples[0])]))
    if cause is not None:
        parts += _advice(library, cause, language)
    parts.append(f"`patterns/{pattern.file}`")
    return "\n\n".join(part for part in parts if part) + "\n"


def _cause(library: Library, cause: Cause, language: str) -> str:
    _ = translator(language)
    parts = [f"# {cause.id}", f"## {_words(cause.title, language)}", _words(cause.text, language), *_advice(library, cause, language)]
    shown = [pattern.id for pattern in library.patterns if pattern.cause == cause.id]
    if shown:
        parts.append("\n".join(["## " + _(N_("Recognised by")), *(f"- `{identifier}`" for identifier in shown)]))
    parts.append(f"`patterns/{cause.file}`")
    return "\n\n".join(parts) + "\n"


def _advice(library: Library, cause: Cause, language: str) -> list[str]:
    _ = translator(language)
    parts = []
    fixes = [library.advice[name] for name in cause.fixes if name in library.advice]
    if fixes:
        parts.append("\n".join(["## " + _(N_("What to change")), *(f"- {_fix(fix, language)}" for fix in fixes)]))
    against = [library.advice[name] for name in cause.not_this if name in library.advice]
    if against:
        rows = [f"- ✗ `{_words(item.words['advice'], language)}`: {plain(_words(item.words['why'], language))}" for item in against]
        parts.append("\n".join(["## " + _(N_("Not this")), *rows]))
    return parts


def _fix(fix: Advice, language: str) -> str:
    return f"**{plain(_words(fix.words['title'], language))}**: {plain(_words(fix.words['why'], language))}"


def _words(words: dict[str, str], language: str) -> str:
    return Text.of(words).get(language)
