"""What belongs to one report: its page, its log by lines, other settings tried on it, what readers say of it, its deletion."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from analyzer.engines.what_if import WhatIf, WhatIfError, what_if
from analyzer.report import html
from analyzer.report.compare import lines as line_differences
from analyzer.report.fine import FIELDS, sliders
from analyzer.report.messages import tell, translator
from analyzer.report.svg import change_svg
from analyzer.store import repository
from analyzer.store.feedback import give
from analyzer.store.slack import feedback
from analyzer.web import negotiate
from analyzer.web.answers import Stored, json_response, moment, page_url, report_response
from analyzer.web.api import found, remove, unfinished
from analyzer.web.feedback import reason_of, redacted
from analyzer.web.guard import address
from analyzer.web.logtext import MOST_LINES, TEXTS, LogText
from analyzer.web.pages import is_part, page
from analyzer.web.problems import Problem
from analyzer.web.service import service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analyzer.model import Ledger, Report, Value
    from analyzer.store.values import StoredAnalysis

router = APIRouter()
_PAGE = ["GET", "HEAD"]
#: Lines of one page of the log where no script runs.
_PAGE_LINES = 1000


def for_people(request: Request) -> str:
    """Terminals read text, everything else a page, unless it says so."""
    return negotiate.form(request, "text" if negotiate.is_terminal(request) else "html")


@router.api_route("/a/{identifier}", methods=_PAGE, summary="Report", include_in_schema=False)
async def read(request: Request, identifier: str) -> Response:
    """The page of a report; its text for a terminal."""
    analysis = await found(request, identifier)
    form = for_people(request)
    here = service(request)
    language = here.language(request)
    if analysis.report is None:
        if form == "html":
            return page(request, "waiting.html", language, analysis=unfinished(analysis, language))
        return json_response(unfinished(analysis, language))
    if form != "html":
        return report_response(request, analysis.report, form, language, Stored(analysis.id, analysis.created))
    values = await here.work(_values, request, analysis.report, analysis, language)
    said = await here.store(feedback, here.database, analysis.id)
    return page(request, "report_page.html", language, said=said, thanks=negotiate.yes(request, "thanks"), **values)


def _values(request: Request, report: Report, analysis: StoredAnalysis, language: str) -> dict[str, Any]:
    url = page_url(request, analysis.id)
    values = html.values(report, language, url)
    places = {info.name: place for place, info in reversed([*enumerate(report.inputs)])}
    proof = {(places.get(source.input, 0), source.line) for source in (report.root.evidence if report.root else ())}
    marks = [
        [place, source.line, "proof" if (place, source.line) in proof else "cite"]
        for source in values["cited"]
        for place in (places.get(source.input, 0),)
    ]
    web = {
        "id": analysis.id,
        "suffix": f"?lang={language}" if "lang" in request.query_params else "",
        "created": moment(analysis.created)[:16].replace("T", " "),
        "sliders": sliders(report),
        "answer": None,
        "marks": json.dumps(marks),
        "inputs": [(info.name, info.lines) for info in report.inputs],
    }
    del values["language"]  # said by the page
    return {**values, "web": web}


@router.post("/a/{identifier}/delete", status_code=303, summary="Delete", include_in_schema=False)
async def delete(request: Request, identifier: str) -> Response:
    """Delete an analysis from its page: the cookie holds the delete token."""
    await remove(request, identifier)
    return RedirectResponse("/?deleted=1", 303)


@router.post("/a/{identifier}/feedback", status_code=303, summary="Helped, or wrong", include_in_schema=False)
async def told(request: Request, identifier: str, helped: Annotated[bool, Query()]) -> Response:
    """Keep whether the report helped, and a form's `because`: one word for each address, the last one counts."""
    analysis = await found(request, identifier)
    here = service(request)
    reason = await here.work(redacted, here.library.redactions, await reason_of(request))
    who = f"web {address(request.scope)}"
    await here.store(give, here.database, analysis.id, who, datetime.now(UTC), helped=helped, because=reason)
    if is_part(request):
        said = await here.store(feedback, here.database, analysis.id)
        web = {"id": analysis.id, "suffix": ""}
        return page(request, "feedback.html", here.language(request), said=said, thanks=True, web=web)
    return RedirectResponse(f"/a/{analysis.id}?thanks=1#told", 303)


# --- other settings --------------------------------------------------------------------------------------------------------------


@router.api_route("/a/{identifier}/what-if", methods=_PAGE, include_in_schema=False)
async def other_settings(request: Request, identifier: str) -> Response:
    """The start with other settings, as a piece of the report's page, or as a page of its own where no script runs."""
    analysis = await found(request, identifier)
    here = service(request)
    language = here.language(request)
    if analysis.report is None:
        raise Problem("invalid_request", "this analysis is not done")
    fields = {field: request.query_params.get(field, "").strip()[:40] for field in FIELDS}
    asked: dict[str, Value | None] = {FIELDS[field]: value for field, value in fields.items() if value}
    answer, problem = await here.work(_try, analysis.report, asked, language)
    values: dict[str, Any] = {"answer": answer, "problem": problem, "asked": fields}
    if is_part(request):
        return page(request, "what_if.html", language, **values)
    web = {"id": analysis.id, "suffix": f"?lang={language}" if "lang" in request.query_params else "", "sliders": sliders(analysis.report)}
    return page(request, "what_if_page.html", language, web=web, **values)


def _try(report: Report, asked: dict[str, Value | None], language: str) -> tuple[dict[str, Any] | None, str | None]:
    try:
        answer = what_if(report, asked)
    except WhatIfError as error:
        return None, tell(error, language)
    return drawn(report, answer, language), None


def drawn(report: Report, answer: WhatIf, language: str) -> dict[str, Any]:
    """An answer with the bars of each GPU before and after, at most four of them."""
    _ = translator(language)
    before = {(ledger.gpu, ledger.rank): ledger for ledger in report.ledgers}
    pictures = []
    for place, (after, alike) in enumerate(_unlike(answer.ledgers)[:4]):
        old = before.get((after.gpu, after.rank)) or (report.ledgers or answer.ledgers)[0]
        changed = [line for line in line_differences(old, after) if line.change is not None and line.differs]
        picture = Markup(change_svg(old, after, f"try{place}", _))  # noqa: S704 - drawn here, texts escaped
        pictures.append({"gpus": alike, "picture": picture, "lines": changed})
    return {
        "fits": answer.fits,
        "margin": answer.margin,
        "checks": list(dict.fromkeys((check.passed, check.text.get(language)) for check in answer.checks)),
        "changed": [(flag, old, new) for flag, (old, new) in answer.changed.items()],
        "notes": [note.get(language) for note in answer.notes],
        "max_model_len": answer.max_model_len,
        "longest": answer.longest,
        "concurrency": answer.concurrency,
        "pictures": pictures,
    }


def _unlike(ledgers: Sequence[Ledger]) -> list[tuple[Ledger, list[str]]]:
    """Ledgers with the GPUs that each stands for: those that differ in no line are shown once."""
    found: list[tuple[Ledger, list[str]]] = []
    for ledger in ledgers:
        name = "?" if ledger.gpu is None else str(ledger.gpu)
        same = next((names for known, names in found if not any(line.differs for line in line_differences(known, ledger))), None)
        if same is None:
            found.append((ledger, [name]))
        else:
            same.append(name)
    return found


# --- the log by lines ------------------------------------------------------------------------------------------------------------


@router.get("/v1/analyses/{identifier}/log", summary="Lines of an input")
async def log(
    request: Request,
    identifier: str,
    number: Annotated[int, Query(alias="input", ge=0, le=100_000)] = 0,
    first: Annotated[int, Query(ge=1, le=1 << 40)] = 1,
    count: Annotated[int, Query(ge=1, le=MOST_LINES)] = 500,
) -> Response:
    """Lines of an input's stored text, redacted, from `first` on; `null` is a line that was not stored.

    With them `folds`: runs `[first, last, kind]` of lines that repeat (`repeated`) or were left out of a large input (`left_out`).
    """
    _analysis, name, text = await _text(request, identifier, number)
    shown = await service(request).work(text.page, first, count)
    folds = await service(request).work(lambda: [[fold.first, fold.last, fold.kind] for fold in text.folds]) if first == 1 else None
    answer = {"input": number, "name": name, "total": text.lines, "first": first, "lines": shown}
    return json_response(answer if folds is None else {**answer, "folds": folds})


@router.api_route("/a/{identifier}/log", methods=_PAGE, include_in_schema=False)
async def log_page(
    request: Request,
    identifier: str,
    number: Annotated[int, Query(alias="input", ge=0, le=100_000)] = 0,
    first: Annotated[int, Query(ge=1, le=1 << 40)] = 1,
) -> Response:
    """The log in pages of lines that need no script."""
    analysis, name, text = await _text(request, identifier, number)
    here = service(request)
    shown = await here.work(text.page, first, _PAGE_LINES)
    report = analysis.report
    proof = {source.line for source in (report.root.evidence if report and report.root else ()) if source.input == name}
    return page(
        request,
        "log.html",
        here.language(request),
        id=analysis.id,
        number=number,
        name=name,
        inputs=[info.name for info in report.inputs] if report else [name],
        first=first,
        lines=shown,
        total=text.lines,
        step=_PAGE_LINES,
        proof=proof,
    )


async def _text(request: Request, identifier: str, number: int) -> tuple[StoredAnalysis, str, LogText]:
    analysis = await found(request, identifier)
    here = service(request)
    kept = await here.store(repository.input_at, here.database, identifier, number)
    if kept is None:
        raise Problem("not_found", "this analysis has no such input")
    return analysis, kept.name, await here.work(TEXTS.get, identifier, number, kept.text)
