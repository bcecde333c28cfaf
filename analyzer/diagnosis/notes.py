"""What is worth explaining about a start that nothing stopped: how the memory is laid out, and what looks odd and is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from analyzer.diagnosis import words
from analyzer.engines import engine
from analyzer.model import Confidence, Finding, Severity, Source, Text

if TYPE_CHECKING:
    from analyzer.engines.case import Case
    from analyzer.patterns.model import Library

#: A pool for fewer full-length requests than this is worth a word.
FEW_REQUESTS = 1.5
#: Ranks whose pools differ by more than rounding (two decimals of GiB).
UNEQUAL_BYTES = 2**30 // 50
#: tokens / length against the engine's own concurrency: beyond rounding, layers do not all grow with the length.
HYBRID_SHARE = 0.05


def notes(case: Case, library: Library, known: words.Known, said: frozenset[str | None]) -> list[Finding]:
    """Findings of severity info for a running server; causes in ``said`` have been named already."""
    return [
        Finding(
            name,
            Severity.INFO,
            Confidence.CERTAIN,
            Text.of(library.causes[name].title),
            words.explanation(library.causes[name], None, known),
            tuple(sources),
            not_this=words.not_this(library.causes[name].not_this, library, known),
            stage=case.stage,
        )
        for name, sources in _found(case)
        if name in library.causes and name not in said
    ]


#: The engine's own check asks for more than is needed.
PIPELINE = "engine.version_bug.pp_kv_check_uses_smallest_stage"


def too_strict(case: Case, library: Library, known: words.Known, said: frozenset[str | None]) -> list[Finding]:
    """The finding that a length check compares the need of all layers with one stage's memory, where the arithmetic shows it."""
    if "stage_length" not in known or PIPELINE in said or case.cause != "kv_cache.too_small_for_max_len":
        return []
    cause = library.causes[PIPELINE]
    sources = [line.source for ledger in case.ledgers if (line := ledger.line("kv_cache")) is not None and line.source is not None]
    return [
        Finding(
            PIPELINE,
            Severity(cause.severity),
            Confidence.LIKELY,
            Text.of(cause.title),
            words.explanation(cause, None, known),
            tuple(sources),
            not_this=words.not_this(cause.not_this, library, known),
            stage=case.stage,
        )
    ]


def _pools(case: Case) -> dict[int, list[tuple[int, Source]]]:
    """What every rank had for its pool, by engine: data parallel engines size theirs each for itself."""
    found: dict[int, list[tuple[int, Source]]] = {}
    for ledger in case.ledgers:
        line, fact = ledger.line("kv_cache"), case.view.fact("kv_cache.available", ledger.rank)
        number = ledger.rank // case.view.ranks.world_size if ledger.rank is not None else 0
        if fact is not None and fact.rank is not None and fact.bytes is not None:
            found.setdefault(number, []).append((fact.bytes, fact.source))
        elif line is not None and line.source is not None:
            found.setdefault(number, []).append((line.bytes, line.source))
    return found


def _differ(pools: list[tuple[int, Source]]) -> bool:
    sizes = [size for size, _ in pools]
    return max(sizes) - min(sizes) > UNEQUAL_BYTES


def _found(case: Case) -> Iterator[tuple[str, list[Source]]]:
    view = case.view
    yield from engine(view.engine).notes(case)
    unequal = [source for pools in _pools(case).values() if _differ(pools) for _, source in pools]
    if unequal:
        yield "healthy.unequal_ranks", unequal
    concurrency, at, tokens = (view.fact(name) for name in ("concurrency.max", "concurrency.at_tokens", "kv_cache.tokens"))
    value = view.number("concurrency.max")
    if concurrency is None or at is None or value is None:
        return
    length, held = view.number("concurrency.at_tokens"), view.number("kv_cache.tokens")
    if tokens is not None and length and held and abs(held / length - value) > HYBRID_SHARE * value:
        yield "healthy.hybrid_cache_tokens", [tokens.source, concurrency.source]
    if value < FEW_REQUESTS:
        yield "healthy.single_request_pool", [concurrency.source]
