"""Who may do what: API tokens, upload tokens, the token that deletes one analysis."""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import TYPE_CHECKING

from analyzer.store.secrets import same_token
from analyzer.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import SecretStr
    from starlette.requests import Request
    from starlette.responses import Response

    from analyzer.settings import Settings

DELETE_HEADER = "X-Delete-Token"
DELETE_COOKIE = "delete_token"
_YEAR_SECONDS = 365 * 86400
#: Browsers ask for a password (the token; the name does not matter), programs send it as a bearer.
CHALLENGE = {"WWW-Authenticate": 'Basic realm="VRAM Ledger: any name, the token as password", charset="UTF-8", Bearer'}


def given_token(request: Request) -> str | None:
    """The token that a request carries: ``Authorization: Bearer``, or the password of ``Basic``."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip() or None
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).decode("utf-8", "replace").partition(":")[2] or None
        except (binascii.Error, ValueError):
            return None
    return None


def _holds(request: Request, tokens: Iterable[SecretStr]) -> bool:
    given = (given_token(request) or "").encode("utf-8", "replace")
    # Every token is compared, so that the time tells nothing of which one it was.
    return sum(hmac.compare_digest(given, token.get_secret_value().encode()) for token in tokens) > 0


def require_reader(request: Request, settings: Settings) -> None:
    """History and the like. Raises Problem where tokens are configured and the request has none of them."""
    if settings.tokens and not _holds(request, settings.tokens):
        raise Problem("unauthorized", "send a token of VRAMLEDGER_TOKENS as Authorization: Bearer …", CHALLENGE)


def require_uploader(request: Request, settings: Settings) -> None:
    """Uploads. Raises Problem where upload tokens are configured and the request has none of them."""
    if settings.upload_tokens and not _holds(request, (*settings.upload_tokens, *settings.tokens)):
        raise Problem("unauthorized", "send a token of VRAMLEDGER_UPLOAD_TOKENS as Authorization: Bearer …", CHALLENGE)


def require_deleter(request: Request, settings: Settings, kept: bytes) -> None:
    """One analysis's deletion. Raises Problem without its delete token and without an API token."""
    if settings.tokens and _holds(request, settings.tokens):
        return
    given = request.headers.get(DELETE_HEADER) or request.cookies.get(DELETE_COOKIE)
    if not given:
        raise Problem(
            "unauthorized", "send the {header} that the upload was answered with, or an API token", CHALLENGE, header=DELETE_HEADER
        )
    if not same_token(given, kept):
        raise Problem("forbidden", "this is not the delete token of this analysis")


def hand_out(response: Response, identifier: str, token: str, *, secure: bool) -> None:
    """Give the sender the token that deletes its analysis: as a header, and as a cookie that only this analysis's addresses see."""
    response.headers[DELETE_HEADER] = token
    for path in (f"/a/{identifier}", f"/v1/analyses/{identifier}"):
        response.set_cookie(DELETE_COOKIE, token, max_age=_YEAR_SECONDS, path=path, httponly=True, samesite="strict", secure=secure)
