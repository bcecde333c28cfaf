"""The documentation of patterns and causes, made from the library's files, and an index of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from analyzer.model import Text
from analyzer.report import messages
from analyzer.report.messages import N_, translator
from analyzer.web.pages import is_part, page
from analyzer.web.problems import Problem
from analyzer.web.service import service

if TYPE_CHECKING:
    from analyzer.patterns.model import Advice, Cause, Library, Pattern

router = APIRouter()
_PAGE = ["GET", "HEAD"]
#: Chapters of the index, and the families of causes (first part of an id) that belong to each. Any other family stands in the last one.
CHAPTERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (N_("GPU memory"), ("cuda_oom", "kv_cache", "unified_memory")),
    (N_("Command line, devices, installation"), ("startup", "args", "device", "install", "server")),
    (N_("The model and its files"), ("model", "checkpoint", "quantization", "dtype", "tokenizer", "hub", "disk")),
    (N_("The host: memory, shared memory, containers"), ("host_oom", "shm", "process", "kubernetes", "kernel")),
    (N_("The GPU, its driver and kernels"), ("gpu", "driver", "cuda_error", "jit")),
    (N_("Several GPUs and nodes"), ("nccl", "network", "ray", "custom_allreduce")),
    (N_("While it serves"), ("engine", "scheduler", "request")),
    (N_("Nothing wrong, and worth knowing"), ("healthy",)),
    (N_("What follows from something else"), ("echo", "symptom")),
)
#: A figure that a report fills in.
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
SEVERITIES = {"error": N_("error"), "warning": N_("warning"), "info": N_("worth knowing")}


@router.api_route("/patterns", methods=_PAGE, include_in_schema=False)
async def index(request: Request, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Every cause by family, every pattern by engine and topic; ``q`` looks in ids, titles and examples."""
    here = service(request)
    library = await here.work(lambda: here.library)
    language = here.language(request)
    values = await here.work(_index, library, q.strip().lower(), language)
    return page(request, "patterns_list.html" if is_part(request) else "patterns.html", language, q=q, **values)


def _index(library: Library, words: str, language: str) -> dict[str, Any]:
    _ = translator(language)
    causes: dict[str, list[tuple[str, str]]] = {}
    for cause in library.causes.values():
        title = words_of(cause.title, language)
        if words in f"{cause.id} {cause.title.get('en', '')} {title}".lower():
            causes.setdefault(cause.id.split(".")[0], []).append((cause.id, title))
    patterns: dict[str, dict[str, list[Pattern]]] = {}
    count = 0
    for pattern in sorted(library.patterns, key=lambda one: (one.engine or "", one.topic, one.id)):
        if words in f"{pattern.id} {pattern.cause or ''} {' '.join(pattern.anchors)}".lower():
            name = messages.ENGINES.get(pattern.engine, pattern.engine) if pattern.engine else ""
            patterns.setdefault(name, {}).setdefault(pattern.topic, []).append(pattern)
            count += 1
    placed = {family for _title, names in CHAPTERS for family in names}
    families = [(_(title), sorted(row for name in names for row in causes.get(name, []))) for title, names in CHAPTERS]
    families[-1][1].extend(row for family, rows in sorted(causes.items()) if family not in placed for row in rows)
    families = [(title, rows) for title, rows in families if rows]
    return {"families": families, "engines": patterns, "pattern_count": count, "cause_count": sum(len(rows) for _name, rows in families)}


@router.api_route("/patterns/{identifier}", methods=_PAGE, include_in_schema=False)
async def one(request: Request, identifier: str) -> Response:
    """The documentation of a pattern or a cause."""
    here = service(request)
    library = await here.work(lambda: here.library)
    language = here.language(request)
    pattern = library.pattern(identifier)
    cause = library.causes.get((pattern.cause or "") if pattern else identifier)
    if pattern is None and cause is None:
        raise Problem("not_found", "there is no such pattern or cause; /patterns lists them")
    advice = _advice(library, cause, language) if cause else {"fixes": [], "against": [], "needs": []}
    shown_by = [found for found in library.patterns if cause is not None and found.cause == cause.id]
    _ = translator(language)
    follows = [library.causes[name] for name in (cause.consequences if cause else ()) if name in library.causes]
    values: dict[str, Any] = {
        "pattern": pattern,
        "cause": cause,
        "title": words_of(cause.title, language) if cause else identifier,
        "text": words_of((pattern.text if pattern else None) or (cause.text if cause else {}), language),
        "severity": _(SEVERITIES[cause.severity]) if cause else "",
        "shown_by": shown_by,
        "follows": [(item.id, words_of(item.title, language)) for item in follows],
        "engine": messages.ENGINES.get(pattern.engine, pattern.engine) if pattern and pattern.engine else _(N_("every engine")),
        **advice,
    }
    return page(request, "pattern.html", language, **values)


def _advice(library: Library, cause: Cause, language: str) -> dict[str, Any]:
    def named(names: tuple[str, ...]) -> list[Advice]:
        return [library.advice[name] for name in names if name in library.advice]

    fixes = [
        {
            "title": _title(fix, language),
            "why": _PLACEHOLDER.sub("…", words_of(fix.words["why"], language)),
            "computed": not fix.changes,
            "versions": fix.versions,
        }
        for fix in named(cause.fixes)
    ]
    against = [
        tuple(_PLACEHOLDER.sub("…", words_of(item.words[key], language)) for key in ("advice", "why")) for item in named(cause.not_this)
    ]
    needs = [_PLACEHOLDER.sub("…", words_of(item.words["text"], language)) for item in named(cause.needs)]
    return {"fixes": fixes, "against": against, "needs": needs}


def _title(fix: Advice, language: str) -> str:
    """A fix's title without the figures that a report fills in; its name where nothing else is left."""
    title = _PLACEHOLDER.sub("…", words_of(fix.words["title"], language))
    return title if title.strip("… ") else fix.name.replace("_", " ").replace(".", " ")


def words_of(words: dict[str, str], language: str) -> str:
    """Words of the library in ``language``."""
    return Text.of(words).get(language) if words else ""
